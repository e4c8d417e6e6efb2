"""The native engine: LightGBM's parameters and boosters, trees grown by pucboost itself.

From top to bottom: what the engine does, how it reads LightGBM's parameters, what is made before the first tree, and
the rounds. These run in the order of ``lgb.train``: callbacks, trees, metrics, callbacks.
"""

from __future__ import annotations

import ast
import copy
import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, ClassVar

import lightgbm as lgb
import numpy as np

from ..._common import Array
from ..._kernels.compiling import thread_count
from ..._losses import Objective, SquaredError
from ..._tables.sources import RowSource, SourceTable
from ..._virtual.plan import child_seed
from ..._virtual.rare_categories import RareCategories, are_categories
from ..._virtual.rows import MaskedRows, VirtualTable
from ..base import (
    NO_HOOKS,
    NOTHING_ELSE,
    Engine,
    EngineParams,
    FoldBuilder,
    FoldOptions,
    Hooks,
    OwnGradient,
    Validation,
)
from ..features import check_features
from ..lightgbm import ENGINE as LIGHTGBM
from ..lightgbm import LightGBMLike, balance_classes, run_options
from ..lightgbm_data import categorical_columns, least_people, named_categories
from ..names import MAIN_NAME, is_true, main_objective, number_of, value_of, whole_number, with_value, without
from .bins import MOST_BINS, BinParams, Bins, ColumnSample, Layout, find_bins, find_layout, not_alone
from .booster import GrowingBooster, Growth, ModelText
from .grower import Crew, Grower, GrowthParams
from .losses import CallableGradients, EvalResult, Filler, ScoredRows, gradients_of, metrics_of
from .pool import Pool

MOST = 2**31 - 1
"""LightGBM's whole numbers have 32 bits."""


LOOKED_AT = 20_000
"""People among whom categories are counted to choose an engine."""

FEW_PEOPLE = 0.1
"""Where the categories without a code of their own are those of more people, another engine suits better. With 6 % of
them (income of Americans by 466 occupations) LightGBM's models were not better, with a third (400 equally frequent
categories) much better; nothing between was measured."""


