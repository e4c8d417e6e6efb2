"""The code of every page runs as it stands, and the numbers in its sentences come from somewhere."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import PAGES, ROOT, code_blocks, name_of, prose

sys.path.insert(0, str(ROOT))

from benchmarks.catalogue import STUDIES
from benchmarks.harness import report

WITH_CODE = [page for page in PAGES if code_blocks(page, "python", "sh")]


def printed(page: Path, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(Path(__file__).with_name("run_blocks.py")), str(page)],
        capture_output=True,
        encoding="utf-8",
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "PUCBOOST_DATA": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def measured() -> str:
    """Return what the studies print and their pages show."""
    printed = [study.table(report.all_rows(study)) for study in STUDIES.values()]
    tables = [" | ".join(line) for columns, lines in printed for line in (columns, *lines)]
    return "\n".join([*tables, *map(report.content, STUDIES.values())])


MEASURED = re.compile(r"(?<![\w.,§])[+−-]?\d[\d,]*\.\d+|\d[\d,.]*\s?[%×]|\d{1,3}(?:,\d{3})+")
"""What looks like a result: a decimal fraction, a percentage, a ratio, a large number."""

FOUR_COPIES = {"200,000": "rows up to which balanced makes four copies"}
GIVEN: dict[str, dict[str, str]] = {
    "docs/evidence/anchored.md": {"12,000": "rows"},
    "docs/evidence/degradation.md": {"7,000": "people on whom forests are trained, at most"},
    "docs/evidence/questions.md": {"6,000": "people", "150,000": "new people", "100,000": "people of a table, at most"},
    "docs/evidence/scale.md": FOUR_COPIES,
    "docs/guides/engines.md": FOUR_COPIES,
    "docs/guides/schemes.md": FOUR_COPIES,
    "docs/guides/suitable-data.md": {"131,072": "limit of categories' numbers", "200,000": "default of LightGBM"},
}
"""Numbers that are no results: conventions, thresholds, parameters. Page → number → what it is."""


@pytest.mark.slow  # executed docs: .ci/run tries them
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_runs_and_numbers_are_traced(page: Path, tmp_path: Path) -> None:
    output = printed(page, tmp_path) if page in WITH_CODE else ""
    known = f"{output}\n{measured()}".replace("-", "−")
    given = GIVEN.get(name_of(page), {})
    untraced = [
        number
        for number in (found[0].strip() for found in MEASURED.finditer(prose(page)))
        if number.replace("-", "−").rstrip(" %×") not in known and number not in given
    ]
    assert not untraced, f"{name_of(page)}: no executed block and no measured table shows {untraced}"


def test_a_number_from_nowhere_is_noticed() -> None:
    """The pattern sees what people write as results."""
    text = "It is 12.7 times faster, saves 43 % of 1,234,567 rows, and costs 3 × as much; version 2 and row 7 are none."
    assert [found[0] for found in MEASURED.finditer(text)] == ["12.7", "43 %", "1,234,567", "3 ×"]
