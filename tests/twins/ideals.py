"""Readable twins of the kernels of ideals. ``needs`` maps a group to the group that it needs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from .masks import counter_hash, groups_of

Needs = Mapping[int, int]


def is_ideal(mask: int, needs: Needs) -> bool:
    return all(mask >> needs[g] & 1 for g in groups_of(mask) if g in needs)


def ideals(mask: int, needs: Needs) -> list[int]:
    """All ideals within a mask, in ascending order, by trying every sub-mask."""
    groups = groups_of(mask)
    subsets = itertools.product((0, 1), repeat=len(groups))
    masks = (sum(1 << g for g, kept in zip(groups, bits, strict=True) if kept) for bits in subsets)
    return sorted(one for one in masks if is_ideal(one, needs))


def largest_ideal(mask: int, needs: Needs) -> int:
    while not is_ideal(mask, needs):
        mask = sum(1 << g for g in groups_of(mask) if g not in needs or mask >> needs[g] & 1)
    return mask


def under(g: int | None, mask: int, needs: Needs) -> list[int]:
    """Groups of the mask that need g directly; with None, those that need nothing."""
    return [h for h in groups_of(mask) if needs.get(h) == g]


def tree_size(g: int, mask: int, needs: Needs) -> int:
    return 1 + count_ideals(mask, needs, g)


def count_ideals(mask: int, needs: Needs, below: int | None = None) -> int:
    return math.prod(tree_size(h, mask, needs) for h in under(below, mask, needs))


def ideal_at(index: int, mask: int, needs: Needs, below: int | None = None) -> int:
    out = 0
    for g in under(below, mask, needs):
        index, digit = divmod(index, tree_size(g, mask, needs))
        if digit:
            out |= 1 << g | ideal_at(digit - 1, mask, needs, g)
    return out


def uniform_below(seed: int, stream: int, row: int, counter: int, bound: int) -> int:
    bits = counter_hash(seed, stream, row, counter)
    while bits < 2**64 % bound:
        counter += 2**40
        bits = counter_hash(seed, stream, row, counter)
    return bits % bound


def antithetic_order(seed: int, row: int, count: int, copies: int) -> list[int]:
    """The numbers of the first ideals of a person, one after the other."""
    half, once = count // 2, 2**63
    if half == 0:
        return [0]
    offset = uniform_below(seed, 7, row, once + 1, half)
    multiplier = counter_hash(seed, 7, row, once + 2) % min(half, 2**31) + 1
    while math.gcd(multiplier, half) > 1:
        multiplier += 1
    out: list[int] = []
    for pair in range(min(half, (copies + 1) // 2)):
        first = (multiplier * pair + offset) % half
        both = [first, count - 1 - first]
        out += both[::-1] if counter_hash(seed, 7, row, pair) % 2 else both
    if count % 2:
        out.insert(uniform_below(seed, 7, row, once, count), half)
    return out[:copies]


def copy_mask(scheme: str, seed: int, row: int, copy: int, available: int, needs: Needs) -> int:
    count = count_ideals(available, needs)
    if scheme == "exhaustive":
        return ideal_at(copy, available, needs)
    if scheme == "fixed":
        return ideal_at(uniform_below(seed, 1, row, copy, count), available, needs)
    if scheme == "balanced":
        return ideal_at(antithetic_order(seed, row, count, copy + 1)[copy], available, needs)
    return available


def orders(mask: int, needs: Needs) -> list[tuple[int, ...]]:
    """All orders in which the groups of a mask can be shared, each after the one it needs."""
    every = itertools.permutations(groups_of(mask))
    return [one for one in every if all(needs[g] in one[:i] for i, g in enumerate(one) if g in needs)]


def shapley_values(value: Mapping[int, float], mask: int, needs: Needs) -> dict[int, float]:
    """What each group adds to the value of those before it, averaged over all orders."""
    every = orders(mask, needs)
    total = dict.fromkeys(groups_of(mask), 0.0)
    for order in every:
        before = 0
        for g in order:
            total[g] += (value[before | 1 << g] - value[before]) / len(every)
            before |= 1 << g
    return total
