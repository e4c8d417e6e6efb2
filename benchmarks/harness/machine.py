"""The machine a study runs on: cores, threads, and what a result records about it."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path

# The cores this process may use where the system says so, else those of the machine.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
THREADS_VARIABLE, LANES_VARIABLE = "PUCBOOST_BENCH_THREADS", "PUCBOOST_BENCH_LANES"
THREADS = int(os.environ.get(THREADS_VARIABLE, 2))
LANES = int(os.environ.get(LANES_VARIABLE, 1))  # processes that measure side by side, including this one


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
