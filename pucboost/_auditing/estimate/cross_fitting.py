"""Cross-fitted models of outcome and availability.

For a mask S, take the people with A ⊇ S and erase everything outside S. Each of K folds is predicted by models that
never saw it. The outcome model g and the availability model e are trained on *disjoint* halves of the other folds.
Trained on the same rows, their errors would be correlated (A and Y depend on each other given b), and the product of
errors that remains in a doubly robust estimate would no longer average out. Then the halves swap roles, and both
versions are averaged, so that every row helps both models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._tables.containers import SourceTable
from ..._virtual.plan import child_seed, plan_masks
from ..._virtual.rows import MaskedRows
from ..settings import FittingOptions, NuisanceEstimators
from .learners import EstimatorLearner, Learner, LightGBMLearner, NuisanceLoss, lightgbm_params
from .people import AuditPeople

UNDERSMOOTH = 3.0
"""Rounds of a nuisance model, as a multiple of those that predict best.

A doubly robust estimate is off by E[(e − ê)(g − ĝ)]. Random errors, made on disjoint rows, average out there; what both
models smooth away does not, and early stopping smooths. So both are grown well beyond the point where they predict
best: more noise, less bias (undersmoothing, which double cross-fitting permits).
"""


def random_folds(n: int, n_folds: int, seed: int, cluster: Array | None = None) -> Array:
    """Assign rows to folds of equal size at random; rows of a cluster stay together."""
    units = n if cluster is None else int(cluster.max()) + 1
    fold = np.random.default_rng(child_seed(seed, 1)).permutation(units) % n_folds
    return fold if cluster is None else fold[cluster]


class CrossFitter:
    """Fits nuisance models on masked views of the people, fold by fold.

    Parameters
    ----------
    people
        The audit data.
    fitting
        Learner, folds, seed, threads.
    on_fit
        Called after each fit, for a progress display.
    """

    def __init__(self, people: AuditPeople, fitting: FittingOptions, on_fit: Callable[[], None] = lambda: None) -> None:
        self.people, self.fitting, self.on_fit = people, fitting, on_fit
        self.fold = random_folds(len(people), fitting.folds, fitting.seed, people.cluster)
        weight = None if bool((people.weight == 1).all()) else people.weight
        self._table = SourceTable.of(people.source, people.y, weight, name="the audit data")

    def view(self, mask: int) -> View:
        """Return everybody who shares at least ``mask``, with every group outside it erased."""
        rows = self.people.at_least(mask)
        return self._view(rows, np.full(len(rows), mask, dtype=np.uint64), mask, self.fitting.nuisance)

    def reference_view(self, shown: Array) -> View:
        """Return everybody with the masks given, for LightGBM reference models stopped where they predict best."""
        return self._view(np.arange(len(self.people)), shown, 0, {}, undersmooth=1.0)

    def _view(
        self,
        rows: Array,
        shown: Array,
        mask: int,
        nuisance: Mapping[str, Any] | NuisanceEstimators,
        undersmooth: float = UNDERSMOOTH,
    ) -> View:
        consent, table = self.people.consent, self._table.subset(rows)
        stream = MaskedRows(table.source, consent, plan_masks(shown, "none"), num_threads=self.fitting.num_threads)
        cluster = None if self.people.cluster is None else self.people.cluster[rows]
        learner: Learner
        if isinstance(nuisance, NuisanceEstimators):
            learner = EstimatorLearner(stream, table, consent.columns_outside(mask), nuisance)
        else:
            params = {**lightgbm_params(self.fitting.num_threads), **nuisance}
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
        fold, n_folds = self.fitter.fold[self.rows], self.fitter.fitting.folds
        # Which folds make up a half changes with k, so that no pair of folds is always on the same side.
        place = (fold - k - 1) % n_folds
        first = place < (n_folds - 1) // 2
        inside = fold == k
        return np.flatnonzero(inside), np.flatnonzero(first & ~inside), np.flatnonzero(~first & ~inside)

    def cross_fit(
        self,
        target: Array,
        loss: NuisanceLoss,
        half: int | None = None,
        start: Array | None = None,
        among: Array | None = None,
    ) -> Array:
        """Predict ``target`` for each of the rows by models trained without its fold.

        Parameters
        ----------
        target
            One value per row of the view.
        loss
            Which of the two models to fit, and with which objective.
        half
            Train on the first (0) or second (1) half of the other folds only; None means on both.
        start
            Predictions to begin with, one per row of the view.
        among
            Train on some of the rows of the view only; None means on all.
        """
        out = np.empty(len(self.rows))
        for k in range(self.fitter.fitting.folds):
            inside, *parts = self.halves(k)
            train = np.sort(np.concatenate(parts)) if half is None else parts[half]
            train = train if among is None else np.intersect1d(train, among)
            if len(inside):
                seed = child_seed(self.fitter.fitting.seed, 100 + 10 * k + (0 if half is None else half + 1))
                out[inside] = self.fit(train, target, loss, seed, start)(inside)
            self.fitter.on_fit()
        return out

    def skip(self) -> None:
        """Report a cross-fit that was not needed as done."""
        for _ in range(self.fitter.fitting.folds):
            self.fitter.on_fit()

    def fit(
        self, train: Array, target: Array, loss: NuisanceLoss, seed: int, start: Array | None = None
    ) -> Callable[[Array], Array]:
        """Fit one model on some rows of the view; return a function from rows of the view to predictions."""
        values = target[train]
        if len(train) < 2 or (values == values[0]).all():
            if start is not None:
                return lambda index: start[index]
            constant = float(values[0]) if len(train) else 0.0
            return lambda index: np.full(len(index), constant)
        return self.learner.fit(train, target, loss, seed, start)
