"""Distance to the truth, where it is known, as in a simulation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._arrays import Array
from ..findings import PucGap
from .people import AuditPeople


def gap_to_truth(people: AuditPeople, model: Array, truth: Any, masks: list[int]) -> PucGap:
    """Compare with a simulator that knows the justified predictions (``puc_prediction``), or with the predictions."""
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
