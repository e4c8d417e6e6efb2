"""The virtual table: masked rows, built when they are read and never stored, with their labels, weights and scores."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from .._common import Array
from .._consent import Consent
from .._kernels.compiling import thread_count
from .._kernels.rows import mask_indicators
from .._tables.sources import ArraySource, RowSource, SourceTable
from .plan import BinSample, MaskPlan, plan_masks

BATCH_BYTES = 4 << 20
"""Size of a batch buffer: large enough to keep two threads busy, small enough to be negligible."""


class MaskedRows:
    """The virtual table of a plan. Takes ``len``, row numbers, slices and index arrays; returns fresh arrays.

    Virtual row v = (i, s) has the base columns of source row i, its optional columns in the groups of s, and
    ``fill_value`` elsewhere. It is a pure function of v: the table may be read in any order, in pieces, by
    several threads, and any number of times.

    Parameters
    ----------
    source
        The source rows.
    consent
        Which columns belong to which group.
    plan
        The virtual rows.
    num_threads
        Threads for the kernels; None means all cores.
    fill_value
        Replaces withheld values.

    Examples
    --------
    >>> import numpy as np
    >>> from pucboost._virtual.plan import plan_masks
    >>> from pucboost._tables.sources import row_source
    >>> X = np.array([[1.0, 5.0], [2.0, np.nan]])
    >>> consent = Consent.declare([1], ["b", "z"])
    >>> rows = MaskedRows(row_source(X), consent, plan_masks(consent.availability(X), "exhaustive"))
    >>> rows[:].tolist()
    [[1.0, nan], [1.0, 5.0], [2.0, nan]]
    """

    def __init__(
        self,
        source: RowSource,
        consent: Consent,
        plan: MaskPlan,
        *,
        num_threads: int | None = None,
        fill_value: float = math.nan,
    ) -> None:
        consent.check_width(source.n_columns)
        if plan.n_source != source.n_rows:
            raise ValueError(f"The plan is for {plan.n_source} rows, but the table has {source.n_rows}.")
        same = plan.nesting == consent.nesting or (plan.nesting.is_free and consent.nesting.is_free)
        if plan.scheme != "none" and not same:
            raise ValueError("The plan was made for groups that need others than those of the schema.")
        self.source, self.consent, self.plan = source, consent, plan
        self.threads = thread_count(num_threads)
        self.fill_value = fill_value

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def shape(self) -> tuple[int, int]:
        """(virtual rows, columns)."""
        return len(self.plan), self.source.n_columns

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64, like the source."""
        return self.source.dtype

    @property
    def batch_rows(self) -> int:
        """Number of rows in a batch of about :data:`BATCH_BYTES`."""
        return max(1, BATCH_BYTES // (self.source.n_columns * self.dtype.itemsize))

    def __getitem__(self, index: int | slice | Array | list[int]) -> Array:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return self.read_into(start, self._buffer(max(0, stop - start)))
            return self.take(np.arange(start, stop, step))
        if isinstance(index, (list, np.ndarray)):
            return self.take(np.asarray(index, dtype=np.int64))
        if not -len(self) <= index < len(self):
            raise IndexError(f"virtual row {index} is out of range for {len(self)} virtual rows")
        row: Array = self.take(np.array([index % len(self)], dtype=np.int64))[0]
        return row

    def _buffer(self, n_rows: int) -> Array:
        return np.empty((n_rows, self.source.n_columns), dtype=self.dtype)

    def read_into(self, start: int, out: Array, masks_out: Array | None = None) -> Array:
        """Write the virtual rows start, start + 1, … into ``out`` (and their masks), and return it."""
        rows, masks = self.plan.rows_and_masks(start, start + len(out), self.threads)
        if masks_out is not None:
            masks_out[:] = masks
        if len(rows) == 0:
            return out
        if isinstance(self.source, ArraySource):
            return self._gather(self.source.array, rows, masks, out)
        first, last = int(rows[0]), int(rows[-1])
        return self._gather(self.source.window(first, last + 1), rows - first, masks, out)

    def take(self, index: Array) -> Array:
        """Return the virtual rows with the given numbers."""
        return self._take_into(index, self._buffer(len(index)))

    def masks_at(self, index: Array) -> Array:
        """Return the masks of the virtual rows with the given numbers."""
        return self.plan.rows_and_masks_at(index, self.threads)[1]

    def _take_into(self, index: Array, out: Array, masks_out: Array | None = None) -> Array:
        rows, masks = self.plan.rows_and_masks_at(index, self.threads)
        if masks_out is not None:
            masks_out[:] = masks
        if isinstance(self.source, ArraySource):
            return self._gather(self.source.array, rows, masks, out)
        return self._gather(self.source.take(rows), np.arange(len(rows)), masks, out)

    def _gather(self, block: Array, rows: Array, masks: Array, out: Array) -> Array:
        return self.consent.gather(block, rows, masks, out, threads=self.threads, fill_value=self.fill_value)

    def batches(self, batch_rows: int | None = None) -> Iterator[tuple[int, Array]]:
        """Yield (number of the first row, batch) over the whole table; the buffer is reused."""
        step = batch_rows or self.batch_rows
        buffer = self._buffer(min(step, len(self)))
        for start in range(0, len(self), step):
            yield start, self.read_into(start, buffer[: min(step, len(self) - start)])

    def materialise(self, indicators: bool = False) -> Array:
        """Return the whole virtual table in one allocation, with one 0/1 column per group appended if asked."""
        n_groups = self.consent.n_groups if indicators else 0
        out = np.empty((len(self), self.source.n_columns + n_groups), dtype=self.dtype)
        for start in range(0, len(self), self.batch_rows):
            part = out[start : start + self.batch_rows]
            masks = np.empty(len(part), dtype=np.uint64)
            self.read_into(start, part[:, : self.source.n_columns], masks)
            if indicators:
                mask_indicators(masks, 0, len(part), part[:, self.source.n_columns :])
        return out


class SelectedRows(MaskedRows):
    """Some of the rows of a virtual table, by their numbers, in any order."""

    def __init__(self, whole: MaskedRows, selection: Array) -> None:
        super().__init__(
            whole.source, whole.consent, whole.plan, num_threads=whole.threads, fill_value=whole.fill_value
        )
        self.selection = selection

    def __len__(self) -> int:
        return len(self.selection)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.selection), self.source.n_columns

    def read_into(self, start: int, out: Array, masks_out: Array | None = None) -> Array:
        return self._take_into(self.selection[start : start + len(out)], out, masks_out)

    def take(self, index: Array) -> Array:
        return super().take(self.selection[index])

    def masks_at(self, index: Array) -> Array:
        return super().masks_at(self.selection[index])


