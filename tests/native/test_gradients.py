"""Gradients in single precision against the losses in double precision, and those of callables."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from native_pools import bins_and_layout, people_table, pool_of, random_tree, virtual_table

from pucboost._engines.native.kernels.gradients import LARGEST_EXPONENT, exponential
from pucboost._engines.native.losses import CallableGradients, Filler, Picks, gradients_of
from pucboost._engines.native.pool import Pool, leaves_of
from pucboost._losses import Gamma, Logistic, Objective, Poisson, Quantile, Softmax, SquaredError, Tweedie

LOSSES = [
    SquaredError(),
    Logistic(),
    Logistic(soft_labels=True),
    Poisson(),
    Poisson(0.0),
    Gamma(),
    Tweedie(1.0),
    Tweedie(1.3),
    Quantile(0.2),
    Softmax(3),
    Softmax(4, hessian_factor=2.0),
]


def labels_for(loss: Objective, n: int, generator: Any) -> Any:
    """Return labels that the loss is defined for."""
    if isinstance(loss, Softmax):
        return generator.integers(0, loss.n_classes, n)
    if isinstance(loss, Logistic):
        return generator.random(n) if loss.soft_labels else generator.integers(0, 2, n)
    return generator.gamma(1.0, 2.0, n) + 0.1


def scored_pool(loss: Objective, *, spread: float = 2.0) -> Pool:
    """Return a pool with random scores, labels and weights."""
    generator = np.random.default_rng(8)
    n = 4000
    virtual = virtual_table(
        people_table(n),
        [3, 4, 5, 6],
        label=labels_for(loss, n, generator),
        weight=generator.uniform(0.1, 3.0, n),
        init_score=generator.normal(scale=spread, size=(n, loss.n_scores)),
    )
    return pool_of(virtual, n_scores=loss.n_scores)


def picks_of(pool: Pool) -> tuple[Any, Any]:
    """Return some pool rows and their people."""
    people = np.concatenate([np.arange(n) for n in pool.layer_n]).astype(np.uint32)
    rows = np.flatnonzero(np.random.default_rng(3).random(len(pool)) < 0.8).astype(np.uint32)
    return rows, people[rows]


def filled(filler: Filler, rows: Any, people: Any, n_scores: int, bounds: Any = None) -> Any:
    """Return gradients and hessians, each (scores per row, picks)."""
    out = np.full((2, n_scores, len(rows)), np.nan, dtype=np.float32)
    filler.begin_round()
    for k in range(n_scores):
        for lo, hi in bounds or [(0, len(rows))]:
            filler.fill(Picks(rows, people), lo, hi, k, out[0, k], out[1, k])
    return out


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_gradients_are_those_of_the_loss(loss: Objective) -> None:
    pool = scored_pool(loss)
    rows, people = picks_of(pool)
    start = np.linspace(-0.5, 1.0, loss.n_scores)
    ours = filled(gradients_of(loss, pool, start), rows, people, loss.n_scores)
    scores = (pool.scores[:, rows] + start[:, None]).T
    wanted = loss.gradient(scores[:, 0] if loss.n_scores == 1 else scores, pool.label[people], pool.weight[people])
    for found, twin in zip(ours, wanted, strict=True):
        # Single precision, with the few roundings of a formula; differences of numbers near each other lose digits.
        np.testing.assert_allclose(found, twin.reshape(len(rows), -1).T, rtol=1e-6, atol=1e-6)
    pool.scores[:, ::2] = 1e6
    pool.scores[:, 1::2] = -1e6
    assert np.isfinite(filled(gradients_of(loss, pool, start), rows, people, loss.n_scores)).all()


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_picks_in_any_pieces(loss: Objective) -> None:
    pool = scored_pool(loss)
    rows, people = picks_of(pool)
    filler = gradients_of(loss, pool, np.zeros(loss.n_scores))
    whole = filled(filler, rows, people, loss.n_scores)
    cut = len(rows) // 3
    pieces = filled(filler, rows, people, loss.n_scores, [(cut, len(rows)), (0, 1), (1, cut)])
    assert len(rows) > 1 << 13  # more than are gathered at a time
    assert np.array_equal(whole, pieces)


def test_classes_see_the_scores_from_before_the_round() -> None:
    """The trees of a round may be added one by one: a class changes its own score only."""
    loss = Softmax(3)
    pool = scored_pool(loss)
    rows, people = picks_of(pool)
    wanted = filled(gradients_of(loss, pool, np.zeros(3)), rows, people, 3)
    filler = gradients_of(loss, pool, np.zeros(3))
    out = np.empty_like(wanted)
    for k in range(3):
        filler.fill(Picks(rows, people), 0, len(rows), k, out[0, k], out[1, k])
        pool.scores[k] += 5.0
    assert np.array_equal(out, wanted)
    assert not np.array_equal(filled(filler, rows, people, 3)[0], wanted[0])


def test_a_large_constant_costs_no_precision() -> None:
    loss = SquaredError()
    pool = scored_pool(loss)
    pool.label[:] = 2.0**23 + np.arange(len(pool.label)) % 8
    pool.scores[:] = np.linspace(0, 1, len(pool))
    rows, people = picks_of(pool)
    (gradient,), _ = filled(gradients_of(loss, pool, np.array([2.0**23])), rows, people, 1)
    rest = pool.scores[0, rows] - np.arange(len(pool.label))[people] % 8
    np.testing.assert_allclose(gradient, pool.weight[people] * rest, rtol=1e-6)


def test_exponential() -> None:
    x = np.concatenate([np.linspace(-LARGEST_EXPONENT, LARGEST_EXPONENT, 4001), [0.0, 1e-8, -1e-30]]).astype(np.float32)
    found = np.array([exponential(value) for value in x])
    assert np.abs(found / np.exp(x.astype(np.float64)) - 1).max() < 2e-7
    assert exponential(np.float32(1e30)) == exponential(np.float32(LARGEST_EXPONENT))
    assert exponential(np.float32(0.0)) == 1.0


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
def test_callables_see_virtual_rows(loss: Objective) -> None:
    """The same gradients as those of the built-in loss, computed for the virtual table."""
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(500, loss.n_scores))
    virtual = virtual_table(
        people_table(500), [3, 4, 5, 6], label=labels_for(loss, 500, generator), init_score=scores, copies=5.0
    )
    pool = pool_of(virtual, n_scores=loss.n_scores)
    start = np.arange(loss.n_scores) / 4

    def gradient(raw: Any, flat: bool) -> Any:
        assert raw.dtype == np.float64
        first = virtual.init_score()
        assert first is not None
        np.testing.assert_allclose(raw.reshape(len(virtual), -1), first + start, rtol=1e-6, atol=1e-6)
        found = loss.gradient(raw, virtual.label())
        return [part.ravel(order="F") for part in found] if flat else found

    rows, people = picks_of(pool)
    wanted = filled(gradients_of(loss, pool, start), rows, people, loss.n_scores)
    for flat in (False, True):
        filler = CallableGradients(pool, start, partial(gradient, flat=flat), virtual.copy_weight())
        ours = filled(filler, rows, people, loss.n_scores)
        np.testing.assert_allclose(ours, wanted, rtol=2e-6, atol=1e-6)


def test_only_quantiles_renew_their_leaves() -> None:
    generator = np.random.default_rng(4)
    virtual = virtual_table(
        people_table(600),
        [3, 4, 5, 6],
        label=generator.normal(size=600),
        weight=generator.integers(0, 4, 600),
        init_score=generator.normal(size=600),
    )
    _, layout = bins_and_layout(virtual)
    pool = pool_of(virtual)
    rows, people = picks_of(pool)
    tree, start = random_tree(12, len(pool.codes), 3), np.array([0.25])
    assert gradients_of(SquaredError(), pool, start).renewed(tree, layout, Picks(rows, people), np.zeros(12)) is None

    alpha = 0.3
    old = np.full(12, math.pi)
    found = gradients_of(Quantile(alpha), pool, start).renewed(tree, layout, Picks(rows, people), old)
    assert found is not None
    leaf = leaves_of(pool, layout, tree, rows, people)
    rest = pool.label[people] - 0.25 - pool.scores[0, rows]
    weight = pool.weight[people].astype(np.float64)
    assert not np.isin(np.arange(12), leaf).all()  # some leaf is empty, and keeps its value
    for k, value in enumerate(found):
        here = leaf == k
        if not weight[here].any():
            assert value == math.pi
            continue
        below, total = weight[here & (rest < value - 1e-6)].sum(), weight[here].sum()
        up_to = weight[here & (rest < value + 1e-6)].sum()
        assert below < alpha * total <= up_to
