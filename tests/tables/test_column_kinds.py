"""Columns that are neither numbers nor categories are refused, with an error that names them."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from container_tools import (
    ENGINES,
)

import pucboost as puc
from pucboost._tables.containers import row_source

DATE = datetime.date(2020, 2, 29)
BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "pandas, datetime": (
        lambda: pd.DataFrame({"a": [1.0], "b": pd.to_datetime(["2020-01-01"])}),
        "Column 'b' has dtype datetime64.*days since a fixed date",
    ),
    "pandas, timedelta": (
        lambda: pd.DataFrame({"a": [1.0], "b": pd.to_timedelta([1])}),
        r"Column 'b' has dtype timedelta64\[ns\]",
    ),
    "pandas, period": (
        lambda: pd.DataFrame({"b": pd.period_range("2020", periods=2)}),
        r"Column 'b' has dtype period\[",
    ),
    "pandas, complex": (lambda: pd.DataFrame({"b": [1j]}), "Column 'b' has dtype complex128"),
    "pandas, dates": (lambda: pd.DataFrame({"b": [None, DATE]}), r"Column 'b' holds a date in row 1 \(datetime.date"),
    "pandas, lists": (lambda: pd.DataFrame({"b": [[1]]}), r"Column 'b' holds a list in row 0 \(\[1\]\)"),
    "pandas, bytes": (lambda: pd.DataFrame({"b": ["a", b"a"]}), "Column 'b' holds a bytes in row 1"),
    "pandas, text among numbers": (
        lambda: pd.DataFrame({"b": [None, 1, 2.5, "x"]}, dtype=object),
        "Column 'b' mixes text and numbers: row 1 holds 1, row 3 'x'",
    ),
    "pandas, number among texts": (
        lambda: pd.DataFrame({"b": pd.Series(["x"] * 70_000 + [7], dtype=object)}),
        "Column 'b' mixes text and numbers: row 0 holds 'x', row 70000 7",
    ),
    "pandas, Arrow date": (
        lambda: pd.DataFrame({"b": pd.Series([DATE], dtype=pd.ArrowDtype(pa.date32()))}),
        r"Column 'b' has dtype date32\[day\]",
    ),
    "polars, date": (lambda: pl.DataFrame({"b": [DATE]}), "Column 'b' has dtype Date"),
    "polars, lazy date": (lambda: pl.LazyFrame({"b": [DATE]}), "Column 'b' has dtype Date"),
    "polars, duration": (lambda: pl.DataFrame({"b": [datetime.timedelta(1)]}), "Column 'b' has dtype Duration"),
    "polars, time": (lambda: pl.DataFrame({"b": [datetime.time(1)]}), "Column 'b' has dtype Time"),
    "polars, list": (lambda: pl.DataFrame({"b": [[1]]}), r"Column 'b' has dtype List\(Int64\)"),
    "polars, struct": (lambda: pl.DataFrame({"b": [{"x": 1}]}), "Column 'b' has dtype Struct"),
    "polars, objects": (
        lambda: pl.DataFrame({"b": pl.Series([object()], dtype=pl.Object)}),
        "Column 'b' has dtype Object",
    ),
    "Arrow, timestamp": (
        lambda: pa.table({"b": pa.array([datetime.datetime(2020, 1, 1)])}),
        "Column 'b' has dtype timestamp",
    ),
    "Arrow, list": (lambda: pa.table({"b": [[1]]}), "Column 'b' has dtype list"),
    "Arrow, binary": (lambda: pa.table({"b": [b"x"]}), "Column 'b' has dtype binary"),
    "Arrow, dictionary of dates": (
        lambda: pa.table({"b": pa.array([DATE]).dictionary_encode()}),
        "Column 'b' has dtype dictionary<values=date32",
    ),
    "Arrow, same name twice": (lambda: pa.table([[1], [2]], names=["b", "b"]), "Column 'b' appears more than once"),
    "numpy, text": (lambda: np.array([["a", "b"]]), "must be numeric.*Arrow table with text or category columns"),
    "numpy, complex": (lambda: np.array([[1j]]), "must be numeric, got an array of dtype complex128"),
    "numpy, timedelta": (lambda: np.array([[1]], dtype="m8[s]"), "must be numeric, got an array of dtype timedelta64"),
    "no columns": (lambda: pl.DataFrame({"b": [1]}).drop("b"), "The feature table has no"),
    "no rows": (lambda: pl.LazyFrame({"b": ["x"]}).head(0), "The feature table has no rows"),
}


@pytest.mark.parametrize("case", BAD)
def test_columns_that_are_neither_numbers_nor_categories(case: str) -> None:
    make, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        row_source(make())


def test_a_lazy_frame_of_the_wrong_types_is_not_collected() -> None:
    def fail(frame: Any) -> Any:
        raise AssertionError("collected")

    lazy = pl.LazyFrame({"a": [1.0], "b": [DATE]}).map_batches(fail, schema={"a": pl.Float64, "b": pl.Date})
    with pytest.raises(ValueError, match="Column 'b' has dtype Date"):
        puc.train({**ENGINES["lightgbm"], "optional": ["a"]}, puc.Dataset(lazy, [1.0]), 1)
