"""Tables of any kind, read as blocks of numbers.

A :class:`RowSource` hands out numeric blocks of a table the way the engine would see it, without ever converting
the whole table: memory stays bounded by the block, whatever the container.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BLOCK_BYTES = 4 << 20
"""How much of a table is turned into numbers at a time."""


class RowSource(abc.ABC):
    """A table of ``n_rows`` × ``n_columns`` numbers.

    ``feature_names`` is None where the container has no names. ``coded`` lists the positions of columns that carry
    category codes and ``pandas_categorical`` their categories, as LightGBM keeps them in its models; ``categorical``
    are those of them that have no order.
    """

    n_rows: int
    n_columns: int
    dtype: np.dtype[Any]
    feature_names: list[str] | None = None
    categorical: Sequence[int] = ()
    coded: Sequence[int] = ()
    pandas_categorical: list[list[Any]] | None = None
    has_other_integer_labels: bool = False
    """A DataFrame has integer column labels that are not their positions: an integer could mean either."""

    @property
    def values_per_row(self) -> int:
        """How many values a row really holds; fewer than columns in a sparse table."""
        return self.n_columns

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of rows that cover the table, each of about :data:`BLOCK_BYTES` as numbers."""
        step = max(1, BLOCK_BYTES // (self.n_columns * self.dtype.itemsize))
        for lo in range(0, self.n_rows, step):
            yield lo, min(lo + step, self.n_rows)

    @abc.abstractmethod
    def window(self, lo: int, hi: int) -> Array:
        """Return rows lo … hi − 1 as a matrix; a view where that is possible, never to be written to."""

    @abc.abstractmethod
    def take(self, rows: Array) -> Array:
        """Return the given rows, in the given order."""

    def matrix_of(self, rows: Array) -> Any:
        """Return the given rows as a matrix of their own, sparse if the source is."""
        return self.take(rows)

    def present(self, rows: Array, columns: Array) -> Array:
        """Return which of ``columns`` hold a value of their own in the given rows."""
        return ~np.isnan(self.take(rows)[:, columns])


class ArraySource(RowSource):
    """A float32 or float64 matrix in row or column order, read in place; other numbers become float32."""

    def __init__(self, array: Array, feature_names: list[str] | None = None) -> None:
        if array.ndim != 2:
            raise ValueError(f"The feature table must have 2 dimensions, got an array of shape {array.shape}.")
        if not np.issubdtype(array.dtype, np.number) and array.dtype != np.bool_:
            raise ValueError(
                f"The feature table must be numeric, got an array of dtype {array.dtype}. Encode text columns as "
                "numbers, or pass a pandas DataFrame with category columns."
            )
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float32)
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            array = np.ascontiguousarray(array)
        self.array = array
        self.n_rows, self.n_columns = array.shape
        self.dtype = array.dtype
        self.feature_names = feature_names

    def window(self, lo: int, hi: int) -> Array:
        return self.array[lo:hi]

    def take(self, rows: Array) -> Array:
        return self.array[rows]


