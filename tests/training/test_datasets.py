"""What a Dataset may be: declarations, subsets, labels in any container, pairs, and tables that are not in memory."""

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
from engine_kits import LIGHTGBM, OPTIONAL, EngineKit, every_engine
from tools import QUIET, make_table, skip_without_peak_memory

import pucboost as puc
from pucboost._engines import boosters_of, engine_named
from pucboost._tables import table_files

PARAMS: dict[str, Any] = {**QUIET, "objective": "binary", "optional": OPTIONAL}


def test_optional_on_dataset_or_in_params() -> None:
    X, y = make_table(300)
    in_params = puc.train(PARAMS, lgb.Dataset(X, y), 3)
    without = {k: v for k, v in PARAMS.items() if k != "optional"}
    on_dataset = puc.train(without, puc.Dataset(X, y, optional=OPTIONAL), 3)
    both = puc.train(PARAMS, puc.Dataset(X, y, optional=OPTIONAL), 3)
    subset = puc.train(without, puc.Dataset(X, y, optional=OPTIONAL).subset(list(range(300))), 3)
    for other in (on_dataset, both, subset):
        assert LIGHTGBM.model(other) == LIGHTGBM.model(in_params)
    with pytest.raises(ValueError, match=r"params\['optional'\] and the optional of train_set differ"):
        puc.train(PARAMS, puc.Dataset(X, y, optional=[3]), 3)


def test_labels_in_any_container() -> None:
    X, y = make_table(200)
    expected = LIGHTGBM.model(puc.train(PARAMS, lgb.Dataset(X, y), 3))
    for label in (pd.DataFrame(y), pd.Series(y), y.tolist(), y[:, None]):
        ours = puc.train(PARAMS, lgb.Dataset(X, label, weight=pd.Series(np.ones(200))), 3)
        assert LIGHTGBM.model(ours) == expected


def test_bins_of_a_reference_are_not_used_for_training() -> None:
    X, y = make_table(200)
    with pytest.warns(UserWarning, match="The reference of train_set is not used"):
        ours = puc.train(PARAMS, lgb.Dataset(X, y, reference=lgb.Dataset(X, y, params={"max_bin": 3})), 2)
    assert LIGHTGBM.model(ours) == LIGHTGBM.model(puc.train(PARAMS, lgb.Dataset(X, y), 2))


def test_constructed_subset_keeps_consent_and_weights() -> None:
    X, y = make_table(400)
    weight, rows = np.linspace(1, 3, 400), list(range(0, 400, 2))
    without = {k: v for k, v in PARAMS.items() if k != "optional"}
    expected = LIGHTGBM.model(puc.train(PARAMS, lgb.Dataset(X[rows], y[rows], weight=weight[rows]), 4))
    whole = puc.Dataset(X, y, optional=OPTIONAL, weight=weight, free_raw_data=False)
    subset = whole.subset(rows).construct()
    assert LIGHTGBM.model(puc.train(without, subset, 4)) == expected
    other = subset.set_weight(weight[rows][::-1].copy())
    assert LIGHTGBM.model(puc.train(without, other, 4)) != expected


@pytest.mark.parametrize("kind", [lgb.Dataset, puc.Dataset])
@pytest.mark.parametrize("engine", ["lightgbm", "native"])
def test_a_dataset_that_lightgbm_refused_can_be_trained_on(engine: str, kind: Any) -> None:
    """It keeps an address of nothing, which ended the process."""
    X, y = make_table(200)
    data = kind(X, y)
    with pytest.raises(lgb.basic.LightGBMError, match="metrics don't match"):
        lgb.train({"objective": "regression", "metric": "multi_logloss", "verbosity": -1}, data, 1)
    given = {"engine": engine, "optional": [5], "objective": "regression", "metric": "l2", **QUIET}
    np.testing.assert_array_equal(puc.train(given, data, 2).predict(X), puc.train(given, kind(X, y), 2).predict(X))


