"""The best split of a leaf on one column of numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._arrays import Array
from ..compiling import kernel
from .leaf_outputs import gain_of_output, leaf_output

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