class Native(LightGBMLike):
    """pucboost's own trees: people are binned once, and a copy of a person is a mask and a score."""

    name: ClassVar[str] = "native"
    title: ClassVar[str] = "the native engine"
    copies: ClassVar[float | None] = 8.0  # one costs a mask and a score

    def prepare(
        self,
        params: dict[str, Any],
        dataset_params: Mapping[str, Any],
        num_boost_round: int,
        asked: Mapping[str, Any] = NOTHING_ELSE,
    ) -> EngineParams:
        """Return the parameters with those of the Dataset that concern data, and the number of rounds they name."""
        request = {**dataset_params, **params, **asked}
        check_features(self.name, request)
        options = run_options(request)
        # Wrong values are named before virtual rows are made.
        read_growth_params(request)
        read_bin_params(request)
        metrics_of(request, options.n_classes)
        given = {MAIN_NAME.get(name, name) for name in params}
        of_data = lgb.Dataset(None, params=dict(dataset_params)).get_params()
        values = {name: value for name, value in of_data.items() if MAIN_NAME.get(name, name) not in given} | params
        rounds = whole_number("num_iterations", value_of(values, "num_iterations", num_boost_round))
        if rounds <= 0:
            raise ValueError(f"Number of boosting rounds must be greater than 0. Got {rounds}.")
        if rounds > MOST:
            raise ValueError(f"Number of boosting rounds must be at most {MOST}. Got {rounds:.3g}.")
        values = with_value(values, "num_iterations", rounds)
        # Per row: a mask, its place and its scores, and part of a person's codes.
        row_bytes = 24 + 4 * max(1, options.n_classes)
        silence_first = asked.get("silence_first") is not False
        objective = self.objective(values)
        return EngineParams(
            values, rounds, row_bytes, 1, options=options, objective=objective, silence_first=silence_first
        )

    def objection(self, table: SourceTable, params: EngineParams) -> str | None:
        """Return which column has too many categories for a byte, so that some people's could not be told apart."""
        columns, source = named_categories(table, params.values), table.source
        names = dict(zip(source.coded, source.pandas_categorical or (), strict=False))  # codes may have no names
        many = [j for j in columns if j not in names or len(names[j]) > MOST_BINS]
        if not many:
            return None
        n = min(source.n_rows, LOOKED_AT)
        rows = source.take(np.arange(n) * source.n_rows // max(n, 1))
        for j in many:
            values = rows[are_categories(rows[:, j]), j]
            _, counts = np.unique(np.trunc(values), return_counts=True)
            beyond = 1.0 - np.sort(counts)[::-1][:MOST_BINS].sum() / max(len(values), 1)
            if beyond > FEW_PEOPLE:
                return (
                    f"{beyond:.0%} of the people in column {table.names[j]!r} have none of its {MOST_BINS} most "
                    "frequent categories, and no others have a code of their own"
                )
        return None

    def train(
        self,
        train: VirtualTable,
        params: EngineParams,
        valid: Validation | None,
        hooks: Hooks = NO_HOOKS,
        own: OwnGradient | None = None,
    ) -> lgb.Booster:
        """Grow trees on the pool of the virtual rows; with ``own``, start, link and metrics are the built-in loss's."""
        values = copy.deepcopy(params.values)
        # Threads wait for each other by spinning, so more of them than cores would only slow each other down.
        with Crew(min(train.rows.threads, thread_count(None))) as crew:
            booster = _begin(
                train, values, valid or (), crew, params.silence_first, init_model=hooks.init_model, own=own
            )
            own_set = next((name for table, name in valid or () if table is None), None)
            if own_set is not None:
                booster.set_train_data_name(own_set)

            first = booster.growth.next_round
            best, results = _run_rounds(
                booster,
                values,
                range(first, first + params.num_boost_round),
                _with_early_stopping(hooks.callbacks, values),
                booster.update,
                lambda: _results(booster, hooks.feval, own_set is not None),
            )
            finished = booster.finished()
        finished.best_iteration = best or 0
        finished.best_score = _best_scores(results)
        # Like lgb.train, drop the trees after the best round.
        return finished.model_from_string(finished.model_to_string()) if best else finished

    def cv(
        self,
        label: Array,
        folds: Sequence[tuple[Array, Array]],
        build: FoldBuilder,
        params: EngineParams,
        options: FoldOptions,
    ) -> dict[str, Any]:
        """Grow a booster on each fold, all of them round by round; return the results of ``lgb.cv``."""
        values = copy.deepcopy(params.values)
        if options.metrics is not None:
            values = with_value(values, "metric", options.metrics)
        history: dict[str, Any] = defaultdict(list)
        with Crew(min(thread_count(params.options.num_threads), thread_count(None))) as crew:
            model: Any = lgb.CVBooster()
            for fold in range(len(folds)):
                train, held_out, fold_values = build(fold, dict(values))
                sets = [(None, "train")] if options.eval_train_metric else []
                booster = _begin(
                    train, fold_values, [*sets, (held_out, "valid")], crew, params.silence_first,
                    init_model=options.init_model,
                )  # fmt: skip
                model.boosters.append(booster.set_train_data_name("train"))

            def evaluate() -> list[Any]:
                each = [_results(booster, options.feval, options.eval_train_metric) for booster in model.boosters]
                results = _averaged(each)
                for data_name, metric_name, mean, _, spread in results:
                    history[f"{data_name} {metric_name}-mean"].append(mean)
                    history[f"{data_name} {metric_name}-stdv"].append(spread)
                return results

            best, _ = _run_rounds(
                model,
                values,
                range(params.num_boost_round),
                _with_early_stopping(options.callbacks, values),
                lambda: [booster.update() for booster in model.boosters],
                evaluate,
            )
            model.boosters = [booster.finished() for booster in model.boosters]
        if best is not None:
            model.best_iteration = best
            for booster in model.boosters:
                booster.best_iteration = best
            history = {name: values[:best] for name, values in history.items()}
        return {**history, "cvbooster": model} if options.return_cvbooster else dict(history)


ENGINE: Engine = Native()


# ----- LightGBM's parameters, as far as trees grow by them


def read_bin_params(params: Mapping[str, Any]) -> BinParams:
    """Read LightGBM's parameters of bins, under any of their names."""
    return BinParams(
        max_bin=whole_number("max_bin", value_of(params, "max_bin", 255)),
        max_bin_by_feature=tuple(_whole_numbers("max_bin_by_feature", value_of(params, "max_bin_by_feature", ()))),
        min_data_in_bin=_at_least(params, "min_data_in_bin", 3, 1),
        sample_rows=_at_least(params, "bin_construct_sample_cnt", 200_000, 1),
        seed=whole_number("data_random_seed", value_of(params, "data_random_seed", _seed(params, 1))),
        zero_as_missing=is_true(value_of(params, "zero_as_missing", False)),
    )


def read_growth_params(params: Mapping[str, Any]) -> GrowthParams:
    """Read LightGBM's parameters of trees, under any of their names; raise for values that make no sense."""
    depth = _at_least(params, "max_depth", -1, -MOST)
    leaves = _at_least(params, "num_leaves", 31, 2)
    if 0 < depth < 30:
        leaves = min(leaves, 2**depth)
    signs = _signs(params)
    method = str(value_of(params, "monotone_constraints_method", "basic")).lower()
    return GrowthParams(
        num_leaves=leaves,
        max_depth=depth,
        learning_rate=_number(params, "learning_rate", 0.1, above=0.0),
        min_data_in_leaf=_at_least(params, "min_data_in_leaf", 20, 0),
        min_sum_hessian_in_leaf=_number(params, "min_sum_hessian_in_leaf", 1e-3),
        lambda_l1=_number(params, "lambda_l1", 0.0),
        lambda_l2=_number(params, "lambda_l2", 0.0),
        min_gain_to_split=_number(params, "min_gain_to_split", 0.0),
        max_delta_step=max(0.0, _number(params, "max_delta_step", 0.0, least=-math.inf)),
        path_smooth=_number(params, "path_smooth", 0.0),
        feature_fraction=_number(params, "feature_fraction", 1.0, above=0.0, most=1.0),
        feature_fraction_bynode=_number(params, "feature_fraction_bynode", 1.0, above=0.0, most=1.0),
        bagging_fraction=_number(params, "bagging_fraction", 1.0, above=0.0, most=1.0),
        bagging_freq=max(0, _at_least(params, "bagging_freq", 0, -MOST)),
        extra_trees=is_true(value_of(params, "extra_trees", False)),
        monotone_constraints=tuple(signs),
        intermediate=any(signs) and method == "intermediate",
        interaction_constraints=_sets(params),
        cat_smooth=_number(params, "cat_smooth", 10.0),
        cat_l2=_number(params, "cat_l2", 10.0),
        max_cat_threshold=_at_least(params, "max_cat_threshold", 32, 1),
        max_cat_to_onehot=_at_least(params, "max_cat_to_onehot", 4, 1),
        min_data_per_group=_at_least(params, "min_data_per_group", 100, 1),
        bagging_seed=whole_number("bagging_seed", value_of(params, "bagging_seed", _seed(params, 3))),
        feature_seed=whole_number("feature_fraction_seed", params.get("feature_fraction_seed", _seed(params, 2))),
        extra_seed=whole_number("extra_seed", params.get("extra_seed", _seed(params, 6))),
    )


def _seed(params: Mapping[str, Any], default: int) -> int:
    """Return a seed for one purpose, made of the user's ``seed``; without one, LightGBM's default."""
    given = value_of(params, "seed")
    return default if given is None else child_seed(whole_number("seed", given), default)


def _number(
    params: Mapping[str, Any], name: str, default: float, *, least: float = 0.0, above: float | None = None,
    most: float = math.inf,
) -> float:  # fmt: skip
    given = value_of(params, name, default)
    try:
        number = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and least <= number <= most and (above is None or number > above)):
        low = f"at least {least:g}" if above is None else f"above {above:g}"
        bounds = low + (f" and at most {most:g}" if math.isfinite(most) else "")
        raise ValueError(f"{name} must be a number {bounds}, got {given!r}.")
    return number


