"""Losses in closed form, equal to those built into the engines; rates in place of totals over an exposure.

:class:`Objective` is the interface: derivatives, best constant, link, and the labels that a loss is defined for. Losses
for classes follow (logistic, softmax), then those for amounts (squared error, log links, quantiles), then exposure.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ._common import Array
from ._kernels import losses as kernel
from ._kernels.compiling import run_in_ranges, thread_count
from ._persistence import is_ours, pickled

Kernel: TypeAlias = Callable[..., None]

EPSILON = float(np.float32(1e-15))
"""LightGBM's bound on the share of a class, which keeps initial scores finite."""

_LARGEST_LABEL = float(np.finfo(np.float32).max)

_NO_WEIGHT = np.empty(0)


@dataclass(frozen=True)
class Objective(ABC):
    """A loss ℓ(s, y) of raw score s and label y, its derivatives in s, its best constant and its link.

    Attributes
    ----------
    name, xgboost_name
        Names of the loss in LightGBM and XGBoost.
    n_scores
        Raw scores per row: 1, or the number of classes.
    link_name
        What raw scores are of predictions: ``"identity"``, ``"log"`` or ``"log-odds"``.
    linear_in_label
        True if rows with the same score may be merged into one row with the weighted mean of their labels and the sum
        of their weights. This changes the total loss by a constant, and gradient and hessian not at all.
    """

    linear_in_label: ClassVar[bool] = True
    link_name: ClassVar[str] = "identity"
    _names: ClassVar[tuple[str, str]]
    _needs: ClassVar[str] = "to be finite"
    _needs_prediction: ClassVar[str] = "to be finite"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return pickled(type(self).__name__, vars(self)) if is_ours(self) else super().__reduce_ex__(protocol)

    @property
    def name(self) -> str:
        """LightGBM's name."""
        return self._names[0]

    @property
    def xgboost_name(self) -> str:
        """XGBoost's name."""
        return self._names[1]

    @property
    def n_scores(self) -> int:
        """Raw scores per row."""
        return 1

    @abstractmethod
    def initial_score(self, label: Any, weight: Any = None) -> float | Array:
        """Return argmin_c Σ w·ℓ(c, y), the best constant raw score: a number, or one per class.

        LightGBM calls this ``boost_from_average``.
        """

    def response(self, score: Any) -> Array:
        """Return the prediction for a raw score (the inverse link)."""
        return np.asarray(score, dtype=np.float64)

    def link(self, prediction: Any) -> Array:
        """Return the raw score of a prediction: the inverse of :meth:`response`."""
        return np.asarray(prediction, dtype=np.float64)

    def variance(self, prediction: Array) -> Array:
        """Return V(f), to which the variance of an outcome with mean f is proportional under this loss."""
        return np.ones_like(prediction)

    def slope(self, prediction: Array) -> Array:
        """Return ∂f/∂s, by how much a prediction f moves with its raw score."""
        return np.ones_like(prediction)

    def _has_score(self, prediction: Array) -> Array:
        """Return which rows of predictions a finite raw score can give, as far as they are finite."""
        return np.ones(len(prediction), dtype=bool)

    def check_predictions(self, prediction: Any, name: str = "prediction") -> None:
        """Raise ValueError for the first row of predictions that no finite raw score gives."""
        predictions = np.asarray(prediction, dtype=np.float64)
        shape = (len(predictions), *([self.n_scores] if self.n_scores > 1 else []))
        if predictions.shape != shape:
            raise ValueError(f"{name} must have shape {shape} for objective {self.name!r}, got {predictions.shape}.")
        good = np.isfinite(predictions.reshape(len(predictions), -1)).all(axis=1) & self._has_score(predictions)
        if not good.all():
            row = int(np.argmin(good))
            added_to = "predictions themselves" if self.link_name == "identity" else f"their {self.link_name}"
            raise ValueError(
                f"{name} is {predictions[row].tolist()} in row {row} ({int((~good).sum())} such rows); objective "
                f"{self.name!r} adds to {added_to}, which needs predictions {self._needs_prediction}."
            )

    @abstractmethod
    def _losses(self, score: Array, label: Array) -> Array:
        """Return ℓ(s, y) for every row."""

    @abstractmethod
    def _kernel(self, label: Array) -> tuple[Kernel, tuple[float, ...]]:
        """Return the kernel, and the constants it takes after the weights."""

    def _allowed(self, label: Array) -> Array:
        """Return which labels the loss is defined for, given that they are finite."""
        return np.ones(len(label), dtype=bool)

    def check_labels(self, label: Any, name: str = "label") -> None:
        """Raise ValueError for the first label the loss is not defined for.

        The requirements are those of the stricter engine. NaN and infinity are never allowed: LightGBM would silently
        read them as 0 and 10³⁸.
        """
        labels = np.asarray(label, dtype=np.float64)
        if labels.ndim != 1:
            raise ValueError(f"{name} must have one value per row, got shape {labels.shape}.")
        # A comparison with NaN is False, and a label beyond float32 would be infinite for both engines.
        self._refuse(labels, (np.abs(labels) <= _LARGEST_LABEL) & self._allowed(labels), name, self._needs)

    def _refuse(self, labels: Array, good: Array, name: str, needs: str) -> None:
        if not good.all():
            row = int(np.argmin(good))
            value = labels[row].tolist()
            raise ValueError(f"{name} is {value} in row {row}; objective {self.name!r} needs labels {needs}.")

    def gradient(self, score: Any, label: Any, weight: Any = None, threads: int | None = None) -> tuple[Array, Array]:
        """Return w·∂ℓ/∂s and w·∂²ℓ/∂s² for every row.

        Some losses enlarge the second derivative or have none; see the class. Labels are not checked again.

        Parameters
        ----------
        score
            Raw scores, (n,) or, with K classes, (n, K) in either memory order.
        label
            Labels, (n,).
        weight
            Weights, (n,); None or empty if all are 1.
        threads
            Number of threads; None for all cores. It does not change the result.

        Returns
        -------
        gradient, hessian
            float32, in the shape and memory order of ``score``.
        """
        scores, labels, weights = self._arrays(score, label, weight)
        gradient, hessian = np.empty_like(scores, dtype=np.float32), np.empty_like(scores, dtype=np.float32)
        fill, constants = self._kernel(labels)
        given = (scores, labels, weights, *constants)
        run_in_ranges(lambda lo, hi: fill(*given, lo, hi, gradient, hessian), len(scores), thread_count(threads))
        return gradient, hessian

    def __call__(self, preds: Array, data: Any, threads: int | None = None) -> tuple[Array, Array]:
        """Act as a custom objective: ``data`` is a LightGBM Dataset or an XGBoost DMatrix, with its weights applied."""
        label = data.get_label()
        if label is None:
            raise ValueError("The data have no label.")
        return self.gradient(preds, label, data.get_weight(), threads)

    def loss(self, score: Any, label: Any, weight: Any = None) -> float:
        """Return Σ w·ℓ(s, y) / Σ w, the mean loss."""
        scores, labels, weights = self._arrays(score, label, weight)
        return float(weighted_mean(self._losses(scores, labels), weights))

    def losses(self, score: Any, label: Any) -> Array:
        """Return ℓ(s, y) for every row."""
        scores, labels, _ = self._arrays(score, label, None)
        return self._losses(scores, labels)

    def _arrays(self, score: Any, label: Any, weight: Any) -> tuple[Array, Array, Array]:
        scores = np.asarray(score, dtype=np.float64)
        if scores.ndim == 1:
            scores = np.ascontiguousarray(scores)
        n = len(scores) if scores.ndim else 0
        if scores.shape != ((n,) if self.n_scores == 1 else (n, self.n_scores)):
            shape = "(n,)" if self.n_scores == 1 else f"(n, {self.n_scores})"
            raise ValueError(f"score must have shape {shape} for objective {self.name!r}, got {scores.shape}.")
        return scores, self._label_array(label, n), weight_array(weight, n)

    def _label_array(self, label: Any, n: int) -> Array:
        labels = np.ascontiguousarray(label, dtype=np.float64)
        if labels.shape != (n,):
            raise ValueError(f"label must have one value for each of the {n} rows, got shape {labels.shape}.")
        return labels


