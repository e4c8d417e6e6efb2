"""The doubly robust score of each person, set by set.

For a mask S take the people with A ⊇ S, masked to S; D = 1[A = S], V the identification function of the loss
(f − Y for a mean), h = E[V | b, z_S, A ⊇ S] and e = P(A = S | b, z_S, A ⊇ S), both cross-fitted. Then

    θ_S = Σ w [D·h + e·(V − h)] / Σ w D

is the average penalty of those who share exactly S: how much more they are told than is justified by the outcomes of
everybody who shares at least as much, with their further data erased. For a mean h = f − g with
g = E[Y | b, z_S, A ⊇ S], and the summand becomes D(f − g) − e(Y − g). With estimates ĝ and ê the expectation is off
only by E[(e − ê)(g − ĝ)]: first-order errors of either model cancel (Neyman orthogonality).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._arrays import Array
from .audited_model import AuditedModel
from .cross_fitting import View
from .learners import AVAILABILITY, EVENT, NuisanceLoss
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


def score_mask(people: AuditPeople, model: AuditedModel, loss: Loss, view: View, mask: int) -> MaskScores:
    """Compute the scores of those who share exactly ``mask``; ``view`` shows everybody who shares at least that."""
    rows = view.rows
    weight, exact = people.weight[rows], people.shared[rows] == np.uint64(mask)
    share = [view.cross_fit(exact.astype(np.float64), AVAILABILITY, half) for half in (1, 0)]
    y = people.y[rows]
    if loss.is_mean:
        outcome_loss = NuisanceLoss("outcome", loss.lightgbm_params)
        outcome = [view.cross_fit(y, outcome_loss, half) for half in (0, 1)]
        f = model.given[rows]  # where D = 1 this is the prediction masked to S, and elsewhere it is not used
        parts = [exact * (f - g) - e * (y - g) for g, e in zip(outcome, share, strict=True)]
    else:
        y = (y <= model.masked(rows, mask)).astype(np.float64)
        outcome = [view.cross_fit(y, EVENT, half) for half in (0, 1)]
        parts = [exact * (g - loss.alpha) + e * (y - g) for g, e in zip(outcome, share, strict=True)]
    score = weight * (parts[0] + parts[1]) / 2
    return MaskScores(mask, rows, score, weight * exact, y, (outcome[0], outcome[1]))
