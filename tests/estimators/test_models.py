"""The model of an estimator is that of puc.train: losses, classes, outcomes, random state, threads."""

from __future__ import annotations

from typing import Any

import joblib
import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from estimator_tools import (
    ENGINES,
    OPTIONAL,
    classifier,
    named_table,
    regressor,
)
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import cross_val_score
from tools import make_table

import pucboost as puc
from pucboost.demo import insurance_family


@pytest.mark.parametrize("engine", ENGINES)
def test_the_model_is_that_of_train(engine: str) -> None:
    for augmentation in ["balanced", "exhaustive", "none"]:
        X, y = make_table(400)
        weight = np.random.default_rng(0).uniform(0.5, 2, 400)
        model = classifier(engine=engine, augmentation=augmentation, copies=3, reg_lambda=2.0, random_state=7)
        model.fit(X, y, sample_weight=weight)
        params = {
            "objective": "binary", "optional": OPTIONAL, "engine": engine, "augmentation": augmentation, "copies": 3,
            "learning_rate": 0.1, "num_leaves": 7, "reg_lambda": 2.0, "seed": 7, "num_threads": 1, "verbosity": -1,
        }  # fmt: skip
        booster = puc.train(params, puc.Dataset(X, y, weight=weight), 5)
        assert np.array_equal(model.predict_proba(X)[:, 1], puc.predict(booster, X))
        assert model.consent_ == booster.consent
        assert model.booster_.puc_summary == booster.puc_summary
        assert isinstance(model.booster_, lgb.Booster if engine != "xgboost" else xgb.Booster)


def test_nothing_optional_is_plain_training() -> None:
    for optional in [None, [], {}]:
        X, y = make_table(300)
        model = regressor(optional=optional).fit(X, y)
        params = {"learning_rate": 0.1, "num_leaves": 7, "seed": 0, "num_threads": 1, "verbosity": -1}
        assert np.array_equal(model.predict(X), lgb.train(params, lgb.Dataset(X, y), 5).predict(X))
        assert model.consent_.n_groups == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_objectives_of_regressors(engine: str) -> None:
    for objective, further in [
        ("regression", {}),
        ("poisson", {}),
        ("gamma", {}),
        ("tweedie", {"tweedie_variance_power": 1.3}),
        ("quantile", {"alpha": 0.8}),
        ("regression_l1", {}),
    ]:
        X, _ = make_table(600)
        y = np.random.default_rng(0).gamma(2.0, np.exp(X[:, 0] / 2)) + 0.01
        unfitted = regressor(objective=objective, engine=engine, n_estimators=30, **further)
        if (engine, objective) == ("native", "regression_l1"):
            with pytest.raises(ValueError, match=r"does not have this loss\. Use 'engine': 'lightgbm'"):
                unfitted.fit(X, y)
            return
        model = unfitted.fit(X, y)
        prediction = model.predict(X)
        assert prediction.dtype == np.float64
        assert np.corrcoef(prediction, y)[0, 1] > 0.3
        if objective in ("quantile", "regression_l1"):
            assert (y <= prediction).mean() == pytest.approx(further.get("alpha", 0.5), abs=0.06)
        else:
            assert prediction.mean() == pytest.approx(y.mean(), rel=0.1)


def test_a_callable_objective() -> None:
    X, y = make_table(300)
    model = regressor(objective=lambda y_true, y_pred: (y_pred - y_true, np.ones(len(y_pred)))).fit(X, y)
    built_in = regressor(objective="regression", boost_from_average=False).fit(X, y)
    np.testing.assert_allclose(model.predict(X), built_in.predict(X), atol=1e-5)  # gradients are float32


@pytest.mark.parametrize("engine", ENGINES)
def test_random_state(engine: str) -> None:
    X, y = make_table(300)

    def fitted(state: Any) -> Any:
        return classifier(engine=engine, random_state=state, feature_fraction=0.5).fit(X, y).predict_proba(X)

    assert np.array_equal(fitted(None), fitted(None))
    assert np.array_equal(fitted(None), fitted(0))
    assert np.array_equal(fitted(np.int64(3)), fitted(3))
    assert not np.array_equal(fitted(3), fitted(4))
    assert np.array_equal(fitted(np.random.RandomState(1)), fitted(np.random.RandomState(1)))
    assert np.array_equal(fitted(np.random.default_rng(1)), fitted(np.random.default_rng(1)))
    state = np.random.RandomState(1)
    assert not np.array_equal(fitted(state), fitted(state))


def test_threads_as_in_joblib() -> None:
    X, y = make_table(300)
    one = classifier(n_jobs=1).fit(X, y)
    for n_jobs, threads in ((1, 1), (2, 2), (-1, joblib.cpu_count()), (-1_000, 1)):
        model = classifier(n_jobs=n_jobs).fit(X, y)
        assert model.booster_.params["num_threads"] == threads
        assert np.allclose(model.predict_proba(X), one.predict_proba(X))


