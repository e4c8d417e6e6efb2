"""Best subsets, ties among them, the greedy search and Shapley weights, on functions of masks written by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pucboost._consent import FREE, Nesting
from pucboost._prediction.people import people_by_mask, shares_of_masks
from pucboost._prediction.quotes import _greedy, best_predictions, best_subsets, favourable_sign
from pucboost._prediction.sharing import shapley_weights


class Table:
    """A predictor whose prediction for person i with mask s is values[i, s]."""

    def __init__(self, values: Any, shared: Any, batch: int = 3) -> None:
        self.values, self.shared, self.batch = np.asarray(values, dtype=float), np.array(shared, dtype=np.uint64), batch
        self.n_rows, self.consent = len(self.shared), SimpleNamespace(nesting=Nesting((-1,) * 64))

    def block_of(self, people: Any) -> Any:
        return self.values[people]

    def predict(self, block: Any, rows: Any, masks: Any) -> Any:
        return block[rows, masks.astype(int)]

    def all_subsets(self, people: Any, submasks: Any) -> Iterator[tuple[Any, Any]]:
        for lo in range(0, len(people), self.batch):
            some = people[lo : lo + self.batch]
            yield some, self.values[some][:, submasks.astype(int)]


def submasks_by_hand(mask: int) -> list[int]:
    return [s for s in range(mask + 1) if s & mask == s]


@pytest.mark.parametrize("favourable", ["lower", "higher"])
def test_the_best_subset_by_trying_all(favourable: str) -> None:
    """Few different predictions, so that most people have ties: the subset with most groups counts among equals."""
    rng = np.random.default_rng(0)
    table = Table(rng.integers(0, 3, (200, 16)), rng.integers(0, 16, 200))
    best, used = best_subsets(table.shared, table.all_subsets, favourable_sign(favourable))
    better = min if favourable == "lower" else max
    tied = 0
    for i, mask in enumerate(table.shared.tolist()):
        possible = submasks_by_hand(mask)
        wanted = better(table.values[i, possible])
        assert best[i] == wanted == table.values[i, int(used[i])]
        equal = [s for s in possible if table.values[i, s] == wanted]
        assert int(used[i]).bit_count() == max(s.bit_count() for s in equal)
        assert int(used[i]) == max(equal, key=lambda s: (s.bit_count(), s))
        tied += len(equal) > 1
    assert tied > 100
    np.testing.assert_array_equal(best_predictions(table, favourable_sign(favourable), 16)[1], used)  # type: ignore[arg-type]


def test_only_people_with_too_many_subsets_are_searched() -> None:
    table = Table(np.zeros((5, 16)), [0b0000, 0b0001, 0b0011, 0b0111, 0b1111])
    searched = []

    def search(people: Any, mask: int) -> tuple[Any, Any]:
        searched.append((people.tolist(), mask))
        return np.full(len(people), 9.0), np.full(len(people), 1, dtype=np.uint64)

    best, used = best_subsets(table.shared, table.all_subsets, 1.0, 4, search)
    assert searched == [([3], 0b111), ([4], 0b1111)]  # four subsets are not more than four
    assert best.tolist() == [0, 0, 0, 9, 9]
    assert used.tolist() == [0b000, 0b001, 0b011, 1, 1]
    searched.clear()
    best_subsets(table.shared, table.all_subsets, 1.0, 15, search)
    assert searched == [([4], 0b1111)]
    with pytest.raises(ValueError, match=r"Row 4 shares 4 groups, 2\^4 subsets, more than max_subsets = 15"):
        best_predictions(table, 1.0, 15)  # type: ignore[arg-type]
    assert best_predictions(table, 1.0, 16)[0].tolist() == [0] * 5  # type: ignore[arg-type]
    nobody = Table(np.zeros((0, 8)), [])
    assert len(best_predictions(nobody, 1.0, 1)[0]) == 0  # type: ignore[arg-type]


def greedy_by_hand(values: Any, mask: int, sign: float) -> tuple[float, int]:
    """Change the one group that helps most while any does, from all and from nothing; all wins a tie of the ends."""
    ends = []
    for used in (mask, 0):
        while True:
            around = [used ^ (1 << g) for g in range(8) if mask >> g & 1]
            best = min(around, key=lambda s: sign * values[s])
            if not sign * values[best] < sign * values[used]:
                break
            used = best
        ends.append(used)
    used = ends[1] if sign * values[ends[1]] < sign * values[ends[0]] else ends[0]
    return float(values[used]), used


@pytest.mark.parametrize("favourable", ["lower", "higher"])
@pytest.mark.parametrize("mask", [0b1, 0b1011, 0b11111])
def test_greedy_search_step_by_step(favourable: str, mask: int) -> None:
    sign = favourable_sign(favourable)
    values = np.random.default_rng(1).integers(0, 12, (150, 32)).astype(float)
    table = Table(values, np.full(150, mask))
    people = np.arange(149, 20, -1)  # some of them, and not in the order of the table
    best, used = _greedy(table, people, mask, sign)  # type: ignore[arg-type]
    wanted = [greedy_by_hand(values[i], mask, sign) for i in people]
    assert list(zip(best.tolist(), used.tolist(), strict=True)) == wanted
    found, masks = best_predictions(table, sign, 1, search="greedy")  # type: ignore[arg-type]
    np.testing.assert_array_equal(found[people], best)
    np.testing.assert_array_equal(masks[people], used)


def test_greedy_search_with_as_many_groups_as_there_can_be() -> None:
    """64 groups, the predictions a sum over the groups: the search must find exactly those that lower it."""
    effect = np.random.default_rng(2).normal(size=(6, 64))

    class Sum(Table):
        def predict(self, block: Any, rows: Any, masks: Any) -> Any:
            kept = (masks[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
            return (block[rows] * kept).sum(axis=1)

    table = Sum(effect, [2**64 - 1] * 6)
    best, used = _greedy(table, np.arange(6), 2**64 - 1, 1.0)  # type: ignore[arg-type]
    np.testing.assert_allclose(best, np.minimum(effect, 0).sum(axis=1))
    assert used.tolist() == [sum(1 << g for g in range(64) if row[g] < 0) for row in effect]


@pytest.mark.parametrize("k", range(6))
def test_shapley_weights_are_averages_over_orders(k: int) -> None:
    """φ_g is the mean, over all orders in which the groups could be shared, of what g changes when its turn comes."""
    weights = np.zeros((2**k, k))
    for order in itertools.permutations(range(k)):
        before = 0
        for g in order:
            weights[before | 1 << g, g] += 1 / math.factorial(k)
            weights[before, g] -= 1 / math.factorial(k)
            before |= 1 << g
    np.testing.assert_allclose(shapley_weights(2**k - 1), weights, atol=1e-12)


def test_submasks_and_owners() -> None:
    for mask in (0, 1, 0b1010, 0b1101, 2**63, 2**63 + 5):
        low = mask & 0b1111
        wanted = [s | high for high in ((0, 2**63) if mask >> 63 else (0,)) for s in submasks_by_hand(low)]
        assert FREE.submasks(mask).tolist() == wanted
    shared = np.array([5, 0, 5, 2**63, 0, 5], dtype=np.uint64)
    assert [(mask, who.tolist()) for mask, who in people_by_mask(shared)] == [
        (0, [1, 4]), (5, [0, 2, 5]), (2**63, [3]),
    ]  # fmt: skip


def test_shares_of_masks_by_weight_most_frequent_first() -> None:
    shared = np.array([3, 1, 3, 0, 2, 7], dtype=np.uint64)
    weight = np.array([1.0, 2.0, 2.0, 3.0, 2.0, 0.0])
    assert list(shares_of_masks(shared, weight).items()) == [(0, 0.3), (3, 0.3), (1, 0.2), (2, 0.2)]
