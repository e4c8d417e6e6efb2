"""Documented calls as a user writes them: type checkers read this file, and a test runs it.

``assert_type`` states what a checker must see. Lines with ``type: ignore`` must be errors: both checkers report
any that is not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from xgboost.callback import EarlyStopping

import pucboost as puc
from pucboost.typing import Sharing, TrainedModel


def people(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """300 people, of whom many withhold their steps or their glucose."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["age", "steps", "glucose"])
    y = (X.sum(axis=1).to_numpy() > 0).astype(float)
    for column in ("steps", "glucose"):
        X.loc[rng.random(300) < 0.4, column] = np.nan
    return X, y


def train_lightgbm(X: pd.DataFrame, y: np.ndarray[Any, Any]) -> None:
    """The booster is an ``lgb.Booster``, and more."""
    booster = puc.train(
        {"objective": "binary", "optional": ["steps", "glucose"], "verbosity": -1}, lgb.Dataset(X, y), 5
    )
    assert_type(booster, TrainedModel)
    assert_type(booster.predict(X), np.ndarray[Any, Any])
    print(booster.predict(X, raw_score=True).mean(), booster.num_trees())
    assert_type(booster.predict(X, pred_contrib=True), Any)  # may be sparse
    print(booster.consent.group_names, booster.puc_summary.augmentation, booster.consent is None)
    plain: lgb.Booster = booster
    print(plain.feature_name())
    puc.train(
        {"engine": "native", "optional": {"app": ["steps"], "blood": [2]}, "num_leaves": 7, "verbosity": -1},
        puc.Dataset(X, y, weight=np.ones(len(y)), feature_name="auto", free_raw_data=False),
        5,
        valid_sets=[puc.Dataset(X, y, reference=None), (X, y)],
        valid_names=["one", "two"],
        callbacks=[lgb.early_stopping(2, verbose=False)],
        feval=lambda preds, data: ("mean", float(preds.mean()), False),
    )


def train_xgboost(X: pd.DataFrame, y: np.ndarray[Any, Any]) -> xgb.Booster:
    """The booster is an ``xgb.Booster``, and more."""
    booster = puc.train(
        {"engine": "xgboost", "objective": "binary:logistic", "optional": ["steps"], "max_depth": 3},
        (X, y),
        5,
        valid_sets=(X, y),
        callbacks=[EarlyStopping(rounds=3)],
    )
    print(booster.predict(xgb.DMatrix(X)).mean(), booster.num_boosted_rounds(), booster.consent.group_names)
    assert_type(booster.evals_result, dict[str, dict[str, list[float]]])
    return booster


def train_anchored(X: pd.DataFrame, y: np.ndarray[Any, Any]) -> puc.typing.AnchoredModel:
    """An anchored model is neither."""
    params = {"objective": "binary", "optional": ["steps"], "anchor": "base", "verbosity": -1}
    model = puc.train(params, (X, y), 5)
    assert_type(model.predict(X), np.ndarray[Any, Any])
    return model


def cross_validate(X: pd.DataFrame, y: np.ndarray[Any, Any]) -> None:
    """``lgb.cv``'s result."""
    result = puc.cv({"objective": "binary", "optional": ["steps"], "verbosity": -1}, (X, y), 3, nfold=3)
    assert_type(result, dict[str, Any])
    print(result["valid binary_logloss-mean"][-1])


def ask_the_model(X: pd.DataFrame, y: np.ndarray[Any, Any], sharing: Sharing = "best") -> None:
    """Predictions are arrays; tables of results are of the kind of X, which checkers take from the annotation."""
    booster = puc.train({"optional": ["steps", "glucose"], "verbosity": -1}, (X, y), 5)
    assert_type(puc.predict(booster, X), np.ndarray[Any, Any])
    assert_type(puc.predict(booster, X, sharing=sharing, favourable="lower"), np.ndarray[Any, Any])
    prediction, used = puc.predict(booster, X, sharing="best", favourable="lower", search="greedy", return_subset=True)
    assert_type(used, Any)
    print(prediction.mean(), used["steps"].mean())
    quotes: pd.DataFrame = puc.quote(booster, X, subsets=["nothing", "all"])
    values: pd.DataFrame = puc.sharing_value(booster, X)
    print(quotes.shape, values.shape)
    print(puc.sharing_effects(booster, X, favourable="higher").share_worse_than_best)
    X_augmented, y_augmented, weight, source_row = puc.augment(X, y, optional=["steps"], augmentation="exhaustive")
    print(X_augmented.shape, y_augmented.mean(), weight.sum(), source_row.max())


