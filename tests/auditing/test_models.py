"""What can be audited: models of every kind, and what is known of their training."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from audit_tools import NO_FIT, PAPER, QUICK, TEASER, assert_same_case, audit, entry_of, numbers, read, scored_of
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tools import QUIET

import pucboost as puc
from pucboost._auditing.nuisance import EVENT, CrossFitter
from pucboost._auditing.people import Loss, read_audit_people
from pucboost._auditing.settings import FittingOptions
from pucboost._models.files import model_hash

TRAIN, TEST = PAPER.sample(1500, 0), PAPER.sample(800, 1)
PARAMS: dict[str, Any] = {"objective": "binary", "optional": PAPER.optional, **QUIET}

# Models of every kind -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def booster() -> Any:
    return puc.train(PARAMS, puc.Dataset(TRAIN.X, TRAIN.y), 5)


def test_booster_and_callable_agree(booster: Any) -> None:
    other = puc.train({"engine": "xgboost", **PARAMS}, puc.Dataset(TRAIN.X, TRAIN.y), 5)
    for model in (booster, other):
        case = read(model, TEST.X, TEST.y)
        called = read(lambda table, model=model: puc.predict(model, table), TEST.X, TEST.y, optional=PAPER.optional)
        assert_same_case(case, called, tolerance=1e-7)
    known = audit(booster, TEST, PAPER)
    called = audit(lambda table: puc.predict(booster, table), TEST, PAPER)
    for (people, one), (same, other) in zip(numbers(known), numbers(called), strict=True):
        assert people == same
        assert one == pytest.approx(other, abs=1e-7)
    assert known.sharing_effect.mean == pytest.approx(called.sharing_effect.mean, abs=1e-7)
    assert known.provenance.model_hash is not None


def test_plain_boosters_need_optional() -> None:
    for plain in (
        lgb.train({"objective": "binary", **QUIET}, lgb.Dataset(TRAIN.X, TRAIN.y), 5),
        xgb.train({"objective": "binary:logistic", "nthread": 1}, xgb.DMatrix(TRAIN.X, TRAIN.y), 5),
    ):
        with pytest.raises(ValueError, match=r"no consent schema.*optional=\[columns\]"):
            puc.audit(plain, TEST.X, TEST.y, margin=0.02)
        report = puc.audit(plain, TEST.X, TEST.y, margin=0.02, optional=PAPER.optional, **NO_FIT)
        assert report.loss == "log loss"


def test_the_hash_of_a_model_covers_its_consent() -> None:
    X, y = np.random.default_rng(0).normal(size=(300, 3)), np.arange(300) % 2
    for kind in ("lightgbm", "xgboost", "anchored"):
        engine = {"engine": kind} if kind != "anchored" else {"anchor": "base"}
        model: Any = puc.train({"optional": {"p": [1], "q": [2]}, "objective": "binary", **engine, **QUIET}, (X, y), 3)
        assert model_hash(copy.deepcopy(model)) == model_hash(model)
        for groups in ({"p": (1,)}, {"q": (2,), "p": (1,)}):  # a group less, and another order
            consent = puc.Consent(groups, model.consent.feature_names)
            other: Any = replace(model, consent=consent) if kind == "anchored" else copy.deepcopy(model)
            if kind != "anchored":
                other.consent = consent
            assert model_hash(other) != model_hash(model)
    estimator = puc.PUCClassifier(optional=[2], n_estimators=3, n_jobs=1).fit(X, y)
    pipeline = make_pipeline(StandardScaler(), estimator)
    same = pickle.loads(pickle.dumps(estimator))
    assert model_hash(estimator) == model_hash(same) == model_hash(estimator.booster_)
    assert model_hash(pipeline) not in (model_hash(estimator), model_hash(make_pipeline(estimator)))
    assert model_hash(lambda table: table) is None


def test_estimators_get_their_own_container() -> None:
    for wrap in (
        np.asarray,
        lambda t: pd.DataFrame(t, columns=PAPER.feature_names),
        lambda t: pl.DataFrame(t, schema=PAPER.feature_names, orient="row").fill_nan(None),
    ):
        model = HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(wrap(TRAIN.X), TRAIN.y)
        table = wrap(TEST.X)
        before = pickle.dumps(table)
        given = read(model, table, TEST.y, optional=PAPER.optional)
        direct = read(
            lambda t, model=model, wrap=wrap: model.predict_proba(wrap(t))[:, 1],
            TEST.X,
            TEST.y,
            optional=PAPER.optional,
        )
        assert_same_case(given, direct)
        after, was = (np.asarray(one, dtype=float) for one in (table, pickle.loads(before)))
        np.testing.assert_array_equal(after, was)


def test_text_columns_of_a_pipeline_are_read_as_categories() -> None:
    rng = np.random.default_rng(0)
    region = rng.choice(["north", "south"], 600)
    z = np.where(rng.random(600) < 0.5, None, rng.choice(["good", "bad"], 600)).astype(object)
    X = pd.DataFrame({"region": region, "score": z})
    y = (rng.random(600) < np.where(region == "north", 0.3, 0.6)).astype(float)
    seen = []

    def model(table: Any) -> Any:
        seen.append(table)
        return np.where(table["region"] == "north", 0.3, 0.6)

    report = puc.audit(model, X, y, optional=["score"], margin=0.1, **QUICK)
    assert report.verdict in ("certified", "inconclusive")
    assert all(table["region"].tolist()[0] in ("north", "south") for table in seen)
    assert any(table["score"].isna().all() for table in seen)


def test_one_class_of_several() -> None:
    X, y = TEST.X, np.arange(len(TEST.y)) % 3
    model = lambda t: np.tile([0.3, 0.3, 0.4], (len(t), 1))  # noqa: E731
    report = puc.audit(model, X, y, optional=PAPER.optional, margin=0.1, target_class=2, **NO_FIT)
    assert report.mean_prediction == pytest.approx(0.4)
    assert report.balance[0].actual == pytest.approx((y == 2).mean())
    two = lambda t: np.full((len(t), 2), 0.5)  # noqa: E731
    for several, options, message in (
        (model, {}, r"returns 3 values per row.*target_class"),
        (model, {"target_class": 5}, "target_class is 5"),
        (two, {}, "returns 2 values per row"),
        (PAPER.puc_prediction, {"target_class": 0}, "returns one value per row"),
    ):
        with pytest.raises(ValueError, match=message):
            puc.audit(several, X, y, optional=PAPER.optional, margin=0.1, **options)


def test_classes_go_by_their_labels() -> None:
    people = TEASER.sample(800, 0)
    for classes in ([1, 2], ["no", "yes"]):
        y = np.asarray(classes)[people.y.astype(int)]
        model = HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(people.X, y)
        usual, named, other = (
            read(model, people.X, y, optional=[2], target_class=label) for label in (None, classes[1], classes[0])
        )
        assert_same_case(usual, named)
        np.testing.assert_array_equal(usual.people.y, people.y)
        np.testing.assert_array_equal(other.people.y, 1 - people.y)
        np.testing.assert_allclose(other.model.given, 1 - usual.model.given)
        np.testing.assert_array_equal(usual.model.given, model.predict_proba(people.X)[:, 1])
        with pytest.raises(ValueError, match="classes of the model are"):
            puc.audit(model, people.X, y, optional=[2], margin=0.05, target_class="maybe")
        with pytest.raises(ValueError, match="none of the classes"):
            puc.audit(model, people.X, np.full(800, 7), optional=[2], margin=0.05)


def test_scikit_learn_nuisance() -> None:
    people = TEASER.sample(3000, 0)
    report = audit(TEASER.puc_prediction, people, nuisance=(LogisticRegression(), LogisticRegression()))
    _, _, scored = scored_of(TEASER, TEASER.puc_prediction, 3000, 0)
    assert "LogisticRegression" in report.provenance.nuisance
    found = entry_of(report).estimate
    by_lightgbm = scored.score.sum() / scored.size.sum()
    assert 0 < abs(found.value - by_lightgbm) < 2 * found.standard_error


def test_categories_of_a_booster_are_kept() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"kind": pd.Categorical(rng.choice(["a", "b", "c"], 800)), "z": rng.normal(size=800)})
    frame.loc[rng.random(800) < 0.4, "z"] = np.nan
    y = ((frame["kind"] == "b") ^ (rng.random(800) < 0.2)).to_numpy(float)
    model = puc.train({"objective": "binary", "optional": ["z"], **QUIET}, lgb.Dataset(frame, y), 10)
    other = frame.assign(kind=frame["kind"].cat.reorder_categories(["c", "b", "a"]))
    assert_same_case(read(model, frame, y), read(model, other, y))


def test_booster_with_another_table(booster: Any) -> None:
    with pytest.raises(ValueError, match="4 columns"):
        puc.audit(booster, TEST.X[:, :4], TEST.y, margin=0.02)
    with pytest.raises(ValueError, match="trained under"):
        puc.audit(booster, TEST.X, TEST.y, margin=0.02, optional=[2])
    assert_same_case(read(booster, TEST.X, TEST.y, optional=PAPER.optional), read(booster, TEST.X, TEST.y))


def test_models_that_change_their_input_leave_ours_alone() -> None:
    people = TEASER.sample(400, 0)
    before, frame = people.X.copy(), pd.DataFrame(people.X, columns=["a", "b", "z"])

    def fills(X: Any) -> Any:
        X[np.isnan(X)] = 0
        return np.full(len(X), 0.5)

    def extends(table: Any) -> Any:
        table["new"] = 1
        return np.full(len(table), 0.5)

    audit(fills, people)
    np.testing.assert_array_equal(people.X, before)
    puc.audit(extends, frame, people.y, optional=["z"], margin=0.1, **NO_FIT)
    assert list(frame.columns) == ["a", "b", "z"]


def test_names_lightgbm_would_not_take() -> None:
    people = TEASER.sample(500, 0)
    frame = pd.DataFrame(people.X, columns=["a[0]", 'b,"c"', "z:1"])
    report = puc.audit(lambda t: np.full(len(t), 0.5), frame, people.y, optional=["z:1"], margin=0.1, **QUICK)
    assert numbers(report) == numbers(audit(lambda t: np.full(len(t), 0.5), people, margin=0.1))


def test_zeros_that_mean_missing() -> None:
    people = TEASER.sample(600, 0)
    X = np.nan_to_num(people.X, nan=0.0)
    params = {"objective": "binary", "optional": [2], "zero_as_missing": True, **QUIET}
    case = read(puc.train(params, lgb.Dataset(X, people.y), 5), X, people.y)
    np.testing.assert_array_equal(case.people.shared == 0, ~people.available[:, 0])


# What is known of training ------------------------------------------------------------------------------------------


def test_reference_models_come_from_the_training_data() -> None:
    train, test = TEASER.sample(600, 0), TEASER.sample(600, 1)
    fresh = audit(TEASER.puc_prediction, test)
    given = audit(TEASER.puc_prediction, test, train_data=(train.X, train.y))
    assert given.warnings == fresh.warnings[:-1]  # the last says that nobody knows whom the model was trained on
    assert numbers(given) == numbers(fresh)
    assert given.averages[0].base_model != fresh.averages[0].base_model


def test_sets_of_a_few_people_are_not_kept() -> None:
    """Somebody who knows a person with a rare set would learn that this person was trained on, and shared it."""
    X = np.random.default_rng(0).normal(size=(60, 4))
    X[:20, 2:] = np.nan  # 20 share nothing, 24 the first group, 5 the second, 4 both; then 7 more share both
    X[20:44, 3], X[44:49, 2] = np.nan, np.nan
    for engine in ("lightgbm", "xgboost"):
        for compact in (False, True):
            params = {"optional": [2, 3], "engine": engine, "compact": compact, **QUIET}
            few = puc.train(params, puc.Dataset(X[:53], X[:53, 0]), 2)
            assert few.puc_summary.masks_seen == (0, 1, 2)
            assert few.puc_summary.mask_people == (20, 25, 5)  # rounded: 24 share the first group
            assert puc.train(params, puc.Dataset(X, X[:, 0]), 2).puc_summary.masks_seen == (0, 1, 2, 3)


def test_sets_that_training_never_saw() -> None:
    some = ~np.isnan(TRAIN.X[:, 2])
    model = puc.train(PARAMS, lgb.Dataset(TRAIN.X[some], TRAIN.y[some]), 5)
    report = puc.audit(model, TEST.X, TEST.y, margin=0.02, **NO_FIT)
    assert report.support.unseen_people == int(np.isnan(TEST.X[:, 2]).sum())
    assert "nothing" in report.support.unseen_in_training
    assert any("fewer than 5 people in training shared exactly so" in warning for warning in report.warnings)


def test_models_of_reference_are_not_undersmoothed() -> None:
    """Grown beyond what predicts best they would make every audited model look good."""
    people = TEASER.sample(3000, 0)
    read, _ = read_audit_people(people.X, people.y, optional=[2], num_threads=1)
    fitter = CrossFitter(read, FittingOptions(num_threads=1, folds=3))
    best = fitter.reference_view(np.zeros_like(read.shared)).cross_fit(read.y, EVENT)
    rough = fitter.view(0).cross_fit(read.y, EVENT)
    truth = TEASER.base_prediction(people.X)
    assert ((best - truth) ** 2).mean() < 0.8 * ((rough - truth) ** 2).mean()
    loss = Loss("binary")
    assert loss.pointwise(best, people.y).mean() < loss.pointwise(rough, people.y).mean()
