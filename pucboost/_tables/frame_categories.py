"""Categories of the columns of a DataFrame or Arrow table: the declared ones, or the distinct values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .series import as_dictionary, blocks_of, is_pandas_category, native_dtype

if TYPE_CHECKING:
    import narwhals as nw


def pandas_categories(frame: Any) -> set[str]:
    """Return which columns of an Arrow table were categories of a pandas table, according to its own metadata."""
    return pandas_categories_of(getattr(frame, "schema", None))


def pandas_categories_of(schema: Any) -> set[str]:
    """Return which columns of an Arrow schema were categories of a pandas table."""
    columns = [column for column in _pandas_notes(schema, "columns") if isinstance(column, dict)]
    return {str(column.get("field_name")) for column in columns if column.get("pandas_type") == "categorical"}


def pandas_index_of(schema: Any) -> frozenset[str]:
    """Return which columns of an Arrow schema were the index of a pandas table."""
    return frozenset(column for column in _pandas_notes(schema, "index_columns") if isinstance(column, str))


def _pandas_notes(schema: Any, name: str) -> list[Any]:
    """Return one of the lists that pandas has left in an Arrow schema; an empty one if it cannot be read."""
    try:
        notes = getattr(schema, "pandas_metadata", None)
    except ValueError:  # damaged, or not JSON
        return []
    found = notes.get(name) if isinstance(notes, dict) else None
    return found if isinstance(found, list) else []


def has_order(series: nw.Series[Any]) -> bool:
    """Return whether the categories of a column have an order."""
    import narwhals as nw

    return isinstance(series.dtype, nw.Enum) or bool(getattr(native_dtype(series), "ordered", False))


def declared(name: str, series: nw.Series[Any], from_pandas: bool) -> list[Any] | None:
    """Return the declared categories of a column, None if none are declared."""
    import narwhals as nw

    if is_pandas_category(series):
        return list(native_dtype(series).categories)
    if isinstance(series.dtype, nw.Enum):
        return list(series.dtype.categories)
    if not (from_pandas or has_order(series)) or not hasattr(native_dtype(series), "value_type"):
        return None
    first, *others = [chunk.dictionary for chunk in series.to_native().chunks]
    if all(other.equals(first) for other in others):
        return list(first.tolist())
    if not has_order(series):
        return None
    raise ValueError(
        f"Column {name!r} is an ordered dictionary, but its chunks have different dictionaries, so the order is not "
        "known. Unify them, for example with pyarrow's Table.unify_dictionaries."
    )


def distinct(series: nw.Series[Any]) -> list[Any]:
    """Return the distinct values of a column, sorted."""
    seen: set[Any] = set()
    for lo, hi in blocks_of(len(series)):
        indices, values = as_dictionary(series[lo:hi])
        listed = values.tolist()
        seen.update(listed[i] for i in np.unique(indices).tolist() if i >= 0)
    return sorted(value for value in seen if value is not None and value == value)
