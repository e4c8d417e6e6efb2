"""Run a range kernel on several threads.

Numba's own ``parallel=True`` is deliberately not used: its default layers abort the process when two Python
threads or a forked child enter a kernel, and its thread count is global state. Kernels that release the GIL,
called from a thread pool, avoid these problems and compile several times faster.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

MIN_ITEMS_PER_THREAD = 2_048
"""With fewer items, a second thread costs more than it saves."""


def thread_count(requested: int | None) -> int:
    """Return how many threads an engine's thread parameter means: None, 0 and negatives mean all cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    return cores if requested is None or requested <= 0 else requested


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="pucboost")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: a child that inherited the pool would wait for ever.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_in_ranges(kernel: Callable[[int, int], None], n_items: int, threads: int) -> None:
    """Call ``kernel(lo, hi)`` on ranges that cover ``0 … n_items`` exactly once."""
    parts = min(threads, max(1, n_items // MIN_ITEMS_PER_THREAD))
    bounds = [n_items * part // parts for part in range(parts + 1)]
    # The calling thread takes the first range, which saves a switch.
    others = [_pool(parts - 1).submit(kernel, lo, hi) for lo, hi in itertools.pairwise(bounds[1:])]
    kernel(0, bounds[1])
    for done in others:
        done.result()
