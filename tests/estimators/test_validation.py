"""Validation people: early stopping, augmentation, category codes, pipelines."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import sklearn
from estimator_tools import (
    ENGINES,
    OPTIONAL,
    classifier,
    rich_table,
    uses_categories,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from tools import make_table

import pucboost as puc


@pytest.mark.parametrize("engine", ENGINES)
def test_early_stopping(engine: str) -> None:
    for optional in [None, OPTIONAL]:
        X, y = make_table(400)
        V, u = make_table(300, seed=1)
        params: dict[str, Any] = {"engine": engine, "optional": optional, "n_estimators": 200, "learning_rate": 0.5}
        model = classifier(**params, early_stopping_rounds=3).fit(X, y, eval_set=[(V, u)])
        assert 1 <= model.best_iteration_ < 100
        ((name, metrics),) = model.evals_result_.items()
        losses = metrics["binary_logloss" if engine != "xgboost" else "logloss"]
        assert name == "valid_0"
        assert np.argmin(losses) == model.best_iteration_ - 1
        shorter = classifier(**{**params, "n_estimators": model.best_iteration_}).fit(X, y)
        assert np.array_equal(model.predict_proba(X), shorter.predict_proba(X))
        by_fit = classifier(**params, early_stopping_rounds=90).fit(X, y, eval_set=(V, u), early_stopping_rounds=3)
        assert by_fit.best_iteration_ == model.best_iteration_
        assert shorter.evals_result_ == shorter.best_score_ == {}
        assert shorter.best_iteration_ == shorter.n_estimators


@pytest.mark.parametrize("engine", ENGINES)
def test_validation_people_are_augmented_as_in_train(engine: str) -> None:
    X, y = make_table(300)
    V, u = make_table(200, seed=1)
    weight = np.linspace(0.5, 2, 200)
    model = classifier(engine=engine).fit(X, y, eval_set=[(X, y), (V, u)], eval_sample_weight=[None, weight])
    record: dict[str, Any] = {}
    params = {
        "objective": "binary", "engine": engine, "optional": OPTIONAL, "learning_rate": 0.1, "num_leaves": 7, "seed": 0,
        "num_threads": 1, "verbosity": -1,
    }  # fmt: skip
    train_set = puc.Dataset(X, y)
    callbacks = [lgb.record_evaluation(record)] if engine != "xgboost" else None
    valid_sets = [train_set, puc.Dataset(V, u, weight=weight)]
    booster = puc.train(params, train_set, 5, valid_sets=valid_sets, callbacks=callbacks)
    assert model.evals_result_ == (record or booster.evals_result)
    assert list(model.evals_result_) == ["training", "valid_1"]
    raw = classifier(engine=engine, valid_augmentation="none").fit(X, y, eval_set=(V, u))
    assert raw.evals_result_["valid_0"] != model.evals_result_["valid_1"]


def test_validation_people_have_the_codes_of_training() -> None:
    X, y = rich_table()
    other = X.assign(region=X["region"].cat.reorder_categories(["east", "north", "south"]))
    for engine in ENGINES:
        for optional in (None, ["steps"]):
            model = classifier(engine=engine, optional=optional).fit(X, y, eval_set=[(X.copy(), y), (other, y)])
            assert uses_categories(model)
            first, second = (next(iter(metrics.values())) for metrics in model.evals_result_.values())
            if optional is None:
                assert first == second
            else:  # validation sets of their own have masks of their own, drawn with seeds of their own
                assert first[-1] == pytest.approx(second[-1], rel=0.05)
    with pytest.raises(ValueError, match="Column 'visits' holds text or categories"):
        classifier(optional=["steps"]).fit(X, y, eval_set=(X.assign(visits="many"), y))


def test_labels_of_validation_people() -> None:
    X, y = make_table(200)
    words = np.where(y == 1, "claim", "none")
    model = classifier().fit(X, words, eval_set=(X, words.copy()))
    same = classifier().fit(X, 1 - y, eval_set=(X, 1 - y.copy()))
    assert model.evals_result_ == same.evals_result_
    with pytest.raises(ValueError, match=r"eval_set\[0\]: y contains previously unseen labels"):
        classifier().fit(X, words, eval_set=(X, np.full(200, "other")))


def test_a_pipeline_transforms_validation_people() -> None:
    X, y = make_table(300)
    V, u = make_table(200, seed=1)
    scale = StandardScaler().fit(X)
    expected = classifier(early_stopping_rounds=3, n_estimators=50).fit(
        scale.transform(X), y, eval_set=(scale.transform(V), u)
    )
    with sklearn.config_context(enable_metadata_routing=True):
        model = classifier(early_stopping_rounds=3, n_estimators=50).set_fit_request(eval_X=True, eval_y=True)
        pipeline = Pipeline([("scale", StandardScaler()), ("model", model)], transform_input=["eval_X"])
        pipeline.fit(X, y, eval_X=V, eval_y=u)
    assert pipeline["model"].evals_result_ == expected.evals_result_
    two = classifier().fit(X, y, eval_X=(X, V), eval_y=(y, u), eval_sample_weight=(np.ones(300), np.ones(200)))
    assert list(two.evals_result_) == ["training", "valid_1"]


def test_wrong_validation_people() -> None:
    X, y = make_table(100)
    wrong: list[tuple[dict[str, Any], str]] = [
        (
            {"eval_set": [(X, y, y)]},
            r"eval_set must be a pair \(X, y\) or a list of pairs; item 0 is a sequence of length 3",
        ),
        ({"eval_set": [X, y]}, "eval_set must be a pair .* item 0 is ndarray"),
        ({"eval_set": [(X[:, :4], y)]}, r"eval_set\[0\]: X has 4 features, but PUCClassifier is expecting 6 features"),
        ({"eval_set": [(X, y), (X, y[:50])]}, r"eval_set\[1\]: Found input variables with inconsistent numbers"),
        ({"eval_set": (X, None)}, r"eval_set\[0\]: This PUCClassifier estimator requires y to be passed"),
        ({"eval_set": (X, y), "eval_X": X}, "Give eval_set, or eval_X and eval_y, but not both"),
        ({"eval_X": X}, "eval_X and eval_y belong together"),
        ({"eval_X": (X, X), "eval_y": y}, "eval_X holds 2 tables, but eval_y holds outcomes for 1"),
        ({"eval_set": (X, y), "eval_sample_weight": [y, y]}, "eval_sample_weight has 2 items for 1 validation sets"),
        ({"eval_set": (X, y), "eval_sample_weight": -np.ones(100)}, r"eval_set\[0\]: Negative values"),
        ({"eval_sample_weight": y}, "eval_sample_weight needs eval_set"),
    ]
    for arguments, message in wrong:
        with pytest.raises(ValueError, match=message):
            classifier().fit(X, y.copy(), **arguments)


def test_callbacks() -> None:
    X, y = make_table(100)
    seen: list[int] = []
    classifier().fit(X, y, callbacks=[lambda env: seen.append(env.iteration)])
    assert seen == list(range(5))
