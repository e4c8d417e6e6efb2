"""Equal rows: hash each row, then give equal hashes the same cell number."""

from __future__ import annotations

import numpy as np

from .._arrays import Array
from .compiling import kernel
from .masks import mix64

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
