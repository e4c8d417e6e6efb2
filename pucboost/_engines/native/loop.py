"""A training with the native engine: from virtual tables to a booster, round by round, alone or in folds.

To the outside it is LightGBM. A booster is an ``lgb.Booster`` also while it grows, so that callbacks find what they
expect: LightGBM itself does whatever they call, on the text of the trees so far. Only growing, evaluating and resetting
parameters are the native engine's. Rounds run in the order of ``lgb.train``: callbacks, trees, metrics, callbacks.
"""

from __future__ import annotations

import copy
import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Never

import lightgbm as lgb
import numpy as np

from ..._common import Array
from ..._losses import Objective
from ..._tables.sources import RowSource, SourceTable
from ..._virtual.rare_categories import RareCategories
from ..._virtual.rows import MaskedRows, VirtualTable
from ..base import EngineParams, FoldBuilder, FoldOptions, OwnGradient, Validation
from ..lightgbm import ENGINE as LIGHTGBM
from ..lightgbm import balance_classes
from ..lightgbm_dataset import categorical_columns, columns_only, least_people
from ..names import MAIN_NAME, aliases, is_true, main_objective, number_of, value_of, whole_number, with_value, without
from .grower import Crew, Grower
from .kernels.growth import Tree
from .losses import CallableGradients, EvalResult, Filler, Metric, ScoredRows, gradients_of, metrics_of
from .model_text import ModelText
from .parameters import GrowthParams, read_bin_params
from .people import Bins, ColumnSample, Layout, find_bins, find_layout
from .pool import Pool, add_tree


@dataclass
class Growth:
    """What a booster needs only while it grows."""

    grower: Grower
    text: ModelText
    train: ScoredRows
    valid: Sequence[tuple[ScoredRows, str]]
    metrics: Sequence[Metric]
    response: Callable[[Array], Array]
    """From raw scores to what a user's metric sees."""
    next_round: int
    constant: Array | None = None
    """The score of a class that cannot be split in the first round, if training does not start from averages."""


def _refused(name: str) -> Callable[..., Never]:
    def method(self: Any, *_: Any, **__: Any) -> Never:
        raise TypeError(
            f"booster.{name} during a training with 'engine': 'native', whose trees LightGBM does not hold: it would "
            "be forgotten. Call it on the booster that train returns, or use 'engine': 'lightgbm'."
        )

    return method


