"""What every study needs: where it was measured, timing by ratios, peak memory."""

from __future__ import annotations

import ctypes
import datetime
import gc
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
REPORT = ROOT / "benchmarks" / "BENCHMARKS.md"

# Cores this process may use, where the system tells them from those the machine has.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
THREADS_VARIABLE, LANES_VARIABLE = "PUCBOOST_BENCH_THREADS", "PUCBOOST_BENCH_LANES"
THREADS = int(os.environ.get(THREADS_VARIABLE, 2))
LANES = int(os.environ.get(LANES_VARIABLE, 1))  # processes that measure side by side, this one among them

Row = dict[str, Any]


def threads_in(lanes: int) -> int:
    """Return how many threads each of several processes side by side may use."""
    return max(1, THREADS // lanes)


def circumstances(threads: int = THREADS, lanes: int = LANES) -> dict[str, str]:
    """Return where and with what a result was measured."""
    used = f"{threads} thread{'s' if threads > 1 else ''}" + (f" in each of {lanes} processes" if lanes > 1 else "")
    packages = ("lightgbm", "xgboost", "scikit-learn", "numba", "numpy")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {CORES} cores, {_processor()}, {used}",
        "versions": " ".join([f"python {platform.python_version()}", *(f"{k} {v}" for k, v in versions.items())]),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")


def seconds(job: Callable[[], Any]) -> float:
    """Run a job and return how long it took."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def alternate(jobs: Mapping[str, Callable[[], Any]], repeat: int) -> dict[str, list[float]]:
    """Time jobs in turn, so that a slow moment of the machine hits all of them; the first turn is warm-up."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(repeat + 1):
        for name, job in jobs.items():
            taken = seconds(job)
            if turn:
                times[name].append(taken)
    return times


def median_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> float:
    """Return the median of the ratios of neighbouring measurements."""
    return statistics.median(a / b for a, b in zip(numerator, denominator, strict=True))


def ratio_row(what: str, compared: str, ratio: float, target: str, times: Sequence[float]) -> Row:
    """Return one line of a table of ratios."""
    took = f"{statistics.median(times):.3g}" if times else ""
    return {"what": what, "compared with": compared, "ratio": f"{ratio:.3g}", "target": target, "seconds": took}


def insurance_like(n_rows: int, n_base: int = 20, n_optional: int = 10, seed: int = 0) -> tuple[Any, Any, list[int]]:
    """Return a float32 table of claims where the larger optional values are withheld more often."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_base + n_optional), dtype=np.float32)
    signal = X[:, :8].sum(axis=1) + X[:, n_base:].sum(axis=1) + 3 * rng.standard_normal(n_rows, dtype=np.float32)
    withheld = rng.random((n_rows, n_optional), dtype=np.float32) < 0.6 / (1 + np.exp(-X[:, n_base:]))
    X[:, n_base:][withheld] = np.nan
    return X, (signal > 0).astype(np.float32), list(range(n_base, n_base + n_optional))


def peak_memory(job: Callable[[], Any]) -> float:
    """Run a job and return by how many MB the memory of this process rose at most; NaN where the system cannot tell."""
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        job()
        return float("nan")
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)  # what earlier jobs freed counts as free
    reset.write_text("5")  # makes the peak what is resident now
    before = resident("VmRSS")
    job()
    return (resident("VmHWM") - before) / 1024


def resident(field: str) -> float:
    """Return a field of this process's memory, in kB: "VmRSS" what is resident now, "VmHWM" its peak (or NaN)."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    line = next(line for line in status.read_text().splitlines() if line.startswith(field))
    return float(line.split()[1])
