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
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._arrays import Array
from ..findings import INCONCLUSIVE, NOT_TESTABLE, Estimate, Penalty
from ..settings import JudgementOptions
from ..wording import counted, people_in_words
from .audited_model import AuditedModel
from .intervals import critical_value, normal_quantile
from .losses import Loss
from .people import AuditPeople
from .scores import MaskScores
from .verdict import decide, rows_to_decide

ALL_WITHHOLDING = "all who withhold something"

MIN_EVENTS = 10
"""With fewer of either outcome among those compared, the standard error misses the noise in outcomes."""

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
    influences = _influences([claims[i] for i in tested], people)
    # Influences sum to zero over independent people or clusters: the variance of a sum is the sum of squares.
    errors = np.zeros(len(claims))
    errors[tested] = np.sqrt(influences.multiply(influences).sum(axis=1))
    why_not = [why or ("" if error > 0 else NO_VARIATION) for why, error in zip(why_not, errors, strict=True)]
    deciding = [i for i in tested if claims[i].decisive and not why_not[i]]
    joint = influences[[tested.index(i) for i in deciding]]
    differences = _differences(claims, deciding, joint, people, scored, loss, judgement)
    critical = critical_value(joint, errors[deciding], judgement.level, judgement.simultaneous, seed)
    penalties = [
        _untested(claim, people, why)
        if why
        else _penalty(claim, people, model, loss, _Width(error, critical, judgement.level), bound, differences.get(i))
        for i, (claim, why, error) in enumerate(zip(claims, why_not, errors.tolist(), strict=True))
    ]
    return penalties, critical


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
        of_everything = _influences([everything], people)
        for place, i in enumerate(deciding):
            if claims[i].subgroup == subgroup:
                difference = influences[[place]] - of_everything
                value = claims[i].theta - everything.theta
                width = _Width(float(np.sqrt(difference.multiply(difference).sum())), 0.0, judgement.level)
                if width.error > 0:
                    found[i] = Estimate(value, width.error, value - width.pointwise, value + width.pointwise)
    return found


@dataclass(frozen=True)
class _Width:
    """How wide the intervals of one estimate are."""

    error: float
    critical: float
    level: float

    @property
    def joint(self) -> float:
        """Half the width of the interval that decides."""
        return self.critical * self.error

    @property
    def pointwise(self) -> float:
        """Half the width of the interval of this estimate alone."""
        return normal_quantile((1 + self.level) / 2) * self.error


def _penalty(
    claim: _Claim,
    people: AuditPeople,
    model: AuditedModel,
    loss: Loss,
    width: _Width,
    bound: float,
    difference: Estimate | None,
) -> Penalty:
    theta = claim.theta
    lower, upper = theta - width.joint, theta + width.joint
    verdict = decide(lower, upper, bound)
    mean = float((claim.size * model.given[claim.rows]).sum() / claim.size.sum())
    needed = rows_to_decide(theta, width.joint, bound, len(people)) if verdict == INCONCLUSIVE else None
    return Penalty(
        name=claim.name,
        groups=_groups(claim.mask, people),
        subgroup=claim.subgroup,
        people=claim.people,
        comparable=len(claim.rows),
        verdict=verdict,
        decisive=claim.decisive,
        estimate=Estimate(theta, width.error, theta - width.pointwise, theta + width.pointwise),
        verdict_lower=lower,
        verdict_upper=upper,
        percent=100 * theta / abs(mean) if mean and loss.is_mean else None,
        mean_prediction=mean,
        rows_to_decide=needed,
        note="" if claim.decisive else "These people withhold nothing; shown for comparison.",
        difference=difference,
    )


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
    events = max(_rarer(s.target[members[s.rows]], loss) for s in together)
    others = max(_others(s, members, everything) for s in together)
    return _Claim(name, mask, subgroup, rows, score[rows], size[rows], decisive, events, others)


def _others(scored: MaskScores, members: Array, everything: int) -> float:
    """Return how many people share more than a set; infinitely many where there is nothing more to share."""
    return math.inf if scored.mask == everything else float((scored.size[members[scored.rows]] == 0).sum())


def _rarer(target: Array, loss: Loss) -> float:
    if loss.name == "squared":
        return math.inf
    above, below = float((target > 0).sum()), float((target < 1).sum())
    return above if loss.name == "poisson" else min(above, below)


def _influences(claims: list[_Claim], people: AuditPeople) -> Any:
    """Return what each person, or each cluster, contributes to θ̂ − θ: a sparse matrix, one row per claim.

    Sparse, because most claims are about few people: many claims × many people would not fit into memory.
    """
    from scipy.sparse import csr_array

    units = len(people) if people.cluster is None else int(people.cluster.max()) + 1
    values, columns, starts = [], [], [0]
    for claim in claims:
        value, unit = (claim.score - claim.size * claim.theta) / claim.size.sum(), claim.rows
        if people.cluster is not None:
            unit, owner = np.unique(people.cluster[claim.rows], return_inverse=True)
            # The usual correction for few clusters.
            value = np.bincount(owner, weights=value) * math.sqrt(units / max(1, units - 1))
        values.append(value)
        columns.append(unit)
        starts.append(starts[-1] + len(unit))
    joined = [np.concatenate(parts) if parts else np.empty(0) for parts in (values, columns)]
    return csr_array((joined[0], joined[1].astype(np.int64), starts), shape=(len(claims), units))