class GrowingBooster(lgb.Booster):
    """A booster of the native engine, as LightGBM's own, before and while it grows.

    Parameters
    ----------
    params
        LightGBM's parameters, without callables.
    table
        The table it will be trained on; only names and categories are used.
    n_classes
        Number of scores of a row.
    """

    _stale = False
    growth: Growth

    def __init__(self, params: Mapping[str, Any], table: SourceTable, n_classes: int) -> None:
        super().__init__(
            with_value(with_value(params, "verbosity", -1), "num_threads", 1), columns_only(params, table, n_classes)
        )
        self.free_dataset()
        # Quiet only as long as LightGBM looks at a table that is not the user's. LightGBM itself needs one thread, and
        # in a forked process more of them would never come.
        ours = (*aliases("verbosity"), *aliases("num_threads"))
        self.params = without(without(self.params, "verbosity"), "num_threads") | {
            name: value for name, value in params.items() if name in ours
        }

    @property
    def _handle(self) -> Any:
        """LightGBM's own booster, made of the trees so far when it is first used."""
        if self._stale:
            self._stale = False
            self.model_from_string(self.growth.text.text())
        return self.__dict__["_handle"]

    @_handle.setter
    def _handle(self, handle: Any) -> None:
        self.__dict__["_handle"] = handle

    def __del__(self) -> None:
        self._stale = False
        super().__del__()

    def untrained_text(self) -> str:
        text = self.model_to_string()
        for name, here, default in (("verbosity", -1, 1), ("num_threads", 1, 0)):
            given = whole_number(name, value_of(self.params, name, default))
            text = text.replace(f"\n[{name}: {here}]\n", f"\n[{name}: {given}]\n")
        return text

    def update(self, train_set: Any = None, fobj: Any = None) -> bool:
        """Grow the trees of one round, and return whether none of them has a split.

        Such a round adds nothing to a model, except to an empty one.
        """
        if train_set is not None or fobj is not None:
            raise TypeError("booster.update with 'engine': 'native' takes neither data nor an objective of its own.")
        growth = self.growth
        trees = growth.grower.step(growth.next_round)
        growth.next_round += 1
        without_split = all(len(tree.feature) == 0 for tree in trees)
        if without_split and len(growth.text):
            return True
        if growth.constant is not None and not len(growth.text):
            trees = [self._with_constant(tree, k) for k, tree in enumerate(trees)]
        growth.text.append(trees)
        self._stale = True
        for pool in {id(rows): rows.pool for rows, _ in growth.valid}.values():  # a set may have two names
            for k, tree in enumerate(trees):
                add_tree(pool, growth.grower.layout, tree.code, tree.leaf_value, k, growth.grower.crew.size)
        return without_split

    def _with_constant(self, tree: Tree, class_index: int) -> Tree:
        """Return a tree without a split with the best constant, as LightGBM has it."""
        constant = self.growth.constant
        if constant is None or len(tree.feature):
            return tree
        self.growth.train.pool.scores[class_index] += np.float32(constant[class_index])
        return tree._replace(leaf_value=constant[[class_index]], shrinkage=1.0)

    def reset_parameter(self, params: dict[str, Any]) -> lgb.Booster:
        """Set the learning rate of the rounds to come; raise for any other parameter."""
        for name, value in params.items():
            if MAIN_NAME.get(name) != "learning_rate":
                raise ValueError(
                    f"{name!r} cannot change during a training with 'engine': 'native', only the learning rate can. "
                    "Use 'engine': 'lightgbm'."
                )
            if not (isinstance(value, (int, float)) and 0.0 < value < math.inf):
                raise ValueError(f"learning_rate must be a number above 0, got {value!r}.")
            self.growth.grower.learning_rate = float(value)
        self.params.update(params)
        return self

    def eval_train(self, feval: Any = None) -> list[Any]:
        """Evaluate on the training rows."""
        return self._evaluate([(self.growth.train, self._train_data_name)], feval)

    def eval_valid(self, feval: Any = None) -> list[Any]:
        """Evaluate on the validation rows."""
        return self._evaluate(self.growth.valid, feval)

    def _evaluate(self, sets: Sequence[tuple[ScoredRows, str]], feval: Any) -> list[Any]:
        functions = [one for one in (feval if isinstance(feval, list) else [feval]) if one is not None]
        metrics, response = self.growth.metrics, self.growth.response
        return [result for rows, name in sets for result in rows.evaluate(name, metrics, functions, response)]

    rollback_one_iter = _refused("rollback_one_iter")
    shuffle_models = _refused("shuffle_models")
    set_leaf_output = _refused("set_leaf_output")
    add_valid = _refused("add_valid")

    def __reduce__(self) -> Any:
        return _booster_of, (self.model_to_string(),)

    def finished(self) -> lgb.Booster:
        """Return LightGBM's own booster with all trees, which this one becomes."""
        booster: Any = self
        _ = booster._handle  # makes it of the trees so far
        for name in ("growth", "_stale"):
            booster.__dict__.pop(name, None)
        booster.__class__ = lgb.Booster
        return booster  # type: ignore[no-any-return]


def _booster_of(text: str) -> lgb.Booster:
    return lgb.Booster(model_str=text)


# ----- before the first tree


