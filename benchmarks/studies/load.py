"""A process that serves for long: right answers to many threads at once, and memory that stays flat.

Speed is not measured, so the kinds of load may run side by side, in processes of their own (``--lanes``). ``--hours``
says how long each engine is asked for predictions and quotes (ten minutes if it is not given). Every answer is compared
with the one that a single thread got before, bit for bit.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pucboost as puc
from benchmarks.data import insurance_like
from benchmarks.harness.measuring import by, resident
from benchmarks.harness.study import CORES, MINUTES_VARIABLE, Row, Rows, Study, Table, Unit, as_it_is, part_of
from pucboost.demo import insurance_family
from pucboost.simulate import DiscreteFamily

CLIENTS, TRAININGS_AT_ONCE = 8, 4
ENGINES: dict[str, dict[str, Any]] = {
    "lightgbm": {"objective": "binary", "verbosity": -1, "num_threads": 1},
    "xgboost": {"objective": "binary:logistic", "verbosity": 0, "nthread": 1, "max_depth": 5},
    "native": {"objective": "binary", "verbosity": -1, "num_threads": 1},
}


@dataclass
class Tally:
    """What became of the requests, and what was resident in MB whenever somebody looked."""

    requests: int = 0
    errors: int = 0
    other_results: int = 0
    first_error: str = ""
    resident: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, request: Callable[[], Any], expected: Any) -> None:
        """Make a request and compare its result."""
        error, same = "", True
        try:
            same = _same(request(), expected)
        except Exception as raised:  # whatever it is, it counts
            error = repr(raised)
        with self._lock:
            self.requests += 1
            self.errors += bool(error)
            self.other_results += not same
            self.first_error = self.first_error or error

    def look(self) -> None:
        """Note what is resident now."""
        self.resident.append(resident("VmRSS") / 1024)

    def row(self, seconds: float) -> Row:
        """Return the line of the table. Memory counts from the second quarter on, when all is loaded and compiled."""
        if self.first_error:
            print(f"the first of {self.errors} errors: {self.first_error}", file=sys.stderr)
        early, late = quarter(self.resident, 1), quarter(self.resident, 3)
        return {
            "requests": f"{self.requests:,}",
            "errors": self.errors,
            "other results": self.other_results,
            "per second": f"{self.requests / seconds:.3g}",
            "MB in the second quarter": f"{early:.0f}",
            "MB in the last quarter": f"{late:.0f}",
            "growth, MB": f"{late - early:.1f}",
            "target": "no errors, no other results, growth ≤ 5 MB",
        }


def _same(found: Any, expected: Any) -> bool:
    return np.array_equal(np.asarray(found), np.asarray(expected), equal_nan=not isinstance(found, str))


def quarter(numbers: Sequence[float], which: int) -> float:
    """Return the median over a quarter of the time, so that no single moment decides."""
    start, end = len(numbers) * which // 4, len(numbers) * (which + 1) // 4
    return statistics.median(numbers[start : max(end, start + 1)])


def minutes_of(quick: bool, usual: float) -> float:
    """Return how long to go on."""
    return 0.02 if quick else float(os.environ.get(MINUTES_VARIABLE, usual))


def units(quick: bool) -> list[Unit]:
    """List the kinds of load."""
    minutes = minutes_of(quick, 10)
    trainings, audits = (2, 2) if quick else (100, 100)
    served = [
        Unit(
            {"what": f"{engine}, {CLIENTS} threads, {minutes:g} minutes of predictions and quotes from one model"},
            lambda engine=engine: [serve(engine, minutes)],  # type: ignore[misc]
        )
        for engine in ENGINES
    ]
    return [
        Unit({"what": f"{audits} audits in a row"}, lambda: [audit_in_a_row(audits)]),
        Unit({"what": f"{TRAININGS_AT_ONCE} trainings at once, {trainings} times"}, lambda: [train_at_once(trainings)]),
        *served,
    ]


def serve(engine: str, minutes: float) -> Row:
    """Ask one loaded model from several threads."""
    X, y, optional = insurance_like(5_000, 10, 4)
    table = pd.DataFrame(X, columns=[f"column {place}" for place in range(X.shape[1])])
    names = [table.columns[place] for place in optional]
    booster = puc.train({**ENGINES[engine], "engine": engine, "optional": names}, puc.Dataset(table, y), 100)
    with tempfile.TemporaryDirectory() as folder:
        puc.save_model(booster, Path(folder, "model"))
        model = puc.load_model(Path(folder, "model"))
    requests = list(_requests(model, table))
    expected = [request() for request in requests]  # by one thread
    tally = Tally()
    end = time.monotonic() + 60 * minutes

    def client(number: int) -> None:
        turn = number
        while time.monotonic() < end:
            tally.ask(requests[turn % len(requests)], expected[turn % len(requests)])
            turn += 1

    start = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool, _looking(tally):
        list(pool.map(client, range(CLIENTS)))
    return tally.row(time.monotonic() - start)


def _requests(model: Any, table: pd.DataFrame) -> Iterator[Callable[[], Any]]:
    """Yield single people, as at a counter, and batches that are large enough for the trees to be read."""
    for first, people in ((0, 1), (10, 1), (20, 20), (100, 1_000)):
        some = table.iloc[first : first + people]
        yield lambda some=some: puc.predict(model, some, num_threads=1)  # type: ignore[misc]
        yield lambda some=some: puc.quote(model, some, num_threads=1)  # type: ignore[misc]
        yield lambda some=some: puc.predict(model, some, sharing="best", favourable="lower", num_threads=1)  # type: ignore[misc]


@contextmanager
def _looking(tally: Tally) -> Iterator[None]:
    """Look at the memory again and again, in a thread of its own."""
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.1):
            tally.look()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def train_at_once(times: int) -> Row:
    """Train in several threads, with one engine after the other; the trees must be those of a training alone."""
    X, y, optional = insurance_like(5_000, 10, 4)

    def training(number: int) -> Any:
        engine, params = list(ENGINES.items())[number % len(ENGINES)]
        booster = puc.train({**params, "engine": engine, "optional": optional, "seed": number}, puc.Dataset(X, y), 30)
        return puc.predict(booster, X[:500], num_threads=1)

    alone = [training(number) for number in range(TRAININGS_AT_ONCE)]
    tally = Tally()
    start = time.monotonic()
    with ThreadPoolExecutor(TRAININGS_AT_ONCE) as pool:
        for _ in range(times):
            list(pool.map(lambda n: tally.ask(lambda: training(n), alone[n]), range(TRAININGS_AT_ONCE)))
            tally.look()
    return tally.row(time.monotonic() - start)


def audit_in_a_row(times: int) -> Row:
    """Audit the same model again and again, reports included."""
    family = insurance_family()
    train, test = family.sample(3_000, 0), family.sample(2_000, 1)
    params = {**ENGINES["lightgbm"], "optional": family.optional}
    booster = puc.train(params, puc.Dataset(train.X, train.y), 50)

    def audit() -> str:
        report = puc.audit(booster, test.X, test.y, margin=0.05, num_threads=1, progress=False)
        report.to_html()
        return json.dumps(report.to_dict()["penalties"])

    expected = audit()
    tally = Tally()
    start = time.monotonic()
    for _ in range(times):
        tally.ask(audit, expected)
        tally.look()
    return tally.row(time.monotonic() - start)


PAGE = part_of(as_it_is, "what", "requests", "errors", "other results", "per second", "growth, MB")
STUDY = Study("load", units, page=PAGE, seed="0")


# What the threads of an engine cost a small table, with and without other work on the machine

THREADS_GIVEN: dict[str, dict[str, Any]] = {
    "by default": {},
    "one": {"num_threads": 1},
    "all cores": {"num_threads": 0},
}
ALONE, BESIDE = "nothing of ours", "a loop on every core"


def threads_units(quick: bool) -> list[Unit]:
    """List what runs beside, and how many threads are asked for."""
    return [
        Unit({"beside": beside, "threads": threads}, partial(_cost_of_threads, beside, threads, quick))
        for beside in (ALONE, BESIDE)
        for threads in THREADS_GIVEN
        if threads != "all cores" or not quick  # which may take minutes
    ]


def _cost_of_threads(beside: str, threads: str, quick: bool) -> list[Row]:
    """Return processor and wall seconds of jobs on a table of 4,000 people; the first of each kind is a warm-up."""
    n, rounds, given = 400 if quick else 4_000, 5 if quick else 100, THREADS_GIVEN[threads]
    family = DiscreteFamily.random(8, 4, 0)
    train, test = family.sample(n, 0), family.sample(n, 1)
    params = {"objective": "binary", "verbosity": -1, "optional": family.optional}

    def trained(engine: str, **more: Any) -> Any:
        return puc.train({**params, "engine": engine, **more}, puc.Dataset(train.X, train.y), rounds)

    model = trained("lightgbm", num_threads=1)
    jobs: dict[str, Callable[..., Any]] = {
        **{f"train, {engine}": partial(trained, engine) for engine in ENGINES},
        "quote": partial(puc.quote, model, test.X),
        "audit": partial(puc.audit, model, test.X, test.y, margin=0.05),
        "monitor, first batch": partial(puc.monitor, model, test.X, test.y, margin=0.05),
    }
    for job in jobs.values():
        job(num_threads=1)
    rows: list[Row] = []
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(CORES * (beside == BESIDE))]
    try:
        for name, job in jobs.items():
            processor, wall = time.process_time(), time.perf_counter()
            job(**given)
            processor, wall = time.process_time() - processor, time.perf_counter() - wall
            rows.append({"job": name, "processor seconds": f"{processor:.2f}", "seconds": f"{wall:.2f}"})
    finally:
        for process in spinning:
            process.kill()
            process.wait()
    return rows


def threads_table(rows: Rows) -> Table:
    """Return processor seconds, a line per job and company, a column per number of threads."""
    lines = []
    for (job, beside), here in by(rows, "job", "beside").items():
        found = {row["threads"]: row["processor seconds"] for row in here}
        lines.append([job, beside, *(found.get(threads, "") for threads in THREADS_GIVEN)])
    return ["job on 4,000 people", "beside", *(f"{threads}, processor s" for threads in THREADS_GIVEN)], lines


THREADS_STUDY = Study("threads", threads_units, threads_table, alone=True, seed="0")
