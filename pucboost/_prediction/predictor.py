"""Scores of people for many subsets of what they share, by sets of leaves; :mod:`.._kernels.leaf_sets` explains how."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._common import Array, warn
from .._consent import Consent
from .._engines import boosters_of
from .._engines.trees import Forest
from .._kernels.compiling import run_in_ranges, thread_count
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
from .._kernels.rows import scatter_cells
from .._models.anchored import AnchoredModel, trees_of
from .._models.anchors import AnchorScores
from .._models.schema import categories_of, kept_of
from .._tables.containers import erase_columns, row_source, rows_of
from .._tables.sources import RowSource
from .._tables.table_files import is_stored
from .._virtual.rows import BATCH_BYTES, gather_masked
from .people import in_order_of, read_stored, unwrap

if TYPE_CHECKING:
    import pandas as pd


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


# --------------------------------------------------------------------------------------------------
# Predictions of a booster for many subsets at once, without the engine, and bit for bit what the engine would say.


LEAVES_PER_MASK, MOST_LEAVES = 256, 2_048
"""Sets of leaves cost time in proportion to the leaves, the engine's walk to their logarithm: it wins from here on."""

_NO_GROUPS, _EVERY_GROUP = np.zeros(1, dtype=np.uint64), np.uint64(2**64 - 1)


def beat_engine(leaves: float, n_masks: int) -> bool:
    """Return whether sets of leaves predict so many masks faster than the engine, with so many leaves per tree."""
    return leaves <= min(LEAVES_PER_MASK * n_masks, MOST_LEAVES)


@dataclass(frozen=True)
class Block:
    """Some people: their rows as numbers and codes, and what the anchor says about them, if the model has one."""

    rows: Array
    start: AnchorScores | None


class SubsetScores(ABC):
    """A model of trees, ready to predict people under any mask.

    Parameters
    ----------
    forest
        The trees.
    consent
        The consent schema.
    target_class
        Predict this class only.
    threads
        Threads for the kernels.
    """

    def __init__(self, forest: Forest, consent: Consent, target_class: int | None, threads: int) -> None:
        self._threads, self._target = threads, target_class
        self.leaves = float(forest.leaf_order.count.mean())
        """How many leaves a tree has on average."""
        self.bytes_per_prediction = 2 * forest.start.nbytes
        """Room for the raw scores and the predictions of one person under one mask."""
        self._forest, self._consent = forest, consent

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
        return self._of_target(self._predictions(self._plain, block, _NO_GROUPS))[:, 0]

    def subsets(self, block: Block, masks: Array) -> Array:
        """Return predictions for rows with every group outside a mask erased: rows × masks (× classes)."""
        return self._of_target(self._predictions(self._by_groups, block, masks))

    def refuses(self, rows: Array) -> bool:
        """Return whether the engine would refuse the values of some rows."""
        return refuses(self._forest, rows, self._threads)

    @abstractmethod
    def _predictions(self, trees: LeafSets, block: Block, masks: Array) -> Array:
        """Return predictions: rows × masks (× classes)."""

    def _of_target(self, predictions: Array) -> Array:
        return predictions if self._target is None else predictions[:, :, self._target]


class BoosterScores(SubsetScores):
    """Predictions of a booster; raw scores without ``response``."""

    def __init__(
        self,
        forest: Forest,
        consent: Consent,
        target_class: int | None,
        threads: int,
        response: Callable[[Array], Array] | None,
    ) -> None:
        super().__init__(forest, consent, target_class, threads)
        self._response = response

    def _predictions(self, trees: LeafSets, block: Block, masks: Array) -> Array:
        scores, shape = _one_below_another(trees.raw(block.rows, masks))
        if self._response is None:
            return scores.reshape(shape)
        respond, out = self._response, np.empty(shape, dtype=scores.dtype).reshape(len(scores), *shape[2:])

        def respond_range(lo: int, hi: int) -> None:
            out[lo:hi] = respond(scores[lo:hi])

        run_in_ranges(respond_range, len(scores), self._threads)
        return out.reshape(shape)


