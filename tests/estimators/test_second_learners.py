"""Calibrators and stacking estimators bring back what silence tells, unless they are fitted on virtual rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_kits import LIGHTGBM, EngineKit, every_engine
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import pucboost as puc


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


def verdict(fitted: Any) -> str:
    quick: dict[str, Any] = {"nuisance": {"num_leaves": 4, "learning_rate": 0.3}, "folds": 3, "num_threads": 1}
    return str(puc.audit(fitted, *people(seed=3)[:2], optional=["z"], margin=0.06, **quick).verdict)


@pytest.mark.slow
def test_an_audit_finds_what_was_fitted_to_rows_as_they_are() -> None:
    for wrap in [
        lambda one: CalibratedClassifierCV(one, cv=2),
        lambda one: CalibratedClassifierCV(one, method="isotonic", cv=2, ensemble=False),
        lambda one: StackingClassifier([("one", one)], LogisticRegression(), cv=2),
        lambda one: StackingClassifier([("one", one)], LogisticRegression(), cv=2, n_jobs=2),  # fitted elsewhere
    ]:
        X, y, _ = people()
        fitted = wrap(model(LIGHTGBM)).fit(X, y)
        assert told_to_the_silent(fitted) > 0.55
        assert verdict(fitted) == "violated"


@every_engine
def test_a_fitted_model_that_is_calibrated_later(kit: EngineKit) -> None:
    X, y, _ = people()
    trained = model(kit).fit(X, y)
    assert told_to_the_silent(trained) == pytest.approx(0.5, abs=0.03)
    later, y_later, _ = people(seed=2)
    lost = CalibratedClassifierCV(FrozenEstimator(trained)).fit(later, y_later)
    assert told_to_the_silent(lost) > 0.55
    rows, outcomes, _, _ = puc.augment(later, y_later, optional=["z"], augmentation="exhaustive")  # all weigh the same
    for method in ("sigmoid", "isotonic"):
        calibrated = CalibratedClassifierCV(FrozenEstimator(trained), method=method).fit(rows, outcomes)
        assert told_to_the_silent(calibrated) == pytest.approx(0.5, abs=0.03)
        if kit is LIGHTGBM:
            assert verdict(calibrated) != "violated"


@every_engine
def test_what_learns_nothing_from_predictions(kit: EngineKit) -> None:
    """Votes are averages."""
    X, y, _ = people(1000)
    vote = VotingClassifier([("one", model(kit)), ("two", model(kit))], voting="soft").fit(X, y)
    assert told_to_the_silent(vote) == pytest.approx(0.5, abs=0.05)
    assert puc.metrics.puc_score(vote, X, y) == pytest.approx(puc.metrics.puc_score(model(kit).fit(X, y), X, y))
