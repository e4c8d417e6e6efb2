"""How close the models come to the truth: squared PUC-gap on simulated families, by augmentation scheme."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import lightgbm as lgb

import pucboost as puc
from benchmarks.harness.study import Row, Rows, Table
from pucboost.simulate import DiscreteFamily, LogisticFamily, squared_puc_gap

PARAMS = {"objective": "binary", "learning_rate": 0.05, "verbosity": -1, "num_threads": 2}
SCHEMES: dict[str, dict[str, Any]] = {
    "plain": {"augmentation": "none"},
    "fixed": {"augmentation": "fixed"},
    "balanced, copies=2": {"copies": 2},
    "balanced (default)": {},
    "exhaustive, fresh masks": {"augmentation": "exhaustive"},
}

FAMILIES: list[tuple[str, Callable[[int], Any], int, bool]] = [
    ("logistic, r=5", lambda seed: LogisticFamily.random(5, 5, seed=seed), 30_000, True),
    ("logistic, r=10", lambda seed: LogisticFamily.random(5, 10, seed=seed), 30_000, False),
    ("discrete, r=4", lambda seed: DiscreteFamily.random(3, 4, seed=seed), 20_000, True),
    ("discrete, r=6", lambda seed: DiscreteFamily.random(3, 6, seed=seed), 20_000, True),
]


def study(quick: bool) -> list[Row]:
    """Train every scheme on every family; mean over seeds of the family, the data and the masks."""
    seeds, rounds = (range(1), 20) if quick else (range(6), 200)
    rows: list[Row] = []
    warm_up = LogisticFamily.paper().sample(500, 0)
    for params in SCHEMES.values():
        puc.train({**PARAMS, **params, "optional": [2, 3, 4]}, lgb.Dataset(warm_up.X, warm_up.y), 1)
    for name, make, full_rows, enumerable in FAMILIES:
        n_rows = full_rows // 10 if quick else full_rows
        gaps: dict[str, list[float]] = {}
        for scheme, params in SCHEMES.items():
            if scheme.startswith("exhaustive") and not enumerable:
                continue
            times, per_row = [], []
            for seed in seeds:
                family = make(seed)
                train, test = (
                    family.sample(n_rows, 100 + seed),
                    family.sample(20_000, 200 + seed),
                )
                start = time.perf_counter()
                booster = puc.train(
                    {**PARAMS, **params, "seed": seed, "optional": family.optional},
                    lgb.Dataset(train.X, train.y),
                    rounds,
                )
                times.append(time.perf_counter() - start)
                per_row.append(booster.puc_summary.virtual_rows / len(train.y))
                gaps.setdefault(scheme, []).append(1e4 * squared_puc_gap(booster.predict(test.X), family, test.X))
            rows.append(
                {
                    "family": name,
                    "N": f"{n_rows:,}",
                    "scheme": scheme,
                    "virtual rows per row": f"{statistics.mean(per_row):.1f}",
                    "squared PUC-gap ×10⁴": f"{statistics.mean(gaps[scheme]):.1f}",
                    "standard error": f"{statistics.stdev(gaps[scheme]) / len(gaps[scheme]) ** 0.5:.1f}"
                    if len(seeds) > 1
                    else "",
                    "against exhaustive": "",
                    "against fixed": "",
                    "seconds": f"{statistics.median(times):.2f}",
                }
            )
        for row in rows[-len(gaps) :]:
            mine = statistics.mean(gaps[row["scheme"]])
            if "exhaustive, fresh masks" in gaps:
                row["against exhaustive"] = f"{mine / statistics.mean(gaps['exhaustive, fresh masks']) - 1:+.0%}"
            row["against fixed"] = f"{mine / statistics.mean(gaps['fixed']) - 1:+.0%}"
    return rows


def page(rows: Rows) -> Table:
    """Return one line per family, one column per scheme."""
    schemes = list(dict.fromkeys(row["scheme"] for row in rows))
    gap = {(row["family"], row["scheme"]): row["squared PUC-gap ×10⁴"] for row in rows}
    families = dict.fromkeys(row["family"] for row in rows)
    return ["family", *schemes], [[family, *(gap.get((family, s), "–") for s in schemes)] for family in families]
