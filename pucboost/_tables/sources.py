"""Sources of rows: blocks of numbers, whatever holds them.

A :class:`RowSource` hands out numeric blocks of a table the way the engine would see it, without ever converting
the whole table: memory stays bounded by the block, whatever the container.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arrays import Array

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
        Positions of these columns. None if nobody knows, as with a plain LightGBM model: then they are the category
        columns of the other table, in order.
    """

    values: Sequence[Sequence[Any]]
    columns: Sequence[int] | None = None

    def by_column(self, category_columns: Sequence[int]) -> dict[int, Sequence[Any]]:
        """Return the categories by position, for a table that has ``category_columns`` of its own."""
        columns = category_columns if self.columns is None else self.columns
        if len(columns) != len(self.values):
            raise ValueError(
                f"The training table has {len(self.values)} category columns, this one has {len(columns)}. "
                "Give every table the same column types."
            )
        return dict(zip(columns, self.values, strict=True))


class RowSource(abc.ABC):
    """A table of ``n_rows`` × ``n_columns`` numbers.

    ``feature_names`` is None where the container has no names. ``coded`` lists the positions of columns that carry
    category codes and ``pandas_categorical`` their categories, as LightGBM keeps them in its models; ``categorical``
    are those of them that have no order, ``never_numbers`` those of these that LightGBM would not read itself.
    """

    n_rows: int
    n_columns: int
    dtype: np.dtype[Any]
    feature_names: list[str] | None = None
    categorical: Sequence[int] = ()
    never_numbers: Sequence[int] = ()
    coded: Sequence[int] = ()
    pandas_categorical: list[list[Any]] | None = None
    has_other_integer_labels: bool = False
    """A DataFrame has integer column labels that are not their positions: an integer could mean either."""

    @property
    def names(self) -> list[str]:
        """Column names; LightGBM's default ones where the table has none."""
        return default_names(self.n_columns) if self.feature_names is None else self.feature_names

    @property
    def categories(self) -> Categories:
        """The categories of all columns that carry codes."""
        return Categories(self.pandas_categorical or [], tuple(self.coded))

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
    """A float32 or float64 matrix in row or column order, read in place."""

    def __init__(self, array: Array, feature_names: list[str] | None = None) -> None:
        self.array = array
        self.n_rows, self.n_columns = array.shape
        self.dtype = array.dtype
        self.feature_names = feature_names

    def window(self, lo: int, hi: int) -> Array:
        return self.array[lo:hi]

    def take(self, rows: Array) -> Array:
        return self.array[rows]


class OtherArraySource(RowSource):
    """A matrix of other numbers, or one in neither row nor column order, converted block by block."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self.n_rows, self.n_columns = array.shape
        # As LightGBM does it.
        self.dtype = array.dtype if array.dtype in (np.float32, np.float64) else np.dtype(np.float32)

    def window(self, lo: int, hi: int) -> Array:
        return np.ascontiguousarray(self._array[lo:hi], dtype=self.dtype)

    def take(self, rows: Array) -> Array:
        return np.ascontiguousarray(self._array[rows], dtype=self.dtype)


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
        self.never_numbers = whole.never_numbers
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


def is_plain(array: Array) -> bool:
    """Return whether an array can be read in place."""
    return array.dtype in (np.float32, np.float64) and (array.flags.c_contiguous or array.flags.f_contiguous)


def default_names(n_columns: int) -> list[str]:
    """Return the names LightGBM gives to columns without names: ``Column_0`` and so on."""
    return [f"Column_{j}" for j in range(n_columns)]


def are_default_names(names: Sequence[str | None]) -> bool:
    """Return whether columns have no names, or those LightGBM gives to columns without names."""
    return all(name is None or name == default for name, default in zip(names, default_names(len(names)), strict=True))
