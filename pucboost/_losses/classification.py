"""Losses for classes: logistic and softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._arrays import Array
from .._kernels import losses as kernel
from .objective import EPSILON, Kernel, Objective, exp, mean_label, weight_array, weighted_mean

_SHARES_TOLERANCE = 1e-5
"""How far the sum of a row's shares may be from 1: float32 shares of many classes do not add up exactly."""


@dataclass(frozen=True)
class Logistic(Objective):
    """ℓ = log(1 + eˢ) − y·s for y ∈ [0, 1]: gradient p − y, hessian p·(1 − p), where p = 1 / (1 + e⁻ˢ).

    Labels between 0 and 1 are used unchanged, as in LightGBM's `cross_entropy` and XGBoost's `binary:logistic`.
    LightGBM's `binary` would read every label above 0 as 1.

    Parameters
    ----------
    soft_labels
        Use the name `cross_entropy` instead of `binary`. The computation is the same.

    Examples
    --------
    >>> Logistic().gradient([0.0, 0.0], [1.0, 0.25])
    (array([-0.5 ,  0.25], dtype=float32), array([0.25, 0.25], dtype=float32))
    >>> Logistic().response([0.0])
    array([0.5])
    """

    soft_labels: bool = False
    _names: ClassVar[tuple[str, str]] = ("binary", "binary:logistic")
    _needs: ClassVar[str] = "between 0 and 1"
    link_name: ClassVar[str] = "log-odds"
    _needs_prediction: ClassVar[str] = "above 0 and below 1"

    @property
    def name(self) -> str:
        """LightGBM's name."""
        return "cross_entropy" if self.soft_labels else "binary"

    def _allowed(self, label: Array) -> Array:
        return np.asarray((label >= 0) & (label <= 1))

    def initial_score(self, label: Any, weight: Any = None) -> float:
        """Return log(m / (1 − m)) for the mean label m, which is kept 10⁻¹⁵ away from 0 and 1."""
        mean = min(max(mean_label(label, weight), EPSILON), 1.0 - EPSILON)
        return math.log(mean / (1.0 - mean))

    def response(self, score: Any) -> Array:
        """Return 1 / (1 + e⁻ˢ)."""
        return np.asarray(1.0 / (1.0 + exp(-np.asarray(score, dtype=np.float64))))

    def link(self, prediction: Any) -> Array:
        """Return log(p / (1 − p))."""
        p = np.asarray(prediction, dtype=np.float64)
        return np.asarray(np.log(p) - np.log1p(-p))

    def variance(self, prediction: Array) -> Array:
        """Return p·(1 − p)."""
        return np.asarray(prediction * (1.0 - prediction))

    def slope(self, prediction: Array) -> Array:
        """Return p·(1 − p)."""
        return np.asarray(prediction * (1.0 - prediction))

    def _has_score(self, prediction: Array) -> Array:
        return np.asarray((prediction > 0) & (prediction < 1))

    def _losses(self, score: Array, label: Array) -> Array:
        return np.asarray(np.logaddexp(0.0, score) - label * score)

    def _kernel(self, label: Array) -> tuple[Kernel, tuple[float, ...]]:
        return kernel.logistic, ()


