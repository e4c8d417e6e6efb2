"""Plans: allocation, budgets, weights and summaries, against bisection and loops."""

from __future__ import annotations

import math
import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
from twins import masks as naive

from pucboost._virtual.plan import (
    ENGINE_MAX_ROWS,
    MaskPlan,
    balanced_copies,
    check_copies,
    check_max_virtual_rows,
    child_seed,
    common_masks,
    default_copies,
    plan_masks,
    seed_bits,
)

AVAILABLE = np.array([0, 0, 1, 3, 7, 15, 15, 31, 31, 63] * 30, dtype=np.uint64)
SHARED = np.array([m.bit_count() for m in AVAILABLE.tolist()])
ALL = int((2**SHARED).sum())
N = len(AVAILABLE)


def tau_by_bisection(how_many: Any, budget: float) -> float:
    """The τ with Σ n_k · max(1, τ·2^k) = budget: the sum grows with τ."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        total = math.fsum(n * max(1.0, middle * 2.0**k) for k, n in enumerate(how_many))
        low, high = (middle, high) if total < budget else (low, middle)
    return (low + high) / 2


def test_allocation_by_bisection() -> None:
    tables = ([50, 40, 30, 20, 10, 5], [0, 0, 7, 0, 0, 0, 3], [9, 0, 0, 0, 0, 0, 0, 0, 1])
    for how_many, copies in product(tables, (1.0, 1.2, 2.0, 5.0, 11.0)):
        full = np.zeros(65, dtype=np.int64)
        full[: len(how_many)] = how_many
        budget = min(copies * sum(how_many), 0.999 * sum(n * 2**k for k, n in enumerate(how_many)))
        tau = tau_by_bisection(how_many, budget)
        found = balanced_copies(full, budget)
        assert len(found) == 65
        present = [k for k, n in enumerate(how_many) if n]
        np.testing.assert_allclose(found[present], [max(1.0, tau * 2.0**k) for k in present], rtol=1e-9)


def test_a_budget_of_one_copy_each_leaves_everybody_one() -> None:
    how_many = np.bincount(SHARED, minlength=65)
    assert balanced_copies(how_many, float(N))[SHARED].tolist() == [1.0] * N
    nobody_shares = np.bincount([0] * 5, minlength=65)
    assert balanced_copies(nobody_shares, 5.0).tolist() == [1.0] * 65


def test_allocation_among_64_groups() -> None:
    """Only who shares all 64 gets more than one copy; those who share 63 would get three quarters of one."""
    how_many = np.zeros(65, dtype=np.int64)
    how_many[63:] = 9, 1
    assert balanced_copies(how_many, 10.5)[63:].tolist() == [1.0, 1.5]


def test_masks_of_other_types_and_strides_are_read() -> None:
    wanted = plan_masks(AVAILABLE[::3].copy(), "balanced", copies=2)
    for given in (AVAILABLE[::3], AVAILABLE[::3].astype(np.int32), AVAILABLE[::3].tolist()):
        found = plan_masks(given, "balanced", copies=2)
        assert found.available.dtype == np.uint64
        np.testing.assert_array_equal(found.rows_and_masks(0, len(found)), wanted.rows_and_masks(0, len(wanted)))
    for scheme in ("some", None, ["none"]):
        with pytest.raises(ValueError, match="augmentation must be one of 'none', 'exhaustive'"):
            plan_masks(AVAILABLE, scheme)  # type: ignore[arg-type]


def test_copies_are_the_allocation_rounded_up_or_down() -> None:
    wanted = balanced_copies(np.bincount(SHARED, minlength=65), 2.5 * N)[SHARED]
    runs = [plan_masks(AVAILABLE, "balanced", copies=2.5, seed=seed) for seed in range(200)]
    for plan in runs:
        assert ((plan.copies == np.floor(wanted)) | (plan.copies == np.ceil(wanted))).all()
        assert len(plan) == plan.copies.sum()
        unscaled = 2.0**SHARED / plan.copies
        scale = len(plan) / (unscaled * plan.copies).sum()
        np.testing.assert_allclose(plan.copy_weight, scale * unscaled, rtol=1e-12)
    mean = np.mean([plan.copies for plan in runs], axis=0)
    error = np.sqrt((wanted - np.floor(wanted)) * (np.ceil(wanted) - wanted) / 200)
    assert (np.abs(mean - wanted) <= 4.5 * error + 1e-9).all()


def test_default_of_copies() -> None:
    assert [default_copies(n) for n in (1, 200_000, 200_001, 10**9)] == [4.0, 4.0, 2.0, 2.0]
    by_default, by_hand = (plan_masks(AVAILABLE, "balanced", copies=copies) for copies in (None, 4.0))
    np.testing.assert_array_equal(by_default.copies, by_hand.copies)


def test_who_fits_into_the_budget() -> None:
    """Up to the limit and including it nothing changes; one row less, and copies are fewer or the plan is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(plan_masks(AVAILABLE, "exhaustive", max_virtual_rows=ALL)) == ALL
        assert len(plan_masks(AVAILABLE, "balanced", copies=1000, max_virtual_rows=ALL)) == ALL
        plan_masks(AVAILABLE, "balanced", copies=2, max_virtual_rows=2 * N)
        assert len(plan_masks(AVAILABLE, "none", max_virtual_rows=N)) == N
        assert len(plan_masks(AVAILABLE, "fixed", max_virtual_rows=N)) == N
    with pytest.raises(ValueError, match=rf"makes {ALL:,} virtual rows of {N} rows"):
        plan_masks(AVAILABLE, "exhaustive", max_virtual_rows=ALL - 1)
    for scheme in ("none", "fixed", "balanced", "exhaustive"):
        with pytest.raises(ValueError, match=f"The table has {N} rows, more than max_virtual_rows = {N - 1}"):
            plan_masks(AVAILABLE, scheme, max_virtual_rows=N - 1)
    with pytest.warns(UserWarning, match=rf"copies = 1000 would make {ALL:,} virtual rows of {N} rows"):
        assert len(plan_masks(AVAILABLE, "balanced", copies=1000, max_virtual_rows=ALL - 1)) <= ALL - 1
    with pytest.warns(UserWarning, match=rf"copies = 2 would make {2 * N} virtual rows"):
        plan_masks(AVAILABLE, "balanced", copies=2, max_virtual_rows=2 * N - 1)


