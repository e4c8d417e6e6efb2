"""Consent as a test: ``puc.testing.assert_consent`` for a project's own pytest suite."""

from __future__ import annotations

from typing import Any, Unpack

from ._auditing.findings import CERTIFIED_IN_PART, INCONCLUSIVE, VIOLATED, VIOLATED_FOR_SOME, AuditReport
from ._auditing.run import audit
from ._auditing.settings import AuditKeywords

__all__ = ["assert_consent"]


def __dir__() -> list[str]:
    return sorted(__all__)


OUTCOMES = (VIOLATED, INCONCLUSIVE, CERTIFIED_IN_PART)
"""Verdicts that may fail a test or a build."""


def assert_consent(
    model: Any, X: Any, y: Any, *, margin: float, fail_on: Any = OUTCOMES, **options: Unpack[AuditKeywords]
) -> AuditReport:
    """Audit a model and raise an AssertionError with the findings unless it is certified.

    Parameters
    ----------
    model, X, y, margin, **options
        As in :func:`pucboost.audit`; ``partial`` says how many need not be covered.
    fail_on
        Which verdicts fail: ``("violated", "inconclusive", "certified in part")``, or only ``"violated"`` if data are
        scarce. Violated for some counts as violated.

    Returns
    -------
    AuditReport
        The report, for further assertions.

    Examples
    --------
    >>> from pucboost.simulate import LogisticFamily
    >>> family = LogisticFamily.teaser()
    >>> people = family.sample(2000, seed=0)
    >>> assert_consent(family.puc_prediction, people.X, people.y, optional=family.optional, margin=0.05).passed
    True
    """
    failing = check_fail_on(fail_on)
    report = audit(model, X, y, margin=margin, **options)
    if report.verdict in failing and not report.passed:
        raise AssertionError(str(report))
    return report


def check_fail_on(fail_on: Any) -> tuple[str, ...]:
    """Return the verdicts that fail, or raise; what is violated for some is violated."""
    failing = (fail_on,) if isinstance(fail_on, str) else tuple(fail_on)
    for verdict in failing:
        if verdict not in OUTCOMES:
            raise ValueError(f"fail_on must be among {', '.join(map(repr, OUTCOMES))}; got {verdict!r}.")
    return (*failing, VIOLATED_FOR_SOME) if VIOLATED in failing else failing
