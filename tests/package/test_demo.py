"""The command line, run as a person runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pucboost._cli.main import main

ROOT = Path(__file__).parents[2]


def test_demo_prints_a_table_and_pucboost_does_not_punish_silence() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pucboost", "demo", "--rows", "20000"],
        capture_output=True,
        encoding="utf-8",
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"},
    )
    assert done.stderr == ""
    rows = {}
    for line in done.stdout.splitlines():
        cells = [cell.strip() for cell in line.split("│")]
        if len(cells) > 4 and re.fullmatch(r"[\d.]+", cells[2]):
            rows[cells[1]] = [float(cell or "nan") for cell in cells[2:-1]]
    assert list(rows) == ["plain LightGBM", "base features only", "pucboost", "the truth"]
    gap, shift, loss, _ = (dict(zip(rows, column, strict=True)) for column in zip(*rows.values(), strict=True))
    assert gap["pucboost"] < min(gap["plain LightGBM"], gap["base features only"]) / 4
    assert abs(shift["pucboost"]) < 1.5 < 15 < shift["plain LightGBM"]
    assert loss["the truth"] < loss["pucboost"] < loss["base features only"]


def test_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (([], "required: COMMAND"), (["demo", "--rows", "12"], "at least 1000, got '12'")):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 3
        assert message in capsys.readouterr().err


def test_readme_commands_are_the_ones_ci_runs() -> None:
    """README has one command that installs and shows, one that installs and tests; .ci/run takes the latter from it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [line for line in text.splitlines() if line.startswith("python3 -m venv")]
    assert len(commands) == 2
    assert commands[0].endswith(".venv/bin/python -m pucboost demo")
    assert commands[1].endswith(".venv/bin/pytest")
    assert "grep -m1 'bin/pytest' README.md" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
