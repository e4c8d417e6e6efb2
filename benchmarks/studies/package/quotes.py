"""What quotes cost, against the engine's own time for as many rows of a ready matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import xgboost as xgb

import pucboost as puc
from benchmarks.data.simulated import insurance_like
from benchmarks.harness.timing import alternate, median_ratio, ratio_row
from benchmarks.harness.types import Row

ENGINES: dict[str, dict[str, Any]] = {
    "lightgbm": {"objective": "binary", "verbosity": -1, "num_threads": 2},
    "xgboost": {"objective": "binary:logistic", "verbosity": 0, "nthread": 2, "max_depth": 5},
}


def study(quick: bool) -> list[Row]:
    """Quote all subsets of 6 groups; predict with one group under each rule."""
    n_rows, rounds, repeat = (2_000, 10, 1) if quick else (100_000, 300, 3)
    rows: list[Row] = []
    for engine, params in ENGINES.items():
        X, y, optional = insurance_like(n_rows, 14, 6)
        booster = puc.train({**params, "engine": engine, "optional": optional, "copies": 2}, puc.Dataset(X, y), rounds)
        ready, *_ = puc.augment(X, y, optional=optional, augmentation="exhaustive")
        times = alternate(
            {"ready": lambda b=booster, m=ready: _plain(b, m), "quote": lambda b=booster, X=X: puc.quote(b, X)},  # type: ignore[misc]
            repeat,
        )
        what = f"{engine}, quote, r=6, {n_rows:,} people, {len(ready):,} predictions, {rounds} trees"
        rows.append(
            ratio_row(
                what, "predict a ready matrix", median_ratio(times["quote"], times["ready"]), "≤ 1.2", times["quote"]
            )
        )
        one = puc.train({**params, "engine": engine, "optional": optional[:1]}, puc.Dataset(X, y), rounds)
        times = alternate(
            {
                "plain": lambda b=one, X=X: _plain(b, X),  # type: ignore[misc]
                "withheld": lambda b=one, X=X: puc.predict(b, X, sharing="withheld"),  # type: ignore[misc]
                "best": lambda b=one, X=X: puc.predict(b, X, sharing="best"),  # type: ignore[misc]
            },
            repeat,
        )
        for rule in ("withheld", "best"):
            ratio = median_ratio(times[rule], times["plain"])
            rows.append(ratio_row(f"{engine}, predict {rule}, r=1", "plain predict", ratio, "≤ 2.5", times[rule]))
    return rows


def _plain(booster: Any, matrix: Any) -> Any:
    if isinstance(booster, xgb.Booster):
        return booster.predict(xgb.DMatrix(matrix))
    return np.asarray(booster.predict(matrix))
