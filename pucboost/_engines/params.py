"""Parameter names of the engines, and pucboost's own.

LightGBM knows most parameters under several names; the tables below list those pucboost reads. A test compares
them with LightGBM's own list.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from .._virtual.plan import check_augmentation, check_copies, check_max_virtual_rows

LIGHTGBM_ALIASES: dict[str, tuple[str, ...]] = {
    "bagging_fraction": ("bagging_fraction", "bagging", "sub_row", "subsample"),
    "bagging_freq": ("bagging_freq", "subsample_freq"),
    "boosting": ("boosting", "boost", "boosting_type"),
    "is_unbalance": ("is_unbalance", "unbalance", "unbalanced_sets"),
    "linear_tree": ("linear_tree", "linear_trees"),
    "min_data_in_leaf": ("min_data_in_leaf", "min_data", "min_samples_leaf", "min_child_samples", "min_data_per_leaf"),
    "min_sum_hessian_in_leaf": (
        "min_sum_hessian_in_leaf",
        "min_hessian",
        "min_sum_hessian",
        "min_child_weight",
        "min_sum_hessian_per_leaf",
    ),
    "metric": ("metric", "metrics", "metric_types"),
    "neg_bagging_fraction": ("neg_bagging_fraction", "neg_bagging", "neg_sub_row", "neg_subsample"),
    "num_class": ("num_class", "num_classes"),
    "num_threads": ("num_threads", "n_jobs", "nthread", "nthreads", "num_thread"),
    "objective": ("objective", "app", "loss", "application", "objective_type"),
    "pos_bagging_fraction": ("pos_bagging_fraction", "pos_bagging", "pos_sub_row", "pos_subsample"),
    "seed": ("seed", "random_seed", "random_state"),
}
"""Main name → all names, the main one first; the first that is present and not None counts."""

OWN_KEYS = (
    "optional",
    "engine",
    "augmentation",
    "copies",
    "valid_augmentation",
    "max_virtual_rows",
    "compact",
    "anchor",
    "anchor_strength",
)
"""Keys of ``params`` that are pucboost's and never reach an engine."""


BOOSTER_CLASSES = {"lightgbm": "lightgbm.basic.Booster", "xgboost": "xgboost.core.Booster"}


def is_booster(model: Any, *engines: str) -> bool:
    """Return whether a model is a booster of one of the engines (of any, if none is named), without importing them."""
    wanted = {BOOSTER_CLASSES[engine] for engine in engines or BOOSTER_CLASSES}
    return any(f"{base.__module__}.{base.__name__}" in wanted for base in type(model).__mro__)


def lightgbm_value(params: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """Return the value of a LightGBM parameter under whichever of its names it is given."""
    for alias in LIGHTGBM_ALIASES.get(name, (name,)):
        if params.get(alias) is not None:
            return params[alias]
    return default


def objective_name(params: Mapping[str, Any]) -> str | None:
    """Return the name of the objective in lower case, as LightGBM reads it; None for a callable or none."""
    objective = lightgbm_value(params, "objective")
    return objective.strip().lower() if isinstance(objective, str) else None


def with_lightgbm_value(params: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return ``params`` with the parameter set under its main name and its other names removed."""
    rest = {key: old for key, old in params.items() if key not in LIGHTGBM_ALIASES.get(name, (name,))}
    return {**rest, name: value}


def is_true(value: Any) -> bool:
    """Read a boolean parameter as LightGBM does, from a bool, a number or a string."""
    if isinstance(value, (bool, int, float)):
        return bool(value)
    return str(value).lower() in {"true", "1", "+"}


def whole_number(name: str, value: Any) -> int:
    """Return a parameter that must be a whole number, or raise an error that names it."""
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a whole number, got {value!r}.") from None


def check_anchor(anchor: Any) -> Any:
    """Return an anchor if it can be one, else raise."""
    for unwrap in ("booster_", "get_booster"):  # scikit-learn's wrappers of the engines
        inner = getattr(type(anchor), unwrap, None)
        if inner is not None:
            return anchor.booster_ if unwrap == "booster_" else anchor.get_booster()
    if anchor is None or (isinstance(anchor, str) and anchor == "base") or is_booster(anchor) or callable(anchor):
        return anchor
    raise ValueError(f"anchor must be 'base', a booster or a callable that gives raw scores; got {anchor!r}.")


def check_anchor_strength(strength: Any, anchor: Any) -> float | None:
    """Return λ if it is a positive number and there is an anchor, else raise."""
    if strength is None:
        return None
    if anchor is None:
        raise ValueError("anchor_strength needs an anchor.")
    if isinstance(strength, bool) or not isinstance(strength, Real) or not 0 < float(strength) < float("inf"):
        raise ValueError(f"anchor_strength must be a positive number, got {strength!r}.")
    return float(strength)


@dataclass(frozen=True)
class Settings:
    """pucboost's own parameters, checked."""

    engine: str = "lightgbm"
    optional: Any = None
    augmentation: str = "balanced"
    valid_augmentation: str = "balanced"
    copies: float | None = None
    compact: bool | str = False
    anchor: Any = None
    anchor_strength: float | None = None
    max_virtual_rows: int | None = None


def split_params(params: Mapping[str, Any] | None) -> tuple[Settings, dict[str, Any]]:
    """Separate pucboost's own parameters from the engine's, which are copied and otherwise left alone."""
    given = {} if params is None else dict(params)
    own = {key: given.pop(key) for key in OWN_KEYS if key in given}
    engine_params = copy.deepcopy(given)

    compact = own.get("compact", False)
    if compact not in (True, False, None, "auto"):
        raise ValueError(f"compact must be True, False or 'auto', got {compact!r}.")
    augmentation = check_augmentation(own.get("augmentation", "balanced"))
    valid = own.get("valid_augmentation")
    copies, max_rows = own.get("copies"), own.get("max_virtual_rows")
    return (
        Settings(
            engine=own.get("engine", "lightgbm"),
            optional=own.get("optional"),
            augmentation=augmentation,
            valid_augmentation=augmentation if valid is None else check_augmentation(valid, "valid_augmentation"),
            copies=None if copies is None else check_copies(copies),
            compact=compact or False,
            anchor=check_anchor(own.get("anchor")),
            anchor_strength=check_anchor_strength(own.get("anchor_strength"), own.get("anchor")),
            max_virtual_rows=None if max_rows is None else check_max_virtual_rows(max_rows),
        ),
        engine_params,
    )
