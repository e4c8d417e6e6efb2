"""Readable twins of the kernels in ``native/kernels/codes.py``: one value at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pucboost._engines.native.kernels.codes import MISSING


def bin_ends(counts: Sequence[int], max_bins: int, min_count: int) -> list[int]:
    """Return the number of the last value of each bin."""
    ends, in_bin, last = [], 0, len(counts) - 1
    if len(counts) <= max_bins:
        for i, count in enumerate(counts[:-1]):
            in_bin += count
            if in_bin >= min_count:
                ends.append(i)
                in_bin = 0
        return [*ends, last]
    n_bins = max(1, min(max_bins, sum(counts) // max(1, min_count)))
    is_heavy = [count >= sum(counts) / n_bins for count in counts]
    bins_left = n_bins - sum(is_heavy)
    rest = sum(count for count, heavy in zip(counts, is_heavy, strict=True) if not heavy)
    share = rest / max(1, bins_left)
    for i, count in enumerate(counts[:-1]):
        if len(ends) == n_bins - 1:
            break
        in_bin += count
        rest -= 0 if is_heavy[i] else count
        if is_heavy[i] or in_bin >= share or (is_heavy[i + 1] and in_bin >= max(1, share / 2)):
            ends.append(i)
            in_bin = 0
            if not is_heavy[i]:
                bins_left -= 1
                share = rest / max(1, bins_left)
    return [*ends, last]


def number_code(value: float, upper: Sequence[float], missing: int, least: float) -> int:
    """Return the bin of a number, or ``missing``."""
    if math.isnan(value) or abs(value) <= least:
        return missing
    return sum(bound < value for bound in upper)


def category_code(value: float, categories: Sequence[int]) -> int:
    """Return the bin of a category; unknown, negative and missing ones are missing."""
    if not math.isfinite(value) or int(value) not in categories:
        return MISSING
    return categories.index(int(value))


def bundled_code(before: int, code: int, first: int) -> int:
    """Return the code of a bundle after one of its features was added to it."""
    if code == MISSING:
        return MISSING
    return first + code - 1 if code > 0 else before


def packed(codes: Sequence[int]) -> list[int]:
    """Return the codes of a person, eight in a word."""
    return [sum(code << 8 * k for k, code in enumerate(codes[at : at + 8])) for at in range(0, max(1, len(codes)), 8)]
