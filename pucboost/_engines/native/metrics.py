"""LightGBM's metrics by name, on the raw scores of virtual rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..._arrays import Array
from ..names import MAIN_METRIC, main_objective, number_of, value_of, whole_number

_EPSILON = float(np.float32(1e-15))
"""LightGBM's smallest probability in a logarithm …"""
_CROSS_ENTROPY_EPSILON = 1e-12
"""… in its metrics for soft labels …"""
_SMALLEST_MEAN = float(np.float32(1e-10))
"""… and its smallest mean of counts and amounts."""

Response: TypeAlias = Callable[[Array], Array]


@dataclass(frozen=True)
class Scores:
    """The scores of some rows, with the truth: what a metric sees."""

    raw: Array
    """(n,), or (n, K) with K classes."""
    prediction: Array
    """The response of the raw scores; themselves with a callable objective."""
    label: Array
    weight: Array | None

    def mean(self, losses: Array) -> float:
        """Return the weighted mean over the rows."""
        return float(np.average(losses, weights=self.weight))


@dataclass(frozen=True)
class Metric:
    """A metric under the name by which LightGBM reports it."""

    name: str
    value: Callable[[Scores], float]
    higher_is_better: bool = False


def metrics_of(params: Mapping[str, Any], n_classes: int) -> list[Metric]:
    """Return the metrics that the parameters ask for; without any, that of the objective.

    A callable objective has none of its own.
    """
    given = value_of(params, "metric")
    if given is None or (isinstance(given, (str, list, tuple, set)) and not len(given)):
        objective = value_of(params, "objective", "regression")
        given = [] if callable(objective) else [main_objective(objective) or objective]
    names = given.split(",") if isinstance(given, str) else list(given)
    found: dict[str, Metric] = {}
    for name in names:
        word = str(name).strip().lower()
        main = MAIN_METRIC.get(word)
        if main is None and word not in ("", "none", "null", "na", "custom"):
            raise ValueError(
                f"metric={name!r} is not a metric of LightGBM. Use its names, or pass a function as feval."
            )
        if main is not None:
            found.setdefault(main, _metric(main, params, n_classes))
    return list(found.values())


def _metric(name: str, params: Mapping[str, Any], n_classes: int) -> Metric:
    of_classes = name in ("multi_logloss", "multi_error", "auc_mu")
    if of_classes != (n_classes > 1):
        needs = "an objective with several classes" if of_classes else "an objective with one score for each row"
        raise ValueError(f"metric={name!r} needs {needs}.")
    if name in _LOSSES:
        return Metric(name, partial(_mean_loss, _LOSSES[name]))
    if name in _WITH_PARAMETER:
        loss, parameter, default = _WITH_PARAMETER[name]
        constant = number_of(params, parameter, default)
        return Metric(name, partial(_mean_loss, lambda score, label: loss(score, label, constant)))
    if name == "multi_error":
        top = whole_number("multi_error_top_k", params.get("multi_error_top_k") or 1)
        return Metric(name if top == 1 else f"{name}@{top}", partial(_multi_error, top=top))
    if name == "auc_mu":
        return Metric(name, partial(_auc_mu, costs=_costs(params, n_classes)), True)
    if name in _OTHERS:
        return Metric(name, _OTHERS[name], name in ("auc", "average_precision", "r2"))
    raise ValueError(f"metric={name!r} is not known to the native engine. Use engine='lightgbm'.")


def _mean_loss(loss: Callable[[Array, Array], Array], scores: Scores) -> float:
    return scores.mean(loss(scores.prediction, scores.label))


# ----- losses of one row


def _log(values: Array, smallest: float) -> Array:
    return np.asarray(np.log(np.maximum(values, smallest)))


def _binary_logloss(p: Array, y: Array) -> Array:
    return -_log(np.where(y > 0, p, 1.0 - p), _EPSILON)


def _cross_entropy(p: Array, y: Array) -> Array:
    return np.asarray(-y * _log(p, _CROSS_ENTROPY_EPSILON) - (1.0 - y) * _log(1.0 - p, _CROSS_ENTROPY_EPSILON))


