"""Losses of the native engine: gradients of the rows a tree grows on, and metrics of the scores after it.

Built-in losses have kernels in single precision. Callables see the rows of the virtual table, like a LightGBM Dataset.
Metrics have LightGBM's names and values.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from numbers import Real
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np

from ..._common import Array
from ..._losses import Gamma, Logistic, Objective, Poisson, Quantile, Softmax, SquaredError, Tweedie
from ..._virtual.rows import VirtualTable
from ..base import times_rows
from ..names import MAIN_METRIC, main_objective, number_of, value_of, whole_number
from .bins import Layout
from .kernels import gradients as kernel
from .kernels.gradients import CodeTree
from .pool import Pool, leaves_of

PICKS = 1 << 13
"""Rows whose scores, labels and weights are gathered at a time: they stay in the first- and second-level caches."""


class Picks(NamedTuple):
    """The rows of a bag (uint32)."""

    rows: Array
    """Pool rows."""
    people: Array
    """Whose they are."""


class Filler(ABC):
    """Writes gradients and hessians of picked pool rows, from the pool's scores.

    Parameters
    ----------
    pool
        The pool that is trained on.
    start
        The constant that training starts from, one per score of a row; the pool's scores come on top of it.
    """

    loss, constant = -1, 0.0
    """Number and constant of a loss that the kernel of a round fills in by itself; −1 if :meth:`fill` must."""

    def __init__(self, pool: Pool, start: Array) -> None:
        self.pool, self.start = pool, np.atleast_1d(np.asarray(start, dtype=np.float64))

    def begin_round(self) -> None:
        """Prepare for the trees of a round; the scores are those after the last round."""
        return

    @abstractmethod
    def fill(self, picks: Picks, lo: int, hi: int, class_index: int, gradient_out: Array, hessian_out: Array) -> None:
        """Write weight × gradient and weight × hessian of the picks lo … hi − 1.

        In a round, all classes have the same picks, and class 0 is filled first.
        """

    def renewed(self, tree: CodeTree, layout: Layout, picks: Picks, values: Array) -> Array | None:
        """Return better values for the leaves than a step along the gradient; None if there are none."""
        return None


class _BuiltIn(Filler):
    """Losses that have a kernel.

    With softmax, what all classes of a row have in common is kept when class 0 is filled. So all trees of a round see
    the scores from before the round, even if those of a class are updated in between.
    """

    def __init__(self, pool: Pool, start: Array, loss: int, constant: float = 0.0) -> None:
        super().__init__(pool, start)
        self.loss, self.constant = loss, constant
        self._of_classes = np.empty((2, 0), dtype=np.float32)

    def fill(self, picks: Picks, lo: int, hi: int, class_index: int, gradient_out: Array, hessian_out: Array) -> None:
        pool, n = self.pool, len(picks.rows) if self.loss == kernel.SOFTMAX else 0
        if n > self._of_classes.shape[1]:
            self._of_classes = np.empty((2, n), dtype=np.float32)
        largest, total = self._of_classes
        kernel.fill_gradients(
            self.loss, self.constant, self.start, pool.scores, pool.label, pool.weight, picks.rows, picks.people,
            lo, hi, class_index, np.empty((4, PICKS), dtype=np.float32), largest, total, gradient_out, hessian_out,
        )  # fmt: skip


class _Quantile(_BuiltIn):
    """The pinball loss, whose leaves are set to the quantile of what is left to explain."""

    def __init__(self, pool: Pool, start: Array, objective: Quantile) -> None:
        super().__init__(pool, start, kernel.QUANTILE, objective.alpha)
        self._objective = objective

    def renewed(self, tree: CodeTree, layout: Layout, picks: Picks, values: Array) -> Array | None:
        """Return for each leaf the smallest residual with at least α of the weight at or below it."""
        pool = self.pool
        leaf = leaves_of(pool, layout, tree, picks.rows, picks.people)
        rest = pool.label[picks.people].astype(np.float64) - self.start[0] - pool.scores[0, picks.rows]
        weight = pool.weight[picks.people].astype(np.float64)
        order = np.argsort(leaf, kind="stable")
        bounds = np.searchsorted(leaf[order], np.arange(len(values) + 1))
        renewed = np.array(values, dtype=np.float64)
        for k, (lo, hi) in enumerate(itertools.pairwise(bounds)):
            here = order[lo:hi]
            if weight[here].sum() > 0:
                renewed[k] = self._objective.initial_score(rest[here], weight[here])
        return renewed


class CallableGradients(Filler):
    """Gradients from a function of all raw scores, which is called once a round.

    Parameters
    ----------
    gradient
        Takes raw scores in the order of the virtual table, (V,) or (V, classes) in column order, and returns gradients
        and hessians in this shape, or flat, class after class.
    copy_weight
        What to multiply them by, in the same order; None if they are to be used as they are.
    """

    def __init__(
        self, pool: Pool, start: Array, gradient: Callable[[Array], Any], copy_weight: Array | None = None
    ) -> None:
        super().__init__(pool, start)
        self._gradient, self._copy_weight = gradient, copy_weight
        self._by_pool_row: tuple[Array, Array]

    def begin_round(self) -> None:
        found = self._gradient(self.pool.raw_scores(self.start))
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise TypeError(f"The objective must return gradients and hessians, got {type(found).__name__!r}.")
        self._by_pool_row = self._in_pool_order(found[0], "gradient"), self._in_pool_order(found[1], "hessian")

    def _in_pool_order(self, values: Any, name: str) -> Array:
        array = np.asarray(values)
        shape = self.pool.scores.shape
        if array.size != shape[0] * shape[1]:
            raise ValueError(
                f"The objective returned a {name} of {array.size} values for {shape[1]} rows and {shape[0]} scores per "
                "row; it must have one value for each."
            )
        if self._copy_weight is not None:
            array = times_rows(array, self._copy_weight)
        by_class = array.T if array.ndim == 2 else array.reshape(shape)
        out = np.empty(shape, dtype=np.float32)
        out[:, self.pool.virtual_order()] = by_class
        return out

    def fill(self, picks: Picks, lo: int, hi: int, class_index: int, gradient_out: Array, hessian_out: Array) -> None:
        for values, out in zip(self._by_pool_row, (gradient_out, hessian_out), strict=True):
            kernel.take(values[class_index], picks.rows[lo:hi], out[lo:hi])


_FARTHEST_LOG = 50.0
"""How far the logarithm of the mean label may be from 0; the kernels keep exponents within ±60."""


def gradients_of(objective: Objective, pool: Pool, start: Array) -> Filler:
    if objective.link_name == "log" and abs(float(start[0])) > _FARTHEST_LOG:
        raise ValueError(
            f"The mean label is about {math.exp(float(start[0])):.2g}, which is too far from 1 for objective "
            f"{objective.name!r} with 'engine': 'native'. Give labels in another unit."
        )
    if isinstance(objective, Softmax):
        given, classes = objective.hessian_factor, objective.n_classes
        return _BuiltIn(pool, start, kernel.SOFTMAX, classes / (classes - 1) if given is None else float(given))
    if isinstance(objective, Quantile):
        return _Quantile(pool, start, objective)
    if isinstance(objective, Poisson):
        return _BuiltIn(pool, start, kernel.POISSON, math.exp(objective.max_delta_step))
    if isinstance(objective, Tweedie):
        return _BuiltIn(pool, start, kernel.TWEEDIE, objective.variance_power)
    loss = {SquaredError: kernel.SQUARED_ERROR, Logistic: kernel.LOGISTIC, Gamma: kernel.GAMMA}
    return _BuiltIn(pool, start, loss[type(objective)])


# ----- rows that are scored during a training: what metrics and the user's own functions see of them

EvalResult: Any = getattr(lgb.basic, "EvalResult", lambda *given: given)
"""A result as LightGBM's callbacks expect it: before version 4.7, a tuple."""


