"""``pucboost monitor`` on real files: months in a row with a state, and nothing written when it fails."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_tools import run
from tools import QUIET

import pucboost as puc


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"b": rng.normal(size=n).round(3), "job": rng.choice(["x", "y"], n), "u": rng.normal(size=n)})
    X["claim"] = (rng.random(n) < 1 / (1 + np.exp(-X["b"]))).astype(float)
    X.loc[rng.random(n) < 0.4, "job"] = None
    X.loc[rng.random(n) < 0.4, "u"] = np.nan
    return X


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("monitor")
    table = people(800, 0)
    params = {**QUIET, "objective": "binary", "optional": ["job", "u"]}
    puc.save_model(puc.train(params, puc.Dataset(table[["b", "job", "u"]], table["claim"]), 5), folder / "model.txt")
    for seed, month in enumerate(("june", "july"), start=1):
        found = people(500, seed)
        found.loc[:2, "job"] = "pilot"
        found.to_csv(folder / f"{month}.csv", index=False)
    return folder


def monitor(folder: Path, month: str, *options: object) -> int:
    return run("monitor", folder / "model.txt", folder / f"{month}.csv", "--threads", 1, *options)


def test_months_in_a_row(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state, page, plain = tmp_path / "state.json", tmp_path / "page.html", tmp_path / "page.md"
    assert monitor(folder, "june", "--state", state) == 0
    assert "pilot" in capsys.readouterr().out
    assert json.loads(state.read_text("utf-8"))["verdict"] == "no outcomes yet"
    judged = ["--label", "claim", "--state", state]
    code = monitor(folder, "june", *judged, "--margin", 0.3, "--html", page, "--markdown", plain)
    assert monitor(folder, "july", *judged, "--quiet") in (0, code)
    last = json.loads(state.read_text("utf-8"))
    assert (last["state"]["looks"], last["state"]["people"]) == (2, 1000)
    assert last["unknown"] == [{"column": "job", "rows": 3, "values": ["pilot"]}]
    assert "Penalties of withholding" in page.read_text("utf-8")
    assert "Penalties of withholding" in plain.read_text("utf-8")
    # The same from Python, given the numbers the file holds.
    frames = [pd.read_csv(folder / f"{month}.csv") for month in ("june", "july")]
    booster, report = puc.load_model(folder / "model.txt"), None
    for frame in frames:
        with pytest.warns(UserWarning, match="does not know"):
            report = puc.monitor(
                booster, frame[["b", "job", "u"]], frame["claim"], margin=0.3, previous=report, num_threads=1
            )
    assert report is not None
    names = {p["name"]: p["value"] for p in last["penalties"]}
    assert names == pytest.approx({p.name: p.value for p in report.penalties})


def test_errors_write_nothing(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state, bad = tmp_path / "state.json", tmp_path / "bad.json"
    bad.write_text("{}", encoding="utf-8")
    for options, message in (
        (["--margin", 0.1], "--margin is about outcomes"),
        (["--label", "claim"], "The first outcomes need a margin"),
        (["--label", "clam", "--margin", 0.1], "clam"),
        (["--html", state], "the same file"),
        (["--reference", bad], "is not a report of pucboost.monitor"),
    ):
        assert monitor(folder, "june", "--state", state, *options) == 3
        assert message in capsys.readouterr().err
        assert not state.exists()
