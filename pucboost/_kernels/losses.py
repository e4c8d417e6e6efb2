"""Gradient and hessian of the losses, per row and multiplied by the row's weight.

Scores, labels and weights are float64, the outputs float32, which is what both engines store. An empty ``weight``
stands for ones. The losses with one score per row share a signature; the softmax kernels take (n, K) arrays in
either memory order. No kernel uses a label as an index, so a wrong label cannot read outside an array.
"""

from __future__ import annotations

import numpy as np

from .._common import Array
from .compiling import kernel


@kernel
def squared_error(
    score: Array, label: Array, weight: Array, lo: int, hi: int, gradient_out: Array, hessian_out: Array
) -> None:
    """Loss ½(s − y)²: gradient s − y, hessian 1."""
    for i in range(lo, hi):
        w = weight[i] if weight.size else 1.0
        gradient_out[i] = w * (score[i] - label[i])
        hessian_out[i] = w


@kernel
def logistic(
    score: Array, label: Array, weight: Array, lo: int, hi: int, gradient_out: Array, hessian_out: Array
) -> None:
    """Loss log(1 + eˢ) − y·s with y ∈ [0, 1]: gradient p − y, hessian p·(1 − p), where p = 1 / (1 + e⁻ˢ).

    p and q = 1 − p come from e^(−|s|), and p − y is computed as p·(1 − y) − q·y: no score overflows, and a tiny
    gradient is not lost in the rounding of 1 − p.
    """
    for i in range(lo, hi):
        w = weight[i] if weight.size else 1.0
        s, y = score[i], label[i]
        e = np.exp(-abs(s))
        large, small = 1.0 / (1.0 + e), e / (1.0 + e)
        p, q = (large, small) if s >= 0 else (small, large)
        gradient_out[i] = w * (p * (1.0 - y) - q * y)
        hessian_out[i] = w * (p * q)


@kernel
def softmax_shares(score: Array, i: int, share_out: Array) -> None:
    """Write p_k = e^(s_k) / Σ e^(s_j) of row i; the largest score is subtracted first, so nothing overflows."""
    n_classes = share_out.size
    largest = score[i, 0]
    for k in range(1, n_classes):
        largest = max(largest, score[i, k])
    total = 0.0
    for k in range(n_classes):
        share_out[k] = np.exp(score[i, k] - largest)
        total += share_out[k]
    for k in range(n_classes):
        share_out[k] /= total


@kernel
def softmax(
    score: Array, label: Array, weight: Array, factor: float, lo: int, hi: int, gradient_out: Array, hessian_out: Array
) -> None:
    """Loss log Σ e^(s_k) − s_y: gradient p_k − 1[k = y], hessian factor·p_k·(1 − p_k)."""
    n_classes = score.shape[1]
    share = np.empty(n_classes, dtype=np.float64)
    for i in range(lo, hi):
        w = weight[i] if weight.size else 1.0
        softmax_shares(score, i, share)
        for k in range(n_classes):
            p = share[k]
            gradient_out[i, k] = w * (p - 1.0 if k == label[i] else p)
            hessian_out[i, k] = w * (factor * p * (1.0 - p))


@kernel
def softmax_of_shares(
    score: Array, label: Array, weight: Array, factor: float, lo: int, hi: int, gradient_out: Array, hessian_out: Array
) -> None:
    """The same for shares y_k ≥ 0, Σ y_k = 1, as labels: loss log Σ e^(s_k) − Σ y_k·s_k, gradient p_k − y_k."""
    n_classes = score.shape[1]
    share = np.empty(n_classes, dtype=np.float64)
    for i in range(lo, hi):
        w = weight[i] if weight.size else 1.0
        softmax_shares(score, i, share)
        for k in range(n_classes):
            p = share[k]
            gradient_out[i, k] = w * (p - label[i, k])
            hessian_out[i, k] = w * (factor * p * (1.0 - p))


@kernel
def poisson(
    score: Array, label: Array, weight: Array, max_delta_step: float, lo: int, hi: int, gradient_out: Array,
    hessian_out: Array,
) -> None:  # fmt: skip
    """Loss eˢ − y·s: gradient eˢ − y, hessian e^(s + max_delta_step).

    The true second derivative is eˢ; both engines enlarge it to keep the steps small.
    """
    enlarge = np.exp(max_delta_step)
    for i in range(lo, hi):
        w = weight[i] if weight.size else 1.0
        mean = np.exp(score[i])
        gradient_out[i] = w * (mean - label[i])
        hessian_out[i] = w * (mean * enlarge)


@kernel
def gamma(score: Array, label: Array, weight: Array, lo: int, hi: int, gradient_out: Array, hessian_out: Array) -> None:
    """Loss s + y·e⁻ˢ: gradient 1 − y·e⁻ˢ, hessian y·e⁻ˢ."""
    for i in range(lo, hi):
        w = weight[i] if weight.size else 1.0
        ratio = label[i] * np.exp(-score[i])
        gradient_out[i] = w * (1.0 - ratio)
        hessian_out[i] = w * ratio


@kernel
def tweedie(
    score: Array, label: Array, weight: Array, power: float, lo: int, hi: int, gradient_out: Array, hessian_out: Array
) -> None:
    """Loss e^((2−ρ)s) / (2−ρ) − y·e^((1−ρ)s) / (1−ρ), variance power ρ.

    Gradient e^((2−ρ)s) − y·e^((1−ρ)s), hessian (2−ρ)·e^((2−ρ)s) − (1−ρ)·y·e^((1−ρ)s).
    """
    for i in range(lo, hi):
        w = weight[i] if weight.size else 1.0
        upper = np.exp((2.0 - power) * score[i])
        lower = label[i] * np.exp((1.0 - power) * score[i])
        gradient_out[i] = w * (upper - lower)
        hessian_out[i] = w * ((2.0 - power) * upper - (1.0 - power) * lower)


@kernel
def quantile(
    score: Array, label: Array, weight: Array, alpha: float, lo: int, hi: int, gradient_out: Array, hessian_out: Array
) -> None:
    """Pinball loss max(α·(y − s), (α − 1)·(y − s)): gradient 1 − α if s ≥ y, else −α; hessian 1.

    The second derivative is 0 almost everywhere; 1 makes a leaf count its rows, as in both engines.
    """
    for i in range(lo, hi):
        w = weight[i] if weight.size else 1.0
        gradient_out[i] = w * (1.0 - alpha) if score[i] >= label[i] else -w * alpha
        hessian_out[i] = w
