"""What the tests of strategic users share: families, models and losses."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np
from scipy.special import expit

import pucboost as puc
from pucboost.simulate import DiscreteFamily

PARAMS = {"objective": "binary", "learning_rate": 0.1, "num_leaves": 15, "verbosity": -1, "num_threads": 1, "seed": 0}
LOSSES = {
    # E[L(Y, q)] if P(Y = 1) = p
    "squared": lambda p, q: p * (1 - q) ** 2 + (1 - p) * q**2,
    "log": lambda p, q: -(p * np.log(q) + (1 - p) * np.log(1 - q)),
}


def opened(family: DiscreteFamily) -> DiscreteFamily:
    """The same people, all sharing everything: its PUC predictions are E[Y | b, z_s]."""
    return replace(family, share=np.ones_like(family.share))


def clear_family() -> DiscreteFamily:
    """One optional feature of four levels, none of them near the average: everybody knows what to do."""
    logit = np.linspace(-1, 1, 6)[:, None] + np.array([-1.5, -0.5, 0.5, 1.5])
    value = np.exp(np.linspace(-0.2, 0.2, 6)[:, None] * np.arange(4.0))
    value = np.broadcast_to((value / value.sum(axis=1, keepdims=True))[None, :, None, :], (1, 6, 4, 4))
    return DiscreteFamily(np.full((2, 3), 1 / 6), value, expit(logit), np.ones((1, 4, 2, 2)))


def states(family: DiscreteFamily) -> tuple[np.ndarray, np.ndarray]:
    """All (b, z), and their probabilities."""
    sizes = [*family.cell.shape, *family.label.shape[1:]]
    X = np.array(list(itertools.product(*map(range, sizes))), dtype=np.float64)
    z = X[:, family.n_base :].astype(int)
    cell = np.ravel_multi_index(tuple(X[:, : family.n_base].astype(int).T), family.cell.shape)
    weight = family.cell.ravel()[cell]
    for i in range(family.n_optional):
        weight = weight * family.value[i, cell, z[:, i - 1] if i else 0, z[:, i]]
    assert abs(weight.sum() - 1) < 1e-9
    return X, weight


def protected(optional: Any, **params: Any) -> Any:
    """A fit by pucboost; merged rows are quick, and trees on all of them leave no noise of sampling."""
    given = {**PARAMS, "optional": optional, "compact": True, **params}
    return lambda X, y: puc.train(given, lgb.Dataset(X, y), 80)


def plain(X: Any, y: Any) -> lgb.Booster:
    return lgb.train(PARAMS, lgb.Dataset(X, y), 80)


def cell_means(n_cells: int, levels: int) -> Any:
    """The PUC estimator for one base and one optional column of small integers: means over all who share as much."""

    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        cell, shares = X[:, 0].astype(int), ~np.isnan(X[:, 1])
        base = np.bincount(cell, y, n_cells) / np.maximum(np.bincount(cell, minlength=n_cells), 1)
        code = (cell * levels + np.nan_to_num(X[:, 1]).astype(int))[shares]
        count = np.bincount(code, minlength=n_cells * levels)
        total = np.bincount(code, y[shares], n_cells * levels)
        # Where nobody was seen, the base quote.
        full = np.where(count > 0, total / np.maximum(count, 1), np.repeat(base, levels))

        def model(rows: np.ndarray) -> np.ndarray:
            b, z = rows[:, 0].astype(int), rows[:, 1]
            return np.where(np.isnan(z), base[b], full[b * levels + np.nan_to_num(z).astype(int)])

        return model

    return fit
