"""Columns go by name: order does not matter, further columns are ignored, and groups nobody shares may be absent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from engine_kits import EngineKit, every_engine
from tools import make_table

import pucboost as puc

NAMES = ["age", "sex", "bmi", "steps", "pulse", "glucose"]
GROUPS = {"app": ["steps", "pulse"], "blood": ["glucose"]}
TABLE, CLAIM = make_table(300)
X = pd.DataFrame(TABLE, columns=NAMES).assign(region=np.where(TABLE[:, 0] > 0, "north", "south"))


def model(kit: EngineKit) -> Any:
    return puc.train(dict(kit.params), puc.Dataset(X, CLAIM, optional=GROUPS), 6)


def polars(frame: pd.DataFrame) -> pl.DataFrame:
    return pl.from_pandas(frame, nan_to_null=True)


CONTAINERS = {"pandas": lambda frame: frame, "polars": polars, "arrow": lambda f: pa.Table.from_pandas(f)}


@every_engine
@pytest.mark.parametrize("container", CONTAINERS)
def test_order_and_further_columns(kit: EngineKit, container: str) -> None:
    booster, wrap = model(kit), CONTAINERS[container]
    expected = puc.quote(booster, wrap(X))
    other = X[X.columns[::-1]].assign(id=range(len(X)), note="text of no interest")
    pd.testing.assert_frame_equal(puc.quote(booster, wrap(other)), expected)


@every_engine
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_group_without_a_column_is_withheld_by_everybody(kit: EngineKit, container: str) -> None:
    booster, wrap = model(kit), CONTAINERS[container]
    with pytest.warns(
        UserWarning, match=r"no column of group 'app' \(steps, pulse\); it counts as withheld by everybody"
    ):
        got = puc.predict(booster, wrap(X.drop(columns=GROUPS["app"])))
    np.testing.assert_array_equal(got, puc.predict(booster, wrap(X.assign(steps=np.nan, pulse=np.nan))))


@every_engine
def test_other_columns_that_are_missing_are_named(kit: EngineKit) -> None:
    booster = model(kit)
    with pytest.raises(ValueError, match=r"no column 'bmi', which the model was trained on; did you mean 'BMI'\?"):
        puc.predict(booster, X.rename(columns={"bmi": "BMI"}))
    with pytest.raises(ValueError, match="no column 'pulse', which the model was trained on"):
        puc.predict(booster, X.drop(columns="pulse"))


@every_engine
def test_the_callers_table_is_left_alone(kit: EngineKit) -> None:
    table = X[X.columns[::-1]].copy()
    before = table.copy()
    puc.predict(model(kit), table)
    pd.testing.assert_frame_equal(table, before)
