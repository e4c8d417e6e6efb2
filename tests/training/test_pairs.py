"""A pair (X, y) is a Dataset, in training, validation and cross-validation, on every engine."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from engine_kits import OPTIONAL, EngineKit, every_engine
from tools import make_table

import pucboost as puc
from pucboost._engines import engine_named

X, y = make_table(300)
X_valid, y_valid = make_table(200, seed=1)

with_and_without = pytest.mark.parametrize("optional", [OPTIONAL, None], ids=["optional", "nothing optional"])


def run(kit: EngineKit, optional: Any, train_set: Any, valid_sets: Any) -> tuple[Any, dict[str, Any]]:
    record: dict[str, Any] = {}
    callbacks: Any = [engine_named(kit.name).recording_callback(record)]
    booster = puc.train({**kit.params, "optional": optional}, train_set, 4, valid_sets=valid_sets, callbacks=callbacks)
    return kit.model(booster), record


@every_engine
@with_and_without
def test_pairs_give_the_model_and_the_metrics_of_datasets(kit: EngineKit, optional: Any) -> None:
    train = puc.Dataset(X, y)
    expected = run(kit, optional, train, [train, puc.Dataset(X_valid, y_valid)])
    assert list(expected[1]) == ["training", "valid_1"]
    pair = (X, y)
    # The same two objects in another tuple are the training set as well.
    for valid_sets in (
        [pair, (X_valid, y_valid)],
        ((X, y), (X_valid, y_valid)),
        [(X, y), lgb.Dataset(X_valid, y_valid)],
    ):
        assert run(kit, optional, pair, valid_sets) == expected


@every_engine
@with_and_without
def test_one_pair_to_validate_on(kit: EngineKit, optional: Any) -> None:
    expected = run(kit, optional, puc.Dataset(X, y), puc.Dataset(X_valid, y_valid))
    assert list(expected[1]) == ["valid_0"]
    assert run(kit, optional, (X, y), (X_valid, y_valid)) == expected
    assert run(kit, optional, puc.Dataset(X, y), [(X_valid, y_valid)]) == expected


@every_engine
@with_and_without
def test_cv_takes_a_pair(kit: EngineKit, optional: Any) -> None:
    params = {**kit.params, "optional": optional}
    frame = pd.DataFrame(X, columns=list("abcdef"))
    assert puc.cv(params, (frame, pd.Series(y)), 3, nfold=3) == puc.cv(params, puc.Dataset(frame, y), 3, nfold=3)


def test_with_nothing_optional_a_pair_is_lightgbms_own_training() -> None:
    params = {"objective": "binary", "verbosity": -1, "num_threads": 2}
    plain = lgb.train(params, lgb.Dataset(X, y), 4)
    before = X.copy()
    assert puc.train(params, (X, y), 4).model_to_string() == plain.model_to_string()
    np.testing.assert_array_equal(X, before)


@with_and_without
def test_wrong_items_among_validation_sets(optional: Any) -> None:
    params = {"objective": "binary", "verbosity": -1, "optional": optional}
    for wrong in (X_valid, "valid.csv", (X_valid, y_valid, y_valid)):
        message = f"Every item in valid_sets must be a Dataset object. Item 1 has type '{type(wrong).__name__}'"
        with pytest.raises(TypeError, match=message):
            puc.train(params, (X, y), 2, valid_sets=[(X_valid, y_valid), wrong])
