"""Standard errors and intervals, of one estimate and of several together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._arrays import Array
from ..._virtual.plan import child_seed
from ..findings import Estimate

_MAX_T_DRAWS = 50_000


def normal_quantile(p: float) -> float:
    """Return the p-quantile of the standard normal distribution."""
    from scipy.stats import norm

    return float(norm.ppf(p))


def ratio_estimate(numerator: Array, denominator: Array, level: float, cluster: Array | None = None) -> Estimate:
    """Return Σ numerator / Σ denominator with the standard error of the ratio (delta method)."""
    total = denominator.sum()
    value = float(numerator.sum() / total)
    residual = (numerator - value * denominator) / total
    if cluster is not None:
        residual = np.bincount(cluster, weights=residual)
    error = float(np.sqrt((residual**2).sum()))
    half = normal_quantile((1 + level) / 2) * error
    return Estimate(value, error, value - half, value + half)


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
