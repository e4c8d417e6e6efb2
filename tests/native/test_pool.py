"""The pool against the virtual table it stands for: in the table's order, both have the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from native_pools import bins_and_layout, encoded, masked_codes, people_table, pool_of, random_tree, virtual_table
from twins import scores as naive

from pucboost._engines.native.kernels.gradients import CodeTree, leaf_ranges
from pucboost._engines.native.pool import Pool, add_tree, leaves_of
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


@pytest.mark.parametrize(("scheme", "n_scores"), [*((scheme, 1) for scheme in SCHEMES), ("balanced", 3)])
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


def test_any_container_in_blocks(monkeypatch: Any) -> None:
    X = people_table(9000)
    wanted = pool_of(virtual_table(X, [3, 4, 5, 6]))
    monkeypatch.setattr("pucboost._tables.sources.BLOCK_BYTES", 5000 * 7 * 8)
    for table, threads in ((X, 1), (X, 3), (np.asfortranarray(X), 3), ([X[:1000], X[1000:]], 1)):
        pool = pool_of(virtual_table(table, [3, 4, 5, 6]), threads=threads)
        for name in ("codes", "rows", "masks", "order", "label", "weight"):
            assert np.array_equal(getattr(pool, name), getattr(wanted, name)), name


@pytest.mark.parametrize("groups", [16, 17])
def test_masks_of_many_groups(groups: int) -> None:
    X = people_table(60, base=1, groups=groups)
    virtual = virtual_table(X, list(range(1, groups + 1)))
    bins, layout = bins_and_layout(virtual)
    pool = Pool.of(virtual, bins, layout, 1, for_growth=True, threads=1)
    assert (pool.masks.dtype, len(pool.erase)) == ((np.uint16, 2) if groups == 16 else (np.uint64, 3))
    assert_same_table(pool, virtual, encoded(bins, virtual.rows.materialise()).T)


def test_nothing_optional_has_one_copy_each() -> None:
    X = people_table(50)
    virtual = virtual_table(X, [])
    bins, layout = bins_and_layout(virtual)
    pool = Pool.of(virtual, bins, layout, 1, for_growth=True, threads=1)
    assert pool.layer_n.tolist() == [50]
    assert pool.virtual_order() == slice(None)
    assert_same_table(pool, virtual, encoded(bins, X).T)
    tree = random_tree(9, len(pool.codes), 1)
    add_tree(pool, layout, tree, np.arange(9.0), 0, 1)
    assert pool.scores[0].astype(int).tolist() == walked(pool, layout, tree)


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


# ----- scores of all copies by sets of leaves, against a walk of every copy


def any_pool(n: int = 700, groups: int = 4) -> tuple[Pool, Any]:
    """Return a pool of more than one block, and its layout; the codes are random."""
    virtual = virtual_table(people_table(n, groups=groups), list(range(3, 3 + groups)))
    bins, layout = bins_and_layout(virtual)
    pool = Pool.of(virtual, bins, layout, 2, for_growth=False, threads=1)
    pool.codes[:] = np.random.default_rng(1).integers(0, 256, pool.codes.shape)
    return pool, layout


def walked(pool: Pool, layout: Any, tree: CodeTree) -> list[int]:
    """Return the leaf of every pool row."""
    codes, group = pool.codes.T.tolist(), layout.group.tolist()
    return [
        naive.leaf_number(tree, codes[i], group, int(pool.masks[start + i]))
        for n, start in zip(pool.layer_n.tolist(), pool.layer_start.tolist(), strict=True)
        for i in range(n)
    ]


@pytest.mark.parametrize("groups", [1, 4, 18])
def test_every_copy_gets_the_value_of_its_leaf(groups: int) -> None:
    pool, layout = any_pool(groups=groups)
    for leaves in (1, 2, 3, 31, 32, 33, 64, 65, 150):
        tree = random_tree(leaves, len(pool.codes), leaves, sets=0.3, balanced=leaves > 60)
        values = np.random.default_rng(leaves).normal(size=leaves)
        before = pool.scores.copy()
        add_tree(pool, layout, tree, values, 1, 1)
        add_tree(pool, layout, tree, values, 1, 1)
        wanted = values.astype(np.float32)[walked(pool, layout, tree)]
        assert np.array_equal(pool.scores[0], before[0])
        assert np.array_equal(pool.scores[1], before[1] + wanted + wanted)


def test_trees_on_one_kind_of_columns() -> None:
    pool, layout = any_pool()
    for sets, first_column in ((0.0, 0), (1.0, 0), (0.0, 3), (1.0, 3)):  # base, then optional
        tree = random_tree(20, 3, 5, sets=sets)
        tree.column[:] += first_column
        pool.scores[:] = 0.0
        add_tree(pool, layout, tree, np.arange(20.0), 0, 1)
        assert pool.scores[0].astype(int).tolist() == walked(pool, layout, tree)


def test_threads_do_not_matter() -> None:
    pool, layout = any_pool(9000)
    tree, values = random_tree(40, len(pool.codes), 3), np.linspace(-1, 1, 40)
    found = []
    for threads in (1, 2, 3):
        pool.scores[:] = 0.5
        add_tree(pool, layout, tree, values, 0, threads)
        found.append(pool.scores[0].copy())
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_leaves_of_some_rows() -> None:
    pool, layout = any_pool()
    people = np.concatenate([np.arange(n) for n in pool.layer_n]).astype(np.uint32)
    rows = np.random.default_rng(0).permutation(len(pool))[:200].astype(np.uint32)
    for leaves in (1, 2, 40):
        tree = random_tree(leaves, len(pool.codes), 7, sets=0.5)
        found = leaves_of(pool, layout, tree, rows, people[rows])
        assert found.tolist() == np.take(walked(pool, layout, tree), rows).tolist()


def test_leaves_are_numbered_from_left_to_right() -> None:
    tree = random_tree(30, 1, 2)
    memory, first, size, place = (np.empty(30, dtype=np.int64) for _ in range(4))
    leaf_ranges(tree.left, tree.right, memory, first, size, place)

    def leaves(node: int) -> list[int]:
        return [~node] if node < 0 else leaves(int(tree.left[node])) + leaves(int(tree.right[node]))

    in_order = leaves(0)
    assert place[in_order].tolist() == list(range(30))
    for node in range(29):
        assert in_order[first[node] : first[node] + size[node]] == leaves(int(tree.left[node]))
