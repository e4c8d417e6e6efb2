"""What is in a Dataset before anything is checked: the rows, and the labels, weights, … that belong to them.

A table in memory is read where it is. One that is not is read once, in pieces, into a matrix that may be a temporary
file. In both, labels and the like may be named by their columns, which are then no features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import lightgbm as lgb

from .._common import Array
from .._tables.containers import column_names, eager, is_frame, named_columns, row_source
from .._tables.files import DataError
from .._tables.names import similar
from .._tables.sources import Categories, RowSource
from .._tables.table_files import is_stored, load_as_trained, load_table, stored_table
from .datasets import field_of, named_fields


@dataclass(frozen=True)
class Content:
    """The rows of a Dataset, and what belongs to them."""

    source: RowSource
    dataset: lgb.Dataset
    feature_name: Any
    data: Any
    """The user's own table, without columns that are no features if it is in memory."""
    vectors: dict[str, Array] = field(default_factory=dict)
    """Fields that were given as names of columns."""

    def field(self, name: str) -> Any:
        """Return label, weight, initial score or exposure."""
        if name in self.vectors:
            return self.vectors[name]
        return field_of(self.dataset, name) if name in ("label", "weight") else getattr(self.dataset, name, None)


def read_content(
    dataset: lgb.Dataset,
    name: str,
    categories: Categories | None,
    names: Sequence[str] | None,
    reader: Callable[[Any], RowSource] | None = None,
) -> Content:
    """Return the content of a Dataset.

    Parameters
    ----------
    dataset
        The Dataset, which is not changed.
    name
        Its name in errors.
    categories, names
        Categories and columns of the training table, if this is another one.
    reader
        Reads the rows of a table in memory, if there is more to be known than the categories.
    """
    if is_stored(dataset.data):
        if reader is not None:
            raise ValueError(
                f"{name} is not in memory. With a plan that workers share, read its part into a DataFrame."
            )
        return _stored(dataset, name, categories, names)
    data, fields = eager(dataset.data), named_fields(dataset)
    read = reader or (lambda table: row_source(table, categories))
    if not fields:
        return Content(read(data), dataset, dataset.feature_name, data)
    if not is_frame(data):
        row_source(data)  # may know better what is wrong
        role, column = next(iter(fields.items()))
        raise ValueError(f"The {role} of {name} is {column!r}, the name of a column, but the columns have no names.")
    columns = column_names(data)
    _check_fields(fields, columns, name)
    vectors = {role: named_columns(data, [column]) for role, column in fields.items()}
    data = named_columns(data, [column for column in columns if column not in fields.values()])
    return Content(read(data), dataset, dataset.feature_name, data, vectors)


def _stored(dataset: lgb.Dataset, name: str, categories: Categories | None, names: Sequence[str] | None) -> Content:
    """Read a table that is not in memory."""
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
    return Content(table.source, dataset, chosen, file, table.vectors)


def _check_fields(fields: dict[str, str], columns: Sequence[str], name: str) -> None:
    """Raise if a column that a field names is not there, or has two roles."""
    for role, column in fields.items():
        if column not in columns:
            raise DataError(f"{name} has no column {column!r} ({role}){similar(column, list(columns))}")
        both = [other for other in fields if fields[other] == column]
        if len(both) > 1:
            raise DataError(f"Column {column!r} of {name} is both {both[0]} and {both[1]}.")
