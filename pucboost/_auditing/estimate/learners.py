"""Learners that fit one nuisance model on masked rows: LightGBM, or an estimator of the user's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from ..._arrays import Array
from ..._tables.containers import SourceTable
from ..._virtual.plan import child_seed
from ..._virtual.rows import MaskedRows, VirtualTable
from ..settings import NuisanceEstimators

MAX_ROUNDS = 1_000
PATIENCE = 20
HOLDOUT = 0.2
"""Share of a model's training rows that early stopping watches."""

LIGHTGBM_PARAMS: Mapping[str, Any] = {
    "learning_rate": 0.2,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
    "feature_pre_filter": False,
}


@dataclass(frozen=True)
class NuisanceLoss:
    """Which of the two nuisance models is fitted, and LightGBM's objective for it."""

    model: Literal["outcome", "availability"]
    lightgbm_params: Mapping[str, Any]


AVAILABILITY = NuisanceLoss("availability", {"objective": "binary"})
"""Predicts who shares."""
EVENT = NuisanceLoss("outcome", {"objective": "binary"})
"""Predicts outcomes that are 0 or 1."""


def lightgbm_params(num_threads: int | None) -> dict[str, Any]:
    """Return LightGBM's parameters for the models an audit fits."""
    return dict(LIGHTGBM_PARAMS) if num_threads is None else {**LIGHTGBM_PARAMS, "num_threads": num_threads}


class Learner(Protocol):
    """What fits one nuisance model on some rows of a masked table."""

    def fit(self, train: Array, target: Array, loss: NuisanceLoss, seed: int) -> Callable[[Array], Array]:
        """Fit on the rows ``train`` of the table; return a function from row numbers to predictions."""


class LightGBMLearner:
    """Early-stopped LightGBM on masked rows; the bins are made once for all models of the table.

    Parameters
    ----------
    rows
        The people to learn from, with the other groups erased.
    table
        The same people with weights and column types.
    params
        LightGBM parameters.
    undersmooth
        Factor on the number of rounds that predicts best.
    cluster
        Which rows belong together: early stopping must not watch rows of a cluster that was trained on.
    """

    def __init__(
        self,
        rows: MaskedRows,
        table: SourceTable,
        params: Mapping[str, Any],
        undersmooth: float = 1.0,
        cluster: Array | None = None,
    ) -> None:
        from ..._engines.lightgbm_dataset import VirtualDataset

        self._cluster = cluster
        # Names are not needed here, and LightGBM refuses some of them.
        table = replace(table, feature_name="auto")
        self._rows, self._weight, self._params, self._undersmooth = rows, table.weight, dict(params), undersmooth
        self._binned = VirtualDataset(VirtualTable(rows, table), params=self._params).construct()

    def fit(self, train: Array, target: Array, loss: NuisanceLoss, seed: int) -> Callable[[Array], Array]:
        """Fit on the rows ``train``; return a function from row numbers to predictions."""
        booster = self.train(train, target, loss.lightgbm_params, seed)
        return lambda index: self._predict(booster, index)

    def train(self, train: Array, target: Array, objective: Mapping[str, Any], seed: int) -> Any:
        """Train a booster on the rows ``train``, a fifth of them held out for early stopping."""
        import lightgbm as lgb

        params = {**self._params, **objective, "seed": seed % 2**31}
        fit, stop = self._split(train, seed)
        if len(fit) == 0 or (target[fit] == target[fit[0]]).all():
            fit = np.sort(train)  # else early stopping would take away all rare events, or the only cluster
        booster = lgb.train(
            params,
            self._part(fit, target),
            MAX_ROUNDS,
            valid_sets=[self._part(stop, target)],
            callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
            keep_training_booster=True,
        )
        rounds = math.ceil(self._undersmooth * booster.best_iteration)
        while booster.current_iteration() < rounds and not booster.update():
            pass
        booster.best_iteration = min(rounds, booster.current_iteration())
        return booster

    def _split(self, train: Array, seed: int) -> tuple[Array, Array]:
        """Return the rows to fit and those early stopping watches."""
        units = train if self._cluster is None else np.unique(self._cluster[train])
        order = np.random.default_rng(child_seed(seed, 2)).permutation(len(units))
        held = units[order[: max(1, int(HOLDOUT * len(units)))]]
        watched = np.isin(train if self._cluster is None else self._cluster[train], held)
        return np.sort(train[~watched]), np.sort(train[watched])

    def _part(self, index: Array, target: Array) -> Any:
        part = self._binned.subset(index.tolist()).construct()
        part.set_label(target[index])
        if self._weight is not None:
            part.set_weight(self._weight[index])
        return part

    def _predict(self, booster: Any, index: Array) -> Array:
        step = self._rows.batch_rows
        parts = [booster.predict(self._rows.take(index[lo : lo + step])) for lo in range(0, len(index), step)]
        return np.concatenate(parts)


class EstimatorLearner:
    """A scikit-learn estimator in place of LightGBM; it gets the visible columns as a matrix.

    Parameters
    ----------
    rows, table
        As for :class:`LightGBMLearner`.
    erased
        Positions of the columns that are erased.
    estimators
        For outcomes and for availability; cloned before use.
    """

    def __init__(self, rows: MaskedRows, table: SourceTable, erased: list[int], estimators: NuisanceEstimators) -> None:
        self._X, self._weight = np.delete(rows.materialise(), erased, axis=1), table.weight
        self._estimators = estimators

    def fit(self, train: Array, target: Array, loss: NuisanceLoss, seed: int) -> Callable[[Array], Array]:
        """Fit a clone on the rows ``train``."""
        from sklearn.base import clone

        availability = loss.model == "availability"
        model = clone(self._estimators.availability if availability else self._estimators.outcome)
        weight = {} if self._weight is None else {"sample_weight": self._weight[train]}
        model.fit(self._X[train], target[train], **weight)
        if hasattr(model, "predict_proba"):
            return lambda index: np.asarray(model.predict_proba(self._X[index])[:, 1])
        return lambda index: np.asarray(model.predict(self._X[index]))
