"""From scores to penalties: sums, standard errors and thresholds written out in plain Python."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from audit_tools import PAPER, TEASER, audit, constants, interval_by_hand
from auditing.report_examples import penalty
from scipy import integrate, stats

from pucboost._auditing.findings import CERTIFIED, INCONCLUSIVE, NOT_TESTABLE, VIOLATED, Penalty
from pucboost._auditing.penalty import (
    MIN_TAIL,
    NO_VARIATION,
    carried_by_one,
    decide,
    estimate_penalties,
    not_testable,
    overall,
    passed_together,
    rows_to_decide,
)
from pucboost._auditing.people import AuditPeople, Loss, read_audit_people
from pucboost._auditing.scores import MaskScores, Spread, critical_value, normal_quantile, ratio_estimate, tail_index
from pucboost._auditing.settings import JudgementOptions, roughly
from pucboost._consent import Consent

SQUARED = Loss("squared")


def make_people(shared: Any, y: Any = None, **options: Any) -> AuditPeople:
    """People with a base feature and two groups; ``shared`` is the mask of each."""
    masks = np.asarray(shared)
    table = np.column_stack([np.arange(len(masks)), *(np.where(masks >> g & 1, 1.0, np.nan) for g in (0, 1))])
    outcome = np.arange(len(masks)) % 2 if y is None else y
    options = {"optional": {"app": [1], "blood": [2]}, "num_threads": 1, **options}
    return read_audit_people(table, outcome, **options)[0]


def made_up_scores(people: AuditPeople, masks: list[int], seed: int = 0) -> list[MaskScores]:
    rng = np.random.default_rng(seed)
    scored = []
    for mask in masks:
        rows = np.array([i for i, a in enumerate(people.shared.tolist()) if a & mask == mask])
        size = people.weight[rows] * np.array([a == mask for a in people.shared[rows].tolist()])
        score = 0.1 * size + rng.normal(size=len(rows))
        scored.append(MaskScores(mask, rows, score, size, people.y[rows], (score, score)))
    return scored


def penalties(
    people: AuditPeople, scored: list[MaskScores], *, loss: Loss = SQUARED, bound: float = 0.1, **judgement: Any
) -> tuple[list[Penalty], float]:
    model = SimpleNamespace(given=np.linspace(-1.0, 4.0, len(people)))
    options = JudgementOptions(**{"margin": 0.1, "min_count": 10, **judgement})
    return estimate_penalties(people, model, loss, scored, bound, options, 0)  # type: ignore[arg-type]


def by_hand(people: AuditPeople, scored: list[MaskScores], members: Any) -> dict[str, Any]:
    """θ = Σ score / Σ size, and its error from what every person or cluster contributes, in loops."""
    score: dict[int, float] = defaultdict(float)
    size: dict[int, float] = defaultdict(float)
    for s in scored:
        for row, a, b in zip(s.rows.tolist(), s.score.tolist(), s.size.tolist(), strict=True):
            if members[row]:
                score[row] += a
                size[row] += b
    total = sum(size.values())
    theta = sum(score.values()) / total
    parts: dict[int, float] = defaultdict(float)
    sizes: dict[int, float] = defaultdict(float)
    units = len({int(people.cluster[row]) for row in score}) if people.cluster is not None else 0
    few = math.sqrt(units / (units - 1)) if units else 1.0  # of the clusters compared
    for row in score:
        unit = row if people.cluster is None else int(people.cluster[row])
        parts[unit] += few * (score[row] - theta * size[row]) / total
        sizes[unit] += size[row] / total
    given = np.linspace(-1.0, 4.0, len(people))
    return {
        "theta": theta,
        "error": math.sqrt(sum(part**2 for part in parts.values())),
        "interval": lambda c: interval_by_hand(theta, parts.values(), sizes.values(), c, units or None),
        "largest": max(part**2 for part in parts.values()) / sum(part**2 for part in parts.values()),
        "people": sum(1 for row in size if size[row] > 0),
        "comparable": len(score),
        "mean": sum(size[row] * given[row] for row in size) / total,
        "parts": parts,
    }


@pytest.mark.parametrize("clustered", [False, True], ids=["people", "clusters"])
def test_every_penalty_is_its_sum_over_people(clustered: bool) -> None:
    rng = np.random.default_rng(3)
    n = 1_000
    old = rng.random(n) < 0.4
    clusters = rng.integers(0, 60, n) if clustered else None
    people = make_people(
        rng.integers(0, 4, n), weight=rng.uniform(0.5, 2, n), subgroups={"old": old}, clusters=clusters
    )
    masks = [0, 1, 2, 3]
    scored = made_up_scores(people, masks)
    found, critical = penalties(people, scored, simultaneous="bonferroni")
    names = ["all who withhold something", "nothing", "app", "blood"]
    assert [(p.name, p.subgroup) for p in found] == [(m, None) for m in [*names, "everything"]] + [
        (m, "old") for m in names
    ]
    assert [p.decisive for p in found] == [True] * 4 + [False] + [True] * 4
    assert critical == pytest.approx(stats.norm.isf(0.05 / 8))  # each side errs in 5 % of cases, over eight intervals
    everybody = np.ones(n, dtype=bool)
    wanted = [scored[:3], scored[:1], scored[1:2], scored[2:3], scored[3:], scored[:3], *([s] for s in scored[:3])]
    for p, together in zip(found, wanted, strict=True):
        hand = by_hand(people, together, old if p.subgroup else everybody)
        assert p.estimate is not None
        assert p.estimate.value == pytest.approx(hand["theta"], abs=1e-12)
        assert p.estimate.standard_error == pytest.approx(hand["error"], rel=1e-10)
        assert (p.estimate.lower, p.estimate.upper) == pytest.approx(hand["interval"](stats.norm.isf(0.025)))
        assert (p.verdict_lower, p.verdict_upper) == pytest.approx(hand["interval"](critical))
        assert (p.alone_lower, p.alone_upper) == pytest.approx(hand["interval"](stats.norm.isf(0.05)))
        assert p.largest_share == pytest.approx(hand["largest"])
        assert (p.people, p.comparable) == (hand["people"], hand["comparable"])
        assert p.mean_prediction == pytest.approx(hand["mean"])
        assert p.percent == pytest.approx(100 * hand["theta"] / abs(hand["mean"]))
        assert p.verdict == decide(p.verdict_lower, p.verdict_upper, 0.1)
        undecided = p.verdict == INCONCLUSIVE
        # More rows would certify by the set's own interval, and convict by the joint one.
        ends = hand["interval"](stats.norm.isf(0.05) if abs(hand["theta"]) < 0.1 else critical)
        needed = rows_to_decide(hand["theta"], (ends[1] - ends[0]) / 2, 0.1, n) if undecided else None
        assert p.rows_to_decide == (None if needed is None else pytest.approx(needed, abs=1))
        assert bool(p.note) is not p.decisive
        if p.name == "everything":
            assert p.difference is None
            continue
        # What silence adds: both estimates vary together, person by person.
        members = old if p.subgroup else everybody
        all_shared, parts = by_hand(people, scored[3:], members), defaultdict(float, hand["parts"])
        for unit, part in all_shared["parts"].items():
            parts[unit] -= part
        assert p.difference is not None
        assert p.difference.value == pytest.approx(hand["theta"] - all_shared["theta"], abs=1e-12)
        values = list(parts.values())  # no ratio: nothing is known of its denominator
        assert p.difference.standard_error == pytest.approx(math.sqrt(sum(part**2 for part in values)), rel=1e-10)
        units = None if people.cluster is None else len(values)
        ends = interval_by_hand(p.difference.value, values, [0.0] * len(values), stats.norm.isf(0.025), units)
        assert (p.difference.lower, p.difference.upper) == pytest.approx(ends)


def exact_scores(people: AuditPeople, mask: int, theta: float, noise: float = 1e-4) -> MaskScores:
    """Scores whose ratio is θ, with a standard error of almost nothing."""
    rows = people.at_least(mask)
    size = people.weight[rows] * (people.shared[rows] == np.uint64(mask))
    wiggle = noise * (-1.0) ** np.arange(len(rows))
    return MaskScores(mask, rows, theta * size + wiggle - wiggle.mean(), size, people.y[rows], (size, size))


def test_decided_sets_need_no_more_rows_and_percentages_have_the_sign_of_the_penalty() -> None:
    shared = np.repeat([0, 1, 2, 3], 100)  # predictions rise with the row: below 0 at first
    people = make_people(shared)
    scored = [exact_scores(people, mask, theta) for mask, theta in ((0, 0.5), (1, -0.4), (2, 0.02))]
    found, _ = penalties(people, scored)
    _, nothing, app, blood = found
    assert [p.verdict for p in (nothing, app, blood)] == [VIOLATED, VIOLATED, CERTIFIED]
    assert [p.rows_to_decide for p in (nothing, app, blood)] == [None] * 3
    assert nothing.mean_prediction < 0 < app.mean_prediction
    assert nothing.percent == pytest.approx(100 * 0.5 / -nothing.mean_prediction)
    assert app.percent == pytest.approx(100 * -0.4 / app.mean_prediction)
    quantile, _ = penalties(people, scored, loss=Loss("quantile"))
    assert [p.percent for p in quantile] == [None] * 4  # a penalty in probability is no share of a prediction
    assert all(p.estimate is not None for p in quantile)
    zero = SimpleNamespace(given=np.zeros(400))
    options = JudgementOptions(margin=0.1)
    flat, _ = estimate_penalties(people, zero, SQUARED, scored, 0.1, options, 0)  # type: ignore[arg-type]
    assert [(p.mean_prediction, p.percent) for p in flat] == [(0.0, None)] * 4


def test_where_nothing_can_be_withheld_those_who_share_nothing_decide() -> None:
    table = np.arange(100.0)[:, None]
    people, _ = read_audit_people(table, np.arange(100) % 2, consent=Consent.declare([], ["age"]), num_threads=1)
    found, _ = penalties(people, made_up_scores(people, [0]))
    assert [(p.name, p.decisive) for p in found] == [("nothing", True)]


def test_joint_intervals_use_the_correlations_of_the_deciding_estimates() -> None:
    """Two sets: the critical value solves P(|Z₁| ≤ c, |Z₂| ≤ c) = 0.9 for their correlation, pooled one included."""
    people = make_people(np.arange(600) % 2 * 3)  # nothing, or everything: one deciding set, so no joint interval
    _, alone = penalties(people, made_up_scores(people, [0, 3]))
    assert alone == pytest.approx(stats.norm.isf(0.05))
    assert len(penalties(people, made_up_scores(people, [0, 3]))[0]) == 2  # nothing to pool either
    half = np.arange(600) % 2 == 0
    people = make_people(np.arange(600) // 2 % 2 * 3, subgroups={"half": half})
    scored = made_up_scores(people, [0, 3])
    found, critical = penalties(people, scored)
    assert [p.subgroup for p in found] == [None, None, "half"]  # who shares everything decides nothing
    first, second = (by_hand(people, scored[:1], who) for who in (np.ones(600, dtype=bool), half))
    product = sum(value * second["parts"].get(row, 0.0) for row, value in first["parts"].items())
    rho = product / (first["error"] * second["error"])
    assert 0.5 < rho < 0.9
    inside = joint_coverage(critical, rho)
    assert inside == pytest.approx(0.9, abs=0.006)


def joint_coverage(c: float, rho: float) -> float:
    """P(|Z₁| ≤ c, |Z₂| ≤ c) of two normal numbers with correlation ``rho``, by numerical integration."""
    z = np.linspace(-c, c, 4001)
    spread = math.sqrt(1 - rho**2)
    inner = stats.norm.cdf((c - rho * z) / spread) - stats.norm.cdf((-c - rho * z) / spread)
    return float(integrate.trapezoid(stats.norm.pdf(z) * inner, z))


@pytest.mark.parametrize(("rho", "level"), [(-0.8, 0.9), (0.0, 0.975), (0.6, 0.9)])
def test_max_t_solves_for_the_joint_coverage(rho: float, level: float) -> None:
    root = np.linalg.cholesky([[1.0, rho], [rho, 1.0]])
    errors = np.array([0.3, 20.0])  # standard errors differ; only the correlation may matter
    c = critical_value(errors[:, None] * root, errors, level, "max-t", 0)
    assert joint_coverage(c, rho) == pytest.approx(2 * level - 1, abs=0.006)
    assert normal_quantile(level) < c <= normal_quantile(1 - (1 - level) / 2)


def test_max_t_is_never_wider_than_bonferroni(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quantile of few draws would be, now and then."""
    monkeypatch.setattr("pucboost._auditing.scores._MAX_T_DRAWS", 30)
    ones, cap = np.ones(3), normal_quantile(1 - 0.05 / 3)
    found = [critical_value(np.eye(3), ones, 0.95, "max-t", seed) for seed in range(20)]
    assert max(found) == cap
    assert min(found) < cap
    for simultaneous in ("max-t", "bonferroni"):  # nothing to correct for, and nothing to draw
        assert critical_value(np.eye(3)[:1], ones[:1], 0.95, simultaneous, 0) == normal_quantile(0.95)
    assert critical_value(np.eye(2), ones[:2], 0.95, "none", 0) == normal_quantile(0.95)


