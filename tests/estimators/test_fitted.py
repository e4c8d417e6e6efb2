"""What can be done with a fitted estimator: copy, keep, serve, explain, quote, audit."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from estimator_tools import (
    ENGINES,
    classifier,
    named_table,
    regressor,
    rich_table,
    uses_categories,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from tools import make_table

import pucboost as puc
from pucboost.simulate import LogisticFamily


def test_unfitted() -> None:
    X, y = make_table(100)
    for method in ("predict", "predict_proba", "decision_function", "quote"):
        with pytest.raises(NotFittedError, match="This PUCClassifier instance is not fitted yet"):
            getattr(classifier(), method)(X)
    with pytest.raises(NotFittedError):
        classifier().audit(X, y, margin=0.1)
    assert not hasattr(classifier(), "feature_importances_")


def test_a_fit_that_fails_leaves_nothing_fitted() -> None:
    X, y = make_table(100)
    model = classifier().fit(X, y)
    with pytest.raises(ValueError, match="continuous"):
        model.fit(X[:, :5], X[:, 0])
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_keep_everything(engine: str, tmp_path: Path) -> None:
    X, y = rich_table()
    for optional in (None, {"app": ["steps", "pulse"], "contract": ["plan"]}):
        model = classifier(engine=engine, optional=optional, reg_lambda=1.0).fit(X, y, eval_set=(X, y))
        assert uses_categories(model)
        joblib.dump(model, tmp_path / "model.joblib")
        for back in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib"), copy.deepcopy(model)):
            assert np.array_equal(back.predict_proba(X), model.predict_proba(X))
            assert back.get_params() == model.get_params()
            assert back.consent_ == model.consent_
            assert back.evals_result_ == model.evals_result_
            assert back.best_iteration_ == model.best_iteration_
            assert np.array_equal(back.feature_importances_, model.feature_importances_)
            if optional is not None:
                pd.testing.assert_frame_equal(back.quote(X), model.quote(X))
                assert back.booster_.puc_summary == model.booster_.puc_summary


@pytest.mark.parametrize("engine", ENGINES)
def test_skops_keeps_everything(engine: str) -> None:
    sio = pytest.importorskip("skops.io")
    X, y = rich_table()
    model = classifier(engine=engine, optional=["steps", "plan"], reg_lambda=1.0).fit(X, y)
    data = sio.dumps(model)
    kinds = sio.get_untrusted_types(data=data)
    assert all(kind.startswith(("pucboost.", "lightgbm.", "xgboost.", "collections.")) for kind in kinds)
    back = sio.loads(data, trusted=kinds)
    assert np.array_equal(back.predict_proba(X), model.predict_proba(X))
    pd.testing.assert_frame_equal(back.quote(X), model.quote(X))


@pytest.mark.parametrize("engine", ENGINES)
def test_many_threads_predict_at_once(engine: str) -> None:
    X, y = rich_table()
    model = classifier(engine=engine, optional=["steps", "plan"]).fit(X, y)
    expected, quotes = model.predict_proba(X), model.quote(X)
    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(model.predict_proba, [X] * 24):
            assert np.array_equal(result, expected)
        for result in pool.map(model.quote, [X] * 8):
            pd.testing.assert_frame_equal(result, quotes)


@pytest.mark.parametrize("engine", ENGINES)
def test_feature_importances(engine: str) -> None:
    X, _ = named_table()
    y = 5 * X["age"] + 0.01 * X["bmi"]
    model = regressor(engine=engine, optional=["glucose"]).fit(X, y)
    assert model.feature_importances_.shape == (6,)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_.argmax() == 0
    selector = SelectFromModel(model, threshold=0.5).set_output(transform="pandas").fit(X, y)
    assert selector.transform(X).columns.tolist() == ["age"]
    constant = regressor(engine=engine, optional=["glucose"]).fit(X, np.ones(300))
    assert constant.feature_importances_.tolist() == [0] * 6


def small_audit(**options: Any) -> dict[str, Any]:
    quick = {"nuisance": {"num_leaves": 4, "learning_rate": 0.3}, "num_threads": 1, "folds": 3}
    return {"margin": 0.05, **quick, **options}


def test_audit_of_a_classifier() -> None:
    family = LogisticFamily.teaser()
    train, test = family.sample(1000, seed=0), family.sample(1000, seed=1)
    words = {True: "claim", False: "zero"}
    y, u = (np.array([words[bool(one)] for one in sample.y]) for sample in (train, test))
    model = classifier(optional=family.optional, n_estimators=30).fit(train.X, y)
    # classes_[1] is "zero": the booster predicts that nothing is claimed.
    report = model.audit(test.X, u, **small_audit())
    direct = puc.audit(model.booster_, test.X, 1 - test.y, **small_audit())
    pd.testing.assert_frame_equal(report.penalty, direct.penalty)
    assert report.provenance.model_kind == "lightgbm Booster"
    same = model.audit(test.X, u, target_class="zero", **small_audit())
    other = model.audit(test.X, u, target_class="claim", **small_audit(train_data=(train.X, y)))
    assert np.allclose(same.penalty["penalty"], report.penalty["penalty"], equal_nan=True)
    assert np.allclose(other.penalty["penalty"], -report.penalty["penalty"], atol=0.02, equal_nan=True)
    with pytest.raises(ValueError, match="y contains previously unseen labels"):
        model.audit(test.X, test.y, **small_audit())


def test_audit_of_several_classes() -> None:
    family = LogisticFamily.teaser()
    test = family.sample(1000, seed=1)
    y = np.array(["a", "b", "c"])[(test.y + (test.X[:, 0] > 1)).astype(int)]
    model = classifier(optional=family.optional).fit(test.X, y)
    with pytest.raises(ValueError, match=r"has 3 classes\. Say which .* target_class=…, one of 'a', 'b', 'c'"):
        model.audit(test.X, y, **small_audit())
    report = model.audit(test.X, y, target_class="b", **small_audit())
    direct = puc.audit(model.booster_, test.X, (y == "b") * 1 + (y == "c") * 2, target_class=1, **small_audit())
    pd.testing.assert_frame_equal(report.penalty, direct.penalty)


def test_audit_of_plain_models_and_regressors() -> None:
    family = LogisticFamily.teaser()
    test = family.sample(1000, seed=1)
    plain = regressor(optional=None, objective="quantile", alpha=0.7).fit(test.X, test.y + test.X[:, 0])
    with pytest.raises(ValueError, match="it is not known what is optional"):
        plain.audit(test.X, test.y, **small_audit())
    report = plain.audit(test.X, test.y + test.X[:, 0], optional=family.optional, **small_audit())
    assert report.loss == "pinball loss at 0.7"
    protected = regressor(optional=family.optional).fit(test.X, test.y)
    assert protected.audit(test.X, test.y, **small_audit()).loss == "squared error"
    with pytest.raises(ValueError, match="target_class='a': a regressor has no classes"):
        protected.audit(test.X, test.y, target_class="a", **small_audit())
