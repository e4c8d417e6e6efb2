"""One column of a DataFrame or Arrow table, whatever library holds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .._common import Array

if TYPE_CHECKING:
    import narwhals as nw

BLOCK_ROWS = 1 << 16
"""How many values of a column are looked at at a time while its kind is unknown."""


def blocks_of(n_rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that cover a column, each of :data:`BLOCK_ROWS`."""
    for lo in range(0, n_rows, BLOCK_ROWS):
        yield lo, min(lo + BLOCK_ROWS, n_rows)


def native_dtype(series: nw.Series[Any]) -> Any:
    """Return the type of a column in its own library."""
    native = series.to_native()
    return getattr(native, "dtype", getattr(native, "type", None))


def is_pandas_category(series: nw.Series[Any]) -> bool:
    """Return whether a column is one of pandas with a category type."""
    return hasattr(series.to_native(), "iloc") and hasattr(native_dtype(series), "categories")


def as_dictionary(part: nw.Series[Any]) -> tuple[Array, Any]:
    """Return text or categories as positions in a list, −1 where they are missing, and the list."""
    if is_pandas_category(part):
        native = part.to_native()
        return native.cat.codes.to_numpy(), native.cat.categories
    import pyarrow as pa

    values = part.to_arrow()
    if isinstance(values, pa.ChunkedArray):  # text that pandas has read from several files
        values = values.combine_chunks()
    if not pa.types.is_dictionary(values.type):
        values = values.cast(pa.large_string()).dictionary_encode()
    return values.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), values.dictionary


def floats(part: nw.Series[Any]) -> Array:
    """Return numbers or booleans as a numpy array, NaN where they are missing."""
    import narwhals as nw

    native = part.to_native()
    if hasattr(native, "iloc"):
        if isinstance(native.dtype, np.dtype) and native.dtype.kind != "O":
            return np.asarray(native.to_numpy())
        return np.asarray(native.to_numpy(dtype=np.float64, na_value=np.nan))
    import pyarrow as pa

    if part.dtype in (nw.Int128, nw.UInt128):  # Arrow has no such type
        part = part.cast(nw.Float64)
    values = part.to_arrow()
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())  # Arrow's own cast of decimals to floats is off in the last bit
    # Unsafe, so that integers above 2^53 are rounded, as everywhere.
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
