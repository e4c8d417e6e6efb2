"""Rows that are scored during a training: what metrics and the user's own functions see of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from numbers import Real
from typing import Any

import lightgbm as lgb
import numpy as np

from ..._arrays import Array
from ..._virtual.rows import VirtualTable
from .metrics import Metric, Scores
from .pool import Pool

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
    """

    def __init__(self, virtual: VirtualTable, pool: Pool, start: Array) -> None:
        self.virtual, self.pool, self._start = virtual, pool, start

    @cached_property
    def label(self) -> Array:
        """The label of every row."""
        return self.virtual.label()

    @cached_property
    def weight(self) -> Array | None:
        """The full weight of every row; None if all are 1."""
        return self.virtual.weight()

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
            f"A function of the user asked for {name!r} of a data set; with 'engine': 'native' it has labels, weights "
            "and initial scores only. Use 'engine': 'lightgbm'."
        )

    def raw(self) -> Array:
        """Return the raw scores of the virtual rows, (n,) or (n, K), in double precision."""
        scores = self.pool.scores[:, self.pool.virtual_order()].T + self._start
        return scores[:, 0] if scores.shape[1] == 1 else scores

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
        raw = self.raw()
        prediction = np.asarray(response(raw), dtype=np.float64)
        scores = Scores(raw, prediction, self.label, self.weight)
        results = [EvalResult(name, one.name, one.value(scores), one.higher_is_better) for one in metrics]
        for function in functions:
            got = function(prediction, self)
            results += [EvalResult(name, *_checked(one)) for one in (got if isinstance(got, list) else [got])]
        return results


def _checked(result: Any) -> tuple[Any, ...]:
    """Return one result of a user's metric; raise if it is not one."""
    if not isinstance(result, (tuple, list)) or len(result) != 3 or not isinstance(result[1], Real):
        raise TypeError(
            f"feval must return a name, a number and whether higher is better, or a list of such; got {result!r}."
        )
    return tuple(result)


class RowsOfObjective(ScoredRows):
    """Rows as a callable objective sees them: it applies the user's weights, and pucboost applies the copy weights."""

    @cached_property
    def weight(self) -> Array | None:
        """The user's weight of every row; None if there are none."""
        return self.virtual.user_weight()
