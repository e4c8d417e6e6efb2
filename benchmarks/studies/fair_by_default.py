"""Trees that ask first what is missing, beside trees that do not: whether whole sets of people are told too much.

The *penalty* of a set S is the mean of f − f* over those who share exactly S. Where f* is known it is measured on many
people, for each set of at least 1 % of them. On real tables the audit's doubly robust estimate stands in for it; of
its square, the part that is noise is taken off. The loss of a real table is that of all its held-out virtual rows.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
from scipy.stats import norm

import pucboost as puc
from benchmarks.data import loaded
from benchmarks.harness.measuring import by, median_ratio, standard_error, values
from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit
from benchmarks.studies.alternatives import CREDIT_OPTIONAL, repaired_credit
from pucboost.simulate import DiscreteFamily, LogisticFamily

METHODS: dict[str, dict[str, Any]] = {"as before": {"silence_first": False}, "silence first": {}}
FIXED: dict[str, Any] = {"engine": "native", "verbosity": -1, "num_threads": 1}

# People whose justified prediction is known


@dataclass(frozen=True)
class World:
    """A distribution of people: how to draw them, what is optional, the loss, and what is justified."""

    draw: Callable[[int, int], tuple[Array, Array, Array | None]]
    """Return n people, their outcomes and, if any, their exposure."""
    truth: Callable[[Array], Array]
    optional: Sequence[int]
    params: Mapping[str, Any]


def labelled(family: Any) -> World:
    """Return a family as it is: the outcome is its label."""

    def draw(n: int, seed: int) -> tuple[Array, Array, None]:
        people = family.sample(n, seed)
        return people.X, people.y, None

    return World(draw, family.puc_prediction, family.optional, {"objective": "binary"})


def through_label(
    family: Any, draw_outcome: Callable[[Any, Array], tuple[Array, Array | None]], truth: Callable[[Array], Array],
    params: Mapping[str, Any],
) -> World:  # fmt: skip
    """Return people whose outcome depends on all else through the label alone.

    The outcome's distribution under any condition is then a mixture of two that are known, with the family's true
    probability of the label as the share of the second; ``truth`` makes the justified prediction of that share.
    """

    def draw(n: int, seed: int) -> tuple[Array, Array, Array | None]:
        people = family.sample(n, seed)
        return people.X, *draw_outcome(np.random.default_rng([seed, 1]), people.y)

    return World(draw, lambda X: truth(family.puc_prediction(X)), family.optional, params)


RATES, CLASSES, QUANTILE = np.array([0.1, 0.6]), 5, 0.8
CLASS_SHARES = np.array([[0.4, 0.3, 0.15, 0.1, 0.05], [0.05, 0.1, 0.15, 0.3, 0.4]])


def claims(seed: int) -> World:
    """Return policies in force for a part of a year."""

    def outcome(rng: Any, label: Array) -> tuple[Array, Array]:
        years = rng.uniform(0.1, 1.0, len(label))
        return rng.poisson(RATES[label.astype(int)] * years).astype(float), years

    family = DiscreteFamily.random(3, 4, seed=seed)
    return through_label(family, outcome, lambda p: RATES[0] + (RATES[1] - RATES[0]) * p, {"objective": "poisson"})


def classes(seed: int) -> World:
    """Return people in one of five classes."""

    def outcome(rng: Any, label: Array) -> tuple[Array, None]:
        below = np.cumsum(CLASS_SHARES, axis=1)[label.astype(int), :-1]
        return (rng.random((len(label), 1)) >= below).sum(axis=1).astype(float), None

    def mixed(p: Array) -> Array:
        return np.asarray(CLASS_SHARES[0] + p[:, None] * (CLASS_SHARES[1] - CLASS_SHARES[0]))

    params = {"objective": "multiclass", "num_class": CLASSES}
    return through_label(DiscreteFamily.random(3, 4, seed=seed), outcome, mixed, params)


def quantiles(seed: int) -> World:
    """Return amounts, N(0, 1) or N(2, 1) by the label, of which a quantile is asked."""

    def outcome(rng: Any, label: Array) -> tuple[Array, None]:
        return rng.normal(2 * label), None

    grid = np.linspace(-3.0, 6.0, 9_001)
    share = (norm.cdf(grid) - QUANTILE) / np.maximum(norm.cdf(grid) - norm.cdf(grid - 2), 1e-300)  # of N(2, 1)
    inside = (grid >= norm.ppf(QUANTILE)) & (grid <= 2 + norm.ppf(QUANTILE))
    params = {"objective": "quantile", "alpha": QUANTILE}
    family = LogisticFamily.random(5, 3, seed=seed)
    return through_label(family, outcome, lambda p: np.interp(p, share[inside], grid[inside]), params)


def amounts(seed: int) -> World:
    """Return amounts y = w·b + u·z + ε with z = Vb + η, all noise N(0, 1).

    A_i = 1 with probability exp(−(p_i z_i + q y − m)² / 2τ²), so large amounts are withheld. Sharing a set a
    multiplies the normal density of y given (b, z_a) by as many normal densities in y.
    """
    rng = np.random.default_rng([seed, 2])
    r, q, m, tau = 3, 0.5, -1.0, 2.0
    w, V = rng.normal(0, 0.7, 3), rng.normal(0, 0.4, (r, 3))
    u, p = rng.uniform(0.5, 1.0, r) * rng.choice([-1, 1], r), rng.normal(0, 0.4, r)

    def draw(n: int, seed: int) -> tuple[Array, Array, None]:
        rng = np.random.default_rng([seed, 3])
        b = rng.normal(size=(n, 3))
        z = b @ V.T + rng.normal(size=(n, r))
        y = b @ w + z @ u + rng.normal(size=n)
        shares = rng.random((n, r)) < np.exp(-((p * z + q * y[:, None] - m) ** 2) / (2 * tau**2))
        return np.column_stack([b, np.where(shares, z, np.nan)]), y, None

    def truth(X: Array) -> Array:
        b, z = X[:, :3], X[:, 3:]
        known = ~np.isnan(z)
        variance = 1 + (~known * u**2).sum(axis=1)
        mean = b @ w + np.where(known, z, b @ V.T) @ u
        precision = 1 / variance + known.sum(axis=1) * q**2 / tau**2
        pulls = np.where(known, q * (m - p * z) / tau**2, 0.0).sum(axis=1)
        return np.asarray((mean / variance + pulls) / precision)

    return World(draw, truth, range(3, 3 + r), {"objective": "regression"})


WORLDS: dict[str, Callable[[int], World]] = {
    "discrete, r=4": lambda seed: labelled(DiscreteFamily.random(3, 4, seed=seed)),
    "discrete, r=6": lambda seed: labelled(DiscreteFamily.random(3, 6, seed=seed)),
    "logistic, r=1": lambda seed: labelled(LogisticFamily.random(5, 1, seed=seed)),
    "logistic, r=5": lambda seed: labelled(LogisticFamily.random(5, 5, seed=seed)),
    "logistic, r=10": lambda seed: labelled(LogisticFamily.random(5, 10, seed=seed)),
    "amounts, r=3": amounts,
    "80 % quantile, r=3": quantiles,
    "claims, exposure, r=4": claims,
    "five classes, r=4": classes,
}
TREES: dict[str, tuple[dict[str, Any], int]] = {
    "15 leaves, 150 rounds": ({"num_leaves": 15}, 150),
    "default, 100 rounds": ({}, 100),
}
SEEDS, PEOPLE, OTHERS = 10, 20_000, 100_000
LEAST_SHARE = 0.01
MEAN_SQUARE, GAP = "mean squared penalty", "squared gap"
BEST, AT_100, PENALTY, CPU = "loss, best round", "loss, 100 rounds", "penalty, estimated", "CPU"


def measure_world(name: str, seed: int, quick: bool) -> list[Row]:
    """Train both methods with trees of each size, and judge them on other people."""
    world = WORLDS[name](seed)
    X, y, exposure = world.draw(PEOPLE // 20 if quick else PEOPLE, 100 + seed)
    others = world.draw(OTHERS // 20 if quick else OTHERS, 200 + seed)[0]
    truth = world.truth(others)
    shared = ~np.isnan(others[:, list(world.optional)]) @ (1 << np.arange(len(world.optional)))
    rows: list[Row] = []
    for trees, (params, rounds) in TREES.items():
        for method, own in METHODS.items():
            given = {**FIXED, **world.params, **params, **own, "optional": list(world.optional), "seed": seed}
            model = puc.train(given, puc.Dataset(X, y, exposure=exposure), rounds // 10 if quick else rounds)
            error = puc.predict(model, others, num_threads=1) - truth
            squared = mean_squared_penalty(error, shared)
            rows.append({"trees": trees, "method": method, MEAN_SQUARE: squared, GAP: float(np.mean(error**2))})
    return rows


def mean_squared_penalty(error: Array, shared: Array) -> float:
    """Return the mean over sets (and classes) of the square of what those who share exactly it are told too much."""
    _, members, people = np.unique(shared, return_inverse=True, return_counts=True)
    of_class = error.reshape(len(error), -1).T
    penalties = [np.bincount(members, one) / people for one in of_class]
    return float(np.mean([np.square(one[people >= LEAST_SHARE * len(error)]) for one in penalties]))


# Real tables

TABLES = {
    "diabetes": 24, "horse_colic": 24, "compas": 12, "insurance_hi": 8, "california_housing": 8, "income": 8,
    "adult": 8, "give_me_some_credit": 8,
}  # fmt: skip
"""How many splits of each table: more of the small ones."""
MOST_ROUNDS, MOST_PEOPLE, MOST_SETS = 400, 40_000, 6


def people_of(name: str, split: int, quick: bool) -> tuple[pd.DataFrame, Array, list[str], dict[str, Any]]:
    """Return a table partly withheld, by its people or by a rule, in an order that depends on the split."""
    task = loaded(name, quick)
    if name == "give_me_some_credit":
        X, optional = repaired_credit(task.X), list(CREDIT_OPTIONAL)
    elif name == "horse_colic":
        X, optional = task.withhold_one(split)
    else:
        X, optional = task.withhold_several(split)
    order = np.random.default_rng(split).permutation(len(task.y))[:MOST_PEOPLE]
    objective = "binary" if task.is_classification else "regression"
    return X.iloc[order].reset_index(drop=True), task.y[order], list(optional), {"objective": objective}


def measure_table(name: str, split: int, quick: bool) -> list[Row]:
    """Train on 60 % of the people, choose the round on 20 %, and judge by the last 20 %."""
    X, y, optional, params = people_of(name, split, quick)
    a, b = int(0.6 * len(y)), int(0.8 * len(y))
    parts = [puc.Dataset(X.iloc[s].reset_index(drop=True), y[s]) for s in (slice(0, a), slice(a, b), slice(b, None))]
    models, losses = {}, {}
    for method, own in METHODS.items():
        given = {**FIXED, **params, **own, "optional": optional, "seed": split, "valid_augmentation": "exhaustive"}
        history: dict[str, Any] = {}
        models[method] = puc.train(
            given, parts[0], 20 if quick else MOST_ROUNDS, parts[1:], ["choose", "judge"],
            callbacks=[lgb.record_evaluation(history)],
        )  # fmt: skip
        losses[method] = {part: np.array(next(iter(of.values()))) for part, of in history.items()}
    best = {method: int(of["choose"].argmin()) + 1 for method, of in losses.items()}
    held_out = X.iloc[a:].reset_index(drop=True)
    told = {
        method: lambda shown, method=method: puc.predict(  # type: ignore[misc]
            models[method], shown, num_iteration=best[method], num_threads=1
        )
        for method in METHODS
    }
    estimated = estimated_mean_square(told, held_out, y[a:], optional, params["objective"], split)
    return [
        {
            "trees": "default",
            "method": method,
            "round": best[method],
            BEST: losses[method]["judge"][best[method] - 1],
            AT_100: losses[method]["judge"][min(100, len(losses[method]["judge"])) - 1],
            PENALTY: estimated[method],
        }
        for method in METHODS
    ]


def estimated_mean_square(
    told: Mapping[str, Callable[[pd.DataFrame], Array]], X: pd.DataFrame, y: Array, optional: list[str], objective: str,
    seed: int,
) -> dict[str, float]:  # fmt: skip
    """Return the estimated mean squared penalty of each model, over the largest sets; the same estimate for all.

    θ = Σ [D(f − g) − e(Y − g)] / ΣD over those who share at least S, with D whether they share exactly S, and with g
    and e, what they are told and who shares exactly S, learned on two other thirds. θ² − se² has no bias from noise.
    """
    shared = X[optional].notna().to_numpy() @ (1 << np.arange(len(optional)))
    sets, people = np.unique(shared, return_counts=True)
    largest = [int(sets[k]) for k in np.argsort(-people, kind="stable")[:MOST_SETS] if people[k] >= 40]
    squares: dict[str, list[float]] = {method: [] for method in told}
    for mask in largest:
        rows = np.flatnonzero((shared & mask) == mask)
        exactly = (shared[rows] == mask).astype(float)
        shown = X.iloc[rows].assign(**{c: np.nan for g, c in enumerate(optional) if not mask >> g & 1})
        fold = np.random.default_rng(seed).permutation(len(rows)) % 3
        g, e = np.empty(len(rows)), np.empty(len(rows))
        for k in range(3):
            new = shown[fold == k]
            for out, of, kind, part in ((g, y[rows], objective, k + 1), (e, exactly, "binary", k + 2)):
                here = fold == part % 3
                out[fold == k] = _nuisance(shown[here], of[here], kind).predict(new)
        for method, model in told.items():
            score = exactly * (model(shown) - g) - e * (y[rows] - g)
            theta = score.sum() / exactly.sum()
            variance = float(np.square(score - exactly * theta).sum()) / exactly.sum() ** 2
            squares[method].append(theta**2 - variance)
    return {method: statistics.fmean(found) if found else math.nan for method, found in squares.items()}


def _nuisance(X: pd.DataFrame, y: Array, objective: str) -> lgb.Booster:
    if len(np.unique(y)) == 1:
        objective = "regression"
    params = {"objective": objective, "num_leaves": 8, "verbosity": -1, "num_threads": 1, "min_data_per_group": 20}
    return lgb.train(params, lgb.Dataset(X, y), 60)


# Time: the same training, both methods in turn

TIMED = ("discrete, r=4", "logistic, r=5", "logistic, r=10", "california_housing", "adult")
TURNS = 9


def measure_time(name: str, quick: bool) -> list[Row]:
    """Train both methods in turn, with default trees, 100 rounds, on one thread; the first turn is warm-up."""
    if name in WORLDS:
        world, trees = WORLDS[name](0), list(TREES)[-1]
        (X, y, _), optional, params = world.draw(PEOPLE, 100), list(world.optional), world.params
    else:
        (X, y, optional, params), trees = people_of(name, 0, quick), "default"
    rows: list[Row] = []
    for turn in range(2 if quick else 1 + TURNS):
        for method, own in METHODS.items():
            start = time.process_time()
            given = {**FIXED, **params, **own, "optional": optional}
            puc.train(given, puc.Dataset(X, y), 5 if quick else 100)
            if turn:
                rows.append({"trees": trees, "method": method, "turn": turn, CPU: time.process_time() - start})
    return rows


def units(quick: bool) -> Iterable[Unit]:
    """List a unit per world or table and seed, then those of time."""
    for seed in range(1 if quick else SEEDS):
        for name in list(WORLDS)[:: 3 if quick else 1]:
            yield Unit({"of": name, "seed": seed}, partial(measure_world, name, seed, quick))
    for split in range(1 if quick else max(TABLES.values())):
        for name in ("diabetes", "horse_colic") if quick else TABLES:
            if split < TABLES[name]:
                yield Unit({"of": name, "seed": split}, partial(measure_table, name, split, quick))
    for name in TIMED[:1] if quick else TIMED:
        yield Unit({"of": name, "seed": "0, timed"}, partial(measure_time, name, quick))


# The table: what changes, beside the goals

GOALS = {"× before": "≤ 0.6", "squared gap × before": "mean ≤ 0.95, each ≤ 1.01", f"{BEST}, %": "≤ +0.1",
         f"{AT_100}, %": "≤ +0.3", "CPU × before": "≤ 1.05"}  # fmt: skip
COLUMNS = ["of", "trees", "rms penalty ×10⁴", *GOALS]


def table(rows: Rows) -> Table:
    """Return a line per world or table and size of trees, then means and goals."""
    lines = []
    for (of, trees), those in by(rows, "of", "trees").items():
        squares = MEAN_SQUARE if values(those, MEAN_SQUARE) else PENALTY
        cells = {"of": of, "trees": trees}
        if values(those, squares):
            roots = [1e4 * math.sqrt(max(0.0, statistics.fmean(found))) for found in pair(those, squares)]
            cells["rms penalty ×10⁴"] = " → ".join(f"{root:.0f}" for root in roots)
        if squares == MEAN_SQUARE and values(those, squares):
            cells["× before"] = said(*ratio(*pair(those, squares), root=True))
        if values(those, GAP):
            cells["squared gap × before"] = said(*ratio(*pair(those, GAP)))
        for measure in (BEST, AT_100):
            if values(those, measure):
                changes = [100 * (after / before - 1) for before, after in zip(*pair(those, measure), strict=True)]
                cells[f"{measure}, %"] = f"{statistics.fmean(changes):+.2f}{plus(standard_error(changes))}"
        if values(those, CPU):
            before, after = pair(those, CPU)
            cells["CPU × before"] = f"{median_ratio(after, before):.3f}"
        lines.append([cells.get(column, "–") for column in COLUMNS])
    return COLUMNS, [*lines, *_means(rows), ["goal", "", "", *GOALS.values()]]


def _means(rows: Rows) -> list[list[str]]:
    """Return the geometric means over worlds, by size of trees."""
    lines = []
    for (trees,), those in by([row for row in rows if row.get(GAP)], "trees").items():
        worlds = by(those, "of").values()
        cells = {"of": "mean", "trees": trees}
        for column, measure, root in (("× before", MEAN_SQUARE, True), ("squared gap × before", GAP, False)):
            found = [ratio(*pair(world, measure), root=root) for world in worlds]
            mean = math.exp(statistics.fmean(math.log(one) for one, _ in found))
            cells[column] = said(mean, mean * math.hypot(*(error / one for one, error in found)) / len(found))
        lines.append([cells.get(column, "–") for column in COLUMNS])
    return lines


def pair(rows: Rows, measure: str) -> tuple[list[float], list[float]]:
    """Return a measure of both methods, in the same order."""
    before, after = (values([row for row in rows if row["method"] == method], measure) for method in METHODS)
    return before, after


def ratio(before: Sequence[float], after: Sequence[float], root: bool = False) -> tuple[float, float]:
    """Return the ratio of sums, or its square root, and the jackknife's standard error."""

    def of(before: Array, after: Array) -> float:
        whole = float(after.sum() / before.sum())
        return math.sqrt(whole) if root else whole

    one, other, n = np.array(before), np.array(after), len(before)
    without = [of(np.delete(one, k), np.delete(other, k)) for k in range(n)] if n > 1 else []
    error = math.sqrt((n - 1) * float(np.var(without))) if without else math.nan
    return of(one, other), error


def said(number: float, error: float, digits: int = 3) -> str:
    """Return a ratio with its standard error."""
    return f"{number:.{digits}f}{plus(error, digits)}"


def plus(error: float, digits: int = 2) -> str:
    """Return a standard error, or nothing if there is none."""
    return "" if math.isnan(error) else f" ± {error:.{digits}f}"


STUDY = Study("fair_by_default", units, table)
