"""The pool against the virtual table it stands for: in the table's order, both have the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from native_pools import bins_and_layout, encoded, masked_codes, people_table, pool_of, virtual_table

from pucboost._engines.native.pool import Pool
from pucboost._losses import Logistic
from pucboost._virtual.merging import merge_virtual_rows
from pucboost._virtual.plan import SCHEMES
from pucboost._virtual.rows import SelectedTable, VirtualTable


def assert_same_table(pool: Pool, virtual: VirtualTable, wanted_codes: Any, scale: float = 1.0) -> None:
    """Raise unless pool rows have the codes, labels, weights and scores of the virtual rows."""
    order = pool.virtual_order()
    person = np.concatenate([np.arange(n) for n in pool.layer_n])[order]
    assert masked_codes(pool)[order].tolist() == wanted_codes.tolist()
    assert np.array_equal(pool.label[person], virtual.label())
    weight = virtual.weight(scale)
    assert np.array_equal(pool.weight[person], np.ones(len(virtual)) if weight is None else weight)
    scores = virtual.init_score()
    assert np.array_equal(pool.scores[:, order].T, 0 * pool.scores.T if scores is None else scores.astype(np.float32))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("n_scores", [1, 3])
def test_a_pool_is_its_virtual_table(scheme: str, n_scores: int) -> None:
    generator = np.random.default_rng(5)
    X = people_table(400)
    virtual = virtual_table(
        X,
        {"a": [3], "b": [4, 6], "c": [5]},
        weight=generator.uniform(0.5, 2.0, 400),
        init_score=generator.normal(size=(400, n_scores)),
        label=generator.normal(size=400),
        augmentation=scheme,
    )
    bins, layout = bins_and_layout(virtual, max_bin=20)
    pool = Pool.of(virtual, bins, layout, n_scores, for_growth=True, threads=1, scale=0.25)
    assert np.all(np.diff(pool.layer_n) <= 0)
    assert pool.n_people == pool.layer_n[0]
    assert len(pool) == len(virtual)
    assert pool.layer_start.tolist() == np.cumsum([0, *pool.layer_n[:-1]]).tolist()
    assert_same_table(pool, virtual, encoded(bins, virtual.rows.materialise()).T, 0.25)
    assert np.array_equal(pool.codes, encoded(bins, X[pool.order]))


def test_people_without_a_copy_are_left_out() -> None:
    virtual = virtual_table(people_table(400), [3, 4, 5, 6], augmentation="fixed")
    pool = pool_of(virtual)
    assert pool.n_people == (virtual.rows.plan.copies > 0).sum() < 400


@pytest.mark.parametrize("threads", [1, 3])
def test_any_container_in_blocks(threads: int, monkeypatch: Any) -> None:
    X = people_table(9000)
    wanted = pool_of(virtual_table(X, [3, 4, 5, 6]))
    monkeypatch.setattr("pucboost._tables.sources.BLOCK_BYTES", 5000 * 7 * 8)
    for table in (X, np.asfortranarray(X), [X[:1000], X[1000:]]):
        pool = pool_of(virtual_table(table, [3, 4, 5, 6]), threads=threads)
        for name in ("codes", "rows", "masks", "order", "label", "weight"):
            assert np.array_equal(getattr(pool, name), getattr(wanted, name)), name


@pytest.mark.parametrize("groups", [16, 17])
def test_masks_of_many_groups(groups: int) -> None:
    X = people_table(60, base=1, groups=groups)
    virtual = virtual_table(X, list(range(1, groups + 1)))
    bins, layout = bins_and_layout(virtual)
    pool = Pool.of(virtual, bins, layout, 1, for_growth=True, threads=1)
    assert (pool.masks.dtype, len(pool.erase)) == ((np.uint16, 2) if groups == 16 else (np.uint64, 8))
    assert_same_table(pool, virtual, encoded(bins, virtual.rows.materialise()).T)


def test_nothing_optional_has_one_copy_each() -> None:
    X = people_table(50)
    virtual = virtual_table(X, [])
    bins, layout = bins_and_layout(virtual)
    pool = Pool.of(virtual, bins, layout, 1, for_growth=True, threads=1)
    assert pool.layer_n.tolist() == [50]
    assert pool.virtual_order() == slice(None)
    assert_same_table(pool, virtual, encoded(bins, X).T)


def test_selected_rows_are_people_of_their_own() -> None:
    whole = virtual_table(
        people_table(200), [3, 4, 5, 6], weight=np.linspace(1, 2, 200), init_score=np.linspace(0, 1, 200)
    )
    selection = np.random.default_rng(0).permutation(len(whole))[:150]
    virtual = SelectedTable.of(whole, selection, whole.table)
    bins, layout = bins_and_layout(whole)
    pool = Pool.of(virtual, bins, layout, 1, for_growth=True, threads=1)
    assert pool.layer_n.tolist() == [150]
    assert_same_table(pool, virtual, encoded(bins, whole.rows.materialise()[selection]).T)


def test_merged_rows_are_people_of_their_own() -> None:
    X = people_table(500, base=1, groups=2, values=4)
    virtual = merge_virtual_rows(virtual_table(X, [1, 2], augmentation="exhaustive"), 500, Logistic())
    bins, layout = bins_and_layout(virtual)
    pool = Pool.of(virtual, bins, layout, 1, for_growth=True, threads=1)
    assert pool.layer_n.tolist() == [len(virtual)]
    assert_same_table(pool, virtual, encoded(bins, virtual.rows.materialise()).T)


def test_features_without_a_split_have_no_column() -> None:
    X = people_table(50)
    X[:, 1] = 7.0
    X[:, 4] = np.nan
    virtual = virtual_table(X, [3, 4, 5, 6])
    bins, layout = bins_and_layout(virtual)
    assert layout.column.tolist() == [0, -1, 1, 2, -1, 3, 4]
    assert layout.group.tolist() == [-1, -1, 0, 2, 3]
    assert len(Pool.of(virtual, bins, layout, 1, for_growth=False, threads=1).codes) == layout.n_columns == 5


def test_ranges_of_people_have_equally_many_copies() -> None:
    pool = pool_of(virtual_table(people_table(4000), [3, 4, 5, 6]))
    ranges = pool.people_ranges(3)
    assert [lo for lo, _ in ranges] == [0, *(hi for _, hi in ranges[:-1])]
    assert ranges[-1][1] == 4000
    copies = [int((np.minimum(pool.layer_n, hi) - np.minimum(pool.layer_n, lo)).sum()) for lo, hi in ranges]
    assert sum(copies) == len(pool)
    assert max(copies) - min(copies) <= 2 * len(pool.layer_n)
    assert ranges[0][1] < 4000 / 3  # those with many copies come first


def test_scores_for_another_number_of_classes() -> None:
    virtual = virtual_table(people_table(50), [3], init_score=np.zeros((50, 2)))
    with pytest.raises(ValueError, match="init_score has 2 values per row, but the objective has 3 scores per row"):
        pool_of(virtual, n_scores=3)
