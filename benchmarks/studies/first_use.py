"""What the first native training costs, which compiles kernels: with an empty, a filled and a read-only cache."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.harness.study import ROOT, Row, Unit

_CHILD = """
import time, lightgbm, pandas, sklearn, numpy as np, pucboost as puc
from benchmarks.data import insurance_like
from pucboost._kernels import compiling
X, y, optional = insurance_like(5_000)
loading = 0.0
load = compiling._Cache.load_overload
def timed(*args):
    global loading
    start = time.process_time()
    found = load(*args)
    loading += time.process_time() - start
    return found
compiling._Cache.load_overload = timed
if FORBIDDEN:
    def forbidden(*_):
        raise OSError(30, "Read-only file system")
    compiling._write = forbidden
params = {"objective": "binary", "verbosity": -1, "num_threads": 1, "engine": "native", "optional": optional}
start, cpu = time.perf_counter(), time.process_time()
puc.train(params, lightgbm.Dataset(X, y), 10)
numbers = (compiling.counts[name] for name in ("kept", "lost", "found"))
print(time.process_time() - cpu, time.perf_counter() - start, loading, *numbers)
"""
"""A process that trains, and prints CPU and wall seconds of it, CPU seconds of loading, and numbers of kernels."""

PROCESSES = 3
TARGET, LOADING_TARGET = "≤ 8", "≤ 0.5"


def units(quick: bool) -> Iterable[Unit]:
    """List one unit, because one cache follows from the other."""
    yield Unit({"people": "5,000"}, lambda: measure(1 if quick else PROCESSES))


def measure(processes: int) -> Sequence[Row]:
    """Train in new processes: without a cache, with the cache that the training before has filled, and warmed up."""
    with tempfile.TemporaryDirectory() as folder:
        empty = [_trained(Path(folder) / f"cold{k}") for k in range(processes)]
        filled = [_trained(Path(folder) / "cold0") for _ in range(processes)]
        warmed = Path(folder) / "warmed"
        _run(["-m", "pucboost", "warmup"], warmed)
        read_only = [_trained(warmed, forbidden=True) for _ in range(processes)]
    rows = []
    for cache, found in (
        ("empty", empty),
        ("of an earlier training", filled),
        ("read-only, after `pucboost warmup`", read_only),
    ):
        cpu, wall, loading, kept, lost, loaded = (_middle(found, k) for k in range(6))
        rows.append(
            {
                "cache": cache,
                "CPU seconds": f"{cpu:.2f}",
                "of these above a training that finds all": f"{cpu - _middle(filled, 0):.2f}",
                "target": TARGET if cache == "empty" else "",
                "wall seconds": f"{wall:.2f}",
                "CPU seconds of loading": f"{loading:.2f}",
                "its target": "" if cache == "empty" else LOADING_TARGET,
                "kernels compiled": f"{kept + lost:.0f}",
                "kernels found": f"{loaded:.0f}",
            }
        )
    return rows


def _middle(found: list[list[float]], k: int) -> float:
    return statistics.median(one[k] for one in found)


def _trained(cache: Path, forbidden: bool = False) -> list[float]:
    return [float(number) for number in _run(["-c", _CHILD.replace("FORBIDDEN", str(forbidden))], cache).split()]


def _run(arguments: list[str], cache: Path) -> str:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout
