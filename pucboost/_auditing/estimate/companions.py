"""The numbers that belong beside the penalty; none of them decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..._arrays import Array
from ..findings import (
    AveragePrediction,
    Balance,
    Calibration,
    CalibrationBin,
    Estimate,
    GroupSupport,
    Histogram,
    Informativeness,
    LossComparison,
    PucGap,
    ScatterPoint,
    SharingEffect,
    Support,
)
from .inputs import AuditedModel, People
from .losses import Loss
from .nuisance import AVAILABILITY, View
from .penalty import MaskScores, normal_quantile

MAX_GROUPS_OF_SUBSETS = 6
N_CALIBRATION_BINS = 10
N_HISTOGRAM_BINS = 30
MAX_SCATTER_POINTS = 400
RARE_SHARE = 0.01
"""A group shared or withheld by fewer people than this is reported as hardly testable."""


def ratio_estimate(numerator: Array, denominator: Array, level: float, cluster: Array | None = None) -> Estimate:
    """Return Σ numerator / Σ denominator with the standard error of the ratio (delta method)."""
    total = denominator.sum()
    value = float(numerator.sum() / total)
    residual = (numerator - value * denominator) / total
    if cluster is not None:
        residual = np.bincount(cluster, weights=residual)
    error = float(np.sqrt((residual**2).sum()))
    half = normal_quantile((1 + level) / 2) * error
    return Estimate(value, error, value - half, value + half)


def compare_losses(
    people: People, loss: Loss, model: Array, other: Array, who: Array, names: tuple[str, str], level: float
) -> LossComparison:
    """Compare mean losses of two models on the people ``who``, pairwise."""
    rows = np.flatnonzero(who)
    people_name, other_name = names
    if len(rows) < 2:
        note = f"{len(rows)} such people: not testable."
        return LossComparison(people_name, other_name, len(rows), None, None, None, note)
    w, y = people.weight[rows], people.y[rows]
    own, others = loss.pointwise(model[rows], y), loss.pointwise(other[rows], y)
    cluster = None if people.cluster is None else np.unique(people.cluster[rows], return_inverse=True)[1]
    return LossComparison(
        people_name,
        other_name,
        len(rows),
        float(np.average(own, weights=w)),
        float(np.average(others, weights=w)),
        ratio_estimate(w * (own - others), w, level, cluster),
    )


def informativeness(people: People, nothing: MaskScores, view: View) -> list[Informativeness]:
    """Test Y ⟂ A_g | b for every group by the generalised covariance measure.

    T = √n · mean(R) / sd(R), R = (Y − g(b)) · (A_g − P(A_g = 1 | b)), is standard normal under independence. For a
    quantile, Y stands for 1[Y ≤ f(b)], f with everything withheld.

    Parameters
    ----------
    nothing
        The scores of the empty mask.
    view
        Everybody with all groups erased.
    """
    residual = nothing.target - nothing.outcome[0]
    found = []
    for g, group in enumerate(people.consent.group_names):
        shares = ((people.shared >> np.uint64(g)) & np.uint64(1)).astype(np.float64)
        rate = float(np.average(shares, weights=people.weight))
        if shares.min() == shares.max():
            everybody = "Everybody shares" if shares[0] else "Nobody shares"
            found.append(Informativeness(group, rate, None, None, None, None, f"{everybody} it: not testable."))
            continue
        sharing = shares - view.cross_fit(shares, AVAILABILITY, 1)
        product = people.weight * residual * sharing
        if people.cluster is not None:
            product = np.bincount(people.cluster, weights=product)
        spread = float(np.sqrt((product**2).mean() - product.mean() ** 2))
        scale = float(np.sqrt(_mean_square(residual, people) * _mean_square(sharing, people)))
        if spread == 0 or scale == 0:
            found.append(Informativeness(group, rate, None, None, None, None, "No variation: not testable."))
            continue
        statistic = float(np.sqrt(len(product)) * product.mean() / spread)
        correlation = float(np.average(residual * sharing, weights=people.weight) / scale)
        found.append(Informativeness(group, rate, correlation, statistic, 2 * _upper_tail(abs(statistic)), None))
    return _with_holm(found)


def _mean_square(values: Array, people: People) -> float:
    return float(np.average(values**2, weights=people.weight))


def _upper_tail(z: float) -> float:
    from scipy.stats import norm

    return float(norm.sf(z))


def _with_holm(found: list[Informativeness]) -> list[Informativeness]:
    """Fill in Holm's adjusted p-values."""
    tested = sorted((f for f in found if f.p_value is not None), key=lambda f: f.p_value or 0.0)
    adjusted: dict[str, float] = {}
    running = 0.0
    for place, f in enumerate(tested):
        running = max(running, min(1.0, (len(tested) - place) * (f.p_value or 0.0)))
        adjusted[f.group] = running
    return [replace(f, adjusted_p_value=adjusted.get(f.group)) for f in found]


