"""Any table in memory as a source of rows: blocks of numbers, whatever holds them.

A :class:`RowSource` returns numeric blocks of a table as the engine would see it, without ever converting the whole
table: memory stays bounded by the block, whatever the container. :func:`row_source` returns the source of a table; that
of DataFrames with columns of several kinds is in ``columns``, and files are read by ``table_files``.
:class:`SourceTable` holds labels, weights, exposures and initial scores beside the rows. The last section makes
copies of a table in the container that it came in.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from .._common import Array, quoted, threads_for
from .._kernels.compiling import engine_threads
from .._persistence import pickled
from .files import PARQUET

if TYPE_CHECKING:
    import pandas as pd

BLOCK_BYTES = 4 << 20
"""How much of a table is turned into numbers at a time."""


NOT_APPLICABLE = -(2.0**100)
"""What number columns hold where they do not apply: the same in float32 and float64, below all that is measured."""

NOT_APPLICABLE_WORD = "not applicable"
"""What category columns hold where they do not apply."""


class DoesNotApply(NamedTuple):
    """Where an optional column does not apply."""

    column: int
    where: int | None
    """The base column that decides it where the cell is empty; None if the column itself has values for it."""
    values: tuple[Any, ...]
    """The values of that column which say so."""


@dataclass(frozen=True)
class Categories:
    """How a training table was read: the same category gets the same code in every other table."""

    values: Sequence[Sequence[Any]]
    """The categories of each category column, in the order of their codes."""
    columns: Sequence[int] | None = None
    """Positions of these columns. A plain LightGBM model does not keep them (None): then they are the category columns
    of the other table, in order."""
    not_applicable: tuple[DoesNotApply, ...] = ()
    """Where optional columns do not apply."""

    def __reduce__(self) -> Any:
        return pickled("Categories", vars(self))

    def by_column(self, category_columns: Sequence[int]) -> dict[int, Sequence[Any]]:
        """Return the categories by position, for a table whose own category columns are ``category_columns``."""
        columns = category_columns if self.columns is None else self.columns
        if len(columns) != len(self.values):
            raise ValueError(
                f"The training table has {len(self.values)} category columns, this one has {len(columns)}. "
                "Give every table the same column types."
            )
        return dict(zip(columns, self.values, strict=True))


@dataclass(frozen=True)
class ColumnTypes:
    """What a table declares about its columns, by position; by default nothing: numbers without names."""

    names: tuple[str, ...] | None = None
    """None if the container has no names."""
    coded: tuple[int, ...] = ()
    """Columns that hold category codes."""
    categorical: tuple[int, ...] = ()
    """Those of the coded columns whose categories have no order."""
    never_numbers: tuple[int, ...] = ()
    """Those of the categorical columns that LightGBM itself would refuse."""
    pandas_categorical: list[list[Any]] | None = None
    """The categories of each coded column, as LightGBM keeps them in its models."""
    not_applicable: tuple[DoesNotApply, ...] = ()
    """Where optional columns do not apply; cells for which that is known hold a value of their own."""
    has_other_integer_labels: bool = False
    """A DataFrame has integer column labels that are not their positions: an integer could mean either."""


NUMBERS_WITHOUT_NAMES = ColumnTypes()


class RowSource(abc.ABC):
    """A table of ``n_rows`` × ``n_columns`` numbers, float32 or float64. It never changes: attributes are read-only."""

    def __init__(
        self, shape: tuple[int, int], dtype: np.dtype[Any], columns: ColumnTypes = NUMBERS_WITHOUT_NAMES
    ) -> None:
        self._n_rows, self._n_columns = shape
        self._dtype, self._columns = dtype, columns

    @property
    def n_rows(self) -> int:
        return self._n_rows

    @property
    def n_columns(self) -> int:
        return self._n_columns

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @property
    def columns(self) -> ColumnTypes:
        return self._columns

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the columns, None if the container has none."""
        return None if self._columns.names is None else list(self._columns.names)

    @property
    def names(self) -> list[str]:
        """The names of the columns, or LightGBM's default ones if the container has none."""
        return self.feature_names or default_names(self.n_columns)

    @property
    def coded(self) -> tuple[int, ...]:
        return self._columns.coded

    @property
    def categorical(self) -> tuple[int, ...]:
        return self._columns.categorical

    @property
    def never_numbers(self) -> tuple[int, ...]:
        return self._columns.never_numbers

    @property
    def pandas_categorical(self) -> list[list[Any]] | None:
        return self._columns.pandas_categorical

    @property
    def categories(self) -> Categories:
        return Categories(self.pandas_categorical or [], self.coded, self._columns.not_applicable)

    @property
    def values_per_row(self) -> int:
        """How many values a row holds on average; fewer than columns in a sparse table."""
        return self.n_columns

    @property
    def n_values(self) -> int:
        return int(self.n_rows * self.values_per_row)

    @property
    def is_sparse(self) -> bool:
        """Whether there are zeros that are not stored (see :meth:`present`)."""
        return False

    def with_columns(self, columns: ColumnTypes) -> Self:
        """Return the same rows with other column types."""
        source = copy.copy(self)
        source._columns = columns
        return source

    @property
    def rows_per_block(self) -> int:
        """How many rows are about :data:`BLOCK_BYTES` as numbers."""
        return max(1, BLOCK_BYTES // (self.n_columns * self.dtype.itemsize))

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of rows that cover the table, each of about :data:`BLOCK_BYTES` as numbers."""
        step = self.rows_per_block
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
        """Return which of ``columns`` hold a value in the given rows."""
        return ~np.isnan(self.take(rows)[:, columns])


class ArraySource(RowSource):
    """A float32 or float64 matrix in row or column order, read in place."""

    def __init__(self, array: Array, columns: ColumnTypes = NUMBERS_WITHOUT_NAMES) -> None:
        super().__init__(array.shape, array.dtype, columns)
        self._array = array

    @property
    def array(self) -> Array:
        return self._array

    def window(self, lo: int, hi: int) -> Array:
        return self._array[lo:hi]

    def take(self, rows: Array) -> Array:
        return self._array[rows]


class DerivedSource(RowSource):
    """Rows made of those of another source, with the same columns."""

    def __init__(self, whole: RowSource, n_rows: int) -> None:
        self._whole = whole
        super().__init__((n_rows, whole.n_columns), whole.dtype, whole.columns)

    @property
    def values_per_row(self) -> int:
        return self._whole.values_per_row

    @property
    def is_sparse(self) -> bool:
        return self._whole.is_sparse


class SubsetSource(DerivedSource):
    """Some rows of another source."""

    def __init__(self, whole: RowSource, rows: Array) -> None:
        self._rows = np.asarray(rows, dtype=np.int64)
        super().__init__(whole, len(self._rows))

    def matrix_of(self, rows: Array) -> Any:
        return self._whole.matrix_of(self._rows[rows])

    def present(self, rows: Array, columns: Array) -> Array:
        return self._whole.present(self._rows[rows], columns)

    def window(self, lo: int, hi: int) -> Array:
        return self._whole.take(self._rows[lo:hi])

    def take(self, rows: Array) -> Array:
        return self._whole.take(self._rows[rows])


class FilledSource(DerivedSource):
    """Another source with a value of its own in empty cells of optional columns that do not apply.

    What follows (consent, plan, engines, quotes, audits) sees a value that is shared like any other.
    """

    def __init__(
        self,
        whole: RowSource,
        declared: tuple[DoesNotApply, ...],
        categories: Categories,
        masks: Mapping[int, Array] | None = None,
    ) -> None:
        super().__init__(whole, whole.n_rows)
        self._masks = dict(masks or {})
        columns = [*(one.column for one in declared if one.where is not None), *self._masks]
        lists = {j: list(values) for j, values in categories.by_column(whole.coded).items()}
        for j in columns:
            if j in lists and NOT_APPLICABLE_WORD not in lists[j]:
                lists[j].append(NOT_APPLICABLE_WORD)
        self._value = {j: lists[j].index(NOT_APPLICABLE_WORD) if j in lists else NOT_APPLICABLE for j in columns}
        self._rules = [
            (one.column, one.where, codes_of(one.values, lists.get(one.where)).astype(whole.dtype))
            for one in declared
            if one.where is not None
        ]
        own = None if whole.pandas_categorical is None else [lists[j] for j in whole.coded]
        self._columns = replace(whole.columns, not_applicable=declared, pandas_categorical=own)

    def window(self, lo: int, hi: int) -> Array:
        return self._filled(self._whole.window(lo, hi), slice(lo, hi))

    def take(self, rows: Array) -> Array:
        return self._filled(self._whole.take(rows), rows)

    def _filled(self, block: Array, rows: Array | slice) -> Array:
        out = block
        cells = [(j, np.isin(block[:, where], codes)) for j, where, codes in self._rules]
        for j, does_not_apply in [*cells, *((j, mask[rows]) for j, mask in self._masks.items())]:
            empty = does_not_apply & np.isnan(block[:, j])
            if empty.any():
                out = block.copy(order="K") if out is block else out
                out[empty, j] = self._value[j]
        return out


def filled(
    source: RowSource,
    declared: tuple[DoesNotApply, ...],
    categories: Categories,
    masks: Mapping[int, Array] | None = None,
) -> RowSource:
    """Return a source with values where columns do not apply: by rules, or by ``masks``, column → one flag per row.

    ``categories`` tell which codes the values of a rule have; a source that was filled before is returned as it is.
    """
    if not masks and declared in ((), source.columns.not_applicable):
        return source
    if any(one.where is not None for one in declared) or masks:
        if source.is_sparse:
            raise ValueError(
                "not_applicable with a sparse matrix: name a value that stands for it, or pass a dense table."
            )
        return FilledSource(source, declared, categories, masks)
    return source.with_columns(replace(source.columns, not_applicable=declared))


def codes_of(values: Sequence[Any], categories: Sequence[Any] | None) -> Array:
    """Return the numbers that stand for values in a column, NaN for those it cannot hold."""
    if categories is None:
        return np.array([np.nan if isinstance(value, str) else float(value) for value in values])
    return np.array([categories.index(value) if value in categories else np.nan for value in values], dtype=float)


def is_plain(array: Array) -> bool:
    """Return whether an array can be read in place."""
    return array.dtype in (np.float32, np.float64) and (array.flags.c_contiguous or array.flags.f_contiguous)


def default_names(n_columns: int) -> list[str]:
    """Return the names LightGBM gives to the columns of a table without names.

    Examples
    --------
    >>> default_names(2)
    ['Column_0', 'Column_1']
    """
    return [f"Column_{j}" for j in range(n_columns)]


def are_default_names(names: Sequence[str | None]) -> bool:
    """Return whether these are the names of a table without names; None stands for a name that is not known.

    Examples
    --------
    >>> are_default_names(["Column_0", "Column_1"]), are_default_names(["Column_1", "age"])
    (True, False)
    """
    return all(name in (None, default) for name, default in zip(names, default_names(len(names)), strict=True))


# The source of any table ----------------------------------------------------------------------------------------------


def row_source(data: Any, categories: Categories | Sequence[Sequence[Any]] | None = None) -> RowSource:
    """Return the :class:`RowSource` of a table; with the ``categories`` of training, the same ones get the same codes.

    Tables that are not in memory are read whole. Arrays hold categories as codes; what a masked array masks is missing.
    """
    if categories is not None and not isinstance(categories, Categories):
        categories = Categories(categories)
    source = _dispatch(data, categories)
    if source.n_rows == 0:
        raise ValueError("The feature table has no rows.")
    if source.n_columns == 0:
        raise ValueError("The feature table has no columns.")
    return source if categories is None else filled(source, categories.not_applicable, categories)


def _dispatch(data: Any, categories: Categories | None) -> RowSource:
    if isinstance(data, RowSource):
        return data
    if is_matrix(data):
        return _dispatch(rows_of_matrix(data), categories)
    if isinstance(data, (str, Path)) and not is_stored(data):
        raise ValueError(
            f"The dataset is a text or binary file ({str(data)!r}); optional features need the table itself. Give a "
            "Parquet file or a folder of them, or read the file, for example with polars.scan_csv or pandas.read_csv."
        )
    data = from_records(without_mask(data))
    if isinstance(data, np.ndarray):
        return _array_source(data)
    if hasattr(data, "tocsr"):
        return SparseSource(data)
    if isinstance(data, list) and data and (isinstance(data[0], np.ndarray) or _is_sequence(data[0])):
        return StackedSource([_dispatch(part, None) for part in data])
    if _is_sequence(data):
        return SequenceSource(data)
    if isinstance(data, (list, tuple)):
        return _array_source(np.asarray(data, dtype=np.float64))
    data = eager(data)
    if is_frame(data):
        if 0 in data.shape:
            raise ValueError(f"The feature table has no {'rows' if data.shape[0] == 0 else 'columns'}.")
        source = numeric_frame(data, categories)
        if source is None:
            from .columns import FrameSource

            source = FrameSource(data, categories)
        return source
    raise TypeError(
        f"Cannot read a feature table from {type(data).__name__}; pass a numpy array, a scipy CSR matrix, a pandas, "
        "polars or Arrow table, an xgb.DMatrix, or a list of dicts, one for each person."
    )


def _array_source(array: Array) -> RowSource:
    if array.ndim != 2:
        raise ValueError(f"The feature table must have 2 dimensions, got an array of shape {array.shape}.")
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"The feature table must be numeric, got an array of dtype {array.dtype}. Encode text columns as "
            "numbers, or pass a pandas, polars or Arrow table with text or category columns."
        )
    return ArraySource(array) if is_plain(array) else OtherArraySource(array)


def is_frame(data: Any) -> bool:
    """Return whether a table has names and types: a DataFrame of any library, or an Arrow table."""
    import narwhals.dependencies as nwd

    return bool(nwd.is_into_dataframe(data))


def eager(data: Any) -> Any:
    """Return a table in memory as it is, but RecordBatches and dicts as tables and NaN for masks; read any other."""
    import narwhals as nw

    if is_matrix(data):
        return rows_of_matrix(data)
    data = nw.to_native(from_records(without_mask(data)), pass_through=True)
    if is_frame(data):
        return data
    if is_stored(data):
        from .table_files import read_whole

        return read_whole(data)
    if hasattr(data, "__arrow_c_array__") and hasattr(data, "schema"):
        import pyarrow as pa

        return pa.table(data)
    return data


def engine_threads_for(requested: int | None, table: Any) -> AbstractContextManager[None]:
    """Let engines take as many threads as work on this table is worth, unless a number is requested."""
    return engine_threads(threads_for(requested, values_in(table)))


def values_in(table: Any) -> float:
    """Return how many values (rows × columns) a table has, before it is read; infinitely many where that is not known.

    Examples
    --------
    >>> values_in(np.zeros((3, 4))), values_in([{"age": 40, "bmi": 22}]), values_in("people/")
    (12, 2, inf)
    """
    shape = getattr(table, "shape", None)
    if isinstance(table, RowSource):
        return table.n_values
    if is_matrix(table):
        return int(table.num_row() * table.num_col())
    if isinstance(shape, tuple) and len(shape) == 2 and all(isinstance(n, (int, np.integer)) for n in shape):
        return int(shape[0] * shape[1])
    if isinstance(table, (list, tuple)) and table and hasattr(table[0], "__len__") and not isinstance(table[0], str):
        return len(table) * len(table[0])
    return np.inf


def is_matrix(data: Any) -> bool:
    """Return whether these are XGBoost's own data, without loading it."""
    return any((kind.__module__, kind.__name__) == ("xgboost.core", "DMatrix") for kind in type(data).__mro__)


def rows_of_matrix(matrix: Any) -> Any:
    """Return the rows of an ``xgb.DMatrix``: an array, or a DataFrame if its columns have names.

    What it does not store is missing, and a zero that it stores is the number 0, as when XGBoost trains on it.
    """
    kind = type(matrix).__name__
    if any(base.__name__ == "QuantileDMatrix" for base in type(matrix).__mro__):
        raise TypeError(
            f"An xgboost {kind} holds bins, and no longer the raw rows that must be masked. Pass an xgb.DMatrix, or "
            "the table itself in a puc.Dataset or a pair (X, y): it is binned in the same way."
        )
    try:
        stored = matrix.get_data()
    except ValueError as error:  # XGBoost's own is one
        raise TypeError(
            f"The rows of this xgboost {kind} cannot be read back, so they cannot be masked: it keeps them in pages, "
            "or on a disk. Pass the table itself in a puc.Dataset, or the name of a Parquet file; external_memory in "
            "params names a folder for what XGBoost keeps of them."
        ) from error
    rows = np.full(stored.shape, np.nan, dtype=np.float32)
    block = max(1, BLOCK_BYTES // (4 * max(1, stored.shape[1])))
    for lo in range(0, len(rows), block):
        part = stored[lo : lo + block]
        rows[lo + np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)), part.indices] = part.data
    if matrix.feature_names is None:
        return rows
    import pandas as pd

    frame = pd.DataFrame(rows, columns=matrix.feature_names, copy=False)
    for name, values in matrix.get_categories(export_to_arrow=True).to_arrow():
        if values is not None:
            codes = frame[name].fillna(-1).astype(np.int64)
            frame[name] = pd.Categorical.from_codes(codes, values.to_pylist())
    return frame


