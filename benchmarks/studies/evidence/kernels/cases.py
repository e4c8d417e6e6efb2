"""Every kernel on its data."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.types import Array
from pucboost._kernels import cells, masks, naive, rows
from pucboost._kernels import losses as objectives
from pucboost._kernels import naive_losses as naive_objectives
from pucboost._virtual.allocation import SCHEMES

from .case import SEED, Case, people, size, virtual_rows

N_CLASSES = 4
NO_IDS = np.empty(0, dtype=np.uint64)
"""Rows are hashed by their numbers."""


def copy_masks(scheme: str, n: int) -> Case:
    """Masks of virtual rows."""
    shared, virtual, out = people(n).shared, virtual_rows(n, scheme), np.empty(n, dtype=np.uint64)

    def run(lo: int, hi: int) -> None:
        masks.copy_masks(SCHEMES[scheme], np.uint64(SEED), shared, NO_IDS, virtual.row, virtual.copy, lo, hi, out)

    def twin(m: int) -> list[Any]:
        trio = zip(virtual.row[:m].tolist(), virtual.copy[:m].tolist(), shared[virtual.row[:m]].tolist(), strict=True)
        return [[naive.copy_mask(scheme, SEED, row, copy, mask) for row, copy, mask in trio]]

    read = size(virtual.row) + 8 * virtual.n_people + (0 if scheme == "none" else virtual.copy.nbytes)
    return Case(n, read + out.nbytes, run, [out], twin)


def walk_rows(n: int) -> Case:
    """Source row and copy number of virtual rows."""
    virtual = virtual_rows(n, "balanced")
    row, copy = np.empty_like(virtual.row), np.empty_like(virtual.copy)

    def twin(m: int) -> list[Any]:
        enough = virtual.offsets[: int(np.searchsorted(virtual.offsets, m)) + 1].tolist()
        return list(zip(*naive.walk_rows(enough, 0, m), strict=True))

    return Case(
        n, size(row, copy) + 8 * virtual.n_people,
        lambda lo, hi: masks.walk_rows(virtual.offsets, 0, lo, hi, row, copy), [row, copy], twin,
    )  # fmt: skip


def pack_shared(n: int) -> Case:
    """Who shares what, from a table."""
    who, out = people(n), np.empty(n, dtype=np.uint64)
    start, columns = who.consent.group_start, who.consent.group_columns
    return Case(
        n, out.nbytes + n * len(columns) * who.X.itemsize,
        lambda lo, hi: masks.pack_shared(who.X, start, columns, False, lo, hi, out), [out],
        lambda m: [naive.pack_shared(who.X[:m], who.groups)], values=len(columns),
    )  # fmt: skip


def count_shared(n: int) -> Case:
    """Number of groups in a mask."""
    shared, out = people(n).shared, np.empty(n, dtype=np.int64)
    return Case(
        n, size(shared, out), lambda lo, hi: masks.count_shared(shared, lo, hi, out), [out],
        lambda m: [[naive.count_groups(mask) for mask in shared[:m].tolist()]],
    )  # fmt: skip


def round_at_random(n: int) -> Case:
    """Numbers of copies, rounded at random."""
    shared, counts, out = people(n).shared, np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    masks.count_shared(shared, 0, n, counts)
    expected = np.maximum(1.0, 0.11 * np.ldexp(1.0, np.arange(65)))
    return Case(
        n, size(counts, out),
        lambda lo, hi: masks.round_at_random(np.uint64(SEED), expected, counts, NO_IDS, lo, hi, out), [out],
        lambda m: [naive.round_at_random(SEED, expected.tolist(), counts[:m].tolist())],
    )  # fmt: skip


def gather(n: int, by_columns: bool) -> Case:
    """Masked rows from a table stored by rows or by columns."""
    virtual = virtual_rows(n, "balanced")
    who = people(n)
    mask = np.empty(n, dtype=np.uint64)
    masks.copy_masks(SCHEMES["balanced"], np.uint64(SEED), who.shared, NO_IDS, virtual.row, virtual.copy, 0, n, mask)
    source = np.asarray(who.X[: virtual.n_people], order="F" if by_columns else "C")
    kernel = rows.gather_masked_columns if by_columns else rows.gather_masked_rows
    out = np.empty((n, source.shape[1]), dtype=source.dtype)
    bits, fill = who.consent.column_bits, np.float32(np.nan)
    return Case(
        n, size(source, virtual.row, mask, out),
        lambda lo, hi: kernel(source, virtual.row, mask, bits, fill, lo, hi, out), [out],
        lambda m: [naive.gather_masked_rows(source, virtual.row[:m].tolist(), mask[:m].tolist(), who.groups)],
        values=source.shape[1],
    )  # fmt: skip


def mask_indicators(n: int) -> Case:
    """A column of 0 and 1 per group."""
    who = people(n)
    r = len(who.groups)
    out = np.empty((n, r), dtype=np.float32)
    return Case(
        n, size(who.shared, out), lambda lo, hi: rows.mask_indicators(who.shared, lo, hi, out), [out],
        lambda m: [[[float(g in naive.groups_of(mask)) for g in range(r)] for mask in who.shared[:m].tolist()]],
        values=r,
    )  # fmt: skip


def _numbered(hashes: Array) -> list[int]:
    return naive.cells(hashes, [0] * len(hashes))


def hash_rows(n: int) -> Case:
    """Hashes of rows: two rows of the twin are in one cell exactly if their hashes are equal."""
    who, out = people(n), np.empty((n, 2), dtype=np.uint64)
    bits = who.X.view(np.uint32)
    return Case(
        n, size(who.X, who.shared, out), lambda lo, hi: cells.hash_rows(who.X, bits, who.shared, lo, hi, out), [out],
        lambda m: [naive.cells(who.X[:m], who.shared[:m].tolist())], seen=lambda m: [_numbered(out[:m])],
        values=who.X.shape[1],
    )  # fmt: skip


def assign_cells(n: int) -> Case:
    """Cells of hashes, each four times on average; the time includes emptying the hash table."""
    values = np.random.default_rng(SEED).integers(0, n // 4, (n, 1)).astype(np.float64)
    hashes, out = np.empty((n, 2), dtype=np.uint64), np.empty(n, dtype=np.int64)
    cells.hash_rows(values, values.view(np.uint64), np.zeros(n, dtype=np.uint64), 0, n, hashes)
    capacity = 1 << (2 * n - 1).bit_length()
    slots, keys = np.empty(capacity, dtype=np.int64), np.empty((n, 2), dtype=np.uint64)

    def run(lo: int, hi: int) -> None:
        slots.fill(-1)
        cells.assign_cells(hashes, 0, slots, keys, 0, out)

    run(0, n)
    kept = int(out.max() + 1) * keys.itemsize * 2
    return Case(
        n, size(hashes, out, slots) + kept, run, [out], lambda m: [_numbered(hashes[:m])], in_ranges=False,
    )  # fmt: skip


LOSSES: dict[str, tuple[float, ...]] = {  # with the constants of each
    "squared_error": (), "logistic": (), "poisson": (0.7,), "gamma": (), "tweedie": (1.5,), "quantile": (0.3,),
}  # fmt: skip


def loss(name: str, n: int) -> Case:
    """Gradient and hessian of a loss with one score per row."""
    rng = np.random.default_rng(SEED)
    score, weight = rng.normal(size=n), rng.uniform(0.5, 2.0, n)
    label = (rng.random(n) < 0.4).astype(np.float64) if name == "logistic" else rng.gamma(2.0, size=n)
    gradient, hessian = np.empty(n, dtype=np.float32), np.empty(n, dtype=np.float32)
    kernel, one, constants = getattr(objectives, name), getattr(naive_objectives, name), LOSSES[name]

    def twin(m: int) -> list[Any]:
        trio = zip(score[:m].tolist(), label[:m].tolist(), weight[:m].tolist(), strict=True)
        return list(zip(*[one(s, y, w, *constants) for s, y, w in trio], strict=True))

    return Case(
        n, size(score, label, weight, gradient, hessian),
        lambda lo, hi: kernel(score, label, weight, *constants, lo, hi, gradient, hessian), [gradient, hessian],
        twin, tolerance=2e-7,
    )  # fmt: skip


def softmax(n: int) -> Case:
    """Gradient and hessian of several classes."""
    rng = np.random.default_rng(SEED)
    score, weight = rng.normal(size=(n, N_CLASSES)), rng.uniform(0.5, 2.0, n)
    label = rng.integers(0, N_CLASSES, n).astype(np.float64)
    gradient, hessian = np.empty(score.shape, dtype=np.float32), np.empty(score.shape, dtype=np.float32)
    factor = N_CLASSES / (N_CLASSES - 1)

    def twin(m: int) -> list[Any]:
        trio = zip(score[:m].tolist(), label[:m].tolist(), weight[:m].tolist(), strict=True)
        found = [
            naive_objectives.softmax(s, naive_objectives.one_hot(int(y), N_CLASSES), w, factor) for s, y, w in trio
        ]
        return list(zip(*found, strict=True))

    return Case(
        n, size(score, label, weight, gradient, hessian),
        lambda lo, hi: objectives.softmax(score, label, weight, factor, lo, hi, gradient, hessian),
        [gradient, hessian], twin, tolerance=2e-7, values=N_CLASSES,
    )  # fmt: skip


CASES: dict[str, Callable[[int], Case]] = {
    **{f"copy_masks, {scheme}": functools.partial(copy_masks, scheme) for scheme in SCHEMES},
    "walk_rows": walk_rows,
    "pack_shared": pack_shared,
    "count_shared": count_shared,
    "round_at_random": round_at_random,
    "gather_masked_rows": lambda n: gather(n, by_columns=False),
    "gather_masked_columns": lambda n: gather(n, by_columns=True),
    "mask_indicators": mask_indicators,
    "hash_rows": hash_rows,
    "assign_cells": assign_cells,
    **{name: functools.partial(loss, name) for name in LOSSES},
    f"softmax, {N_CLASSES} classes": softmax,
}