class SparseSource(RowSource):
    """A scipy CSR matrix. A value that is not stored is the number 0, as in LightGBM, and not a missing one."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix.tocsr()
        self.n_rows, self.n_columns = matrix.shape
        self.dtype = np.dtype(np.float32 if matrix.dtype == np.float32 else np.float64)

    def window(self, lo: int, hi: int) -> Array:
        return np.asarray(self.matrix[lo:hi].toarray(), dtype=self.dtype)

    def take(self, rows: Array) -> Array:
        return np.asarray(self.matrix[rows].toarray(), dtype=self.dtype)

    def matrix_of(self, rows: Array) -> Any:
        return self.matrix[rows]

    @property
    def values_per_row(self) -> int:
        return -(-int(self.matrix.nnz) // max(1, self.n_rows))

    def present(self, rows: Array, columns: Array) -> Array:
        # Only stored values contradict `available=False`: the rest may well stand for "withheld".
        block = self.matrix[rows]
        stored = type(self.matrix)((~np.isnan(block.data), block.indices, block.indptr), shape=block.shape)
        return np.asarray(stored[:, columns].toarray(), dtype=bool)


class PandasSource(RowSource):
    """A pandas DataFrame of numbers, booleans, nullable numbers and categories (which become their codes)."""

    def __init__(self, frame: Any, categories: list[list[Any]] | None = None) -> None:
        import pandas as pd

        if len(set(frame.columns)) != frame.shape[1]:
            twice = frame.columns[frame.columns.duplicated()][0]
            raise ValueError(f"Column {twice!r} appears more than once in the DataFrame; rename one of them.")
        self.n_rows, self.n_columns = frame.shape
        self.feature_names = [str(column) for column in frame.columns]
        self.has_other_integer_labels = _has_other_integer_labels(frame.columns)
        coded = [j for j, dtype in enumerate(frame.dtypes) if isinstance(dtype, pd.CategoricalDtype)]
        self.categorical = [j for j in coded if not frame.dtypes.iloc[j].ordered]
        own_categories = [list(frame.dtypes.iloc[j].categories) for j in coded]
        if categories is not None and len(categories) != len(coded):
            raise ValueError(
                f"The training table has {len(categories)} category columns, this one has {len(coded)}. "
                "Give every table the same column types."
            )
        self.pandas_categorical = own_categories if categories is None else categories
        self._frame = frame
        self.coded = self._coded = coded
        self._recoded = [
            wanted if wanted != own else None
            for wanted, own in zip(self.pandas_categorical, own_categories, strict=True)
        ]
        self.dtype = self._common_dtype(frame)

    def _common_dtype(self, frame: Any) -> np.dtype[Any]:
        """LightGBM's rule: the smallest float type that holds every column, at least float32."""
        kinds: list[Any] = [np.float32]
        for j, dtype in enumerate(frame.dtypes):
            if j in self._coded:
                # LightGBM replaces missing codes by NaN, so such a column is float64 and one without is int8 …
                has_missing = bool((frame.iloc[:, j].cat.codes < 0).any()) or self._recoded[self._coded.index(j)]
                kinds.append(np.float64 if has_missing else frame.iloc[:, j].cat.codes.dtype.type)
                continue
            kind = dtype.type if isinstance(dtype.type, type) else object
            if not issubclass(kind, (np.integer, np.floating, np.bool_)):
                raise ValueError(
                    f"Column {self.feature_names[j]!r} has dtype {dtype}; columns must be numbers, booleans or "  # type: ignore[index]
                    "categories. Convert it, for example with astype('category')."
                )
            kinds.append(kind)
        return np.dtype(np.result_type(*kinds))

    def _encode(self, part: Any) -> Array:
        if not self._coded:
            try:
                return np.asarray(part.to_numpy(dtype=self.dtype, copy=False))
            except ValueError:  # nullable columns with missing values
                return np.asarray(part.to_numpy(dtype=self.dtype, na_value=np.nan))
        out = np.empty(part.shape, dtype=self.dtype, order="F")
        for j in range(self.n_columns):
            column = part.iloc[:, j]
            if j in self._coded:
                wanted = self._recoded[self._coded.index(j)]
                codes = (column.cat.codes if wanted is None else column.cat.set_categories(wanted).cat.codes).to_numpy()
                out[:, j] = codes
                out[codes < 0, j] = np.nan
            else:
                out[:, j] = column.to_numpy(dtype=self.dtype, na_value=np.nan)
        return out

    def window(self, lo: int, hi: int) -> Array:
        return self._encode(self._frame.iloc[lo:hi])

    def take(self, rows: Array) -> Array:
        return self._encode(self._frame.iloc[rows])