def test_degenerate_tables() -> None:
    X, y = make_table(100)
    constant, silent = X.copy(), X.copy()
    constant[:, :3], silent[:, 3:] = 1.0, np.nan
    for table, label in ((X[:1], y[:1]), (constant, y), (silent, y), (np.nan_to_num(X), y)):
        booster = puc.train(PARAMS, lgb.Dataset(table, label), 3)
        assert np.isfinite(booster.predict(table)).all()
        assert booster.puc_summary.virtual_rows == len(puc.augment(table, label, optional=OPTIONAL)[1])
        if table is silent:  # nobody has anything to withhold
            assert booster.puc_summary.virtual_rows == 100
            plain = lgb.train({**QUIET, "objective": "binary"}, lgb.Dataset(table, y), 3)
            np.testing.assert_array_equal(booster.predict(table), plain.predict(table))
    assert booster.puc_summary.complete_rows < 100 < booster.puc_summary.virtual_rows  # nobody withholds


def test_every_column_optional_is_allowed_with_a_warning() -> None:
    X, y = make_table(2_000, n_base=0)
    with pytest.warns(UserWarning, match="Every column is optional"):
        booster = puc.train({**QUIET, "optional": [0, 1, 2]}, lgb.Dataset(X, y), 50)
    silent = booster.predict(np.full((1, 3), np.nan))[0]
    assert silent == pytest.approx(y.mean(), abs=0.05)


# ----- a pair (X, y) is a Dataset, on every engine


X, y = make_table(300)
X_valid, y_valid = make_table(200, seed=1)

with_and_without = pytest.mark.parametrize("optional", [OPTIONAL, None], ids=["optional", "nothing optional"])


def run(kit: EngineKit, optional: Any, train_set: Any, valid_sets: Any) -> tuple[Any, dict[str, Any]]:
    record: dict[str, Any] = {}
    callbacks: Any = [engine_named(kit.name).recording_callback(record)]
    booster = puc.train({**kit.params, "optional": optional}, train_set, 4, valid_sets=valid_sets, callbacks=callbacks)
    return kit.model(booster), record


@every_engine
@with_and_without
def test_pairs_give_the_model_and_the_metrics_of_datasets(kit: EngineKit, optional: Any) -> None:
    train = puc.Dataset(X, y)
    expected = run(kit, optional, train, [train, puc.Dataset(X_valid, y_valid)])
    assert list(expected[1]) == ["training", "valid_1"]
    pair = (X, y)
    # The same two objects in another tuple are the training set as well.
    for valid_sets in (
        [pair, (X_valid, y_valid)],
        ((X, y), (X_valid, y_valid)),
        [(X, y), lgb.Dataset(X_valid, y_valid)],
    ):
        assert run(kit, optional, pair, valid_sets) == expected


@every_engine
@with_and_without
def test_one_pair_to_validate_on_and_in_cv(kit: EngineKit, optional: Any) -> None:
    expected = run(kit, optional, puc.Dataset(X, y), puc.Dataset(X_valid, y_valid))
    assert list(expected[1]) == ["valid_0"]
    assert run(kit, optional, (X, y), (X_valid, y_valid)) == expected
    params, frame = {**kit.params, "optional": optional}, pd.DataFrame(X, columns=list("abcdef"))
    assert puc.cv(params, (frame, pd.Series(y)), 3, nfold=3) == puc.cv(params, puc.Dataset(frame, y), 3, nfold=3)


@with_and_without
def test_wrong_items_among_validation_sets(optional: Any) -> None:
    params = {"objective": "binary", "verbosity": -1, "optional": optional}
    for wrong in (X_valid, "valid.csv", (X_valid, y_valid, y_valid)):
        message = f"Every item in valid_sets must be a Dataset object. Item 1 has type '{type(wrong).__name__}'"
        with pytest.raises(TypeError, match=message):
            puc.train(params, (X, y), 2, valid_sets=[(X_valid, y_valid), wrong])


# ----- tables that are not in memory, and labels that are names of columns


GROUPS = {"app": ["steps"], "blood": ["glucose"]}
POISSON: dict[str, Any] = {**QUIET, "num_threads": 1, "min_data_in_leaf": 5, "copies": 2, "objective": "poisson"}
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
    return puc.Dataset(frame[FEATURES], optional=GROUPS, **given)


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


