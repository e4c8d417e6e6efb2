"""Gradients of the rows that a tree is grown on: built-in losses in single precision, and callables."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
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
