"""The interface of a loss: derivatives, best constant, inverse link, and the labels it is defined for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from .._arrays import Array
from .._kernels.threads import run_in_ranges, thread_count
from .._pickles import is_ours, pickled

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

    @abstractmethod
    def response(self, score: Any) -> Array:
        """Return the prediction for a raw score (the inverse link)."""

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
            raise ValueError(
                f"{name} is {predictions[row].tolist()} in row {row} ({int((~good).sum())} such rows); objective "
                f"{self.name!r} adds to {self._score_words}, which needs predictions {self._needs_prediction}."
            )

    @property
    def _score_words(self) -> str:
        return "predictions themselves" if self.link_name == "identity" else f"their {self.link_name}"

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
        good = (np.abs(labels) <= _LARGEST_LABEL) & self._allowed(labels)
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(self._bad_label(name, labels[row], row, self._needs))

    def _bad_label(self, name: str, value: Any, row: int, needs: str) -> str:
        return f"{name} is {value.tolist()} in row {row}; objective {self.name!r} needs labels {needs}."

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

        def fill_range(lo: int, hi: int) -> None:
            fill(scores, labels, weights, *constants, lo, hi, gradient, hessian)

        run_in_ranges(fill_range, len(scores), thread_count(threads))
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
