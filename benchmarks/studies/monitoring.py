"""How often a model is called violated by mistake over 50 monthly looks, and how soon a real penalty is found.

Every month 300 new people, two optional groups whose values make people share more or less, and one base feature. The
model is the truth plus a penalty for all who withhold something: none, exactly the margin (the worst case of a model
that is not to be called violated), or twice the margin. In most runs the true models of outcome and availability stand
in for fitted ones, so that a thousand are possible; in some, ``puc.monitor`` does everything itself.

Beside it stands the ordinary test of all data so far, with the same allowance for sets and sides: looked at every
month, or once, in a month fixed beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache

import numpy as np

import pucboost as puc
from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit
from pucboost._auditing.scores import normal_quantile
from pucboost._auditing.sequence import State, Sums

MARGIN = 0.05
LEVEL = 0.95
MONTHS, PEOPLE = 50, 300
RUNS = 1_000
FITTED_RUNS = {"none": 10, "the margin": 30, "twice the margin": 20}
PENALTIES = {"none": 0.0, "the margin": MARGIN, "twice the margin": 2 * MARGIN}
TRUE, FITTED = "true", "fitted"
ANY_TIME, EVERY_MONTH, ONCE = "any-time bounds", "ordinary test every month", "ordinary test once"
NAMES = {0: "nothing", 1: "u", 2: "v"}
SETS = (0, 1, 2)
"""What people share who withhold something: nothing, the first group, the second."""

B, U, V = (cells.ravel() for cells in np.meshgrid([0, 1, 2], [0, 1], [0, 1], indexing="ij"))
CHANCE = np.array([0.5, 0.3, 0.2])[B] * np.where(U, 0.4, 0.6) * np.where(V, 0.3, 0.7)
OUTCOME = 0.15 + 0.1 * B + 0.2 * U + 0.2 * V
SHARES = np.column_stack([0.8 - 0.35 * U - 0.05 * B, 0.75 - 0.35 * V])
"""P(a group is shared | everything): bad news is kept back."""
OF_MASK = np.column_stack(
    [np.prod([SHARES[:, g] if mask >> g & 1 else 1 - SHARES[:, g] for g in (0, 1)], axis=0) for mask in range(4)]
)


@cache
def justified(mask: int) -> tuple[Array, Array]:
    """Return f* of a mask and P(A = mask | A ⊇ mask, data), for each cell of base feature and values."""
    more = [other for other in range(4) if other & mask == mask]
    weight = CHANCE * OF_MASK[:, more].sum(axis=1)
    alike = B * 4 + (U * 2 if mask & 1 else 0) + (V if mask & 2 else 0)
    total, hits, own = (
        np.bincount(alike, weights=some) for some in (weight, weight * OUTCOME, CHANCE * OF_MASK[:, mask])
    )
    with np.errstate(invalid="ignore"):
        return (hits / total)[alike], (own / total)[alike]


def sample(n: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return cells, masks and outcomes of new people."""
    cell = rng.choice(len(CHANCE), n, p=CHANCE)
    shared = (rng.random((n, 2)) < SHARES[cell]) @ np.array([1, 2])
    return cell, shared, (rng.random(n) < OUTCOME[cell]).astype(float)


def contributions(cell: Array, shared: Array, y: Array, penalty: float) -> dict[str, tuple[Array, Array, Array]]:
    """Return score, size and who is compared for each claim, with the true models of outcome and availability."""
    found = {}
    for mask in SETS:
        g, e = (values[cell] for values in justified(mask))
        exact, among = shared == mask, shared & mask == mask
        found[NAMES[mask]] = (np.where(among, exact * penalty - e * (y - g), 0.0), exact * 1.0, among)
    score, size, _ = (sum(parts) for parts in zip(*found.values(), strict=True))
    nobody = np.zeros(len(y))
    found["rarer sets together"] = (nobody, nobody, nobody > 0)
    found["all who withhold something"] = (score, size, np.ones(len(y), dtype=bool))
    return found


def true_run(penalty: float, seed: int) -> dict[str, list[int]]:
    """Return the months in which each way finds the model violated; that of any-time bounds is the first one."""
    cell, shared, y = sample(MONTHS * PEOPLE, np.random.default_rng([7, seed]))
    parts = contributions(cell, shared, y, penalty)
    state = State(MARGIN, LEVEL, "binary", 0.5, 40, 0, 0, SETS, {name: Sums() for name in parts})
    ordinary = []
    z = normal_quantile(1 - state.joint_error)
    for month in range(1, MONTHS + 1):
        some = slice((month - 1) * PEOPLE, month * PEOPLE)
        sums = {}
        for name, one in state.sums.items():
            score, size, among = (part[some] for part in parts[name])
            batch = Sums.of(score, size, int(size.sum()), int(among.sum()), int((y[some] * among).sum()))
            sums[name] = one.plus(batch, state.error)
        state = replace(state, sums=sums, looks=month, people=state.people + PEOPLE).with_verdicts()
        if any(_beyond(one, state, z) for one in state.sums.values()):
            ordinary.append(month)
    first = [one.violated_at for one in state.sums.values() if one.violated_at]
    return {ANY_TIME: sorted(first)[:1], EVERY_MONTH: ordinary[:1], ONCE: ordinary}