@pytest.mark.parametrize("on_disk", [False, True], ids=["small", "mapped"])
def test_columns_may_be_named(on_disk: bool, folder: Path, monkeypatch: Any) -> None:
    if on_disk:
        monkeypatch.setattr(table_files, "MEMORY_BYTES", 1_000)
    reference = puc.train(POISSON, in_memory(), 5, valid_sets=[in_memory(OTHERS)])
    stored = folder.parent / "others.parquet"
    OTHERS.sample(frac=1.0, axis=1, random_state=0).to_parquet(stored)
    for kind, container in STORED.items():
        given, others = container(folder), OTHERS if "memory" in kind else stored
        data = puc.Dataset(given, optional=GROUPS, **FIELDS)
        booster = puc.train(POISSON, data, 5, valid_sets=[puc.Dataset(others, optional=GROUPS, **FIELDS)])
        assert text_of(booster) == text_of(reference), kind
        assert booster.best_score == reference.best_score
        assert booster.puc_summary == reference.puc_summary
        assert data.label == "claims"
        np.testing.assert_array_equal(puc.predict(booster, given), puc.predict(reference, FRAME))
    pd.testing.assert_frame_equal(puc.quote(booster, stored), puc.quote(reference, OTHERS[FEATURES]))


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
    booster = puc.train(POISSON, data, 3, valid_sets=[puc.Dataset(folder, "claims")])
    assert booster.feature_name() == chosen
    expected = puc.train(POISSON, puc.Dataset(FRAME[chosen], FRAME["claims"].to_numpy(), optional=["glucose"]), 3)
    assert text_of(booster) == text_of(expected)
    np.testing.assert_array_equal(puc.predict(booster, folder), puc.predict(expected, FRAME[chosen]))


def test_subsets_and_anchors(folder: Path) -> None:
    """An anchor is asked about the table as it is, so that is read whole."""
    rows = np.arange(0, len(FRAME), 2).tolist()
    data = puc.Dataset(folder, "claims", feature_name=FEATURES, optional=GROUPS).subset(rows)
    expected = puc.Dataset(FRAME[FEATURES].iloc[rows], FRAME["claims"].to_numpy()[rows], optional=GROUPS)
    assert text_of(puc.train(POISSON, data, 3)) == text_of(puc.train(POISSON, expected, 3))
    seen: list[Any] = []

    def tariff(table: Any) -> Any:
        seen.append(table)
        return np.zeros(len(table))

    data = puc.Dataset(folder, "claims", feature_name=FEATURES, optional=GROUPS)
    model = puc.train({**POISSON, "anchor": tariff}, data, 3)
    assert isinstance(seen[0], pa.Table)
    assert seen[0].column_names == FEATURES
    np.testing.assert_array_equal(puc.predict(model, folder), puc.predict(model, FRAME[FEATURES]))


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"label": "claim"}, r"train_set, .*people, has no column 'claim' \(label\); did you mean 'claims'\?"),
    ({"weight": "weight"}, r"has no column 'weight' \(weight\); its columns are claims, age"),
    ({"weight": "claims"}, r"Column 'claims' of train_set, .*people, is both label and weight"),
    ({"feature_name": ["age", "Steps"]}, r"people, has no column 'Steps'; did you mean 'steps'\?"),
    ({"feature_name": ["age", "claims"]}, "Column 'claims' of .* is the label, and cannot be a f"),
    ({"label": "glucose"}, r"0\.parquet, row \d+, column 'glucose': the value is missing; every row"),
    ({"weight": "start"}, r"0\.parquet, row \d+, column 'start': the value is -.*not negative"),
    ({"label": "region"}, r"0\.parquet, row 1, column 'region': '.*' is not a number\. Labels must be numbers"),
    ({"label": [1.0, 2.0]}, "label of train_set must have one value for each of the 500 rows"),
    ({"label": None}, "train_set has no label"),
]


def test_errors_name_file_and_column(folder: Path) -> None:
    for given, message in ERRORS:
        data = puc.Dataset(folder, **{"label": "claims", "optional": ["steps"], **given})
        with pytest.raises(ValueError, match=message):
            puc.train(POISSON, data, 2)


