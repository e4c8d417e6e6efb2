"""Ordered consent declared as levels, and as groups that know nothing of each other, on families with known truth."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from functools import partial

import numpy as np

import pucboost as puc
from benchmarks.harness.study import Row, Rows, Study, Table, Unit
from pucboost.simulate import DiscreteFamily, squared_puc_gap

LEVELS = (3, 6, 9)
COPIES = (1.5, 2.0, 4.0)
ENGINES = {"LightGBM": "lightgbm", "native": "native", "XGBoost": "xgboost"}
XGBOOSTS_OWN = {"learning_rate": 0.3, "max_depth": 6}
SEEDS = range(6)
FREE, ORDERED = "free groups", "levels"
GAP, ROWS, SECONDS = "squared PUC-gap", "virtual rows per person", "seconds"


def units(quick: bool) -> list[Unit]:
    """List every number of levels, engine and seed."""
    levels, engines, seeds = ((3,), ["native"], SEEDS[:1]) if quick else (LEVELS, list(ENGINES), SEEDS)
    return [
        Unit({"levels": k, "engine": engine, "seed": seed}, partial(measure, k, engine, seed, quick))
        for k in levels
        for engine in engines
        for seed in seeds
    ]


def measure(levels: int, engine: str, seed: int, quick: bool) -> Sequence[Row]:
    """Train on the same people under both declarations; the truth is that of levels, for sets that people can share."""
    family = DiscreteFamily.random(2, levels, seed, nested=True)
    train, test = family.sample(2_000 if quick else 20_000, 100 + seed), family.sample(20_000, 200 + seed)
    declared = {FREE: [family.n_base + number for number in range(levels)], ORDERED: family.optional}
    rows: list[Row] = []
    for copies in COPIES:
        for declaration, optional in declared.items():
            given = {"objective": "binary", "engine": ENGINES[engine], "verbosity": -1, "num_threads": 1, "seed": seed}
            given |= XGBOOSTS_OWN if engine == "XGBoost" else {}
            start = time.perf_counter()
            booster = puc.train(
                {**given, "optional": optional, "copies": copies}, puc.Dataset(train.X, train.y), 10 if quick else 100
            )
            seconds = time.perf_counter() - start
            gap = float(np.mean(squared_puc_gap(puc.predict(booster, test.X), family, test.X)))
            virtual_rows = booster.puc_summary.virtual_rows / len(train.y)
            rows.append({"copies": copies, "declared as": declaration, GAP: gap, ROWS: virtual_rows, SECONDS: seconds})
    return rows


def table(rows: Rows) -> Table:
    """Return one line per number of levels, copies and engine, free groups → levels."""
    columns = ["levels", "copies", "engine", f"{GAP} ×10⁴", "ratio ± standard error", ROWS, SECONDS]
    lines = []
    for levels, copies, engine in dict.fromkeys((row["levels"], row["copies"], row["engine"]) for row in rows):
        here = [row for row in rows if (row["levels"], row["copies"], row["engine"]) == (levels, copies, engine)]
        free, ordered = ([row for row in here if row["declared as"] == declared] for declared in (FREE, ORDERED))
        ratios = [float(b[GAP]) / float(a[GAP]) for a, b in zip(free, ordered, strict=True)]
        error = statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else float("nan")
        lines.append(
            [
                str(levels),
                str(copies),
                engine,
                _both(free, ordered, GAP, 1e4, ".1f"),
                f"{statistics.mean(ratios):.2f} ± {error:.2f}",
                _both(free, ordered, ROWS, 1.0, ".2f"),
                _both(free, ordered, SECONDS, 1.0, ".1f"),
            ]
        )
    return columns, lines


def _both(free: Rows, ordered: Rows, measure: str, scale: float, form: str) -> str:
    return " → ".join(f"{scale * statistics.mean(float(row[measure]) for row in of):{form}}" for of in (free, ordered))


STUDY = Study("levels", units, table)