def keep_the_model(X: pd.DataFrame, y: np.ndarray[Any, Any], path: Path) -> None:
    """A file does not say statically which engine wrote it."""
    booster = puc.train({"optional": ["steps"], "verbosity": -1}, (X, y), 5)
    puc.save_model(booster, path)
    loaded = puc.load_model(path)
    assert_type(loaded, TrainedModel)
    print(loaded.predict(X).mean(), loaded.consent.group_names)
    assert_type(puc.consent_of(path), puc.Consent | None)


def audit_the_model(X: pd.DataFrame, y: np.ndarray[Any, Any]) -> None:
    """The audit, and the same as a test."""
    booster = puc.train({"objective": "binary", "optional": ["steps"], "verbosity": -1}, (X, y), 5)
    X_test, y_test = people(1)
    report = puc.audit(booster, X_test, y_test, margin=0.5, favourable="lower", folds=3, level=0.9)
    assert_type(report, puc.typing.AuditReport)
    assert_type(report.passed, bool)
    assert_type(report.penalty, pd.DataFrame)
    print(report.verdict, report.to_html()[:9], report.to_json()[:1])
    puc.testing.assert_consent(booster, X_test, y_test, margin=0.5, fail_on="violated", folds=3)


def estimators_and_metrics(X: pd.DataFrame, y: np.ndarray[Any, Any]) -> None:
    """scikit-learn's way."""
    model = puc.PUCClassifier(optional=["steps"], engine="lightgbm", n_estimators=5, min_child_samples=5).fit(X, y)
    assert_type(model, puc.PUCClassifier)
    assert_type(model.predict_proba(X), np.ndarray[Any, Any])
    quotes: pd.DataFrame = model.quote(X)
    print(quotes.shape)
    print(model.classes_.tolist(), model.consent_.group_names, model.booster_.consent, model.best_iteration_)
    assert_type(model.audit(X, y, margin=0.5, folds=3, train_data=(X, y)), puc.typing.AuditReport)
    regressor = puc.PUCRegressor(optional={"app": ["steps"]}, augmentation="fixed", n_estimators=5).fit(X, y)
    assert_type(regressor.predict(X), np.ndarray[Any, Any])
    assert_type(puc.metrics.puc_score(model, X, y, metric="neg_log_loss"), float)
    print(puc.metrics.puc_scorer("neg_log_loss")(model, X, y), puc.metrics.mask_frequencies(X, ["steps"]))


def simulate() -> None:
    """Distributions with known truth."""
    family = puc.simulate.LogisticFamily.teaser()
    sample = family.sample(100, seed=0)
    print(family.puc_prediction(sample.X).mean(), puc.objectives.objective_for({"objective": "poisson"}))


def what_checkers_refuse(booster: TrainedModel, X: pd.DataFrame, y: np.ndarray[Any, Any]) -> None:
    """Never run."""
    puc.predict(booster, X, sharing="bets")  # type: ignore[call-overload]
    puc.sharing_effects(booster, X, favourable="smaller")  # type: ignore[arg-type]
    puc.augment(X, y, optional=["steps"], augmentation="balance")  # type: ignore[arg-type]
    puc.PUCClassifier(engine="forest")  # type: ignore[arg-type]
    puc.Dataset(X, y, optionals=["steps"])  # type: ignore[arg-type]
    puc.Dataset(X, y, free_raw_data="no")  # type: ignore[arg-type]
    puc.train({"engine": "lightgbm"}, X)  # type: ignore[arg-type]
    puc.train({"optional": ["steps"]}, (X, y)).no_such_method()  # type: ignore[attr-defined]
    puc.audit(booster, X, y, margin=0.1, favorable="lower")  # type: ignore[call-arg]
    puc.testing.assert_consent(booster, X, y, margin=0.1, favorable="lower")  # type: ignore[call-arg]


def main(folder: Path) -> None:
    """Run all documented calls."""
    X, y = people()
    train_lightgbm(X, y)
    train_xgboost(X, y)
    train_anchored(X, y)
    cross_validate(X, y)
    ask_the_model(X, y)
    keep_the_model(X, y, folder / "model.txt")
    audit_the_model(X, y)
    estimators_and_metrics(X, y)
    simulate()
