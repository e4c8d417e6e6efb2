"""Masks where some groups are shared only with another one: the admissible masks are the ideals of a forest.

Every group needs at most one other. An ideal holds with each group the one that it needs. Below, ``order`` lists all
groups, each after the one it needs, and ``parent[g]`` is the group that g needs, or the number of groups r if it needs
none. Within a mask that is itself an ideal, the tree under g has

    T(g) = 1 + ∏ T(h) over the groups h that need g

ideals (nothing, or g with one ideal of each tree under it), and the mask has I = ∏ T(g) over the groups that need none.
A number 0 … I − 1 is an ideal in mixed radix: one digit below T(g) per tree, 0 for nothing, and the digit less one is
in turn the number of what is shared under g. Without needs every T is 2, and this is :func:`masks.submask`.
With one pair of groups at least, I ≤ 3·2^62 fits into 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import Array
from .compiling import kernel
from .masks import (
    SCHEME_BALANCED,
    SCHEME_EXHAUSTIVE,
    SCHEME_FIXED,
    STREAM_IDEALS,
    STREAM_KEEP,
    counter_hash,
    stream_key,
)

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
