"""The pool: everything a tree may be grown on, with one row of codes per person and one mask and score per copy.

People are sorted by falling number of copies. Layer j holds the j-th copy of everybody who has one, so it is the people
0 … n_j − 1, and pool row layer_start[j] + i is copy j of person i. No copy needs an index, and none is stored as a row.

Scores in single precision leave out the constant that training starts from, so labels of a million lose nothing.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from ..._common import Array
from ..._kernels.compiling import run_in_ranges
from ..._virtual.rows import VirtualTable
from .kernels.codes import MISSING, PEOPLE_PER_BLOCK, encode_columns, pack_rows
from .kernels.gradients import PLANE, Tests, add_leaf_values, leaf_numbers, leaf_ranges, sort_tests
from .kernels.growth import CodeTree
from .people import Bins, Layout, People

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
    ) -> Pool:
        """Return the pool of a virtual table, with all weights multiplied by ``scale``.

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
            people.scores(n_scores),
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
    erase = np.zeros((2 if n_groups <= 16 else 8, 256, 8 * layout.words), dtype=np.uint8)
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
    n_planes = n // PLANE + 1
    bits = _bits(tree)
    tests, n_parts, by_plane = _sorted_tests(tree, bits, layout, values, n_planes)
    ranges = pool.people_ranges(threads)

    def add(thread: int, _: int) -> None:
        sets = np.empty((n_parts + 2, PEOPLE_PER_BLOCK), dtype=np.uint32)
        value = np.empty(PEOPLE_PER_BLOCK, dtype=np.float32)
        add_leaf_values(
            pool.codes, pool.masks, pool.layer_n, pool.layer_start, tree, bits, tests, n_planes, n_parts, by_plane,
            sets, value, *ranges[thread], scores,
        )  # fmt: skip

    run_in_ranges(add, threads, threads, least=1)


def _bits(tree: CodeTree) -> Array:
    """Return for each node its set of codes as 256 bytes of 0 or 1; nothing if no node has one."""
    if not tree.in_set.any():
        return np.empty((0, 256), dtype=np.uint8)
    return np.unpackbits(tree.right_set.astype("<u8").view(np.uint8), bitorder="little").reshape(-1, 256)


def _sorted_tests(
    tree: CodeTree, bits: Array, layout: Layout, values: Array, n_planes: int
) -> tuple[Tests, int, Array]:
    """Return the tests of a tree by plane and group, the number of their parts, and the values of leaves by plane."""
    n, n_groups = len(tree.column), layout.n_groups + 1
    memory, first, size, place = (np.empty(n + 1, dtype=np.int64) for _ in range(4))
    n_tests = leaf_ranges(tree.left, tree.right, memory, first, size, place)
    most_parts = min(n_tests + n_planes, n_planes * n_groups)
    tests = Tests(
        plane_start=np.empty(n_planes + 1, dtype=np.int64),
        part_start=np.empty(most_parts + 1, dtype=np.int64),
        part_group=np.empty(most_parts, dtype=np.int64),
        part_missing=np.empty(most_parts, dtype=np.uint32),
        node=np.empty(n_tests, dtype=np.int64),
        keep=np.empty(n_tests, dtype=np.uint32),
    )
    next_test = np.zeros(n_planes * n_groups, dtype=np.int64)
    n_parts = sort_tests(first[:n], size[:n], tree, bits, layout.group, next_test, np.empty_like(next_test), tests)
    by_plane = np.zeros((n_planes, PLANE + 1), dtype=np.float32)
    by_plane[place // PLANE, place % PLANE] = values
    return tests, n_parts, by_plane


def leaves_of(pool: Pool, layout: Layout, tree: CodeTree, rows: Array, people: Array) -> Array:
    """Return the leaf of each of some pool rows, which belong to the given people."""
    leaf = np.zeros(len(rows), dtype=np.int64)
    if len(tree.column):
        leaf_numbers(pool.codes, pool.masks, layout.group, tree, rows, people, leaf)
    return leaf
