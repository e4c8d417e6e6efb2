"""Error rates of the audit where it is hard, with and without what was done about it.

Each sample is scored three times, from the same folds and availability models. "Plain": the outcome model starts from
nothing, intervals are θ̂ ± c standard errors. "As it is": the outcome model starts from the audited model, intervals
allow for skewness, and what cannot be told is not tested. "True models": as it is, but with the true g and e in place
of fitted models, which tells bad luck of the samples, and what is wrong with intervals, from what fitting does; also
for many other samples.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit
from pucboost._auditing.findings import ALL_WITHHOLDING, Penalty
from pucboost._auditing.nuisance import AVAILABILITY, CrossFitter, View, outcome_loss
from pucboost._auditing.penalty import _influences, choose_sets, estimate_penalties, gather_claims
from pucboost._auditing.people import AuditedModel, AuditPeople, read_audit_people
from pucboost._auditing.scores import MaskScores, critical_value, normal_quantile
from pucboost._auditing.settings import FittingOptions, JudgementOptions
from pucboost._auditing.within import judge_within, learn_directions

from .audit_worlds import World, worlds

LEVEL = 0.95
MARGIN = 1e-12  # so that no audit passes, and every interval allows for all sets
BATCH = 20
"""Audits per unit of work."""
FITTED, TRUE = ("plain", "as it is"), "true models"
VERSIONS = (*FITTED, TRUE, f"{TRUE}, other samples")
OTHERS = 1_000
"""Samples that are only audited with the true models."""
AGAIN, AGAIN_AUDITS = ("claims of 10 %: Pareto, α=2.5",), 1_000
"""Worlds whose few samples missed a goal, and how many new ones say whether that was chance."""
FIRST, FIRST_AGAIN, FIRST_OTHER = 1_000_000, 2_000_000, 5_000_000
"""Seeds of samples."""
ENOUGH = 20
"""Tests from which on the table shows how they went."""
OUTCOMES = ("audits", "tests", "untested", "covered", "joint", "too much", "too little", "z", "z²")
WITHIN = ("within tests", "within found")


def units(quick: bool) -> Iterable[Unit]:
    """List the work: the worlds one after the other, each in batches."""
    for world in worlds()[:3] if quick else worlds():
        key = {"world": world.name, "n": world.rows}
        for batch in range(1 if quick else world.audits // BATCH):
            audits = 1 if quick else BATCH
            yield Unit(
                {**key, "seed": batch}, lambda world=world, batch=batch, audits=audits: measure(world, batch, audits)
            )
        others = 2 if quick else OTHERS
        yield Unit({**key, "seed": "others"}, lambda world=world, others=others: measure_others(world, others))


def units_again(quick: bool) -> Iterable[Unit]:
    """List new samples of the worlds that missed a goal."""
    audits = 1 if quick else BATCH
    for world in (world for world in worlds() if world.name in AGAIN):
        for batch in range(1 if quick else AGAIN_AUDITS // BATCH):
            yield Unit(
                {"world": world.name, "n": world.rows, "seed": batch},
                partial(measure, world, batch, audits, FIRST_AGAIN),
            )


def measure(world: World, batch: int, audits: int, first: int = FIRST) -> list[Row]:
    """Audit some samples of a world; return counts, one row per version."""
    return _added(audit_once(world, first + BATCH * batch + number) for number in range(audits))


def measure_others(world: World, audits: int) -> list[Row]:
    """Audit other samples of a world with the true models."""
    return _added({VERSIONS[-1]: true_audit(world, FIRST_OTHER + number)} for number in range(audits))


def _added(audits: Iterable[dict[str, dict[str, float]]]) -> list[Row]:
    counts: dict[str, dict[str, float]] = {}
    for audit in audits:
        for version, found in audit.items():
            total = counts.setdefault(version, dict.fromkeys((*OUTCOMES, *WITHIN), 0.0))
            for name, value in found.items():
                total[name] += value
    return [{"version": version, **found} for version, found in counts.items()]


class Sample:
    """People of a world, drawn and read, with the model to audit."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.seed, self.drawn = world, seed, world.draw(world.rows, seed)
        self.people, _ = read_audit_people(
            self.drawn.X, self.drawn.y, optional=list(world.optional), num_threads=1, **self.drawn.options
        )
        self.model = AuditedModel(world.model, self.people, None, 1)
        self.judgement = JudgementOptions(MARGIN, level=LEVEL)
        tested = choose_sets(self.people, self.judgement)
        self.masks = [mask for mask in tested.alone if mask != self.people.everything]

    def true_scores(self) -> list[MaskScores]:
        """Return the scores with the true models of outcome and availability in place of fitted ones."""
        return [self._true_scores(mask) for mask in self.masks]

    def _true_scores(self, mask: int) -> MaskScores:
        people, rows = self.people, self.people.at_least(mask)
        X, y, weight = self.drawn.X[rows], people.y[rows], people.weight[rows]
        X[:, [column for bit, column in enumerate(self.world.optional) if not mask >> bit & 1]] = np.nan
        f, g, e = self.model.masked(rows, mask), self.world.justified(X), self.world.share(X)
        exact = (people.shared[rows] == np.uint64(mask)).astype(float)
        score = weight * (exact * (f - g) - e * (y - g))
        return MaskScores(mask, rows, score, weight * exact, y, (g, g), (e, e), f - y, weight)

    def penalties(self, scored: list[MaskScores]) -> list[Penalty]:
        """Return what an audit makes of the scores."""
        people, world = self.people, self.world
        return estimate_penalties(people, self.model, world.loss, scored, MARGIN, self.judgement, self.seed)[0]

    def truth(self, scored: list[MaskScores]) -> dict[str, float]:
        """Return the true penalty of each set, and of all of them together."""
        known = self.world.penalty()
        pooled = sum(known.get(self.people.name(s.mask), 0.0) * s.size.sum() for s in scored)
        return {**known, ALL_WITHHOLDING: pooled / sum(s.size.sum() for s in scored)}


