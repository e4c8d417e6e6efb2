"""Cross-fitted models of outcome and availability, by LightGBM or by estimators of the user's.

For a mask S, take the people with A ⊇ S and erase everything outside S. Each of K folds is predicted by models that
never saw it. The outcome model g and the availability model e are trained on *disjoint* halves of the other folds.
Trained on the same rows, their errors would be correlated (A and Y depend on each other given b), and the product
of errors that remains in a doubly robust estimate would no longer average out. Then the halves swap roles, and both
versions are averaged, so that every row helps both models.

The models are LightGBM's whichever engine trained the audited model: they are tools here.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from .._common import Array
from .._consent import Consent
from .._kernels import masks
from .._tables.sources import SourceTable
from .._virtual.plan import child_seed, plan_masks
from .._virtual.rows import MaskedRows, VirtualTable
from .people import AuditPeople, Loss
from .settings import FittingOptions, NuisanceEstimators
from .training_data import TrainingData

MAX_ROUNDS = 1_000
PATIENCE = 20
HOLDOUT = 0.2
"""Share of a model's training rows that early stopping watches."""
UNWATCHED_ROUNDS = 10
"""Rounds where early stopping has nothing to watch: if all outcomes held out are equal, more always look better."""
MAX_STACKED = 2_000_000
"""Rows of a stack of rare sets, from which on comparisons are sampled."""

LIGHTGBM_PARAMS: Mapping[str, Any] = {
    "learning_rate": 0.2,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
    "feature_pre_filter": False,
}
UNDERSMOOTH = 3.0
"""Rounds of a nuisance model, as a multiple of those that predict best.

A doubly robust estimate is off by E[(e − ê)(g − ĝ)]. Random errors, made on disjoint rows, average out there; what both
models smooth away does not, and early stopping smooths. So both are grown well beyond the point where they predict
best: more noise, less bias (undersmoothing, which double cross-fitting permits). In trials on the discrete family three
times the rounds halved the bias for the true f*. Recalibrating the models made it worse (it smooths), and so did
smaller trees (they miss interactions).
"""


def random_folds(n: int, n_folds: int, seed: int, cluster: Array | None = None) -> Array:
    """Assign rows to folds of equal size at random; rows of a cluster stay together."""
    units = n if cluster is None else int(cluster.max()) + 1
    fold = np.random.default_rng(child_seed(seed, 1)).permutation(units) % n_folds
    return fold if cluster is None else fold[cluster]


class CrossFitter:
    """Fits nuisance models on masked views of the people, fold by fold; calls ``on_fit`` after each, for progress."""

    def __init__(self, people: AuditPeople, fitting: FittingOptions, on_fit: Callable[[], None] = lambda: None) -> None:
        self.people, self.fitting, self.on_fit = people, fitting, on_fit
        self.fold = random_folds(len(people), fitting.folds, fitting.seed, people.cluster)
        weight = None if bool((people.weight == 1).all()) else people.weight
        self._table = SourceTable.of(people.source, people.y, weight, name="the audit data")

    def view(self, mask: int) -> View:
        """Return everybody who shares at least ``mask``, with every group outside it erased."""
        rows = self.people.at_least(mask)
        return self._view(rows, np.full(len(rows), mask, dtype=np.uint64), self.fitting.nuisance)

    def stack(self, sets: Sequence[int], limit: int = MAX_STACKED) -> View:
        """Return the rows (i, S) of everybody who shares at least S, masked to S, for each S of ``sets``.

        One person has several rows, at most one of them with A = S. Of the others, the comparisons, each is kept with
        probability p and then weighs 1/p, where all would be more than ``limit`` rows. Whether a row is kept depends
        on nothing but (seed, person, set), so every sum over the stack keeps its expectation: E[1[kept]/p] = 1.
        """
        people, counts = self.people, self.people.mask_counts
        own = sum(counts.get(mask, 0) for mask in sets)
        shared, people_of = np.array(list(counts), dtype=np.uint64), np.array(list(counts.values()))
        total = sum(int(people_of[(shared & np.uint64(mask)) == np.uint64(mask)].sum()) for mask in sets)
        kept_share = 1.0 if total <= limit else max(limit - own, 1) / (total - own)
        seed = child_seed(self.fitting.seed, 8)
        rows, shown, factor = [], [], []
        for mask in sets:
            some = people.at_least(mask)
            exact = people.shared[some] == np.uint64(mask)
            if kept_share < 1:
                kept = exact | (_uniform(seed, some, mask) < kept_share)
                some, exact = some[kept], exact[kept]
            rows.append(some)
            shown.append(np.full(len(some), mask, dtype=np.uint64))
            factor.append(np.where(exact, 1.0, 1 / kept_share))
        return self._view(
            np.concatenate(rows), np.concatenate(shown), self.fitting.nuisance, factor=np.concatenate(factor)
        )

    def reference_view(self, shown: Array) -> View:
        """Return everybody with the masks given, for LightGBM reference models stopped where they predict best."""
        return self._view(np.arange(len(self.people)), shown, {}, undersmooth=1.0)

    def _view(
        self,
        rows: Array,
        shown: Array,
        nuisance: Mapping[str, Any] | NuisanceEstimators,
        undersmooth: float = UNDERSMOOTH,
        factor: Array | None = None,
    ) -> View:
        """Return a view; ``factor`` multiplies weights, and then a person may have several rows."""
        consent, people, table = self.people.consent, self.people, self._table.subset(rows)
        cluster = None if people.cluster is None else people.cluster[rows]
        weight = people.weight[rows]
        if factor is not None:
            weight = weight * factor
            cluster = rows if cluster is None else cluster
            table = replace(table, weight=None if (weight == 1).all() else weight)
        stream = MaskedRows(table.source, consent, plan_masks(shown, "none"), num_threads=self.fitting.num_threads)
        learner: Learner
        if isinstance(nuisance, NuisanceEstimators):
            learner = EstimatorLearner(stream, table, consent, shown, nuisance)
        else:
            params = {**lightgbm_params(self.fitting.num_threads), **nuisance}
            learner = LightGBMLearner(stream, table, params, undersmooth, cluster)
        return View(self, learner, rows, shown, weight, cluster)


