"""What is left of the distance to the truth, and of the penalties of sets: which parameter changes it, and how much.

Each variant differs from default parameters in one thing. "As many people" is what nobody can do better than on
average: f*, moved in each set S by the mean residual of the training people who share at least S.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import pucboost as puc
from benchmarks.harness.measuring import by, values
from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit
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

SIZES = {1_000: 6, 10_000: 4, 100_000: 2}
"""How many seeds for each number of people."""
OF = ("discrete, r=4", "logistic, r=5", "amounts, r=3")
CATEGORIES = "discrete, r=4, categories"
ROUNDS = 100
PEOPLE_PER_ROW = "people per row"
DEFAULT, NOISE = "default parameters", "f* with the people's mean residuals"
VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "what is missing is not asked first": {"silence_first": False},
    "7 leaves": {"num_leaves": 7},
    "127 leaves": {"num_leaves": 127},
    "a quarter of the rounds": {"rounds": 25},
    "four times the rounds": {"rounds": 400},
    "a quarter of the learning rate, four times the rounds": {"learning_rate": 0.025, "rounds": 400},
    "2 copies": {"copies": 2},
    "all virtual rows": {"augmentation": "exhaustive"},
    "min_data_in_leaf = 5": {"min_data_in_leaf": 5},
    "min_data_in_leaf = 80": {"min_data_in_leaf": 80},
    "lambda_l2 = 10": {"lambda_l2": 10},
    "lambda_l2 = 100": {"lambda_l2": 100},
}
OF_CATEGORIES: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "cat_smooth = 0": {"cat_smooth": 0},
    "cat_smooth = 100": {"cat_smooth": 100},
}


def measure(name: str, n: int, seed: int, quick: bool) -> list[Row]:
    """Train every variant on the same people, and judge them on others."""
    world = WORLDS[name.removesuffix(", categories")](seed)
    (X, y, _), others = world.draw(n, 100 + seed), world.draw(OTHERS // 20 if quick else OTHERS, 200 + seed)[0]
    truth, optional = world.truth(others), list(world.optional)
    bits = 1 << np.arange(len(optional))
    shared, trained = (~np.isnan(table[:, optional]) @ bits for table in (others, X))
    tables: list[Any] = [X, others]
    if name == CATEGORIES:
        cells = [pd.Categorical((table[:, :3] @ [9, 3, 1]).astype(int), range(27)) for table in tables]
        frames = [pd.DataFrame(table[:, 3:]).assign(b=cell) for table, cell in zip(tables, cells, strict=True)]
        tables, optional = frames, list(range(len(optional)))
    rows: list[Row] = []
    for variant, changed in (OF_CATEGORIES if name == CATEGORIES else VARIANTS).items():
        params = {**FIXED, **world.params, **changed, "optional": optional, "seed": seed}
        rounds = params.pop("rounds", ROUNDS)
        model = puc.train(params, puc.Dataset(tables[0], y), max(2, rounds // 20) if quick else rounds)
        rows.append(judged(variant, puc.predict(model, tables[1], num_threads=1) - truth, shared))
        if variant == DEFAULT:
            rows[-1][PEOPLE_PER_ROW] = people_in_small_leaves(model, tables[0], y, optional, seed)
    if name != CATEGORIES:
        moved = np.zeros(2 ** len(bits))
        for mask in np.unique(shared):
            who = (trained & mask) == mask
            if who.any():
                shown = X[who].copy()
                shown[:, [j for g, j in enumerate(optional) if not mask >> g & 1]] = np.nan
                moved[mask] = np.mean(y[who] - world.truth(shown))
        rows.append(judged(NOISE, moved[shared], shared))
    return rows


def judged(variant: str, error: Array, shared: Array) -> Row:
    """Return how far a model is from the truth."""
    return {"variant": variant, MEAN_SQUARE: mean_squared_penalty(error, shared), GAP: float(np.mean(error**2))}


def people_in_small_leaves(model: Any, X: Any, y: Array, optional: Sequence[int], seed: int) -> float:
    """Return how many different people are behind a row, on average over leaves of 20 to 40 rows of a tree's bag."""
    virtual, _, _, person = puc.augment(X, y, optional=list(optional), augmentation="exhaustive", seed=seed)
    rng, found = np.random.default_rng(seed), []
    for tree in rng.choice(model.num_trees(), min(10, model.num_trees()), replace=False):
        bag = rng.choice(len(person), len(y), replace=False)
        some = virtual.iloc[bag] if isinstance(virtual, pd.DataFrame) else virtual[bag]
        leaf = model.predict(some, pred_leaf=True, start_iteration=int(tree), num_iteration=1).ravel()
        size = np.bincount(leaf)
        people = np.bincount(np.unique(leaf * (int(person.max()) + 1) + person[bag]) // (int(person.max()) + 1))
        small = (size >= 20) & (size < 40)
        found += (people[small] / size[small]).tolist()
    return statistics.fmean(found) if found else math.nan


def units(quick: bool) -> Iterable[Unit]:
    """List a unit per world, number of people and seed."""
    for n, seeds in ({1_000: 1} if quick else SIZES).items():
        for seed in range(seeds):
            for name in (*OF, CATEGORIES)[:: 3 if quick else 1]:
                yield Unit({"of": name, "people": n, "seed": seed}, partial(measure, name, n, seed, quick))


def table(rows: Rows) -> Table:
    """Return a line per variant: penalty and gap against default parameters, as geometric means over worlds."""
    sizes = list(dict.fromkeys(row["people"] for row in rows))
    columns = [f"{what}, {int(n):,} people" for what in ("penalty", "gap") for n in sizes]
    lines = []
    for variant in [*VARIANTS, NOISE, *list(OF_CATEGORIES)[1:]]:
        cells = [variant if variant in (*VARIANTS, NOISE) else f"{variant}, with categories"]
        for measure in (MEAN_SQUARE, GAP):
            for n in sizes:
                found = list(_ratios([row for row in rows if row["people"] == n], variant, measure))
                mean = math.exp(statistics.fmean(math.log(one) for one, _ in found)) if found else math.nan
                error = mean * math.hypot(*(error / one for one, error in found)) / max(len(found), 1)
                cells.append("–" if not found else "1" if variant == DEFAULT else said(mean, error, 2))
        lines.append(cells)
    shares = [statistics.fmean(values([row for row in rows if row["people"] == n], PEOPLE_PER_ROW)) for n in sizes]
    lines.append([f"{PEOPLE_PER_ROW} of a leaf of 20 to 40", *(f"{one:.2f}" for one in shares), *["–"] * len(sizes)])
    return ["changed", *columns], lines


def _ratios(rows: Rows, variant: str, measure: str) -> Iterable[tuple[float, float]]:
    """Yield the ratio to default parameters in each world, and its standard error."""
    for of_world in by(rows, "of").values():
        mine, default = (
            values([row for row in of_world if row["variant"] == one], measure) for one in (variant, DEFAULT)
        )
        if mine:
            yield ratio(default, mine, root=measure == MEAN_SQUARE)


STUDY = Study("remaining_error", units, table)
