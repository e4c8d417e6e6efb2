"""Training every model in every variant on tables with several optional columns."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sklearn.metrics import roc_auc_score

from benchmarks import models
from benchmarks.data.sources import INDUCED
from benchmarks.data.tables import Task, loaded
from benchmarks.harness.memory import peak_memory
from benchmarks.harness.study import Unit
from benchmarks.harness.types import Array, Row

RUNS = 5
CAP = 6_000  # people for training scikit-learn's models; the engines see all
SMALL = 1_000  # with fewer people, a single held-out fifth would drown differences in noise
COPIES = 4  # balanced's default for tables of this size
AUC = "100 × (1 − AUC)"


def size_of(model: str, quick: bool) -> dict[str, Any]:
    """Return the parameters that make a model small for a quick run."""
    return fewer_trees(model, 5) if quick else {}


def fewer_trees(model: str, n: int) -> dict[str, Any]:
    """Return the parameter that makes a model small."""
    return {"rounds" if model in models.BOOSTED else "n_estimators": n}


@functools.cache
def warm_up(model: str) -> None:
    """Train every variant once on a few rows, so that nothing is compiled or imported while time is measured."""
    for name in ("adult", "income"):
        task = loaded(name, quick=True)
        X, optional = task.withhold_several(0)
        for variant in models.VARIANTS:
            kind = task.is_classification
            models.fit(model, variant, X, task.y, optional, is_classification=kind, seed=0, **fewer_trees(model, 2))


def people(task: Task, model: str, run: int, quick: bool, cap: int = CAP) -> list[tuple[Array, Array]]:
    """Return whom to train on and whom to test: five folds for small tables, a fifth held out for others.

    A cap only affects the latter, whose people come in random order.
    """
    splits = task.splits(run, SMALL)[: 1 if quick else None]
    return splits if model in models.BOOSTED else [(train[:cap], test) for train, test in splits]


def scores(task: Task, test: Array, prediction: Array) -> Row:
    """Return the paper's losses on the people tested."""
    y = task.y[test]
    area = 100 * (1 - float(roc_auc_score(y, prediction))) if task.is_classification else None
    return {"loss": models.loss(y, prediction, task.is_classification), AUC: area}


def mean_over_folds(folds: Sequence[Row]) -> Row:
    """Return the mean of each measure, or None where folds lack it."""
    return {name: None if folds[0][name] is None else statistics.fmean(f[name] for f in folds) for name in folds[0]}


def _with_memory(train: Callable[[], models.Fitted]) -> tuple[models.Fitted, float]:
    kept: list[models.Fitted] = []
    memory = peak_memory(lambda: kept.append(train()))
    return kept[0], memory


def measure(name: str, model: str, run: int, quick: bool) -> list[Row]:
    """Train every variant and test it on held-out people."""
    warm_up(model)
    task = loaded(name, quick)
    X, optional = task.withhold_several(run)
    folds: dict[str, list[Row]] = {variant: [] for variant in models.variants_of(model, models.VARIANTS)}
    for train, test in people(task, model, run, quick):
        for variant in folds:
            enough = variant == "balanced" and folds["exhaustive"][-1]["virtual rows"] <= COPIES
            if enough:  # balanced then has exactly the rows of exhaustive: do not train twice
                folds[variant].append(folds["exhaustive"][-1])
                continue
            train_it = functools.partial(
                models.fit, model, variant, X.iloc[train], task.y[train], optional,
                is_classification=task.is_classification, seed=run, **size_of(model, quick),
            )  # fmt: skip
            fitted, memory = _with_memory(train_it)
            folds[variant].append(
                {
                    **scores(task, test, fitted.predict(X.iloc[test])),
                    "virtual rows": fitted.virtual_rows,
                    "seconds": fitted.seconds,
                    "peak MB": memory,
                }
            )
    return [{"variant": variant, **mean_over_folds(measured)} for variant, measured in folds.items()]


def units(quick: bool) -> Iterable[Unit]:
    """List a unit per table, model and run."""
    names = ("diabetes", "income") if quick else INDUCED
    compared = ("Random Forest", "LightGBM") if quick else (*models.SCIKIT, *models.ENGINES)
    for name in names:
        for model in compared:
            for run in range(1 if quick else RUNS):
                key = {"data": name, "model": model, "run": run}
                yield Unit(key, functools.partial(measure, name, model, run, quick))
