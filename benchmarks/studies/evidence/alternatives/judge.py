"""The decisive part of the audit, for many models on the same people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from pucboost._auditing.estimate.inputs import AuditedModel, read_people
from pucboost._auditing.estimate.nuisance import N_FOLDS, CrossFitter, View

from benchmarks.harness.machine import THREADS
from benchmarks.harness.types import Array, Row
from pucboost._auditing.estimate.losses import Loss
from pucboost._auditing.estimate.penalty import ALL_SILENT, estimate_penalties, overall, score_mask
from pucboost._auditing.results import CERTIFIED, INCONCLUSIVE, VIOLATED, Penalty

from .methods import Predict

MARGIN = 0.02
LEVEL = 0.95
MIN_COUNT = 100  # sets with fewer people are not judged on their own
VERDICTS = (CERTIFIED, VIOLATED, INCONCLUSIVE)


@dataclass(frozen=True)
class _FittedOnce:
    """A view that fits its models once: for a mean they are the same for every model audited."""

    view: View
    kept: dict[tuple[bool, int | None], Array] = field(default_factory=dict)

    @property
    def rows(self) -> Array:
        return self.view.rows

    def cross_fit(self, target: Array, objective: Mapping[str, Any], half: int | None = None) -> Array:
        key = ("availability" in objective, half)
        if key not in self.kept:
            self.kept[key] = self.view.cross_fit(target, objective, half)
        return self.kept[key]


class Judge:
    """The decisive part of ``puc.audit`` for many models on the same people."""

    def __init__(self, X: pd.DataFrame, y: Array, optional: list[str], seed: int, min_count: int = MIN_COUNT) -> None:
        self.X, self.y, self._seed, self._min_count = X, y, seed, min_count
        self.people, _ = read_people(X, y, optional=optional, num_threads=THREADS)
        self._fitter = CrossFitter(self.people, {}, N_FOLDS, seed, THREADS)
        counts = self.people.mask_counts
        tested = [mask for mask, count in counts.items() if count >= min_count and mask != self.people.everything]
        tested.sort(key=lambda mask: mask != 0)  # the order of an audit, and so its draws for the joint intervals
        self._views = {mask: _FittedOnce(self._fitter.view(mask)) for mask in tested}
        self._loss = Loss("binary")

    def penalties(self, predict: Predict) -> list[Penalty]:
        """Return the penalty of all who withhold something, and that of each set."""
        model = AuditedModel(predict, self.people, None, THREADS)
        views: dict[int, Any] = dict(self._views)
        scored = [score_mask(self.people, model, self._loss, view, mask) for mask, view in views.items()]
        found, _ = estimate_penalties(
            self.people, model, self._loss, scored, self._min_count, MARGIN, LEVEL, "max-t", self._seed
        )
        return found

    def __call__(self, predict: Predict) -> Row:
        """Return an audit's numbers in points."""
        found = [p for p in self.penalties(predict) if p.estimate is not None]
        verdict, _ = overall(found, MARGIN, self._loss.describe)
        sets = [p for p in found if p.name != ALL_SILENT]
        if not sets:
            return {"verdict": verdict, **dict.fromkeys(VERDICTS, 0)}
        pooled = next((p for p in found if p.name == ALL_SILENT), sets[0])
        worst = max(sets, key=lambda p: abs(p.estimate.value) if p.estimate else 0.0)
        assert pooled.estimate is not None
        assert worst.estimate is not None
        return {
            "penalty": 100 * pooled.estimate.value,
            "standard error of the penalty": 100 * pooled.estimate.standard_error,
            "largest penalty of a set": 100 * worst.estimate.value,
            "its joint interval from": 100 * (worst.verdict_lower or 0.0),
            "its joint interval to": 100 * (worst.verdict_upper or 0.0),
            "verdict": verdict,
            **{one: sum(p.verdict == one for p in sets) for one in VERDICTS},
        }
