"""What sets of questions are worth, from the losses of the same people under each: values, curve, and what is proven.

L_i(S) is the loss of person i when told f_S, and v(S) = E[L(∅) − L(S)] the value of the set S. All people here share
all groups G, so every set is compared on the same people. v̂ is a weighted mean, so its influences are
ψ_i = w_i·(L_i(∅) − L_i(S) − v̂(S)) / Σ w, and Σ ψψᵀ is the covariance of all v̂ together. What is linear in v has its
exact standard error from that: the Shapley value, the average of v(S ∪ g) − v(S) over all orders, and the last-in
value v(G) − v(G without g). Rows of one cluster are added up first, for only clusters are independent.

**Choosing is optimistic.** The best of many sets looks better than it is on the people who chose it. So the curve is
cross-fitted: the best set of at most j questions is chosen on four fifths of the people and measured on the last fifth,
in turn. And what is *proven* holds for all sets together, so that it holds for the one chosen, however it was chosen:
S keeps a share q of the value if θ_S = v(S) − q·v(G) > 0, and

    P(some S with θ_S ≤ 0 has θ̂_S > c·se_S) ≤ 1 − level

with c the quantile of the largest of the normal errors, which are strongly correlated. Sets that are certainly far
below 0 cannot be mistaken for good ones, so they hardly count: the two-step method of Romano, Shaikh and Wolf
(Econometrica 2014), which spends a tenth of the error on upper bounds of all θ_S.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._common import Array
from .._virtual.plan import child_seed

FOLDS = 5
DRAWN = 8_000_000
"""How many normal errors are drawn for the quantile of the largest, sets times draws; at most 50,000 draws."""
FIRST_STEP = 0.1
"""Share of the error that the first of two steps takes."""


@dataclass(frozen=True)
class SetValues:
    """The value of every set of questions, with what chance does to all of them together."""

    masks: Array
    """All admissible sets, ascending: the first is empty, the last holds all questions."""
    value: Array
    influence: Array
    """People (or clusters) × sets: what each contributes to the error of each value."""
    weight: Array
    """Their weights, which add up to 1."""
    covariance: Array

    @classmethod
    def of(cls, losses: Array, weight: Array, masks: Array, cluster: Array | None = None) -> SetValues:
        """Return the values from losses, people × sets, which are overwritten: there may be many."""
        share = weight / weight.sum()
        influence = np.subtract(losses[:, :1].copy(), losses, out=losses)
        value = share @ influence
        influence -= value
        influence *= share[:, None]
        if cluster is not None:
            order = np.argsort(cluster, kind="stable")
            first = np.searchsorted(cluster[order], np.arange(cluster.max() + 1))
            influence, share = np.add.reduceat(influence[order], first), np.add.reduceat(share[order], first)
        people = len(influence)
        return cls(masks, value, influence, share, influence.T @ influence * (people / (people - 1)))

    def linear(self, contrasts: Array) -> tuple[Array, Array]:
        """Return sums of values, a column of ``contrasts`` each, and their standard errors."""
        variance = np.einsum("sk,st,tk->k", contrasts, self.covariance, contrasts)
        return self.value @ contrasts, np.sqrt(np.maximum(variance, 0.0))

    def place(self, mask: int) -> int:
        return int(np.searchsorted(self.masks, np.uint64(mask)))


@dataclass(frozen=True)
class Kept:
    """Whether each set keeps a share q of the value of all: θ = v(S) − q·v(G), and its error."""

    margin: Array
    error: Array
    critical: float

    @property
    def proven(self) -> Array:
        """Which sets keep it; where no answer changes any loss there is no error, and nothing to prove."""
        return np.asarray((self.margin > self.critical * self.error) | ((self.margin == 0) & (self.error == 0)))


def keeps(values: SetValues, share: float, level: float, seed: int) -> Kept:
    """Return which sets provably keep ``share`` of the value of all questions, all statements holding together."""
    cov, last = values.covariance, values.covariance[:, -1]
    joint = cov - share * (last[:, None] + last) + share**2 * last[-1]
    margin, error = values.value - share * values.value[-1], np.sqrt(np.maximum(np.diag(joint), 0.0))
    some = np.flatnonzero(error[:-1] > 0)  # that all questions keep what all of them add is not asked
    if not len(some):
        return Kept(margin, error, 0.0)
    correlation = joint[np.ix_(some, some)] / np.outer(error[some], error[some])
    return Kept(margin, error, two_step_critical(margin[some] / error[some], correlation, level, seed))


def two_step_critical(z: Array, correlation: Array, level: float, seed: int) -> float:
    """Return c with P(z > c for a set that does not keep its share) ≤ 1 − level; those far below 0 hardly count."""
    spectrum, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(spectrum, 0.0))
    rng = np.random.default_rng(child_seed(seed, 21))
    draws = rng.normal(size=(min(50_000, DRAWN // len(z)), len(z))) @ root.T
    first = (1 - level) * FIRST_STEP
    farthest = float(np.quantile(draws.max(axis=1), 1 - first))
    at_most = np.minimum(z + farthest, 0.0)  # bounds of all θ/se that hold together
    return max(0.0, float(np.quantile((draws + at_most).max(axis=1), level + first)))


def p_positive(value: Array, error: Array) -> Array:
    """Return the p-values of one-sided tests that values are above 0."""
    from scipy.stats import norm

    certain = np.where(value > 0, np.inf, -np.inf)
    return np.asarray(norm.sf(np.divide(value, error, out=certain, where=error > 0)))


def curve(values: SetValues, seed: int) -> list[tuple[int, float, float]]:
    """Return, for j = 0, 1, …, the best set of at most j questions, and what choosing so is worth, with its error.

    The set is that of all people; value and error are cross-fitted.
    """
    influence, weight = values.influence, values.weight
    fold = np.random.default_rng(child_seed(seed, 20)).permutation(len(weight)) % FOLDS
    counts = np.array([int(mask).bit_count() for mask in values.masks])
    inside = np.stack([influence[fold == k].sum(axis=0) for k in range(FOLDS)])
    part = np.bincount(fold, weights=weight, minlength=FOLDS)[:, None]
    own, others = values.value + inside / part, values.value - inside / (1 - part)
    points = []
    for j in range(int(counts.max()) + 1):
        allowed = np.flatnonzero(counts <= j)
        chosen = allowed[others[:, allowed].argmax(axis=1)]
        measured = own[np.arange(FOLDS), chosen]
        errors = influence[np.arange(len(weight)), chosen[fold]] - weight * (measured - values.value[chosen])[fold]
        best = allowed[values.value[allowed].argmax()]
        points.append((int(best), float(part[:, 0] @ measured), float(np.sqrt((errors**2).sum()))))
    return points
