"""Whether averages hide opposite penalties: some people of a set told too much, others too little.

Learn from some people in which direction s(b, z_S) = sign(f − g) the model errs, and test it on others, by

    T = Σ ê·s·(f − Y) over A ⊇ S,        τ = E[T] / E[Σ ê],

where f is masked to S and ê(b, z_S) is the chance that a person with these data shares exactly S: everybody who
shares at least S counts as much as they resemble those who share S. Given what was learned, E[f − Y | b, z_S, A ⊇ S]
= h, so

    τ = Σ ê·s·h / Σ ê  ≤  Σ ê·|h| / Σ ê,

a lower bound of the mean absolute penalty of such people, whatever s and ê are; for f* it is exactly 0. It is compared
with the margin from below: "violated for some" needs a lower confidence bound of τ beyond it. The converse cannot be
certified: no direction found does not mean that there is none.

Cross-fitting all folds would not do. Each half would be tested by a direction learned from the other, and under f*
the two statistics are positively correlated (a degenerate U-statistic). So folds come one after another: fold k is
tested with what the folds before it taught. Given the past, each term has mean 0 under f*, so T is a martingale, its
variance is the expected sum of squares, and nobody's outcome is used both ways. The first two fifths only teach.

For whom: a tree of at most four leaves, fitted to f − Y among the first people with weights ê, describes who is told
too much or too little. Each leaf's Σ ê·(f − Y) / Σ ê is then estimated from the others, with joint intervals
(Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._common import Array
from .._virtual.plan import child_seed
from .findings import CERTIFIED, RARER_SETS, VIOLATED, VIOLATED_FOR_SOME, Part, Penalty, WithinSet, people_who
from .nuisance import AVAILABILITY, EVENT, LightGBMLearner, View, outcome_loss
from .penalty import MIN_CLUSTERS, MIN_EVENTS, rarer_outcomes, unruly
from .people import AuditPeople, Loss
from .scores import MaskScores, Spread, critical_value, few_clusters, normal_quantile, ratio_estimate

LEAVES = 4
TEACHING = 0.4
"""Share of the folds that only teach."""
MAX_CATEGORIES_NAMED = 5
NEARLY_ZERO = 1e-30
"""LightGBM splits at 1e-35 where 0 is meant."""


def teaching_folds(folds: int) -> int:
    """Return how many folds only teach; each of the others reports one step to the progress display."""
    return max(1, int(TEACHING * folds))


@dataclass(frozen=True)
class Directed:
    """The people of one set's comparison, in the direction that others taught."""

    mask: int | None
    """None for rare sets together."""
    view: View
    tested: Array
    """Rows of the view that were tested."""
    share: Array
    """w·ê of each of them."""
    direction: Array
    """s: −1, 0 or 1."""
    deviation: Array
    """V of each row of the view: f − Y, or 1[Y ≤ f] − τ."""
    first_share: Array
    """w·ê of all rows of the view, from what the first folds taught."""
    target: Array
    """Outcomes of those tested."""

    def name(self, people: AuditPeople) -> str:
        return RARER_SETS if self.mask is None else people.name(self.mask)

    @property
    def score(self) -> Array:
        return self.share * self.direction * self.deviation[self.tested]

    @property
    def people(self) -> Array:
        return self.view.rows[self.tested]


