"""The audit under every loss, which loss it chooses, and models that predict per unit of exposure."""

from __future__ import annotations

from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from audit_tools import NO_FIT, QUICK, entry_of, read
from sklearn.pipeline import Pipeline
from tools import QUIET

import pucboost as puc
from pucboost._auditing.people import Loss, choose_loss
from pucboost.simulate.families import expit
from pucboost.testing import assert_consent


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


# Per unit of exposure -------------------------------------------------------------------------------------------------

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


def test_exposure_makes_a_rate_of_a_count() -> None:
    X, y, exposure = TEST
    rates = read(model(), X, y / exposure, weight=exposure).people
    counts = read(model(), X, y, exposure=exposure).people
    np.testing.assert_array_equal(counts.y, rates.y)
    np.testing.assert_allclose(counts.weight, rates.weight)
    assert (counts.exposure, rates.exposure) == (pytest.approx(exposure.sum()), None)


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
