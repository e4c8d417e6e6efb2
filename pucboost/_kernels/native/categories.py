"""The best split of a leaf on one column of categories, by LightGBM's rules.

With few categories, one of them against all others. Else categories are sorted by G / (H + smooth), and the best of the
cuts through that order is taken, from either end (Fisher 1958: for squared error the best two sets are such a cut).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._arrays import Array
from ..compiling import kernel
from .splits import NO_SPLIT, split_gain


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
    chosen = only % max(longest, 1)
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
