"""What sharing changes for those who share; this does not decide."""

from __future__ import annotations

import numpy as np

from ..._arrays import Array
from ..findings import Histogram, SharingEffect
from .audited_model import AuditedModel
from .people import People

MAX_GROUPS_OF_SUBSETS = 6

N_HISTOGRAM_BINS = 30


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
    # Values that differ only by rounding count as one.
    tiny = 1e-9 * max(abs(lowest), abs(highest), 1.0)
    if highest - lowest <= tiny:
        lowest, highest = lowest - 1e3 * tiny, highest + 1e3 * tiny
    counts, edges = np.histogram(values, bins=N_HISTOGRAM_BINS, range=(lowest, highest), weights=weights)
    return Histogram(tuple(edges.tolist()), tuple((counts / weights.sum()).tolist()))
