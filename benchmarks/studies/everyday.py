"""What training under consent costs on ordinary tables: CPU time beside plain ``lgb.train`` on the same people.

Four columns are optional, text is categories for both, and all else is the default. Both make their Dataset within the
time that is measured. With one thread, CPU time hardly depends on what else the machine does; elapsed time with two
threads stands beside it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd

import pucboost as puc
from benchmarks.data import insurance_like, load, loaded
from benchmarks.harness.measuring import median_ratio
from benchmarks.harness.study import Array, Row, Rows, Table, Unit

OPTIONAL = {
    "adult": {"age": "-", "educational-num": "-", "hours-per-week": "-", "capital-gain": "-"},
    "income": {"AGEP": "-", "SCHL": "-", "WKHP": "-", "OCCP": ""},
    "give_me_some_credit": {"MonthlyIncome": "", "NumberOfDependents": "", "DebtRatio": "+", "age": "-"},
    "freMTPL2freq": {"BonusMalus": "+", "DrivAge": "-", "VehAge": "+", "VehPower": "+"},
}
"""What is optional in each table, and whether high or low values are withheld; others are withheld by chance."""

WIDE = "30 columns of numbers"
FEW_PEOPLE = 5_000
GOALS = {
    ("adult", "200 rounds"): 0.95, ("income", "200 rounds"): 1.3, ("give_me_some_credit", "200 rounds"): 0.75,
    ("freMTPL2freq", "200 rounds"): 0.95, (WIDE, "200 rounds"): 0.7,
    **{(name, f"{FEW_PEOPLE:,} people"): 1.4 for name in OPTIONAL},
}  # fmt: skip
SETTINGS = {
    "200 rounds": ("auto", 200, None, 1), "50 rounds": ("auto", 50, None, 1),
    f"{FEW_PEOPLE:,} people": ("auto", 200, FEW_PEOPLE, 1), "LightGBM engine": ("lightgbm", 200, None, 1),
    "two threads, elapsed": ("auto", 200, None, 2),
}  # fmt: skip
"""Engine, rounds, people and threads of each setting."""


def table(name: str, quick: bool) -> tuple[Any, Array, list[Any], dict[str, Any]]:
    """Return a table partly withheld, its label, what is optional, and the parameters of its loss."""
    if name == WIDE:
        X, y, optional = insurance_like(3_000 if quick else 300_000)
        return X, y, optional, {"objective": "binary"}
    task = load(name, quick) if quick else loaded(name, quick)
    optional = [column for column in OPTIONAL[name] if column in task.X]
    X = withheld(task.X, {column: OPTIONAL[name][column] for column in optional})
    objective = {"classification": "binary", "poisson": "poisson"}.get(task.source.kind, "regression")
    return X, task.y, optional, {"objective": objective}


def withheld(X: pd.DataFrame, signs: dict[str, str]) -> pd.DataFrame:
    """Return the table with a part of each optional column withheld; "+" means that high values are."""
    ranked = {column: sign for column, sign in signs.items() if sign}
    X = puc.simulate.withhold_sigmoid(X, puc.simulate.paper_strength(X, ranked), 0)
    rng = np.random.default_rng(0)
    for column, sign in signs.items():
        if not sign:
            X[column] = X[column].where(rng.random(len(X)) < 0.7)
    return X


def units(quick: bool) -> Iterable[Unit]:
    """List one unit for each table and setting."""
    for name in (*OPTIONAL, WIDE):
        settings = list(SETTINGS)[:2] if name == WIDE else list(SETTINGS)[: 3 if quick else None]
        for setting in settings:
            yield Unit({"table": name, "setting": setting}, lambda n=name, s=setting: measure(n, s, quick))  # type: ignore[misc]


def measure(name: str, setting: str, quick: bool) -> list[Row]:
    """Train both in turn, and return the median ratio."""
    engine, rounds, people, threads = SETTINGS[setting]
    X, y, optional, params = table(name, quick)
    if people is not None and people < len(y):
        few = np.sort(np.random.default_rng(1).choice(len(y), people, replace=False))
        X, y = (X.iloc[few].reset_index(drop=True) if isinstance(X, pd.DataFrame) else X[few]), y[few]
    params = {**params, "verbosity": -1, "num_threads": threads}
    rounds = 5 if quick else rounds
    clock = time.process_time if threads == 1 else time.perf_counter
    jobs: dict[str, Callable[[], Any]] = {
        "plain": lambda: lgb.train(params, lgb.Dataset(X, y), rounds),
        "puc": lambda: puc.train({**params, "engine": engine, "optional": optional}, lgb.Dataset(X, y), rounds),
    }
    taken: dict[str, list[float]] = {"plain": [], "puc": []}
    for turn in range(2 if quick else 6 if len(y) < 100_000 else 4):
        for job, run in jobs.items():
            start = clock()
            run()
            if turn:  # the first is warm-up
                taken[job].append(clock() - start)
    ratio = median_ratio(taken["puc"], taken["plain"])
    goal = GOALS.get((name, setting))
    took = {job: f"{statistics.median(times):.3g}" for job, times in taken.items()}
    wanted = {"goal": "" if goal is None else f"≤ {goal:g}"}
    return [{"people": len(y), "× lgb.train": f"{ratio:.2f}", **wanted, "s": took["puc"], "s, plain": took["plain"]}]


def page(rows: Rows) -> Table:
    """Return the ratios: a line for each table, a column for each setting."""
    found = {(row["table"], row["setting"]): row["× lgb.train"] for row in rows}
    people = {row["table"]: int(row["people"]) for row in rows if "people" not in row["setting"]}
    lines = [
        [f"{name} ({people[name]:,})", *(found.get((name, setting), "–") for setting in SETTINGS)] for name in people
    ]
    return ["table (people)", *SETTINGS], lines
