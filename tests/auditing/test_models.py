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
from audit_tools import PAPER, TEASER, audit, numbers
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tools import QUIET

import pucboost as puc
from pucboost._auditing.nuisance import EVENT, CrossFitter
from pucboost._auditing.people import Loss, read_audit_people
from pucboost._auditing.settings import FittingOptions
from pucboost._models.files import model_hash

# Models of every kind -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any, Any]:
    train, test = PAPER.sample(3000, 0), PAPER.sample(1200, 1)
    return train.X, train.y, test.X, test.y


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_booster_and_callable_agree(data: Any, engine: str) -> None:
    X, y, X_test, y_test = data
    params = {"engine": engine, "optional": PAPER.optional, "objective": "binary", **QUIET}
    booster = puc.train(params, puc.Dataset(X, y), 10)
    options = {"margin": 0.02, "num_threads": 1}
    known = puc.audit(booster, X_test, y_test, **options)
    called = puc.audit(lambda table: puc.predict(booster, table), X_test, y_test, optional=PAPER.optional, **options)
    for (people, one), (same, other) in zip(numbers(known), numbers(called), strict=True):
        assert people == same
        assert one == pytest.approx(other, abs=1e-7)
    assert known.sharing_effect.mean == pytest.approx(called.sharing_effect.mean, abs=1e-7)
    assert known.provenance.model_hash is not None


def test_plain_boosters_need_optional(data: Any) -> None:
    X, y, X_test, y_test = data
    for booster in (
        lgb.train({"objective": "binary", **QUIET}, lgb.Dataset(X, y), 5),
        xgb.train({"objective": "binary:logistic", "nthread": 1}, xgb.DMatrix(X, y), 5),
    ):
        with pytest.raises(ValueError, match=r"no consent schema.*optional=\[columns\]"):
            puc.audit(booster, X_test, y_test, margin=0.02)
        report = puc.audit(booster, X_test, y_test, margin=0.02, optional=PAPER.optional, num_threads=1)
        assert report.loss == "log loss"


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "anchored"])
def test_the_hash_of_a_model_covers_its_consent(kind: str) -> None:
    X, y = np.random.default_rng(0).normal(size=(300, 3)), np.arange(300) % 2
    engine = {"engine": kind} if kind != "anchored" else {"anchor": "base"}
    model: Any = puc.train({"optional": {"p": [1], "q": [2]}, "objective": "binary", **engine, **QUIET}, (X, y), 3)
    assert model_hash(copy.deepcopy(model)) == model_hash(model)
    for groups in ({"p": (1,)}, {"q": (2,), "p": (1,)}):  # a group less, and another order
        consent = puc.Consent(groups, model.consent.feature_names)
        other: Any = replace(model, consent=consent) if kind == "anchored" else copy.deepcopy(model)
        if kind != "anchored":
            other.consent = consent
        assert model_hash(other) != model_hash(model)


def test_the_hash_of_an_estimator_is_that_of_its_trees() -> None:
    X, y = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 2
    model = puc.PUCClassifier(optional=[2], n_estimators=3, n_jobs=1).fit(X, y)
    pipeline = make_pipeline(StandardScaler(), model)
    assert model_hash(model) == model_hash(pickle.loads(pickle.dumps(model))) == model_hash(model.booster_)
    assert model_hash(pipeline) not in (model_hash(model), model_hash(make_pipeline(model)))
    assert model_hash(lambda table: table) is None


