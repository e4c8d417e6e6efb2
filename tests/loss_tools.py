"""Every loss, with labels it is made for, and tables to train it on."""

from __future__ import annotations

from typing import Any

import numpy as np

from pucboost.objectives import Gamma, Logistic, Objective, Poisson, Quantile, Softmax, SquaredError, Tweedie

Array = np.ndarray[Any, Any]

K = 4

EVERY: list[Objective] = [
    SquaredError(),
    Logistic(),
    Softmax(K),
    Softmax(3, hessian_factor=2.0),
    Poisson(),
    Gamma(),
    Tweedie(1.3),
    Tweedie(1.0),
    Quantile(0.3),
]

LIGHTGBM: dict[str, Any] = {
    "verbosity": -1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "num_leaves": 15,
    "seed": 1,
}

XGBOOST: dict[str, Any] = {"nthread": 1, "max_depth": 4, "seed": 1, "verbosity": 0}

N, ROUNDS = 1_000, 10


def some_labels(objective: Objective, rng: np.random.Generator, signal: Array) -> Array:
    """Labels the loss is made for, around a signal; rounded to float32, because that is what the engines keep."""
    n = len(signal)
    if isinstance(objective, Logistic):
        chance = 1 / (1 + np.exp(-2 * signal))
        labels = chance if objective.soft_labels else rng.uniform(size=n) < chance
    elif isinstance(objective, Softmax):
        cuts = np.linspace(-0.5, 0.5, objective.n_classes - 1)
        labels = np.digitize(signal + 0.5 * rng.normal(size=n), cuts)
    elif isinstance(objective, Poisson):
        labels = rng.poisson(np.exp(signal))
    elif isinstance(objective, Gamma):
        labels = rng.gamma(2.0, np.exp(signal) / 2)
    elif isinstance(objective, Tweedie):
        labels = rng.poisson(np.exp(signal)) * rng.gamma(2.0, size=n)
    else:
        labels = signal + rng.normal(size=n)
    return np.asarray(labels, dtype=np.float32).astype(np.float64)


def some_rows(objective: Objective, n: int, seed: int = 0) -> tuple[Array, Array, Array]:
    """Scores, labels, weights."""
    rng = np.random.default_rng(seed)
    shape = (n,) if objective.n_scores == 1 else (n, objective.n_scores)
    score = rng.normal(size=shape)
    weight = rng.uniform(0.5, 2.0, size=n).astype(np.float32).astype(np.float64)
    return score, some_labels(objective, rng, rng.normal(size=n)), weight


def table(objective: Objective) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, 5))
    signal = 0.6 * X[:, 0] + 0.5 * np.sin(2 * X[:, 1]) + 0.3 * X[:, 2] * X[:, 3]
    return X, some_labels(objective, rng, signal), rng.uniform(0.5, 2.0, size=N).astype(np.float32)
