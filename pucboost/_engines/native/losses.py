"""Gradients of the rows that a tree is grown on: built-in losses in single precision, and callables."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..._arrays import Array
from ..._kernels.native import gradients as kernel
from ..._losses import Gamma, Logistic, Objective, Poisson, Quantile, Softmax, SquaredError, Tweedie
from ..base import times_rows
from .bundles import Layout
from .pool import Pool
from .scoring import leaves_of
from .trees import CodeTree

_PICKS = 1 << 13
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

    def __init__(self, pool: Pool, start: Array) -> None:
        self.pool, self.start = pool, np.atleast_1d(np.asarray(start, dtype=np.float64))

    def begin_round(self) -> None:
        """Prepare for the trees of a round; the scores are those after the last round."""
        return

    @abstractmethod
    def fill(self, picks: Picks, lo: int, hi: int, class_index: int, gradient_out: Array, hessian_out: Array) -> None:
        """Write weight × gradient and weight × hessian of the picks lo … hi − 1.

        In a round, all classes have the same picks, and class 0 is filled first. Several threads may fill disjoint
        ranges.
        """

    def renewed(self, tree: CodeTree, layout: Layout, picks: Picks, values: Array) -> Array | None:
        """Return better values for the leaves than a step along the gradient; None if there are none."""
        return None


class _OneScore(Filler):
    """Losses of one score: a kernel and its constant."""

    def __init__(self, pool: Pool, start: Array, loss: Callable[..., None], constant: float = 0.0) -> None:
        super().__init__(pool, start)
        self._loss, self._constant = loss, constant

    def fill(self, picks: Picks, lo: int, hi: int, class_index: int, gradient_out: Array, hessian_out: Array) -> None:
        start = float(self.start[0])
        for part, score, label, weight in _gathered(self.pool, picks, lo, hi, 0):
            self._loss(score, label, weight, start, self._constant, gradient_out[part], hessian_out[part])


class _Quantile(_OneScore):
    """The pinball loss, whose leaves are set to the quantile of what is left to explain."""

    def __init__(self, pool: Pool, start: Array, objective: Quantile) -> None:
        super().__init__(pool, start, kernel.quantile, objective.alpha)
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


class _Softmax(Filler):
    """Softmax: when class 0 is filled, what all classes of a row have in common is kept for the others.

    So all trees of a round see the scores from before the round, even if those of a class are updated in between.
    """

    def __init__(self, pool: Pool, start: Array, objective: Softmax) -> None:
        super().__init__(pool, start)
        factor = objective.hessian_factor
        self._factor = objective.n_classes / (objective.n_classes - 1) if factor is None else float(factor)
        self._largest = self._total = np.empty(0, dtype=np.float32)
        self._lock = Lock()

    def _make_room(self, n_picks: int) -> None:
        with self._lock:
            if len(self._largest) < n_picks:
                self._largest, self._total = (np.empty(n_picks, dtype=np.float32) for _ in range(2))

    def fill(self, picks: Picks, lo: int, hi: int, class_index: int, gradient_out: Array, hessian_out: Array) -> None:
        self._make_room(len(picks.rows))
        start = float(self.start[class_index])
        for part, score, label, weight in _gathered(self.pool, picks, lo, hi, class_index):
            largest, total = self._largest[part], self._total[part]
            if class_index == 0:
                self._add_up(picks.rows[part], largest, total)
            kernel.softmax(
                score, label, weight, start, self._factor, largest, total, class_index,
                gradient_out[part], hessian_out[part],
            )  # fmt: skip

    def _add_up(self, rows: Array, largest_out: Array, total_out: Array) -> None:
        """Write the largest score of each row, and the sum of e^(score − largest) over the classes."""
        largest_out.fill(-math.inf)
        total_out.fill(0.0)
        score = np.empty(len(rows), dtype=np.float32)
        by_class = list(zip(self.pool.scores, self.start.tolist(), strict=True))
        for scores, start in by_class:
            kernel.take(scores, rows, score)
            kernel.raise_to(score, start, largest_out)
        for scores, start in by_class:
            kernel.take(scores, rows, score)
            kernel.add_exponentials(score, start, largest_out, total_out)


RawGradient: TypeAlias = Callable[[Array], tuple[Any, Any]]
"""Takes the raw scores of the virtual table's rows, (V,) or (V, classes); returns gradient and hessian like it."""


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

    def __init__(self, pool: Pool, start: Array, gradient: RawGradient, copy_weight: Array | None = None) -> None:
        super().__init__(pool, start)
        self._gradient, self._copy_weight = gradient, copy_weight
        self._by_pool_row: tuple[Array, Array]

    def raw_scores(self) -> Array:
        """Return the scores of the virtual table's rows, (V,) or (V, classes) in column order, as doubles."""
        scores = self.pool.scores[:, self.pool.virtual_order()] + self.start[:, None]
        return scores[0] if len(scores) == 1 else scores.T

    def begin_round(self) -> None:
        """Ask for the gradients of all pool rows."""
        found = self._gradient(self.raw_scores())
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise TypeError(f"The objective must return gradients and hessians, got {type(found).__name__!r}.")
        gradient, hessian = (self._in_pool_order(values, name) for values, name in zip(found, _NAMES, strict=True))
        self._by_pool_row = gradient, hessian

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


_NAMES = ("gradient", "hessian")

_FARTHEST_LOG = 50.0
"""How far the logarithm of the mean label may be from 0; the kernels keep exponents within ±60."""


def gradients_of(objective: Objective, pool: Pool, start: Array) -> Filler:
    """Return what fills in the gradients of a built-in loss."""
    if objective.link_name == "log" and abs(float(start[0])) > _FARTHEST_LOG:
        raise ValueError(
            f"The mean label is about {math.exp(float(start[0])):.2g}, which is too far from 1 for objective "
            f"{objective.name!r} with 'engine': 'native'. Give labels in another unit."
        )
    if isinstance(objective, Softmax):
        return _Softmax(pool, start, objective)
    if isinstance(objective, Quantile):
        return _Quantile(pool, start, objective)
    if isinstance(objective, Poisson):
        return _OneScore(pool, start, kernel.poisson, math.exp(objective.max_delta_step))
    if isinstance(objective, Tweedie):
        return _OneScore(pool, start, kernel.tweedie, objective.variance_power)
    loss = {SquaredError: kernel.squared_error, Logistic: kernel.logistic, Gamma: kernel.gamma}
    return _OneScore(pool, start, loss[type(objective)])


def _gathered(
    pool: Pool, picks: Picks, lo: int, hi: int, class_index: int
) -> Iterator[tuple[slice, Array, Array, Array]]:
    """Yield scores, labels and weights of the picks lo … hi − 1, some at a time; the arrays are reused."""
    room = [np.empty(min(_PICKS, hi - lo), dtype=np.float32) for _ in range(3)]
    for at in range(lo, hi, _PICKS):
        part = slice(at, min(at + _PICKS, hi))
        score, label, weight = (one[: part.stop - at] for one in room)
        kernel.take(pool.scores[class_index], picks.rows[part], score)
        kernel.take(pool.label, picks.people[part], label)
        kernel.take(pool.weight, picks.people[part], weight)
        yield part, score, label, weight