@dataclass(frozen=True)
class VirtualTable:
    """Masked rows with their labels, weights and initial scores."""

    rows: MaskedRows
    table: SourceTable

    merged: ClassVar[bool] = False
    """Whether a row may stand for several people with different labels."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def people(self) -> int:
        """N, the number of source rows."""
        return self.table.source.n_rows

    @property
    def share_per_tree(self) -> float:
        """φ = min(1, N / V): the share of the V virtual rows that each tree is grown on, drawn afresh.

        Weights have mean 1 over the virtual rows, so a bag of N of them has the total weight of plain training, and
        ``min_sum_hessian_in_leaf``, ``lambda_l2`` and ``min_data_in_leaf`` keep their meaning.
        """
        return min(1.0, self.people / len(self))

    @property
    def rows_per_tree(self) -> float:
        """φV, the number of virtual rows that each tree is grown on."""
        return self.share_per_tree * len(self)

    @property
    def class_counts(self) -> tuple[int, int]:
        """How many people have labels above 0, and how many have not."""
        positive = int((self.table.label > 0).sum())
        return positive, len(self.table.label) - positive

    @property
    def bin_sample(self) -> BinSample | None:
        """The rows from which an engine must make its bins; None if it may take any."""
        return None

    def reading(self, other: Callable[[RowSource], RowSource]) -> Self:
        """Return the same virtual rows of another source, with the same people."""
        source, rows = other(self.rows.source), copy.copy(self.rows)
        rows.source = source
        return replace(self, rows=rows, table=replace(self.table, source=source))

    def people_as_given(self) -> VirtualTable:
        """Return the people themselves: one row for each, with what they share."""
        return shown_table(self.table, self.rows.consent, self.rows.plan.available, self.rows.threads)

    def label(self) -> Array:
        """Return the label of every virtual row."""
        return self.rows.plan.spread(self.table.label)

    def weight(self, scale: float = 1.0) -> Array | None:
        """Return user weight × copy weight × ``scale`` for every virtual row; None if all are 1."""
        return self.rows.plan.weights(self.table.weight, scale)

    def copy_weight(self, scale: float = 1.0) -> Array | None:
        """Return copy weight × ``scale`` for every virtual row, the factor that comes from pucboost."""
        return self.rows.plan.weights(None, scale)

    def user_weight(self) -> Array | None:
        """Return the user weight for every virtual row; None if there are none."""
        return None if self.table.weight is None else self.rows.plan.spread(self.table.weight.astype(np.float32))

    def init_score(self) -> Array | None:
        """Return the initial scores of every virtual row, one column per class; None if there are none."""
        scores = self.table.init_score
        if scores is None:
            return None
        by_class = scores.T if scores.ndim == 2 else scores.reshape(-1, self.table.source.n_rows)
        return np.stack([self.rows.plan.spread(one) for one in by_class], axis=1)

    def source_rows(self) -> Array:
        """Return the number of the source row that each virtual row comes from."""
        return self.rows.plan.spread(np.arange(self.rows.plan.n_source))

    def shares_something(self) -> Array:
        """Return whether each virtual row shares at least one group."""
        _, masks = self.rows.plan.rows_and_masks(0, len(self.rows.plan), self.rows.threads)
        return np.asarray(masks != 0)


@dataclass(frozen=True)
class SelectedTable(VirtualTable):
    """Some rows of a virtual table, with their labels, weights and scores."""

    selection: Array

    @classmethod
    def of(cls, virtual: VirtualTable, selection: Array, table: SourceTable) -> SelectedTable:
        """Return some rows of a virtual table, by number; ``table`` may have other scores than the virtual table's."""
        return cls(SelectedRows(virtual.rows, selection), table, selection)

    @property
    def people(self) -> int:
        """Number of people with at least one of the rows."""
        owners = np.searchsorted(self.rows.plan.offsets, self.selection, side="right")
        return len(np.unique(owners))

    def label(self) -> Array:
        return super().label()[self.selection]

    def weight(self, scale: float = 1.0) -> Array | None:
        return self._pick(super().weight(scale))

    def copy_weight(self, scale: float = 1.0) -> Array | None:
        return self._pick(super().copy_weight(scale))

    def user_weight(self) -> Array | None:
        return self._pick(super().user_weight())

    def init_score(self) -> Array | None:
        return self._pick(super().init_score())

    def source_rows(self) -> Array:
        return super().source_rows()[self.selection]

    def _pick(self, values: Array | None) -> Array | None:
        return None if values is None else values[self.selection]


