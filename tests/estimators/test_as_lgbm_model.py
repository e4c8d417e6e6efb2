"""What users of ``LGBMClassifier`` and ``LGBMRegressor`` write, on every engine, with and without optional columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from estimator_tools import ENGINES, NAMES, OPTIONAL, SMALL, classifier, named_table, regressor, rich_table
from tools import make_table

import pucboost as puc

X, Y = make_table(400)
V, U = make_table(200, seed=1)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])


@pytest.mark.filterwarnings("ignore:.*eval_set:Warning")  # newer versions of LightGBM prefer eval_X
def test_with_nothing_optional_as_lightgbm(tmp_path: Path) -> None:
    """The same model, metrics and outputs for the same arguments."""
    small: dict[str, Any] = {"n_estimators": 5, "num_leaves": 7, "n_jobs": 1}
    start, of_valid = np.linspace(-1, 1, 400), np.linspace(0, 1, 200)

    def always_one(y_true: Any, y_pred: Any) -> Any:
        return [("one", 1.0, True), ("mean", float(np.mean(y_true - y_pred)), False)]

    def weighted(y_true: Any, y_pred: Any, weight: Any) -> Any:
        return "weighted", float(np.average(y_true - y_pred, weights=weight)), False

    evals: dict[str, Any] = {
        "eval_set": [(V, U), (X, Y)],
        "eval_names": ["people", "own"],
        "eval_sample_weight": [np.linspace(1, 2, 200), None],
        "eval_init_score": [of_valid, start],
        "eval_metric": ["auc", always_one, weighted],
        "init_score": start,
        "sample_weight": np.linspace(1, 3, 400),
    }
    theirs = lgb.LGBMClassifier(**small, random_state=0, verbosity=-1, importance_type="gain").fit(X, Y, **evals)
    ours = classifier(optional=None, importance_type="gain").fit(X, Y, **evals)
    assert list(ours.evals_result_["people"]) == ["auc", "binary_logloss", "one", "mean", "weighted"]
    assert ours.evals_result_ == theirs.evals_result_
    assert ours.best_score_ == theirs.best_score_
    for name in (
        "n_iter_",
        "n_estimators_",
        "objective_",
        "feature_name_",
        "n_features_",
        "n_features_in_",
        "n_classes_",
    ):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert np.array_equal(ours.feature_importances_, theirs.feature_importances_)
    assert np.array_equal(
        ours.set_params(importance_type="split").feature_importances_, theirs.booster_.feature_importance("split")
    )
    for given in (
        {}, {"raw_score": True}, {"pred_leaf": True}, {"pred_contrib": True}, {"num_iteration": 2},
        {"start_iteration": 2}, {"start_iteration": 1, "num_iteration": 2, "raw_score": True},
        {"num_iteration": 3, "pred_contrib": True},
    ):  # fmt: skip
        for method in ("predict", "predict_proba"):
            assert np.array_equal(getattr(ours, method)(V, **given), getattr(theirs, method)(V, **given)), given
    assert np.array_equal(ours.predict(V, True, 1, 2), theirs.predict(V, True, 1, 2))  # in the same order

    file = tmp_path / "model.txt"
    theirs.booster_.save_model(file)
    for before in (theirs, theirs.booster_, file, ours):
        continued = classifier(optional=None, n_estimators=3).fit(X, Y, init_model=before)
        assert np.array_equal(
            continued.predict_proba(V),
            lgb.LGBMClassifier(**{**small, "n_estimators": 3}, random_state=0, verbosity=-1)
            .fit(X, Y, init_model=theirs)
            .predict_proba(V),
        )
        assert continued.n_iter_ == 8

    codes = X.copy()
    codes[:, 1] = np.digitize(X[:, 1], [-1, 0, 1])
    by_fit = lgb.LGBMRegressor(**small, random_state=0, verbosity=-1).fit(codes, Y, categorical_feature=[1])
    assert np.array_equal(
        regressor(optional=None).fit(codes, Y, categorical_feature=[1]).predict(codes), by_fit.predict(codes)
    )

    def squared(y_true: Any, y_pred: Any) -> Any:
        return y_pred - y_true, np.ones(len(y_true))

    own = regressor(optional=None, objective=squared).fit(X, Y)
    assert own.objective_ is squared
    of_theirs = lgb.LGBMRegressor(**small, objective=squared, random_state=0, verbosity=-1).fit(X, Y)
    assert np.array_equal(own.predict(V), of_theirs.predict(V))


def test_start_scores_of_several_classes() -> None:
    """Flat as LightGBM has them, or as a matrix; people of weight 0 are left out with theirs."""
    start = np.random.default_rng(0).normal(size=(400, 3))
    weight = np.where(np.arange(400) % 5, 1.0, 0.0)
    for optional in (None, OPTIONAL):
        model = classifier(optional=optional)
        matrix = model.fit(X, THREE, weight, init_score=start).predict_proba(V)
        assert np.array_equal(model.fit(X, THREE, weight, init_score=start.ravel(order="F")).predict_proba(V), matrix)
        kept = weight > 0
        assert np.array_equal(model.fit(X[kept], THREE[kept], init_score=start[kept]).predict_proba(V), matrix)
        assert not np.array_equal(model.fit(X, THREE, weight).predict_proba(V), matrix)


@pytest.mark.parametrize("engine", ENGINES)
def test_metrics_under_consent(engine: str) -> None:
    """They see virtual rows with the weights that make these stand for people; names and scores arrive."""
    seen: list[Any] = []

    def mean(y_true: Any, y_pred: Any, weight: Any) -> Any:
        seen.append((len(y_true), float(np.sum(weight))))
        return "mean", float(np.average(y_pred, weights=weight)), False

    model = classifier(engine=engine, copies=2, early_stopping_rounds=2, first_metric_only=True)
    given = {"eval_metric": ["auc", mean], "eval_names": ["held_out"], "eval_init_score": np.zeros(200)}
    model.fit(X, Y, init_score=np.zeros(400), eval_X=V, eval_y=U, **given)
    assert set(model.evals_result_) == {"held_out"}
    assert {"auc", "mean"} <= set(model.evals_result_["held_out"])
    assert model.best_score_["held_out"]["auc"] == model.evals_result_["held_out"]["auc"][model.best_iteration_ - 1]
    assert seen[0][0] > 200
    by_name = classifier(engine=engine, metric="auc").fit(X, Y, eval_set=(V, U)).evals_result_
    assert list(by_name["valid_0"]) == ["auc"]
    both = classifier(engine=engine, metric="auc").fit(X, Y, eval_set=(V, U), eval_metric="binary_error").evals_result_
    assert len(both["valid_0"]) == 2
    assert both["valid_0"]["auc"] == by_name["valid_0"]["auc"]


@pytest.mark.parametrize("engine", ENGINES)
def test_outputs_under_consent(engine: str) -> None:
    """Of numbers they are the booster's own; those of text add up, for every rule of what is used."""
    model = classifier(engine=engine).fit(X, Y)
    rounds = {"start_iteration": 1, "num_iteration": 3}
    leaves, shares = model.predict(V, pred_leaf=True), model.predict(V, pred_contrib=True)
    if engine == "xgboost":
        rows, used = xgb.DMatrix(V), (1, 4)
        assert np.array_equal(leaves, model.booster_.predict(rows, pred_leaf=True))
        assert np.array_equal(shares, model.booster_.predict(rows, pred_contribs=True))
        raw = model.booster_.predict(rows, output_margin=True, iteration_range=used)
    else:
        assert np.array_equal(leaves, model.booster_.predict(V, pred_leaf=True))
        assert np.array_equal(shares, model.booster_.predict(V, pred_contrib=True))
        raw = model.booster_.predict(V, raw_score=True, **rounds)
    assert np.array_equal(model.predict(V, raw_score=True, **rounds), raw)
    assert leaves.shape == (200, 5)

    people, outcome = rich_table()
    optional = ["steps", "plan"]
    texts = classifier(engine=engine, optional=optional).fit(people, outcome)
    for rule in ({}, {"sharing": "withheld"}, {"sharing": "best", "favourable": "lower"}):
        shares = texts.predict_proba(people, pred_contrib=True, **rule)
        assert shares.shape == (400, people.shape[1] + 1)
        np.testing.assert_allclose(shares.sum(axis=1), texts.predict(people, raw_score=True, **rule), atol=1e-5)
        assert np.array_equal(shares, puc.predict(texts.booster_, people, pred_contrib=True, **rule))
    withheld = texts.predict(people, pred_contrib=True, sharing="withheld")
    erased = people.assign(steps=np.nan, plan=None)
    assert np.array_equal(withheld, texts.predict(erased, pred_contrib=True))
    # In the order of training, whatever that of the table; text is one column.
    place = texts.feature_name_.index("region")
    assert texts.feature_name_ == list(people.columns)
    assert np.array_equal(puc.predict(texts.booster_, people[people.columns[::-1]], pred_contrib=True)[:, place],
                          texts.predict(people, pred_contrib=True)[:, place])  # fmt: skip
    assert len(np.unique(withheld[:, place])) > 1
    with pytest.raises(ValueError, match="pred_leaf and pred_contrib are different outputs"):
        texts.predict(people, pred_leaf=True, pred_contrib=True)

    several = classifier(engine=engine).fit(X, THREE)
    assert several.predict(V, pred_contrib=True).shape == (200, 3 * 7)
    by_class = several.predict(V, pred_contrib=True).reshape(200, 3, 7).sum(axis=2)
    np.testing.assert_allclose(by_class, several.predict(V, raw_score=True), atol=1e-5)
    best = {"sharing": "best", "favourable": "lower", "target_class": 1, "raw_score": True}
    np.testing.assert_allclose(
        several.predict(V, pred_contrib=True, **best).reshape(200, 3, 7).sum(axis=2),
        several.predict(V, **best),
        atol=1e-5,
    )


