"""Models know their categories: saved, continued, anchored, and asked about any container."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from container_tools import (
    CONTAINERS,
    DATA,
    ENGINES,
    OTHERS,
    N,
    Y,
    arrow,
    as_pandas,
    categories,
    dataset,
    objects,
    reference,
)

import pucboost as puc
from pucboost._models.schema import categories_of


@pytest.mark.parametrize("engine", ENGINES)
def test_models_say_which_columns_have_which_categories(engine: str, tmp_path: Path) -> None:
    booster, _, expected = reference(engine)
    path = tmp_path / "model.ubj"  # XGBoost warns of a file whose ending says nothing
    puc.save_model(booster, path)
    loaded = puc.load_model(path)
    assert loaded.puc_summary == booster.puc_summary
    np.testing.assert_array_equal(puc.predict(loaded, pl.DataFrame(OTHERS)), expected)
    if engine == "xgboost":  # XGBoost itself keeps what it needs
        own = xgb.Booster(model_file=path)
        np.testing.assert_array_equal(puc.predict(own, pl.DataFrame(OTHERS)), expected)


def test_as_many_categorical_features_as_category_columns_are_not_mistaken_for_them() -> None:
    """LightGBM keeps ["a", "b"] and [children]; that children's codes are not those of grade, only pucboost knows."""
    frame = objects(DATA).drop(columns=["region", "diet"]).assign(grade=pd.Categorical(DATA["grade"]))
    data = puc.Dataset(frame, Y, optional=["grade"], categorical_feature=["children"])
    booster = puc.train(ENGINES["lightgbm"], data, 5)
    assert booster.puc_summary.coded_columns == (frame.columns.get_loc("grade"),)
    expected = booster.predict(frame)
    np.testing.assert_array_equal(puc.predict(booster, frame), expected)
    np.testing.assert_array_equal(puc.predict(booster, pl.from_pandas(frame)), expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_training_continues_with_the_same_categories_only(engine: str) -> None:
    booster, _, _ = reference(engine)
    more = puc.train({**ENGINES[engine]}, dataset(pl.DataFrame(DATA)), 2, init_model=booster)
    assert categories_of(more) == categories_of(booster)
    fewer = {**DATA, "region": [None if v == "east" else v for v in DATA["region"]]}
    with pytest.raises(
        ValueError, match=r"Column 'region' has the categories \['north', 'south', 'Äland'\] …, but init_m"
    ):
        puc.train({**ENGINES[engine]}, dataset(pl.DataFrame(fewer)), 2, init_model=booster)
    regions = ["east", "north", "south", "Äland", "west"]
    longer = categories(fewer).assign(region=pd.Categorical(fewer["region"], categories=regions))
    if engine == "lightgbm":
        puc.train({**ENGINES[engine]}, dataset(longer), 2, init_model=booster)


@pytest.mark.parametrize("engine", ENGINES)
def test_anchored_models_take_every_container(engine: str, tmp_path: Path) -> None:
    params = {**ENGINES[engine], "copies": 3, "anchor": "base"}
    model = puc.train(params, dataset(categories(DATA)), 4)
    expected, raw = model.predict(categories(OTHERS)), model.predict(categories(OTHERS), raw_score=True)
    puc.save_model(model, tmp_path / "model.json")
    loaded = puc.load_model(tmp_path / "model.json")
    for name, convert in CONTAINERS.items():
        table = convert(OTHERS)
        np.testing.assert_array_equal(model.predict(table), expected, err_msg=name)
        np.testing.assert_array_equal(loaded.predict(table, raw_score=True), raw, err_msg=name)
        np.testing.assert_allclose(puc.predict(loaded, table), expected, rtol=1e-12, err_msg=name)
        if name in ("pandas, nullable", "polars, lazy", "Arrow, chunks"):
            own = puc.train(params, dataset(convert(DATA)), 4)
            np.testing.assert_array_equal(own.predict(table), expected, err_msg=name)
    nobody = pl.DataFrame({**OTHERS, **{c: [None] * N for c in ("steps", "diet", "grade", "glucose")}})
    silent = objects(OTHERS).assign(steps=np.nan, diet=None, grade=None, glucose=np.nan)
    np.testing.assert_array_equal(model.predict(nobody), model.predict(silent))


@pytest.mark.parametrize("engine", ENGINES)
def test_anchors_have_codes_of_their_own(engine: str) -> None:
    """The premium of the silent is the legacy model's, whatever order the categories of the new table have."""
    frame = categories(DATA)[["age", "grade"]].rename(columns={"grade": "region"})
    data = {**DATA, "region": DATA["grade"]}

    def premiums(columns: Any) -> tuple[Any, Any]:
        if engine == "lightgbm":
            legacy = lgb.train(ENGINES[engine], lgb.Dataset(columns, Y), 5)
            return legacy, legacy.predict(columns)
        matrix = xgb.DMatrix(columns, Y, enable_categorical=True)
        legacy = xgb.train({"objective": "binary:logistic", "nthread": 1}, matrix, 5)
        return legacy, legacy.predict(matrix)

    legacy, premium = premiums(frame.assign(region=frame["region"].cat.set_categories(list("cafbed"))))
    model = puc.train({**ENGINES[engine], "anchor": legacy}, dataset(arrow(data)), 3)
    for table in (arrow(data), categories(data), pl.LazyFrame(data)):
        np.testing.assert_array_equal(puc.predict(model, table, sharing="withheld"), premium)
        silent = np.flatnonzero(as_pandas(puc.quote(model, table)).notna().sum(axis=1) == 1)
        assert len(silent) > 10
        np.testing.assert_array_equal(model.predict(table)[silent], premium[silent])
    # XGBoost loses names of categories that are not ASCII, LightGBM keeps none of a matrix.
    lost = frame.assign(region=frame["region"].cat.rename_categories(str.upper).cat.rename_categories({"A": "Ä"}))
    legacy, _ = premiums(lost if engine == "xgboost" else lost.assign(region=lost["region"].cat.codes).to_numpy())
    with pytest.raises(ValueError, match="The anchor does not say which categories it was trained on, so column 'reg"):
        puc.train(
            {**ENGINES[engine], "anchor": legacy}, dataset(arrow(data).select(["age", "region", *list(DATA)[4:]])), 3
        )


def test_callable_anchors_and_models_get_the_callers_table_with_nothing_optional() -> None:
    seen: list[Any] = []

    def tariff(table: Any) -> Any:
        seen.append(table)
        return np.zeros(len(table) if not hasattr(table, "num_rows") else table.num_rows)

    for name in ("pandas, nullable", "pandas, Arrow", "pandas, categories", "polars, Categorical", "Arrow, chunks"):
        table = CONTAINERS[name](DATA)
        puc.train({**ENGINES["lightgbm"], "anchor": tariff}, dataset(table), 2)
        assert type(seen[-1]) is type(table)
        erased = nw.from_native(seen[-1], eager_only=True)
        assert all(erased[column].is_null().all() for column in ("steps", "diet", "grade", "glucose"))
        assert len(DATA["region"]) - erased["region"].null_count() == sum(v is not None for v in DATA["region"])
        if name.startswith("pandas"):
            assert seen[-1]["diet"].dtype == table["diet"].dtype
        if name == "pandas, nullable":
            assert (seen[-1].dtypes == table.dtypes).all()
    puc.train({**ENGINES["lightgbm"], "anchor": tariff}, dataset(pl.LazyFrame(DATA)), 2)
    assert isinstance(seen[-1], pl.DataFrame)
