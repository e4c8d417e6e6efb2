"""Studies: taken up again after an interruption, data found or explained, models behind one call."""

from __future__ import annotations

import dataclasses
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import models  # noqa: E402
from benchmarks.catalogue import STUDIES  # noqa: E402
from benchmarks.data import sources, stand_ins, tables  # noqa: E402
from benchmarks.harness import keeping, machine, memory, report, summary  # noqa: E402
from benchmarks.harness.lanes import in_lanes  # noqa: E402
from benchmarks.harness.running import run_study  # noqa: E402
from benchmarks.harness.study import TOOK, Study, Unit  # noqa: E402

QUIET = Console(file=io.StringIO())


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep results in a folder of the test."""
    for module in (keeping, report):
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


def test_side_by_side_as_one_after_the_other() -> None:
    """The same rows in the same order from several processes, which say so and share the threads."""
    study, environment = STUDIES["degradation"], dict(os.environ)
    alone, together = (run_study(study, True, QUIET, lanes=lanes) for lanes in (1, 2))
    told = ("date", "machine", TOOK)
    assert len(alone) > 5
    assert [{k: v for k, v in row.items() if k not in told} for row in alone] == [
        {k: v for k, v in row.items() if k not in told} for row in together
    ]
    said = {row["machine"].rpartition(", ")[2] for row in together}
    assert said == {machine.circumstances(machine.threads_in(2), 2)["machine"].rpartition(", ")[2]}
    assert "in each of 2 processes" in said.pop()
    assert dict(os.environ) == environment


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


def test_progress_on_a_terminal_only() -> None:
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=80)
        run_study(counting_study([], []), True, console)
        assert ("4/4" in console.file.getvalue()) == terminal  # type: ignore[attr-defined]


def test_means_and_errors() -> None:
    rows = [{"a": "x", "b": "1"}, {"a": "y", "b": "5"}, {"a": "x", "b": "3"}, {"a": "x", "b": ""}]
    groups = summary.by(rows, "a")
    assert list(groups) == [("x",), ("y",)]
    assert summary.values(groups["x",], "b") == [1, 3]
    assert summary.plus_minus([1, 3], 1, sign=True) == "+2.0 ± 1.0"
    assert summary.plus_minus([5.0]) == "5.00"
    assert summary.plus_minus([]) == "–"


def test_peak_memory_sees_what_is_freed_again() -> None:
    taken = memory.peak_memory(lambda: np.ones(40_000_000))
    assert np.isnan(taken) or 200 < taken < 600


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of data that is empty."""
    monkeypatch.setenv("PUCBOOST_DATA", str(tmp_path))
    monkeypatch.setattr(tables, "fetch_openml", _no_network)
    return tmp_path


def _no_network(**_: Any) -> Any:
    raise URLError("no network")


@pytest.mark.parametrize("name", sources.SOURCES)
def test_tables_from_files(folder: Path, name: str) -> None:
    source = sources.SOURCES[name]
    table = stand_ins.stand_in(name, 300)
    table.to_parquet(folder / f"{name}.parquet")
    task = tables.load(name)
    assert source.label not in task.X
    assert not set(source.drop) & set(task.X.columns)
    assert all(isinstance(kind, pd.CategoricalDtype) or kind == np.float64 for kind in task.X.dtypes)
    assert not np.isnan(task.y).any()
    if source.kind == "classification":
        assert set(task.y) == {0.0, 1.0}
    elif source.kind == "regression":
        assert source.to_natural is (np.expm1 if name == "insurance_hi" else np.exp)
        assert np.allclose(source.to_natural(task.y), table[source.label])
    assert len(tables.load(name, quick=True).y) <= stand_ins.QUICK_ROWS


@pytest.mark.parametrize("name", sources.PAPER)
def test_withholding(folder: Path, name: str) -> None:
    task = tables.load(name, quick=True)
    X, optional = task.withhold_one(seed=3)
    assert 0.1 < X[optional[0]].isna().mean() < 0.9
    assert task.withhold_one(seed=3)[0].equals(X)
    assert X.drop(columns=optional).equals(task.X.drop(columns=optional))
    if name in sources.INDUCED:
        assert task.X[optional].notna().all().all()
        if name != "insurance_hi":  # there λ is so strong that nothing is left to chance
            assert not task.withhold_one(seed=4)[0].equals(X)
        several, columns = task.withhold_several(seed=3)
        assert columns == list(task.source.signs)
        assert several[columns].isna().any().all()


def test_people_are_split(folder: Path) -> None:
    task = tables.load("compas", quick=True)
    for small in (10_000, 10):
        held_out = [test for train, test in task.splits(0, small) if not set(train) & set(test)]
        assert len(held_out) == (5 if small > 10 else 1)
    assert sorted(np.concatenate([test for _, test in task.splits(0)])) == list(range(len(task.y)))


