"""Whether withholding says anything about the outcome; this does not decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..._arrays import Array
from ..findings import Informativeness
from .cross_fitting import View
from .learners import AVAILABILITY
from .people import AuditPeople
from .scores import MaskScores


def informativeness(people: AuditPeople, nothing: MaskScores, view: View) -> list[Informativeness]:
    """Test Y ⟂ A_g | b for every group by the generalised covariance measure.

    T = √n · mean(R) / sd(R), R = (Y − g(b)) · (A_g − P(A_g = 1 | b)), is standard normal under independence. For a
    quantile, Y stands for 1[Y ≤ f(b)], where f(b) is the prediction with everything withheld.

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
        spread = float(np.sqrt(max(0.0, (product**2).mean() - product.mean() ** 2)))
        scale = float(np.sqrt(_mean_square(residual, people) * _mean_square(sharing, people)))
        if spread == 0 or scale == 0:
            found.append(Informativeness(group, rate, None, None, None, None, "No variation: not testable."))
            continue
        statistic = float(np.sqrt(len(product)) * product.mean() / spread)
        correlation = float(np.average(residual * sharing, weights=people.weight) / scale)
        found.append(Informativeness(group, rate, correlation, statistic, 2 * _upper_tail(abs(statistic)), None))
    return _with_holm(found)


def _mean_square(values: Array, people: AuditPeople) -> float:
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
