"""``pucboost audit`` on real files: the verdict as exit code, the reports, and nothing written when it fails."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from cli_tools import run
from tools import QUIET

import pucboost as puc
from pucboost._auditing.findings import CERTIFIED, CERTIFIED_IN_PART, INCONCLUSIVE, VIOLATED, VIOLATED_FOR_SOME
from pucboost._cli.audit import EXIT_BY_VERDICT
from pucboost.simulate import LogisticFamily

FAMILY = replace(LogisticFamily.teaser(), lam=np.array([-1.5]))  # who is going to claim shares far less often
COLUMNS = ["age", "income", "score"]
PARAMS = {**QUIET, "objective": "binary", "learning_rate": 0.1}


def people(n: int, seed: int) -> pd.DataFrame:
    sample = FAMILY.sample(n, seed)
    return pd.DataFrame(sample.X, columns=COLUMNS).assign(claim=sample.y)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of three kinds, and people they have not seen."""
    folder = tmp_path_factory.mktemp("audit")
    train, test = people(6000, 0), people(4000, 1)
    test["region"] = np.where(test["age"] > 0, "north", "south")
    test["person"] = np.arange(len(test)) // 2
    test["years"] = 1 + np.arange(len(test)) % 2
    test.to_csv(folder / "people.csv", index=False)
    test.to_parquet(folder / "people.parquet", index=False)
    data = lambda: lgb.Dataset(train[COLUMNS], train["claim"])  # noqa: E731
    puc.save_model(puc.train({**PARAMS, "optional": ["score"]}, data(), 40), folder / "fair.txt")
    lgb.train(PARAMS, data(), 40).save_model(folder / "plain.txt")
    matrix = xgb.DMatrix(train[COLUMNS], train["claim"])
    xgb.train({"objective": "binary:logistic", "nthread": 1}, matrix, 20).save_model(folder / "plain.json")
    return folder


def audit(folder: Path, model: str, *options: Any, data: str = "people.csv", margin: float = 0.05) -> int:
    given = ["--label", "claim", "--margin", margin, "--threads", 1]
    return run("audit", folder / model, folder / data, *given, *options)


