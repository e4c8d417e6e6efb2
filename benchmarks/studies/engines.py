"""XGBoost, pucboost's own objectives and compaction, as ratios in one run; and what XGBoost's defaults are worth."""

from __future__ import annotations

from functools import partial
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb

import pucboost as puc
from benchmarks.data import insurance_like, loaded
from benchmarks.harness.measuring import alternate, by, median_ratio, plus_minus, ratio_row, values
from benchmarks.harness.study import THREADS, Row, Rows, Study, Table, Unit
from pucboost import objectives
from pucboost.simulate import BinaryFamily

LIGHTGBM = {"objective": "binary", "verbosity": -1, "num_threads": 2, "force_row_wise": True}
XGBOOST = {"objective": "binary:logistic", "verbosity": 0, "nthread": 2, "max_depth": 6, "eta": 0.3}


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


# What XGBoost's defaults are worth under consent, on real tables: losses on virtual rows of held-out people

TABLES = ("adult", "give_me_some_credit")
SEEDS = 5
LIGHTGBM_DEFAULT, OURS = "LightGBM's defaults", "XGBoost as pucboost sets it: LightGBM's rate and leaves"
SETTINGS: dict[str, dict[str, Any]] = {
    LIGHTGBM_DEFAULT: {"objective": "binary", "engine": "lightgbm", "verbosity": -1},
    "XGBoost's own defaults: rate 0.3, depth 6": {"eta": 0.3, "max_depth": 6},
    "XGBoost: rate 0.1, depth 6": {"max_depth": 6},
    OURS: {},
}
AFTER, BEST, ROUND = "log loss after 100 rounds", "best log loss of them", "best round"


def defaults(quick: bool) -> list[Unit]:
    """List every table and seed."""
    return [
        Unit({"table": table, "seed": seed}, partial(measure_defaults, table, seed, quick))
        for table in TABLES
        for seed in range(1 if quick else SEEDS)
    ]


def measure_defaults(name: str, seed: int, quick: bool) -> list[Row]:
    """Train with each setting on four fifths of the people, and watch the losses on the others."""
    task = loaded(name, quick)
    natural = [column for column in task.X if task.X[column].isna().any()]
    X, optional = task.withhold_several(seed) if task.source.signs else (task.X, natural)
    train, held_out = task.splits(seed)[0]
    rows: list[Row] = []
    for settings, given in SETTINGS.items():
        params = {"objective": "binary:logistic", "engine": "xgboost", "num_threads": THREADS, **given}
        history: dict[str, Any] = {}
        lightgbms = [lgb.record_evaluation(history)] if params["engine"] == "lightgbm" else None
        booster = puc.train(
            {**params, "optional": optional, "seed": seed},
            puc.Dataset(X.iloc[train], task.y[train]),
            10 if quick else 100,
            valid_sets=[puc.Dataset(X.iloc[held_out], task.y[held_out])],
            callbacks=lightgbms,
        )
        (losses,) = (history if lightgbms else booster.evals_result)["valid_0"].values()
        best = int(np.argmin(losses))
        row = {"settings": settings, AFTER: losses[-1], BEST: losses[best], ROUND: best + 1}
        rows.append(row)
    return rows


def defaults_table(rows: Rows) -> Table:
    """Return mean losses, and their differences to LightGBM's in % with standard errors over people and seeds."""
    lines = []
    for (table, settings), here in by(rows, "table", "settings").items():
        cells = []
        for column in (AFTER, BEST):
            reference = values([r for r in rows if (r["table"], r["settings"]) == (table, LIGHTGBM_DEFAULT)], column)
            change = [100 * (a / b - 1) for a, b in zip(values(here, column), reference, strict=True)]
            cells += [f"{np.mean(values(here, column)):.4f}"]
            cells += ["" if settings == LIGHTGBM_DEFAULT else plus_minus(change, sign=True)]
        lines.append([table, settings, *cells, f"{np.mean(values(here, ROUND)):.0f}"])
    return ["table", "settings", AFTER, "difference, %", BEST, "difference, % ", ROUND], lines


DEFAULTS = Study("xgboost_defaults", defaults, defaults_table)
