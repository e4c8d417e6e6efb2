"""LightGBM on masked rows. Training itself is left to ``lgb.train`` and ``lgb.cv``.

What differs from plain LightGBM is done to the parameters before: each tree samples a share of the virtual rows, class
weights count people, callable objectives get the weights of copies, and merged rows stand for several people.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import lightgbm as lgb
import numpy as np

from .._common import Array
from .._losses import Gamma, Logistic, Objective, Poisson, Quantile, Softmax, SquaredError, Tweedie
from .._virtual.rare_categories import RareCategories
from .._virtual.rows import VirtualTable
from .base import (
    NO_HOOKS,
    NOTHING_ELSE,
    Boosters,
    Checkpoints,
    Engine,
    EngineParams,
    FoldBuilder,
    FoldOptions,
    Hooks,
    Network,
    OwnGradient,
    RunOptions,
    Validation,
    times_rows,
)
from .features import check_features
from .lightgbm_boosters import BOOSTERS, spell_out, with_builtin_objective
from .lightgbm_data import (
    FoldRows,
    LightGBMNetwork,
    VirtualDataset,
    bin_reference,
    is_networked,
    local_booster,
    rare_categories,
    without_network,
)
from .names import (
    MAIN_METRIC,
    MAIN_NAME,
    is_true,
    main_objective,
    number_of,
    value_of,
    whole_number,
    with_value,
    without,
)


class LightGBMLike(Engine):
    """What engines share that take LightGBM's parameters and return its boosters."""

    quiet_params: ClassVar[Mapping[str, Any]] = {"verbosity": -1}
    parameters: ClassVar[Collection[str]] = MAIN_NAME
    boosters: ClassVar[Boosters] = BOOSTERS
    forbidden_in_names: ClassVar[str] = '",:[]{}\n\r\0'

    def unknown_parameters(self, params: Mapping[str, Any]) -> list[str]:
        """Return names that neither our table nor the LightGBM at hand, which may be newer, has."""
        return [name for name in params if name not in MAIN_NAME and name not in _newer_names()]

    def trouble_with_name(self, name: str) -> str | None:  # names are words of a line in a model file
        if not name:
            return "because it is empty"
        return "because it ends in '='" if name.endswith("=") else super().trouble_with_name(name)

    def objective(self, params: Mapping[str, Any]) -> Objective | None:
        given = value_of(params, "objective", "regression")
        name = main_objective(given)
        if name == "regression" and not is_true(params.get("reg_sqrt")):
            return SquaredError()
        if name == "binary":
            unbalanced = is_true(value_of(params, "is_unbalance", False))
            scaled = any(number_of(params, key, 1.0) != 1.0 for key in ("sigmoid", "scale_pos_weight"))
            return None if unbalanced or scaled else Logistic()
        if name == "cross_entropy":
            return Logistic(soft_labels=True)
        if name == "multiclass":
            return Softmax.with_classes(value_of(params, "num_class"), given)
        if name == "poisson":
            return Poisson(number_of(params, "poisson_max_delta_step", 0.7))
        if name == "gamma":
            return Gamma()
        if name == "tweedie":
            return Tweedie(number_of(params, "tweedie_variance_power", 1.5))
        if name == "quantile":
            return Quantile(number_of(params, "alpha", 0.9))
        return None

    def with_metrics(self, params: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """Put them before those of the parameters, or else before that of the objective."""
        given = value_of(params, "metric", value_of(params, "objective"))
        listed = given.split(",") if isinstance(given, str) else [] if callable(given) else list(given or ())
        mains = {MAIN_METRIC.get(name, name) for name in names}
        return with_value(
            params, "metric", [*names, *(one for one in listed if MAIN_METRIC.get(one, one) not in mains)]
        )

    def check_labels(self, objective: Objective | None, label: Array, name: str) -> None:
        """Raise if labels do not fit the objective; ``binary`` takes 0 and 1 only."""
        super().check_labels(objective, label, name)
        if objective is None or objective.name != "binary":
            return
        soft = np.flatnonzero((label != 0) & (label != 1))
        if len(soft):
            raise ValueError(
                f"{name} is {label[soft[0]]} in row {soft[0]}; LightGBM's objective 'binary' would read it as 1. Use "
                "'cross_entropy' for labels between 0 and 1."
            )

    def for_merged_rows(
        self, params: dict[str, Any], objective: Objective, hessian_per_person: float
    ) -> dict[str, Any]:
        """Make LightGBM treat merged rows as the people they stand for.

        - ``binary`` reads every label above 0 as 1; ``cross_entropy`` is the same loss with soft labels.
        - ``min_data_in_leaf`` counts rows, but a row now stands for many people. It becomes 0, and
          ``min_sum_hessian_in_leaf`` becomes at least the hessian of that many people at the initial score. For squared
          error, whose hessian is the weight, this is exact.
        """
        params = dict(params)
        for name in ("path_smooth", "cat_smooth"):
            if params.get(name):
                raise ValueError(
                    f"{name} counts rows, which stand for many people under compact. Leave one of the two out."
                )
        if objective.name == "binary":
            params = with_value(params, "objective", "cross_entropy")
            if value_of(params, "metric") is None:
                params["metric"] = "binary_logloss"
        people = float(value_of(params, "min_data_in_leaf", 20))
        at_least = float(value_of(params, "min_sum_hessian_in_leaf", 1e-3))
        params = with_value(params, "min_data_in_leaf", 0)
        params = with_value(params, "min_sum_hessian_in_leaf", max(at_least, people * hessian_per_person))
        # Categories with fewer rows than cat_smooth would not be used at all.
        return {"min_data_in_bin": 1, "min_data_per_group": 1, "cat_smooth": 0, **params}

    def refit(self, booster: Any, virtual: VirtualTable, decay_rate: float | None) -> lgb.Booster:
        """Let LightGBM refit on the virtual rows, in memory; weights add up to N, as in the bags of a training."""
        if self.boosters.facts(booster).loss is None:
            raise ValueError("A model with a callable objective cannot be refitted: LightGBM does not keep it.")
        rate: dict[str, Any] = {} if decay_rate is None else {"decay_rate": decay_rate}
        refitted = lgb.Booster.refit(
            booster,
            virtual.rows.materialise(),
            virtual.label(),
            weight=virtual.weight(virtual.share_per_tree),
            feature_name=booster.feature_name(),
            **rate,
        )
        refitted.pandas_categorical = booster.pandas_categorical
        # As lgb.train does it: without the data.
        return refitted.model_from_string(refitted.model_to_string(num_iteration=-1)).free_dataset()

    def stops_early(self, callback: Any) -> bool:
        return isinstance(callback, type(lgb.early_stopping(1, verbose=False)))

    def progress_callback(self, report: Callable[[float], None], num_boost_round: int) -> Any:
        return lambda env: report((env.iteration + 1) / num_boost_round)

    def recording_callback(self, record: dict[str, Any]) -> Any:
        return lgb.record_evaluation(record)


class LightGBM(LightGBMLike):
    """LightGBM; with nothing optional, it trains without pucboost."""

    name: ClassVar[str] = "lightgbm"
    title: ClassVar[str] = "LightGBM"
    trains_plain_datasets: ClassVar[bool] = True
    network: ClassVar[Network] = LightGBMNetwork()

    def prepare(
        self,
        params: dict[str, Any],
        dataset_params: Mapping[str, Any],
        num_boost_round: int,
        asked: Mapping[str, Any] = NOTHING_ELSE,
    ) -> EngineParams:
        """Return the parameters unchanged: LightGBM resolves aliases and reads the Dataset's parameters itself.

        Only under consent, sums of gradients are asked for whose last bits do not depend on the number of threads.
        """
        request = {**dataset_params, **params, **asked}
        check_features(self.name, request)
        if asked.get("under_consent") and "deterministic" not in request:
            params = {"deterministic": True, **params}
        if value_of(params, "num_iterations") is not None:
            whole_number("num_iterations", value_of(params, "num_iterations"))
        options = run_options(request)
        # Per row: label, weight, bag; scores and gradients per class. LightGBM keeps bins by column. To build
        # histograms it copies them by row, if only to try which is faster, unless force_col_wise is set.
        a_bin = 1 if float(value_of(params, "max_bin", 255)) <= 256 else 2
        by_column = is_true(value_of(params, "force_col_wise", False))
        decided = any(value_of(params, name) is not None for name in ("force_col_wise", "force_row_wise"))
        return EngineParams(
            params,
            num_boost_round,
            57 + 18 * max(1, options.n_classes),
            a_bin if by_column else 2 * a_bin,
            leaner=None if decided else ({"force_col_wise": True}, a_bin),
            options=options,
            objective=self.objective(params),  # LightGBM reads all from the Dataset but the objective
            needs_events=_needs_events(params),
        )

    def train(
        self,
        train: VirtualTable,
        params: EngineParams,
        valid: Validation | None,
        hooks: Hooks = NO_HOOKS,
        own: OwnGradient | None = None,
    ) -> lgb.Booster:
        if own is not None:
            return self._train_own_gradient(train, params, valid, own, hooks)
        values, wrapped = weigh_copies(params.values)
        if train.bin_sample is not None and _needs_events(values) and not (train.table.label > 0).any():
            raise ValueError(
                f"objective={value_of(values, 'objective')!r}: all labels of this part are 0, but LightGBM starts from "
                "the logarithm of each worker's mean. Divide the table otherwise, or use engine='xgboost'."
            )
        train_set, values = _training_set(train, values, wrapped)
        valid_sets: list[lgb.Dataset] = [train_set if v is None else train_set.validation(v) for v, _ in valid or ()]
        callbacks = hooks.callbacks
        if hooks.checkpoints is not None:
            callbacks = [*(callbacks or ()), _checkpoint_callback(hooks.checkpoints)]
        booster = lgb.train(
            values,
            train_set,
            params.num_boost_round,
            None if valid is None else valid_sets,
            None if valid is None else [name for _, name in valid],
            hooks.feval,
            hooks.init_model,
            hooks.keep_training_booster,
            callbacks=callbacks,  # by name, because MLflow's autolog adds its own callback to this argument
        )
        if hooks.keep_training_booster:
            return booster  # it would lose its data
        booster = local_booster(booster) if is_networked(values) else booster
        return spell_out(booster, train_set.rare, _rounds_of(hooks.init_model))

    def _train_own_gradient(
        self,
        train: VirtualTable,
        params: EngineParams,
        valid: Validation | None,
        own: OwnGradient,
        hooks: Hooks,
    ) -> lgb.Booster:
        """Start every row at the constant, and write start and link into the booster afterwards."""
        # LightGBM's own metrics would read raw scores as predictions.
        feval = hooks.feval if isinstance(hooks.feval, list) else [hooks.feval] if hooks.feval else []
        booster = self.train(
            _constant_start(train, own.start),
            replace(params, values={**without(params.values, "metric"), "objective": own}),
            None if valid is None else [(v and _constant_start(v, own.start), name) for v, name in valid],
            replace(hooks, feval=[_LossMetric(own.objective), *feval]),
        )
        whole: lgb.Booster = with_builtin_objective(booster, params.values, own.objective, own.start)
        return whole

    def cv(
        self,
        label: Array,
        folds: Sequence[tuple[Array, Array]],
        build: FoldBuilder,
        params: EngineParams,
        options: FoldOptions,
    ) -> dict[str, Any]:
        """Hand the folds to ``lgb.cv``; its ``fpreproc`` hook replaces each fold by its virtual tables.

        Bins are made from the training part of each fold; plain ``lgb.cv`` makes them once from the whole table.
        """
        # Wrapped here, not per fold: lgb.cv takes the objective out of the parameters before it makes the folds.
        values, wrapped = weigh_copies(params.values)
        rare: list[RareCategories | None] = []

        def exchange(train_rows: Any, valid_rows: Any, fold_params: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
            train, valid, fold_params = build(len(rare), fold_params)
            train_set, fold_params = _training_set(train, fold_params, wrapped)
            rare.append(train_set.rare)
            valid_set = train_set.validation(valid)
            for part in (train_set, valid_set):
                part._update_params(fold_params)._set_predictor(train_rows._predictor)
            return train_set, valid_set, fold_params

        stand_in = FoldRows(label)
        given = vars(options) | {"fpreproc": exchange}
        results: dict[str, Any] = dict(lgb.cv(values, stand_in, params.num_boost_round, iter(folds), **given))
        if options.return_cvbooster:
            for booster, of_fold in zip(results["cvbooster"].boosters, rare, strict=True):
                spell_out(booster, of_fold, _rounds_of(options.init_model))
        return results


ENGINE: Engine = LightGBM()


@cache
def _newer_names() -> frozenset[str]:
    """Return the names that the installed LightGBM lists, if it has such a list."""
    listed: Any = getattr(getattr(lgb.basic, "_ConfigAliases", None), "_get_all_param_aliases", dict)()
    return frozenset(name for main, others in listed.items() for name in (main, *others))


def run_options(params: Mapping[str, Any]) -> RunOptions:
    threads = value_of(params, "num_threads")
    return RunOptions(
        seed=whole_number("seed", value_of(params, "seed", 0)),
        num_threads=None if threads is None else whole_number("num_threads", threads),
        # Zeros then count as withheld: LightGBM cannot tell the two apart.
        zero_as_missing=is_true(params.get("zero_as_missing", False)),
        n_classes=whole_number("num_class", value_of(params, "num_class", 1)),
    )


def _needs_events(params: Mapping[str, Any]) -> bool:
    """Return whether training starts from the logarithm of a worker's own mean."""
    return main_objective(value_of(params, "objective")) in ("poisson", "tweedie")


def weigh_copies(params: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Wrap a callable objective so that its gradients carry the copy weights, which LightGBM would ignore."""
    objective = value_of(params, "objective")
    if not callable(objective):
        return params, False
    return with_value(params, "objective", _WeightedObjective(objective)), True


class _WeightedObjective:
    """Gradient and hessian of a callable objective × copy weight, row by row."""

    def __init__(self, objective: Callable[..., Any]) -> None:
        self.objective = objective

    def __call__(self, preds: Array, data: VirtualDataset) -> tuple[Array, Array]:
        with data.as_seen_by_objective():
            gradient, hessian = self.objective(preds, data)
        if data.copy_weight is None:
            return gradient, hessian
        return times_rows(gradient, data.copy_weight), times_rows(hessian, data.copy_weight)


def _training_set(
    virtual: VirtualTable, params: dict[str, Any], keep_copy_weight: bool
) -> tuple[VirtualDataset, dict[str, Any]]:
    """Return the training set, and the parameters with row sampling and class weights set."""
    params, scale = sample_rows(params, virtual.share_per_tree, len(virtual))
    params, balance = balance_classes(params, virtual.class_counts)
    given: dict[str, Any] = {"weight_scale": scale * balance, "keep_copy_weight": keep_copy_weight}
    rare = rare_categories(virtual, params)
    if virtual.bin_sample is not None:
        # By number of rows LightGBM would drop features as useless, and the sample has fewer than the table.
        params = {**params, "feature_pre_filter": False}
        of_bins = without_network(params)
        if callable(value_of(params, "objective")):  # which LightGBM does not take for a Dataset
            of_bins = with_value(of_bins, "objective", "none")
        given["reference"] = bin_reference(virtual, virtual.bin_sample, of_bins, rare)
    return VirtualDataset(virtual, rare=rare, **given), params


def sample_rows(params: dict[str, Any], share: float, n_virtual: int) -> tuple[dict[str, Any], float]:
    """Let each tree grow on a fresh share φ of the V virtual rows, on top of the user's own row sampling.

    ``bagging_fraction`` (or the ``pos_``/``neg_`` pair) is multiplied by φ. A bagging frequency that the user sets is
    kept, otherwise it is 1. GOSS excludes bagging and already draws new rows for every tree, so it is left alone.

    Returns the parameters, and a factor for all weights: 1 with bagging, φ without. It keeps the total weight that a
    tree sees equal to that of N rows, so ``min_sum_hessian_in_leaf`` and ``lambda_l2`` keep their meaning. So does
    ``min_data_in_leaf``, except with GOSS, where it counts virtual rows.
    """
    if share == 1.0:
        return params, 1.0
    if "goss" in (params.get("data_sample_strategy"), value_of(params, "boosting")):
        return params, share
    frequency = int(value_of(params, "bagging_freq", 0))
    users = frequency > 0
    sampled = with_value(params, "bagging_freq", frequency if users else 1)
    pair = ("pos_bagging_fraction", "neg_bagging_fraction")
    by_class = users and any(float(value_of(params, name, 1.0)) < 1.0 for name in pair)
    for name in pair if by_class else ("bagging_fraction",):
        asked = float(value_of(params, name, 1.0)) if users else 1.0
        sampled = with_value(sampled, name, _without_copying(asked * share, n_virtual))
    return sampled, 1.0


def _without_copying(fraction: float, n_virtual: int) -> float:
    """Return the fraction; one at or just below one half is raised to just above it.

    At one half or less LightGBM copies every bag into a dataset of its own before it grows the tree. With two copies
    per row, that costs more than it saves.
    """
    return 0.5 + 2.0 / n_virtual if 0.49 <= fraction <= 0.5 and n_virtual > 100 else fraction


def balance_classes(params: dict[str, Any], counts: tuple[int, int]) -> tuple[dict[str, Any], float]:
    """Replace ``is_unbalance`` by the class weights of the *people*; LightGBM would count virtual rows.

    LightGBM multiplies the weight of the rarer class by the ratio of the counts. ``scale_pos_weight`` acts on the
    positive class alone. If that is the more frequent class, the second value returned, a factor for all weights, makes
    up for it.
    """
    if main_objective(value_of(params, "objective")) != "binary" or not is_true(value_of(params, "is_unbalance", 0)):
        return params, 1.0
    positive, negative = counts
    if positive == 0 or negative == 0:
        return params, 1.0
    params = with_value(params, "is_unbalance", False)
    return {**params, "scale_pos_weight": negative / positive}, max(1.0, positive / negative)


def _rounds_of(init_model: lgb.Booster | None) -> int:
    return 0 if init_model is None else int(init_model.current_iteration())


def _checkpoint_callback(checkpoints: Checkpoints) -> Callable[[Any], None]:
    def after_round(env: Any) -> None:
        if (env.iteration - env.begin_iteration + 1) % checkpoints.every == 0:
            booster = spell_out(local_booster(env.model), env.model.train_set.rare, env.begin_iteration)
            checkpoints.keep(booster, env.model.current_iteration())

    return after_round


def _constant_start(virtual: VirtualTable, start: float | Array) -> VirtualTable:
    scores = np.tile(np.atleast_1d(np.asarray(start, dtype=np.float64)), (virtual.table.source.n_rows, 1))
    return replace(virtual, table=replace(virtual.table, init_score=scores))


class _LossMetric:
    def __init__(self, objective: Objective) -> None:
        self.objective = objective

    def __call__(self, preds: Array, data: Any) -> tuple[str, float, bool]:
        return self.objective.name, float(self.objective.loss(preds, data.get_label(), data.get_weight())), False
