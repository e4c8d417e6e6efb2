"""Augmentation written straight from the paper's definitions, row by row, as an oracle.

Nothing here is shared with the package.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np


def shared_groups(row: Any, groups: list[list[int]]) -> list[int]:
    return [g for g, columns in enumerate(groups) if any(not math.isnan(row[c]) for c in columns)]


def erase(row: Any, keep: set[int], groups: list[list[int]]) -> list[float]:
    out = [float(v) for v in row]
    for g, columns in enumerate(groups):
        if g not in keep:
            for c in columns:
                out[c] = math.nan
    return out


def exhaustive(X: Any, y: Any, groups: list[list[int]]) -> list[tuple[list[float], float, int]]:
    """Every instance is expanded into its 2^|I(a)| copies."""
    out = []
    for i, row in enumerate(X):
        shared = shared_groups(row, groups)
        for size in range(len(shared) + 1):
            subsets = itertools.combinations(shared, size)
            out += [(erase(row, set(keep), groups), float(y[i]), i) for keep in subsets]
    return out


def fixed_size(X: Any, y: Any, groups: list[list[int]], n: int, seed: int) -> list[tuple[list[float], float, int]]:
    """PUCIDA: (1) draw with probability ∝ 2^|I(a)|, (2) drop each available feature with probability ½."""
    rng = np.random.default_rng(seed)
    shared = [shared_groups(row, groups) for row in X]
    weight = np.array([2.0 ** len(s) for s in shared])
    out = []
    for i in rng.choice(len(X), size=n, p=weight / weight.sum()):
        keep = {g for g in shared[i] if rng.random() < 0.5}
        out.append((erase(X[i], keep, groups), float(y[i]), int(i)))
    return out
