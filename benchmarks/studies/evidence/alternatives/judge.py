"""The decisive part of the audit, for many models on the same people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from benchmarks.harness.machine import THREADS
from benchmarks.harness.types import Array, Row
from pucboost._auditing.estimate.audited_model import AuditedModel
from pucboost._auditing.estimate.cross_fitting import CrossFitter, View
from pucboost._auditing.estimate.learners import NuisanceLoss
from pucboost._auditing.estimate.losses import Loss
from pucboost._auditing.estimate.penalty import ALL_WITHHOLDING, estimate_penalties
from pucboost._auditing.estimate.people import read_audit_people
from pucboost._auditing.estimate.scores import score_mask
from pucboost._auditing.estimate.verdict import overall
from pucboost._auditing.findings import CERTIFIED, INCONCLUSIVE, VIOLATED, Penalty
from pucboost._auditing.settings import FittingOptions, JudgementOptions

from .methods import Predict

MARGIN = 0.02
LEVEL = 0.95
MIN_COUNT = 100  # sets with fewer people are not judged on their own
VERDICTS = (CERTIFIED, VIOLATED, INCONCLUSIVE)


@dataclass(frozen=True)
class _FittedOnce:
    """A view that fits its models once, unless they start from the model audited."""

    view: View
    kept: dict[tuple[str, int | None], Array] = field(default_factory=dict)

    @property
    def rows(self) -> Array:
        return self.view.rows

    def cross_fit(
        self, target: Array, loss: NuisanceLoss, half: int | None = None, start: Array | None = None
    ) -> Array:
        if start is not None:
            return self.view.cross_fit(target, loss, half, start)
        key = (loss.model, half)
        if key not in self.kept:
            self.kept[key] = self.view.cross_fit(target, loss, half)
        return self.kept[key]


class Judge:
    """The decisive part of ``puc.audit`` for many models on the same people."""

    def __init__(self, X: pd.DataFrame, y: Array, optional: list[str], seed: int, min_count: int = MIN_COUNT) -> None:
        self.X, self.y, self._seed = X, y, seed
        self._judgement = JudgementOptions(MARGIN, level=LEVEL, min_count=min_count)
        self.people, _ = read_audit_people(X, y, optional=optional, num_threads=THREADS)
        self._fitter = CrossFitter(self.people, FittingOptions(seed=seed, num_threads=THREADS))
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
        found, _ = estimate_penalties(self.people, model, self._loss, scored, MARGIN, self._judgement, self._seed)
        return found

    def __call__(self, predict: Predict) -> Row:
        """Return an audit's numbers in points."""
        found = [p for p in self.penalties(predict) if p.estimate is not None]
        verdict, _ = overall(found, MARGIN, self._loss.describe)
        sets = [p for p in found if p.name != ALL_WITHHOLDING]
        if not sets:
            return {"verdict": verdict, **dict.fromkeys(VERDICTS, 0)}
        pooled = next((p for p in found if p.name == ALL_WITHHOLDING), sets[0])
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
