"""Quotes, bonus, sharing values and files of pucboost's own estimators, and of pipelines that end in one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_kits import EngineKit, every_engine
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tools import make_table

import pucboost as puc

NAMES = ["a", "b", "c", "d", "e", "f"]
OPTIONAL = ["d", "e", "f"]
TABLE, CLAIM = make_table(400)
X = pd.DataFrame(TABLE, columns=NAMES, index=[f"person {i}" for i in range(400)])
CLASSES = np.array(["low", "middle", "high"])[(CLAIM + (TABLE[:, 0] > 0.5)).astype(int)]


def classifier(kit: EngineKit, **given: Any) -> puc.PUCClassifier:
    return puc.PUCClassifier(engine=kit.name, optional=OPTIONAL, n_estimators=8, n_jobs=1, **given)


@every_engine
def test_estimators_are_asked_like_their_boosters(kit: EngineKit) -> None:
    model = classifier(kit).fit(X, CLAIM)
    booster = model.booster_
    pd.testing.assert_frame_equal(puc.quote(model, X), puc.quote(booster, X))
    pd.testing.assert_frame_equal(puc.sharing_value(model, X), puc.sharing_value(booster, X))
    for sharing in ("as_given", "withheld", "best"):
        told = (puc.predict(one, X, sharing=sharing, favourable="lower") for one in (model, booster))
        np.testing.assert_array_equal(*told)
    assert puc.sharing_effects(model, X, favourable="lower") == puc.sharing_effects(booster, X, favourable="lower")
    assert puc.consent_of(model) == model.consent_


@every_engine
def test_pipelines_are_asked_about_their_own_input(kit: EngineKit) -> None:
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), classifier(kit)).fit(X, CLAIM)
    scaled = pipeline[:-1].transform(X)
    pd.testing.assert_frame_equal(puc.quote(pipeline, X), puc.quote(pipeline[-1].booster_, scaled))
    np.testing.assert_array_equal(puc.predict(pipeline, X), pipeline.predict_proba(X)[:, 1])
    assert puc.consent_of(pipeline) == pipeline[-1].consent_
    search = GridSearchCV(pipeline, {"pucclassifier__num_leaves": [31]}, cv=2).fit(X, CLAIM)
    assert puc.consent_of(search) == pipeline[-1].consent_
    pd.testing.assert_frame_equal(puc.quote(search, X), puc.quote(pipeline, X))
    pd.testing.assert_frame_equal(puc.sharing_value(search, X), puc.sharing_value(pipeline, X))
    imputed = make_pipeline(SimpleImputer().set_output(transform="pandas"), classifier(kit)).fit(X, CLAIM)
    with pytest.raises(ValueError, match="a step before it fills in what people withhold"):
        puc.quote(imputed, X)


@every_engine
def test_results_have_the_index_of_the_table(kit: EngineKit) -> None:
    """Else a join would attach values to the wrong people."""
    model = classifier(kit).fit(X, CLAIM)
    shuffled = X.sample(frac=1, random_state=1)
    for table in (
        puc.sharing_value(model, shuffled),
        puc.quote(model, shuffled),
        puc.predict(model, shuffled, return_subset=True)[1],
    ):
        assert table.index.equals(shuffled.index)
    joined = X[["a"]].join(puc.sharing_value(model, shuffled))
    np.testing.assert_allclose(joined["as_given"], puc.predict(model, X))
    assert puc.sharing_value(model, X.to_numpy()).index.equals(pd.RangeIndex(len(X)))


@every_engine
def test_one_class_of_several(kit: EngineKit) -> None:
    model = classifier(kit).fit(X, CLASSES)
    with pytest.raises(ValueError, match="Choose a class with target_class"):
        puc.predict(model, X, sharing="best", favourable="lower")
    quotes = puc.quote(model.booster_, X)
    for number, label in enumerate(model.classes_):
        of_class = quotes.xs(number, axis=1, level="class")
        best = puc.predict(model, X, sharing="best", favourable="higher", target_class=label)
        np.testing.assert_array_equal(best, of_class.max(axis=1))
        by_number = puc.predict(model.booster_, X, sharing="best", favourable="higher", target_class=number)
        np.testing.assert_array_equal(best, by_number)
        values = puc.sharing_value(model, X, target_class=label)
        np.testing.assert_allclose(values[["withheld", *OPTIONAL]].sum(axis=1), values["as_given"], atol=1e-6)
        np.testing.assert_allclose(values["as_given"], puc.predict(model, X)[:, number])
        assert puc.sharing_effects(model, X, target_class=label, favourable="lower").share_worse_with_bonus == 0
    with pytest.raises(ValueError, match=r"target_class is 'huge', but the classes of the model are \['high', 'low'"):
        puc.sharing_value(model, X, target_class="huge")
    with pytest.raises(ValueError, match="target_class is 3, but its classes are 0 … 2"):
        puc.sharing_value(model.booster_, X, target_class=3)
