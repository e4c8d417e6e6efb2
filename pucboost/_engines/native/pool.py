"""The pool: everything a tree may be grown on, with one row of codes per person and one mask and score per copy.

People are sorted by falling number of copies. Layer j holds the j-th copy of everybody who has one, so it is the people
0 … n_j − 1, and pool row layer_start[j] + i is copy j of person i. No copy needs an index, and none is stored as a row.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from ..._arrays import Array
from ..._kernels.native.codes import MISSING, encode_columns, pack_rows
from ..._kernels.threads import run_in_ranges
from ..._virtual.rows import VirtualTable
from .bins import Bins
from .bundles import Layout
from .people import People

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
        """N."""
        return len(self.order)

    def __len__(self) -> int:
        """V, the number of pool rows."""
        return len(self.masks)

    def virtual_order(self) -> Array | slice:
        """Return the index that brings values of pool rows into the order of the virtual table: values[..., index]."""
        if self._virtual_order is None:
            self._virtual_order = self._people.pool_rows(self._people.virtual.rows.threads)
        return self._virtual_order

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
