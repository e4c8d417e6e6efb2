"""The doubly robust score of each person, set by set.

For a mask S take the people with A ⊇ S, masked to S; D = 1[A = S], V the identification function of the loss
(f − Y for a mean), h = E[V | b, z_S, A ⊇ S] and e = P(A = S | b, z_S, A ⊇ S), both cross-fitted. Then

    θ_S = Σ w [D·h + e·(V − h)] / Σ w D

is the average penalty of those who share exactly S: how much more they are told than is justified by the outcomes of
everybody who shares at least as much, with their further data erased. For a mean h = f − g with
g = E[Y | b, z_S, A ⊇ S], and the summand becomes D(f − g) − e(Y − g). With estimates ĝ and ê the expectation is off
only by E[(e − ê)(g − ĝ)]: first-order errors of either model cancel (Neyman orthogonality).

Written as e·(f − Y) + (D − e)·(f − g), the score shows what ĝ is for: it only has to know h = f − g, which is 0 where
the model is right. So ĝ is boosted from f itself, masked to S, in squared error,
and may stay there: the remainder E[(e − ê)(h − ĥ)] then
vanishes for f*, whatever ê misses. A model of g from nothing would have to find again all that f knows, and what both
it and ê smooth away would remain as bias. For a quantile, P(Y ≤ f) is boosted from τ.

Sets too rare to be tested on their own are tested together. Their rows (i, S), for every S of the pool and every i with
A_i ⊇ S, are stacked, and one model of each kind is fitted to all of them: what is missing tells S, so given the data of
a row g and e are those of its set. Hence the score, summed over the rows of a person, has expectation
Σ_S P(A = S)·θ_S, the size Σ_S P(A = S), and their ratio is the average penalty of all who share one of these sets;
errors of ĝ and ê cancel set by set. Folds hold people, so nobody is on both sides, and the rows of a person are one
contribution.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._common import Array
from .._virtual.plan import child_seed
from .findings import Estimate
from .nuisance import AVAILABILITY, EVENT, View, outcome_loss
from .people import AuditedModel, AuditPeople, Loss

FITS_PER_MASK = 4
"""Cross-fits: outcome and availability, each on either half."""


@dataclass(frozen=True)
class MaskScores:
    """Score and size of one mask, for the people with A ⊇ S, or of several masks, for each of them."""

    mask: int | None
    """None for rare sets together."""
    rows: Array
    """The people compared; with several masks a person may have several rows, which add up."""
    score: Array
    """w·[D·h + e·(V − h)], averaged over the two roles of the halves."""
    size: Array
    """w·D."""
    target: Array
    """What the outcome model predicts: Y, or 1[Y ≤ f] for a quantile."""
    outcome: tuple[Array, Array]
    """Its predictions g, from either half."""
    share: tuple[Array, Array] | None = None
    """Predictions e of the availability model, from the other half each."""
    deviation: Array | None = None
    """V: f − Y, or 1[Y ≤ f] − τ, everybody masked to S."""
    weight: Array | None = None
    """w of each row; None if all are 1."""

    @property
    def resemblance(self) -> Array:
        """w·e: how much each row counts as a comparison."""
        weight = np.ones(len(self.rows)) if self.weight is None else self.weight
        return weight if self.share is None else np.asarray(weight * (self.share[0] + self.share[1]) / 2)


def score_mask(people: AuditPeople, model: AuditedModel, loss: Loss, view: View, mask: int | None) -> MaskScores:
    """Compute the scores of those who share exactly ``mask``; ``view`` shows everybody who shares at least that.

    With None, ``view`` is the stack of several masks, and D = 1 where a person shares exactly the mask of the row.
    """
    rows, weight = view.rows, view.weight
    exact = people.shared[rows] == view.shown
    share = [view.cross_fit(exact.astype(np.float64), AVAILABILITY, half) for half in (1, 0)]
    y, f = people.y[rows], np.empty(len(rows))
    starts = [0, *(np.flatnonzero(view.shown[1:] != view.shown[:-1]) + 1).tolist(), len(rows)]
    for lo, hi in itertools.pairwise(starts):
        f[lo:hi] = model.masked(rows[lo:hi], int(view.shown[lo]))
    if loss.is_mean:
        outcome = [view.cross_fit(y, outcome_loss(loss), half, f) for half in (0, 1)]
        parts = [exact * (f - g) - e * (y - g) for g, e in zip(outcome, share, strict=True)]
    else:
        y = (y <= f).astype(np.float64)
        start = np.full(len(y), loss.alpha)
        outcome = [view.cross_fit(y, EVENT, half, start) for half in (0, 1)]
        parts = [exact * (g - loss.alpha) + e * (y - g) for g, e in zip(outcome, share, strict=True)]
    score = weight * (parts[0] + parts[1]) / 2
    deviation = f - y if loss.is_mean else y - loss.alpha
    both, shares = (outcome[0], outcome[1]), (share[0], share[1])
    return MaskScores(mask, rows, score, weight * exact, y, both, shares, deviation, weight)


# --------------------------------------------------------------------------------------------------
# Standard errors and intervals, of one estimate and of several together.
#
# All estimates here are ratios θ̂ = Σ s / Σ d of sums over independent units (people or clusters), with contributions
# ψ = (s − θ̂·d) / Σ d and the squared standard error se² = Σ ψ². The studentised T = (θ̂ − θ) / se is normal for many
# units, but slowly if outcomes are skewed: when large claims happen to be absent, θ̂ and se are small together. To
# the next order (Edgeworth; Hall, *The Bootstrap and Edgeworth Expansion*, 1992)
#
#     P(T ≤ x) = Φ(x) + φ(x)·[k·(2x² + 1)/6 − q·x²],        k = Σ ψ³ / se³,        q = Σ ψ·d / (se · Σ d).
#
# k is the skewness of the estimate. q belongs to the ratio: u = s − θ·d does not depend on Σ d, T = Σ u / √Σ (u − (θ̂
# − θ)·d)², and the denominator moves with the numerator by −2(θ̂ − θ)·Σ u·d. With a = k/3 − q, the transformation
#
#     H(T) = [(1 + a·T)³ − 1] / (3a) + k/6 = T + a·T² + a²·T³/3 + k/6
#
# is monotone, and normal up to terms of the order of 1/units (for q = 0 it is that of Hall 1992, *On the removal of
# skewness by transformation*). So the interval with critical value c is [θ̂ − se·H⁻¹(c), θ̂ − se·H⁻¹(−c)]. It is
# symmetric where nothing is skewed. It needs a third moment: see :func:`tail_index`.


_MAX_T_DRAWS = 50_000
MIN_IN_TAIL = 10
"""People who tell how heavy a tail is, at least, or half of those in it."""
TAIL = 0.15
"""Share of the larger contributions that tell how heavy a tail is."""


def normal_quantile(p: float) -> float:
    """Return the p-quantile of the standard normal distribution."""
    from scipy.stats import norm

    return float(norm.ppf(p))


@dataclass(frozen=True)
class Spread:
    """What chance does to a ratio: how wide it spreads, and how unevenly."""

    error: float
    """The standard error."""
    skewness: float = 0.0
    """k, the skewness of the estimate."""
    slant: float = 0.0
    """q, how the denominator of the ratio moves its standard error."""
    freedom: float = np.inf
    """Degrees of freedom of the standard error: clusters − 1; infinite without clusters."""
    largest: float = 0.0
    """Share of the variance that a single person, or cluster, carries."""

    @classmethod
    def of(cls, contribution: Array, size: Array, clusters: int | None = None) -> Spread:
        """Measure the spread from what each unit contributes; ``size`` are its shares d / Σ d of the denominator."""
        squares = contribution**2
        variance = float(squares.sum())
        if variance == 0:
            return cls(0.0)
        error = float(np.sqrt(variance))
        return cls(
            error,
            float((squares * contribution).sum()) / error**3,
            float((contribution * size).sum()) / error,
            np.inf if clusters is None else max(1, clusters - 1),
            float(squares.max()) / variance,
        )

    def bounds(self, value: float, critical: float) -> tuple[float, float]:
        """Return the interval whose ends would be value ± critical·error if nothing were skewed."""
        if np.isfinite(self.freedom):
            from scipy.stats import norm, t

            critical = float(t.isf(norm.sf(critical), self.freedom))
        return value - self.error * self._unskewed(critical), value - self.error * self._unskewed(-critical)

    def _unskewed(self, x: float) -> float:
        """Return H⁻¹(x)."""
        a, moved = self.skewness / 3 - self.slant, x - self.skewness / 6
        return moved if abs(a) < 1e-9 else float(np.cbrt(1 + 3 * a * moved) - 1) / a

    def estimate(self, value: float, level: float) -> Estimate:
        """Return the estimate with its two-sided interval."""
        lower, upper = self.bounds(value, normal_quantile((1 + level) / 2))
        return Estimate(value, self.error, lower, upper)


def few_clusters(clusters: int) -> float:
    """Return the usual factor on contributions of few clusters, √(G / (G − 1))."""
    return float(np.sqrt(clusters / max(1, clusters - 1)))


def ratio_estimate(numerator: Array, denominator: Array, level: float, cluster: Array | None = None) -> Estimate:
    """Return Σ numerator / Σ denominator with its interval; only clusters with a part in it count."""
    total = denominator.sum()
    value = float(numerator.sum() / total)
    residual, size = (numerator - value * denominator) / total, denominator / total
    clusters = None
    if cluster is not None:
        used = (numerator != 0) | (denominator != 0)
        _, owner = np.unique(cluster[used], return_inverse=True)
        clusters = int(owner.max()) + 1
        residual, size = (np.bincount(owner, weights=part[used]) for part in (residual, size))
        residual = residual * few_clusters(clusters)
    return Spread.of(residual, size, clusters).estimate(value, level)


def tail_index(contribution: Array) -> float:
    """Return how heavy the heavier tail of contributions is: α if they exceed x with probability proportional to x^−α.

    Hill's estimate 1 / mean log(ψ_(i) / ψ_(m+1)) from the m largest contributions on the side of the skewness: 15 % of
    those beyond the mean absolute one (people without a claim do not tell how claims spread), but ten if there are
    twice as many. Moments of order α and more do not exist; in small samples much lower ones are out of reach already,
    since what they depend on is rarely seen. Infinite where there are too few to tell.
    """
    side = contribution * np.sign((contribution**3).sum())
    large = np.sort(side[side > np.abs(contribution).mean()])[::-1]
    m = max(min(MIN_IN_TAIL, len(large) // 2), int(TAIL * len(large)))
    if m < 3:
        return float(np.inf)
    mean = float(np.log(large[:m] / large[m]).mean())
    return 1 / mean if mean > 0 else float(np.inf)


def critical_value(influences: Any, errors: Array, level: float, simultaneous: str, seed: int) -> float:
    """Return c such that all intervals θ̂ ± c·se hold jointly, each side with confidence ``level``.

    Two one-sided tests at 1 − level each make a two-sided interval at 2·level − 1. ``"max-t"``: the quantile of
    max_j |Z_j|, Z normal with the correlations of the estimates (the Gaussian multiplier bootstrap in closed form).
    ``"bonferroni"``: the same for any dependence. ``"none"``: each interval on its own.
    """
    error_rate, count = 2 * (1 - level), len(errors)
    if simultaneous == "none" or count <= 1:
        return normal_quantile(1 - error_rate / 2)
    bonferroni = normal_quantile(1 - error_rate / (2 * count))
    if simultaneous == "bonferroni":
        return bonferroni
    products = influences @ influences.T
    products = products.toarray() if hasattr(products, "toarray") else products
    values, vectors = np.linalg.eigh(products / np.outer(errors, errors))
    root = vectors * np.sqrt(np.maximum(values, 0))
    draws = np.random.default_rng(child_seed(seed, 3)).normal(size=(_MAX_T_DRAWS, len(root)))
    return min(float(np.quantile(np.abs(draws @ root.T).max(axis=1), 1 - error_rate)), bonferroni)
