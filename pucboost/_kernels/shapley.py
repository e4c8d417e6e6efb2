"""Shapley values of trees: what each player adds to a score, against each row of a background.

The game of a person x and a background row b pays f(x_C, b_∖C): the players in C bring the person's values, all others
those of the row. A player is a column, or several that play together. At each inner node of the path to a leaf the two
rows either go the same way or not, so the path splits the players that it tests in three: both rows pass all tests on
the player's columns, only x does (the set P), or only b does (Q). A path on which neither passes a player's tests
cannot be taken by any mixture. Otherwise the leaf is reached if P ⊆ C and Q ∩ C = ∅, and with p = |P|, q = |Q| its
value v adds

    v · (p − 1)! q! / (p + q)!  to each player in P,    −v · p! (q − 1)! / (p + q)!  to each player in Q.

So a leaf needs no more of a row than a word of bits: whose tests it passes. All rows of the background with the same
word count as one, and all people with the same word get the same values, which are computed once. A pair of person and
background row then costs nothing of its own: the rows are walked through each tree once, many next to each other.

Where x and b are both missing they go the same way, so nothing is ever added for what is withheld: not a small number,
but none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._common import Array
from .compiling import kernel
from .leaf_sets import and_part, lowest_bit
from .masks import count_groups

MOST_PLAYERS = 64
"""A path must not test more: each has a bit of a word."""

_SCATTER, _32 = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
_0, _1, _EVERY_BIT = np.uint64(0), np.uint64(1), np.uint64(2**64 - 1)


@kernel
def _go_on(passed: Array, is_left: Array, turned: Any, others: Any, passed_out: Array) -> None:
    """Take the bit from rows that go the other way; ``turned`` is 0 on the way to the left, else all bits."""
    for i in range(passed_out.size):
        passed_out[i] = passed[i] & ((is_left[i] ^ turned) | others)


@kernel
def _slots_for(n_words: int) -> int:
    slots = 64
    while slots < 2 * n_words:
        slots *= 2
    return slots


@kernel
def _slot_of(word: Any, words: Array, slots: Array) -> Any:
    """Return the slot of a word in an open-addressing table of places in ``words``; free ones hold −1."""
    last = np.uint64(slots.size - 1)
    slot = (word * _SCATTER >> _32) & last
    while slots[slot] >= 0 and words[slots[slot]] != word:
        slot = (slot + _1) & last
    return np.int64(slot)


@kernel
def _values_of_word(
    word: Any, every: Any, words: Array, counts: Array, n_words: int, share: Array, values_out: Array
) -> bool:
    """Write the values that rows of this word get from a leaf of value 1; return whether there are any.

    The background has ``counts[k]`` rows of ``words[k]``. ``share[p, q]`` = (p − 1)! q! / (p + q)!, which is also what
    each player in Q loses if p and q are exchanged.
    """
    alone = every & ~word  # Q, for every row with which the leaf can be reached
    q = np.int64(count_groups(alone))
    anything, lost = False, 0.0
    values_out[:] = 0.0
    for k in range(n_words):
        if alone & ~words[k] != _0:
            continue
        ahead = word & ~words[k]  # P
        p = np.int64(count_groups(ahead))
        if p + q == 0:
            continue
        anything = True
        lost += counts[k] * share[q, p]
        gained = counts[k] * share[p, q]
        while ahead != _0:
            values_out[np.int64(lowest_bit(ahead))] += gained
            ahead &= ahead - _1
    if anything:
        while alone != _0:
            values_out[np.int64(lowest_bit(alone))] -= lost
            alone &= alone - _1
    return anything


@kernel
def add_shapley_values(
    values: Array, background: Array, tree_start: Array, output: Array, left: Array, right: Array, player: Array,
    leaf_value: Array, nodes: Any, goes_left: Array, share: Array, deepest: int, block: int, lo: int, hi: int,
    base_out: Array, values_out: Array,
) -> None:  # fmt: skip
    """Add to values_out[i, j, o] what player j adds to output o of person i in [lo, hi), summed over the background.

    ``values`` and ``background`` hold what nodes see (slots × rows), ``nodes`` what each node tests; their ``keep`` is
    0. The range that begins at 0 adds to ``base_out`` the scores of the background.
    """
    b = background.shape[1]
    passed = np.empty((deepest + 1, b + block), dtype=np.uint64)
    is_left = np.empty((deepest + 1, b + block), dtype=np.uint64)
    path, bit_of = np.empty(deepest + 1, dtype=np.int64), np.empty(deepest + 1, dtype=np.int64)
    known_before = np.empty(deepest + 1, dtype=np.int64)
    goes_right = np.empty(deepest + 1, dtype=np.bool_)
    player_of_bit = np.empty(MOST_PLAYERS, dtype=np.int64)
    slots = np.empty(_slots_for(max(b, block)), dtype=np.int64)
    words, counts = np.empty(b, dtype=np.uint64), np.empty(b, dtype=np.float64)
    own_words, has_values = np.empty(block, dtype=np.uint64), np.empty(block, dtype=np.bool_)
    own_values = np.empty((block, MOST_PLAYERS), dtype=np.float64)
    for i in range(lo, hi, block):
        n = min(block, hi - i)
        for t in range(output.size):
            root, o = tree_start[t], output[t]
            passed[0, : b + n] = _EVERY_BIT
            depth, node, known = 0, 0, 0
            while True:
                if left[root + node] >= 0:
                    at = root + node
                    is_left[depth, : b + n] = _EVERY_BIT
                    and_part(background, nodes, goes_left, at, at + 1, 0, is_left[depth, :b])
                    and_part(values, nodes, goes_left, at, at + 1, i, is_left[depth, b : b + n])
                    bit = 0
                    while bit < known and player_of_bit[bit] != player[at]:
                        bit += 1
                    path[depth], goes_right[depth], bit_of[depth], known_before[depth] = node, False, bit, known
                    if bit == known:
                        player_of_bit[known] = player[at]
                        known += 1
                    others = ~(_1 << np.uint64(bit))
                    _go_on(passed[depth, : b + n], is_left[depth, : b + n], _0, others, passed[depth + 1, : b + n])
                    depth += 1
                    node = left[at]
                    continue

                # A leaf: first the words of the background, then those of the people, and the values of each word.
                here, v = passed[depth], leaf_value[root + node]
                every = _EVERY_BIT >> np.uint64(64 - known) if known > 0 else _0
                slots[:] = -1
                n_words = 0
                for k in range(b):
                    word = here[k] & every
                    slot = _slot_of(word, words, slots)
                    if slots[slot] < 0:
                        slots[slot] = n_words
                        words[n_words], counts[n_words] = word, 0.0
                        n_words += 1
                    counts[slots[slot]] += 1.0
                if i == 0:
                    for k in range(n_words):
                        if words[k] == every:
                            base_out[o] += v * counts[k]
                slots[:] = -1
                n_own = 0
                for k in range(n):
                    word = here[b + k] & every
                    slot = _slot_of(word, own_words, slots)
                    if slots[slot] < 0:
                        slots[slot] = n_own
                        own_words[n_own] = word
                        has_values[n_own] = _values_of_word(
                            word, every, words, counts, n_words, share, own_values[n_own, :known]
                        )
                        n_own += 1
                    number = slots[slot]
                    if has_values[number]:
                        for bit in range(known):
                            values_out[i + k, player_of_bit[bit], o] += v * own_values[number, bit]

                while depth > 0 and goes_right[depth - 1]:
                    depth -= 1
                if depth == 0:
                    break
                depth -= 1
                goes_right[depth] = True
                known = max(known_before[depth], bit_of[depth] + 1)
                others = ~(_1 << np.uint64(bit_of[depth]))
                _go_on(passed[depth, : b + n], is_left[depth, : b + n], _EVERY_BIT, others, passed[depth + 1, : b + n])
                node = right[root + path[depth]]
                depth += 1
