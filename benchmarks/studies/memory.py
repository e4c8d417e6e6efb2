"""Peak memory of training from the stream, beyond the caller's data and LightGBM's own structures.

LightGBM's own structures are measured by training from the materialised table in another process and subtracting the
table: extra = peak(stream) − source table − (peak(table) − virtual table).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import pucboost as puc
from benchmarks.data import insurance_like
from benchmarks.harness.study import ROOT, Row

_CHILD = """
import sys, numpy as np, lightgbm as lgb, pucboost as puc
from benchmarks.harness.measuring import resident
kind, folder, optional, scheme, copies = sys.argv[1], sys.argv[2], eval(sys.argv[3]), sys.argv[4], float(sys.argv[5])
params = {"engine": "lightgbm", "objective": "binary", "verbosity": -1, "num_threads": 2, "force_row_wise": True}
own = {"optional": optional, "augmentation": scheme, "copies": copies}
small = np.random.default_rng(0).normal(size=(500, max(optional) + 1)).astype(np.float32)
puc.train({**params, **own, "augmentation": "fixed"}, lgb.Dataset(small, np.arange(500) % 2), 1)   # compile
puc.augment(small, np.arange(500) % 2, optional=optional[:3], copies=2)
X, y = np.load(folder + "/X.npy"), np.load(folder + "/y.npy")
if kind == "table":
    params.update(bagging_fraction=float(sys.argv[6]), bagging_freq=1)
    w = np.load(folder + "/w.npy")
    lgb.train(params, lgb.Dataset(X, y, weight=w), 5)
    held = X.nbytes
else:
    puc.train({**params, **own}, lgb.Dataset(X, y), 5)
    held = X.nbytes
print(resident("VmHWM") * 1024 - held)  # not getrusage: there a new process inherits its parent's peak
"""


def study(quick: bool) -> list[Row]:
    """Measure several numbers of groups at about the same number of virtual rows."""
    cases = [
        ("balanced", 10, 500_000, 2.0),
        ("balanced", 20, 500_000, 2.0),
        ("exhaustive", 4, 400_000, 1.0),
        ("exhaustive", 8, 60_000, 1.0),
        ("exhaustive", 12, 8_000, 1.0),
    ]
    rows: list[Row] = []
    for scheme, r, n_rows, copies in [cases[0]] if quick else cases:
        n_rows = n_rows // 25 if quick else n_rows
        X, y, optional = insurance_like(n_rows, 20, r)
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder, "X.npy"), X)
            np.save(Path(folder, "y.npy"), y)
            stream = _peak("stream", folder, optional, scheme, copies)
            X_aug, y_aug, weight, _ = puc.augment(X, y, optional=optional, augmentation=scheme, copies=copies)
            for name, array in (("X", X_aug), ("y", y_aug), ("w", weight)):
                np.save(Path(folder, f"{name}.npy"), array)
            shape = X_aug.shape
            table_bytes = X_aug.nbytes
            del X_aug, y_aug, weight
            table = _peak("table", folder, optional, scheme, copies, n_rows / shape[0])
        rows.append(
            {
                "scheme": scheme,
                "groups": r,
                "rows": f"{n_rows:,}",
                "virtual rows": f"{shape[0]:,}",
                "virtual table, MB": f"{table_bytes / 2**20:.0f}",
                "LightGBM and Python alone, MB": f"{table / 2**20:.0f}",
                "extra for the stream, MB": f"{(stream - table) / 2**20:.0f}",
                "target": "≤ 64",
            }
        )
    return rows


def _peak(kind: str, folder: str, optional: list[int], scheme: str, copies: float, fraction: float = 1.0) -> float:
    arguments = [kind, folder, str(optional), scheme, str(copies), str(fraction)]
    done = subprocess.run([sys.executable, "-c", _CHILD, *arguments], capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout)
