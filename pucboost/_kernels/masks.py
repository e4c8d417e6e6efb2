"""Masks as 64 packed bits: bit g of a mask is set when group g is shared.

Random numbers are a pure function of (seed, stream, row, counter), so that any virtual row can be built at any
time, in any order, by any thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._common import Array
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
STREAM_CLASSES = np.uint64(8)
STREAM_HALVES = np.uint64(10)

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
    row, above = 0, offsets.size  # offsets[row] ≤ start + lo < offsets[above], by halving
    while above - row > 1:
        middle = (row + above) // 2
        if offsets[middle] <= start + lo:
            row = middle
        else:
            above = middle
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


# --------------------------------------------------------------------------------------------------
# Masks where some groups are shared only with another one: the admissible masks are the ideals of a forest.
#
# Every group needs at most one other. An ideal holds with each group the one that it needs. Below, ``order`` lists
# all groups, each after the one it needs, and ``parent[g]`` is the group that g needs, or the number of groups r if
# it needs none. Within a mask that is itself an ideal, the tree under g has
#
#     T(g) = 1 + ∏ T(h) over the groups h that need g
#
# ideals (nothing, or g with one ideal of each tree under it), and the mask has I = ∏ T(g) over the groups that need
# none. A number 0 … I − 1 is an ideal in mixed radix: one digit below T(g) per tree, 0 for nothing, and the digit
# less one is in turn the number of what is shared under g. Without needs every T is 2, and this is
# :func:`masks.submask`. With one pair of groups at least, I ≤ 3·2^62 fits into 64 bits.


_ONCE = np.uint64(1 << 63)  # counters of what is drawn once per row, out of the way of those of its copies
_AGAIN = np.uint64(1 << 40)
_MULTIPLIERS = np.uint64(1 << 31)


@kernel
def largest_ideals(order: Array, parent: Array, masks: Array, lo: int, hi: int, masks_out: Array) -> None:
    """Write the largest ideal within each mask: a group without the one that it needs is left out."""
    for i in range(lo, hi):
        mask, kept = masks[i], _0
        for g in order:
            has = (mask >> np.uint64(g)) & _1
            if parent[g] < order.size:
                has &= kept >> np.uint64(parent[g])
            kept |= has << np.uint64(g)
        masks_out[i] = kept


@kernel
def tree_sizes(order: Array, parent: Array, mask: Any, size_out: Array, below: Array) -> Any:
    """Write T(g) of every group within an ideal (1 outside of it), and return I; ``below`` is scratch of r + 1."""
    below[:] = _1
    for place in range(order.size - 1, -1, -1):
        g = order[place]
        size_out[g] = _1 + below[g] if (mask >> np.uint64(g)) & _1 else _1
        below[parent[g]] *= size_out[g]
    return below[order.size]


@kernel
def count_ideals(order: Array, parent: Array, masks: Array, lo: int, hi: int, counts_out: Array) -> None:
    """Write I, the number of ideals within each mask; masks are ideals themselves."""
    size, below = np.empty(order.size, dtype=np.uint64), np.empty(order.size + 1, dtype=np.uint64)
    for i in range(lo, hi):
        counts_out[i] = tree_sizes(order, parent, masks[i], size, below)


@kernel
def ideal_at(order: Array, parent: Array, size: Array, index: Any, rest: Array) -> Any:
    """Return ideal number ``index``, from the sizes of the trees; ``rest`` is scratch of r + 1."""
    out = _0
    rest[order.size] = index
    for g in order:
        left, digit = rest[parent[g]], _0
        if left < size[g]:  # as always in a chain: no division
            digit, rest[parent[g]] = left, _0
        else:
            digit, rest[parent[g]] = left % size[g], left // size[g]
        rest[g] = _0
        if digit != _0:
            out |= _1 << np.uint64(g)
            rest[g] = digit - _1
    return out


@kernel
def uniform_below(key: Any, row: Any, counter: Any, bound: Any) -> Any:
    """Return a random number from 0 … bound − 1, all equally likely; numbers of an incomplete cycle are drawn again."""
    incomplete = (_0 - bound) % bound  # 2^64 mod bound
    while True:
        bits = counter_hash(key, row, counter)
        if bits >= incomplete:
            return bits % bound
        counter += _AGAIN


@kernel
def coprime_from(start: Any, bound: Any) -> Any:
    """Return the first number from ``start`` on that has no divisor in common with ``bound``."""
    while True:
        a, b = bound, start
        while b != _0:
            a, b = b, a % b
        if a == _1:
            return start
        start += _1


@kernel
def antithetic_index(key: Any, row: Any, copy: Any, count: Any, middle: Any, offset: Any, multiplier: Any) -> Any:
    """Return the number of the ideal of copy number ``copy``: all distinct, each uniform on 0 … count − 1.

    Numbers come in pairs n, count − 1 − n, few groups with many. Pair p = copy // 2 has n = (m·p + o) mod ⌊count/2⌋
    with m coprime to that, and a coin decides which of the two comes first. If ``count`` is odd, the number in the
    middle has no partner: it is copy number ``middle``, uniform on all copies, and those after it move up.
    """
    half = count >> _1
    if count & _1:
        if copy == middle:
            return half
        if copy > middle:
            copy -= _1
    pair = copy >> _1
    first = (multiplier * pair + offset) % half
    coin = counter_hash(key, row, pair)
    return count - _1 - first if (coin ^ copy) & _1 else first


@kernel
def copy_ideals(
    scheme: int,
    seed: Any,
    order: Array,
    parent: Array,
    available: Array,
    ids: Array,
    rows: Array,
    copies: Array,
    lo: int,
    hi: int,
    masks_out: Array,
) -> None:
    """Write the mask of virtual row (rows[v], copies[v]) for v in [lo, hi): :func:`masks.copy_masks` for ideals.

    What is known of a person is kept for the next copy; it depends on seed and row alone.
    """
    keep_key, key = stream_key(seed, STREAM_KEEP), stream_key(seed, STREAM_IDEALS)
    size, scratch = np.empty(order.size, dtype=np.uint64), np.empty(order.size + 1, dtype=np.uint64)
    count, middle, offset, multiplier = _1, _0, _0, _1
    for v in range(lo, hi):
        row, copy, mask = ids[rows[v]] if ids.size else np.uint64(rows[v]), np.uint64(copies[v]), available[rows[v]]
        if v == lo or rows[v] != rows[v - 1]:
            count = tree_sizes(order, parent, mask, size, scratch)
            if scheme == SCHEME_BALANCED and count > _1:
                half = count >> _1
                middle = uniform_below(key, row, _ONCE, count)
                offset = uniform_below(key, row, _ONCE + _1, half)
                multiplier = counter_hash(key, row, _ONCE + _1 + _1) % min(half, _MULTIPLIERS) + _1
                multiplier = coprime_from(multiplier, half)
        if count == _1:
            masks_out[v] = _0
        elif scheme == SCHEME_EXHAUSTIVE:
            masks_out[v] = ideal_at(order, parent, size, copy, scratch)
        elif scheme == SCHEME_FIXED:
            masks_out[v] = ideal_at(order, parent, size, uniform_below(keep_key, row, copy, count), scratch)
        elif scheme == SCHEME_BALANCED:
            index = antithetic_index(key, row, copy, count, middle, offset, multiplier)
            masks_out[v] = ideal_at(order, parent, size, index, scratch)
        else:
            masks_out[v] = mask
