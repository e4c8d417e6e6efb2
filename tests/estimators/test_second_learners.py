"""Calibrators and stacking estimators bring back what silence tells, unless they are fitted on virtual rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_kits import EngineKit, every_engine
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV, cross_val_predict

import pucboost as puc

LOST = "The protection is lost: {} is fitted to predictions for rows as they are"


def people(n: int = 4000, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Who has a large z, and so a bad outcome, tends to withhold it: one half of all, two thirds of the silent."""
    rng = np.random.default_rng(seed)
    b, z = rng.normal(size=(2, n))
    silent = rng.random(n) < 1 / (1 + np.exp(-2 * z))
    y = (rng.random(n) < 1 / (1 + np.exp(-(b + 1.5 * z)))).astype(int)
    return pd.DataFrame({"b": b, "z": np.where(silent, np.nan, z)}), y, silent


def model(kit: EngineKit) -> puc.PUCClassifier:
    return puc.PUCClassifier(optional=["z"], engine=kit.name, n_estimators=30, num_leaves=15, n_jobs=2)


def told_to_the_silent(fitted: Any) -> float:
    X, _, silent = people(seed=1)
    return float(fitted.predict_proba(X)[silent, 1].mean())


@pytest.mark.parametrize(
    ("wrap", "name"),
    [
        (lambda one: CalibratedClassifierCV(one, cv=2), "a calibrator"),
        (lambda one: CalibratedClassifierCV(one, method="isotonic", cv=2, ensemble=False), "a calibrator"),
        (lambda one: StackingClassifier([("one", one)], LogisticRegression(), cv=2), "a stacking estimator"),
    ],
    ids=["sigmoid", "isotonic", "stacking"],
)
@every_engine
def test_on_rows_as_they_are_it_is_said(kit: EngineKit, wrap: Any, name: str) -> None:
    X, y, _ = people()
    with pytest.warns(puc.ProtectionLostWarning, match=LOST.format(name)) as caught:
        fitted = wrap(model(kit)).fit(X, y)
    assert {one.filename for one in caught} == {__file__}
    assert told_to_the_silent(fitted) > 0.55  # which is why


@every_engine
def test_a_fitted_model_that_is_calibrated_later(kit: EngineKit) -> None:
    X, y, _ = people()
    trained = model(kit).fit(X, y)
    assert told_to_the_silent(trained) == pytest.approx(0.5, abs=0.03)
    later, y_later, _ = people(seed=2)
    with pytest.warns(puc.ProtectionLostWarning, match=LOST.format("a calibrator")):
        lost = CalibratedClassifierCV(FrozenEstimator(trained)).fit(later, y_later)
    assert told_to_the_silent(lost) > 0.55
    rows, outcomes, _, _ = puc.augment(later, y_later, optional=["z"], augmentation="exhaustive")  # all weigh the same
    for method in ("sigmoid", "isotonic"):
        calibrated = CalibratedClassifierCV(FrozenEstimator(trained), method=method).fit(rows, outcomes)
        assert told_to_the_silent(calibrated) == pytest.approx(0.5, abs=0.03)


@every_engine
def test_what_learns_nothing_from_predictions(kit: EngineKit) -> None:
    """Votes are averages; thresholds, searches and folds only look at scores."""
    X, y, _ = people(1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vote = VotingClassifier([("one", model(kit)), ("two", model(kit))], voting="soft").fit(X, y)
        TunedThresholdClassifierCV(model(kit), cv=2).fit(X, y).predict(X)
        GridSearchCV(model(kit), {"num_leaves": [7, 15]}, cv=2).fit(X, y).predict(X)
        cross_val_predict(model(kit), X, y, cv=2)
        CalibratedClassifierCV(model(kit).set_params(optional=None), cv=2).fit(X, y)  # nobody was protected
    assert told_to_the_silent(vote) == pytest.approx(0.5, abs=0.05)
    assert puc.metrics.puc_score(vote, X, y) == pytest.approx(puc.metrics.puc_score(model(kit).fit(X, y), X, y))


def test_where_people_have_twins_nothing_is_certain() -> None:
    """Base columns of few values: rows may be virtual ones."""
    X, y, _ = people(1000)
    X["b"] = X["b"].round()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CalibratedClassifierCV(puc.PUCClassifier(optional=["z"], n_estimators=3, n_jobs=2), cv=2).fit(X, y)
