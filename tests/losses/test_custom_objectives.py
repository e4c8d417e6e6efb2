"""Each loss as a custom objective gives the model of the engine's own."""

from __future__ import annotations

import functools
import json
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from loss_tools import LIGHTGBM, ROUNDS, XGBOOST, Array, K, N, some_rows, table

from pucboost.objectives import Logistic, Objective, Poisson, Quantile, objective_for

LIGHTGBM_LOSSES: list[tuple[dict[str, Any], bool]] = [
    ({"objective": "regression"}, False),
    ({"objective": "regression"}, True),
    ({"objective": "binary"}, True),
    ({"objective": "cross_entropy"}, True),  # soft labels
    ({"objective": "multiclass", "num_class": 3}, False),
    ({"objective": "multiclass", "num_class": K}, True),
    ({"objective": "poisson"}, False),
    ({"objective": "poisson", "poisson_max_delta_step": 0.2}, True),
    ({"objective": "gamma"}, True),
    ({"objective": "tweedie"}, False),
    ({"objective": "tweedie", "tweedie_variance_power": 1.2}, True),
]

XGBOOST_LOSSES: list[tuple[dict[str, Any], bool]] = [
    ({"objective": "reg:squarederror"}, False),
    ({"objective": "reg:squarederror"}, True),
    ({"objective": "binary:logistic"}, True),
    ({"objective": "reg:logistic"}, False),
    ({"objective": "multi:softprob", "num_class": 3}, False),
    ({"objective": "multi:softprob", "num_class": 3}, True),
    ({"objective": "count:poisson"}, False),
    ({"objective": "count:poisson", "max_delta_step": 0.2}, True),
    ({"objective": "reg:gamma"}, True),
    ({"objective": "reg:tweedie"}, False),
    ({"objective": "reg:tweedie", "tweedie_variance_power": 1.2}, True),
]


def test_lightgbm_model_is_the_built_in_one() -> None:
    for params, weighted in LIGHTGBM_LOSSES:
        objective = objective_for(params)
        assert objective is not None
        X, label, weight = table(objective)
        used = weight if weighted else None
        built_in = lgb.train({**LIGHTGBM, **params}, lgb.Dataset(X, label, weight=used), ROUNDS)
        start = objective.initial_score(label, used)
        shape = (N,) if objective.n_scores == 1 else (N, objective.n_scores)
        data = lgb.Dataset(X, label, weight=used, init_score=np.full(shape, start))
        ours = lgb.train({**LIGHTGBM, **params, "objective": objective}, data, ROUNDS)
        raw = start + np.asarray(ours.predict(X))
        # Gradients are rounded to float32 from sums in a different order, 1e-8 was seen; one split that differs would
        # be visible in the second digit.
        np.testing.assert_allclose(raw, built_in.predict(X, raw_score=True), rtol=0, atol=1e-6)
        np.testing.assert_allclose(objective.response(raw), built_in.predict(X), rtol=2e-6, atol=1e-6)


def intercept(booster: xgb.Booster) -> Array:
    """The base_score XGBoost has settled on, as a response (for classes: as raw scores)."""
    return np.array(json.loads(json.loads(booster.save_config())["learner"]["learner_model_param"]["base_score"]))


def base_score(objective: Objective, start: float | Array) -> Any:
    """What to set `base_score` to: XGBoost applies the link to it, except for classes, whose scores it centres."""
    if isinstance(start, np.ndarray):
        return (start - start.mean()).tolist()
    return float(objective.response(start))


def test_xgboost_model_is_the_built_in_one() -> None:
    for params, weighted in XGBOOST_LOSSES:
        objective = objective_for(params, engine="xgboost")
        assert objective is not None
        X, label, weight = table(objective)
        data = xgb.DMatrix(X, label, weight=weight if weighted else None)
        built_in = xgb.train({**XGBOOST, **params}, data, ROUNDS)
        start = objective.initial_score(data.get_label(), data.get_weight())
        base = intercept(built_in)
        np.testing.assert_allclose(np.atleast_1d(base_score(objective, start)), base, rtol=1e-6, atol=2e-6)
        # From here on XGBoost's float32 estimate: a start that differs by 1e-6 could decide between two equal splits.
        # The built-in name stays among the parameters, so that the saved model knows its link.
        start_there = {"base_score": base.tolist() if len(base) > 1 else float(base[0])}
        ours = xgb.train({**XGBOOST, **params, **start_there}, data, ROUNDS, obj=objective)
        raw = ours.predict(data, output_margin=True)
        # XGBoost's scores are float32 themselves, and its own gradients are computed in float32: 1e-6 was seen.
        np.testing.assert_allclose(raw, built_in.predict(data, output_margin=True), rtol=0, atol=1e-5)
        saved = xgb.Booster(model_file=ours.save_raw())
        np.testing.assert_allclose(saved.predict(data), objective.response(raw), rtol=1e-5, atol=1e-6)


def test_soft_labels_on_xgboost_too() -> None:
    X, label, weight = table(Logistic(soft_labels=True))
    data = xgb.DMatrix(X, label, weight=weight)
    params = {**XGBOOST, "objective": "binary:logistic", "base_score": 0.5}
    ours, built_in = xgb.train(params, data, ROUNDS, obj=Logistic()), xgb.train(params, data, ROUNDS)
    np.testing.assert_allclose(ours.predict(data), built_in.predict(data), rtol=0, atol=1e-6)


def test_xgboost_does_not_estimate_base_score_for_a_custom_objective() -> None:
    # Whoever trains XGBoost with one of these objectives must set base_score; this is why.
    X, label, _ = table(Poisson())
    data = xgb.DMatrix(X, label)
    params = {**XGBOOST, "objective": "count:poisson"}
    assert intercept(xgb.train(params, data, 1, obj=Poisson())).tolist() == [0.5]
    assert intercept(xgb.train(params, data, 1)) == pytest.approx([label.mean()], rel=1e-6)


def test_quantile_leaves_are_set_again_by_the_built_in_objectives() -> None:
    # LightGBM's built-in objective replaces leaf values by quantiles, which a custom objective cannot ask for: there
    # only the gradient is compared with the loss, above. XGBoost does so for every model that bears the name.
    objective = Quantile(0.3)
    X, label, weight = table(objective)
    data = xgb.DMatrix(X, label, weight=weight)
    params = {**XGBOOST, "objective": "reg:quantileerror", "quantile_alpha": 0.3, "base_score": 0.0}
    ours, built_in = xgb.train(params, data, 5, obj=objective), xgb.train(params, data, 5)
    np.testing.assert_allclose(ours.predict(data), built_in.predict(data), rtol=0, atol=1e-5)


def test_call_reads_labels_and_weights_of_any_dataset() -> None:
    class Data:
        def __init__(self, label: Any, weight: Any) -> None:
            self.label, self.weight = label, weight

        def get_label(self) -> Any:
            return self.label

        def get_weight(self) -> Any:
            return self.weight

    score, label, weight = some_rows(Poisson(), 20)
    with pytest.raises(ValueError, match="The data have no label"):
        Poisson()(score, Data(None, None))
    for given_weight in (None, np.empty(0, dtype=np.float32), weight):
        got = functools.partial(Poisson(), threads=1)(score, Data(label.astype(np.float32), given_weight))
        for a, b in zip(got, Poisson().gradient(score, label, given_weight), strict=True):
            np.testing.assert_array_equal(a, b)
