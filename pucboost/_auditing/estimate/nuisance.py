"""Cross-fitted models of outcome and availability.

For a mask S the people with A ⊇ S are looked at with everything outside S erased. Of K folds, each is predicted by
models that never saw it. The outcome model g and the availability model e are trained on *disjoint* halves of the other
folds: trained on the same rows their errors would be correlated (A and Y depend on each other given b), and the product
of errors that a doubly robust estimate leaves over would no longer average out. Then the halves change roles, and
both versions are averaged, so that every row helps either model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ..._arrays import Array
from ..._tables.containers import SourceTable
from ..._virtual.plan import child_seed, plan_masks
from ..._virtual.rows import MaskedRows, VirtualTable
from .inputs import People

N_FOLDS = 5
MAX_ROUNDS = 1_000
PATIENCE = 20
HOLDOUT = 0.2
"""Share of a model's training rows that early stopping watches."""

UNDERSMOOTH = 3.0
"""Rounds of a nuisance model, as a multiple of those that predict best.

What is left over in a doubly robust estimate is E[(e − ê)(g − ĝ)]. Errors of chance, made on disjoint rows, average out
there; what both models smooth away does not, and early stopping smooths. So both are grown well beyond the point where
they predict best: more chance, less bias (undersmoothing, as double cross-fitting allows).
"""

LIGHTGBM_PARAMS: Mapping[str, Any] = {
    "learning_rate": 0.2,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
    "feature_pre_filter": False,
}


def lightgbm_params(num_threads: int | None) -> dict[str, Any]:
    """Return LightGBM's parameters for models of the audit."""
    return dict(LIGHTGBM_PARAMS) if num_threads is None else {**LIGHTGBM_PARAMS, "num_threads": num_threads}


def random_folds(n: int, n_folds: int, seed: int, cluster: Array | None = None) -> Array:
    """Return the fold of each row, at random and of equal sizes; rows of a cluster stay together."""
    units = n if cluster is None else int(cluster.max()) + 1
    fold = np.random.default_rng(child_seed(seed, 1)).permutation(units) % n_folds
    return fold if cluster is None else fold[cluster]


class Learner(Protocol):
    """What fits one nuisance model on some rows of a masked table."""

    def fit(self, train: Array, target: Array, objective: Mapping[str, Any], seed: int) -> Callable[[Array], Array]:
        """Fit on the rows ``train`` of the table; return a function from row numbers to predictions."""


class LightGBMLearner:
    """Early-stopped LightGBM on masked rows; the bins are made once for all models of the table.

    Parameters
    ----------
    rows
        The people concerned, all but the groups in question erased.
    table
        The same people with weights and column types.
    params
        LightGBM parameters.
    undersmooth
        Factor on the number of rounds that predicts best.
    cluster
        Which rows belong together: early stopping must not watch rows whose like were trained on.
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
        # Names play no part here, and LightGBM does not take all of them.
        table = replace(table, feature_name="auto")
        self._rows, self._weight, self._params, self._undersmooth = rows, table.weight, dict(params), undersmooth
        self._binned = VirtualDataset(VirtualTable(rows, table), params=self._params).construct()

    def fit(self, train: Array, target: Array, objective: Mapping[str, Any], seed: int) -> Callable[[Array], Array]:
        """Fit on the rows ``train``; return a function from row numbers to predictions."""
        booster = self.train(train, target, objective, seed)
        return lambda index: self._predict(booster, index)

    def train(self, train: Array, target: Array, objective: Mapping[str, Any], seed: int) -> Any:
        """Train a booster on the rows ``train``, a fifth of them held out for early stopping."""
        import lightgbm as lgb

        loss = {key: value for key, value in objective.items() if key != "availability"}
        params = {**self._params, **loss, "seed": seed % 2**31}
        fit, stop = self._split(train, seed)
        if len(fit) == 0 or (target[fit] == target[fit[0]]).all():
            fit = np.sort(train)  # rare events, or the only cluster, that early stopping would have taken away
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


@dataclass(frozen=True)
class Estimators:
    """scikit-learn estimators to use instead of LightGBM."""

    outcome: Any
    sharing: Any


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

    def __init__(self, rows: MaskedRows, table: SourceTable, erased: list[int], estimators: Estimators) -> None:
        self._X, self._weight = np.delete(rows.materialise(), erased, axis=1), table.weight
        self._estimators = estimators

    def fit(self, train: Array, target: Array, objective: Mapping[str, Any], seed: int) -> Callable[[Array], Array]:
        """Fit a clone on the rows ``train``."""
        from sklearn.base import clone

        model = clone(self._estimators.sharing if "availability" in objective else self._estimators.outcome)
        weight = {} if self._weight is None else {"sample_weight": self._weight[train]}
        model.fit(self._X[train], target[train], **weight)
        if hasattr(model, "predict_proba"):
            return lambda index: np.asarray(model.predict_proba(self._X[index])[:, 1])
        return lambda index: np.asarray(model.predict(self._X[index]))


class CrossFitter:
    """Fits nuisance models on masked views of the people, fold by fold.

    Parameters
    ----------
    people
        The audit data.
    nuisance
        LightGBM parameters that replace the defaults, or :class:`Estimators`.
    n_folds, seed, num_threads
        Folds, seed, threads.
    on_fit
        Called after each fit, for a progress display.
    """

    def __init__(
        self,
        people: People,
        nuisance: Mapping[str, Any] | Estimators,
        n_folds: int,
        seed: int,
        num_threads: int | None,
        on_fit: Callable[[], None] = lambda: None,
    ) -> None:
        self.people, self._nuisance, self.n_folds, self.seed = people, nuisance, n_folds, seed
        self._threads, self.on_fit = num_threads, on_fit
        self.fold = random_folds(len(people), n_folds, seed, people.cluster)
        weight = None if bool((people.weight == 1).all()) else people.weight
        self._table = SourceTable.of(people.source, people.y, weight, name="the audit data")

    def view(self, mask: int) -> View:
        """Return everybody who shares at least ``mask``, with every group outside it erased."""
        rows = self.people.at_least(mask)
        return self._view(rows, np.full(len(rows), mask, dtype=np.uint64), mask, self._nuisance)

    def reference_view(self, shown: Array) -> View:
        """Return everybody with the masks given, for models of reference: LightGBM's, as good as they predict."""
        return self._view(np.arange(len(self.people)), shown, 0, {}, undersmooth=1.0)

    def _view(
        self,
        rows: Array,
        shown: Array,
        mask: int,
        nuisance: Mapping[str, Any] | Estimators,
        undersmooth: float = UNDERSMOOTH,
    ) -> View:
        consent, table = self.people.consent, self._table.subset(rows)
        stream = MaskedRows(table.source, consent, plan_masks(shown, "none"), num_threads=self._threads)
        cluster = None if self.people.cluster is None else self.people.cluster[rows]
        learner: Learner
        if isinstance(nuisance, Estimators):
            learner = EstimatorLearner(stream, table, consent.columns_outside(mask), nuisance)
        else:
            params = {**lightgbm_params(self._threads), **nuisance}
            learner = LightGBMLearner(stream, table, params, undersmooth, cluster)
        return View(self, learner, rows)


