"""Trees on plain data, with nothing sampled: LightGBM's own, split by split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pucboost as puc

N = 3_000
TREES = 3
"""The first few: sooner or later two splits gain nearly the same, and rounding decides."""


def people(levels: int, rare: int, seed: int = 0) -> tuple[Any, Any]:
    """Return whole numbers, some missing, and categories; few values, so that each has a bin of its own.

    ``rare`` people have a category of their own, and a large outcome.
    """
    rng = np.random.default_rng(seed)
    X = np.column_stack([
        rng.integers(0, 40, N), rng.integers(0, 15, N), rng.integers(0, levels, N), rng.integers(0, 2, N),
    ]).astype(float)  # fmt: skip
    X[rng.random(N) < 0.3, 1] = np.nan
    X[rng.random(N) < 0.1, 3] = np.nan
    X[:rare, 2] = levels
    both = np.nan_to_num(X[:, 1], nan=-3.0) * np.nan_to_num(X[:, 3])
    signal = np.sin(X[:, 0] / 8) + 0.3 * both + 2 * np.cos(2 * X[:, 2])
    return X, signal + rng.normal(size=N) + 4 * (X[:, 2] == levels)


@pytest.mark.parametrize("levels", [2, 3, 4, 5, 12, 100])
def test_first_trees(levels: int) -> None:
    """Up to three categories, one against the others; else two sets. What gains nothing is not tried further down.

    A category without which 99 % of the people remain has no bin.
    """
    for objective in ("regression", "binary", "poisson"):
        if (levels, objective) != (100, "binary"):  # events of small categories: too many have the same means
            compare(levels, objective)
    # Rows are counted by hessians, and LightGBM rounds these numbers bin by bin: in small groups only squared error
    # agrees.
    for rare in (25, 60):
        compare(levels, "regression", rare)


def compare(levels: int, objective: str, rare: int = 0) -> None:
    X, y = people(levels, rare)
    label = {"regression": y, "binary": (y > 0).astype(float), "poisson": np.floor(np.exp(y / 2))}[objective]
    theirs, mine = (
        puc.train(
            {
                "engine": engine, "objective": objective, "optional": [3], "augmentation": "none", "num_leaves": 15,
                "learning_rate": 0.2, "min_data_per_group": 20, "num_threads": 1, "verbosity": -1, "seed": 1,
            },
            puc.Dataset(X, label, categorical_feature=[2]),
            TREES,
        ).trees_to_dataframe()
        for engine in ("lightgbm", "native")
    )  # fmt: skip
    splits, leaves = theirs.split_feature.notna(), theirs.split_feature.isna()
    assert 30 < splits.sum() <= TREES * 14
    for name in ("node_index", "split_feature", "count"):
        assert list(mine[name]) == list(theirs[name])
    by_set = splits & (theirs.decision_type == "==")
    assert by_set.any()
    assert list(mine.threshold[by_set]) == list(theirs.threshold[by_set])
    np.testing.assert_allclose(mine.split_gain[splits], theirs.split_gain[splits], rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(mine.value[leaves], theirs.value[leaves], rtol=1e-4, atol=1e-4)