def test_ratio_and_its_error_in_loops() -> None:
    rng = np.random.default_rng(5)
    top, bottom, cluster = rng.normal(2, 1, 50), rng.uniform(1, 3, 50), rng.integers(0, 7, 50)
    ratio = sum(top.tolist()) / sum(bottom.tolist())
    total = sum(bottom.tolist())
    for who in (None, cluster):
        parts: dict[int, float] = defaultdict(float)
        sizes: dict[int, float] = defaultdict(float)
        few = 1.0 if who is None else math.sqrt(7 / 6)
        for i in range(50):
            parts[i if who is None else int(who[i])] += few * (top[i] - ratio * bottom[i]) / total
            sizes[i if who is None else int(who[i])] += bottom[i] / total
        found = ratio_estimate(top, bottom, 0.9, who)
        error = math.sqrt(sum(part**2 for part in parts.values()))
        assert (found.value, found.standard_error) == pytest.approx((ratio, error))
        ends = interval_by_hand(ratio, parts.values(), sizes.values(), stats.norm.isf(0.05), None if who is None else 7)
        assert (found.lower, found.upper) == pytest.approx(ends)
    # Clusters without a part in either sum are no clusters of this ratio.
    nobody = np.concatenate([top, np.zeros(9)]), np.concatenate([bottom, np.zeros(9)])
    again = ratio_estimate(*nobody, 0.9, np.concatenate([cluster, np.arange(100, 109)]))
    assert (again.lower, again.upper) == pytest.approx((found.lower, found.upper), rel=1e-12)


