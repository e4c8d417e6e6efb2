"""The arguments of ``fit``, read and checked as scikit-learn does, and training on them without reading them again."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight, _check_y, validate_data

from .._common import Array
from .._consent import Consent
from .._engines.base import Engine, Hooks
from .._tables.sources import RowSource, SourceTable, check_no_mask, eager, is_frame
from .._training.datasets import Dataset, check_categories
from .._training.request import TrainingRequest, check_validation, split_params
from .._training.train import train, train_request


def read_table(model: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return a table, checked as scikit-learn does.

    scikit-learn checks and converts arrays and sparse matrices. Of DataFrames only names and sizes are checked, because
    a conversion would destroy categories.
    """
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
    if y is None:
        raise ValueError(f"This {type(model).__name__} estimator requires y to be passed, but the target y is None.")
    check_no_mask(y, "y")
    table = read_table(model, X, reset=reset)
    target = _check_y(y, y_numeric=isinstance(model, RegressorMixin), estimator=model)
    check_consistent_length(table, target)
    return table, np.asarray(target)


def read_weight(weight: Any, target: Array) -> Array:
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


class EvalPair(NamedTuple):
    """One validation set as given, and its name in errors."""

    X: Any
    y: Any
    weight: Any
    exposure: Any
    class_weight: Any
    name: str


def eval_pairs(
    eval_set: Any,
    eval_X: Any,
    eval_y: Any,
    *,
    sample_weight: Any = None,
    exposure: Any = None,
    class_weight: Any = None,
) -> list[EvalPair]:
    """Return the validation sets, from the arguments of ``fit`` about them."""
    vectors = {"eval_sample_weight": sample_weight, "eval_exposure": exposure}
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
        for name, values in {**vectors, "eval_class_weight": class_weight}.items():
            if values is not None:
                raise ValueError(f"{name} needs eval_set.")
        return []
    weights, exposures = (_one_each(values, name, len(pairs)) for name, values in vectors.items())
    if isinstance(class_weight, (str, Mapping)):
        class_weight = [class_weight] * len(pairs)
    by_class = _one_each(class_weight, "eval_class_weight", len(pairs))
    return [EvalPair(*pair, *others) for pair, *others in zip(pairs, weights, exposures, by_class, names, strict=True)]


def _one_each(vectors: Any, name: str, n_sets: int) -> list[Any]:
    """Return one vector for each validation set; a vector by itself is that of a single set."""
    if vectors is None:
        return [None] * n_sets
    if not isinstance(vectors, (list, tuple)) or (vectors and isinstance(vectors[0], Real)):
        vectors = [vectors]
    if len(vectors) != n_sets:
        raise ValueError(f"{name} has {len(vectors)} items for {n_sets} validation sets.")
    return list(vectors)


# ----- training on what was read


class FitPeople(NamedTuple):
    """A table as given, with its row source, outcomes, weights and exposures."""

    container: Any
    source: RowSource
    label: Array
    weight: Array | None
    exposure: Array | None = None

    def table(self, name: str, **more: Any) -> SourceTable:
        return SourceTable.of(
            self.source, self.label, self.weight, name=name, exposure=self.exposure, data=self.container, **more
        )


def train_people(
    engine: Engine,
    params: dict[str, Any],
    consent: Consent,
    people: FitPeople,
    others: list[FitPeople | None],
    *,
    categorical: Any,
    rounds: int,
    callbacks: list[Any],
    classes: Array | None,
) -> Any:
    """Return the booster that :func:`pucboost.train` would return, without reading the tables again.

    Parameters
    ----------
    params
        Parameters of :func:`pucboost.train`.
    others
        People to validate on; None stands for those to train on.
    categorical
        The categorical columns, as in ``lgb.Dataset``.
    classes
        The labels of a classifier; its outcomes are their numbers.
    """
    if engine.trains_plain_datasets and consent.n_groups == 0:  # the engine reads the tables itself
        engine.check_labels(engine.objective(params), people.label, "y")
        train_set = _plain_dataset(people, categorical)
        plain = [train_set if other is None else _plain_dataset(other, None) for other in others]
        return train(params, train_set, rounds, plain or None, callbacks=callbacks or None)
    settings, engine_params = split_params(params)
    check_categories(people.source, "X")
    table = people.table("X", categorical_feature=categorical)
    request = TrainingRequest.of(
        engine, settings, engine_params, table, consent, rounds, label_name="y", classes=classes
    )
    valid: list[tuple[SourceTable | None, str]] = []
    for i, other in enumerate(others):
        if other is None:
            valid.append((None, "training"))
            continue
        one = other.table(f"eval_set[{i}]")
        check_validation(request, one, f"eval_set[{i}]")
        valid.append((one, f"valid_{i}"))
    return train_request(request, valid or None, Hooks(callbacks=callbacks or None))


def _plain_dataset(people: FitPeople, categorical: Any) -> Dataset:
    """Return a Dataset that LightGBM can read: pandas numbers and categories unchanged, other DataFrames as codes.

    ``categorical`` is None for a validation set, which takes names and types from the training set.
    """
    import narwhals.dependencies as nwd

    container, source = people.container, people.source
    rows: dict[str, Any] = {"label": people.label, "weight": people.weight, "exposure": people.exposure}
    if not is_frame(container) or (nwd.is_pandas_dataframe(container) and not source.never_numbers):
        named = {} if categorical is None else {"categorical_feature": categorical}
        return Dataset(container, **rows, **named)
    numbers, names = source.window(0, source.n_rows), source.feature_names or []
    if categorical is None:
        return Dataset(numbers, **rows)
    declared = [] if categorical == "auto" else [names.index(c) if isinstance(c, str) else c for c in categorical]
    columns = sorted({*declared, *source.categorical})
    return Dataset(numbers, **rows, feature_name=names, categorical_feature=columns)
