"""The most favourable prediction over all subsets of what a person shares: the bonus system.

min_{s ⊆ a} f(b, s, z_s) for a premium, the maximum for an approval, over the subsets that can be shared. Among equal
predictions the largest subset counts: what was shared is used unless that hurts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from .._arrays import Array
from .._nesting import FREE, Nesting, shared_counts
from .predictor import MaskedPredictor
from .subsets import people_by_mask

Favourable: TypeAlias = Literal["lower", "higher"]
"""Which predictions people prefer: lower premiums, or higher chances of approval."""

Search: TypeAlias = Literal["exact", "greedy"]

AllSubsets: TypeAlias = Callable[[Array, Array], Iterator[tuple[Array, Array]]]
"""Takes people and sub-masks; yields batches of (people, predictions: people × sub-masks)."""


def favourable_sign(favourable: Any) -> float:
    """Return 1 if lower predictions are favourable, −1 if higher ones are, so that a small sign·f is favourable."""
    if favourable not in get_args(Favourable):
        raise ValueError(f"favourable must be 'lower' or 'higher', got {favourable!r}.")
    return 1.0 if favourable == "lower" else -1.0


def best_subsets(
    shared: Array,
    all_subsets: AllSubsets,
    sign: float,
    max_subsets: float = np.inf,
    search: Callable[[Array, int], tuple[Array, Array]] | None = None,
    nesting: Nesting = FREE,
) -> tuple[Array, Array]:
    """Return the most favourable prediction of each person (least sign·f), and the mask that gives it.

    Parameters
    ----------
    shared
        Mask of what each person shares.
    all_subsets
        Predicts people for all sub-masks of what they share.
    sign
        As :func:`favourable_sign` returns it.
    max_subsets, search
        For people with more than ``max_subsets`` subsets, ``search(people, mask)`` returns predictions and masks.
    nesting
        Which groups need others: only admissible subsets are looked at.
    """
    prediction, used = np.empty(len(shared)), np.zeros(len(shared), dtype=np.uint64)
    for mask, people in people_by_mask(shared):
        if search is not None and nesting.count(mask) > max_subsets:
            prediction[people], used[people] = search(people, mask)
            continue
        submasks = nesting.submasks(mask)
        largest_first = np.lexsort((submasks, shared_counts(submasks)))[::-1]  # argmin takes the first among equals
        for some, values in all_subsets(people, submasks):
            best = largest_first[np.argmin(sign * values[:, largest_first], axis=1)]
            prediction[some], used[some] = values[np.arange(len(some)), best], submasks[best]
    return prediction, used


def best_predictions(
    predictor: MaskedPredictor, sign: float, max_subsets: int, search: str = "exact"
) -> tuple[Array, Array]:
    """Return each person's best prediction and its mask; people with too many subsets are searched or refused."""
    nesting = predictor.consent.nesting
    if search == "exact":
        too_many = who_has_too_many(predictor.shared, nesting, max_subsets)
        if too_many is not None:
            row, groups, subsets = too_many
            raise ValueError(
                f"Row {row} shares {groups} groups, {subsets} subsets, more than max_subsets = {max_subsets}. Raise "
                "max_subsets, or allow search='greedy'."
            )
    return best_subsets(
        predictor.shared,
        predictor.all_subsets,
        sign,
        max_subsets,
        lambda people, mask: _greedy(predictor, people, mask, sign),
        nesting,
    )


def who_has_too_many(shared: Array, nesting: Nesting, max_subsets: float) -> tuple[int, int, str] | None:
    """Return the row with most subsets, its number of groups and of subsets, if these are too many; else None."""
    counts = nesting.counts(shared)
    if not len(counts) or counts.max() <= max_subsets:
        return None
    row = int(counts.argmax())
    k = int(shared[row]).bit_count()
    return row, k, f"2^{k}" if nesting.is_free else f"{int(counts[row]):,}"


def _greedy(predictor: MaskedPredictor, people: Array, mask: int, sign: float) -> tuple[Array, Array]:
    """Return the better result of two greedy searches, from everything and from nothing, one group at a time.

    A group that is added comes with all that it needs, and one that is left out goes with all that need it.
    """
    block, nesting = predictor.block_of(people), predictor.consent.nesting
    rows = np.arange(len(people))
    groups = [g for g in range(64) if mask >> g & 1]

    def changed(used: Array, g: int) -> Array:
        has = (used & np.uint64(1 << g)) != 0
        return np.where(has, used & ~np.uint64(nesting.below[g]), used | np.uint64(nesting.above[g]))

    ends = []
    for start in (mask, 0):
        used = np.full(len(people), start, dtype=np.uint64)
        value = predictor.predict(block, rows, used)
        while True:
            others = [changed(used, g) for g in groups]
            tried = [predictor.predict(block, rows, other) for other in others]
            best = np.argmin([sign * t for t in tried], axis=0)
            candidate = np.choose(best, tried) if len(groups) < 32 else np.stack(tried)[best, rows]
            helps = sign * candidate < sign * value
            if not helps.any():
                break
            value = np.where(helps, candidate, value)
            used = np.where(helps, np.stack(others)[best, rows], used)
        ends.append((value, used))
    (from_all, masks_all), (from_none, masks_none) = ends
    better = sign * from_none < sign * from_all
    return np.where(better, from_none, from_all), np.where(better, masks_none, masks_all)