def begin(
    train: VirtualTable,
    params: dict[str, Any],
    valid: Validation,
    crew: Crew,
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
    categorical = categorical_columns(booster)
    rare = _rare_categories(train, params, categorical)
    bins, layout = bins_and_layout(rare.pooled(train), params, categorical)
    before = None if init_model is None else _loaded(init_model)

    def pool_of(virtual: VirtualTable, *, for_growth: bool = False) -> Pool:
        pooled = rare.pooled(virtual)
        pool = Pool.of(pooled, bins, layout, n_classes, for_growth=for_growth, threads=crew.size, scale=balance)
        if before is not None:
            _start_from(before, virtual, pool)
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
    rows = ScoredRows(train, pool, start)
    others = {id(table): ScoredRows(table, pool_of(table), start) for table, _ in valid if table is not None}
    function = given if own is None and callable(given) else own
    if function is not None:
        seen = ScoredRows(train, pool, start, for_objective=True)
        filler: Filler = CallableGradients(pool, start, lambda raw: function(raw, seen), train.copy_weight(balance))
    else:
        assert loss is not None  # parameters were checked
        filler = gradients_of(loss, pool, start)
    booster.growth = Growth(
        Grower(pool, bins, layout, GrowthParams.read(params), filler, train.share_per_tree, crew),
        ModelText(booster.untrained_text(), bins.features, start, before, rare),
        rows,
        [(others[id(table)], name) for table, name in valid if table is not None],
        metrics_of(params, n_classes),
        (lambda raw: raw) if loss is None else loss.response,
        0 if before is None else before.current_iteration(),
        constant,
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
    sample = ColumnSample.of(_Shared(train.people_as_given().rows), wanted.sample_rows, wanted.seed)
    bins = find_bins(sample, wanted, consent.group_columns.tolist(), categorical, train.rows.threads)
    return bins, find_layout(sample, bins, consent, bundle=is_true(value_of(params, "enable_bundle", True)))


def _rare_categories(train: VirtualTable, params: Mapping[str, Any], categorical: list[int]) -> RareCategories:
    """Return the categories of optional columns that a tree could not tell from missing values."""
    wanted = read_bin_params(params)
    most = {column: wanted.value_bins(column, True) for column in categorical}
    return RareCategories.of(
        train, categorical, lambda group: least_people(train, params, group, bins_of_people=True), most
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


def _start_from(before: lgb.Booster, virtual: VirtualTable, pool: Pool) -> None:
    """Set the scores of a pool to those of a model, which predicts the virtual rows batch by batch."""
    scores = np.empty((len(virtual), len(pool.scores)))
    for first, batch in virtual.rows.batches():
        raw = np.asarray(lgb.Booster.predict(before, batch, raw_score=True, num_iteration=-1))
        if raw.size != len(batch) * len(pool.scores):
            raise ValueError(
                f"init_model has {raw.size // len(batch)} scores per row, but this training has {len(pool.scores)}."
            )
        scores[first : first + len(batch)] = raw.reshape(len(batch), -1)
    pool.scores[:, pool.virtual_order()] = scores.T


# ----- the rounds


def with_early_stopping(callbacks: Any, params: Mapping[str, Any]) -> list[Any]:
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


def run_rounds(
    model: Any,
    params: dict[str, Any],
    rounds: range,
    callbacks: Sequence[Any],
    grow: Callable[[], Any],
    evaluate: Callable[[], list[Any]],
) -> tuple[int | None, list[Any]]:
    """Run the rounds; return the number of the best one if training stopped early, and the results of that round.

    Parameters
    ----------
    model
        What callbacks see: a booster, or those of all folds.
    params
        What callbacks see, and may change.
    rounds
        Numbers of the rounds, from that of the first on if a model is continued.
    callbacks
        LightGBM's callbacks, by their ``order``; without one, in the order of the list, before all others.
    grow, evaluate
        What happens in a round, and how its results are found.
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


def _in_order(callbacks: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the callbacks to call before a round and after it; one that is given twice is called once."""
    once = list({id(one): one for one in callbacks}.values())
    ordered = [(getattr(one, "order", i - len(once)), one) for i, one in enumerate(once)]
    ordered.sort(key=itemgetter(0))
    before = [one for _, one in ordered if getattr(one, "before_iteration", False)]
    return before, [one for _, one in ordered if not getattr(one, "before_iteration", False)]


def best_scores(results: Sequence[Any]) -> dict[str, dict[str, float]]:
    """Return results as ``best_score`` of a booster has them: set → metric → value."""
    found: dict[str, dict[str, float]] = defaultdict(OrderedDict)
    for data_name, metric_name, value, *_ in results:
        found[data_name][metric_name] = value
    return found


# ----- cross-validation, with the results of ``lgb.cv``


def cross_validate(
    n_folds: int, build: FoldBuilder, params: EngineParams, options: FoldOptions, threads: int
) -> dict[str, Any]:
    """Grow a booster on each fold, all of them round by round; return the mean and the spread of their metrics."""
    values = copy.deepcopy(params.values)
    if options.metrics is not None:
        values = with_value(values, "metric", options.metrics)
    history: dict[str, Any] = defaultdict(list)
    with Crew(threads) as crew:
        model: Any = lgb.CVBooster()
        for fold in range(n_folds):
            train, held_out, fold_values = build(fold, dict(values))
            sets = [(None, "train")] if options.eval_train_metric else []
            booster = begin(train, fold_values, [*sets, (held_out, "valid")], crew, init_model=options.init_model)
            model.boosters.append(booster.set_train_data_name("train"))

        def evaluate_fold(booster: GrowingBooster) -> list[Any]:
            on_training = booster.eval_train(options.feval) if options.eval_train_metric else []
            return [*on_training, *booster.eval_valid(options.feval)]

        def evaluate() -> list[Any]:
            results = _averaged([evaluate_fold(booster) for booster in model.boosters])
            for data_name, metric_name, mean, _, spread in results:
                history[f"{data_name} {metric_name}-mean"].append(mean)
                history[f"{data_name} {metric_name}-stdv"].append(spread)
            return results

        best, _ = run_rounds(
            model,
            values,
            range(params.num_boost_round),
            with_early_stopping(options.callbacks, values),
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


def _averaged(folds: list[list[Any]]) -> list[Any]:
    """Return mean and standard deviation over the folds, for each set and metric."""
    values: dict[tuple[str, str], list[float]] = {}
    higher: dict[tuple[str, str], bool] = {}
    for results in folds:
        for data_name, metric_name, value, higher_is_better in results:
            values.setdefault((data_name, metric_name), []).append(value)
            higher[data_name, metric_name] = higher_is_better
    return [EvalResult(*key, float(np.mean(each)), higher[key], float(np.std(each))) for key, each in values.items()]