def average_predictions(
    people: People, model: Array, base: Array, unrestricted: Array, masks: list[int]
) -> list[AveragePrediction]:
    """Average predictions of three models by exact set of shared groups."""
    rows = []
    for mask in masks:
        who = people.shared == np.uint64(mask)
        means = [
            float(np.average(values[who], weights=people.weight[who]))
            for values in (model, base, unrestricted, people.y)
        ]
        rows.append(AveragePrediction(people.name(mask), int(who.sum()), *means))
    return rows


def sharing_effect(people: People, model: AuditedModel, withheld: Array, favourable: str) -> SharingEffect | None:
    """Compare predictions as given with those for withholding everything; None if nobody shares anything."""
    who = np.flatnonzero(people.shared)
    if len(who) == 0:
        return None
    sign = 1.0 if favourable == "lower" else -1.0
    given, w = model.given[who], people.weight[who]
    change = given - withheld[who]
    worse = sign * change > 0
    bonus, better = _bonus(people, model, who, withheld, sign)
    levels = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
    values = np.quantile(change, levels, method="inverted_cdf", weights=w)
    return SharingEffect(
        people=len(who),
        mean=float(np.average(change, weights=w)),
        quantiles={f"{level:g}": float(value) for level, value in zip(levels, values, strict=True)},
        share_worse_off=float(np.average(worse, weights=w)),
        largest_loss=float(np.maximum(sign * change, 0).max()),
        mean_bonus=None if bonus is None else float(np.average(bonus, weights=w)),
        share_with_better_subset=None if better is None else float(np.average(better, weights=w)),
        histogram=_histogram(change, w),
    )


def _bonus(
    people: People, model: AuditedModel, who: Array, withheld: Array, sign: float
) -> tuple[Array | None, Array | None]:
    """Return what the best subset of each person would gain, and whether it is better than all they share."""
    r = people.consent.n_groups
    if r > MAX_GROUPS_OF_SUBSETS:
        return None, None
    place = np.full(len(people), -1)
    place[who] = np.arange(len(who))
    best = sign * np.minimum(sign * model.given[who], sign * withheld[who])
    for mask in range(1, 1 << r):
        rows = people.at_least(mask)
        rows = rows[people.shared[rows] != np.uint64(mask)]  # for the rest this is the prediction as given
        if len(rows):
            at = place[rows]
            best[at] = sign * np.minimum(sign * best[at], sign * model.masked(rows, mask))
    gain = sign * (model.given[who] - best)
    return gain, gain > 0


def _histogram(values: Array, weights: Array) -> Histogram:
    lowest, highest = float(values.min()), float(values.max())
    # Differences of rounding are one value.
    tiny = 1e-9 * max(abs(lowest), abs(highest), 1.0)
    if highest - lowest <= tiny:
        lowest, highest = lowest - 1e3 * tiny, highest + 1e3 * tiny
    counts, edges = np.histogram(values, bins=N_HISTOGRAM_BINS, range=(lowest, highest), weights=weights)
    return Histogram(tuple(edges.tolist()), tuple((counts / weights.sum()).tolist()))


def book_balance(people: People, model: Array, masks: list[int], level: float) -> list[Balance]:
    """Actual against expected, overall and by exact set of shared groups."""
    parts = [("everybody", np.ones(len(people), dtype=bool))]
    parts += [(people.name(mask), people.shared == np.uint64(mask)) for mask in masks]
    rows = []
    for name, who in parts:
        w, y, f = people.weight * who, people.y, model
        total = w.sum()
        ratio = None
        if float((w * f).sum()) > 0:
            ratio = ratio_estimate(w * y, w * f, level, people.cluster)
        rows.append(
            Balance(
                name,
                int(who.sum()),
                float((w * y).sum() / total),
                float((w * f).sum() / total),
                ratio,
                ratio_estimate(w * (y - f), w, level, people.cluster),
            )
        )
    return rows


