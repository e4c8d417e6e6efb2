"""The search for the best split of a leaf, column by column, and what was found as a test of codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._arrays import Array
from ..compiling import kernel
from ..masks import counter_hash
from .categories import best_categories
from .leaf_outputs import leaf_gain
from .memory import BIN, FEATURE, FOUND, GAIN, L2, LEFT_G, LEFT_H, MISSING_LEFT
from .splits import NO_SPLIT, Leaf, best_threshold, cumulate

LEAST_HESSIAN = 1e-15
"""A child must have some hessian, whatever the parameters say."""

ROUNDING = 1e-12
"""A gain below this part of what the leaf has gained already is nothing but rounding."""

_STREAM_NODE, _STREAM_THRESHOLD = np.uint64(0), np.uint64(1)
_1, _63 = np.uint64(1), np.uint64(63)


@kernel(error_model="numpy", no_cpython_wrapper=True)
def allowed_features(features: Any, path: Array, number: Any, limits: Any, node: Any, allowed_out: Array) -> None:
    """Write which features a leaf may be split on: those that may meet all on its path, or a draw of them."""
    n_features, n_sets = len(features.column), len(features.together)
    n = 0
    for f in range(n_features):
        allowed_out[f] = features.used[f]
        if n_sets > 0 and allowed_out[f]:
            allowed_out[f] = 0
            for s in range(n_sets):
                if features.together[s, f]:
                    fits = 1
                    for other in range(n_features):
                        if path[number, other] and not features.together[s, other]:
                            fits = 0
                    if fits:
                        allowed_out[f] = 1
                        break
        n += allowed_out[f]
    if limits.per_node >= 1.0 or n == 0:
        return
    # Each set of this size is drawn with the same probability (Knuth's algorithm S).
    wanted = max(min(2, n), int(np.floor(n * limits.per_node + 0.5)))
    for f in range(n_features):
        if allowed_out[f]:
            chance = counter_hash(limits.key, np.uint64(node) * np.uint64(2) + _STREAM_NODE, np.uint64(f))
            allowed_out[f] = np.float64(chance >> np.uint64(11)) * 2.0**-53 * n < wanted
            wanted -= allowed_out[f]
            n -= 1


@kernel(error_model="numpy", no_cpython_wrapper=True)
def find_split(
    leaf: Any, features: Any, cells: Any, limits: Any, penalties: Any, rules: Any, bag: Any,
    wide_g: Array, wide_h: Array, first_column: Any, end_column: Any, node: Any, scratch: Any, barren_out: Array,
    found_out: Array, set_out: Array,
) -> None:  # fmt: skip
    """Write the best split of one leaf in the columns first_column … end_column − 1; gains are above the leaf's own.

    A feature by which nothing can be gained is noted in ``barren_out``, and not tried again below, as in LightGBM.
    """
    below_g, below_h, gains, left_set = scratch.below_g, scratch.below_h, scratch.gains, scratch.left_set
    found_out[GAIN] = NO_SPLIT
    threshold = leaf_gain(leaf.g, leaf.h, leaf.rows, penalties, leaf.value) + limits.min_gain
    noise = ROUNDING * abs(threshold)
    for f in range(len(features.column)):
        column = features.column[f]
        if not scratch.allowed[f] or barren_out[f] or column < first_column or column >= end_column:
            continue
        at, n_bins = cells.at[column], features.n_bins[f]
        only: Any = -1
        if limits.extra_trees:
            bits = counter_hash(limits.key, np.uint64(node) * np.uint64(2) + _STREAM_THRESHOLD, np.uint64(f))
            only = np.int64(bits % np.uint64(max(1, n_bins - 1 + features.has_missing[f])))
        if features.categorical[f]:
            gain, l2, left_g, left_h = best_categories(
                wide_g, wide_h, at, n_bins, bag.unit_g, bag.unit_h, limits.min_rows, only, leaf, penalties, rules,
                scratch.order, gains, left_set,
            )  # fmt: skip
            gain -= threshold
            best_bin, missing_left = 0, False
        else:
            missing_g, missing_h = cumulate(
                wide_g, wide_h, at, cells.n_codes[column], features.first[f], n_bins, features.bundled[f], leaf,
                bag.unit_g, bag.unit_h, below_g, below_h,
            )  # fmt: skip
            gain, best_bin, missing_left = best_threshold(
                below_g, below_h, n_bins, missing_g, missing_h, features.has_missing[f], only, features.monotone[f],
                leaf, threshold, max(noise, found_out[GAIN]), penalties, gains,
            )  # fmt: skip
            l2, left_g, left_h = penalties.l2, below_g[best_bin], below_h[best_bin]
            if missing_left:
                left_g += missing_g
                left_h += missing_h
        if not gain > noise and not limits.extra_trees:  # one threshold says nothing of the others
            barren_out[f] = 1
        if gain > max(noise, found_out[GAIN]):
            found_out[GAIN], found_out[FEATURE], found_out[BIN] = gain, f, best_bin
            found_out[MISSING_LEFT], found_out[L2] = missing_left, l2
            found_out[LEFT_G], found_out[LEFT_H] = left_g, left_h
            for k in range(4):
                set_out[k] = left_set[k]


@kernel(error_model="numpy", no_cpython_wrapper=True)
def least_hessian_of_child(h: Any, rows: Any, limits: Any) -> Any:
    """Return the least hessian of a child: its own minimum, or that of ``min_rows`` rows at the leaf's mean hessian."""
    return max(max(limits.min_hessian, LEAST_HESSIAN), (limits.min_rows - 0.5) * h / rows)


