"""Threads that stay in a kernel from one job to the next."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._kernels.compiling import said_if_compiled_now
from ..._kernels.native import rounds
from ..._kernels.native.atomics import RELEASED, raise_counter

_LINE = 8
"""Numbers in a line of the cache: counters of different threads should not share one."""


@dataclass(frozen=True, eq=False)
class Memory:
    """What the jobs of one training work on; the last two have an entry for each thread."""

    pool: rounds.PoolMemory
    bag: rounds.BagMemory
    growth: rounds.GrowthMemory
    added: rounds.AddedTree
    leaves: tuple[Any, ...]
    scratch: tuple[Any, ...]

    def of_thread(self, thread: int) -> tuple[Any, ...]:
        """Return what a thread takes into the kernel."""
        return self.pool, self.bag, self.growth, self.added, self.leaves[thread], self.scratch[thread]


class Crew:
    """A fixed number of threads of its own, the caller's among them.

    Threads that wait for each other must all be running, so there is no queue in which other work could come first. A
    thread that waits for a job looks on in the kernel for a moment, and only then comes back and sleeps: to wake it up
    takes longer than many a tree. If the system has no more threads to give, there are fewer; results do not depend on
    that.
    """

    def __init__(self, threads: int) -> None:
        self.signals = rounds.Signals(
            calls=np.zeros(1, dtype=np.int64),
            served=np.zeros((threads, _LINE), dtype=np.int64),
            arrivals=np.zeros(1, dtype=np.int64),
            whole=np.zeros(rounds.N_PARTS + 1, dtype=np.int64),
            keys=np.zeros(rounds.TREE_KEY + 1, dtype=np.uint64),
        )
        self._change = threading.Condition()
        self._memory: Memory | None = None
        self._ended = False
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []
        for number in range(1, threads):
            thread = threading.Thread(target=self._serve, args=(number,), name=f"pucboost-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no more to give
                break
            self._threads.append(thread)
        self.signals.whole[rounds.THREADS] = self.size

    @property
    def size(self) -> int:
        """The number of threads."""
        return 1 + len(self._threads)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        with self._change:
            self._change.notify_all()

    def run(self, job: int, memory: Memory) -> None:
        """Do a job with all threads; its numbers stand in :attr:`signals` and ``memory``.

        When one fails before it gets into the kernel, such as by an interrupt, the others are let through: their work
        is lost, but nobody waits for ever.
        """
        signals = self.signals
        try:
            if memory is not self._memory:
                self._take(memory)
            signals.whole[rounds.JOB] = job
            self._call()
            rounds.do_jobs(0, False, signals, *memory.of_thread(0))
        except BaseException:
            self._release()
            raise
        if self._error is not None:
            raise self._error

    def _call(self) -> None:
        raise_counter(self.signals.calls)
        with self._change:
            self._change.notify_all()

    def _take(self, memory: Memory) -> None:
        """Have all threads leave the kernel, into which they took other memory; the next time they take this one."""
        self.signals.whole[rounds.JOB] = rounds.LEAVE
        if self._memory is None:
            with said_if_compiled_now(rounds.do_jobs, "the native engine"):
                rounds.do_jobs(0, False, self.signals, *memory.of_thread(0))
        else:
            self._call()
            with self._change:
                self._change.wait_for(lambda: all(map(self._is_idle, range(1, self.size))) or self._error is not None)
        self._memory = memory

    def _is_idle(self, number: int) -> bool:
        return bool(self.signals.served[number, 0] == self.signals.calls[0])

    def _release(self) -> None:
        self.signals.arrivals[:] = RELEASED
        self.__exit__()

    def _serve(self, number: int) -> None:
        """Be there for all jobs."""
        try:
            while True:
                with self._change:
                    self._change.notify_all()  # whoever waits until this thread is idle
                    self._change.wait_for(lambda: self._ended or not self._is_idle(number))
                    memory = self._memory
                if self._ended or memory is None:
                    return
                rounds.do_jobs(number, True, self.signals, *memory.of_thread(number))
        except BaseException as error:
            self._error = error
            self._release()
