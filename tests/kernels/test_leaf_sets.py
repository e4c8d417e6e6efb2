"""Leaves as sets of bits, against trees that are walked."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from forest_tools import ODD, odd_table, random_forest, random_tree, walked
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import trees as naive_trees

from pucboost._kernels import compiling as threads
from pucboost._kernels import leaf_sets as kernel
from pucboost._prediction import leaf_sets
from pucboost._prediction.leaf_sets import LeafSets

GROUPS = np.array([-1, 0, 1, 1, 2, -1])


@given(st.integers(0, 2**32), st.lists(st.integers(1, 40), min_size=1, max_size=5), st.booleans())
def test_leaves_are_numbered_from_the_left(seed: int, sizes: list[int], chain: bool) -> None:
    rng = np.random.default_rng(seed)
    shapes = [random_tree(rng, n, chain) for n in sizes]
    starts = np.cumsum([0, *(len(left) for left, _ in shapes)])
    left, right = (np.concatenate([shape[side] for shape in shapes]) for side in (0, 1))
    first, middle, count = np.full(starts[-1], -1), np.zeros(starts[-1], dtype=int), np.zeros(len(sizes), dtype=int)
    for lo, hi in ((0, 1), (1, len(sizes))):
        kernel.order_leaves(left, right, starts, lo, hi, first, middle, count)
    assert count.tolist() == sizes
    for start, (children, others) in zip(starts, shapes, strict=False):
        order = naive_trees.leaves_from_left(children, others)
        for node, child in enumerate(children):
            below = naive_trees.leaves_from_left(children, others, node)
            assert first[start + node] == order.index(below[0])
            if child >= 0:
                assert middle[start + node] == order.index(
                    naive_trees.leaves_from_left(children, others, others[node])[0]
                )


def test_what_is_reached_twice_is_no_tree() -> None:
    for node, child in ((0, 0), (1, 0), (2, 1)):  # its own parent, a circle, two parents
        left, right = np.array([1, 3, -1, -1, -1]), np.array([2, 4, -1, -1, -1])
        left[node], right[node] = child, 3
        first, middle, count = np.full(5, -1), np.zeros(5, dtype=int), np.zeros(1, dtype=int)
        kernel.order_leaves(left, right, np.array([0, 5]), 0, 1, first, middle, count)
        assert count[0] == -1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("zero", [0.0, float(np.float32(1e-35))])
@given(values=st.lists(st.one_of(st.floats(), st.sampled_from(ODD)), min_size=1, max_size=20))
def test_values_are_read(dtype: Any, zero: float, values: list[float]) -> None:
    with np.errstate(over="ignore", under="ignore"):
        numbers = np.array(values).astype(dtype)
    block = np.column_stack([np.zeros(len(values)), values])
    out = np.empty((5, len(values)), dtype=dtype)
    readings = np.arange(5, dtype=np.uint8)
    with np.errstate(over="ignore", under="ignore"):
        for lo, hi in ((0, len(values) // 2), (len(values) // 2, len(values))):
            kernel.read_values(block, np.ones(5, dtype=np.int64), readings, zero, lo, hi, out)
    for reading in range(5):
        np.testing.assert_array_equal(out[reading], [naive_trees.read(float(x), reading, zero) for x in numbers])


@given(
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=30),
    st.lists(st.lists(st.integers(0, 63), unique=True, max_size=6), min_size=1, max_size=4),
)
def test_masks_that_agree_on_the_groups_of_a_plane_share_a_slot(masks: list[int], planes: list[list[int]]) -> None:
    groups = np.concatenate([[-1, *sorted(plane)] for plane in planes])
    starts = np.cumsum([0, *(1 + len(plane) for plane in planes)])
    step_start = np.arange(len(planes) + 1) * 6 * len(masks)
    steps = np.empty(step_start[-1], dtype=np.uint8)
    n_slots, slot = np.empty(len(planes), dtype=np.int64), np.empty((len(planes), len(masks)), dtype=np.int64)
    words = np.array(masks, dtype=np.uint64)
    kernel.plan_subsets(words, starts, groups, step_start, 0, len(planes), steps, n_slots, slot)
    for plane, members in enumerate(planes):
        wanted = naive_trees.slots(masks, members)
        assert n_slots[plane] == len(set(wanted))
        assert len(set(zip(slot[plane].tolist(), wanted, strict=True))) == len(set(wanted)) == len(set(slot[plane]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.sampled_from([1, 2, 3, 8, 31, 63, 64, 65, 128, 129, 200]), min_size=1, max_size=4),
    n_outputs=st.integers(1, 3),
    masks=st.lists(st.integers(0, 7), min_size=1, max_size=8),
    chain=st.booleans(),
)
@settings(max_examples=40)
def test_scores_are_those_of_walked_trees(
    dtype: Any, seed: int, sizes: list[int], n_outputs: int, masks: list[int], chain: bool
) -> None:
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, sizes, n_outputs=n_outputs, dtype=dtype, chain=chain)
    table = odd_table(rng, 7, 6)
    found = LeafSets(forest, GROUPS, 1).raw(table, np.array(masks, dtype=np.uint64))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, walked(forest, table, GROUPS, masks))


def test_neither_threads_nor_blocks_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    forest = random_forest(rng, [31, 100, 8, 1, 65] * 3, n_outputs=2)
    table, masks = odd_table(rng, 700, 6), np.array([0, 7, 2, 5, 5, 1], dtype=np.uint64)
    wanted = LeafSets(forest, GROUPS, 1).raw(table, masks)
    np.testing.assert_array_equal(wanted[:9], walked(forest, table[:9], GROUPS, masks))
    monkeypatch.setattr(threads, "MIN_ITEMS_PER_THREAD", 1)
    for n_threads in (2, 3):
        np.testing.assert_array_equal(LeafSets(forest, GROUPS, n_threads).raw(table, masks), wanted)
    for at_a_time, cells in ((1, 16_384), (4, 100), (128, 1)):
        monkeypatch.setattr(leaf_sets, "MASKS_AT_A_TIME", at_a_time)
        monkeypatch.setattr(leaf_sets, "CELLS_PER_BLOCK", cells)
        np.testing.assert_array_equal(LeafSets(forest, GROUPS, 2).raw(table, masks), wanted)
    np.testing.assert_array_equal(LeafSets(forest, GROUPS, 2).raw(np.asfortranarray(table), masks), wanted)


def test_sixty_four_groups() -> None:
    rng = np.random.default_rng(1)
    forest = random_forest(rng, [40, 64, 90], n_columns=66)
    groups = np.concatenate([[-1], np.arange(64), [63]])
    table = odd_table(rng, 6, 66)
    masks = np.array(
        [0, 2**64 - 1, *rng.integers(0, 2**63, 20), 1 << 63, *(1 << g for g in range(0, 64, 7))], dtype=np.uint64
    )
    np.testing.assert_array_equal(LeafSets(forest, groups, 1).raw(table, masks), walked(forest, table, groups, masks))


def test_sums_can_start_from_other_scores() -> None:
    rng = np.random.default_rng(2)
    forest = random_forest(rng, [5, 9], n_outputs=2, dtype=np.float32)
    table, start = odd_table(rng, 5, 6), rng.normal(size=(5, 2)).astype(np.float32)
    found = LeafSets(forest, GROUPS, 1).raw(table, np.array([3], dtype=np.uint64), start)
    for i in range(5):
        other = dataclasses.replace(forest, start=start[i])
        np.testing.assert_array_equal(found[i : i + 1], walked(other, table[i : i + 1], GROUPS, [3]))


def test_values_beyond_what_the_engine_takes() -> None:
    forest = random_forest(np.random.default_rng(3), [3])
    limited = dataclasses.replace(forest, largest=100.0)
    table = np.full((5, 6), np.nan)
    table[1, 2], table[2, 3] = 100.0, -100.0
    assert not leaf_sets.refuses(limited, table, 1)
    for odd in (100.5, -np.inf):
        table[4, 5] = odd
        assert leaf_sets.refuses(limited, table, 1)
    assert not leaf_sets.refuses(forest, table, 1)


# ----- from raw scores to predictions, against formulas; ``engines/test_trees.py`` compares them with the engines

RAW = np.concatenate([np.random.default_rng(0).normal(size=200) * 5, [0.0, -0.0, 80.0, -80.0, 1e-20]])
EXACT = {"rtol": 0.0, "atol": 0.0}
SINGLE = {"rtol": 4 * float(np.finfo(np.float32).eps)}  # a few roundings
DIFFERENCES = {"rtol": 1e-5, "atol": 1e-30}  # e^(s − largest) for differences up to 80, rounded; the smallest become 0


def written(function: Any, raw: Any, *given: Any) -> Any:
    out = np.empty_like(raw)
    function(raw, *given, out)
    return out


def test_links_with_one_score() -> None:
    single = RAW.astype(np.float32)
    for slope in (1.0, 0.3):
        wanted = [naive_trees.logistic(score, slope) for score in RAW]
        np.testing.assert_allclose(written(kernel.logistic, RAW, slope), wanted, **EXACT)
    wanted = [naive_trees.logistic(float(score)) for score in single]
    np.testing.assert_allclose(written(kernel.logistic_float32, single), wanted, **SINGLE)
    far = written(kernel.logistic_float32, np.array([-1e4, 1e4], dtype=np.float32))
    assert 0 < far[0] < 1e-38  # nothing overflows
    assert far[1] == 1
    for raw, tolerance in ((RAW, EXACT), (single, SINGLE)):
        np.testing.assert_allclose(written(kernel.exponential, raw), [math.exp(score) for score in raw], **tolerance)
    np.testing.assert_allclose(written(kernel.softplus, RAW), [naive_trees.softplus(score) for score in RAW], **EXACT)


def test_softmax() -> None:
    for dtype, tolerance in ((np.float64, EXACT), (np.float32, DIFFERENCES)):
        raw = np.concatenate([RAW[:204].reshape(-1, 3), [[1e3, 0.0, -1e3]]]).astype(dtype)
        wanted = [naive_trees.softmax([float(score) for score in row]) for row in raw]
        np.testing.assert_allclose(written(kernel.softmax, raw), wanted, **tolerance)
