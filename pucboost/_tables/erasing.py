"""Copies of tables with some columns erased, left out or put in order, in the container they came in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .containers import eager, is_frame, row_source


def erase_columns(X: Any, columns: list[int]) -> Any:
    """Return a copy of a table with all values of some columns missing; DataFrames stay DataFrames of their kind."""
    X = eager(X)
    if hasattr(X, "iloc"):
        erased = {X.columns[j]: _all_missing(X.iloc[:, j]) for j in columns}
        out = X.copy(deep=False)
        for name, values in erased.items():
            out[name] = values
        return out
    if is_frame(X):
        import narwhals as nw

        frame = nw.from_native(X, eager_only=True)
        missing = [nw.lit(None, dtype=frame.schema[frame.columns[j]]).alias(frame.columns[j]) for j in columns]
        return frame.with_columns(*missing).to_native()
    source = row_source(X)
    table = np.array(source.window(0, source.n_rows), dtype=source.dtype)
    table[:, columns] = np.nan
    return table


def fill_columns(X: Any, columns: list[int], values: list[Any]) -> Any:
    """Return a copy of a table with one value for everybody in some columns; columns of another kind are erased."""
    X = eager(X)
    if hasattr(X, "iloc"):
        out = erase_columns(X, columns)
        for j, value in zip(columns, values, strict=True):
            if getattr(X.dtypes.iloc[j], "kind", "O") in "iufb":
                out[X.columns[j]] = value
            elif isinstance(value, str):
                import pandas as pd

                out[X.columns[j]] = pd.Series([value] * len(X), index=X.index, dtype=X.dtypes.iloc[j])
        return out
    if is_frame(X):
        import narwhals as nw

        frame = nw.from_native(X, eager_only=True)
        given = [
            (frame.columns[j], frame.schema[frame.columns[j]], value) for j, value in zip(columns, values, strict=True)
        ]
        filled = [
            (
                nw.lit(value).cast(dtype) if dtype.is_numeric() != isinstance(value, str) else nw.lit(None, dtype=dtype)
            ).alias(name)
            for name, dtype, value in given
        ]
        return frame.with_columns(*filled).to_native()
    table = erase_columns(X, columns)
    table[:, columns] = values
    return table


def select_columns(frame: Any, columns: list[int]) -> Any:
    """Return some columns of a DataFrame or Arrow table."""
    if hasattr(frame, "iloc"):
        return frame.iloc[:, columns]
    import narwhals as nw

    return nw.from_native(frame, eager_only=True)[:, columns].to_native()


def named_columns(frame: Any, names: Sequence[str]) -> Any:
    """Return the columns of a DataFrame or Arrow table with these names, in this order; those it lacks are missing."""
    if hasattr(frame, "iloc"):
        import pandas as pd

        place = {str(label): j for j, label in enumerate(frame.columns)}
        nothing = pd.Series(np.full(len(frame), np.nan), index=frame.index)
        columns = [frame.iloc[:, place[name]] if name in place else nothing for name in names]
        return pd.concat(columns, axis=1, keys=list(names))
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    absent = [nw.lit(None, dtype=nw.Float64).alias(name) for name in names if name not in table.columns]
    return table.with_columns(*absent).select(*names).to_native() if absent else table.select(*names).to_native()


def column_names(frame: Any) -> list[str]:
    """Return the names of the columns of a DataFrame or Arrow table."""
    return [str(name) for name in getattr(frame, "column_names", frame.columns)]


def _all_missing(column: Any) -> Any:
    """Return a column without values, of the same type if that has missing values, else of floats."""
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, pd.SparseDtype) or (isinstance(dtype, np.dtype) and dtype.kind != "O"):
        return pd.Series(np.full(len(column), np.nan), index=column.index)
    return pd.Series([None] * len(column), index=column.index, dtype=dtype)
