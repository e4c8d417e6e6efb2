"""How each column of a DataFrame or Arrow table becomes numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._common import warn
from .column_kinds import CATEGORIES, NOTHING, NUMBERS
from .names import quoted
from .series import as_dictionary, blocks_of, floats, native_dtype

if TYPE_CHECKING:
    import narwhals as nw


class Column:
    """A column without values."""

    dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(self, name: str, series: nw.Series[Any]) -> None:
        self.name, self.series = name, series

    def encode(self, part: nw.Series[Any]) -> Any:
        """Return some of its rows as numbers."""
        return np.nan


class _Numbers(Column):
    """A column of numbers or booleans."""

    def __init__(self, name: str, series: nw.Series[Any]) -> None:
        super().__init__(name, series)
        # LightGBM's rule for DataFrames: the smallest float type that holds every column, at least float32.
        own = getattr(series.to_native(), "dtype", None)
        kind = getattr(own, "type", None)  # pandas dtypes name a type of numpy
        if not (isinstance(kind, type) and issubclass(kind, np.generic)):
            kind = getattr(np, str(series.dtype).lower().replace("boolean", "bool_"), np.float64)
        self.dtype = np.dtype(np.float64 if kind is np.object_ else kind)

    def encode(self, part: nw.Series[Any]) -> Any:
        """Return the numbers."""
        return floats(part)


class _OtherThanInTraining(Column):
    """A column of another kind than in training.

    It raises only when it is read, so that a wrong order of columns can be reported first.
    """

    def __init__(self, name: str, series: nw.Series[Any], error: str) -> None:
        super().__init__(name, series)
        self._error = error

    def encode(self, part: nw.Series[Any]) -> Any:
        """Raise."""
        raise ValueError(self._error)


def warn_of_unknown_values(name: str) -> None:
    """Warn that some values of a column are none of the categories of training."""
    warn(
        f"Column {name!r} has values that the model does not know; they were read as missing, and so as withheld if "
        "the column is optional.",
    )


class _Codes(Column):
    """A column of text or categories, read as codes."""

    def __init__(self, name: str, series: nw.Series[Any], categories: Sequence[Any]) -> None:
        super().__init__(name, series)
        self._code = {value: code for code, value in enumerate(categories)}
        self._is_text = {isinstance(value, str) for value in categories}
        self._values: Any = None
        self._codes_of_values = np.empty(0)
        self._is_unknown = np.zeros(1, dtype=bool)
        self._has_warned = False

    def encode(self, part: nw.Series[Any]) -> Any:
        """Return the codes."""
        indices, values = as_dictionary(part)
        if self._values is None or not values.equals(self._values):
            listed = values.tolist()
            self._check(listed)
            self._values = values
            self._codes_of_values = np.array([*(self._code.get(value, np.nan) for value in listed), np.nan])
            given = [value is not None and value == value for value in (*listed, None)]
            self._is_unknown = np.isnan(self._codes_of_values) & given
        if not self._has_warned and self._is_unknown.any() and self._is_unknown[indices].any():
            self._has_warned = True
            warn_of_unknown_values(self.name)
        return self._codes_of_values[indices]

    def _check(self, values: list[Any]) -> None:
        """Refuse values that could only become missing: text where all categories are numbers, or the reverse."""
        is_text = {isinstance(value, str) for value in values if value is not None}
        if len(is_text) == len(self._is_text) == 1 and is_text != self._is_text:
            here, there = ("text", "numbers") if is_text == {True} else ("numbers", "text")
            raise ValueError(
                f"The categories of column {self.name!r} are {here} ({_some(values)}), those of the training table are "
                f"{there} ({_some(list(self._code))}). Convert them."
            )


def column_reader(name: str, series: nw.Series[Any], kind: str, categories: Sequence[Any] | None) -> Column:
    """Return how to read a column: by its categories or, if these are None, as numbers.

    A column without a single value fits everywhere: nobody shares it.
    """
    if kind == CATEGORIES and categories is not None:
        return _Codes(name, series, categories)
    if kind == NUMBERS and categories is None:
        return _Numbers(name, series)
    if kind == NOTHING or _is_empty(series, kind):
        return Column(name, series)
    return _OtherThanInTraining(name, series, other_than_in_training(name, native_dtype(series), categories))


def other_than_in_training(name: str, dtype: Any, categories: Sequence[Any] | None) -> str:
    """Return the error about a column of numbers in place of ``categories`` or, if these are None, the reverse."""
    if categories is None:
        here, there = f"text or categories (dtype {dtype})", "numbers"
        advice = "Give every table the same column types."
    else:
        here, there = f"numbers (dtype {dtype})", f"categories ({_some(categories)})"
        advice = "Give the categories themselves, as text or in a column of a category type."
    return f"Column {name!r} holds {here}, but {there} in the training table. {advice}"


def _is_empty(series: nw.Series[Any], kind: str) -> bool:
    if kind == CATEGORIES:
        return int(series.null_count()) == len(series)
    parts = (series[lo:hi] for lo, hi in blocks_of(len(series)))
    return all(bool(np.isnan(np.asarray(floats(part), dtype=np.float64)).all()) for part in parts)


def _some(values: Sequence[Any]) -> str:
    return ", ".join(quoted(value) for value in values[:3]) + (", …" if len(values) > 3 else "")
