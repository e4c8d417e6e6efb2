"""Training and the model's text agree on every value: the scores kept in training are what the saved model predicts.

The bins come from a sample, and a table holds values that are not in it: missing ones, infinite ones, categories, pairs
of columns that are otherwise never seen together. Codes and text must read them alike, as LightGBM reads the text.
"""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import pucboost as puc

N = 600
ODD = [np.inf, -np.inf, 1e308, -1e308, 3.5e38, 1e300, 1e301, 5e-324, -5e-324, 1e-36, -1e-36, 0.0, -0.0, np.nan]
ODD_CATEGORIES = [-1.0, -0.5, 0.5, 3.7, 2.0**31, 1e18, np.inf, -np.inf, 200_000.0, 200_001.0, np.nan, 77.0, 78.0]

SMALL_CATEGORIES = [one for one in ODD_CATEGORIES if not 1e5 < one < 1e6]
"""Of an optional column rare ones are one in training; a model's set of them does not reach very large numbers."""


def odd_table(rng: np.random.Generator) -> Any:
    """Return numbers, small whole numbers, categories and sparse columns, each with some values of all kinds."""
    columns = [
        rng.normal(size=N), np.round(rng.normal(size=N)), rng.normal(size=N), rng.poisson(2.0, N),
        rng.choice(12, N, p=np.arange(1, 13) / 78.0), rng.choice(6, N),
        *(np.where(rng.random(N) < 0.06, rng.poisson(3.0, N), 0.0) for _ in range(6)),
    ]  # fmt: skip
    X = np.column_stack(columns).astype(float)
    for j in range(X.shape[1]):
        values = {4: ODD_CATEGORIES, 5: SMALL_CATEGORIES}.get(j, ODD)
        rows = rng.random(N) < rng.choice([0.0, 0.01, 0.1])
        X[rows, j] = rng.choice(values, rows.sum())
    X[rng.random(N) < 0.4, 2] = np.nan
    X[np.ix_(rng.random(N) < 0.3, [5, 9, 10, 11])] = np.nan
    return X


CATEGORICAL, OPTIONAL = [4, 5], {"a": [2], "b": [5, 9, 10, 11]}


class Kept:
    """A metric that keeps the scores it sees."""

    scores: Any = None

    def __call__(self, scores: Any, data: Any) -> tuple[str, float, bool]:
        self.scores = scores.copy()
        return "none", 0.0, False


@pytest.mark.parametrize("sample", [50, N])
def test_scores_in_training_are_those_of_the_saved_model(sample: int) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = odd_table(rng), rng.normal(size=N)
        with np.errstate(over="ignore"):
            y += 2.0 * np.isnan(X).sum(axis=1) + np.isinf(X).sum(axis=1) + (X[:, 6:] > 0) @ rng.normal(size=6)
        settings: dict[str, Any] = {"augmentation": "exhaustive", "optional": OPTIONAL, "seed": seed}
        params = {
            "engine": "native", "verbosity": -1, "metric": "None", "bin_construct_sample_cnt": sample, "num_threads": 1,
            "min_data_in_leaf": 3, "min_data_per_group": 5, "cat_smooth": 1.0, "num_leaves": 24, "learning_rate": 0.5,
            "zero_as_missing": seed % 4 == 3, "max_bin": int(rng.choice([8, 63, 255])), "min_data_in_bin": 1,
        }  # fmt: skip
        if params["zero_as_missing"]:
            X[np.abs(X) < 1e-30] = 0.0
            X[:, CATEGORICAL] = np.where(np.abs(X[:, CATEGORICAL]) < 1, 1.0, X[:, CATEGORICAL])
        data, kept = puc.Dataset(X, y, categorical_feature=CATEGORICAL), Kept()
        booster = puc.train({**params, **settings}, data, 12, valid_sets=[data], feval=kept)
        if params["zero_as_missing"]:
            X = np.where(X == 0, np.nan, X)
        rows, *_ = puc.augment(X, y, **settings)
        told = lgb.Booster(model_str=booster.model_to_string()).predict(rows, raw_score=True)
        assert len(told) == len(kept.scores)
        off = np.flatnonzero(~np.isclose(kept.scores, told, rtol=1e-5, atol=1e-4))
        assert not len(off), (seed, len(off), rows[off[0]], kept.scores[off[0]], told[off[0]])
