"""DataFrames and Arrow tables as sources of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._common import Array
from .column_kinds import CATEGORIES, kind_of
from .frame_categories import declared, distinct, has_order, pandas_categories
from .frame_columns import column_reader
from .series import is_pandas_category
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
            lists = _own_categories({j: named[j] for j in coded}, pandas_categories(frame))
        else:
            lists = {j: values for j, values in categories.by_column(coded).items() if j < n_columns}
        self._readers = [column_reader(*named[j], kinds[j], lists.get(j)) for j in range(n_columns)]
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
        dtype = np.dtype(np.result_type(np.float32, *(reader.dtype for reader in self._readers)))
        super().__init__((n_rows, n_columns), dtype, columns)

    def _encode(self, n_rows: int, pick: Callable[[nw.Series[Any]], nw.Series[Any]]) -> Array:
        out = np.empty((n_rows, self.n_columns), dtype=self.dtype, order="F")
        for j, reader in enumerate(self._readers):
            out[:, j] = reader.encode(pick(reader.series))
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


def _own_categories(named: dict[int, tuple[str, nw.Series[Any]]], from_pandas: set[str]) -> dict[int, Sequence[Any]]:
    """Return the categories of each category column, declared or found in it."""
    lists: dict[int, Sequence[Any]] = {}
    for j, (name, series) in named.items():
        known = declared(name, series, name in from_pandas)
        values = distinct(series) if known is None else known
        if values or known is not None:  # text without a single value could be anything
            lists[j] = values
    return lists


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
