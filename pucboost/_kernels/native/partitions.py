"""Rows of a leaf, moved to the places of its two children."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._arrays import Array
from ..compiling import kernel


@kernel(error_model="numpy")
def goes_right(code: Any, first_right: Any, span: Any) -> Any:
    """Return whether first_right ≤ code ≤ first_right + span, as one comparison of bytes that wrap around."""
    return np.uint8(code - first_right) <= span


@kernel(error_model="numpy")
def _right(code: Any, first_right: Any, span: Any, in_set: Any, right_set: Array) -> Any:
    """Return 1 if the lowest byte is a code that goes right, else 0."""
    if in_set:
        code &= np.uint64(255)
        return (right_set[code >> np.uint64(6)] >> (code & np.uint64(63))) & np.uint64(1)
    return np.uint64(goes_right(np.uint8(code), first_right, span))


@kernel(error_model="numpy")
def partition(
    codes: Array, packed: Array, lo: Any, hi: Any, column: Any, first_right: Any, span: Any, in_set: Any,
    right_set: Array, codes_out: Array, packed_out: Array,
) -> Any:  # fmt: skip
    """Copy the rows lo … hi − 1: those that go left to the front, the others to the back. Return where these begin."""
    word, shift = np.uint64(column >> 3), np.uint64(8 * (column & 7))
    words = np.uint64(codes.shape[1])
    one = np.uint64(1)
    front, back = np.uint64(lo), np.uint64(hi) - one
    if words == np.uint64(4):  # columns between 25 and 32 are common, and known to the compiler they cost half
        for i in range(np.uint64(lo), np.uint64(hi)):
            right = _right(codes[i, word] >> shift, first_right, span, in_set, right_set)
            to = back if right else front
            for k in range(np.uint64(4)):
                codes_out[to, k] = codes[i, k]
            packed_out[to] = packed[i]
            front += one - right
            back -= right
        return np.int64(front)
    for i in range(np.uint64(lo), np.uint64(hi)):
        right = _right(codes[i, word] >> shift, first_right, span, in_set, right_set)
        to = back if right else front
        for k in range(words):
            codes_out[to, k] = codes[i, k]
        packed_out[to] = packed[i]
        front += one - right
        back -= right
    return np.int64(front)
