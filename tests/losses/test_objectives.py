"""Objectives: kernels against their twins, derivatives against finite differences, models against the engines' own."""

from __future__ import annotations

import functools
import json
import math
import subprocess
import sys
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

from pucboost import objectives as module
from pucboost._kernels import losses as kernel
from pucboost._kernels import naive_losses as naive
from pucboost.objectives import (
    Gamma,
    Logistic,
    Objective,
    Poisson,
    Quantile,
    Softmax,
    SquaredError,
    Tweedie,
    objective_for,
)

Array = np.ndarray[Any, Any]

K = 4
EVERY: list[Objective] = [
    SquaredError(),
    Logistic(),
    Softmax(K),
    Softmax(3, hessian_factor=2.0),
    Poisson(),
    Gamma(),
    Tweedie(1.3),
    Tweedie(1.0),
    Quantile(0.3),
]
every_objective = pytest.mark.parametrize("objective", EVERY, ids=str)
with_and_without_weights = pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])


def some_labels(objective: Objective, rng: np.random.Generator, signal: Array) -> Array:
    """Labels the loss is made for, around a signal; rounded to float32, because that is what the engines keep."""
    n = len(signal)
    if isinstance(objective, Logistic):
        chance = 1 / (1 + np.exp(-2 * signal))
        labels = chance if objective.soft_labels else rng.uniform(size=n) < chance
    elif isinstance(objective, Softmax):
        cuts = np.linspace(-0.5, 0.5, objective.n_classes - 1)
        labels = np.digitize(signal + 0.5 * rng.normal(size=n), cuts)
    elif isinstance(objective, Poisson):
        labels = rng.poisson(np.exp(signal))
    elif isinstance(objective, Gamma):
        labels = rng.gamma(2.0, np.exp(signal) / 2)
    elif isinstance(objective, Tweedie):
        labels = rng.poisson(np.exp(signal)) * rng.gamma(2.0, size=n)
    else:
        labels = signal + rng.normal(size=n)
    return np.asarray(labels, dtype=np.float32).astype(np.float64)


def some_rows(objective: Objective, n: int, seed: int = 0) -> tuple[Array, Array, Array]:
    """Scores, labels, weights."""
    rng = np.random.default_rng(seed)
    shape = (n,) if objective.n_scores == 1 else (n, objective.n_scores)
    score = rng.normal(size=shape)
    weight = rng.uniform(0.5, 2.0, size=n).astype(np.float32).astype(np.float64)
    return score, some_labels(objective, rng, rng.normal(size=n)), weight


# ---------------------------------------------------------------------------------------------------------- kernels

SCALAR_KERNELS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    # kernel, labels, constants
    "squared_error": (naive.squared_error, st.floats(-50, 50), ()),
    "logistic": (naive.logistic, st.floats(0, 1), ()),
    "poisson": (naive.poisson, st.floats(0, 50), (st.floats(0, 2),)),
    "gamma": (naive.gamma, st.floats(0.01, 50), ()),
    "tweedie": (naive.tweedie, st.floats(0, 50), (st.floats(1.01, 1.99),)),
    "quantile": (naive.quantile, st.floats(-50, 50), (st.floats(0.01, 0.99),)),
}
weights = st.floats(0, 10)
enough = settings(max_examples=60)
# float32 holds 24 bits, so half a unit in the last place is 6e-8; the rest is room for 8-digit cancellation in float64.
as_float32 = functools.partial(np.testing.assert_allclose, rtol=2e-7, atol=1e-9)


