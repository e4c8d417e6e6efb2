"""Losses for amounts: squared error, quantiles, and losses with a log link."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._arrays import Array
from .._kernels import losses as kernel
from .objective import Kernel, Objective, exp, mean_label, weight_array, weighted_mean


@dataclass(frozen=True)
class SquaredError(Objective):
    """ℓ = ½(s − y)²: gradient s − y, hessian 1. The prediction is the score.

    Examples
    --------
    >>> SquaredError().gradient([1.0, 2.0], [0.0, 4.0])
    (array([ 1., -2.], dtype=float32), array([1., 1.], dtype=float32))
    >>> SquaredError().initial_score([0.0, 4.0], weight=[3, 1])
    1.0
    """

    _names: ClassVar[tuple[str, str]] = ("regression", "reg:squarederror")

    def initial_score(self, label: Any, weight: Any = None) -> float:
        """Return the mean label."""
        return mean_label(label, weight)

    def response(self, score: Any) -> Array:
        """Return the score itself."""
        return np.asarray(score, dtype=np.float64)

    def _losses(self, score: Array, label: Array) -> Array:
        return np.asarray((score - label) ** 2 / 2)

    def _kernel(self, label: Array) -> tuple[Kernel, tuple[float, ...]]:
        return kernel.squared_error, ()


@dataclass(frozen=True)
class _LogLink(Objective):
    """Losses whose prediction is the mean eˢ, and whose best constant is the log of the mean label."""

    link_name: ClassVar[str] = "log"
    _needs_prediction: ClassVar[str] = "above 0"

    def initial_score(self, label: Any, weight: Any = None) -> float:
        """Return the log of the mean label.

        Raises ValueError if the mean is 0: the score would be −∞. LightGBM refuses such labels; XGBoost trains on
        them and predicts −∞ or NaN.
        """
        mean = mean_label(label, weight)
        if not mean > 0:
            raise ValueError(f"objective {self.name!r} needs a positive mean label, got {mean}.")
        return math.log(mean)

    def response(self, score: Any) -> Array:
        """Return eˢ."""
        return exp(score)

    def link(self, prediction: Any) -> Array:
        """Return the log of the prediction."""
        return np.asarray(np.log(np.asarray(prediction, dtype=np.float64)))

    def slope(self, prediction: Array) -> Array:
        """Return the prediction."""
        return prediction

    def _has_score(self, prediction: Array) -> Array:
        return np.asarray(prediction > 0)


@dataclass(frozen=True)
class Poisson(_LogLink):
    """ℓ = eˢ − y·s for y ≥ 0: gradient eˢ − y, hessian e^(s + max_delta_step).

    The true second derivative is eˢ; both engines enlarge it to keep the steps small.

    Parameters
    ----------
    max_delta_step
        LightGBM's `poisson_max_delta_step`, XGBoost's `max_delta_step`.

    Examples
    --------
    >>> gradient, hessian = Poisson(max_delta_step=0.0).gradient([0.0, 0.0], [0, 3])
    >>> gradient
    array([ 1., -2.], dtype=float32)
    >>> hessian
    array([1., 1.], dtype=float32)
    """

    max_delta_step: float = 0.7
    _names: ClassVar[tuple[str, str]] = ("poisson", "count:poisson")
    _needs: ClassVar[str] = "of at least 0"

    def __post_init__(self) -> None:
        if not self.max_delta_step >= 0:
            raise ValueError(f"max_delta_step must not be negative, got {self.max_delta_step}.")

    def _allowed(self, label: Array) -> Array:
        return np.asarray(label >= 0)

    def variance(self, prediction: Array) -> Array:
        """Return f."""
        return prediction

    def _losses(self, score: Array, label: Array) -> Array:
        return np.asarray(exp(score) - label * score)

    def _kernel(self, label: Array) -> tuple[Kernel, tuple[float, ...]]:
        return kernel.poisson, (float(self.max_delta_step),)


@dataclass(frozen=True)
class Gamma(_LogLink):
    """ℓ = s + y·e⁻ˢ for y > 0: gradient 1 − y·e⁻ˢ, hessian y·e⁻ˢ.

    Examples
    --------
    >>> Gamma().gradient([0.0, 0.0], [1.0, 3.0])
    (array([ 0., -2.], dtype=float32), array([1., 3.], dtype=float32))
    """

    _names: ClassVar[tuple[str, str]] = ("gamma", "reg:gamma")
    _needs: ClassVar[str] = "above 0"

    def _allowed(self, label: Array) -> Array:
        return np.asarray(label > 0)

    def variance(self, prediction: Array) -> Array:
        """Return f²."""
        return np.asarray(prediction**2)

    def _losses(self, score: Array, label: Array) -> Array:
        return np.asarray(score + label * exp(-score))

    def _kernel(self, label: Array) -> tuple[Kernel, tuple[float, ...]]:
        return kernel.gamma, ()


@dataclass(frozen=True)
class Tweedie(_LogLink):
    """ℓ = e^((2−ρ)s) / (2−ρ) − y·e^((1−ρ)s) / (1−ρ) for y ≥ 0: gradient e^((2−ρ)s) − y·e^((1−ρ)s).

    Hessian (2−ρ)·e^((2−ρ)s) − (1−ρ)·y·e^((1−ρ)s). At ρ = 1 the second term of the loss is y·s: Poisson without a
    `max_delta_step`.

    Parameters
    ----------
    variance_power
        ρ with 1 ≤ ρ < 2: the variance grows with the mean to this power.

    Examples
    --------
    >>> Tweedie(1.5).gradient([0.0, 0.0], [0.0, 3.0])
    (array([ 1., -2.], dtype=float32), array([0.5, 2. ], dtype=float32))
    """

    variance_power: float = 1.5
    _names: ClassVar[tuple[str, str]] = ("tweedie", "reg:tweedie")
    _needs: ClassVar[str] = "of at least 0"

    def __post_init__(self) -> None:
        if not 1 <= self.variance_power < 2:
            raise ValueError(f"variance_power must be at least 1 and below 2, got {self.variance_power}.")

    def _allowed(self, label: Array) -> Array:
        return np.asarray(label >= 0)

    def variance(self, prediction: Array) -> Array:
        """Return f^ρ."""
        return np.asarray(prediction**self.variance_power)

    def _losses(self, score: Array, label: Array) -> Array:
        below, above = 1.0 - self.variance_power, 2.0 - self.variance_power
        return np.asarray(exp(above * score) / above - label * (exp(below * score) / below if below else score))

    def _kernel(self, label: Array) -> tuple[Kernel, tuple[float, ...]]:
        return kernel.tweedie, (float(self.variance_power),)


@dataclass(frozen=True)
class Quantile(Objective):
    """ℓ = max(α·(y − s), (α − 1)·(y − s)): gradient 1 − α if s ≥ y, else −α; hessian 1.

    The second derivative is 0 almost everywhere; 1 makes a leaf count its rows. A step along this gradient does not
    reach the quantile of a leaf, so the engines' own objectives set the leaf to the quantile afterwards. With this
    custom objective LightGBM does not do so, and learns more slowly. XGBoost does if the parameters also name its own
    objective.

    Parameters
    ----------
    alpha
        The quantile, 0 < α < 1.

    Examples
    --------
    >>> Quantile(0.75).gradient([1.0, 1.0], [0.0, 2.0])
    (array([ 0.25, -0.75], dtype=float32), array([1., 1.], dtype=float32))
    >>> Quantile(0.75).initial_score([4.0, 1.0, 2.0, 3.0])
    3.0
    """

    alpha: float = 0.9
    _names: ClassVar[tuple[str, str]] = ("quantile", "reg:quantileerror")
    linear_in_label: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha must be between 0 and 1, got {self.alpha}.")

    def initial_score(self, label: Any, weight: Any = None) -> float:
        """Return the smallest label with at least α of the weight at or below it.

        LightGBM interpolates between two labels, which is not always a minimum of the loss.
        """
        labels = np.asarray(label, dtype=np.float64)
        weights = weight_array(weight, len(labels))
        weighted_mean(labels, weights)  # raises without rows or without weight
        order = np.argsort(labels, kind="stable")
        below = np.cumsum(weights[order] if weights.size else np.ones(len(labels)))
        return float(labels[order[np.searchsorted(below, self.alpha * below[-1])]])

    def response(self, score: Any) -> Array:
        """Return the score itself."""
        return np.asarray(score, dtype=np.float64)

    def _losses(self, score: Array, label: Array) -> Array:
        above = label - score
        return np.maximum(self.alpha * above, (self.alpha - 1.0) * above)

    def _kernel(self, label: Array) -> tuple[Kernel, tuple[float, ...]]:
        return kernel.quantile, (float(self.alpha),)
