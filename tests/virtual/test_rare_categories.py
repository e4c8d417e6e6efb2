"""Which categories are rare, and tables in which they are one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_pools import people_table, virtual_table

from pucboost._virtual.merging import merge_virtual_rows
from pucboost._virtual.rare_categories import LARGEST_WRITTEN, PooledColumn, RareCategories, RowsPerPerson
from pucboost._virtual.rows import SelectedTable

NAN = np.nan


def naive_members(counts: dict[int, int], least: float, most: int | None) -> list[int]:
    """Return the rare categories: all but the frequent ones, of which there may be so many that one bin is left."""
    by_count = sorted(counts, key=lambda category: (-counts[category], category))
    frequent = [category for category in by_count if counts[category] >= least]
    if most is not None and len(counts) > most:
        frequent = frequent[: most - 1]
    rare = sorted(set(counts) - set(frequent))
    return rare if len(rare) > 1 and sum(counts[category] for category in rare) >= least else []


@given(
    st.dictionaries(st.integers(0, 40), st.integers(1, 12), min_size=1),
    st.floats(0, 20),
    st.one_of(st.none(), st.integers(1, 10)),
)
def test_which_are_rare(counts: dict[int, int], least: float, most: int | None) -> None:
    found = PooledColumn.of(np.array(list(counts)), np.array(list(counts.values())), least, most)
    wanted = naive_members(counts, least, most)
    assert ([] if found is None else found.members.tolist()) == wanted
    if found is not None:
        assert found.stands_for_all == wanted[0]
        if most is not None:
            assert len(counts) - len(wanted) + 1 <= most


def test_rare_numbers_that_no_model_can_name() -> None:
    """Refused where people may be silent; of a base column they are not pooled."""
    large = np.array([1.0] * 20 + [2.0, 3.0, LARGEST_WRITTEN, LARGEST_WRITTEN + 1, 1e9] * 2)
    X = np.column_stack([np.arange(30.0), large])
    words = r"'Column_1' has categories that few people share and .* above 131,072 \(2 of them, such as 131073\)"
    with pytest.raises(ValueError, match=words):
        RareCategories.of(virtual_table(X, [1]), [1], least=lambda _: 3.0)
    rare = RareCategories.of(virtual_table(X, [0]), [1], least=lambda _: 3.0, most=3)
    assert rare.columns[1].members.tolist() == [3, LARGEST_WRITTEN]


@given(
    st.lists(st.one_of(st.sampled_from([NAN, np.inf, -np.inf, -1.0, -0.5, 2.9, 3e9]), st.integers(0, 9)), min_size=1)
)
def test_values_are_read_as_lightgbm_reads_them(values: list[float]) -> None:
    """Without the fraction; what is no category stays as it is."""
    pooled, out = PooledColumn(np.array([2, 5, 7])), np.array(values, dtype=np.float64)
    pooled.pool(out)
    for value, now in zip(values, out.tolist(), strict=True):
        is_rare = np.isfinite(value) and value > -1 and int(value) in (2, 5, 7)
        assert now == 2.0 if is_rare else np.array_equal(now, value, equal_nan=True)


@pytest.fixture
def table() -> Any:
    """Thirty people: category 1 is frequent, 2, 3, 4 are rare, and one more is withheld."""
    category = np.array([1.0] * 18 + [2.0, 3.0, 4.0] * 3 + [NAN] * 3)
    return np.column_stack([np.arange(30.0), category])


def test_rows_per_person() -> None:
    """One by one."""
    for augmentation in ("exhaustive", "balanced", "none"):
        X = people_table(200, groups=3)
        weight = np.random.default_rng(0).uniform(0.5, 2, 200)
        virtual = virtual_table(X, {"a": [3], "b": [4, 5]}, augmentation=augmentation, copies=2.5, weight=weight)
        _, masks = virtual.rows.plan.rows_and_masks(0, len(virtual), 1)
        given = virtual.weight()
        assert given is not None
        for g in range(2):
            shares = sum(int(one) >> g & 1 for one in virtual.rows.plan.available.tolist())
            shown = sum(w for w, mask in zip(given.tolist(), masks.tolist(), strict=True) if mask >> g & 1)
            found = RowsPerPerson.of(virtual, g)
            assert found.in_tree == pytest.approx(shown / sum(given.tolist()) * min(200, len(virtual)) / shares)
            assert found.in_table == pytest.approx(sum(mask >> g & 1 for mask in masks.tolist()) / shares)
            half = SelectedTable.of(virtual, np.arange(0, len(virtual), 2), virtual.table)
            assert RowsPerPerson.of(half, g).in_table == pytest.approx(found.in_table / 2, rel=0.2)


def test_only_what_is_shared_counts(table: Any) -> None:
    virtual = virtual_table(table, [1], augmentation="exhaustive")
    rare = RareCategories.of(virtual, [1], least=lambda _: 5.0)
    assert rare.columns[1].members.tolist() == [2, 3, 4]
    assert RareCategories.of(virtual, [], least=lambda _: 5.0).columns == {}
    assert RareCategories.of(virtual, [0, 1], least=lambda _: 3.0).columns == {}
    assert RareCategories.of(virtual, [0, 1], least=lambda _: 10.0).columns == {}  # together they are nine


def test_pooled_rows(table: Any) -> None:
    virtual = virtual_table(table, [1], augmentation="exhaustive", weight=np.arange(1.0, 31.0))
    before = virtual.rows.materialise()
    pooled = RareCategories.of(virtual, [1], least=lambda _: 5.0).pooled(virtual)
    wanted = before.copy()
    wanted[np.isin(before[:, 1], [3, 4]), 1] = 2
    assert np.array_equal(pooled.rows.materialise(), wanted, equal_nan=True)
    assert np.array_equal(pooled.rows.take(np.array([40, 3])), wanted[[40, 3]], equal_nan=True)
    assert np.array_equal(virtual.rows.materialise(), before, equal_nan=True)
    assert Counter(pooled.label()) == Counter(virtual.label())
    weight = pooled.weight()
    assert weight is not None
    assert np.array_equal(weight, virtual.weight())


def test_selected_and_merged_rows(table: Any) -> None:
    virtual = virtual_table(table, [1], augmentation="exhaustive")
    rare = RareCategories.of(virtual, [1], least=lambda _: 5.0)
    selection = np.array([5, 41, 44])
    some = rare.pooled(SelectedTable.of(virtual, selection, virtual.table))
    assert isinstance(some, SelectedTable)
    assert np.array_equal(some.rows.materialise(), rare.pooled(virtual).rows.take(selection), equal_nan=True)
    from pucboost._losses import SquaredError

    table[:, 0] = 0.0
    cells = merge_virtual_rows(virtual_table(table, [1], augmentation="exhaustive"), 30, SquaredError())
    pooled = rare.pooled(cells)
    assert pooled.merged
    assert set(pooled.rows.materialise()[:, 1][~np.isnan(pooled.rows.materialise()[:, 1])]) == {1.0, 2.0}


def test_nothing_rare_nothing_changed(table: Any) -> None:
    virtual = virtual_table(table, [1])
    assert RareCategories({}).pooled(virtual) is virtual
