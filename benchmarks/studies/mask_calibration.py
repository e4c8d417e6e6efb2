"""Whether the silent are right on average, with and without ``calibrate_masks``, on families whose truth is known."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import pucboost as puc
from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit, part_of
from pucboost.simulate import DiscreteFamily, LogisticFamily, squared_puc_gap

FAMILIES: dict[str, Callable[[int], Any]] = {
    "logistic, r=1": lambda seed: LogisticFamily.random(5, 1, seed=seed),
    "logistic, r=3": lambda seed: LogisticFamily.random(5, 3, seed=seed),
    "logistic, r=5": lambda seed: LogisticFamily.random(5, 5, seed=seed),
    "discrete, r=5": lambda seed: DiscreteFamily.random(3, 5, seed=seed),
    "logistic, r=10": lambda seed: LogisticFamily.random(5, 10, seed=seed),
}
ENGINES = {"LightGBM": "lightgbm", "XGBoost": "xgboost"}
TREES: dict[str, tuple[dict[str, Any], int]] = {
    "15 leaves": ({"num_leaves": 15, "learning_rate": 0.1}, 100),
    "31 leaves": ({"num_leaves": 31, "learning_rate": 0.1}, 100),
    "63 leaves, twice the rounds": ({"num_leaves": 63, "learning_rate": 0.05}, 200),
}
SEEDS = range(3)
MOST_SETS, PEOPLE_OF_A_SET = 64, 2_000
SHIFT, WORST, GAP, LOSS = "shift", "worst set", "squared PUC-gap", "loss"


def units(quick: bool) -> list[Unit]:
    """List every family, engine and seed."""
    families, seeds = (["logistic, r=3"], SEEDS[:1]) if quick else (list(FAMILIES), SEEDS)
    return [
        Unit({"family": family, "engine": engine, "seed": seed}, partial(measure, family, engine, seed, quick))
        for seed in seeds
        for family in families
        for engine in ENGINES
    ]


def measure(name: str, engine: str, seed: int, quick: bool) -> Sequence[Row]:
    """Train trees of every size with and without constants per mask, and judge them on other people."""
    family = FAMILIES[name](seed)
    train, test = family.sample(2_000 if quick else 20_000, 100 + seed), family.sample(20_000, 200 + seed)
    sets = _sets(family, test.X, seed)
    virtual = puc.augment(test.X[:10_000], test.y[:10_000], optional=family.optional, seed=seed)
    rows: list[Row] = []
    for trees, (params, rounds) in TREES.items():
        for calibrated in (False, True):
            start = time.perf_counter()
            given = {"objective": "binary", "engine": ENGINES[engine], "verbosity": -1, "num_threads": 1, "seed": seed}
            booster = puc.train(
                {**given, **params, "optional": family.optional, "calibrate_masks": calibrated},
                puc.Dataset(train.X, train.y),
                rounds // 10 if quick else rounds,
            )
            seconds = time.perf_counter() - start
            shifts = [float(np.mean(puc.predict(booster, X) - truth)) for X, truth in sets]
            gap = squared_puc_gap(puc.predict(booster, test.X), family, test.X)
            rows.append(
                {
                    "trees": trees,
                    "constants per mask": "yes" if calibrated else "no",
                    SHIFT: float(np.sqrt(np.mean(np.square(shifts)))),
                    WORST: float(np.abs(shifts).max()),
                    GAP: float(gap),
                    LOSS: _log_loss(puc.predict(booster, virtual[0]), virtual[1], virtual[2]),
                    "seconds": seconds,
                }
            )
    return rows


def _sets(family: Any, X: Array, seed: int) -> list[tuple[Array, Array]]:
    """Return for each set S people who share at least S, the rest erased, and what is justified for them.

    With many groups there are too many sets; some are drawn, always with the one that is nothing.
    """
    consent = puc.Consent.declare(family.optional, family.feature_names)
    shared, r = consent.availability(X), consent.n_groups
    drawn = np.random.default_rng(seed).permutation(np.arange(1, 2**r))
    out = []
    for mask in [0, *drawn.tolist()]:
        who = np.flatnonzero((shared & np.uint64(mask)) == mask)[:PEOPLE_OF_A_SET]
        if len(who) >= PEOPLE_OF_A_SET // 10 and len(out) < MOST_SETS:
            shown = X[who].copy()
            shown[:, consent.columns_outside(mask)] = np.nan
            out.append((shown, family.puc_prediction(shown)))
    return out


def _log_loss(told: Array, y: Array, weight: Array) -> float:
    p = np.clip(told, 1e-9, 1 - 1e-9)
    return float(np.average(-(y * np.log(p) + (1 - y) * np.log1p(-p)), weights=weight))


def table(rows: Rows) -> Table:
    """Return one line per family, engine and size of trees, without → with constants."""
    measures = (SHIFT, WORST, GAP, LOSS)
    columns = ["family", "engine", "trees", *(f"{measure} ×10⁴" for measure in measures), "seconds"]
    groups = dict.fromkeys((row["family"], row["engine"], row["trees"]) for row in rows)
    lines = []
    for family, engine, trees in groups:
        of = [row for row in rows if (row["family"], row["engine"], row["trees"]) == (family, engine, trees)]

        def means(measure: str, of: Rows = of) -> list[float]:
            return [
                statistics.mean(float(row[measure]) for row in of if row["constants per mask"] == flag)
                for flag in ("no", "yes")
            ]

        numbers = [" → ".join(f"{1e4 * mean:.1f}" for mean in means(measure)) for measure in measures]
        lines.append([family, engine, trees, *numbers, " → ".join(f"{mean:.1f}" for mean in means("seconds"))])
    return columns, lines


PAGE = part_of(table, "family", "engine", "trees", "shift ×10⁴", "worst set ×10⁴", "squared PUC-gap ×10⁴", "seconds")
STUDY = Study("mask_calibration", units, table, page=PAGE)
