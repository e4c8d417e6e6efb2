"""Memory of the native engine beyond the caller's table, and the largest table that was trained here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

from benchmarks.harness.study import ROOT, Row, Unit

_CHILD = """
import sys, time, numpy as np, lightgbm as lgb, pucboost as puc
from benchmarks.data import insurance_like
from benchmarks.harness.measuring import resident
kind, n, copies, rounds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
params = {"objective": "binary", "verbosity": -1, "num_threads": 2}
own = {"copies": copies, "engine": kind, "max_virtual_rows": 2**31 - 1}
def train(X, y, optional, rounds):
    if kind == "plain":
        return lgb.train(params, lgb.Dataset(X, y), rounds)
    return puc.train({**params, **own, "optional": optional}, lgb.Dataset(X, y), rounds)
train(*insurance_like(2_000), 2)  # compile
X, y, optional = insurance_like(n)
open("/proc/self/clear_refs", "w").write("5")
before = resident("VmRSS")
start = time.perf_counter()
train(X, y, optional, rounds)
print((resident("VmHWM") - before) * 1024, resident("VmHWM") * 1024, time.perf_counter() - start)
"""

CASES = [
    ("plain", 1_000_000, 1, ""),
    ("lightgbm", 1_000_000, 2, ""),
    ("lightgbm", 1_000_000, 4, ""),
    ("native", 1_000_000, 2, ""),
    ("native", 1_000_000, 4, ""),
    ("native", 1_000_000, 8, "≤ 220"),
    ("native", 10_000_000, 8, ""),
]


def units(quick: bool) -> Iterable[Unit]:
    """List one unit per case."""
    for kind, n_rows, copies, target in CASES[:1] + CASES[5:6] if quick else CASES:
        n = n_rows // 50 if quick else n_rows
        yield Unit(
            {"training": kind, "N": f"{n:,}", "copies": str(copies)},
            lambda kind=kind, n=n, c=copies, t=target: [measure(kind, n, c, t)],  # type: ignore[misc]
        )


def measure(kind: str, n_rows: int, copies: int, target: str) -> Row:
    """Train 10 rounds in a process of its own."""
    command = [sys.executable, "-c", _CHILD, kind, str(n_rows), str(copies), "10"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(done.stderr)
    extra, peak, seconds = map(float, done.stdout.split())
    return {
        "bytes a person beyond the table": f"{extra / n_rows:.0f}",
        "target": target,
        "peak of the process, GiB": f"{peak / 2**30:.2f}",
        "seconds, 10 rounds": f"{seconds:.3g}",
    }
