"""Scores of all copies by sets of leaves, against a walk of every copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from native_pools import bins_and_layout, people_table, pool_of, virtual_table
from native_trees import random_tree
from twins import scores as naive

from pucboost._engines.native.kernels.gradients import leaf_ranges
from pucboost._engines.native.pool import CodeTree, Pool, add_tree, leaves_of


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
@pytest.mark.parametrize("leaves", [1, 2, 3, 31, 32, 33, 64, 65, 150])
def test_every_copy_gets_the_value_of_its_leaf(leaves: int, groups: int) -> None:
    pool, layout = any_pool(groups=groups)
    tree = random_tree(leaves, len(pool.codes), leaves, sets=0.3, balanced=leaves > 60)
    values = np.random.default_rng(leaves).normal(size=leaves)
    before = pool.scores.copy()
    add_tree(pool, layout, tree, values, 1, 1)
    add_tree(pool, layout, tree, values, 1, 1)
    wanted = values.astype(np.float32)[walked(pool, layout, tree)]
    assert np.array_equal(pool.scores[0], before[0])
    assert np.array_equal(pool.scores[1], before[1] + wanted + wanted)


@pytest.mark.parametrize("sets", [0.0, 1.0])
@pytest.mark.parametrize("where", ["base", "optional"])
def test_trees_on_one_kind_of_columns(sets: float, where: str) -> None:
    pool, layout = any_pool()
    tree = random_tree(20, 3, 5, sets=sets)
    if where == "optional":
        tree.column[:] += 3
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


@pytest.mark.parametrize("leaves", [1, 2, 40])
def test_leaves_of_some_rows(leaves: int) -> None:
    pool, layout = any_pool()
    tree = random_tree(leaves, len(pool.codes), 7, sets=0.5)
    people = np.concatenate([np.arange(n) for n in pool.layer_n]).astype(np.uint32)
    rows = np.random.default_rng(0).permutation(len(pool))[:200].astype(np.uint32)
    assert (
        leaves_of(pool, layout, tree, rows, people[rows]).tolist() == np.take(walked(pool, layout, tree), rows).tolist()
    )


def test_leaves_are_numbered_from_left_to_right() -> None:
    tree = random_tree(30, 1, 2)
    memory, first, size, place = (np.empty(30, dtype=np.int64) for _ in range(4))
    n_tests = leaf_ranges(tree.left, tree.right, memory, first, size, place)

    def leaves(node: int) -> list[int]:
        return [~node] if node < 0 else leaves(int(tree.left[node])) + leaves(int(tree.right[node]))

    in_order = leaves(0)
    assert place[in_order].tolist() == list(range(30))
    assert n_tests == 29
    for node in range(29):
        assert in_order[first[node] : first[node] + size[node]] == leaves(int(tree.left[node]))


def test_nothing_optional() -> None:
    virtual = virtual_table(people_table(100), [])
    _, layout = bins_and_layout(virtual)
    pool = pool_of(virtual)
    tree = random_tree(9, len(pool.codes), 1)
    add_tree(pool, layout, tree, np.arange(9.0), 0, 1)
    assert pool.scores[0].astype(int).tolist() == walked(pool, layout, tree)
