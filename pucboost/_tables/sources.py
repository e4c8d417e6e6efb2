"""Sources of rows: blocks of numbers, whatever holds them.

A :class:`RowSource` returns numeric blocks of a table as the engine would see it, without ever converting the whole
table: memory stays bounded by the block, whatever the container. Here are the sources of matrices and of what LightGBM
takes besides; those of DataFrames are in ``containers``. :class:`GrowingMatrix` collects what is read from files.
"""

from __future__ import annotations

import abc
import copy
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from .._common import Array
from .._persistence import pickled
from .files import DataError

BLOCK_BYTES = 4 << 20
"""How much of a table is turned into numbers at a time."""


@dataclass(frozen=True)
class Categories:
    """The categories of a training table: the same category gets the same code in every other table."""

    values: Sequence[Sequence[Any]]
    """The categories of each category column, in the order of their codes."""
    columns: Sequence[int] | None = None
    """Positions of these columns. A plain LightGBM model does not keep them (None): then they are the category columns
    of the other table, in order."""

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
    def has_other_integer_labels(self) -> bool:
        return self._columns.has_other_integer_labels

    @property
    def categories(self) -> Categories:
        return Categories(self.pandas_categorical or [], self.coded)

    @property
    def values_per_row(self) -> int:
        """How many values a row holds on average; fewer than columns in a sparse table."""
        return self.n_columns

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


# A matrix that grows row by row and may become larger than memory -----------------------------------------------------


MEMORY_BYTES = 64 << 20
"""A larger matrix is kept in a temporary file."""

_COPIED_VALUES = 1 << 20
"""How many values are copied at a time when the numbers turn out to need more bytes."""


class GrowingMatrix:
    """Rows of numbers as they arrive: in memory while there are few, then in a temporary file without a name.

    A table in a file becomes one matrix, not a stream of rows: plan, bins and the sketch of people need rows at random,
    XGBoost reads all rows four times, and decoding Parquet costs more than reading a matrix that is mapped into memory.

    Numbers are kept as float32 as long as every one of them is the same in float32 as in float64, as category codes
    are, whole numbers up to 2²⁴, and whatever was float32 in a file. The first one that would be rounded makes the
    matrix float64 for good. So a table takes half the room where its values allow it, and never loses a digit. Types
    would not tell: integers and floats of pandas are 64 bits wide whatever they hold.
    """

    def __init__(self, n_columns: int) -> None:
        self._n_rows, self._n_columns = 0, n_columns
        self._dtype: np.dtype[Any] = np.dtype(np.float32)
        self._blocks: list[Array] = []
        self._file: Any = None

    def append(self, block: Array) -> None:
        """Add rows of float64 at the end."""
        narrow = _as_float32(block) if self._dtype == np.float32 else None
        if narrow is None and self._dtype == np.float32:
            self._widen()
        self._n_rows += len(block)
        self._blocks.append(block if narrow is None else narrow)
        if self._file is None and self._n_rows * self._n_columns * self._dtype.itemsize > MEMORY_BYTES:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
        if self._file is not None:
            _write(self._file, self._blocks)
            self._blocks = []

    def matrix(self) -> Array:
        """Return all rows; a temporary file is mapped into memory."""
        if self._file is None:
            return np.concatenate(self._blocks)
        self._file.flush()
        mapped = np.memmap(self._file, self._dtype, "r+", shape=(self._n_rows, self._n_columns))
        self._file.close()  # the mapping keeps the file alive, and takes it along when it goes
        return np.asarray(mapped)

    def _widen(self) -> None:
        self._dtype = np.dtype(np.float64)
        self._blocks = [block.astype(np.float64) for block in self._blocks]
        if self._file is None:
            return
        with self._file as narrow:
            narrow.seek(0)
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
            parts = iter(lambda: narrow.read(4 * _COPIED_VALUES), b"")
            _write(self._file, (np.frombuffer(part, np.float32).astype(np.float64) for part in parts))


def _as_float32(block: Array) -> Array | None:
    """Return a block as float32; None if a number would be rounded."""
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and so another number
        narrow = block.astype(np.float32)
    same = (narrow == block) | np.isnan(block)
    return narrow if bool(same.all()) else None


def _write(file: Any, blocks: Any) -> None:
    try:
        for block in blocks:
            file.write(block.data)
    except OSError as error:
        raise DataError(
            f"the table does not fit into {tempfile.gettempdir()} ({error.strerror}); set TMPDIR to a directory with "
            "more room"
        ) from None
