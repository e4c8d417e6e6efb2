"""Threads that work on one tree together and wait for each other inside a kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from ..._arrays import Array
from ..._kernels.native.atomics import RELEASED


class Team:
    """A fixed number of threads of its own, the caller's among them.

    Threads that wait for each other must all be running. So the team has its own ones, which it starts before there is
    any work. If the system has no more threads to give, it is smaller than asked for; results do not depend on that.
    """

    def __init__(self, threads: int) -> None:
        self.size, pool = threads, _started(threads - 1)
        while pool is None:
            self.size -= 1
            pool = _started(self.size - 1)
        self._pool = pool

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=False)

    def run(self, work: Callable[[int], Any], arrivals: Array | None = None) -> list[Any]:
        """Call ``work(thread)`` in all threads at once, and return the results.

        ``arrivals`` is where the threads wait for each other, if they do. When one fails before it gets there, such as
        by an interrupt, the others are let through: their work is lost, but nobody waits for ever.
        """
        if arrivals is not None:
            arrivals[:] = 0

        def guarded(thread: int) -> Any:
            with _others_released(arrivals):
                return work(thread)

        with _others_released(arrivals):  # an interrupt may come before or after this thread's own work, too
            others = [self._pool.submit(guarded, thread) for thread in range(1, self.size)]
            first = work(0)
            return [first, *(one.result() for one in others)]

    def run_ranges(self, work: Callable[[int, int], Any], n_items: int, least: int = 2_048) -> list[Any]:
        """Call ``work(lo, hi)`` on as many ranges as there are threads; with fewer items than ``least``, on one."""
        bounds = [n_items * thread // self.size for thread in range(self.size + 1)]
        if n_items < least:
            return [work(0, n_items)]
        return self.run(lambda thread: work(bounds[thread], bounds[thread + 1]))


def _started(threads: int) -> ThreadPoolExecutor | None:
    """Return a pool of threads that all run; None if the system does not give as many."""
    pool = ThreadPoolExecutor(max(1, threads), thread_name_prefix="pucboost")
    all_there = threading.Event()
    try:
        for _ in range(threads):  # each waits, so the next one needs a thread of its own
            pool.submit(all_there.wait)
    except RuntimeError:
        all_there.set()
        pool.shutdown()
        return None
    all_there.set()
    return pool


@contextmanager
def _others_released(arrivals: Array | None) -> Iterator[None]:
    """Let all threads through, those that wait and those that are to come, if this one fails."""
    try:
        yield
    except BaseException:
        if arrivals is not None:
            arrivals[:] = RELEASED
        raise
