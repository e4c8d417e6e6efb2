"""Masks as 64 packed bits: bit g of a mask is set when group g is shared.

Random numbers are a pure function of (seed, stream, row, counter), so that any virtual row can be built at any
time, in any order, by any thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import Array
from .compiling import kernel

# Every constant is a numpy uint64: numba turns uint64 mixed with a signed integer into float64.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_0, _1, _2, _4 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(4)
_27, _30, _31, _56 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(56)
_FIELD_1, _FIELD_2 = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_FIELD_4, _FIELD_8 = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)

# What random numbers are used for; each use has its own stream.
STREAM_KEEP = np.uint64(1)
STREAM_ANTITHETIC = np.uint64(2)
STREAM_ROUNDING = np.uint64(3)
STREAM_CHILD_SEED = np.uint64(4)
STREAM_DRAWS = np.uint64(5)
STREAM_BINS = np.uint64(6)
STREAM_IDEALS = np.uint64(7)

# How the copies of a row choose their masks.
SCHEME_NONE, SCHEME_EXHAUSTIVE, SCHEME_FIXED, SCHEME_BALANCED = 0, 1, 2, 3


@kernel
def mix64(x: Any) -> Any:
    """Scramble 64 bits (the finaliser of the splitmix64 generator)."""
    x = (x ^ (x >> _30)) * _MIX_1
    x = (x ^ (x >> _27)) * _MIX_2
    return x ^ (x >> _31)


@kernel
def stream_key(seed: Any, stream: Any) -> Any:
    """Return the key of one stream of random numbers: computed once, then used for every row."""
    return mix64(mix64(seed + _GOLDEN) + stream * _GOLDEN)


@kernel
def counter_hash(key: Any, row: Any, counter: Any) -> Any:
    """Return 64 random bits, a pure function of the stream's key, the row and a counter (all uint64)."""
    return mix64(mix64(key + (row + _1) * _GOLDEN) + (counter + _1) * _GOLDEN)


@kernel
def count_groups(mask: Any) -> Any:
    """Return k = |mask|, the number of groups shared; sums bits in ever larger fields, without a branch."""
    mask = mask - ((mask >> _1) & _FIELD_1)
    mask = (mask & _FIELD_2) + ((mask >> _2) & _FIELD_2)
    mask = (mask + (mask >> _4)) & _FIELD_4
    return (mask * _FIELD_8) >> _56


@kernel
def submask(index: Any, mask: Any) -> Any:
    """Return the index-th sub-mask of ``mask``: bit j of ``index`` decides on its j-th group.

    ``index`` runs over 0 … 2^k − 1; 0 gives nothing, 2^k − 1 gives ``mask`` itself.
    """
    out = _0
    while mask != _0:
        lowest = mask & (~mask + _1)
        out |= lowest & (
            _0 - (index & _1)
        )  # no branch: the bits of index are random, so its prediction would often fail
        index >>= _1
        mask ^= lowest
    return out


@kernel
def antithetic_submask(key: Any, row: Any, copy: Any, mask: Any) -> Any:
    """Return copy number ``copy`` in the order s, a∖s, s′, a∖s′, …: all distinct, each uniform on the sub-masks.

    Pair p = copy // 2 takes the sub-mask with index (m·p + o) mod 2^(k−1), where the odd multiplier m and the
    offset o come from the hash of seed and row. An index below 2^(k−1) leaves the highest group out, so a pair
    and its complement never meet another pair. A separate coin decides which of the two comes first: without it
    an odd number of copies would favour the masks without the highest group and break the weight law.
    """
    if mask == _0:
        return _0
    half = _1 << (count_groups(mask) - _1)
    multiplier = counter_hash(key, row, _0) | _1
    offset = counter_hash(key, row, _1)
    pair = copy >> _1
    first = submask((multiplier * pair + offset) & (half - _1), mask)
    coin = counter_hash(key, row, pair + _2)
    return mask ^ first if (coin ^ copy) & _1 else first


