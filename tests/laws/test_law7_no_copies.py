"""Law 7: raw masked rows exist only in a batch buffer; peak memory does not grow with 2^r."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc

import lightgbm as lgb
import numpy as np
import pytest
from tools import PEAK_MEMORY, QUIET, skip_without_peak_memory

import pucboost as puc

# 3,000 rows that share all of 12 groups: 12.3 million virtual rows. As float64 with 14 columns they would take 1.4 GB.
SCRIPT = (
    PEAK_MEMORY
    + """
import numpy as np
from pucboost._consent import Consent
from pucboost._virtual.plan import plan_masks
from pucboost._virtual.rows import MaskedRows
from pucboost._tables.containers import row_source

X = np.random.default_rng(0).normal(size=(3_000, 14))
consent = Consent.declare(list(range(2, 14)), [f"c{j}" for j in range(14)])
rows = MaskedRows(row_source(X), consent, plan_masks(consent.availability(X), "exhaustive"))
assert len(rows) == 3_000 * 2**12
rows[:10]
before, total = peak(), 0
for _, batch in rows.batches():
    total += int(np.isnan(batch[:, 2:]).sum())
assert total == 3_000 * 12 * 2**11, total
print(peak() - before)
"""
)


def test_reading_twelve_million_virtual_rows_takes_a_batch_of_memory() -> None:
    skip_without_peak_memory()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert float(done.stdout) < 64, done.stdout  # MB


@pytest.mark.parametrize("r", [2, 12])
def test_training_allocates_no_table(r: int) -> None:
    """Python's and numpy's allocations while training; LightGBM's own are not counted by tracemalloc."""
    rng = np.random.default_rng(0)
    n = 200
    X = rng.normal(size=(n, 2 + r))
    y = X.sum(axis=1)
    params = {**QUIET, "optional": list(range(2, 2 + r)), "augmentation": "exhaustive", "max_bin": 15}
    puc.train({**params, "augmentation": "fixed"}, lgb.Dataset(X, y), 1)  # compile first
    tracemalloc.start()
    try:
        puc.train({**params, "bin_construct_sample_cnt": 5_000}, lgb.Dataset(X, y), 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    per_virtual_row = 12  # label and weight on their way into LightGBM, and a passing copy
    assert peak < (24 << 20) + n * 2**r * per_virtual_row, peak
    if r == 12:
        assert peak < n * 2**r * (2 + r) * 8 / 2  # far from the table itself


def test_sample_for_the_bins_is_bounded_by_lightgbms_own_limit() -> None:
    """What is sampled for the bins depends on bin_construct_sample_cnt, not on the number of virtual rows."""
    from pucboost._consent import Consent
    from pucboost._engines.lightgbm_dataset import _nonzero_sample_columns
    from pucboost._tables.containers import row_source
    from pucboost._virtual.plan import plan_masks
    from pucboost._virtual.rows import MaskedRows

    X = np.random.default_rng(0).normal(size=(500, 12))
    consent = Consent.declare(list(range(2, 12)), [f"c{j}" for j in range(12)])
    rows = MaskedRows(row_source(X), consent, plan_masks(consent.availability(X), "exhaustive"))
    sampled = np.arange(0, len(rows), 997)
    _nonzero_sample_columns(rows, sampled)
    tracemalloc.start()
    try:
        _nonzero_sample_columns(rows, sampled)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(sampled) * 12 * 8
