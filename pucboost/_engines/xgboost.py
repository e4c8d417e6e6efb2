"""XGBoost on masked rows. Training itself is left to ``xgb.train`` and ``xgb.cv``."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import xgboost as xgb

from .._common import Array
from .._consent import is_whole
from .._losses import Gamma, Logistic, Objective, Poisson, Quantile, Softmax, SquaredError, Tweedie
from .._virtual.plan import child_seed
from .._virtual.rows import VirtualTable
from .base import (
    NO_HOOKS,
    NOTHING_ELSE,
    Boosters,
    Call,
    EarlyStopping,
    Engine,
    EngineParams,
    FoldBuilder,
    FoldOptions,
    Hooks,
    Network,
    OwnGradient,
    RunOptions,
    Validation,
)
from .features import check_features
from .names import MAIN_NAME, XGBOOST_PARAMETERS, main_objective, number_of, value_of, whole_number, without
from .translation import Translated, to_xgboost, with_defaults_under_consent
from .xgboost_boosters import BOOSTERS, keep_categories, keep_leaf_params, leaf_params
from .xgboost_data import (
    AfterRound,
    EndIfSevered,
    KeepBoosters,
    XGBoostNetwork,
    checkpoint_callback,
    first_given,
    metric_of,
    named_as_in_lightgbm,
    refit_matrix,
    take_objective,
    thread_parameter,
    virtual_matrix,
    with_cache,
)

_WEIGHS_ONES = ("reg:squarederror", "binary:logistic", "reg:logistic", "reg:gamma")
"""Objectives, regression included, where XGBoost multiplies the weight of rows with label 1 by `scale_pos_weight`."""


class XGBoost(Engine):
    """XGBoost; takes its own parameter names, and LightGBM's, which are translated."""

    name: ClassVar[str] = "xgboost"
    title: ClassVar[str] = "XGBoost"
    boosters: ClassVar[Boosters] = BOOSTERS
    parameters: ClassVar[Collection[str]] = (*XGBOOST_PARAMETERS, *MAIN_NAME)
    network: ClassVar[Network] = XGBoostNetwork()
    # XGBoost's own JSON does not read back what it writes of most control characters.
    forbidden_in_names: ClassVar[str] = "[]<" + "".join(chr(i) for i in range(32) if chr(i) not in "\t\n\r")

    def unknown_parameters(self, params: Mapping[str, Any]) -> list[str]:
        """Return names that neither our tables nor the XGBoost at hand, which may be newer, has."""
        new = [name for name in params if name not in XGBOOST_PARAMETERS and name not in MAIN_NAME]
        return [name for name in new if name in _not_used({name: params[name]})]

    def params_with_its_data(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters without the one name that would be ambiguous: ``alpha`` is L1 regularisation here."""
        if main_objective(params.get("objective")) is not None or "alpha" not in params:
            return params
        return {"reg_alpha" if name == "alpha" else name: value for name, value in params.items()}

    def prepare(
        self,
        params: dict[str, Any],
        dataset_params: Mapping[str, Any],
        num_boost_round: int,
        asked: Mapping[str, Any] = NOTHING_ELSE,
    ) -> EngineParams:
        """Return the parameters with LightGBM's names translated, including those on the Dataset."""
        translated = to_xgboost({**dataset_params, **params})
        rounds = num_boost_round if translated.num_boost_round is None else translated.num_boost_round
        if not is_whole(rounds) or rounds < 1:  # XGBoost itself returns a model without trees
            raise ValueError(f"num_boost_round must be a whole number of at least 1, got {rounds!r}.")
        values = dict(translated.params)
        if asked.get("under_consent"):
            values = with_defaults_under_consent(values)
        request = {**values, **asked}
        check_features(self.name, request)
        options = RunOptions(
            seed=whole_number("seed", first_given(request, "seed", "random_state")),
            num_threads=thread_parameter(request),
            n_classes=whole_number("num_class", first_given(request, "num_class") or 1),
        )
        folder = asked.get("external_memory")
        # Per row: label, weight, plan; scores and gradients per class. Where values are missing, as under consent they
        # always are, XGBoost keeps bins by row in 4 bytes each, and once more by column, or both on the disk.
        a_bin = 1 if number_of(values, "max_bin", 256) <= 256 else 2
        return EngineParams(
            values,
            rounds,
            45 + 17 * max(1, options.n_classes),
            0 if folder is not None else 4 + a_bin,
            stopping=_stopping_of(translated),
            external_memory=folder,
            options=options,
            objective=self.objective(values),
        )

    def objective(self, params: Mapping[str, Any]) -> Objective | None:
        given = params.get("objective")
        name = "reg:squarederror" if given is None else given
        if name in _WEIGHS_ONES and number_of(params, "scale_pos_weight", 1.0) != 1.0:
            return None
        if name == "reg:squarederror":
            return SquaredError()
        if name in ("binary:logistic", "reg:logistic"):
            return Logistic()
        if name in ("multi:softprob", "multi:softmax"):
            return Softmax.with_classes(params.get("num_class"), name, hessian_factor=2.0)
        if name == "count:poisson":
            return Poisson(number_of(params, "max_delta_step", 0.7))
        if name == "reg:gamma":
            return Gamma()
        if name == "reg:tweedie":
            return Tweedie(number_of(params, "tweedie_variance_power", 1.5))
        return _quantile(params) if name == "reg:quantileerror" else None

    def with_metrics(self, params: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """Put them before those of the parameters; XGBoost has the objective's metric only where no other is named."""
        given = params.get("eval_metric") or value_of(params, "metric") or []
        listed = [given] if isinstance(given, str) else list(given)
        rest = {name: value for name, value in without(params, "metric").items() if name != "eval_metric"}
        return {**rest, "metric": [*names, *(one for one in listed if one not in names)]}

    def for_merged_rows(
        self, params: dict[str, Any], objective: Objective, hessian_per_person: float
    ) -> dict[str, Any]:
        """Return the parameters unchanged: XGBoost takes soft labels, and counts weight instead of rows."""
        return params

    def train(
        self,
        train: VirtualTable,
        params: EngineParams,
        valid: Validation | None,
        hooks: Hooks = NO_HOOKS,
        own: OwnGradient | None = None,
    ) -> xgb.Booster:
        """Hand the virtual rows to ``xgb.train``. The metrics are then in ``booster.evals_result``.

        Boosters are always kept for training: XGBoost's can be trained further as they are.
        """
        callbacks = _check_callbacks(hooks.callbacks)
        if hooks.checkpoints is not None:
            callbacks = [*(callbacks or ()), checkpoint_callback(hooks.checkpoints)]
        if xgb.collective.is_distributed():
            callbacks = [*(callbacks or ()), EndIfSevered()]
        given = params.values if own is None else _with_own_gradient(params.values, own)
        values, objective = take_objective(sample_rows(given, train.share_per_tree))
        if hooks.init_model is not None:
            values = _with_fresh_seed(values, hooks.init_model)
        metric = metric_of(hooks.feval)
        watched = [name for v, name in valid or () if v is not None]
        callbacks = _with_stopping(callbacks, params.stopping, values, watched[-1] if watched else None, metric)

        def fit(cache: Path | None) -> Any:
            matrix = virtual_matrix(train, values, cache=cache)
            if objective is not None:
                objective.weights[id(matrix)] = train.copy_weight(), train.user_weight()
            result: dict[str, Any] = {}
            booster: Any = xgb.train(
                values,
                matrix,
                params.num_boost_round,
                evals=[
                    (matrix if v is None else virtual_matrix(v, values, train, matrix, cache), name)
                    for v, name in valid or ()
                ],
                obj=objective,
                evals_result=result,
                verbose_eval=False,
                xgb_model=hooks.init_model,
                callbacks=callbacks,
                custom_metric=metric,
            )
            if valid:
                booster.evals_result = result
            return booster

        with xgb.config_context():  # restores the verbosity after the call
            booster = with_cache(params.external_memory, fit)
        if train.table.source.coded:
            keep_categories(booster, train.table.pandas_categorical)
        keep_leaf_params(booster, custom_objective=objective is not None and own is None)
        return booster  # type: ignore[no-any-return]

    def train_alone(
        self,
        matrix: Any,
        params: Mapping[str, Any],
        num_boost_round: int,
        valid: Sequence[tuple[Any, str]],
        hooks: Hooks,
    ) -> xgb.Booster:
        """Call ``xgb.train`` on the user's matrices, which may be of any kind, with the user's parameters."""
        translated = to_xgboost(params)
        values, weighted = take_objective(dict(translated.params))
        metric = metric_of(hooks.feval)
        name = valid[-1][1] if valid else None
        callbacks = _with_stopping(_check_callbacks(hooks.callbacks), _stopping_of(translated), values, name, metric)
        rounds = translated.num_boost_round
        result: dict[str, Any] = {}
        booster: Any = xgb.train(
            values,
            matrix,
            num_boost_round if rounds is None else rounds,
            evals=list(valid),
            obj=None if weighted is None else weighted.objective,
            evals_result=result,
            verbose_eval=False,
            xgb_model=hooks.init_model,
            callbacks=callbacks,
            custom_metric=metric,
        )
        if valid:
            booster.evals_result = result
        return booster  # type: ignore[no-any-return]

    def in_common_words(self, call: Call, xgboosts: Mapping[str, Any]) -> Call:
        """Return a call with XGBoost's arguments as functions and callbacks, as ``xgb.train`` itself has them."""
        params, hooks, given = dict(call.params), call.hooks, xgboosts.get
        common = {"valid_sets": call.valid_sets, "feval": hooks.feval, "init_model": hooks.init_model}
        for name, other in {"evals": "valid_sets", "custom_metric": "feval", "xgb_model": "init_model"}.items():
            if name in xgboosts and common[other] is not None:
                raise ValueError(f"{name} and {other} are the same argument; give one of them.")
        sets, names = call.valid_sets, call.valid_names
        if "evals" in xgboosts:
            sets, names = [one for one, _ in xgboosts["evals"]] or None, [name for _, name in xgboosts["evals"]]
        objective = given("obj")
        if objective is not None:
            named = params.get("objective")
            if callable(named):
                raise ValueError("obj and the objective in params are both functions; give one of them.")
            params["objective"] = functools.partial(objective)
            # The model names it, and scores are turned into predictions accordingly.
            params["objective"].builtin_params = {} if named is None else to_xgboost({"objective": named}).params
        callbacks: list[Any] = list(hooks.callbacks or ())
        if given("evals_result") is not None:
            callbacks.insert(0, self.recording_callback(xgboosts["evals_result"]))
        if given("verbose_eval"):
            callbacks.append(xgb.callback.EvaluationMonitor(period=int(xgboosts["verbose_eval"])))
        if given("early_stopping_rounds"):
            patience = xgboosts["early_stopping_rounds"]
            callbacks.append(xgb.callback.EarlyStopping(rounds=patience, maximize=given("maximize")))
        model = given("xgb_model", hooks.init_model)
        if isinstance(model, (bytes, bytearray)):
            model = xgb.Booster(model_file=bytearray(model))
        hooks = replace(hooks, callbacks=callbacks or None, feval=given("custom_metric", hooks.feval), init_model=model)
        return Call(params, sets, names, hooks)

    def refit(self, booster: Any, virtual: VirtualTable, decay_rate: float | None) -> xgb.Booster:
        """Let XGBoost refresh the leaves on the virtual rows, in memory; weights add up to N, as in a training."""
        if decay_rate:
            raise ValueError(
                f"decay_rate={decay_rate!r}: XGBoost replaces the values of leaves, and keeps nothing of the old ones. "
                "Leave decay_rate out."
            )
        kept = leaf_params(booster)
        if kept.pop("custom_objective"):
            raise ValueError("A model with a callable objective cannot be refitted: XGBoost does not keep it.")
        matrix = refit_matrix(booster, virtual, self.boosters.categories(booster, None))
        refresh = {"process_type": "update", "updater": "refresh", "refresh_leaf": True}
        with xgb.config_context(verbosity=0):  # it warns of every updater that is named
            refitted: Any = xgb.train({**kept, **refresh}, matrix, booster.num_boosted_rounds(), xgb_model=booster)
        # Without the updater, or a training that continues the model would use it.
        return xgb.Booster(model_file=refitted.save_raw())

    def cv(
        self,
        label: Array,
        folds: Sequence[tuple[Array, Array]],
        build: FoldBuilder,
        params: EngineParams,
        options: FoldOptions,
    ) -> dict[str, Any]:
        """Hand the folds to ``xgb.cv``; its ``fpreproc`` hook replaces each fold by its virtual tables."""
        if options.init_model is not None:
            raise ValueError("init_model is not supported by cv with engine='xgboost': xgb.cv always starts afresh.")
        keeper = KeepBoosters()
        values, objective = take_objective(params.values)
        metric, metrics = metric_of(options.feval), options.metrics
        callbacks = _with_stopping(_check_callbacks(options.callbacks), params.stopping, values, "test", metric)
        if metrics is not None:  # in place of those in the parameters, as in lgb.cv
            values = {name: value for name, value in values.items() if name != "eval_metric"}
            metrics = to_xgboost({**values, "metric": metrics}).params["eval_metric"]
        done = 0
        matrices: list[xgb.DMatrix] = []
        cache: Path | None = None

        def exchange(train_rows: Any, valid_rows: Any, fold_params: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
            nonlocal done
            train, valid, fold_params = build(done, fold_params)
            done += 1
            fold_params = sample_rows(fold_params, train.share_per_tree)
            matrix = virtual_matrix(train, fold_params, cache=cache)
            matrices.append(matrix)  # kept alive, because an id must not be reused
            if objective is not None:
                objective.weights[id(matrix)] = train.copy_weight(), train.user_weight()
            return matrix, virtual_matrix(valid, fold_params, train, matrix, cache), fold_params

        def fit(folder: Path | None) -> Any:
            nonlocal cache
            cache = folder
            try:
                return xgb.cv(
                    values,
                    xgb.DMatrix(np.zeros((len(label), 1), dtype=np.float32), label=label),
                    params.num_boost_round,
                    nfold=len(folds),
                    folds=list(folds),
                    metrics=metrics if metrics is not None else (),
                    obj=objective,
                    fpreproc=exchange,
                    as_pandas=False,
                    callbacks=[*callbacks, keeper],
                    custom_metric=metric,
                )
            finally:
                matrices.clear()

        with xgb.config_context():
            history: Any = with_cache(params.external_memory, fit)
        result = named_as_in_lightgbm(history, options.eval_train_metric)
        if options.return_cvbooster:
            rounds = len(next(iter(history.values()))) if history else params.num_boost_round
            result["cvbooster"] = CVBooster(keeper.boosters, rounds)
        return result

    def stops_early(self, callback: Any) -> bool:
        return isinstance(callback, xgb.callback.EarlyStopping)

    def progress_callback(self, report: Callable[[float], None], num_boost_round: int) -> Any:
        return AfterRound(lambda model, epoch, log: report((epoch + 1) / num_boost_round))

    def recording_callback(self, record: dict[str, Any]) -> Any:
        return AfterRound(lambda model, epoch, log: record.update(log))


ENGINE: Engine = XGBoost()


def _not_used(params: dict[str, Any]) -> set[str]:
    """Return the parameters that XGBoost itself reports as unused in a training on four rows."""
    matrix = xgb.DMatrix(np.arange(4, dtype=np.float32)[:, None], label=[0, 1, 0, 1])
    with warnings.catch_warnings(record=True) as caught, xgb.config_context(verbosity=1):
        warnings.simplefilter("always")
        try:
            xgb.train({**params, "validate_parameters": True, "nthread": 1}, matrix, 1)
        except (xgb.core.XGBoostError, ValueError, TypeError):
            return set()  # it refuses the value, so it has the name
    found = [str(warning.message) for warning in caught]
    return {name for text in found if "not used" in text for name in text.split('"')[1::2]}


def _stopping_of(translated: Translated) -> EarlyStopping | None:
    patience = translated.early_stopping_rounds
    if patience is None or patience <= 0:
        return None
    return EarlyStopping(patience, translated.early_stopping_min_delta, translated.first_metric_only)


def _quantile(params: Mapping[str, Any]) -> Quantile | None:
    alpha = params.get("quantile_alpha")
    alphas = np.atleast_1d(np.asarray(() if alpha is None else alpha, dtype=np.float64))
    if alphas.size == 0:
        raise ValueError("objective 'reg:quantileerror' needs the parameter quantile_alpha.")
    return Quantile(float(alphas[0])) if alphas.size == 1 else None


def _check_callbacks(callbacks: Any) -> Any:
    for callback in callbacks or ():
        if not isinstance(callback, xgb.callback.TrainingCallback):
            raise TypeError(
                f"callbacks of engine='xgboost' must be xgb.callback objects, got {type(callback).__name__}. Replace "
                "lgb.early_stopping by params['early_stopping_round'] or xgb.callback.EarlyStopping. Replace "
                "lgb.record_evaluation and lgb.log_evaluation by xgb.callback.EvaluationMonitor or your own callback."
            )
    return callbacks


def _with_own_gradient(params: dict[str, Any], own: OwnGradient) -> dict[str, Any]:
    """Name the built-in loss in addition to the gradients, with the constant as its base score."""
    start = np.asarray(own.start)
    several = isinstance(own.objective, Softmax)
    builtin = {
        "objective": own.objective.xgboost_name,
        "base_score": start.tolist() if several else float(own.objective.response(start)),
    }
    return {**params, "objective": replace(own, builtin_params=builtin)}


def sample_rows(params: dict[str, Any], share: float) -> dict[str, Any]:
    """Let each tree grow on a fresh share φ of the virtual rows, on top of the user's own ``subsample``.

    ``subsample`` is multiplied by φ, so a tree sees the total weight of N rows, and ``min_child_weight`` and
    ``reg_lambda`` keep their meaning.
    """
    if share == 1.0:
        return params
    return {**params, "subsample": float(params.get("subsample", 1.0)) * share}


def _with_fresh_seed(params: dict[str, Any], init_model: Any) -> dict[str, Any]:
    """Return the parameters with a separate seed for the rounds that continue a model.

    XGBoost seeds its draws again only if the seed differs from the one the model was trained with. With the same seed,
    the draws would go on from wherever the last training in this process left them, and two identical calls would
    differ.
    """
    before = init_model if isinstance(init_model, xgb.Booster) else xgb.Booster(model_file=init_model)
    seed = whole_number("seed", first_given(params, "seed", "random_state"))
    rest = {name: value for name, value in params.items() if name != "random_state"}
    return {**rest, "seed": child_seed(seed, before.num_boosted_rounds()) % 2**31}


def _with_stopping(
    callbacks: Any, stopping: EarlyStopping | None, params: Mapping[str, Any], data_name: str | None, metric: Any
) -> list[Any]:
    """Return the callbacks, with early stopping on the last (or first) metric of the set named ``data_name``.

    In a training that is the last validation set, never the training set itself.
    """
    if stopping is None:
        return list(callbacks or ())
    if data_name is None:
        raise ValueError("For early stopping, at least one dataset and eval metric is required for evaluation")
    metrics = params.get("eval_metric") or [None]
    first = metrics if isinstance(metrics, str) else next(iter(metrics))
    watch = _EarlyStopping(
        getattr(metric, "directions", {}),
        rounds=stopping.rounds,
        metric_name=first if stopping.first_metric_only else None,
        data_name=data_name,
        min_delta=stopping.min_delta,
    )
    return [*(callbacks or ()), watch]


class _EarlyStopping(xgb.callback.EarlyStopping):
    """Early stopping that reads from a user's metric whether higher is better."""

    def __init__(self, directions: dict[str, bool], **options: Any) -> None:
        super().__init__(**options)
        self._directions = directions

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        watched = self.metric_name or list(evals_log[self.data])[-1]
        if self.maximize is None and watched in self._directions:
            self.maximize = self._directions[watched]
        return bool(super().after_iteration(model, epoch, evals_log))


@dataclass
class CVBooster:
    boosters: list[xgb.Booster]
    best_iteration: int
