"""The value of a leaf, what it gains, and its best split: LightGBM's formulas and rules.

With G and H the sums of gradients and hessians, and T(G) = sign(G)·max(0, |G| − λ₁), the loss of a leaf with value v
is about T(G)·v + ½(H + λ₂)v². Its minimum lies at v* = −T(G) / (H + λ₂) and equals −½T(G)² / (H + λ₂). Gains leave out
the ½.

Trees follow LightGBM's rules where these are not written down, too: a feature by which nothing can be gained in a leaf
is not tried below it, and missing values count as a category where ``max_cat_to_onehot`` is compared. Without these the
loss on tables with categories was a little larger, always to the same side. Not followed: LightGBM rounds the number of
rows bin by bin when it estimates it by hessians.

Loops without a maximum in them become vectors, since numba does not declare that a maximum may be taken in any order.
So gains are written first, and the largest is looked for in a loop of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...._common import Array
from ...._kernels.compiling import kernel
from ...._kernels.masks import counter_hash

GAIN, FEATURE, BIN, MISSING_LEFT, L2, LEFT_G, LEFT_H, FOUND = range(8)
"""Where what is found of a split stands in ``Shared.found`` and ``Leaves.best``, and how many numbers that are."""


class Penalties(NamedTuple):
    """What keeps leaves small; ``plain`` if all but ``l2`` are absent and no column is monotone."""

    l1: float
    l2: float
    max_step: float
    """Largest absolute value of a leaf; 0 for none."""
    smoothing: float
    """Rows by which a leaf is pulled towards its parent; 0 for none."""
    plain: bool


@kernel(error_model="numpy")
def soft_threshold(g: Any, l1: Any) -> Any:
    """Return T(g)."""
    return np.sign(g) * max(0.0, abs(g) - l1)


@kernel(error_model="numpy")
def leaf_output(g: Any, h: Any, rows: Any, l2: Any, penalties: Any, parent: Any, lowest: Any, highest: Any) -> Any:
    """Return v*, limited, pulled towards the parent's value (n·v* + s·parent) / (n + s), and kept within the bounds."""
    if not h + l2 > 0.0:  # an empty leaf
        return min(max(0.0, lowest), highest)
    value = -soft_threshold(g, penalties.l1) / (h + l2)
    if penalties.max_step > 0.0 and abs(value) > penalties.max_step:
        value = np.sign(value) * penalties.max_step
    if penalties.smoothing > 0.0:
        share = rows / (rows + penalties.smoothing)
        value = value * share + parent * (1.0 - share)
    return min(max(value, lowest), highest)


@kernel(error_model="numpy")
def gain_of_output(g: Any, h: Any, l2: Any, l1: Any, value: Any) -> Any:
    """Return −(2·T(g)·v + (h + λ₂)·v²), which is T(g)² / (h + λ₂) for v*."""
    return -(2.0 * soft_threshold(g, l1) * value + (h + l2) * value * value)


@kernel(error_model="numpy")
def leaf_gain(g: Any, h: Any, rows: Any, penalties: Any, parent: Any) -> Any:
    """Return the gain of a leaf as it is, before it is split."""
    if penalties.plain:
        return g * g / (h + penalties.l2)
    value = leaf_output(g, h, rows, penalties.l2, penalties, parent, -np.inf, np.inf)
    return gain_of_output(g, h, penalties.l2, penalties.l1, value)


# ----- the best split of a leaf on one column of numbers

NO_SPLIT = -np.inf


class Leaf(NamedTuple):
    """A leaf that may be split: sums of gradients and hessians, rows, value, and bounds of its value."""

    g: float
    h: float
    rows: float
    value: float
    lowest: float
    highest: float
    need: float
    """The smallest sum of hessians a child may have: its own minimum, and that of rows at the leaf's mean hessian."""


