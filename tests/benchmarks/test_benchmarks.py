"""The benchmarks run, and their tables are the CSVs they claim to come from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.catalogue import SETS, STUDIES
from benchmarks.harness import report
from benchmarks.harness import study as harness


def test_pages_show_the_csv() -> None:
    """If this fails, ``python -m benchmarks.run NAME --draw`` writes the pages again."""
    stale = [
        f"{page.name}: {study.name}" for study in STUDIES.values() for page in pages_of(study) if is_stale(study, page)
    ]
    assert not stale
    assert all(
        (harness.FIGURES / f"{name}.png").is_file() for name, study in STUDIES.items() if study.figure is not None
    )


def pages_of(study: harness.Study) -> list[Path]:
    return [report.page_of(study), *report.quoting(study)]


def is_stale(study: harness.Study, page: Path) -> bool:
    text = page.read_text(encoding="utf-8")
    inside = report.content(study) if page == report.page_of(study) else report.short_table(study)
    return report.between_markers(text, study.name, inside) != text


def test_results_and_pages_belong_to_studies() -> None:
    assert {path.stem for path in harness.PAGES.glob("*.md")} == {"index", "about", "studies", *STUDIES}
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
