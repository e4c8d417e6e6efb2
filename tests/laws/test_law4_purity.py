"""Law 4: a masked row is a pure function of (seed, row, copy); order, pieces and threads do not matter."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from engine_kits import OPTIONAL, EngineKit, every_engine
from hypothesis import given, settings
from hypothesis import strategies as st
from tools import make_table

import pucboost as puc
from pucboost._consent import Consent
from pucboost._tables.sources import row_source
from pucboost._virtual.plan import plan_masks
from pucboost._virtual.rows import MaskedRows

SCHEMES = ["balanced", "exhaustive", "fixed", "none"]


def virtual_table(augmentation: str, n: int = 400, threads: int = 1, seed: int = 5, order: Any = "C") -> MaskedRows:
    X, _ = make_table(n, n_optional=5)
    consent = Consent.declare([3, 4, 5, 6, 7], [f"c{j}" for j in range(8)])
    plan = plan_masks(consent.availability(X), augmentation, copies=3.3, seed=seed)
    return MaskedRows(row_source(np.asarray(X, order=order)), consent, plan, num_threads=threads)


@pytest.mark.parametrize("augmentation", SCHEMES)
@given(data=st.data())
@settings(max_examples=25)
def test_any_piece_in_any_order(augmentation: str, data: Any) -> None:
    rows = virtual_table(augmentation, 60)
    whole = rows[:]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    pieces = [rows[lo:hi] for lo, hi in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    index = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=20))
    np.testing.assert_array_equal(rows[index], whole[index])
    np.testing.assert_array_equal(rows[index[0]], whole[index[0]])
    np.testing.assert_array_equal(rows[index[0] - len(rows)], whole[index[0]])


@pytest.mark.parametrize("augmentation", SCHEMES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_threads_batches_and_repetition_do_not_matter(augmentation: str, order: str) -> None:
    one, several = (virtual_table(augmentation, 6_000, threads, order=order) for threads in (1, 3))
    whole = one[:]
    np.testing.assert_array_equal(several[:], whole)
    for batch_rows in (1_000, 7_777):
        batches = [batch.copy() for _, batch in several.batches(batch_rows)]
        np.testing.assert_array_equal(np.concatenate(batches), whole)
    np.testing.assert_array_equal(several.materialise(), whole)


def test_concurrent_readers() -> None:
    rows = virtual_table("balanced", 6_000, threads=2)
    whole = rows[:]
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: rows[:], range(8)):
            np.testing.assert_array_equal(got, whole)


def test_slices_are_fresh_arrays() -> None:
    rows = virtual_table("exhaustive", 50)
    first, second = rows[0], rows[1]
    before = first.copy()
    second[:] = 0
    rows[0:10][:] = 0
    np.testing.assert_array_equal(first, before)
    np.testing.assert_array_equal(rows[0], before)


def test_index_out_of_range() -> None:
    rows = virtual_table("none", 10)
    with pytest.raises(IndexError, match="virtual row 10 is out of range"):
        rows[10]


def test_other_seeds_give_other_masks() -> None:
    tables = [virtual_table("balanced", 400, seed=seed)[:] for seed in (0, 1, 2**63, -1)]
    for i, a in enumerate(tables):
        for b in tables[:i]:
            assert a.shape != b.shape or not np.array_equal(a, b, equal_nan=True)


@every_engine
def test_identical_calls_give_identical_models(kit: EngineKit) -> None:
    X, y = make_table(1_000)
    trees = []
    for params in ({}, {"seed": 1}, {"seed": 3}):
        first, again = (kit.fit(X, y, 8, **params) for _ in range(2))
        assert kit.model(first) == kit.model(again)
        trees.append(kit.trees(first))
        assert kit.trees(kit.fit(X, y, 8, **params, **{kit.threads: 1})) == trees[-1]
    assert all(a != b for a, b in itertools.combinations(trees, 2))


@every_engine
@pytest.mark.parametrize("params", [{}, {"seed": 5}])
def test_identical_calls_continue_a_model_identically(kit: EngineKit, params: dict[str, Any]) -> None:
    """Rows are sampled, by the seed: what another training drew in between must not matter."""
    X, y = make_table(1_000)
    first = kit.fit(X, y, 4, **params)
    given = {**kit.params, "optional": OPTIONAL, **params}
    one = puc.train(given, puc.Dataset(X, y), 4, init_model=first)
    kit.fit(X, y, 3, seed=99)
    two = puc.train(given, puc.Dataset(X, y), 4, init_model=first)
    assert kit.model(one) == kit.model(two)
    other = puc.train({**given, "seed": 98}, puc.Dataset(X, y), 4, init_model=first)
    assert kit.trees(one) != kit.trees(other)


def test_plan_does_not_repeat_the_random_numbers_of_the_data() -> None:
    """Data are often made with default_rng(seed), and the model trained with the same seed: who is drawn must not
    depend on it. (It did, when the draws were seeded with the user's number.)"""
    n = 20_000
    for seed in range(4):
        latent = np.random.default_rng(seed).random(n)
        plan = plan_masks(np.full(n, 3, dtype=np.uint64), "fixed", seed=seed)
        low, high = plan.copies[latent < 0.5].mean(), plan.copies[latent >= 0.5].mean()
        assert abs(low - high) < 5 * np.sqrt(4 / n)
