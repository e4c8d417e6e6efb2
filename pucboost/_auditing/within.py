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

For whom: a tree of at most four leaves, fitted to f − Y among the first people with weights ê, says who is told too
much or too little. Each leaf's Σ ê·(f − Y) / Σ ê is then estimated from the others, with joint intervals (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._common import Array
from .._virtual.plan import child_seed
from .findings import Part, WithinSet
from .nuisance import AVAILABILITY, EVENT, LightGBMLearner, View, outcome_loss
from .penalty import MIN_CLUSTERS, MIN_EVENTS, rarer_outcomes, rules_of_tree, unruly
from .people import AuditPeople, Loss
from .scores import MaskScores, Spread, critical_value, few_clusters, normal_quantile, ratio_estimate

LEAVES = 4
TEACHING = 0.4
"""Share of the folds that only teach."""


def teaching_folds(folds: int) -> int:
    """Return how many folds only teach; each of the others reports one step to the progress display."""
    return max(1, int(TEACHING * folds))


@dataclass(frozen=True)
class Directed:
    """The people of one set's comparison, in the direction that others taught."""

    mask: int
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

    @property
    def score(self) -> Array:
        """ê·s·V of each person tested."""
        return self.share * self.direction * self.deviation[self.tested]

    @property
    def people(self) -> Array:
        """The number of each person tested."""
        return self.view.rows[self.tested]


def learn_directions(people: AuditPeople, loss: Loss, view: View, scored: MaskScores) -> Directed:
    """Learn direction and resemblance fold by fold, each from the folds before it."""
    assert scored.deviation is not None
    rows, y, deviation = scored.rows, scored.target, scored.deviation
    exact, weight = (scored.size > 0).astype(np.float64), people.weight[rows]
    start = deviation + y if loss.is_mean else np.full(len(y), loss.alpha)
    kind, sign = (outcome_loss(loss), 1.0) if loss.is_mean else (EVENT, -1.0)
    fold, folds = view.fitter.fold[rows], view.fitter.fitting.folds
    first = teaching_folds(folds)
    best = View(view.fitter, view.learner.best(), rows)
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
        notes[i] = unruly(measured[i][1], measured[i][2][measured[i][2] != 0], loss)
    counting = [i for i in usable if not notes[i] and _counts(people, found[i])]
    critical = normal_quantile(level)
    if counting:
        influences = np.array([measured[i][2] for i in counting])
        errors = np.array([measured[i][1].error for i in counting])
        critical = critical_value(influences, errors, level, simultaneous, seed)
    results = []
    for i, one in enumerate(found):
        name, counts = people.name(one.mask), _counts(people, one)
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
    cluster = None if people.cluster is None else people.cluster[one.people]
    exact = people.shared[one.people] == np.uint64(one.mask)
    joint = 1 - (1 - level) / len(rules)
    parts = []
    for number, rule in rules.items():
        who = leaf == number
        if one.share[who].sum() > 0:
            score, size = who * one.share * one.deviation[one.tested], who * one.share
            parts.append(Part(rule, int((who & exact).sum()), ratio_estimate(score, size, joint, cluster)))
    return tuple(sorted(parts, key=lambda part: -part.penalty.value))
