"""``class_weight`` of PUCClassifier: as in LGBMClassifier, computed from people."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from estimator_tools import ENGINES, OPTIONAL, classifier
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.class_weight import compute_sample_weight
from tools import make_table

X, Y = make_table(400)
Y = np.where(Y + (X[:, 0] > 0.8) > 1, "claim", "none")  # every fifth or so
V, U = make_table(200, seed=1)
U = np.where(U == 1, "claim", "none")
WEIGHTS: list[Any] = ["balanced", {"claim": 5.0, "none": 0.5}, {"claim": 3.0}]


def test_it_is_the_sample_weight_of_people() -> None:
    for engine in ENGINES:
        for optional in [None, OPTIONAL]:
            for class_weight in WEIGHTS:
                model = classifier(engine=engine, optional=optional)
                plain = model.fit(X, Y).predict_proba(X)
                own = np.linspace(0.5, 2, 400)
                for given, weight in ((None, np.ones(400)), (own, own)):
                    expected = model.fit(X, Y, weight * compute_sample_weight(class_weight, Y)).predict_proba(X)
                    ours = clone(model).set_params(class_weight=class_weight).fit(X, Y, given)
                    assert np.array_equal(ours.predict_proba(X), expected)
                    assert ours.get_params()["class_weight"] == class_weight
                assert not np.allclose(plain, expected)
                assert f"class_weight={class_weight!r}" in repr(ours)


@pytest.mark.filterwarnings("ignore:.*eval_set:Warning")  # newer versions of LightGBM prefer eval_X
def test_as_lightgbm() -> None:
    y, u = (Y == "claim").astype(int), (U == "claim").astype(int)
    small: dict[str, Any] = {"n_estimators": 5, "num_leaves": 7, "n_jobs": 1}
    for class_weight in ("balanced", {0: 0.5, 1: 5.0}, {1: 3.0}):
        theirs = lgb.LGBMClassifier(**small, class_weight=class_weight, random_state=0, verbosity=-1)
        ours = classifier(optional=None, class_weight=class_weight)
        for evals in ({}, {"eval_class_weight": ["balanced"]}):
            theirs.fit(X, y, eval_set=[(V, u)], **evals)
            ours.fit(X, y, eval_set=[(V, u)], **evals)
            assert np.array_equal(ours.predict_proba(X), theirs.predict_proba(X))
            assert ours.evals_result_["valid_0"] == theirs.evals_result_["valid_0"]


def test_validation_people_have_weights_of_their_own() -> None:
    for engine in ENGINES:
        for optional in [None, OPTIONAL]:
            model = classifier(engine=engine, optional=optional, class_weight="balanced")
            weight = np.linspace(1, 2, 200)
            raw = model.fit(X, Y, eval_set=(V, U), eval_sample_weight=weight).evals_result_
            weighted = model.fit(
                X, Y, eval_set=(V, U), eval_sample_weight=weight, eval_class_weight={"claim": 4.0}
            ).evals_result_
            by_hand = weight * np.where(U == "claim", 4.0, 1.0)
            assert weighted == model.fit(X, Y, eval_set=(V, U), eval_sample_weight=by_hand).evals_result_
            assert weighted != raw
            two = model.fit(X, Y, eval_set=[(V, U), (V, U.copy())], eval_class_weight="balanced").evals_result_
            same = model.fit(X, Y, eval_set=[(V, U), (V, U.copy())], eval_class_weight=["balanced"] * 2).evals_result_
            assert two == same


def test_several_classes_and_searches() -> None:
    several = np.digitize(X[:, 0] + X[:, 1], [-1.5, 1.5])
    balanced = classifier(class_weight="balanced").fit(X, several).predict_proba(X)
    plain = classifier().fit(X, several).predict_proba(X)
    assert balanced[:, 0].mean() > 1.5 * plain[:, 0].mean()
    grid = {"class_weight": [None, "balanced"]}
    search = GridSearchCV(classifier(), grid, cv=2, scoring="neg_log_loss").fit(X, several)
    assert search.best_params_ == {"class_weight": None}  # log loss rewards the true frequencies


def test_people_without_weight_do_not_count_as_members_of_a_class() -> None:
    weight = np.where(np.arange(400) < 300, 1.0, 0.0)
    model = classifier(class_weight="balanced")
    expected = model.fit(X[:300], Y[:300]).predict_proba(X)
    assert np.array_equal(model.fit(X, Y, weight).predict_proba(X), expected)


def test_bad_class_weights() -> None:
    for class_weight, message in (
        ("equal", "class_weight"),
        ({"claim": -1.0, "none": 1.0}, "weights must be finite and not negative"),
        ({"claim": 2.0, "other": 1.0}, "not in class_weight"),
    ):
        with pytest.raises(ValueError, match=message):
            classifier(class_weight=class_weight).fit(X, Y)
    with pytest.raises(ValueError, match="eval_class_weight needs eval_set"):
        classifier().fit(X, Y, eval_class_weight="balanced")
    with pytest.raises(ValueError, match="eval_class_weight has 2 items for 1 validation sets"):
        classifier().fit(X, Y, eval_set=(V, U), eval_class_weight=["balanced", None])
