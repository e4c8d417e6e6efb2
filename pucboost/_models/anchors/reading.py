"""What fitted models of other libraries say about themselves: name, columns, container, classes, exposure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .tables import PANDAS, POLARS

_INNER = ("best_estimator_", "regressor_")
"""Where scikit-learn's searches and transformed regressors keep the estimator that answers."""


@dataclass(frozen=True)
class Columns:
    """The columns that a model was trained on."""

    names: tuple[str, ...] | None = None
    """In its own order; None if it does not know names."""
    count: int | None = None
    """How many, if it does not know names; None if it does not know that either."""
    container: str | None = None
    """The container it was trained on, if that shows."""
    constant: tuple[int, str] | None = None
    """Place and name of a column of ones among its columns, which tables of people do not have."""


def is_statsmodels(model: Any) -> bool:
    """Return whether something is of statsmodels: a model, or the results of fitting one."""
    return _library(model) == "statsmodels"


def is_estimator(model: Any) -> bool:
    """Return whether something predicts as scikit-learn's estimators or statsmodels' results do.

    What can be called as a function and is not an estimator of scikit-learn is a function.
    """
    if isinstance(model, type):
        return False
    predicts = any(hasattr(model, name) for name in ("predict", "predict_proba", "decision_function"))
    return is_statsmodels(model) or hasattr(model, "get_params") or (predicts and not callable(model))


def check_fitted(model: Any) -> None:
    """Raise for an estimator that has not been fitted, or that cannot predict."""
    if is_statsmodels(model):
        if not hasattr(model, "params"):
            raise ValueError(
                f"The anchor is a statsmodels {type(model).__name__} that has not been fitted. Pass the results that "
                "its fit returns."
            )
        return
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if hasattr(model, "fit"):
        try:
            check_is_fitted(model)
        except NotFittedError:
            raise ValueError(
                f"The anchor, {name_of(model)}, has not been fitted. Fit it first, on base features: an anchor is used "
                "as it is."
            ) from None
    if not any(hasattr(model, name) for name in ("predict", "predict_proba", "decision_function")):
        raise ValueError(f"The anchor, {name_of(model)}, has no predict, predict_proba or decision_function.")


def name_of(model: Any) -> str:
    """Return what a model is, in words: ``LogisticRegression in a Pipeline``."""
    inner, wrapper = _answering(model)
    if inner is None:
        name = type(model).__name__.removesuffix("Wrapper")
        return (
            f"{type(model.model).__name__} of statsmodels"
            if hasattr(model, "model") and is_statsmodels(model)
            else name
        )
    return name_of(inner) if wrapper is None else f"{name_of(inner)} in a {wrapper}"


def _answering(model: Any) -> tuple[Any, str | None]:
    """Return the estimator that answers inside another one, and what to call the outer one; None if there is none."""
    if type(model).__name__ == "FrozenEstimator":  # asked for anything else, it answers for its estimator
        return model.estimator, None
    steps = getattr(model, "steps", None)
    if isinstance(steps, list) and steps:
        return steps[-1][1], type(model).__name__
    for attribute in _INNER:
        if hasattr(model, attribute):
            return getattr(model, attribute), type(model).__name__
    return None, None


def classifies(model: Any) -> bool:
    """Return whether an estimator predicts classes."""
    if not hasattr(model, "__sklearn_tags__"):
        return hasattr(model, "predict_proba")
    from sklearn.base import is_classifier

    return bool(is_classifier(model))


def per_unit_of_exposure(model: Any) -> bool:
    """Return whether a model was fitted with an offset or an exposure, without which it predicts rates per unit."""
    if not is_statsmodels(model):
        return False
    given = (getattr(model.model, name, None) for name in ("exposure", "offset"))
    return any(values is not None and bool(np.any(np.asarray(values) != 0)) for values in given)


def columns_of(model: Any, table_names: Sequence[str]) -> Columns:
    """Return the columns that a model says it was trained on."""
    if is_statsmodels(model):
        return _columns_of_statsmodels(model, table_names)
    if _library(model) == "glum":
        return _columns_of_glum(model, table_names)
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return Columns(tuple(str(name) for name in names))
    steps = getattr(model, "steps", None)
    inner = steps[0][1] if isinstance(steps, list) and steps else _answering(model)[0]
    if inner is not None and not isinstance(inner, str):
        return columns_of(inner, table_names)
    count = getattr(model, "n_features_in_", None)
    return Columns(count=None if count is None else int(count))


def _columns_of_glum(model: Any, table_names: Sequence[str]) -> Columns:
    """Read a GLM of glum, whose ``feature_names_`` count a category column once per category."""
    spec = getattr(model, "X_model_spec_", None)
    if spec is not None:
        return Columns(_in_table_order(map(str, spec.required_variables), table_names))
    names = tuple(dict.fromkeys(getattr(model, "term_names_", None) or model.feature_names_))
    if all(re.fullmatch(r"_col_\d+", name) for name in names):
        return Columns(count=len(names))
    # The order of categories depends on the container: it must be that of the fit.
    from_polars = hasattr(model, "_categorical_levels_") and not hasattr(model, "_feature_dtypes_")
    return Columns(names, container=POLARS if from_polars else PANDAS)


def _columns_of_statsmodels(results: Any, table_names: Sequence[str]) -> Columns:
    model = results.model
    formula = getattr(model, "formula", None)
    if formula is not None:
        right = str(formula).partition("~")[2]
        # A name is a variable unless it is called or has something within.
        used = [name for name in table_names if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w(.])", right)]
        return Columns(tuple(used), container=PANDAS)
    names = [str(name) for name in model.exog_names]
    place = model.data.const_idx
    constant = None if place is None or names[place] in table_names else (int(place), names[place])
    own = [name for j, name in enumerate(names) if constant is None or j != constant[0]]
    if all(re.fullmatch(r"x\d+", name) for name in own) and not set(own) <= set(table_names):
        return Columns(count=len(own), constant=constant)  # names that statsmodels gives to arrays
    return Columns(tuple(own), container=PANDAS, constant=constant)


def _in_table_order(names: Any, table_names: Sequence[str]) -> tuple[str, ...]:
    wanted = set(names)
    return (*(name for name in table_names if name in wanted), *sorted(wanted - set(table_names)))


def _library(model: Any) -> str:
    return type(model).__module__.partition(".")[0]