def test_rounding_at_random_stays_within_the_budget() -> None:
    """The total has a variance of at most N/4; five standard deviations, 2.5·√N rows, are kept free and no more."""
    limit = 2 * N
    sizes = []
    for seed in range(60):
        with pytest.warns(UserWarning, match="copies is reduced to 1.86"):  # (600 − 2.5·√300) / 300
            sizes.append(len(plan_masks(AVAILABLE, "balanced", seed=seed, max_virtual_rows=limit)))
    assert max(sizes) <= limit
    assert abs(np.mean(sizes) - (limit - 2.5 * math.sqrt(N))) < 5 * math.sqrt(N / 4 / 60)
    with pytest.warns(UserWarning, match=r"copies is reduced to 1\.$"):  # never below one
        assert len(plan_masks(AVAILABLE, "balanced", max_virtual_rows=N + 5)) == N


def test_engines_count_rows_in_32_bits() -> None:
    assert np.iinfo(np.int32).max == ENGINE_MAX_ROWS
    many = np.array([2**31 - 1], dtype=np.uint64)  # 2^31 subsets, one more than fit
    with pytest.raises(ValueError, match=r"2,147,483,648 virtual rows of 1 rows, more than max_virtual_rows = 2,147"):
        plan_masks(many, "exhaustive", max_virtual_rows=2**40)


def by_loops(plan: MaskPlan) -> list[tuple[int, int]]:
    """(row, mask) of every virtual row."""
    return [
        (row, naive.copy_mask(plan.scheme, plan.seed, row, copy, mask))
        for row, (mask, copies) in enumerate(zip(plan.available.tolist(), plan.copies.tolist(), strict=True))
        for copy in range(copies)
    ]


