"""What the silent are told if some of those who share a category have a rare one, and what sharers lose by the cure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

import pucboost as puc
from benchmarks.data import load
from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit
from pucboost._virtual.rare_categories import RareCategories

PEOPLE_PER_CATEGORY = (1, 5, 15, 25, 60)
ENGINES = {"LightGBM": "lightgbm", "native": "native", "XGBoost": "xgboost"}
SEEDS = range(6)
N = 20_000
FREQUENT = 20
INCOME = "income: occupation, birthplace"
APART, POOLED = "apart", "as one"
SHIFT, SILENT = "shift of the silent", "loss if all were silent"
RARE, SHARERS = "loss, rare category", "loss of sharers"


def units(quick: bool) -> list[Unit]:
    """List every world, engine and seed."""
    worlds: list[int | None] = [2] if quick else [*PEOPLE_PER_CATEGORY, None]
    return [
        Unit({"world": _title(world), "engine": engine, "seed": seed}, partial(measure, world, engine, seed, quick))
        for world in worlds
        for seed in (SEEDS[:1] if quick else SEEDS)
        for engine in ENGINES
    ]


def _title(people: int | None) -> str:
    return INCOME if people is None else f"simulated: {people} who share each rare category"


def measure(people: int | None, engine: str, seed: int, quick: bool) -> Sequence[Row]:
    """Train with rare categories apart and as one, and look at other people."""
    X, y, justified, rare = _income(seed) if people is None else _simulated(people, seed, 2_000 if quick else N)
    half = len(y) // 2
    train, test = slice(half), slice(half, None)
    optional = [column for column in X if isinstance(X[column].dtype, pd.CategoricalDtype) and X[column].isna().any()]
    silent = X.iloc[test].assign(
        **{column: X[column].iloc[test].where(X[column].iloc[test].isna()) for column in optional}
    )
    shares = X.iloc[test][optional].notna().all(axis=1).to_numpy()
    rows: list[Row] = []
    for version in (POOLED,) if engine == "XGBoost" else (APART, POOLED):  # XGBoost tells all categories apart
        with _apart() if version == APART else nullcontext():
            given = {"objective": "regression", "engine": ENGINES[engine], "verbosity": -1, "num_threads": 1}
            more = {"seed": seed, "learning_rate": 0.1, "optional": optional}
            more |= {"max_depth": 6} if engine == "XGBoost" else {}
            booster = puc.train({**given, **more}, (X.iloc[train], y[train]), 10 if quick else 100)
        told, told_silent = puc.predict(booster, X.iloc[test]), puc.predict(booster, silent)
        rows.append(
            {
                "version": version,
                SHIFT: float(np.mean(told_silent - justified[test])),
                RARE: _squared(told, y[test], shares & rare[test]),
                SHARERS: _squared(told, y[test], shares),
                SILENT: _squared(told_silent, y[test], np.ones(len(told), dtype=bool)),
            }
        )
    return rows


def _apart() -> Any:
    """Train as if no category were rare."""
    return patch.object(RareCategories, "of", lambda *_: RareCategories({}))


def _squared(told: Array, y: Array, who: Array) -> float:
    return float(np.mean((told - y)[who] ** 2))


def _simulated(people: int, seed: int, n: int) -> tuple[pd.DataFrame, Array, Array, Array]:
    """Return table, outcome, what the silent should be told, and who has a rare category.

    A fifth of the people have one, which adds 1 + b/2; half share what they have, whatever it is.
    """
    generator = np.random.default_rng(seed)
    b, rare = generator.normal(size=2 * n), generator.random(2 * n) < 0.2
    n_rare = max(2, int(0.1 * n / people))
    category = np.where(rare, FREQUENT + generator.integers(0, n_rare, 2 * n), generator.integers(0, FREQUENT, 2 * n))
    y = 0.3 * b + rare * (1 + b / 2) + generator.normal(scale=0.5, size=2 * n)
    names = pd.Series(pd.Categorical([f"c{code}" for code in category]))
    X = pd.DataFrame({"b": b, "category": names.where(generator.random(2 * n) < 0.5)})
    return X, y, 0.3 * b + 0.2 * (1 + b / 2), rare


def _income(seed: int) -> tuple[pd.DataFrame, Array, Array, Array]:
    """Return the table of incomes, with two fifths of occupations and birthplaces withheld at random.

    What is justified for the silent is not known; its mean is that of the outcomes. Occupations of fewer than 40 people
    are rare: 12 of them would share and be learned from.
    """
    task, generator = load("income"), np.random.default_rng(seed)
    order = generator.permutation(len(task.y))
    X, y = task.X.iloc[order].reset_index(drop=True), task.y[order]
    rare = X["OCCP"].map(X["OCCP"].value_counts()).astype(int).to_numpy() < 40
    withheld = {column: X[column].where(generator.random(len(X)) >= 0.4) for column in ("OCCP", "POBP")}
    return X.assign(**withheld), y, y, rare


def table(rows: Rows) -> Table:
    """Return one line per world and engine, apart → as one; the change of a loss with its standard error."""
    columns = ["world", "engine", SHIFT, *(f"{loss}, change" for loss in (RARE, SHARERS, SILENT))]
    lines = []
    for world, engine in dict.fromkeys((row["world"], row["engine"]) for row in rows):
        of = {
            version: [row for row in rows if (row["world"], row["engine"], row["version"]) == (world, engine, version)]
            for version in (APART, POOLED)
        }
        shifts = " → ".join(_mean([float(row[SHIFT]) for row in found], "+.4f") for found in of.values() if found)
        lines.append([world, engine, shifts, *(_change(of, loss) for loss in (RARE, SHARERS, SILENT))])
    return columns, lines


def _mean(values: list[float], form: str) -> str:
    return f"{statistics.mean(values):{form}}"


def _change(of: dict[str, Rows], loss: str) -> str:
    if not of[APART]:
        return ""
    pairs = zip(of[APART], of[POOLED], strict=True)
    changes = [100 * (float(after[loss]) / float(before[loss]) - 1) for before, after in pairs]
    error = statistics.stdev(changes) / len(changes) ** 0.5 if len(changes) > 1 else float("nan")
    return f"{statistics.mean(changes):+.2f} ± {error:.2f} %"


STUDY = Study("rare_categories", units, table)
