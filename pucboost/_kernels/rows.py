"""Rows: copies with the groups outside a mask erased, values that are not zero, and equal rows found by hashes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._common import Array
from .compiling import kernel
from .masks import mix64

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


# ----- equal rows: hash each row, then give equal hashes the same cell number

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xD1B54A32D192ED03)
_MISSING = np.uint64(0x7FF8DEADBEEF0001)


@kernel
def hash_rows(values: Array, bits: Array, extra: Array, lo: int, hi: int, hash_out: Array) -> None:
    """Write two independent 64-bit hashes of each row; every NaN counts as one value, and −0 as 0.

    ``bits`` are the same values as unsigned integers, ``extra`` is one more integer that belongs to the row. With 128
    bits, two different rows among 10⁹ collide with probability 10⁻²¹, so a hash stands for its row.
    """
    for i in range(lo, hi):
        first = mix64(extra[i] + _GOLDEN)
        second = mix64(extra[i] + _OTHER)
        for j in range(values.shape[1]):
            value = values[i, j]
            word = np.uint64(bits[i, j])
            if np.isnan(value):
                word = _MISSING
            elif value == 0:
                word = _0
            first = mix64((first ^ word) * _GOLDEN + _1)
            second = mix64((second + word) * _OTHER + _GOLDEN)
        hash_out[i, 0] = first
        hash_out[i, 1] = second


@kernel
def assign_cells(hashes: Array, first_row: int, slots: Array, keys: Array, n_cells: int, cell_out: Array) -> int:
    """Write the cell of each row; equal hashes share a cell. Return how many cells there are now.

    ``slots`` is an open-addressing table of cell numbers (−1: free) whose length is a power of 2; ``keys`` holds the
    two hashes of every cell. Both must have room. The rows begin at ``first_row`` in ``cell_out``.
    """
    mask = np.uint64(slots.size - 1)
    for i in range(hashes.shape[0]):
        a, b = hashes[i, 0], hashes[i, 1]
        slot = a & mask
        while True:
            cell = slots[slot]
            if cell < 0:
                slots[slot] = n_cells
                keys[n_cells, 0] = a
                keys[n_cells, 1] = b
                cell_out[first_row + i] = n_cells
                n_cells += 1
                break
            if keys[cell, 0] == a and keys[cell, 1] == b:
                cell_out[first_row + i] = cell
                break
            slot = (slot + _1) & mask
    return n_cells
