"""What quotes cost: trees scored for all subsets at once, against the engine's predictions of masked rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import xgboost as xgb

import pucboost as puc
from benchmarks.data import insurance_like
from benchmarks.harness.measuring import alternate, median_ratio, ratio_row
from benchmarks.harness.study import Row
from pucboost._prediction import predictor

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
            {
                "engine on a ready matrix of masked rows": lambda b=booster, m=ready: _plain(b, m),  # type: ignore[misc]
                "quote by the engine": lambda b=booster, X=X: _quote_by_engine(b, X),  # type: ignore[misc]
                "quote": lambda b=booster, X=X: puc.quote(b, X, num_threads=2),  # type: ignore[misc]
            },
            repeat,
        )
        what = f"{engine}, quote, r=6, {n_rows:,} people, {len(ready):,} predictions, {rounds} trees"
        for other, target in (
            ("quote by the engine", "≤ 0.05"),
            ("engine on a ready matrix of masked rows", "≤ 0.033"),
        ):
            rows.append(ratio_row(what, other, median_ratio(times["quote"], times[other]), target, times["quote"]))
        one = puc.train({**params, "engine": engine, "optional": optional[:1]}, puc.Dataset(X, y), rounds)
        rules = ("as_given", "withheld", "best")
        times = alternate(
            {
                "plain": lambda b=one, X=X: _plain(b, X),  # type: ignore[misc]
                **{
                    rule: partial(puc.predict, one, X, sharing=rule, favourable="lower", num_threads=2)
                    for rule in rules
                },
            },
            repeat,
        )
        for rule in rules:
            ratio = median_ratio(times[rule], times["plain"])
            rows.append(ratio_row(f"{engine}, predict {rule}, r=1", "plain predict", ratio, "≤ 1.2", times[rule]))
    return rows


def _plain(booster: Any, matrix: Any) -> Any:
    if isinstance(booster, xgb.Booster):
        return booster.predict(xgb.DMatrix(matrix))
    return np.asarray(booster.predict(matrix))


def _quote_by_engine(booster: Any, X: Any) -> Any:
    with _engine_only():
        return puc.quote(booster, X, num_threads=2)


@contextmanager
def _engine_only() -> Iterator[None]:
    """Let the engine predict masked rows, however many."""
    worth = predictor.PREDICTIONS_WORTH_READING
    predictor.PREDICTIONS_WORTH_READING = 10**18
    try:
        yield
    finally:
        predictor.PREDICTIONS_WORTH_READING = worth
