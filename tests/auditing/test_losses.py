"""The audit under every loss, and which loss it chooses."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from audit_tools import QUICK, entry_of
from tools import QUIET

import pucboost as puc
from pucboost._auditing.people import Loss, choose_loss
from pucboost.simulate.families import expit


def claims(n: int, seed: int) -> tuple[Any, Any, Any]:
    """Counts over exposures: base rate exp(0.4·b), a group shared less often by those with high rates."""
    rng = np.random.default_rng(seed)
    b, z = rng.normal(size=(2, n))
    exposure = rng.uniform(0.2, 2.0, n)
    y = rng.poisson(exposure * np.exp(0.4 * b + 0.5 * z - 0.125))
    z[rng.random(n) < expit(1.5 * z)] = np.nan
    return np.column_stack([b, z]), y.astype(float), exposure


def test_exposure_makes_a_rate_of_a_count() -> None:
    X, y, exposure = claims(4000, 0)
    known = {"optional": [1], "margin": 0.05, "loss": "poisson", **QUICK}
    model = lambda X: np.exp(0.4 * X[:, 0])  # noqa: E731
    counts = puc.audit(model, X, y, exposure=exposure, **known)
    rates = puc.audit(model, X, y / exposure, weight=exposure, **known)
    assert counts.penalties == rates.penalties
    assert counts.loss == "Poisson deviance"
    nothing = entry_of(counts)
    # E[Y | b] = exp(0.4·b): those who share nothing get what their base data justify.
    assert abs(nothing.estimate.value) < 4 * nothing.estimate.standard_error
    assert nothing.estimate.standard_error < 0.04


def test_quantile_audit_finds_the_justified_quantile_and_a_surcharge() -> None:
    rng = np.random.default_rng(8)
    n = 6000
    b = rng.normal(size=n)
    y = b + rng.normal(size=n)
    X = np.column_stack([b, rng.normal(size=n)])
    X[rng.random(n) < expit(y - b), 1] = np.nan  # the silent have higher outcomes than their base data say
    z90 = 1.2815515655446004
    options = {"optional": [1], "loss": "quantile", "alpha": 0.9, **QUICK}
    fair = puc.audit(lambda X: X[:, 0] + z90, X, y, margin=0.05, **options)
    assert fair.verdict == "certified"
    assert "0.9" in fair.loss
    dear = puc.audit(lambda X: X[:, 0] + np.where(np.isnan(X[:, 1]), 2.0, z90), X, y, margin=0.04, **options)
    nothing = entry_of(dear)
    assert nothing.estimate.value == pytest.approx(0.977 - 0.9, abs=0.015)
    assert dear.verdict == "violated"
    assert dear.calibration == ()


def test_loss_is_read_from_a_booster() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 2, 200).astype(float)
    for name, alpha, params in (
        ("binary", 0.5, {"objective": "binary"}),
        ("squared", 0.5, {"objective": "regression"}),
        ("poisson", 0.5, {"objective": "poisson"}),
        ("poisson", 0.5, {"objective": "tweedie"}),
        ("quantile", 0.8, {"objective": "quantile", "alpha": 0.8}),
        ("quantile", 0.5, {"objective": "l1"}),
    ):
        assert choose_loss("auto", None, lgb.train({**params, **QUIET}, lgb.Dataset(X, y), 2), y) == Loss(name, alpha)
    for name, alpha, params in (
        ("binary", 0.5, {"objective": "binary:logistic"}),
        ("poisson", 0.5, {"objective": "count:poisson"}),
        ("quantile", 0.7, {"objective": "reg:quantileerror", "quantile_alpha": 0.7}),
    ):
        chosen = choose_loss("auto", None, xgb.train({**params, "nthread": 1}, xgb.DMatrix(X, y), 2), y)
        assert (chosen.name, chosen.alpha) == (name, pytest.approx(alpha))
    model = lgb.LGBMRegressor(objective="quantile", alpha=0.8, n_estimators=2, verbose=-1).fit(X, X[:, 0])
    assert choose_loss("auto", None, model, X[:, 0]) == Loss("quantile", 0.8)


def test_loss_without_a_booster_follows_the_outcomes() -> None:
    assert choose_loss("auto", None, print, np.array([0.0, 1.0])).name == "binary"
    assert choose_loss("auto", None, print, np.array([0.0, 2.5])).name == "squared"


def test_shares_as_outcomes() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    y = expit(X[:, 0] + 0.3 * rng.normal(size=1500))
    X[rng.random(1500) < 0.5, 1] = np.nan
    report = puc.audit(lambda t: expit(t[:, 0]), X, y, optional=[1], loss="binary", margin=0.05, **QUICK)
    assert report.averages[0].base_model == pytest.approx(y.mean(), abs=0.05)
    assert report.verdict == "certified"


def test_rare_counts_do_not_stop_it() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    X[rng.random(1500) < 0.5, 1] = np.nan
    y = (rng.random(1500) < 0.01).astype(float)
    report = puc.audit(lambda t: np.full(len(t), 0.01), X, y, optional=[1], loss="poisson", margin=0.05, **QUICK)
    assert report.loss == "Poisson deviance"


def test_a_quantile_that_outcomes_equal_is_refused() -> None:
    X = np.random.default_rng(0).normal(size=(400, 2))
    X[::2, 1] = np.nan
    y = np.where(np.arange(400) % 3 == 0, 1.0, 0.0)
    with pytest.raises(ValueError, match="outcomes equal the predicted quantile"):
        puc.audit(lambda t: np.zeros(len(t)), X, y, optional=[1], loss="quantile", alpha=0.5, margin=0.05)
