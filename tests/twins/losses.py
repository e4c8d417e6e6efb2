"""Readable twins of the kernels in ``_kernels/losses.py``: one row at a time, the formulas as in a textbook.

Each returns (gradient, hessian) of weight × loss with respect to the score s, given the label y.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def squared_error(s: float, y: float, w: float) -> tuple[float, float]:
    """½(s − y)²."""
    return w * (s - y), w


def logistic(s: float, y: float, w: float) -> tuple[float, float]:
    """log(1 + eˢ) − y·s."""
    p = 1 / (1 + math.exp(-s))
    return w * (p - y), w * p * (1 - p)


def softmax(s: Sequence[float], y: Sequence[float], w: float, factor: float) -> tuple[list[float], list[float]]:
    """− Σ y_k·log p_k, where y_k is the share of class k; ``factor`` times the second derivative."""
    total = sum(math.exp(value) for value in s)
    p = [math.exp(value) / total for value in s]
    return [w * (a - b) for a, b in zip(p, y, strict=True)], [w * factor * a * (1 - a) for a in p]


def one_hot(label: int, n_classes: int) -> list[float]:
    """Return 1 for the class of the label, 0 for the others."""
    return [float(k == label) for k in range(n_classes)]


def poisson(s: float, y: float, w: float, max_delta_step: float) -> tuple[float, float]:
    """eˢ − y·s, the second derivative taken at s + max_delta_step."""
    return w * (math.exp(s) - y), w * math.exp(s + max_delta_step)


def gamma(s: float, y: float, w: float) -> tuple[float, float]:
    """(y − m) / m − log(y / m), up to a constant, with the mean m = eˢ."""
    return w * (1 - y / math.exp(s)), w * y / math.exp(s)


def tweedie(s: float, y: float, w: float, power: float) -> tuple[float, float]:
    """m^(2−ρ) / (2−ρ) − y·m^(1−ρ) / (1−ρ) with the mean m = eˢ."""
    m = math.exp(s)
    gradient = m ** (2 - power) - y * m ** (1 - power)
    hessian = (2 - power) * m ** (2 - power) - (1 - power) * y * m ** (1 - power)
    return w * gradient, w * hessian


def quantile(s: float, y: float, w: float, alpha: float) -> tuple[float, float]:
    """max(α·(y − s), (α − 1)·(y − s)); the hessian is 1 by convention."""
    return w * (1 - alpha if s >= y else -alpha), w