def _at_least(params: Mapping[str, Any], name: str, default: int, least: int) -> int:
    given = value_of(params, name, default)
    number = whole_number(name, given)
    if isinstance(given, bool) or not least <= number <= MOST:
        raise ValueError(f"{name} must be a whole number from {least} to {MOST}, got {given!r}.")
    return number


def _whole_numbers(name: str, given: Any) -> list[int]:
    """Read a list of numbers, or LightGBM's text of one."""
    if given is None or (isinstance(given, str) and not given.strip()):
        return []
    parts = given.split(",") if isinstance(given, str) else list(given)
    try:
        return [whole_number(name, float(part) if isinstance(part, str) else part) for part in parts]
    except ValueError:
        raise ValueError(f"{name} must be a list of whole numbers, got {given!r}.") from None


def _signs(params: Mapping[str, Any]) -> list[int]:
    signs = _whole_numbers("monotone_constraints", value_of(params, "monotone_constraints", ()))
    if any(sign not in (-1, 0, 1) for sign in signs):
        raise ValueError(f"monotone_constraints must be -1, 0 or 1 for each column, got {signs}.")
    return signs


def _sets(params: Mapping[str, Any]) -> tuple[tuple[int, ...], ...] | None:
    given = value_of(params, "interaction_constraints")
    if isinstance(given, str):
        given = _listed(given) if given.strip() else None
        if given is not None and len(given) == 1 and given[0] and isinstance(given[0][0], list):
            given = given[0]
    if given is None or len(given) == 0:
        return None
    if not all(hasattr(one, "__len__") for one in given):
        raise ValueError(f"interaction_constraints must be a list of lists of columns, got {given!r}.")
    return tuple(tuple(_whole_numbers("interaction_constraints", one)) for one in given)


