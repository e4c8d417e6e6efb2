"""Objectives of the user's own: what they see, and whose weights they apply."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from engine_kits import OPTIONAL, logistic
from tools import QUIET, make_table

import pucboost as puc

PARAMS: dict[str, Any] = {**QUIET, "objective": "binary", "optional": OPTIONAL}


def test_objective_sees_virtual_labels_and_only_the_users_weights() -> None:
    X, y = make_table(300)
    seen = {}

    def spy(preds: Any, data: Any) -> tuple[Any, Any]:
        seen["weight"], seen["field"], seen["n"] = data.get_weight(), data.get_field("weight"), len(data.get_label())
        return logistic(preds, data)

    def spy_metric(preds: Any, data: Any) -> tuple[str, float, bool]:
        seen["metric weight"] = data.get_weight()
        return "spy", 0.0, False

    train = lgb.Dataset(X, y)
    booster = puc.train({**PARAMS, "objective": spy, "copies": 2}, train, 1, valid_sets=[train], feval=spy_metric)
    assert seen["weight"] is None
    assert seen["field"] is None
    assert seen["n"] == booster.puc_summary.virtual_rows > 300
    assert len(seen["metric weight"]) == seen["n"]


def test_objective_that_reads_the_weight_field() -> None:
    X, y = make_table(900)

    def by_field(preds: Any, data: Any) -> tuple[Any, Any]:
        p = 1 / (1 + np.exp(-preds))
        weight = data.get_field("weight")
        return (p - data.get_label()) * weight, p * (1 - p) * weight

    models = [
        puc.train({**PARAMS, "copies": 2, "objective": f}, lgb.Dataset(X, y, weight=np.linspace(0.5, 2, 900)), 6)
        for f in (by_field, logistic)
    ]
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))


@pytest.mark.parametrize("flat", [False, True])
def test_multiclass_callable_objective(flat: bool) -> None:
    X, y = make_table(900)
    y = y + (X[:, 0] > 0.5)

    def softmax(preds: Any, data: Any) -> tuple[Any, Any]:
        p = np.exp(preds - preds.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        gradient = p - np.eye(3)[data.get_label().astype(int)]
        hessian = 1.5 * p * (1 - p)  # LightGBM's factor K / (K − 1)
        return (gradient.ravel(order="F"), hessian.ravel(order="F")) if flat else (gradient, hessian)

    base = {**QUIET, "num_class": 3, "optional": OPTIONAL, "copies": 2}
    built_in = puc.train({**base, "objective": "multiclass", "boost_from_average": False}, lgb.Dataset(X, y), 4)
    own = puc.train({**base, "objective": softmax}, lgb.Dataset(X, y), 4)
    np.testing.assert_allclose(own.predict(X, raw_score=True), built_in.predict(X, raw_score=True), atol=1e-4)
