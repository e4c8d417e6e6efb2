"""The table that an estimator is asked about: its own columns, in its own order, in a container it knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._common import Array
from ..._tables.containers import is_frame, row_source, select_columns
from ..._tables.sources import Categories

if TYPE_CHECKING:
    import pandas as pd

PANDAS, POLARS, ARRAY = "pandas", "polars", "array"
"""The containers that estimators are given."""


def container_of(X: Any) -> str:
    """Return the container for an estimator with column names that is asked about a table."""
    import narwhals.dependencies as nwd

    return POLARS if nwd.is_polars_dataframe(X) else PANDAS


def frame_of(X: Any, columns: Sequence[int], names: Sequence[str], container: str, codes: Categories | None) -> Any:
    """Return some columns of a table as a DataFrame with these names, which the estimator may write into.

    Parameters
    ----------
    X
        The table, in any container. In arrays, categories are codes.
    columns, names
        Positions of the columns, and the names they get.
    container
        Of the DataFrame that is returned.
    codes
        The categories that codes in an array stand for.
    """
    frame = select_columns(X, list(columns)) if is_frame(X) else _decoded(X, columns, names, codes)
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    if table.columns != list(names):
        table = table.rename(dict(zip(table.columns, names, strict=True)))
    # Steps that save copies write into the memory of a pandas table, whatever pandas says of it.
    return table.to_pandas().copy() if container == PANDAS else table.to_polars()


def _decoded(X: Any, columns: Sequence[int], names: Sequence[str], codes: Categories | None) -> pd.DataFrame:
    """Return numbers as they are, and codes as the categories they stand for."""
    import pandas as pd

    source = row_source(X)
    numbers = source.window(0, source.n_rows)
    known = {} if codes is None or not codes.values else codes.by_column(())
    return pd.DataFrame(
        {
            name: pd.Categorical.from_codes(_whole(numbers[:, j]), categories=pd.Index(known[j]))
            if j in known
            else numbers[:, j]
            for j, name in zip(columns, names, strict=True)
        }
    )


def _whole(codes: Array) -> Array:
    return np.nan_to_num(codes, nan=-1.0).astype(np.int64)


def numbers_of(X: Any, columns: Sequence[int]) -> Any:
    """Return some columns of a table as an array, or as a sparse matrix if it is one; they must be numbers."""
    # A copy, since estimators may change what they get, of a slice if possible: the last bits of products depend on the
    # order in memory, and a list of columns would turn it round.
    wanted: Any = list(columns)
    if wanted == list(range(wanted[0], wanted[0] + len(wanted))):
        wanted = slice(wanted[0], wanted[0] + len(wanted))
    if isinstance(X, np.ndarray):
        return X[:, wanted].copy(order="K")
    if hasattr(X, "tocsr"):
        return X.tocsr()[:, wanted]
    if not is_frame(X):
        source = row_source(X)
        return source.window(0, source.n_rows)[:, wanted].copy(order="K")
    source = row_source(select_columns(X, list(columns)))
    if source.coded:
        raise ValueError(
            f"The anchor was trained without column names, so it takes numbers only, but column "
            f"{source.names[source.coded[0]]!r} holds text or categories. Train it on a DataFrame."
        )
    return source.window(0, source.n_rows)


def missing_value(X: Any, columns: Sequence[int]) -> tuple[int, int] | None:
    """Return row and column of the first missing value in some columns; None if there is none."""
    for lo, missing in _missing(X, columns):
        rows = np.flatnonzero(missing.any(axis=1))
        if len(rows):
            return lo + int(rows[0]), columns[int(np.argmax(missing[rows[0]]))]
    return None


def complete_row(X: Any, columns: Sequence[int]) -> int:
    """Return the first row without missing values in some columns; 0 if there is none."""
    for lo, missing in _missing(X, columns):
        rows = np.flatnonzero(~missing.any(axis=1))
        if len(rows):
            return lo + int(rows[0])
    return 0


def _missing(X: Any, columns: Sequence[int]) -> Iterator[tuple[int, Array]]:
    """Yield the first row of each block, and what is missing in it."""
    source, own = (
        (row_source(select_columns(X, list(columns))), slice(None)) if is_frame(X) else (row_source(X), columns)
    )
    for lo, hi in source.blocks():
        yield lo, np.isnan(source.window(lo, hi)[:, own])
