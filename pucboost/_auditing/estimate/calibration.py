"""Points to draw: outcomes against predictions, and the silent under two models; none of this decides."""

from __future__ import annotations

import numpy as np

from ..._arrays import Array
from ..findings import Calibration, CalibrationBin, ScatterPoint
from .intervals import ratio_estimate
from .losses import Loss
from .people import AuditPeople

N_CALIBRATION_BINS = 10
MAX_SCATTER_POINTS = 400


def calibration_curves(
    people: AuditPeople, given: Array, withheld: Array, loss: Loss, level: float
) -> tuple[Calibration, ...]:
    """Return the curve with everything optional erased and that of people as they come; none for a quantile."""
    if not loss.is_mean:
        return ()
    return (
        _curve(people, withheld, "everybody, everything optional erased", level),
        _curve(people, given, "everybody, as they come", level),
    )


def _curve(people: AuditPeople, prediction: Array, name: str, level: float) -> Calibration:
    """Average outcomes in bins of the prediction, with intervals."""
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


def scatter_of_silent(people: AuditPeople, model: Array, base: Array, seed: int) -> list[ScatterPoint]:
    """Sample people who share nothing, with the predictions of the base-features model and of the audited model."""
    who = np.flatnonzero(people.shared == 0)
    if len(who) > MAX_SCATTER_POINTS:
        who = np.sort(np.random.default_rng(seed).choice(who, MAX_SCATTER_POINTS, replace=False))
    return [ScatterPoint(float(base[i]), float(model[i])) for i in who]