def test_boosters_read_text_themselves() -> None:
    people, outcome = rich_table()
    for engine in ("lightgbm", "native"):
        booster: Any = puc.train(
            {"engine": engine, "optional": ["steps", "plan"], "verbosity": -1}, (people, outcome), 5
        )
        for given in ({}, {"pred_contrib": True}, {"pred_leaf": True}, {"num_iteration": 2}):
            told = booster.predict(people, **given)
            assert np.array_equal(told, puc.predict(booster, people, **given))
            frame = pl.from_pandas(people.astype({"region": str}))
            assert np.array_equal(told, booster.predict(frame, **given))
            assert np.array_equal(
                told, booster.predict(frame.with_columns(pl.col("plan").cast(pl.Categorical)), **given)
            )


def test_anchored_models_have_what_is_defined_for_them() -> None:
    model = classifier(anchor="base").fit(X, Y)
    shares = model.predict(V, pred_contrib=True)
    np.testing.assert_allclose(shares.sum(axis=1), model.predict(V, raw_score=True), atol=1e-9)
    nothing = model.predict(V, pred_contrib=True, sharing="withheld")
    assert (nothing[:, :-1] == 0).all()
    assert np.array_equal(model.predict_proba(V, num_iteration=2)[:, 1], model.booster_.predict(V, num_iteration=2))
    with pytest.raises(TypeError, match="predict of an anchored model takes no pred_leaf"):
        model.predict(V, pred_leaf=True)
    with pytest.raises(TypeError, match="predict of an anchored model takes no start_iteration"):
        model.predict(V, start_iteration=2)


