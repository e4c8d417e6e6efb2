"""What is XGBoost's own: its names, its data and callbacks, its model files."""

from __future__ import annotations

from pathlib import Path

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from engine_kits import OPTIONAL, XGBOOST
from tools import make_table

import pucboost as puc


def test_what_xgboost_takes_as_data_and_callbacks() -> None:
    X, y = make_table(200)
    params = {**XGBOOST.params, "optional": OPTIONAL}
    expected = XGBOOST.trees(puc.train(params, puc.Dataset(X, y), 3))
    assert XGBOOST.trees(puc.train(params, lgb.Dataset(X, y), 3)) == expected
    assert XGBOOST.trees(puc.train(params, (X, y), 3, valid_sets=(X, y))) == expected
    with pytest.raises(TypeError, match="train_set is an xgboost DMatrix, which no longer has the raw rows"):
        puc.train(params, xgb.DMatrix(X, y), 3)
    with pytest.raises(TypeError, match=r"callbacks of engine='xgboost' must be xgb\.callback objects"):
        puc.train(params, (X, y), 3, callbacks=[lgb.early_stopping(3)])
    stopped = puc.train(
        params,
        (X[:100], y[:100]),
        300,
        valid_sets=[(X[100:], y[100:])],
        callbacks=[xgb.callback.EarlyStopping(rounds=3)],
    )
    losses = stopped.evals_result["valid_0"]["logloss"]
    assert stopped.best_iteration == np.argmin(losses)
    assert len(losses) == stopped.best_iteration + 4 < 300
    with pytest.raises(ValueError, match="init_model is not supported by cv with engine='xgboost'"):
        puc.cv(params, (X, y), 2, init_model=stopped)


def test_lightgbm_names_train_xgboost() -> None:
    X, y = make_table(500)
    params = {"engine": "xgboost", "optional": OPTIONAL, "objective": "binary", "num_threads": 2, "verbosity": -1}
    params |= {"num_leaves": 8, "learning_rate": 0.2, "lambda_l2": 2.0, "num_iterations": 7}
    ours = puc.train(params, puc.Dataset(X, y))
    assert ours.num_boosted_rounds() == 7
    assert {text.count("leaf=") for text in ours.get_dump()} == {8}
    own = {"max_leaves": 8, "grow_policy": "lossguide", "max_depth": 0, "learning_rate": 0.2, "reg_lambda": 2.0}
    assert XGBOOST.trees(ours) == XGBOOST.trees(XGBOOST.fit(X, y, 7, **own))
    # Parameters on the Dataset count as well.
    params = {**XGBOOST.params, "optional": OPTIONAL}
    in_call = puc.train({**params, "max_bin": 4}, puc.Dataset(X, y), 4)
    assert XGBOOST.trees(puc.train(params, puc.Dataset(X, y, params={"max_bin": 4}), 4)) == XGBOOST.trees(in_call)
    assert XGBOOST.trees(puc.train(params, puc.Dataset(X, y), 4)) != XGBOOST.trees(in_call)


def test_validation_sets_take_names_from_training() -> None:
    X, y = make_table(300)
    params = {**XGBOOST.params, "optional": ["f3"]}
    train = puc.Dataset(X, y, feature_name=[f"f{j}" for j in range(6)])
    booster = puc.train(params, train, 2, valid_sets=[(X, y), puc.Dataset(X, y)])
    assert set(booster.evals_result) == {"valid_0", "valid_1"}
    assert puc.train(params, train, 2, valid_sets=((X, y), (X, y))).num_boosted_rounds() == 2


def test_metrics_of_cv_and_types_of_categories() -> None:
    X, y = make_table(300)
    result = puc.cv({**XGBOOST.params, "optional": OPTIONAL}, (X, y), 2, nfold=2, metrics=["binary_logloss", "auc"])
    assert {"valid logloss-mean", "valid auc-mean"} <= result.keys()
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(k=pd.Categorical(["u", "v"] * 150), m=np.arange(300) % 3)
    with pytest.raises(ValueError, match="categorical_feature names column 'm', which is not of category type"):
        puc.train({**XGBOOST.params, "optional": ["f"]}, puc.Dataset(frame, y, categorical_feature=["k", "m"]), 2)
    assert XGBOOST.fit(frame.drop(columns="m"), y, 2, optional=["k"]).feature_types == ["float"] * 6 + ["c"]


def test_sliced_and_reloaded_xgboost_models_can_be_saved(tmp_path: Path) -> None:
    X, y = make_table(300)
    booster = XGBOOST.fit(X, y, 5)
    booster.save_model(tmp_path / "own.json")
    for other in (booster[:2], xgb.Booster(model_file=tmp_path / "own.json")):
        puc.save_model(other, tmp_path / "again.json")
        assert puc.load_model(tmp_path / "again.json").consent == booster.consent


def test_verbosity_of_one_call_is_not_that_of_the_next() -> None:
    X, y = make_table(100)
    params = {"engine": "xgboost", "optional": [3], "verbosity": 0}
    with xgb.config_context(verbosity=1):
        before = xgb.get_config()
        puc.train(params, puc.Dataset(X, y), 2)
        assert xgb.get_config() == before
        puc.cv(params, puc.Dataset(X, y), 2, nfold=2)
        assert xgb.get_config() == before
