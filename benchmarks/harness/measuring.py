"""Time, by ratios of jobs that take turns; the memory of this process; means and errors of rows."""

from __future__ import annotations

import ctypes
import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from .study import Row, Rows

# Timing by ratios: jobs take turns, so that a slow moment of the machine hits all of them


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


# The memory of this process: what is resident, and by how much a job raised the peak


def peak_memory(job: Callable[[], Any]) -> float:
    """Run a job and return how many MB its peak adds to the memory of this process; NaN where unknown."""
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        job()
        return float("nan")
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)  # so that what earlier jobs freed counts as free
    reset.write_text("5")  # resets the peak to what is resident now
    before = resident("VmRSS")
    job()
    return (resident("VmHWM") - before) / 1024


def resident(field: str) -> float:
    """Return this process's memory in kB: "VmRSS" is what is resident now, "VmHWM" its peak; NaN where unknown."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    line = next(line for line in status.read_text().splitlines() if line.startswith(field))
    return float(line.split()[1])


# Means, errors and groups of a study's rows


def by(rows: Rows, *columns: str) -> dict[tuple[str, ...], Rows]:
    """Return the rows for each combination of values of some columns, in order of appearance."""
    groups: dict[tuple[str, ...], Rows] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return groups


def values(rows: Rows, column: str) -> list[float]:
    """Return a column as numbers; rows that have none are left out."""
    return [float(row[column]) for row in rows if row.get(column)]


def standard_error(numbers: Sequence[float]) -> float:
    """Return the standard error of the mean, NaN for a single number."""
    return statistics.stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else math.nan


def within_noise(numbers: Sequence[float], level: float = 0.95) -> bool:
    """Return whether a t-test over runs finds no difference of the mean from 0."""
    error = standard_error(numbers)
    quantile = float(student.ppf((1 + level) / 2, max(len(numbers) - 1, 1)))
    return math.isnan(error) or abs(statistics.fmean(numbers)) <= quantile * error


def plus_minus(numbers: Sequence[float], digits: int = 2, sign: bool = False) -> str:
    """Return "mean ± standard error" (the mean alone for a single number, a dash for none)."""
    if not numbers:
        return "–"
    mean = f"{statistics.fmean(numbers):{'+' if sign else ''}.{digits}f}"
    error = standard_error(numbers)
    return mean if math.isnan(error) else f"{mean} ± {error:.{digits}f}"
