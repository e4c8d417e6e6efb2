"""The same people in every container, and models of them."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import pucboost as puc

N = 400
ENGINES: dict[str, dict[str, Any]] = {
    "lightgbm": {
        "objective": "binary",
        "verbosity": -1,
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "min_data_in_leaf": 5,
        "min_data_per_group": 5,
        "cat_smooth": 1,
    },
    "xgboost": {"engine": "xgboost", "objective": "binary:logistic", "nthread": 1, "verbosity": 0, "max_depth": 4},
}
# Base columns of every kind, an optional group of a number and a text, an optional text, an optional number.
OPTIONAL = {"app": ["steps", "diet"], "grade": ["grade"], "glucose": ["glucose"]}
TEXT, WHOLE = ["region", "diet", "grade"], ["children", "steps"]


def as_pandas(result: Any) -> pd.DataFrame:
    """Quotes and sharing values, which come in the container of their table, as pandas."""
    return result if isinstance(result, pd.DataFrame) else result.to_pandas()


def people(seed: int = 0) -> tuple[dict[str, list[Any]], Any]:
    """Columns of plain Python values, None where they are missing, and labels."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "age": rng.normal(size=N),
        "children": rng.integers(0, 4, N),
        "smoker": rng.random(N) < 0.3,
        "region": rng.choice(["north", "south", "Äland", "east"], N),
        "steps": rng.integers(1_000, 20_000, N),
        "diet": rng.choice(["vegan", "meat"], N),
        "grade": rng.choice(["b", "a", "d", "c", "e", "f"], N),
        "glucose": rng.normal(size=N),
    }
    score = columns["age"] + columns["smoker"] + (columns["region"] == "south") + columns["glucose"]
    score = score + (columns["diet"] == "meat") - np.isin(columns["grade"], ["a", "f"]) + columns["steps"] / 10_000
    y = (score + rng.normal(size=N) > score.mean()).astype(float)
    lists = {name: values.tolist() for name, values in columns.items()}
    for name in ("age", "children", "region", "steps", "diet", "grade", "glucose"):
        for row in np.flatnonzero(rng.random(N) < (0.1 if name in ("age", "children", "region") else 0.4)):
            lists[name][row] = None
    for row in range(0, N, 3):
        lists["steps"][row] = lists["diet"][row] = None
    return lists, y


def objects(data: Any) -> Any:
    return pd.DataFrame({name: pd.Series(v, dtype=object if name in TEXT else None) for name, v in data.items()})


def nullable(data: Any) -> Any:
    return objects(data).astype(
        {
            "age": "Float64",
            "glucose": "Float64",
            "smoker": "boolean",
            **dict.fromkeys(TEXT, "string[pyarrow]"),
            **dict.fromkeys(WHOLE, "Int64"),
        }
    )


def categories(data: Any) -> Any:
    return objects(data).astype(dict.fromkeys(TEXT, "category"))


def arrow(data: Any) -> Any:
    return pa.table(data)


def dictionaries(data: Any) -> Any:
    return pa.table(
        {n: c.dictionary_encode() if n in TEXT else c for n, c in zip(data, arrow(data).columns, strict=True)}
    )


def chunks(data: Any) -> Any:
    """Three chunks, each with a dictionary of its own."""
    parts = [{name: values[lo : lo + 150] for name, values in data.items()} for lo in (0, 150, 300)]
    return pa.concat_tables([dictionaries(part) for part in parts])


def codes(data: Any) -> Any:
    """A matrix, categories as numbers given by hand."""
    frame = categories(data)
    for name in TEXT:
        frame[name] = frame[name].cat.codes.replace(-1, np.nan)
    return frame.to_numpy(dtype=np.float64)


FILES = Path(tempfile.mkdtemp(prefix="pucboost-tests-"))
atexit.register(shutil.rmtree, FILES, ignore_errors=True)


def parquet(data: Any, frame: Callable[[Any], Any] = arrow) -> str:
    """The name of a Parquet file with two row groups."""
    path = FILES / f"{uuid.uuid4()}.parquet"
    table = frame(data)
    pq.write_table(table if isinstance(table, pa.Table) else pa.Table.from_pandas(table), path, row_group_size=300)
    return str(path)


def folder(data: Any) -> Path:
    """A folder of three Parquet files."""
    path = FILES / str(uuid.uuid4())
    path.mkdir()
    for i, lo in enumerate((0, 150, 300)):
        pq.write_table(arrow(data).slice(lo, 150), path / f"{i}.parquet")
    return path


CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "pandas, categories": categories,
    "pandas, objects": objects,
    "pandas, nullable": nullable,
    "pandas, Arrow": lambda data: arrow(data).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas, Arrow dictionaries": lambda data: dictionaries(data).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas, own index": lambda data: objects(data).set_axis(range(N, 2 * N)),
    "polars": pl.DataFrame,
    "polars, NaN": lambda data: pl.DataFrame(data).with_columns(pl.col("age", "glucose").fill_null(float("nan"))),
    "polars, Categorical": lambda data: pl.DataFrame(data).with_columns(pl.col(TEXT).cast(pl.Categorical)),
    "polars, lazy": lambda data: pl.DataFrame(data).lazy(),
    "narwhals": lambda data: nw.from_native(pl.DataFrame(data)),
    "Arrow": arrow,
    "Arrow, dictionaries": dictionaries,
    "Arrow, chunks": chunks,
    "Arrow, of pandas": lambda data: pa.Table.from_pandas(categories(data)),
    "Arrow, batch": lambda data: arrow(data).combine_chunks().to_batches()[0],
    "Parquet": parquet,
    "Parquet, of pandas": lambda data: parquet(data, categories),
    "Parquet, dictionaries": lambda data: parquet(data, dictionaries),
    "Parquet, folder": folder,
    "pyarrow.dataset": lambda data: ds.dataset(folder(data)),
    "numpy": codes,
}
if int(pd.__version__.partition(".")[0]) >= 3:  # before, a missing value became the text "nan"
    CONTAINERS["pandas, str"] = lambda data: objects(data).astype(dict.fromkeys(TEXT, "str"))
DATA, Y = people()
OTHERS, _ = people(seed=1)


def dataset(table: Any, y: Any = Y, **more: Any) -> puc.Dataset:
    if isinstance(table, np.ndarray):
        more = {"feature_name": list(DATA), "categorical_feature": TEXT, **more}
    return puc.Dataset(table, y, **{"optional": OPTIONAL, **more})


def train(engine: str, table: Any, rounds: int = 10, **params: Any) -> Any:
    return puc.train({**ENGINES[engine], "copies": 3, **params}, dataset(table), rounds)


@cache
def reference(engine: str) -> tuple[Any, Any, Any]:
    """A model of pandas categories, and its predictions for those it was trained on and for others."""
    booster = train(engine, categories(DATA))
    expected = puc.predict(booster, categories(DATA))
    assert len(np.unique(expected)) > 50
    return booster, expected, puc.predict(booster, categories(OTHERS))


def trees(booster: Any) -> Any:
    if isinstance(booster, lgb.Booster):
        text: str = booster.model_to_string()
        return text[text.index("\nTree=0") : text.index("end of trees")]
    return json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
