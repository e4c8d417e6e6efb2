"""Gradients and hessians: kernels against their twins, derivatives against finite differences."""

from __future__ import annotations

import functools
import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_tools import EVERY, K, some_rows
from twins import losses as naive

from pucboost._kernels import losses as kernel
from pucboost.objectives import Logistic, Objective, Poisson, Quantile, Softmax

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


TRUE_HESSIAN_TIMES: dict[type[Objective], Any] = {
    # These are not the second derivative: enlarged on purpose, as in the engines.
    Poisson: lambda objective: math.exp(objective.max_delta_step),
    Softmax: lambda objective: objective.hessian_factor or objective.n_classes / (objective.n_classes - 1),
}


def test_derivatives_are_those_of_the_loss() -> None:
    for objective, weighted in product(EVERY, (False, True)):
        score, label, weight = some_rows(objective, 7, seed=1)
        used = weight if weighted else None
        total = weight.sum() if weighted else len(label)

        gradient, hessian = objective.gradient(score, label, used)
        for place in np.ndindex(score.shape):
            step = np.zeros_like(score)
            step[place] = 1.0
            losses = {h: total * objective.loss(score + h * step, label, used) for h in (-1e-3, -1e-6, 0.0, 1e-6, 1e-3)}
            slope = (losses[1e-6] - losses[-1e-6]) / 2e-6
            assert gradient[place] == pytest.approx(slope, rel=1e-6, abs=1e-6)
            bend = (losses[1e-3] - 2 * losses[0.0] + losses[-1e-3]) / 1e-6
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


def test_weights_multiply() -> None:
    for objective in EVERY:
        score, label, weight = some_rows(objective, 50)
        plain, weighted = objective.gradient(score, label), objective.gradient(score, label, weight)
        by_row = weight if score.ndim == 1 else weight[:, None]
        for one, other in zip(plain, weighted, strict=True):
            np.testing.assert_allclose(other, by_row * one, rtol=3e-7, atol=1e-9)
        for nothing in (np.empty(0, dtype=np.float32), np.ones(50)):
            for one, other in zip(plain, objective.gradient(score, label, nothing), strict=True):
                np.testing.assert_array_equal(one, other)


def test_threads_and_memory_order_do_not_matter() -> None:
    for objective in EVERY:
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


def test_rows_with_one_score_merge_if_linear_in_the_label() -> None:
    for objective in EVERY:
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