@pytest.mark.parametrize("name", SCALAR_KERNELS)
@given(data=st.data())
@enough
def test_kernel_is_its_twin(name: str, data: Any) -> None:
    twin, labels, strategies = SCALAR_KERNELS[name]
    rows = data.draw(st.lists(st.tuples(st.floats(-8, 8), labels, weights), min_size=1, max_size=6))
    constants = [data.draw(strategy) for strategy in strategies]
    score, label, weight = (np.array(column) for column in zip(*rows, strict=True))
    if not data.draw(st.booleans()):
        weight = np.empty(0)
    gradient, hessian = np.full((2, len(rows)), np.nan, dtype=np.float32)
    middle = data.draw(st.integers(0, len(rows)))
    for lo, hi in ((0, middle), (middle, len(rows))):
        getattr(kernel, name)(score, label, weight, *constants, lo, hi, gradient, hessian)
    expected = [twin(s, y, w if weight.size else 1.0, *constants) for s, y, w in rows]
    as_float32(gradient, [g for g, _ in expected])
    as_float32(hessian, [h for _, h in expected])


@pytest.mark.parametrize("order", ["C", "F"])
@given(data=st.data())
@enough
def test_softmax_kernels_are_their_twin(order: Any, data: Any) -> None:
    n, n_classes = data.draw(st.integers(1, 5)), data.draw(st.integers(2, 5))
    numbers = st.lists(st.floats(-8, 8), min_size=n * n_classes, max_size=n * n_classes)
    score = np.array(data.draw(numbers)).reshape(n, n_classes).copy(order=order)
    label = data.draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n))
    mixed = np.exp(np.array(data.draw(numbers))).reshape(n, n_classes)
    shares = (mixed / mixed.sum(axis=1, keepdims=True)).copy(order=order)
    weight = np.array(data.draw(st.lists(weights, min_size=n, max_size=n)))
    factor = data.draw(st.floats(1, 2))
    hot = np.array([naive.one_hot(y, n_classes) for y in label])
    for fill, labels, twin_labels in (
        (kernel.softmax, np.array(label, dtype=np.float64), hot),
        (kernel.softmax_of_shares, shares, shares),
    ):
        gradient, hessian = (np.full_like(score, np.nan, dtype=np.float32) for _ in range(2))
        for lo, hi in ((0, n // 2), (n // 2, n)):
            fill(score, labels, weight, factor, lo, hi, gradient, hessian)
        rows = zip(score.tolist(), twin_labels.tolist(), weight.tolist(), strict=True)
        expected = [naive.softmax(s, y, w, factor) for s, y, w in rows]
        as_float32(gradient, [g for g, _ in expected])
        as_float32(hessian, [h for _, h in expected])


def test_far_scores_neither_overflow_nor_lose_the_gradient() -> None:
    gradient, hessian = Logistic().gradient([800.0, -800.0, 60.0, -60.0], [0.0, 1.0, 1.0, 0.0])
    tiny = np.float32(math.exp(-60))
    assert gradient.tolist() == [1.0, -1.0, -tiny, tiny]
    assert hessian.tolist() == [0.0, 0.0, tiny, tiny]
    gradient, _ = Softmax(3).gradient([[800.0, -800.0, 0.0]], [1])
    assert gradient.tolist() == [[1.0, -1.0, 0.0]]


# ---------------------------------------------------------------------------------------------------- derivatives

TRUE_HESSIAN_TIMES: dict[type[Objective], Any] = {
    # These are not the second derivative: enlarged on purpose, as in the engines.
    Poisson: lambda objective: math.exp(objective.max_delta_step),
    Softmax: lambda objective: objective.hessian_factor or objective.n_classes / (objective.n_classes - 1),
}


@every_objective
@with_and_without_weights
def test_derivatives_are_those_of_the_loss(objective: Objective, weighted: bool) -> None:
    score, label, weight = some_rows(objective, 7, seed=1)
    used = weight if weighted else None
    total = weight.sum() if weighted else len(label)

    def loss_at(place: tuple[int, ...], step: float) -> float:
        moved = score.copy()
        moved[place] += step
        return total * objective.loss(moved, label, used)

    gradient, hessian = objective.gradient(score, label, used)
    for place in np.ndindex(score.shape):
        slope = (loss_at(place, 1e-6) - loss_at(place, -1e-6)) / 2e-6
        assert gradient[place] == pytest.approx(slope, rel=1e-6, abs=1e-6)
        bend = (loss_at(place, 1e-3) - 2 * loss_at(place, 0.0) + loss_at(place, -1e-3)) / 1e-6
        if isinstance(objective, Quantile):
            # The pinball loss has no bend; 1 stands in for it.
            assert bend == pytest.approx(0.0, abs=1e-6)
            assert hessian[place] == pytest.approx(weight[place] if weighted else 1.0)
        else:
            times = TRUE_HESSIAN_TIMES.get(type(objective), lambda _: 1.0)(objective)
            assert hessian[place] == pytest.approx(times * bend, rel=1e-5, abs=1e-5)


def test_derivatives_of_shares() -> None:
    objective = Softmax(3)
    rng = np.random.default_rng(2)
    score, shares = rng.normal(size=(5, 3)), rng.dirichlet([1, 1, 1], size=5)
    gradient, _ = objective.gradient(score, shares)
    for place in np.ndindex(score.shape):
        step = np.zeros_like(score)
        step[place] = 1e-6
        slope = 5 * (objective.loss(score + step, shares) - objective.loss(score - step, shares)) / 2e-6
        assert gradient[place] == pytest.approx(slope, rel=1e-6, abs=1e-6)


@every_objective
def test_weights_multiply(objective: Objective) -> None:
    score, label, weight = some_rows(objective, 50)
    plain, weighted = objective.gradient(score, label), objective.gradient(score, label, weight)
    by_row = weight if score.ndim == 1 else weight[:, None]
    for one, other in zip(plain, weighted, strict=True):
        np.testing.assert_allclose(other, by_row * one, rtol=3e-7, atol=1e-9)
    for nothing in (np.empty(0, dtype=np.float32), np.ones(50)):
        for one, other in zip(plain, objective.gradient(score, label, nothing), strict=True):
            np.testing.assert_array_equal(one, other)


@every_objective
def test_threads_and_memory_order_do_not_matter(objective: Objective) -> None:
    score, label, weight = some_rows(objective, 10_000)
    one = objective.gradient(score, label, weight, threads=1)
    for other in (
        objective.gradient(score, label, weight, threads=3),
        objective.gradient(np.asfortranarray(score), label, weight, threads=2),
        objective.gradient(score, label.astype(np.float32), weight.astype(np.float32)),
    ):
        for a, b in zip(one, other, strict=True):
            assert b.dtype == np.float32
            np.testing.assert_array_equal(a, b)
    assert objective.gradient(np.asfortranarray(score), label)[0].flags.f_contiguous


def test_one_hot_shares_are_class_ids() -> None:
    score, label, weight = some_rows(Softmax(K), 200)
    hot = np.eye(K)[label.astype(int)]
    for a, b in zip(Softmax(K).gradient(score, label, weight), Softmax(K).gradient(score, hot, weight), strict=True):
        np.testing.assert_array_equal(a, b)
    assert Softmax(K).loss(score, hot, weight) == pytest.approx(Softmax(K).loss(score, label, weight), rel=1e-14)
    np.testing.assert_allclose(Softmax(K).initial_score(hot, weight), Softmax(K).initial_score(label, weight))


@every_objective
def test_rows_with_one_score_merge_if_linear_in_the_label(objective: Objective) -> None:
    _, label, weight = some_rows(objective, 30)
    labels = np.eye(objective.n_scores)[label.astype(int)] if isinstance(objective, Softmax) else label
    merged = np.average(labels, axis=0, weights=weight)[None]
    gaps = []
    for score in some_rows(objective, 5, seed=3)[0]:
        spread = np.broadcast_to(score, (30, *score.shape)).copy()
        gaps.append(objective.loss(spread, labels, weight) - objective.loss([score], merged))
        if objective.linear_in_label:
            apart = objective.gradient(spread, labels, weight)
            together = objective.gradient([score], merged, [weight.sum()])
            for a, b in zip(apart, together, strict=True):
                rounding = 1e-7 * np.abs(a).sum()  # of float32 terms
                np.testing.assert_allclose(a.sum(axis=0, dtype=float), b[0], rtol=1e-7, atol=rounding)
    if objective.linear_in_label:
        np.testing.assert_allclose(gaps, gaps[0], atol=1e-12)
    else:
        assert isinstance(objective, Quantile)
        assert np.ptp(gaps) > 0.01


# -------------------------------------------------------------------------------------- initial score and response


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


# ----------------------------------------------------------------------------------------- as custom objectives

LIGHTGBM: dict[str, Any] = {
    "verbosity": -1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "num_leaves": 15,
    "seed": 1,
}
XGBOOST: dict[str, Any] = {"nthread": 1, "max_depth": 4, "seed": 1, "verbosity": 0}
N, ROUNDS = 1_000, 10


def table(objective: Objective) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, 5))
    signal = 0.6 * X[:, 0] + 0.5 * np.sin(2 * X[:, 1]) + 0.3 * X[:, 2] * X[:, 3]
    return X, some_labels(objective, rng, signal), rng.uniform(0.5, 2.0, size=N).astype(np.float32)


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "regression"},
        {"objective": "binary"},
        {"objective": "cross_entropy"},  # soft labels
        {"objective": "multiclass", "num_class": 3},
        {"objective": "multiclass", "num_class": K},
        {"objective": "poisson"},
        {"objective": "poisson", "poisson_max_delta_step": 0.2},
        {"objective": "gamma"},
        {"objective": "tweedie"},
        {"objective": "tweedie", "tweedie_variance_power": 1.2},
    ],
    ids=str,
)
@with_and_without_weights
def test_lightgbm_model_is_the_built_in_one(params: dict[str, Any], weighted: bool) -> None:
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
    # Gradients are rounded to float32 from sums in a different order, 1e-8 was seen; one split that differs would be
    # visible in the second digit.
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


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "reg:squarederror"},
        {"objective": "binary:logistic"},
        {"objective": "reg:logistic"},
        {"objective": "multi:softprob", "num_class": 3},
        {"objective": "count:poisson"},
        {"objective": "count:poisson", "max_delta_step": 0.2},
        {"objective": "reg:gamma"},
        {"objective": "reg:tweedie"},
        {"objective": "reg:tweedie", "tweedie_variance_power": 1.2},
    ],
    ids=str,
)
@with_and_without_weights
def test_xgboost_model_is_the_built_in_one(params: dict[str, Any], weighted: bool) -> None:
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


