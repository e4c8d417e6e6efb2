"""DataFrames and Arrow tables as sources of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._common import Array
from .columns import (
    CATEGORIES,
    Learned,
    Numbers,
    blocks_of,
    has_order,
    is_pandas_category,
    kind_of,
    native_dtype,
    pandas_categories,
    reader_of,
    warn_of_unknown_values,
)
from .sources import ArraySource, Categories, ColumnTypes, RowSource, is_plain

if TYPE_CHECKING:
    import narwhals as nw


class FrameSource(RowSource):
    """A table of pandas, polars, Arrow or another library narwhals knows, with numbers, booleans, text and categories.

    Missing values (NaN, null or None) become NaN. Text and categories become codes: their positions among the
    categories of the training table or, if this is the training table, among its own. These are

    - the declared ones, in their order: those of pandas categories (also in an Arrow table made from a pandas one), of
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
        n_rows, n_columns = frame.shape
        named = _columns_of(frame)
        kinds = [kind_of(name, series) for name, series in named]
        coded = [j for j, kind in enumerate(kinds) if kind == CATEGORIES]
        ordered = {j for j in coded if has_order(named[j][1])}
        if categories is None:
            from_pandas = pandas_categories(getattr(frame, "schema", None))
            found = {j: _own_categories(*named[j], named[j][0] in from_pandas) for j in coded}
            # Text without a single value could be anything.
            lists = {j: values for j, values in found.items() if values is not None}
        else:
            lists = {j: list(values) for j, values in categories.by_column(coded).items() if j < n_columns}
        self._series = [series for _, series in named]
        self._readers = [reader_of(name, kinds[j], lists.get(j)) for j, (name, _) in enumerate(named)]
        categorical = [j for j in sorted(lists) if j not in ordered]
        columns = ColumnTypes(
            names=tuple(name for name, _ in named),
            coded=tuple(sorted(lists)),
            categorical=tuple(categorical),
            never_numbers=tuple(j for j in categorical if not is_pandas_category(named[j][1])),
            # Plain LightGBM keeps a list for every pandas DataFrame, even an empty one, and none for others.
            pandas_categorical=[list(lists[j]) for j in sorted(lists)] if lists or hasattr(frame, "iloc") else None,
            has_other_integer_labels=_has_other_integer_labels(frame.columns),
        )
        # LightGBM's rule for DataFrames: the smallest float type that holds every column, at least float32.
        numbers = [s for s, reader in zip(self._series, self._readers, strict=True) if isinstance(reader, Numbers)]
        dtype = np.dtype(np.result_type(np.float32, *map(_numpy_type, numbers)))
        super().__init__((n_rows, n_columns), dtype, columns)

    def _encode(self, n_rows: int, pick: Callable[[nw.Series[Any]], nw.Series[Any]]) -> Array:
        out = np.empty((n_rows, self.n_columns), dtype=self.dtype, order="F")
        for j, (series, reader) in enumerate(zip(self._series, self._readers, strict=True)):
            n_unknown = reader.n_unknown
            out[:, j] = reader.encode(pick(series))
            if reader.n_unknown and not n_unknown:
                warn_of_unknown_values(reader.name)
        return out

    def window(self, lo: int, hi: int) -> Array:
        return self._encode(hi - lo, lambda series: series[lo:hi])

    def take(self, rows: Array) -> Array:
        return self._encode(len(rows), lambda series: series[rows])


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
    columns = ColumnTypes(
        names=tuple(str(label) for label in frame.columns),
        pandas_categorical=[],
        has_other_integer_labels=_has_other_integer_labels(frame.columns),
    )
    return ArraySource(array, columns)


def _own_categories(name: str, series: nw.Series[Any], from_pandas: bool) -> list[Any] | None:
    """Return the categories of a category column, declared or found in it; None if there are none."""
    import narwhals as nw

    if is_pandas_category(series):
        return list(native_dtype(series).categories)
    if isinstance(series.dtype, nw.Enum):
        return list(series.dtype.categories)
    declares = (from_pandas or has_order(series)) and hasattr(native_dtype(series), "value_type")
    learned = Learned(name, declares=declares, ordered=has_order(series))
    for chunk in series.to_native().chunks if declares else ():
        learned.declare(chunk.dictionary.tolist())
    if learned.declared is not None:
        return learned.declared
    for lo, hi in blocks_of(len(series)):
        learned.encode(series[lo:hi])
    return learned.categories or None


def _numpy_type(series: nw.Series[Any]) -> Any:
    """Return the type of a column of numbers in numpy."""
    kind = getattr(getattr(series.to_native(), "dtype", None), "type", None)  # pandas dtypes name a type of numpy
    if not (isinstance(kind, type) and issubclass(kind, np.generic)):
        kind = getattr(np, str(series.dtype).lower().replace("boolean", "bool_"), np.float64)
    return np.float64 if kind is np.object_ else kind


def _columns_of(frame: Any) -> list[tuple[str, nw.Series[Any]]]:
    """Return the columns of a table with their names; Arrow columns inside a pandas table as Arrow."""
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
