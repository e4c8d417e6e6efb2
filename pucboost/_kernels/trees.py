"""Trees and the values they test: the order of leaves, and what a node sees of a number."""

from __future__ import annotations

import numpy as np

from .._arrays import Array
from .compiling import kernel

# How a number becomes what a node tests.
READ_AS_IT_IS, READ_NAN_AS_ZERO, READ_ZERO_AS_NAN, READ_CATEGORY, READ_CATEGORY_FROM_ZERO = range(5)
MISSING_CATEGORY, OTHER_CATEGORY = -1.0, 2.0**31
"""What stands for a missing category, and for one that no model can know."""


@kernel
def order_leaves(
    left: Array,
    right: Array,
    tree_start: Array,
    lo: int,
    hi: int,
    first_out: Array,
    middle_out: Array,
    leaves_out: Array,
) -> None:
    """Number the leaves of the trees [lo, hi) from left to right.

    A leaf has left < 0; children are numbered within their tree and exist. Writes for each leaf its number to
    ``first_out``, for each inner node the range [first, middle) of the leaves to its left, and for each tree the number
    of its leaves, or −1 if some node is reached twice. ``first_out`` must hold −1; nodes that are not reached keep it.
    """
    for t in range(lo, hi):
        root = tree_start[t]
        waiting = np.empty(tree_start[t + 1] - root, dtype=np.int64)  # inner nodes whose right side is still to come
        depth, node, leaves = 0, 0, 0
        while True:
            if first_out[root + node] >= 0:
                leaves = -1
                break
            first_out[root + node] = leaves
            if left[root + node] >= 0:
                waiting[depth] = node
                depth += 1
                node = left[root + node]
                continue
            leaves += 1
            if depth == 0:
                break
            depth -= 1
            parent = waiting[depth]
            middle_out[root + parent] = leaves
            node = right[root + parent]
        leaves_out[t] = leaves


@kernel
def _read(x: float, reading: int, zero: float) -> float:
    missing = x != x
    if abs(x) <= zero:
        x = 0.0
    if reading == READ_NAN_AS_ZERO:
        return 0.0 if missing else x
    if reading == READ_ZERO_AS_NAN:
        return np.nan if x == 0.0 else x
    if reading in (READ_CATEGORY, READ_CATEGORY_FROM_ZERO):
        if missing:
            return MISSING_CATEGORY
        lowest = -1.0 if reading == READ_CATEGORY else 0.0
        inside = x < OTHER_CATEGORY and (x > lowest or x == 0.0)
        return np.trunc(x) if inside else OTHER_CATEGORY
    return x


@kernel
def read_values(
    block: Array, columns: Array, readings: Array, zero: float, lo: int, hi: int, values_out: Array
) -> None:
    """values_out[j, i] = what nodes see of column ``columns[j]`` in row i of ``block``, for i in [lo, hi).

    Numbers up to ``zero`` in size are read as 0. A category is cut to a whole number; what lies between −1 and 0 is
    category 0 for :data:`READ_CATEGORY` and unknown for :data:`READ_CATEGORY_FROM_ZERO`.
    """
    for j in range(columns.size):
        column, reading = columns[j], readings[j]
        for i in range(lo, hi):
            values_out[j, i] = _read(values_out.dtype.type(block[i, column]), reading, zero)


@kernel
def any_beyond(block: Array, largest: float, lo: int, hi: int, found_out: Array) -> None:
    """Set found_out[0] if a value of the rows [lo, hi) is larger than ``largest`` in size; NaN is not."""
    found = False
    for i in range(lo, hi):
        for j in range(block.shape[1]):
            found |= abs(block[i, j]) > largest
    if found:
        found_out[0] = True