def audit_once(world: World, seed: int) -> dict[str, dict[str, float]]:
    """Audit one sample with fitted models in both versions, and with the true ones."""
    sample = Sample(world, seed)
    people, fitter = sample.people, CrossFitter(sample.people, FittingOptions(seed=seed, num_threads=1))
    scored: dict[str, list[MaskScores]] = {version: [] for version in FITTED}
    directed = []
    for mask in sample.masks:
        view = fitter.view(mask)
        for version, one in zip(FITTED, _scores(people, sample.model, world, view, mask), strict=True):
            scored[version].append(one)
        if len(world.optional) == 1:
            directed.append(learn_directions(people, world.loss, view, scored[FITTED[1]][-1]))
    found = {
        FITTED[0]: _plain(sample, scored[FITTED[0]]),
        FITTED[1]: _as_it_is(sample, scored[FITTED[1]]),
        TRUE: _as_it_is(sample, sample.true_scores()),
    }
    if directed:
        within = judge_within(people, world.loss, directed, 0.0, LEVEL, "max-t", seed)
        found[FITTED[1]] |= {
            "within tests": float(len(within)),
            "within found": float(sum(one.beyond_margin for one in within)),
        }
    return found


def true_audit(world: World, seed: int) -> dict[str, float]:
    """Audit one sample with the true models only."""
    sample = Sample(world, seed)
    return _as_it_is(sample, sample.true_scores())


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
        both.append(MaskScores(mask, rows, score, weight * exact, y, tuple(outcome), tuple(share), f - y, weight))
    return both


def _plain(sample: Sample, scored: list[MaskScores]) -> dict[str, float]:
    claims, truth = gather_claims(sample.people, scored, sample.world.loss), sample.truth(scored)
    influences, spreads = _influences(claims, sample.people)
    error = np.array([spread.error for spread in spreads])
    z = np.array([claim.theta - truth.get(claim.name, 0.0) for claim in claims]) / error
    c = critical_value(influences, error, LEVEL, "max-t", sample.seed)
    alone, wide = normal_quantile(LEVEL), normal_quantile((1 + LEVEL) / 2)
    return _counted(z, np.abs(z) <= wide, np.abs(z) > c, z > alone, z < -alone, 0)


def _as_it_is(sample: Sample, scored: list[MaskScores]) -> dict[str, float]:
    truth, penalties = sample.truth(scored), sample.penalties(scored)
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
            if some:
                lines.append([world, f"{int(n):,}", version, *_rates(total)])
    return columns, lines


def _rates(total: dict[str, float]) -> list[str]:
    """Return the rates of one cell; errors are shares of all audits, those not testable included."""
    tests, tried = total["tests"], total["tests"] + total["untested"]
    mean = total["z"] / max(tests, 1)
    of_tests = [
        f"{total['covered'] / max(tests, 1):.1%}",
        f"{mean:+.2f}",
        f"{np.sqrt(max(total['z²'] / max(tests, 1) - mean**2, 0)):.2f}",
    ]
    covered, bias, spread = of_tests if tests >= ENOUGH else ["–"] * 3
    within = f"{total['within found'] / total['within tests']:.1%}" if total["within tests"] else "–"
    return [
        f"{total['audits']:,.0f}",
        f"{total['untested'] / tried:.0%}",
        covered,
        f"{total['joint'] / total['audits']:.1%}",
        f"{total['too much'] / tried:.1%}",
        f"{total['too little'] / tried:.1%}",
        bias,
        spread,
        within,
    ]


def page(rows: Rows) -> Table:
    """Return a line per world: the audit as it is between the plain one and the one that knows the true models."""
    names, everything = table(rows)
    lines = [dict(zip(names, line, strict=True)) for line in everything]
    covers, joint, above, below = names[5:9]
    shown = []
    for world, n in dict.fromkeys((line["world"], line["n"]) for line in lines):
        of = {line["version"]: line for line in lines if (line["world"], line["n"]) == (world, n)}
        plain, mine, true = (of[version] for version in VERSIONS[:3])
        sides = f"{mine[above]} / {mine[below]}"
        three = [" / ".join(one[column] for one in (plain, mine, true)) for column in (covers, joint)]
        shown.append([world, n, mine["audits"], mine["not testable"], *three, sides])
    columns = [f"{what}: plain / as it is / true models" for what in (covers, joint)]
    return ["world", "n", "audits", "not testable", *columns, "as it is, above / below by chance (5 %)"], shown


STUDY = Study("audit_hard", units, table=table, page=page)
STUDY_AGAIN = Study("audit_again", units_again, table=table, page=page)
