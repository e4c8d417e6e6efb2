"""Error rates of the audit where it is hard, with and without what was done about it.

Each audit is scored twice from the same people, folds and availability models. "Plain": the outcome model starts from
nothing, intervals are θ̂ ± c standard errors. "As it is": the outcome model starts from the audited model, intervals
allow for skewness, and what cannot be told is not tested.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.harness.study import Study, Unit
from benchmarks.harness.types import Array, Row, Rows, Table
from pucboost._auditing.estimate.audited_model import AuditedModel
from pucboost._auditing.estimate.cross_fitting import CrossFitter, View
from pucboost._auditing.estimate.intervals import critical_value, normal_quantile
from pucboost._auditing.estimate.learners import AVAILABILITY, outcome_loss
from pucboost._auditing.estimate.penalty import _claims, _influences, estimate_penalties
from pucboost._auditing.estimate.people import AuditPeople, read_audit_people
from pucboost._auditing.estimate.scores import MaskScores
from pucboost._auditing.estimate.tested_sets import tested_masks
from pucboost._auditing.estimate.within import judge_within, learn_directions
from pucboost._auditing.settings import FittingOptions, JudgementOptions

from .audit_worlds import World, worlds

LEVEL = 0.95
MARGIN = 1e-12  # so that no audit passes, and every interval allows for all sets
BATCH = 20
"""Audits per unit of work."""
BATCHES, MANY_BATCHES = 10, 15
"""Units per world, and where a world had to be settled."""
VERSIONS = ("plain", "as it is")
OUTCOMES = ("audits", "tests", "untested", "covered", "joint", "too much", "too little", "z", "z²")
WITHIN = ("within tests", "within found")


def units(quick: bool) -> Iterable[Unit]:
    """List the work: the worlds one after the other, each in batches."""
    for world in worlds()[:3] if quick else worlds():
        batches = MANY_BATCHES if world.name.startswith("Poisson") else BATCHES
        for batch in range(1 if quick else batches):
            key = {"world": world.name, "n": world.rows, "seed": batch}
            yield Unit(key, lambda world=world, batch=batch: measure(world, batch, 1 if quick else BATCH))


def measure(world: World, batch: int, audits: int) -> list[Row]:
    """Audit some samples of a world; return counts, one row per version."""
    counts = {version: dict.fromkeys((*OUTCOMES, *WITHIN), 0.0) for version in VERSIONS}
    for number in range(audits):
        for version, found in audit_once(world, 1_000_000 + BATCH * batch + number).items():
            for name, value in found.items():
                counts[version][name] += value
    return [{"version": version, **found} for version, found in counts.items()]


def audit_once(world: World, seed: int) -> dict[str, dict[str, float]]:
    """Audit one sample in both versions."""
    drawn = world.draw(world.rows, seed)
    people, _ = read_audit_people(drawn.X, drawn.y, optional=list(world.optional), num_threads=1, **drawn.options)
    model = AuditedModel(world.model, people, None, 1)
    fitter = CrossFitter(people, FittingOptions(seed=seed, num_threads=1))
    judgement = JudgementOptions(MARGIN, level=LEVEL)
    scored: dict[str, list[MaskScores]] = {version: [] for version in VERSIONS}
    directed = []
    for mask in tested_masks(people, judgement):
        if mask != people.everything:
            view = fitter.view(mask)
            for version, one in zip(VERSIONS, _scores(people, model, world, view, mask), strict=True):
                scored[version].append(one)
            if len(world.optional) == 1:
                directed.append(learn_directions(people, world.loss, view, scored[VERSIONS[1]][-1]))
    truth = world.penalty()
    pooled = sum(truth.get(people.name(s.mask), 0.0) * s.size.sum() for s in scored[VERSIONS[1]])
    truth["all who withhold something"] = pooled / sum(s.size.sum() for s in scored[VERSIONS[1]])
    found = {
        VERSIONS[0]: _plain(people, world, scored[VERSIONS[0]], truth, seed),
        VERSIONS[1]: _as_it_is(people, model, world, scored[VERSIONS[1]], truth, judgement, seed),
    }
    if directed:
        within = judge_within(people, world.loss, directed, 0.0, LEVEL, "max-t", seed)
        found[VERSIONS[1]] |= {
            "within tests": float(len(within)),
            "within found": float(sum(one.beyond_margin for one in within)),
        }
    return found


def _scores(people: AuditPeople, model: AuditedModel, world: World, view: View, mask: int) -> list[MaskScores]:
    """Return the scores with outcome models from nothing and from the audited model, as ``score_mask`` does."""
    rows = view.rows
    exact, y, weight = (people.shared[rows] == np.uint64(mask)).astype(float), people.y[rows], people.weight[rows]
    f, loss = model.masked(rows, mask), outcome_loss(world.loss)
    share = [view.cross_fit(exact, AVAILABILITY, half) for half in (1, 0)]
    both = []
    for start in (None, f):
        outcome = [view.cross_fit(y, loss, half, start) for half in (0, 1)]
        parts = [exact * (f - g) - e * (y - g) for g, e in zip(outcome, share, strict=True)]
        score = weight * (parts[0] + parts[1]) / 2
        both.append(
            MaskScores(mask, rows, score, weight * exact, y, (outcome[0], outcome[1]), (share[0], share[1]), f - y)
        )
    return both


def _plain(
    people: AuditPeople, world: World, scored: list[MaskScores], truth: dict[str, float], seed: int
) -> dict[str, float]:
    claims = _claims(people, scored, world.loss)
    influences, spreads = _influences(claims, people)
    error = np.array([spread.error for spread in spreads])
    z = np.array([claim.theta - truth.get(claim.name, 0.0) for claim in claims]) / error
    c = critical_value(influences, error, LEVEL, "max-t", seed)
    alone, wide = normal_quantile(LEVEL), normal_quantile((1 + LEVEL) / 2)
    return _counted(z, np.abs(z) <= wide, np.abs(z) > c, z > alone, z < -alone, 0)


def _as_it_is(
    people: AuditPeople,
    model: AuditedModel,
    world: World,
    scored: list[MaskScores],
    truth: dict[str, float],
    judgement: JudgementOptions,
    seed: int,
) -> dict[str, float]:
    penalties, _ = estimate_penalties(people, model, world.loss, scored, MARGIN, judgement, seed)
    told: list[tuple[Any, ...]] = []
    for p in penalties:
        if p.estimate is not None:
            true, e = truth.get(p.name, 0.0), p.estimate
            assert None not in (p.verdict_lower, p.verdict_upper, p.alone_lower, p.alone_upper)
            told.append(
                (
                    (e.value - true) / e.standard_error,
                    e.lower <= true <= e.upper,
                    not p.verdict_lower <= true <= p.verdict_upper,
                    p.alone_lower > true,
                    p.alone_upper < true,
                )
            )
    z, *flags = np.array(told, dtype=float).reshape(-1, 5).T
    return _counted(z, *flags, len(penalties) - len(told))


def _counted(z: Array, covered: Array, outside: Array, above: Array, below: Array, untested: int) -> dict[str, float]:
    numbers = (1, len(z), untested, covered.sum(), outside.any(), above.sum(), below.sum(), z.sum(), (z**2).sum())
    return dict(zip(OUTCOMES, map(float, numbers), strict=True))


def table(rows: Rows) -> Table:
    """Return rates by world and version."""
    columns = [
        "world", "n", "version", "audits", "not testable", "95 % interval covers", "some joint interval misses (10 %)",
        "above by chance (5 %)", "below by chance (5 %)", "bias / SE", "sd of z", "within (5 %)",
    ]  # fmt: skip
    lines = []
    for world, n in dict.fromkeys((row["world"], row["n"]) for row in rows):
        for version in VERSIONS:
            some = [row for row in rows if (row["world"], row["n"], row["version"]) == (world, n, version)]
            total = {name: sum(float(row[name] or 0) for row in some) for name in (*OUTCOMES, *WITHIN)}
            lines.append([world, f"{int(n):,}", version, *_rates(total)])
    return columns, lines


def _rates(total: dict[str, float]) -> list[str]:
    """Return the rates of one cell; errors are shares of all audits, those not testable included."""
    tests, tried = total["tests"], total["tests"] + total["untested"]
    if not tests:
        return [f"{total['audits']:.0f}", "100%", *["–"] * 7]
    mean = total["z"] / tests
    within = f"{total['within found'] / total['within tests']:.1%}" if total["within tests"] else "–"
    return [
        f"{total['audits']:.0f}",
        f"{total['untested'] / tried:.0%}",
        f"{total['covered'] / tests:.1%}",
        f"{total['joint'] / total['audits']:.1%}",
        f"{total['too much'] / tried:.1%}",
        f"{total['too little'] / tried:.1%}",
        f"{mean:+.2f}",
        f"{np.sqrt(max(total['z²'] / tests - mean**2, 0)):.2f}",
        within,
    ]


STUDY = Study("audit_hard", units, table=table)
