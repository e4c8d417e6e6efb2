"""Averages by what people share: actual and expected, and three models side by side; none of this decides."""

from __future__ import annotations

import numpy as np

from ..._arrays import Array
from ..findings import AveragePrediction, Balance
from .intervals import ratio_estimate
from .people import AuditPeople


def average_predictions(
    people: AuditPeople, model: Array, base: Array, unrestricted: Array, masks: list[int]
) -> list[AveragePrediction]:
    """Return the average predictions of three models by exact set of shared groups."""
    rows = []
    for mask in masks:
        who = people.shared == np.uint64(mask)
        means = [
            float(np.average(values[who], weights=people.weight[who]))
            for values in (model, base, unrestricted, people.y)
        ]
        rows.append(AveragePrediction(people.name(mask), int(who.sum()), *means))
    return rows


def book_balance(people: AuditPeople, model: Array, masks: list[int], level: float) -> list[Balance]:
    """Return actual and expected outcomes, overall and by exact set of shared groups."""
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
