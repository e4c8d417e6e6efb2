"""Predictions for any person and mask in batches, and what sharing does to people, on models written by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pucboost as puc
from pucboost._consent import Consent, Nesting
from pucboost._prediction import predictor, sharing
from pucboost._prediction.people import mask_of, read_people, subset_masks, subset_name
from pucboost._prediction.predictor import MaskedPredictor, predict_tables

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


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the model be :func:`value`; returns how many rows it was asked about at a time."""
    sizes: list[int] = []

    def predict(model: None, batch: Any, raw_score: bool) -> Any:
        sizes.append(len(batch))
        return np.array([value(row) for row in batch])

    monkeypatch.setattr(predictor, "boosters_of", lambda model: SimpleNamespace(predict=predict))
    monkeypatch.setattr(predictor, "categories_of", lambda model: None)
    return sizes


def test_predictions_come_in_batches(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    masked = MaskedPredictor(None, X, consent=CONSENT, num_threads=1)
    assert masked.shared.tolist() == SHARED
    monkeypatch.setattr(predictor, "BATCH_BYTES", 7 * 32 // 4)  # four batches make room for seven rows of 32 bytes
    assert [masked._people_per_batch(k) for k in (0, 1, 2, 3, 7, 8, 99)] == [7, 7, 3, 2, 1, 1, 1]
    assert list(masked.batches(2)) == [(lo, min(lo + 3, N)) for lo in range(0, N, 3)]

    masks = RNG.integers(0, 4, N).astype(np.uint64)
    wanted = [value(erased(i, int(masks[i]))) for i in range(N)]
    np.testing.assert_allclose(masked.everybody(masks), wanted)
    assert asked == [7] * 7 + [1]
    asked.clear()
    rows = RNG.permutation(N)[:20]
    np.testing.assert_allclose(masked.people(rows, 2), [value(erased(i, 2)) for i in rows])
    assert asked == [7, 7, 6]
    asked.clear()
    submasks = np.array([0, 1, 3], dtype=np.uint64)
    found = list(masked.all_subsets(rows, submasks))
    assert np.concatenate([some for some, _ in found]).tolist() == rows.tolist()
    wanted = [[value(erased(i, int(s))) for s in submasks] for i in rows]
    np.testing.assert_allclose(np.concatenate([values for _, values in found]), wanted)
    assert asked == [6] * 10  # two people, three subsets each


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


class Table:
    """In place of a predictor: the prediction for person i with mask s is values[i, s]."""

    def __init__(self, values: Any, shared: Any, n_groups: int) -> None:
        self.values, self.shared = values, np.array(shared, dtype=np.uint64)
        self.n_rows = len(self.shared)
        names = tuple(f"g{g}" for g in range(n_groups))
        self.consent = SimpleNamespace(n_groups=n_groups, group_names=names, nesting=Nesting((-1,) * n_groups))

    def frame(self, values: Any, columns: Any) -> pd.DataFrame:
        return pd.DataFrame(values, columns=columns)

    def everybody(self, masks: Any) -> Any:
        return self.values[np.arange(self.n_rows), masks.astype(int)]

    def all_subsets(self, people: Any, submasks: Any) -> Iterator[tuple[Any, Any]]:
        for some in np.array_split(people, 2):
            yield some, self.values[some][:, submasks.astype(int)]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    rng = np.random.default_rng(3)
    made = Table(rng.integers(0, 9, (80, 16)).astype(float), rng.integers(0, 16, 80), 4)
    monkeypatch.setattr(sharing, "MaskedPredictor", lambda *arguments, **options: made)
    return made


def test_sharing_values_are_averages_over_a_persons_own_orders(table: Table) -> None:
    found = puc.sharing_value(None, None)
    assert list(found.columns) == ["withheld", "g0", "g1", "g2", "g3", "as_given"]
    for i, mask in enumerate(table.shared.tolist()):
        own = [g for g in range(4) if mask >> g & 1]
        gains = np.zeros(4)
        orders = list(itertools.permutations(own))
        for order in orders:
            before = 0
            for g in order:
                gains[g] += (table.values[i, before | 1 << g] - table.values[i, before]) / len(orders)
                before |= 1 << g
        wanted = [table.values[i, 0], *gains, table.values[i, mask]]
        np.testing.assert_allclose(found.iloc[i], wanted, atol=1e-12)


@pytest.mark.parametrize("favourable", ["lower", "higher"])
def test_monotonicity_by_loops(table: Table, favourable: str) -> None:
    found = puc.sharing_effects(None, None, favourable=favourable)
    sign = 1 if favourable == "lower" else -1
    against_withheld, against_best = [], []
    for i, mask in enumerate(table.shared.tolist()):
        given = sign * table.values[i, mask]
        against_withheld.append(given - sign * table.values[i, 0])
        against_best.append(given - min(sign * table.values[i, s] for s in range(16) if s & mask == s))
    assert found.people == 80
    assert found.share_worse_than_withheld == sum(loss > 0 for loss in against_withheld) / 80
    assert found.share_worse_than_best == sum(loss > 0 for loss in against_best) / 80
    assert found.largest_loss_against_withheld == max(against_withheld)
    assert found.largest_loss_against_best == max(against_best)
    assert found.share_worse_with_bonus == 0


def test_largest_loss_where_nobody_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest loss is 0 where nobody loses, not the smallest gain; and the bonus is measured, not assumed."""
    made = Table(np.array([[5.0, 4.0], [5.0, 3.0]]), [1, 1], 1)
    monkeypatch.setattr(sharing, "MaskedPredictor", lambda *arguments, **options: made)
    found = puc.sharing_effects(None, None)
    assert (found.largest_loss_against_withheld, found.largest_loss_against_best) == (0.0, 0.0)
    assert (found.share_worse_than_withheld, found.share_worse_than_best) == (0.0, 0.0)
    monkeypatch.setattr(sharing, "best_predictions", lambda *arguments: (np.array([4.5, 3.0]), None))
    assert puc.sharing_effects(None, None).share_worse_with_bonus == 0.5
    dear = Table(np.array([[5.0, 7.0]]), [1], 1)  # sharing costs; a bonus between the two is still worse than silence
    monkeypatch.setattr(sharing, "MaskedPredictor", lambda *arguments, **options: dear)
    monkeypatch.setattr(sharing, "best_predictions", lambda *arguments: (np.array([6.0]), None))
    assert puc.sharing_effects(None, None).share_worse_with_bonus == 1.0


def test_limits_of_all_subsets_and_of_shapley_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for r, enough in ((6, True), (7, False)):
        consent = Consent.declare(list(range(1, r + 1)), [f"c{j}" for j in range(r + 1)])
        if enough:
            assert subset_masks(consent) == list(range(2**r))
        else:
            with pytest.raises(ValueError, match=r"There are 2\^7 subsets of 7 groups"):
                subset_masks(consent)
    made = Table(np.arange(4096.0)[None, :], [4095], 12)  # the prediction is the mask: a sum over groups
    monkeypatch.setattr(sharing, "MaskedPredictor", lambda *arguments, **options: made)
    np.testing.assert_allclose(puc.sharing_value(None, None).iloc[0], [0, *(2.0**g for g in range(12)), 4095])


def test_families_of_subsets_without_repetition() -> None:
    assert subset_masks(CONSENT, "alone") == [1, 2]
    assert subset_masks(CONSENT, ["all", ["blood"], "alone", "all_but_one", [], ["blood", "app"]]) == [3, 2, 1, 0]
    assert [mask_of(groups, CONSENT) for groups in ((), ("blood",), ("blood", "app", "app"))] == [0, 2, 3]
    assert [subset_name(mask, CONSENT) for mask in range(4)] == ["nothing", "app", "blood", "app + blood"]


def test_people_who_share_at_least_a_set() -> None:
    weight = np.arange(1.0, N + 1)
    people = read_people(X, lambda source: CONSENT, weight=weight, num_threads=1)
    assert people.shared.tolist() == SHARED
    assert len(people) == N
    np.testing.assert_array_equal(people.weight, weight)
    assert read_people(X, lambda source: CONSENT, num_threads=1).weight.tolist() == [1.0] * N
    for mask in range(4):
        assert people.at_least(mask).tolist() == [i for i in range(N) if SHARED[i] & mask == mask]
