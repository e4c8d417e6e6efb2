"""A kernel, its twin and copies of as many bytes, timed in turn."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.study import Unit
from benchmarks.harness.timing import alternate, median_ratio
from benchmarks.harness.types import Row
from pucboost._kernels.threads import run_in_ranges

from .case import THREADS
from .cases import CASES


def measure(name: str, quick: bool) -> list[Row]:
    """Check a kernel, then time it, its twin and copies of as many bytes in turn."""
    n, n_twin, repeat = (20_000, 50, 1) if quick else (1_000_000, 2_000, 15)
    case = CASES[name](n)
    case.check(n_twin)
    half = case.bytes_moved // 2  # a copy reads as much as it writes
    given, taken = np.ones(half, dtype=np.uint8), np.zeros(half, dtype=np.uint8)

    def copy(lo: int, hi: int) -> None:
        np.copyto(taken[lo:hi], given[lo:hi])

    jobs: dict[str, Callable[[], Any]] = {
        "copy": lambda: copy(0, half),
        "kernel": lambda: case.run(0, n),
        "twin": lambda: case.twin(n_twin),
    }
    if case.in_ranges:
        jobs["copy, 2 threads"] = lambda: run_in_ranges(copy, half, THREADS)
        jobs["kernel, 2 threads"] = lambda: run_in_ranges(case.run, n, THREADS)
    times = alternate(jobs, repeat)
    row: Row = {
        "rows": n,
        "values per row": case.values,
        "bytes per row": case.bytes_moved / n,
        "ns per row": 1e9 * statistics.median(times["kernel"]) / n,
        "twin, ns per row": 1e9 * statistics.median(times["twin"]) / n_twin,
        "× twin": median_ratio(times["twin"], times["kernel"]) * n / n_twin,
        "copy, GB/s": case.bytes_moved / statistics.median(times["copy"]) / 1e9,
        "share of copy": median_ratio(times["copy"], times["kernel"]),
    }
    if case.in_ranges:
        row["ns per row, 2 threads"] = 1e9 * statistics.median(times["kernel, 2 threads"]) / n
        row["copy, GB/s, 2 threads"] = case.bytes_moved / statistics.median(times["copy, 2 threads"]) / 1e9
        row["share of copy, 2 threads"] = median_ratio(times["copy, 2 threads"], times["kernel, 2 threads"])
    return [row]


def units(quick: bool) -> list[Unit]:
    """List the kernels."""
    return [Unit({"kernel": name}, functools.partial(measure, name, quick)) for name in CASES]
