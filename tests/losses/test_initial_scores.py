"""The best constant of each loss, and the way back from scores to responses."""

from __future__ import annotations

import math
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from loss_tools import (
    EVERY,
    LIGHTGBM,
    Array,
    K,
    every_objective,
    some_rows,
    with_and_without_weights,
)

from pucboost.objectives import Gamma, Logistic, Objective, Poisson, Quantile, Softmax, Tweedie, objective_for


@every_objective
@with_and_without_weights
def test_initial_score_minimises_the_loss(objective: Objective, weighted: bool) -> None:
    _, label, weight = some_rows(objective, 301)
    used = weight if weighted else None
    best = np.asarray(objective.initial_score(label, used))

    def loss_at(constant: Array) -> float:
        return objective.loss(np.broadcast_to(constant, (301, *best.shape)), label, used)

    for place in np.ndindex(best.shape):
        for step in (-0.1, -1e-3, 1e-3, 0.1):
            moved = best.copy()
            moved[place] += step
            assert loss_at(moved) > loss_at(best)


def constant_model(params: dict[str, Any], label: Array, weight: Array | None) -> Array:
    """What LightGBM predicts when it may not split: its own initial score."""
    params = {**LIGHTGBM, **params, "min_data_in_leaf": len(label)}
    feature = np.arange(len(label), dtype=np.float64)[:, None]
    booster = lgb.train(params, lgb.Dataset(feature, label, weight=weight), 1)
    return np.asarray(booster.predict(feature[:1], raw_score=True)[0])


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "regression"},
        {"objective": "binary"},
        {"objective": "cross_entropy"},
        {"objective": "multiclass", "num_class": K},
        {"objective": "poisson"},
        {"objective": "gamma"},
        {"objective": "tweedie"},
    ],
    ids=lambda params: params["objective"],
)
@with_and_without_weights
def test_initial_score_is_lightgbms(params: dict[str, Any], weighted: bool) -> None:
    objective = objective_for(params)
    assert objective is not None
    _, label, weight = some_rows(objective, 500)
    used = weight if weighted else None
    # LightGBM multiplies label and weight in float32 before it adds them up.
    np.testing.assert_allclose(
        objective.initial_score(label, used), constant_model(params, label, used), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_one_class_only(value: float) -> None:
    label = np.full(50, value)
    assert Logistic().initial_score(label) == pytest.approx(float(constant_model({"objective": "binary"}, label, None)))
    ours = Softmax(3).initial_score(label)
    np.testing.assert_allclose(ours, constant_model({"objective": "multiclass", "num_class": 3}, label, None))


@pytest.mark.parametrize("alpha", [0.1, 0.37, 0.9])
@with_and_without_weights
def test_quantile_initial_score_is_no_worse_than_lightgbms(alpha: float, weighted: bool) -> None:
    objective = Quantile(alpha)
    _, label, weight = some_rows(objective, 103)
    used = weight if weighted else None
    theirs = float(constant_model({"objective": "quantile", "alpha": alpha}, label, used))
    ours = objective.initial_score(label, used)
    # LightGBM interpolates: at most one label away from the minimum.
    assert abs(np.searchsorted(np.sort(label), theirs) - np.searchsorted(np.sort(label), ours)) <= 1
    assert objective.loss(np.full(103, ours), label, used) <= objective.loss(np.full(103, theirs), label, used) + 1e-12


@every_objective
def test_initial_score_needs_rows_and_weight(objective: Objective) -> None:
    _, label, _ = some_rows(objective, 3)
    with pytest.raises(ValueError, match="no row"):
        objective.initial_score([])
    with pytest.raises(ValueError, match="All weights are 0"):
        objective.initial_score(label, [0.0, 0.0, 0.0])


def test_log_links_need_a_positive_mean() -> None:
    for objective in (Poisson(), Gamma(), Tweedie()):
        with pytest.raises(ValueError, match=f"'{objective.name}' needs a positive mean label, got 0.0"):
            objective.initial_score([0.0, 0.0])


def test_response_inverts_the_initial_score() -> None:
    for objective in EVERY:
        _, label, weight = some_rows(objective, 100)
        got = objective.response(objective.initial_score(label, weight))
        if isinstance(objective, Softmax):
            hot = np.eye(objective.n_classes)[label.astype(int)]
            np.testing.assert_allclose(got, np.average(hot, axis=0, weights=weight))
        elif not isinstance(objective, Quantile):
            assert got == pytest.approx(np.average(label, weights=weight))
    assert Poisson().response([1000.0]).tolist() == [math.inf]
    assert Logistic().response([-1000.0, 0.0, 1000.0]).tolist() == [0.0, 0.5, 1.0]


@every_objective
def test_link_is_the_way_back(objective: Objective) -> None:
    scores, _, _ = some_rows(objective, 50)
    response = objective.response(scores)
    objective.check_predictions(response)
    np.testing.assert_allclose(objective.response(objective.link(response)), response, rtol=1e-12)
    if objective.n_scores == 1:  # a softmax does not change if all its scores move
        np.testing.assert_allclose(objective.link(response), scores, rtol=1e-6, atol=1e-9)


def test_predictions_without_a_score() -> None:
    with pytest.raises(
        ValueError, match=r"premium is 0\.0 in row 1 \(2 such rows\); objective 'poisson' adds to their log"
    ):
        Poisson().check_predictions([1.0, 0.0, -2.0], "premium")
    with pytest.raises(
        ValueError, match="'binary' adds to their log-odds, which needs predictions above 0 and below 1"
    ):
        Logistic().check_predictions([0.5, 1.0])
    with pytest.raises(ValueError, match=r"prediction is \[0\.5, 0\.6, 0\.1\] in row 0 .* that add up to 1"):
        Softmax(3).check_predictions([[0.5, 0.6, 0.1]])
    with pytest.raises(ValueError, match=r"prediction is inf in row 0 .* adds to predictions themselves"):
        Quantile(0.5).check_predictions([np.inf])
    with pytest.raises(ValueError, match=r"must have shape \(2, 3\) for objective 'multiclass', got \(2,\)"):
        Softmax(3).check_predictions([0.5, 0.5])
