"""The given parameters, the XGBoost parameters collected from them, and how values are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from ..names import MAIN_NAME, main_objective

SHARED_NAMES = frozenset({
    "colsample_bynode", "colsample_bytree", "device", "eta", "lambda", "learning_rate", "max_bin", "max_cat_threshold",
    "max_cat_to_onehot", "max_leaves", "min_child_weight", "n_jobs", "nthread", "num_class", "random_state",
    "rate_drop", "reg_alpha", "reg_lambda", "scale_pos_weight", "seed", "skip_drop", "subsample", "top_k",
    "tweedie_variance_power",
})  # fmt: skip
"""Names that both engines have, which pass through.

XGBoost also has alpha, interaction_constraints, max_delta_step, max_depth, monotone_constraints, objective and
verbosity. They are not listed because they have values that only LightGBM knows, which the table translates.
"""

_XGBOOST_ALIASES = {
    "alpha": "reg_alpha",
    "eta": "learning_rate",
    "lambda": "reg_lambda",
    "min_split_loss": "gamma",
    "n_jobs": "nthread",
    "random_state": "seed",
}


class Given:
    """The given parameters, and answers to what several rules ask about them."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        given = {name: value for name, value in params.items() if value is not None}
        # The objective goes first: if it is refused, there is no point in complaining about its parameters.
        order = sorted(given, key=lambda name: MAIN_NAME.get(name) != "objective")
        self.items = {name: given[name] for name in order}
        self._check_given_once()
        self.objective: Any = self.get("objective")
        self.lightgbm_objective = main_objective(self.objective)
        """LightGBM's main name of the objective; None if it is XGBoost's, a function or not given."""

    def _check_given_once(self) -> None:
        first: dict[str, str] = {}
        for name, value in self.items.items():
            other = first.setdefault(MAIN_NAME.get(name, name), name)
            if plain(self.items[other]) != plain(value):
                raise ValueError(
                    f"{other}={self.items[other]!r} and {name}={value!r} are the same parameter; give one of them."
                )

    def names(self, main: str) -> list[str]:
        return [name for name in self.items if MAIN_NAME.get(name) == main]

    def says(self, main: str) -> bool:
        return bool(self.names(main))

    def says_in_lightgbms_words(self, main: str) -> bool:
        return any(name not in SHARED_NAMES for name in self.names(main))

    def get(self, main: str, default: Any = None) -> Any:
        return next((self.items[name] for name in self.names(main)), default)

    def has_xgboosts_objective(self) -> bool:
        return isinstance(self.objective, str) and self.lightgbm_objective is None

    def is_dart(self) -> bool:
        return "dart" in (self.items.get("booster"), str(self.get("boosting")).lower())

    def is_ranking(self) -> bool:
        return str(self.objective).startswith("rank:")

    def is_poisson(self) -> bool:
        return self.lightgbm_objective == "poisson" or self.objective == "count:poisson"

    def unlimited_depth(self) -> bool:
        # XGBoost itself writes this as 0; a negative number is LightGBM's way.
        return self.says("max_depth") and number(self.get("max_depth")) < 0


class Result:
    """The XGBoost parameters collected so far, each with its origin."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, Any, str]] = {}

    def put(self, target: str, value: Any, source: str) -> None:
        key = _XGBOOST_ALIASES.get(target, target)
        if key not in self._found:
            self._found[key] = (target, value, source)
            return
        _, other, other_source = self._found[key]
        if plain(other) != plain(value):
            raise ValueError(f"{other_source} and {source} are the same parameter in XGBoost, {key}; give one of them.")

    def default(self, target: str, value: Any) -> None:
        self._found.setdefault(_XGBOOST_ALIASES.get(target, target), (target, value, target))

    def params(self) -> dict[str, Any]:
        return {target: value for target, value, _ in self._found.values()}


def refuse(name: str, value: Any, why: str) -> NoReturn:
    raise ValueError(f"{name}={value!r} has no counterpart in XGBoost: {why}.")


class NotANumberError(ValueError):
    """Holds the value; caught where the name of the parameter is known."""


def number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise NotANumberError(repr(value)) from None


def integer(value: Any) -> int:
    return int(number(value))


def plain(value: Any) -> Any:
    """Return arrays and tuples as lists, so that ``==`` gives a single answer."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