def _beyond(sums: Sums, state: State, z: float) -> bool:
    """Return whether an ordinary test of all data so far finds a penalty beyond the margin on either side."""
    if state.shortcoming(sums):
        return False
    return any(side * sums.score - MARGIN * sums.size > z * sums.variance(side * MARGIN) ** 0.5 for side in (1, -1))


def fitted_run(penalty: float, seed: int) -> dict[str, list[int]]:
    """Return the same for ``puc.monitor``, which fits its own models; a violated model needs no further looks."""
    rng, report = np.random.default_rng([8, seed]), None
    for month in range(1, MONTHS + 1):
        cell, shared, y = sample(PEOPLE, rng)
        report = puc.monitor(
            _model(penalty), _table(cell, shared), y, margin=MARGIN, level=LEVEL, previous=report, optional=[1, 2],
            seed=seed, num_threads=1,
        )  # fmt: skip
        if report.verdict == "violated":
            return {ANY_TIME: [month]}
    return {ANY_TIME: []}


def _table(cell: Array, shared: Array) -> Array:
    X = np.column_stack([B, U, V])[cell].astype(float)
    X[:, 1][shared & 1 == 0] = np.nan
    X[:, 2][shared & 2 == 0] = np.nan
    return X


def _model(penalty: float) -> Callable[[Array], Array]:
    def model(X: Array) -> Array:
        shared = ~np.isnan(X[:, 1]) * 1 + ~np.isnan(X[:, 2]) * 2
        b, u, v = np.nan_to_num(X).astype(int).T
        cell = b * 4 + u * 2 + v
        f = np.select([shared == mask for mask in range(4)], [justified(mask)[0][cell] for mask in range(4)])
        return np.asarray(f + penalty * (shared != 3))

    return model


def units(quick: bool) -> Iterable[Unit]:
    """List the work: three penalties, with true and with fitted models."""
    for penalty in PENALTIES:
        yield _unit(TRUE, penalty, 0, 20 if quick else RUNS)
        for first in range(0, 1 if quick else FITTED_RUNS[penalty], 10):
            yield _unit(FITTED, penalty, first, 1 if quick else 10)


def _unit(models: str, penalty: str, first: int, runs: int) -> Unit:
    def measure() -> list[Row]:
        run = true_run if models == TRUE else fitted_run
        found = [run(PENALTIES[penalty], seed) for seed in range(first, first + runs)]
        return [
            {"way": way, "runs": runs, "found by month": _by_month(way, [one[way] for one in found])}
            for way in found[0]
        ]

    return Unit({"models": models, "penalty": penalty, "seed": first}, measure)


def _by_month(way: str, found: list[list[int]]) -> str:
    """Return in how many runs a model was found violated up to each month, or in it if one looks once."""
    months = range(1, MONTHS + 1)
    if way == ONCE:
        counts = [sum(month in one for one in found) for month in months]
    else:
        counts = [sum(bool(one) and one[0] <= month for one in found) for month in months]
    return " ".join(map(str, counts))


def table(rows: Rows) -> Table:
    """Return how often each way calls a model violated within 50 months, and how soon."""
    columns = ["penalty", "models", "looking", "runs", "violated by month 50", "half found by", "80 % found by"]
    lines = []
    for penalty, models, way in dict.fromkeys((row["penalty"], row["models"], row["way"]) for row in rows):
        some = [row for row in rows if (row["penalty"], row["models"], row["way"]) == (penalty, models, way)]
        n = sum(int(row["runs"]) for row in some)
        found = np.sum([[int(count) for count in row["found by month"].split()] for row in some], axis=0) / n
        share = float(found[-1])
        error = (share * (1 - share) / n) ** 0.5
        violated = f"{share:.1%} ± {error:.1%}" if error else f"{share * n:,.0f} of {n:,}"
        soon = [str(np.argmax(found >= part) + 1) if found.max() >= part else "–" for part in (0.5, 0.8)]
        lines.append([penalty, models, way, f"{n:,}", violated, *soon])
    return columns, lines


STUDY = Study("monitoring", units, table=table)
