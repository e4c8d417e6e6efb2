"""What a tree adds to the scores of a pool."""

from __future__ import annotations

import numpy as np

from ..._arrays import Array
from ..._kernels.native.bags import PEOPLE_PER_BLOCK
from ..._kernels.native.scores import PLANE, Nodes, Tests, add_leaf_values, leaf_numbers, leaf_ranges, sort_tests
from ..._kernels.threads import run_in_ranges
from .bundles import Layout
from .pool import Pool
from .trees import CodeTree


def add_tree(pool: Pool, layout: Layout, tree: CodeTree, values: Array, class_index: int, threads: int) -> None:
    """Add the value of its leaf to the score of every pool row; the number of threads does not matter."""
    scores = pool.scores[class_index]
    if len(tree.column) == 0:
        scores += np.float32(values[0])
        return
    nodes = Nodes(tree.column, tree.first_right, tree.span, tree.in_set, _bits(tree))
    tests, n_parts, by_plane = _sorted_tests(tree, nodes, layout, values)
    ranges = pool.people_ranges(threads)

    def add(thread: int, _: int) -> None:
        sets = np.empty((n_parts + 2, PEOPLE_PER_BLOCK), dtype=np.uint32)
        value = np.empty(PEOPLE_PER_BLOCK, dtype=np.float32)
        add_leaf_values(
            pool.codes, pool.masks, pool.layer_n, pool.layer_start, nodes, tests, n_parts, by_plane, sets, value,
            *ranges[thread], scores,
        )  # fmt: skip

    run_in_ranges(add, threads, threads, least=1)


def _sorted_tests(tree: CodeTree, nodes: Nodes, layout: Layout, values: Array) -> tuple[Tests, int, Array]:
    """Return the tests of a tree by plane and group, the number of their parts, and the values of leaves by plane."""
    n = len(tree.column)
    n_planes, n_groups = n // PLANE + 1, layout.n_groups + 1
    memory, first, size, place = (np.empty(n + 1, dtype=np.int64) for _ in range(4))
    n_tests = leaf_ranges(tree.left, tree.right, memory, first, size, place)
    most_parts = min(n_tests + n_planes, n_planes * n_groups)
    tests = Tests(
        plane_start=np.empty(n_planes + 1, dtype=np.int64),
        part_start=np.empty(most_parts + 1, dtype=np.int64),
        part_group=np.empty(most_parts, dtype=np.int64),
        part_missing=np.empty(most_parts, dtype=np.uint32),
        node=np.empty(n_tests, dtype=np.int64),
        keep=np.empty(n_tests, dtype=np.uint32),
    )
    next_test = np.zeros(n_planes * n_groups, dtype=np.int64)
    n_parts = sort_tests(first[:n], size[:n], nodes, layout.group, next_test, np.empty_like(next_test), tests)
    by_plane = np.zeros((n_planes, PLANE + 1), dtype=np.float32)
    by_plane[place // PLANE, place % PLANE] = values
    return tests, n_parts, by_plane


def _bits(tree: CodeTree) -> Array:
    """Return for each node its set of codes as 256 bytes of 0 or 1; nothing if no node has one."""
    if not tree.in_set.any():
        return np.empty((0, 256), dtype=np.uint8)
    return np.unpackbits(tree.right_set.astype("<u8").view(np.uint8), bitorder="little").reshape(-1, 256)


def leaves_of(pool: Pool, layout: Layout, tree: CodeTree, rows: Array, people: Array) -> Array:
    """Return the leaf of each of some pool rows, which belong to the given people."""
    leaf = np.zeros(len(rows), dtype=np.int64)
    if len(tree.column):
        leaf_numbers(
            pool.codes, pool.masks, layout.group, tree.column, tree.first_right, tree.span, tree.in_set, tree.right_set,
            tree.left, tree.right, rows, people, 0, len(rows), leaf,
        )  # fmt: skip
    return leaf