def verdicts_of(people: AuditPeople, loss: Loss = SQUARED, **judgement: Any) -> list[Penalty]:
    return penalties(people, made_up_scores(people, [0]), loss=loss, **judgement)[0]


def test_least_number_of_people() -> None:
    shared = np.array([0] * 20 + [1] * 30)
    assert verdicts_of(make_people(shared), min_count=20)[0].estimate is not None
    few = verdicts_of(make_people(shared), min_count=21)[0]
    assert (few.verdict, few.estimate, few.decisive) == (NOT_TESTABLE, None, False)
    assert few.note == "20 people, fewer than the 21 that a test on their own needs."
    assert (few.people, few.comparable, few.groups) == (20, 50, ())


def test_least_number_of_events() -> None:
    cases: list[tuple[str, dict[float, int], bool]] = [
        ("binary", {1.0: 20, 0.0: 80}, True),
        ("binary", {1.0: 19, 0.0: 81}, False),
        ("binary", {1.0: 81, 0.0: 19}, False),
        ("binary", {1.0: 80, 0.0: 20}, True),
        ("binary", {0.5: 100}, True),  # shares between the two count as either
        ("quantile", {1.0: 81, 0.0: 19}, False),
        ("poisson", {3.0: 20, 0.0: 80}, True),
        ("poisson", {3.0: 19, 0.0: 81}, False),
        ("poisson", {3.0: 95, 0.0: 5}, True),  # who has no claim is no event
        ("squared", {1.0: 1, 0.0: 99}, True),
    ]
    for loss, outcomes, enough in cases:
        y = np.repeat(list(outcomes), list(outcomes.values()))
        found = verdicts_of(make_people(np.arange(100) % 2, y=y), loss=Loss(loss))[0]
        assert (found.estimate is not None) is enough
        if not enough:
            assert found.note == "19 people with the rarer outcome among those compared; at least 20 are needed."