def from_records(data: Any) -> Any:
    """Return people given as a list of dicts as a DataFrame, in which what a dict lacks is missing; all else as it is.

    Examples
    --------
    >>> from_records([{"age": 40, "region": "north"}, {"age": 50}])["region"].notna().tolist()
    [True, False]
    """
    if not (isinstance(data, (list, tuple)) and data and isinstance(data[0], Mapping)):
        return data
    import pandas as pd

    other = next((row for row, person in enumerate(data) if not isinstance(person, Mapping)), None)
    if other is not None:
        raise TypeError(f"Row 0 of the table is a dict, but row {other} is of type {type(data[other]).__name__}.")
    return pd.DataFrame([dict(person) for person in data])


def _is_sequence(data: Any) -> bool:
    import lightgbm as lgb

    return isinstance(data, lgb.Sequence)


def is_stored(data: Any) -> bool:
    """Return whether a table is not in memory.

    That holds for names of Parquet files and folders, objects of ``pyarrow.dataset`` and lazy frames of polars. Nothing
    is opened. Other names are left to LightGBM, which reads text files by rules of its own.
    """
    import narwhals as nw
    import narwhals.dependencies as nwd

    if isinstance(data, (str, Path)):
        path = Path(data)
        return path.name.lower().endswith(PARQUET) or path.is_dir()
    if hasattr(data, "read_whole") or type(data).__module__.startswith("pyarrow._dataset"):
        return True
    return bool(nwd.is_polars_lazyframe(nw.to_native(data, pass_through=True)))