class ScoredRows:
    """A virtual table and the scores of its rows so far.

    To a user's function it is like a LightGBM Dataset: labels, weights and initial scores of the virtual rows, in their
    order.

    Parameters
    ----------
    virtual
        The virtual table.
    pool
        Its rows as the engine keeps them, with their scores.
    start
        What the scores start from, for each class.
    for_objective
        Whether a callable objective sees them: it applies the user's weights only, and pucboost applies those of
        copies. Metrics see the product of both.
    """

    def __init__(self, virtual: VirtualTable, pool: Pool, start: Array, *, for_objective: bool = False) -> None:
        self.virtual, self.pool, self._start, self._for_objective = virtual, pool, start, for_objective

    @cached_property
    def label(self) -> Array:
        """The label of every row."""
        return self.virtual.label()

    @cached_property
    def weight(self) -> Array | None:
        """The weight of every row; None if all are 1."""
        return self.virtual.user_weight() if self._for_objective else self.virtual.weight()

    def get_label(self) -> Array:
        """Return the labels, as a Dataset does."""
        return self.label

    def get_weight(self) -> Array | None:
        """Return the weights, as a Dataset does."""
        return self.weight

    def get_init_score(self) -> Array | None:
        """Return the initial scores, class after class, as a Dataset does."""
        scores = self.virtual.init_score()
        return None if scores is None else scores.ravel(order="F")

    def get_group(self) -> None:
        """Return None: there are no queries."""

    def get_field(self, field_name: str) -> Any:
        """Return a field by its name, as a Dataset does."""
        return getattr(self, f"get_{field_name}")()

    def num_data(self) -> int:
        """Return the number of rows."""
        return len(self.virtual)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"A custom function used {name!r} of a data set; with 'engine': 'native' it has labels, weights and "
            "initial scores only. Use 'engine': 'lightgbm'."
        )

    def evaluate(
        self,
        name: str,
        metrics: Sequence[Metric],
        functions: Sequence[Callable[..., Any]],
        response: Callable[[Array], Array],
    ) -> list[Any]:
        """Return the results of the metrics, then those of the user's functions, which see predictions."""
        if not metrics and not functions:
            return []
        raw = self.pool.raw_scores(self._start)
        prediction = np.asarray(response(raw), dtype=np.float64)
        scores = Scores(raw, prediction, self.label, self.weight)
        results = [EvalResult(name, one.name, one.value(scores), one.higher_is_better) for one in metrics]
        for function in functions:
            got = function(prediction, self)
            results += [EvalResult(name, *_checked(one)) for one in (got if isinstance(got, list) else [got])]
        return results