def test_events_are_counted_within_the_subgroup_and_the_best_set_of_a_pool() -> None:
    y = np.zeros(200)
    y[:24] = 1.0
    shared = np.arange(200) % 2
    subgroups = {"with": np.arange(200) < 60, "without": np.arange(200) >= 9}
    people = make_people(shared, y=y, subgroups=subgroups)
    found, _ = penalties(people, made_up_scores(people, [0, 1]), loss=Loss("binary"))
    tested = {(p.name, p.subgroup): p.estimate is not None for p in found}
    # All 24 events are compared for "nothing", twelve for "app"; 15 in the second subgroup.
    assert [tested["nothing", g] for g in (None, "with", "without")] == [True, True, False]
    assert [tested["app", g] for g in (None, "with", "without")] == [False] * 3
    assert [tested["all who withhold something", g] for g in (None, "with", "without")] == [True, True, False]


def test_least_number_of_clusters_counts_those_of_the_people_themselves() -> None:
    shared = np.array([0] * 90 + [1] * 90)
    for clusters, enough in ((30, True), (29, False)):
        number = np.concatenate([np.arange(90) % clusters, 100 + np.arange(90)])
        found = verdicts_of(make_people(shared, clusters=number))[0]
        assert (found.estimate is not None) is enough
    assert found.note == "29 clusters; at least 30 are needed for a standard error."


