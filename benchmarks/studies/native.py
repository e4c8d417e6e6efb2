"""Whole trainings of the native engine against plain ``lgb.train`` on the people, their Datasets included."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import lightgbm as lgb
import numpy as np

import pucboost as puc
from benchmarks.data import insurance_like
from benchmarks.harness.measuring import alternate, median_ratio, ratio_row
from benchmarks.harness.study import Row, Rows, Table, Unit

PARAMS = {"objective": "binary", "verbosity": -1, "num_threads": 2}
ROUNDS = 100


@dataclass(frozen=True)
class Case:
    """A table, the parameters of both, and the numbers of copies with the ratio that is wanted."""

    name: str
    table: Callable[[int], tuple[Any, Any, Any]]
    n_rows: int
    copies: dict[int, str]
    params: dict[str, Any] = field(default_factory=dict)
    dataset: dict[str, Any] = field(default_factory=dict)
    lightgbm: bool = False
    """Whether LightGBM trains on the same copies, too."""


def _one_hot(n_rows: int) -> tuple[Any, Any, Any]:
    """Ten questions with ten answers each as 100 columns; half of the questions are optional."""
    rng = np.random.default_rng(0)
    answers = rng.integers(0, 10, (n_rows, 10))
    X = (answers[:, :, None] == np.arange(10)).astype(np.float32)
    y = (np.sin(answers).sum(axis=1) + rng.normal(size=n_rows) > 0).astype(np.float32)
    withheld = rng.random((n_rows, 5)) < 0.2 + 0.04 * answers[:, 5:]
    X[:, 5:][withheld] = np.nan
    groups = {f"question {k}": list(range(10 * k, 10 * k + 10)) for k in range(5, 10)}
    return X.reshape(n_rows, 100), y, groups


def _categories(n_rows: int) -> tuple[Any, Any, Any]:
    """Three columns of 50 categories, one of them optional, beside the numbers."""
    X, y, optional = insurance_like(n_rows)
    rng = np.random.default_rng(1)
    for column in (0, 1, optional[0]):
        present = ~np.isnan(X[:, column])
        X[present, column] = rng.integers(0, 50, present.sum())
    y = ((np.sin(X[:, 0]) + np.cos(X[:, 1]) > 0) ^ (rng.random(n_rows) < 0.3)).astype(np.float32)
    return X, y, optional


def _classes(n_rows: int) -> tuple[Any, Any, Any]:
    X, _, optional = insurance_like(n_rows)
    score = np.nan_to_num(X[:, :8].sum(axis=1) + X[:, optional[0]]) + np.random.default_rng(2).normal(size=n_rows)
    return X, np.digitize(score, np.quantile(score, [0.2, 0.4, 0.6, 0.8])).astype(np.float32), optional


def _counts(n_rows: int) -> tuple[Any, Any, Any]:
    X, _, optional = insurance_like(n_rows)
    rate = np.exp(-1.0 + 0.3 * X[:, :4].sum(axis=1) + 0.3 * np.nan_to_num(X[:, optional[0]]))
    return X, np.random.default_rng(3).poisson(rate).astype(np.float32), optional


def _three_values(n_rows: int) -> tuple[Any, Any, Any]:
    X, y, optional = insurance_like(n_rows)
    return np.clip(np.round(X), -1, 1), y, optional


CASES = (
    Case("20 base + 10 optional", insurance_like, 300_000, {2: "", 4: "≤ 0.65", 8: "≤ 0.75"}, lightgbm=True),
    Case("20 base + 10 optional", insurance_like, 1_000_000, {4: "≤ 0.65", 8: "≤ 0.75"}),
    Case("20 base + 10 optional", insurance_like, 20_000, {4: "≤ 0.8", 8: "≤ 0.8"}),
    Case(
        "63 leaves, 100 base + 10 optional", lambda n: insurance_like(n, 100), 300_000, {4: "≤ 0.75"},
        {"num_leaves": 63},
    ),
    Case("100 one-hot columns", _one_hot, 300_000, {4: "≤ 1.0"}),
    Case(
        "three columns of 50 categories", _categories, 300_000, {4: "≤ 0.9"},
        dataset={"categorical_feature": [0, 1, 20]},
    ),
    Case("five classes", _classes, 100_000, {4: "≤ 0.9"}, {"objective": "multiclass", "num_class": 5}),
    Case("Poisson", _counts, 300_000, {4: "≤ 0.9"}, {"objective": "poisson"}),
    Case("three values a column", _three_values, 300_000, {4: ""}),
)  # fmt: skip


def units(quick: bool) -> Iterable[Unit]:
    """List one unit per case."""
    for number, case in enumerate(CASES[:2] if quick else CASES):
        yield Unit({"case": str(number)}, lambda case=case: measure(case, quick))  # type: ignore[misc]


def measure(case: Case, quick: bool) -> list[Row]:
    """Time plain LightGBM and the native engine in turn."""
    n_rows, rounds, repeat = (case.n_rows // 50, 5, 1) if quick else (case.n_rows, ROUNDS, 3)
    X, y, optional = case.table(n_rows)
    params = {**PARAMS, **case.params}

    def protected(engine: str, copies: int) -> None:
        own = {"engine": engine, "optional": optional, "copies": copies}
        puc.train({**params, **own}, lgb.Dataset(X, y, **case.dataset), rounds)

    jobs: dict[str, Callable[[], Any]] = {"plain": lambda: lgb.train(params, lgb.Dataset(X, y, **case.dataset), rounds)}
    for copies in case.copies:
        jobs[f"native, copies={copies}"] = lambda c=copies: protected("native", c)  # type: ignore[misc]
    if case.lightgbm:
        jobs["LightGBM, copies=4"] = lambda: protected("lightgbm", 4)
    times = alternate(jobs, repeat)
    what = f"{case.name}, N={n_rows:,}"
    targets = {f"native, copies={copies}": target for copies, target in case.copies.items()}
    return [
        ratio_row(f"{what}: {name}", "lgb.train", median_ratio(took, times["plain"]), targets.get(name, ""), took)
        for name, took in times.items()
        if name != "plain"
    ]


def page(rows: Rows) -> Table:
    """Return ratios without seconds."""
    return ["", "× lgb.train"], [[row["what"], row["ratio"]] for row in rows]
