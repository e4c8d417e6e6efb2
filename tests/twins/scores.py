"""Readable twin of the kernels in ``native/kernels/gradients.py``: a row walks down a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pucboost._engines.native.kernels.codes import MISSING


def goes_right(tree: Any, node: int, code: int) -> bool:
    """Return where a node sends a code."""
    if tree.in_set[node]:
        return bool(int(tree.right_set[node][code // 64]) >> code % 64 & 1)
    return (code - int(tree.first_right[node])) % 256 <= int(tree.span[node])


def leaf_number(tree: Any, codes: Sequence[int], group: Sequence[int], mask: int) -> int:
    """Return the leaf of a row with the given codes, which shares the groups of the mask."""
    if len(tree.column) == 0:
        return 0
    node = 0
    while node >= 0:
        column = int(tree.column[node])
        withheld = group[column] >= 0 and not mask >> group[column] & 1
        right = goes_right(tree, node, MISSING if withheld else int(codes[column]))
        node = int(tree.right[node] if right else tree.left[node])
    return ~node