@pytest.mark.parametrize("engine", ENGINES)
def test_models_are_continued_under_the_same_consent(engine: str) -> None:
    before = classifier(engine=engine).fit(X, Y)
    continued = classifier(engine=engine).fit(X, Y, init_model=before)
    assert continued.n_iter_ == continued.n_estimators_ == 10
    assert puc.consent_of(continued.booster_) == before.consent_
    params = {"objective": "binary", "engine": engine, "optional": OPTIONAL, "learning_rate": 0.1, "num_leaves": 7}
    by_train = puc.train({**params, "seed": 0, "num_threads": 1}, (X, Y), 5, init_model=before.booster_)
    assert np.array_equal(continued.predict(V, raw_score=True), puc.predict(by_train, V, raw_score=True))

    raw = classifier(engine=engine, optional=None).fit(X, Y)
    with pytest.warns(
        UserWarning, match="init_model has no consent schema: what its trees inferred from silence stays"
    ):
        classifier(engine=engine).fit(X, Y, init_model=raw)
    with pytest.raises(ValueError, match=r"init_model was trained under .* Declare the same optional features"):
        classifier(engine=engine, optional=[5]).fit(X, Y, init_model=before)
    with pytest.raises(ValueError, match="init_model was trained under"):
        classifier(engine=engine, optional=None).fit(X, Y, init_model=before)
    with pytest.raises(ValueError, match=r"init_model has the classes \[.*\], but y has \['no', 'yes'\]"):
        classifier(engine=engine).fit(X, np.where(Y == 1, "yes", "no"), init_model=before)
    with pytest.raises(TypeError, match=r"init_model must be a booster of .* or a model file, got 'PUCClassifier'"):
        classifier(engine=engine).fit(X, Y, init_model=classifier())


def test_wrong_arguments_are_named() -> None:
    for given, error, message in [
        ({"eval_metric": 3}, TypeError, "eval_metric must be a name, a function or a list of these, got 3"),
        ({"eval_metric": lambda y: y}, TypeError, r"eval_metric must be a function of \(y_true, y_pred\) or"),
        ({"eval_names": ["a"]}, ValueError, "eval_names needs eval_set"),
        ({"eval_names": ["a", "b"], "eval_set": (V, U)}, ValueError, "eval_names has 2 items for 1 validation sets"),
        ({"eval_init_score": [1.0], "eval_set": (V, U)}, ValueError, r"eval_set\[0\]: init_score of .* for 200 rows"),
        ({"init_score": np.zeros(7)}, ValueError, "init_score of fit must have one value per row"),
    ]:
        with pytest.raises(error, match=message):
            classifier().fit(X, Y, **given)
    with pytest.raises(ValueError, match="importance_type must be 'split', 'gain' or None, got 'cover'"):
        _ = classifier(importance_type="cover").fit(X, Y).feature_importances_


def test_names_of_columns() -> None:
    frame, y = named_table()
    model = regressor(optional=["steps"]).fit(frame, y)
    assert model.feature_name_ == NAMES
    assert regressor(**SMALL).fit(frame.to_numpy(), y).feature_name_ == [f"Column_{j}" for j in range(6)]
    assert isinstance(frame, pd.DataFrame)
