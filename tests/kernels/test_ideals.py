"""Admissible sets: kernels against their naive twins, and against enumeration."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from forest_of_groups import forests, nesting_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from twins import ideals as naive_ideals
from twins import masks as naive

from pucboost._consent import FREE, Nesting
from pucboost._kernels import masks as kernel
from pucboost._virtual.plan import SCHEMES

CHAIN_OF_60 = Nesting((-1, *range(59)))
FORK = Nesting((2, -1, -1, 2, 3, -1))
FORK_NEEDS = {0: 2, 3: 2, 4: 3}


def u(value: int) -> Any:
    return np.uint64(value)


def copy_masks(
    nesting: Nesting, scheme: str, seed: int, available: list[int], pairs: list[tuple[int, int]]
) -> list[int]:
    rows, copies = (np.array(part, dtype=np.int64) for part in zip(*pairs, strict=True))
    out, ids = np.zeros(len(pairs), dtype=np.uint64), np.empty(0, dtype=np.uint64)
    masks = np.array(available, dtype=np.uint64)
    args = (masks, ids, rows, copies, 0, len(pairs), out)
    kernel.copy_ideals(SCHEMES[scheme], u(seed), *nesting.forest, *args)
    return [int(mask) for mask in out]


@given(forests(), st.data())
@settings(max_examples=80)
def test_count_and_numbering_are_those_of_the_twins_and_of_enumeration(forest: dict[int, int], data: Any) -> None:
    nesting, needs = nesting_of(forest)
    masks = data.draw(st.lists(st.integers(0, 2 ** len(nesting.needed) - 1), min_size=1, max_size=4))
    given_masks = np.array(masks, dtype=np.uint64)
    largest = nesting.largest(given_masks)
    assert largest.tolist() == [naive_ideals.largest_ideal(mask, needs) for mask in masks]
    for mask, ideal in zip(masks, largest.tolist(), strict=True):
        every = naive_ideals.ideals(ideal, needs)
        assert max(every) == ideal == max(naive_ideals.ideals(mask, needs))
        assert nesting.count(ideal) == len(every) == naive_ideals.count_ideals(ideal, needs)
        assert nesting.submasks(ideal).tolist() == every
        found = copy_masks(nesting, "exhaustive", 0, [ideal], [(0, n) for n in range(len(every))])
        assert found == [naive_ideals.ideal_at(n, ideal, needs) for n in range(len(every))]
        assert sorted(found) == every
        assert found[0] == 0
        assert found[-1] == ideal


@given(forests(), st.data())
@settings(max_examples=40)
def test_closed_and_topmost(forest: dict[int, int], data: Any) -> None:
    """A set is the smallest that holds its topmost groups, so these can stand for it in a name."""
    nesting, needs = nesting_of(forest)
    everything = 2 ** len(nesting.needed) - 1
    every = naive_ideals.ideals(everything, needs)
    mask = data.draw(st.integers(0, everything))
    assert nesting.closed(mask) == min((one for one in every if one & mask == mask), key=int.bit_count)
    assert [nesting.closed(nesting.topmost(one)) for one in every] == every
    assert len({nesting.topmost(one) for one in every}) == len(every)
    for g in range(len(nesting.needed)):
        assert everything & ~nesting.below[g] == max(one for one in every if not one >> g & 1)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(forest=forests(), seed=st.integers(0, 2**64 - 1), data=st.data())
@settings(max_examples=40)
def test_copies_are_those_of_the_twin_in_any_order(scheme: str, forest: dict[int, int], seed: int, data: Any) -> None:
    nesting, needs = nesting_of(forest)
    every = naive_ideals.ideals(2 ** len(nesting.needed) - 1, needs)
    available = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=3))
    counts = [nesting.count(mask) for mask in available]
    pairs = [(row, copy) for row, count in enumerate(counts) for copy in range(min(count, 12))]
    pairs = data.draw(st.permutations(pairs))
    wanted = [naive_ideals.copy_mask(scheme, seed, row, copy, available[row], needs) for row, copy in pairs]
    assert copy_masks(nesting, scheme, seed, available, pairs) == wanted


def test_without_needs_the_numbering_is_that_of_sub_masks() -> None:
    """One mechanism: T = 2 for every group makes the mixed radix binary."""
    free = Nesting((-1,) * 6)
    assert free.is_free
    assert FREE.count(0b1011) == 8
    for mask in (0b101101, 0b111111, 0b1):
        found = copy_masks(free, "exhaustive", 0, [mask], [(0, n) for n in range(2 ** mask.bit_count())])
        assert found == [naive.submask(n, mask) for n in range(2 ** mask.bit_count())]
        assert free.submasks(mask).tolist() == found


def test_distinct_and_paired_up_to_the_last() -> None:
    """All copies of a person are different sets; pairs are n and I − 1 − n, in a chain few levels with many."""
    for nesting, mask in ((FORK, 2**6 - 1), (CHAIN_OF_60, 2**60 - 1), (CHAIN_OF_60, 2**7 - 1)):
        count = nesting.count(mask)
        for seed in range(20):
            found = copy_masks(nesting, "balanced", seed, [mask], [(0, n) for n in range(count)])
            assert sorted(found) == nesting.submasks(mask).tolist()
    for seed in range(20):  # 8 sets, so nobody is in the middle
        found = copy_masks(CHAIN_OF_60, "balanced", seed, [2**7 - 1], [(0, n) for n in range(8)])
        levels = [mask.bit_count() for mask in found]
        assert [a + b for a, b in zip(levels[::2], levels[1::2], strict=True)] == [7] * 4


@pytest.mark.parametrize("scheme", ["balanced", "fixed"])
@pytest.mark.parametrize("copy", [0, 1, 2, 5])
def test_every_copy_is_uniform(scheme: str, copy: int) -> None:
    """An even and an odd number of sets: 28 and 7."""
    for nesting, mask in ((FORK, 0b111111), (CHAIN_OF_60, 0b111111), (FORK, 0b011101)):
        n, count = 20_000, nesting.count(mask)
        rows = [(row, copy) for row in range(n)]
        found = Counter(copy_masks(nesting, scheme, 3, [mask] * n, rows))
        assert set(found) == set(nesting.submasks(mask).tolist())
        assert stats.chisquare(list(found.values()), [n / count] * count).pvalue > 1e-3


def test_63_groups_and_one_that_needs_another_fill_64_bits() -> None:
    nesting, everything = Nesting((*(-1,) * 63, 0)), 2**64 - 1
    assert nesting.count(everything) == 3 * 2**62
    found = copy_masks(
        nesting, "balanced", 1, [everything] * 4000, [(row, copy) for row in range(4000) for copy in (0, 1)]
    )
    masks = np.array(found, dtype=np.uint64)
    assert len(set(found)) == 8000
    kept = [(masks >> u(g) & u(1)).mean() for g in range(64)]
    assert kept[0] == pytest.approx(2 / 3, abs=0.03)
    assert kept[63] == pytest.approx(1 / 3, abs=0.03)
    assert np.allclose(kept[1:63], 0.5, atol=0.04)
    assert not (masks >> u(63) & ~masks & u(1)).any()
