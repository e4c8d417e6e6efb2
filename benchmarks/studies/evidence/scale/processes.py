"""A process of its own for each training, so that its peak of memory is clean."""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.types import Row
from pucboost.simulate import LogisticFamily

from .measuring import COLUMNS, FAMILY_SEED, JOBS

CHUNK = 250_000


def run_here(job: dict[str, Any]) -> list[Row]:
    """Run a job in this process."""
    return [JOBS[job["what"]](_with_table(job))]


def run_apart(job: dict[str, Any]) -> list[Row]:
    """Run a job in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=_fork_server()) as pool:
        return [pool.submit(JOBS[job["what"]], _with_table(job)).result()]


@functools.cache
def _fork_server() -> Any:
    """Return a way to start processes quickly: from a server that has imported everything and never trained."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.catalogue"])  # a child imports what the main module does
    return context


def _with_table(job: dict[str, Any]) -> dict[str, Any]:
    """Draw a job's table, unless the job before used the same one, and tell the job where it is."""
    return {**job, "folder": _draw(job["N"], job["r"], job["run"])} if job["what"] == "scale" else job


@functools.cache
def _folder() -> str:
    folder = tempfile.mkdtemp(prefix="pucboost-scale-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.lru_cache(maxsize=1)  # one table is kept: the next one replaces it in the folder
def _draw(n: int, r: int, run: int) -> str:
    family = LogisticFamily.random(COLUMNS - r, r, FAMILY_SEED)
    folder = Path(_folder())
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n, COLUMNS))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float32, (n,))
    for number, start in enumerate(range(0, n, CHUNK)):
        part = family.sample(min(CHUNK, n - start), 1_000 * (1 + run) + number)
        X[start : start + CHUNK], y[start : start + CHUNK] = part.X, part.y
    return str(folder)
