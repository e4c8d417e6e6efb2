"""Sources of rows: blocks of numbers, whatever holds them.

A :class:`RowSource` hands out numeric blocks of a table the way the engine would see it, without ever converting
the whole table: memory stays bounded by the block, whatever the container.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from .._common import Array
from .._persistence import pickled

BLOCK_BYTES = 4 << 20
"""How much of a table is turned into numbers at a time."""


@dataclass(frozen=True)
class Categories:
    """The categories of a training table: the same category gets the same code in every other table.

    Parameters
    ----------
    values
        The categories of each category column, in the order of their codes.
    columns
        Positions of these columns. None if they are unknown, as with a plain LightGBM model: then they are the
        category columns of the other table, in order.
    """

    values: Sequence[Sequence[Any]]
    columns: Sequence[int] | None = None

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
    """What a table says about its columns; by default nothing: numbers without names.

    Columns are listed by position.
    """

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
    """A table of ``n_rows`` × ``n_columns`` numbers. It never changes: all it says about itself is read-only.

    Parameters
    ----------
    shape
        Numbers of rows and columns.
    dtype
        Type of its numbers, float32 or float64.
    columns
        What the table says about its columns.
    """

    def __init__(
        self, shape: tuple[int, int], dtype: np.dtype[Any], columns: ColumnTypes = NUMBERS_WITHOUT_NAMES
    ) -> None:
        self._n_rows, self._n_columns = shape
        self._dtype, self._columns = dtype, columns

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._n_rows

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self._n_columns

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self._dtype

    @property
    def columns(self) -> ColumnTypes:
        """What the table says about its columns."""
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
        """Columns that hold category codes."""
        return self._columns.coded

    @property
    def categorical(self) -> tuple[int, ...]:
        """Those of the coded columns whose categories have no order."""
        return self._columns.categorical

    @property
    def never_numbers(self) -> tuple[int, ...]:
        """Those of the categorical columns that LightGBM itself would refuse."""
        return self._columns.never_numbers

    @property
    def pandas_categorical(self) -> list[list[Any]] | None:
        """The categories of each coded column, as LightGBM keeps them in its models."""
        return self._columns.pandas_categorical

    @property
    def has_other_integer_labels(self) -> bool:
        """Whether a DataFrame has integer column labels that are not their positions."""
        return self._columns.has_other_integer_labels

    @property
    def categories(self) -> Categories:
        """The categories of all columns that hold codes."""
        return Categories(self.pandas_categorical or [], self.coded)

    @property
    def values_per_row(self) -> int:
        """How many values a row really holds; fewer than columns in a sparse table."""
        return self.n_columns

    @property
    def is_sparse(self) -> bool:
        """Whether there are zeros that are not stored; :meth:`present` tells which."""
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
        """The matrix itself."""
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
