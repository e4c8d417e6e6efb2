"""Histograms of gradients in whole numbers: the same bits whatever the order of rows and the number of threads.

Gradient and hessian are rounded to multiples of a power of two. A row is one int64, the gradient in the upper and the
hessian in the lower half, so a cell takes one addition for both. Half a word overflows after some 2³¹ units; before
that a *narrow* histogram of such cells is poured into a *wide* one, two doubles a cell. Doubles add whole numbers below
2⁵³ exactly. So the resolution does not depend on how many rows there are.

Narrow cells of a column are :data:`STRIDE` apart, not 256: otherwise the first cells of all columns would compete for
the same few lines of the cache. Wide cells are packed: column c has its value codes from ``at[c]`` on, then the missing
ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._arrays import Array
from ..compiling import kernel

STRIDE = 264
MISSING = 255
CHUNK = 256
"""Rows between two looks at whether narrow cells may overflow."""

MEAN_LEVELS = 2**14
"""About how many units the mean gradient has."""

MOST_LEVELS = 2**22
"""The largest gradient: a chunk of them still fits into half a word."""

_FULL = 2**31 - 1
_U8, _BYTE = np.uint64(8), np.uint64(255)


@kernel(error_model="numpy")
def gradient_sizes(gradient: Array, hessian: Array, lo: Any, hi: Any, sizes_out: Array) -> None:
    """Write Σ|g|, max|g|, Σ|h|, max|h| of each chunk of 4,096 rows, for the chunks lo … hi − 1.

    Sums of chunks are always made of the same numbers in the same order, so they do not depend on threads.
    """
    for chunk in range(lo, hi):
        sum_g, sum_h, top_g, top_h = 0.0, 0.0, np.float32(0.0), np.float32(0.0)
        for i in range(chunk * 4096, min(len(gradient), (chunk + 1) * 4096)):
            g, h = abs(gradient[i]), abs(hessian[i])
            sum_g += g
            sum_h += h
            top_g = max(top_g, g)
            top_h = max(top_h, h)
        sizes_out[chunk, 0], sizes_out[chunk, 1] = sum_g, top_g
        sizes_out[chunk, 2], sizes_out[chunk, 3] = sum_h, top_h


@kernel(error_model="numpy")
def pack_gradients(
    gradient: Array, hessian: Array, scale_g: Any, scale_h: Any, lo: Any, hi: Any, packed_out: Array
) -> Any:
    """Write round(g·scale_g)·2³² + round(h·scale_h) for the rows lo … hi − 1; return the two sums in units."""
    total_g, total_h = np.int64(0), np.int64(0)
    for i in range(np.uint64(lo), np.uint64(hi)):
        g = np.int64(np.int32(np.floor(gradient[i] * scale_g + np.float32(0.5))))
        h = np.int64(np.int32(np.floor(hessian[i] * scale_h + np.float32(0.5))))
        total_g += g
        total_h += h
        packed_out[i] = (g << np.int64(32)) + h
    return total_g, total_h


@kernel(error_model="numpy")
def _units(packed: Array, lo: Any, hi: Any) -> Any:
    """Return Σ|g| and Σ|h| in units."""
    sum_g, sum_h = np.int64(0), np.int64(0)
    for i in range(np.uint64(lo), np.uint64(hi)):
        h = np.int64(np.int32(packed[i]))
        sum_g += abs((packed[i] - h) >> np.int64(32))
        sum_h += abs(h)
    return sum_g, sum_h


@kernel(error_model="numpy")
def _pour(narrow: Array, wide_g_out: Array, wide_h_out: Array) -> None:
    """Add the narrow cells to the wide ones (of the same layout), and set them to 0."""
    for k in range(np.uint64(len(narrow))):
        h = np.int32(narrow[k])
        g = np.int32((narrow[k] - np.int64(h)) >> np.int64(32))
        wide_g_out[k] += np.float64(g)
        wide_h_out[k] += np.float64(h)
        narrow[k] = 0


@kernel(error_model="numpy")
def _add_rows(codes: Array, packed: Array, lo: Any, hi: Any, narrow_out: Array) -> None:
    """Add the rows to the cells of all columns; eight codes a word."""
    for i in range(np.uint64(lo), np.uint64(hi)):
        x = packed[i]
        for word in range(np.uint64(codes.shape[1])):
            v = codes[i, word]
            at = word * np.uint64(8 * STRIDE)
            narrow_out[at + (v & _BYTE)] += x
            narrow_out[at + np.uint64(1 * STRIDE) + ((v >> np.uint64(8)) & _BYTE)] += x
            narrow_out[at + np.uint64(2 * STRIDE) + ((v >> np.uint64(16)) & _BYTE)] += x
            narrow_out[at + np.uint64(3 * STRIDE) + ((v >> np.uint64(24)) & _BYTE)] += x
            narrow_out[at + np.uint64(4 * STRIDE) + ((v >> np.uint64(32)) & _BYTE)] += x
            narrow_out[at + np.uint64(5 * STRIDE) + ((v >> np.uint64(40)) & _BYTE)] += x
            narrow_out[at + np.uint64(6 * STRIDE) + ((v >> np.uint64(48)) & _BYTE)] += x
            narrow_out[at + np.uint64(7 * STRIDE) + (v >> np.uint64(56))] += x


@kernel(error_model="numpy")
def histogram(
    codes: Array, packed: Array, lo: Any, hi: Any, narrow_out: Array, poured_g_out: Array, poured_h_out: Array
) -> Any:
    """Write the histogram of the rows lo … hi − 1: narrow cells + poured cells. Return whether anything was poured.

    If nothing was, the poured cells are left as they are.
    """
    for k in range(len(narrow_out)):
        narrow_out[k] = 0
    poured = False
    in_g, in_h = np.int64(0), np.int64(0)
    start = lo
    for stop in range(lo, hi, CHUNK):
        # Rows start … stop − 1 are known to fit; see whether the next chunk does.
        end = min(stop + CHUNK, hi)
        more_g, more_h = _units(packed, stop, end)
        if in_g + more_g > _FULL or in_h + more_h > _FULL:
            _add_rows(codes, packed, start, stop, narrow_out)
            if not poured:
                for k in range(len(narrow_out)):
                    poured_g_out[k], poured_h_out[k] = 0.0, 0.0
                poured = True
            _pour(narrow_out, poured_g_out, poured_h_out)
            in_g, in_h, start = np.int64(0), np.int64(0), stop
        in_g += more_g
        in_h += more_h
    _add_rows(codes, packed, start, hi, narrow_out)
    return poured


@kernel(error_model="numpy")
def merge_column(
    narrow: Array, poured: Array, poured_g: Array, poured_h: Array, column: Any, at: Any, n_codes: Any, leaf: Any,
    wide_g_out: Array, wide_h_out: Array,
) -> None:  # fmt: skip
    """Write the cells of one column of a leaf: sums over all threads, which have one row each in the first arrays."""
    for k in range(at, at + n_codes + 1):
        wide_g_out[leaf, k] = 0.0
        wide_h_out[leaf, k] = 0.0
    start = np.uint64(column * STRIDE)
    last = np.uint64(n_codes)
    for thread in range(len(narrow)):
        for k in range(last):
            x = narrow[thread, start + k]
            h = np.int32(x)
            wide_g_out[leaf, np.uint64(at) + k] += np.float64(np.int32((x - np.int64(h)) >> np.int64(32)))
            wide_h_out[leaf, np.uint64(at) + k] += np.float64(h)
        x = narrow[thread, start + np.uint64(MISSING)]
        h = np.int32(x)
        wide_g_out[leaf, np.uint64(at) + last] += np.float64(np.int32((x - np.int64(h)) >> np.int64(32)))
        wide_h_out[leaf, np.uint64(at) + last] += np.float64(h)
        if poured[thread]:
            for k in range(last):
                wide_g_out[leaf, np.uint64(at) + k] += poured_g[thread, start + k]
                wide_h_out[leaf, np.uint64(at) + k] += poured_h[thread, start + k]
            wide_g_out[leaf, np.uint64(at) + last] += poured_g[thread, start + np.uint64(MISSING)]
            wide_h_out[leaf, np.uint64(at) + last] += poured_h[thread, start + np.uint64(MISSING)]
