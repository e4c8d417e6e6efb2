"""Ids that stay with rows, as 64-bit numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import Array


def as_ids(values: Any, n_rows: int) -> Array:
    """Return one 64-bit number for each row; texts are hashed.

    Parameters
    ----------
    values
        Whole numbers or texts, one for each row. Rows with the same id get the same masks if they share the same.
    n_rows
        Number of rows.
    """
    import pandas as pd

    given = pd.Series(np.asarray(values) if not hasattr(values, "dtype") else values).reset_index(drop=True)
    if len(given) != n_rows:
        raise ValueError(f"row_id must have one entry for each of the {n_rows:,} rows, got {len(given):,}.")
    if given.isna().any():
        raise ValueError(f"row_id is missing in row {int(given.isna().to_numpy().argmax())}; every row needs one.")
    if pd.api.types.is_integer_dtype(given.dtype):
        return given.to_numpy().astype(np.uint64)
    if pd.api.types.is_string_dtype(given.dtype):
        return np.asarray(pd.util.hash_array(given.to_numpy(dtype=object), categorize=False), dtype=np.uint64)
    raise ValueError(f"row_id must be whole numbers or texts, got dtype {given.dtype}.")
