"""A matrix that grows row by row and may become larger than memory."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

from .._arrays import Array
from .files import DataError

MEMORY_BYTES = 64 << 20
"""A larger matrix is kept in a temporary file."""


class GrowingMatrix:
    """Rows of numbers as they arrive: in memory while there are few, then in a temporary file without a name."""

    def __init__(self, n_columns: int) -> None:
        self._n_rows, self._n_columns = 0, n_columns
        self._blocks: list[Array] = []
        self._file: Any = None

    def append(self, block: Array) -> None:
        """Add rows at the end."""
        self._n_rows += len(block)
        self._blocks.append(block)
        if self._file is None and self._n_rows * self._n_columns * 8 > MEMORY_BYTES:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
        if self._file is not None:
            try:
                for kept in self._blocks:
                    self._file.write(kept.data)
            except OSError as error:
                raise DataError(
                    f"the table does not fit into {tempfile.gettempdir()} ({error.strerror}); set TMPDIR to a "
                    "directory with more room"
                ) from None
            self._blocks = []

    def matrix(self) -> Array:
        """Return all rows; a temporary file is mapped into memory."""
        if self._file is None:
            return np.concatenate(self._blocks)
        self._file.flush()
        mapped = np.memmap(self._file, np.float64, "r+", shape=(self._n_rows, self._n_columns))
        self._file.close()  # the mapping keeps the file alive, and takes it along when it goes
        return np.asarray(mapped)