def _uniform(seed: int, rows: Array, mask: int) -> Array:
    """Return numbers between 0 and 1, each a pure function of seed, row and mask."""
    bits, counters = np.empty(len(rows), dtype=np.uint64), np.full(len(rows), mask, dtype=np.uint64)
    masks.hash_pairs(np.uint64(seed), masks.STREAM_DRAWS, rows.astype(np.uint64), counters, 0, len(rows), bits)
    return np.asarray((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53)


@dataclass(frozen=True)
class View:
    """Some people as a learner sees them."""

    fitter: CrossFitter
    learner: Learner
    rows: Array
    """Their numbers; in a stack of several sets a person may appear more than once."""
    shown: Array
    """The mask each row is shown with."""
    weight: Array
    cluster: Array | None
    """Which rows are not independent of each other; None if all are."""

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


# --------------------------------------------------------------------------------------------------
# Learners: what fits one nuisance model on masked rows.


@dataclass(frozen=True)
class NuisanceLoss:
    """Which of the two nuisance models is fitted, and LightGBM's objective for it."""

    model: Literal["outcome", "availability"]
    lightgbm_params: Mapping[str, Any]


AVAILABILITY = NuisanceLoss("availability", {"objective": "binary"})
"""Predicts who shares."""
EVENT = NuisanceLoss("outcome", {"objective": "binary"})
"""Predicts outcomes that are 0 or 1."""


RESIDUAL: Mapping[str, Any] = {"objective": "regression", "boost_from_average": False}
"""What is missing from a start: nothing, until a tree adds something."""


def outcome_loss(loss: Loss) -> NuisanceLoss:
    return NuisanceLoss("outcome", loss.lightgbm_params)


def lightgbm_params(num_threads: int | None) -> dict[str, Any]:
    return dict(LIGHTGBM_PARAMS) if num_threads is None else {**LIGHTGBM_PARAMS, "num_threads": num_threads}


class Learner(Protocol):
    def fit(
        self, train: Array, target: Array, loss: NuisanceLoss, seed: int, start: Array | None = None
    ) -> Callable[[Array], Array]:
        """Fit on the rows ``train`` of the table; return a function from row numbers to predictions.

        ``start`` are predictions for all rows of the table to begin with, for learners that can do so.
        """

    def best(self) -> Learner:
        """Return the same learner, stopped where it predicts best."""


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
        from .._engines.lightgbm_data import VirtualDataset

        self._cluster = cluster
        # Names are not needed here, and LightGBM refuses some of them.
        table = replace(table, feature_name="auto")
        self._rows, self._weight, self._params, self._undersmooth = rows, table.weight, dict(params), undersmooth
        self._binned = VirtualDataset(VirtualTable(rows, table), params=self._params).construct()

    def fit(
        self, train: Array, target: Array, loss: NuisanceLoss, seed: int, start: Array | None = None
    ) -> Callable[[Array], Array]:
        """Fit on the rows ``train``; return a function from row numbers to predictions.

        With a ``start``, the booster learns what is missing from it, in squared error whatever the loss: scores add up
        f − ĝ itself, and steps on the scale of log odds or logarithms explode where f is close to 0 or 1 and wrong. It
        learns nothing where no number of rounds predicts the rows held out better than the start does, and does without
        a start that is worse than the mean.
        """
        if start is None or not self._better_than_mean(start, train, target):
            booster = self.train(train, target, loss.lightgbm_params, seed)
            return lambda index: self.predict(booster, index)
        missing = self.residual(train, target, seed, start)
        if missing is None:
            return lambda index: start[index]
        return lambda index: start[index] + self.predict(missing, index)

    def residual(self, train: Array, target: Array, seed: int, start: Array) -> Any:
        """Train a booster of what is missing from a start; None if the start predicts rows held out as well."""
        missing = target - start
        booster = self.train(train, missing, RESIDUAL, seed, watching=target)
        _, stop = self._split(train, target, seed)
        left = self._mean_square(missing[stop] - self.predict(booster, stop), stop)
        if not left < self._mean_square(missing[stop], stop):
            return None
        booster.best_iteration = self._grow(booster)
        return booster

    def train(
        self, train: Array, target: Array, objective: Mapping[str, Any], seed: int, watching: Array | None = None
    ) -> Any:
        """Train a booster on the rows ``train``, a fifth of them held out for early stopping.

        It is grown beyond the rounds that predict best (``undersmooth``), unless what remains of some start is learned;
        ``watching`` are then the outcomes by which rows are held out.
        """
        import lightgbm as lgb

        params = {**self._params, **objective, "seed": seed % 2**31}
        outcome = target if watching is None else watching
        fit, stop = self._split(train, outcome, seed)
        if len(fit) == 0 or (outcome[fit] == outcome[fit[0]]).all():
            fit = np.sort(train)  # else early stopping would take away all rare events, or the only cluster
        watched = bool((outcome[stop] != outcome[stop[0]]).any())
        booster = lgb.train(
            params,
            self._part(fit, target),
            MAX_ROUNDS if watched else UNWATCHED_ROUNDS,
            valid_sets=[self._part(stop, target)],
            callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
            keep_training_booster=True,
        )
        if watching is None and watched:
            booster.best_iteration = self._grow(booster)
        return booster

    def _grow(self, booster: Any) -> int:
        """Grow a booster beyond the rounds that predict best; return how many rounds it may use."""
        rounds = min(math.ceil(self._undersmooth * int(booster.best_iteration)), MAX_ROUNDS)
        while booster.current_iteration() < rounds and not booster.update():
            pass
        return min(rounds, int(booster.current_iteration()))

    def _better_than_mean(self, start: Array, train: Array, target: Array) -> bool:
        mean = np.average(target[train], weights=None if self._weight is None else self._weight[train])
        return self._mean_square(target[train] - start[train], train) < self._mean_square(target[train] - mean, train)

    def _mean_square(self, values: Array, index: Array) -> float:
        return float(np.average(values**2, weights=None if self._weight is None else self._weight[index]))

    def _split(self, train: Array, target: Array, seed: int) -> tuple[Array, Array]:
        """Return the rows to fit and those early stopping watches.

        The latter get a fifth of the people with the usual outcome and a fifth of the others: events are rare, and
        chance alone could leave early stopping without any.
        """
        units, owner = train, np.arange(len(train))
        if self._cluster is not None:
            units, owner = np.unique(self._cluster[train], return_inverse=True)
        unusual = np.zeros(len(units), dtype=bool)
        unusual[owner[target[train] != np.median(target[train])]] = True
        order = np.random.default_rng(child_seed(seed, 2)).permutation(len(units))
        held = np.zeros(len(units), dtype=bool)
        for kind in (unusual, ~unusual):
            some = order[kind[order]]
            held[some[: int(HOLDOUT * len(some))]] = True
        held[order[0]] |= not held.any()
        watched = held[owner]
        return np.sort(train[~watched]), np.sort(train[watched])

    def best(self) -> LightGBMLearner:
        """Return the same learner, stopped where it predicts best."""
        other = copy.copy(self)
        other._undersmooth = 1.0
        return other

    def tree(self, train: Array, target: Array, weight: Array, leaves: int) -> Any:
        """Return a booster of one small tree, fitted to the weighted mean of ``target``."""
        import lightgbm as lgb

        smallest = max(int(self._params["min_data_in_leaf"]), len(train) // 20)
        small = {"objective": "regression", "num_leaves": leaves, "learning_rate": 1.0, "min_data_in_leaf": smallest}
        part = self._binned.subset(train.tolist()).construct()
        part.set_label(target[train])
        part.set_weight(weight[train])
        return lgb.train({**self._params, **small}, part, 1)

    def leaves_of(self, booster: Any, index: Array) -> Array:
        return self.predict(booster, index, pred_leaf=True)[:, 0]

    def _part(self, index: Array, target: Array) -> Any:
        part = self._binned.subset(index.tolist()).construct()
        part.set_label(target[index])
        if self._weight is not None:
            part.set_weight(self._weight[index])
        return part

    def predict(self, booster: Any, index: Array, **options: Any) -> Array:
        step = self._rows.batch_rows
        parts = [
            booster.predict(self._rows.take(index[lo : lo + step]), **options) for lo in range(0, len(index), step)
        ]
        return np.concatenate(parts)


class EstimatorLearner:
    """Clones of scikit-learn estimators in place of LightGBM; they get the columns that are not erased as a matrix.

    Many refuse missing values. So where rows are shown with different masks, what is erased is 0, and one column per
    group tells for which rows.
    """

    def __init__(
        self, rows: MaskedRows, table: SourceTable, consent: Consent, shown: Array, estimators: NuisanceEstimators
    ) -> None:
        X, somewhere = rows.materialise(), int(np.bitwise_or.reduce(shown, initial=0))
        if len(np.unique(shown)) > 1:
            bits = consent.column_bits
            X[(bits != 0) & ((shown[:, None] & bits) == 0)] = 0.0
            X = np.hstack([X, (shown[:, None] >> np.arange(consent.n_groups, dtype=np.uint64)) & np.uint64(1)])
        self._X, self._weight = np.delete(X, consent.columns_outside(somewhere), axis=1), table.weight
        self._estimators = estimators

    def best(self) -> EstimatorLearner:
        """Return the same learner: estimators stop by their own rules."""
        return self

    def fit(
        self, train: Array, target: Array, loss: NuisanceLoss, seed: int, start: Array | None = None
    ) -> Callable[[Array], Array]:
        """Fit a clone on the rows ``train``; it starts from nothing, since estimators differ in how they could."""
        from sklearn.base import clone

        availability = loss.model == "availability"
        model = clone(self._estimators.availability if availability else self._estimators.outcome)
        weight = {} if self._weight is None else {"sample_weight": self._weight[train]}
        model.fit(self._X[train], target[train], **weight)
        if hasattr(model, "predict_proba"):
            return lambda index: np.asarray(model.predict_proba(self._X[index])[:, 1])
        return lambda index: np.asarray(model.predict(self._X[index]))


# --------------------------------------------------------------------------------------------------
# Reference models: one with base features only, one without any restriction.


def references(people: AuditPeople, loss: Loss, fitter: CrossFitter, training: TrainingData) -> tuple[Array, Array]:
    """Return predictions of a base-features model and of an unrestricted model, which may learn from silence.

    Both are trained on the training data if these are given, else cross-fitted on the audit data.
    """
    nothing = np.zeros_like(people.shared)
    outcome = outcome_loss(loss)
    if training.table is None or training.shared is None:
        base, free = (fitter.reference_view(shown).cross_fit(people.y, outcome) for shown in (nothing, people.shared))
        return base, free
    pairs = ((np.zeros_like(training.shared), nothing), (training.shared, people.shared))
    base, free = (
        _fit_on_training_data(training.table, shown_train, people, shown, outcome, fitter.fitting)
        for shown_train, shown in pairs
    )
    return base, free


def _fit_on_training_data(
    train: SourceTable,
    shown_train: Array,
    people: AuditPeople,
    shown: Array,
    loss: NuisanceLoss,
    fitting: FittingOptions,
) -> Array:
    """Train one early-stopped model on a training table and predict the people; it sees the groups of ``shown``."""
    num_threads = fitting.num_threads
    seen = MaskedRows(train.source, people.consent, plan_masks(shown_train, "none"), num_threads=num_threads)
    if (train.label == train.label[0]).all():
        return np.full(len(people), float(train.label[0]))
    learner = LightGBMLearner(seen, train, lightgbm_params(num_threads))
    seed = child_seed(fitting.seed, 4)
    booster = learner.train(np.arange(len(train.label)), train.label.astype(np.float64), loss.lightgbm_params, seed)
    rows = MaskedRows(people.source, people.consent, plan_masks(shown, "none"), num_threads=num_threads)
    return np.concatenate([booster.predict(batch) for _, batch in rows.batches()])
