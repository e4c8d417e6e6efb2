"""Scores of people for many subsets of what they share, by sets of leaves; :mod:`.._kernels.leaf_sets` explains how."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._arrays import Array
from .._engines.forest import Forest
from .._kernels.leaf_sets import (
    NODE_CATEGORY,
    NODE_MISSING_LEFT,
    NODE_MISSING_RIGHT,
    READ_CATEGORY,
    READ_CATEGORY_FROM_ZERO,
    READ_NAN_AS_ZERO,
    any_beyond,
    plan_subsets,
    read_values,
    score_subsets,
)
from .._kernels.threads import run_in_ranges

MASKS_AT_A_TIME = 128
"""More masks are scored in several rounds: their sums would no longer fit into the cache."""
CELLS_PER_BLOCK = 16_384
"""People × masks per block, so that sets and sums of a block stay in the second-level cache."""
PEOPLE_PER_BLOCK = 1_024
"""More do not make loops any faster."""

_ALL_LEAVES = np.uint64(2**64 - 1)


class _Nodes(NamedTuple):
    """Inner nodes by plane and part: what each tests, and which leaves survive if the test fails."""

    slot: Array
    kind: Array
    threshold: Array
    keep: Array
    category_start: Array
    category_end: Array
    missing_left: Array


class _Parts(NamedTuple):
    """Planes, their parts, and the nodes of these."""

    plane_start: Array
    node_start: Array
    missing: Array
    step_start: Array


class LeafSets:
    """A forest, ready to score people under any mask of groups.

    Parameters
    ----------
    forest
        The trees.
    groups
        The group of each column, −1 for columns that nobody can withhold.
    threads
        Threads for the kernels.
    """

    def __init__(self, forest: Forest, groups: Array, threads: int) -> None:
        self._forest, self._threads = forest, threads
        inner = np.flatnonzero((forest.left >= 0) & (forest.leaf_order.first >= 0))
        # What nodes see of a column depends on how they read it, so each way of reading has its own values.
        ways = forest.column[inner].astype(np.int64) * 8 + forest.reading[inner]
        slots, slot = np.unique(ways, return_inverse=True)
        self._columns, self._readings = slots // 8, (slots % 8).astype(np.uint8)
        self._lay_out(inner, slot, np.asarray(groups, dtype=np.int64))

    def _lay_out(self, inner: Array, slot: Array, groups: Array) -> None:
        forest, order = self._forest, self._forest.leaf_order
        word: Any = np.uint32 if order.count.max(initial=0) <= 32 else np.uint64
        per_plane = 8 * word().itemsize
        # Trees by output: the kernel makes one sum after the other.
        by_output = np.argsort(forest.output, kind="stable")
        self._output_start = np.searchsorted(forest.output[by_output], np.arange(len(forest.start) + 1))
        planes = -(-order.count[by_output] // per_plane)
        self._tree_planes = np.concatenate([[0], np.cumsum(planes)])
        first_plane = np.empty(len(by_output), dtype=np.int64)
        first_plane[by_output] = self._tree_planes[:-1]
        tree = np.repeat(np.arange(len(forest.output)), np.diff(forest.tree_start))
        n_planes = int(self._tree_planes[-1])

        leaves = np.flatnonzero((forest.left < 0) & (order.first >= 0))
        self._leaf_value = np.zeros((n_planes, per_plane + 1), dtype=forest.start.dtype)
        number = order.first[leaves]
        self._leaf_value[first_plane[tree[leaves]] + number // per_plane, number % per_plane] = forest.value[leaves]

        # A node is in every plane that holds leaves on its left side.
        lowest, beyond = order.first[inner], order.middle[inner]
        spans = (beyond - 1) // per_plane - lowest // per_plane + 1
        which = np.repeat(np.arange(len(inner)), spans)
        offset = np.arange(len(which)) - np.repeat(np.cumsum(spans) - spans, spans)
        within = lowest[which] // per_plane + offset
        keep = _without_range(lowest[which] - within * per_plane, beyond[which] - within * per_plane)
        plane = first_plane[tree[inner[which]]] + within
        group = groups[forest.column[inner[which]]]

        # Every plane begins with a part for base columns, even an empty one.
        r = int(groups.max(initial=-1)) + 2
        keys = np.unique(np.concatenate([plane * r + group + 1, np.arange(n_planes) * r]))
        in_order = np.lexsort((slot[which], group, plane))
        which, keep = which[in_order], keep[in_order]
        part_of_node = np.searchsorted(keys, plane[in_order] * r + group[in_order] + 1)
        self._part_group = keys % r - 1
        node = inner[which]
        reads_category = np.isin(forest.reading[node], (READ_CATEGORY, READ_CATEGORY_FROM_ZERO))
        missing_left = np.where(
            forest.reading[node] == READ_NAN_AS_ZERO, forest.threshold[node] >= 0.0, forest.missing_left[node]
        )
        numeric = np.where(forest.missing_left[node], NODE_MISSING_LEFT, NODE_MISSING_RIGHT)
        self._nodes = _Nodes(
            slot=slot[which].astype(np.int64),
            kind=np.where(reads_category, NODE_CATEGORY, numeric).astype(np.uint8),
            threshold=forest.threshold[node].astype(forest.start.dtype),
            keep=keep.astype(word),
            category_start=forest.category_start[node].astype(np.int64),
            category_end=(forest.category_start[node] + forest.category_count[node]).astype(np.int64),
            missing_left=forest.missing_left[node].astype(bool),
        )
        missing = np.full(len(keys), _ALL_LEAVES)
        np.bitwise_and.at(missing, part_of_node, np.where(missing_left, _ALL_LEAVES, keep))
        self._plane_start = np.searchsorted(keys // r, np.arange(n_planes + 1))
        self._node_start = np.searchsorted(part_of_node, np.arange(len(keys) + 1))
        self._part_missing = missing.astype(word)

    def raw(self, block: Array, masks: Array, start: Array | None = None) -> Array:
        """Return raw scores of the rows of a block under each mask: rows × masks × outputs.

        ``start`` replaces what sums begin with, one per row and output.
        """
        n, dtype = len(block), self._forest.start.dtype
        block = np.ascontiguousarray(block)
        values = np.empty((len(self._columns), n), dtype=dtype)
        run_in_ranges(
            lambda lo, hi: read_values(block, self._columns, self._readings, self._forest.zero, lo, hi, values),
            n,
            self._threads,
        )
        begin = np.broadcast_to(
            self._forest.start if start is None else start.astype(dtype), (n, len(self._forest.start))
        )
        out = np.empty((n, len(masks), len(self._forest.start)), dtype=dtype)
        for lo in range(0, len(masks), MASKS_AT_A_TIME):
            some = np.asarray(masks[lo : lo + MASKS_AT_A_TIME], dtype=np.uint64)
            self._score(values, some, begin, out[:, lo : lo + MASKS_AT_A_TIME])
        return out

    def _score(self, values: Array, masks: Array, start: Array, out: Array) -> None:
        n_planes, parts = len(self._plane_start) - 1, np.diff(self._plane_start) - 1
        # Part j of a plane has at most 2^j slots, and never more than there are masks.
        most = np.minimum(np.exp2(np.minimum(np.arange(parts.max(initial=0) + 1), 62)), len(masks)).astype(np.int64)
        steps_of = np.concatenate([[0], np.cumsum(most)])
        step_start = np.concatenate([[0], np.cumsum(steps_of[parts])])
        steps = np.empty(step_start[-1], dtype=np.uint8)
        n_slots = np.empty(n_planes, dtype=np.int64)
        slot_of = np.empty((n_planes, len(masks)), dtype=np.int64)
        plan_subsets(masks, self._plane_start, self._part_group, step_start, 0, n_planes, steps, n_slots, slot_of)
        parts_ = _Parts(self._plane_start, self._node_start, self._part_missing, step_start)
        block = max(16, min(PEOPLE_PER_BLOCK, CELLS_PER_BLOCK // len(masks)))
        args = (
            values,
            start,
            self._output_start,
            self._tree_planes,
            self._leaf_value,
            self._nodes,
            self._forest.goes_left,
            parts_,
            steps,
            n_slots,
            slot_of,
            block,
        )
        # Ranges of predictions, not of people: with many masks, few people are enough for several threads.
        k = len(masks)
        run_in_ranges(lambda lo, hi: score_subsets(*args, lo // k, hi // k, out), len(out) * k, self._threads)

    def refuses(self, block: Array) -> bool:
        """Return whether the engine would refuse a value of a block."""
        if np.isinf(self._forest.largest):
            return False
        found = np.zeros(1, dtype=bool)
        run_in_ranges(lambda lo, hi: any_beyond(block, self._forest.largest, lo, hi, found), len(block), self._threads)
        return bool(found[0])


def _without_range(first: Array, last: Array) -> Array:
    """Return words in which the bits first … last − 1 are 0 and all others 1; what lies outside 0 … 63 is ignored."""
    first, last = first.clip(0, 64), last.clip(0, 64)
    return ~(_bits_below(last) & ~_bits_below(first))


def _bits_below(n: Array) -> Array:
    full = np.uint64(64) - n.astype(np.uint64)
    return np.where(n > 0, _ALL_LEAVES >> np.minimum(full, np.uint64(63)), np.uint64(0))