def numeric_frame(frame: Any, categories: Categories | None) -> RowSource | None:
    """Return the source of a pandas table in which every column has a numeric type of numpy; None for any other table.

    Such a table is read as a block: column by column, as :class:`pucboost._tables.columns.FrameSource` reads, a single
    person would take a millisecond more.
    """
    import narwhals.dependencies as nwd

    if not nwd.is_pandas_dataframe(frame) or (categories is not None and categories.values):
        return None
    kinds = set(frame.dtypes)
    if not all(isinstance(kind, np.dtype) and kind.kind in "fiub" and kind.itemsize <= 8 for kind in kinds):
        return None
    check_unique(list(frame.columns))
    columns = ColumnTypes(
        names=tuple(str(label) for label in frame.columns),
        pandas_categorical=[],
        has_other_integer_labels=has_other_integer_labels(frame.columns),
    )
    dtype = np.result_type(np.float32, *kinds)  # LightGBM's rule for DataFrames
    if frame.size * dtype.itemsize > BLOCK_BYTES and (kinds != {dtype} or not _is_one_block(frame)):
        return NumericFrameSource(frame, dtype, columns)
    array = frame.to_numpy(dtype)
    return ArraySource(array if is_plain(array) else np.ascontiguousarray(array), columns)


def _is_one_block(frame: Any) -> bool:
    """Return whether pandas can return a table of one type without a copy: it may hold several blocks."""
    one_row = frame.iloc[:1]
    in_place = np.shares_memory(one_row.to_numpy(copy=False), one_row.iloc[:, 0].to_numpy(copy=False))
    return in_place and is_plain(frame.to_numpy(copy=False))


