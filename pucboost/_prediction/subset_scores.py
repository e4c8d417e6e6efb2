"""Predictions of a booster for many subsets at once, without the engine, and bit for bit what the engine would say."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import Array
from .._consent import Consent
from .._engines import boosters_of
from .._engines.forest import Forest
from .._kernels.threads import run_in_ranges
from .._models.anchored import AnchoredModel
from .leaf_sets import LeafSets


class SubsetScores:
    """The trees of a booster, ready to predict people under any mask.

    Parameters
    ----------
    forest
        The trees.
    consent
        The consent schema.
    raw_score
        Predict raw scores.
    target_class
        Predict this class only.
    threads
        Threads for the kernels.
    """

    def __init__(
        self, forest: Forest, consent: Consent, *, raw_score: bool, target_class: int | None, threads: int
    ) -> None:
        self._threads, self._target = threads, target_class
        self._response = None if raw_score else forest.response
        groups = np.full(len(consent.feature_names), -1, dtype=np.int64)
        self._plain = LeafSets(forest, groups, threads)
        groups[consent.group_columns] = consent.column_groups
        self._by_groups = LeafSets(forest, groups, threads)

    def rows(self, matrix: Array) -> Array:
        """Return predictions for rows as they are: rows (× classes)."""
        return self._predictions(self._plain.raw(matrix, np.zeros(1, dtype=np.uint64)))[:, 0]

    def subsets(self, block: Array, masks: Array) -> Array:
        """Return predictions for rows with every group outside a mask erased: rows × masks (× classes)."""
        return self._predictions(self._by_groups.raw(block, masks))

    def refuses(self, block: Array) -> bool:
        """Return whether the engine would refuse the values of a block."""
        return self._plain.refuses(block)

    def _predictions(self, raw: Array) -> Array:
        n, n_masks, n_outputs = raw.shape
        scores = raw.reshape(n * n_masks, n_outputs)
        out = scores[:, 0] if n_outputs == 1 else scores
        if self._response is not None:
            respond, out = self._response, np.empty_like(out)

            def respond_range(lo: int, hi: int) -> None:
                out[lo:hi] = respond(scores[lo:hi])

            run_in_ranges(respond_range, len(scores), self._threads)
        if self._target is not None:
            out = out[:, self._target]
        return out.reshape(n, n_masks, *out.shape[1:])


def subset_scores(
    model: Any, consent: Consent, *, raw_score: bool, target_class: int | None, threads: int
) -> SubsetScores | None:
    """Return the trees of a model, ready to predict; None if only its engine can."""
    if isinstance(model, AnchoredModel):
        return None
    forest = boosters_of(model).trees(model)
    if forest is None or (forest.response is None and not raw_score) or forest.n_columns != len(consent.feature_names):
        return None
    if target_class is not None and not (len(forest.start) > 1 and 0 <= target_class < len(forest.start)):
        return None  # the engine's predictions show what is wrong
    return SubsetScores(forest, consent, raw_score=raw_score, target_class=target_class, threads=threads)
