"""The penalty of silence: doubly robust estimates, joint intervals, verdicts.

For a mask S take the people with A ⊇ S, masked to S; D = 1[A = S], V the identification function of the loss
(f − Y for a mean), h = E[V | b, z_S, A ⊇ S] and e = P(A = S | b, z_S, A ⊇ S), both cross-fitted. Then

    θ_S = Σ w [D·h + e·(V − h)] / Σ w D

is the average penalty of those who share exactly S: how much more they are told than everybody who shares at least as
much, their further data erased, would justify. For a mean h = f − g with g = E[Y | b, z_S, A ⊇ S], and the summand
becomes D(f − g) − e(Y − g). With estimates ĝ and ê the expectation is off by E[(e − ê)(g − ĝ)] alone: first-order
errors of either model cancel (Neyman orthogonality). The standard error comes from the influence function
{D·h + e·(V − h) − D·θ} / mean(D).

A subgroup G of people that is a function of base features multiplies the summand and D by 1[G]; several masks together
add up. Everything is a ratio Σ score / Σ size, person by person, so all estimates share one matrix of influences, and
with it the correlations that make their intervals jointly valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._virtual.plan import child_seed
from ..findings import CERTIFIED, INCONCLUSIVE, NOT_TESTABLE, VIOLATED, Estimate, Penalty
from .inputs import AuditedModel, People
from .losses import Loss
from .nuisance import AVAILABILITY, View

ALL_SILENT = "all who withhold something"
FITS_PER_MASK = 4
"""Cross-fits: outcome and availability, each on either half."""
_MAX_T_DRAWS = 50_000

MIN_COUNT = 10
MIN_EVENTS = 10
"""Without some of either outcome among those compared, the standard error knows nothing of the noise in outcomes."""
MIN_CLUSTERS = 30
NO_VARIATION = "No variation: nothing can be said about chance."


@dataclass(frozen=True)
class MaskScores:
    """Score and size of one mask, for the people with A ⊇ S."""

    mask: int
    rows: Array
    score: Array
    """w·[D·h + e·(V − h)], averaged over the two roles of the halves."""
    size: Array
    """w·D."""
    target: Array
    """What the outcome model predicts: Y, or 1[Y ≤ f] for a quantile."""
    outcome: tuple[Array, Array]
    """Its predictions g, from either half."""


def score_mask(people: People, model: AuditedModel, loss: Loss, view: View, mask: int) -> MaskScores:
    """Compute the scores of those who share exactly ``mask``; ``view`` shows everybody who shares at least that."""
    rows = view.rows
    weight, exact = people.weight[rows], people.shared[rows] == np.uint64(mask)
    share = [view.cross_fit(exact.astype(np.float64), AVAILABILITY, half) for half in (1, 0)]
    y = people.y[rows]
    if loss.is_mean:
        outcome = [view.cross_fit(y, loss.lightgbm_params, half) for half in (0, 1)]
        f = model.given[rows]  # where D = 1 this is the prediction masked to S, and elsewhere it is not used
        parts = [exact * (f - g) - e * (y - g) for g, e in zip(outcome, share, strict=True)]
    else:
        y = (y <= model.masked(rows, mask)).astype(np.float64)
        outcome = [view.cross_fit(y, {"objective": "binary"}, half) for half in (0, 1)]
        parts = [exact * (g - loss.alpha) + e * (y - g) for g, e in zip(outcome, share, strict=True)]
    score = weight * (parts[0] + parts[1]) / 2
    return MaskScores(mask, rows, score, weight * exact, y, (outcome[0], outcome[1]))


@dataclass(frozen=True)
class _Claim:
    """One estimate to be made: a ratio of sums over the people compared."""

    name: str
    mask: int | None
    subgroup: str | None
    rows: Array
    """The people compared; scores and sizes are theirs."""
    score: Array
    size: Array
    decisive: bool
    events: float
    """How many of the rarer outcome there are among the people compared; infinite where outcomes are not events."""

    @property
    def people(self) -> int:
        return int((self.size > 0).sum())

    @property
    def theta(self) -> float:
        return float(self.score.sum() / self.size.sum())

    def shortcoming(self, people: People, min_count: int) -> str:
        """Say why there is too little to test, empty if there is enough."""
        if self.people < min_count:
            return f"{self.people} people, fewer than the {min_count} asked for."
        if self.events < MIN_EVENTS:
            few = f"{self.events:.0f} people with the rarer outcome among those compared"
            return f"{few}; at least {MIN_EVENTS} are needed."
        clusters = MIN_CLUSTERS if people.cluster is None else len(np.unique(people.cluster[self.rows[self.size > 0]]))
        if clusters < MIN_CLUSTERS:
            return f"{clusters} clusters; at least {MIN_CLUSTERS} are needed for a standard error."
        return ""


def estimate_penalties(
    people: People,
    model: AuditedModel,
    loss: Loss,
    scored: list[MaskScores],
    min_count: int,
    margin: float,
    level: float,
    simultaneous: str,
    seed: int,
) -> tuple[list[Penalty], float]:
    """Turn scores into penalties with verdicts, and return them with the critical value of the joint intervals."""
    claims = _claims(people, scored, loss)
    why_not = [claim.shortcoming(people, min_count) for claim in claims]
    tested = [i for i, why in enumerate(why_not) if not why]
    influences = _influences([claims[i] for i in tested], people)
    # Influences sum to zero over independent people or clusters: the variance of a sum is the sum of squares.
    errors = np.zeros(len(claims))
    errors[tested] = np.sqrt(influences.multiply(influences).sum(axis=1))
    why_not = [why or ("" if error > 0 else NO_VARIATION) for why, error in zip(why_not, errors, strict=True)]
    deciding = [i for i in tested if claims[i].decisive and not why_not[i]]
    joint = influences[[tested.index(i) for i in deciding]]
    critical = critical_value(joint, errors[deciding], level, simultaneous, seed)
    penalties = [
        _untested(claim, people, why) if why else _penalty(claim, people, model, loss, error, critical, margin, level)
        for claim, why, error in zip(claims, why_not, errors.tolist(), strict=True)
    ]
    return penalties, critical


def _penalty(
    claim: _Claim,
    people: People,
    model: AuditedModel,
    loss: Loss,
    error: float,
    critical: float,
    margin: float,
    level: float,
) -> Penalty:
    theta, pointwise = claim.theta, normal_quantile((1 + level) / 2) * error
    lower, upper = theta - critical * error, theta + critical * error
    verdict = decide(lower, upper, margin)
    mean = float((claim.size * model.given[claim.rows]).sum() / claim.size.sum())
    needed = rows_to_decide(theta, critical * error, margin, len(people)) if verdict == INCONCLUSIVE else None
    return Penalty(
        name=claim.name,
        groups=_groups(claim.mask, people),
        subgroup=claim.subgroup,
        people=claim.people,
        comparable=len(claim.rows),
        verdict=verdict,
        decisive=claim.decisive,
        estimate=Estimate(theta, error, theta - pointwise, theta + pointwise),
        verdict_lower=lower,
        verdict_upper=upper,
        percent=100 * theta / abs(mean) if mean and loss.is_mean else None,
        mean_prediction=mean,
        rows_to_decide=needed,
        note="" if claim.decisive else "These people withhold nothing; shown for comparison.",
    )


def _claims(people: People, scored: list[MaskScores], loss: Loss) -> list[_Claim]:
    """Return what is to be estimated: each set, all silent ones together, and the same within each subgroup."""
    sets = [(people.name(s.mask), s.mask, [s], s.mask != people.everything or s.mask == 0) for s in scored]
    silent = [s for _, _, (s,), decisive in sets if decisive]
    pooled = [(ALL_SILENT, None, silent, True)] if len(silent) > 1 else []
    everybody = np.ones(len(people), dtype=bool)
    return [
        _claim(name, mask, subgroup, members, together, decisive, loss)
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
) -> _Claim:
    """Add up the scores of one set or several, for the members of a subgroup."""
    score, size, compared = np.zeros(len(members)), np.zeros(len(members)), np.zeros(len(members), dtype=bool)
    for s in together:
        score[s.rows] += s.score
        size[s.rows] += s.size
        compared[s.rows] = True
    rows = np.flatnonzero(compared & members)
    events = max(_rarer(s.target[members[s.rows]], loss) for s in together)
    return _Claim(name, mask, subgroup, rows, score[rows], size[rows], decisive, events)


def _rarer(target: Array, loss: Loss) -> float:
    if loss.name == "squared":
        return math.inf
    above, below = float((target > 0).sum()), float((target < 1).sum())
    return above if loss.name == "poisson" else min(above, below)


def _influences(claims: list[_Claim], people: People) -> Any:
    """Return what each person, or each cluster, contributes to θ̂ − θ: a sparse matrix, one row per claim.

    Sparse, because most claims are about few people: claims × people would not fit into memory where both are many.
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


