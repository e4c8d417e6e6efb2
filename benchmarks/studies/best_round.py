"""Which round early stopping should choose: that of the least loss, or one with smaller penalties.

The loss is that of all virtual rows of people held out, as in training; the penalty of a set is estimated by the mean
residual of those who share at least it, and of its square the part that is noise is taken off. Chosen rounds are judged
by the truth.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

import pucboost as puc
from benchmarks.harness.measuring import by, values
from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit
from benchmarks.studies.fair_by_default import (
    FIXED,
    GAP,
    LEAST_SHARE,
    MEAN_SQUARE,
    WORLDS,
    World,
    mean_squared_penalty,
    ratio,
    said,
)  # fmt: skip

OF = ("discrete, r=4", "logistic, r=5", "amounts, r=3")
SEEDS, PEOPLE, WATCHED, OTHERS = 6, 10_000, 5_000, 40_000
GRID = (5, 10, 15, 20, 30, 40, 50, 60, 80, 100, 130, 160, 200, 250, 300, 400)
LEAST_LOSS = "least loss"
NEAR = "within a standard error of the least loss"
RULES = (
    LEAST_LOSS,
    "least penalty",
    f"{NEAR}: least penalty",
    f"{NEAR}: latest",
    "truth: least squared gap",
    "truth: least penalty",
)


def measure(name: str, seed: int, quick: bool) -> list[Row]:
    """Train once, choose a round by every rule, and judge what it gives other people."""
    world, small = WORLDS[name](seed), 10 if quick else 1
    (X, y, _), (watched, outcome, _) = world.draw(PEOPLE // small, 100 + seed), world.draw(WATCHED // small, 300 + seed)
    others = world.draw(OTHERS // small, 200 + seed)[0]
    optional = list(world.optional)
    params = {**FIXED, **world.params, "optional": optional, "seed": seed}
    model = puc.train(params, puc.Dataset(X, y), GRID[-1])
    virtual, label, _, person = puc.augment(watched, outcome, optional=optional, augmentation="exhaustive", seed=seed)
    truth, shared, mask = world.truth(others), sets_of(others, optional), sets_of(virtual, optional)
    losses, estimates, penalties, gaps = [], [], [], []
    for told, told_others in zip(by_round(model, world, virtual), by_round(model, world, others), strict=True):
        losses.append(np.bincount(person, loss_of(world, label, told)))
        estimates.append(estimate(told - label, mask, sets_of(watched, optional)))
        penalties.append(mean_squared_penalty(told_others - truth, shared))
        gaps.append(float(np.mean((told_others - truth) ** 2)))
    chosen = choose(np.array(losses), np.array(estimates))
    chosen |= {RULES[4]: int(np.argmin(gaps)), RULES[5]: int(np.argmin(penalties))}
    return [{"rule": rule, "round": GRID[k], MEAN_SQUARE: penalties[k], GAP: gaps[k]} for rule, k in chosen.items()]


def sets_of(X: Array, optional: list[int]) -> Array:
    """Return which set each row shares, as a number."""
    return np.asarray(~np.isnan(X[:, optional]) @ (1 << np.arange(len(optional))))


def by_round(model: Any, world: World, X: Array) -> Iterable[Array]:
    """Yield the predictions of the rounds of the grid."""
    raw, before = np.zeros(len(X)), 0
    for rounds in GRID:
        raw = raw + model.predict(X, raw_score=True, start_iteration=before, num_iteration=rounds - before)
        before = rounds
        yield 1 / (1 + np.exp(-raw)) if world.params["objective"] == "binary" else raw


def loss_of(world: World, label: Array, told: Array) -> Array:
    """Return the loss of every row."""
    if world.params["objective"] != "binary":
        return np.asarray((label - told) ** 2)
    return np.asarray(-np.log(np.where(label > 0, told, 1 - told)))


def estimate(residual: Array, mask: Array, shared: Array) -> float:
    """Return the mean square of the mean residuals of sets, less what is noise."""
    sets, people = np.unique(shared, return_counts=True)
    squares = []
    for one in sets[people >= LEAST_SHARE * len(shared)]:
        of = residual[mask == one]
        squares.append(float(of.mean() ** 2 - of.var() / len(of)))
    return statistics.fmean(squares)


def choose(losses: Array, estimates: Array) -> dict[str, int]:
    """Return the place in the grid that each rule chooses; losses are rounds × people."""
    best = int(losses.mean(axis=1).argmin())
    behind = losses - losses[best]
    near = np.flatnonzero(behind.mean(axis=1) <= behind.std(axis=1) / math.sqrt(losses.shape[1]))
    least = int(near[estimates[near].argmin()])
    return dict(zip(RULES, (best, int(estimates.argmin()), least, int(near.max())), strict=False))


def units(quick: bool) -> Iterable[Unit]:
    """List a unit per world and seed."""
    for seed in range(1 if quick else SEEDS):
        for name in OF[: 1 if quick else None]:
            yield Unit({"of": name, "seed": seed}, partial(measure, name, seed, quick))


def table(rows: Rows) -> Table:
    """Return a line per world and rule."""
    lines = []
    for (of,), those in by(rows, "of").items():
        for rule in RULES:
            mine, usual = ([row for row in those if row["rule"] == one] for one in (rule, LEAST_LOSS))
            cells = [of, rule, f"{statistics.median(values(mine, 'round')):.0f}"]
            for measure, root in ((MEAN_SQUARE, True), (GAP, False)):
                pair = (values(usual, measure), values(mine, measure))
                cells.append("1" if rule == LEAST_LOSS else said(*ratio(*pair, root=root), 2))
            lines.append(cells)
    return ["of", "rule", "round, median", "rms penalty × least loss", "squared gap × least loss"], lines


STUDY = Study("best_round", units, table)
