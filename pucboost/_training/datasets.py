"""``puc.Dataset``, pairs (X, y) in place of Datasets, and Datasets read as tables.

Labels, weights, initial scores and exposures may be named by their columns, which are then no features.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any, Literal, Never, Protocol, TypeAlias

import lightgbm as lgb
import numpy as np

from .._common import Array, did_you_mean, similar
from .._consent import OptionalColumns, declares_something
from .._not_applicable import NotApplicable
from .._tables.files import DataError
from .._tables.sources import (
    Categories,
    RowSource,
    SourceTable,
    check_no_mask,
    column_names,
    eager,
    is_frame,
    is_matrix,
    is_stored,
    named_columns,
    read_exposure,
    read_init_score,
    read_label,
    read_weight,
    row_source,
    without_mask,
)
from ..warnings import ProtectionLostWarning


class Dataset(lgb.Dataset):
    """``lgb.Dataset`` with a declaration of which of its columns are optional.

    Takes the arguments of ``lgb.Dataset``, and four more. With optional columns, ``data`` may hold text and categories
    in any DataFrame or Arrow table: they are read as categories, whether or not ``categorical_feature`` names them.
    (LightGBM's rule still applies to pandas categories: those it does not name are read as numbers.)

    ``data`` may also be a table that is not in memory: the name of a Parquet file or of a folder of them, an object of
    ``pyarrow.dataset``, or a lazy frame of polars. It is read in pieces when training begins. Then ``label``,
    ``weight``, ``init_score`` and ``exposure`` may be names of its columns, and ``feature_name`` lists the columns to
    train on; without it these are all others, but for the index of a pandas table.

    Parameters
    ----------
    optional : list of columns, or dict group -> columns
        Columns people may withhold, by name or integer position. In a list every column is shared or withheld on its
        own; the columns of a group are shared or withheld together. :class:`Levels` in place of columns are shared one
        after the other, and :class:`Needs` is a group that is shared only with another. At most 64 groups.
    not_applicable : dict optional column or group -> where it does not apply, optional
        What is missing counts as withheld, unless there was nothing to share. For each column: a value of it that says
        so, or several (``{"income": -8}``); a rule, base column → values with which an empty cell does not apply
        (``{"income": {"status": ["child"]}}``), which the model keeps and applies wherever it reads a table; or one
        flag per row of this table (``{"income": no_income}``). In other tables write :data:`NOT_APPLICABLE` where a
        flag would be, in text columns ``"not applicable"``.
    available : bool matrix (rows × groups), optional
        Who shares which group. By default a group is shared if at least one of its columns has a value.
    exposure : one number per row, optional
        What the labels add up over, for Poisson, gamma and Tweedie: years insured for numbers or amounts of claims,
        numbers of claims for amounts. Then ``label`` are totals, and the model predicts per unit of exposure: training
        is that on the labels Y/e with the weights w·e. Exposures must be above 0, and known for everybody, whether or
        not they share.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.array([[30.0, 9000.0, np.nan], [50.0, np.nan, 5.1]])
    >>> data = puc.Dataset(X, [0, 1], optional={"app": ["steps"], "blood": ["glucose"]},
    ...                    feature_name=["age", "steps", "glucose"])
    >>> data.optional
    {'app': ['steps'], 'blood': ['glucose']}

    One claim in half a year and three in two years, with a label that is a total:

    >>> puc.Dataset(X, [1, 3], exposure=[0.5, 2.0], optional=[1, 2])
    <Dataset: 2 rows × 3 columns, with label, optional: 1, 2>

    A folder of Parquet files, or a table of polars, with the label in one of its columns:

    >>> data = puc.Dataset("people/", label="claim", optional=["steps"])            # doctest: +SKIP
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        reference: lgb.Dataset | None = None,
        weight: Any = None,
        group: Any = None,
        init_score: Any = None,
        feature_name: list[str] | Literal["auto"] = "auto",
        categorical_feature: list[str] | list[int] | Literal["auto"] = "auto",
        params: dict[str, Any] | None = None,
        free_raw_data: bool = True,
        position: Any = None,
        *,
        optional: OptionalColumns = None,
        not_applicable: NotApplicable = None,
        available: Any = None,
        exposure: Any = None,
        **unknown: Never,  # an error for type checkers; the suggestion is made when it runs
    ) -> None:
        for name in unknown:
            hint = did_you_mean(name, inspect.signature(Dataset).parameters)
            raise TypeError(f"Dataset() got an unexpected keyword argument {name!r}.{hint}")
        if is_matrix(data):
            given = {"label": label, "weight": weight, "group": group, "init_score": init_score}
            own = _fields_of_matrix(data)
            label, weight, group, init_score = (own[name] if value is None else value for name, value in given.items())
            if categorical_feature == "auto":
                categorical_feature = own["categorical_feature"]
        for what, values in {"label": label, "weight": weight, "init_score": init_score, "exposure": exposure}.items():
            check_no_mask(values, f"The {what}")
        super().__init__(
            without_mask(data),
            label,
            reference=reference,
            weight=weight,
            group=group,
            init_score=init_score,
            feature_name=feature_name,
            categorical_feature=categorical_feature,
            params=params,
            free_raw_data=free_raw_data,
            position=position,
        )
        self.optional = optional
        self.not_applicable = not_applicable
        self.available = available
        self.exposure = exposure

    def __repr__(self) -> str:
        shape = getattr(self.data, "shape", None)
        if shape is None and is_constructed(self):  # the raw data are gone
            shape = self.num_data(), self.num_feature()
        if shape is not None:
            size = " × ".join(f"{n:,} {what}" for n, what in zip(shape, ("rows", "columns"), strict=False))
        else:
            size = repr(self.data) if isinstance(self.data, (str, Path)) else f"a {type(self.data).__name__}"
        optional: Any = self.optional if declares_something(self.optional) else ()
        groups = ", ".join(map(str, getattr(optional, "group_names", optional)))
        label = "no label" if self.label is None else "with label"
        return f"<Dataset: {size}, {label}, {f'optional: {groups}' if groups else 'nothing declared optional'}>"

    def _update_params(self, params: dict[str, Any] | None) -> lgb.Dataset:
        # lgb.train and lgb.cv begin with this. pucboost trains on Datasets of its own if something is optional.
        if declares_something(self.optional) and self.reference is None:
            warnings.warn(
                "The protection is lost: LightGBM itself trains on this Dataset. It does not know what is optional, "
                "and learns what silence tells. Call pucboost.train or pucboost.cv.",
                ProtectionLostWarning,
                stacklevel=3,
            )
        super()._update_params(params)
        return self


