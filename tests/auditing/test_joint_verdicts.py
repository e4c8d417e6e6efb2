"""Joint verdicts: decisions, critical values, how many rows decide."""

from __future__ import annotations

import numpy as np
import pytest
from audit_tools import PAPER, TEASER, audit

from pucboost._auditing.scores import critical_value, normal_quantile
from pucboost._auditing.settings import roughly
from pucboost._auditing.verdict import decide, rows_to_decide


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"),
    [
        (-0.01, 0.01, "certified"),
        (-0.02, 0.02, "certified"),
        (0.021, 0.03, "violated"),
        (-0.05, -0.03, "violated"),
        (0.01, 0.03, "inconclusive"),
        (-0.03, 0.03, "inconclusive"),
    ],
)
def test_decide(lower: float, upper: float, verdict: str) -> None:
    assert decide(lower, upper, 0.02) == verdict


def test_critical_values() -> None:
    rng = np.random.default_rng(0)
    independent = rng.normal(size=(5, 20_000))
    independent /= np.sqrt((independent**2).sum(axis=1, keepdims=True))
    ones = np.ones(5)
    sidak = normal_quantile((1 + 0.9 ** (1 / 5)) / 2)
    assert critical_value(independent, ones, 0.95, "max-t", 0) == pytest.approx(sidak, abs=0.02)
    same = np.repeat(independent[:1], 5, axis=0)
    single = normal_quantile(0.95)
    assert critical_value(same, ones, 0.95, "max-t", 0) == pytest.approx(single, abs=0.02)
    assert critical_value(independent, ones, 0.95, "bonferroni", 0) == pytest.approx(normal_quantile(0.99))
    assert critical_value(independent, ones, 0.95, "none", 0) == single


def test_rows_to_decide_halves_with_the_width() -> None:
    assert rows_to_decide(0.0, 0.04, 0.02, 1000) == 4000
    assert rows_to_decide(0.03, 0.02, 0.02, 1000) in (4000, 4001)  # 0.03 − 0.02 is not quite 0.01
    assert rows_to_decide(0.02, 0.02, 0.02, 1000) is None


def test_rows_to_decide_really_decide() -> None:
    report = audit(TEASER.puc_prediction, TEASER.sample(500, 11), margin=0.02)
    assert report.verdict == "inconclusive"
    needed = max(p.rows_to_decide for p in report.penalties if p.decisive and p.rows_to_decide)
    assert f"About {roughly(needed)} rows" in report.reason
    assert audit(TEASER.puc_prediction, TEASER.sample(2 * needed, 12), margin=0.02).verdict == "certified"


def test_relative_margin() -> None:
    people = TEASER.sample(2000, 0)
    report = audit(TEASER.puc_prediction, people, margin=0.1, relative=True)
    assert report.margin == pytest.approx(0.1 * TEASER.puc_prediction(people.X).mean())
    assert report.relative_margin == 0.1


def test_stricter_corrections_widen_intervals() -> None:
    people = PAPER.sample(3000, 1)
    reports = {s: audit(PAPER.puc_prediction, people, PAPER, simultaneous=s) for s in ("none", "max-t", "bonferroni")}
    widths = [reports[s].critical_value for s in ("none", "max-t", "bonferroni")]
    assert widths[0] < widths[1] < widths[2]
    estimates = {tuple(p.estimate for p in r.penalties) for r in reports.values()}
    assert len(estimates) == 1
