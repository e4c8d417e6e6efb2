"""Values as codes of one byte: where the bins end, in which bin a value is, and the codes of a bag of copies.

Columns are found by position and codes are written to the places of people, so that blocks of a table may be encoded in
any order and on any number of threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import uint8, uint64

from ...._common import Array
from ...._kernels.compiling import kernel
from ...._kernels.leaf_sets import lowest_bit
from ...._kernels.masks import count_groups, counter_hash

MISSING = 255
"""The code of a missing or withheld value; so a value is withheld by an OR."""

BOUNDS = 256
"""Length of a row of bounds. What a feature does not need is infinite."""


@kernel
def bin_ends(counts: Array, max_bins: int, min_count: int, ends_out: Array) -> int:
    """Write the number of the last value of each bin, for distinct values in rising order; return how many bins.

    If there are no more values than bins, each is a bin of its own, as long as it has ``min_count`` rows. Otherwise a
    value with a bin's share of the rows or more gets its own bin, and the others share the rest equally. A bin before
    such a value may be half as large as the others. ``ends_out`` has room for ``max_bins`` numbers, at least 1.
    """
    n = counts.size
    if n <= max_bins:
        bins = 0
        in_bin = 0
        for i in range(n - 1):
            in_bin += counts[i]
            if in_bin >= min_count:
                ends_out[bins] = i
                bins += 1
                in_bin = 0
        ends_out[bins] = n - 1
        return bins + 1
    rest = 0
    for i in range(n):
        rest += counts[i]
    bins_left = max(1, min(max_bins, rest // max(1, min_count)))
    last_bin = bins_left - 1
    heavy = rest / bins_left
    for i in range(n):
        if counts[i] >= heavy:
            rest -= counts[i]
            bins_left -= 1
    share = rest / max(1, bins_left)
    bins = 0
    in_bin = 0
    for i in range(n - 1):
        if bins == last_bin:
            break
        is_heavy = counts[i] >= heavy
        in_bin += counts[i]
        if not is_heavy:
            rest -= counts[i]
        if is_heavy or in_bin >= share or (counts[i + 1] >= heavy and in_bin >= max(1.0, 0.5 * share)):
            ends_out[bins] = i
            bins += 1
            in_bin = 0
            if not is_heavy:
                bins_left -= 1
                share = rest / max(1, bins_left)
    ends_out[bins] = n - 1
    return bins + 1


@kernel
def sort_keys(keys: Array, other: Array, counts: Array) -> bool:
    """Sort numbers of 64 bits by radix, byte by byte; return whether they are in ``other`` at the end.

    ``counts`` is memory to work in, 8 × 256 numbers. Bytes that are the same everywhere cost nothing.
    """
    n = keys.size
    for byte in range(8):
        for k in range(256):
            counts[byte, k] = 0
    for q in range(n):
        for byte in range(8):
            counts[uint64(byte), (keys[q] >> uint64(8 * byte)) & uint64(255)] += 1
    moved = False
    for byte in range(8):
        next_place = counts[byte]
        shift = uint64(8 * byte)
        if next_place[(keys[0] >> shift) & uint64(255)] == n:
            continue
        start = 0
        for k in range(256):
            start, next_place[k] = start + next_place[k], start
        source, target = (other, keys) if moved else (keys, other)
        for q in range(n):
            k = (source[q] >> shift) & uint64(255)
            target[next_place[k]] = source[q]
            next_place[k] += 1
        moved = not moved
    return moved


@kernel(no_cpython_wrapper=True)
def _count_below(values: Array, bounds: Array, count_out: Array) -> None:
    """How many of 255 rising bounds are below each value, by halving without a branch; none are below NaN."""
    for q in range(uint64(values.size)):
        x = values[q]
        at = uint64(128) if bounds[uint64(127)] < x else uint64(0)
        at += uint64(64) if bounds[at + uint64(63)] < x else uint64(0)
        at += uint64(32) if bounds[at + uint64(31)] < x else uint64(0)
        at += uint64(16) if bounds[at + uint64(15)] < x else uint64(0)
        at += uint64(8) if bounds[at + uint64(7)] < x else uint64(0)
        at += uint64(4) if bounds[at + uint64(3)] < x else uint64(0)
        at += uint64(2) if bounds[at + uint64(1)] < x else uint64(0)
        at += uint64(1) if bounds[at] < x else uint64(0)
        count_out[q] = uint8(at)


@kernel(no_cpython_wrapper=True)
def _missing_codes(values: Array, least: float, missing: int, code_out: Array) -> None:
    """Replace the codes of values that are not larger than ``least`` in size: zeros, or with −1 only NaN."""
    for q in range(uint64(values.size)):
        code_out[q] = code_out[q] if abs(values[q]) > least else uint8(missing)


@kernel(no_cpython_wrapper=True)
def _category_codes(values: Array, categories: Array, codes: Array, code_out: Array) -> None:
    """Replace the place of each category among the known ones by its code; an unknown category is missing."""
    for q in range(values.size):
        place = code_out[q]
        code_out[q] = codes[place] if categories[place] == values[q] else uint8(MISSING)


@kernel(no_cpython_wrapper=True)
def _whole_parts(values_out: Array) -> None:
    for q in range(values_out.size):
        values_out[q] = math.trunc(values_out[q])


@kernel
def encode_columns(
    values: Array, bounds: Array, category_codes: Array, is_category: Array, missing: Array, least: float,
    column: Array, first: Array, bundled: Array, places: Array, code: Array, codes_out: Array,
) -> None:  # fmt: skip
    """Write the codes of the people at ``places``; values[f] are the values of feature f, and are overwritten.

    The bin of a value is the number of bounds below it. Bins b ≥ 1 of a bundled feature are the codes from ``first``
    on, and bin 0 writes nothing. ``code`` is memory to work in, a byte for each person.
    """
    for f in range(column.size):
        if column[f] < 0:
            continue
        if is_category[f]:
            _whole_parts(values[f])
        _count_below(values[f], bounds[f], code)
        if is_category[f]:
            _category_codes(values[f], bounds[f], category_codes[f], code)
        else:
            _missing_codes(values[f], least, missing[f], code)
        out = codes_out[column[f]]
        if not bundled[f]:
            for q in range(places.size):
                out[places[q]] = code[q]
        else:
            shift = first[f] - 1
            for q in range(places.size):
                if code[q] == MISSING:
                    out[places[q]] = MISSING
                elif code[q] > 0:
                    out[places[q]] = code[q] + shift


@kernel
def pack_rows(codes: Array, lo: int, hi: int, rows_out: Array) -> None:
    """rows_out[i] = the codes of person i, eight in a word, the first one in the lowest byte."""
    for word in range(rows_out.shape[1]):
        columns = min(8, codes.shape[0] - 8 * word)
        for i in range(lo, hi):
            packed = uint64(0)
            for k in range(columns):
                packed |= uint64(codes[8 * word + k, i]) << uint64(8 * k)
            rows_out[i, word] = packed


@kernel
def place_copies(
    first_row: int, rows: Array, offsets: Array, places: Array, layer_start: Array, lo: int, hi: int,
    pool_row_out: Array,
) -> None:  # fmt: skip
    """Pool row of each of the virtual rows first_row + lo …: copy j of the person at place i is layer_start[j] + i."""
    for v in range(lo, hi):
        row = rows[v]
        pool_row_out[v] = layer_start[first_row + v - offsets[row]] + places[row]


# ----- the bag of a tree: each pool row with the same probability, independent of all others
#
# Whether a row is in the bag is a pure function of (key, row), however rows are divided into layers: 64 neighbours
# share the random words. A bit that is 1 with probability 0.b₁b₂…b₁₆ (binary) is made of as many fair bits, from the
# last to the first: OR with a fair bit where b = 1 (p → ½ + p/2), AND where b = 0 (p → p/2).

PROBABILITY_BITS = 16
PEOPLE_PER_BLOCK = 512
"""A multiple of 64."""

_0, _1 = np.uint64(0), np.uint64(1)

WORDS_AT_A_TIME = 512
"""Random words that are made together: a few thousand bytes, which stay in the first-level cache."""


@kernel(error_model="numpy")
def bag_words(key: Any, probability: Any, lo: Any, hi: Any, words_out: Array) -> None:
    """Write the words lo … hi − 1: a bit for each pool row, which is 1 with probability p / 2¹⁶."""
    everybody = ~_0 if probability >> np.uint64(PROBABILITY_BITS) else _0
    lowest = lowest_bit(probability)
    for start in range(lo, hi, WORDS_AT_A_TIME):
        first, end = np.uint64(start), np.uint64(min(start + WORDS_AT_A_TIME, hi))
        for q in range(first, end):
            words_out[q] = everybody
        for k in range(lowest, np.uint64(PROBABILITY_BITS)):
            bit = _0 - ((probability >> k) & _1)  # all bits 1 for OR, 0 for AND
            for q in range(first, end):
                fair = counter_hash(key, q << np.uint64(6), k)
                words_out[q] = (fair & (words_out[q] | bit)) | (words_out[q] & bit)


@kernel(error_model="numpy")
def _rows_between(first: Any, bottom: Any, top: Any) -> Any:
    """Return 64 bits that are 1 for those of the rows first + 0, first + 1, … that are bottom … top − 1."""
    bits = ~_0 if top - first >= 64 else (_1 << np.uint64(top - first)) - _1
    return bits & (~_0 << np.uint64(bottom - first)) if bottom > first else bits


@kernel(error_model="numpy")
def count_bag(words: Array, layer_n: Array, layer_start: Array, lo: Any, hi: Any, counts_out: Array) -> None:
    """Write how many pool rows of the blocks lo … hi − 1 are in the bag; ``words`` has a bit for each pool row."""
    for block in range(lo, hi):
        count: Any = 0
        for layer in range(len(layer_n)):
            bottom = layer_start[layer] + block * PEOPLE_PER_BLOCK
            top = layer_start[layer] + min((block + 1) * PEOPLE_PER_BLOCK, layer_n[layer])
            for row in range(bottom - bottom % 64, top, 64):
                count += np.int64(count_groups(words[row >> 6] & _rows_between(row, bottom, top)))
        counts_out[block] = count


@kernel(error_model="numpy")
def write_bag(
    words: Array, layer_n: Array, layer_start: Array, starts: Array, lo: Any, hi: Any, rows_out: Array,
    people_out: Array,
) -> None:  # fmt: skip
    """Write the pool rows of the bag, and whose they are, for the blocks lo … hi − 1; ``starts`` has their places."""
    for block in range(lo, hi):
        place = np.uint64(starts[block])
        for layer in range(len(layer_n)):
            bottom = layer_start[layer] + block * PEOPLE_PER_BLOCK
            top = layer_start[layer] + min((block + 1) * PEOPLE_PER_BLOCK, layer_n[layer])
            for row in range(bottom - bottom % 64, top, 64):
                word = words[row >> 6] & _rows_between(row, bottom, top)
                while word != _0:
                    at = np.int64(lowest_bit(word)) + row
                    rows_out[place] = np.uint32(at)
                    people_out[place] = np.uint32(at - layer_start[layer])
                    place += _1
                    word &= word - _1


@kernel(error_model="numpy")
def gather_codes(
    rows: Array, masks: Array, erase: Array, picked_rows: Array, picked_people: Array, lo: Any, hi: Any,
    codes_out: Array,
) -> None:  # fmt: skip
    """Write the codes of the picks lo … hi − 1, with 255 in every column that the mask withholds.

    ``erase[k, m]`` holds 0 or 255 for every column, for byte k of the mask with the value m.
    """
    words, byte = np.uint64(rows.shape[1]), np.uint64(255)
    n_bytes = np.uint64(erase.shape[0])
    if words == np.uint64(2) and n_bytes == _1:  # the most common size
        for pick in range(np.uint64(lo), np.uint64(hi)):
            person = np.uint64(picked_people[pick])
            mask = np.uint64(masks[np.uint64(picked_rows[pick])]) & byte
            a, b = rows[person, _0] | erase[_0, mask, _0], rows[person, _1] | erase[_0, mask, _1]
            codes_out[pick, _0], codes_out[pick, _1] = a, b
        return
    for pick in range(np.uint64(lo), np.uint64(hi)):
        person = np.uint64(picked_people[pick])
        mask = np.uint64(masks[np.uint64(picked_rows[pick])])
        for word in range(words):
            codes_out[pick, word] = rows[person, word] | erase[_0, mask & byte, word]
        for k in range(_1, n_bytes):
            value = (mask >> (np.uint64(8) * k)) & byte
            for word in range(words):
                codes_out[pick, word] |= erase[k, value, word]