@kernel
def copy_masks(
    scheme: int, seed: Any, available: Array, ids: Array, rows: Array, copies: Array, lo: int, hi: int, masks_out: Array
) -> None:
    """Write the mask of virtual row (rows[v], copies[v]) for v in [lo, hi).

    ``ids`` are the numbers by which rows are hashed; without any, these are the row numbers.
    """
    keep_key, antithetic_key = stream_key(seed, STREAM_KEEP), stream_key(seed, STREAM_ANTITHETIC)
    for v in range(lo, hi):
        row = ids[rows[v]] if ids.size else np.uint64(rows[v])
        copy = np.uint64(copies[v])
        mask = available[rows[v]]
        if scheme == SCHEME_EXHAUSTIVE:
            if v > lo and rows[v] == rows[v - 1] and copies[v] == copies[v - 1] + 1:
                masks_out[v] = (masks_out[v - 1] - mask) & mask  # counting up within the bits of the mask
            else:
                masks_out[v] = submask(copy, mask)
        elif scheme == SCHEME_FIXED:
            masks_out[v] = mask & counter_hash(keep_key, row, copy)
        elif scheme == SCHEME_BALANCED:
            masks_out[v] = antithetic_submask(antithetic_key, row, copy, mask)
        else:
            masks_out[v] = mask


@kernel
def walk_rows(offsets: Array, start: int, lo: int, hi: int, rows_out: Array, copies_out: Array) -> None:
    """Write source row and copy number of the virtual rows start + lo … start + hi − 1.

    The copies of source row i are the virtual rows offsets[i] … offsets[i + 1] − 1.
    """
    if lo >= hi:
        return
    row = np.searchsorted(offsets, start + lo, side="right") - 1
    for v in range(lo, hi):
        while offsets[row + 1] <= start + v:
            row += 1
        rows_out[v] = row
        copies_out[v] = start + v - offsets[row]


@kernel
def pack_shared(
    block: Array, group_start: Array, group_columns: Array, zero_is_missing: bool, lo: int, hi: int, masks_out: Array
) -> None:
    """Set bit g of masks_out[i] if any column of group g has a value in row i of ``block``."""
    for i in range(lo, hi):
        mask = _0
        for g in range(group_start.size - 1):
            shares = False
            for p in range(group_start[g], group_start[g + 1]):
                value = block[i, group_columns[p]]
                # No branch: who withholds what is unpredictable. Only NaN differs from itself.
                shares |= (value == value) & ((value != 0) | (not zero_is_missing))
            mask |= np.uint64(shares) << np.uint64(g)
        masks_out[i] = mask


@kernel
def count_shared(masks: Array, lo: int, hi: int, counts_out: Array) -> None:
    """Write k = |mask| of every row."""
    for i in range(lo, hi):
        counts_out[i] = count_groups(masks[i])


@kernel
def round_at_random(seed: Any, expected: Array, counts: Array, ids: Array, lo: int, hi: int, copies_out: Array) -> None:
    """Write expected[counts[i]] rounded up or down at random, so that its mean over all seeds is exact.

    ``expected`` is indexed by k, the number of groups a row shares; ``ids`` are as in :func:`copy_masks`.
    """
    key = stream_key(seed, STREAM_ROUNDING)
    for i in range(lo, hi):
        wanted = expected[counts[i]]
        whole = np.floor(wanted)
        bits = counter_hash(key, ids[i] if ids.size else np.uint64(i), _0) >> np.uint64(11)
        copies_out[i] = np.int64(whole) + (np.float64(bits) * 2.0**-53 < wanted - whole)


@kernel
def hash_pairs(seed: Any, stream: Any, ids: Array, counters: Array, lo: int, hi: int, bits_out: Array) -> None:
    """Write 64 random bits for each pair of a row's id and a counter."""
    key = stream_key(seed, stream)
    for i in range(lo, hi):
        bits_out[i] = counter_hash(key, ids[i], counters[i])