@kernel(error_model="numpy")
def cumulate(
    wide_g: Array, wide_h: Array, at: Any, n_codes: Any, first: Any, n_bins: Any, bundled: Any, leaf: Any,
    unit_g: Any, unit_h: Any, below_g_out: Array, below_h_out: Array,
) -> Any:  # fmt: skip
    """Write the sums over bins 0 … b of one feature, for every b; return the sums of its missing values.

    In a bundle, bin 0 is whatever is in no other bin of the feature and not missing.
    """
    missing_g, missing_h = wide_g[at + n_codes] * unit_g, wide_h[at + n_codes] * unit_h
    g, h, start = 0.0, 0.0, at
    if bundled:
        for k in range(at + first, at + first + n_bins - 1):
            g -= wide_g[k]
            h -= wide_h[k]
        g = leaf.g - missing_g + g * unit_g
        h = leaf.h - missing_h + h * unit_h
        below_g_out[0], below_h_out[0] = g, h
        for b in range(1, n_bins):
            g += wide_g[at + first + b - 1] * unit_g
            h += wide_h[at + first + b - 1] * unit_h
            below_g_out[b], below_h_out[b] = g, h
        return missing_g, missing_h
    for b in range(n_bins):
        g += wide_g[start + b] * unit_g
        h += wide_h[start + b] * unit_h
        below_g_out[b], below_h_out[b] = g, h
    return missing_g, missing_h


# Sums are finite and hessians at least ``need`` > 0 wherever a gain counts, so there is no NaN to preserve.
@kernel(error_model="numpy", fastmath={"nnan", "nsz"})
def _plain_gains(
    below_g: Array, below_h: Array, n: Any, more_g: Any, more_h: Any, g: Any, h: Any, need: Any, l2: Any,
    gains_out: Array,
) -> None:  # fmt: skip
    """Write G_l² / (H_l + λ₂) + G_r² / (H_r + λ₂) for the splits behind bins 0 … n − 1."""
    for b in range(np.uint64(n)):
        left_g, left_h = below_g[b] + more_g, below_h[b] + more_h
        right_g, right_h = g - left_g, h - left_h
        left, right = left_h + l2, right_h + l2
        gain = (left_g * left_g * right + right_g * right_g * left) / (left * right)
        gains_out[b] = gain if (left_h >= need) & (right_h >= need) else NO_SPLIT


@kernel(error_model="numpy")
def _largest(values: Array, n: Any) -> Any:
    """Return the largest of the first n values, none of which is NaN.

    Four maxima of every fourth value each: the next comparison need not wait for the last one.
    """
    a, b, c, d = NO_SPLIT, NO_SPLIT, NO_SPLIT, NO_SPLIT
    fours = n - n % 4
    for k in range(np.uint64(0), np.uint64(fours), np.uint64(4)):
        w, x, y, z = values[k], values[k + np.uint64(1)], values[k + np.uint64(2)], values[k + np.uint64(3)]
        a = w if w > a else a
        b = x if x > b else b
        c = y if y > c else c
        d = z if z > d else d
    for k in range(np.uint64(fours), np.uint64(n)):
        a = values[k] if values[k] > a else a
    return max(max(a, b), max(c, d))


@kernel(error_model="numpy")
def split_gain(left_g: Any, left_h: Any, l2: Any, penalties: Any, leaf: Any, monotone: Any) -> Any:
    """Return what the two children gain; −∞ if one is too small or they are in the wrong order."""
    right_g, right_h = leaf.g - left_g, leaf.h - left_h
    if not (left_h >= leaf.need and right_h >= leaf.need):
        return NO_SPLIT
    per_hessian = leaf.rows / leaf.h
    left = leaf_output(left_g, left_h, left_h * per_hessian, l2, penalties, leaf.value, leaf.lowest, leaf.highest)
    right = leaf_output(right_g, right_h, right_h * per_hessian, l2, penalties, leaf.value, leaf.lowest, leaf.highest)
    if (monotone > 0 and left > right) or (monotone < 0 and left < right):
        return NO_SPLIT
    l1 = penalties.l1
    return gain_of_output(left_g, left_h, l2, l1, left) + gain_of_output(right_g, right_h, l2, l1, right)