def test_without_variation_nothing_is_said_and_others_keep_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pucboost._auditing.penalty.MIN_OTHERS", 0)
    people = make_people(np.arange(300) % 3)
    scored = made_up_scores(people, [0, 1, 2])
    flat = scored[1]
    scored[1] = MaskScores(1, flat.rows, 0.25 * flat.size, flat.size, flat.target, flat.outcome)
    found, critical = penalties(people, scored, simultaneous="bonferroni")
    assert [p.note for p in found] == ["", "", NO_VARIATION, ""]
    assert [p.verdict == NOT_TESTABLE for p in found] == [False, False, True, False]
    assert critical == pytest.approx(stats.norm.isf(0.05 / 3))  # it does not count among the joint intervals
    assert found[3].estimate.value == pytest.approx(by_hand(people, scored[2:], np.ones(300))["theta"])
    # Without the flat set the critical value of the other three is the same, by their correlations too.
    assert penalties(people, scored)[1] < critical


def test_boundaries_of_the_decision() -> None:
    for ends in ((-0.01, 0.01), (-0.02, 0.02), (0.02, 0.02), (-0.02, -0.02)):
        assert decide(*ends, 0.02) == CERTIFIED
    for ends in ((-0.03, -0.021), (0.0201, 9.0)):
        assert decide(*ends, 0.02) == VIOLATED
    # Touching the margin from outside decides nothing.
    for ends in ((-0.02, 0.021), (-0.021, 0.02), (0.02, 0.03), (-0.03, -0.02), (-0.03, 0.03)):
        assert decide(*ends, 0.02) == INCONCLUSIVE


def test_rows_that_would_decide_make_the_interval_touch_the_margin() -> None:
    for theta, half, margin, n in [(0.01, 0.03, 0.05, 700), (-0.01, 0.03, 0.05, 700), (-0.2, 0.3, 0.05, 123)]:
        needed = rows_to_decide(theta, half, margin, n)
        assert needed is not None
        width = [half * math.sqrt(n / rows) for rows in (needed - 1, needed)]
        distance = abs(abs(theta) - margin)
        assert width[1] <= distance < width[0]
    assert rows_to_decide(0.0, math.inf, 0.05, 700) is None
    assert rows_to_decide(0.0, 10.0, 1.0, 700) == 70_000
    assert rows_to_decide(0.0, 10.1, 1.0, 700) is None  # no number anybody could act on


def test_the_verdict_on_the_whole_and_why() -> None:
    def say(*found: Penalty) -> tuple[str, str]:
        return overall(found, 0.05, lambda amount: f"<{amount:g}>")

    fine, unsure = penalty("app", 0.01, CERTIFIED), penalty("app", 0.04, INCONCLUSIVE, rows_to_decide=7000)
    other, hopeless = penalty("blood", 0.04, INCONCLUSIVE, rows_to_decide=900), penalty("gym", 0.05, INCONCLUSIVE)
    bad, worse = penalty("blood", 0.2, VIOLATED), penalty("gym", -0.3, VIOLATED, subgroup="old")
    shown = penalty("everything", 0.9, VIOLATED, decisive=False)
    assert say() == say(shown)
    assert say()[0] == INCONCLUSIVE
    assert say(fine, shown) == (
        CERTIFIED, "In the one set of people tested, the average penalty of withholding lies within <0.05>.",
    )  # fmt: skip
    verdict, why = say(fine, unsure, other, hopeless, shown)
    assert verdict == INCONCLUSIVE
    assert why.startswith("For 3 of 4 sets of people")
    assert why.endswith("About 7,000 rows would decide.")
    assert "rows would decide" not in say(hopeless)[1]
    assert say(hopeless)[1].startswith("For the one set of people tested the data do not decide")
    # Sets, not intervals, are counted: all of them together are no further set, and subgroups are named.
    together = penalty("all", 0.01, CERTIFIED, groups=None)
    assert say(together, fine, fine)[1].startswith("In each of the 2 sets of people tested, the average")
    assert say(together)[1].startswith("Over all people who withhold something, the average")
    young = penalty("app", 0.01, CERTIFIED, subgroup="young")
    assert say(fine, fine, young)[1].startswith("In each of the 2 sets of people tested, and in each subgroup of them,")
    unsure_of_young = penalty("app", 0.01, INCONCLUSIVE, subgroup="young")
    assert say(together, unsure, fine, unsure_of_young, young)[1].startswith(
        "For 1 of 2 sets of people and 1 of 2 sets of people within subgroups the data do not decide"
    )
    assert say(penalty("all", 0.04, INCONCLUSIVE, groups=None), fine)[1].startswith(
        "For all who withhold something, taken together, the data do not decide"
    )
    rare = not_testable("nothing", (), None, 12, 900, "12 people.")
    assert say(rare)[1].endswith("can be tested. The largest are people who share nothing: 12 people.")
    wide = replace(unsure, alone_lower=-0.06, alone_upper=0.08)
    assert say(wide)[1].endswith("cannot decide a margin of <0.05>; the smallest they could decide is about <0.07>.")
    rarer = penalty("rarer sets together", 0.01, CERTIFIED, groups=None)
    assert say(fine, rarer)[1].startswith("In the one set of people tested, and in rarer sets taken together, the")
    assert say(fine, replace(rarer, verdict=INCONCLUSIVE))[1].startswith("For rarer sets, taken together, the data")
    assert say(bad, unsure, fine) == (
        VIOLATED,
        "People who share blood and no more are told <0.2> more than their data justify, beyond the margin of <0.05>.",
    )
    assert say(bad, worse, unsure)[1].startswith(
        "People who share gym and no more (subgroup old) are told <0.3> less than their data justify"
    )
    silent = penalty("nothing", 0.2, VIOLATED, groups=())
    pooled = penalty("all who withhold something", 0.2, VIOLATED, groups=None)
    assert say(silent)[1].startswith("People who share nothing are told")
    assert say(pooled)[1].startswith("People who withhold something are told")


