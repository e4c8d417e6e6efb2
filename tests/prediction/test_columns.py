"""Columns go by name: order does not matter, further columns are ignored, and groups nobody shares may be absent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from container_tools import as_pandas
from engine_kits import LIGHTGBM, EngineKit, every_engine
from tools import make_table

import pucboost as puc

NAMES = ["age", "sex", "bmi", "steps", "pulse", "glucose"]
GROUPS = {"app": ["steps", "pulse"], "blood": ["glucose"]}
TABLE, CLAIM = make_table(300)
X = pd.DataFrame(TABLE, columns=NAMES).assign(region=np.where(TABLE[:, 0] > 0, "north", "south"))


def model(kit: EngineKit) -> Any:
    return puc.train(dict(kit.params), puc.Dataset(X, CLAIM, optional=GROUPS), 6)


CONTAINERS: list[Callable[[pd.DataFrame], Any]] = [
    pd.DataFrame, lambda frame: pl.from_pandas(frame, nan_to_null=True), pa.Table.from_pandas
]  # fmt: skip


@every_engine
def test_order_further_columns_and_groups_without_a_column(kit: EngineKit) -> None:
    booster = model(kit)
    other = X[X.columns[::-1]].assign(id=range(len(X)), note="text of no interest")
    for wrap in CONTAINERS:
        pd.testing.assert_frame_equal(*(as_pandas(puc.quote(booster, wrap(table))) for table in (other, X)))
        with pytest.warns(
            UserWarning, match=r"no column of group 'app' \(steps, pulse\); it counts as withheld by everybody"
        ):
            got = puc.predict(booster, wrap(X.drop(columns=GROUPS["app"])))
        np.testing.assert_array_equal(got, puc.predict(booster, wrap(X.assign(steps=np.nan, pulse=np.nan))))
    table = X[X.columns[::-1]].copy()
    puc.predict(booster, table)
    pd.testing.assert_frame_equal(table, X[X.columns[::-1]])  # the caller's table is not changed


def test_other_columns_that_are_missing_are_named() -> None:
    booster = model(LIGHTGBM)
    with pytest.raises(ValueError, match=r"no column 'bmi', which the model was trained on; did you mean 'BMI'\?"):
        puc.predict(booster, X.rename(columns={"bmi": "BMI"}))
    with pytest.raises(ValueError, match="no column 'pulse', which the model was trained on"):
        puc.predict(booster, X.drop(columns="pulse"))
