"""Exposure in ``PUCRegressor``: fit, validation people, metadata routing, scores, audits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from estimator_tools import ENGINES, SMALL
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import pucboost as puc

OPTIONAL = [2]
DEVIANCE = "neg_mean_poisson_deviance"


def claims(n: int = 300, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X, exposure = rng.normal(size=(n, 3)), rng.uniform(0.1, 3, n)
    total = rng.poisson(exposure * np.exp(0.3 * X[:, 0] + 0.5 * X[:, 2])) + 0.5
    X[rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 2])), 2] = np.nan
    return X, total, exposure


X, TOTAL, EXPOSURE = claims()
V, V_TOTAL, V_EXPOSURE = claims(200, 1)


def regressor(**params: Any) -> puc.PUCRegressor:
    return puc.PUCRegressor(**{**SMALL, "optional": OPTIONAL, "objective": "poisson", **params})


@pytest.mark.parametrize("engine", ENGINES)
def test_fit_is_that_on_rates(engine: str) -> None:
    for optional in [None, OPTIONAL]:
        for objective in ["poisson", "gamma", "tweedie"]:
            model = regressor(engine=engine, optional=optional, objective=objective)
            weight = np.where(np.arange(300) < 250, 1.5, 0.0)
            expected = model.fit(X, TOTAL / EXPOSURE, weight * EXPOSURE).predict(X)
            assert np.array_equal(model.fit(X, TOTAL, weight, exposure=EXPOSURE).predict(X), expected)
            expected = model.fit(X, TOTAL / EXPOSURE, EXPOSURE).predict(X)
            assert np.array_equal(model.fit(X, TOTAL, exposure=EXPOSURE).predict(X), expected)
            assert not np.allclose(model.fit(X, TOTAL).predict(X), expected)


def test_tables_with_names() -> None:
    for optional in [None, ["c"]]:
        for library in [pd, pl]:
            table = library.DataFrame({name: X[:, j] for j, name in enumerate("abc")})
            series = library.Series(EXPOSURE)
            model = regressor(optional=optional).fit(table, TOTAL, exposure=series)
            expected = regressor(optional=optional and OPTIONAL).fit(X, TOTAL, exposure=EXPOSURE)
            assert np.array_equal(model.predict(table), expected.predict(X))


@pytest.mark.parametrize("engine", ENGINES)
def test_validation_people(engine: str) -> None:
    for optional in [None, OPTIONAL]:
        model, y = regressor(engine=engine, optional=optional), TOTAL.copy()
        model.fit(X, y, exposure=EXPOSURE, eval_set=[(X, y), (V, V_TOTAL)], eval_exposure=[None, V_EXPOSURE])
        ours, rate = model.evals_result_, y / EXPOSURE
        model.fit(
            X, rate, EXPOSURE, eval_set=[(X, rate), (V, V_TOTAL / V_EXPOSURE)], eval_sample_weight=[None, V_EXPOSURE]
        )
        assert ours == model.evals_result_
        assert list(ours) == ["training", "valid_1"]


@pytest.mark.parametrize("engine", ENGINES)
def test_bad_exposures(engine: str) -> None:
    for optional in [None, OPTIONAL]:
        model = regressor(engine=engine, optional=optional)
        wrong = EXPOSURE.copy()
        wrong[4] = 0
        short = EXPOSURE[:10]
        for arguments, message in (
            (
                {"exposure": wrong},
                r"The exposure is 0.0 in row 4 \(1 such rows\); exposures must be finite and above 0",
            ),
            ({"exposure": short}, "exposure must have one value for each of the 300 rows"),
            ({"exposure": EXPOSURE, "eval_set": (V, V_TOTAL)}, "train_set has an exposure, but .*0.* has none"),
            ({"eval_set": (V, V_TOTAL), "eval_exposure": V_EXPOSURE}, "has an exposure, but train_set has none"),
            ({"exposure": EXPOSURE, "eval_exposure": V_EXPOSURE}, "eval_exposure needs eval_set"),
            ({"eval_set": (V, V_TOTAL), "eval_exposure": [short, short]}, "eval_exposure has 2 items for 1 validation"),
            (
                {"exposure": EXPOSURE, "eval_set": (V, V_TOTAL), "eval_exposure": [short]},
                r"eval_set\[0\]: exposure must have one value for each of the 200 rows",
            ),
        ):
            with pytest.raises(ValueError, match=message):
                model.fit(X, TOTAL, **arguments)
        with pytest.raises(ValueError, match=r"exposure with objective='.*': .* For other losses weight is meant"):
            model.set_params(objective=None).fit(X, TOTAL, exposure=EXPOSURE)
        with pytest.raises(TypeError, match="exposure"):
            puc.PUCClassifier(engine=engine, optional=optional).fit(X, TOTAL > 1, exposure=EXPOSURE)  # type: ignore


def test_scikit_learn_routes_exposures() -> None:
    """A search hands everybody's exposure to fit and to the scorer, also through a pipeline."""
    scale, rate = StandardScaler().fit(X), TOTAL / EXPOSURE
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = puc.metrics.puc_scorer(DEVIANCE).set_score_request(exposure=True)
        model = regressor().set_fit_request(exposure=True)
        search = GridSearchCV(model, {"num_leaves": [3, 7]}, scoring=scorer, cv=2).fit(X, TOTAL, exposure=EXPOSURE)
        weighted = regressor().set_fit_request(sample_weight=True)
        by_hand = puc.metrics.puc_scorer(DEVIANCE).set_score_request(sample_weight=True)
        same = GridSearchCV(weighted, {"num_leaves": [3, 7]}, scoring=by_hand, cv=2)
        same.fit(X, rate, sample_weight=EXPOSURE)
        for name in ("split0_test_score", "split1_test_score"):
            np.testing.assert_allclose(search.cv_results_[name], same.cv_results_[name], rtol=1e-6)  # float32 labels
        pipeline = Pipeline([("scale", StandardScaler()), ("model", regressor().set_fit_request(exposure=True))])
        pipeline.fit(X, TOTAL, exposure=EXPOSURE)
        expected = regressor().fit(scale.transform(X), TOTAL, exposure=EXPOSURE)
        assert np.array_equal(pipeline.predict(X), expected.predict(scale.transform(X)))
        routed = regressor().set_fit_request(exposure=True).set_score_request(exposure=True)
        scores = cross_val_score(routed, X, TOTAL, cv=2, params={"exposure": EXPOSURE})
        rates = regressor().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        others = cross_val_score(rates, X, rate, cv=2, params={"sample_weight": EXPOSURE})
        np.testing.assert_allclose(scores, others, rtol=1e-6)