# What silence adds ----------------------------------------------------------------------------------------------------


def test_the_standard_error_of_a_difference_is_what_it_varies_by() -> None:
    """Outcomes of those who share all count in both estimates: adding up two variances would be wrong."""
    differences, errors, as_if_independent = [], [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        shared = np.where(rng.random(400) < 0.5, 0, 3)
        y = rng.normal(size=400)
        people = make_people(shared, y)
        exact = shared == 0
        nothing = exact * 0.5 - 0.5 * y  # f = ½, g = 0 and e = ½ are known
        complete = np.flatnonzero(~exact)
        scored = [
            MaskScores(0, np.arange(400), nothing, exact * 1.0, y, (y, y)),
            MaskScores(3, complete, 0.5 - y[complete], np.ones(len(complete)), y[complete], (y[complete], y)),
        ]
        silent, full = penalties(people, scored)[0]
        assert silent.difference is not None
        assert silent.estimate is not None
        assert full.estimate is not None
        differences.append(silent.difference.value)
        errors.append(silent.difference.standard_error)
        as_if_independent.append(math.hypot(silent.estimate.standard_error, full.estimate.standard_error))
    assert np.mean(differences) == pytest.approx(0, abs=0.02)  # too high for everybody by ½, and no more for the silent
    spread = np.std(differences)
    assert np.mean(errors) == pytest.approx(spread, rel=0.1)
    assert np.mean(as_if_independent) > 1.25 * spread


def test_no_difference_without_people_to_compare_with() -> None:
    few = make_people([0] * 300 + [1] * 300 + [3] * 9)
    found, _ = penalties(few, made_up_scores(few, [0, 1, 3]))
    assert [p.difference for p in found] == [None] * len(found)
    nobody = make_people([0] * 300 + [1] * 300)
    assert all(p.difference is None for p in penalties(nobody, made_up_scores(nobody, [0, 1]))[0])


# Certified together ---------------------------------------------------------------------------------------------------


def with_interval(name: str, alone: tuple[float, float], joint: tuple[float, float], **fields: Any) -> Penalty:
    made = penalty(name, sum(alone) / 2, decide(*joint, 0.05), rows_to_decide=99, **fields)
    return replace(made, verdict_lower=joint[0], verdict_upper=joint[1], alone_lower=alone[0], alone_upper=alone[1])


def test_all_sets_are_certified_if_each_passes_by_its_own_interval() -> None:
    first = with_interval("app", (-0.04, 0.04), (-0.06, 0.06))
    second = with_interval("blood", (0.01, 0.05), (-0.01, 0.07))
    beside = with_interval("everything", (0.2, 0.3), (0.1, 0.4), decisive=False)
    assert [first.verdict, second.verdict, beside.verdict] == [INCONCLUSIVE, INCONCLUSIVE, VIOLATED]
    passed = passed_together([first, second, beside], 0.05)
    assert [p.verdict for p in passed] == [CERTIFIED, CERTIFIED, VIOLATED]
    assert [(p.verdict_lower, p.verdict_upper) for p in passed] == [(-0.04, 0.04), (0.01, 0.05), (0.1, 0.4)]
    assert [p.rows_to_decide for p in passed] == [None, None, 99]
    assert overall(passed, 0.05, str)[0] == CERTIFIED
    # One that does not pass leaves the others with their joint intervals: claims about them would be several.
    for wide in ((0.01, 0.051), (-0.051, 0.0)):
        third = with_interval("gym", wide, (-0.07, 0.07))
        assert passed_together([first, second, third], 0.05) == [first, second, third]
    untested = not_testable("gym", ("gym",), None, 9, 9, "few")
    assert passed_together([untested], 0.05) == [untested]
    assert [p.verdict for p in passed_together([first, untested], 0.05)] == [CERTIFIED, NOT_TESTABLE]


def test_a_model_at_the_margin_is_certified_in_five_percent_of_audits() -> None:
    """However many sets there are: one of them at the margin, the others well within."""
    rng = np.random.default_rng(0)
    certified = 0
    for _ in range(1_000):
        theta, error = np.array([0.05, *rng.normal(0, 0.01, 7)]) + rng.normal(0, 0.01, 8), 0.01
        found = [
            with_interval(str(j), (t - 1.644854 * error, t + 1.644854 * error), (t - 2.5 * error, t + 2.5 * error))
            for j, t in enumerate(theta)
        ]
        certified += overall(passed_together(found, 0.05), 0.05, str)[0] == CERTIFIED
    assert certified / 1_000 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1_000)
    assert certified > 15  # not by refusing everything


