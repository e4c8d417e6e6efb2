"""How often the audit certifies a model that is hard on a small set of people.

A set of 1 to 3 % of the people is told more than justified, by a multiple of the margin; everybody else is told what
is justified. The verdict is that on averages, with the sets that could not be tested; differences within sets, which
could only add violations, are left out. "Before" is the rule that tested sets of at least 100 people and said nothing
about others, on the same scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit
from pucboost._auditing.findings import CERTIFIED, CERTIFIED_IN_PART, INCONCLUSIVE, VIOLATED
from pucboost._auditing.nuisance import CrossFitter
from pucboost._auditing.penalty import choose_sets, coverage, estimate_penalties, on_gaps, overall
from pucboost._auditing.people import AuditedModel, AuditPeople, Loss, read_audit_people
from pucboost._auditing.scores import MaskScores, score_mask
from pucboost._auditing.settings import FittingOptions, JudgementOptions

from .audit_worlds import expit

MARGIN = 0.05
TIMES = (0.0, 1.0001, 1.5, 3.0)
"""The penalty as a multiple of the margin; 0 is the true model."""
BATCH = 10
NUISANCE = {"num_leaves": 7, "learning_rate": 0.3, "min_data_in_leaf": 20}
VERDICTS = (CERTIFIED, CERTIFIED_IN_PART, VIOLATED, INCONCLUSIVE)
BINARY = Loss("binary")


@dataclass(frozen=True)
class World:
    """Two base features, and groups that say nothing about the outcome; whoever has one shares a little less.

    P(A = S | b, y) = share_S · exp(0.3·b₁ + 0.3·(y − ½)) for sets S other than everything, so that
    g_S(b) = P(Y = 1 | b, A ⊇ S) follows from Bayes' rule.
    """

    name: str
    rows: int
    groups: int
    shares: dict[int, float]
    penalised: tuple[int, ...]
    audits: int

    def draw(self, seed: int) -> tuple[Array, Array]:
        """Return a table and its outcomes."""
        rng = np.random.default_rng(seed)
        b = rng.uniform(-1, 1, size=(self.rows, 2))
        y = (rng.random(self.rows) < chance(b)).astype(float)
        chances = np.array([self.chance_of(mask, b, y) for mask in self.shares])
        place = (np.cumsum(chances, axis=0) < rng.random(self.rows)).sum(axis=0)
        shared = np.array([*self.shares, 2**self.groups - 1])[place]
        z = rng.normal(size=(self.rows, self.groups))
        z[(shared[:, None] >> np.arange(self.groups) & 1) == 0] = np.nan
        return np.column_stack([b, z]), y

    def chance_of(self, mask: int, b: Array, y: Any) -> Array:
        """Return P(A = S | b, y)."""
        return np.asarray(self.shares[mask] * np.exp(0.3 * b[:, 0] + 0.3 * (y - 0.5)))

    def justified(self, X: Array) -> Array:
        """Return g of each row for the set that it shows."""
        b, shown = X[:, :2], (~np.isnan(X[:, 2:]) << np.arange(self.groups)).sum(axis=1)
        told = np.empty(len(X))
        for mask in np.unique(shown):
            some = b[shown == mask]
            # Those who share less than the mask are not compared with.
            at_least = [
                1 - sum(self.chance_of(m, some, y) for m in self.shares if m & mask != mask) for y in (1.0, 0.0)
            ]
            p = chance(some)
            told[shown == mask] = p * at_least[0] / (p * at_least[0] + (1 - p) * at_least[1])
        return told

    def model(self, times: float, X: Array) -> Array:
        """Return what people are told."""
        shown = (~np.isnan(X[:, 2:]) << np.arange(self.groups)).sum(axis=1)
        return np.asarray(self.justified(X) + times * MARGIN * np.isin(shown, self.penalised))


def chance(b: Array) -> Array:
    """Return P(Y = 1 | b), between 0.18 and 0.69."""
    return expit(0.8 * b[:, 0] + 0.35 * b[:, 1] - 0.35)


def worlds() -> list[World]:
    """Return the worlds; masks are sets of groups."""
    two = {1: 0.2, 2: 0.2}
    three = {3: 0.2, 0: 0.015, 2: 0.004, 4: 0.004, 5: 0.003}
    rare = {3: 0.2, 1: 0.006, 2: 0.006, 4: 0.006}
    return [
        World("1 % share nothing", 3_000, 2, {**two, 0: 0.01}, (0,), 100),
        World("1 % share nothing", 6_000, 2, {**two, 0: 0.01}, (0,), 100),
        World("3 % share nothing", 3_000, 2, {**two, 0: 0.03}, (0,), 100),
        World("1 % share one of three, rarer sets", 6_000, 3, {**three, 1: 0.01}, (1,), 100),
        World("three sets of 0.6 %", 6_000, 3, rare, (1, 2, 4), 100),
        World("1 % share one of three, rarer sets", 20_000, 3, {**three, 1: 0.01}, (1,), 50),
    ]


def units(quick: bool) -> Iterable[Unit]:
    """List the work: batches of all worlds in turn."""
    made = worlds()[3:4] if quick else worlds()
    for batch in range(max(world.audits for world in made) // BATCH):
        for world in made:
            if batch * BATCH < world.audits and not (quick and batch):
                key = {"world": world.name, "n": world.rows, "seed": batch}
                yield Unit(key, partial(measure, world, batch, 1 if quick else BATCH))


def measure(world: World, batch: int, audits: int) -> list[Row]:
    """Audit some samples of a world with each of the models; return how often which verdict came out."""
    counts = {times: dict.fromkeys(("audits", "people", "before", *VERDICTS), 0) for times in TIMES}
    for number in range(audits):
        for times, found in audit_once(world, 7_000_000 + batch * BATCH + number).items():
            for name, value in found.items():
                counts[times][name] += value
    return [{"times": times, **found} for times, found in counts.items()]


def audit_once(world: World, seed: int) -> dict[float, dict[str, int]]:
    """Audit one sample; scores of sets that all models treat alike are computed once."""
    X, y = world.draw(seed)
    optional = list(range(2, 2 + world.groups))
    people, _ = read_audit_people(X, y, optional=optional, num_threads=1)
    judgement = JudgementOptions(MARGIN)
    sets = choose_sets(people, judgement)
    silent = [mask for mask in sets.alone if mask != people.everything]
    fitter = CrossFitter(people, FittingOptions(seed=seed, num_threads=1, folds=3, nuisance=NUISANCE))
    views = {mask: fitter.view(mask) for mask in silent}
    pool = fitter.stack(sets.pool) if sets.pool else None
    alike: dict[int | None, MaskScores] = {}
    found = {}
    for times in TIMES:
        model = AuditedModel(partial(world.model, times), people, None, 1)
        scored = []
        for mask, view in [*views.items(), *([(None, pool)] if pool is not None else [])]:
            differs = any(m in world.penalised for m in (sets.pool if mask is None else (mask,)))
            if differs or mask not in alike:
                alike[mask] = score_mask(people, model, BINARY, view, mask)
            scored.append(alike[mask])
        penalties, _ = estimate_penalties(people, model, BINARY, scored, MARGIN, judgement, seed)
        covered = coverage(people, replace(sets, alone=silent), penalties, (), judgement)
        verdict, _ = on_gaps(*overall(penalties, MARGIN, str), covered)
        found[times] = {
            "audits": 1,
            "people": int(np.isin(people.shared, np.array(world.penalised, dtype=np.uint64)).sum()),
            "before": int(_before(people, model, scored, seed) == CERTIFIED),
            verdict: 1,
        }
    return found


def _before(people: AuditPeople, model: AuditedModel, scored: Sequence[MaskScores], seed: int) -> str:
    """Return the verdict where sets of fewer than 100 people are left out."""
    large = [s for s in scored if s.mask is not None and people.mask_counts[s.mask] >= 100]
    judgement = JudgementOptions(MARGIN, min_count=100)
    return overall(estimate_penalties(people, model, BINARY, large, MARGIN, judgement, seed)[0], MARGIN, str)[0]


def table(rows: Rows) -> Table:
    """Return how often which verdict came out, by world and penalty."""
    columns = ["world", "n", "people penalised", "penalty / margin", "audits", "certified before", *VERDICTS]
    lines = []
    for world, n in dict.fromkeys((row["world"], row["n"]) for row in rows):
        for times in TIMES:
            some = [row for row in rows if (row["world"], row["n"], float(row["times"])) == (world, n, times)]
            total = {
                name: sum(float(row[name] or 0) for row in some) for name in ("audits", "people", "before", *VERDICTS)
            }
            audits = total["audits"]
            shares = [f"{total[name] / audits:.0%}" for name in ("before", *VERDICTS)]
            share = total[CERTIFIED] / audits
            shares[1] = f"{share:.1%} ± {np.sqrt(share * (1 - share) / audits):.1%}"
            size = f"{total['people'] / audits:.0f}"
            lines.append([world, f"{int(n):,}", size, f"{times:g}", f"{audits:.0f}", *shares])
    return columns, lines


STUDY = Study("small_sets", units, table=table)
