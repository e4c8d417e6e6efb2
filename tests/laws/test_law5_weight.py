"""Law 5: the expected total weight given to the virtual row (i, s) does not depend on i."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import reference
from engine_kits import OPTIONAL, EngineKit, every_engine
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tools import make_table
from twins import masks as naive

import pucboost as puc
from pucboost._virtual.plan import MaskPlan, balanced_copies, plan_masks


def masks_of_every_size(r: int, repeat: int) -> Any:
    return np.repeat(np.arange(2**r, dtype=np.uint64), repeat)


def weight_by_row_and_mask(plan: MaskPlan) -> dict[tuple[int, int], float]:
    rows, masks = plan.rows_and_masks(0, len(plan))
    weight = plan.weights()
    total: Counter[tuple[int, int]] = Counter()
    for v, pair in enumerate(zip(rows.tolist(), masks.tolist(), strict=True)):
        total[pair] += 1.0 if weight is None else float(weight[v])
    return dict(total)


@pytest.mark.parametrize("r", range(7))
def test_exhaustive_gives_every_virtual_row_the_same_weight(r: int) -> None:
    available = masks_of_every_size(r, 2)
    total = weight_by_row_and_mask(plan_masks(available, "exhaustive"))
    expected = {
        (i, naive.submask(j, mask)) for i, mask in enumerate(available.tolist()) for j in range(2 ** mask.bit_count())
    }
    assert total.keys() == expected
    assert set(total.values()) == {1.0}


@pytest.mark.parametrize("copies", [1, 1.7, 2, 3, 5.5])
@pytest.mark.parametrize("r", [2, 4, 6])
def test_balanced_exactly_over_all_outcomes(r: int, copies: float) -> None:
    """Count over the whole sample space: every offset, orientation and rounding has its known probability.

    A row's masks depend on the seed through (offset mod half, multiplier mod half, the coins). Over all offsets and
    both coins each position of the order takes every sub-mask equally often, so P(s in the plan | c) = c / 2^k exactly.
    """
    mask = 2**r - 1
    half = 2 ** (r - 1)
    for multiplier in range(1, half + 1, 2):
        for copy in range(6):
            seen = Counter(
                mask ^ first if (coin ^ copy) & 1 else first
                for offset in range(half)
                for coin in (0, 1)
                for first in [naive.submask((multiplier * (copy // 2) + offset) % half, mask)]
            )
            assert set(seen) == set(range(2**r))
            assert set(seen.values()) == {1}
    # … and weight 2^k / c makes the expected weight of (i, s) one number for all i and s.
    plan = plan_masks(masks_of_every_size(r, 50), "balanced", copies=copies, seed=1)
    if plan.scheme == "balanced":
        k = np.array([m.bit_count() for m in plan.available.tolist()])
        per_virtual_row = plan.copy_weight * plan.copies / 2.0**k  # E[weight of (i, s) | c_i]
        np.testing.assert_allclose(per_virtual_row, per_virtual_row[0], rtol=1e-12)


@pytest.mark.parametrize("augmentation", ["balanced", "fixed"])
@pytest.mark.parametrize("r", [3, 6])
def test_weight_law_by_counting_over_seeds(augmentation: str, r: int) -> None:
    """Average the weight of each (i, s) over many seeds: one number for all of them, up to sampling noise."""
    available = masks_of_every_size(r, 1)
    n_seeds = 3_000
    total: Counter[tuple[int, int]] = Counter()
    squares: Counter[tuple[int, int]] = Counter()
    for seed in range(n_seeds):
        plan = plan_masks(available, augmentation, copies=2, seed=seed)
        # Undo the normalisation, which differs between seeds: the weight of a copy is 2^k / c_i (or 1).
        unit = 1.0 if plan.copy_weight is None else float(plan.copy_weight[0] / (2.0**0 / plan.copies[0]))
        for pair, weight in weight_by_row_and_mask(plan).items():
            total[pair] += weight / unit
            squares[pair] += (weight / unit) ** 2
    pairs = [(i, s) for i, a in enumerate(available.tolist()) for s in range(2**r) if s & a == s]
    mean = np.array([total[p] / n_seeds for p in pairs])
    error = np.sqrt([max(squares[p] / n_seeds - (total[p] / n_seeds) ** 2, 0) / n_seeds for p in pairs])
    expected = 1.0 if augmentation == "balanced" else len(available) / 3.0**r  # N draws over Σ 2^k = 3^r virtual rows
    z = (mean - expected) / np.where(error > 0, error, 1e-9)
    moving = error > 0
    np.testing.assert_allclose(mean[~moving], expected, rtol=1e-6)
    assert np.abs(z[moving]).max() < stats.norm.isf(0.0005 / moving.sum())
    if r == 6:  # with this many cells the noise must also be as large as it claims, or the test above means nothing
        assert np.abs(np.mean(z[moving] ** 2) - 1) < 0.3


@pytest.mark.parametrize("r", [12, 40, 64])
def test_many_groups_by_a_statistical_test(r: int) -> None:
    """Beyond enumeration: every group is kept half of the time and pairs of groups are uncorrelated."""
    n = 20_000
    available = np.full(n, 2**r - 1, dtype=np.uint64)
    for augmentation in ("balanced", "fixed"):
        plan = plan_masks(available, augmentation, copies=1, seed=9)
        _, masks = plan.rows_and_masks(0, len(plan))
        bits = (masks[:, None] >> np.arange(r, dtype=np.uint64)) & np.uint64(1)
        kept = bits.sum(axis=0)
        assert (
            stats.chisquare(np.column_stack([kept, n - kept]).ravel(), np.full(2 * r, n / 2), ddof=r - 1).pvalue > 1e-4
        )
        correlation = np.corrcoef(bits.T.astype(float))[np.triu_indices(r, 1)]
        assert np.abs(correlation).max() * np.sqrt(n) < stats.norm.isf(0.0005 / len(correlation))


@given(
    st.lists(st.integers(0, 2**10 - 1), min_size=1, max_size=60),
    st.floats(1, 40),
    st.integers(-(2**70), 2**70),
)
@settings(max_examples=100)
def test_balanced_copies_are_distinct_antithetic_and_within_bounds(masks: list[int], copies: float, seed: int) -> None:
    available = np.array(masks, dtype=np.uint64)
    plan = plan_masks(available, "balanced", copies=copies, seed=seed)
    rows, sub = plan.rows_and_masks(0, len(plan))
    k = np.array([m.bit_count() for m in masks])
    assert (plan.copies >= 1).all()
    assert (plan.copies <= 2.0**k).all()
    assert (sub & ~available[rows] == 0).all()
    for i, mask in enumerate(masks):
        mine = sub[rows == i].tolist()
        assert len(set(mine)) == len(mine)
        if plan.scheme == "balanced":
            assert all(a ^ b == mask for a, b in zip(mine[::2], mine[1::2], strict=False) if mask)
    weight = plan.weights()
    if weight is not None:
        assert float(weight.astype(float).mean()) == pytest.approx(1.0, rel=1e-5)


@given(st.lists(st.integers(0, 1_000), min_size=65, max_size=65), st.floats(0, 1))
@settings(max_examples=200)
def test_allocation_meets_the_budget(how_many: list[int], where: float) -> None:
    count = np.array(how_many)
    n, everything = count.sum(), float((count * 2.0 ** np.arange(65)).sum())
    if n == 0:
        return
    budget = n + where * (min(everything, 1000.0 * n) - n)
    expected = balanced_copies(count, budget)
    assert (expected >= 1).all()
    assert (expected <= 2.0 ** np.arange(65) * (1 + 1e-9)).all()
    assert float(count @ expected) == pytest.approx(budget, rel=1e-9)
    above = expected > 1
    if above.any():  # proportional to 2^k above the minimum
        ratio = expected[above] / 2.0 ** np.arange(65)[above]
        np.testing.assert_allclose(ratio, ratio[0])


def test_budget_that_covers_everything_is_exhaustive() -> None:
    X, y = make_table(300)
    first = puc.augment(X, y, optional=[3, 4, 5], augmentation="balanced", copies=8)
    second = puc.augment(X, y, optional=[3, 4, 5], augmentation="exhaustive")
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    available = masks_of_every_size(4, 3)
    plan = plan_masks(available, "balanced", copies=3**4 / 2**4)  # just enough
    assert plan.scheme == "exhaustive"
    assert len(plan) == 3 * 3**4


def test_exhaustive_is_the_papers_definition() -> None:
    X, y = make_table(80, n_optional=4, seed=2)
    y = np.arange(80.0)
    groups = [[3], [4, 5], [6]]
    X_aug, y_aug, weight, source = puc.augment(
        X, y, optional={"a": [3], "b": [4, 5], "c": [6]}, augmentation="exhaustive"
    )
    ours = Counter((str(row.tolist()), label, int(i)) for row, label, i in zip(X_aug, y_aug, source, strict=True))
    paper = Counter((str(row), label, i) for row, label, i in reference.exhaustive(X, y, groups))
    assert ours == paper
    assert (weight == 1).all()


def test_fixed_is_the_papers_definition_in_distribution() -> None:
    """Compare the frequencies of (row, mask) over many runs with the paper's two-step sampling."""
    X, y = make_table(6, n_base=1, n_optional=3, seed=4)
    groups = [[1], [2], [3]]

    def cell(row: Any, i: int) -> tuple[int, tuple[bool, ...]]:
        return i, tuple(np.isnan(np.asarray(row, dtype=float))[1:].tolist())

    ours: Counter[Any] = Counter()
    paper: Counter[Any] = Counter()
    for seed in range(1_500):
        X_aug, _, weight, source = puc.augment(X, y, optional=[1, 2, 3], augmentation="fixed", seed=seed)
        assert len(X_aug) == 6
        assert (weight == 1).all()
        ours.update(cell(row, int(i)) for row, i in zip(X_aug, source, strict=True))
        paper.update(cell(row, i) for row, _, i in reference.fixed_size(X, y, groups, 6, seed))
    cells = sorted(ours.keys() | paper.keys())
    table = np.array([[ours[c], paper[c]] for c in cells])
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_user_weights_multiply() -> None:
    X, y = make_table(200)
    user = np.linspace(0, 3, 200)
    for augmentation in ("balanced", "exhaustive", "fixed", "none"):
        _, _, plain, source = puc.augment(X, y, optional=[3, 4, 5], augmentation=augmentation, copies=2)
        _, _, both, _ = puc.augment(X, y, optional=[3, 4, 5], augmentation=augmentation, copies=2, sample_weight=user)
        np.testing.assert_allclose(both, plain * user[source], rtol=1e-6)