def _checked(result: Any) -> tuple[Any, ...]:
    if not isinstance(result, (tuple, list)) or len(result) != 3 or not isinstance(result[1], Real):
        raise TypeError(
            f"feval must return a name, a number and whether higher is better, or a list of such; got {result!r}."
        )
    return tuple(result)


# ----- LightGBM's metrics by name, on the raw scores of virtual rows

_EPSILON = float(np.float32(1e-15))
"""LightGBM's smallest probability in a logarithm …"""
_CROSS_ENTROPY_EPSILON = 1e-12
"""… in its metrics for soft labels …"""
_SMALLEST_MEAN = float(np.float32(1e-10))
"""… and its smallest mean of counts and amounts."""


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
        return float(np.average(losses, weights=self.weight))

    @property
    def weights(self) -> Array:
        return np.ones(len(self.label)) if self.weight is None else self.weight.astype(np.float64)


@dataclass(frozen=True)
class Metric:
    """A metric under the name by which LightGBM reports it."""

    name: str
    value: Callable[[Scores], float]
    higher_is_better: bool = False


def metrics_of(params: Mapping[str, Any], n_classes: int) -> list[Metric]:
    """Return the metrics of the parameters; without any, that of the objective. A callable objective has none."""
    given = value_of(params, "metric")
    if given is None or (isinstance(given, (str, list, tuple, set)) and not len(given)):
        objective = value_of(params, "objective", "regression")
        given = [] if callable(objective) else [main_objective(objective) or objective]
    listed = [given] if isinstance(given, str) else list(given)
    names = [name for one in listed for name in str(one).split(",")]  # LightGBM joins them, too
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
        return np.where(mean > 0, y / mean + np.log(mean), np.inf)


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
    return -_log(_own(p, y), _EPSILON)


def _own(p: Array, y: Array) -> Array:
    """Return the probability of each row's own class."""
    return np.asarray(p[np.arange(len(p)), y.astype(np.intp)])


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


def _rmse(scores: Scores) -> float:
    return float(np.sqrt(_mean_loss(_LOSSES["l2"], scores)))


def _r2(scores: Scores) -> float:
    loss, spread = _mean_loss(_LOSSES["l2"], scores), scores.mean((scores.label - scores.mean(scores.label)) ** 2)
    return 1.0 - loss / spread if spread > 0 else float(loss == 0)


def _gamma_deviance(scores: Scores) -> float:
    """Return 2·Σ w·(y/m − log(y/m) − 1): LightGBM does not divide it by the weight."""
    ratio = scores.label / (scores.prediction + 1e-9)
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.where(ratio > 0, ratio - np.log(ratio) - 1.0, np.inf)
    return 2.0 * float(losses.sum() if scores.weight is None else scores.weight @ losses)


def _auc(scores: Scores) -> float:
    return _area(scores.raw, scores.label > 0, scores.weights)


def _area(score: Array, positive: Array, weight: Array) -> float:
    """Return the share of pairs whose positive row has the higher score; equal scores count one half."""
    pos, neg = _by_threshold(score, positive, weight)
    above = np.cumsum(pos) - pos
    total_pos, total_neg = pos.sum(), neg.sum()
    if total_pos == 0 or total_neg == 0:
        return 1.0  # as in LightGBM
    return float(neg @ (above + pos / 2) / (total_pos * total_neg))


def _average_precision(scores: Scores) -> float:
    pos, neg = _by_threshold(scores.raw, scores.label > 0, scores.weights)
    found = np.cumsum(pos)
    if found[-1] == 0 or neg.sum() == 0:
        return 1.0
    reported = found + np.cumsum(neg)
    precision = np.divide(found, reported, out=np.zeros_like(reported), where=reported > 0)
    return float(pos @ precision / found[-1])


def _by_threshold(score: Array, positive: Array, weight: Array) -> tuple[Array, Array]:
    """Return the positive and the negative weight at each distinct score, the highest score first."""
    order = np.argsort(-score)
    ordered = score[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    weights = weight[order]
    is_positive = positive[order]
    return np.add.reduceat(weights * is_positive, first), np.add.reduceat(weights * ~is_positive, first)


def _multi_error(scores: Scores, top: int) -> float:
    own = _own(scores.prediction, scores.label)
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
    n_classes, weight, total = len(costs), scores.weights, 0.0
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
