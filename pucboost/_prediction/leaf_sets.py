"""Scores of people for many subsets of what they share, by sets of leaves; :mod:`.._kernels.leaf_sets` explains how."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._arrays import Array
from .._engines.forest import Forest
from .._kernels.leaf_sets import NODE_CATEGORY, NODE_MISSING_LEFT, NODE_MISSING_RIGHT, plan_subsets, score_subsets
from .._kernels.threads import run_in_ranges
from .._kernels.trees import READ_CATEGORY, READ_CATEGORY_FROM_ZERO, READ_NAN_AS_ZERO, any_beyond, read_values

MASKS_AT_A_TIME = 128
"""More masks are scored in several rounds: their sums would no longer fit into the cache."""
CELLS_PER_BLOCK = 16_384
"""People × masks per block, so that sets and sums of a block stay in the second-level cache."""
PEOPLE_PER_BLOCK = 1_024
"""More do not make loops any faster."""

_READINGS = 8
"""More than there are ways to read a column."""


class _Planes(NamedTuple):
    """Words full of leaves: the trees of the first output, then those of the second, …, each in as many as it needs."""

    word: Any
    size: int
    """How many leaves a plane holds."""
    output_start: Array
    tree_start: Array
    first: Array
    """The first plane of each tree, by its number in the forest."""
    leaf_value: Array


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
        self._planes = _planes_of(forest)
        inner = np.flatnonzero((forest.left >= 0) & (forest.leaf_order.first >= 0))
        # What nodes see of a column depends on how they read it, so each way of reading has its own values.
        ways, slot = np.unique(forest.column[inner] * _READINGS + forest.reading[inner], return_inverse=True)
        self._columns, self._readings = ways // _READINGS, (ways % _READINGS).astype(np.uint8)
        which, plane, keep = _places(forest, self._planes, inner)
        group = np.asarray(groups, dtype=np.int64)[forest.column[inner[which]]]
        in_order = np.lexsort((slot[which], group, plane))
        which, plane, keep, group = which[in_order], plane[in_order], keep[in_order], group[in_order]
        self._nodes = _nodes_of(forest, inner[which], slot[which], keep)

        # Every plane begins with a part for base columns, even an empty one.
        n_planes, r = len(self._planes.leaf_value), int(group.max(initial=-1)) + 2
        parts = np.unique(np.concatenate([plane * r + group + 1, np.arange(n_planes) * r]))
        part = np.searchsorted(parts, plane * r + group + 1)
        self._part_group = parts % r - 1
        self._plane_start = np.searchsorted(parts // r, np.arange(n_planes + 1))
        self._node_start = np.searchsorted(part, np.arange(len(parts) + 1))
        self._part_missing = np.full(len(parts), ~keep.dtype.type(0))
        np.bitwise_and.at(
            self._part_missing, part, np.where(_missing_left(forest, inner[which]), ~keep.dtype.type(0), keep)
        )

    def raw(self, block: Array, masks: Array, start: Array | None = None) -> Array:
        """Return raw scores of the rows of a block under each mask: rows × masks × outputs.

        ``start`` replaces what sums begin with, one per row and output.
        """
        n, forest = len(block), self._forest
        block = np.ascontiguousarray(block)
        values = np.empty((len(self._columns), n), dtype=forest.start.dtype)
        run_in_ranges(
            lambda lo, hi: read_values(block, self._columns, self._readings, forest.zero, lo, hi, values),
            n,
            self._threads,
        )
        begin = np.empty((n, len(forest.start)), dtype=forest.start.dtype)
        begin[:] = forest.start if start is None else start
        rounds = range(0, len(masks), MASKS_AT_A_TIME)
        scores = [self._score(values, masks[lo : lo + MASKS_AT_A_TIME], begin) for lo in rounds]
        return scores[0] if len(scores) == 1 else np.concatenate(scores, axis=1)

    def _score(self, values: Array, masks: Array, start: Array) -> Array:
        k, n_planes = len(masks), len(self._planes.leaf_value)
        further_parts = np.diff(self._plane_start) - 1
        # The j-th group of a plane finds at most 2^j slots, and never more than there are masks.
        found = np.minimum(2.0 ** np.arange(further_parts.max(initial=0)), k).astype(np.int64)
        step_start = _starts(_starts(found)[further_parts])
        steps = np.empty(step_start[-1], dtype=np.uint8)
        n_slots, slot_of = np.empty(n_planes, dtype=np.int64), np.empty((n_planes, k), dtype=np.int64)
        plan_subsets(masks, self._plane_start, self._part_group, step_start, 0, n_planes, steps, n_slots, slot_of)
        out = np.empty((values.shape[1], k, start.shape[1]), dtype=values.dtype)
        job = partial(
            score_subsets,
            values,
            start,
            self._planes.output_start,
            self._planes.tree_start,
            self._planes.leaf_value,
            self._nodes,
            self._forest.goes_left,
            _Parts(self._plane_start, self._node_start, self._part_missing, step_start),
            steps,
            n_slots,
            slot_of,
            max(1, min(PEOPLE_PER_BLOCK, CELLS_PER_BLOCK // k)),
        )
        # Ranges of predictions, not of people: with many masks, few people are enough for several threads.
        run_in_ranges(lambda lo, hi: job(lo // k, hi // k, out), len(out) * k, self._threads)
        return out


def refuses(forest: Forest, block: Array, threads: int) -> bool:
    """Return whether the engine would refuse a value of a block."""
    if np.isinf(forest.largest):
        return False
    found = np.zeros(1, dtype=bool)
    run_in_ranges(lambda lo, hi: any_beyond(block, forest.largest, lo, hi, found), len(block), threads)
    return bool(found[0])


def _planes_of(forest: Forest) -> _Planes:
    """Return the leaves of all trees, in planes."""
    order = forest.leaf_order
    word = np.dtype(np.uint32 if order.count.max(initial=0) <= 32 else np.uint64)
    size = 8 * word.itemsize
    by_output = np.argsort(forest.output, kind="stable")
    tree_start = _starts(-(-order.count[by_output] // size))
    first = np.empty(len(by_output), dtype=np.int64)
    first[by_output] = tree_start[:-1]
    leaves = np.flatnonzero((forest.left < 0) & (order.first >= 0))
    # One more value than bits: that is where an empty set points, which other planes then replace.
    leaf_value = np.zeros((tree_start[-1], size + 1), dtype=forest.start.dtype)
    number = order.first[leaves]
    leaf_value[first[forest.tree_of(leaves)] + number // size, number % size] = forest.value[leaves]
    outputs = np.searchsorted(forest.output[by_output], np.arange(len(forest.start) + 1))
    return _Planes(word, size, outputs, tree_start, first, leaf_value)


def _places(forest: Forest, planes: _Planes, inner: Array) -> tuple[Array, Array, Array]:
    """Return which inner node is where: its place in ``inner``, a plane, and the leaves there that survive its failure.

    A node is in every plane that holds leaves to its left.
    """
    lowest, beyond = forest.leaf_order.first[inner], forest.leaf_order.middle[inner]
    count = (beyond - 1) // planes.size - lowest // planes.size + 1
    which = np.repeat(np.arange(len(inner)), count)
    plane = lowest[which] // planes.size + np.arange(len(which)) - np.repeat(_starts(count)[:-1], count)
    left_side = _bits_below(beyond[which] - plane * planes.size) & ~_bits_below(lowest[which] - plane * planes.size)
    return which, planes.first[forest.tree_of(inner[which])] + plane, (~left_side).astype(planes.word)


def _bits_below(n: Array) -> Array:
    """Return 64-bit words whose n lowest bits are 1; n may lie outside 0 … 64."""
    shift = np.uint64(64) - n.clip(1, 64).astype(np.uint64)
    return np.where(n > 0, np.uint64(2**64 - 1) >> shift, np.uint64(0))


def _nodes_of(forest: Forest, node: Array, slot: Array, keep: Array) -> _Nodes:
    kind = np.where(forest.missing_left[node], NODE_MISSING_LEFT, NODE_MISSING_RIGHT)
    kind[np.isin(forest.reading[node], (READ_CATEGORY, READ_CATEGORY_FROM_ZERO))] = NODE_CATEGORY
    return _Nodes(
        slot=slot.astype(np.int64),
        kind=kind.astype(np.uint8),
        threshold=forest.threshold[node].astype(forest.start.dtype),
        keep=keep,
        category_start=forest.category_start[node].astype(np.int64),
        category_end=(forest.category_start[node] + forest.category_count[node]).astype(np.int64),
        missing_left=forest.missing_left[node].astype(bool),
    )


def _missing_left(forest: Forest, node: Array) -> Array:
    """Return where NaN goes."""
    reads_zero = forest.reading[node] == READ_NAN_AS_ZERO
    return np.where(reads_zero, forest.threshold[node] >= 0.0, forest.missing_left[node])


def _starts(counts: Array) -> Array:
    """Return where each of several lists begins that lie one behind the other, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
