"""The memory of this process: what is resident, and by how much a job raised the peak."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any


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
