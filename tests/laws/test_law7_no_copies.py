"""Law 7: raw masked rows exist only in a batch buffer; peak memory does not grow with 2^r."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from engine_kits import EngineKit, every_engine
from tools import PEAK_MEMORY, skip_without_peak_memory

# 1,000 rows that share all of 12 groups: 4.1 million virtual rows. As float64 with 14 columns they would take 460 MB.
SCRIPT = (
    PEAK_MEMORY
    + """
import numpy as np
from pucboost._consent import Consent
from pucboost._virtual.plan import plan_masks
from pucboost._virtual.rows import MaskedRows
from pucboost._tables.sources import row_source

X = np.random.default_rng(0).normal(size=(1_000, 14))
consent = Consent.declare(list(range(2, 14)), [f"c{j}" for j in range(14)])
rows = MaskedRows(row_source(X), consent, plan_masks(consent.availability(X), "exhaustive"))
assert len(rows) == 1_000 * 2**12
rows[:10]
before, total = peak(), 0
for _, batch in rows.batches():
    total += int(np.isnan(batch[:, 2:]).sum())
assert total == 1_000 * 12 * 2**11, total
print(peak() - before)
"""
)


def test_reading_four_million_virtual_rows_takes_a_batch_of_memory() -> None:
    skip_without_peak_memory()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert float(done.stdout) < 64, done.stdout  # MB


@every_engine
@pytest.mark.parametrize("r", [2, 12])
def test_training_allocates_no_table(kit: EngineKit, r: int) -> None:
    """Python's and numpy's allocations while training; the engine's own are not counted by tracemalloc."""
    rng = np.random.default_rng(0)
    n = 200
    X = rng.normal(size=(n, 2 + r))
    y = X.sum(axis=1)
    params = {"objective": kit.objectives["l2"], "optional": list(range(2, 2 + r)), "max_bin": 15, **kit.few_for_bins}
    kit.fit(X, y, 1, augmentation="fixed", **params)  # compile first
    tracemalloc.start()
    try:
        kit.fit(X, y, 1, augmentation="exhaustive", **params)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    per_virtual_row = 12  # label and weight on their way into the engine, and a passing copy
    assert peak < (24 << 20) + n * 2**r * per_virtual_row, peak
    if r == 12:
        assert peak < n * 2**r * (2 + r) * 8 / 2  # far from the table itself


TRAINING = (
    PEAK_MEMORY
    + """
import sys, numpy as np, pucboost as puc
engine, r, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
params = {"engine": engine, "verbosity": -1, "augmentation": "exhaustive", "max_bin": 15}
X = np.random.default_rng(0).normal(size=(n, 2 + r)).astype(np.float32)
params["optional"] = list(range(2, 2 + r))
puc.train({**params, "augmentation": "fixed"}, puc.Dataset(X, X[:, 0]), 1)
before = peak()
puc.train(params, puc.Dataset(X, X[:, 0]), 1)
print(peak() - before)
"""
)


@every_engine
def test_raw_masked_rows_are_never_stored(kit: EngineKit) -> None:
    """250 rows with 12 groups: a million virtual rows of 14 float32, 57 MB, which the engine keeps as bytes."""
    skip_without_peak_memory()
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, kit.name, "12", "250"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1_024_000 * kit.bytes_per_row / 2**20 + 25, done.stdout