# ------------------------------------------------------------------------------------------------ labels and shapes


@pytest.mark.parametrize(
    ("objective", "label", "text"),
    [
        (SquaredError(), [0, np.nan], "label is nan in row 1; objective 'regression' needs labels to be finite"),
        (SquaredError(), [np.inf], "label is inf in row 0; objective 'regression' needs labels to be finite"),
        (SquaredError(), [1e39], "label is 1e\\+39 in row 0; objective 'regression' needs labels to be finite"),
        (Quantile(), [0, 1, np.nan], "label is nan in row 2; objective 'quantile' needs labels to be finite"),
        (Logistic(), [0, 1, -0.5, 2], "label is -0.5 in row 2; objective 'binary' needs labels between 0 and 1"),
        (Logistic(soft_labels=True), [1.5], "label is 1.5 in row 0; objective 'cross_entropy' needs labels between"),
        (Softmax(3), [0, 2, 1.5], "label is 1.5 in row 2; objective 'multiclass' needs labels to be whole .* 0 to 2"),
        (Softmax(3), [0, 3], "label is 3.0 in row 1; objective 'multiclass' needs labels to be whole .* 0 to 2"),
        (Softmax(3), [-1], "label is -1.0 in row 0"),
        (Softmax(3), [np.nan], "label is nan in row 0"),
        (
            Softmax(2),
            [[0.5, 0.5], [0.5, 0.6]],
            r"label is \[0.5, 0.6\] in row 1; .* shares: not negative, and 1 in sum",
        ),
        (Softmax(2), [[1.5, -0.5]], r"label is \[1.5, -0.5\] in row 0"),
        (Softmax(2), [[np.inf, -np.inf]], r"label is \[inf, -inf\] in row 0"),
        (Softmax(2), [[0.5, 0.5, 0.0]], r"or one share for each of 2 classes; got shape \(1, 3\)"),
        (Poisson(), [3, -1], "label is -1.0 in row 1; objective 'poisson' needs labels of at least 0"),
        (Gamma(), [3, 0], "label is 0.0 in row 1; objective 'gamma' needs labels above 0"),
        (Tweedie(), [-2], "label is -2.0 in row 0; objective 'tweedie' needs labels of at least 0"),
        (Tweedie(), [[0.0, 1.0]], r"label must have one value per row, got shape \(1, 2\)"),
    ],
    ids=lambda value: None if isinstance(value, (Objective, list)) else value[:30],
)
def test_bad_labels_are_named(objective: Objective, label: list[Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        objective.check_labels(label)
    with pytest.raises(ValueError, match="The label of train_set "):
        objective.check_labels(label, name="The label of train_set")


@every_objective
def test_good_labels_pass(objective: Objective) -> None:
    objective.check_labels(some_rows(objective, 100)[1])
    objective.check_labels([])
    if isinstance(objective, Softmax):
        shares = np.random.default_rng(0).dirichlet(np.ones(objective.n_classes), size=50)
        objective.check_labels(shares.astype(np.float32))
    if isinstance(objective, (Poisson, Tweedie, Logistic)):
        objective.check_labels([0.0, 1.0])


def test_both_engines_refuse_a_gamma_label_of_0() -> None:
    # LightGBM's loss would take it, but the metric that goes with it does not.
    X, label, _ = table(Gamma())
    label[3] = 0.0
    with pytest.raises(lgb.basic.LightGBMError, match="label"):
        lgb.train({**LIGHTGBM, "objective": "gamma"}, lgb.Dataset(X, label), 1)
    with pytest.raises(xgb.core.XGBoostError, match="label must be positive"):
        xgb.train({**XGBOOST, "objective": "reg:gamma"}, xgb.DMatrix(X, label), 1)


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"score must have shape \(n, 3\) for objective 'multiclass', got \(6,\)"):
        Softmax(3).gradient(np.zeros(6), [0, 1])
    with pytest.raises(ValueError, match=r"score must have shape \(n,\) for objective 'regression', got \(2, 2\)"):
        SquaredError().gradient(np.zeros((2, 2)), [0, 1])
    with pytest.raises(ValueError, match=r"label must have one value for each of the 2 rows, got shape \(3,\)"):
        SquaredError().gradient(np.zeros(2), [0, 1, 2])
    with pytest.raises(ValueError, match=r"weight must have one value for each of the 2 rows, got shape \(3,\)"):
        SquaredError().gradient(np.zeros(2), [0, 1], [1, 1, 1])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Softmax(1), "n_classes must be at least 2, got 1"),
        (lambda: Softmax(3, 0.0), "hessian_factor must be positive, got 0.0"),
        (lambda: Poisson(-0.1), "max_delta_step must not be negative, got -0.1"),
        (lambda: Tweedie(2.0), "variance_power must be at least 1 and below 2, got 2.0"),
        (lambda: Quantile(1.0), "alpha must be between 0 and 1, got 1.0"),
    ],
)
def test_constants_are_checked(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


# ------------------------------------------------------------------------------------------------- objective_for


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, SquaredError()),
        ({"objective": None}, SquaredError()),
        ({"app": "binary"}, Logistic()),
        ({"objective": "binary", "sigmoid": 1, "scale_pos_weight": None}, Logistic()),
        ({"objective": "xentropy"}, Logistic(soft_labels=True)),
        ({"objective": "softmax", "num_classes": 5}, Softmax(5)),
        ({"objective": "poisson", "poisson_max_delta_step": 0.3}, Poisson(0.3)),
        ({"objective": "tweedie", "tweedie_variance_power": "1.2"}, Tweedie(1.2)),
        ({"objective": "quantile"}, Quantile(0.9)),
        ({"objective": "quantile", "alpha": 0.2}, Quantile(0.2)),
        ({"objective": "regression", "reg_sqrt": True}, None),
        ({"objective": "binary", "sigmoid": 2.0}, None),
        ({"objective": "binary", "scale_pos_weight": 3}, None),
        ({"objective": "binary", "unbalance": True}, None),
        ({"objective": "regression_l1"}, None),
        ({"objective": "multiclassova", "num_class": 3}, None),
        ({"objective": "none"}, None),
        ({"objective": Poisson()}, None),
    ],
)
def test_objective_for_lightgbm(params: dict[str, Any], expected: Objective | None) -> None:
    assert objective_for(params) == expected


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, SquaredError()),
        ({"objective": "reg:squarederror"}, SquaredError()),
        ({"objective": "binary:logistic"}, Logistic()),
        ({"objective": "reg:logistic"}, Logistic()),
        ({"objective": "multi:softprob", "num_class": 3}, Softmax(3, 2.0)),
        ({"objective": "multi:softmax", "num_class": 3}, Softmax(3, 2.0)),
        ({"objective": "count:poisson"}, Poisson(0.7)),
        ({"objective": "count:poisson", "max_delta_step": 0}, Poisson(0.0)),
        ({"objective": "reg:gamma"}, Gamma()),
        ({"objective": "reg:tweedie", "tweedie_variance_power": 1.7}, Tweedie(1.7)),
        ({"objective": "reg:quantileerror", "quantile_alpha": [0.3]}, Quantile(0.3)),
        ({"objective": "reg:quantileerror", "quantile_alpha": [0.3, 0.5]}, None),
        ({"objective": "reg:squarederror", "scale_pos_weight": 2}, None),
        ({"objective": "count:poisson", "scale_pos_weight": 2}, Poisson(0.7)),
        ({"objective": "binary:logitraw"}, None),
        ({"objective": "rank:ndcg"}, None),
        ({"objective": "regression"}, None),
    ],
)
def test_objective_for_xgboost(params: dict[str, Any], expected: Objective | None) -> None:
    assert objective_for(params, engine="xgboost") == expected


