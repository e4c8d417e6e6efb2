"""Random trees over the columns of a pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from pucboost._engines.native.pool import CodeTree


def random_tree(leaves: int, n_columns: int, seed: int, *, sets: float = 0.0, balanced: bool = False) -> CodeTree:
    """Return a tree that splits random leaves on random codes, a share ``sets`` of them by sets of codes."""
    generator = np.random.default_rng(seed)
    n = leaves - 1
    left, right = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    owner: dict[int, tuple[Any, int]] = {}
    for node in range(n):
        split = min(owner, default=0) if balanced else int(generator.integers(0, node + 1))
        if node:
            array, parent = owner.pop(split)
            array[parent] = node
        left[node], right[node] = ~split, ~(node + 1)
        owner[split], owner[node + 1] = (left, node), (right, node)
        if balanced:  # the leaf that was split last comes last
            owner[split] = owner.pop(split)
    return CodeTree(
        column=generator.integers(0, n_columns, n),
        first_right=generator.integers(0, 256, n).astype(np.uint8),
        span=generator.integers(0, 256, n).astype(np.uint8),
        in_set=generator.random(n) < sets,
        right_set=generator.integers(0, 2**64, (n, 4), dtype=np.uint64),
        left=left,
        right=right,
    )