@pytest.mark.parametrize("scheme", ["none", "exhaustive", "fixed", "balanced"])
def test_rows_masks_weights_and_summary_by_loops(scheme: str) -> None:
    plan = plan_masks(AVAILABLE, scheme, copies=3, seed=-5)
    virtual = by_loops(plan)
    assert len(plan) == len(virtual)
    rows, masks = plan.rows_and_masks(0, len(plan))
    assert list(zip(rows.tolist(), masks.tolist(), strict=True)) == virtual
    index = np.random.default_rng(0).permutation(len(plan))[:50]
    rows, masks = plan.rows_and_masks_at(index)
    assert list(zip(rows.tolist(), masks.tolist(), strict=True)) == [virtual[v] for v in index]

    user = np.random.default_rng(1).uniform(0, 3, N)
    copy = np.ones(N) if plan.copy_weight is None else plan.copy_weight
    for given, scale in ((None, 1.0), (user, 1.0), (None, 0.25), (user, 0.25)):
        wanted = [scale * copy[row] * (1.0 if given is None else given[row]) for row, _ in virtual]
        found = plan.weights(given, scale)
        if found is None:
            assert wanted == [1.0] * len(plan)
        else:
            assert found.dtype == np.float32
            assert given is not None or scale != 1.0 or plan.copy_weight is not None  # else None: nothing is stored
            np.testing.assert_allclose(found, wanted, rtol=1e-6)

    for values in (np.arange(N), np.arange(2.0 * N).reshape(N, 2)):
        np.testing.assert_array_equal(plan.spread(values), np.array([values[row] for row, _ in virtual]))

    complete = sum(
        len([1 for row, _ in virtual if row == i]) == 2 ** int(SHARED[i]) if scheme != "fixed" else SHARED[i] == 0
        for i in range(N)
    )
    for given in (None, user):
        weight = [copy[row] * (1.0 if given is None else given[row]) for row, _ in virtual]
        summary = plan.summary(given)
        assert summary.effective_sample_size == pytest.approx(sum(weight) ** 2 / sum(w * w for w in weight))
        assert summary.complete_rows == complete
        assert (summary.augmentation, summary.seed) == (scheme, 2**64 - 5)
        assert (summary.source_rows, summary.virtual_rows) == (N, len(virtual))
    # The unit of the weights does not matter; without any weight nothing is left.
    tiny = plan.summary(1e-6 * user).effective_sample_size
    assert tiny == pytest.approx(plan.summary(user).effective_sample_size)
    assert plan.summary(np.zeros(N)).effective_sample_size == 0.0


def test_fixed_draws_by_the_number_of_subsets_up_to_64_groups() -> None:
    """Row i is drawn 2^k / Σ 2^k of N times: among 64 groups only those who share them all, or all but a few."""
    available = np.repeat(np.array([0, 2**61 - 1, 2**62 - 1, 2**64 - 1], dtype=np.uint64), 2_000)
    draws = plan_masks(available, "fixed", seed=3).copies.reshape(4, 2_000).sum(axis=1)
    chance = np.array([0.0, 1 / 8, 1 / 4, 1.0]) / (1 + 3 / 8)
    assert draws.sum() == 8_000
    assert draws[0] == 0
    error = np.sqrt(8_000 * chance * (1 - chance))
    assert (np.abs(draws - 8_000 * chance) <= 4 * error).all()


def test_seeds_and_their_children() -> None:
    assert [seed_bits(seed) for seed in (0, -1, 2**64, 2**64 + 7)] == [0, 2**64 - 1, 0, 7]
    children = [child_seed(seed, number) for seed in range(30) for number in range(30)]
    assert len(set(children)) == 900
    assert children[31] == naive.counter_hash(1, 4, 1, 0)


def test_copies_and_budgets_that_are_no_numbers_of_rows() -> None:
    values: list[Any] = [0, 0.99, -1, math.inf, math.nan, True, np.True_, "4", None, 1 + 1j]
    for value in values:
        with pytest.raises(ValueError, match="copies must be"):
            check_copies(value)
        if value is not np.True_:
            with pytest.raises(ValueError, match="max_virtual_rows must be a whole number of at least 1"):
                check_max_virtual_rows(value)
    assert [check_copies(good) for good in (1, 1.5, np.float32(2), np.int64(3))] == [1.0, 1.5, 2.0, 3.0]
    assert [check_max_virtual_rows(good) for good in (1, 2.0, np.int64(3))] == [1, 2, 3]


def test_sets_of_fewer_than_five_people_are_not_kept() -> None:
    assert common_masks(np.repeat(np.array([6, 0, 3, 1], dtype=np.uint64), [5, 4, 1, 9])) == (1, 6)
