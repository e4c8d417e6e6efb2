"""Readable twins of the kernels, in plain Python. Slow on purpose; the tests compare the two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pucboost._common import Array

_BITS = 2**64
_GOLDEN = 0x9E3779B97F4A7C15


def mix64(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % _BITS
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % _BITS
    return x ^ (x >> 31)


def counter_hash(seed: int, stream: int, row: int, counter: int) -> int:
    h = mix64((seed + _GOLDEN) % _BITS)
    for value in (stream, row + 1, counter + 1):
        h = mix64((h + value * _GOLDEN) % _BITS)
    return h


def groups_of(mask: int) -> list[int]:
    return [g for g in range(64) if mask >> g & 1]


def count_groups(mask: int) -> int:
    return len(groups_of(mask))


def submask(index: int, mask: int) -> int:
    return sum(1 << g for j, g in enumerate(groups_of(mask)) if index >> j & 1)


def antithetic_submask(seed: int, row: int, copy: int, mask: int) -> int:
    if mask == 0:
        return 0
    half = 2 ** (count_groups(mask) - 1)
    multiplier = counter_hash(seed, 2, row, 0) | 1
    offset = counter_hash(seed, 2, row, 1)
    pair, second_of_pair = divmod(copy, 2)
    first = submask((multiplier * pair + offset) % half, mask)
    complement_first = counter_hash(seed, 2, row, pair + 2) % 2
    return mask - first if complement_first != second_of_pair else first


def copy_mask(scheme: str, seed: int, row: int, copy: int, available: int) -> int:
    if scheme == "exhaustive":
        return submask(copy, available)
    if scheme == "fixed":
        return available & counter_hash(seed, 1, row, copy)
    if scheme == "balanced":
        return antithetic_submask(seed, row, copy, available)
    return available


def walk_rows(offsets: Sequence[int], start: int, stop: int) -> list[tuple[int, int]]:
    pairs = [(row, copy) for row in range(len(offsets) - 1) for copy in range(offsets[row + 1] - offsets[row])]
    return pairs[start:stop]


def pack_shared(block: Array, groups: Sequence[Sequence[int]], zero_is_missing: bool = False) -> list[int]:
    def has_value(value: float) -> bool:
        return not (math.isnan(value) or (zero_is_missing and value == 0))

    return [sum(1 << g for g, columns in enumerate(groups) if any(has_value(row[j]) for j in columns)) for row in block]


def round_at_random(seed: int, expected: Sequence[float], counts: Sequence[int], ids: Sequence[int] = ()) -> list[int]:
    out = []
    for row, k in enumerate(counts):
        whole = math.floor(expected[k])
        uniform = (counter_hash(seed, 3, ids[row] if ids else row, 0) >> 11) / 2**53
        out.append(whole + (uniform < expected[k] - whole))
    return out


def gather_masked_rows(
    source: Array, rows: Sequence[int], masks: Sequence[int], groups: Sequence[Sequence[int]], fill: float = math.nan
) -> Array:
    out = np.empty((len(rows), source.shape[1]), dtype=source.dtype)
    for v, (row, mask) in enumerate(zip(rows, masks, strict=True)):
        out[v] = source[row]
        for g, columns in enumerate(groups):
            if not mask >> g & 1:
                out[v, list(columns)] = fill
    return out


def scatter_cells(values: Array, rows: Sequence[int], columns: Sequence[int], out: Array) -> None:
    for i, row in enumerate(rows):
        for k, column in enumerate(columns):
            out[row, column] = values[i, k]


def nonzero_columns(block: Array) -> list[tuple[list[float], list[int]]]:
    keep = [[i for i, value in enumerate(column) if not abs(value) <= float(np.float32(1e-35))] for column in block.T]
    return [([float(block[i, j]) for i in positions], positions) for j, positions in enumerate(keep)]


def cells(rows: Array, extra: Sequence[int]) -> list[int]:
    seen: dict[tuple[Any, ...], int] = {}
    out = []
    for row, more in zip(rows.tolist(), extra, strict=True):
        key = (more, *("missing" if math.isnan(value) else value for value in row))
        out.append(seen.setdefault(key, len(seen)))
    return out