class NumericFrameSource(RowSource):
    """A large pandas table of numbers of several types, or in several blocks."""

    def __init__(self, frame: Any, dtype: np.dtype[Any], columns: ColumnTypes) -> None:
        super().__init__(frame.shape, dtype, columns)
        self._frame = frame

    def window(self, lo: int, hi: int) -> Array:
        return np.asfortranarray(self._frame.iloc[lo:hi].to_numpy(self.dtype))

    def take(self, rows: Array) -> Array:
        return np.asfortranarray(self._frame.iloc[rows].to_numpy(self.dtype))


def check_unique(names: list[Any]) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"Column {twice!r} appears more than once in the table; rename one of them.")


def has_other_integer_labels(labels: Any) -> bool:
    integers = [(j, x) for j, x in enumerate(labels) if isinstance(x, (int, np.integer)) and not isinstance(x, bool)]
    return any(label != position for position, label in integers)


# The containers LightGBM takes besides plain matrices and DataFrames --------------------------------------------------


class OtherArraySource(RowSource):
    """A matrix of other numbers, or one in neither row nor column order, converted block by block."""

    def __init__(self, array: Array) -> None:
        # LightGBM's rule.
        dtype = array.dtype if array.dtype in (np.float32, np.float64) else np.dtype(np.float32)
        super().__init__(array.shape, dtype)
        self._array = array

    def window(self, lo: int, hi: int) -> Array:
        return np.ascontiguousarray(self._array[lo:hi], dtype=self.dtype)

    def take(self, rows: Array) -> Array:
        return np.ascontiguousarray(self._array[rows], dtype=self.dtype)