@dataclass(frozen=True)
class Softmax(Objective):
    """ℓ = log Σ e^(s_k) − s_y: gradient p_k − 1[k = y], hessian f·p_k·(1 − p_k), where p_k = e^(s_k) / Σ e^(s_j).

    Instead of class ids, labels may be an (n, K) matrix with the share y_k of each class in a row; then
    ℓ = log Σ e^(s_k) − Σ y_k·s_k with gradient p_k − y_k. The true second derivative within a class has f = 1. The
    engines enlarge it, because they treat the K scores of a row as if they did not depend on each other.

    Parameters
    ----------
    n_classes
        K, at least 2.
    hessian_factor
        f: 2 in XGBoost; None for LightGBM's K / (K − 1).

    Examples
    --------
    >>> gradient, hessian = Softmax(2).gradient([[0.0, 0.0]], [1])
    >>> gradient
    array([[ 0.5, -0.5]], dtype=float32)
    >>> hessian
    array([[0.5, 0.5]], dtype=float32)
    >>> Softmax(2).gradient([[0.0, 0.0]], [[0.25, 0.75]])[0]
    array([[ 0.25, -0.25]], dtype=float32)
    """

    n_classes: int
    hessian_factor: float | None = None
    _names: ClassVar[tuple[str, str]] = ("multiclass", "multi:softprob")
    link_name: ClassVar[str] = "log"
    _needs_prediction: ClassVar[str] = "above 0 that add up to 1"

    def __post_init__(self) -> None:
        if self.n_classes < 2:
            raise ValueError(f"n_classes must be at least 2, got {self.n_classes}.")
        if self.hessian_factor is not None and not self.hessian_factor > 0:
            raise ValueError(f"hessian_factor must be positive, got {self.hessian_factor}.")

    @classmethod
    def with_classes(cls, num_class: Any, objective: str, hessian_factor: float | None = None) -> Softmax:
        """Return the loss for the parameters ``num_class`` and ``objective``; raise if ``num_class`` is missing."""
        if num_class is None or int(num_class) < 2:
            raise ValueError(f"objective {objective!r} needs the parameter num_class, at least 2; got {num_class}.")
        return cls(int(num_class), hessian_factor)

    @property
    def n_scores(self) -> int:
        """One raw score per class."""
        return self.n_classes

    def check_labels(self, label: Any, name: str = "label") -> None:
        """Raise ValueError for the first label that is not a class id, or row whose shares do not add up to 1."""
        labels = np.asarray(label, dtype=np.float64)
        last = self.n_classes - 1
        if labels.ndim == 1:
            good = (labels >= 0) & (labels <= last) & (labels == np.floor(labels))
            needs = f"to be whole numbers from 0 to {last}"
        elif labels.shape[1:] == (self.n_classes,):
            with np.errstate(invalid="ignore"):  # ∞ − ∞
                good = (labels >= 0).all(axis=1) & (np.abs(labels.sum(axis=1) - 1.0) <= _SHARES_TOLERANCE)
            needs = "in a matrix to be shares: not negative, and adding up to 1"
        else:
            raise ValueError(
                f"{name} must have one value per row, or one share for each of {self.n_classes} classes; "
                f"got shape {labels.shape}."
            )
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(self._bad_label(name, labels[row], row, needs))

    def initial_score(self, label: Any, weight: Any = None) -> Array:
        """Return the log of each class's share, which is kept above 10⁻¹⁵."""
        labels = np.asarray(label, dtype=np.float64)
        weights = weight_array(weight, len(labels))
        if labels.ndim == 1:
            shares = np.array([weighted_mean((labels == k).astype(np.float64), weights) for k in range(self.n_classes)])
        else:
            shares = np.asarray(weighted_mean(labels, weights))
        return np.asarray(np.log(np.maximum(shares, EPSILON)))

    def response(self, score: Any) -> Array:
        """Return p_k = e^(s_k) / Σ e^(s_j), along the last axis."""
        scores = np.asarray(score, dtype=np.float64)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))

    def link(self, prediction: Any) -> Array:
        """Return log p_k, of which the softmax is p_k again if the p_k add up to 1."""
        return np.asarray(np.log(np.asarray(prediction, dtype=np.float64)))

    def variance(self, prediction: Array) -> Array:
        """Return p·(1 − p)."""
        return np.asarray(prediction * (1.0 - prediction))

    def slope(self, prediction: Array) -> Array:
        """Return p·(1 − p), within a class."""
        return np.asarray(prediction * (1.0 - prediction))

    def _has_score(self, prediction: Array) -> Array:
        with np.errstate(invalid="ignore"):  # ∞ − ∞
            adds_up = np.abs(prediction.sum(axis=1) - 1.0) <= _SHARES_TOLERANCE
        return np.asarray((prediction > 0).all(axis=1) & adds_up)

    def _label_array(self, label: Any, n: int) -> Array:
        labels = np.asarray(label, dtype=np.float64)
        if labels.shape == (n, self.n_classes):
            return labels
        return super()._label_array(labels, n)

    def _losses(self, score: Array, label: Array) -> Array:
        largest = score.max(axis=1)
        normaliser = largest + np.log(np.exp(score - largest[:, None]).sum(axis=1))
        chosen = score[np.arange(len(score)), label.astype(np.intp)] if label.ndim == 1 else (label * score).sum(axis=1)
        return np.asarray(normaliser - chosen)

    def _kernel(self, label: Array) -> tuple[Kernel, tuple[float, ...]]:
        factor = self.n_classes / (self.n_classes - 1) if self.hessian_factor is None else float(self.hessian_factor)
        return (kernel.softmax if label.ndim == 1 else kernel.softmax_of_shares), (factor,)
