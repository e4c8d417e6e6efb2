"""Rare categories of optional columns as one category, so that trees can tell those who have them from the silent.

LightGBM's trees send a set of categories to the left and everything else to the right: missing values, and categories
with too few rows to be told apart (``cat_smooth``) or to have a bin. So people who share a rare category end up in the
leaves of people who share nothing, and pull their prediction. If m of N people share such categories, whose outcomes
differ by d from everybody's, a tree can do no better for the silent than the mean of both,

    f = (N·E[Y] + m·(E[Y] + d)) / (N + m),    too much by d·m / (N + m),

and no number of trees makes up for it. As one category, rare ones have enough rows to go left.

Pooling happens in the source of a table, inside the engine, so that sketches and anchors see what people gave.
Afterwards every set of categories in the model's text that has the one gets all of them. How many people make a
category frequent follows from the rows per person that a tree sees with the group unmasked, half to all of one. A wider
margin cost sharers something and gave the silent nothing. XGBoost tells all categories apart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from .._common import Array
from .._tables.sources import DerivedSource, RowSource
from .plan import BinSample
from .rows import VirtualTable

logger = logging.getLogger("pucboost")

SAMPLED_ROWS = 1 << 18
"""Virtual rows from which is found how many of them a person has."""

LARGEST_CATEGORY = 2**31 - 1
"""LightGBM's models hold categories in 32 bits."""

LARGEST_WRITTEN = 1 << 17
"""Models hold a set of categories as a row of bits, so rare ones must not have larger numbers."""


def are_categories(values: Array) -> Array:
    """Return which values LightGBM reads as categories, without their fraction; negative and large ones are missing."""
    return np.asarray((values > -1) & (values <= LARGEST_CATEGORY))


@dataclass(frozen=True)
class PooledColumn:
    """The rare categories of one column."""

    members: Array
    """In rising order (int64), at least two."""

    @property
    def stands_for_all(self) -> int:
        """The number that all of them have while trees grow."""
        return int(self.members[0])

    @classmethod
    def of(cls, categories: Array, counts: Array, least: float, most: int | None = None) -> PooledColumn | None:
        """Return the categories with fewer than ``least`` people, and those after the ``most`` frequent ones.

        None if there are fewer than two, or if even together they have fewer than ``least`` people.
        """
        order = np.lexsort((categories, -counts))
        frequent = int((counts >= least).sum())
        if most is not None and len(order) > most:
            frequent = min(frequent, most - 1)
        rare = order[frequent:]
        if len(rare) < 2 or counts[rare].sum() < least:
            return None
        return cls(np.sort(categories[rare]))

    def check_can_be_written(self, name: str) -> None:
        """Raise if a model cannot name them all: it would take who shares the others for somebody who is silent."""
        beyond = self.members[self.members > LARGEST_WRITTEN]
        if len(beyond):
            raise ValueError(
                f"Column {name!r} has categories that few people share and whose numbers are above "
                f"{LARGEST_WRITTEN:,} ({len(beyond):,} of them, such as {beyond[0]}). A model cannot name these. Give "
                f"the column as text or pandas categories, whose numbers begin at 0, and write one word for rare ones "
                f"if it has more than {LARGEST_WRITTEN:,}."
            )

    def pool(self, values: Array) -> None:
        whole = np.where(are_categories(values), values, -1).astype(np.int64)
        place = np.minimum(np.searchsorted(self.members, whole), len(self.members) - 1)
        values[self.members[place] == whole] = self.stands_for_all


