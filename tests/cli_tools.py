"""What the tests of the command line share: people, their files, and ways to run a command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.csv as pa_csv

import pucboost as puc
from pucboost._cli.main import main

ROOT = Path(__file__).parents[1]
GROUPS = {"fitness": ["steps", "pulse"], "glucose": ["glucose"], "diet": ["diet"]}
OPTIONAL = ["--optional", "fitness=steps,pulse", "--optional", "glucose", "--optional", "diet"]
ENGINES = {
    "lightgbm": {"num_threads": 1, "deterministic": True, "force_row_wise": True},
    "xgboost": {"nthread": 1},
    "native": {"num_threads": 1},
}


def make_people(n: int = 400) -> pd.DataFrame:
    """People with numbers and categories among base and optional columns; categories do not appear in sorted order."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "id": [f"p-{i:04}" for i in range(n)],
            "age": rng.integers(18, 80, n),
            "region": rng.choice(["south", "north", "east"], n),
            "smoker": rng.random(n) < 0.3,
            "steps": rng.normal(8000, 2000, n),
            "pulse": rng.normal(65, 8, n),
            "glucose": rng.normal(5, 1, n),
            "diet": rng.choice(["vegan", "meat"], n),
        }
    )
    risk = people["age"] / 40 + people["glucose"] - 5 + people["smoker"] + rng.normal(size=n)
    people["claim"] = (risk > 1.5).astype(int)
    people.loc[rng.random(n) < 0.4, ["steps", "pulse"]] = np.nan
    people.loc[(people["glucose"] > 5.2) & (rng.random(n) < 0.7), "glucose"] = np.nan
    people["diet"] = people["diet"].where(rng.random(n) < 0.5)
    return people


PEOPLE = make_people()


def features(people: pd.DataFrame = PEOPLE) -> pd.DataFrame:
    """The feature table as one would make it in Python."""
    X = people.drop(columns=["id", "claim"])
    for column, categories in (("region", ["east", "north", "south"]), ("diet", ["meat", "vegan"])):
        X[column] = pd.Categorical(X[column], categories=categories)
    return X


def by_hand(engine: str = "lightgbm", **params: Any) -> Any:
    given = {"objective": "binary", "seed": 0, "verbosity": -1, "optional": GROUPS, "engine": engine, **ENGINES[engine]}
    return puc.train({**given, **params}, puc.Dataset(features(), PEOPLE["claim"]), 12)


def write_table(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


def read(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pa_csv.read_csv(path).to_pandas()


def train_arguments(data: Path, out: Path, engine: str = "lightgbm") -> list[str]:
    params = [text for key, value in ENGINES[engine].items() for text in ("--param", f"{key}={str(value).lower()}")]
    options = ["--label", "claim", "--ignore", "id", "--rounds", "12", "--engine", engine]
    return ["train", str(data), *options, *OPTIONAL, *params, "--out", str(out)]


def run(*arguments: Any) -> int:
    """Run the command line in this process."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return int(stop.code or 0)


def start(*arguments: Any, command: Any = None, env: Any = None, **options: Any) -> subprocess.Popen[Any]:
    """Start the real command, in which warnings are errors, too, or another one."""
    command = command or [sys.executable, "-W", "error", "-m", "pucboost", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    # Tables are small, and threads that wait for one another are slow on a busy machine.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
    # What a shell starts in the background ignores Ctrl-C, and so would the command; a handler is not inherited.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(command, cwd=ROOT, env=environment, **{**pipes, **options})
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Assert that no file appears, disappears or changes."""
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    yield
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