def learn_directions(people: AuditPeople, loss: Loss, view: View, scored: MaskScores) -> Directed:
    """Learn direction and resemblance fold by fold, each from the folds before it."""
    assert scored.deviation is not None
    rows, y, deviation = scored.rows, scored.target, scored.deviation
    exact, weight = (scored.size > 0).astype(np.float64), view.weight
    start = deviation + y if loss.is_mean else np.full(len(y), loss.alpha)
    kind, sign = (outcome_loss(loss), 1.0) if loss.is_mean else (EVENT, -1.0)
    fold, folds = view.fitter.fold[rows], view.fitter.fitting.folds
    first = teaching_folds(folds)
    best = replace(view, learner=view.learner.best())
    share, direction, first_share = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    for k in range(first, folds):
        before, now = np.flatnonzero(fold < k), np.flatnonzero(fold == k)
        seeds = [child_seed(view.fitter.fitting.seed, 300 + 10 * k + i) for i in (0, 1)]
        outcome = best.fit(before, y, kind, seeds[0], start)
        availability = best.fit(before, exact, AVAILABILITY, seeds[1])
        if k == first:
            first_share = weight * availability(np.arange(len(rows)))
        if len(now):
            share[now] = weight[now] * np.clip(availability(now), 0, 1)
            direction[now] = np.sign(sign * (start[now] - outcome(now)))
        view.fitter.on_fit()
    tested = np.flatnonzero(fold >= first)
    return Directed(scored.mask, view, tested, share[tested], direction[tested], deviation, first_share, y[tested])


def judge_within(
    people: AuditPeople, loss: Loss, found: Sequence[Directed], bound: float, level: float, simultaneous: str, seed: int
) -> tuple[WithinSet, ...]:
    """Compare the lower bounds of all sets with the margin, jointly."""
    notes = [_shortcoming(people, loss, one) for one in found]
    usable = [i for i, note in enumerate(notes) if not note]
    measured = {i: _spread(people, found[i]) for i in usable}
    for i in usable:
        _, spread, added = measured[i]
        notes[i] = unruly(spread, added[added != 0], found[i].deviation[found[i].tested], found[i].share, loss)
    counting = [i for i in usable if not notes[i] and _counts(people, found[i])]
    critical = normal_quantile(level)
    if counting:
        influences = np.array([measured[i][2] for i in counting])
        errors = np.array([measured[i][1].error for i in counting])
        critical = critical_value(influences, errors, level, simultaneous, seed)
    results = []
    for i, one in enumerate(found):
        name, counts = one.name(people), _counts(people, one)
        if notes[i]:
            results.append(WithinSet(name, len(one.tested), None, None, False, note=notes[i], decisive=counts))
            continue
        value, spread, _ = measured[i]
        lower, _ = spread.bounds(value, critical)
        beyond = lower > bound
        parts = parts_of(people, one, level) if beyond and counts else ()
        estimate = spread.estimate(value, level)
        results.append(WithinSet(name, len(one.tested), estimate, lower, beyond, parts, decisive=counts))
    return tuple(results)


def _counts(people: AuditPeople, one: Directed) -> bool:
    """Return whether a set withholds something; those who do not are shown for comparison."""
    return one.mask != people.everything or one.mask == 0


def _shortcoming(people: AuditPeople, loss: Loss, one: Directed) -> str:
    if not one.direction.any():
        return "No direction found in which the model errs."
    if one.share.sum() <= 0 or rarer_outcomes(one.target, loss) < MIN_EVENTS:
        return f"Fewer than {MIN_EVENTS} people with the rarer outcome among those tested."
    if people.cluster is not None and len(np.unique(people.cluster[one.people])) < MIN_CLUSTERS:
        return f"Fewer than {MIN_CLUSTERS} clusters among those tested."
    return ""


def _spread(people: AuditPeople, one: Directed) -> tuple[float, Spread, Array]:
    """Return τ, its spread, and what each person, or cluster, contributes."""
    total = one.share.sum()
    value = float(one.score.sum() / total)
    contribution, size = (one.score - value * one.share) / total, one.share / total
    if people.cluster is None:
        units, owner, clusters = len(people), one.people, None
    else:
        units, owner = int(people.cluster.max()) + 1, people.cluster[one.people]
        clusters = len(np.unique(owner))
        contribution = contribution * few_clusters(clusters)
    added, sizes = (np.bincount(owner, weights=part, minlength=units) for part in (contribution, size))
    return value, Spread.of(added, sizes, clusters), added


