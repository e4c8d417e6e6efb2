"""LightGBM's parameters, translated into XGBoost's.

With ``engine="xgboost"`` parameters may be XGBoost's own, which pass through unchanged, or LightGBM's, which are
translated by the tables below. Three principles decide every case:

- A name that XGBoost has means what it means in XGBoost. Where LightGBM gives the same name another meaning, the name
  of the objective shows which engine is meant. Where it does not, the parameter is refused.
- What changes the model is translated or refused, never ignored. A value is dropped only if XGBoost does the same
  anyway, or if it does not affect what is learned.
- Defaults are XGBoost's: what is not given is not translated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..names import MAIN_NAME
from .given import SHARED_NAMES, Given, NotANumberError, Result, refuse
from .table import TABLE


@dataclass(frozen=True)
class Translated:
    """What ``xgboost.train`` is called with."""

    params: dict[str, Any]
    num_boost_round: int | None = None
    early_stopping_rounds: int | None = None
    first_metric_only: bool = False
    """Stop early on the first metric; XGBoost's default is the last one."""
    early_stopping_min_delta: float = 0.0


def to_xgboost(params: Mapping[str, Any]) -> Translated:
    """Translate parameters, given under LightGBM's or XGBoost's names, into XGBoost's.

    Parameters
    ----------
    params : mapping
        Parameter names and values; not changed. None counts as not given. Unknown names pass through; XGBoost reports
        them itself.

    Returns
    -------
    Translated
        The ``params`` of ``xgboost.train``, and those of LightGBM's parameters that are separate arguments there.

    Raises
    ------
    ValueError
        If a parameter changes the model and XGBoost has no counterpart, if a name is ambiguous, or if one parameter
        is given twice with different values.

    Examples
    --------
    >>> translated = to_xgboost({"objective": "binary", "num_leaves": 31, "lambda_l2": 2.0, "n_estimators": 50})
    >>> translated.params["objective"], translated.params["max_leaves"], translated.params["reg_lambda"]
    ('binary:logistic', 31, 2.0)
    >>> translated.params["grow_policy"], translated.params["max_depth"], translated.num_boost_round
    ('lossguide', 0, 50)
    >>> to_xgboost({"objective": "reg:squarederror", "eta": 0.1, "gamma": 1.0}).params
    {'objective': 'reg:squarederror', 'eta': 0.1, 'gamma': 1.0}
    >>> to_xgboost({"min_data_in_leaf": 20})
    Traceback (most recent call last):
    ...
    ValueError: min_data_in_leaf=20 has no counterpart in XGBoost: it limits the hessian weight of a leaf, not its \
rows; use min_child_weight (the number of rows for squared error without weights).
    """
    given = Given(params)
    result = Result()
    for name, value in given.items.items():
        try:
            translated = _translate(name, value, given)
        except NotANumberError as error:
            raise ValueError(f"{name}={value!r}: expected a number, got {error}.") from None
        for target, new_value in translated.items():
            result.put(target, new_value, f"{name}={value!r}")
    _add_defaults_of_lightgbms_words(given, result)
    return _split(result.params())


def _translate(name: str, value: Any, given: Given) -> dict[str, Any]:
    """Return the XGBoost parameters that one given parameter stands for."""
    if name not in MAIN_NAME or name in SHARED_NAMES:
        return {name: value}
    row = TABLE[MAIN_NAME[name]]
    if (row.only_if is not None and not row.only_if(given)) or (row.no_effect is not None and row.no_effect(value)):
        return {}
    if row.instead:
        refuse(name, value, row.instead)
    if row.rule is not None:
        return row.rule(name, value, given)
    if row.to is None:
        return {}
    return {row.to: value if row.convert is None else row.convert(value)}


def _add_defaults_of_lightgbms_words(given: Given, result: Result) -> None:
    """Add the defaults that some of LightGBM's names imply, unless the user sets them."""
    leaves_first = given.says_in_lightgbms_words("num_leaves")
    if given.unlimited_depth() and not given.says("num_leaves"):
        # LightGBM is then limited by its default num_leaves. XGBoost would grow until no row can be split.
        result.default("max_leaves", 31)
        leaves_first = True
    if leaves_first:
        result.default("grow_policy", "lossguide")
        result.default("max_depth", 0)
    if given.lightgbm_objective == "quantile":
        result.default("quantile_alpha", 0.9)
    if given.says_in_lightgbms_words("boosting") and given.is_dart():
        # By default XGBoost's dart drops no trees, so it would be plain boosting.
        result.default("rate_drop", 0.1)
        result.default("skip_drop", 0.5)


def _split(params: dict[str, Any]) -> Translated:
    """Separate the arguments of ``xgboost.train`` from its ``params``."""
    rounds = params.pop("num_boost_round", None)
    patience = params.pop("early_stopping_rounds", None)
    first_only = params.pop("first_metric_only", False)
    min_delta = params.pop("early_stopping_min_delta", 0.0)
    return Translated(params, rounds, patience, first_only, min_delta)
