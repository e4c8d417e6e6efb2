"""Split conformal intervals under consent with loops, one person and one candidate at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Score = Callable[[Any, int, Any], float]
"""Takes what a person shares after masking, the person's number and an outcome."""


def masked(row: Any, groups: list[list[int]], shared: set[int]) -> Any:
    out = [float(value) for value in row]
    for g, columns in enumerate(groups):
        for j in columns:
            if g not in shared:
                out[j] = math.nan
    return out


def shares(row: Any, groups: list[list[int]]) -> set[int]:
    return {g for g, columns in enumerate(groups) if any(not math.isnan(row[j]) for j in columns)}


def threshold(X: Any, y: Any, groups: list[list[int]], wanted: set[int], level: float, score: Score) -> float | None:
    """The k-th smallest score of those who share at least the set; None if 5 cannot be expected beyond it."""
    scores = sorted(
        score(masked(row, groups, wanted), i, y[i]) for i, row in enumerate(X) if wanted <= shares(row, groups)
    )
    n = len(scores)
    if (n + 1) * (1 - level) < 5 - 1e-9:
        return None
    return scores[math.ceil((n + 1) * level - 1e-9) - 1]


def adaptive(chances: Any, label: int, uniform: float | None = None) -> float:
    """The probability of the classes that are likelier, and a share of the class's own unless it is the likeliest."""
    total = sum(chances)
    order = sorted(range(len(chances)), key=lambda k: (-chances[k], k))
    before = sum(chances[k] for k in order[: order.index(label)])
    own = 0.0 if uniform is None or label == order[0] else uniform * chances[label]
    return float((before + own) / total)
