"""The conditions, conversions and rules used by the parameter table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..names import MAIN_METRIC, is_true, main_objective
from .given import Given, integer, number, refuse
from .words import METRICS, NO_METRIC, OBJECTIVES

FOREST = "use num_parallel_tree with subsample, colsample_bynode, learning_rate=1 and num_boost_round=1"
GOSS = "use subsample, or sampling_method='gradient_based' where XGBoost supports it"

# ----- conditions: when a value has no effect, or XGBoost does the same anyway


def is_(expected: bool | str) -> Callable[[Any], bool]:
    if isinstance(expected, bool):
        return lambda value: is_true(value) is expected
    return lambda value: str(value).lower() == expected


def equals(expected: float) -> Callable[[Any], bool]:
    return lambda value: number(value) == expected


def at_most(limit: float) -> Callable[[Any], bool]:
    return lambda value: number(value) <= limit


def is_empty(value: Any) -> bool:
    return (len(value) == 0) if hasattr(value, "__len__") else False


def is_auto(value: Any) -> bool:
    return is_empty(value) or (isinstance(value, str) and value == "auto")


# ----- conversions of values


def threads(value: Any) -> Any:
    return 0 if number(value) <= 0 else value


def zero_if_negative(value: Any) -> Any:
    # "No limit" is any number up to 0 in LightGBM, exactly 0 in XGBoost.
    return 0 if number(value) < 0 else value


def rounds_or_none(value: Any) -> int | None:
    return integer(value) if number(value) > 0 else None


def monotone(value: Any) -> Any:
    # XGBoost takes a tuple, a dict by name, or "(1,0,-1)"; LightGBM a list, or "1,0,-1".
    if isinstance(value, str):
        return value if value.strip().startswith("(") else f"({value})"
    return value if isinstance(value, (dict, tuple)) else tuple(int(sign) for sign in value)


def interactions(value: Any) -> Any:
    # XGBoost reads lists as column names; column numbers must be text, "[[0,1],[2]]". LightGBM's text is "[0,1],[2]".
    if isinstance(value, str):
        return value if value.replace(" ", "").startswith("[[") else f"[{value}]"
    groups = [list(group) for group in value]
    if any(isinstance(column, str) for group in groups for column in group):
        return value
    return str([[int(column) for column in group] for group in groups])


# ----- rules that depend on other parameters


def num_leaves(name: str, value: Any, given: Given) -> dict[str, Any]:
    if given.items.get("tree_method") == "exact":
        raise ValueError(f"{name}={value!r} with tree_method='exact': XGBoost then has only max_depth; use that.")
    return {"max_leaves": value}


def bagging_fraction(name: str, value: Any, given: Given) -> dict[str, Any]:
    if number(value) == 1 or number(given.get("bagging_freq", 0)) > 0:
        return {"subsample": value}
    raise ValueError(
        f"{name}={value!r} has no effect in LightGBM without bagging_freq, so it is not clear what is meant. To draw "
        f"that share of the rows for every tree, write subsample={value!r}; otherwise leave it out."
    )


def bagging_freq(name: str, value: Any, given: Given) -> dict[str, Any]:
    if number(value) > 1:
        refuse(name, value, f"it draws new rows for every tree; use {name}=1")
    share = given.items.get("subsample", 1)
    if number(value) <= 0 and number(share) != 1:
        raise ValueError(
            f"{name}={value!r} switches row sampling off, but subsample={share!r} switches it on; give one of them."
        )
    return {}


def alpha(name: str, value: Any, given: Given) -> dict[str, Any]:
    if given.lightgbm_objective == "quantile":
        return {"quantile_alpha": value}
    if given.has_xgboosts_objective():
        return {"alpha": value}
    raise ValueError(
        f"{name}={value!r} is ambiguous: it is the quantile level in LightGBM and L1 regularisation in XGBoost. Write "
        "quantile_alpha for the level, reg_alpha for the regularisation."
    )


def verbosity(name: str, value: Any, given: Given) -> dict[str, Any]:
    # XGBoost's scale is one higher: 0 silent, 1 warnings, 2 information, 3 debugging.
    if number(value) < 0:
        return {"verbosity": 0}
    if name == "verbosity" and given.lightgbm_objective is None:
        return {name: value}
    return {"verbosity": min(integer(value), 2) + 1}


def objective(name: str, value: Any, given: Given) -> dict[str, Any]:
    main = main_objective(value)
    if main is None:
        return {"objective": value}
    if OBJECTIVES[main].instead:
        refuse(name, value, OBJECTIVES[main].instead)
    return {"objective": OBJECTIVES[main].to}


def metric(name: str, value: Any, given: Given) -> dict[str, Any]:
    if callable(value):
        return {"eval_metric": value}
    words = [word for word in _words(value) if word]
    if not words:
        # As in LightGBM, no name means the metric of the objective.
        return {}
    metrics = [_one_metric(name, word, given) for word in words if word.lower() not in NO_METRIC]
    if not metrics:
        return {"disable_default_eval_metric": True}
    metrics = list(dict.fromkeys(metrics))
    return {"eval_metric": metrics[0] if len(metrics) == 1 else metrics}


def _one_metric(name: str, word: str, given: Given) -> str:
    main = MAIN_METRIC.get(word.lower())
    if main is None:
        return word
    if METRICS[main].instead:
        refuse(name, word, METRICS[main].instead)
    return METRICS[main].to.format(rho=given.get("tweedie_variance_power", 1.5))


def _words(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return [word.strip() for word in value.split(",")]
    # A set has no order; sorting makes the same call give the same log every time.
    return sorted(map(str, value)) if isinstance(value, (set, frozenset)) else [str(word) for word in value]


def boosting(name: str, value: Any, given: Given) -> dict[str, Any]:
    kind = str(value).lower()
    if kind in {"rf", "random_forest"}:
        refuse(name, value, FOREST)
    if kind == "goss":
        refuse(name, value, GOSS)
    return {"booster": {"gbdt": "gbtree", "gbrt": "gbtree"}.get(kind, kind)}


def device(name: str, value: Any, given: Given) -> dict[str, Any]:
    return {} if str(value).lower() == "cpu" else {"device": "cuda"}


def uniform_drop(name: str, value: Any, given: Given) -> dict[str, Any]:
    return {"sample_type": "uniform" if is_true(value) else "weighted"}


def further_seed(name: str, value: Any, given: Given) -> dict[str, Any]:
    if given.get("seed") != value:
        refuse(name, value, "it draws everything from one seed; use seed")
    return {}
