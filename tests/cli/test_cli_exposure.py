"""``--exposure``: a column that is no feature, in training, validation and audits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_tools import ENGINES, run

import pucboost as puc


def policies(n: int = 500, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.normal(size=n), "years": rng.uniform(0.1, 1, n), "steps": rng.normal(size=n)})
    table["claims"] = rng.poisson(3 * table["years"] * np.exp(0.4 * table["age"] + 0.4 * table["steps"]))
    table["steps"] = table["steps"].where(rng.random(n) > 1 / (1 + np.exp(-2 * table["steps"])))
    return table


TABLE, OTHERS = policies(), policies(300, 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    TABLE.to_csv(tmp_path / "people.csv", index=False)
    OTHERS.to_parquet(tmp_path / "others.parquet", index=False)
    return tmp_path


def train(folder: Path, *options: Any, engine: str = "lightgbm") -> int:
    params = [text for key, value in ENGINES[engine].items() for text in ("--param", f"{key}={str(value).lower()}")]
    given = ["--label", "claims", "--exposure", "years", "--optional", "steps", "--rounds", 10, "--engine", engine]
    return run("train", folder / "people.csv", *given, *params, *options, "--out", folder / "model.txt")


def by_hand(engine: str, objective: str, rows: Any = slice(None), **more: Any) -> Any:
    given = {"objective": objective, "seed": 0, "verbosity": -1, "optional": ["steps"], "engine": engine}
    table = TABLE.iloc[rows]
    data = puc.Dataset(table[["age", "steps"]], table["claims"] / table["years"], weight=table["years"])
    return puc.train({**given, **ENGINES[engine], **more}, data, 10)


@pytest.mark.parametrize("engine", ENGINES)
def test_same_model_as_in_python(folder: Path, engine: str, capsys: Any) -> None:
    X = TABLE[["age", "steps"]]
    for objective in (None, "tweedie"):
        assert train(folder, *([] if objective is None else ["--objective", objective]), engine=engine) == 0
        noted = "there is an exposure, so the objective is poisson (--objective chooses another)"
        assert (noted in capsys.readouterr().err) == (objective is None)
        model = puc.load_model(folder / "model.txt")
        assert list(model.consent.feature_names) == ["age", "steps"]
        assert model.puc_summary.per_exposure
        expected = by_hand(engine, objective or "poisson")
        np.testing.assert_array_equal(puc.predict(model, X), puc.predict(expected, X))


def test_validation_by_file_and_by_fraction(folder: Path, capsys: Any) -> None:
    assert train(folder, "--valid", folder / "others.parquet") == 0
    assert "validated on 300 people" in capsys.readouterr().out
    assert train(folder, "--valid-fraction", 0.2) == 0
    assert "validated on 100 people" in capsys.readouterr().out
    OTHERS.drop(columns="years").to_parquet(folder / "others.parquet")
    assert train(folder, "--valid", folder / "others.parquet") == 3
    assert "no column 'years'" in capsys.readouterr().err


def test_audit(folder: Path, capsys: Any) -> None:
    assert train(folder, "--quiet") == 0
    report = folder / "audit.json"
    given = ["audit", folder / "model.txt", folder / "others.parquet", "--label", "claims", "--exposure", "years"]
    given += ["--margin", 0.5, "--relative"]
    assert run(*given, "--json", report) in (0, 2)
    assert json.loads(report.read_text(encoding="utf-8"))["exposure"] == pytest.approx(OTHERS["years"].sum())
    assert "units; margin and penalties are per unit" in capsys.readouterr().out
    OTHERS.assign(years=OTHERS["years"].where(OTHERS.index != 6)).to_parquet(folder / "others.parquet")
    assert run(*given) == 3
    said = capsys.readouterr().err
    assert "row 7" in said
    assert "the value is missing; every row needs an exposure that is finite and above 0" in said
