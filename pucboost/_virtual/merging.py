"""Merge virtual rows that are equal after masking into one, with the sum of their weights and the mean of their labels.

For a loss that is linear in the label, Σ_i w_i·ℓ(s, y_i) = W·ℓ(s, ȳ) + const with W = Σ w_i and ȳ = Σ w_i·y_i / W. The
gradient and hessian of the merged row are the sums over its parts, so the trees are those of the table before merging,
up to rounding. Class labels have no mean, so only rows with the same class are merged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from .._arrays import Array
from .._kernels.cells import assign_cells
from .._kernels.threads import thread_count
from .._losses import Objective, Softmax
from .._tables.containers import SourceTable
from .._tables.sources import SubsetSource
from .hashing import hash_block
from .rows import MergedTable, SelectedRows, VirtualTable

logger = logging.getLogger("pucboost")

SAMPLE_ROWS = 20_000
WORTHWHILE = 0.5
"""``"auto"`` compacts if at most this share of a sample of rows is distinct."""


def check_compactable(objective: Objective | None, table: SourceTable) -> None:
    """Raise if merging rows would change the model."""
    if objective is None:
        raise ValueError(
            "compact needs a built-in loss whose rows can be merged; pucboost does not know this objective."
        )
    if not objective.linear_in_label:
        raise ValueError(
            f"compact with objective {objective.name!r}: its loss is not linear in the label, so rows with different "
            "labels cannot be merged. Leave compact out."
        )
    if table.init_score is not None:
        raise ValueError("compact with init_score: equal rows with different initial scores cannot be merged.")


def wants_compaction(compact: Any, objective: Objective | None, table: SourceTable, shared: Array) -> bool:
    """Return ``compact`` if it is True or False; decide ``"auto"`` by the share of distinct rows in a sample."""
    if compact is False or compact is None:
        return False
    if compact is True:
        check_compactable(objective, table)
        return True
    try:
        check_compactable(objective, table)
    except ValueError:
        return False
    n = table.source.n_rows
    rows = np.unique(np.linspace(0, n - 1, min(n, SAMPLE_ROWS)).astype(np.int64))
    sample = replace(table.subset(rows), available=None)
    n_cells, _ = _people_cells(sample, _extra(sample, shared[rows], objective), 1)
    factor = len(rows) / n_cells
    logger.info("compact='auto': %d of %d sampled rows are distinct, factor %.1f", n_cells, len(rows), factor)
    return n_cells <= WORTHWHILE * len(rows)


def _extra(table: SourceTable, shared: Array, objective: Objective | None) -> Array:
    """Return what distinguishes rows besides their values: the mask, and the class where labels have no mean."""
    if isinstance(objective, Softmax):
        return np.asarray(shared * np.uint64(0x9E3779B97F4A7C15) + table.label.astype(np.uint64))
    return shared


def _cells(blocks: Iterable[Array], n_rows: int, extras: Iterable[Array], threads: int) -> tuple[int, Array]:
    """Return the number of distinct rows (cells), and the cell of each row."""
    cell = np.empty(n_rows, dtype=np.int64)
    slots, keys = np.full(1 << 10, -1, dtype=np.int64), np.empty((1 << 9, 2), dtype=np.uint64)
    n_cells = start = 0
    for block, extra in zip(blocks, extras, strict=True):
        hashes = hash_block(block, extra, threads)
        slots, keys = _make_room(slots, keys, n_cells, n_cells + len(hashes))
        n_cells = assign_cells(hashes, start, slots, keys, n_cells, cell)
        start += len(hashes)
    return n_cells, cell


def _make_room(slots: Array, keys: Array, n_cells: int, needed: int) -> tuple[Array, Array]:
    """Return a hash table that is at most half full with ``needed`` cells."""
    if needed <= len(keys):
        return slots, keys
    capacity = 1 << (2 * needed - 1).bit_length()
    larger = np.empty((capacity // 2, 2), dtype=np.uint64)
    fresh = np.full(capacity, -1, dtype=np.int64)
    assign_cells(keys[:n_cells], 0, fresh, larger, 0, np.empty(n_cells, dtype=np.int64))
    return fresh, larger


def _first_of_each(cell: Array, n_cells: int) -> Array:
    """Return the first row of each cell; cells are numbered in the order of their first rows."""
    first = np.full(n_cells, len(cell), dtype=np.int64)
    np.minimum.at(first, cell, np.arange(len(cell)))
    return first


def _people_cells(table: SourceTable, extra: Array, threads: int) -> tuple[int, Array]:
    source, bounds = table.source, list(table.source.blocks())
    windows, extras = (source.window(lo, hi) for lo, hi in bounds), (extra[lo:hi] for lo, hi in bounds)
    return _cells(windows, source.n_rows, extras, threads)


def merge_people(
    table: SourceTable, shared: Array, objective: Objective | None, num_threads: int | None
) -> tuple[SourceTable, Array]:
    """Merge people with equal rows; return the smaller table and the masks of its rows.

    Equal people have equal copies, so this does most of the work before any copy exists.
    """
    n = table.source.n_rows
    n_cells, cell = _people_cells(table, _extra(table, shared, objective), thread_count(num_threads))
    first = _first_of_each(cell, n_cells)
    weight = np.ones(n) if table.weight is None else table.weight
    label, total = _merged(cell, n_cells, table.label, weight, first)
    merged = replace(
        table.subset(first), source=SubsetSource(table.source, first), label=label, weight=total, available=None
    )
    return merged, shared[first]


def _merged(cell: Array, n_cells: int, label: Array, weight: Array, first: Array) -> tuple[Array, Array]:
    """Return the weighted mean of the labels and the total weight of each cell."""
    total = np.bincount(cell, weights=weight, minlength=n_cells)
    mean = np.bincount(cell, weights=weight * label, minlength=n_cells) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, mean, label[first]), total


def merge_virtual_rows(virtual: VirtualTable, n_people: int, objective: Objective | None) -> MergedTable:
    """Merge virtual rows that are equal after masking.

    Weights are scaled so that a bag of ``n_people`` rows, or the whole table if it is smaller, has the total weight of
    plain training.
    """
    rows = virtual.rows
    label, weight = virtual.label().astype(np.float64), virtual.weight()
    weight = np.ones(len(rows)) if weight is None else weight.astype(np.float64)
    classes = label.astype(np.uint64) if isinstance(objective, Softmax) else np.zeros(len(rows), dtype=np.uint64)
    step = rows.batch_rows
    n_cells, cell = _cells(
        (batch for _, batch in rows.batches()),
        len(rows),
        (classes[start : start + step] for start in range(0, len(rows), step)),
        rows.threads,
    )
    first = _first_of_each(cell, n_cells)
    mean, total = _merged(cell, n_cells, label, weight, first)
    user_total = float(virtual.table.weight.sum()) if virtual.table.weight is not None else float(n_people)
    scale = user_total / total.sum() * max(1.0, n_cells / n_people) if total.sum() > 0 else 1.0
    factor = len(rows) / n_cells
    logger.info("compacted %d virtual rows of %d people to %d cells, factor %.1f", len(rows), n_people, n_cells, factor)
    return MergedTable(SelectedRows(rows, first), virtual.table, mean.astype(np.float32), total * scale, n_people)


def mean_hessian(objective: Objective, label: Array, weight: Array) -> float:
    """Return the mean hessian per person at the initial score: what one person adds to ``min_sum_hessian_in_leaf``."""
    start = np.asarray(objective.initial_score(label, weight), dtype=np.float64)
    score = np.ascontiguousarray(np.broadcast_to(start, (len(label), len(start)) if start.ndim else len(label)))
    _, hessian = objective.gradient(score, label)
    per_row = hessian.mean(axis=1) if hessian.ndim == 2 else hessian
    return float(np.average(per_row, weights=weight))
