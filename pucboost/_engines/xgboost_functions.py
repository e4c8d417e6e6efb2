"""Objectives and metrics that users write, as XGBoost calls them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost as xgb

from .._arrays import Array
from .base import times_rows


class _ObjectiveView:
    """A matrix as a callable objective sees it: with the user's weights, but without the copy weights."""

    def __init__(self, matrix: xgb.DMatrix, user_weight: Array | None) -> None:
        self._matrix, self._user_weight = matrix, user_weight

    def get_weight(self) -> Array:
        """Return the user's weights; an empty array if there are none, as XGBoost does."""
        return np.empty(0, dtype=np.float32) if self._user_weight is None else self._user_weight

    def get_float_info(self, field: str) -> Array:
        """Return a field as XGBoost does, except for the weights."""
        return self.get_weight() if field == "weight" else self._matrix.get_float_info(field)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matrix, name)


@dataclass
class WeightedObjective:
    """Gradient and hessian of the user's objective × copy weight, row by row."""

    objective: Callable[..., Any]
    weights: dict[int, tuple[Array | None, Array | None]]
    """Copy weights and user weights of each training matrix, by its identity."""

    def __call__(self, preds: Array, matrix: xgb.DMatrix) -> tuple[Array, Array]:
        copy_weight, user_weight = self.weights[id(matrix)]
        gradient, hessian = self.objective(preds, _ObjectiveView(matrix, user_weight))
        if copy_weight is None:
            return gradient, hessian
        return times_rows(gradient, copy_weight), times_rows(hessian, copy_weight)


def take_objective(params: dict[str, Any]) -> tuple[dict[str, Any], WeightedObjective | None]:
    """Return the parameters without a callable objective, and the objective; None if there is none."""
    objective = params.get("objective")
    if not callable(objective):
        return params, None
    rest = {name: value for name, value in params.items() if name != "objective"}
    return {**rest, **getattr(objective, "builtin_params", {})}, WeightedObjective(objective, {})


class Metric:
    """One or more LightGBM fevals as XGBoost's custom metric; remembers for which metrics higher is better."""

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        self.functions = functions
        self.directions: dict[str, bool] = {}

    def __call__(self, preds: Array, matrix: xgb.DMatrix) -> list[tuple[str, float]]:
        results: list[tuple[str, float]] = []
        for function in self.functions:
            got = function(preds, matrix)
            for name, value, *higher_is_better in got if isinstance(got, list) else [got]:
                results.append((name, value))
                if higher_is_better:
                    self.directions[name] = bool(higher_is_better[0])
        return results


def metric_of(feval: Any) -> Metric | None:
    """Return a user's metrics as one; None if there are none."""
    if feval is None:
        return None
    return Metric(feval if isinstance(feval, (list, tuple)) else [feval])
