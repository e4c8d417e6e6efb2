"""Losses in closed form: gradients, initial scores and links, equal to those built into the engines.

An engine's built-in objective computes its own gradients and lets nobody in between. The objects here do the same
sums in the open. Each is also a custom objective for either engine:

>>> import lightgbm as lgb
>>> X, y = np.arange(100.0).reshape(-1, 1), np.arange(100) // 50
>>> start = Poisson().initial_score(y)
>>> data = lgb.Dataset(X, label=y, init_score=np.full(100, start))
>>> booster = lgb.train({"objective": Poisson(), "verbosity": -1}, data, num_boost_round=100)
>>> Poisson().response(start + booster.predict([[0.0], [99.0]])).round(2)
array([0.01, 1.  ])

With a custom objective the engines no longer start from the average, apply weights or know the link. The weights are
applied here; :meth:`Objective.initial_score` and :meth:`Objective.response` give the other two.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ._arrays import Array
from ._engines.params import is_true, lightgbm_value
from ._kernels import losses as kernel
from ._kernels.threads import run_in_ranges, thread_count

Kernel = Callable[..., None]

__all__ = [
    "Gamma",
    "Logistic",
    "Objective",
    "Poisson",
    "Quantile",
    "Softmax",
    "SquaredError",
    "Tweedie",
    "objective_for",
]

_EPSILON = float(np.float32(1e-15))
"""LightGBM's bound on the share of a class, which keeps initial scores finite."""

_LARGEST_LABEL = float(np.finfo(np.float32).max)
_SHARES_TOLERANCE = 1e-5
"""How far the shares of a row may be from 1 in sum: float32 shares of many classes are."""

_NO_WEIGHT = np.empty(0)


