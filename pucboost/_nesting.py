"""Which groups are shared only with others, and so which sets of groups people can share at all.

Each group needs at most one other: a forest. A set of groups is admissible if it holds with each group the one that it
needs. Where nothing is needed, every set is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_

import numpy as np

from ._arrays import Array
from ._kernels.ideals import count_ideals, largest_ideals
from ._kernels.masks import count_shared
from ._kernels.threads import run_in_ranges


@dataclass(frozen=True)
class Nesting:
    """What each group needs, by number.

    Parameters
    ----------
    needed
        For each group the number of the group that it needs, −1 for none. There are no cycles.

    Examples
    --------
    >>> chain = Nesting((-1, 0, 1))
    >>> chain.submasks(0b111).tolist(), chain.count(0b111)
    ([0, 1, 3, 7], 4)
    >>> chain.closed(0b100), chain.largest(np.array([0b110, 0b101], dtype=np.uint64)).tolist()
    (7, [0, 1])
    """

    needed: tuple[int, ...]

    @classmethod
    def of(cls, groups: Sequence[str], needs: Mapping[str, str]) -> Nesting:
        """Return the nesting of named groups; ``needs`` maps a group to the one that it needs."""
        place = {group: g for g, group in enumerate(groups)}
        return cls(tuple(place[needs[group]] if group in needs else -1 for group in groups))

    @cached_property
    def is_free(self) -> bool:
        """Whether no group needs another, so that every set of groups is admissible."""
        return all(other < 0 for other in self.needed)

    @cached_property
    def above(self) -> tuple[int, ...]:
        """For each group the mask of itself and all that it needs, directly or not."""
        masks = []
        for g in range(len(self.needed)):
            mask, other = 1 << g, self.needed[g]
            while other >= 0:
                mask, other = mask | 1 << other, self.needed[other]
            masks.append(mask)
        return tuple(masks)

    @cached_property
    def below(self) -> tuple[int, ...]:
        """For each group the mask of itself and all that need it, directly or not."""
        return tuple(sum(1 << h for h, mask in enumerate(self.above) if mask >> g & 1) for g in range(len(self.needed)))

    @cached_property
    def _order(self) -> Array:
        """All groups, each after the one it needs."""
        return np.array(sorted(range(len(self.needed)), key=lambda g: self.above[g].bit_count()), dtype=np.int64)

    @cached_property
    def _parent(self) -> Array:
        return np.array([len(self.needed) if other < 0 else other for other in self.needed], dtype=np.int64)

    @property
    def forest(self) -> tuple[Array, Array]:
        """The arrays ``order`` and ``parent`` that kernels take."""
        return self._order, self._parent

    def closed(self, mask: int) -> int:
        """Return the smallest admissible set that holds these groups: with each, what it needs."""
        return _union(self.above[g] for g in _groups(mask))

    def topmost(self, mask: int) -> int:
        """Return the groups of an admissible set that none of its others needs; they tell which set it is."""
        needed = _union(self.above[g] & ~(1 << g) for g in _groups(mask))
        return mask & ~needed

    def largest(self, masks: Array, threads: int = 1) -> Array:
        """Return the largest admissible set within each mask."""
        if self.is_free:
            return masks
        out = np.empty_like(masks)
        run_in_ranges(lambda lo, hi: largest_ideals(*self.forest, masks, lo, hi, out), len(masks), threads)
        return out

    def count(self, mask: int) -> int:
        """Return I, how many admissible sets there are within an admissible set: 2^k where nothing is needed."""
        if self.is_free:
            return 1 << mask.bit_count()
        return int(self.counts(np.array([mask], dtype=np.uint64))[0])

    def counts(self, masks: Array, threads: int = 1) -> Array:
        """Return I of every mask: uint64, or float64 where nothing is needed, since 2^64 is more than 64 bits hold."""
        if self.is_free:
            return np.ldexp(1.0, shared_counts(masks, threads))
        out = np.empty(len(masks), dtype=np.uint64)
        run_in_ranges(lambda lo, hi: count_ideals(*self.forest, masks, lo, hi, out), len(masks), threads)
        return out

    def submasks(self, mask: int) -> Array:
        """Return all admissible sets within an admissible set, in ascending order of their masks."""
        if self.is_free:
            subs, sub = [0], 0
            while sub != mask:
                sub = (sub - mask) & mask
                subs.append(sub)
            return np.array(subs, dtype=np.uint64)
        found = [0]
        for g in self._order.tolist():
            if mask >> g & 1:
                needed = self.above[g] & ~(1 << g)
                found += [one | 1 << g for one in found if one & needed == needed]
        return np.array(sorted(found), dtype=np.uint64)


FREE = Nesting(())
"""No group needs another, however many there are."""


def shared_counts(masks: Array, threads: int = 1) -> Array:
    """Return k_i, how many groups each row shares."""
    counts = np.empty(len(masks), dtype=np.int64)
    run_in_ranges(lambda lo, hi: count_shared(masks, lo, hi, counts), len(masks), threads)
    return counts


def _groups(mask: int) -> list[int]:
    return [g for g in range(mask.bit_length()) if mask >> g & 1]


def _union(masks: Iterable[int]) -> int:
    return reduce(or_, masks, 0)