def normal_quantile(p: float) -> float:
    """Return the p-quantile of the standard normal distribution."""
    from scipy.stats import norm

    return float(norm.ppf(p))


def critical_value(influences: Any, errors: Array, level: float, simultaneous: str, seed: int) -> float:
    """Return c such that all intervals θ̂ ± c·se hold jointly, each side with confidence ``level``.

    Two one-sided tests at 1 − level each make a two-sided interval at 2·level − 1. ``"max-t"``: the quantile of
    max_j |Z_j|, Z normal with the correlations of the estimates (the Gaussian multiplier bootstrap in closed form).
    ``"bonferroni"``: the same for any dependence. ``"none"``: each interval for itself.
    """
    error_rate, count = 2 * (1 - level), len(errors)
    if simultaneous == "none" or count <= 1:
        return normal_quantile(1 - error_rate / 2)
    bonferroni = normal_quantile(1 - error_rate / (2 * count))
    if simultaneous == "bonferroni":
        return bonferroni
    products = influences @ influences.T
    products = products.toarray() if hasattr(products, "toarray") else products
    values, vectors = np.linalg.eigh(products / np.outer(errors, errors))
    root = vectors * np.sqrt(np.maximum(values, 0))
    draws = np.random.default_rng(child_seed(seed, 3)).normal(size=(_MAX_T_DRAWS, len(root)))
    return min(float(np.quantile(np.abs(draws @ root.T).max(axis=1), 1 - error_rate)), bonferroni)


