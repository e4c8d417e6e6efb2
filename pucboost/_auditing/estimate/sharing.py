"""What sharing changes for those who share; this does not decide."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from ..._arrays import Array
from ..._prediction.best_subset import best_subsets, favourable_sign
from ..findings import Histogram, SharingEffect
from .audited_model import AuditedModel
from .people import AuditPeople

MAX_SUBSETS = 64

N_HISTOGRAM_BINS = 30


def sharing_effect(people: AuditPeople, model: AuditedModel, withheld: Array, favourable: str) -> SharingEffect | None:
    """Compare predictions as given with those for withholding everything; None if nobody shares anything."""
    who = np.flatnonzero(people.shared)
    if len(who) == 0:
        return None
    sign = favourable_sign(favourable)
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
    people: AuditPeople, model: AuditedModel, who: Array, withheld: Array, sign: float
) -> tuple[Array | None, Array | None]:
    """Return what the best subset of each person would gain, and whether it is better than all they share."""
    nesting = people.consent.nesting
    if nesting.count(people.everything) > MAX_SUBSETS:
        return None, None

    @cache
    def told(mask: int) -> Array:
        """Predictions of all who share more than a set, with the rest erased: one call of the model per set."""
        rows = people.at_least(mask)
        rows = rows[people.shared[rows] != np.uint64(mask)]
        values = np.full(len(people), np.nan)
        values[rows] = model.masked(rows, mask)
        return values

    def all_subsets(rows: Array, submasks: Array) -> Iterator[tuple[Array, Array]]:
        some = who[rows]
        batches = model.subsets(some, submasks)
        if batches is not None:
            yield rows, np.concatenate([values for _, values in batches])
            return
        # What they are told as they come, and with everything withheld, is known already.
        between = [told(int(mask))[some] for mask in submasks[1:-1]]
        yield rows, np.column_stack([withheld[some], *between, model.given[some]])

    best, _ = best_subsets(people.shared[who], all_subsets, sign, nesting=nesting)
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
