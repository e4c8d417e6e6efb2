"""Readable twin of ``puc.explain``: the game by its definition, a prediction for every mixture of two rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def shapley_values(
    score: Callable[[Any], Any], person: Any, background: Any, player_of_column: Sequence[int]
) -> tuple[list[Any], Any]:
    """What each player adds to the score of a person, and the mean score of the background.

    v(C) is the mean score of the background rows that have the person's values in the columns of C.
    """
    player_of_column = np.asarray(player_of_column)
    players = range(int(player_of_column.max()) + 1)

    def v(coalition: tuple[int, ...]) -> Any:
        return np.mean(score(np.where(np.isin(player_of_column, coalition), person, background)), axis=0)

    worth = {c: v(c) for size in range(len(players) + 1) for c in itertools.combinations(players, size)}
    values = []
    for j in players:
        total = 0.0
        for coalition in worth:
            if j not in coalition:
                s, n = len(coalition), len(players)
                weight = math.factorial(s) * math.factorial(n - s - 1) / math.factorial(n)
                total += weight * (worth[tuple(sorted((*coalition, j)))] - worth[coalition])
        values.append(total)
    return values, worth[()]
