"""Training base, full and PUC on the same people, and describing what they predict for others."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, ShuffleSplit

import pucboost as puc
from benchmarks import models
from benchmarks.data.sources import INDUCED, PAPER
from benchmarks.data.tables import Task, loaded
from benchmarks.harness.machine import THREADS
from benchmarks.harness.study import Unit
from benchmarks.harness.types import Array, Row

FOREST = "Random Forest"
MODELS = (FOREST, *models.ENGINES)
LARGER = "LightGBM, larger"  # is the remaining shift due to too little capacity?
LARGER_TREES = {"num_leaves": 63, "rounds": 400}
OTHER_BAGS = (models.PEOPLES_FOREST, models.BAGGED_FOREST)
MOVED_BY_BAGS = ("california_housing", "insurance_hi")  # a forest moves the mean of the silent here: which bags do so?
COPIES_SPLIT = f"{FOREST}, copies split"
VARIANTS = {"base": "base", "full": "full", "PUC": "exhaustive"}
RUNS, LEAK_RUNS = range(5), range(3)
FOREST_LIMIT = 10_000  # people a forest is trained on, to save time
QUICK_MODEL: dict[str, dict[str, Any]] = {FOREST: {"n_estimators": 10}, **{m: {"rounds": 10} for m in models.BOOSTED}}
SILENT_LOSS, SHARERS_LOSS = "non-sharers' loss", "sharers' loss"
FAVOURABLE, PROBABILITY = "non-sharers' favourable outcomes, %", "non-sharers' probability of it, %"
NATURAL, RAW = "non-sharers' mean, natural units", "non-sharers' mean, log units"


def silent_people(X: pd.DataFrame, optional: Sequence[str]) -> Array:
    """Return who withholds the optional column."""
    return np.asarray(X[optional[0]].isna())


def capped(people: Array, limit: int | None, seed: int) -> Array:
    """Return at most ``limit`` people, drawn at random."""
    if limit is None or len(people) <= limit:
        return people
    return np.sort(np.random.default_rng(seed).choice(people, limit, replace=False))


def describe(task: Task, y: Array, prediction: Array, silent: Array) -> Row:
    """Return the loss of sharers and non-sharers, and the average prediction for non-sharers."""
    row: Row = {
        "non-sharers": int(silent.sum()),
        "sharers": int((~silent).sum()),
        SILENT_LOSS: models.loss(y[silent], prediction[silent], task.is_classification),
        SHARERS_LOSS: models.loss(y[~silent], prediction[~silent], task.is_classification),
    }
    theirs = prediction[silent]
    if task.is_classification:
        favourable = task.source.favourable == 1
        row[FAVOURABLE] = 100 * float(np.mean((theirs > 0.5) == favourable))
        row[PROBABILITY] = 100 * float(np.mean(theirs if favourable else 1 - theirs))
    elif task.source.to_natural is not None:  # dollars or hours from a prediction on the log scale
        row[NATURAL] = float(np.mean(task.source.to_natural(theirs)))
        row[RAW] = float(np.mean(theirs))
    return row


def measure(
    task: Task, model: str, run: int, *, limit: int | None = None, small: int = 10_000, **options: Any
) -> list[Row]:
    """Train the variants on the same people and describe what each predicts out of sample; ``options`` go to the model.

    Tables of fewer than ``small`` people are cross-validated, so that everybody is predicted once.
    """
    X, optional = task.withhold_one(run)
    splits = [(capped(train, limit, run), test) for train, test in task.splits(run, small)]
    tested = np.concatenate([test for _, test in splits])
    silent = silent_people(X, optional)[tested]
    rows = []
    for variant in models.variants_of(model, list(VARIANTS)):
        scheme = VARIANTS[variant]
        prediction = np.concatenate([
            models.fit(
                model, scheme, X.iloc[train], task.y[train], optional,
                is_classification=task.is_classification, seed=run, **options,
            ).predict(X.iloc[test])
            for train, test in splits
        ])  # fmt: skip
        trained_on = int(np.mean([len(train) for train, _ in splits]))
        rows.append(
            {"variant": variant, "trained on": trained_on, **describe(task, task.y[tested], prediction, silent)}
        )
    return rows


def measure_default(name: str, model: str, run: int, quick: bool) -> list[Row]:
    """Measure a model with its usual parameters."""
    if model == LARGER:
        return measure(loaded(name, quick), "LightGBM", run, **LARGER_TREES)
    options = QUICK_MODEL[model] if quick else {}
    return measure(loaded(name, quick), model, run, limit=None if model in models.BOOSTED else FOREST_LIMIT, **options)


def measure_leak(name: str, run: int, quick: bool) -> list[Row]:
    """Score the same people as they are, once with copies and once with people kept out of the training data.

    In each fold the people scored are those whose unmasked copy was held out. Split by copies, only the held-out copies
    are missing from the training data; split by people, all copies of the scored people are.
    """
    task = loaded(name, quick)
    X, optional = task.withhold_one(run)
    folds = 5 if len(task.y) < FOREST_LIMIT else 1
    people = np.arange(len(task.y))
    if folds == 1:  # after a fifth is held out, as many are left as the study's forests have
        people = capped(people, FOREST_LIMIT * 5 // 4, run)
    X, y = X.iloc[people].reset_index(drop=True), task.y[people]
    encoder = models.Encoder(tuple(optional))
    virtual, labels, _, source = puc.augment(
        encoder.encode(X), y, optional=optional, augmentation="exhaustive", seed=run, num_threads=THREADS
    )
    table, silent = encoder.complete(virtual), silent_people(X, optional)
    as_they_are = silent_people(virtual, optional) == silent[source]
    predictions = {"copies": np.full(len(y), np.nan), "people": np.full(len(y), np.nan)}
    for held_out in _held_out_copies(len(labels), folds, run):
        scored = np.flatnonzero(held_out & as_they_are)
        theirs = np.isin(source, source[scored])
        for split, excluded in (("copies", held_out), ("people", theirs)):
            forest = _forest(task, run, quick)
            forest.fit(table[~excluded], labels[~excluded])
            predictions[split][source[scored]] = models.predict_scikit(forest, table[scored])
    scored_people = ~np.isnan(predictions["people"])
    return [
        {"variant": "PUC", "split": split,
         **describe(task, y[scored_people], prediction[scored_people], silent[scored_people])}
        for split, prediction in predictions.items()
    ]  # fmt: skip


def _held_out_copies(n: int, folds: int, seed: int) -> Iterator[Array]:
    splitter = (
        KFold(folds, shuffle=True, random_state=seed)
        if folds > 1
        else ShuffleSplit(1, test_size=0.2, random_state=seed)
    )
    for _, test in splitter.split(np.arange(n)):
        held_out = np.zeros(n, dtype=bool)
        held_out[test] = True
        yield held_out


def _forest(task: Task, seed: int, quick: bool) -> Any:
    return models.scikit_model(FOREST, task.is_classification, seed, QUICK_MODEL[FOREST] if quick else {})


def units(quick: bool) -> list[Unit]:
    """Return a unit per table, model and run."""
    names, runs, leaks = (("diabetes", "income"), range(1), range(1)) if quick else (PAPER, RUNS, LEAK_RUNS)
    found = [
        Unit({"data": name, "model": model, "run": run}, functools.partial(measure_default, name, model, run, quick))
        for name in names
        for model in MODELS
        for run in runs
    ]
    found += [
        Unit({"data": name, "model": model, "run": run}, functools.partial(measure_default, name, model, run, quick))
        for model, asked in ((LARGER, INDUCED), *((forest, MOVED_BY_BAGS) for forest in OTHER_BAGS))
        for name in (() if quick else asked)
        for run in runs
    ]
    found += [
        Unit({"data": name, "model": COPIES_SPLIT, "run": run}, functools.partial(measure_leak, name, run, quick))
        for name in names
        for run in leaks
        if name in INDUCED
    ]
    return found