def test_errors_about_other_tables(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.parquet"):
        puc.train(POISSON, puc.Dataset("nowhere.parquet", "y", optional=["a"]), 2)
    with pytest.raises(
        ValueError, match=r"label of train_set is 'y', the name of a column, but the columns have no na"
    ):
        puc.train(POISSON, puc.Dataset(np.zeros((5, 2)), "y", optional=[1]), 2)
    with pytest.raises(ValueError, match=r"train_set has no column 'y' \(label\)"):
        puc.train(POISSON, puc.Dataset(FRAME, "y", optional=["steps"]), 2)
    with pytest.raises(ValueError, match="text or binary file"):
        puc.train(POISSON, lgb.Dataset("table.csv", "y"), 2)
    FRAME.assign(day=pd.Timestamp("2025-01-01")).to_parquet(tmp_path / "dates.parquet")
    with pytest.raises(ValueError, match=r"dates\.parquet: Column 'day' has dtype timestamp"):
        puc.train(POISSON, puc.Dataset(tmp_path / "dates.parquet", "claims", optional=["steps"]), 2)
    FRAME.assign(name=[f"{i} Street" for i in range(len(FRAME))]).to_parquet(tmp_path / "names.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_files, "MAX_CATEGORIES", 100)
        with pytest.raises(
            ValueError,
            match=r"'name' is text with more than 100 .*Leave it out.*feature_name chooses",
        ):
            puc.train(POISSON, puc.Dataset(tmp_path / "names.parquet", "claims", optional=["steps"]), 2)
    booster = puc.train(POISSON, puc.Dataset(folder, "claims", feature_name=FEATURES, optional=GROUPS), 2)
    FRAME.drop(columns="age").to_parquet(tmp_path / "less.parquet")
    with pytest.raises(ValueError, match=r"less\.parquet has no column 'age', which the model was trained on"):
        puc.predict(booster, tmp_path / "less.parquet")
    FRAME.drop(columns="steps").to_parquet(tmp_path / "less.parquet")
    with pytest.warns(
        UserWarning, match=r"less\.parquet has no column of group 'app' \(steps\); it counts as withheld"
    ):
        got = puc.predict(booster, tmp_path / "less.parquet")
    np.testing.assert_array_equal(got, puc.predict(booster, FRAME.assign(steps=np.nan)))


# 600,000 × 40 float32 are 96 MB in memory; labels and plan take 15 MB, a piece that is read some 10.
SCRIPT = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq, pucboost as puc
from pathlib import Path
from pucboost._engines import boosters_of
from pucboost._tables import sources, table_files

def private():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024  # MB

path, n, columns = sys.argv[1], 600_000, 40
rng = np.random.default_rng(0)
schema = pa.schema([(f"c{j}", pa.float32()) for j in range(columns)] + [("y", pa.int8())])
with pq.ParquetWriter(path, schema) as file:
    for _ in range(n // 20_000):
        part = [rng.normal(size=20_000).astype(np.float32) for _ in range(columns)] + [rng.integers(0, 2, 20_000)]
        file.write_table(pa.table(dict(zip(schema.names, part)), schema))
table_files.MEMORY_BYTES = 1 << 20
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
    assert float(done.stdout) < 48, done.stdout  # half of the table


def test_a_dataset_shows_what_it_holds_without_being_constructed() -> None:
    X, groups = np.ones((1200, 3)), {"app": [1], "blood": [2]}
    for dataset, text in (
        (puc.Dataset(X, X[:, 0], optional=groups), "1,200 rows × 3 columns, with label, optional: app, blood"),
        (puc.Dataset(X), "1,200 rows × 3 columns, no label, nothing declared optional"),
        (puc.Dataset("people.parquet", "claim", optional=["steps"]), "'people.parquet', with label, optional: steps"),
    ):
        assert repr(dataset) == f"<Dataset: {text}>"
        assert dataset._handle is None
    constructed = puc.Dataset(X, X[:, 0], params={"verbosity": -1, "feature_pre_filter": False}).construct()
    assert constructed.data is None
    assert repr(constructed) == "<Dataset: 1,200 rows × 3 columns, with label, nothing declared optional>"
