"""Timing by ratios: jobs take turns, so that a slow moment of the machine hits all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .types import Row


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