def _kullback_leibler(p: Array, y: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.where(y > 0, y * np.log(y), 0.0) + np.where(y < 1, (1.0 - y) * np.log(1.0 - y), 0.0)
    return np.asarray(_cross_entropy(p, y) + entropy)


def _poisson(mean: Array, y: Array) -> Array:
    mean = np.maximum(mean, _SMALLEST_MEAN)
    return np.asarray(mean - y * np.log(mean))


def _gamma(mean: Array, y: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(y / mean + np.log(mean))


def _quantile(score: Array, y: Array, alpha: float) -> Array:
    return np.asarray(np.maximum(alpha * (y - score), (alpha - 1.0) * (y - score)))


def _huber(score: Array, y: Array, alpha: float) -> Array:
    off = np.abs(score - y)
    return np.asarray(np.where(off <= alpha, off**2 / 2, alpha * (off - alpha / 2)))


def _fair(score: Array, y: Array, c: float) -> Array:
    off = np.abs(score - y)
    return np.asarray(c * off - c * c * np.log1p(off / c))


def _tweedie(mean: Array, y: Array, power: float) -> Array:
    log = np.log(np.maximum(mean, _SMALLEST_MEAN))
    return np.asarray(np.exp((2.0 - power) * log) / (2.0 - power) - y * np.exp((1.0 - power) * log) / (1.0 - power))


def _multi_logloss(p: Array, y: Array) -> Array:
    return -_log(p[np.arange(len(p)), y.astype(np.intp)], _EPSILON)


_LOSSES: dict[str, Callable[[Array, Array], Array]] = {
    "l2": lambda score, y: (score - y) ** 2,
    "l1": lambda score, y: np.abs(score - y),
    "mape": lambda score, y: np.abs(score - y) / np.maximum(np.abs(y), 1.0),
    "poisson": _poisson,
    "gamma": _gamma,
    "binary_logloss": _binary_logloss,
    "binary_error": lambda p, y: (p > 0.5) != (y > 0),
    "cross_entropy": _cross_entropy,
    "kullback_leibler": _kullback_leibler,
    "multi_logloss": _multi_logloss,
}
"""Metrics that are the mean of a loss of prediction and label."""

_WITH_PARAMETER: dict[str, tuple[Callable[[Array, Array, float], Array], str, float]] = {
    "quantile": (_quantile, "alpha", 0.9),
    "huber": (_huber, "alpha", 0.9),
    "fair": (_fair, "fair_c", 1.0),
    "tweedie": (_tweedie, "tweedie_variance_power", 1.5),
}
"""The same, with a parameter: its name and LightGBM's default."""


# ----- other metrics


def _rmse(scores: Scores) -> float:
    return float(np.sqrt(_mean_loss(_LOSSES["l2"], scores)))


def _r2(scores: Scores) -> float:
    spread = scores.mean((scores.label - scores.mean(scores.label)) ** 2)
    return 1.0 - _mean_loss(_LOSSES["l2"], scores) / spread if spread > 0 else 0.0


def _gamma_deviance(scores: Scores) -> float:
    """Return 2·Σ w·(y/m − log(y/m) − 1): LightGBM does not divide it by the weight."""
    ratio = scores.label / (scores.prediction + 1e-9)
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = ratio - np.log(ratio) - 1.0
    return 2.0 * float(losses.sum() if scores.weight is None else scores.weight @ losses)


def _auc(scores: Scores) -> float:
    weight = np.ones(len(scores.label)) if scores.weight is None else scores.weight
    return _area(scores.raw, scores.label > 0, weight.astype(np.float64))


def _area(score: Array, positive: Array, weight: Array) -> float:
    """Return the share of pairs whose positive row has the higher score; equal scores count one half."""
    pos, neg = _by_threshold(score, positive, weight)
    above = np.cumsum(pos) - pos
    total_pos, total_neg = pos.sum(), neg.sum()
    if total_pos == 0 or total_neg == 0:
        return 1.0  # as in LightGBM
    return float(neg @ (above + pos / 2) / (total_pos * total_neg))


def _average_precision(scores: Scores) -> float:
    weight = np.ones(len(scores.label)) if scores.weight is None else scores.weight
    pos, neg = _by_threshold(scores.raw, scores.label > 0, weight.astype(np.float64))
    found = np.cumsum(pos)
    if found[-1] == 0 or neg.sum() == 0:
        return 1.0
    told = found + np.cumsum(neg)
    return float(pos @ np.divide(found, told, out=np.zeros_like(told), where=told > 0) / found[-1])


def _by_threshold(score: Array, positive: Array, weight: Array) -> tuple[Array, Array]:
    """Return the positive and the negative weight at each distinct score, the highest score first."""
    order = np.argsort(-score)
    ordered = score[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    weights = weight[order]
    is_positive = positive[order]
    return np.add.reduceat(weights * is_positive, first), np.add.reduceat(weights * ~is_positive, first)


def _multi_error(scores: Scores, top: int) -> float:
    own = scores.prediction[np.arange(len(scores.label)), scores.label.astype(np.intp)]
    return scores.mean((scores.prediction >= own[:, None]).sum(axis=1) > top)


def _costs(params: Mapping[str, Any], n_classes: int) -> Array:
    given = params.get("auc_mu_weights")
    if given is None or not len(given):
        return np.ones((n_classes, n_classes)) - np.eye(n_classes)
    values = np.array(given.split(",") if isinstance(given, str) else given, dtype=np.float64)
    if values.size != n_classes**2:
        raise ValueError(f"auc_mu_weights must have {n_classes**2} values for {n_classes} classes, got {values.size}.")
    costs = values.reshape(n_classes, n_classes)
    return np.where(np.eye(n_classes, dtype=bool), 0.0, costs)


def _auc_mu(scores: Scores, costs: Array) -> float:
    """Return the mean over pairs of classes i < j of the AUC of i against j.

    Rows are ordered by how much cheaper it is to call them i: t·(v·s) with v = cost_i − cost_j and t = v_i − v_j.
    """
    n_classes = len(costs)
    weight = np.ones(len(scores.label)) if scores.weight is None else scores.weight.astype(np.float64)
    total = 0.0
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            here = (scores.label == i) | (scores.label == j)
            v = costs[i] - costs[j]
            total += _area((v[i] - v[j]) * (scores.raw[here] @ v), scores.label[here] == i, weight[here])
    return total / (n_classes * (n_classes - 1) / 2)


_OTHERS: dict[str, Callable[[Scores], float]] = {
    "rmse": _rmse,
    "r2": _r2,
    "gamma_deviance": _gamma_deviance,
    "auc": _auc,
    "average_precision": _average_precision,
}
