"""LightGBM's parameters, as far as the native engine grows trees by them."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..._virtual.plan import child_seed
from ..names import is_true, value_of, whole_number
from .people import BinParams

MOST = 2**31 - 1
"""LightGBM's whole numbers have 32 bits."""


def read_bin_params(params: Mapping[str, Any]) -> BinParams:
    """Read LightGBM's parameters of bins, under any of their names."""
    return BinParams(
        max_bin=whole_number("max_bin", value_of(params, "max_bin", 255)),
        max_bin_by_feature=tuple(_whole_numbers("max_bin_by_feature", value_of(params, "max_bin_by_feature", ()))),
        min_data_in_bin=_at_least(params, "min_data_in_bin", 3, 1),
        sample_rows=_at_least(params, "bin_construct_sample_cnt", 200_000, 1),
        seed=whole_number("data_random_seed", value_of(params, "data_random_seed", _seed(params, 1))),
        zero_as_missing=is_true(value_of(params, "zero_as_missing", False)),
    )


@dataclass(frozen=True)
class GrowthParams:
    num_leaves: int
    max_depth: int
    learning_rate: float
    min_data_in_leaf: int
    min_sum_hessian_in_leaf: float
    lambda_l1: float
    lambda_l2: float
    min_gain_to_split: float
    max_delta_step: float
    path_smooth: float
    feature_fraction: float
    feature_fraction_bynode: float
    bagging_fraction: float
    bagging_freq: int
    extra_trees: bool
    monotone_constraints: tuple[int, ...]
    intermediate: bool
    """Whether monotone constraints are less strict than LightGBM's basic ones."""
    interaction_constraints: tuple[tuple[int, ...], ...] | None
    cat_smooth: float
    cat_l2: float
    max_cat_threshold: int
    max_cat_to_onehot: int
    min_data_per_group: int
    bagging_seed: int
    feature_seed: int
    extra_seed: int

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> GrowthParams:
        """Read LightGBM's parameters, under any of their names; raise for values that make no sense."""
        depth = _at_least(params, "max_depth", -1, -MOST)
        leaves = _at_least(params, "num_leaves", 31, 2)
        if 0 < depth < 30:
            leaves = min(leaves, 2**depth)
        signs = _signs(params)
        method = str(value_of(params, "monotone_constraints_method", "basic")).lower()
        return cls(
            num_leaves=leaves,
            max_depth=depth,
            learning_rate=_number(params, "learning_rate", 0.1, above=0.0),
            min_data_in_leaf=_at_least(params, "min_data_in_leaf", 20, 0),
            min_sum_hessian_in_leaf=_number(params, "min_sum_hessian_in_leaf", 1e-3),
            lambda_l1=_number(params, "lambda_l1", 0.0),
            lambda_l2=_number(params, "lambda_l2", 0.0),
            min_gain_to_split=_number(params, "min_gain_to_split", 0.0),
            max_delta_step=max(0.0, _number(params, "max_delta_step", 0.0, least=-math.inf)),
            path_smooth=_number(params, "path_smooth", 0.0),
            feature_fraction=_number(params, "feature_fraction", 1.0, above=0.0, most=1.0),
            feature_fraction_bynode=_number(params, "feature_fraction_bynode", 1.0, above=0.0, most=1.0),
            bagging_fraction=_number(params, "bagging_fraction", 1.0, above=0.0, most=1.0),
            bagging_freq=max(0, _at_least(params, "bagging_freq", 0, -MOST)),
            extra_trees=is_true(value_of(params, "extra_trees", False)),
            monotone_constraints=tuple(signs),
            intermediate=any(signs) and method == "intermediate",
            interaction_constraints=_sets(params),
            cat_smooth=_number(params, "cat_smooth", 10.0),
            cat_l2=_number(params, "cat_l2", 10.0),
            max_cat_threshold=_at_least(params, "max_cat_threshold", 32, 1),
            max_cat_to_onehot=_at_least(params, "max_cat_to_onehot", 4, 1),
            min_data_per_group=_at_least(params, "min_data_per_group", 100, 1),
            bagging_seed=whole_number("bagging_seed", value_of(params, "bagging_seed", _seed(params, 3))),
            feature_seed=whole_number("feature_fraction_seed", params.get("feature_fraction_seed", _seed(params, 2))),
            extra_seed=whole_number("extra_seed", params.get("extra_seed", _seed(params, 6))),
        )


def _seed(params: Mapping[str, Any], default: int) -> int:
    """Return a seed for one purpose, made of the user's ``seed``; without one, LightGBM's default."""
    given = value_of(params, "seed")
    return default if given is None else child_seed(whole_number("seed", given), default)


def _number(
    params: Mapping[str, Any], name: str, default: float, *, least: float = 0.0, above: float | None = None,
    most: float = math.inf,
) -> float:  # fmt: skip
    given = value_of(params, name, default)
    try:
        number = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and least <= number <= most and (above is None or number > above)):
        low = f"at least {least:g}" if above is None else f"above {above:g}"
        bounds = low + (f" and at most {most:g}" if math.isfinite(most) else "")
        raise ValueError(f"{name} must be a number {bounds}, got {given!r}.")
    return number


def _at_least(params: Mapping[str, Any], name: str, default: int, least: int) -> int:
    given = value_of(params, name, default)
    number = whole_number(name, given)
    if isinstance(given, bool) or not least <= number <= MOST:
        raise ValueError(f"{name} must be a whole number from {least} to {MOST}, got {given!r}.")
    return number


def _whole_numbers(name: str, given: Any) -> list[int]:
    """Read a list of numbers, or LightGBM's text of one."""
    if given is None or (isinstance(given, str) and not given.strip()):
        return []
    parts = given.split(",") if isinstance(given, str) else list(given)
    try:
        return [whole_number(name, float(part) if isinstance(part, str) else part) for part in parts]
    except ValueError:
        raise ValueError(f"{name} must be a list of whole numbers, got {given!r}.") from None


def _signs(params: Mapping[str, Any]) -> list[int]:
    signs = _whole_numbers("monotone_constraints", value_of(params, "monotone_constraints", ()))
    if any(sign not in (-1, 0, 1) for sign in signs):
        raise ValueError(f"monotone_constraints must be -1, 0 or 1 for each column, got {signs}.")
    return signs


def _sets(params: Mapping[str, Any]) -> tuple[tuple[int, ...], ...] | None:
    given = value_of(params, "interaction_constraints")
    if isinstance(given, str):
        given = _listed(given) if given.strip() else None
        if given is not None and len(given) == 1 and given[0] and isinstance(given[0][0], list):
            given = given[0]
    if given is None or len(given) == 0:
        return None
    if not all(hasattr(one, "__len__") for one in given):
        raise ValueError(f"interaction_constraints must be a list of lists of columns, got {given!r}.")
    return tuple(tuple(_whole_numbers("interaction_constraints", one)) for one in given)


def _listed(text: str) -> list[Any]:
    """Read LightGBM's text of lists, with or without the outer brackets."""
    try:
        return list(ast.literal_eval(f"[{text}]"))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError(f"interaction_constraints must be lists of columns, got {text!r}.") from None
