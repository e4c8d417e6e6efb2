"""Histograms of gradients in whole numbers, the rows of a leaf moved to its children, and threads that wait.

Gradient and hessian are rounded to multiples of a power of two. A row is one int64, the gradient in the upper and the
hessian in the lower half, so a cell takes one addition for both. Half a word overflows after some 2³¹ units; before
that a *narrow* histogram of such cells is poured into a *wide* one, two doubles a cell. Doubles add whole numbers below
2⁵³ exactly. So sums are the same bits whatever the order of rows and the number of threads, and the resolution does not
depend on how many rows there are. Leaf values come from the same sums: unrounded ones depend on the order of rows.

Narrow cells of a column are :data:`STRIDE` apart, not 256: otherwise the first cells of all columns would compete for
the same few lines of the cache. Wide cells are packed: column c has its value codes from ``at[c]`` on, then the missing
ones.
"""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import types

from ...._common import Array
from ...._kernels.compiling import kernel
from .codes import MISSING

_intrinsic: Any = extending.intrinsic  # its declared type lacks the first argument, numba's context

# ----- how the threads of one kernel wait for each other
#
# A tree of 31 leaves has some 60 places at which its threads meet, every tenth of a millisecond. Handing each step to a
# thread pool would cost more than the step, so the threads stay inside one kernel and meet here.

PATIENCE = 20_000
"""How often a thread looks before it offers its core to another one. On a virtual machine it comes back late from that,
so it must not happen in the middle of a tree."""

RELEASED = 1 << 62
"""As a number of arrivals: one thread has failed, and nobody waits any more."""