@pytest.mark.parametrize("container", ["numpy", "pandas", "polars"])
def test_estimators_get_their_own_container(data: Any, container: str) -> None:
    X, y, X_test, y_test = data
    wrap = {
        "numpy": np.asarray,
        "pandas": lambda t: pd.DataFrame(t, columns=PAPER.feature_names),
        "polars": lambda t: pl.DataFrame(t, schema=PAPER.feature_names, orient="row").fill_nan(None),
    }[container]
    model = HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(wrap(X), y)
    table = wrap(X_test)
    before = table.clone() if container == "polars" else table.copy()
    report = puc.audit(model, table, y_test, optional=PAPER.optional, margin=0.02, num_threads=1)
    direct = puc.audit(
        lambda t: model.predict_proba(wrap(t))[:, 1],
        X_test,
        y_test,
        optional=PAPER.optional,
        margin=0.02,
        num_threads=1,
    )
    assert numbers(report) == numbers(direct)
    assert report.sharing_effect == direct.sharing_effect
    if container == "polars":
        assert table.equals(before)
    else:
        np.testing.assert_array_equal(np.asarray(table), np.asarray(before))


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

    report = puc.audit(model, X, y, optional=["score"], margin=0.1, num_threads=1)
    assert report.verdict in ("certified", "inconclusive")
    assert all(table["region"].tolist()[0] in ("north", "south") for table in seen)
    assert any(table["score"].isna().all() for table in seen)


def test_one_class_of_several() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    y = rng.integers(0, 3, 900)
    X[rng.random(900) < 0.4, 1] = np.nan
    model = lambda t: np.tile([0.3, 0.3, 0.4], (len(t), 1))  # noqa: E731
    with pytest.raises(ValueError, match=r"returns 3 values per row.*target_class"):
        puc.audit(model, X, y, optional=[1], margin=0.1)
    report = puc.audit(model, X, y, optional=[1], margin=0.1, target_class=2, num_threads=1)
    assert report.mean_prediction == pytest.approx(0.4)
    assert report.balance[0].actual == pytest.approx((y == 2).mean())
    with pytest.raises(ValueError, match="target_class is 5"):
        puc.audit(model, X, y, optional=[1], margin=0.1, target_class=5)


def test_scikit_learn_nuisance() -> None:
    from sklearn.linear_model import LogisticRegression

    people = TEASER.sample(3000, 0)
    report = audit(TEASER.puc_prediction, people, nuisance=(LogisticRegression(), LogisticRegression()))
    lightgbm = audit(TEASER.puc_prediction, people)
    assert "LogisticRegression" in report.provenance.nuisance
    one, other = (next(p for p in r.penalties if p.name == "nothing").estimate for r in (report, lightgbm))
    assert abs(one.value - other.value) < 2 * other.standard_error
    assert one.value != other.value


def test_categories_of_a_booster_are_kept() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"kind": pd.Categorical(rng.choice(["a", "b", "c"], 800)), "z": rng.normal(size=800)})
    frame.loc[rng.random(800) < 0.4, "z"] = np.nan
    y = (frame["kind"] == "b").to_numpy(float)
    flip = rng.random(800) < 0.2
    y[flip] = 1 - y[flip]
    booster = puc.train({"objective": "binary", "optional": ["z"], **QUIET}, lgb.Dataset(frame, y), 10)
    other = frame.assign(kind=frame["kind"].cat.reorder_categories(["c", "b", "a"]))
    one, two = (puc.audit(booster, t, y, margin=0.1, num_threads=1) for t in (frame, other))
    assert numbers(one) == numbers(two)


def test_booster_with_another_table(data: Any) -> None:
    X, y, X_test, y_test = data
    booster = puc.train({"objective": "binary", "optional": PAPER.optional, **QUIET}, lgb.Dataset(X, y), 3)
    with pytest.raises(ValueError, match="4 columns"):
        puc.audit(booster, X_test[:, :4], y_test, margin=0.02)
    with pytest.raises(ValueError, match="trained under"):
        puc.audit(booster, X_test, y_test, margin=0.02, optional=[2])
    assert puc.audit(booster, X_test, y_test, margin=0.02, optional=PAPER.optional, num_threads=1) is not None


