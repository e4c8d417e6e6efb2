"""Forests made at random, to compare kernels with their twins."""

from __future__ import annotations

from typing import Any

import numpy as np
from twins import trees as naive_trees

from pucboost._engines.trees import Forest

READINGS = range(5)
ODD = [
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-36, -1e-36, 5e-324, 1e-40, 0.5, -0.5, -1.0, 1.0, 1.7, 2.0, 3.0, 6.0, 1e30,
    -1e30, 2.0**31, 1e300,
]  # fmt: skip
"""Values at which readings and engines differ, among them the thresholds of :func:`random_forest`."""


def odd_table(rng: Any, n: int, n_columns: int, dtype: Any = np.float64) -> Any:
    """Return a table in which half the values are odd."""
    with np.errstate(over="ignore", under="ignore"):
        return np.where(
            rng.random((n, n_columns)) < 0.5, rng.choice(ODD, (n, n_columns)), rng.normal(size=(n, n_columns))
        ).astype(dtype)


def random_tree(rng: Any, n_leaves: int, chain: bool = False) -> tuple[list[int], list[int]]:
    """Return the children of a tree; the nodes are in no order except that the root is the first."""
    left, right, leaves = [-1], [-1], [0]
    while len(leaves) < n_leaves:
        node = leaves.pop(-1 if chain else int(rng.integers(len(leaves))))
        left[node], right[node] = len(left), len(left) + 1
        leaves += [left[node], right[node]]
        left += [-1, -1]
        right += [-1, -1]
    return left, right


def random_forest(
    rng: Any, sizes: list[int], n_columns: int = 6, n_outputs: int = 1, dtype: Any = np.float64, chain: bool = False
) -> Forest:
    """Return trees with so many leaves, every kind of node in them."""
    shapes = [random_tree(rng, n, chain) for n in sizes]
    n = sum(len(left) for left, _ in shapes)
    counts = rng.integers(1, 6, n)
    return Forest(
        n_columns=n_columns,
        start=rng.normal(size=n_outputs).astype(dtype),
        tree_start=np.cumsum([0, *(len(left) for left, _ in shapes)]),
        output=np.arange(len(sizes)) % n_outputs,
        left=np.concatenate([left for left, _ in shapes]),
        right=np.concatenate([right for _, right in shapes]),
        column=rng.integers(0, n_columns, n),
        reading=rng.integers(0, len(READINGS), n).astype(np.uint8),
        threshold=rng.choice([-1.0, -0.5, 0.0, 1e-36, 0.5, 1.0, 1e30], n).astype(dtype),
        missing_left=rng.random(n) < 0.5,
        category_start=np.cumsum(counts) - counts,
        category_count=counts,
        goes_left=rng.random(counts.sum()) < 0.5,
        value=rng.normal(size=n).astype(dtype),
        response=None,
        zero=float(np.float32(1e-35)),
    )


def walked(forest: Forest, table: Any, groups: Any, masks: Any) -> Any:
    """Return the scores of all people under all masks by the twin: rows × masks × outputs."""
    out = np.empty((len(table), len(masks), len(forest.start)), dtype=forest.start.dtype)
    with np.errstate(over="ignore", under="ignore"):
        for i, row in enumerate(table):
            for k, mask in enumerate(masks):
                masked = [
                    np.nan if g >= 0 and not int(mask) >> int(g) & 1 else x for x, g in zip(row, groups, strict=True)
                ]
                out[i, k] = naive_trees.scores(forest, masked)
    return out