def weight_array(weight: Any, n: int) -> Array:
    """Return weights as float64, empty if all are 1; raise unless there is one per row."""
    weights = _NO_WEIGHT if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
    if weights.size and weights.shape != (n,):
        raise ValueError(f"weight must have one value for each of the {n} rows, got shape {weights.shape}.")
    return weights


def weighted_mean(values: Array, weights: Array) -> Any:
    """Return the weighted mean over the rows; without weights, every row counts as 1."""
    if len(values) == 0:
        raise ValueError("There are no rows to average.")
    if not weights.size:
        return values.mean(axis=0)
    total = weights.sum()
    if total == 0:
        raise ValueError("All weights are 0, so there is no mean.")
    return weights @ values / total


def mean_label(label: Any, weight: Any) -> float:
    """Return Σ w·y / Σ w."""
    labels = np.asarray(label, dtype=np.float64)
    return float(weighted_mean(labels, weight_array(weight, len(labels))))


def exp(score: Any) -> Array:
    """Return e^s, infinite where it is too large for a double."""
    with np.errstate(over="ignore"):  # the engines also return infinity
        return np.exp(np.asarray(score, dtype=np.float64))


# ------------------------------------------------------------------------------- classes


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

    slope = variance

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
    >>> Softmax(2).gradient([[0.0, 0.0]], [1])
    (array([[ 0.5, -0.5]], dtype=float32), array([[0.5, 0.5]], dtype=float32))
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
        self._refuse(labels, good, name, needs)

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
        """Return p·(1 − p), within a class."""
        return np.asarray(prediction * (1.0 - prediction))

    slope = variance

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


