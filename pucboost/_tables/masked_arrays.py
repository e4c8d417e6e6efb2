"""numpy's masked arrays: ``np.asarray`` would hand out the very values that are masked, so they never get that far."""

from __future__ import annotations

from typing import Any

import numpy as np


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