@dataclass(frozen=True)
class Objective(ABC):
    """A loss ℓ(s, y) of raw score s and label y, its derivatives in s, its best constant and its inverse link.

    Attributes
    ----------
    name, xgboost_name
        What LightGBM and XGBoost call it.
    n_scores
        Raw scores per row: 1, or the number of classes.
    linear_in_label
        True if rows with one score may be merged into a row with the weighted mean of their labels and the sum of
        their weights: the total loss then changes by a constant, gradient and hessian not at all.
    """

    linear_in_label: ClassVar[bool] = True
    _names: ClassVar[tuple[str, str]]
    _needs: ClassVar[str] = "to be finite"

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
        """argmin_c Σ w·ℓ(c, y): the best constant raw score, LightGBM's ``boost_from_average``.

        A number, or one per class.
        """

    @abstractmethod
    def response(self, score: Any) -> Array:
        """Inverse link: the prediction that belongs to a raw score."""

    @abstractmethod
    def _losses(self, score: Array, label: Array) -> Array:
        """ℓ(s, y) of every row."""

    @abstractmethod
    def _kernel(self, label: Array) -> tuple[Kernel, tuple[float, ...]]:
        """The kernel, and the constants it takes after the weights."""

    def _allowed(self, label: Array) -> Array:
        """Which labels belong to the loss, given that they are finite."""
        return np.ones(len(label), dtype=bool)

    def check_labels(self, label: Any, name: str = "label") -> None:
        """Raise ValueError for the first label the loss is not defined for.

        The demands are those of the stricter engine. NaN and infinity are never allowed: LightGBM would silently read
        them as 0 and 10³⁸.
        """
        labels = np.asarray(label, dtype=np.float64)
        if labels.ndim != 1:
            raise ValueError(f"{name} must have one value per row, got shape {labels.shape}.")
        # A comparison with NaN is False, and a label beyond float32 would be infinite for both engines.
        good = (np.abs(labels) <= _LARGEST_LABEL) & self._allowed(labels)
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(self._bad_label(name, labels[row], row, self._needs))

    def _bad_label(self, name: str, value: Any, row: int, needs: str) -> str:
        return f"{name} is {value.tolist()} in row {row}; objective {self.name!r} needs labels {needs}."

    def gradient(self, score: Any, label: Any, weight: Any = None, threads: int | None = None) -> tuple[Array, Array]:
        """w·∂ℓ/∂s and w·∂²ℓ/∂s² of every row.

        Some losses enlarge the second derivative or have none; see the class. Labels are not checked again.

        Parameters
        ----------
        score
            Raw scores, (n,) or, with K classes, (n, K) in either memory order.
        label
            Labels, (n,).
        weight
            Weights, (n,); None or empty for ones.
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

        def fill_range(lo: int, hi: int) -> None:
            fill(scores, labels, weights, *constants, lo, hi, gradient, hessian)

        run_in_ranges(fill_range, len(scores), thread_count(threads))
        return gradient, hessian

    def __call__(self, preds: Array, data: Any, threads: int | None = None) -> tuple[Array, Array]:
        """Be a custom objective: ``data`` is a LightGBM Dataset or an XGBoost DMatrix, its weights are applied."""
        label = data.get_label()
        if label is None:
            raise ValueError("The data have no label.")
        return self.gradient(preds, label, data.get_weight(), threads)

    def loss(self, score: Any, label: Any, weight: Any = None) -> float:
        """Σ w·ℓ(s, y) / Σ w, the mean loss."""
        scores, labels, weights = self._arrays(score, label, weight)
        return float(_mean(self._losses(scores, labels), weights))

    def _arrays(self, score: Any, label: Any, weight: Any) -> tuple[Array, Array, Array]:
        scores = np.asarray(score, dtype=np.float64)
        if scores.ndim == 1:
            scores = np.ascontiguousarray(scores)
        n = len(scores) if scores.ndim else 0
        if scores.shape != ((n,) if self.n_scores == 1 else (n, self.n_scores)):
            shape = "(n,)" if self.n_scores == 1 else f"(n, {self.n_scores})"
            raise ValueError(f"score must have shape {shape} for objective {self.name!r}, got {scores.shape}.")
        return scores, self._label_array(label, n), _weight_array(weight, n)

    def _label_array(self, label: Any, n: int) -> Array:
        labels = np.ascontiguousarray(label, dtype=np.float64)
        if labels.shape != (n,):
            raise ValueError(f"label must have one value for each of the {n} rows, got shape {labels.shape}.")
        return labels


def _weight_array(weight: Any, n: int) -> Array:
    weights = _NO_WEIGHT if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
    if weights.size and weights.shape != (n,):
        raise ValueError(f"weight must have one value for each of the {n} rows, got shape {weights.shape}.")
    return weights


def _mean(values: Array, weights: Array) -> Any:
    """Weighted mean over the rows; no weights are weights of 1."""
    if len(values) == 0:
        raise ValueError("There is no row to take a mean of.")
    if not weights.size:
        return values.mean(axis=0)
    total = weights.sum()
    if total == 0:
        raise ValueError("All weights are 0: there is no mean.")
    return weights @ values / total


def _mean_label(label: Any, weight: Any) -> float:
    labels = np.asarray(label, dtype=np.float64)
    return float(_mean(labels, _weight_array(weight, len(labels))))


def _exp(score: Any) -> Array:
    with np.errstate(over="ignore"):  # infinity is what the engines answer, too
        return np.exp(np.asarray(score, dtype=np.float64))


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
        """Mean label."""
        return _mean_label(label, weight)

    def response(self, score: Any) -> Array:
        """The score itself."""
        return np.asarray(score, dtype=np.float64)

    def _losses(self, score: Array, label: Array) -> Array:
        return np.asarray((score - label) ** 2 / 2)

    def _kernel(self, label: Array) -> tuple[Kernel, tuple[float, ...]]:
        return kernel.squared_error, ()


@dataclass(frozen=True)
class Logistic(Objective):
    """ℓ = log(1 + eˢ) − y·s for y ∈ [0, 1]: gradient p − y, hessian p·(1 − p), where p = 1 / (1 + e⁻ˢ).

    Labels between 0 and 1 are taken as they are, as in LightGBM's `cross_entropy` and XGBoost's `binary:logistic`.
    LightGBM's `binary` would read every label above 0 as 1.

    Parameters
    ----------
    soft_labels
        Call it `cross_entropy` instead of `binary`. Nothing is computed differently.

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

    @property
    def name(self) -> str:
        """LightGBM's name."""
        return "cross_entropy" if self.soft_labels else "binary"

    def _allowed(self, label: Array) -> Array:
        return np.asarray((label >= 0) & (label <= 1))

    def initial_score(self, label: Any, weight: Any = None) -> float:
        """log(m / (1 − m)) of the mean label m, which is kept 10⁻¹⁵ away from 0 and 1."""
        mean = min(max(_mean_label(label, weight), _EPSILON), 1.0 - _EPSILON)
        return math.log(mean / (1.0 - mean))

    def response(self, score: Any) -> Array:
        """1 / (1 + e⁻ˢ)."""
        return np.asarray(1.0 / (1.0 + _exp(-np.asarray(score, dtype=np.float64))))

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

    def __post_init__(self) -> None:
        if self.n_classes < 2:
            raise ValueError(f"n_classes must be at least 2, got {self.n_classes}.")
        if self.hessian_factor is not None and not self.hessian_factor > 0:
            raise ValueError(f"hessian_factor must be positive, got {self.hessian_factor}.")

    @property
    def n_scores(self) -> int:
        """One raw score per class."""
        return self.n_classes

    def check_labels(self, label: Any, name: str = "label") -> None:
        """Raise ValueError for the first label that is no class id, or row that does not hold shares of 1."""
        labels = np.asarray(label, dtype=np.float64)
        last = self.n_classes - 1
        if labels.ndim == 1:
            good = (labels >= 0) & (labels <= last) & (labels == np.floor(labels))
            needs = f"to be whole numbers from 0 to {last}"
        elif labels.shape[1:] == (self.n_classes,):
            with np.errstate(invalid="ignore"):  # ∞ − ∞
                good = (labels >= 0).all(axis=1) & (np.abs(labels.sum(axis=1) - 1.0) <= _SHARES_TOLERANCE)
            needs = "in a matrix to be shares: not negative, and 1 in sum"
        else:
            raise ValueError(
                f"{name} must have one value per row, or one share for each of {self.n_classes} classes; "
                f"got shape {labels.shape}."
            )
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(self._bad_label(name, labels[row], row, needs))

    def initial_score(self, label: Any, weight: Any = None) -> Array:
        """The log of each class's share, which is kept above 10⁻¹⁵."""
        labels = np.asarray(label, dtype=np.float64)
        weights = _weight_array(weight, len(labels))
        if labels.ndim == 1:
            shares = np.array([_mean((labels == k).astype(np.float64), weights) for k in range(self.n_classes)])
        else:
            shares = np.asarray(_mean(labels, weights))
        return np.asarray(np.log(np.maximum(shares, _EPSILON)))

    def response(self, score: Any) -> Array:
        """p_k = e^(s_k) / Σ e^(s_j), along the last axis."""
        scores = np.asarray(score, dtype=np.float64)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))

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


