"""Whether the silent are right on average, with and without ``calibrate_masks``, on families whose truth is known."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from functools import partial

import numpy as np

import pucboost as puc
from benchmarks.harness.measuring import by, values
from benchmarks.harness.study import Row, Rows, Study, Table, Unit
from benchmarks.studies.fair_by_default import (
    FIXED,
    GAP,
    MEAN_SQUARE,
    OTHERS,
    WORLDS,
    mean_squared_penalty,
    ratio,
    said,
)

OF = [name for name in WORLDS if "quantile" not in name]  # for which there are no constants
ALSO = {"lightgbm": ("discrete, r=4", "logistic, r=5", "amounts, r=3"), "xgboost": ("logistic, r=5",)}
SIZES, SEEDS = (2_000, 20_000), 3
TREES, ROUNDS = {"num_leaves": 15}, 150
WITH = "calibrate_masks"
CPU = "CPU"


def measure(name: str, engine: str, n: int, seed: int, quick: bool) -> list[Row]:
    """Train with and without constants, and judge both on other people."""
    world = WORLDS[name](seed)
    X, y, exposure = world.draw(n, 100 + seed)
    others = world.draw(OTHERS // 20 if quick else OTHERS, 200 + seed)[0]
    truth = world.truth(others)
    shared = ~np.isnan(others[:, list(world.optional)]) @ (1 << np.arange(len(world.optional)))
    rows: list[Row] = []
    for flag in (False, True):
        own = {**FIXED, **world.params, **TREES, "engine": engine, "seed": seed, "optional": list(world.optional)}
        start = time.process_time()
        model = puc.train({**own, WITH: flag}, puc.Dataset(X, y, exposure=exposure), 10 if quick else ROUNDS)
        took = time.process_time() - start
        error = puc.predict(model, others, num_threads=1) - truth
        squared = mean_squared_penalty(error, shared)
        rows.append({WITH: str(flag), MEAN_SQUARE: squared, GAP: float(np.mean(error**2)), CPU: took})
    return rows


def units(quick: bool) -> Iterable[Unit]:
    """List a unit per engine, world, number of people and seed."""
    for seed in range(1 if quick else SEEDS):
        for engine, names in {"native": OF[::3] if quick else OF, **({} if quick else ALSO)}.items():
            for name in names:
                for n in SIZES[: 1 if quick else None] if engine == "native" else SIZES[-1:]:
                    key = {"of": name, "engine": engine, "people": n, "seed": seed}
                    yield Unit(key, partial(measure, name, engine, n, seed, quick))


def table(rows: Rows) -> Table:
    """Return a line per engine, world and number of people: without → with constants."""
    lines = []
    for (engine, people, of), those in by(rows, "engine", "people", "of").items():
        before, after = ([row for row in those if row[WITH] == flag] for flag in ("False", "True"))
        roots = [1e4 * statistics.fmean(values(of, MEAN_SQUARE)) ** 0.5 for of in (before, after)]
        seconds = [statistics.fmean(values(of, CPU)) for of in (before, after)]
        lines.append(
            [
                of, engine, f"{int(people):,}", " → ".join(f"{root:.0f}" for root in roots),
                said(*ratio(values(before, MEAN_SQUARE), values(after, MEAN_SQUARE), root=True), 2),
                said(*ratio(values(before, GAP), values(after, GAP))), " → ".join(f"{one:.1f}" for one in seconds),
            ]
        )  # fmt: skip
    lines.sort(key=lambda line: (line[1] != "native", line[1], len(line[2]), line[2]))
    columns = ["of", "engine", "people", "rms penalty ×10⁴", "× without", "squared gap × without", "CPU seconds"]
    return columns, lines


STUDY = Study("mask_calibration", units, table)
