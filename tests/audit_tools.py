"""People, models and settings the tests of the audit share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import optimize, stats
from sklearn.base import BaseEstimator

import pucboost as puc
from pucboost._auditing.nuisance import CrossFitter
from pucboost._auditing.people import AuditedModel, Loss, read_audit_people
from pucboost._auditing.run import _read
from pucboost._auditing.scores import score_mask
from pucboost._auditing.settings import FittingOptions, group_options
from pucboost.simulate import LogisticFamily
from pucboost.simulate.families import expit

TEASER = LogisticFamily.teaser()
HARMLESS = replace(TEASER, U=np.zeros_like(TEASER.U), lam=np.zeros_like(TEASER.lam), sharing=0.7)
PAPER = replace(LogisticFamily.paper(), sharing=0.6)
QUICK: dict[str, Any] = {"num_threads": 1, "folds": 3, "nuisance": {"num_leaves": 7, "learning_rate": 0.3}}
"""A whole audit with few and small nuisance models."""
NO_FIT: dict[str, Any] = {"num_threads": 1, "min_count": 10**6}
"""No set is large enough to be tested, so no model is fitted; all else is as in any audit."""


def audit(model: Any, people: Any, family: Any = TEASER, **options: Any) -> puc.typing.AuditReport:
    options = {"margin": 0.02, "optional": family.optional, **QUICK, **options}
    return puc.audit(model, people.X, people.y, **options)


def entry_of(report: puc.typing.AuditReport, name: str = "nothing") -> Any:
    return next(p for p in report.penalties if p.name == name)


def read(model: Any, X: Any, y: Any, **options: Any) -> Any:
    """What an audit judges: people, loss and predictions. All that it fits and reports follows from these."""
    return _read(model, X, y, *group_options(0.02, {"num_threads": 1, **options}))


def assert_same_case(one: Any, other: Any, tolerance: float = 0.0) -> None:
    """The same people, loss and predictions, as given and with all but any set of groups erased."""
    everybody = np.arange(len(one.people))
    np.testing.assert_array_equal(one.people.source.take(everybody), other.people.source.take(everybody))
    np.testing.assert_array_equal(one.people.shared, other.people.shared)
    np.testing.assert_array_equal(one.people.y, other.people.y)
    assert one.loss == other.loss
    np.testing.assert_allclose(one.model.given, other.model.given, rtol=0, atol=tolerance)
    for mask in range(one.people.everything + 1):
        erased, same = (case.model.masked(everybody, mask) for case in (one, other))
        np.testing.assert_allclose(erased, same, rtol=0, atol=tolerance)


def scored_of(family: LogisticFamily, model: Any, n: int, seed: int, **fitting: Any) -> tuple[Any, Any, Any]:
    """People of a family with one group, the view of those compared with the silent, and their scores."""
    sample = family.sample(n, seed)
    people, _ = read_audit_people(sample.X, sample.y, optional=[2], num_threads=1)
    view = CrossFitter(people, FittingOptions(seed=seed, num_threads=1, **fitting)).view(0)
    return people, view, score_mask(people, AuditedModel(model, people, None, 1), Loss("binary"), view, 0)


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


def constants(outcome: float, availability: float) -> tuple[Known, Known]:
    """Nuisance models that predict the same for everybody."""
    return Known(lambda X: np.full(len(X), outcome)), Known(lambda X: np.full(len(X), availability))


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