@kernel(error_model="numpy")
def best_threshold(
    below_g: Array, below_h: Array, n_bins: Any, missing_g: Any, missing_h: Any, has_missing: Any, only: Any,
    monotone: Any, leaf: Any, own: Any, least: Any, penalties: Any, gains: Array,
) -> Any:  # fmt: skip
    """Return (gain, bin, whether missing values go left) of the best split: bins 0 … bin go left.

    Gains are above ``own``, that of the leaf itself; if none is above ``least``, the largest is returned all the same,
    but not where it is.

    ``only`` ≥ 0 allows no other bin (extra trees). Splitting behind the last bin parts the missing values from all
    others. Of equal gains the first counts: missing values to the right, then the lower bin.
    """
    best, best_bin, best_left = NO_SPLIT, 0, False
    for missing_left in range(2 if has_missing else 1):
        more_g, more_h = (missing_g, missing_h) if missing_left else (0.0, 0.0)
        n = n_bins if has_missing and not missing_left else n_bins - 1
        if n < 1:
            continue
        if penalties.plain and only < 0:
            _plain_gains(below_g, below_h, n, more_g, more_h, leaf.g, leaf.h, leaf.need, penalties.l2, gains)
        else:
            for b in range(n):
                gains[b] = NO_SPLIT
                if only < 0 or b == min(only, n - 1):
                    gains[b] = split_gain(
                        below_g[b] + more_g, below_h[b] + more_h, penalties.l2, penalties, leaf, monotone
                    )
        found = _largest(gains, n)
        if found - own > best:
            best, best_left = found - own, missing_left == 1
            if best > least:
                for b in range(n):
                    if gains[b] == found:
                        best_bin = b
                        break
    return best, best_bin, best_left


# ----- the best split of a leaf on one column of categories, by LightGBM's rules
#
# With few categories, one of them against all others. Else categories are sorted by G / (H + smooth), and the best of
# the cuts through that order is taken, from either end (Fisher 1958: for squared error the best two sets are such a
# cut).


class CategoryRules(NamedTuple):
    """LightGBM's parameters for categories."""

    most_one_hot: int
    most_on_one_side: int
    smooth: float
    l2: float
    rows_per_group: float


@kernel(error_model="numpy")
def _set_bits(bins: Array, lo: Any, hi: Any, set_out: Array) -> None:
    for k in range(4):
        set_out[k] = 0
    for k in range(lo, hi):
        b = np.uint64(bins[k])
        set_out[b >> np.uint64(6)] |= np.uint64(1) << (b & np.uint64(63))


@kernel(error_model="numpy")
def sort_categories(
    wide_g: Array, wide_h: Array, at: Any, n_bins: Any, per_hessian: Any, smooth: Any, unit_g: Any, unit_h: Any,
    order_out: Array, key_out: Array,
) -> Any:  # fmt: skip
    """Write the bins with at least ``smooth`` rows, by rising G / (H + smooth); return how many there are."""
    n = 0
    for b in range(n_bins):
        g, h = wide_g[at + b] * unit_g, wide_h[at + b] * unit_h
        if np.floor(h * per_hessian + 0.5) < max(smooth, 1.0):
            continue
        key = g / (h + smooth)
        place = n
        while place > 0 and key_out[place - 1] > key:
            key_out[place], order_out[place] = key_out[place - 1], order_out[place - 1]
            place -= 1
        key_out[place], order_out[place] = key, b
        n += 1
    return n


