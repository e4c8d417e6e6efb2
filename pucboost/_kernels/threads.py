"""Run a range kernel on several threads, and tell engines how many to use.

Numba's own ``parallel=True`` is deliberately not used: its default layers abort the process when two Python
threads or a forked child enter a kernel, and its thread count is global state. Kernels that release the GIL,
called from a thread pool, avoid these problems and compile several times faster.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

MIN_ITEMS_PER_THREAD = 2_048
"""With fewer items, a second thread costs more than it saves."""


MOST_THREADS = 1_024
"""More are refused, unless there are as many cores: OpenMP ends the process if the system does not give it threads."""


def thread_count(requested: int | None) -> int:
    """Return how many threads an engine's thread parameter means: None, 0 and negatives mean all cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if requested is not None and requested > max(MOST_THREADS, cores):
        raise ValueError(f"num_threads is {requested}, but at most {max(MOST_THREADS, cores):,} are possible.")
    return cores if requested is None or requested <= 0 else requested


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="pucboost")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: a child that inherited the pool would wait for ever.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_in_ranges(
    kernel: Callable[[int, int], None], n_items: int, threads: int, least: int = MIN_ITEMS_PER_THREAD
) -> None:
    """Call ``kernel(lo, hi)`` on ranges of at least ``least`` items that cover ``0 … n_items`` exactly once."""
    parts = min(threads, max(1, n_items // least))
    bounds = [n_items * part // parts for part in range(parts + 1)]
    # The calling thread takes the first range, which saves a switch.
    others = [_pool(parts - 1).submit(kernel, lo, hi) for lo, hi in itertools.pairwise(bounds[1:])]
    kernel(0, bounds[1])
    for done in others:
        done.result()


@contextmanager
def engine_threads(requested: int | None) -> Iterator[None]:
    """Let OpenMP, and so every engine, use no more threads than requested; None leaves it alone.

    OpenMP keeps this number per calling thread, so other threads of the process are not affected, and neither are
    boosters. One thread means none but the caller's, which is all that a forked child may use.
    """
    if requested is None or requested <= 0:
        yield
        return
    with _openmp(len(sys.modules)).limit(limits=requested, user_api="openmp"):
        yield


@lru_cache(maxsize=1)
def _openmp(modules: int) -> Any:
    """Return the OpenMP libraries of this process; they are looked up again when further modules have been loaded."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
