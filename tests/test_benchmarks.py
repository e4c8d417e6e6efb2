"""The benchmarks run, and their tables are the CSVs they claim to come from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import harness  # noqa: E402

STUDIES = sorted(path.stem for path in harness.RESULTS.glob("*.csv"))


@pytest.mark.parametrize("name", STUDIES)
def test_report_shows_the_csv(name: str) -> None:
    text = harness.REPORT.read_text(encoding="utf-8")
    assert harness.between_markers(text, name, harness.markdown(name)) == text


@pytest.mark.parametrize("name", harness.SHORT_FORMS)
def test_readme_shows_the_csv(name: str) -> None:
    text = harness.README.read_text(encoding="utf-8")
    assert harness.between_markers(text, name, harness.SHORT_FORMS[name]()) == text


def test_every_study_has_results() -> None:
    wanted = "anchored audit audit_power audit_time engines memory quality quotes speed"
    assert wanted.split() == STUDIES


@pytest.mark.parametrize("name", STUDIES)
def test_quick_run(name: str) -> None:
    before = {path: path.read_bytes() for path in harness.RESULTS.iterdir()}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.run", name, "--quick"],
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr
    header = list(harness.read_csv(name)[0])[:2]
    assert all(column.split()[0] in done.stdout for column in header)
    assert {path: path.read_bytes() for path in harness.RESULTS.iterdir()} == before


def test_unknown_marker() -> None:
    with pytest.raises(ValueError, match="no markers"):
        harness.between_markers("text", "nothing", "table")