def _fields_of_matrix(matrix: Any) -> dict[str, Any]:
    """Return what an ``xgb.DMatrix`` holds beside its rows, under the names of a Dataset's arguments."""
    n, margin = matrix.num_row(), matrix.get_base_margin()
    found = {
        "label": matrix.get_label(),
        "weight": matrix.get_weight(),
        "group": np.diff(matrix.get_uint_info("group_ptr")),
        "init_score": margin.reshape(n, -1) if margin.size > n else margin,  # row after row
    }
    kinds, categories = matrix.feature_types or (), matrix.get_categories(export_to_arrow=True).to_arrow()
    stored = [values is not None for _, values in categories] or [False] * len(kinds)
    codes = [j for j, kind in enumerate(kinds) if kind == "c" and not stored[j]]
    return {name: values if len(values) else None for name, values in found.items()} | {
        "categorical_feature": codes or "auto"
    }


class Matrix(Protocol):
    """What ``xgb.DMatrix`` is, for checkers that need not know XGBoost."""

    def num_row(self) -> int: ...
    def get_label(self) -> Any: ...


TrainingSet: TypeAlias = lgb.Dataset | tuple[Any, Any] | Matrix
"""A Dataset, a pair (X, y) or an ``xgb.DMatrix``."""


def as_dataset(train_set: Any, caller: str) -> lgb.Dataset:
    """Return a training set, which may be a pair (X, y), as a Dataset; errors name the ``caller``."""
    if isinstance(train_set, lgb.Dataset):
        return train_set
    if _is_set(train_set):
        return _made(train_set)
    raise TypeError(
        f"{caller}() only accepts Dataset object, train_set has type '{type(train_set).__name__}'. "
        "Pass a puc.Dataset, an lgb.Dataset, an xgb.DMatrix or a pair (X, y)."
    )


def _is_set(given: Any) -> bool:
    """Return whether a Dataset is made of it."""
    return _is_pair(given) or is_matrix(given)


def _made(given: Any) -> Dataset:
    return Dataset(*given) if _is_pair(given) else Dataset(given)


