"""People, models and settings the tests of the audit share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import optimize, stats
from sklearn.base import BaseEstimator

import pucboost as puc
from pucboost.simulate import LogisticFamily
from pucboost.simulate.families import expit

TEASER = LogisticFamily.teaser()
HARMLESS = replace(TEASER, U=np.zeros_like(TEASER.U), lam=np.zeros_like(TEASER.lam), sharing=0.7)
PAPER = replace(LogisticFamily.paper(), sharing=0.6)
FAST = {"num_threads": 1}


def audit(model: Any, people: Any, family: Any = TEASER, **options: Any) -> puc.typing.AuditReport:
    options = {"margin": 0.02, "optional": family.optional, "num_threads": 1, **options}
    return puc.audit(model, people.X, people.y, **options)


class Known(BaseEstimator):
    """A nuisance model that knows the truth and needs no fit."""

    def __init__(self, truth: Any = None) -> None:
        self.truth = truth

    def __sklearn_clone__(self) -> Known:
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Known:
        return self

    def predict(self, X: Any) -> Any:
        return self.truth(X)


def silence_probability(family: LogisticFamily, base: Any) -> Any:
    """P(A = nothing | b) for a family with one group."""
    p = expit(base @ family.w + family.t)
    unlikely, likely = family._share(base)
    return 1 - (p * likely[:, 0] + (1 - p) * unlikely[:, 0])


def known_nuisance(family: LogisticFamily) -> tuple[Known, Known]:
    def outcome(X: Any) -> Any:
        return expit(X[:, :2] @ family.w + family.t)

    return Known(outcome), Known(lambda X: silence_probability(family, X[:, :2]))


def numbers(report: puc.typing.AuditReport) -> list[Any]:
    return [(p.people, p.estimate.value if p.estimate else None) for p in report.penalties]


def interval_by_hand(value: float, parts: Any, sizes: Any, critical: float, clusters: int | None = None) -> Any:
    """The interval that allows for skewness: H(T) = T + a·T² + a²·T³/3 + k/6 set to ±critical, solved by bisection.

    ``parts`` are what people, or clusters, contribute to the estimate, ``sizes`` their shares of its denominator.
    """
    error = sum(part**2 for part in parts) ** 0.5
    k = sum(part**3 for part in parts) / error**3
    a = k / 3 - sum(part * size for part, size in zip(parts, sizes, strict=True)) / error
    if clusters is not None:
        critical = stats.t.ppf(stats.norm.cdf(critical), clusters - 1)

    def studentised(x: float) -> float:
        return float(optimize.brentq(lambda t: t + a * t**2 + a**2 * t**3 / 3 + k / 6 - x, -100, 100, xtol=1e-13))

    return value - error * studentised(critical), value - error * studentised(-critical)