# Skewed and heavy-tailed outcomes -------------------------------------------------------------------------------------


def one_sided_errors(draw: Any, repetitions: int = 3_000) -> tuple[list[float], list[float]]:
    """How often one-sided 95 % bounds miss a ratio of 0: with the allowance for skewness, and by ± z·se."""
    rng = np.random.default_rng(0)
    skewed, plain = np.zeros(2), np.zeros(2)
    for _ in range(repetitions):
        score, size = draw(rng)
        value = score.sum() / size.sum()
        spread = Spread.of((score - value * size) / size.sum(), size / size.sum())
        lower, upper = spread.bounds(value, normal_quantile(0.95))
        skewed += [lower > 0, upper < 0]
        plain += [value > 1.644854 * spread.error, value < -1.644854 * spread.error]
    return (skewed / repetitions).tolist(), (plain / repetitions).tolist()


def few_events(rng: Any) -> tuple[Any, Any]:
    return 0.02 - (rng.random(1_000) < 0.02), (rng.random(1_000) < 0.4) * 1.0


def size_and_score_together(rng: Any) -> tuple[Any, Any]:
    size = rng.random(150) < 0.3
    return size - 0.3 + 0.3 * rng.normal(size=150), size * 1.0


@pytest.mark.parametrize("draw", [few_events, size_and_score_together], ids=["skewness", "ratio"])
def test_one_sided_errors_of_skewed_estimates(draw: Any) -> None:
    skewed, plain = one_sided_errors(draw)
    assert plain[0] - plain[1] > 0.03  # otherwise the case would show nothing
    assert abs(skewed[0] - skewed[1]) < 0.015
    assert 0.03 < min(skewed) < max(skewed) < 0.06


def test_intervals_without_skewness_are_symmetric_and_few_clusters_widen_them() -> None:
    contribution = np.array([0.1, -0.1] * 50)
    spread = Spread.of(contribution, np.full(100, 0.01))
    assert spread.bounds(2.0, 1.5) == pytest.approx((2 - 1.5, 2 + 1.5))
    few = Spread.of(contribution, np.full(100, 0.01), clusters=30)
    assert few.bounds(0.0, normal_quantile(0.95))[1] == pytest.approx(stats.t.isf(0.05, 29))
    assert Spread.of(np.zeros(5), np.zeros(5)) == Spread(0.0)
    assert Spread.of(np.array([3.0, -4.0]), np.zeros(2)).largest == pytest.approx(16 / 25)


