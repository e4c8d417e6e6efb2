"""A mistyped key never gives an ordinary model without a word."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from engine_kits import OPTIONAL, EngineKit, every_engine
from tools import make_table

import pucboost as puc
from pucboost._cli.main import main
from pucboost._models import schema

X, y = make_table(200)


@every_engine
@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("optionals", "optional"),
        ("copys", "copies"),
        ("augmentaton", "augmentation"),
        ("learning_rat", "learning_rate"),
    ],
)
def test_mistyped_keys_are_errors_with_a_suggestion(kit: EngineKit, key: str, meant: str) -> None:
    """Also where nothing else is declared, and where the engine is told to be quiet."""
    message = f"Unknown parameter {key!r}: neither pucboost nor {kit.title} knows it. Did you mean {meant!r}?"
    for params in ({**kit.params, key: OPTIONAL}, {**kit.params, "optional": OPTIONAL, key: 2}):
        for run in (puc.train, puc.cv):
            with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
                run(params, puc.Dataset(X, y), 2)


@every_engine
def test_keys_nobody_knows(kit: EngineKit) -> None:
    with pytest.raises(ValueError, match=f"Unknown parameter 'blorb': neither pucboost nor {kit.title} knows it.$"):
        puc.train({**kit.params, "optional": OPTIONAL, "blorb": 1}, puc.Dataset(X, y), 2)
    with pytest.raises(ValueError, match=r"Unknown parameter 'max_bins_': .* Did you mean 'max_bins'"):
        puc.train({**kit.params, "optional": OPTIONAL}, puc.Dataset(X, y, params={"max_bins_": 7}), 2)
    model = puc.PUCClassifier(engine=kit.name, optional=OPTIONAL, copys=2)
    with pytest.raises(ValueError, match=f"'copys': neither pucboost nor {kit.title} knows it. Did you mean 'copies'"):
        model.fit(X, y)


@every_engine
def test_names_that_differ_in_case(kit: EngineKit) -> None:
    frame = pd.DataFrame(X, columns=["age", "sex", "bmi", "steps", "pulse", "glucose"])
    with pytest.raises(ValueError, match=r"column 'Glucose', which the table does not have. Did you mean 'glucose'\?"):
        puc.train({**kit.params, "optional": ["Glucose"]}, puc.Dataset(frame, y), 2)
    for name, message in (
        ("class_weight", "Give weight to the Dataset, or class_weight to PUCClassifier"),
        ("exposure", "Give exposure to puc.Dataset, or to fit of PUCRegressor"),
    ):
        with pytest.raises(ValueError, match=f"Unknown parameter '{name}': .* {message}"):
            puc.train({**kit.params, "optional": ["glucose"], name: "balanced"}, puc.Dataset(frame, y), 2)
    with pytest.raises(ValueError, match="Unknown parameter 'class_weight'"):  # a regressor has no classes
        puc.PUCRegressor(engine=kit.name, optional=["glucose"], class_weight="balanced").fit(frame, y)


def test_a_table_in_place_of_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.DataFrame(X).to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(ValueError, match=r"is a table file, not a model file. Were the two swapped"):
        puc.load_model(tmp_path / "people.csv")
    people = str(tmp_path / "people.csv")
    assert main(["predict", people, people, "--out", str(tmp_path / "out.csv")]) == 3
    assert "is a table file, not a model file" in capsys.readouterr().err


def test_mistyped_arguments_of_a_dataset() -> None:
    with pytest.raises(TypeError, match=r"Dataset\(\) got an unexpected keyword argument 'optionals'.*'optional'\?"):
        puc.Dataset(X, y, optionals=OPTIONAL)


def test_mistyped_parameters_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame(X, columns=list("abcdef")).assign(claim=y)
    table.to_csv(tmp_path / "people.csv", index=False)
    given = [str(tmp_path / "people.csv"), "--label", "claim", "--optional", "d", "--out", str(tmp_path / "model.txt")]
    assert main(["train", *given, "--param", "num_leafs=3"]) == 3
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("pucboost: error: Unknown parameter 'num_leafs': neither pucboost nor LightGBM knows it.")
    assert not (tmp_path / "model.txt").exists()


def test_what_the_engines_know_still_passes() -> None:
    known = {"verbose": -1, "sub_feature": 0.9, "min_data": 5, "num_thread": 1, "objective": "binary"}
    puc.train({**known, "optional": OPTIONAL}, lgb.Dataset(X, y), 2)
    own = {"verbosity": 0, "colsample_bylevel": 0.5, "sampling_method": "uniform", "nthread": 1, "engine": "xgboost"}
    puc.train({**own, "optional": OPTIONAL}, (X, y), 2)


@every_engine
def test_nothing_optional_is_said_once(kit: EngineKit, caplog: Any) -> None:
    schema.say_unprotected.cache_clear()
    with caplog.at_level(logging.WARNING, logger="pucboost"):
        for _ in range(2):
            booster = puc.train(dict(kit.params), puc.Dataset(X, y), 2)
            assert booster.consent is None
            assert booster.puc_summary is None
            assert puc.consent_of(booster) is None
    told = [record.getMessage() for record in caplog.records if record.name == "pucboost" and record.levelno >= 30]
    assert told == [f"nothing is declared optional, so this is plain {kit.title}: nobody's silence is protected"]
    assert np.isfinite(kit.predict(booster, X)).all()
