"""Sources of rows: what they declare about their columns, that nothing changes them, and that they check user code."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import pucboost as puc
from pucboost._tables.sources import ColumnTypes, RowSource, SubsetSource, are_default_names, default_names, row_source

X = np.arange(12.0).reshape(4, 3)
MIXED = {"a": [1.0, 2.0, 3.0, 4.0], "grade": ["low", "high", "low", None], "text": ["x", "y", "x", None]}


class Rows(lgb.Sequence):
    def __getitem__(self, index: Any) -> Any:
        return X[index]

    def __len__(self) -> int:
        return len(X)


def mixed() -> pd.DataFrame:
    grade = pd.Categorical(MIXED["grade"], categories=["low", "high"], ordered=True)
    return pd.DataFrame(MIXED).assign(grade=grade)


TABLES = {
    "array": lambda: X,
    "integers": lambda: X.astype(int),
    "sparse": lambda: scipy.sparse.csr_matrix(X),
    "sequence": Rows,
    "list": lambda: [X, X],
    "pandas": mixed,
    "pandas, one block": lambda: pd.DataFrame(X, columns=list("abc")),
    "polars": lambda: pl.DataFrame(MIXED),
    "subset": lambda: SubsetSource(row_source(mixed()), np.array([2, 0])),
}


def test_sources_are_read_only() -> None:
    for table in TABLES.values():
        source = row_source(table())
        public = [name for name in dir(source) if not name.startswith("_")]
        values = [name for name in public if not callable(getattr(source, name))]
        assert {"n_rows", "n_columns", "dtype", "feature_names", "names", "coded", "categories"} <= {*values}
        for name in values:
            with pytest.raises(AttributeError):
                setattr(source, name, getattr(source, name))
        with pytest.raises(FrozenInstanceError):
            source.columns.coded = (0,)  # type: ignore[misc]


def test_what_tables_say_about_their_columns() -> None:
    pandas, polars, array = (row_source(TABLES[name]()) for name in ("pandas", "polars", "array"))
    assert pandas.columns == ColumnTypes(
        names=("a", "grade", "text"),
        coded=(1, 2),
        categorical=(2,),
        never_numbers=(2,),
        pandas_categorical=[["low", "high"], ["x", "y"]],
    )
    assert polars.columns == replace(
        pandas.columns, categorical=(1, 2), never_numbers=(1, 2), pandas_categorical=[["high", "low"], ["x", "y"]]
    )
    assert array.columns == ColumnTypes()
    assert row_source(pd.DataFrame(X)).columns == ColumnTypes(names=("0", "1", "2"), pandas_categorical=[])
    assert row_source(pd.DataFrame(X, columns=[2, 1, 0])).columns.has_other_integer_labels
    assert SubsetSource(pandas, np.array([1])).columns is pandas.columns
    assert pandas.categories.by_column(()) == {1: ["low", "high"], 2: ["x", "y"]}


def test_names() -> None:
    assert row_source(mixed()).names == row_source(mixed()).feature_names == ["a", "grade", "text"]
    assert row_source(X).feature_names is None
    assert row_source(X).names == ["Column_0", "Column_1", "Column_2"] == default_names(3)
    assert lgb.Dataset(X, X[:, 0], params={"verbosity": -1}).construct().get_feature_name() == default_names(3)
    assert are_default_names(default_names(3))
    assert are_default_names([])
    assert are_default_names([None, "Column_1"])
    for names in (["Column_1", "Column_0"], ["a", "Column_1"], [None, "a"]):
        assert not are_default_names(names)


def test_other_column_types_leave_the_source_as_it_was() -> None:
    source = row_source(X)
    coded: RowSource = source.with_columns(replace(source.columns, coded=(1,), pandas_categorical=[["x", "y"]]))
    assert (source.coded, source.pandas_categorical) == ((), None)
    assert (coded.coded, coded.pandas_categorical) == ((1,), [["x", "y"]])
    assert type(coded) is type(source)
    np.testing.assert_array_equal(coded.window(1, 3), X[1:3])


class Shrinking(lgb.Sequence):
    """Claims 500 rows of 3 columns, and returns fewer of either."""

    batch_size = 100

    def __init__(self, rows: int, columns: int) -> None:
        self.data = np.random.default_rng(0).normal(size=(500, 3))
        self.rows, self.columns = rows, columns

    def __len__(self) -> int:
        return 500

    def __getitem__(self, index: Any) -> Any:
        whole = not isinstance(index, slice) or index.stop == 1
        return self.data[index] if whole else self.data[index][: self.rows, : self.columns]


def test_too_small_blocks_of_a_sequence_are_refused() -> None:
    """They are measured before a kernel reads them."""
    for rows, columns in ((10, 3), (500, 2)):
        data = puc.Dataset(Shrinking(rows, columns), np.arange(500.0))
        with pytest.raises(ValueError, match=rf"The Sequence returned an array of shape \({rows}, {columns}\)"):
            puc.train({"optional": [2], "verbosity": -1}, data, 2)
