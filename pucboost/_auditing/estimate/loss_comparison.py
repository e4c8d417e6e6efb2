"""Losses of the audited model compared with those of the reference models; none of this decides."""

from __future__ import annotations

import numpy as np

from ..._arrays import Array
from ..findings import LossComparison
from ..wording import counted
from .intervals import ratio_estimate
from .losses import Loss
from .people import AuditPeople


def loss_comparisons(
    people: AuditPeople, loss: Loss, model: Array, base: Array, unrestricted: Array, level: float
) -> tuple[LossComparison, tuple[LossComparison, ...]]:
    """Return the comparison on the silent (inference from silence), and those on everybody and on those who share."""
    everybody, silent = np.ones(len(people), dtype=bool), people.shared == 0
    on_silent, *others = (
        compare_losses(people, loss, model, other, who, names, level)
        for who, other, names in (
            (silent, base, ("people who share nothing", "base features only")),
            (everybody, base, ("everybody", "base features only")),
            (~silent, base, ("people who share something", "base features only")),
            (everybody, unrestricted, ("everybody", "unrestricted")),
        )
    )
    return on_silent, tuple(others)


def compare_losses(
    people: AuditPeople, loss: Loss, model: Array, other: Array, who: Array, names: tuple[str, str], level: float
) -> LossComparison:
    """Compare the mean losses of two models on the people ``who``, person by person."""
    rows = np.flatnonzero(who)
    people_name, other_name = names
    if len(rows) < 2:
        note = f"{counted(len(rows), 'such person', 'such people')}: not testable."
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
