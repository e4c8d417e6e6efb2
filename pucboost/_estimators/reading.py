"""The arguments of ``fit`` and ``predict``, read and checked as scikit-learn does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight, _check_y, validate_data

from .._arrays import Array
from .._tables.containers import eager, is_frame
from .._tables.masked_arrays import check_no_mask


def read_table(model: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return a table, checked as scikit-learn does: arrays and sparse matrices are converted, DataFrames are not."""
    least = 2 if reset else 1
    X = eager(X)
    if is_frame(X):
        import narwhals as nw

        shape = nw.from_native(X, eager_only=True).shape
        for size, minimum, what in ((shape[0], least, "sample"), (shape[1], 1, "feature")):
            if size < minimum:
                raise ValueError(
                    f"Found array with {size} {what}(s) (shape={shape}) while a minimum of {minimum} is required by "
                    f"{type(model).__name__}."
                )
        validate_data(model, _names_only(X), reset=reset, skip_check_array=True)
        return X
    return validate_data(
        model,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        ensure_min_samples=least,
    )


def _names_only(X: Any) -> Any:
    """Return a DataFrame whose names every version of scikit-learn sees; older versions see only pandas names."""
    import narwhals.dependencies as nwd

    if nwd.is_pandas_dataframe(X):
        return X
    import narwhals as nw
    import pandas as pd

    return pd.DataFrame(columns=list(nw.from_native(X, eager_only=True).columns))


def read_both(model: BaseEstimator, X: Any, y: Any, *, reset: bool = True) -> tuple[Any, Array]:
    """Return a table and its outcomes, checked."""
    if y is None:
        raise ValueError(f"This {type(model).__name__} estimator requires y to be passed, but the target y is None.")
    check_no_mask(y, "y")
    table = read_table(model, X, reset=reset)
    target = _check_y(y, y_numeric=isinstance(model, RegressorMixin), estimator=model)
    check_consistent_length(table, target)
    return table, np.asarray(target)


def read_weight(weight: Any, target: Array) -> Array:
    """Return the weights of people, checked."""
    check_no_mask(weight, "sample_weight")
    return np.asarray(_check_sample_weight(weight, target, dtype=np.float64, ensure_non_negative=True))


def rows_with_weight(weight: Array) -> Array | None:
    """Return the numbers of the rows with a positive weight; None if these are all rows."""
    if not weight.any():  # older versions of scikit-learn do not check this
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return None if weight.all() else np.flatnonzero(weight)


def times_class_weight(weight: Array | None, class_weight: Any, target: Array) -> Array | None:
    """Return the weights times the weights of people's classes, as scikit-learn computes them from these people."""
    if class_weight is None:
        return weight
    by_class = np.asarray(compute_sample_weight(class_weight, target))
    return by_class if weight is None else weight * by_class


@dataclass(frozen=True)
class EvalPair:
    """One validation set as given, and its name in errors."""

    X: Any
    y: Any
    weight: Any
    exposure: Any
    class_weight: Any
    name: str


@dataclass(frozen=True)
class EvalSets:
    """The arguments of ``fit`` about people to validate on, as given."""

    eval_set: Any = None
    X: Any = None
    y: Any = None
    sample_weight: Any = None
    exposure: Any = None
    class_weight: Any = None


def eval_pairs(given: EvalSets) -> list[EvalPair]:
    """Return the validation sets, however they were given."""
    eval_set, eval_X, eval_y = given.eval_set, given.X, given.y
    vectors = {"eval_sample_weight": given.sample_weight, "eval_exposure": given.exposure}
    if eval_set is not None:
        if eval_X is not None or eval_y is not None:
            raise ValueError("Give eval_set, or eval_X and eval_y, but not both.")
        a_pair = isinstance(eval_set, tuple) and not (eval_set and isinstance(eval_set[0], tuple))
        pairs = [eval_set] if a_pair else list(eval_set)
        for i, pair in enumerate(pairs):
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                got = f"a sequence of length {len(pair)}" if isinstance(pair, (tuple, list)) else type(pair).__name__
                raise ValueError(f"eval_set must be a pair (X, y) or a list of pairs; item {i} is {got}.")
        names = [f"eval_set[{i}]" for i in range(len(pairs))]
    elif eval_X is not None or eval_y is not None:
        if eval_X is None or eval_y is None:
            raise ValueError("eval_X and eval_y belong together; one of them is missing.")
        tables = eval_X if isinstance(eval_X, tuple) else (eval_X,)
        targets = eval_y if isinstance(eval_y, tuple) else (eval_y,)
        if len(tables) != len(targets):
            raise ValueError(f"eval_X holds {len(tables)} tables, but eval_y holds outcomes for {len(targets)}.")
        pairs = list(zip(tables, targets, strict=True))
        names = [f"eval_X[{i}]" for i in range(len(pairs))]
    else:
        for name, values in {**vectors, "eval_class_weight": given.class_weight}.items():
            if values is not None:
                raise ValueError(f"{name} needs eval_set.")
        return []
    weights, exposures = (_one_each(values, name, len(pairs)) for name, values in vectors.items())
    by_class = given.class_weight  # one for all sets, or a list
    class_weights = _one_each(
        [by_class] * len(pairs) if isinstance(by_class, (str, Mapping)) else by_class, "eval_class_weight", len(pairs)
    )
    return [
        EvalPair(*pair, *others) for pair, *others in zip(pairs, weights, exposures, class_weights, names, strict=True)
    ]


def _one_each(vectors: Any, name: str, n_sets: int) -> list[Any]:
    """Return one vector for each validation set; a vector by itself is that of a single set."""
    if vectors is None:
        return [None] * n_sets
    if not isinstance(vectors, (list, tuple)) or (vectors and isinstance(vectors[0], Real)):
        vectors = [vectors]
    if len(vectors) != n_sets:
        raise ValueError(f"{name} has {len(vectors)} items for {n_sets} validation sets.")
    return list(vectors)
