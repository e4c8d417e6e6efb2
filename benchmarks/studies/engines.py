"""XGBoost, pucboost's own objectives and compaction, as ratios in one run."""

from __future__ import annotations

from functools import partial
from typing import Any

import lightgbm as lgb
import xgboost as xgb

import pucboost as puc
from benchmarks.data import insurance_like
from benchmarks.harness.measuring import alternate, median_ratio, ratio_row
from benchmarks.harness.study import Row
from pucboost import objectives
from pucboost.simulate import BinaryFamily

LIGHTGBM = {"objective": "binary", "verbosity": -1, "num_threads": 2, "force_row_wise": True}
XGBOOST = {"objective": "binary:logistic", "verbosity": 0, "nthread": 2, "max_depth": 6}


def xgboost_training(quick: bool) -> list[Row]:
    """``puc.train`` with XGBoost against ``xgb.train`` with a ``QuantileDMatrix`` of the source rows."""
    n_rows, rounds, repeat = (20_000, 10, 1) if quick else (500_000, 100, 3)
    X, y, optional = insurance_like(n_rows)
    params = {**XGBOOST, "engine": "xgboost", "optional": optional, "copies": 2}
    times = alternate(
        {
            "plain": lambda: xgb.train(XGBOOST, xgb.QuantileDMatrix(X, y), rounds),
            "puc": lambda: puc.train(params, puc.Dataset(X, y), rounds),
        },
        repeat,
    )
    what = f"XGBoost, total time, balanced, copies=2, N={n_rows:,}, {X.shape[1]} columns, {rounds} rounds"
    return [ratio_row(what, "xgb.train", median_ratio(times["puc"], times["plain"]), "≤ 2.0", times["puc"])]


def own_objectives(quick: bool) -> list[Row]:
    """A numba objective against the built-in one, per round."""
    n_rows, rounds, repeat = (20_000, 5, 1) if quick else (1_000_000, 20, 5)
    X, y, _ = insurance_like(n_rows, 20, 10)
    rows: list[Row] = []
    logistic = objectives.Logistic()
    data = lgb.Dataset(X, y, params=LIGHTGBM).construct()
    matrix = xgb.QuantileDMatrix(X, y)
    jobs: dict[str, dict[str, Any]] = {
        "LightGBM": {
            "built-in": lambda: lgb.train(LIGHTGBM, data, rounds),
            "own": lambda: lgb.train({**LIGHTGBM, "objective": logistic}, data, rounds),
        },
        "XGBoost": {
            "built-in": lambda: xgb.train(XGBOOST, matrix, rounds),
            "own": lambda: xgb.train(XGBOOST, matrix, rounds, obj=logistic),
        },
    }
    for engine, pair in jobs.items():
        times = alternate(pair, repeat)
        ratio = median_ratio(times["own"], times["built-in"])
        per_round = [t / rounds for t in times["own"]]
        rows.append(
            ratio_row(f"{engine}, own logistic objective, a round, N={n_rows:,}", "built-in", ratio, "≤ 1.1", per_round)
        )
    return rows


def compaction(quick: bool) -> list[Row]:
    """Compacted training against exhaustive training on the paper's binary family."""
    n_rows, rounds = (20_000, 10) if quick else (500_000, 100)
    family = BinaryFamily.paper()
    sample = family.sample(n_rows, seed=0)
    rows: list[Row] = []
    for engine, params in (("lightgbm", LIGHTGBM), ("xgboost", XGBOOST)):
        own = {**params, "engine": engine, "optional": family.optional, "augmentation": "exhaustive"}
        train = partial(puc.train, num_boost_round=rounds)
        times = alternate(
            {
                "apart": lambda own=own, train=train: train(own, puc.Dataset(sample.X, sample.y)),  # type: ignore[misc]
                "merged": lambda own=own, train=train: train({**own, "compact": True}, puc.Dataset(sample.X, sample.y)),  # type: ignore[misc]
            },
            1 if quick else 3,
        )
        what = f"{engine}, speed of compacted training, binary family, N={n_rows:,}, {rounds} rounds"
        rows.append(
            ratio_row(what, "exhaustive", median_ratio(times["apart"], times["merged"]), "≥ 50", times["merged"])
        )
    return rows


def study(quick: bool) -> list[Row]:
    """Run all of them."""
    return [row for part in (xgboost_training, own_objectives, compaction) for row in part(quick)]