class SparseSource(RowSource):
    """A scipy CSR matrix. A value that is not stored is the number 0, as in LightGBM, and not a missing one.

    It is read in dense blocks, which is slow for tens of thousands of columns. Where unstored values stand for withheld
    data, ``available`` must be given.
    """

    def __init__(self, matrix: Any) -> None:
        super().__init__(matrix.shape, np.dtype(np.float32 if matrix.dtype == np.float32 else np.float64))
        self._matrix = matrix.tocsr()

    @property
    def matrix(self) -> Any:
        return self._matrix

    def window(self, lo: int, hi: int) -> Array:
        return np.asarray(self._matrix[lo:hi].toarray(), dtype=self.dtype)

    def take(self, rows: Array) -> Array:
        return np.asarray(self._matrix[rows].toarray(), dtype=self.dtype)

    def matrix_of(self, rows: Array) -> Any:
        return self._matrix[rows]

    @property
    def is_sparse(self) -> bool:
        return True

    @property
    def values_per_row(self) -> int:
        return -(-int(self._matrix.nnz) // max(1, self.n_rows))

    def present(self, rows: Array, columns: Array) -> Array:
        # Only stored values contradict `available=False`: the rest may well stand for "withheld".
        block = self._matrix[rows]
        stored = type(self._matrix)((~np.isnan(block.data), block.indices, block.indptr), shape=block.shape)
        return np.asarray(stored[:, columns].toarray(), dtype=bool)


class SequenceSource(RowSource):
    """An ``lgb.Sequence``: rows by slice, single rows by index."""

    def __init__(self, sequence: Any) -> None:
        first = np.asarray(without_mask(sequence[0:1]))
        dtype = np.dtype(np.float32 if first.dtype == np.float32 else np.float64)
        super().__init__((len(sequence), first.shape[1]), dtype)
        self._sequence = sequence

    def window(self, lo: int, hi: int) -> Array:
        return self._expected(np.ascontiguousarray(without_mask(self._sequence[lo:hi]), dtype=self.dtype), hi - lo)

    def take(self, rows: Array) -> Array:
        return self._expected(np.stack([self._row(int(i)) for i in rows]), len(rows))

    def _row(self, i: int) -> Array:
        return np.asarray(without_mask(self._sequence[i]), dtype=self.dtype)

    def _expected(self, block: Array, n_rows: int) -> Array:
        """Check the shape of what the user's code has returned: kernels do not check it again."""
        if block.shape != (n_rows, self.n_columns):
            raise ValueError(
                f"The Sequence returned an array of shape {block.shape} where {n_rows} rows and {self.n_columns} "
                "columns were asked for."
            )
        return block


class StackedSource(RowSource):
    """Several tables below one another, as LightGBM takes lists of matrices or Sequences."""

    def __init__(self, parts: Sequence[RowSource]) -> None:
        widths = {part.n_columns for part in parts}
        if len(widths) != 1:
            raise ValueError(f"All matrices of a list must have the same number of columns, got {sorted(widths)}.")
        starts = np.cumsum([0, *(part.n_rows for part in parts)])
        super().__init__((int(starts[-1]), parts[0].n_columns), np.result_type(*(part.dtype for part in parts)))
        self._parts, self._starts = parts, starts

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


# Masked arrays: np.asarray would return the very values that are masked ----------------------------------------------


def without_mask(table: Any) -> Any:
    """Return a table of features with NaN where a masked array, or one in a list, is masked; all else as it is.

    Examples
    --------
    >>> without_mask(np.ma.masked_greater(np.array([[1, 9]]), 5)).tolist()
    [[1.0, nan]]
    """
    if isinstance(table, list) and any(isinstance(part, np.ma.MaskedArray) for part in table):
        return [without_mask(part) for part in table]
    if not isinstance(table, np.ma.MaskedArray):
        return table
    if not np.ma.getmaskarray(table).any():
        return table.data
    # Whole numbers have no NaN.
    numbers: Any = table.astype(np.float64) if table.dtype.kind in "iub" else table
    return numbers.filled(np.nan)


def check_no_mask(values: Any, name: str) -> None:
    """Raise if labels, weights or the like are a masked array with masked rows; the error mentions ``name``."""
    if not isinstance(values, np.ma.MaskedArray):
        return
    masked = np.ma.getmaskarray(values)
    rows = np.flatnonzero(masked.reshape(len(masked), -1).any(axis=1)) if masked.ndim else np.flatnonzero(masked)
    if len(rows):
        raise ValueError(
            f"{name} is masked in row {rows[0]} ({len(rows)} such rows), so it is not known there. Leave them out."
        )


# What belongs to each row ---------------------------------------------------------------------------------------------


LARGEST = float(np.finfo(np.float32).max)
"""The engines keep labels and weights in single precision."""


def as_weight(values: Any, name: str, n_rows: int) -> Array:
    """Return weights as a vector of finite, non-negative float64; errors name the row."""
    vector = as_vector(values, name, n_rows, np.float64)
    bad = np.flatnonzero(~((vector >= 0) & (vector <= LARGEST)))
    if len(bad):
        raise ValueError(
            f"The {name} is {vector[bad[0]]} in row {bad[0]}; weights must be finite and not negative, and at most "
            f"{LARGEST:.2g}."
        )
    return vector


def as_exposure(values: Any, name: str, n_rows: int) -> Array:
    """Return exposures as a vector of finite, positive float64; errors name the row."""
    vector = as_vector(values, name, n_rows, np.float64)
    rule = "exposures must be finite and above 0. Leave out rows without exposure."
    return _valid(vector, np.isfinite(vector) & (vector > 0), name, rule)


def _valid(vector: Array, is_valid: Array, name: str, rule: str) -> Array:
    bad = np.flatnonzero(~is_valid)
    if len(bad):
        raise ValueError(f"The {name} is {vector[bad[0]]} in row {bad[0]} ({len(bad)} such rows); {rule}")
    return vector


def as_vector(values: Any, name: str, n_rows: int, dtype: Any = np.float32) -> Array:
    """Return labels, weights or the like as a vector of the right length; errors mention ``name``."""
    import narwhals.dependencies as nwd

    check_no_mask(values, name)
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


def class_numbers(values: Any, name: str, n_rows: int, classes: Sequence[Any]) -> Array:
    """Return for each row the number of its class."""
    check_no_mask(values, name)
    given = np.ravel(np.asarray(values))
    if len(given) != n_rows:
        raise ValueError(f"{name} must have one class for each of the {n_rows} rows, got {len(given)}.")
    number = np.full(n_rows, -1)
    for place, label in enumerate(classes):
        number[given == label] = place
    strange = np.flatnonzero(number < 0)
    if len(strange):
        raise ValueError(
            f"{name} is {quoted(given.tolist()[strange[0]])} in row {strange[0]}, which is none of the classes of the "
            f"model: {np.asarray(classes).tolist()}."
        )
    return number


@dataclass(frozen=True)
class SourceTable:
    """People before anything is augmented: one entry per person, everything checked."""

    source: RowSource
    label: Array
    weight: Array | None = None
    exposure: Array | None = None
    """What the labels add up over; None without exposure, and once the labels are rates."""
    init_score: Array | None = None
    """One value per row, or per row and class: as a matrix, or flat, class after class, as LightGBM has it."""
    group: Any = None
    feature_name: Any = "auto"
    categorical_feature: Any = "auto"
    pandas_categorical: list[list[Any]] | None = None
    params: dict[str, Any] = field(default_factory=dict)
    """Parameters that were given with the table."""
    optional: Any = None
    not_applicable: Any = None
    available: Array | None = None
    data: Any = None
    """The user's own container, if a model can predict from it or it can be read whole."""

    @classmethod
    def of(
        cls,
        source: RowSource,
        label: Any,
        weight: Any = None,
        *,
        name: str,
        exposure: Any = None,
        feature_name: Any = "auto",
        categorical_feature: Any = "auto",
        data: Any = None,
        **more: Any,
    ) -> SourceTable:
        """Return the table of a source with its labels, weights and exposures, checked; errors call it ``name``.

        ``feature_name`` and ``categorical_feature`` are as in ``lgb.Dataset``, ``data`` is the user's container.
        """
        names = _names_of(source, feature_name, name)
        return cls(
            source,
            read_label(label, name, source.n_rows, total=exposure is not None),
            read_weight(weight, name, source.n_rows),
            read_exposure(exposure, name, source.n_rows),
            feature_name=names,
            categorical_feature=_categorical_columns(source, categorical_feature, names),
            pandas_categorical=source.pandas_categorical,
            data=data if hasattr(data, "shape") or is_stored(data) else None,
            **more,
        )

    def container(self) -> Any:
        """Return the table for another model: the user's own container, or the numbers in it."""
        if self.data is None:
            return self.source.matrix_of(np.arange(self.source.n_rows))
        if not is_stored(self.data):
            return self.data
        import narwhals as nw

        from .table_files import read_whole

        return nw.from_native(read_whole(self.data), eager_only=True).select(self.names).to_native()

    @property
    def names(self) -> list[str]:
        """Column names; LightGBM's own where the table has none."""
        if isinstance(self.feature_name, list):
            return [str(name) for name in self.feature_name]
        return default_names(self.source.n_columns)

    def with_source(self, source: RowSource) -> SourceTable:
        """Return the same people, read otherwise."""
        if source is self.source:
            return self
        return replace(self, source=source, pandas_categorical=source.pandas_categorical)

    def subset(self, rows: Array) -> SourceTable:
        scores = self.init_score
        if scores is not None:
            scores = scores[rows] if scores.ndim == 2 else scores.reshape(-1, self.source.n_rows)[:, rows].ravel()
        return replace(
            self,
            source=SubsetSource(self.source, rows),
            label=self.label[rows],
            weight=None if self.weight is None else self.weight[rows],
            exposure=None if self.exposure is None else self.exposure[rows],
            init_score=scores,
            group=None,
            available=None if self.available is None else np.asarray(self.available)[rows],
            not_applicable=_of_rows(self.not_applicable, rows),
            data=None,
        )


def _of_rows(not_applicable: Any, rows: Array) -> Any:
    """Return a declaration with the flags of some rows, where it has flags."""
    if not isinstance(not_applicable, Mapping):
        return not_applicable
    whole = {key: flags_of(given) for key, given in not_applicable.items()}
    return {**not_applicable, **{key: flags[rows] for key, flags in whole.items() if flags is not None}}


def flags_of(given: Any) -> Array | None:
    """Return a vector of True and False as an array, None for anything else."""
    if isinstance(given, (str, Mapping)) or not hasattr(given, "__len__"):
        return None
    flags = np.asarray(given.to_numpy() if hasattr(given, "to_numpy") else given)
    return flags if flags.ndim == 1 and flags.dtype == np.bool_ and len(flags) else None


def _names_of(source: RowSource, given: Any, name: str) -> Any:
    """Return the column names: those given, else the table's own, else ``"auto"``."""
    if given == "auto" or given is None:
        return given if source.feature_names is None else source.feature_names
    if isinstance(given, (list, tuple)):
        given = list(given)
        if len(given) != source.n_columns:
            raise ValueError(f"{name} has {source.n_columns} columns, but feature_name lists {len(given)} names.")
    return given


def _categorical_columns(source: RowSource, given: Any, names: Any) -> Any:
    """Return the category columns: those given and those that cannot be numbers, else those the table declares."""
    if given == "auto" or given is None:
        return list(source.categorical) if source.pandas_categorical is not None else "auto"
    if isinstance(given, (list, tuple)):
        known = {names.index(c) if isinstance(names, list) and c in names else c for c in given}
        return [*given, *(j for j in source.never_numbers if j not in known)]
    return given


def read_label(label: Any, name: str, n: int, *, total: bool = False) -> Array:
    """Return labels as a vector of finite numbers, or raise; totals are float64, since they are yet to be divided."""
    if label is None:
        raise ValueError(f"{name} has no label.")
    vector = as_vector(label, f"label of {name}", n, np.float64 if total else np.float32)
    return _valid(vector, np.isfinite(vector), f"label of {name}", "labels must be finite. Drop or fill these rows.")


def read_weight(weight: Any, name: str, n: int) -> Array | None:
    """Return weights as a vector, None if all are 1."""
    if weight is None:
        return None
    vector = as_weight(weight, f"weight of {name}", n)
    return None if bool((vector == 1).all()) else vector


def read_exposure(exposure: Any, name: str, n: int) -> Array | None:
    return None if exposure is None else as_exposure(exposure, f"exposure of {name}", n)


def read_init_score(init_score: Any, name: str, n: int) -> Array | None:
    """Return initial scores as float64, one per row or per row and class."""
    if init_score is None:
        return None
    check_no_mask(init_score, f"init_score of {name}")
    if hasattr(init_score, "to_numpy"):
        init_score = init_score.to_numpy()
    elif hasattr(init_score, "to_pandas"):
        init_score = init_score.to_pandas().to_numpy()
    scores = np.asarray(init_score, dtype=np.float64)
    if scores.ndim not in (1, 2) or scores.size == 0 or scores.size % n or (scores.ndim == 2 and len(scores) != n):
        raise ValueError(
            f"init_score of {name} must have one value per row and class for {n} rows, got shape {scores.shape}."
        )
    bad = np.flatnonzero(~(np.abs(scores) <= LARGEST))
    if len(bad):
        # Flat scores come class after class.
        row = bad[0] % n if scores.ndim == 1 else bad[0] // scores.shape[1]
        raise ValueError(f"init_score of {name} is {scores.flat[bad[0]]} in row {row}; initial scores must be finite.")
    return scores


# Copies with some columns erased, left out or put in order, in the container they came in -----------------------------


def rows_of(table: Any, rows: Array) -> Any:
    """Return a copy of some rows in the table's own container, or as numbers if its rows cannot be indexed."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    if is_frame(table):
        import narwhals as nw

        return nw.from_native(table, eager_only=True)[rows.tolist()].to_native()
    return table[rows] if hasattr(table, "shape") else row_source(table).take(rows)


def erase_columns(X: Any, columns: list[int]) -> Any:
    """Return a copy of a table with all values of some columns missing; DataFrames stay DataFrames of their kind."""
    X = eager(X)
    if hasattr(X, "iloc"):
        erased = {X.columns[j]: _all_missing(X.iloc[:, j]) for j in columns}
        out = X.copy(deep=False)
        for name, values in erased.items():
            out[name] = values
        return out
    if is_frame(X):
        import narwhals as nw

        frame = nw.from_native(X, eager_only=True)
        missing = [nw.lit(None, dtype=frame.schema[frame.columns[j]]).alias(frame.columns[j]) for j in columns]
        return frame.with_columns(*missing).to_native()
    source = row_source(X)
    table = np.array(source.window(0, source.n_rows), dtype=source.dtype)
    table[:, columns] = np.nan
    return table


def fill_columns(X: Any, columns: list[int], values: list[Any]) -> Any:
    """Return a copy of a table with one value for everybody in some columns; columns of another kind are erased."""
    X = eager(X)
    if hasattr(X, "iloc"):
        out = erase_columns(X, columns)
        for j, value in zip(columns, values, strict=True):
            if getattr(X.dtypes.iloc[j], "kind", "O") in "iufb":
                out[X.columns[j]] = value
            elif isinstance(value, str):
                import pandas as pd

                out[X.columns[j]] = pd.Series([value] * len(X), index=X.index, dtype=X.dtypes.iloc[j])
        return out
    if is_frame(X):
        import narwhals as nw

        frame, filled = nw.from_native(X, eager_only=True), []
        for j, value in zip(columns, values, strict=True):
            dtype = frame.schema[frame.columns[j]]
            fits = dtype.is_numeric() != isinstance(value, str)
            filled.append((nw.lit(value).cast(dtype) if fits else nw.lit(None, dtype=dtype)).alias(frame.columns[j]))
        return frame.with_columns(*filled).to_native()
    table = erase_columns(X, columns)
    table[:, columns] = values
    return table


def in_container_of(table: Any, result: pd.DataFrame) -> Any:
    """Return numbers about the people of a table in its kind of container: polars, Arrow, or pandas for all others.

    Polars and Arrow have no index, no columns of several levels (their names are joined), and null for what is missing.
    """
    import narwhals.dependencies as nwd
    import pyarrow as pa

    is_lazy = nwd.is_polars_lazyframe(table)
    table = table if is_stored(table) else eager(table)
    is_polars = is_lazy or nwd.is_polars_dataframe(table)
    if not is_polars and not nwd.is_pyarrow_table(table):
        return result
    parts = [name if isinstance(name, tuple) else (name,) for name in result.columns]
    names = [" + class ".join(str(part) for part in name if part != "") for name in parts]
    columns = [pa.array(result.iloc[:, j].to_numpy(), from_pandas=True) for j in range(result.shape[1])]
    made = pa.table(columns, names=names)
    return nwd.get_polars().from_arrow(made) if is_polars else made


def select_columns(frame: Any, columns: list[int]) -> Any:
    if hasattr(frame, "iloc"):
        return frame.iloc[:, columns]
    import narwhals as nw

    return nw.from_native(frame, eager_only=True)[:, columns].to_native()


def named_columns(frame: Any, names: Sequence[str]) -> Any:
    """Return the columns of a DataFrame or Arrow table with these names, in this order; those it lacks are missing."""
    if hasattr(frame, "iloc"):
        import pandas as pd

        place = {str(label): j for j, label in enumerate(frame.columns)}
        nothing = pd.Series(np.full(len(frame), np.nan), index=frame.index)
        columns = [frame.iloc[:, place[name]] if name in place else nothing for name in names]
        return pd.concat(columns, axis=1, keys=list(names))
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    absent = [nw.lit(None, dtype=nw.Float64).alias(name) for name in names if name not in table.columns]
    return table.with_columns(*absent).select(*names).to_native() if absent else table.select(*names).to_native()


def column_names(frame: Any) -> list[str]:
    return [str(name) for name in getattr(frame, "column_names", frame.columns)]


def _all_missing(column: Any) -> Any:
    """Return a column without values: of the same type if that can be missing, otherwise of floats."""
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, pd.SparseDtype) or (isinstance(dtype, np.dtype) and dtype.kind != "O"):
        return pd.Series(np.full(len(column), np.nan), index=column.index)
    return pd.Series([None] * len(column), index=column.index, dtype=dtype)