def test_reports_with_the_numbers_of_python(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, plain, card = (tmp_path / name for name in ("audit.html", "audit.json", "card.md"))
    options = ["--subgroup", "region", "--cluster", "person", "--weight", "years"]
    written = ["--html", page, "--json", plain, "--markdown", card]
    assert audit(folder, "fair.txt", *options, *written, data="people.parquet") == 0
    assert "Consent audit: CERTIFIED" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "certified" in card.read_text(encoding="utf-8").lower()
    read = json.loads(plain.read_text(encoding="utf-8"))
    assert read["verdict"] == "certified"
    assert read["provenance"]["consent"] == {"score": ["score"]}
    test = pd.read_csv(folder / "people.csv")
    report = puc.audit(
        puc.load_model(folder / "fair.txt"), test[COLUMNS], test["claim"], margin=0.05,
        subgroups=test["region"].to_numpy(), clusters=test["person"].to_numpy(), weight=test["years"],
        num_threads=1,
    )  # fmt: skip
    assert read["penalties"] == json.loads(report.to_json())["penalties"]
    assert {p["subgroup"] for p in read["penalties"]} == {None, "north", "south"}


def test_plain_models_are_violated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for model in ("plain.txt", "plain.json"):
        assert audit(folder, model, "--optional", "score") == 1
        assert "VIOLATED" in capsys.readouterr().out


def test_few_data_are_inconclusive(folder: Path) -> None:
    assert audit(folder, "fair.txt", "--min-count", 5000) == 2


def test_every_verdict_has_an_exit_code_and_fail_on_chooses(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert EXIT_BY_VERDICT == {CERTIFIED: 0, VIOLATED: 1, VIOLATED_FOR_SOME: 1, INCONCLUSIVE: 2, CERTIFIED_IN_PART: 4}
    asked: dict[str, Any] = {}
    verdict, passed = CERTIFIED, False

    def audited(*arguments: Any, **options: Any) -> Any:
        asked.update(options)
        return SimpleNamespace(verdict=verdict, passed=passed, to_html=str, to_json=str, to_markdown=str)

    monkeypatch.setattr("pucboost._auditing.run.audit", audited)
    given = ["--justified", "age,income", "--quiet"]
    for verdict, code in EXIT_BY_VERDICT.items():
        kind = verdict.partition(" ")[0]
        assert audit(folder, "fair.txt", *given) == code
        assert audit(folder, "fair.txt", *given, "--fail-on", "violated,inconclusive,certified in part") == code
        for chosen in ("violated", "inconclusive"):
            assert audit(folder, "fair.txt", *given, "--fail-on", chosen) == (code if kind == chosen else 0)
    assert asked["justified"] == ["age", "income"]
    verdict = CERTIFIED_IN_PART
    assert audit(folder, "fair.txt", "--partial", "0.05", "--cap", "3", "--quiet") == 4
    assert (asked["partial"], asked["cap"]) == (0.05, 3.0)
    passed = True
    assert audit(folder, "fair.txt", "--partial", "allow", "--quiet") == 0


@pytest.mark.slow
def test_people_it_was_trained_on_are_not_certified(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four fifths of a file are trained on; the split is the command's own."""
    key = tmp_path / "key"
    key.write_text("0123456789abcdef-a-secret")
    model, drawn = tmp_path / "model.txt", people(5000, 7).assign(region=lambda t: np.where(t["age"] > 0, "s", "n"))
    for ending in ("csv", "parquet"):
        data = tmp_path / f"people.{ending}"
        drawn.to_csv(data, index=False) if ending == "csv" else drawn.to_parquet(data, index=False)
        train = ["train", data, "--label", "claim", "--optional", "score", "--rounds", 20, "--quiet", "--out", model]
        assert run(*train, "--valid-fraction", 0.2, "--param", f"row_key={key}") == 0
        judge = ["audit", model, data, "--label", "claim", "--margin", 0.1, "--row-key", key]
        assert run(*judge, "--json", tmp_path / "a.json") == 2
        found = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["support"]["trained_on"]
        assert found["lower"] < 0.8 < found["upper"]
        assert found["share"] == pytest.approx(0.8, abs=0.08)
        assert "The model was trained on about" in capsys.readouterr().out
        people(4000, 8).assign(region=lambda t: np.where(t["age"] > 0, "s", "n")).to_csv(
            tmp_path / "o.csv", index=False
        )
        assert run("audit", model, tmp_path / "o.csv", *judge[3:], "--quiet") == 0
    assert run(*train) == 0
    assert run(*judge) == 0
    assert "it keeps nothing about single people" in " ".join(capsys.readouterr().out.split())


MISTAKES = [
    ("fair.txt", ["--label", "clam"], "no column 'clam' (--label)"),
    ("fair.txt", ["--weight", "w"], "no column 'w' (--weight)"),
    ("fair.txt", ["--subgroup", "w"], "no column 'w'"),
    ("fair.txt", ["--exposure", "region"], "Exposures must be numbers"),
    ("fair.txt", ["--margin", "-1"], "margin must be a positive number"),
    ("fair.txt", ["--level", "2"], "level must lie between"),
    ("fair.txt", ["--fail-on", "certified"], "fail_on must be among"),
    ("fair.txt", ["--optional", "score"], "knows what is optional"),
    ("fair.txt", ["--json", Path("missing") / "a.json"], "there is no directory"),
    ("plain.txt", [], "no consent schema"),
    ("plain.txt", ["--optional", "scores"], "no column 'scores' (--optional)"),
    ("people.csv", ["--optional", "score"], "cannot read a model from"),
    ("missing.txt", [], "No such file"),
]


def test_mistakes_write_nothing(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for model, options, message in MISTAKES:
        assert audit(folder, model, "--html", tmp_path / "audit.html", *options) == 3
        assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_rendering_that_fails_leaves_no_other_report(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> str:
        raise ValueError("cannot render")

    report = SimpleNamespace(verdict=CERTIFIED, to_html=str, to_json=str, to_markdown=broken)
    monkeypatch.setattr("pucboost._auditing.run.audit", lambda *_, **options: report)
    assert audit(folder, "fair.txt", "--html", tmp_path / "a.html", "--markdown", tmp_path / "a.md") == 3
    assert list(tmp_path.iterdir()) == []
