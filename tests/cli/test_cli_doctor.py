"""``pucboost demo`` and ``pucboost doctor``: what newcomers run, and what a report of a problem should contain."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_tools import run

import pucboost as puc
from pucboost._cli import doctor
from pucboost._engines import ENGINES
from pucboost._kernels import compiling

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_pucboost_does_not_punish_silence_in_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert run("demo", "--rows", 20_000, "--threads", 1) == 0
    out, noted = capsys.readouterr()
    assert noted == ""
    rows = {}
    for line in out.splitlines():
        cells = [cell.strip() for cell in line.split("│")]
        if len(cells) > 4 and re.fullmatch(r"[\d.]+", cells[2]):
            rows[cells[1]] = [float(cell or "nan") for cell in cells[2:-1]]
    assert list(rows) == ["plain LightGBM", "base features only", "pucboost", "the truth"]
    gap, shift, loss, _ = (dict(zip(rows, column, strict=True)) for column in zip(*rows.values(), strict=True))
    assert gap["pucboost"] < min(gap["plain LightGBM"], gap["base features only"]) / 4
    assert abs(shift["pucboost"]) < 1.5 < 15 < shift["plain LightGBM"]
    assert loss["the truth"] < loss["pucboost"] < loss["base features only"]


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    lines = capsys.readouterr().out.splitlines()
    return {line[:24].strip(): line[24:] for line in lines}


@pytest.mark.slow
def test_everything_works_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor") == 0
    found = printed(capsys)
    assert found["pucboost"] == puc.__version__
    assert found["numpy"] == np.__version__
    jobs = ["training", "files", "quotes", "audit"]
    tried = ["kernels", *(f"{engine}: {job}" for engine in ENGINES for job in jobs)]
    assert {what: found[what] for what in tried} == dict.fromkeys(tried, "works")
    assert float(found["seconds"]) >= 0


def test_a_check_that_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_disk(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(doctor, "_kernels", no_disk)
    monkeypatch.setattr("pucboost._engines.ENGINES", ())
    assert run("doctor") == 3
    told = capsys.readouterr()
    assert "kernels                 FAILED: OSError: No space left on device\n" in told.out
    assert told.err == "pucboost: error: 1 of the checks failed\n"


def test_a_model_that_learns_from_silence_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    train = puc.train
    monkeypatch.setattr(
        "pucboost._training.train.train", lambda params, *more: train({**params, "augmentation": "none"}, *more)
    )
    for engine in ENGINES:
        with pytest.raises(doctor._WrongResultError, match=r"the squared PUC-gap is 0\.015, expected less than 0\.006"):
            doctor._World(engine, threads=1).training()


def test_without_trial_nothing_tells_who_the_user_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor, "PACKAGES", ("numpy", "no-such-package"))
    monkeypatch.setattr(doctor, "OPTIONAL_PACKAGES", ("no-such-extra",))
    assert run("doctor", "--no-test") == 0
    found = printed(capsys)
    assert "kernels" not in found
    assert found["NUMBA_CACHE_DIR"] == str(Path("~") / "cache")
    assert found["compiled kernels"].startswith(str(Path("~") / "cache"))
    assert not any(str(tmp_path) in text for text in found.values())
    assert found["no-such-package"] == "NOT INSTALLED"
    assert found["no-such-extra (optional)"] == "not installed"


CHILD = """
import numpy as np, pandas as pd, pucboost as puc
from pucboost._kernels import compiling
from pucboost.demo import insurance_family

def forbidden(*_):
    raise OSError(30, "Read-only file system")

compiling._write = forbidden
people = insurance_family().sample(5_000, 1)
X = pd.DataFrame(people.X, columns=list("abcde"))
for engine in ("native", "lightgbm"):
    params = {"objective": "binary", "engine": engine, "verbosity": -1, "optional": ["c", "d", "e"]}
    model = puc.train(params, puc.Dataset(X, people.y), 3)
    puc.quote(model, X)
    puc.explain(model, X[:50], X)
print(compiling.counts["kept"], compiling.counts["lost"], compiling.counts["found"] > 10)
"""


@pytest.mark.slow
def test_after_warmup_nothing_is_compiled(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}

    def said(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    first = re.fullmatch(
        r"(\d+) kernels compiled in \d+ seconds, \d+ found; kept in (.*)\n", said("-m", "pucboost", "warmup")
    )
    assert first[2] == str(tmp_path / "pucboost")
    assert int(first[1]) == len(list(Path(first[2]).iterdir())) > 40
    assert said("-c", CHILD) == "0 0 True\n"


def test_warmup_where_nothing_can_be_kept(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    works = []

    def work(engine: str, threads: int | None) -> None:
        works.append((engine, threads))
        compiling.counts["lost" if len(works) == 2 else "kept"] += 1

    for name in ("_numbers", "_text", "_many_groups"):
        monkeypatch.setattr(doctor, name, work)
    assert run("warmup", "--threads", 1) == 3
    assert works == [(next(iter(ENGINES)), 1)] * 2
    assert capsys.readouterr().err == (
        "pucboost: error: compiled kernels cannot be kept. Set the environment variable NUMBA_CACHE_DIR to a folder "
        "that can be written to.\n"
    )
    assert run("warmup") == 0
    assert capsys.readouterr().out.startswith("9 kernels compiled in 0 seconds, 0 found; kept in ")
