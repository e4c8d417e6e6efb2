"""Metrics by LightGBM's names; the oracle is LightGBM, which starts from the same scores."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from pucboost._engines.lightgbm import ENGINE as LIGHTGBM
from pucboost._engines.native.losses import Scores, metrics_of

TOLERANCE = 1e-6
"""LightGBM takes labels and weights as float32, and sums in another order."""


def told_by_lightgbm(params: dict[str, Any], raw: Any, label: Any, weight: Any) -> tuple[dict[str, float], list[bool]]:
    """Evaluate scores without growing a tree."""
    data = lgb.Dataset(
        np.arange(len(label), dtype=np.float64)[:, None],
        label,
        weight=weight,
        init_score=raw.ravel(order="F"),
        params={"verbosity": -1},
    )
    booster = lgb.Booster({"verbosity": -1, "num_threads": 1, **params}, data)
    results = booster.eval_train()
    return {name: value for _, name, value, _ in results}, [higher for *_, higher in results]


def check(params: dict[str, Any], raw: Any, label: Any, weight: Any) -> None:
    objective = None if params.get("objective") == "none" else LIGHTGBM.objective(params)
    prediction = raw if objective is None else objective.response(raw)
    metrics = metrics_of(params, raw.shape[1] if raw.ndim == 2 else 1)
    scores = Scores(raw, prediction, label, weight)
    expected, higher = told_by_lightgbm(params, raw, label, weight)
    assert [metric.name for metric in metrics] == list(expected)
    # LightGBM's Python package looks at the beginning of a name, and so takes a low r2 for better.
    assert [metric.higher_is_better and metric.name != "r2" for metric in metrics] == higher
    for metric in metrics:
        assert metric.value(scores) == pytest.approx(expected[metric.name], rel=TOLERANCE), metric.name


def test_r2_of_labels_that_are_all_the_same() -> None:
    for raw in (np.full(30, 7.0), np.linspace(6, 8, 30)):
        check({"objective": "regression", "metric": "r2"}, raw, np.full(30, 7.0), None)


def scores_of(rng: np.random.Generator, label: Any, n_classes: int = 1) -> Any:
    """Scores that know a little of the labels, with ties and a few extremes."""
    raw = rng.normal(size=(len(label), n_classes)) + (label[:, None] == np.arange(1, n_classes + 1))
    raw = np.round(8 * raw) / 8  # differences are exact, so that equal ones are ties
    raw[:4] = np.array([-50.0, 50.0, 0.0, 1e-12])[:, None]
    return raw[:, 0] if n_classes == 1 else raw


def weights(rng: np.random.Generator, n: int) -> list[Any]:
    return [None, rng.gamma(2.0, size=n).astype(np.float32)]


def test_metrics_of_amounts() -> None:
    rng = np.random.default_rng(1)
    label = rng.gamma(2.0, size=700).astype(np.float32)
    raw = scores_of(rng, label)
    raw[:4] = [-5.0, 5.0, 0.0, 1e-12]
    every: list[dict[str, Any]] = [
        {"objective": "regression", "metric": "l2,l1,rmse,mape,huber,fair,quantile,r2"},
        {"objective": "regression", "metric": ["huber", "fair", "quantile"], "alpha": 0.3, "fair_c": 2.5},
        {"objective": "regression", "metric": ["mse", "l2"]},
        {"objective": "regression", "metric": ["l1,rmse", "mape"]},
        {"objective": "poisson", "metric": "poisson,l2,rmse"},
        {"objective": "gamma", "metric": "gamma,gamma_deviance,l1"},
        {"objective": "tweedie", "metric": "tweedie,poisson"},
        {"objective": "tweedie", "metric": "tweedie", "tweedie_variance_power": 1.2},
        {"objective": "quantile", "alpha": 0.7},
        {"objective": "none", "metric": "l2"},
        *({"objective": name} for name in ("regression", "mse", "rmse", "poisson", "gamma", "tweedie")),
        *({"objective": name, "metric": ""} for name in ("regression", "root_mean_squared_error")),
        {"objective": "regression", "metric": "None"},
    ]
    for params in every:
        for weight in weights(rng, 700):
            check(params, raw, label, weight)
    amounts = {"objective": "regression", "metric": "gamma,gamma_deviance"}
    check(amounts, np.abs(raw) + 0.5, label, None)
    check(amounts, np.where(raw > 0, raw, -1.0), label, None)  # infinite


def test_metrics_of_two_classes() -> None:
    rng = np.random.default_rng(2)
    every: list[dict[str, Any]] = [
        {"objective": "binary", "metric": "binary_logloss,binary_error,auc,average_precision"},
        {"objective": "binary", "metric": ["auc", "binary"]},
        {"objective": "binary"},
        {"objective": "cross_entropy"},
        {"objective": "xentropy", "metric": "kldiv,xentropy,auc"},
        {"objective": "none", "metric": "auc,average_precision"},
    ]
    for params in every:
        label = rng.integers(0, 2, 700).astype(np.float32)
        if "entropy" in params["objective"]:
            label = np.where(rng.random(700) < 0.5, label, rng.random(700)).astype(np.float32)
        for weight in weights(rng, 700):
            check(params, scores_of(rng, label), label, weight)
    for only in (0, 1):
        label = np.full(50, only, dtype=np.float32)
        check({"objective": "none", "metric": "auc,average_precision"}, rng.normal(size=50), label, None)


def test_metrics_of_several_classes() -> None:
    rng = np.random.default_rng(4)
    label = rng.integers(0, 3, 600).astype(np.float32)
    every: list[dict[str, Any]] = [
        {"metric": "multi_logloss,multi_error,auc_mu"},
        {"metric": "multi_error", "multi_error_top_k": 2},
        {"metric": "auc_mu", "auc_mu_weights": [0, 1, 2, 1, 0, 3, 2, 4, 0]},
        {},
    ]
    for params in every:
        for weight in weights(rng, 600):
            check({"objective": "multiclass", "num_class": 3, **params}, scores_of(rng, label, 3), label, weight)


def test_a_callable_objective_has_no_metric_of_its_own() -> None:
    assert metrics_of({"objective": len}, 1) == []
    assert [metric.name for metric in metrics_of({"objective": len, "metric": "mae"}, 1)] == ["l1"]


def test_metrics_that_cannot_be() -> None:
    for params, n_classes, message in (
        ({"metric": "acuracy"}, 1, "metric='acuracy' is not a metric of LightGBM"),
        ({"metric": "multi_error"}, 1, "metric='multi_error' needs an objective with several classes"),
        ({"metric": "auc"}, 3, "metric='auc' needs an objective with one score for each row"),
        ({"metric": "auc_mu", "auc_mu_weights": [0, 1]}, 3, "auc_mu_weights must have 9 values for 3 classes, got 2"),
    ):
        with pytest.raises(ValueError, match=message):
            metrics_of(params, n_classes)
