"""The doubly robust score of each person, set by set.

For a mask S take the people with A ⊇ S, masked to S; D = 1[A = S], V the identification function of the loss
(f − Y for a mean), h = E[V | b, z_S, A ⊇ S] and e = P(A = S | b, z_S, A ⊇ S), both cross-fitted. Then

    θ_S = Σ w [D·h + e·(V − h)] / Σ w D

is the average penalty of those who share exactly S: how much more they are told than is justified by the outcomes of
everybody who shares at least as much, with their further data erased. For a mean h = f − g with
g = E[Y | b, z_S, A ⊇ S], and the summand becomes D(f − g) − e(Y − g). With estimates ĝ and ê the expectation is off
only by E[(e − ê)(g − ĝ)]: first-order errors of either model cancel (Neyman orthogonality).

Written as e·(f − Y) + (D − e)·(f − g), the score shows what ĝ is for: it only has to know h = f − g, which is 0 where
the model is right. So ĝ is boosted from f itself, masked to S, in squared error,
and may stay there: the remainder E[(e − ê)(h − ĥ)] then
vanishes for f*, whatever ê misses. A model of g from nothing would have to find again all that f knows, and what both
it and ê smooth away would remain as bias. For a quantile, P(Y ≤ f) is boosted from τ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._arrays import Array
from .audited_model import AuditedModel
from .cross_fitting import View
from .learners import AVAILABILITY, EVENT, outcome_loss
from .losses import Loss
from .people import AuditPeople

FITS_PER_MASK = 4
"""Cross-fits: outcome and availability, each on either half."""


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
    share: tuple[Array, Array] | None = None
    """Predictions e of the availability model, from the other half each."""
    deviation: Array | None = None
    """V: f − Y, or 1[Y ≤ f] − τ, everybody masked to S."""


def score_mask(people: AuditPeople, model: AuditedModel, loss: Loss, view: View, mask: int) -> MaskScores:
    """Compute the scores of those who share exactly ``mask``; ``view`` shows everybody who shares at least that."""
    rows = view.rows
    weight, exact = people.weight[rows], people.shared[rows] == np.uint64(mask)
    share = [view.cross_fit(exact.astype(np.float64), AVAILABILITY, half) for half in (1, 0)]
    y, f = people.y[rows], model.masked(rows, mask)
    if loss.is_mean:
        outcome = [view.cross_fit(y, outcome_loss(loss), half, f) for half in (0, 1)]
        parts = [exact * (f - g) - e * (y - g) for g, e in zip(outcome, share, strict=True)]
    else:
        y = (y <= f).astype(np.float64)
        start = np.full(len(y), loss.alpha)
        outcome = [view.cross_fit(y, EVENT, half, start) for half in (0, 1)]
        parts = [exact * (g - loss.alpha) + e * (y - g) for g, e in zip(outcome, share, strict=True)]
    score = weight * (parts[0] + parts[1]) / 2
    deviation = f - y if loss.is_mean else y - loss.alpha
    return MaskScores(mask, rows, score, weight * exact, y, (outcome[0], outcome[1]), (share[0], share[1]), deviation)