@dataclass(frozen=True)
class RareCategories:
    """The rare categories of all columns that have some."""

    columns: Mapping[int, PooledColumn]

    @classmethod
    def of(
        cls,
        virtual: VirtualTable,
        categorical: Collection[int],
        least: Callable[[int], float],
        most: int | None = None,
    ) -> RareCategories:
        """Find them in what the people of a virtual table share, in those ``categorical`` columns that are optional.

        In base columns nobody is silent, so their categories are rare only where there are more than ``most``, and
        those with too large numbers are left to the engine, which reads what has no bin as missing.

        Parameters
        ----------
        virtual, categorical
            The virtual table, and positions of columns of categories.
        least
            How many people must share a category of a group so that it is not rare, by the number of the group.
        most
            How many categories of a column the engine can tell apart; None if there is no limit.
        """
        consent = virtual.rows.consent
        groups = dict(zip(consent.group_columns.tolist(), consent.column_groups.tolist(), strict=True))
        source = virtual.table.source  # folds that a user's function made have codes without their names
        names = dict(zip(source.coded, source.pandas_categorical or (), strict=False))
        many = {j for j in categorical if most is not None and (j not in names or len(names[j]) > most)}
        columns = sorted(many.union(j for j in groups if j in categorical))
        if not columns:
            return cls({})
        needed = {group: least(group) for group in {groups[j] for j in columns if j in groups}}
        found = {}
        for j, (categories, counts) in _counted(virtual.people_as_given(), columns).items():
            here = slice(None) if j in groups else categories <= LARGEST_WRITTEN
            column = PooledColumn.of(categories[here], counts[here], needed[groups[j]] if j in groups else 0.0, most)
            if column is not None:
                column.check_can_be_written(virtual.table.names[j])
                found[j] = column
                logger.info(
                    "column %r: %d categories that few people have are one to the trees (%d people)",
                    virtual.table.names[j],
                    len(column.members),
                    counts[np.isin(categories, column.members)].sum(),
                )
        return cls(found)

    @classmethod
    def of_sample(
        cls, virtual: VirtualTable, categorical: Collection[int], sample: BinSample, in_tree: float, in_sample: float
    ) -> RareCategories:
        """Find them for workers that train together, in the sample of virtual rows that all of them have.

        Only columns whose categories the table names are looked at: what is not in the sample is rare, too. A category
        needs ``in_tree`` rows among those that a tree grows on, and ``in_sample`` rows in the sample.
        """
        source, consent = virtual.table.source, virtual.rows.consent
        weight = sample.weight.astype(np.float64)
        of_tree = virtual.rows_per_tree / max(float(weight.sum()), 1e-300)
        found = {}
        for j, names in source.categories.by_column(source.coded).items():
            if j not in categorical or j not in consent.group_columns:
                continue
            shown = np.flatnonzero(sample.rows[:, j] >= 0)
            codes = sample.rows[shown, j].astype(np.int64)
            rows, weights = np.bincount(codes, minlength=len(names)), np.bincount(codes, weight[shown], len(names))
            enough = np.minimum(rows / in_sample, weights * of_tree / in_tree)
            column = PooledColumn.of(np.arange(len(names)), enough, 1.0)
            if column is not None:
                column.check_can_be_written(virtual.table.names[j])
                found[j] = column
        return cls(found)

    def pool(self, rows: Array) -> Array:
        """Return a copy of a matrix in which they are one category in each column."""
        rows = rows.copy(order="K")
        for j, column in self.columns.items():
            column.pool(rows[:, j])
        return rows

    def pooled(self, virtual: VirtualTable) -> VirtualTable:
        """Return a virtual table in which they are one category in each column."""
        if not self.columns:
            return virtual
        return virtual.reading(lambda source: _PooledSource(source, self))


def _counted(people: VirtualTable, columns: list[int]) -> dict[int, tuple[Array, Array]]:
    """Return the categories of each column, and how many people share each; LightGBM cuts off fractions."""
    seen: dict[int, list[tuple[Array, Array]]] = {j: [] for j in columns}
    for _, batch in people.rows.batches():
        for j, parts in seen.items():
            values = batch[:, j]
            parts.append(np.unique(values[are_categories(values)].astype(np.int64), return_counts=True))
    counted = {}
    for j, parts in seen.items():
        categories, place = np.unique(np.concatenate([values for values, _ in parts]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts for _, counts in parts]), len(categories))
        counted[j] = categories, counts.astype(np.int64)
    return counted


class _PooledSource(DerivedSource):
    """Rows in which the rare categories of some columns are one."""

    def __init__(self, whole: RowSource, rare: RareCategories) -> None:
        super().__init__(whole, whole.n_rows)
        self._rare = rare

    def present(self, rows: Array, columns: Array) -> Array:
        return self._whole.present(rows, columns)

    def window(self, lo: int, hi: int) -> Array:
        return self._rare.pool(self._whole.window(lo, hi))

    def take(self, rows: Array) -> Array:
        return self._rare.pool(self._whole.take(rows))


@dataclass(frozen=True)
class RowsPerPerson:
    """How many virtual rows show a group of somebody who shares it."""

    in_table: float
    in_tree: float
    """Among the φV of V rows that a tree grows on, as it judges their number by their weights w: if n people share the
    group g, φV · Σ w_v [g ∈ mask of v] / (n · Σ w_v)."""

    @classmethod
    def of(cls, virtual: VirtualTable, group: int) -> RowsPerPerson:
        """Return both for one group, from some of the rows if there are very many."""
        index = np.linspace(0, len(virtual) - 1, min(len(virtual), SAMPLED_ROWS)).astype(np.int64)
        bit, weight = np.uint64(1 << group), virtual.weight()
        shown = (virtual.rows.masks_at(index) & bit) != 0
        weights = np.ones(len(index)) if weight is None else weight[index].astype(np.float64)
        sharers = max(1, int(np.count_nonzero(virtual.people_as_given().rows.plan.available & bit)))
        share = float(weights[shown].sum()) / max(float(weights.sum()), 1e-300)
        return cls(len(virtual) * float(shown.mean()) / sharers, virtual.rows_per_tree * share / sharers)
