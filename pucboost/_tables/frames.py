"""DataFrames and Arrow tables as sources of rows: which column holds what, and the codes of categories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arrays import Array
from .sources import ArraySource, Categories, RowSource, is_plain

if TYPE_CHECKING:
    import narwhals as nw

BLOCK_ROWS = 1 << 16
"""How many values of a column are looked at at a time, where it is not yet known what they are."""

NUMBERS, CATEGORIES, NOTHING = "numbers", "categories", "nothing"
"""What a column can hold; nothing, if all its values are missing and its type says no more."""


class FrameSource(RowSource):
    """A pandas, polars or Arrow table, or another that narwhals knows, of numbers, booleans, text and categories.

    Missing values are NaN, be they NaN, null or None. Text and categories become codes: the places of their values
    among the categories of the training table or, where this is the training table, among its own. These are

    - the declared ones, in their order: those of pandas categories (also in an Arrow table made of a pandas one), of
      polars Enums and of ordered Arrow dictionaries. An Enum becomes an ordered dictionary in Arrow and an ordered
      category in pandas, so all of these have an order;
    - the sorted distinct values of everything else: text, polars Categoricals, other Arrow dictionaries.

    Parameters
    ----------
    frame
        The table.
    categories
        Those of the training table; a value that is none of them is missing.
    """

    def __init__(self, frame: Any, categories: Categories | None = None) -> None:
        self.n_rows, self.n_columns = frame.shape
        named = _columns_of(frame)
        self.feature_names = [name for name, _ in named]
        self.has_other_integer_labels = _has_other_integer_labels(frame.columns)
        kinds = [_kind_of(name, series) for name, series in named]
        category_columns = [j for j, kind in enumerate(kinds) if kind == CATEGORIES]
        wanted = None if categories is None else categories.by_column(category_columns)
        from_pandas = _pandas_categories(frame)
        ordered = {j for j in category_columns if _has_order(named[j][1])}
        lists: dict[int, Sequence[Any]] = {}
        if wanted is not None:
            lists = {j: values for j, values in wanted.items() if j < self.n_columns}
        else:
            for j in category_columns:
                name, series = named[j]
                declared = _declared(name, series, name in from_pandas)
                values = _distinct(series) if declared is None else declared
                if values or declared is not None:  # text without a single value could be anything
                    lists[j] = values
        self._columns = [_column(*named[j], kinds[j], lists.get(j)) for j in range(self.n_columns)]
        self.coded = sorted(lists)
        self.categorical = [j for j in self.coded if j not in ordered]
        self.never_numbers = [j for j in self.categorical if not _is_pandas_category(named[j][1])]
        # Plain LightGBM keeps a list for every DataFrame of pandas, even an empty one, and none for others.
        self.pandas_categorical = [list(lists[j]) for j in self.coded] if lists or hasattr(frame, "iloc") else None
        self.dtype = np.dtype(np.result_type(np.float32, *(column.dtype for column in self._columns)))

    def _encode(self, n_rows: int, pick: Callable[[nw.Series[Any]], nw.Series[Any]]) -> Array:
        out = np.empty((n_rows, self.n_columns), dtype=self.dtype, order="F")
        for j, column in enumerate(self._columns):
            out[:, j] = column.encode(pick(column.series))
        return out

    def window(self, lo: int, hi: int) -> Array:
        return self._encode(hi - lo, lambda series: series[lo:hi])

    def take(self, rows: Array) -> Array:
        return self._encode(len(rows), lambda series: series[rows])


class _Column:
    """A column without values."""

    dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(self, name: str, series: nw.Series[Any]) -> None:
        self.name, self.series = name, series

    def encode(self, part: nw.Series[Any]) -> Any:
        """Return some of its rows as numbers."""
        return np.nan


class _Numbers(_Column):
    """A column of numbers or booleans."""

    def __init__(self, name: str, series: nw.Series[Any]) -> None:
        super().__init__(name, series)
        # LightGBM's rule for DataFrames: the smallest float type that holds every column, at least float32.
        own = getattr(series.to_native(), "dtype", None)
        kind = getattr(own, "type", None)  # of pandas dtypes, numpy's
        if not (isinstance(kind, type) and issubclass(kind, np.generic)):
            kind = getattr(np, str(series.dtype).lower().replace("boolean", "bool_"), np.float64)
        self.dtype = np.dtype(np.float64 if kind is np.object_ else kind)

    def encode(self, part: nw.Series[Any]) -> Any:
        return _floats(part)


class _OtherThanInTraining(_Column):
    """A column that cannot be read; that it is in the wrong place, and has another name, may be said first."""

    def __init__(self, name: str, series: nw.Series[Any], error: str) -> None:
        super().__init__(name, series)
        self._error = error

    def encode(self, part: nw.Series[Any]) -> Any:
        raise ValueError(self._error)


class _Codes(_Column):
    """A column of text or categories, read as codes."""

    def __init__(self, name: str, series: nw.Series[Any], categories: Sequence[Any]) -> None:
        super().__init__(name, series)
        self._code = {value: code for code, value in enumerate(categories)}
        self._is_text = {isinstance(value, str) for value in categories}
        self._values: Any = None
        self._codes_of_values = np.empty(0)

    def encode(self, part: nw.Series[Any]) -> Any:
        indices, values = _as_dictionary(part)
        if self._values is None or not values.equals(self._values):
            listed = values.tolist()
            self._check(listed)
            self._values = values
            self._codes_of_values = np.array([*(self._code.get(value, np.nan) for value in listed), np.nan])
        return self._codes_of_values[indices]

    def _check(self, values: list[Any]) -> None:
        """Refuse what could only be missing: texts where all categories are numbers, and the reverse."""
        is_text = {isinstance(value, str) for value in values if value is not None}
        if len(is_text) == len(self._is_text) == 1 and is_text != self._is_text:
            here, there = ("text", "numbers") if is_text == {True} else ("numbers", "text")
            raise ValueError(
                f"The categories of column {self.name!r} are {here} ({_some(values)}), those of the training table are "
                f"{there} ({_some(list(self._code))}). Convert them."
            )


def _columns_of(frame: Any) -> list[tuple[str, nw.Series[Any]]]:
    """Return the columns of a table with their names; those of pandas that are Arrow's as such."""
    import narwhals as nw
    import narwhals.dependencies as nwd

    if not nwd.is_pandas_dataframe(frame):
        names = list(getattr(frame, "column_names", frame.columns))
        _check_unique(names)
        table = nw.from_native(frame, eager_only=True)
        return [(name, table.get_column(name)) for name in table.columns]
    import pandas as pd

    _check_unique(list(frame.columns))
    natives = [frame.iloc[:, j] for j in range(frame.shape[1])]
    natives = [s.array.__arrow_array__() if isinstance(s.dtype, pd.ArrowDtype) else s for s in natives]
    return [
        (str(label), nw.from_native(native, series_only=True))
        for label, native in zip(frame.columns, natives, strict=True)
    ]