def decide(lower: float, upper: float, margin: float) -> str:
    """Return the verdict on an interval: inside the margin, outside, or neither."""
    if -margin <= lower and upper <= margin:
        return CERTIFIED
    return VIOLATED if lower > margin or upper < -margin else INCONCLUSIVE


def rows_to_decide(theta: float, half_width: float, margin: float, n: int) -> int | None:
    """Return how many rows would decide if the estimate stayed: half-widths shrink with the root of the rows."""
    distance = abs(margin - abs(theta))
    if distance == 0 or not math.isfinite(half_width):
        return None
    needed = n * (half_width / distance) ** 2
    return math.ceil(needed) if needed < 1e12 else None


def _groups(mask: int | None, people: People) -> tuple[str, ...] | None:
    return None if mask is None else people.consent.groups_of(mask)


def _untested(claim: _Claim, people: People, why: str) -> Penalty:
    groups = _groups(claim.mask, people)
    return not_testable(claim.name, groups, claim.subgroup, claim.people, len(claim.rows), why)


def not_testable(
    name: str, groups: tuple[str, ...] | None, subgroup: str | None, people: int, comparable: int, note: str
) -> Penalty:
    """Return an entry without a number."""
    return Penalty(
        name, groups, subgroup, people, comparable, NOT_TESTABLE, False, None, None, None, None, None, None, note
    )


def _who(p: Penalty) -> str:
    people = "People who withhold something" if p.groups is None else f"People who share {p.name} and no more"
    people = "People who share nothing" if p.groups == () else people
    return people if p.subgroup is None else f"{people} (subgroup {p.subgroup})"


def overall(penalties: list[Penalty], margin: float, describe: Callable[[float], str]) -> tuple[str, str]:
    """Return the verdict on the whole, and why: violated if any set is, certified if every set is."""
    tested = [p for p in penalties if p.decisive]
    if not tested:
        return INCONCLUSIVE, "No set of people who withhold something is large enough to be tested."
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
        needed = max((p.rows_to_decide or 0) for p in open_ones)
        more = f" About {needed:,} rows would decide." if needed else ""
        return INCONCLUSIVE, (
            f"For {len(open_ones)} of {len(tested)} sets of people the data do not decide whether the penalty lies "
            f"within the margin of {describe(margin)}.{more}"
        )
    return CERTIFIED, (
        f"In each of the {len(tested)} sets of people tested, the average penalty of withholding lies within "
        f"{describe(margin)}."
    )
