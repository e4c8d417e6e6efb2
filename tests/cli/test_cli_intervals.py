"""``pucboost intervals`` and ``predict --intervals``: what they write is what Python finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_tools import run
from tools import QUIET

import pucboost as puc

BASE = ["age", "job", "steps"]


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"age": rng.normal(size=n).round(3), "job": rng.choice(["x", "y"], n), "steps": rng.normal(size=n)}
    )
    X["years"] = rng.uniform(0.5, 2, n).round(2)
    X["cost"] = (X["age"] + 2 * X["steps"] + rng.normal(size=n)).round(3)
    X["claims"] = rng.poisson(np.exp(X["steps"] / 2) * X["years"])
    X["event"] = (X["cost"] > 0).astype(int)
    X.loc[rng.random(n) < 0.4, "job"] = None
    X.loc[rng.random(n) < 1 / (1 + np.exp(-X["steps"])), "steps"] = np.nan
    return X


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, table = tmp_path_factory.mktemp("intervals"), people(500, 0)
    for label, objective in {"cost": "regression", "claims": "poisson", "event": "binary"}.items():
        data = puc.Dataset(table[BASE], table[label], exposure=table["years"] if label == "claims" else None)
        model = puc.train({**QUIET, "objective": objective, "optional": ["job", "steps"]}, data, 10)
        puc.save_model(model, folder / f"{label}.txt")
    people(400, 1).to_csv(folder / "calibration.csv", index=False)
    people(300, 2).to_parquet(folder / "new.parquet")
    return folder


@pytest.mark.parametrize("label", ["cost", "claims", "event"])
def test_what_python_finds(folder: Path, tmp_path: Path, label: str, capsys: pytest.CaptureFixture[str]) -> None:
    exposure = ["--exposure", "years"] if label == "claims" else []
    kept, out = tmp_path / "intervals.json", tmp_path / "out.parquet"
    given = ["--label", label, *exposure, "--level", 0.8, "--out", kept, "--threads", 1]
    assert run("intervals", folder / f"{label}.txt", folder / "calibration.csv", *given) == 0
    assert "job + steps" in capsys.readouterr().out
    new = folder / "new.parquet"
    assert run("predict", folder / f"{label}.txt", new, "--intervals", kept, "--out", out, "--threads", 1) == 0

    model, table = puc.load_model(folder / f"{label}.txt"), pd.read_csv(folder / "calibration.csv")
    units = table["years"] if label == "claims" else None
    found = puc.intervals(model, table[BASE], table[label], level=0.8, exposure=units)
    assert puc.typing.Intervals.from_json(kept, model) == found
    told = found.predict_interval(pd.read_parquet(new)[BASE])
    written = pd.read_parquet(out)
    names = ["in_set_0", "in_set_1"] if label == "event" else ["lower", "upper"]
    assert written.columns.to_list() == ["prediction", *names, "based_on"]
    for name, column in zip([*names, "based_on"], told.columns, strict=True):
        np.testing.assert_array_equal(written[name].to_numpy(), told[column].to_numpy())


def test_what_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, people_file, out = folder / "event.txt", folder / "calibration.csv", tmp_path / "out.json"
    calibrate = ["intervals", model, people_file, "--out", out]
    for command, message in (
        ([*calibrate, "--label", "event", "--level", 2], "level must lie between 0 and 1"),
        ([*calibrate, "--label", "evnt"], "no column 'evnt'"),
        ([*calibrate, "--label", "cost"], "which is none of the classes of the model"),
        (["intervals", model, people_file, "--label", "event", "--out", people_file], "is both read and written"),
    ):
        assert run(*command) == 3
        assert message in capsys.readouterr().err
        assert not out.exists()
    assert run(*calibrate, "--label", "event", "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    predict = ["predict", model, people_file, "--intervals", out, "--out", tmp_path / "out.csv"]
    for options, message in (
        (["--raw-score"], "leave out --sharing and --raw-score"),
        (["--sharing", "withheld"], "leave out --sharing and --raw-score"),
    ):
        assert run(*predict, *options) == 3
        assert message in capsys.readouterr().err
    assert run("predict", folder / "cost.txt", *predict[2:]) == 3
    assert "holds intervals of other models" in capsys.readouterr().err
    calibrate += ["--label", "event", "--seed", 1, "--quiet"]
    assert run(*calibrate) == 0
    table, loaded = pd.read_csv(people_file), puc.load_model(model)
    assert puc.typing.Intervals.from_json(out, loaded) == puc.intervals(loaded, table[BASE], table["event"], seed=1)
