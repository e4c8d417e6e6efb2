"""What a column of a DataFrame or Arrow table holds: numbers, categories or nothing."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from .names import quoted
from .series import blocks_of, native_dtype

if TYPE_CHECKING:
    import narwhals as nw

NUMBERS, CATEGORIES, NOTHING = "numbers", "categories", "nothing"
"""What a column can hold; nothing if all its values are missing and its type says no more."""


def kind_of(name: str, series: nw.Series[Any]) -> str:
    """Return what a column holds, or raise if it is neither numbers nor categories."""
    import narwhals as nw

    own = native_dtype(series)
    if isinstance(own, np.dtype) and own.kind == "O":
        return _kind_of_objects(name, series.to_native())
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        return NUMBERS
    if dtype in (nw.String, nw.Categorical, nw.Enum) and _has_simple_values(own):
        return CATEGORIES
    if dtype == nw.Unknown:
        kind = getattr(own, "type", None)
        if isinstance(kind, type) and issubclass(kind, (np.integer, np.floating, np.bool_)):
            return NUMBERS  # a sparse column of pandas
        if series.null_count() == len(series):
            return NOTHING
    raise _unreadable(name, own)


def _is_readable(dtype: nw.dtypes.DType) -> bool:
    """Return whether columns of a type hold, or may hold, numbers, text or categories."""
    import narwhals as nw

    return dtype.is_numeric() or dtype in (nw.Boolean, nw.String, nw.Categorical, nw.Enum, nw.Object, nw.Unknown)


def check_readable(name: str, dtype: nw.dtypes.DType) -> None:
    """Raise if a column of this type holds neither numbers nor text nor categories."""
    if not _is_readable(dtype):
        raise _unreadable(name, dtype)


def _unreadable(name: str, dtype: Any) -> ValueError:
    return ValueError(
        f"Column {name!r} has dtype {dtype}; columns must be numbers, booleans, text or categories. Convert it (a "
        "date, for example, to days since a fixed date), or leave it out."
    )


def _has_simple_values(dtype: Any) -> bool:
    """Return False for an Arrow dictionary of dates, lists and the like."""
    values = str(getattr(dtype, "value_type", "string"))
    return values.removeprefix("large_").startswith(("string", "int", "uint", "float", "double", "halffloat", "bool"))


def _kind_of_objects(name: str, column: Any) -> str:
    """Return what the Python objects of a pandas column are; all of them must be of one kind."""
    first: tuple[int, Any, str] | None = None
    for lo, hi in blocks_of(len(column)):
        part = column.iloc[lo:hi]
        given = np.flatnonzero(part.notna().to_numpy())
        kinds = {_kind_of_type(kind) for kind in set(map(type, part.array[given]))}
        if first is not None and kinds <= {first[2]}:
            continue
        for at in given.tolist():
            row, value = lo + at, part.iloc[at]
            kind = _kind_of_type(type(value))
            if kind == NOTHING:
                raise ValueError(
                    f"Column {name!r} holds a {type(value).__name__} in row {row} ({quoted(value)}); columns must be "
                    "numbers, booleans, text or categories. Convert it, or leave it out."
                )
            first = first or (row, value, kind)
            if kind != first[2]:
                raise ValueError(
                    f"Column {name!r} mixes text and numbers: row {first[0]} holds {quoted(first[1])}, row {row} "
                    f"{quoted(value)}. "
                    "Make it one or the other, for example with astype(str)."
                )
            if kinds == {kind}:
                break
    return NOTHING if first is None else first[2]


def _kind_of_type(kind: type) -> str:
    if issubclass(kind, str):
        return CATEGORIES
    # To numpy, time differences are integers.
    is_number = issubclass(kind, (Real, Decimal, np.bool_)) and not issubclass(kind, np.timedelta64)
    return NUMBERS if is_number else NOTHING
