"""Readable twins of the kernels for trees, in plain Python. Slow on purpose; the tests compare the two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pucboost._kernels.leaf_sets import (
    MISSING_CATEGORY,
    OTHER_CATEGORY,
    READ_CATEGORY,
    READ_CATEGORY_FROM_ZERO,
    READ_NAN_AS_ZERO,
    READ_ZERO_AS_NAN,
)


def leaves_from_left(left: Sequence[int], right: Sequence[int], node: int = 0) -> list[int]:
    """The leaves below a node, from left to right."""
    if left[node] < 0:
        return [node]
    return leaves_from_left(left, right, left[node]) + leaves_from_left(left, right, right[node])


def read(x: float, reading: int, zero: float) -> float:
    """What a node sees of a value."""
    if not math.isnan(x) and -zero <= x <= zero:
        x = 0.0
    if reading == READ_NAN_AS_ZERO:
        return 0.0 if math.isnan(x) else x
    if reading == READ_ZERO_AS_NAN:
        return math.nan if x == 0 else x
    if reading not in (READ_CATEGORY, READ_CATEGORY_FROM_ZERO):
        return x
    if math.isnan(x):
        return MISSING_CATEGORY
    if math.isinf(x) or int(x) >= OTHER_CATEGORY or int(x) < 0 or (x < 0 and reading == READ_CATEGORY_FROM_ZERO):
        return OTHER_CATEGORY
    return float(int(x))


def goes_left(forest: Any, node: int, x: float) -> bool:
    """Whether a value goes left at a node."""
    x = read(x, forest.reading[node], forest.zero)
    if forest.reading[node] in (READ_CATEGORY, READ_CATEGORY_FROM_ZERO):
        begin, count = int(forest.category_start[node]), int(forest.category_count[node])
        known = forest.goes_left[begin : begin + count]
        return bool(forest.missing_left[node] if x == MISSING_CATEGORY else known[min(int(x), count - 1)])
    return bool(forest.missing_left[node] if math.isnan(x) else x <= forest.threshold[node])


def scores(forest: Any, row: Sequence[Any]) -> list[Any]:
    """The raw scores of a row, one per output: every tree is walked from its root to a leaf."""
    total = list(forest.start)
    for tree, output in enumerate(forest.output):
        root = forest.tree_start[tree]
        node = root
        while forest.left[node] >= 0:
            x = forest.start.dtype.type(row[forest.column[node]])
            node = root + (forest.left if goes_left(forest, node, x) else forest.right)[node]
        total[output] += forest.value[node]
    return total


def slots(masks: Sequence[int], groups: Sequence[int]) -> list[int]:
    """Masks that agree on some groups get the same number."""
    seen: dict[int, int] = {}
    relevant = sum(1 << g for g in groups)
    return [seen.setdefault(mask & relevant, len(seen)) for mask in masks]


def logistic(score: float, slope: float = 1.0) -> float:
    return 1 / (1 + math.exp(-slope * score))


def softplus(score: float) -> float:
    return math.log1p(math.exp(score))


def softmax(scores_of_row: Sequence[float]) -> list[float]:
    largest = max(scores_of_row)
    shares = [math.exp(score - largest) for score in scores_of_row]
    total = 0.0
    for share in shares:  # from Python 3.12 on sum() corrects its rounding, which engines do not
        total += share
    return [share / total for share in shares]