@kernel(error_model="numpy", no_cpython_wrapper=True)
def search_leaf(
    thread: Any, side: Any, number: Any, features: Any, cells: Any, limits: Any, penalties: Any, rules: Any, bag: Any,
    shared: Any, first_column: Any, end_column: Any, leaves: Any, scratch: Any,
) -> None:  # fmt: skip
    """Look for the best split of a leaf in the columns of this thread, if it may be split at all."""
    shared.found[thread, side, GAIN] = NO_SPLIT
    h, rows = leaves.sum_h[number], leaves.rows[number]
    if limits.max_depth > 0 and leaves.depth[number] >= limits.max_depth:
        return
    if rows < 2.0 * limits.min_rows or not h > 0.0:
        return
    leaf = Leaf(
        leaves.sum_g[number], h, np.float64(rows), leaves.value[number], leaves.lowest[number], leaves.highest[number],
        least_hessian_of_child(h, rows, limits),
    )  # fmt: skip
    allowed_features(features, leaves.path, number, limits, leaves.born[number], scratch.allowed)
    find_split(
        leaf, features, cells, limits, penalties, rules, bag, shared.wide_g[number], shared.wide_h[number],
        first_column, end_column, leaves.born[number], scratch, leaves.barren[number], shared.found[thread, side],
        shared.found_sets[thread, side],
    )  # fmt: skip


@kernel(error_model="numpy", no_cpython_wrapper=True)
def take_best(number: Any, side: Any, threads: Any, shared: Any, leaves: Any) -> None:
    """Take the best split of a leaf that any thread has found; of equal ones that of the first feature."""
    leaves.best[number, GAIN] = NO_SPLIT
    for thread in range(threads):
        gain, feature = shared.found[thread, side, GAIN], shared.found[thread, side, FEATURE]
        best = leaves.best[number, GAIN]
        if gain > best or (gain == best and gain > 0.0 and feature < leaves.best[number, FEATURE]):
            for k in range(FOUND):
                leaves.best[number, k] = shared.found[thread, side, k]
            for k in range(4):
                leaves.best_set[number, k] = shared.found_sets[thread, side, k]


@kernel(error_model="numpy", no_cpython_wrapper=True)
def code_test(features: Any, found: Array, left_set: Array, right_set_out: Array) -> Any:
    """Return a split as a test of codes: (first code that goes right, how many more do, whether a set decides)."""
    f = np.int64(found[FEATURE])
    b, missing_left, n_bins = np.int64(found[BIN]), found[MISSING_LEFT] > 0.0, features.n_bins[f]
    for k in range(4):
        right_set_out[k] = ~left_set[k]
    if features.categorical[f]:
        return 0, 0, True
    if not features.bundled[f]:
        return b + 1, (253 if missing_left else 254) - b, False
    if b == n_bins - 1:
        return 255, 0, False
    first, last = features.first[f] + b, features.first[f] + n_bins - 2
    if missing_left or not features.has_missing[f]:
        return first, last - first, False
    for k in range(4):
        right_set_out[k] = 0
    for code in range(first, last + 1):
        right_set_out[code >> 6] |= _1 << (np.uint64(code) & _63)
    right_set_out[3] |= _1 << _63
    return first, last - first, True
