"""Masked rows: copy the source row, then erase the groups outside the mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import Array
from .compiling import kernel

_0, _1 = np.uint64(0), np.uint64(1)
_TILE = 128
"""Rows per tile when the source is stored by columns: a tile of 128 rows stays in the first-level cache."""

ZERO_THRESHOLD = float(np.float32(1e-35))
"""LightGBM's threshold between zero and non-zero when it samples values for its bins."""


@kernel
def gather_masked_rows(
    source: Array, rows: Array, masks: Array, column_bits: Array, fill: Any, lo: int, hi: int, out: Array
) -> None:
    """out[v] = source[rows[v]] with ``fill`` in the groups outside masks[v], v in [lo, hi); row-major source.

    ``column_bits[j]`` is the bit of column j's group, 0 for a base column. Every value is read and then kept or
    replaced, in base columns too: without a branch the loop is vectorised, and masks are too random to predict one.
    """
    for v in range(lo, hi):
        original, row_out, absent = source[rows[v]], out[v], ~masks[v]
        for j in range(original.size):
            value = original[j]
            row_out[j] = fill if absent & column_bits[j] else value


@kernel
def gather_masked_columns(
    source: Array, rows: Array, masks: Array, column_bits: Array, fill: Any, lo: int, hi: int, out: Array
) -> None:
    """The same for a column-major source: column by column within tiles, so that reads follow memory."""
    for tile in range(lo, hi, _TILE):
        for j in range(source.shape[1]):
            bit = column_bits[j]
            for v in range(tile, min(tile + _TILE, hi)):
                value = source[rows[v], j]
                out[v, j] = fill if ~masks[v] & bit else value


@kernel
def scatter_cells(values: Array, rows: Array, columns: Array, lo: int, hi: int, out: Array) -> None:
    """out[rows[i], columns[k]] = values[i, k] for i in [lo, hi); a cell holds one or several numbers."""
    for i in range(lo, hi):
        row_out = out[rows[i]]
        for k in range(columns.size):
            for c in range(values.shape[2]):
                row_out[columns[k], c] = values[i, k, c]


@kernel
def mask_indicators(masks: Array, lo: int, hi: int, out: Array) -> None:
    """out[v, g] = 1 if group g is in masks[v], else 0."""
    for v in range(lo, hi):
        for g in range(out.shape[1]):
            out[v, g] = (masks[v] >> np.uint64(g)) & _1


@kernel
def count_nonzero_columns(block: Array, counts_out: Array) -> None:
    """Add to counts_out[j] how many values of column j are not zero (NaN is not zero)."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            if not abs(block[i, j]) <= ZERO_THRESHOLD:
                counts_out[j] += 1


@kernel
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
