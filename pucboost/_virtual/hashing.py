"""Hashes that stand for rows: equal rows, equal hashes, whatever holds them and however they are read."""

from __future__ import annotations

import numpy as np

from .._arrays import Array
from .._kernels.cells import hash_rows
from .._kernels.threads import run_in_ranges
from .rows import VirtualTable


def hash_block(block: Array, extra: Array, threads: int) -> Array:
    """Return two independent 64-bit hashes of each row of a block, and of one more integer that belongs to the row.

    Rows are told apart by the bits of their numbers, so blocks to be compared must have one type.
    """
    values = np.ascontiguousarray(block)
    bits = values.view(np.uint32 if values.dtype == np.float32 else np.uint64)
    hashes = np.empty((len(values), 2), dtype=np.uint64)
    run_in_ranges(lambda lo, hi: hash_rows(values, bits, extra, lo, hi, hashes), len(values), threads)
    return hashes


def hash_people(people: VirtualTable, label: Array | None = None) -> Array:
    """Return one 64-bit hash for each person of a table with one row per person, label included.

    What is hashed is what a model can see: numbers as float32, categories as codes, and nothing of the groups that are
    not shared. So the hash of a person is the same from a float32 and a float64 table, from zeros that ``available``
    denies and from missing values.
    """
    rows, labels = people.rows, people.table.label if label is None else label
    out = np.empty(len(rows), dtype=np.uint64)
    for start, batch in rows.batches():
        extra = _bits(labels[start : start + len(batch)])
        out[start : start + len(batch)] = hash_block(_as_float32(batch), extra, rows.threads)[:, 0]
    return out


def hash_again(hashes: Array, salt: int, threads: int) -> Array:
    """Return other hashes, one to one; who does not know the salt cannot tell which of them belongs to a row."""
    nothing = np.empty((len(hashes), 0), dtype=np.float32)
    return np.ascontiguousarray(hash_block(nothing, hashes ^ np.uint64(salt), threads)[:, 0])


def _as_float32(values: Array) -> Array:
    with np.errstate(over="ignore"):  # infinite is a value like any other
        return values.astype(np.float32, copy=False)


def _bits(labels: Array) -> Array:
    """Return labels as float32 in integers; −0 is 0."""
    return (_as_float32(np.asarray(labels)) + np.float32(0)).view(np.uint32).astype(np.uint64)
