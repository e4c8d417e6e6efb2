"""Predictions of a booster for many subsets at once, without the engine, and bit for bit what the engine would say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._arrays import Array
from .._consent import Consent
from .._engines import boosters_of
from .._engines.forest import Forest
from .._kernels.threads import run_in_ranges
from .._models.anchored import AnchoredModel, trees_of
from .._models.anchors.base import AnchorScores
from .._tables.containers import row_source
from .leaf_sets import LeafSets, refuses

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
