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

CHUNK_ROWS = 1024
"""Rows per chunk of :func:`gradient_sizes`."""

MEAN_LEVELS = 2**14
"""About how many units the mean gradient has."""

MOST_LEVELS = 2**22
"""The largest gradient: a chunk of them still fits into half a word."""

_FULL = 2**31 - 1
_U8, _BYTE = np.uint64(8), np.uint64(255)


@kernel(error_model="numpy")
def gradient_sizes(gradient: Array, hessian: Array, lo: Any, hi: Any, sizes_out: Array) -> None:
    """Write Σ|g|, max|g|, Σ|h|, max|h| of each chunk of :data:`CHUNK_ROWS` rows, for the chunks lo … hi − 1.

    Sums of chunks are always made of the same numbers in the same order, so they do not depend on threads.
    """
    for chunk in range(lo, hi):
        sum_g, sum_h, top_g, top_h = 0.0, 0.0, np.float32(0.0), np.float32(0.0)
        for i in range(chunk * CHUNK_ROWS, min(len(gradient), (chunk + 1) * CHUNK_ROWS)):
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
def _pour(narrow: Array, lo: Any, hi: Any, wide_g_out: Array, wide_h_out: Array) -> None:
    """Add the narrow cells lo … hi − 1 to the wide ones (of the same layout), and set them to 0."""
    for k in range(np.uint64(lo), np.uint64(hi)):
        h = np.int32(narrow[k])
        g = np.int32((narrow[k] - np.int64(h)) >> np.int64(32))
        wide_g_out[k] += np.float64(g)
        wide_h_out[k] += np.float64(h)
        narrow[k] = 0


@kernel(error_model="numpy")
def _add_rows(
    codes: Array, packed: Array, lo: Any, hi: Any, first_word: Any, end_word: Any, narrow_out: Array
) -> None:  # fmt: skip
    """Add the rows to the cells of the columns in some words; eight codes a word."""
    for i in range(np.uint64(lo), np.uint64(hi)):
        x = packed[i]
        for word in range(np.uint64(first_word), np.uint64(end_word)):
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
def clear_histogram(first_word: Any, end_word: Any, narrow_out: Array) -> None:
    """Set the narrow cells of some words to 0."""
    for k in range(np.uint64(first_word * 8 * STRIDE), np.uint64(end_word * 8 * STRIDE)):
        narrow_out[k] = 0


@kernel(error_model="numpy")
def add_to_histogram(
    codes: Array, packed: Array, lo: Any, hi: Any, first_word: Any, end_word: Any, in_g: Any, in_h: Any, poured: Any,
    narrow_out: Array, poured_g_out: Array, poured_h_out: Array,
) -> Any:  # fmt: skip
    """Add the rows lo … hi − 1 to the columns in some words: narrow cells + poured cells.

    ``in_g`` and ``in_h`` are the units that the narrow cells may hold, ``poured`` whether anything was poured; return
    all three as they are then. Poured cells have no meaning before that.
    """
    start = lo
    for stop in range(lo, hi, CHUNK):
        # Rows start … stop − 1 are known to fit; see whether the next chunk does.
        end = min(stop + CHUNK, hi)
        more_g, more_h = _units(packed, stop, end)
        if in_g + more_g > _FULL or in_h + more_h > _FULL:
            _add_rows(codes, packed, start, stop, first_word, end_word, narrow_out)
            first, last = first_word * 8 * STRIDE, end_word * 8 * STRIDE
            if not poured:
                for k in range(first, last):
                    poured_g_out[k], poured_h_out[k] = 0.0, 0.0
                poured = True
            _pour(narrow_out, first, last, poured_g_out, poured_h_out)
            in_g, in_h, start = np.int64(0), np.int64(0), stop
        in_g += more_g
        in_h += more_h
    _add_rows(codes, packed, start, hi, first_word, end_word, narrow_out)
    return in_g, in_h, poured


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _set_from_narrow(narrow: Array, wide_g_out: Array, wide_h_out: Array) -> None:
    for k in range(np.uint64(len(narrow))):
        h = np.int32(narrow[k])
        wide_g_out[k] = np.float64(np.int32((narrow[k] - np.int64(h)) >> np.int64(32)))
        wide_h_out[k] = np.float64(h)


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _add_narrow(narrow: Array, wide_g_out: Array, wide_h_out: Array) -> None:
    for k in range(np.uint64(len(narrow))):
        h = np.int32(narrow[k])
        wide_g_out[k] += np.float64(np.int32((narrow[k] - np.int64(h)) >> np.int64(32)))
        wide_h_out[k] += np.float64(h)


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _add_poured(poured_g: Array, poured_h: Array, wide_g_out: Array, wide_h_out: Array) -> None:
    for k in range(np.uint64(len(poured_g))):
        wide_g_out[k] += poured_g[k]
        wide_h_out[k] += poured_h[k]


@kernel(error_model="numpy")
def merge_column(
    narrow: Array, poured: Array, poured_g: Array, poured_h: Array, column: Any, at: Any, n_codes: Any,
    first_thread: Any, end_thread: Any, wide_g_out: Array, wide_h_out: Array,
) -> None:  # fmt: skip
    """Write the cells of one column of a leaf: the sums over some threads, which have one row each in the first arrays.

    The missing values, which have the last code, come right behind the others.
    """
    start, missing = column * STRIDE, column * STRIDE + MISSING
    values, rest = slice(at, at + n_codes), slice(at + n_codes, at + n_codes + 1)
    for thread in range(first_thread, end_thread):
        for cells, wide in ((slice(start, start + n_codes), values), (slice(missing, missing + 1), rest)):
            if thread == first_thread:
                _set_from_narrow(narrow[thread, cells], wide_g_out[wide], wide_h_out[wide])
            else:
                _add_narrow(narrow[thread, cells], wide_g_out[wide], wide_h_out[wide])
            if poured[thread]:
                _add_poured(poured_g[thread, cells], poured_h[thread, cells], wide_g_out[wide], wide_h_out[wide])
