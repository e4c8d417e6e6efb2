"""The penalty of silence: from scores to estimates with joint intervals and verdicts.

θ = Σ score / Σ size is a ratio of sums over people, and its standard error comes from the influence function
{D·h + e·(V − h) − D·θ} / mean(D). A subgroup G of people that is a function of base features multiplies score and size
by 1[G]; several masks together add up. So all estimates share one matrix of influences, person by person, and with it
the correlations that make their intervals jointly valid.

A model may be too high for everybody, also for people who withhold nothing (S = everything, for whom θ is the mean of
f − Y). What silence adds is the difference θ_S − θ_everything, and its influence function is the difference of the two.
The two estimates are about different people, but not independent: those who share everything are among the people with
A ⊇ S, whose outcomes set the yardstick of S. Summing the squares person by person takes that into account.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._common import Array
from .findings import CERTIFIED, INCONCLUSIVE, NOT_TESTABLE, Comparability, Estimate, Penalty, title
from .nuisance import EVENT, View, outcome_loss
from .people import AuditedModel, AuditPeople, Loss
from .scores import MaskScores, Spread, critical_value, few_clusters, normal_quantile, ratio_estimate, tail_index
from .settings import JudgementOptions, counted, people_in_words
from .verdict import decide, rows_to_decide

ALL_WITHHOLDING = "all who withhold something"

MIN_EVENTS = 20
"""With fewer of either outcome among those compared, the standard error misses the noise in outcomes."""

MIN_TAIL = 1.75
"""Below this tail index an average says little: the few people who decide it are rarely seen. In simulations with the
true nuisance models and lognormal outcomes, one side errs in up to 19 % of the audits where 5 % are meant, but in at
most 7.5 % if those below this index are left out."""

LARGE_SHARE = 0.05
"""Share of the variance carried by a single person from which on the report says so, and tails matter."""

MIN_CLUSTERS = 30

MIN_OTHERS = 30
"""So many people must share more than those judged. Where nobody does, the silent are compared with the silent alone,
and a model that reads silence passes."""

NO_VARIATION = "No variation: nothing can be said about chance."


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

    @property
    def people(self) -> int:
        return int((self.size > 0).sum())

    @property
    def theta(self) -> float:
        return float(self.score.sum() / self.size.sum())

    def shortcoming(self, people: AuditPeople, min_count: int) -> str:
        """Say why there is too little to test; empty if there is enough."""
        if self.people < min_count:
            return f"{people_in_words(self.people)}, fewer than the {min_count} asked for."
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
    claims = _claims(people, scored, loss)
    why_not = [claim.shortcoming(people, judgement.min_count) for claim in claims]
    tested = [i for i, why in enumerate(why_not) if not why]
    influences, measured = _influences([claims[i] for i in tested], people)
    spreads = dict(zip(tested, measured, strict=True))
    for place, i in enumerate(tested):
        why_not[i] = unruly(spreads[i], influences[[place]].data, loss)
    deciding = [i for i in tested if claims[i].decisive and not why_not[i]]
    joint = influences[[tested.index(i) for i in deciding]]
    differences = _differences(claims, deciding, joint, people, scored, loss, judgement)
    errors = np.array([spreads[i].error for i in deciding])
    critical = critical_value(joint, errors, judgement.level, judgement.simultaneous, seed)
    penalties = [
        _untested(claim, people, why)
        if why
        else _penalty(claim, people, model, loss, spreads[i], (critical, judgement.level, bound), differences.get(i))
        for i, (claim, why) in enumerate(zip(claims, why_not, strict=True))
    ]
    return passed_together(penalties, bound), critical


def unruly(spread: Spread, contributions: Array, loss: Loss) -> str:
    """Say why chance cannot be told from what people contribute; empty if it can."""
    if spread.error == 0:
        return NO_VARIATION
    # Bounded outcomes have no tail, and counts look as if they had one although nobody's count matters much.
    if loss.unit_is_probability or spread.largest <= LARGE_SHARE:
        return ""
    index = tail_index(contributions)
    if index >= MIN_TAIL:
        return ""
    return (
        f"A few very large outcomes decide this average (tail index {index:.1f}, at least {MIN_TAIL:g} is needed), and "
        "how often they come cannot be told from these people. Audit capped outcomes, or how often they are above 0."
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


def _untested(claim: _Claim, people: AuditPeople, why: str) -> Penalty:
    groups = _groups(claim.mask, people)
    return not_testable(claim.name, groups, claim.subgroup, claim.people, len(claim.rows), why)


def not_testable(
    name: str, groups: tuple[str, ...] | None, subgroup: str | None, people: int, comparable: int, note: str
) -> Penalty:
    """Return an entry without a number."""
    return Penalty(
        name, groups, subgroup, people, comparable, NOT_TESTABLE, False, None, None, None, None, None, None, note
    )


def _groups(mask: int | None, people: AuditPeople) -> tuple[str, ...] | None:
    return None if mask is None else people.consent.groups_of(mask)


def _claims(people: AuditPeople, scored: list[MaskScores], loss: Loss) -> list[_Claim]:
    """Return what to estimate: each set, all silent sets together, and the same within each subgroup."""
    sets = [(people.name(s.mask), s.mask, [s], s.mask != people.everything or s.mask == 0) for s in scored]
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
        score[s.rows] += s.score
        size[s.rows] += s.size
        compared[s.rows] = True
    rows = np.flatnonzero(compared & members)
    events = max(rarer_outcomes(s.target[members[s.rows]], loss) for s in together)
    others = max(_others(s, members, everything) for s in together)
    return _Claim(name, mask, subgroup, rows, score[rows], size[rows], decisive, events, others)


def _others(scored: MaskScores, members: Array, everything: int) -> float:
    """Return how many people share more than a set; infinitely many where there is nothing more to share."""
    return math.inf if scored.mask == everything else float((scored.size[members[scored.rows]] == 0).sum())


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
# Which sets of shared groups are tested, and which are too rare.


MAX_UNTESTED_SHOWN = 10


def tested_masks(people: AuditPeople, judgement: JudgementOptions) -> list[int]:
    """Return the sets to test: nothing first, everything last, the others in between by frequency."""
    masks = [mask for mask, count in people.mask_counts.items() if count >= judgement.min_count][: judgement.max_masks]
    return sorted(masks, key=lambda mask: (mask != 0, mask == people.everything))


def untested_sets(people: AuditPeople, masks: list[int], judgement: JudgementOptions) -> list[Penalty]:
    """Return entries for the most frequent sets that were not tested, and one for all others."""
    rest = [(mask, count) for mask, count in people.mask_counts.items() if mask not in masks]
    rest.sort(key=lambda item: item[0] != 0)  # those who share nothing come first, however few they are
    entries = []
    for mask, count in rest[:MAX_UNTESTED_SHOWN]:
        few = f"{people_in_words(count)}, fewer than the {judgement.min_count} asked for."
        note = few if count < judgement.min_count else f"Beyond the {judgement.max_masks} most frequent sets."
        groups = people.consent.groups_of(mask)
        entries.append(not_testable(people.name(mask), groups, None, count, len(people.at_least(mask)), note))
    further = rest[MAX_UNTESTED_SHOWN:]
    if further:
        count = sum(count for _, count in further)
        note = f"{counted(len(further), 'further set', 'further sets')}, too rare to be tested."
        entries.append(not_testable("other sets", None, None, count, count, note))
    return entries


# --------------------------------------------------------------------------------------------------
# What each set of people is compared with, and what the comparison leaves out; none of this decides.
#
# Three numbers for those who share exactly S, with D = 1[A = S] and e = P(D = 1 | b, z_S, A ⊇ S):
#
# - the calibration κ = E[f − Y | A ⊇ S], everybody masked to S. It needs no nuisance model and is 0 for f*.
# - the share P(ê > 0.95 | A = S). The yardstick g averages over the silent themselves, so as e → 1 a model that reads
#   silence passes by definition.
# - the penalty against people who share strictly more, g' = E[Y | b, z_S, A ⊋ S] in place of g. Where e ≤ 0.95,
#
#       Σ [D(f − g') − (1 − D)·e/(1 − e)·(Y − g')] / Σ D,
#
#   again with first-order errors of g' and e cancelling. Where e > 0.95 nothing is known of g' but that it lies between
#   the smallest and the largest outcome [l, u]; so over all people of the set the bounds are
#   (u − l)·P(ê > 0.95 | A = S) apart. It is not 0 for f* where silence is informative: f* − g' = e·(E[Y | A = S] − g').


RECOGNISED = 0.95
"""From this probability on, hardly anybody like a person shares more."""
OFTEN = 0.25
"""From this share of recognised people on, the report warns."""
MIN_MORE = 100
"""So many people must share more, to be a yardstick of their own."""

FITS_PER_MASK = 1
"""Cross-fits: the outcome of those who share more."""


def comparability(people: AuditPeople, loss: Loss, view: View, scored: MaskScores, level: float) -> Comparability:
    """Describe what those who share exactly one set are compared with."""
    assert scored.share is not None
    assert scored.deviation is not None
    rows, exact = scored.rows, scored.size > 0
    weight = people.weight[rows]
    cluster = None if people.cluster is None else people.cluster[rows]
    kappa = ratio_estimate(weight * scored.deviation, weight, level, cluster)
    name, count = people.name(scored.mask), int(exact.sum())
    if exact.all() or scored.mask == people.everything:
        view.skip()
        return Comparability(name, count, len(rows), kappa, None)
    share = (scored.share[0] + scored.share[1]) / 2
    alone = share > RECOGNISED
    recognised = float(scored.size[alone].sum() / scored.size.sum())
    if (~exact).sum() < MIN_MORE or not (exact & ~alone).any():
        view.skip()
        return Comparability(name, count, len(rows), kappa, recognised)
    stricter, bounds = _stricter(loss, view, scored, alone, weight, cluster, level)
    return Comparability(name, count, len(rows), kappa, recognised, stricter, *bounds)


def _stricter(
    loss: Loss, view: View, scored: MaskScores, alone: Array, weight: Array, cluster: Array | None, level: float
) -> tuple[Estimate, tuple[float, float]]:
    """Return the penalty against people who share more where there are any, and its bounds over all of the set."""
    assert scored.share is not None
    assert scored.deviation is not None
    exact, y, e = scored.size > 0, scored.target, np.minimum(scored.share[0], RECOGNISED)
    f = scored.deviation + y if loss.is_mean else np.full(len(y), loss.alpha)
    among = np.flatnonzero(~exact)
    g = view.cross_fit(y, outcome_loss(loss) if loss.is_mean else EVENT, 0, f, among=among)
    sign = 1.0 if loss.is_mean else -1.0  # f − g of a mean, g − τ of a quantile
    score = weight * sign * (exact * (f - g) - ~exact * e / (1 - e) * (y - g))
    estimate = ratio_estimate((score * ~alone), scored.size * ~alone, level, cluster)
    low, high = (0.0, 1.0) if loss.unit_is_probability else (float(y.min()), float(y.max()))
    lost, told = scored.size * alone, float(scored.size.sum())
    ends = sorted(float((lost * sign * (f - end)).sum()) for end in (low, high))
    known = estimate.value * float((scored.size * ~alone).sum())
    return estimate, ((known + ends[0]) / told, (known + ends[1]) / told)


def compared_with_themselves(found: list[Comparability]) -> list[str]:
    """Return a warning where many people of a set are compared with themselves."""
    often = [c for c in found if (c.recognised or 0) >= OFTEN]
    if not often:
        return []
    worst = max(often, key=lambda c: c.recognised or 0)
    who = worst.name if worst.name == "nothing" else f"{worst.name} and no more"
    more = "" if len(often) == 1 else f" ({len(often)} sets like that)"
    return [
        f"Of the people who share {who}, {worst.recognised:.0%} are compared with themselves: "
        f"hardly anybody with the same data shares more{more}. What a model reads out of their silence looks justified "
        "there."
    ]


# --------------------------------------------------------------------------------------------------
# For whom: the leaves of one small tree in words.


MAX_CATEGORIES_NAMED = 5
NEARLY_ZERO = 1e-30
"""LightGBM splits at 1e-35 where 0 is meant."""


@dataclass
class _Condition:
    """What a path through a tree says about one column."""

    above: float | None = None
    up_to: float | None = None
    among: list[str] = field(default_factory=list)
    missing: bool = False


def rules_of_tree(booster: Any, people: AuditPeople) -> dict[int, str]:
    """Return in words who is in each leaf of the first tree of a LightGBM booster, by number of the leaf."""
    found: dict[int, str] = {}
    names = people.consent.feature_names
    labels = people.source.categories.by_column(people.source.coded) if people.source.coded else {}

    def walk(node: dict[str, Any], path: list[tuple[dict[str, Any], bool]]) -> None:
        if "split_feature" not in node:
            found[int(node.get("leaf_index", 0))] = _in_words(path, names, labels)
            return
        walk(node["left_child"], [*path, (node, True)])
        walk(node["right_child"], [*path, (node, False)])

    walk(booster.dump_model()["tree_info"][0]["tree_structure"], [])
    return found


def _in_words(path: list[tuple[dict[str, Any], bool]], names: Any, labels: dict[int, Any]) -> str:
    conditions: dict[int, _Condition] = {}
    for node, left in path:
        column = int(node["split_feature"])
        condition = conditions.setdefault(column, _Condition())
        condition.missing = node.get("missing_type") != "None" and bool(node["default_left"]) is left
        if node["decision_type"] == "==":
            codes = [int(code) for code in str(node["threshold"]).split("||")]
            known = labels.get(column, ())
            named = [str(known[code]) if code < len(known) else str(code) for code in codes]
            listed = ", ".join(named[:MAX_CATEGORIES_NAMED]) + (", …" if len(named) > MAX_CATEGORIES_NAMED else "")
            condition.among.append(f"{'one of' if left else 'none of'} {listed}")
            condition.missing = False
        elif left:
            condition.up_to = min(_threshold(node), *([] if condition.up_to is None else [condition.up_to]), math.inf)
        else:
            condition.above = max(_threshold(node), *([] if condition.above is None else [condition.above]), -math.inf)
    said = [_condition_in_words(names[column], condition) for column, condition in conditions.items()]
    return " and ".join(said) or "all of them"


def _threshold(node: dict[str, Any]) -> float:
    threshold = float(node["threshold"])
    return 0.0 if abs(threshold) < NEARLY_ZERO else threshold


def _condition_in_words(name: str, condition: _Condition) -> str:
    said = [f"{name} is {among}" for among in condition.among]
    above, up_to = condition.above, condition.up_to
    if above is not None and up_to is not None:
        said.append(f"{name} above {above:.4g} and up to {up_to:.4g}")
    elif above is not None:
        said.append(f"{name} above {above:.4g}")
    elif up_to is not None:
        said.append(f"{name} up to {up_to:.4g}")
    return " and ".join(said) + (" or missing" if condition.missing else "")
