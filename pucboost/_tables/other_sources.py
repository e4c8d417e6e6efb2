"""Sources of rows in the containers LightGBM takes besides plain matrices and DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._common import Array
from .masked_arrays import without_mask
from .sources import RowSource


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
    """A scipy CSR matrix. A value that is not stored is the number 0, as in LightGBM, and not a missing one."""

    def __init__(self, matrix: Any) -> None:
        super().__init__(matrix.shape, np.dtype(np.float32 if matrix.dtype == np.float32 else np.float64))
        self._matrix = matrix.tocsr()

    @property
    def matrix(self) -> Any:
        """The matrix itself."""
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
        """Return what a user's code has returned if it is as large as it must be: kernels do not look again."""
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