def as_datasets(valid_sets: Any, train_set: Any, dataset: lgb.Dataset) -> Any:
    """Return validation sets with every pair (X, y) and ``xgb.DMatrix`` as a Dataset, and all else as it is.

    Parameters
    ----------
    valid_sets
        As in ``train``: one set or several.
    train_set, dataset
        The training set as given, and as a Dataset. A pair of the same two objects is the training set itself.
    """
    single = is_matrix(valid_sets) or (
        _is_pair(valid_sets) and not any(isinstance(part, lgb.Dataset) or _is_set(part) for part in valid_sets)
    )
    given = [valid_sets] if single else valid_sets
    if not isinstance(given, (list, tuple)):
        return valid_sets
    made = {_key(train_set): dataset}
    return [made.setdefault(_key(one), _made(one)) if _is_set(one) else one for one in given]


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2


def _key(given: Any) -> tuple[int, ...]:
    """Return the identity of a set: the same two objects in another tuple are the same pair."""
    return (id(given[0]), id(given[1])) if _is_pair(given) else (id(given),)


def named_fields(dataset: lgb.Dataset) -> dict[str, str]:
    given = {field: getattr(dataset, field, None) for field in ("label", "weight", "init_score", "exposure")}
    return {field: value for field, value in given.items() if isinstance(value, str)}


def is_read_by_us(dataset: lgb.Dataset) -> bool:
    """Return whether a Dataset holds what LightGBM does not read: exposures, names of columns, tables of others."""
    if has_exposure(dataset):
        return True
    whole = whole_of(dataset)
    if whole is not None:
        return is_read_by_us(whole)
    return bool(named_fields(dataset)) or is_stored(dataset.data) or is_matrix(dataset.data)


def has_exposure(dataset: Any) -> bool:
    """Return whether a Dataset, or the one that it is a subset of, has an exposure."""
    if getattr(dataset, "exposure", None) is not None:
        return True
    whole = whole_of(dataset) if isinstance(dataset, lgb.Dataset) else None
    return whole is not None and has_exposure(whole)


def whole_of(dataset: lgb.Dataset) -> lgb.Dataset | None:
    """Return the Dataset of which this is a subset of rows; None if it is none."""
    return None if dataset.used_indices is None else dataset.reference


def field_of(dataset: lgb.Dataset, name: str) -> Any:
    """Return label or weight; on a constructed Dataset ``set_field`` may have set it."""
    return dataset.get_field(name) if is_constructed(dataset) else getattr(dataset, name)


def is_constructed(dataset: lgb.Dataset) -> bool:
    """Return whether LightGBM holds a Dataset. One that it refused has an empty handle, which it would follow."""
    return dataset._handle is not None and dataset._handle.value is not None


# ----- a Dataset as a table
#
# A table in memory is read where it is. One that is not is read once, in pieces, into a matrix that may be a temporary
# file: the plan, the bins and the sketch of people need rows at random.


def read_dataset(
    dataset: lgb.Dataset,
    name: str,
    categories: Categories | None = None,
    names: Sequence[str] | None = None,
    reader: Callable[[Any], RowSource] | None = None,
) -> SourceTable:
    """Return the raw content of a Dataset, checked; the Dataset itself is not changed.

    Parameters
    ----------
    dataset
        An ``lgb.Dataset`` or ``puc.Dataset``, not yet constructed, or with raw data kept, or a subset of such.
    name
        Its name in errors.
    categories, names
        Categories and columns of the training table, if this is another one.
    reader
        Reads the rows of a table in memory, if more than the categories must be known.
    """
    outer = whole_of(dataset)
    if outer is not None:
        whole = read_dataset(outer, name, categories, names, reader)
        return _with_own_fields(whole.subset(np.asarray(dataset.used_indices, dtype=np.int64)), dataset, name)
    if dataset.data is None:
        raise ValueError(
            f"{name} is already constructed and its raw data are gone, so nothing can be masked. Build the Dataset "
            "with free_raw_data=False, or pass one that has not been used yet."
        )
    if dataset.position is not None:
        raise ValueError(f"{name} has positions, but ranking is not defined with optional features.")
    data: Any = dataset.data
    if is_matrix(data) and len(data.get_float_info("feature_weights")):
        raise ValueError(f"{name} has feature_weights, which virtual rows do not take. Leave them out.")
    fields = {"label": field_of(dataset, "label"), "weight": field_of(dataset, "weight")}
    fields |= {field: getattr(dataset, field, None) for field in ("init_score", "exposure")}
    if not is_stored(dataset.data):
        source, feature_name, data, vectors = _in_memory(dataset, name, categories, reader)
    elif reader is not None:
        raise ValueError(f"{name} is not in memory. With a plan that workers share, read its part into a DataFrame.")
    else:
        source, feature_name, data, vectors = _stored(dataset, name, categories, names)
    fields |= vectors
    source = row_source(source, categories)  # with values where something does not apply
    check_categories(source, name)
    return SourceTable.of(
        source,
        fields["label"],
        fields["weight"],
        name=name,
        exposure=fields["exposure"],
        feature_name=feature_name,
        categorical_feature=dataset.categorical_feature,
        data=data,
        init_score=read_init_score(fields["init_score"], name, source.n_rows),
        group=dataset.group,
        params=dict(dataset.params or {}),
        optional=getattr(dataset, "optional", None),
        not_applicable=getattr(dataset, "not_applicable", None),
        available=getattr(dataset, "available", None),
    )


