"""Which columns of a file the command line reads, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from cli_tools import ENGINES, PEOPLE, features, read, run, train_arguments, unchanged, write_table

import pucboost as puc
from pucboost._tables import table_files


def test_the_model_says_which_columns_are_categories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], models: dict[str, Path]
) -> None:
    out = tmp_path / "out.csv"
    train = PEOPLE.assign(region=np.where(PEOPLE["region"] == "north", "12", PEOPLE["region"]))
    data = write_table(train, tmp_path / "train.csv")
    model = tmp_path / "model.txt"
    with unchanged(tmp_path):
        assert run(*train_arguments(data, model)) == 3
    message = capsys.readouterr().err
    assert "column 'region': '12' is a number, but the column began with text. Correct it" in message
    assert "--categorical region" in message
    assert run(*train_arguments(data, model), "--categorical", "region") == 0
    booster = puc.load_model(model)
    assert booster.pandas_categorical[0] == ["12", "east", "south"]

    # All the regions look like numbers now, and one is unknown.
    digits = PEOPLE.assign(region="12")
    digits.loc[3, "region"] = "13"
    X = features()
    X["region"] = pd.Categorical(digits["region"].where(digits["region"] == "12"), categories=["12", "east", "south"])
    wanted = puc.predict(booster, X)
    capsys.readouterr()
    for name, frame in (("a.csv", digits), ("b.parquet", digits), ("c.parquet", digits.astype({"region": int}))):
        assert run("predict", model, write_table(frame, tmp_path / name), "--out", out) == 0
        np.testing.assert_array_equal(read(out)["prediction"], wanted)
        shown = "13" if name == "c.parquet" else "'13'"
        assert capsys.readouterr().err == (
            f"pucboost: column 'region' has 1 values that the model does not know, the first {shown} in row 4; they "
            "were read as missing\n"
        )

    text = write_table(PEOPLE.astype({"age": object}).replace({"age": {PEOPLE["age"][5]: "old"}}), tmp_path / "d.csv")
    for engine in ENGINES:
        with unchanged(tmp_path):
            assert run("predict", models[engine], text, "--out", out) == 3
        first = int((PEOPLE["age"] == PEOPLE["age"][5]).argmax()) + 1
        assert capsys.readouterr().err == (
            f"pucboost: error: {text}, row {first}, column 'age': 'old' is not a number. The model was trained on "
            "numbers there\n"
        )


@pytest.mark.parametrize("engine", ENGINES)
def test_models_trained_in_python_on_numeric_categories(
    engine: str, tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    X = features()[["smoker", "region", "age", "glucose"]].assign(one=pd.Categorical(["k"] * len(PEOPLE)))
    X["age"] = pd.Categorical(PEOPLE["age"] // 10)
    model, out = tmp_path / ("model.txt" if engine != "xgboost" else "model.ubj"), tmp_path / "out.csv"
    params = {"objective": "binary", "verbosity": -1, "optional": ["glucose"], "engine": engine, **ENGINES[engine]}
    booster = puc.train(params, puc.Dataset(X, PEOPLE["claim"]), 5)
    puc.save_model(booster, model)
    for age in (PEOPLE["age"] // 10, (PEOPLE["age"] // 10).astype(float)):
        data = write_table(PEOPLE.assign(age=age, one="k"), tmp_path / "data.csv")
        assert run("predict", model, data, "--out", out) == 0
        np.testing.assert_array_equal(read(out)["prediction"], puc.predict(booster, X))
    if engine != "xgboost":
        X["region"] = X["region"].cat.as_ordered()
        booster = puc.train(params, puc.Dataset(X, PEOPLE["claim"]), 5)
        puc.save_model(booster, model)
        assert run("predict", model, data, "--out", out) == 0
        np.testing.assert_array_equal(read(out)["prediction"], puc.predict(booster, X))


def test_columns_of_a_table_to_predict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], models: dict[str, Path]
) -> None:
    out, booster = tmp_path / "out.csv", puc.load_model(models["lightgbm"])
    shuffled = PEOPLE[PEOPLE.columns[::-1]].drop(columns=["diet", "claim"]).assign(more=[[1]] * len(PEOPLE))
    data = write_table(shuffled.rename(columns={"glucose": "Glucose"}), tmp_path / "a.parquet")
    assert run("predict", models["lightgbm"], data, "--out", out) == 0
    wanted = puc.predict(booster, features(PEOPLE.assign(diet=None, glucose=np.nan)))
    np.testing.assert_array_equal(read(out)["prediction"], wanted)
    assert capsys.readouterr().err == (
        f"pucboost: {data} has no column of group 'glucose' (glucose), so it counts as withheld by everybody; did you "
        "mean 'Glucose'?\n"
        f"pucboost: {data} has no column of group 'diet' (diet), so it counts as withheld by everybody\n"
    )
    for missing, message in (
        ("age", "has no column 'age', which the model was trained on; its columns are id, region, smoker"),
        ("pulse", "has no column 'pulse', which the model was trained on"),  # only one of the two of its group
    ):
        data = write_table(PEOPLE.drop(columns=missing), tmp_path / "b.csv")
        with unchanged(tmp_path):
            assert run("quote", models["xgboost"], data, "--out", out) == 3
        assert message in capsys.readouterr().err


def test_kept_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str], models: dict[str, Path]) -> None:
    kept = PEOPLE.assign(
        id=[f"{i:03}" for i in range(len(PEOPLE))],
        note=['say "NA", please', "NA", ""] + ["x"] * (len(PEOPLE) - 3),
        day=pd.Timestamp("2024-02-29"),
        kind=pd.Categorical(["a"] * len(PEOPLE)),
        tags=[[1, 2]] * len(PEOPLE),
    )
    data = write_table(kept.drop(columns="tags"), tmp_path / "a.csv")
    out = tmp_path / "out.csv"
    arguments = ["predict", models["lightgbm"], data, "--out", out]
    assert run(*arguments, "--keep", "id,note", "--keep", "age,id") == 0
    got = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert list(got) == ["id", "note", "age", "prediction"]
    assert got.loc[:2, "id"].tolist() == ["000", "001", "002"]
    assert got.loc[:2, "note"].tolist() == ['say "NA", please', "NA", ""]

    parquet = write_table(kept, tmp_path / "a.parquet")
    out = tmp_path / "out.parquet"
    assert run("predict", models["lightgbm"], parquet, "--out", out, "--keep", "age,day,kind,tags") == 0
    schema = pq.read_schema(out)
    assert [str(schema.field(name).type) for name in ("age", "prediction")] == ["int64", "double"]
    assert read(out)["day"].tolist() == kept["day"].tolist()
    assert read(out)["tags"][0].tolist() == [1, 2]

    capsys.readouterr()
    for table, options, message in (
        (data, ["--keep", "idd"], "has no column 'idd' (--keep); did you mean 'id'?"),
        (parquet, ["--keep", "tags"], "column 'tags' is of type list<element: int64>, which CSV cannot hold"),
        (
            write_table(kept[kept.columns[:8]].assign(prediction=1), tmp_path / "b.csv"),
            ["--keep", "prediction"],
            "the output would have two columns 'prediction'",
        ),
    ):
        with unchanged(tmp_path):
            assert run("predict", models["lightgbm"], table, "--out", tmp_path / "new.csv", *options) == 3
        assert message in capsys.readouterr().err


def test_too_many_subsets_are_counted_in_the_rows_of_the_file(
    tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str], models: dict[str, Path], monkeypatch: Any
) -> None:
    monkeypatch.setattr(table_files, "BATCH_BYTES", 800)
    X = features()
    shared = X["steps"].notna() * 1 + X["glucose"].notna() + X["diet"].notna()
    data = write_table(PEOPLE[(shared < 3) | (PEOPLE.index > 300)], tmp_path / "a.csv")
    row = int((pd.read_csv(data)[["steps", "glucose", "diet"]].notna().sum(axis=1) == 3).argmax()) + 1
    best = ["--sharing", "best", "--favourable", "lower"]
    arguments = ["predict", models["lightgbm"], data, *best, "--max-subsets", 4, "--out"]
    with unchanged(tmp_path):
        assert run(*arguments, tmp_path / "out.csv") == 3
    assert f"{data}, row {row}: this person shares 3 groups, 2^3 subsets, more than --max-subsets 4" in (
        capsys.readouterr().err
    )
    assert row > 100
    assert run(*arguments, tmp_path / "out.csv", "--search", "greedy") == 0
