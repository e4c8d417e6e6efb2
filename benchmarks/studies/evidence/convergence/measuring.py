"""Gaps by N, and the comparison of learners at the paper's N."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from benchmarks import models
from benchmarks.harness.study import Unit
from benchmarks.harness.types import Array, Row
from pucboost.simulate import BinaryFamily, LogisticFamily, squared_puc_gap

from .cells import augmented, cell_of, completed, exact_gap, merged
from .learners import (
    BASELINE,
    DEFAULT_LIGHTGBM,
    ESTIMATORS,
    NETWORK,
    ON_MERGED_ROWS,
    predict_baseline,
    predict_engine,
    without_convergence_warnings,
)

SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 500_000)
COMPARED = 50_000
TEST_PEOPLE = 20_000
FAMILIES: dict[str, Callable[[], Any]] = {"binary": BinaryFamily.paper, "logistic": LogisticFamily.paper}
QUICK_TO_FIT = (models.BAGGED_FOREST, "Decision Tree", *models.ENGINES)
SLOW_TO_FIT = ("Extra Trees", "Gradient Boosting", "MLP")  # up to two minutes a fit: one run
PLAIN, PUC = "full", "exhaustive"


def measure(estimator: str, scheme: str, n: int, seed: int, rounds: int | None = None) -> list[Row]:
    """Return the exact gap of one model."""
    # Seeds differ by N, so that samples of different sizes are independent.
    people = BinaryFamily.paper().sample(n, 2 * n + seed)
    if estimator in ON_MERGED_ROWS:
        rows = merged(*augmented(people, BinaryFamily.paper().optional, scheme, seed))
        prediction = ON_MERGED_ROWS[estimator](rows, seed)
    else:
        prediction = predict_engine(estimator, people, scheme, seed, rounds)
    return [{"gap": exact_gap(prediction)}]


def compare(family_name: str, estimator: str, seed: int, n: int = COMPARED) -> list[Row]:
    """Return gaps of a learner under consent and without, and the error of the latter against its own truth."""
    family = FAMILIES[family_name]()
    people, test = family.sample(n, 2 * n + seed), family.sample(TEST_PEOPLE, 3 * n + seed)
    rows: list[Row] = []
    for variant in (PUC, PLAIN):
        start = time.perf_counter()
        prediction = _compared(estimator, variant, family, people, test.X, seed)
        row = {"variant": variant, "gap": squared_puc_gap(prediction, family, test.X)}
        if variant == PLAIN:
            row["error"] = float(np.mean((prediction - family.unrestricted_prediction(test.X)) ** 2))
        rows.append({**row, "seconds": time.perf_counter() - start})
    return rows


def _compared(estimator: str, variant: str, family: Any, people: Any, X: Array, seed: int) -> Array:
    if estimator == BASELINE:
        scheme = PUC if variant == PUC else "none"
        return predict_baseline(merged(*augmented(people, family.optional, scheme, seed)), seed)[cell_of(X)]
    if estimator in ("Decision Tree", "MLP"):
        scheme = PUC if variant == PUC else "none"
        rows, y, _ = augmented(people, family.optional, scheme, seed)
        model: Any = (
            DecisionTreeClassifier(min_samples_split=10, random_state=seed)
            if estimator == "Decision Tree"
            else MLPClassifier((30, 40), max_iter=500, random_state=seed)
        )
        with threadpool_limits(1):
            without_convergence_warnings(lambda: model.fit(completed(rows, family.optional), y))
        return models.predict_scikit(model, completed(X, family.optional))
    names = family.feature_names
    optional = [names[j] for j in family.optional]
    table = pd.DataFrame(people.X, columns=names)
    fitted = models.fit(estimator, variant, table, people.y, optional, is_classification=True, seed=seed)
    return fitted.predict(pd.DataFrame(X, columns=names))


def runs_of(estimator: str, scheme: str, n: int) -> int:
    """Return how many seeds a size gets."""
    if scheme != PUC or n > 30_000:
        return 3
    return 10 if n <= 3_000 and estimator != NETWORK else 5


def units(quick: bool) -> list[Unit]:
    """Return a unit for each model of the curves and for each learner of the comparison."""
    if quick:
        schemes, sizes = models.PUC_SCHEMES[1:], (100, 1_000, 3_000)
        listed = [(BASELINE, schemes), ("LightGBM", schemes), ("XGBoost", schemes[:1])]
        curves = [(e, s, n, 0, 20) for e, those in listed for s in those for n in sizes]
        compared = [
            ("binary", BASELINE, 0, 500),
            ("logistic", "Decision Tree", 0, 500),
            ("logistic", "LightGBM", 0, 500),
        ]
    else:
        curves = [
            (estimator, scheme, n, seed, None)
            for estimator in ESTIMATORS
            for scheme in (models.PUC_SCHEMES if estimator != DEFAULT_LIGHTGBM else (PUC,))
            for n in SIZES
            for seed in range(runs_of(estimator, scheme, n))
        ]
        compared = [
            (family, estimator, seed, COMPARED)
            for family in FAMILIES
            for estimator in (*((BASELINE,) if family == "binary" else ()), *QUICK_TO_FIT, *SLOW_TO_FIT)
            for seed in range(1 if estimator in SLOW_TO_FIT else 3)
        ]
    return [
        Unit(
            {"what": "convergence", "family": "binary", "estimator": e, "scheme": s, "N": n, "seed": seed},
            functools.partial(measure, e, s, n, seed, rounds),
        )
        for e, s, n, seed, rounds in curves
    ] + [
        Unit(
            {"what": "comparison", "family": family, "estimator": e, "scheme": "", "N": n, "seed": seed},
            functools.partial(compare, family, e, seed, n),
        )
        for family, e, seed, n in compared
    ]