def _check_unique(names: list[Any]) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"Column {twice!r} appears more than once in the table; rename one of them.")


def _has_other_integer_labels(labels: Any) -> bool:
    integers = [(j, x) for j, x in enumerate(labels) if isinstance(x, (int, np.integer)) and not isinstance(x, bool)]
    return any(label != position for position, label in integers)


def _is_readable(dtype: nw.dtypes.DType) -> bool:
    """Return whether columns of a type hold numbers, text or categories, or may do so."""
    import narwhals as nw

    return dtype.is_numeric() or dtype in (nw.Boolean, nw.String, nw.Categorical, nw.Enum, nw.Object, nw.Unknown)


def _kind_of(name: str, series: nw.Series[Any]) -> str:
    """Return what a column holds, or raise if it is neither numbers nor categories."""
    import narwhals as nw

    own = _native_dtype(series)
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


def _native_dtype(series: nw.Series[Any]) -> Any:
    native = series.to_native()
    return getattr(native, "dtype", getattr(native, "type", None))


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
    """Return what the Python objects of a pandas column are; all of them must be of one sort."""
    first: tuple[int, Any, str] | None = None
    for lo in range(0, len(column), BLOCK_ROWS):
        part = column.iloc[lo : lo + BLOCK_ROWS]
        given = np.flatnonzero(part.notna().to_numpy())
        kinds = {_kind_of_type(kind) for kind in set(map(type, part.array[given]))}
        if first is not None and kinds <= {first[2]}:
            continue
        for at in given.tolist():
            row, value = lo + at, part.iloc[at]
            kind = _kind_of_type(type(value))
            if kind == NOTHING:
                raise ValueError(
                    f"Column {name!r} holds a {type(value).__name__} in row {row} ({value!r}); columns must be "
                    "numbers, booleans, text or categories. Convert it, or leave it out."
                )
            first = first or (row, value, kind)
            if kind != first[2]:
                raise ValueError(
                    f"Column {name!r} mixes text and numbers: row {first[0]} holds {first[1]!r}, row {row} {value!r}. "
                    "Make it one or the other, for example with astype(str)."
                )
            if kinds == {kind}:
                break
    return NOTHING if first is None else first[2]


def _kind_of_type(kind: type) -> str:
    if issubclass(kind, str):
        return CATEGORIES
    # numpy takes time differences for integers.
    is_number = issubclass(kind, (Real, Decimal, np.bool_)) and not issubclass(kind, np.timedelta64)
    return NUMBERS if is_number else NOTHING


def _column(name: str, series: nw.Series[Any], kind: str, categories: Sequence[Any] | None) -> _Column:
    """Return a column that is to be read by its categories or, where these are None, as numbers.

    A column without a single value fits everywhere: nobody shares it.
    """
    if kind == CATEGORIES and categories is not None:
        return _Codes(name, series, categories)
    if kind == NUMBERS and categories is None:
        return _Numbers(name, series)
    if kind == NOTHING or _is_empty(series, kind):
        return _Column(name, series)
    dtype = _native_dtype(series)
    if categories is None:
        here, there = f"text or categories (dtype {dtype})", "numbers"
        advice = "Give every table the same column types."
    else:
        here, there = f"numbers (dtype {dtype})", f"categories ({_some(categories)})"
        advice = "Give the categories themselves, as text or in a column of a category type."
    return _OtherThanInTraining(
        name, series, f"Column {name!r} holds {here}, but {there} in the training table. {advice}"
    )