# ------------------------------------------------------------------------------- amounts


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

    def _losses(self, score: Array, label: Array) -> Array:
        return np.asarray((score - label) ** 2 / 2)

    def _kernel(self, label: Array) -> tuple[Kernel, tuple[float, ...]]:
        return kernel.squared_error, ()


@dataclass(frozen=True)
class _LogLink(Objective):
    """Losses whose prediction is the mean eˢ, and whose best constant is the log of the mean label."""

    link_name: ClassVar[str] = "log"
    _needs: ClassVar[str] = "of at least 0"
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

    def _allowed(self, label: Array) -> Array:
        return np.asarray(label >= 0)

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
    >>> Poisson(max_delta_step=0.0).gradient([0.0, 0.0], [0, 3])
    (array([ 1., -2.], dtype=float32), array([1., 1.], dtype=float32))
    """

    max_delta_step: float = 0.7
    _names: ClassVar[tuple[str, str]] = ("poisson", "count:poisson")

    def __post_init__(self) -> None:
        if not self.max_delta_step >= 0:
            raise ValueError(f"max_delta_step must not be negative, got {self.max_delta_step}.")

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

    def __post_init__(self) -> None:
        if not 1 <= self.variance_power < 2:
            raise ValueError(f"variance_power must be at least 1 and below 2, got {self.variance_power}.")

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

    def _losses(self, score: Array, label: Array) -> Array:
        above = label - score
        return np.maximum(self.alpha * above, (self.alpha - 1.0) * above)

    def _kernel(self, label: Array) -> tuple[Kernel, tuple[float, ...]]:
        return kernel.quantile, (float(self.alpha),)


LOSSES: dict[str, type[Objective]] = {
    loss.__name__: loss for loss in (Gamma, Logistic, Poisson, Quantile, Softmax, SquaredError, Tweedie)
}
"""Every loss by the name that model files have for it."""


# ------------------------------------------------------------------------------- exposure
#
# Outcomes that add up over an exposure become rates, and rates weigh as much as their exposure: label and weight, not
# an offset. `per_unit` is the only place that divides.
#
# Let Y add up over an exposure e: claims over e years, claim amounts over e years, the amounts of e claims. If the
# increments of disjoint parts of e are independent and alike, mean and variance are proportional to e:
#
#     E[Y] = e·μ,     Var[Y] = e·φ·μ^p,     so that     E[Y/e] = μ,     Var[Y/e] = φ·μ^p / e,
#
# with p = 1 for counts (Poisson), 1 < p < 2 for compound Poisson sums (Tweedie) and p = 2 for the amounts of e claims
# (gamma). This is a rate with dispersion φ/e, so its likelihood is that of **label Y/e with weight e**. In raw scores
# s = log μ the gradient is e·(μ^(2−p) − (Y/e)·μ^(1−p)).
#
# The offset log e, that is mean e·μ with weight 1, has the gradient (e·μ)^(2−p) − Y·(e·μ)^(1−p), which is that of
# label Y/e with weight e^(2−p). For Poisson the two agree, hessians included. For Tweedie and gamma the offset
# assumes a variance proportional to (e·μ)^p: another model, in which a gamma severity of ten claims weighs no more
# than one.
#
# With label and weight nothing else depends on exposure: engines start from the mean, rows may be merged, metrics,
# anchors and audits weigh by it, predictions are per unit. The target becomes
# E[Y | b, A ⊇ a, z_a] / E[e | b, A ⊇ a, z_a].
#
# Exposure is a base datum. It must be known for everybody and measured alike, whether or not they share: exposures
# that are guessed for the silent, or shorter because they are silent, let silence change what the silent are told.


TAKE_EXPOSURE = (Poisson, Gamma, Tweedie)
"""Losses of outcomes that add up over an exposure."""


def per_unit(outcome: Array, weight: Array | None, exposure: Array) -> tuple[Array, Array]:
    """Return the rates Y/e and the weights w·e, both float64; without weights w = 1.

    Examples
    --------
    >>> import numpy as np
    >>> per_unit(np.array([2.0, 3.0]), None, np.array([0.5, 6.0]))
    (array([4. , 0.5]), array([0.5, 6. ]))
    """
    return outcome / exposure, exposure if weight is None else weight * exposure


def check_takes_exposure(objective: Objective | None, given: Any) -> None:
    """Raise unless outcomes of this loss add up over an exposure.

    ``objective`` is None if it is not known in closed form; ``given`` is how the user named it, None if not at all.
    """
    if isinstance(objective, TAKE_EXPOSURE) or isinstance(given, TAKE_EXPOSURE):
        return
    if given is None and objective is not None:
        given = objective.name
    names = ", ".join(repr(loss._names[0]) for loss in TAKE_EXPOSURE)
    raise ValueError(
        f"exposure with objective={given!r}: an exposure is for outcomes that add up over it, with objective {names} "
        "or another engine's name for one of them. For other losses weight is meant: give weight=, and rates as labels "
        "if the outcomes are totals."
    )