def test_missing_tables_are_explained(folder: Path) -> None:
    with pytest.raises(tables.DataMissingError, match=r"compas\.parquet was not found.*PUCBOOST_DATA"):
        tables.load("compas")
    with pytest.raises(
        tables.DataMissingError, match=r"adult\.parquet was not found, and OpenML did not answer.*network"
    ):
        tables.load("adult")


def test_tables_from_openml(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = sources.SOURCES["diabetes"]
    back = {name: theirs for theirs, name in source.renamed.items()}
    table = stand_ins.stand_in("diabetes", 50)
    theirs = table.rename(columns=back)
    theirs["class"] = np.where(table["Outcome"] == 1, "tested_positive", "tested_negative")

    class Bunch:
        frame = theirs

    monkeypatch.setattr(tables, "fetch_openml", lambda **_: Bunch)
    assert np.array_equal(tables.load("diabetes").y, table["Outcome"])
    Bunch.frame = theirs.drop(columns="plas")
    with pytest.raises(tables.DataMissingError, match=r"lacks the columns \['Glucose'\] of diabetes"):
        tables.load("diabetes")


def test_folder_beside_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PUCBOOST_DATA", raising=False)
    monkeypatch.setattr(tables, "ROOT", tmp_path / "checkout")
    assert tables.find("compas") is None
    (tmp_path / "shared" / "data").mkdir(parents=True)
    path = tmp_path / "shared" / "data" / "compas.parquet"
    stand_ins.stand_in("compas").to_parquet(path)
    assert tables.find("compas") == path


@pytest.mark.parametrize("variant", models.VARIANTS)
@pytest.mark.parametrize("model", [*models.SCIKIT, models.PEOPLES_FOREST, *models.ENGINES])
@pytest.mark.parametrize("name", ["adult", "income"])
def test_models_behind_one_call(folder: Path, model: str, variant: str, name: str) -> None:
    task = tables.load(name, quick=True)
    X, optional = task.withhold_several(0)
    changed = {"rounds": 5} if model in models.ENGINES else {"n_estimators": 5}
    how = {"is_classification": task.is_classification, "seed": 0, **changed}
    fitted = models.fit(model, variant, X, task.y, optional, **how)
    prediction = fitted.predict(X)
    assert prediction.shape == task.y.shape
    assert prediction.std() > 0
    if task.is_classification:
        assert 0 <= prediction.min() <= prediction.max() <= 1
    assert (fitted.virtual_rows > 1) == (variant in ("exhaustive", "balanced"))
    silent = X.assign(**dict.fromkeys(optional, np.nan))
    if variant == "base":
        assert np.allclose(fitted.predict(silent), prediction, rtol=1e-12)  # forests add up in any order
    else:
        assert not np.allclose(fitted.predict(silent), prediction)


@pytest.mark.parametrize("variant", models.VARIANTS)
def test_which_bags_are_the_same(variant: str) -> None:
    task = tables.load("income", quick=True)
    X, optional = task.withhold_several(0)
    how = {"is_classification": False, "seed": 0, "n_estimators": 5}
    default, bagged = (
        models.fit(model, variant, X, task.y, optional, **how).predict(X)
        for model in ("Random Forest", models.BAGGED_FOREST)
    )
    assert np.allclose(default, bagged, rtol=1e-12) == (variant in models.SAME_BAGS)


def test_rows_of_the_same_bags_are_found() -> None:
    def row(model: str, variant: str, run: str) -> dict[str, str]:
        return {"data": "a", "model": model, "variant": variant, "run": run}

    rows = [row("Random Forest", variant, run) for variant in ("base", "exhaustive") for run in "01"]
    rows.append(row(models.BAGGED_FOREST, "exhaustive", "1"))
    assert models.with_same_bags(rows)[5:] == [row(models.BAGGED_FOREST, "base", "1")]
    assert models.variants_of(models.BAGGED_FOREST, models.VARIANTS) == ["exhaustive", "balanced"]
    assert models.variants_of("Extra Trees", models.VARIANTS) == list(models.VARIANTS)


@pytest.mark.parametrize("is_classification", [True, False])
def test_bags_of_people_bring_all_copies(is_classification: bool) -> None:
    """Copies that say the same change nothing, as nobody gets into more bags by having more of them."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200).astype(float)
    source = np.concatenate([np.arange(200), np.arange(80)])  # weights of 1 and ½: sums are exact
    once, often = (models.PeoplesForest(is_classification, 5, n_estimators=10) for _ in range(2))
    once.fit(X, y)
    often.fit(X[source], y[source], 1 / np.bincount(source)[source], source)
    fresh = rng.normal(size=(50, 3))
    assert np.allclose(once.predict(fresh), often.predict(fresh))


def test_imputation(folder: Path) -> None:
    encoder = models.Encoder(("z",), {"z": 7.0}, indicators=True)
    table = pd.DataFrame({"b": [1.0, np.nan], "z": [np.nan, 3.0], "c": pd.Categorical(["x", "y"])})
    assert encoder.complete(encoder.encode(table)).tolist() == [[1, 7, 1, 0, 0], [0, 3, 0, 1, 1]]