def parts_of(people: AuditPeople, one: Directed, level: float) -> tuple[Part, ...]:
    """Return for whom: the leaves of a small tree, learned from the first people and tested on the others."""
    learner = one.view.learner
    if not isinstance(learner, LightGBMLearner):
        return ()
    taught = np.setdiff1d(np.arange(len(one.view.rows)), one.tested)
    taught = taught[one.first_share[taught] > 0]
    if len(taught) < 2:
        return ()
    booster = learner.tree(taught, one.deviation, one.first_share, LEAVES)
    rules, leaf = rules_of_tree(booster, people), learner.leaves_of(booster, one.tested)
    cluster = None if one.view.cluster is None else one.view.cluster[one.tested]
    exact = people.shared[one.people] == one.view.shown[one.tested]
    joint = 1 - (1 - level) / len(rules)
    parts = []
    for number, rule in rules.items():
        who = leaf == number
        if one.share[who].sum() > 0:
            score, size = who * one.share * one.deviation[one.tested], who * one.share
            parts.append(Part(rule, int((who & exact).sum()), ratio_estimate(score, size, joint, cluster)))
    return tuple(sorted(parts, key=lambda part: -part.penalty.value))


@dataclass
class _Condition:
    """The conditions on one column along a path through a tree."""

    above: float = -math.inf
    up_to: float = math.inf
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
            condition.up_to = min(_threshold(node), condition.up_to)
        else:
            condition.above = max(_threshold(node), condition.above)
    words = [_condition_in_words(names[column], condition) for column, condition in conditions.items()]
    return " and ".join(words) or "all of them"


def _threshold(node: dict[str, Any]) -> float:
    threshold = float(node["threshold"])
    return 0.0 if abs(threshold) < NEARLY_ZERO else threshold


def _condition_in_words(name: str, condition: _Condition) -> str:
    words = [f"{name} is {among}" for among in condition.among]
    above = [] if condition.above == -math.inf else [f"above {condition.above:.4g}"]
    up_to = [] if condition.up_to == math.inf else [f"up to {condition.up_to:.4g}"]
    if above or up_to:
        words.append(f"{name} {' and '.join(above + up_to)}")
    return " and ".join(words) + (" or missing" if condition.missing else "")


def for_some(
    verdict: str,
    reason: str,
    penalties: Sequence[Penalty],
    within: Sequence[WithinSet],
    margin: float,
    describe: Callable[[float], str],
) -> tuple[str, str, list[Penalty]]:
    """Return verdict and reason, "violated for some" if penalties within a set are beyond the margin but cancel.

    Averages stay as they are, with a note.
    """
    beyond = [one for one in within if one.decisive and one.beyond_margin and one.spread is not None]
    names, note = {one.name for one in beyond}, "on average; some are told too much, others too little"
    noted = [
        replace(p, note=note) if p.decisive and p.subgroup is None and p.verdict == CERTIFIED and p.name in names else p
        for p in penalties
    ]
    if verdict == VIOLATED or not beyond:
        return verdict, reason, noted
    worst = max(beyond, key=lambda one: one.spread.value if one.spread else 0.0)
    assert worst.spread is not None
    who = people_who(worst.name)
    why = (
        f"{who[0].upper()}{who[1:]} differ: some are told more and others less than their data justify, by "
        f"{describe(worst.spread.value)} on average in either direction, beyond the margin of {describe(margin)}. "
        "Averages over all of them hide it."
    )
    why += _for_whom(worst, describe)
    if any(one.beyond_margin and not one.decisive for one in within):
        why += " People who withhold nothing differ in this way, too: the model is inaccurate, not only about silence."
    return VIOLATED_FOR_SOME, why, noted


def _for_whom(one: WithinSet, describe: Callable[[float], str]) -> str:
    """Name the part that is told most too much, or too little, if chance does not explain it."""
    proven = [part for part in one.parts if part.penalty.lower > 0 or part.penalty.upper < 0]
    if not proven:
        return ""
    most = max(proven, key=lambda part: abs(part.penalty.value))
    told = "more" if most.penalty.value > 0 else "less"
    return f" Those with {most.rule} are told {describe(abs(most.penalty.value))} {told}."
