"""Threads that stay in a kernel: nobody waits for one that has failed, and results do not depend on their number."""

from __future__ import annotations

import signal
import threading
from typing import Any

import numpy as np
import pytest

import pucboost as puc
from pucboost._engines.native.grower import Crew
from pucboost._engines.native.kernels import growth as rounds
from pucboost._engines.native.kernels.histograms import RELEASED, look_for, raise_counter, wait_for_all

PARAMS = {"engine": "native", "objective": "binary", "verbosity": -1, "num_leaves": 7, "min_data_in_leaf": 5}


def people(n: int = 400, columns: int = 20) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, columns))
    y = (X[:, 0] + X[:, -1] > 0).astype(float)
    X[rng.random(n) < 0.3, -1] = np.nan
    return X, y


def train(crew_size: int, monkeypatch: Any, n: int = 400, columns: int = 20, **params: Any) -> str:
    """Return the model that a crew of this size makes, however many cores there are."""
    monkeypatch.setattr("pucboost._engines.native.engine.thread_count", lambda _: crew_size)
    X, y = people(n, columns)
    own = {"num_threads": crew_size, "optional": [columns - 1]}
    booster = puc.train({**PARAMS, **own, **params}, puc.Dataset(X, y), 4)
    return str(booster.model_to_string()).split("\nparameters:")[0]


@pytest.mark.parametrize(
    ("n", "columns"),
    [
        (400, 20),  # three words: but for the root, a thread adds up its own columns
        (400, 8),  # one word: a thread adds up its own rows
        (12_000, 20),  # some leaves one way, some the other
    ],
)
def test_threads_do_not_matter(n: int, columns: int, monkeypatch: Any) -> None:
    for params in ({}, {"num_leaves": 70, "min_data_in_leaf": 2, "bagging_freq": 2}):
        one, two, three = (train(size, monkeypatch, n, columns, **params) for size in (1, 2, 3))
        assert one == two == three


def test_all_meet_and_a_failure_lets_everybody_through() -> None:
    arrivals, met = np.zeros(1, dtype=np.int64), list[bool]()
    assert wait_for_all(arrivals, 1)

    def meet() -> None:
        met.extend(bool(wait_for_all(arrivals, 2)) for _ in range(50))

    threads = [threading.Thread(target=meet, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert met == [True] * 100

    waiting = threading.Thread(target=lambda: met.append(wait_for_all(arrivals, 2)), daemon=True)
    waiting.start()
    arrivals[:] = RELEASED
    waiting.join(60)
    assert met[100:] == [False]
    assert not wait_for_all(arrivals, 2)


def test_counters_are_looked_at_for_a_moment_only() -> None:
    counter = np.zeros(1, dtype=np.int64)
    assert not look_for(counter, 1)
    raise_counter(counter)
    assert look_for(counter, 1)


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("job", [rounds.LEAVE, rounds.DRAW, rounds.GROW, rounds.ADD])
def test_a_thread_that_fails_ends_the_training(failing: int, job: int, monkeypatch: Any) -> None:
    kernel, outcome = rounds.do_jobs, list[BaseException]()

    def fail(thread: int, stay: bool, signals: Any, *rest: Any) -> None:
        if thread == failing and signals.whole[rounds.JOB] == job:
            raise MemoryError(f"thread {thread}")
        # Threads that stay would not come back here, so each job is a visit.
        kernel(thread, False, signals, *rest)

    monkeypatch.setattr(rounds, "do_jobs", fail)

    def fit() -> None:
        try:
            train(3, monkeypatch)
        except BaseException as error:
            outcome.append(error)

    trainer = threading.Thread(target=fit, daemon=True)
    trainer.start()
    trainer.join(120)  # far more than it takes: without an end it would wait for ever
    if job == rounds.LEAVE and failing:
        assert not trainer.is_alive()
    else:
        assert [str(error) for error in outcome] == [f"thread {failing}"]


def test_fewer_threads_than_asked_for(monkeypatch: Any) -> None:
    started: list[threading.Thread] = []

    class Few(threading.Thread):
        def start(self) -> None:
            if sum(one.is_alive() for one in started) == 2:
                raise RuntimeError("can't start new thread")
            started.append(self)
            super().start()

    monkeypatch.setattr(threading, "Thread", Few)
    with Crew(8) as crew:
        assert crew.size == 3
    for thread in started:
        thread.join(60)
        assert not thread.is_alive()


def test_one_crew_for_several_models_in_turn() -> None:
    X, y = people()
    alone = puc.cv({**PARAMS, "num_threads": 1, "optional": [19]}, puc.Dataset(X, y), 5, nfold=3, seed=1)
    assert puc.cv({**PARAMS, "num_threads": 2, "optional": [19]}, puc.Dataset(X, y), 5, nfold=3, seed=1) == alone


@pytest.mark.parametrize("call", [1, 2, 7])
def test_an_interrupt_waits_until_the_round_is_done(call: int, monkeypatch: Any) -> None:
    """While numba reads the arguments of a kernel it would become a SystemError."""
    calls, done, original = [], [], rounds.do_jobs

    def do_jobs(thread: int, *given: Any) -> None:
        if thread == 0:
            calls.append(1)
            if len(calls) == call:
                signal.raise_signal(signal.SIGINT)
        original(thread, *given)
        if thread == 0:
            done.append(1)

    monkeypatch.setattr(rounds, "do_jobs", do_jobs)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(2, monkeypatch)
    assert signal.getsignal(signal.SIGINT) is before
    assert len(done) == len(calls) >= call
    assert train(2, monkeypatch)
