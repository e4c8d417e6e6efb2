"""Columns that are neither numbers nor categories are refused, with an error that names them."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from container_tools import ENGINES

import pucboost as puc
from pucboost._tables.sources import row_source

DATE = datetime.date(2020, 2, 29)
NEITHER: list[tuple[Any, str]] = [
    (pd.DataFrame({"b": pd.to_datetime(["2020-01-01"])}), "Column 'b' has dtype datetime64.*days since a fixed date"),
    (pd.DataFrame({"b": pd.to_timedelta([1])}), r"Column 'b' has dtype timedelta64\[ns\]"),
    (pd.DataFrame({"b": pd.period_range("2020", periods=2)}), r"Column 'b' has dtype period\["),
    (pd.DataFrame({"b": [1j]}), "Column 'b' has dtype complex128"),
    (pd.DataFrame({"b": [None, DATE]}), r"Column 'b' holds a date in row 1 \(datetime.date"),
    (pd.DataFrame({"b": [[1]]}), r"Column 'b' holds a list in row 0 \(\[1\]\)"),
    (pd.DataFrame({"b": ["a", b"a"]}), "Column 'b' holds a bytes in row 1"),
    (
        pd.DataFrame({"b": [None, 1, 2.5, "x"]}, dtype=object),
        "Column 'b' mixes text and numbers: row 1 holds 1, row 3 'x'",
    ),
    (
        pd.DataFrame({"b": pd.Series(["x"] * 70_000 + [7], dtype=object)}),
        "Column 'b' mixes text and numbers: row 0 holds 'x', row 70000 7",
    ),
    (pd.DataFrame({"b": pd.Series([DATE], dtype=pd.ArrowDtype(pa.date32()))}), r"Column 'b' has dtype date32\[day\]"),
    (pl.DataFrame({"b": [DATE]}), "Column 'b' has dtype Date"),
    (pl.LazyFrame({"b": [DATE]}), "Column 'b' has dtype Date"),
    (pl.DataFrame({"b": [datetime.timedelta(1)]}), "Column 'b' has dtype Duration"),
    (pl.DataFrame({"b": [datetime.time(1)]}), "Column 'b' has dtype Time"),
    (pl.DataFrame({"b": [[1]]}), r"Column 'b' has dtype List\(Int64\)"),
    (pl.DataFrame({"b": [{"x": 1}]}), "Column 'b' has dtype Struct"),
    (pl.DataFrame({"b": pl.Series([object()], dtype=pl.Object)}), "Column 'b' has dtype Object"),
    (pa.table({"b": pa.array([datetime.datetime(2020, 1, 1)])}), "Column 'b' has dtype timestamp"),
    (pa.table({"b": [[1]]}), "Column 'b' has dtype list"),
    (pa.table({"b": [b"x"]}), "Column 'b' has dtype binary"),
    (pa.table({"b": pa.array([DATE]).dictionary_encode()}), "Column 'b' has dtype dictionary<values=date32"),
    (pa.table([[1], [2]], names=["b", "b"]), "Column 'b' appears more than once"),
    (np.array([["a", "b"]]), "must be numeric.*Arrow table with text or category columns"),
    (np.array([[1j]]), "must be numeric, got an array of dtype complex128"),
    (np.array([[1]], dtype="m8[s]"), "must be numeric, got an array of dtype timedelta64"),
    (pl.DataFrame({"b": [1]}).drop("b"), "The feature table has no"),
    (pl.LazyFrame({"b": ["x"]}).head(0), "The feature table has no rows"),
]


def test_columns_that_are_neither_numbers_nor_categories() -> None:
    for table, message in NEITHER:
        with pytest.raises(ValueError, match=message):
            row_source(table)


def test_a_lazy_frame_of_the_wrong_types_is_not_collected() -> None:
    def fail(frame: Any) -> Any:
        raise AssertionError("collected")

    lazy = pl.LazyFrame({"a": [1.0], "b": [DATE]}).map_batches(fail, schema={"a": pl.Float64, "b": pl.Date})
    with pytest.raises(ValueError, match="Column 'b' has dtype Date"):
        puc.train({**ENGINES["lightgbm"], "optional": ["a"]}, puc.Dataset(lazy, [1.0]), 1)
