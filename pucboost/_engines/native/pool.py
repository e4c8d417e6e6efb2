"""The pool: everything a tree may be grown on, with one row of codes per person and one mask and score per copy.

People are sorted by falling number of copies. Layer j holds the j-th copy of everybody who has one, so it is the people
0 … n_j − 1, and pool row layer_start[j] + i is copy j of person i. No copy needs an index, and none is stored as a row.

Scores in single precision leave out the constant that training starts from, so labels of a million lose nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ..._common import Array
from ..._kernels.compiling import run_in_ranges
from ..._virtual.plan import MaskPlan
from ..._virtual.rows import SelectedRows, VirtualTable
from .bins import Bins, Layout
from .kernels.codes import MISSING, PEOPLE_PER_BLOCK, encode_columns, pack_rows, place_copies
from .kernels.gradients import PLANE, AddedTree, CodeTree, Tests, add_leaf_values, arrange_tests, leaf_numbers

_TILE_VALUES = 1 << 16
"""Values that are encoded at a time: as doubles they stay in the second-level cache."""


@dataclass(eq=False)
class Pool:
    """N people with the masks and scores of their V copies.

    Parameters
    ----------
    codes
        Codes by column, (columns, N) bytes.
    rows
        The same codes by person, (N, words), eight in a word of 64 bits; None if no trees are grown on the pool.
    layer_n, layer_start
        How many people have a j-th copy, and the pool row of the first one (int64).
    masks
        The groups that each pool row shares (uint16, or uint64 with more than 16 groups).
    erase
        (bytes of a mask, 256, words): what to OR to the row of a person, for each byte of the mask, so that the groups
        outside it are missing.
    label, weight
        One per person (float32); weight is user weight × copy weight × scale.
    order
        The row of each person in the source (int32).
    scores
        (scores per row, V) raw scores, without the constant that training starts from (float32).
    """

    codes: Array
    rows: Array | None
    layer_n: Array
    layer_start: Array
    masks: Array
    erase: Array
    label: Array
    weight: Array
    order: Array
    scores: Array
    _people: People
    _virtual_order: Array | slice | None = field(default=None, init=False)
    _ranges: dict[int, list[tuple[int, int]]] = field(default_factory=dict, init=False)

    @classmethod
    def of(
        cls,
        virtual: VirtualTable,
        bins: Bins,
        layout: Layout,
        n_scores: int,
        *,
        for_growth: bool,
        threads: int,
        scale: float = 1.0,
        base: Array | float = 0.0,
    ) -> Pool:
        """Return the pool of a virtual table, with all weights multiplied by ``scale``; ``base`` is left out of scores.

        Where rows were selected or merged, each is a person with one copy. The source is read block by block.
        """
        people = People.of(virtual)
        codes = np.zeros((layout.n_columns, len(people)), dtype=np.uint8)
        for block, places in people.blocks():
            _encode(block, places, bins, layout, codes, threads)
        return cls(
            codes,
            _packed(codes, layout.words, threads) if for_growth else None,
            people.layer_n,
            people.layer_start,
            people.masks(threads),
            _erasing(layout, virtual.rows.consent.n_groups),
            people.label(),
            people.weight(scale),
            people.order,
            people.scores(n_scores, base),
            people,
        )

    @property
    def n_people(self) -> int:
        return len(self.order)

    def __len__(self) -> int:
        return len(self.masks)

    def virtual_order(self) -> Array | slice:
        """Return the index that brings values of pool rows into the order of the virtual table: values[..., index]."""
        if self._virtual_order is None:
            self._virtual_order = self._people.pool_rows(self._people.virtual.rows.threads)
        return self._virtual_order

    def raw_scores(self, start: Array) -> Array:
        """Return start + scores of the virtual table's rows, (V,) or (V, classes) in column order, as doubles."""
        scores = self.scores[:, self.virtual_order()] + start[:, None]
        return scores[0] if len(scores) == 1 else scores.T

    def people_ranges(self, parts: int) -> list[tuple[int, int]]:
        """Return ranges of people with about the same number of pool rows each; the first people have the most."""
        if parts not in self._ranges:
            bounds = [self._people_with(len(self) * part // parts) for part in range(parts + 1)]
            self._ranges[parts] = list(itertools.pairwise(bounds))
        return self._ranges[parts]

    def _people_with(self, n_pool_rows: int) -> int:
        """Return how many people, from the first on, have at least that many pool rows together."""
        lo, hi = 0, self.n_people
        while lo < hi:
            middle = (lo + hi) // 2
            if int(np.minimum(self.layer_n, middle).sum()) < n_pool_rows:
                lo = middle + 1
            else:
                hi = middle
        return lo


def _encode(block: Array, places: Array, bins: Bins, layout: Layout, codes_out: Array, threads: int) -> None:
    """Write the codes of a block of source rows to the places of its people."""
    bounds, category_codes = bins.search_tables
    tile = max(64, _TILE_VALUES // block.shape[1])

    def encode(lo: int, hi: int) -> None:
        for start in range(lo, hi, tile):
            stop = min(start + tile, hi)
            encode_columns(
                np.array(block[start:stop].T, dtype=np.float64, order="C"),
                bounds,
                category_codes,
                bins.is_category,
                bins.missing_codes,
                bins.least,
                layout.column,
                layout.first,
                layout.bundled,
                places[start:stop],
                np.empty(stop - start, dtype=np.uint8),
                codes_out,
            )

    run_in_ranges(encode, len(block), threads)


def _packed(codes: Array, words: int, threads: int) -> Array:
    rows = np.zeros((codes.shape[1], words), dtype=np.uint64)
    run_in_ranges(lambda lo, hi: pack_rows(codes, lo, hi, rows), len(rows), threads)
    return rows


def _erasing(layout: Layout, n_groups: int) -> Array:
    """Return for every byte of a mask and each of its values 255 in the columns of groups that the byte lacks."""
    erase = np.zeros((max(1, -(-n_groups // 8)), 256, 8 * layout.words), dtype=np.uint8)
    for column, group in enumerate(layout.group.tolist()):
        if group >= 0:
            erase[group // 8, (np.arange(256) >> group % 8) & 1 == 0, column] = MISSING
    return erase.view("<u8").astype(np.uint64, copy=False)


# ----- what a tree adds to the scores of a pool


def add_tree(pool: Pool, layout: Layout, tree: CodeTree, values: Array, class_index: int, threads: int) -> None:
    """Add the value of its leaf to the score of every pool row; the number of threads does not matter."""
    scores, n = pool.scores[class_index], len(tree.column)
    if n == 0:
        scores += np.float32(values[0])
        return
    n_tests, tests, n_parts = 4 * (n + 1), 0, 0
    while n_tests > tests:
        tests = n_tests
        added = room_for_tree(layout, n + 1, tests, has_sets=bool(tree.in_set.any()))
        put_tree(added, tree, values)
        n_tests, n_parts = arrange_tests(n, added)
    ranges = pool.people_ranges(threads)

    def add(thread: int, _: int) -> None:
        sets = np.empty((n_parts + 2, PEOPLE_PER_BLOCK), dtype=np.uint32)
        value = np.empty(PEOPLE_PER_BLOCK, dtype=np.float32)
        add_leaf_values(
            pool.codes, pool.masks, pool.layer_n, pool.layer_start, added.bits, added.tests, n // PLANE + 1, n_parts,
            added.by_plane, sets, value, *ranges[thread], scores,
        )  # fmt: skip

    run_in_ranges(add, threads, threads, least=1)


def room_for_tree(
    layout: Layout, leaves: int, tests: int, *, has_sets: bool, parts: int = 0, threads: int = 0
) -> AddedTree:
    """Return room for a tree and its tests, and for the sets of leaves of some threads."""
    planes, groups = (leaves - 1) // PLANE + 1, layout.n_groups + 1
    return AddedTree(
        code=room_for_splits(leaves), values=np.zeros(leaves),
        bits=np.zeros((leaves if has_sets else 0, 256), dtype=np.uint8),
        group=np.asarray(layout.group), order=whole(5, leaves),
        tests=Tests(
            plane_start=whole(planes + 1), part_start=whole(planes * groups + 1),
            part_group=whole(planes * groups), part_missing=np.zeros(planes * groups, dtype=np.uint32),
            column=whole(tests), first_right=np.zeros(tests, dtype=np.uint8), span=np.zeros(tests, dtype=np.uint8),
            look_up=whole(tests), keep=np.zeros(tests, dtype=np.uint32),
        ),
        counters=whole(2 * planes * groups), by_plane=np.zeros((planes, PLANE + 1), dtype=np.float32),
        sets=np.empty((threads, min(parts, planes * groups) + 2, PEOPLE_PER_BLOCK), dtype=np.uint32),
        value=np.empty((threads, PEOPLE_PER_BLOCK), dtype=np.float32),
    )  # fmt: skip


def put_tree(added: AddedTree, tree: CodeTree, values: Array) -> None:
    for room, part in zip((*added.code, added.values), (*tree, values), strict=True):
        room[: len(part)] = part


def room_for_splits(n: int) -> CodeTree:
    return CodeTree(
        column=whole(n), first_right=np.zeros(n, dtype=np.uint8), span=np.zeros(n, dtype=np.uint8),
        in_set=np.zeros(n, dtype=np.bool_), right_set=np.zeros((n, 4), dtype=np.uint64), left=whole(n), right=whole(n),
    )  # fmt: skip


def whole(*shape: int) -> Array:
    return np.zeros(shape, dtype=np.int64)


def leaves_of(pool: Pool, layout: Layout, tree: CodeTree, rows: Array, people: Array) -> Array:
    """Return the leaf of each of some pool rows, which belong to the given people."""
    leaf = np.zeros(len(rows), dtype=np.int64)
    if len(tree.column):
        leaf_numbers(pool.codes, pool.masks, layout.group, tree, rows, people, leaf)
    return leaf


# ----- the people of a virtual table in the order of the pool, and what belongs to them and to their copies

_BLOCK_ROWS = 1 << 18
"""Virtual rows whose masks are drawn at a time."""


class People:
    """N people, sorted by falling number of copies; those without a copy are left out.

    Layer j are the people 0 … layer_n[j] − 1, who have a copy number j; their copies are the pool rows from
    layer_start[j] on. ``order`` is the source row of each person.
    """

    def __init__(self, virtual: VirtualTable) -> None:
        self.plan: MaskPlan = virtual.rows.plan
        copies = self.plan.copies
        how_many = np.bincount(copies)
        # Small numbers are sorted by radix, in a pass or two.
        fewer = (len(how_many) - 1 - copies).astype(np.min_scalar_type(len(how_many)))
        order = np.argsort(fewer, kind="stable")[: len(copies) - how_many[0]]
        self._set(virtual, order, np.cumsum(how_many[:0:-1])[::-1])
        self._places = np.full(len(copies), -1, dtype=np.int32)
        self._places[self.order] = np.arange(len(order), dtype=np.int32)

    def _set(self, virtual: VirtualTable, order: Array, layer_n: Array) -> None:
        self.virtual, self.order = virtual, order.astype(np.int32)
        self.layer_n = layer_n.astype(np.int64)
        self.layer_start = np.concatenate(([0], np.cumsum(self.layer_n)))[:-1]
        self.n_pool_rows = int(self.layer_n.sum())
        self._mask_type = np.uint16 if virtual.rows.consent.n_groups <= 16 else np.uint64

    @staticmethod
    def of(virtual: VirtualTable) -> People:
        return _SelectedRows(virtual) if isinstance(virtual.rows, SelectedRows) else People(virtual)

    def __len__(self) -> int:
        return len(self.order)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Yield blocks of source rows, each row with the place of its person in the pool."""
        source = self.virtual.rows.source
        for lo, hi in source.blocks():
            block, places = source.window(lo, hi), self._places[lo:hi]
            here = places >= 0
            yield (block, places) if here.all() else (block[here], places[here])

    def label(self) -> Array:
        return np.asarray(self.virtual.table.label[self.order], dtype=np.float32)

    def weight(self, scale: float) -> Array:
        """Return user weight × copy weight × ``scale`` of each person's copies (float32)."""
        weight = np.full(len(self), scale)
        for factor in (self.virtual.table.weight, self.plan.copy_weight):
            if factor is not None:
                weight *= factor[self.order]
        return weight.astype(np.float32)

    def masks(self, threads: int) -> Array:
        """Return the mask of each pool row, in 16 bits if they suffice, else in 64."""
        out = np.empty(self.n_pool_rows, dtype=self._mask_type)
        for _, pool_rows, masks in self._copies(threads):
            out[pool_rows] = masks
        return out

    def pool_rows(self, threads: int) -> Array | slice:
        """Return the pool row of each row of the virtual table; a slice if the order is the same."""
        if len(self.layer_n) == 1:
            return slice(None)
        out = np.empty(self.n_pool_rows, dtype=np.int32)
        for start, pool_rows, _ in self._copies(threads):
            out[start : start + len(pool_rows)] = pool_rows
        return out

    def _copies(self, threads: int) -> Iterator[tuple[int, Array, Array]]:
        """Yield (first virtual row, pool rows, masks) of blocks of the virtual table."""
        for start in range(0, len(self.plan), _BLOCK_ROWS):
            rows, masks = self.plan.rows_and_masks(start, min(start + _BLOCK_ROWS, len(self.plan)), threads)
            pool_rows = np.empty(len(rows), dtype=np.int64)
            where = start, rows, self.plan.offsets, self._places, self.layer_start
            run_in_ranges(partial(place_copies, *where, pool_row_out=pool_rows), len(rows), threads)
            yield start, pool_rows, masks

    def scores(self, n_scores: int, base: Array | float) -> Array:
        """Return the initial scores − ``base``, or zeros, as (scores per row, V) in float32."""
        given = self._init_score()
        if given is None:
            return np.zeros((n_scores, self.n_pool_rows), dtype=np.float32)
        if len(given) != n_scores:
            raise ValueError(
                f"init_score has {len(given)} values per row, but the objective has {n_scores} scores per row."
            )
        return np.ascontiguousarray(given - np.reshape(base, (-1, 1)), dtype=np.float32)

    def _init_score(self) -> Array | None:
        """Return the initial scores of each pool row, (classes, V)."""
        scores = self.virtual.table.init_score
        if scores is None:
            return None
        by_class = scores.T if scores.ndim == 2 else scores.reshape(-1, self.plan.n_source)
        of_people = by_class[:, self.order].astype(np.float64)
        return np.concatenate([of_people[:, :n] for n in self.layer_n], axis=1)


class _SelectedRows(People):
    """The rows of a virtual table that were selected or merged: each is a person with one copy."""

    def __init__(self, virtual: VirtualTable) -> None:
        rows = virtual.rows
        assert isinstance(rows, SelectedRows)
        order, self._masks = rows.plan.rows_and_masks_at(rows.selection, rows.threads)
        self._set(virtual, order, np.array([len(order)]))

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

    def _init_score(self) -> Array | None:
        scores = self.virtual.init_score()
        return None if scores is None else scores.T