def _listed(text: str) -> list[Any]:
    """Read LightGBM's text of lists, with or without the outer brackets."""
    try:
        return list(ast.literal_eval(f"[{text}]"))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError(f"interaction_constraints must be lists of columns, got {text!r}.") from None


# ----- before the first tree


def _begin(
    train: VirtualTable,
    params: dict[str, Any],
    valid: Validation,
    crew: Crew,
    silence_first: bool,
    *,
    init_model: Any = None,
    own: OwnGradient | None = None,
) -> GrowingBooster:
    """Return a booster that has its data, its parameters and the trees of ``init_model``, and none of its own yet."""
    params, balance = balance_classes(params, train.class_counts)
    given = value_of(params, "objective")
    # Weights of classes are weights of people here, not part of the loss. A callable has no loss.
    unweighted = without(without(params, "is_unbalance"), "scale_pos_weight")
    loss = LIGHTGBM.objective(unweighted) if own is None else own.objective
    n_classes = whole_number("num_class", value_of(params, "num_class", 1)) if loss is None else loss.n_scores
    booster = GrowingBooster(
        with_value(params, "objective", "none") if callable(given) else params, train.table, n_classes
    )
    growth_params, categorical = read_growth_params(params), categorical_columns(booster)
    # On people as they are, what is missing tells what silence says: then LightGBM's trees are meant.
    silence_first &= train.rows.plan.scheme != "none"
    growth_params = replace(growth_params, silence_first=silence_first)
    rare = _rare_categories(train, params, categorical)
    bins, layout = bins_and_layout(rare.pooled(train), params, categorical)
    before = None if init_model is None else _loaded(init_model)

    base = np.zeros(n_classes)
    if before is None and train.table.init_score is not None:
        base[:] = _far_off(np.reshape(train.table.init_score, (-1, n_classes), order="F"))

    def pool_of(virtual: VirtualTable, *, for_growth: bool = False) -> Pool:
        pooled = rare.pooled(virtual)
        pool = Pool.of(
            pooled, bins, layout, n_classes, for_growth=for_growth, threads=crew.size, scale=balance, base=base
        )
        if before is not None:
            scores = _scores_of(before, virtual, n_classes)
            if for_growth:
                base[:] = _far_off(scores)
            scores -= base
            pool.scores[:, pool.virtual_order()] = scores.T
        return pool

    pool = pool_of(train, for_growth=True)
    start, constant = np.zeros(n_classes), None
    if own is not None:
        start[:] = own.start
    elif loss is not None and before is None and train.table.init_score is None:
        constant = _best_constant(loss, pool)
        if is_true(value_of(params, "boost_from_average", True)):
            start, constant = constant, None
    if main_objective(given) == "binary":
        pool.weight[pool.label > 0] *= np.float32(number_of(params, "scale_pos_weight", 1.0))
    shown = start + base
    rows = ScoredRows(train, pool, shown)
    others = {id(table): ScoredRows(table, pool_of(table), shown) for table, _ in valid if table is not None}
    away = None
    function = given if own is None and callable(given) else own
    if function is not None:
        seen = ScoredRows(train, pool, shown, for_objective=True)
        filler: Filler = CallableGradients(pool, shown, lambda raw: function(raw, seen), train.copy_weight(balance))
    else:
        assert loss is not None  # parameters were checked
        around = shown
        if isinstance(loss, SquaredError) and not (start.any() or growth_params.max_delta_step > 0):
            around, away = _in_the_middle(pool, shown)
        filler = gradients_of(loss, pool, around)
    booster.growth = Growth(
        Grower(pool, bins, layout, growth_params, filler, train.share_per_tree, crew),
        ModelText(booster.untrained_text(), bins.features, start, before, rare),
        rows,
        [(others[id(table)], name) for table, name in valid if table is not None],
        metrics_of(params, n_classes),
        (lambda raw: raw) if loss is None else loss.response,
        0 if before is None else before.current_iteration(),
        constant,
        shown,
        away,
    )
    return booster