_Read: TypeAlias = tuple[RowSource, Any, Any, dict[str, Array]]
"""The rows, names of the features, the user's table without columns that are no features, and the named fields."""


def _in_memory(
    dataset: lgb.Dataset, name: str, categories: Categories | None, reader: Callable[[Any], RowSource] | None
) -> _Read:
    data, fields = eager(dataset.data), named_fields(dataset)
    read = reader or (lambda table: row_source(table, categories))
    if not fields:
        return read(data), dataset.feature_name, data, {}
    if not is_frame(data):
        row_source(data)  # its own error is better, if there is one
        role, column = next(iter(fields.items()))
        raise ValueError(f"The {role} of {name} is {column!r}, the name of a column, but the columns have no names.")
    columns = column_names(data)
    _check_fields(fields, columns, name)
    vectors = {role: named_columns(data, [column]) for role, column in fields.items()}
    data = named_columns(data, [column for column in columns if column not in fields.values()])
    return read(data), dataset.feature_name, data, vectors


def _stored(dataset: lgb.Dataset, name: str, categories: Categories | None, names: Sequence[str] | None) -> _Read:
    from .._tables.table_files import load_as_trained, load_table, stored_table

    file, fields = stored_table(dataset.data), named_fields(dataset)
    where = f"{name}, {file.path},"
    _check_fields(fields, file.columns, where)
    if isinstance(dataset.feature_name, list):
        chosen = [str(column) for column in dataset.feature_name]
    elif names is not None:
        chosen = list(names)
    else:
        chosen = [column for column in file.columns if column not in {*fields.values(), *file.index_columns}]
    for column in chosen:
        if column not in file.columns:
            raise DataError(f"{where} has no column {column!r}{similar(column, file.columns)}")
        if column in fields.values():
            role = next(role for role, other in fields.items() if other == column)
            raise DataError(f"Column {column!r} of {where} is the {role}, and cannot be a feature, too.")
    if not chosen:
        raise DataError(f"{where} has no column that could be a feature.")
    if categories is None:
        advice = " (feature_name chooses the columns)"
        table = load_table(file, [file.learn(column, advice=advice) for column in chosen], fields)
    else:
        table = load_as_trained(file, chosen, categories, fields)
    return table.source, chosen, file, table.vectors


def _check_fields(fields: dict[str, str], columns: Sequence[str], name: str) -> None:
    """Raise if a column that a field names is not there, or has two roles."""
    for role, column in fields.items():
        if column not in columns:
            raise DataError(f"{name} has no column {column!r} ({role}){similar(column, list(columns))}")
        both = [other for other in fields if fields[other] == column]
        if len(both) > 1:
            raise DataError(f"Column {column!r} of {name} is both {both[0]} and {both[1]}.")


def check_categories(source: RowSource, name: str) -> None:
    """Raise for categories that a model cannot keep, such as dates or the intervals that ``pandas.cut`` makes."""
    for j, values in zip(source.coded, source.pandas_categorical or (), strict=False):
        other = [value for value in values if not isinstance(value, (str, Real, np.bool_))]
        if other:
            column = j if source.feature_names is None else source.feature_names[j]
            raise ValueError(
                f"Column {column!r} of {name} has the category {other[0]!r}, which a model cannot keep; categories "
                "must be text, numbers or booleans. Convert them, for example with .cat.rename_categories(str)."
            )


def _with_own_fields(table: SourceTable, subset: lgb.Dataset, name: str) -> SourceTable:
    """Return the rows of a subset with the labels, weights, scores and exposures that were set on the subset itself."""
    n = table.source.n_rows
    exposure = read_exposure(getattr(subset, "exposure", None), name, n)
    exposure = table.exposure if exposure is None else exposure
    return replace(
        table,
        label=table.label if subset.label is None else read_label(subset.label, name, n, total=exposure is not None),
        weight=table.weight if subset.weight is None else read_weight(subset.weight, name, n),
        exposure=exposure,
        init_score=table.init_score if subset.init_score is None else read_init_score(subset.init_score, name, n),
    )