@every_engine
def test_weights_reach_the_engine(kit: EngineKit) -> None:
    """On one leaf the model is the weighted mean of the virtual labels: the weight law, seen from the other end."""
    X, y = make_table(4_000)
    _, y_aug, weight, _ = puc.augment(X, y, optional=OPTIONAL, copies=2)
    expected = np.average(y_aug, weights=weight)
    booster = kit.fit(X, y, 1, objective=kit.objectives["l2"], copies=2, **kit.one_leaf)
    assert float(kit.predict(booster, X[:1])[0]) == pytest.approx(expected, abs=2e-3)
    assert abs(expected - y.mean()) > 0.01


def test_weights_neither_overflow_nor_vanish_with_64_groups() -> None:
    available = np.array([0, 1, 2**64 - 1, 2**63, 2**32 - 1] * 100, dtype=np.uint64)
    plan = plan_masks(available, "balanced", copies=4)
    weight = plan.weights()
    assert weight is not None
    assert np.isfinite(weight).all()
    assert (weight > 0).all()
    assert float(weight.astype(float).mean()) == pytest.approx(1.0, rel=1e-5)
    kish = float(weight.astype(float).sum()) ** 2 / float((weight.astype(float) ** 2).sum())
    assert plan.summary().effective_sample_size == pytest.approx(kish, rel=1e-5)