class AnchoredScores(SubsetScores):
    """Predictions of an anchored model, from what its anchor says about each person."""

    def __init__(
        self,
        forest: Forest,
        consent: Consent,
        target_class: int | None,
        threads: int,
        model: AnchoredModel,
        raw_score: bool,
    ) -> None:
        super().__init__(forest, consent, target_class, threads)
        self._model, self._raw_score, self._starts_first = model, raw_score, forest.sums_from_start

    def _predictions(self, trees: LeafSets, block: Block, masks: Array) -> Array:
        model, rows, start = self._model, block.rows, block.start
        assert start is not None, "the predictor asks the anchor of an anchored model first"
        starts = start.raw.reshape(len(rows), -1)
        raw = trees.raw(rows, masks, starts) if self._starts_first else starts[:, None] + trees.raw(rows, masks)
        scores, shape = _one_below_another(raw)
        scores = scores.reshape(len(scores), *shape[2:])
        told = (scores if self._raw_score else model.objective.response(scores)).reshape(shape)
        silent = start.raw if self._raw_score else start.response
        shared = model.consent.presence(row_source(rows), num_threads=self._threads)
        shares = (shared[:, None] & (masks if trees is self._by_groups else _EVERY_GROUP)) != 0
        out = np.repeat(silent[:, None], len(masks), axis=1)
        out[shares] = told[shares]
        return out


def _one_below_another(raw: Array) -> tuple[Array, tuple[int, ...]]:
    """Return raw scores as a matrix, one column per output, and the shape of predictions: rows × masks (× outputs)."""
    n, n_masks, n_outputs = raw.shape
    return raw.reshape(n * n_masks, n_outputs), (n, n_masks, *((n_outputs,) if n_outputs > 1 else ()))


def subset_scores(
    model: Any, consent: Consent, *, raw_score: bool, target_class: int | None, threads: int
) -> SubsetScores | None:
    """Return a model of trees, ready to predict; None if only its engine can."""
    anchored = isinstance(model, AnchoredModel)
    booster = trees_of(model)
    forest = boosters_of(booster).trees(booster, best_rounds=not anchored)
    if forest is None or forest.n_columns != len(consent.feature_names):
        return None
    if target_class is not None and not (len(forest.start) > 1 and 0 <= target_class < len(forest.start)):
        return None  # the engine's predictions show what is wrong
    if anchored:
        same = model.consent == consent
        return AnchoredScores(forest, consent, target_class, threads, model, raw_score) if same else None
    if forest.response is None and not raw_score:
        return None
    return BoosterScores(forest, consent, target_class, threads, None if raw_score else forest.response)


# --------------------------------------------------------------------------------------------------
# Predictions for any (person, mask): masked rows are built in batches, so 2^r copies of a table never exist.


TABLE_VALUES = 8_000_000
"""How many values are passed at a time to a model that takes tables."""

PREDICTIONS_WORTH_READING = 5_000
"""From this many predictions per thread on it pays to read the trees, which one thread does in the engine's time for
about as many."""

LEAVES_READ_FAST = 64
"""Larger trees take longer to read in proportion to their leaves, while the engine's predictions hardly do."""

COMPARED_ROWS = 8
"""How many people are predicted both ways before the trees that were read are trusted."""