@dataclass(frozen=True)
class View:
    """Some people as a learner sees them."""

    fitter: CrossFitter
    learner: Learner
    rows: Array

    def halves(self, k: int) -> tuple[Array, Array, Array]:
        """Return the rows of fold k, and the two halves of the other folds, as positions in :attr:`rows`."""
        fold, n_folds = self.fitter.fold[self.rows], self.fitter.n_folds
        # Which folds make up a half changes with k, so that no pair of folds is always on the same side.
        place = (fold - k - 1) % n_folds
        first = place < (n_folds - 1) // 2
        inside = fold == k
        return np.flatnonzero(inside), np.flatnonzero(first & ~inside), np.flatnonzero(~first & ~inside)

    def cross_fit(self, target: Array, objective: Mapping[str, Any], half: int | None = None) -> Array:
        """Predict ``target`` for each of the rows by models trained without its fold.

        Parameters
        ----------
        target
            One value per row of the view.
        objective
            LightGBM's objective; ``availability`` marks a model of who shares.
        half
            Train on the first (0) or second (1) half of the other folds alone; None means on both.
        """
        out = np.empty(len(self.rows))
        for k in range(self.fitter.n_folds):
            inside, *parts = self.halves(k)
            train = np.sort(np.concatenate(parts)) if half is None else parts[half]
            if len(inside):
                seed = child_seed(self.fitter.seed, 100 + 10 * k + (0 if half is None else half + 1))
                out[inside] = self._fit(train, target, objective, seed)(inside)
            self.fitter.on_fit()
        return out

    def _fit(self, train: Array, target: Array, objective: Mapping[str, Any], seed: int) -> Callable[[Array], Array]:
        values = target[train]
        if len(train) < 2 or (values == values[0]).all():
            constant = float(values[0]) if len(train) else 0.0
            return lambda index: np.full(len(index), constant)
        return self.learner.fit(train, target, objective, seed)


AVAILABILITY: Mapping[str, Any] = {"objective": "binary", "availability": True}
"""The objective of a model of who shares."""


def fit_reference(
    train: SourceTable,
    shown_train: Array,
    people: People,
    shown: Array,
    objective: Mapping[str, Any],
    seed: int,
    num_threads: int | None,
) -> Array:
    """Train one early-stopped model on a training table and predict the people; ``shown`` masks say what it sees."""
    seen = MaskedRows(train.source, people.consent, plan_masks(shown_train, "none"), num_threads=num_threads)
    if (train.label == train.label[0]).all():
        return np.full(len(people), float(train.label[0]))
    learner = LightGBMLearner(seen, train, lightgbm_params(num_threads))
    booster = learner.train(np.arange(len(train.label)), train.label.astype(np.float64), objective, seed)
    rows = MaskedRows(people.source, people.consent, plan_masks(shown, "none"), num_threads=num_threads)
    return np.concatenate([booster.predict(batch) for _, batch in rows.batches()])
