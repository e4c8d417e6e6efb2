"""Best subsets, greedy search, Shapley values and batches, on functions of rows and masks written by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pucboost as puc
from pucboost._consent import FREE, Consent, Nesting
from pucboost._prediction import predictor, sharing
from pucboost._prediction.people import read_people, shares_of_masks
from pucboost._prediction.predictor import (
    MaskedPredictor,
    _greedy,
    best_predictions,
    best_subsets,
    favourable_sign,
    mask_of,
    people_by_mask,
    predict_tables,
    subset_masks,
    subset_name,
)
from pucboost._prediction.sharing import shapley_weights


class Table:
    """A predictor whose prediction for person i with mask s is values[i, s]."""

    def __init__(self, values: Any, shared: Any, n_groups: int = 64, batch: int = 3) -> None:
        self.values, self.shared, self.batch = np.asarray(values, dtype=float), np.array(shared, dtype=np.uint64), batch
        self.n_rows, names = len(self.shared), tuple(f"g{g}" for g in range(n_groups))
        self.consent = SimpleNamespace(n_groups=n_groups, group_names=names, nesting=Nesting((-1,) * n_groups))

    def block(self, people: Any) -> Any:
        return self.values[people]

    def predict(self, block: Any, rows: Any, masks: Any) -> Any:
        return block[rows, masks.astype(int)]

    def frame(self, values: Any, columns: Any) -> pd.DataFrame:
        return pd.DataFrame(values, columns=columns)

    def sign_of(self, favourable: Any, needed_by: str) -> float:
        return favourable_sign(favourable)

    def everybody(self, masks: Any) -> Any:
        return self.values[np.arange(self.n_rows), masks.astype(int)]

    def all_subsets(self, people: Any, submasks: Any) -> Iterator[tuple[Any, Any]]:
        for lo in range(0, len(people), self.batch):
            some = people[lo : lo + self.batch]
            yield some, self.values[some][:, submasks.astype(int)]


def submasks_by_hand(mask: int) -> list[int]:
    return [s for s in range(mask + 1) if s & mask == s]


def averages_over_orders(values: Any, mask: int) -> list[float]:
    """φ_g: the mean, over all orders in which the groups could be shared, of what g changes when its turn comes."""
    gains = [0.0] * mask.bit_length()
    orders = list(itertools.permutations(g for g in range(mask.bit_length()) if mask >> g & 1))
    for order in orders:
        before = 0
        for g in order:
            gains[g] += (values[before | 1 << g] - values[before]) / len(orders)
            before |= 1 << g
    return gains


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


def test_greedy_search_step_by_step() -> None:
    values = np.random.default_rng(1).integers(0, 12, (150, 32)).astype(float)
    people = np.arange(149, 20, -1)  # some of them, and not in the order of the table
    for sign, mask in itertools.product((1.0, -1.0), (0b1, 0b1011, 0b11111)):
        table = Table(values, np.full(150, mask))
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


def test_shapley_weights_are_averages_over_orders() -> None:
    for k in range(6):
        weights = shapley_weights(2**k - 1)
        wanted = [averages_over_orders(one, 2**k - 1) for one in np.eye(2**k)]
        np.testing.assert_allclose(weights, np.reshape(wanted, (2**k, k)), atol=1e-12)


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


# ----- what sharing does


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    rng = np.random.default_rng(3)
    made = Table(rng.integers(0, 9, (80, 16)), rng.integers(0, 16, 80), 4, batch=17)
    monkeypatch.setattr(sharing, "MaskedPredictor", lambda *arguments, **options: made)
    return made


def test_sharing_values_are_averages_over_a_persons_own_orders(table: Table) -> None:
    found = puc.sharing_value(None, None)
    assert list(found.columns) == ["withheld", "g0", "g1", "g2", "g3", "as_given"]
    for i, mask in enumerate(table.shared.tolist()):
        gains = [*averages_over_orders(table.values[i], mask), 0, 0, 0, 0][:4]
        np.testing.assert_allclose(found.iloc[i], [table.values[i, 0], *gains, table.values[i, mask]], atol=1e-12)


def test_sharing_effects_by_loops(table: Table) -> None:
    for favourable, sign in (("lower", 1), ("higher", -1)):
        found = puc.sharing_effects(None, None, favourable=favourable)
        against_withheld, against_best = [], []
        for i, mask in enumerate(table.shared.tolist()):
            given = sign * table.values[i, mask]
            against_withheld.append(given - sign * table.values[i, 0])
            against_best.append(given - min(sign * table.values[i, s] for s in submasks_by_hand(mask)))
        assert found.people == 80
        assert found.share_worse_than_withheld == sum(loss > 0 for loss in against_withheld) / 80
        assert found.share_worse_than_best == sum(loss > 0 for loss in against_best) / 80
        assert found.largest_loss_against_withheld == max(against_withheld)
        assert found.largest_loss_against_best == max(against_best)
        assert found.share_worse_with_bonus == 0


def test_largest_loss_where_nobody_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest loss is 0 where nobody loses, not the smallest gain; and the bonus is measured, not assumed."""
    made = Table([[5.0, 4.0], [5.0, 3.0]], [1, 1], 1)
    monkeypatch.setattr(sharing, "MaskedPredictor", lambda *arguments, **options: made)
    found = puc.sharing_effects(None, None, favourable="lower")
    assert (found.largest_loss_against_withheld, found.largest_loss_against_best) == (0.0, 0.0)
    assert (found.share_worse_than_withheld, found.share_worse_than_best) == (0.0, 0.0)
    monkeypatch.setattr(sharing, "best_predictions", lambda *arguments: (np.array([4.5, 3.0]), None))
    assert puc.sharing_effects(None, None, favourable="lower").share_worse_with_bonus == 0.5
    dear = Table([[5.0, 7.0]], [1], 1)  # sharing costs; a bonus between the two is still worse than silence
    monkeypatch.setattr(sharing, "MaskedPredictor", lambda *arguments, **options: dear)
    monkeypatch.setattr(sharing, "best_predictions", lambda *arguments: (np.array([6.0]), None))
    assert puc.sharing_effects(None, None, favourable="lower").share_worse_with_bonus == 1.0


