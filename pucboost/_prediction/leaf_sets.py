"""Trees scored as sets of leaves: predictions for many subsets at once, with the bits of the engine.

:mod:`.._kernels.leaf_sets` explains the method: the tests in a tree are made once per person, and every further subset
costs one AND per group. Sums are made in the order and the precision of the engine (float64 from 0 for LightGBM,
float32 from the base score for XGBoost), and links repeat its operations, so that a quote never differs from what the
engine predicts. Words of 32 bits pay for trees of up to 32 leaves; codes of bins in place of floats gained nothing.

:class:`LeafSets` scores a forest, :class:`SubsetScores` turns scores into predictions. Trees that were read are not
kept between calls: a booster may be trained further, refitted or edited, and only its whole text would show that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from .._common import Array
from .._consent import Consent
from .._engines import boosters_of
from .._engines.trees import Forest
from .._kernels.compiling import run_in_ranges
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
from .._models.anchored import AnchoredModel, trees_of
from .._models.anchors import AnchorScores

LEAVES_PER_MASK, MOST_LEAVES = 256, 2_048
"""Sets of leaves cost time in proportion to the leaves, the engine's walk to their logarithm: it wins from here on."""

_NO_GROUPS, _EVERY_GROUP = np.zeros(1, dtype=np.uint64), np.uint64(2**64 - 1)


def beat_engine(leaves: float, n_masks: int) -> bool:
    """Return whether sets of leaves predict so many masks faster than the engine, with so many leaves per tree."""
    return leaves <= min(LEAVES_PER_MASK * n_masks, MOST_LEAVES)


@dataclass(frozen=True)
class Block:
    """Some people: their rows as numbers and codes, and the scores of the anchor, if the model has one."""

    rows: Array
    start: AnchorScores | None


def forest_of(model: Any, consent: Consent) -> Forest | None:
    """Return the trees of a booster or an anchored model; None if they cannot be read, or are not about this schema."""
    anchored, booster = isinstance(model, AnchoredModel), trees_of(model)
    forest = boosters_of(booster).trees(booster, best_rounds=not anchored)
    if forest is None or forest.n_columns != len(consent.feature_names) or (anchored and model.consent != consent):
        return None
    return forest


def subset_scores(
    model: Any, consent: Consent, *, raw_score: bool, target_class: int | None, threads: int
) -> SubsetScores | None:
    """Return a model of trees, ready to predict; None if only its engine can."""
    forest = forest_of(model, consent)
    if forest is None:
        return None
    if target_class is not None and not (len(forest.start) > 1 and 0 <= target_class < len(forest.start)):
        return None  # the engine's predictions show what is wrong
    if not isinstance(model, AnchoredModel) and not raw_score and forest.response is None:
        return None
    return SubsetScores(model, forest, consent, raw_score, target_class, threads)


class SubsetScores:
    """The predictions of a booster or an anchored model for people under any mask."""

    def __init__(
        self, model: Any, forest: Forest, consent: Consent, raw_score: bool, target_class: int | None, threads: int
    ) -> None:
        self._model, self._forest, self._consent = model, forest, consent
        self._raw_score, self._target, self._threads = raw_score, target_class, threads
        self.leaves = float(forest.leaf_order.count.mean())
        """How many leaves a tree has on average."""
        self.bytes_per_prediction = 2 * forest.start.nbytes
        """Room for the raw scores and the predictions of one person under one mask."""

    @cached_property
    def _plain(self) -> LeafSets:
        return LeafSets(self._forest, np.full(self._forest.n_columns, -1), self._threads)

    @cached_property
    def _by_groups(self) -> LeafSets:
        groups = np.full(self._forest.n_columns, -1)
        groups[self._consent.group_columns] = self._consent.column_groups
        return LeafSets(self._forest, groups, self._threads)

    def rows(self, block: Block) -> Array:
        """Return predictions for rows as they are: rows (× classes)."""
        return self._predictions(self._plain, block, _NO_GROUPS)[:, 0]

    def subsets(self, block: Block, masks: Array) -> Array:
        """Return predictions for rows with every group outside a mask erased: rows × masks (× classes)."""
        return self._predictions(self._by_groups, block, masks)

    def refuses(self, rows: Array) -> bool:
        return refuses(self._forest, rows, self._threads)

    def _predictions(self, trees: LeafSets, block: Block, masks: Array) -> Array:
        if block.start is None:
            raw = trees.raw(block.rows, masks)
            values = self._of_booster(raw)
        else:
            values = self._of_anchored(trees, block.rows, block.start, masks)
        return values if self._target is None else values[:, :, self._target]

    def _of_booster(self, raw: Array) -> Array:
        scores, shape = _one_below_another(raw)
        respond = self._forest.response
        if self._raw_score or respond is None:
            return scores.reshape(shape)
        out = np.empty(shape, dtype=scores.dtype).reshape(len(scores), *shape[2:])

        def respond_range(lo: int, hi: int) -> None:
            out[lo:hi] = respond(scores[lo:hi])

        run_in_ranges(respond_range, len(scores), self._threads)
        return out.reshape(shape)

    def _of_anchored(self, trees: LeafSets, rows: Array, start: AnchorScores, masks: Array) -> Array:
        """Return the anchor's own predictions for people who share nothing, and those with trees for all others."""
        starts = start.raw.reshape(len(rows), -1)
        if self._forest.sums_from_start:
            raw = trees.raw(rows, masks, starts)
        else:
            raw = starts[:, None] + trees.raw(rows, masks)
        scores, shape = _one_below_another(raw)
        scores = scores.reshape(len(scores), *shape[2:])
        told = (scores if self._raw_score else self._model.objective.response(scores)).reshape(shape)
        shared = self._consent.availability(rows, num_threads=self._threads)
        shares = (shared[:, None] & (masks if trees is self._by_groups else _EVERY_GROUP)) != 0
        out = np.repeat((start.raw if self._raw_score else start.response)[:, None], len(masks), axis=1)
        out[shares] = told[shares]
        return out


def _one_below_another(raw: Array) -> tuple[Array, tuple[int, ...]]:
    """Return raw scores as a matrix, one column per output, and the shape of predictions: rows × masks (× outputs)."""
    n, n_masks, n_outputs = raw.shape
    return raw.reshape(n * n_masks, n_outputs), (n, n_masks, *((n_outputs,) if n_outputs > 1 else ()))


# ----- forests


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


class Nodes(NamedTuple):
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
        self._nodes = nodes_of(forest, inner[which], slot[which], keep)

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


def nodes_of(forest: Forest, node: Array, slot: Array, keep: Array) -> Nodes:
    kind = np.where(forest.missing_left[node], NODE_MISSING_LEFT, NODE_MISSING_RIGHT)
    kind[np.isin(forest.reading[node], (READ_CATEGORY, READ_CATEGORY_FROM_ZERO))] = NODE_CATEGORY
    return Nodes(
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
