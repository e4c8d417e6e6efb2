"""Parameters of the estimator and of the engine: get, set, clone, search, and errors by fit."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import xgboost as xgb
from estimator_tools import (
    ENGINES,
    OPTIONAL,
    classifier,
    named_table,
)
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from tools import make_table

import pucboost as puc
from pucboost._engines import ENGINE_NAMES


def test_parameters_of_the_engine_are_parameters() -> None:
    model = classifier(min_child_samples=7, reg_lambda=0.5)
    assert model.get_params()["min_child_samples"] == 7
    assert model.set_params(reg_lambda=2.0, max_bin=63, num_leaves=5) is model
    assert model.get_params()["min_child_samples"] == 7
    copied = clone(model)
    assert copied is not model
    assert copied.get_params() == model.get_params()
    assert copied.get_params()["max_bin"] == 63
    assert copied.get_params()["num_leaves"] == copied.num_leaves == 5
    assert "reg_lambda=2.0" in repr(model)
    assert "reg_lambda" in model._repr_html_()
    with pytest.raises(ValueError, match="Invalid parameter 'nested' for estimator PUCClassifier"):
        model.set_params(nested__x=1)


def test_clone_keeps_groups_and_does_not_share_engine_parameters() -> None:
    model = classifier(optional={"app": ["steps", "pulse"], "blood": ["glucose"]}, max_bin=63)
    copied = clone(model).set_params(max_bin=15)
    assert model.get_params()["max_bin"] == 63
    assert copied.optional == model.optional


@pytest.mark.parametrize("engine", ENGINES)
def test_grid_search_over_both_kinds_of_parameters(engine: str) -> None:
    X, y = make_table(300)
    grid = {"num_leaves": [3, 7], "reg_lambda": [0.1, 1e6], "augmentation": ["balanced", "exhaustive"]}
    search = GridSearchCV(classifier(engine=engine), grid, cv=2, scoring="neg_log_loss").fit(X, y)
    assert search.best_params_["reg_lambda"] == 0.1
    assert len(set(np.round(search.cv_results_["mean_test_score"], 12))) >= 3
    assert search.best_estimator_.get_params()["reg_lambda"] == 0.1
    assert search.predict_proba(X).shape == (300, 2)


def test_fit_changes_no_parameter() -> None:
    X, y = named_table()
    optional = {"app": ["steps", "pulse"]}
    model = classifier(optional=optional, early_stopping_rounds=2, max_bin=63)
    before = copy.deepcopy(model.get_params())
    model.fit(X, y, eval_set=(X, y), early_stopping_rounds=3)
    assert model.get_params() == before
    assert model.optional is optional


def test_wrong_parameters_are_reported_by_fit() -> None:
    for params, message in [
        ({"optionals": [3]}, r"Unknown parameter 'optionals': .* Did you mean 'optional'\?"),
        ({"eta": 0.3}, "PUCClassifier calls 'eta' 'learning_rate'; use that name."),
        ({"num_iterations": 3}, "PUCClassifier calls 'num_iterations' 'n_estimators'"),
        ({"seed": 3}, "PUCClassifier calls 'seed' 'random_state'"),
        ({"engine": "xgboost", "max_leaves": 3}, "PUCClassifier calls 'max_leaves' 'num_leaves'"),
        ({"num_class": 3}, "PUCClassifier takes no 'num_class': the classes are those of y"),
        ({"engine": "forest"}, f"engine must be one of {', '.join(map(repr, ENGINE_NAMES))}; got 'forest'"),
        ({"engine": "xgboost", "min_child_samples": 30}, "min_child_samples=30 has no counterpart in XGBoost"),
        ({"augmentation": "all"}, "augmentation must be one of"),
        ({"n_estimators": 0}, "n_estimators must be a whole number of at least 1, got 0"),
        ({"n_estimators": 2.5}, "n_estimators must be a whole number of at least 1, got 2.5"),
        ({"num_leaves": 1}, "num_leaves must be a whole number of at least 2, got 1"),
        ({"learning_rate": -1}, "learning_rate must be a positive number, got -1"),
        ({"early_stopping_rounds": 3}, "early_stopping_rounds needs eval_set"),
        ({"objective": "regression"}, "objective='regression' does not give class prob.* PUCClassifier takes 'binary'"),
        ({"objective": len}, "does not give class probabilities"),
        ({"random_state": "x"}, "'x' cannot be used to seed a numpy.random.RandomState instance"),
    ]:
        X, y = make_table(100)
        model = classifier(**params)
        with pytest.raises(ValueError, match=message):
            model.fit(X, y)


def test_xgboosts_verbosity_is_left_alone() -> None:
    """Also where XGBoost is asked which parameters it knows."""
    X, y = make_table(100)
    with xgb.config_context(verbosity=0):
        with pytest.warns(UserWarning, match="Unknown parameter 'reg_lamda': neither pucboost nor XGBoost knows it"):
            classifier(engine="xgboost", reg_lamda=1.0).fit(X, y)
        assert xgb.get_config()["verbosity"] == 0


def test_parameters_can_be_left_to_the_engine() -> None:
    X, y = make_table(200)
    model = classifier(engine="xgboost", num_leaves=None, learning_rate=None, reg_lambda=None).fit(X, y)
    booster = puc.train(
        {"objective": "binary:logistic", "engine": "xgboost", "optional": OPTIONAL, "nthread": 1}, (X, y), 5
    )
    assert np.array_equal(model.predict_proba(X)[:, 1], puc.predict(booster, X))
