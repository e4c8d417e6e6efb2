"""The memory of this process: what is resident, and by how much a job raised the peak."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any


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
