"""The bag of a tree: each pool row with the same probability, independent of all others.

Whether a row is in the bag is a pure function of (key, row), however rows are divided into layers: 64 neighbours share
the random words. A bit that is 1 with probability 0.b₁b₂…b₁₆ (binary) is made of as many fair bits, from the last to
the first: OR with a fair bit where b = 1 (p → ½ + p/2), AND where b = 0 (p → p/2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._arrays import Array
from ..compiling import kernel
from ..masks import count_groups, counter_hash

PROBABILITY_BITS = 16
PEOPLE_PER_BLOCK = 512
"""A multiple of 64."""

_0, _1 = np.uint64(0), np.uint64(1)


@kernel(error_model="numpy")
def _bag_word(key: Any, probability: Any, row: Any) -> Any:
    """Return 64 bits, each 1 with probability p / 2¹⁶; ``row`` is the pool row of the first."""
    if probability >> np.uint64(PROBABILITY_BITS):
        return ~_0
    word = _0
    started = False
    for k in range(PROBABILITY_BITS):
        bit = (probability >> np.uint64(k)) & _1
        if not started and bit == _0:
            continue
        started = True
        fair = counter_hash(key, np.uint64(row), np.uint64(k))
        word = word | fair if bit else word & fair
    return word


@kernel(error_model="numpy")
def _rows_between(first: Any, bottom: Any, top: Any) -> Any:
    """Return 64 bits that are 1 for those of the rows first + 0, first + 1, … that are bottom … top − 1."""
    bits = ~_0 if top - first >= 64 else (_1 << np.uint64(top - first)) - _1
    return bits & (~_0 << np.uint64(bottom - first)) if bottom > first else bits


@kernel(error_model="numpy")
def count_bag(
    key: Any, probability: Any, layer_n: Array, layer_start: Array, lo: Any, hi: Any, counts_out: Array
) -> None:
    """Write how many pool rows of the blocks lo … hi − 1 are in the bag."""
    for block in range(lo, hi):
        count: Any = 0
        for layer in range(len(layer_n)):
            bottom = layer_start[layer] + block * PEOPLE_PER_BLOCK
            top = layer_start[layer] + min((block + 1) * PEOPLE_PER_BLOCK, layer_n[layer])
            for row in range(bottom - bottom % 64, top, 64):
                word = _bag_word(key, probability, row) & _rows_between(row, bottom, top)
                count += np.int64(count_groups(word))
        counts_out[block] = count


@kernel(error_model="numpy")
def write_bag(
    key: Any, probability: Any, layer_n: Array, layer_start: Array, starts: Array, lo: Any, hi: Any,
    rows_out: Array, people_out: Array,
) -> None:  # fmt: skip
    """Write the pool rows of the bag, and whose they are, for the blocks lo … hi − 1; ``starts`` says where."""
    for block in range(lo, hi):
        place = np.uint64(starts[block])
        for layer in range(len(layer_n)):
            bottom = layer_start[layer] + block * PEOPLE_PER_BLOCK
            top = layer_start[layer] + min((block + 1) * PEOPLE_PER_BLOCK, layer_n[layer])
            for row in range(bottom - bottom % 64, top, 64):
                word = _bag_word(key, probability, row) & _rows_between(row, bottom, top)
                while word != _0:
                    lowest = word & (_0 - word)
                    at = np.int64(count_groups(lowest - _1)) + row
                    rows_out[place] = np.uint32(at)
                    people_out[place] = np.uint32(at - layer_start[layer])
                    place += _1
                    word ^= lowest


@kernel(error_model="numpy")
def gather_codes(
    rows: Array, masks: Array, erase: Array, picked_rows: Array, picked_people: Array, lo: Any, hi: Any,
    codes_out: Array,
) -> None:  # fmt: skip
    """Write the codes of the picks lo … hi − 1, with 255 in every column that the mask withholds.

    ``erase[k, m]`` holds 0 or 255 for every column, for byte k of the mask with the value m.
    """
    words = np.uint64(rows.shape[1])
    n_bytes = np.uint64(erase.shape[0])
    for pick in range(np.uint64(lo), np.uint64(hi)):
        person = np.uint64(picked_people[pick])
        mask = np.uint64(masks[np.uint64(picked_rows[pick])])
        for word in range(words):
            codes_out[pick, word] = rows[person, word] | erase[np.uint64(0), mask & np.uint64(255), word]
        for byte in range(np.uint64(1), n_bytes):
            value = (mask >> (np.uint64(8) * byte)) & np.uint64(255)
            for word in range(words):
                codes_out[pick, word] |= erase[byte, value, word]
