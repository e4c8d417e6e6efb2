"""Masked rows: copy the source row, then erase the groups outside the mask."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]

_1 = np.uint64(1)
_TILE = 128
"""Rows per tile when the source is stored by columns: a tile of 128 rows stays in the first-level cache."""

ZERO_THRESHOLD = float(np.float32(1e-35))
"""LightGBM's border between zero and non-zero when it samples values for its bins."""


@njit(cache=True, nogil=True)
def _erase_withheld(v: int, mask: Any, columns: Array, groups: Array, fill: Any, out: Array) -> None:
    """Overwrite the optional columns of row v whose group is not in the mask.

    The value is chosen, not jumped over: masks are random, and a branch on them would be guessed wrong half the time.
    """
    for p in range(columns.size):
        value = out[v, columns[p]]
        out[v, columns[p]] = value if (mask >> groups[p]) & _1 else fill


@njit(cache=True, nogil=True)
def gather_masked_rows(
    source: Array,
    rows: Array,
    masks: Array,
    columns: Array,
    groups: Array,
    fill: Any,
    lo: int,
    hi: int,
    out: Array,
) -> None:
    """out[v] = source[rows[v]] with ``fill`` in the groups outside masks[v], v in [lo, hi); row-major source.

    ``columns`` are the optional columns and ``groups`` (uint64) the group of each.
    """
    for v in range(lo, hi):
        row = rows[v]
        for j in range(source.shape[1]):
            out[v, j] = source[row, j]
        _erase_withheld(v, masks[v], columns, groups, fill, out)


@njit(cache=True, nogil=True)
def gather_masked_columns(
    source: Array,
    rows: Array,
    masks: Array,
    columns: Array,
    groups: Array,
    fill: Any,
    lo: int,
    hi: int,
    out: Array,
) -> None:
    """The same for a column-major source: column by column within tiles, so that reads run along memory."""
    for tile in range(lo, hi, _TILE):
        end = min(tile + _TILE, hi)
        for j in range(source.shape[1]):
            for v in range(tile, end):
                out[v, j] = source[rows[v], j]
        for v in range(tile, end):
            _erase_withheld(v, masks[v], columns, groups, fill, out)


@njit(cache=True, nogil=True)
def mask_indicators(masks: Array, lo: int, hi: int, out: Array) -> None:
    """out[v, g] = 1 if group g is in masks[v], else 0."""
    for v in range(lo, hi):
        for g in range(out.shape[1]):
            out[v, g] = (masks[v] >> np.uint64(g)) & _1


@njit(cache=True, nogil=True)
def count_nonzero_columns(block: Array, counts_out: Array) -> None:
    """Add to counts_out[j] how many values of column j are not zero (NaN is not zero)."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            if not abs(block[i, j]) <= ZERO_THRESHOLD:
                counts_out[j] += 1


@njit(cache=True, nogil=True)
def append_nonzero_columns(
    block: Array, first_position: int, next_slot: Array, values_out: Array, positions_out: Array
) -> None:
    """Append the non-zero values of each column and their positions; column j continues at next_slot[j]."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            value = block[i, j]
            if not abs(value) <= ZERO_THRESHOLD:
                slot = next_slot[j]
                values_out[slot] = value
                positions_out[slot] = first_position + i
                next_slot[j] = slot + 1
