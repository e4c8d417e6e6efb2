"""A matrix that grows row by row and may become larger than memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._common import Array
from .files import DataError

MEMORY_BYTES = 64 << 20
"""A larger matrix is kept in a temporary file."""

_COPIED_VALUES = 1 << 20
"""How many values are copied at a time when the numbers turn out to need more bytes."""


class GrowingMatrix:
    """Rows of numbers as they arrive: in memory while there are few, then in a temporary file without a name.

    Numbers are kept as float32 for as long as every one of them is the same in float32 as in float64, as category codes
    are, whole numbers up to 2²⁴, and whatever was float32 in a file. The first one that would be rounded makes the
    matrix float64 for good. So a table takes half the room where its values allow it, and never loses a digit.
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
        """Go over to float64, with all rows so far."""
        self._dtype = np.dtype(np.float64)
        self._blocks = [block.astype(np.float64) for block in self._blocks]
        if self._file is None:
            return
        with self._file as narrow:
            narrow.seek(0)
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
            _write(self._file, (part.astype(np.float64) for part in _parts(narrow)))


def _as_float32(block: Array) -> Array | None:
    """Return a block as float32; None if a number would be rounded."""
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and so another number
        narrow = block.astype(np.float32)
    same = (narrow == block) | np.isnan(block)
    return narrow if bool(same.all()) else None


def _parts(file: Any) -> Iterator[Array]:
    while content := file.read(4 * _COPIED_VALUES):
        yield np.frombuffer(content, np.float32)


def _write(file: Any, blocks: Any) -> None:
    try:
        for block in blocks:
            file.write(block.data)
    except OSError as error:
        raise DataError(
            f"the table does not fit into {tempfile.gettempdir()} ({error.strerror}); set TMPDIR to a directory with "
            "more room"
        ) from None