class _Shared(RowSource):
    """People as a table in which what they do not share is missing, whatever is stored there."""

    def __init__(self, rows: MaskedRows) -> None:
        super().__init__(rows.shape, rows.dtype, rows.source.columns)
        self._rows = rows

    def window(self, lo: int, hi: int) -> Array:
        return self._rows[lo:hi]

    def take(self, rows: Array) -> Array:
        return self._rows.take(rows)


def bins_and_layout(train: VirtualTable, params: Mapping[str, Any], categorical: list[int]) -> tuple[Bins, Layout]:
    """Return the bins of the columns and where their codes are, from what a sample of the people shares."""
    wanted, consent = read_bin_params(params), train.rows.consent
    people, threads = _Shared(train.people_as_given().rows), train.rows.threads
    sample = ColumnSample.of(people, wanted.sample_rows, wanted.seed)
    bins = find_bins(sample, wanted, consent.group_columns.tolist(), categorical, threads)
    bundle, apart = is_true(value_of(params, "enable_bundle", True)), set[int]()
    while True:
        layout = find_layout(sample, bins, consent, bundle=bundle, apart=apart)
        if sample.n_rows == people.n_rows or not layout.bundled.any():
            return bins, layout
        found = not_alone(people, bins, layout, threads)
        if not found:
            return bins, layout
        apart |= found


def _rare_categories(train: VirtualTable, params: Mapping[str, Any], categorical: list[int]) -> RareCategories:
    """Return the categories that a tree could not tell from missing values, and those that have no code."""
    return RareCategories.of(
        train, categorical, lambda group: least_people(train, params, group, bins_of_people=True), MOST_BINS
    )


def _best_constant(loss: Objective, pool: Pool) -> Array:
    """Return the best constant score of each class; a person has as many pool rows as there are layers that reach them.

    It has twelve digits, so that it does not matter in which order sums were taken.
    """
    ends = np.bincount(pool.layer_n, minlength=pool.n_people + 1)
    copies = np.cumsum(ends[::-1])[::-1][1:]
    best = np.atleast_1d(loss.initial_score(pool.label, pool.weight * copies))
    return np.array([float(f"{one:.12g}") for one in best])


def _loaded(init_model: Any) -> lgb.Booster:
    booster = init_model if isinstance(init_model, lgb.Booster) else lgb.Booster(model_file=init_model)
    if "\naverage_output\n" in booster.model_to_string(1):
        raise ValueError("init_model is a random forest, whose trees are averaged: nothing can be added to it.")
    return booster


def _scores_of(before: lgb.Booster, virtual: VirtualTable, n_scores: int) -> Array:
    """Return the raw scores that a model, batch by batch, gives the virtual rows, (V, classes)."""
    scores = np.empty((len(virtual), n_scores))
    for first, batch in virtual.rows.batches():
        raw = np.asarray(lgb.Booster.predict(before, batch, raw_score=True, num_iteration=-1))
        if raw.size != len(batch) * n_scores:
            raise ValueError(
                f"init_model has {raw.size // len(batch)} scores per row, but this training has {n_scores}."
            )
        scores[first : first + len(batch)] = raw.reshape(len(batch), -1)
    return scores


FAR = 50.0
"""How many mean deviations scores or labels may be off; beyond, single precision and rounded gradients lose digits."""

_ENOUGH = 100_000
"""Rows that show whether scores are far off."""