def masked_calibration(people: People, prediction: Array, name: str, level: float, loss: Loss) -> Calibration | None:
    """Mean outcomes in bins of the prediction, with intervals; for a quantile there is no such curve."""
    if not loss.is_mean:
        return None
    edges = np.unique(np.quantile(prediction, np.linspace(0, 1, N_CALIBRATION_BINS + 1)))
    bins = np.clip(np.searchsorted(edges, prediction, side="right") - 1, 0, max(0, len(edges) - 2))
    found = []
    for b in np.unique(bins):
        who = (bins == b).astype(np.float64) * people.weight
        outcome = ratio_estimate(who * people.y, who, level, people.cluster)
        found.append(
            CalibrationBin(
                float((who * prediction).sum() / who.sum()),
                outcome.value,
                outcome.lower,
                outcome.upper,
                int((bins == b).sum()),
            )
        )
    return Calibration(name, tuple(found))


def scatter_of_silent(people: People, model: Array, base: Array, seed: int) -> list[ScatterPoint]:
    """Draw some people who share nothing: base-features model and model under test."""
    who = np.flatnonzero(people.shared == 0)
    if len(who) > MAX_SCATTER_POINTS:
        who = np.sort(np.random.default_rng(seed).choice(who, MAX_SCATTER_POINTS, replace=False))
    return [ScatterPoint(float(base[i]), float(model[i])) for i in who]


def describe_support(
    people: People, tested: list[int], training_masks: frozenset[int] | None
) -> tuple[Support, list[str]]:
    """Describe whether the data can carry the conclusions, with warnings in words."""
    notes = []
    counts = people.mask_counts
    unseen = None if training_masks is None else [mask for mask in counts if mask not in training_masks]
    unseen_people = None if unseen is None else sum(counts[mask] for mask in unseen)
    if unseen:
        notes.append(
            f"{unseen_people:,} people share sets of groups that training never saw exactly so, for example "
            f"{people.name(unseen[0])!r}."
        )
    groups = []
    for g, group in enumerate(people.consent.group_names):
        shared = int(((people.shared >> np.uint64(g)) & np.uint64(1)).sum())
        rate = shared / len(people)
        groups.append(GroupSupport(group, rate, len(people) - shared, shared))
        if rate < RARE_SHARE or rate > 1 - RARE_SHARE:
            word = "shared" if rate < RARE_SHARE else "withheld"
            few = shared if rate < RARE_SHARE else len(people) - shared
            notes.append(
                f"Group {group!r} is {word} by {few:,} of {len(people):,} people; little can be said about it."
            )
    untested = len(people) - sum(counts[mask] for mask in tested)
    if untested:
        notes.append(
            f"{untested:,} of {len(people):,} people share sets of groups too rare to be tested; the verdict does not "
            "cover them."
        )
    w = people.weight
    effective = float(w.sum() ** 2 / (w**2).sum())
    if effective < 0.5 * len(people):
        notes.append(f"The weights leave an effective sample of {effective:,.0f} of {len(people):,} rows.")
    return Support(
        masks=len(counts),
        unseen_in_training=None if unseen is None else tuple(people.name(mask) for mask in unseen),
        unseen_people=unseen_people,
        untested_people=untested,
        groups=tuple(groups),
        effective_sample_size=effective,
    ), notes


def gap_to_truth(people: People, model: Array, truth: Any, masks: list[int]) -> PucGap:
    """Compare with a simulator that knows the justified prediction (``puc_prediction``), or with that itself."""
    justified = np.asarray(truth.puc_prediction(people.container) if hasattr(truth, "puc_prediction") else truth)
    if people.kept is not None and len(justified) != len(people):
        justified = justified[people.kept]
    if justified.shape != model.shape:
        raise ValueError(f"truth must give one prediction for each of the {len(people)} rows, got {justified.shape}.")
    distance = model - justified
    exact = {mask: people.shared == np.uint64(mask) for mask in masks}
    return PucGap(
        float(np.average(distance**2, weights=people.weight)),
        {
            people.name(mask): float(np.average(distance[who], weights=people.weight[who]))
            for mask, who in exact.items()
        },
    )
