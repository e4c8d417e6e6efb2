"""The benchmarks run, and their tables are the CSVs they claim to come from."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks import run
from benchmarks.catalogue import SETS, STUDIES
from benchmarks.harness import report
from benchmarks.harness import study as harness


@pytest.mark.parametrize("name", STUDIES)
def test_report_shows_the_csv(name: str) -> None:
    text = harness.REPORT.read_text(encoding="utf-8")
    assert report.between_markers(text, name, report.content(STUDIES[name])) == text
    if STUDIES[name].figure is not None:
        assert (harness.FIGURES / f"{name}.png").stat().st_size > 5_000


@pytest.mark.parametrize("name", [name for name, study in STUDIES.items() if study.in_short is not None])
def test_short_tables_show_the_csv(name: str) -> None:
    pages = report.summaries_of(STUDIES[name])
    assert pages
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert report.between_markers(text, name, report.short_content(STUDIES[name])) == text


def test_results_belong_to_studies() -> None:
    assert {path.stem for path in harness.RESULTS.glob("*.csv") if ".partial" not in path.name} == set(STUDIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_quick_run(name: str) -> None:
    before = {path: path.read_bytes() for path in harness.RESULTS.iterdir()}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.run", name, "--quick"],
        capture_output=True,
        encoding="utf-8",
        cwd=harness.ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr
    header = STUDIES[name].table(report.read_csv(name))[0][:2]
    assert all(column.split()[0] in done.stdout for column in header)
    assert {path: path.read_bytes() for path in harness.RESULTS.iterdir()} == before


def test_sets_of_studies() -> None:
    assert SETS["all"] == (*SETS["package"], *SETS["evidence"]) == tuple(STUDIES)
    for name, study in STUDIES.items():
        assert all(list(STUDIES).index(read) < list(STUDIES).index(name) for read in study.reads)


def test_lanes_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["kernels", "--lanes", "0"])
    assert "--lanes must be at least 1, not 0" in capsys.readouterr().err


def test_unknown_marker() -> None:
    with pytest.raises(ValueError, match="no markers"):
        report.between_markers("text", "nothing", "table")