class FrameSource(RowSource):
    """A polars or Arrow table of numbers and booleans, through narwhals; nulls are missing values."""

    dtype = np.dtype(np.float64)

    def __init__(self, frame: Any) -> None:
        import narwhals as nw

        self._frame = nw.from_native(frame, eager_only=True)
        self.n_rows, self.n_columns = self._frame.shape
        self.feature_names = list(self._frame.columns)
        for name, dtype in self._frame.schema.items():
            if not (dtype.is_numeric() or dtype == nw.Boolean):
                raise ValueError(
                    f"Column {name!r} has dtype {dtype}; columns of a polars or Arrow table must be numbers or "
                    "booleans. Convert it, or pass a pandas DataFrame with category columns."
                )

    def _encode(self, part: Any) -> Array:
        import narwhals as nw

        out = np.empty(part.shape, dtype=np.float64, order="F")
        for j, name in enumerate(self.feature_names or ()):
            out[:, j] = part.get_column(name).cast(nw.Float64).fill_null(float("nan")).to_numpy()
        return out

    def window(self, lo: int, hi: int) -> Array:
        return self._encode(self._frame[lo:hi])

    def take(self, rows: Array) -> Array:
        return self._encode(self._frame[rows.tolist()])


class SequenceSource(RowSource):
    """An ``lgb.Sequence``: rows by slice, single rows by index."""

    def __init__(self, sequence: Any) -> None:
        self._sequence = sequence
        first = np.asarray(sequence[0:1])
        self.n_rows, self.n_columns = len(sequence), first.shape[1]
        self.dtype = np.dtype(np.float32 if first.dtype == np.float32 else np.float64)

    def window(self, lo: int, hi: int) -> Array:
        return np.ascontiguousarray(self._sequence[lo:hi], dtype=self.dtype)

    def take(self, rows: Array) -> Array:
        return np.stack([np.asarray(self._sequence[int(i)], dtype=self.dtype) for i in rows])


class StackedSource(RowSource):
    """Several tables below one another, as LightGBM takes lists of matrices or Sequences."""

    def __init__(self, parts: Sequence[RowSource]) -> None:
        widths = {part.n_columns for part in parts}
        if len(widths) != 1:
            raise ValueError(f"All matrices of a list must have as many columns, got {sorted(widths)}.")
        self._parts = parts
        self._starts = np.cumsum([0, *(part.n_rows for part in parts)])
        self.n_rows, self.n_columns = int(self._starts[-1]), parts[0].n_columns
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def window(self, lo: int, hi: int) -> Array:
        blocks = [
            part.window(max(lo, start) - start, min(hi, start + part.n_rows) - start)
            for part, start in zip(self._parts, self._starts[:-1].tolist(), strict=True)
            if lo < start + part.n_rows and start < hi
        ]
        return np.concatenate(blocks).astype(self.dtype, copy=False)

    def take(self, rows: Array) -> Array:
        out = np.empty((len(rows), self.n_columns), dtype=self.dtype)
        owner = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(owner):
            mine = owner == number
            out[mine] = self._parts[number].take(rows[mine] - self._starts[number])
        return out


class SubsetSource(RowSource):
    """Some rows of another source."""

    def __init__(self, whole: RowSource, rows: Array) -> None:
        self._whole, self._rows = whole, np.asarray(rows, dtype=np.int64)
        self.n_rows, self.n_columns, self.dtype = len(self._rows), whole.n_columns, whole.dtype
        self.feature_names, self.categorical, self.coded = whole.feature_names, whole.categorical, whole.coded
        self.pandas_categorical = whole.pandas_categorical
        self.has_other_integer_labels = whole.has_other_integer_labels

    @property
    def values_per_row(self) -> int:
        return self._whole.values_per_row

    def matrix_of(self, rows: Array) -> Any:
        return self._whole.matrix_of(self._rows[rows])

    def present(self, rows: Array, columns: Array) -> Array:
        return self._whole.present(self._rows[rows], columns)

    def window(self, lo: int, hi: int) -> Array:
        return self._whole.take(self._rows[lo:hi])

    def take(self, rows: Array) -> Array:
        return self._whole.take(self._rows[rows])