def test_the_tail_index_by_hand_and_of_known_tails() -> None:
    rng = np.random.default_rng(1)
    draws = {"normal": rng.normal(size=3_000), "exponential": rng.exponential(size=3_000) - 1}
    draws |= {"lognormal": np.exp(2 * rng.normal(size=3_000)) - np.exp(2), "pareto": rng.pareto(1.5, 3_000) - 2}
    found = {name: tail_index(values) for name, values in draws.items()}
    assert found["normal"] > found["exponential"] > 2.2
    assert found["lognormal"] < MIN_TAIL
    assert found["pareto"] == pytest.approx(1.5, abs=0.3)
    assert tail_index(-draws["pareto"]) == found["pareto"]  # whichever side is heavy
    values = sorted(draws["exponential"].tolist(), reverse=True)
    large = [v for v in values if v > sum(map(abs, values)) / 3_000]
    m = int(0.15 * len(large))
    assert found["exponential"] == pytest.approx(1 / np.mean([math.log(v / large[m]) for v in large[:m]]))
    assert tail_index(np.array([1.0, -1.0, 0.5])) == math.inf


def test_heavy_tails_are_not_tested_and_loud_voices_are_named() -> None:
    rng = np.random.default_rng(2)
    people = make_people(np.arange(2_000) % 2)
    rows, size = np.arange(2_000), (np.arange(2_000) % 2 == 0) * 1.0
    amounts = {"heavy": np.exp(2.5 * rng.normal(size=2_000)), "light": rng.normal(size=2_000)}
    amounts["loud"] = np.where(rows == 7, 20.0, amounts["light"])
    said = {}
    nothing = np.zeros(2_000)
    for name, y in amounts.items():
        found, _ = penalties(people, [MaskScores(0, rows, -y, size, y, (nothing, nothing))])
        said[name] = (found[0].verdict == NOT_TESTABLE, found[0].note, carried_by_one(found))
    assert said["heavy"][0]
    assert said["heavy"][1].startswith("A few very large outcomes decide this average (tail index ")
    assert said["light"] == (False, "", [])
    assert not said["loud"][0]
    assert said["loud"][2][0].startswith("In one set of people a single person, or cluster, carries more than 5%")
    bounded, _ = penalties(
        people, [MaskScores(0, rows, -amounts["heavy"], size, size, (size, size))], loss=Loss("binary")
    )
    assert bounded[0].estimate is not None  # outcomes that are events have no tail

    def compare(y: Any, share: Any, weight: Any = None) -> str:
        """What is said where contributions are −w·e·(Y − g)."""
        w = np.ones(2_000) if weight is None else weight
        scored = MaskScores(0, rows, -w * share * y, w * size, y, (nothing, nothing), (share, share), None, w)
        return penalties(people, [scored])[0][0].note

    # Interest rates in an audit where few people resemble those who withhold: no tail, and nothing to refuse.
    few_alike, rates = 1 / (1 + np.exp(7 - 3 * rng.normal(size=2_000))), rng.uniform(5, 31, 2_000) - 18
    assert tail_index(few_alike * rates) < MIN_TAIL
    assert compare(rates, few_alike) == ""
    some_large = np.exp(rng.normal(size=2_000)) - np.exp(0.5)
    assert compare(some_large, few_alike).startswith("Few people are comparable, and some of their outcomes are large")
    assert compare(amounts["heavy"], few_alike).startswith("A few very large outcomes decide this average")
    heavy_weight = np.where(rows < 20, 1e3, 1.0)
    assert compare(rates, few_alike, heavy_weight).startswith("Few people are comparable: by their weights they count")


# Whole audits ---------------------------------------------------------------------------------------------------------


def test_rows_to_decide_really_decide() -> None:
    report = audit(TEASER.puc_prediction, TEASER.sample(500, 11), margin=0.02)
    assert report.verdict == "inconclusive"
    needed = max(p.rows_to_decide for p in report.penalties if p.decisive and p.rows_to_decide)
    assert "the smallest they could decide is about" in report.reason or f"About {roughly(needed)} " in report.reason
    assert audit(TEASER.puc_prediction, TEASER.sample(2 * needed, 12), margin=0.02).verdict == "certified"


def test_stricter_corrections_widen_intervals() -> None:
    people, options = PAPER.sample(3000, 1), {"nuisance": constants(0.4, 0.2)}
    reports = {
        s: audit(PAPER.puc_prediction, people, PAPER, simultaneous=s, **options)
        for s in ("none", "max-t", "bonferroni")
    }
    widths = [reports[s].critical_value for s in ("none", "max-t", "bonferroni")]
    assert widths[0] < widths[1] < widths[2]
    estimates = {tuple(p.estimate for p in r.penalties) for r in reports.values()}
    assert len(estimates) == 1