@kernel(error_model="numpy")
def best_categories(
    wide_g: Array, wide_h: Array, at: Any, n_bins: Any, unit_g: Any, unit_h: Any, min_rows: Any, only: Any,
    leaf: Any, penalties: Any, rules: Any, order: Array, key: Array, left_set_out: Array,
) -> Any:  # fmt: skip
    """Return (gain, λ₂ of the children, g and h of the left child); write the set of bins that go left."""
    best, best_g, best_h = NO_SPLIT, 0.0, 0.0
    per_hessian = leaf.rows / leaf.h
    if n_bins < rules.most_one_hot:  # LightGBM counts missing values as one more
        for b in range(n_bins):
            g, h = wide_g[at + b] * unit_g, wide_h[at + b] * unit_h
            if only >= 0 and b != only % n_bins:
                continue
            gain = split_gain(g, h, penalties.l2, penalties, leaf, 0)
            if gain > best:
                best, best_g, best_h = gain, g, h
                order[0] = b
                _set_bits(order, 0, 1, left_set_out)
        return best, penalties.l2, best_g, best_h
    l2 = penalties.l2 + rules.l2
    n = sort_categories(wide_g, wide_h, at, n_bins, per_hessian, rules.smooth, unit_g, unit_h, order, key)
    longest = min(rules.most_on_one_side, (n + 1) // 2)
    chosen = only % max(longest - 1, 1)
    for end in range(2):
        g, h, in_group = 0.0, 0.0, 0.0
        for length in range(1, longest + 1):
            b = order[length - 1] if end == 0 else order[n - length]
            g += wide_g[at + b] * unit_g
            h += wide_h[at + b] * unit_h
            in_group += np.floor(wide_h[at + b] * unit_h * per_hessian + 0.5)
            if h < leaf.need:
                continue
            others = (leaf.h - h) * per_hessian
            if leaf.h - h < leaf.need or others < max(min_rows, rules.rows_per_group) - 0.5:
                break
            if in_group < rules.rows_per_group:
                continue
            in_group = 0.0
            if only >= 0 and length - 1 != chosen:
                continue
            gain = split_gain(g, h, l2, penalties, leaf, 0)
            if gain > best:
                best, best_g, best_h = gain, g, h
                _set_bits(order, 0 if end == 0 else n - length, length if end == 0 else n, left_set_out)
    return best, l2, best_g, best_h


# ----- the search for the best split of a leaf, column by column, and what was found as a test of codes

LEAST_HESSIAN = 1e-15
"""A child must have some hessian, whatever the parameters are."""

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
    wanted = max(1, int(np.floor(n * limits.per_node + 0.5)))
    for f in range(n_features):
        if allowed_out[f]:
            chance = counter_hash(limits.key, np.uint64(node) * np.uint64(2) + _STREAM_NODE, np.uint64(f))
            allowed_out[f] = np.float64(chance >> np.uint64(11)) * 2.0**-53 * n < wanted
            wanted -= allowed_out[f]
            n -= 1


@kernel(error_model="numpy", no_cpython_wrapper=True)
def find_split(
    leaf: Any, on_missing: Any, features: Any, cells: Any, limits: Any, penalties: Any, rules: Any, bag: Any,
    wide_g: Array, wide_h: Array, first_column: Any, end_column: Any, node: Any, scratch: Any, barren_out: Array,
    found_out: Array, set_out: Array,
) -> None:  # fmt: skip
    """Write the best split of one leaf in the columns first_column … end_column − 1; gains are above the leaf's own.

    ``on_missing`` allows only those that part what is missing from all else, of the features that may come first.
    A feature by which nothing can be gained is noted in ``barren_out``, and not tried again below, as in LightGBM.
    Not so if there is a largest step: where it limits both children they gain nothing over their parent, theirs may.
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
        if on_missing:
            if features.comes_first[f]:
                missing = at + cells.n_codes[column]
                left_g, left_h = leaf.g - wide_g[missing] * bag.unit_g, leaf.h - wide_h[missing] * bag.unit_h
                gain = split_gain(left_g, left_h, penalties.l2, penalties, leaf, 0) - threshold
                if gain > max(noise, found_out[GAIN]):
                    found_out[GAIN], found_out[FEATURE], found_out[BIN] = gain, f, n_bins - 1
                    found_out[MISSING_LEFT], found_out[L2] = 0.0, penalties.l2
                    found_out[LEFT_G], found_out[LEFT_H] = left_g, left_h
                    for k in range(4):
                        set_out[k] = 0
                    for b in range(n_bins if features.categorical[f] else 0):
                        set_out[b >> 6] |= _1 << (np.uint64(b) & _63)
            continue
        only: Any = -1
        if limits.extra_trees:
            bits = counter_hash(limits.key, np.uint64(node) * np.uint64(2) + _STREAM_THRESHOLD, np.uint64(f))
            only = np.int64(bits >> np.uint64(1))
            if not features.categorical[f]:  # as in LightGBM: neither the last threshold nor missing values alone
                only %= max(1, n_bins - 2 + features.has_missing[f])
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
        if not gain > noise and not penalties.max_step > 0.0:
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
    thread: Any, side: Any, number: Any, on_missing: Any, features: Any, cells: Any, limits: Any, penalties: Any,
    rules: Any, bag: Any, shared: Any, first_column: Any, end_column: Any, leaves: Any, scratch: Any,
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
        leaf, on_missing, features, cells, limits, penalties, rules, bag, shared.wide_g[number], shared.wide_h[number],
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
