"""Audits of models that predict per unit of exposure."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from audit_tools import NO_FIT, QUICK, entry_of
from scipy.special import expit
from sklearn.pipeline import Pipeline
from tools import QUIET

import pucboost as puc
from pucboost.testing import assert_consent

AUDIT: dict[str, Any] = {"margin": 0.2, "relative": True, **QUICK}


def policies(n: int, seed: int) -> tuple[Any, Any, Any]:
    """Claims over 0.2 to 2 years; who has a high rate shares less often, and older policies (b = 1) run longer."""
    rng = np.random.default_rng(seed)
    b, z = rng.integers(0, 2, n).astype(float), rng.normal(size=n)
    exposure = rng.uniform(0.2, 0.8, n) * (1 + 1.5 * b)
    claims = rng.poisson(exposure * np.exp(0.8 * z - 0.32))
    z[rng.random(n) < expit(2 * z)] = np.nan
    return np.column_stack([b, z]), claims.astype(float), exposure


TRAIN, TEST = policies(12_000, 0), policies(6_000, 1)


@cache
def model(exposure: bool = True, optional: Any = (1,)) -> Any:
    X, y, units = TRAIN
    data = puc.Dataset(X, y, exposure=units if exposure else None)
    given = {
        **QUIET,
        "objective": "poisson",
        "learning_rate": 0.05,
        "optional": optional and list(optional),
        "num_threads": 1,
    }
    return puc.train(given, data, 60)


def test_the_silent_have_no_penalty_unless_silence_or_exposure_is_misread() -> None:
    X, y, exposure = TEST
    fair = assert_consent(model(), X, y, exposure=exposure, **AUDIT)
    assert fair.exposure == pytest.approx(exposure.sum())
    assert fair.loss == "Poisson deviance"
    assert entry_of(fair).mean_prediction == pytest.approx(1, abs=0.1)  # claims a year, not a policy
    assert abs(entry_of(fair).percent) < 8
    unrestricted = puc.audit(model(optional=None), X, y, exposure=exposure, optional=[1], **AUDIT)
    assert unrestricted.verdict == "violated"
    assert entry_of(unrestricted).estimate.value > 0.2
    # Without exposure, those insured longer are told too much, and newcomers too little.
    ignored = puc.audit(
        model(exposure=False), X, y, exposure=exposure, subgroups={"old": X[:, 0] == 1, "new": X[:, 0] == 0}, **AUDIT
    )
    percent = {p.subgroup: p.percent for p in ignored.penalties if p.name == "nothing"}
    assert percent["old"] > 10
    assert percent["new"] < -30


def test_rows_without_weight_have_no_exposure() -> None:
    X, y, exposure = TEST
    weight = np.where(np.arange(6_000) < 4_000, 1.0, 0.0)
    report = puc.audit(model(), X, y, exposure=exposure, weight=weight, **{**AUDIT, **NO_FIT})
    assert report.exposure == pytest.approx(exposure[:4_000].sum())


def test_a_forgotten_exposure_is_noted() -> None:
    X, y, exposure = TEST
    inner = puc.PUCRegressor(optional=[1], objective="poisson", n_estimators=5, n_jobs=1).fit(X, y, exposure=exposure)
    pipeline = Pipeline([("nothing", "passthrough"), ("model", inner)])
    for forgotten, noted in ((model(), True), (pipeline, True), (model(exposure=False), False)):
        warnings = puc.audit(forgotten, X, y, **{**AUDIT, **NO_FIT}).warnings
        assert any("predicts per unit of it, but this audit was given none" in text for text in warnings) is noted


def test_quantiles_do_not_add_up() -> None:
    X, y, exposure = TEST
    with pytest.raises(ValueError, match=r"exposure with loss='quantile': means add up over an exposure, quantiles do"):
        puc.audit(lambda X: X[:, 0], X, y, exposure=exposure, optional=[1], loss="quantile", alpha=0.9, margin=0.1)
