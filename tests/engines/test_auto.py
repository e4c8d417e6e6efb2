"""``"engine": "auto"``: the native engine where it can, else LightGBM."""

from __future__ import annotations

import logging
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from engine_kits import LIGHTGBM, NATIVE, OPTIONAL, logistic
from tools import make_table

import pucboost as puc

AUTO = {**NATIVE.params, "engine": "auto", "optional": OPTIONAL, "copies": 3}
X, Y = make_table(400)


@pytest.fixture
def said(caplog: Any) -> Any:
    caplog.set_level(logging.INFO, "pucboost")
    return lambda: [message for message in caplog.messages if message.startswith("engine: ")]


@pytest.mark.parametrize("params", [{}, {"objective": "quantile", "alpha": 0.3}, {"objective": logistic}])
def test_native_where_it_can(params: dict[str, Any], said: Any) -> None:
    booster = puc.train({**AUTO, **params}, puc.Dataset(X, Y), 5)
    native = puc.train({**AUTO, **params, "engine": "native"}, puc.Dataset(X, Y), 5)
    assert NATIVE.trees(booster) == NATIVE.trees(native)
    assert said() == ["engine: native"]


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"boosting": "dart"}, "boosting='dart'"),
        ({"objective": "regression_l1"}, "objective='regression_l1'"),
        ({"max_bin": 1000}, "max_bin"),
    ],
)
def test_else_lightgbm(params: dict[str, Any], reason: str, said: Any) -> None:
    booster = puc.train({**AUTO, **params}, puc.Dataset(X, Y), 5)
    lightgbm = puc.train({**AUTO, **params, "engine": "lightgbm"}, puc.Dataset(X, Y), 5)
    assert LIGHTGBM.trees(booster) == LIGHTGBM.trees(lightgbm)
    (message,) = said()
    assert message.startswith(f"engine: lightgbm, because of {reason}")


def test_parameters_of_the_dataset_count(said: Any) -> None:
    puc.train(AUTO, puc.Dataset(X, Y, params={"max_bin": 1000}), 2)
    assert said()[0].startswith("engine: lightgbm, because of max_bin")


def test_a_booster_that_keeps_its_data_is_lightgbms(said: Any) -> None:
    booster: Any = puc.train(AUTO, puc.Dataset(X, Y), 3, keep_training_booster=True)
    assert said()[0].startswith("engine: lightgbm, because of keep_training_booster")
    booster.update()
    assert booster.num_trees() == 4
    with pytest.raises(ValueError, match=r"keep_training_booster with 'engine': 'native'.*use 'engine': 'lightgbm'"):
        puc.train({**AUTO, "engine": "native"}, puc.Dataset(X, Y), 3, keep_training_booster=True)


def test_nothing_optional_is_lightgbm_alone(said: Any) -> None:
    params = {key: value for key, value in AUTO.items() if key not in ("engine", "optional", "copies")}
    ours = puc.train({**params, "engine": "auto"}, puc.Dataset(X, Y), 3)
    assert LIGHTGBM.trees(ours) == LIGHTGBM.trees(lgb.train(params, lgb.Dataset(X, Y), 3))
    assert said() == []


def test_cross_validation_and_estimators(said: Any) -> None:
    results = [puc.cv({**AUTO, "engine": engine}, puc.Dataset(X, Y), 3, nfold=2) for engine in ("auto", "native")]
    assert results[0] == results[1]
    models = [puc.PUCClassifier(optional=OPTIONAL, engine=engine, n_jobs=1).fit(X, Y) for engine in ("auto", "native")]
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in models))
    assert said() == ["engine: native"] * 2


def test_default_copies() -> None:
    """A copy costs the native engine little, so it makes more of them."""
    rng = np.random.default_rng(0)
    many = rng.normal(size=(300, 8))
    for engine, copies in (("native", 8), ("lightgbm", 4)):
        params = {**NATIVE.quiet, "engine": engine, "optional": list(range(1, 8))}
        booster = puc.train(params, puc.Dataset(many, many.sum(axis=1)), 1)
        assert booster.puc_summary.virtual_rows == copies * 300