def test_an_anchor() -> None:
    X, y = make_table(400)
    legacy = lgb.train({"objective": "binary", "verbosity": -1}, lgb.Dataset(X[:, :3], y), 5)
    model = classifier(anchor=legacy).fit(X, y)
    silent = np.isnan(X[:, 3:]).all(axis=1)
    assert np.array_equal(model.predict_proba(X[silent])[:, 1], legacy.predict(X[silent, :3]))
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.best_iteration_ == 5
    assert (model.predict_proba(X, sharing="best", favourable="lower")[:, 1] <= legacy.predict(X[:, :3])).all()
    assert puc.consent_of(classifier(optional=None).fit(X, y)) is None


@pytest.mark.parametrize("engine", ENGINES)
def test_silence_is_not_bad_news(engine: str) -> None:
    """The point of it all, through the estimator."""
    family = insurance_family()
    train, test = family.sample(8000, seed=0), family.sample(8000, seed=1)
    silent = ~test.available.any(axis=1)
    justified = family.puc_prediction(test.X)[silent].mean()
    shift = {}
    for augmentation in ("none", "balanced"):
        model = classifier(
            optional=family.optional, engine=engine, augmentation=augmentation, n_estimators=40, num_leaves=15
        )
        shift[augmentation] = model.fit(train.X, train.y).predict_proba(test.X[silent])[:, 1].mean() - justified
    assert abs(shift["balanced"]) < 0.03, shift
    assert shift["none"] > 0.08, shift


@pytest.mark.parametrize("engine", ENGINES)
def test_string_classes(engine: str) -> None:
    X, y = make_table(300)
    words = np.where(y == 1, "claim", "none")  # sorted the other way round
    model = classifier(engine=engine).fit(X, words)
    numbers = classifier(engine=engine).fit(X, 1 - y)
    assert model.classes_.tolist() == ["claim", "none"]
    assert np.array_equal(model.predict_proba(X), numbers.predict_proba(X))
    assert set(model.predict(X)) == {"claim", "none"}
    assert model.score(X, words) == numbers.score(X, 1 - y)
    claim = model.predict_proba(X)[:, 0]
    assert claim[y == 1].mean() > claim[y == 0].mean() + 0.05
    for given in (pd.Series(words), pd.Series(words, dtype="category"), pl.Series(words), words.tolist()):
        assert np.array_equal(classifier(engine=engine).fit(X, given).predict(X), model.predict(X))


@pytest.mark.parametrize("engine", ENGINES)
def test_several_classes(engine: str) -> None:
    X, _ = make_table(600)
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])]
    model = classifier(engine=engine, n_estimators=15).fit(X, y)
    p = model.predict_proba(X)
    assert p.shape == (600, 3)
    assert p.dtype == np.float64
    assert np.abs(p.sum(axis=1) - 1).max() < 1e-12
    assert np.array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    assert model.decision_function(X).shape == (600, 3)
    assert model.score(X, y) > 0.8
    assert cross_val_score(model, X, y, cv=2, scoring="neg_log_loss").min() > -1.0
    quotes = model.quote(X[:4], subsets=["nothing", "all"])
    assert quotes.columns.get_level_values("class").tolist() == ["high", "low", "middle"] * 2


@pytest.mark.parametrize("engine", ENGINES)
def test_two_classes_under_a_loss_for_several(engine: str) -> None:
    X, y = make_table(300)
    model = classifier(engine=engine, objective="multiclass").fit(X, y == 1)
    p = model.predict_proba(X)
    assert model.classes_.tolist() == [False, True]
    assert np.allclose(1 / (1 + np.exp(-model.decision_function(X))), p[:, 1], atol=1e-6)


def test_wrong_outcomes() -> None:
    X, y = make_table(100)
    with pytest.raises(ValueError, match=r"Unknown label type: continuous\. Maybe you are trying to fit a classifier"):
        classifier().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="PUCClassifier needs at least 2 classes, but y has one class only"):
        classifier().fit(X, np.ones(100))
    with pytest.raises(ValueError, match="objective='binary' is for two classes, but y has 3"):
        classifier(objective="binary").fit(X, np.arange(100) % 3)
    for X_given in (X, pd.DataFrame(X)):
        with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
            classifier().fit(X_given, None)
        with pytest.raises(ValueError, match="Input y contains NaN"):
            regressor().fit(X_given, np.where(y == 1, np.nan, y))
        with pytest.raises(ValueError, match="Found input variables with inconsistent numbers of samples"):
            regressor().fit(X_given, y[:50])
        with pytest.raises(ValueError, match="y should be a 1d array, got an array of shape"):
            regressor().fit(X_given, np.c_[y, y])
        with pytest.warns(DataConversionWarning, match="A column-vector y was passed when a 1d array was expected"):
            regressor().fit(X_given, y[:, None])
    for engine in ENGINES:
        for optional in (None, OPTIONAL):
            with pytest.raises(ValueError, match=r"y is -1.0 in row 3; objective 'poisson' needs labels"):
                regressor(objective="poisson", engine=engine, optional=optional).fit(
                    X, np.where(np.arange(100) == 3, -1, y)
                )


def test_pandas_outcomes_with_nullable_types() -> None:
    X, y = named_table()
    for dtype in ("Int64", "boolean", "Float64"):
        model = classifier().fit(X, pd.Series(y).astype(dtype))
        assert np.array_equal(model.predict_proba(X), classifier().fit(X, y).predict_proba(X))
