"""Batches of rows of a table file: columns as numbers or text, with errors that name the cell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._common import Array
from .files import DataError
from .formats import MISSING
from .names import quoted

if TYPE_CHECKING:
    import pyarrow as pa


class Batch:
    """Some rows of a table file. Rows are counted from 1, the header not included."""

    def __init__(self, path: Path | str, first_row: int, content: pa.RecordBatch) -> None:
        self.path, self.first_row, self._content = path, first_row, content

    def __len__(self) -> int:
        return int(self._content.num_rows)

    def where(self, index: int, column: str) -> str:
        """Return the name of a cell in errors."""
        return f"{self.path}, row {self.first_row + index}, column {column!r}"

    def as_stored(self, column: str) -> pa.Array:
        """Return a column as it is in the file."""
        return self._content.column(column)

    def text(self, column: str) -> pa.Array:
        """Return a column as strings, null where it is missing."""
        import pyarrow as pa

        values = self.as_stored(column)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_floating(values.type):  # NaN is missing, not a category
            values = pa.array(values.to_numpy(zero_copy_only=False), from_pandas=True)
        return values.cast(pa.string())

    def numbers(self, column: str, advice: str = "") -> Array:
        """Return a column as float64, NaN where it is missing; true and false are 1 and 0.

        ``advice`` ends the error about a value that is not a number.
        """
        import pyarrow as pa

        values = self.as_stored(column)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_decimal(values.type):
            values = values.cast(pa.string())  # Arrow's own cast of decimals to floats is off in the last bit
        values = self._parsed(values.cast(pa.string()), column, advice) if is_text(values.type) else values
        return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))

    def _parsed(self, text: pa.Array, column: str, advice: str) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        text = _without_missing(pc.utf8_trim_whitespace(text))
        try:
            return text.cast(pa.float64())
        except pa.ArrowInvalid:
            pass
        truth = pc.index_in(pc.utf8_lower(text), value_set=pa.array(["false", "true"])).cast(pa.float64())
        rest = pc.if_else(pc.is_valid(truth), pa.scalar(None, pa.string()), text)
        try:
            return pc.coalesce(truth, rest.cast(pa.float64()))
        except pa.ArrowInvalid:
            bad = _first_failure(rest, lambda part: part.cast(pa.float64()))
        raise DataError(f"{self.where(bad, column)}: {quoted(text[bad].as_py())} is not a number{advice}")


class CsvBatch(Batch):
    """Some rows of a CSV file, stored as bytes."""

    def as_stored(self, column: str) -> pa.Array:
        """Return a column as strings, null where the field is empty."""
        import pyarrow as pa
        import pyarrow.compute as pc

        raw = self._content.column(column)
        try:
            text = raw.cast(pa.string())
        except pa.ArrowInvalid:
            bad = _first_failure(raw, lambda part: part.cast(pa.string()))
            raise DataError(
                f"{self.where(bad, column)}: {quoted(raw[bad].as_py())} is not UTF-8. Convert the file, for example "
                "with iconv -f latin1 -t utf-8"
            ) from None
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)

    def text(self, column: str) -> pa.Array:
        """Return a column as strings, null where it is missing."""
        return _without_missing(self.as_stored(column))


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is one of strings."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _without_missing(text: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.is_in(text, value_set=pa.array(MISSING)), pa.scalar(None, pa.string()), text)


def _first_failure(values: pa.Array, convert: Callable[[pa.Array], Any]) -> int:
    """Return the position of the first value that cannot be converted, by bisection."""
    import pyarrow as pa

    lo, hi = 0, len(values)
    while hi - lo > 1:
        middle = (lo + hi) // 2
        try:
            convert(values[lo:middle])
            lo = middle
        except pa.ArrowInvalid:
            hi = middle
    return lo