@dataclass(frozen=True)
class MergedTable(VirtualTable):
    """Virtual rows merged into cells of equal ones; ``people`` and the total weight are those before merging."""

    merged: ClassVar[bool] = True
    cell_label: Array
    cell_weight: Array
    n_people: int
    before: VirtualTable | None = None
    """The people themselves, if people were merged, too."""

    @property
    def people(self) -> int:
        return self.n_people

    def reading(self, other: Callable[[RowSource], RowSource]) -> Self:
        cells = super().reading(other)
        return cells if self.before is None else replace(cells, before=self.before.reading(other))

    def people_as_given(self) -> VirtualTable:
        return super().people_as_given() if self.before is None else self.before

    def label(self) -> Array:
        return self.cell_label

    def weight(self, scale: float = 1.0) -> Array | None:
        return np.asarray(self.cell_weight * scale, dtype=np.float32)

    def copy_weight(self, scale: float = 1.0) -> Array | None:
        raise NotImplementedError("Only callable objectives need copy weights of their own, and those are refused.")

    def init_score(self) -> None:
        return


def erased_table(table: SourceTable, consent: Consent, num_threads: int | None) -> VirtualTable:
    """Return a table in which nobody shares anything."""
    return shown_table(table, consent, np.zeros(table.source.n_rows, dtype=np.uint64), num_threads)


def shown_table(table: SourceTable, consent: Consent, masks: Array, num_threads: int | None) -> VirtualTable:
    """Return a table with one row per person, showing the groups of that person's mask."""
    plan = plan_masks(masks, "none", num_threads=num_threads)
    return VirtualTable(MaskedRows(table.source, consent, plan, num_threads=num_threads), table)
