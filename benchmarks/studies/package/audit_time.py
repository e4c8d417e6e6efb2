"""How long an audit takes, and how much memory it needs beyond the table."""

from __future__ import annotations

import statistics

import lightgbm as lgb

import pucboost as puc
from benchmarks.harness.memory import peak_memory
from benchmarks.harness.timing import seconds
from benchmarks.harness.types import Row
from pucboost.demo import insurance_family

TRAIN = {"objective": "binary", "learning_rate": 0.05, "verbosity": -1, "num_threads": 2, "force_row_wise": True}


def study(quick: bool) -> list[Row]:
    """Audit a pucboost model with three groups; the first audit is warm-up."""
    n, repeat = (2_000, 1) if quick else (100_000, 3)
    family = insurance_family()
    train, test = family.sample(n, 0), family.sample(n, 1)
    params = {**TRAIN, "optional": family.optional}
    booster = puc.train(params, lgb.Dataset(train.X, train.y), 100)

    def audit() -> None:
        puc.audit(booster, test.X, test.y, margin=0.02, num_threads=2, progress=False)

    audit()
    peak = peak_memory(audit)
    times = [seconds(audit) for _ in range(repeat)]
    training = [seconds(lambda: puc.train(params, lgb.Dataset(train.X, train.y), 100)) for _ in range(repeat)]
    took = statistics.median(times)
    return [
        {
            "what": f"audit of {n:,} people, r=3, 8 sets, 2 threads",
            "seconds": f"{took:.1f}",
            "target": "< 60 s",
            "times puc.train, 100 rounds": f"{took / statistics.median(training):.1f}",
            "MB beyond the table": f"{peak:.0f}",
        }
    ]