@pytest.mark.parametrize("classes", [[1, 2], ["no", "yes"]])
def test_classes_go_by_their_labels(classes: list[Any]) -> None:
    people = TEASER.sample(800, 0)
    y = np.asarray(classes)[people.y.astype(int)]
    model = HistGradientBoostingClassifier(max_iter=10, random_state=0).fit(people.X, y)
    usual = puc.audit(model, people.X, y, optional=[2], margin=0.05, num_threads=1)
    named = puc.audit(model, people.X, y, optional=[2], margin=0.05, num_threads=1, target_class=classes[1])
    other = puc.audit(model, people.X, y, optional=[2], margin=0.05, num_threads=1, target_class=classes[0])
    assert usual.balance[0].actual == pytest.approx(people.y.mean())
    assert numbers(usual) == numbers(named)
    assert other.balance[0].actual == pytest.approx(1 - people.y.mean())
    assert other.mean_prediction == pytest.approx(1 - usual.mean_prediction)
    with pytest.raises(ValueError, match="classes of the model are"):
        puc.audit(model, people.X, y, optional=[2], margin=0.05, target_class="maybe")
    with pytest.raises(ValueError, match="none of the classes"):
        puc.audit(model, people.X, np.full(800, 7), optional=[2], margin=0.05)


def test_two_values_per_row_need_a_choice() -> None:
    people = TEASER.sample(300, 0)
    with pytest.raises(ValueError, match="returns 2 values per row"):
        audit(lambda X: np.full((len(X), 2), 0.5), people)
    with pytest.raises(ValueError, match="returns one value per row"):
        audit(TEASER.puc_prediction, people, target_class=0)


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
    puc.audit(extends, frame, people.y, optional=["z"], margin=0.1, num_threads=1)
    assert list(frame.columns) == ["a", "b", "z"]


def test_names_lightgbm_would_not_take() -> None:
    people = TEASER.sample(500, 0)
    frame = pd.DataFrame(people.X, columns=["a[0]", 'b,"c"', "z:1"])
    report = puc.audit(lambda t: np.full(len(t), 0.5), frame, people.y, optional=["z:1"], margin=0.1, num_threads=1)
    assert numbers(report) == numbers(audit(lambda t: np.full(len(t), 0.5), people, margin=0.1))


def test_zeros_that_mean_missing() -> None:
    people = TEASER.sample(600, 0)
    X = np.nan_to_num(people.X, nan=0.0)
    params = {"objective": "binary", "optional": [2], "zero_as_missing": True, **QUIET}
    booster = puc.train(params, lgb.Dataset(X, people.y), 5)
    report = puc.audit(booster, X, people.y, margin=0.1, num_threads=1)
    assert {p.name: p.people for p in report.penalties}["nothing"] == int((~people.available[:, 0]).sum())


# What is known of training ------------------------------------------------------------------------------------------


def test_reference_models_come_from_the_training_data(data: Any) -> None:
    X, y, X_test, y_test = data
    booster = puc.train({"objective": "binary", "optional": PAPER.optional, **QUIET}, lgb.Dataset(X, y), 5)
    fresh = puc.audit(booster, X_test, y_test, margin=0.02, num_threads=1)
    given = puc.audit(booster, X_test, y_test, margin=0.02, num_threads=1, train_data=(X, y))
    assert given.warnings == fresh.warnings
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


def test_sets_that_training_never_saw(data: Any) -> None:
    X, y, X_test, y_test = data
    some = ~np.isnan(X[:, 2])
    booster = puc.train({"objective": "binary", "optional": PAPER.optional, **QUIET}, lgb.Dataset(X[some], y[some]), 5)
    report = puc.audit(booster, X_test, y_test, margin=0.02, num_threads=1)
    assert report.support.unseen_people == int(np.isnan(X_test[:, 2]).sum())
    assert "nothing" in report.support.unseen_in_training
    assert any("fewer than 5 people in training shared exactly so" in warning for warning in report.warnings)


def test_models_of_reference_are_not_undersmoothed() -> None:
    """Grown beyond what predicts best they would make every audited model look good."""
    people = TEASER.sample(3000, 0)
    read, _ = read_audit_people(people.X, people.y, optional=[2], num_threads=1)
    fitter = CrossFitter(read, FittingOptions(num_threads=1))
    best = fitter.reference_view(np.zeros_like(read.shared)).cross_fit(read.y, EVENT)
    rough = fitter.view(0).cross_fit(read.y, EVENT)
    truth = TEASER.base_prediction(people.X)
    assert ((best - truth) ** 2).mean() < 0.8 * ((rough - truth) ** 2).mean()
    loss = Loss("binary")
    assert loss.pointwise(best, people.y).mean() < loss.pointwise(rough, people.y).mean()