@pytest.mark.parametrize("alias", sorted(module._LIGHTGBM_NAMES))
def test_names_mean_what_they_mean_to_lightgbm(alias: str) -> None:
    params = {"objective": alias.upper()} | ({"num_class": 3} if alias in ("multiclass", "softmax") else {})
    objective = objective_for(params)
    assert objective is not None
    label = np.tile([0.0, 1.0, 1.0], 20) if objective.name != "gamma" else np.ones(60)
    booster = lgb.train({**LIGHTGBM, **params}, lgb.Dataset(np.arange(60.0)[:, None], label), 1)
    assert booster.dump_model()["objective"].split()[0] == objective.name


@every_objective
def test_xgboost_name_leads_back(objective: Objective) -> None:
    params = {"objective": objective.xgboost_name, "num_class": objective.n_scores, "quantile_alpha": 0.3}
    assert type(objective_for(params, engine="xgboost")) is type(objective)


def test_incomplete_parameters() -> None:
    with pytest.raises(ValueError, match="objective 'softmax' needs the parameter num_class, at least 2; got None"):
        objective_for({"objective": "softmax"})
    with pytest.raises(ValueError, match="objective 'multi:softprob' needs the parameter num_class, at least 2; got 1"):
        objective_for({"objective": "multi:softprob", "num_class": 1}, engine="xgboost")
    with pytest.raises(ValueError, match="needs the parameter quantile_alpha"):
        objective_for({"objective": "reg:quantileerror"}, engine="xgboost")
    with pytest.raises(ValueError, match="engine must be 'lightgbm' or 'xgboost', got 'catboost'"):
        objective_for({}, engine="catboost")


def test_no_engine_is_imported() -> None:
    code = "import sys, pucboost.objectives; print({'lightgbm', 'xgboost'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
