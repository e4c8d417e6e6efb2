"""Studies run, resume after an interruption, run side by side, and say how they were measured."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from benchmarks.catalogue import STUDIES
from benchmarks.harness import measuring, report, running
from benchmarks.harness import study as harness
from benchmarks.harness.running import OutOfTimeError, in_lanes, run_study
from benchmarks.harness.study import TOOK, Study, Unit

QUIET = Console(file=io.StringIO())


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep results in a folder of the test."""
    for module in (running, report):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    return tmp_path


def counting_study(broken: list[int], done: list[int]) -> Study:
    """Return a study of four units that notes what it did, and stops at the broken one."""

    def work(number: int) -> Callable[[], list[dict[str, Any]]]:
        def run() -> list[dict[str, Any]]:
            if number in broken:
                raise KeyboardInterrupt
            done.append(number)
            return [{"square": number**2 / 3}, {"square": None}]

        return run

    return Study("counting", lambda quick: [Unit({"number": i}, work(i)) for i in range(4)])


def test_interrupted_study_goes_on_where_it_stopped(results: Path) -> None:
    broken, done = [2], list[int]()
    study = counting_study(broken, done)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, False, QUIET)
    assert done == [0, 1]
    assert [path.name for path in results.iterdir()] == ["counting.partial.csv"]
    broken.clear()
    rows = run_study(study, False, QUIET)
    assert done == [0, 1, 2, 3]
    assert [row["number"] for row in rows] == ["0", "0", "1", "1", "2", "2", "3", "3"]
    assert rows[2]["square"] == "0.333333"
    assert rows[3]["square"] == ""
    report.keep(study, rows)
    assert [path.name for path in results.iterdir()] == ["counting.csv"]
    assert report.read_csv("counting") == rows


def test_a_study_in_several_sittings(results: Path) -> None:
    done: list[int] = []
    study = counting_study([], done)
    for left in (3, 2, 1):
        with pytest.raises(OutOfTimeError, match=f"counting: {left} of 4 units are left; the next run resumes"):
            run_study(study, False, QUIET, minutes=0)
    assert len(run_study(study, False, QUIET, minutes=0)) == 8
    assert done == [0, 1, 2, 3]


def test_rows_of_other_code_are_measured_again(results: Path) -> None:
    done: list[int] = []
    study = counting_study([], done)
    run_study(study, False, QUIET)
    partial = results / "counting.partial.csv"
    partial.write_text(partial.read_text().replace("numpy ", "numpy 0."))
    run_study(study, False, QUIET)
    assert done == [0, 1, 2, 3] * 2
    run_study(study, False, QUIET, fresh=True)
    assert done == [0, 1, 2, 3] * 3


def test_quick_study_leaves_nothing(results: Path) -> None:
    run_study(counting_study([], []), True, QUIET)
    assert not list(results.iterdir())


@pytest.mark.slow
def test_side_by_side_as_one_after_the_other() -> None:
    """The same rows in the same order from several processes, which say so and share the threads."""
    study, environment = STUDIES["degradation"], dict(os.environ)
    alone, together = (run_study(study, True, QUIET, lanes=lanes) for lanes in (1, 2))
    measured = [[{k: v for k, v in row.items() if k not in ("date", "machine", TOOK)} for row in rows]
                for rows in (alone, together)]  # fmt: skip
    assert len(alone) > 5
    assert measured[0] == measured[1]
    said = {row["machine"].rpartition(", ")[2] for row in together}
    assert said == {harness.circumstances(harness.threads_in(2), 2)["machine"].rpartition(", ")[2]}
    assert "in each of 2 processes" in said.pop()
    assert dict(os.environ) == environment


@pytest.mark.slow
def test_a_failing_unit_loses_no_other() -> None:
    """Here the worker finds another unit in the list than it is asked for, as if the code had changed meanwhile."""
    units = list(STUDIES["degradation"].units(True))
    found = in_lanes("degradation", True, {0: dict(units[0].key), 1: {"data": "other"}}, lanes=2)
    done = []
    with pytest.raises(RuntimeError, match="changed while degradation ran; start it again"):
        done.extend(found)
    assert [place for place, _ in done] == [0]


def test_seed_of_a_row() -> None:
    def unit(key: dict[str, Any], row: dict[str, Any]) -> str:
        study = Study("one", lambda quick: [Unit(key, lambda: [row])], seed="7")
        return run_study(study, True, QUIET)[0]["seed"]

    assert unit({"a": 1}, {"b": 2}) == "7"
    assert unit({"run": 1}, {"b": 2}) == "1"
    assert unit({"run": 1, "seed": 3}, {"b": 2}) == "3"
    assert unit({"run": 1}, {"seed": 4}) == "4"


def test_a_study_of_speed_runs_alone() -> None:
    done: list[int] = []
    run_study(dataclasses.replace(counting_study([], done), alone=True), True, QUIET, lanes=2)
    assert done == [0, 1, 2, 3]  # in this process


def test_means_and_errors() -> None:
    rows = [{"a": "x", "b": "1"}, {"a": "y", "b": "5"}, {"a": "x", "b": "3"}, {"a": "x", "b": ""}]
    groups = measuring.by(rows, "a")
    assert list(groups) == [("x",), ("y",)]
    assert measuring.values(groups["x",], "b") == [1, 3]
    assert measuring.plus_minus([1, 3], 1, sign=True) == "+2.0 ± 1.0"
    assert measuring.plus_minus([5.0]) == "5.00"
    assert measuring.plus_minus([]) == "–"


def test_peak_memory_sees_what_is_freed_again() -> None:
    taken = measuring.peak_memory(lambda: np.ones(40_000_000))
    assert np.isnan(taken) or 200 < taken < 600
