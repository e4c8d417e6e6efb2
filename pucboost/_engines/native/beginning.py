"""Before the first tree: from virtual tables and parameters to a booster that is ready to grow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightgbm as lgb
import numpy as np

from ..._arrays import Array
from ..._losses import Objective
from ..._tables.sources import RowSource
from ..._virtual.rare_categories import RareCategories
from ..._virtual.rows import MaskedRows, VirtualTable
from ..base import OwnGradient, Validation
from ..lightgbm import ENGINE as LIGHTGBM
from ..lightgbm import balance_classes
from ..lightgbm_categories import categorical_columns, least_people
from ..names import is_true, main_objective, number_of, value_of, whole_number, with_value, without
from .bins import Bins, find_bins
from .bundles import Layout, find_layout
from .crew import Crew
from .grower import Grower
from .growing import GrowingBooster, Growth
from .losses import CallableGradients, Filler, gradients_of
from .metrics import metrics_of
from .model_text import ModelText
from .parameters import GrowthParams, read_bin_params
from .pool import Pool
from .sample import ColumnSample
from .scored_rows import RowsOfObjective, ScoredRows


def loss_of(params: Mapping[str, Any]) -> Objective | None:
    """Return the loss of the parameters; None for a callable, or a loss that only LightGBM has.

    Weights of classes are weights of people, whatever the loss.
    """
    return LIGHTGBM.objective(without(without(params, "is_unbalance"), "scale_pos_weight"))


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
    loss = loss_of(params) if own is None else own.objective
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
        seen = RowsOfObjective(train, pool, start)
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
    """Return the booster to continue; raise if nothing can be added to it."""
    booster = init_model if isinstance(init_model, lgb.Booster) else lgb.Booster(model_file=init_model)
    if "\naverage_output\n" in booster.model_to_string(1):
        raise ValueError("init_model is a random forest, whose trees are averaged: nothing can be added to it.")
    return booster


def _start_from(before: lgb.Booster, virtual: VirtualTable, pool: Pool) -> None:
    """Set the scores of a pool to those of a model, which reads the virtual rows batch by batch."""
    scores = np.empty((len(virtual), len(pool.scores)))
    for first, batch in virtual.rows.batches():
        raw = np.asarray(lgb.Booster.predict(before, batch, raw_score=True, num_iteration=-1))
        if raw.size != len(batch) * len(pool.scores):
            raise ValueError(
                f"init_model has {raw.size // len(batch)} scores per row, but this training has {len(pool.scores)}."
            )
        scores[first : first + len(batch)] = raw.reshape(len(batch), -1)
    pool.scores[:, pool.virtual_order()] = scores.T
