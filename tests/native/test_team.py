"""Threads that wait for each other inside a kernel never wait for one that has failed."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from pucboost._engines.native.team import Team
from pucboost._kernels.native.atomics import wait_for_all


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_nobody_waits_for_a_thread_that_has_failed(failing: int) -> None:
    arrivals, outcome = np.zeros(1, dtype=np.int64), list[str]()

    def work(thread: int) -> None:
        if thread == failing:
            raise MemoryError(f"thread {thread}")
        for _ in range(3):
            wait_for_all(arrivals, 3)

    def train() -> None:
        with Team(3) as team, pytest.raises(MemoryError, match=f"thread {failing}"):
            team.run(work, arrivals)
        outcome.append("raised")

    wait_for_all(arrivals, 1)  # compiled
    thread = threading.Thread(target=train, daemon=True)
    thread.start()
    thread.join(60)  # far more than it takes: without an end it would wait for ever
    assert outcome == ["raised"]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_all_meet(threads: int) -> None:
    arrivals = np.zeros(1, dtype=np.int64)

    def work(thread: int) -> int:
        for _ in range(20):
            wait_for_all(arrivals, threads)
        return thread

    with Team(threads) as team:
        assert team.size == threads
        for _ in range(3):
            assert team.run(work, arrivals) == list(range(threads))


def test_fewer_threads_than_asked_for(monkeypatch: Any) -> None:
    started: list[threading.Thread] = []

    class Few(threading.Thread):
        def start(self) -> None:
            if sum(one.is_alive() for one in started) == 2:
                raise RuntimeError("can't start new thread")
            started.append(self)
            super().start()

    monkeypatch.setattr(threading, "Thread", Few)
    with Team(8) as team:
        assert team.size == 3
        for _ in range(5):
            assert team.run(lambda thread: thread) == [0, 1, 2]