@_intrinsic
def _add_and_get_old(_context: Any, address: Any, value: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, args[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@_intrinsic
def _get(_context: Any, address: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(pointer, "seq_cst", 8)

    return types.int64(types.int64), generate


@_intrinsic
def _rest(_context: Any) -> Any:
    """Rest for some cycles: what shares the core with this thread runs faster."""

    def generate(_target: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        if platform.machine().lower() in ("x86_64", "amd64"):
            name = "llvm.x86.sse2.pause"
            known = builder.module.globals.get(name)
            builder.call(known or ir.Function(builder.module, ir.FunctionType(ir.VoidType(), []), name), [])
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(), generate


@_intrinsic
def _offer_core(_context: Any) -> Any:
    """Let another thread run; nothing where the system has no such call under this name."""

    def generate(_target: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        if os.name == "posix":
            known = builder.module.globals.get("sched_yield")
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(known or ir.Function(builder.module, kind, "sched_yield"), [])
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(), generate


@kernel
def wait_for_all(arrivals: Array, threads: Any) -> Any:
    """Return when all threads have called this, or False if one has failed; ``arrivals`` is one int64, 0 at first."""
    if threads == 1:
        return True
    address = arrivals.ctypes.data
    before = _add_and_get_old(address, 1)
    needed = (before // threads + 1) * threads
    looked = 0
    while _get(address) < needed and before < RELEASED:
        looked += 1
        if looked > PATIENCE:
            _offer_core()
        else:
            _rest()
    return _get(address) < RELEASED


@kernel
def look_for(counter: Array, value: Any) -> Any:
    """Return whether a counter, which others raise, reaches the value while this thread looks on for a moment."""
    address = counter.ctypes.data
    for _ in range(PATIENCE):
        if _get(address) >= value:
            return True
        _rest()
    return _get(address) >= value


@kernel
def raise_counter(counter: Array) -> None:
    """Add 1 to a counter that others look at; whatever was written before is seen by them."""
    _add_and_get_old(counter.ctypes.data, 1)


# ----- histograms

STRIDE = 264
CHUNK = 256
"""Rows between two looks at whether narrow cells may overflow."""

CHUNK_ROWS = 1024
"""Rows per chunk of :func:`gradient_sizes`."""

MEAN_LEVELS = 2**14
"""About how many units the mean gradient has. The scale follows the mean, not the largest: heavy tails do not coarsen
the rest, and the precision does not fall with N."""

MOST_LEVELS = 2**22
"""The largest gradient: a chunk of them still fits into half a word."""

_FULL = 2**31 - 1
_BYTE = np.uint64(255)


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
def _add_rows(
    codes: Array, packed: Array, lo: Any, hi: Any, first_word: Any, end_column: Any, narrow_out: Array
) -> None:  # fmt: skip
    """Add the rows to the cells of the columns from the first of a word up to ``end_column``; eight codes a word."""
    full, rest = np.uint64(end_column >> 3), end_column & 7
    for i in range(np.uint64(lo), np.uint64(hi)):
        x = packed[i]
        for word in range(np.uint64(first_word), full):
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
        if rest:  # always the same branches, so the processor foresees them
            v = codes[i, full]
            at = full * np.uint64(8 * STRIDE)
            narrow_out[at + (v & _BYTE)] += x
            if rest > 1:
                narrow_out[at + np.uint64(1 * STRIDE) + ((v >> np.uint64(8)) & _BYTE)] += x
            if rest > 2:
                narrow_out[at + np.uint64(2 * STRIDE) + ((v >> np.uint64(16)) & _BYTE)] += x
            if rest > 3:
                narrow_out[at + np.uint64(3 * STRIDE) + ((v >> np.uint64(24)) & _BYTE)] += x
            if rest > 4:
                narrow_out[at + np.uint64(4 * STRIDE) + ((v >> np.uint64(32)) & _BYTE)] += x
            if rest > 5:
                narrow_out[at + np.uint64(5 * STRIDE) + ((v >> np.uint64(40)) & _BYTE)] += x
            if rest > 6:
                narrow_out[at + np.uint64(6 * STRIDE) + ((v >> np.uint64(48)) & _BYTE)] += x


@kernel(error_model="numpy")
def clear_histogram(first_word: Any, end_column: Any, narrow_out: Array) -> None:
    """Set the narrow cells of some columns to 0."""
    for k in range(np.uint64(first_word * 8 * STRIDE), np.uint64(end_column * STRIDE)):
        narrow_out[k] = 0


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _add_narrow(narrow: Array, wide_g_out: Array, wide_h_out: Array) -> None:
    for k in range(np.uint64(len(narrow))):
        h = np.int32(narrow[k])
        wide_g_out[k] += np.float64(np.int32((narrow[k] - np.int64(h)) >> np.int64(32)))
        wide_h_out[k] += np.float64(h)


@kernel(error_model="numpy")
def add_to_histogram(
    codes: Array, packed: Array, lo: Any, hi: Any, first_word: Any, end_column: Any, in_g: Any, in_h: Any, poured: Any,
    narrow_out: Array, poured_g_out: Array, poured_h_out: Array,
) -> Any:  # fmt: skip
    """Add the rows lo … hi − 1 to the columns from the first of a word on: narrow cells + poured cells.

    ``in_g`` and ``in_h`` are the units that the narrow cells may hold, ``poured`` whether anything was poured; return
    all three as they are then. Poured cells have no meaning before that.
    """
    start = lo
    for stop in range(lo, hi, CHUNK):
        # Rows start … stop − 1 are known to fit; see whether the next chunk does.
        end = min(stop + CHUNK, hi)
        more_g, more_h = _units(packed, stop, end)
        if in_g + more_g > _FULL or in_h + more_h > _FULL:
            _add_rows(codes, packed, start, stop, first_word, end_column, narrow_out)
            first, last = first_word * 8 * STRIDE, end_column * STRIDE
            if not poured:
                for k in range(first, last):
                    poured_g_out[k], poured_h_out[k] = 0.0, 0.0
                poured = True
            _add_narrow(narrow_out[first:last], poured_g_out[first:last], poured_h_out[first:last])
            clear_histogram(first_word, end_column, narrow_out)
            in_g, in_h, start = np.int64(0), np.int64(0), stop
        in_g += more_g
        in_h += more_h
    _add_rows(codes, packed, start, hi, first_word, end_column, narrow_out)
    return in_g, in_h, poured


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _set_from_narrow(narrow: Array, wide_g_out: Array, wide_h_out: Array) -> None:
    for k in range(np.uint64(len(narrow))):
        h = np.int32(narrow[k])
        wide_g_out[k] = np.float64(np.int32((narrow[k] - np.int64(h)) >> np.int64(32)))
        wide_h_out[k] = np.float64(h)


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


# ----- rows of a leaf, moved to the places of its two children


@kernel(error_model="numpy")
def right_codes(first_right: Any, span: Any, in_set: Any, right_set: Array, right_out: Array) -> None:
    """Write 1 for each code that goes right, else 0: those in the set, or first_right … first_right + span.

    The range is one comparison of bytes, which wrap around.
    """
    for code in range(np.uint64(256)):
        if in_set:
            right_out[code] = (right_set[code >> np.uint64(6)] >> (code & np.uint64(63))) & np.uint64(1)
        else:
            right_out[code] = np.uint8(np.uint8(code) - np.uint8(first_right)) <= np.uint8(span)


@kernel(error_model="numpy")
def partition(
    codes: Array, packed: Array, lo: Any, hi: Any, column: Any, right: Array, codes_out: Array, packed_out: Array
) -> Any:
    """Copy the rows lo … hi − 1: those that go left to the front, the others to the back. Return where these begin.

    ``right`` has 1 for each code that goes right, else 0. Rows of two or four words, which are common, have loops of
    their own, in which a whole row is read before it is written: these become a few wide instructions.
    """
    word, shift = np.uint64(column >> 3), np.uint64(8 * (column & 7))
    words = np.uint64(codes.shape[1])
    zero, one, two, three = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
    front, back = np.uint64(lo), np.uint64(hi) - one
    if words == two:
        for i in range(np.uint64(lo), np.uint64(hi)):
            a, b, x = codes[i, zero], codes[i, one], packed[i]
            goes_right = np.uint64(right[(codes[i, word] >> shift) & _BYTE])
            to = back if goes_right else front
            codes_out[to, zero], codes_out[to, one], packed_out[to] = a, b, x
            front += one - goes_right
            back -= goes_right
        return np.int64(front)
    if words == np.uint64(4):
        for i in range(np.uint64(lo), np.uint64(hi)):
            a, b, c, d, x = codes[i, zero], codes[i, one], codes[i, two], codes[i, three], packed[i]
            goes_right = np.uint64(right[(codes[i, word] >> shift) & _BYTE])
            to = back if goes_right else front
            codes_out[to, zero], codes_out[to, one] = a, b
            codes_out[to, two], codes_out[to, three], packed_out[to] = c, d, x
            front += one - goes_right
            back -= goes_right
        return np.int64(front)
    for i in range(np.uint64(lo), np.uint64(hi)):
        x = packed[i]
        goes_right = np.uint64(right[(codes[i, word] >> shift) & _BYTE])
        to = back if goes_right else front
        for k in range(words):
            codes_out[to, k] = codes[i, k]
        packed_out[to] = x
        front += one - goes_right
        back -= goes_right
    return np.int64(front)