@dataclass(frozen=True)
class _LogLink(Objective):
    """Losses whose prediction is the mean eˢ, and whose best constant is the log of the mean label."""

    def initial_score(self, label: Any, weight: Any = None) -> float:
        """The log of the mean label.

        Raises ValueError if the mean is 0: the score would be −∞. LightGBM refuses such labels; XGBoost trains on
        them and predicts −∞ or NaN.
        """
        mean = _mean_label(label, weight)
        if not mean > 0:
            raise ValueError(f"objective {self.name!r} needs a positive mean label, got {mean}.")
        return math.log(mean)

    def response(self, score: Any) -> Array:
        """eˢ."""
        return _exp(score)


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

    def _losses(self, score: Array, label: Array) -> Array:
        return np.asarray(_exp(score) - label * score)

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

    def _losses(self, score: Array, label: Array) -> Array:
        return np.asarray(score + label * _exp(-score))

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

    def _losses(self, score: Array, label: Array) -> Array:
        below, above = 1.0 - self.variance_power, 2.0 - self.variance_power
        return np.asarray(_exp(above * score) / above - label * (_exp(below * score) / below if below else score))

    def _kernel(self, label: Array) -> tuple[Kernel, tuple[float, ...]]:
        return kernel.tweedie, (float(self.variance_power),)


