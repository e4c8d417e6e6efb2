"""Standard errors and intervals, of one estimate and of several together.

All estimates here are ratios θ̂ = Σ s / Σ d of sums over independent units (people or clusters), with contributions
ψ = (s − θ̂·d) / Σ d and the squared standard error se² = Σ ψ². The studentised T = (θ̂ − θ) / se is normal for many
units, but slowly if outcomes are skewed: when large claims happen to be absent, θ̂ and se are small together. To the
next order (Edgeworth; Hall, *The Bootstrap and Edgeworth Expansion*, 1992)

    P(T ≤ x) = Φ(x) + φ(x)·[k·(2x² + 1)/6 − q·x²],        k = Σ ψ³ / se³,        q = Σ ψ·d / (se · Σ d).

k is the skewness of the estimate. q belongs to the ratio: u = s − θ·d does not depend on Σ d, T = Σ u / √Σ (u − (θ̂ −
θ)·d)², and the denominator moves with the numerator by −2(θ̂ − θ)·Σ u·d. With a = k/3 − q, the transformation

    H(T) = [(1 + a·T)³ − 1] / (3a) + k/6 = T + a·T² + a²·T³/3 + k/6

is monotone, and normal up to terms of the order of 1/units (for q = 0 it is that of Hall 1992, *On the removal of
skewness by transformation*). So the interval with critical value c is [θ̂ − se·H⁻¹(c), θ̂ − se·H⁻¹(−c)]. It is
symmetric where nothing is skewed. It needs a third moment: see :func:`tail_index`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._virtual.plan import child_seed
from ..findings import Estimate

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