def _is_empty(series: nw.Series[Any], kind: str) -> bool:
    if kind == CATEGORIES:
        return int(series.null_count()) == len(series)
    blocks = (series[lo : lo + BLOCK_ROWS] for lo in range(0, len(series), BLOCK_ROWS))
    return all(bool(np.isnan(np.asarray(_floats(part), dtype=np.float64)).all()) for part in blocks)


def _some(values: Sequence[Any]) -> str:
    return ", ".join(repr(value) for value in values[:3]) + (", …" if len(values) > 3 else "")


def _is_pandas_category(series: nw.Series[Any]) -> bool:
    return hasattr(series.to_native(), "iloc") and hasattr(_native_dtype(series), "categories")


def _pandas_categories(frame: Any) -> set[str]:
    """Return which columns of an Arrow table were categories of a pandas table, as Arrow notes down itself."""
    known = getattr(getattr(frame, "schema", None), "pandas_metadata", None) or {"columns": []}
    return {column["field_name"] for column in known["columns"] if column["pandas_type"] == "categorical"}


def _has_order(series: nw.Series[Any]) -> bool:
    import narwhals as nw

    return isinstance(series.dtype, nw.Enum) or bool(getattr(_native_dtype(series), "ordered", False))


def _declared(name: str, series: nw.Series[Any], from_pandas: bool) -> list[Any] | None:
    """Return the declared categories of a column, None if there are none."""
    import narwhals as nw

    if _is_pandas_category(series):
        return list(_native_dtype(series).categories)
    if isinstance(series.dtype, nw.Enum):
        return list(series.dtype.categories)
    if not (from_pandas or _has_order(series)) or not hasattr(_native_dtype(series), "value_type"):
        return None
    first, *others = [chunk.dictionary for chunk in series.to_native().chunks]
    if all(other.equals(first) for other in others):
        return list(first.tolist())
    if not _has_order(series):
        return None
    raise ValueError(
        f"Column {name!r} is an ordered dictionary, but its chunks have different dictionaries, so the order is not "
        "known. Unify them, for example with pyarrow's Table.unify_dictionaries."
    )


def _distinct(series: nw.Series[Any]) -> list[Any]:
    """Return the distinct values of a column, sorted."""
    seen: set[Any] = set()
    for lo in range(0, len(series), BLOCK_ROWS):
        indices, values = _as_dictionary(series[lo : lo + BLOCK_ROWS])
        listed = values.tolist()
        seen.update(listed[i] for i in np.unique(indices).tolist() if i >= 0)
    return sorted(value for value in seen if value is not None and value == value)


def _as_dictionary(part: nw.Series[Any]) -> tuple[Array, Any]:
    """Return values of text or categories as places in a list, −1 where they are missing, and the list."""
    if _is_pandas_category(part):
        native = part.to_native()
        return native.cat.codes.to_numpy(), native.cat.categories
    import pyarrow as pa

    values = part.to_arrow()
    if not pa.types.is_dictionary(values.type):
        values = values.cast(pa.large_string()).dictionary_encode()
    return values.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), values.dictionary


def _floats(part: nw.Series[Any]) -> Array:
    """Return numbers or booleans as numpy has them, NaN where they are missing."""
    import narwhals as nw

    native = part.to_native()
    if hasattr(native, "iloc"):
        if isinstance(native.dtype, np.dtype) and native.dtype.kind != "O":
            return np.asarray(native.to_numpy())
        return np.asarray(native.to_numpy(dtype=np.float64, na_value=np.nan))
    import pyarrow as pa

    if part.dtype in (nw.Int128, nw.UInt128):  # which Arrow does not have
        part = part.cast(nw.Float64)
    values = part.to_arrow()
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())  # of decimals themselves Arrow makes floats that are off by a bit
    # Not safe: an integer above 2^53 is rounded, as everywhere.
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def one_block(frame: Any, categories: Categories | None) -> ArraySource | None:
    """Return a pandas table that is one block of floats in memory as that very block; None for any other table."""
    if not hasattr(frame, "iloc") or (categories is not None and categories.values):
        return None
    kinds = set(frame.dtypes)
    if len(kinds) != 1 or next(iter(kinds)) not in (np.dtype(np.float32), np.dtype(np.float64)):
        return None
    if not np.shares_memory(frame.iloc[:1].to_numpy(copy=False), frame.iloc[:1, 0].to_numpy(copy=False)):
        return None  # several blocks, which pandas would copy into one
    array = frame.to_numpy(copy=False)
    if not is_plain(array):
        return None
    _check_unique(list(frame.columns))
    source = ArraySource(array, [str(label) for label in frame.columns])
    source.pandas_categorical = []
    source.has_other_integer_labels = _has_other_integer_labels(frame.columns)
    return source
