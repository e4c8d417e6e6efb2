"""The people of a virtual table in the order of the pool, and what belongs to them and to their copies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from ..._arrays import Array
from ..._kernels.native.codes import place_copies
from ..._kernels.threads import run_in_ranges
from ..._virtual.plan import MaskPlan
from ..._virtual.rows import SelectedRows, VirtualTable

_BLOCK_ROWS = 1 << 18
"""Virtual rows whose masks are drawn at a time."""


class People(ABC):
    """N people, sorted by falling number of copies; those without a copy are left out.

    Parameters
    ----------
    virtual
        The virtual table.
    order
        The source row of each person.
    layer_n
        How many people have a copy number 0, 1, ….
    """

    def __init__(self, virtual: VirtualTable, order: Array, layer_n: Array) -> None:
        self.virtual, self.order = virtual, order.astype(np.int32)
        self.layer_n = layer_n.astype(np.int64)
        self.layer_start = np.concatenate(([0], np.cumsum(self.layer_n)))[:-1]

    def __len__(self) -> int:
        return len(self.order)

    @property
    def n_pool_rows(self) -> int:
        """V, the number of all copies."""
        return int(self.layer_n.sum())

    @staticmethod
    def of(virtual: VirtualTable) -> People:
        """Return the people of any virtual table."""
        return _PeopleOfRows(virtual) if isinstance(virtual.rows, SelectedRows) else _PeopleOfPlan(virtual)

    @abstractmethod
    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Yield blocks of source rows, each row with the place of its person in the pool."""

    @abstractmethod
    def label(self) -> Array:
        """Return the label of each person (float32)."""

    @abstractmethod
    def weight(self, scale: float) -> Array:
        """Return user weight × copy weight × ``scale`` of each person's copies (float32)."""

    @abstractmethod
    def masks(self, threads: int) -> Array:
        """Return the mask of each pool row, in 16 bits if they suffice, else in 64."""

    @abstractmethod
    def pool_rows(self, threads: int) -> Array | slice:
        """Return the pool row of each row of the virtual table; a slice if the order is the same."""

    @abstractmethod
    def init_score(self) -> Array | None:
        """Return the initial scores of each pool row, (V, classes)."""

    def scores(self, n_scores: int) -> Array:
        """Return the initial scores, or zeros, as (scores per row, V) in float32."""
        given = self.init_score()
        if given is None:
            return np.zeros((n_scores, self.n_pool_rows), dtype=np.float32)
        if given.shape[1] != n_scores:
            raise ValueError(
                f"init_score has {given.shape[1]} values per row, but the objective has {n_scores} scores per row."
            )
        return np.ascontiguousarray(given.T, dtype=np.float32)

    @property
    def _mask_type(self) -> type[np.unsignedinteger]:
        return np.uint16 if self.virtual.rows.consent.n_groups <= 16 else np.uint64


class _PeopleOfPlan(People):
    """Everybody with the copies of a plan."""

    def __init__(self, virtual: VirtualTable) -> None:
        self.plan: MaskPlan = virtual.rows.plan
        copies = self.plan.copies
        how_many = np.bincount(copies)
        # Small numbers are sorted by radix, in a pass or two.
        fewer = (len(how_many) - 1 - copies).astype(np.min_scalar_type(len(how_many)))
        order = np.argsort(fewer, kind="stable")[: len(copies) - how_many[0]]
        super().__init__(virtual, order, np.cumsum(how_many[:0:-1])[::-1])
        self._places = np.full(len(copies), -1, dtype=np.int32)
        self._places[self.order] = np.arange(len(order), dtype=np.int32)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        source = self.virtual.rows.source
        for lo, hi in source.blocks():
            block, places = source.window(lo, hi), self._places[lo:hi]
            here = places >= 0
            yield (block, places) if here.all() else (block[here], places[here])

    def label(self) -> Array:
        return np.asarray(self.virtual.table.label[self.order], dtype=np.float32)

    def weight(self, scale: float) -> Array:
        weight = np.full(len(self), scale)
        for factor in (self.virtual.table.weight, self.plan.copy_weight):
            if factor is not None:
                weight *= factor[self.order]
        return weight.astype(np.float32)

    def _copies(self, threads: int) -> Iterator[tuple[int, Array, Array]]:
        """Yield (first virtual row, pool rows, masks) of blocks of the virtual table."""
        for start in range(0, len(self.plan), _BLOCK_ROWS):
            rows, masks = self.plan.rows_and_masks(start, min(start + _BLOCK_ROWS, len(self.plan)), threads)
            yield start, self._placed(start, rows, threads), masks

    def _placed(self, start: int, rows: Array, threads: int) -> Array:
        offsets, places, layer_start = self.plan.offsets, self._places, self.layer_start
        pool_rows = np.empty(len(rows), dtype=np.int64)
        run_in_ranges(
            lambda lo, hi: place_copies(start, rows, offsets, places, layer_start, lo, hi, pool_rows),
            len(rows),
            threads,
        )
        return pool_rows

    def masks(self, threads: int) -> Array:
        out = np.empty(self.n_pool_rows, dtype=self._mask_type)
        for _, pool_rows, masks in self._copies(threads):
            out[pool_rows] = masks
        return out

    def pool_rows(self, threads: int) -> Array | slice:
        if len(self.layer_n) == 1:
            return slice(None)
        out = np.empty(self.n_pool_rows, dtype=np.int32)
        for start, pool_rows, _ in self._copies(threads):
            out[start : start + len(pool_rows)] = pool_rows
        return out

    def init_score(self) -> Array | None:
        scores = self.virtual.table.init_score
        if scores is None:
            return None
        by_class = scores.T if scores.ndim == 2 else scores.reshape(-1, self.plan.n_source)
        out = np.empty((len(by_class), self.n_pool_rows), dtype=np.float32)
        for one, one_out in zip(by_class, out, strict=True):
            sorted_scores = one[self.order]
            for n, start in zip(self.layer_n.tolist(), self.layer_start.tolist(), strict=True):
                one_out[start : start + n] = sorted_scores[:n]
        return out.T


class _PeopleOfRows(People):
    """The rows of a virtual table that were selected or merged: each is a person with one copy."""

    def __init__(self, virtual: VirtualTable) -> None:
        rows = virtual.rows
        assert isinstance(rows, SelectedRows)
        order, self._masks = rows.plan.rows_and_masks_at(rows.selection, rows.threads)
        super().__init__(virtual, order, np.array([len(order)]))

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        source = self.virtual.rows.source
        for lo in range(0, len(self), source.rows_per_block):
            rows = self.order[lo : lo + source.rows_per_block]
            yield source.take(rows.astype(np.int64)), np.arange(lo, lo + len(rows), dtype=np.int32)

    def label(self) -> Array:
        return np.asarray(self.virtual.label(), dtype=np.float32)

    def weight(self, scale: float) -> Array:
        weight = self.virtual.weight(scale)
        return np.ones(len(self), dtype=np.float32) if weight is None else weight

    def masks(self, threads: int) -> Array:
        return np.asarray(self._masks, dtype=self._mask_type)

    def pool_rows(self, threads: int) -> slice:
        return slice(None)

    def init_score(self) -> Array | None:
        return self.virtual.init_score()