@dataclass(frozen=True)
class Quantile(Objective):
    """ℓ = max(α·(y − s), (α − 1)·(y − s)): gradient 1 − α if s ≥ y, else −α; hessian 1.

    The second derivative is 0 almost everywhere; 1 makes a leaf count its rows. A step along this gradient does not
    reach the quantile of a leaf, so the engines' own objectives set it afterwards. With this one as custom objective
    LightGBM does not, and learns more slowly; XGBoost does if its own name is among the parameters as well.

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
        """The smallest label with at least α of the weight at or below it.

        LightGBM interpolates between two labels, which is not always a minimum of the loss.
        """
        labels = np.asarray(label, dtype=np.float64)
        weights = _weight_array(weight, len(labels))
        _mean(labels, weights)  # refuses no rows and no weight
        order = np.argsort(labels, kind="stable")
        below = np.cumsum(weights[order] if weights.size else np.ones(len(labels)))
        return float(labels[order[np.searchsorted(below, self.alpha * below[-1])]])

    def response(self, score: Any) -> Array:
        """The score itself."""
        return np.asarray(score, dtype=np.float64)

    def _losses(self, score: Array, label: Array) -> Array:
        above = label - score
        return np.maximum(self.alpha * above, (self.alpha - 1.0) * above)

    def _kernel(self, label: Array) -> tuple[Kernel, tuple[float, ...]]:
        return kernel.quantile, (float(self.alpha),)


_LIGHTGBM_NAMES: dict[str, str] = {
    **dict.fromkeys(
        (
            "regression",
            "regression_l2",
            "l2",
            "mean_squared_error",
            "mse",
            "l2_root",
            "root_mean_squared_error",
            "rmse",
        ),
        "regression",
    ),
    "binary": "binary",
    "cross_entropy": "cross_entropy",
    "xentropy": "cross_entropy",
    "multiclass": "multiclass",
    "softmax": "multiclass",
    "poisson": "poisson",
    "gamma": "gamma",
    "tweedie": "tweedie",
    "quantile": "quantile",
}

_UNBALANCED_NAMES = ("is_unbalance", "unbalance", "unbalanced_sets")

_WEIGHS_ONES = ("reg:squarederror", "binary:logistic", "reg:logistic", "reg:gamma")
"""Where XGBoost multiplies the weight of rows with label 1 by `scale_pos_weight`, be it regression or not."""


def objective_for(params: Mapping[str, Any], engine: str = "lightgbm") -> Objective | None:
    """Return the objective that ``params`` ask an engine for, with that engine's constants.

    Parameters
    ----------
    params
        Parameters of the engine; without an objective, squared error is meant.
    engine
        ``"lightgbm"`` or ``"xgboost"``.

    Returns
    -------
    objective
        None for a callable, for other losses, and where a parameter changes the loss: `reg_sqrt`, `sigmoid`,
        `is_unbalance`, `scale_pos_weight`, several values of `quantile_alpha`.

    Examples
    --------
    >>> objective_for({"objective": "mse"})
    SquaredError()
    >>> objective_for({"objective": "multi:softprob", "num_class": 3}, engine="xgboost")
    Softmax(n_classes=3, hessian_factor=2.0)
    >>> objective_for({"objective": "huber"}) is None
    True
    """
    if engine == "lightgbm":
        return _lightgbm_objective(params)
    if engine == "xgboost":
        return _xgboost_objective(params)
    raise ValueError(f"engine must be 'lightgbm' or 'xgboost', got {engine!r}.")


def _lightgbm_objective(params: Mapping[str, Any]) -> Objective | None:
    given = lightgbm_value(params, "objective", "regression")
    name = _LIGHTGBM_NAMES.get(given.strip().lower()) if isinstance(given, str) else None
    if name == "regression" and not is_true(params.get("reg_sqrt")):
        return SquaredError()
    if name == "binary":
        unbalanced = any(is_true(params.get(key)) for key in _UNBALANCED_NAMES)
        scaled = any(_number(params, key, 1.0) != 1.0 for key in ("sigmoid", "scale_pos_weight"))
        return None if unbalanced or scaled else Logistic()
    if name == "cross_entropy":
        return Logistic(soft_labels=True)
    if name == "multiclass":
        return Softmax(_class_count(lightgbm_value(params, "num_class"), given))
    if name == "poisson":
        return Poisson(_number(params, "poisson_max_delta_step", 0.7))
    if name == "gamma":
        return Gamma()
    if name == "tweedie":
        return Tweedie(_number(params, "tweedie_variance_power", 1.5))
    if name == "quantile":
        return Quantile(_number(params, "alpha", 0.9))
    return None


def _xgboost_objective(params: Mapping[str, Any]) -> Objective | None:
    given = params.get("objective")
    name = "reg:squarederror" if given is None else given
    if name in _WEIGHS_ONES and _number(params, "scale_pos_weight", 1.0) != 1.0:
        return None
    if name == "reg:squarederror":
        return SquaredError()
    if name in ("binary:logistic", "reg:logistic"):
        return Logistic()
    if name in ("multi:softprob", "multi:softmax"):
        return Softmax(_class_count(params.get("num_class"), name), hessian_factor=2.0)
    if name == "count:poisson":
        return Poisson(_number(params, "max_delta_step", 0.7))
    if name == "reg:gamma":
        return Gamma()
    if name == "reg:tweedie":
        return Tweedie(_number(params, "tweedie_variance_power", 1.5))
    if name == "reg:quantileerror":
        alpha = params.get("quantile_alpha")
        alphas = np.atleast_1d(np.asarray(() if alpha is None else alpha, dtype=np.float64))
        if alphas.size == 0:
            raise ValueError("objective 'reg:quantileerror' needs the parameter quantile_alpha.")
        return Quantile(float(alphas[0])) if alphas.size == 1 else None
    return None


def _number(params: Mapping[str, Any], name: str, default: float) -> float:
    """Read a number; None is a missing value for both engines."""
    value = params.get(name)
    return default if value is None else float(value)


def _class_count(num_class: Any, objective: str) -> int:
    if num_class is None or int(num_class) < 2:
        raise ValueError(f"objective {objective!r} needs the parameter num_class, at least 2; got {num_class}.")
    return int(num_class)