def test_limits_of_all_subsets_and_of_shapley_values(monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = {r: Consent.declare(list(range(1, r + 1)), [f"c{j}" for j in range(r + 1)]) for r in (6, 7)}
    assert subset_masks(schemas[6]) == list(range(64))
    with pytest.raises(ValueError, match=r"There are 2\^7 subsets of 7 groups. Choose some"):
        subset_masks(schemas[7])
    made = Table(np.arange(4096.0)[None, :], [4095], 12)  # the prediction is the mask: a sum over groups
    monkeypatch.setattr(sharing, "MaskedPredictor", lambda *arguments, **options: made)
    np.testing.assert_allclose(puc.sharing_value(None, None).iloc[0], [0, *(2.0**g for g in range(12)), 4095])


# ----- batches


N = 50
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
X[:, 1:][RNG.random((N, 3)) < 0.4] = np.nan
CONSENT = Consent.declare({"app": [1, 2], "blood": [3]}, ["age", "steps", "pulse", "blood"])
SHARED = [(1 if not np.isnan(row[1:3]).all() else 0) + (2 if not np.isnan(row[3]) else 0) for row in X]


def value(row: Any) -> float:
    """A prediction that depends on every column and on what is missing."""
    return float(sum((j + 1) * (0.3 if x != x else x) for j, x in enumerate(row)))  # NaN is what is missing


def erased(i: int, mask: int) -> Any:
    row = X[i].copy()
    for group, columns in enumerate(([1, 2], [3])):
        if not mask >> group & 1:
            row[columns] = np.nan
    return row


def test_predictions_come_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def predict(model: None, batch: Any, raw_score: bool) -> Any:
        sizes.append(len(batch))
        return np.array([value(row) for row in batch])

    monkeypatch.setattr(predictor, "boosters_of", lambda model: SimpleNamespace(predict=predict))
    monkeypatch.setattr(predictor, "categories_of", lambda model: None)
    masked = MaskedPredictor(None, X, consent=CONSENT, num_threads=1)
    assert masked.shared.tolist() == SHARED
    monkeypatch.setattr(predictor, "BATCH_BYTES", 7 * 32 // 4)  # four batches make room for seven rows of 32 bytes

    masks = RNG.integers(0, 4, N).astype(np.uint64)
    np.testing.assert_allclose(masked.everybody(masks), [value(erased(i, int(masks[i]))) for i in range(N)])
    assert sizes == [7] * 7 + [1]
    sizes.clear()
    rows = RNG.permutation(N)[:20]
    np.testing.assert_allclose(masked.people(rows, 2), [value(erased(i, 2)) for i in rows])
    assert sizes == [7, 7, 6]
    sizes.clear()
    submasks = np.array([0, 1, 3], dtype=np.uint64)
    found = list(masked.all_subsets(rows, submasks))
    assert np.concatenate([some for some, _ in found]).tolist() == rows.tolist()
    wanted = [[value(erased(i, int(s))) for s in submasks] for i in rows]
    np.testing.assert_allclose(np.concatenate([values for _, values in found]), wanted)
    assert sizes == [6] * 10  # two people, three subsets each


def test_functions_of_tables_get_copies_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictor, "TABLE_VALUES", 29)  # seven rows of four columns
    seen: list[Any] = []

    def call(table: Any) -> Any:
        seen.append(table.copy())
        answers = [value(row) for row in table]
        table[:] = 0.0  # it may do with its copy what it likes
        return answers

    rows = RNG.permutation(N)[:20]
    before = X.copy()
    for mask in range(4):
        seen.clear()
        found = predict_tables(call, X, rows, CONSENT, mask)
        np.testing.assert_allclose(found, [value(erased(i, mask)) for i in rows])
        assert [len(table) for table in seen] == [7, 7, 6]
    np.testing.assert_array_equal(X, before)
    monkeypatch.setattr(predictor, "TABLE_VALUES", 1)
    seen.clear()
    predict_tables(call, X, rows, CONSENT, 0)
    assert [len(table) for table in seen] == [1] * 20


def test_families_of_subsets_without_repetition() -> None:
    assert subset_masks(CONSENT, "alone") == [1, 2]
    assert subset_masks(CONSENT, ["all", ["blood"], "alone", "all_but_one", [], ["blood", "app"]]) == [3, 2, 1, 0]
    assert [mask_of(groups, CONSENT) for groups in ((), ("blood",), ("blood", "app", "app"))] == [0, 2, 3]
    assert [subset_name(mask, CONSENT) for mask in range(4)] == ["nothing", "app", "blood", "app + blood"]


def test_people_who_share_at_least_a_set() -> None:
    weight = np.arange(1.0, N + 1)
    people = read_people(X, lambda source: CONSENT, weight=weight, num_threads=1)
    assert people.shared.tolist() == SHARED
    np.testing.assert_array_equal(people.weight, weight)
    assert read_people(X, lambda source: CONSENT, num_threads=1).weight.tolist() == [1.0] * N
    for mask in range(4):
        assert people.at_least(mask).tolist() == [i for i in range(N) if SHARED[i] & mask == mask]