class MaskedPredictor:
    """A tree model and a table, ready to predict any person with any mask.

    A few predictions are left to the engine. For more, the trees are read and scored by :class:`SubsetScores`, which
    gives the same bits many times faster. It is trusted once it has repeated what the engine says about some people of
    this very table. Otherwise, and where trees cannot be read, the engine predicts masked rows.

    Parameters
    ----------
    model
        A booster of any engine, an anchored model, or what :func:`unwrap` finds one in.
    X
        A table with the columns of training.
    raw_score
        Predict raw scores.
    num_threads
        Threads for the kernels; None means all cores.
    consent
        The consent schema, for a model that has none.
    target_class
        Predict this class only, for a model with several.
    container
        The table as an anchor should see it, if ``X`` is no more than its numbers.
    """

    def __init__(
        self,
        model: Any,
        X: Any,
        *,
        raw_score: bool = False,
        num_threads: int | None = None,
        consent: Consent | None = None,
        target_class: Any = None,
        container: Any = None,
    ) -> None:
        self._index = X.index if hasattr(X, "index") and hasattr(X, "columns") else None
        inner = unwrap(model, X)
        model, X = inner.model, inner.table
        self.model: Any = model
        summary = None
        if consent is None:
            consent, summary = kept_of(model)
        if consent is None:
            raise ValueError(
                "The model has no consent schema, so it is not known what is optional. Train it with pucboost.train, "
                "or load it with pucboost.load_model."
            )
        self.consent: Consent = consent
        self._raw_score = raw_score
        # An anchor is asked about the whole table, in the user's container.
        is_read_in_pieces = is_stored(X) and not isinstance(model, AnchoredModel)
        self._table = read_stored(consent, X, categories_of(model)) if is_read_in_pieces else in_order_of(consent, X)
        self.source: RowSource = row_source(self._table, categories_of(model))
        consent.check_table(self.source)
        if container is not None:
            self._table = container
        if summary is not None and summary.unstored_withheld and self._leaves_out_optional():
            warn(
                "In training, available= said which values that the sparse matrix does not store were withheld. Here "
                "they are all read as the number 0, that is as shared. Store NaN for what is withheld.",
            )
        self._threads = thread_count(num_threads)
        self._target_class = inner.class_number(target_class)
        self._asked = 0
        self._scores: SubsetScores | None = None
        self._read_trees: Callable[[], SubsetScores | None] | None = partial(
            subset_scores, model, consent, raw_score=raw_score, target_class=self._target_class, threads=self._threads
        )

    def _leaves_out_optional(self) -> bool:
        """Return whether the table is sparse and does not store some optional values."""
        source, optional = self.source, self.consent.group_columns
        return source.is_sparse and any(
            (~np.isnan(source.window(lo, hi)[:, optional]) & ~source.present(np.arange(lo, hi), optional)).any()
            for lo, hi in source.blocks()
        )

    @cached_property
    def shared(self) -> Array:
        """Mask of what each person shares."""
        return self.consent.presence(self.source, num_threads=self._threads)

    @cached_property
    def _anchor_scores(self) -> AnchorScores | None:
        """What the anchor says about everybody, if there is one; asked once, since it never sees what is optional."""
        if not isinstance(self.model, AnchoredModel):
            return None
        return self.model.anchor.scores(self._table, categories_of(self.model))

    @property
    def n_rows(self) -> int:
        """Number of people."""
        return self.source.n_rows

    def frame(self, values: Array, columns: Any) -> pd.DataFrame:
        """Return values of all people as a DataFrame with the index of their table; the values are not copied."""
        import pandas as pd

        return pd.DataFrame(values, columns=columns, index=self._index, copy=False)

    def batches(self, per_person: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of people whose masked rows fit into a batch, ``per_person`` rows each."""
        step = self._people_per_batch(per_person)
        for lo in range(0, self.n_rows, step):
            yield lo, min(lo + step, self.n_rows)

    def _people_per_batch(self, per_person: int) -> int:
        row_bytes = self.source.n_columns * self.source.dtype.itemsize
        return max(1, 4 * BATCH_BYTES // (row_bytes * max(1, per_person)))

    def block(self, lo: int, hi: int) -> Block:
        """Return the people lo … hi − 1."""
        scores = self._anchor_scores
        return Block(self.source.window(lo, hi), None if scores is None else scores.of(np.arange(lo, hi)))

    def block_of(self, people: Array) -> Block:
        """Return some people, in the given order."""
        scores = self._anchor_scores
        return Block(self.source.take(people), None if scores is None else scores.of(people))

    def predict(self, block: Block, rows: Array, masks: Array) -> Array:
        """Return predictions for rows of a block, each with its mask."""
        scores = self._scores_of(block, len(rows), 1)
        return self._masked(self._by_engine if scores is None else scores.rows, block, rows, masks)

    def subsets(self, people: Array, masks: Array) -> Iterator[tuple[Array, Array]]:
        """Yield people, and their predictions for each mask (people × masks, × classes), batch by batch."""
        step = self._people_per_batch(len(masks))
        if self.reads_trees(len(people), len(masks)) and self._scores is not None:
            step = max(step, 4 * BATCH_BYTES // (len(masks) * self._scores.bytes_per_prediction))
        for lo in range(0, len(people), step):
            some = people[lo : lo + step]
            block = self.block_of(some)
            scores = self._scores_of(block, 0, len(masks))
            yield some, self._subsets_by_engine(block, masks) if scores is None else scores.subsets(block, masks)

    def _subsets_by_engine(self, block: Block, masks: Array) -> Array:
        step, n = self._people_per_batch(len(masks)), len(block.rows)
        parts = []
        for lo in range(0, n, step):
            rows = np.repeat(np.arange(lo, min(lo + step, n)), len(masks))
            values = self._masked(self._by_engine, block, rows, np.tile(masks, len(rows) // len(masks)))
            parts.append(values.reshape(-1, len(masks), *values.shape[1:]))
        return np.concatenate(parts)

    def scatter(self, values: Array, people: Array, columns: Array, out: Array) -> None:
        """Write predictions of people (people × columns, × classes) into some columns of a table of everybody."""
        cells, table = values.reshape(*values.shape[:2], -1), out.reshape(*out.shape[:2], -1)
        job = partial(scatter_cells, cells, people, columns)
        run_in_ranges(lambda lo, hi: job(lo, hi, table), len(people), self._threads)

    def reads_trees(self, people: int, n_masks: int) -> bool:
        """Return whether trees are scored without the engine, now that more predictions are asked for."""
        self._asked += people * n_masks
        if self._read_trees is not None and self._asked >= PREDICTIONS_WORTH_READING * self._threads:
            leaves = self._leaves_of_first_tree
            worth = PREDICTIONS_WORTH_READING * self._threads * max(1.0, leaves / LEAVES_READ_FAST)
            if self._asked >= worth and beat_engine(leaves, n_masks):
                scores, self._read_trees = self._read_trees(), None
                self._scores = scores if scores is not None and self._agrees(scores) else None
        return self._scores is not None and beat_engine(self._scores.leaves, n_masks)

    def _scores_of(self, block: Block, people: int, n_masks: int) -> SubsetScores | None:
        """Return what scores trees for a block; None if the engine shall predict, perhaps to refuse what is in it."""
        reads_trees = self.reads_trees(people, n_masks)
        return None if self._scores is None or not reads_trees or self._scores.refuses(block.rows) else self._scores

    @cached_property
    def _leaves_of_first_tree(self) -> int:
        trees = trees_of(self.model)
        first = boosters_of(trees).trees(trees, first_only=True)
        return 1 if first is None else int(first.leaf_order.count[0])

    def _agrees(self, scores: SubsetScores) -> bool:
        """Return whether the engine predicts the same bits for some people."""
        everything = (1 << self.consent.n_groups) - 1
        halves = (everything & int(digit * 16, 16) for digit in "5a3c")
        masks = np.unique(self.consent.nesting.largest(np.array([0, everything, *halves], dtype=np.uint64)))
        block = self.block_of(np.linspace(0, self.n_rows - 1, COMPARED_ROWS).astype(np.int64))
        rows = np.repeat(np.arange(COMPARED_ROWS), len(masks))
        wanted = self._masked(self._by_engine, block, rows, np.tile(masks, COMPARED_ROWS))
        found = scores.subsets(block, masks).reshape(wanted.shape)
        return found.dtype == wanted.dtype and np.array_equal(found, wanted, equal_nan=True)

    def _masked(self, predict: Callable[[Block], Array], block: Block, rows: Array, masks: Array) -> Array:
        """Return what a function predicts for rows of a block, each with its mask."""
        out = np.empty((len(rows), self.source.n_columns), dtype=self.source.dtype)
        masked = gather_masked(block.rows, rows, masks, self.consent, out, threads=self._threads)
        return predict(Block(masked, None if block.start is None else block.start.of(rows)))

    def _by_engine(self, block: Block) -> Array:
        """Return what the engine predicts for rows as they are."""
        if block.start is None:
            values = boosters_of(self.model).predict(self.model, block.rows, raw_score=self._raw_score)
        else:
            values = self.model.add_trees(block.start, block.rows, raw_score=self._raw_score)
        target = self._target_class
        if target is None:
            return values
        if values.ndim != 2 or not 0 <= target < values.shape[1]:
            known = f"its classes are 0 … {values.shape[1] - 1}" if values.ndim == 2 else "it has one value per person"
            raise ValueError(f"target_class is {target}, but {known}.")
        return np.asarray(values[:, target])

    def everybody(self, masks: Array) -> Array:
        """Return predictions for everybody, each with the mask given for them."""
        return np.concatenate(
            [self.predict(self.block(lo, hi), np.arange(hi - lo), masks[lo:hi]) for lo, hi in self.batches(1)]
        )

    def people(self, rows: Array, mask: int) -> Array:
        """Return predictions for some people, all with the same mask."""
        step = self._people_per_batch(1)
        parts = []
        for lo in range(0, len(rows), step):
            some = rows[lo : lo + step]
            parts.append(self.predict(self.block_of(some), np.arange(len(some)), np.full(len(some), mask, np.uint64)))
        return np.concatenate(parts)

    def all_subsets(self, people: Array, submasks: Array) -> Iterator[tuple[Array, Array]]:
        """Yield people, and their predictions for each sub-mask (people × sub-masks), batch by batch."""
        for some, values in self.subsets(people, submasks):
            if values.ndim != 2:
                raise ValueError(
                    "With several classes there is no single most favourable or attributable prediction. Choose a "
                    "class with target_class."
                )
            yield some, values


def predict_tables(call: Callable[[Any], Any], table: Any, rows: Array, consent: Consent, mask: int) -> Array:
    """Return what a function of tables predicts for some people with every group outside ``mask`` erased.

    The function gets batches in the table's own container. They are copies, which it may change.
    """
    hidden = consent.columns_outside(mask)
    step = max(1, TABLE_VALUES // max(1, len(consent.feature_names)))
    parts = []
    for lo in range(0, len(rows), step):
        part = rows_of(table, rows[lo : lo + step])
        parts.append(np.asarray(call(erase_columns(part, hidden) if hidden else part)))
    return np.concatenate(parts)
