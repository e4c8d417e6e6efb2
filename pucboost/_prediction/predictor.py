"""Predictions for any (person, mask): masked rows are built in batches, so 2^r copies of a table never exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arrays import Array
from .._consent import Consent
from .._engines import boosters_of
from .._kernels.rows import scatter_cells
from .._kernels.threads import run_in_ranges, thread_count
from .._models.anchored import AnchoredModel, trees_of
from .._models.anchors.base import AnchorScores
from .._models.schema import categories_of, kept_of
from .._tables.containers import row_source, rows_of
from .._tables.erasing import erase_columns
from .._tables.sources import RowSource
from .._tables.stored_tables import is_stored
from .._virtual.rows import BATCH_BYTES, gather_masked
from .._warnings import warn
from .columns import in_order_of, read_stored
from .subset_scores import Block, SubsetScores, beat_engine, subset_scores
from .wrapped import unwrap

if TYPE_CHECKING:
    import pandas as pd

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
        return boosters_of(trees).leaves_of_first_tree(trees)

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
