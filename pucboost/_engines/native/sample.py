"""A sample of people, column by column: what bins and bundles are found from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._arrays import Array
from ..._kernels.rows import append_nonzero_columns, count_nonzero_columns
from ..._tables.sources import RowSource
from ..._virtual.plan import child_seed

COUNTED = 1 << 26
"""If a sample has more values than this, those that are 0 are counted before there is memory for the others."""


@dataclass(frozen=True)
class ColumnSample:
    """The values of each column other than 0, and the numbers of their rows; so sparse columns take little memory."""

    n_rows: int
    values: tuple[Array, ...]
    """float64, in the order of the rows; NaN counts as a value."""
    positions: tuple[Array, ...]

    @classmethod
    def of(cls, source: RowSource, n_rows: int, seed: int) -> ColumnSample:
        """Return a sample of ``n_rows`` people, or of all; one random person from each of as many equal stretches."""
        rows = _stretches(source.n_rows, min(n_rows, source.n_rows), seed)
        step = source.rows_per_block
        blocks = [(start, rows[start : start + step]) for start in range(0, len(rows), step)]
        counts = np.full(source.n_columns, len(rows))
        if len(rows) * source.n_columns > COUNTED:
            counts[:] = 0
            for _, block in blocks:
                count_nonzero_columns(source.take(block), counts)
        first = np.cumsum(counts) - counts
        values, positions = (np.empty(int(counts.sum()), dtype=kind) for kind in (np.float64, np.int32))
        last = first.copy()
        for start, block in blocks:
            append_nonzero_columns(source.take(block), start, last, values, positions)
        cut = [slice(lo, hi) for lo, hi in zip(first.tolist(), last.tolist(), strict=True)]
        return cls(len(rows), tuple(values[part] for part in cut), tuple(positions[part] for part in cut))


def _stretches(n: int, n_rows: int, seed: int) -> Array:
    if n_rows == n:
        return np.arange(n)
    generator = np.random.default_rng(child_seed(seed, 0))
    bounds = np.arange(n_rows + 1) * n // n_rows
    return bounds[:-1] + (generator.random(n_rows) * np.diff(bounds)).astype(np.int64)