def test_a_search_refuses_to_compare_rates_with_totals() -> None:
    search = GridSearchCV(regressor(), {"num_leaves": [3]}, scoring=puc.metrics.puc_scorer(DEVIANCE), cv=2)
    with pytest.raises(ValueError, match=r"fitted with an exposure and predicts rates, but there is no exposure"):
        search.set_params(error_score="raise").fit(X, TOTAL, exposure=EXPOSURE)
    search.fit(X, TOTAL)


def test_scores_on_virtual_rows() -> None:
    model = regressor().fit(X, TOTAL, exposure=EXPOSURE)
    ours = puc.metrics.puc_score(model, V, V_TOTAL, metric=DEVIANCE, exposure=V_EXPOSURE)
    one = np.ones(len(V))
    rates = puc.metrics.puc_score(
        model, V, V_TOTAL / V_EXPOSURE, metric=DEVIANCE, sample_weight=V_EXPOSURE, exposure=one
    )
    assert ours == pytest.approx(rates, rel=1e-12)
    assert ours > puc.metrics.puc_score(model, V, V_TOTAL, metric=DEVIANCE, exposure=one)
    with pytest.raises(ValueError, match="there is no exposure to compare outcomes with them"):
        puc.metrics.puc_score(model, V, V_TOTAL, metric=DEVIANCE)
    with pytest.raises(ValueError, match=r"The exposure is 0\.0 in row 0"):
        puc.metrics.puc_score(model, V, V_TOTAL, metric=DEVIANCE, exposure=np.zeros(200))
    assert model.score(V, V_TOTAL, exposure=V_EXPOSURE) == model.score(V, V_TOTAL / V_EXPOSURE, V_EXPOSURE)
    weighted = model.score(V, V_TOTAL, V_TOTAL, exposure=V_EXPOSURE)
    assert weighted == model.score(V, V_TOTAL / V_EXPOSURE, V_TOTAL * V_EXPOSURE)


def test_audit_by_the_estimator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUCBOOST_EXPOSURE_KEY", "0123456789abcdef-a-secret")
    key = "env:PUCBOOST_EXPOSURE_KEY"
    model = regressor(n_estimators=20, row_key=key).fit(X, TOTAL, exposure=EXPOSURE)
    given: dict[str, Any] = {"margin": 0.2, "relative": True, "num_threads": 1, "min_count": 50, "row_key": key}
    report = model.audit(V, V_TOTAL, exposure=V_EXPOSURE, **given)
    assert report.exposure == pytest.approx(V_EXPOSURE.sum())
    assert report.support.trained_on.found == 0
    for audited in (model, model.booster_):
        assert puc.audit(audited, V, V_TOTAL, exposure=V_EXPOSURE, optional=OPTIONAL, **given).margin == report.margin
        seen = puc.audit(audited, X, TOTAL, exposure=EXPOSURE, optional=OPTIONAL, **given)
        assert seen.support.trained_on.share == 1.0
    alone = puc.audit(model, V, V_TOTAL / V_EXPOSURE, weight=V_EXPOSURE, optional=OPTIONAL, **given)
    assert any("trained with an exposure" in warning for warning in alone.warnings)
