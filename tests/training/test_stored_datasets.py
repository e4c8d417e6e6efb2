"""Datasets over tables that are not in memory, and labels that are names of columns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from engine_kits import EngineKit, every_engine
from tools import QUIET, skip_without_peak_memory

import pucboost as puc
from pucboost._engines import boosters_of
from pucboost._tables import sources, table_files

OPTIONAL = {"app": ["steps"], "blood": ["glucose"]}
PARAMS: dict[str, Any] = {**QUIET, "num_threads": 1, "min_data_in_leaf": 5, "copies": 2, "objective": "poisson"}
FIELDS = {"label": "claims", "weight": "w", "exposure": "years", "init_score": "start"}
FEATURES = ["age", "region", "steps", "glucose"]


def people(n: int = 500, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "claims": rng.poisson(1.0, n),
            "age": rng.uniform(20, 80, n).astype(np.float32),
            "w": rng.uniform(0.5, 2, n),
            "region": rng.choice(["north", "south", "west"], n),
            "steps": rng.integers(0, 20_000, n).astype(float),
            "years": rng.uniform(0.1, 1, n),
            "glucose": rng.normal(105, 18, n).round(),
            "start": rng.normal(size=n) / 10,
        }
    )
    frame.loc[rng.random(n) < 0.3, "steps"] = np.nan
    frame.loc[rng.random(n) < 0.3, "glucose"] = np.nan
    return frame


FRAME, OTHERS = people(), people(seed=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people").mkdir()
    for i, lo in enumerate(range(0, len(FRAME), 200)):
        FRAME[lo : lo + 200].to_parquet(tmp_path / "people" / f"{i}.parquet")
    return tmp_path / "people"


def in_memory(frame: pd.DataFrame = FRAME) -> puc.Dataset:
    given: dict[str, Any] = {field: frame[column].to_numpy() for field, column in FIELDS.items()}
    return puc.Dataset(frame[FEATURES], optional=OPTIONAL, **given)


def text_of(booster: Any) -> str:
    text: str = booster.model_to_string()
    return text[: text.index("parameters:")]


def raw(booster: Any, X: Any) -> Any:
    return boosters_of(booster).predict(booster, X.to_numpy(dtype=np.float64), raw_score=True)


STORED = {
    "folder": lambda path: str(path),
    "path": lambda path: path,
    "dataset": lambda path: ds.dataset(path),
    "lazy": lambda path: pl.scan_parquet(path / "*.parquet"),
    "Arrow, in memory": lambda path: ds.dataset(path).to_table(),
    "pandas, in memory": lambda path: pd.read_parquet(path),
}


@pytest.mark.parametrize("kind", STORED)
@pytest.mark.parametrize("on_disk", [False, True], ids=["small", "mapped"])
def test_columns_may_be_named(kind: str, on_disk: bool, folder: Path, monkeypatch: Any) -> None:
    if on_disk:
        monkeypatch.setattr(sources, "MEMORY_BYTES", 1_000)
    reference = puc.train(PARAMS, in_memory(), 5, valid_sets=[in_memory(OTHERS)])
    given = STORED[kind](folder)
    data = puc.Dataset(given, optional=OPTIONAL, **FIELDS)
    OTHERS.sample(frac=1.0, axis=1, random_state=0).to_parquet(folder.parent / "others.parquet")
    others: Any = folder.parent / "others.parquet" if "memory" not in kind else OTHERS
    booster = puc.train(PARAMS, data, 5, valid_sets=[puc.Dataset(others, optional=OPTIONAL, **FIELDS)])
    assert text_of(booster) == text_of(reference)
    assert booster.best_score == reference.best_score
    assert booster.puc_summary == reference.puc_summary
    assert data.label == "claims"
    np.testing.assert_array_equal(puc.predict(booster, given), puc.predict(reference, FRAME))
    pd.testing.assert_frame_equal(
        puc.quote(booster, folder.parent / "others.parquet"), puc.quote(reference, OTHERS[FEATURES])
    )


@every_engine
def test_with_nothing_optional_and_from_pairs(kit: EngineKit, folder: Path) -> None:
    """LightGBM itself would take the name for that of a text file, and the label for a number."""
    params = {**kit.quiet, "engine": kit.name, "objective": kit.objectives["l2"], kit.threads: 1}
    numbers = FRAME[["claims", "age", "w", "steps", "glucose"]]
    numbers.to_parquet(folder.parent / "numbers.parquet")
    X, y = numbers.drop(columns="claims"), numbers["claims"].to_numpy()
    expected = puc.train(params, (X, y), 3)
    for given in (folder.parent / "numbers.parquet", pl.LazyFrame(numbers), numbers):
        booster = puc.train(params, (given, "claims"), 3)
        np.testing.assert_array_equal(raw(booster, X), raw(expected, X))
        with pytest.raises(ValueError, match="no consent schema"):
            puc.quote(booster, X)
    folds: dict[str, Any] = {"nfold": 2, "stratified": False}
    result = puc.cv({**params, "optional": ["steps"]}, (folder.parent / "numbers.parquet", "claims"), 2, **folds)
    assert result == puc.cv({**params, "optional": ["steps"]}, (X, y), 2, **folds)


def test_feature_name_chooses_columns(folder: Path) -> None:
    chosen = ["glucose", "age"]
    data = puc.Dataset(folder, "claims", feature_name=chosen, optional=["glucose"])
    booster = puc.train(PARAMS, data, 3, valid_sets=[puc.Dataset(folder, "claims")])
    assert booster.feature_name() == chosen
    expected = puc.train(PARAMS, puc.Dataset(FRAME[chosen], FRAME["claims"].to_numpy(), optional=["glucose"]), 3)
    assert text_of(booster) == text_of(expected)
    np.testing.assert_array_equal(puc.predict(booster, folder), puc.predict(expected, FRAME[chosen]))


def test_the_index_of_a_pandas_table_is_no_feature(tmp_path: Path) -> None:
    indexed = FRAME[["claims", "age", "steps"]].set_axis([f"p{i}" for i in range(len(FRAME))])
    indexed.to_parquet(tmp_path / "indexed.parquet")
    booster = puc.train(PARAMS, puc.Dataset(tmp_path / "indexed.parquet", "claims", optional=["steps"]), 2)
    assert booster.feature_name() == ["age", "steps"]


def test_labels_may_be_arrays(folder: Path) -> None:
    data = puc.Dataset(folder, FRAME["claims"].to_numpy(), feature_name=FEATURES, optional=OPTIONAL)
    expected = puc.Dataset(FRAME[FEATURES], FRAME["claims"].to_numpy(), optional=OPTIONAL)
    assert text_of(puc.train(PARAMS, data, 3)) == text_of(puc.train(PARAMS, expected, 3))


def test_subsets_and_anchors(folder: Path) -> None:
    """An anchor is asked about the table as it is, so that is read whole."""
    rows = np.arange(0, len(FRAME), 2).tolist()
    data = puc.Dataset(folder, "claims", feature_name=FEATURES, optional=OPTIONAL).subset(rows)
    expected = puc.Dataset(FRAME[FEATURES].iloc[rows], FRAME["claims"].to_numpy()[rows], optional=OPTIONAL)
    assert text_of(puc.train(PARAMS, data, 3)) == text_of(puc.train(PARAMS, expected, 3))
    seen: list[Any] = []

    def tariff(table: Any) -> Any:
        seen.append(table)
        return np.zeros(len(table))

    data = puc.Dataset(folder, "claims", feature_name=FEATURES, optional=OPTIONAL)
    model = puc.train({**PARAMS, "anchor": tariff}, data, 3)
    assert isinstance(seen[0], pa.Table)
    assert seen[0].column_names == FEATURES
    np.testing.assert_array_equal(puc.predict(model, folder), puc.predict(model, FRAME[FEATURES]))


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "label": ({"label": "claim"}, r"train_set, .*people, has no column 'claim' \(label\); did you mean 'claims'\?"),
    "weight": ({"weight": "weight"}, r"has no column 'weight' \(weight\); its columns are claims, age"),
    "two roles": ({"weight": "claims"}, r"Column 'claims' of train_set, .*people, is both label and weight"),
    "feature": ({"feature_name": ["age", "Steps"]}, r"people, has no column 'Steps'; did you mean 'steps'\?"),
    "feature and label": ({"feature_name": ["age", "claims"]}, "Column 'claims' of .* is the label, and cannot be a f"),
    "missing label": ({"label": "glucose"}, r"0\.parquet, row \d+, column 'glucose': the value is missing; every row"),
    "negative weight": ({"weight": "start"}, r"0\.parquet, row \d+, column 'start': the value is -.*not negative"),
    "text": ({"label": "region"}, r"0\.parquet, row 1, column 'region': '.*' is not a number\. Labels must be numbers"),
    "length": ({"label": [1.0, 2.0]}, "label of train_set must have one value for each of the 500 rows"),
    "no label": ({"label": None}, "train_set has no label"),
}


@pytest.mark.parametrize(("given", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_errors_name_file_and_column(given: dict[str, Any], message: str, folder: Path) -> None:
    data = puc.Dataset(folder, **{"label": "claims", "optional": ["steps"], **given})
    with pytest.raises(ValueError, match=message):
        puc.train(PARAMS, data, 2)


def test_errors_about_other_tables(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.parquet"):
        puc.train(PARAMS, puc.Dataset("nowhere.parquet", "y", optional=["a"]), 2)
    with pytest.raises(
        ValueError, match=r"label of train_set is 'y', the name of a column, but the columns have no na"
    ):
        puc.train(PARAMS, puc.Dataset(np.zeros((5, 2)), "y", optional=[1]), 2)
    with pytest.raises(ValueError, match=r"train_set has no column 'y' \(label\)"):
        puc.train(PARAMS, puc.Dataset(FRAME, "y", optional=["steps"]), 2)
    with pytest.raises(ValueError, match="text or binary file"):
        puc.train(PARAMS, lgb.Dataset("table.csv", "y"), 2)
    FRAME.assign(day=pd.Timestamp("2025-01-01")).to_parquet(tmp_path / "dates.parquet")
    with pytest.raises(ValueError, match=r"dates\.parquet: Column 'day' has dtype timestamp"):
        puc.train(PARAMS, puc.Dataset(tmp_path / "dates.parquet", "claims", optional=["steps"]), 2)
    FRAME.assign(name=[f"{i} Street" for i in range(len(FRAME))]).to_parquet(tmp_path / "names.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_files, "MAX_CATEGORIES", 100)
        with pytest.raises(
            ValueError,
            match=r"'name' is text with more than 100 .*Leave it out.*feature_name chooses",
        ):
            puc.train(PARAMS, puc.Dataset(tmp_path / "names.parquet", "claims", optional=["steps"]), 2)
    booster = puc.train(PARAMS, puc.Dataset(folder, "claims", feature_name=FEATURES, optional=OPTIONAL), 2)
    FRAME.drop(columns="age").to_parquet(tmp_path / "less.parquet")
    with pytest.raises(ValueError, match=r"less\.parquet has no column 'age', which the model was trained on"):
        puc.predict(booster, tmp_path / "less.parquet")
    FRAME.drop(columns="steps").to_parquet(tmp_path / "less.parquet")
    with pytest.warns(
        UserWarning, match=r"less\.parquet has no column of group 'app' \(steps\); it counts as withheld"
    ):
        got = puc.predict(booster, tmp_path / "less.parquet")
    np.testing.assert_array_equal(got, puc.predict(booster, FRAME.assign(steps=np.nan)))


# 1,200,000 × 40 float32 are 192 MB in memory; labels and plan take 30 MB, a piece that is read some 10.
SCRIPT = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq, pucboost as puc
from pathlib import Path
from pucboost._engines import boosters_of
from pucboost._tables import sources, table_files

def private():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024  # MB

path, n, columns = sys.argv[1], 1_200_000, 40
rng = np.random.default_rng(0)
schema = pa.schema([(f"c{j}", pa.float32()) for j in range(columns)] + [("y", pa.int8())])
with pq.ParquetWriter(path, schema) as file:
    for _ in range(n // 20_000):
        part = [rng.normal(size=20_000).astype(np.float32) for _ in range(columns)] + [rng.integers(0, 2, 20_000)]
        file.write_table(pa.table(dict(zip(schema.names, part)), schema))
sources.MEMORY_BYTES = 1 << 20
from pucboost._training.datasets import read_dataset
small = puc.Dataset(pa.table({name: [0.0] * 50 for name in schema.names}), "y", optional=["c1"])
read_dataset(small, "small")
before = private()
table = read_dataset(puc.Dataset(path, "y", optional=["c1"]), "train_set")
assert table.source.dtype == np.float32 and table.source.n_rows == n
print(private() - before)
"""


def test_a_table_is_never_in_memory(tmp_path: Path) -> None:
    skip_without_peak_memory()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "people.parquet")],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "ARROW_DEFAULT_MEMORY_POOL": "system",
            # Or what the C library keeps, for every thread and of what was freed, decides the result.
            "MALLOC_ARENA_MAX": "1",
            "MALLOC_MMAP_THRESHOLD_": str(1 << 17),
            "MALLOC_TRIM_THRESHOLD_": str(1 << 17),
        },
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 96, done.stdout  # half of the table; measured 46 to 52
