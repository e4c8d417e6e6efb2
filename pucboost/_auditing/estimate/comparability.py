"""What each set of people is compared with, and what the comparison leaves out; none of this decides.

Three numbers for those who share exactly S, with D = 1[A = S] and e = P(D = 1 | b, z_S, A ⊇ S):

- the calibration κ = E[f − Y | A ⊇ S], everybody masked to S. It needs no nuisance model and is 0 for f*.
- the share P(ê > 0.95 | A = S). The yardstick g averages over the silent themselves, so as e → 1 a model that reads
  silence passes by definition.
- the penalty against people who share strictly more, g' = E[Y | b, z_S, A ⊋ S] in place of g. Where e ≤ 0.95,

      Σ [D(f − g') − (1 − D)·e/(1 − e)·(Y − g')] / Σ D,

  again with first-order errors of g' and e cancelling. Where e > 0.95 nothing is known of g' but that it lies between
  the smallest and the largest outcome [l, u]; so over all people of the set the bounds are (u − l)·P(ê > 0.95 | A = S)
  apart. It is not 0 for f* where silence is informative: f* − g' = e·(E[Y | A = S] − g').
"""

from __future__ import annotations

import numpy as np

from ..._arrays import Array
from ..findings import Comparability, Estimate
from .cross_fitting import View
from .intervals import ratio_estimate
from .learners import EVENT, outcome_loss
from .losses import Loss
from .people import AuditPeople
from .scores import MaskScores

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
