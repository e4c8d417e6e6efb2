"""Small virtual tables, their pools, and random trees over the columns of a pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from pucboost._consent import Consent
from pucboost._engines.native.bins import BinParams, Bins, ColumnSample, Layout, find_bins
from pucboost._engines.native.kernels.codes import encode_columns
from pucboost._engines.native.kernels.gradients import CodeTree
from pucboost._engines.native.pool import Pool
from pucboost._tables.sources import SourceTable, row_source
from pucboost._virtual.plan import plan_masks
from pucboost._virtual.rows import MaskedRows, VirtualTable

ALL = 10**9


def people_table(n: int = 300, *, base: int = 3, groups: int = 4, seed: int = 0, values: int = 0) -> Any:
    """Return a matrix with ``groups`` optional columns after the base columns, and gaps in one base column."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, base + groups))
    if values:
        X = np.round(X * values / 4)
    X[:, base:][generator.random((n, groups)) < 0.4] = np.nan
    X[generator.random(n) < 0.1, 0] = np.nan
    return X


def virtual_table(
    X: Any,
    optional: Any,
    *,
    label: Any = None,
    weight: Any = None,
    init_score: Any = None,
    augmentation: str = "balanced",
    copies: float = 3.0,
    seed: int = 1,
) -> VirtualTable:
    """Return the virtual table of a matrix; labels are 0, 1, 0, 1, … unless given."""
    source = row_source(X)
    consent = Consent.declare(optional, source.names)
    label = np.arange(source.n_rows) % 2 if label is None else label
    table = SourceTable.of(source, label, weight, name="the table", init_score=init_score)
    plan = plan_masks(consent.availability(source), augmentation, copies=copies, seed=seed, num_threads=1)
    return VirtualTable(MaskedRows(source, consent, plan, num_threads=1), table)


def bins_and_layout(virtual: VirtualTable, *, categorical: Any = (), **params: Any) -> tuple[Bins, Layout]:
    """Return bins of all people, and a column for every feature."""
    sample = ColumnSample.of(virtual.rows.source, ALL, 0)
    consent = virtual.rows.consent
    bins = find_bins(sample, BinParams(**params), consent.group_columns.tolist(), categorical)
    return bins, Layout.plain(bins, consent)


def pool_of(virtual: VirtualTable, *, n_scores: int = 1, threads: int = 1, scale: float = 1.0, **params: Any) -> Pool:
    """Return a pool for growth with a column for every feature."""
    bins, layout = bins_and_layout(virtual, **params)
    return Pool.of(virtual, bins, layout, n_scores, for_growth=True, threads=threads, scale=scale)


def masked_codes(pool: Pool) -> Any:
    """Return the codes of all pool rows, (V, columns), with what they withhold missing: as a grower sees them."""
    assert pool.rows is not None
    person = np.concatenate([np.arange(n) for n in pool.layer_n])
    words = pool.rows[person]
    for byte in range(len(pool.erase)):
        shift = type(pool.masks[0])(8 * byte)
        words = words | pool.erase[byte, ((pool.masks >> shift) & type(pool.masks[0])(255)).astype(np.int64)]
    return words.view(np.uint8)[:, : len(pool.codes)]


def encoded(bins: Bins, values: Any, column: Any = None, first: Any = None, bundled: Any = None) -> Any:
    """Return the codes of a table under the given layout, by default one column for each feature."""
    values = np.asarray(values, dtype=np.float64)
    n = values.shape[1]
    column = np.arange(n) if column is None else np.array(column)
    out = np.zeros((column.max() + 1, len(values)), dtype=np.uint8)
    encode_columns(
        np.array(values.T, order="C"),
        *bins.search_tables,
        bins.is_category,
        bins.missing_codes,
        bins.least,
        column,
        np.zeros(n, dtype=np.int64) if first is None else np.array(first),
        np.zeros(n, dtype=bool) if bundled is None else np.array(bundled),
        np.arange(len(values), dtype=np.int32),
        np.empty(len(values), dtype=np.uint8),
        out,
    )
    return out


def bins_in(bits: Any) -> list[int]:
    """Return the bins of a set of 256 bits, in rising order."""
    return [b for b in range(256) if (int(bits[b >> 6]) >> (b & 63)) & 1]


def random_tree(leaves: int, n_columns: int, seed: int, *, sets: float = 0.0, balanced: bool = False) -> CodeTree:
    """Return a tree that splits random leaves on random codes, a share ``sets`` of them by sets of codes.

    Half of the sets are few runs of codes, from none to four, the others any codes.
    """
    generator = np.random.default_rng(seed)
    n = leaves - 1
    left, right = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    owner: dict[int, tuple[Any, int]] = {}
    for node in range(n):
        split = min(owner, default=0) if balanced else int(generator.integers(0, node + 1))
        if node:
            array, parent = owner.pop(split)
            array[parent] = node
        left[node], right[node] = ~split, ~(node + 1)
        owner[split], owner[node + 1] = (left, node), (right, node)
        if balanced:  # the leaf that was split last comes last
            owner[split] = owner.pop(split)
    in_runs = np.zeros((n, 256), dtype=np.uint8)
    for node, ends in enumerate(np.sort(generator.integers(0, 257, (n, 8)), axis=1).tolist()):
        for k in range(node % 5):
            in_runs[node, ends[2 * k] : ends[2 * k + 1]] = 1
    few = np.packbits(in_runs, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return CodeTree(
        column=generator.integers(0, n_columns, n),
        first_right=generator.integers(0, 256, n).astype(np.uint8),
        span=generator.integers(0, 256, n).astype(np.uint8),
        in_set=generator.random(n) < sets,
        right_set=np.where(generator.random((n, 1)) < 0.5, few, generator.integers(0, 2**64, (n, 4), dtype=np.uint64)),
        left=left,
        right=right,
    )