def _far_off(scores: Array) -> Array:
    """Return the mean of each class, or 0 where it is not far off: what single precision should not have to hold."""
    scores = scores[:: max(1, len(scores) // _ENOUGH)]
    mean = scores.mean(axis=0)
    return np.where(np.abs(mean) > FAR * np.abs(scores - mean).mean(axis=0), mean, 0.0)


def _in_the_middle(pool: Pool, shown: Array) -> tuple[Array, Array | None]:
    """Return what gradients of squared error start from, and how far the scores shown are from there.

    Where all labels are far from the scores on the same side, rounded gradients would tell little else. The hessian of
    squared error is the same everywhere, so a constant moves all leaves alike and changes no split. Trees grow around
    the mean label, and the booster adds to their leaves the rest of the way, which the learning rate shortens in each
    round.
    """
    layers = list(zip(pool.layer_n.tolist(), pool.layer_start.tolist(), strict=True))

    def mean_of(function: Callable[[Array], Array]) -> float:
        total = weight = 0.0
        for n, at in layers:
            rest = pool.label[:n].astype(np.float64) - pool.scores[0, at : at + n] - shown[0]
            total += float(pool.weight[:n] @ function(rest))
            weight += float(pool.weight[:n].sum(dtype=np.float64))
        return total / max(weight, 1e-300)

    mean = mean_of(lambda rest: rest)
    if not abs(mean) > FAR * mean_of(lambda rest: np.abs(rest - mean)):
        return shown, None
    return shown + mean, np.array([-mean])


# ----- the rounds


def _with_early_stopping(callbacks: Any, params: Mapping[str, Any]) -> list[Any]:
    """Return the callbacks, with early stopping if the parameters have it."""
    rounds = value_of(params, "early_stopping_round", 0)
    if isinstance(rounds, bool) or not isinstance(rounds, int):
        raise TypeError(f"early_stopping_round should be an integer. Got '{type(rounds).__name__}'")
    given = list(callbacks or ())
    if rounds <= 0:
        return given
    stopping = lgb.early_stopping(
        rounds,
        first_metric_only=is_true(params.get("first_metric_only", False)),
        verbose=int(value_of(params, "verbosity", 1)) > 0,
        min_delta=float(value_of(params, "early_stopping_min_delta", 0.0)),
    )
    return [*given, stopping]


def _run_rounds(
    model: Any,
    params: dict[str, Any],
    rounds: range,
    callbacks: Sequence[Any],
    grow: Callable[[], Any],
    evaluate: Callable[[], list[Any]],
) -> tuple[int | None, list[Any]]:
    """Run the rounds; return the number of the best one if training stopped early, and the results of that round.

    Callbacks see ``model``, a booster or those of all folds, and ``params``, which they may change.
    """
    before, after = _in_order(callbacks)
    results: list[Any] = []

    def call(callback: Any, number: int, known: list[Any] | None) -> None:
        callback(lgb.callback.CallbackEnv(model, params, number, rounds.start, rounds.stop, known))

    for number in rounds:
        for callback in before:
            call(callback, number, None)
        grow()
        results = evaluate()
        try:
            for callback in after:
                call(callback, number, results)
        except lgb.callback.EarlyStopException as stop:
            return stop.best_iteration + 1, list(stop.best_score)
    return None, results


def _results(booster: GrowingBooster, feval: Any, on_training: bool) -> list[Any]:
    return [*(booster.eval_train(feval) if on_training else ()), *booster.eval_valid(feval)]


def _in_order(callbacks: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the callbacks to call before a round and after it, by their ``order``; those without one come first.

    One that is given twice is called once.
    """
    once = list({id(one): one for one in callbacks}.values())
    ordered = [(getattr(one, "order", i - len(once)), one) for i, one in enumerate(once)]
    ordered.sort(key=itemgetter(0))
    before = [one for _, one in ordered if getattr(one, "before_iteration", False)]
    return before, [one for _, one in ordered if not getattr(one, "before_iteration", False)]


def _best_scores(results: Sequence[Any]) -> dict[str, dict[str, float]]:
    """Return results as ``best_score`` of a booster has them: set → metric → value."""
    found: dict[str, dict[str, float]] = defaultdict(OrderedDict)
    for data_name, metric_name, value, *_ in results:
        found[data_name][metric_name] = value
    return found


def _averaged(folds: list[list[Any]]) -> list[Any]:
    """Return mean and standard deviation over the folds, for each set and metric."""
    values: dict[tuple[str, str], list[float]] = {}
    higher: dict[tuple[str, str], bool] = {}
    for results in folds:
        for data_name, metric_name, value, higher_is_better in results:
            values.setdefault((data_name, metric_name), []).append(value)
            higher[data_name, metric_name] = higher_is_better
    return [EvalResult(*key, float(np.mean(each)), higher[key], float(np.std(each))) for key, each in values.items()]
