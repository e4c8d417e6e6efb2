"""The row budget rests on an estimate of memory per virtual row: it is compared with what a training takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightgbm as lgb
import pytest
from engine_kits import OPTIONAL
from tools import PEAK_MEMORY, make_table, skip_without_peak_memory

import pucboost as puc
from pucboost._engines import ENGINES, engine_named

# The peak of a process only grows. What does not depend on the number of rows, and the caller's table, are in it before
# the larger training, so that the difference is that of the virtual rows alone.
SCRIPT = (
    PEAK_MEMORY
    + """
def watch_private_memory():
    import threading, time
    global peak
    largest = 0.0
    def watch():
        nonlocal largest
        while True:
            lines = open("/proc/self/status").read().splitlines()
            largest = max(largest, int(next(one for one in lines if one.startswith("RssAnon")).split()[1]) / 1024)
            time.sleep(0.002)
    threading.Thread(target=watch, daemon=True).start()
    peak = lambda: largest

import json, sys, numpy as np, pucboost as puc

engine, columns, classes, more = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
sizes = (40_000, 240_000)
if "external_memory" in more:
    sizes = (240_000, 800_000)  # quantile sketches have their full size then
    from pucboost._engines import xgboost_data
    xgboost_data.PAGE_BYTES = 1 << 20  # as many pages are then read ahead in both trainings
    watch_private_memory()  # files that are mapped do not count: the system takes that memory when it needs it
rng = np.random.default_rng(0)
X = rng.standard_normal((sizes[1], columns), dtype=np.float32)
for column in (0, 1, 2):
    X[rng.random(sizes[1]) < 0.3, column] = np.nan
y = rng.integers(0, classes, sizes[1]) if classes > 1 else rng.integers(0, 2, sizes[1])
objective = {"objective": "multiclass", "num_class": classes} if classes > 1 else {"objective": "binary"}
params = {"engine": engine, "num_threads": 1, "verbosity": -1, "optional": [0, 1, 2], "copies": 2, **objective, **more}
if engine == "lightgbm":
    params["bin_construct_sample_cnt"] = 5_000
puc.train(params, puc.Dataset(X[:500], y[:500]), 1)
peaks, rows = [], []
for n in sizes:
    rows.append(puc.train(params, puc.Dataset(X[:n], y[:n]), 2).puc_summary.virtual_rows)
    peaks.append(peak())
print((peaks[1] - peaks[0]) * 2**20 / (rows[1] - rows[0]))
"""
)
CASES: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "lightgbm": ("lightgbm", 30, 1, {"force_row_wise": True}),  # else LightGBM chooses by time
    "lightgbm, by column": ("lightgbm", 30, 1, {"force_col_wise": True}),
    "lightgbm, classes": ("lightgbm", 6, 3, {}),
    "xgboost": ("xgboost", 30, 1, {}),
    "xgboost, classes": ("xgboost", 6, 3, {}),
}


def estimate(engine: str, columns: int, classes: int, params: dict[str, Any], folder: Path | None = None) -> int:
    given = {**params, "num_class": classes} if classes > 1 else params
    asked = {} if folder is None else {"external_memory": folder}
    return engine_named(engine).prepare(given, {}, 1, asked).bytes_per_virtual_row(columns)


def measured(engine: str, columns: int, classes: int, params: dict[str, Any]) -> float:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, engine, str(columns), str(classes), json.dumps(params)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.parametrize("case", CASES)
def test_estimate_is_what_a_training_takes(case: str) -> None:
    """Within 5 % where this was written; allocators differ."""
    skip_without_peak_memory()
    ratio = measured(*CASES[case]) / estimate(*CASES[case])
    assert 0.8 < ratio < 1.2, ratio


@pytest.mark.parametrize("engine", ["xgboost"])
def test_external_memory_takes_what_is_estimated_or_less(engine: str, tmp_path: Path) -> None:
    skip_without_peak_memory()
    expected = estimate(engine, 6, 1, {}, tmp_path)
    assert expected == estimate(engine, 30, 1, {}, tmp_path) < estimate(engine, 30, 1, {}) / 3
    ratio = measured(engine, 6, 1, {"external_memory": str(tmp_path)}) / expected
    assert 0.5 < ratio < 1.3, ratio
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_estimates_follow_the_parameters(engine: str) -> None:
    plain = estimate(engine, 30, 1, {})
    if engine != "native":  # whose bins are bytes, and which has gradients of a bag only
        assert estimate(engine, 30, 1, {"max_bin": 1_000}) - plain in (30, 60)  # two bytes, in one or two places
        assert estimate(engine, 30, 3, {}) > plain + 30  # scores and gradients of two more classes
    assert estimate(engine, 30, 3, {}) >= plain + 8


def test_column_wise_histograms_where_memory_is_short(monkeypatch: Any) -> None:
    """LightGBM's model says how it was trained."""
    X, y = make_table(1_000)
    params = {"verbosity": -1, "num_threads": 1, "objective": "binary", "optional": OPTIONAL, "copies": 2}

    def how(**more: Any) -> Any:
        booster = puc.train({**params, **more}, lgb.Dataset(X, y), 2)
        return [booster.params.get(name) for name in ("force_col_wise", "force_row_wise")]

    assert how() == [None, None]
    # 6 columns: 87 bytes a row, and 81 by column. So 2,000 rows fit only by column.
    monkeypatch.setattr("pucboost._training.steps.memory_bytes", lambda: 2 * 84.0 * 2_000)
    assert how() == [True, None]
    assert how(force_row_wise=True, max_virtual_rows=10_000) == [None, True]
    assert how(force_col_wise=False, max_virtual_rows=10_000) == [False, None]
