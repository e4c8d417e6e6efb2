"""The metric: a scikit-learn scorer that takes weights."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from sklearn.metrics import get_scorer, get_scorer_names, make_scorer

from .._tables.names import did_you_mean


def scorer_of(metric: Any, response: str | None, greater_is_better: bool | None, params: dict[str, Any]) -> Any:
    """Return scikit-learn's scorer for a metric; raise if it takes no weights."""
    is_function = callable(metric) and not hasattr(metric, "_score_func")
    if is_function:
        if greater_is_better is None:
            raise ValueError("metric is a function: say with greater_is_better=True or False whether higher is better.")
        scorer = make_scorer(
            metric, response_method=response or "predict", greater_is_better=greater_is_better, **params
        )
    else:
        if greater_is_better is not None or params:
            given = ", ".join([*params, *(["greater_is_better"] if greater_is_better is not None else [])])
            raise ValueError(f"{given} can only be given for a metric that is a function; {metric!r} has its own.")
        scorer = _named(metric) if isinstance(metric, str) else metric
        if not callable(scorer):
            raise ValueError(f"metric must be a name or a function, got {metric!r}.")
    function = getattr(scorer, "_score_func", None)
    if function is not None and not _takes_weights(function):
        name = metric if isinstance(metric, str) else getattr(function, "__name__", repr(function))
        raise ValueError(f"metric {name!r} takes no sample_weight, so virtual rows cannot be weighted.")
    return scorer


def _named(metric: str) -> Any:
    try:
        return get_scorer(metric)
    except (KeyError, ValueError):
        hint = did_you_mean(metric, get_scorer_names())
        raise ValueError(
            f"{metric!r} is not a valid scoring value.{hint} sklearn.metrics.get_scorer_names() lists all names."
        ) from None


def _takes_weights(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters
    return "sample_weight" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
