"""The penalty of silence: from scores to estimates with joint intervals, and to verdicts on each set and on the whole.

θ = Σ score / Σ size is a ratio of sums over people, and its standard error comes from the influence function
{D·h + e·(V − h) − D·θ} / mean(D). A subgroup G of people that is a function of base features multiplies score and size
by 1[G]; several masks together add up. So all estimates share one matrix of influences, person by person, and with it
the correlations that make their intervals jointly valid.

A model may be too high for everybody, also for people who withhold nothing (S = everything, for whom θ is the mean of
f − Y). What silence adds is the difference θ_S − θ_everything, and its influence function is the difference of the two.
The two estimates are about different people, but not independent: those who share everything are among the people with
A ⊇ S, whose outcomes set the yardstick of S. Summing the squares person by person takes that into account.

The difference is shown and does not decide: those who withhold are told too much in either case. People who share
everything have a penalty, too (their calibration), but they withhold nothing, so it does not decide either.

The verdict's interval is simultaneous: each bound errs with probability 1 − ``level`` over all sets together, so two
one-sided tests at 5 % give a joint 90 % interval. The intervals shown beside it hold for one set, at ``level``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._common import Array
from .findings import (
    ALL_WITHHOLDING,
    CERTIFIED,
    CERTIFIED_IN_PART,
    INCONCLUSIVE,
    NOT_TESTABLE,
    RARER_SETS,
    VIOLATED,
    Comparability,
    Coverage,
    Estimate,
    Gap,
    Penalty,
    people_who,
    title,
)
from .people import AuditedModel, AuditPeople, Loss
from .scores import MaskScores, Spread, critical_value, few_clusters, normal_quantile, tail_index
from .settings import JudgementOptions, counted, people_in_words, roughly

LARGE_SET, MISTAKEN = 0.01, 0.01
"""The verdict is about every set of so large a share of the people; chance that one is taken for a rarer one."""
MANY = 100
"""Sets of so many people are tested on their own however rare they are."""
MANY_RECOGNISED = 0.25
"""If more of a set are compared with themselves, they are not covered. What a model reads out of their silence hides in
the average of the set by their share: with a quarter, it takes four margins to move the average by one."""

MIN_EVENTS = 20
"""With fewer of either outcome among those compared, the standard error misses the noise in outcomes: without events it
is near 0, and every verdict would be confident."""

MIN_TAIL = 1.75
"""Below this tail index an average says little: the few people who decide it are rarely seen. In simulations with the
true nuisance models and lognormal outcomes, one side errs in up to 19 % of the audits where 5 % are meant, but in at
most 7.5 % if those below this index are left out."""

LIGHT_TAIL = 3.0
"""From this tail index on, outcomes have a third moment."""

LARGE_SHARE = 0.05
"""From this share of the variance carried by a single person on, there is a warning, and tails matter."""

MIN_CLUSTERS = 30

MIN_OTHERS = 30
"""So many people must share more than those judged. Where nobody does, the silent are compared with the silent alone,
and a model that reads silence passes."""

MAX_UNTESTED_SHOWN = 10
MAX_TIMES_MORE = 100
"""How many times the rows at hand are still worth a number of rows that would decide."""
NO_VARIATION = "No variation: nothing can be said about chance."


@dataclass(frozen=True)
class Sets:
    """How the people who withhold something are tested."""

    alone: list[int]
    """Sets tested on their own: nothing first, everything last (for comparison), the others by frequency."""
    pool: list[int]
    """All other sets, tested together."""
    rare: frozenset[int]
    """Sets that surely hold less than 1 % of all people."""


def choose_sets(people: AuditPeople, judgement: JudgementOptions) -> Sets:
    """Choose which sets are tested on their own, and which together.

    The verdict is to hold for every set of at least 1 % of the people the audited ones stand for. Such a set has fewer
    than q of n people with probability 1 % at most, where q is that quantile of the binomial distribution: so from q on
    a set is tested on its own, if ``min_count`` people suffice for its interval, and from :data:`MANY` on in any case.
    """
    least = _least(people)
    counts, always = people.mask_counts, (0, people.everything)
    alone = [mask for mask in always if counts.get(mask, 0) >= judgement.min_count]
    for mask, count in counts.items():
        if mask not in always and count >= max(judgement.min_count, min(least, MANY)):
            alone.append(mask)
    alone = list(dict.fromkeys(alone))[: max(judgement.max_masks, 1)]
    pool = [mask for mask in counts if mask not in alone and (mask != people.everything or mask == 0)]
    if len(pool) == 1:
        alone, pool = [*alone, *pool], []
    alone.sort(key=lambda mask: (mask != 0, mask == people.everything))
    return Sets(alone, pool, frozenset(mask for mask in counts if counts[mask] < min(least, MANY)))


def _least(people: AuditPeople) -> int:
    """Return with how many people a set may hold 1 % of all."""
    from scipy.stats import binom

    return int(binom.ppf(MISTAKEN, len(people), LARGE_SET))


def untested_sets(people: AuditPeople, sets: Sets, judgement: JudgementOptions) -> list[Penalty]:
    """Return entries for sets that are not rare and yet not tested on their own, the most frequent ones first."""
    few = [mask for mask in sets.pool if mask not in sets.rare]
    few.sort(key=lambda mask: mask != 0)  # those who share nothing come first
    entries = []
    for mask in few[:MAX_UNTESTED_SHOWN]:
        note, groups = _why_pooled(people, mask, judgement), people.consent.groups_of(mask)
        count = people.mask_counts[mask]
        entries.append(not_testable(people.name(mask), groups, None, count, len(people.at_least(mask)), note))
    return entries


def why_nothing_can_be_tested(
    people: AuditPeople, sets: Sets, loss: Loss, judgement: JudgementOptions
) -> list[Penalty] | None:
    """Return the sets with what each of them lacks, if no models of outcome and availability could make up for it."""
    pooled = sum(people.mask_counts[mask] for mask in sets.pool)
    if pooled >= judgement.min_count:
        return None
    bare = []
    for mask in sets.alone:
        rows = people.at_least(mask)
        size, zero = people.weight[rows] * (people.shared[rows] == np.uint64(mask)), np.zeros(len(rows))
        bare.append(MaskScores(mask, rows, zero, size, people.y[rows], (zero, zero)))
    # How often outcomes lie below a predicted quantile is not known yet.
    claims = gather_claims(people, bare, loss if loss.is_mean else Loss("squared"))
    why_not = [claim.shortcoming(people, judgement.min_count) for claim in claims]
    if any(claim.decisive and not why for claim, why in zip(claims, why_not, strict=True)):
        return None
    entries = [
        not_testable(claim.name, _groups(claim.mask, people), claim.subgroup, claim.people, len(claim.rows), why)
        for claim, why in zip(claims, why_not, strict=True)
        if claim.decisive
    ]
    if pooled:
        entries.append(not_testable(RARER_SETS, None, None, pooled, len(people), _fewer(pooled, judgement.min_count)))
    return entries + untested_sets(people, sets, judgement)


def _fewer(count: int, least: int) -> str:
    return f"{people_in_words(count)}, fewer than the {least} that a test on their own needs."


def _why_pooled(people: AuditPeople, mask: int, judgement: JudgementOptions) -> str:
    count = people.mask_counts[mask]
    if count >= judgement.min_count:
        return f"Beyond the {judgement.max_masks} most frequent sets."
    return _fewer(count, judgement.min_count)


def coverage(
    people: AuditPeople,
    sets: Sets,
    penalties: Sequence[Penalty],
    compared: Sequence[Comparability],
    judgement: JudgementOptions,
) -> Coverage:
    """Count whom the verdict covers, and name the gaps.

    Covered are people in sets tested on their own, and those in rare sets where these were tested together. If the rare
    sets are too few people for that even together, surely less than 1 % of all, it suffices that they are part of
    :data:`ALL_WITHHOLDING`, unless those who share nothing are among them.
    """
    counts, whole = people.mask_counts, {p.name: p for p in penalties if p.subgroup is None}
    everybody = ALL_WITHHOLDING in whole and whole[ALL_WITHHOLDING].decisive
    alone, together, gaps = 0, 0, []

    def few_in_all(p: Penalty) -> bool:
        return everybody and p.people < min(judgement.min_count, _least(people))

    for mask in sets.alone:
        p = whole[people.name(mask)] if mask != people.everything or mask == 0 else None
        if p is not None and p.decisive:
            alone += counts[mask]
        elif p is not None and mask != 0 and few_in_all(p):
            together += counts[mask]
        elif p is not None:
            gaps.append(Gap(p.name, p.people, p.note))
    pool = whole.get(RARER_SETS)
    lost = 0
    for mask in sets.pool:
        if mask not in sets.rare:
            gaps.append(Gap(people.name(mask), counts[mask], _why_pooled(people, mask, judgement)))
        elif pool is not None and (pool.decisive or (few_in_all(pool) and 0 not in sets.pool)):
            together += counts[mask]
        else:
            lost += counts[mask]
    if lost:
        gaps.append(Gap(RARER_SETS, lost, pool.note if pool is not None else ""))
    withholding = alone + together + sum(gap.people for gap in gaps)
    missing = {gap.name for gap in gaps}
    for one in compared:
        if (one.recognised or 0) > MANY_RECOGNISED and one.name not in missing:
            some = round((one.recognised or 0) * one.people)
            gaps.append(Gap(one.name, some, "Hardly anybody with the same data shares more: compared with themselves."))
    return Coverage(
        withholding=withholding,
        alone=alone,
        together=together,
        not_covered=sum(gap.people for gap in gaps),
        gaps=tuple(sorted(gaps, key=lambda gap: (gap.name != "nothing", -gap.people))),
        accepted=judgement.partial,
    )


def on_gaps(verdict: str, reason: str, found: Coverage) -> tuple[str, str]:
    """Return verdict and reason, at best "certified in part" if some who withhold something are not covered."""
    if not found.gaps or found.not_covered == found.withholding:  # then the reason says so
        return verdict, reason
    worst = found.gaps[0]
    share = found.share_not_covered
    of = f"{share:.0%}" if share >= 0.095 else f"{share:.1%}" if share >= 0.001 else "less than 0.1%"
    missing = (
        f"The verdict does not cover {found.not_covered:,} of {people_in_words(found.withholding)} who withhold "
        f"something ({of}){', above all' if len(found.gaps) > 1 else ','} {people_who(worst.name)}: {worst.why}"
    )
    if verdict == CERTIFIED:
        return CERTIFIED_IN_PART, f"{missing} {reason}"
    return verdict, f"{reason} {missing}"


@dataclass(frozen=True)
class _Claim:
    """An estimate to make: a ratio of sums over the people compared."""

    name: str
    mask: int | None
    subgroup: str | None
    rows: Array
    """The people compared; scores and sizes are theirs."""
    score: Array
    size: Array
    decisive: bool
    events: float
    """How many people compared have the rarer outcome; infinite where outcomes are not events."""
    others: float
    """How many people compared share more than those judged; of several sets, the largest such number."""
    residual: Array
    """Y − g of every comparison."""
    resemblance: Array
    """w·e of every comparison: how much it counts."""

    @property
    def people(self) -> int:
        return int((self.size > 0).sum())

    @property
    def theta(self) -> float:
        return float(self.score.sum() / self.size.sum())

    def shortcoming(self, people: AuditPeople, min_count: int) -> str:
        """Return why there is too little to test; empty if there is enough."""
        if self.people < min_count:
            return _fewer(self.people, min_count)
        if self.decisive and self.others < MIN_OTHERS:
            few = counted(int(self.others), "person shares", "people share")
            return f"{few} more than they do; at least {MIN_OTHERS} are needed to compare them with."
        if self.events < MIN_EVENTS:
            few = f"{people_in_words(int(self.events))} with the rarer outcome among those compared"
            return f"{few}; at least {MIN_EVENTS} are needed."
        clusters = MIN_CLUSTERS if people.cluster is None else len(np.unique(people.cluster[self.rows[self.size > 0]]))
        if clusters < MIN_CLUSTERS:
            return (
                f"{counted(clusters, 'cluster', 'clusters')}; at least {MIN_CLUSTERS} are needed for a standard error."
            )
        return ""


def estimate_penalties(
    people: AuditPeople,
    model: AuditedModel,
    loss: Loss,
    scored: list[MaskScores],
    bound: float,
    judgement: JudgementOptions,
    seed: int,
) -> tuple[list[Penalty], float]:
    """Turn scores into penalties with verdicts; also return the critical value of the joint intervals.

    ``bound`` is the margin in units of the prediction.
    """
    claims = gather_claims(people, scored, loss)
    why_not = [claim.shortcoming(people, judgement.min_count) for claim in claims]
    tested = [i for i, why in enumerate(why_not) if not why]
    influences, measured = _influences([claims[i] for i in tested], people)
    spreads = dict(zip(tested, measured, strict=True))
    for place, i in enumerate(tested):
        why_not[i] = unruly(spreads[i], influences[[place]].data, claims[i].residual, claims[i].resemblance, loss)
    deciding = [i for i in tested if claims[i].decisive and not why_not[i]]
    joint = influences[[tested.index(i) for i in deciding]]
    differences = _differences(claims, deciding, joint, people, scored, loss, judgement)
    errors = np.array([spreads[i].error for i in deciding])
    critical = critical_value(joint, errors, judgement.level, judgement.simultaneous, seed)
    penalties = [
        not_testable(claim.name, _groups(claim.mask, people), claim.subgroup, claim.people, len(claim.rows), why)
        if why
        else _penalty(claim, people, model, loss, spreads[i], (critical, judgement.level, bound), differences.get(i))
        for i, (claim, why) in enumerate(zip(claims, why_not, strict=True))
    ]
    return passed_together(penalties, bound), critical


def unruly(spread: Spread, contributions: Array, residual: Array, resemblance: Array, loss: Loss) -> str:
    """Return why chance cannot be estimated from what people contribute; empty if it can.

    What a person contributes is an outcome's residual times a resemblance w·e. Where few contributions decide, either
    may be the reason. Large outcomes are a bad one: how often they come is not known. Resemblance is not, since e ≤ 1
    means (Σe)²/Σe² ≥ Σe: as many comparisons as there are people in the set count in effect, and only weights make them
    fewer. In simulations with bounded outcomes, the true models and all resemblance in few people (tail indices of
    contributions from 1.2 to 1.7), one side errs in 4 to 7 % of the audits where 5 % are meant.
    """
    if spread.error == 0:
        return NO_VARIATION
    effective = float(resemblance.sum() ** 2 / max((resemblance**2).sum(), 1e-300))
    if effective < MIN_OTHERS:
        return (
            f"Few people are comparable: by their weights they count as {effective:.0f}, and at least {MIN_OTHERS} are "
            "needed."
        )
    # Bounded outcomes have no tail, and counts look as if they had one although nobody's count matters much.
    if loss.unit_is_probability or spread.largest <= LARGE_SHARE or tail_index(contributions) >= MIN_TAIL:
        return ""
    index = tail_index(residual)
    if index >= LIGHT_TAIL:
        return ""
    if index >= MIN_TAIL:
        return (
            f"Few people are comparable, and some of their outcomes are large (tail index {index:.1f}, at least "
            f"{LIGHT_TAIL:g} is needed where few count so much). Audit more people, or capped outcomes (cap)."
        )
    return (
        f"A few very large outcomes decide this average (tail index {index:.1f}, at least {MIN_TAIL:g} is needed), and "
        "how often they come cannot be told from these people. Audit capped outcomes (cap), or how often they are "
        "above 0."
    )


def passed_together(penalties: list[Penalty], bound: float) -> list[Penalty]:
    """Return penalties, all that count certified if each of them lies within the margin by its own interval.

    An intersection-union test: "every set lies within the margin" is wrong only if a particular set does not, and then
    that set's own two one-sided tests must have erred. So the claim about all sets, and with it that about each, needs
    no allowance for their number, and each set's own interval becomes the one that decides. Where a set fails, claims
    about the others do need the allowance.
    """
    counting = [p for p in penalties if p.decisive]
    if not counting or not all(_passes_alone(p, bound) for p in counting):
        return penalties
    return [
        replace(p, verdict=CERTIFIED, rows_to_decide=None, verdict_lower=p.alone_lower, verdict_upper=p.alone_upper)
        if p.decisive
        else p
        for p in penalties
    ]


def _passes_alone(p: Penalty, bound: float) -> bool:
    return p.alone_lower is not None and p.alone_upper is not None and -bound <= p.alone_lower <= p.alone_upper <= bound


def _differences(
    claims: list[_Claim],
    deciding: list[int],
    influences: Any,
    people: AuditPeople,
    scored: list[MaskScores],
    loss: Loss,
    judgement: JudgementOptions,
) -> dict[int, Estimate]:
    """Return θ_S − θ_everything of the deciding claims by number, each within its subgroup, where that can be told."""
    complete = [s for s in scored if s.mask == people.everything]
    members: dict[str | None, Array] = {None: np.ones(len(people), dtype=bool)}
    members.update(people.subgroups)
    found: dict[int, Estimate] = {}
    for subgroup in dict.fromkeys(claims[i].subgroup for i in deciding if complete):
        everything = _claim(
            "", people.everything, subgroup, members[subgroup], complete, False, loss, people.everything
        )
        if everything.shortcoming(people, judgement.min_count):
            continue
        of_everything, _ = _influences([everything], people)
        for place, i in enumerate(deciding):
            if claims[i].subgroup == subgroup:
                difference = (influences[[place]] - of_everything).toarray().ravel()
                clusters = None if people.cluster is None else int((difference != 0).sum())
                spread = Spread.of(difference, np.zeros_like(difference), clusters)
                if spread.error > 0:
                    found[i] = spread.estimate(claims[i].theta - everything.theta, judgement.level)
    return found


def _penalty(
    claim: _Claim,
    people: AuditPeople,
    model: AuditedModel,
    loss: Loss,
    spread: Spread,
    judged_by: tuple[float, float, float],
    difference: Estimate | None,
) -> Penalty:
    """Return the estimate with its intervals and verdict; ``judged_by`` are critical value, level and margin."""
    theta, (critical, level, bound) = claim.theta, judged_by
    lower, upper = spread.bounds(theta, critical)
    alone = spread.bounds(theta, normal_quantile(level))
    verdict = decide(lower, upper, bound)
    mean = float((claim.size * model.given[claim.rows]).sum() / claim.size.sum())
    # To be certified, the interval of this set alone must lie within the margin; to be violated, the joint one outside.
    width = (alone[1] - alone[0]) / 2 if abs(theta) < bound else (upper - lower) / 2
    needed = rows_to_decide(theta, width, bound, len(people)) if verdict == INCONCLUSIVE else None
    return Penalty(
        name=claim.name,
        groups=_groups(claim.mask, people),
        subgroup=claim.subgroup,
        people=claim.people,
        comparable=len(claim.rows),
        verdict=verdict,
        decisive=claim.decisive,
        estimate=spread.estimate(theta, level),
        verdict_lower=lower,
        verdict_upper=upper,
        percent=100 * theta / abs(mean) if mean and loss.is_mean else None,
        mean_prediction=mean,
        rows_to_decide=needed,
        note="" if claim.decisive else "These people withhold nothing; shown for comparison.",
        difference=difference,
        alone_lower=alone[0],
        alone_upper=alone[1],
        largest_share=spread.largest,
    )


def carried_by_one(penalties: list[Penalty]) -> list[str]:
    """Return a warning if single people carry much of the chance in some estimates."""
    heavy = [p for p in penalties if p.decisive and (p.largest_share or 0) > LARGE_SHARE]
    if not heavy:
        return []
    worst = max(heavy, key=lambda p: p.largest_share or 0)
    sets = "one set" if len(heavy) == 1 else f"{len(heavy)} sets"
    return [
        f"In {sets} of people a single person, or cluster, carries more than {LARGE_SHARE:.0%} of the variance of the "
        f"estimate (up to {worst.largest_share:.0%}, {title(worst)!r}): these intervals rest on few outcomes."
    ]


def not_testable(
    name: str, groups: tuple[str, ...] | None, subgroup: str | None, people: int, comparable: int, note: str
) -> Penalty:
    return Penalty(
        name, groups, subgroup, people, comparable, NOT_TESTABLE, False, None, None, None, None, None, None, note
    )


def _groups(mask: int | None, people: AuditPeople) -> tuple[str, ...] | None:
    return None if mask is None else people.consent.groups_of(mask)


def gather_claims(people: AuditPeople, scored: list[MaskScores], loss: Loss) -> list[_Claim]:
    """Return what to estimate: each set, all silent sets together, and the same within each subgroup."""
    sets = [
        (RARER_SETS if s.mask is None else people.name(s.mask), s.mask, [s], s.mask != people.everything or s.mask == 0)
        for s in scored
    ]
    silent = [s for _, _, (s,), decisive in sets if decisive]
    pooled = [(ALL_WITHHOLDING, None, silent, True)] if len(silent) > 1 else []
    everybody = np.ones(len(people), dtype=bool)
    return [
        _claim(name, mask, subgroup, members, together, decisive, loss, people.everything)
        for subgroup, members in [(None, everybody), *people.subgroups.items()]
        for name, mask, together, decisive in [*pooled, *sets]
        if subgroup is None or decisive
    ]


def _claim(
    name: str,
    mask: int | None,
    subgroup: str | None,
    members: Array,
    together: list[MaskScores],
    decisive: bool,
    loss: Loss,
    everything: int,
) -> _Claim:
    """Add up the scores of one or several sets for the members of a subgroup."""
    score, size, compared = np.zeros(len(members)), np.zeros(len(members)), np.zeros(len(members), dtype=bool)
    for s in together:
        score += np.bincount(s.rows, weights=s.score, minlength=len(members))
        size += np.bincount(s.rows, weights=s.size, minlength=len(members))
        compared[s.rows] = True
    rows = np.flatnonzero(compared & members)
    events = max(rarer_outcomes(_of_people(s.target, s.rows, members), loss) for s in together)
    others = max(_others(s, members, everything) for s in together)
    inside = [(s, members[s.rows]) for s in together]
    residual = np.concatenate([(s.target - s.outcome[0])[some] for s, some in inside])
    resemblance = np.concatenate([s.resemblance[some] for s, some in inside])
    return _Claim(name, mask, subgroup, rows, score[rows], size[rows], decisive, events, others, residual, resemblance)


def _others(scored: MaskScores, members: Array, everything: int) -> float:
    """Return how many people share more than a set; infinitely many where there is nothing more to share."""
    if scored.mask == everything:
        return math.inf
    return float(len(np.unique(scored.rows[members[scored.rows] & (scored.size == 0)])))


def _of_people(values: Array, rows: Array, members: Array) -> Array:
    """Return one value for each member, of the first of their rows."""
    _, first = np.unique(np.where(members[rows], rows, -1), return_index=True)
    return values[first[members[rows[first]]]]


def rarer_outcomes(target: Array, loss: Loss) -> float:
    """Return how many people have the rarer outcome; infinitely many where outcomes are not events."""
    if loss.name == "squared":
        return math.inf
    above, below = float((target > 0).sum()), float((target < 1).sum())
    return above if loss.name == "poisson" else min(above, below)


def _influences(claims: list[_Claim], people: AuditPeople) -> tuple[Any, list[Spread]]:
    """Return what each person, or each cluster, contributes to θ̂ − θ, and how that spreads.

    A sparse matrix, one row per claim, because most claims are about few people: many claims × many people would not
    fit into memory. Contributions sum to zero over independent people or clusters, so the variance is the sum of
    squares.
    """
    from scipy.sparse import csr_array

    units = len(people) if people.cluster is None else int(people.cluster.max()) + 1
    values, columns, starts, spreads = [], [], [0], []
    for claim in claims:
        total = claim.size.sum()
        value, size, unit = (claim.score - claim.size * claim.theta) / total, claim.size / total, claim.rows
        clusters = None
        if people.cluster is not None:
            unit, owner = np.unique(people.cluster[claim.rows], return_inverse=True)
            clusters = len(unit)
            value, size = (np.bincount(owner, weights=part) for part in (value, size))
            value = value * few_clusters(clusters)
        values.append(value)
        columns.append(unit)
        starts.append(starts[-1] + len(unit))
        spreads.append(Spread.of(value, size, clusters))
    joined = [np.concatenate(parts) if parts else np.empty(0) for parts in (values, columns)]
    return csr_array((joined[0], joined[1].astype(np.int64), starts), shape=(len(claims), units)), spreads


# --------------------------------------------------------------------------------------------------
# Verdicts: on an interval, and on the whole.


def decide(lower: float, upper: float, margin: float) -> str:
    """Return the verdict on an interval: inside the margin, outside, or neither."""
    if -margin <= lower and upper <= margin:
        return CERTIFIED
    return VIOLATED if lower > margin or upper < -margin else INCONCLUSIVE


def rows_to_decide(theta: float, half_width: float, margin: float, n: int) -> int | None:
    """Return how many rows would decide if the estimate stayed the same: widths shrink with the root of the rows."""
    distance = abs(margin - abs(theta))
    if distance == 0 or not math.isfinite(half_width):
        return None
    needed = n * (half_width / distance) ** 2
    return math.ceil(needed) if needed <= MAX_TIMES_MORE * n else None


def overall(penalties: Sequence[Penalty], margin: float, describe: Callable[[float], str]) -> tuple[str, str]:
    """Return the verdict on the whole, and why: violated if any set is, certified if every set is."""
    tested = [p for p in penalties if p.decisive]
    if not tested:
        return INCONCLUSIVE, _why_nothing([p for p in penalties if p.verdict == NOT_TESTABLE])
    violated = [p for p in tested if p.verdict == VIOLATED]
    if violated:
        worst = max(violated, key=lambda p: abs(p.estimate.value) if p.estimate else 0.0)
        assert worst.estimate is not None
        told = "more" if worst.estimate.value > 0 else "less"
        return VIOLATED, (
            f"{_who(worst)} are told {describe(abs(worst.estimate.value))} {told} than their data justify, beyond "
            f"the margin of {describe(margin)}."
        )
    open_ones = [p for p in tested if p.verdict == INCONCLUSIVE]
    if open_ones:
        return INCONCLUSIVE, (
            f"For {_which(open_ones, tested)} the data do not decide whether the penalty lies within the margin of "
            f"{describe(margin)}.{_what_would_decide(open_ones, margin, describe)}"
        )
    return CERTIFIED, (f"{_each(tested)}, the average penalty of withholding lies within {describe(margin)}.")


def _why_nothing(untested: Sequence[Penalty]) -> str:
    if not untested:
        return "Nobody withholds anything: there is nothing to test."
    largest = max(untested, key=lambda p: (p.subgroup is None, p.name not in (ALL_WITHHOLDING, RARER_SETS), p.people))
    who = people_who(largest.name)
    return f"No set of people who withhold something can be tested. The largest are {who}: {largest.note}"


def _what_would_decide(open_ones: Sequence[Penalty], margin: float, describe: Callable[[float], str]) -> str:
    """Say what these data could decide at all, or how many rows would do.

    A penalty of 0 is certified if half the width of the set's own interval is below the margin.
    """
    widest = max(((p.alone_upper or 0.0) - (p.alone_lower or 0.0)) / 2 for p in open_ones)
    if widest >= margin:
        return (
            f" These data cannot decide a margin of {describe(margin)}; the smallest they could decide is about "
            f"{describe(widest)}."
        )
    needed = max((p.rows_to_decide or 0) for p in open_ones)
    return f" About {roughly(needed)} rows would decide." if needed else ""


def _sets(penalties: Sequence[Penalty], *, within_subgroups: bool) -> list[Penalty]:
    """Return the entries about one set of people each: all sets together are not one more set."""
    return [p for p in penalties if p.groups is not None and (p.subgroup is not None) == within_subgroups]


def _each(tested: Sequence[Penalty]) -> str:
    sets, parts = len(_sets(tested, within_subgroups=False)), _sets(tested, within_subgroups=True)
    if not sets:
        return "Over all people who withhold something"
    which = "In the one set of people tested" if sets == 1 else f"In each of the {sets} sets of people tested"
    if any(p.name == RARER_SETS and p.subgroup is None for p in tested):
        which += ", and in rarer sets taken together"
    return f"{which}, and in each subgroup of them" if parts else which


def _which(open_ones: Sequence[Penalty], tested: Sequence[Penalty]) -> str:
    """Return how many of the sets are open, in all and within subgroups."""
    words = []
    for within, where in ((False, ""), (True, " within subgroups")):
        some, of = (len(_sets(entries, within_subgroups=within)) for entries in (open_ones, tested))
        if some:
            words.append(f"the one set of people tested{where}" if of == 1 else f"{some} of {of} sets of people{where}")
    if any(p.name == RARER_SETS for p in open_ones):
        words.append("rarer sets, taken together,")
    return " and ".join(words) or "all who withhold something, taken together,"


def _who(p: Penalty) -> str:
    people = people_who(p.name)
    people = people[0].upper() + people[1:]
    return people if p.subgroup is None else f"{people} (subgroup {p.subgroup})"