def row_source(data: Any, pandas_categories: list[list[Any]] | None = None) -> RowSource:
    """Return the :class:`RowSource` of a table.

    Parameters
    ----------
    data
        numpy array, list of arrays, nested list, scipy sparse matrix, pandas, polars or Arrow table,
        ``lgb.Sequence`` or list of them.
    pandas_categories
        Categories of the training table, so that the same category gets the same code.
    """
    source = _dispatch(data, pandas_categories)
    if source.n_rows == 0:
        raise ValueError("The feature table has no rows.")
    return source


def _dispatch(data: Any, pandas_categories: list[list[Any]] | None) -> RowSource:
    if isinstance(data, RowSource):
        return data
    if isinstance(data, (str, Path)):
        raise ValueError(
            f"The dataset is a text or binary file ({str(data)!r}); optional features need the table itself. Read the "
            "file, for example with pandas.read_csv, and build the Dataset from the result."
        )
    if isinstance(data, np.ndarray):
        return ArraySource(data)
    if hasattr(data, "tocsr"):
        return SparseSource(data)
    if isinstance(data, list) and data and (isinstance(data[0], np.ndarray) or _is_sequence(data[0])):
        return StackedSource([_dispatch(part, None) for part in data])
    if _is_sequence(data):
        return SequenceSource(data)
    if isinstance(data, (list, tuple)):
        return ArraySource(np.asarray(data, dtype=np.float64))
    import narwhals.dependencies as nwd

    if nwd.is_pandas_dataframe(data):
        return _pandas_source(data, pandas_categories)
    if nwd.is_into_dataframe(data):
        return FrameSource(data)
    raise TypeError(
        f"Cannot read a feature table from {type(data).__name__}; pass a numpy array, a scipy CSR matrix, or a "
        "pandas, polars or Arrow table."
    )


def _is_sequence(data: Any) -> bool:
    import lightgbm as lgb

    return isinstance(data, lgb.Sequence)


def _pandas_source(frame: Any, categories: list[list[Any]] | None) -> RowSource:
    source = PandasSource(frame, categories)
    kinds = set(frame.dtypes)
    if len(kinds) == 1 and next(iter(kinds)) in (np.dtype(np.float32), np.dtype(np.float64)):
        # One float block: pandas hands out the memory itself, no encoding needed.
        plain = ArraySource(frame.to_numpy(copy=False), source.feature_names)
        plain.pandas_categorical = source.pandas_categorical
        plain.has_other_integer_labels = source.has_other_integer_labels
        return plain
    return source


def _has_other_integer_labels(labels: Any) -> bool:
    integers = [(j, x) for j, x in enumerate(labels) if isinstance(x, (int, np.integer)) and not isinstance(x, bool)]
    return any(label != position for position, label in integers)


def as_weight(values: Any, name: str, n_rows: int) -> Array:
    """Return weights as a vector of finite, non-negative float64, with errors that name ``name`` and the row."""
    vector = as_vector(values, name, n_rows, np.float64)
    bad = np.flatnonzero(~(np.isfinite(vector) & (vector >= 0)))
    if len(bad):
        raise ValueError(f"The {name} is {vector[bad[0]]} in row {bad[0]}; weights must be finite and not negative.")
    return vector


def as_vector(values: Any, name: str, n_rows: int, dtype: Any = np.float32) -> Array:
    """Return labels, weights or the like as a vector, checked for length, with errors that name ``name``."""
    import narwhals.dependencies as nwd

    if nwd.is_into_dataframe(values) or nwd.is_into_series(values):
        import narwhals as nw

        native = nw.from_native(values, eager_only=True, allow_series=True)
        if isinstance(native, nw.DataFrame):
            if native.shape[1] != 1:
                raise ValueError(f"{name} must be one column, got a table with {native.shape[1]} columns.")
            native = native.get_column(native.columns[0])
        values = native.to_numpy()
    try:
        vector = np.asarray(values, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numeric: {error}") from error
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1 or len(vector) != n_rows:
        raise ValueError(f"{name} must have one value for each of the {n_rows} rows, got shape {vector.shape}.")
    return vector
