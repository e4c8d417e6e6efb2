"""A long time of everything at random, with faults: nothing is lost, mixed up, left behind, or grows.

One process trains, predicts, audits, writes and reads, in an order that is drawn. Half of the calls meet a fault: a
callback raises, the disk is full at some byte, a file is damaged between writing and reading, or somebody presses
Ctrl-C. A call must give what it gave the first time, to the last bit, or end in the error that belongs to its fault;
the calls after it show whether anything was left in a wrong state. ``--hours`` says how long (1 if it is not given).
"""

from __future__ import annotations

import hashlib
import pickle
import resource
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

import pucboost as puc
from benchmarks.harness.measuring import by, resident
from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit
from pucboost.demo import people

from .load import ENGINES, minutes_of, quarter

NOTHING, INTERRUPT, FULL, MISTAKE, DAMAGE = "none", "Ctrl-C", "disk full", "own code raises", "damaged file"
FAULTS = (NOTHING, INTERRUPT, FULL, MISTAKE, DAMAGE)
PROCESS = "the process"
OPTIONAL = {"app": ["steps", "pulse"], "blood": ["glucose"]}
HELD = ("MB in the second quarter", "MB more", "more open files", "more threads", "errors that Python swallowed")
"""What a line says of the process: in the last quarter of the time beside the second."""
LARGEST_FILE = 80_000
"""Bytes of a file before the disk is full, at most; models and pages have about that."""


class Mistake(Exception):  # noqa: N818 - a mistake in a caller's own code
    """What a callback of ours raises."""


TOLD: dict[str, tuple[type[BaseException], ...]] = {
    NOTHING: (),
    INTERRUPT: (KeyboardInterrupt,),
    FULL: (OSError,),
    MISTAKE: (Mistake,),
    DAMAGE: (ValueError,),
}
"""The errors in which a call may end, by what was done to it."""


@dataclass
class World:
    """The people, a model of each engine, a folder, and the fault that a call meets."""

    n: int
    rounds: int
    folder: Path
    fault: str = NOTHING
    when: float = 0.0
    steps: int = 0
    models: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.X, self.claim = people(self.n, 0)
        self.new, self.new_claim = people(self.n, 1)
        self.amount = np.random.default_rng(0).gamma(2, 1 + self.claim)
        for engine in ENGINES:
            path = self.folder / f"{engine}.model"
            puc.save_model(self.train(engine), path)
            self.models[engine] = puc.load_model(path)

    def train(self, engine: str, **more: Any) -> Any:
        """Train a model whose metric may raise."""
        label = self.amount if "regression" in more.get("objective", "") else self.claim
        params = {**ENGINES[engine], "engine": engine, "optional": OPTIONAL, **more}
        if engine == "xgboost" and "objective" in more:
            params["objective"] = "reg:squarederror"
        if engine == "native" and self.when > 0.5:
            params["num_threads"] = 2  # which changes nothing
        data = puc.Dataset(self.X, label)
        valid = puc.Dataset(self.new[:100], label[:100], reference=data)
        return puc.train(params, data, self.rounds, valid_sets=[valid], feval=self.metric)

    def metric(self, predictions: Any, data: Any) -> tuple[str, float, bool]:
        """Return nothing of interest, or raise in the middle of a training."""
        self.step()
        return "nothing", 0.0, False

    def scores(self, X: Any) -> Array:
        """Predict as a model of somebody else, which may raise."""
        self.step()
        return np.asarray(puc.predict(self.models["native"], X, num_threads=1))

    def step(self) -> None:
        """Raise if this is the moment for it."""
        self.steps += 1
        if self.fault == MISTAKE and self.steps > self.when * self.rounds:
            raise Mistake(self.steps)

    def damage(self, path: Path, a_bit: bool = True) -> None:
        """Cut a file off, or change a bit of it."""
        if self.fault != DAMAGE:
            return
        content = bytearray(path.read_bytes())
        place = int(self.when * len(content))
        if a_bit and int(self.when * 1e6) % 2:
            content[place] ^= 1 << int(self.when * 1e5) % 8
        else:
            del content[place:]
        path.write_bytes(content)


# What is called. Each yields what it found, so that all of it is compared


def trained(world: World, engine: str, **more: Any) -> Any:
    """Train, and predict by what was trained."""
    return puc.predict(world.train(engine, **more), world.new, num_threads=1)


def larger_than_memory(world: World) -> Any:
    """Train with virtual rows on the disk."""
    return trained(world, "xgboost", external_memory=str(world.folder))


def continued(world: World, engine: str) -> Any:
    """Go on with a model on other people."""
    params = {**ENGINES[engine], "engine": engine, "optional": OPTIONAL}
    data = puc.Dataset(world.new, world.new_claim)
    model = puc.train(params, data, 5, init_model=world.models[engine], feval=world.metric, valid_sets=[data])
    return puc.predict(model, world.new[:200], num_threads=1)


def crossed(world: World, engine: str) -> Any:
    """Train in folds."""
    params = {**ENGINES[engine], "engine": engine, "optional": OPTIONAL}
    found = puc.cv(params, puc.Dataset(world.X, world.claim), 5, nfold=3, feval=world.metric)
    return list(found.values())


def told(world: World, engine: str) -> Any:
    """Predict in all ways."""
    model, some = world.models[engine], world.new[:300]
    yield puc.predict(model, some, num_threads=1)
    yield puc.predict(model, some, sharing="withheld", num_threads=1)
    yield puc.predict(model, some, sharing="best", favourable="lower", num_threads=1)
    yield puc.quote(model, some, num_threads=1)
    yield puc.sharing_value(model, some[:50])


def understood(world: World, engine: str) -> Any:
    """Explain, give intervals, value questions."""
    model = world.models[engine]
    yield puc.explain(model, world.new[:20], world.X[:200], num_threads=1).values
    sets = puc.intervals(model, world.new, world.new_claim, num_threads=1)
    yield sets.predict_interval(world.new[:50])
    yield puc.questions(model, world.new, world.new_claim, num_threads=1, progress=False).to_dict()


def audited(world: World, who: str) -> Any:
    """Audit a model of ours, or a function."""
    # A lambda has no hash, which would be one of all that the world holds, its number of steps included.
    model = (lambda X: world.scores(X)) if who == "a function" else world.models[who]
    declared = {"optional": OPTIONAL} if who == "a function" else {}
    report = puc.audit(
        model, world.new, world.new_claim, margin=0.05, loss="binary", num_threads=1, progress=False, **declared
    )
    report.to_html(world.folder / "audit.html")
    yield report.to_dict()["penalties"]
    yield (world.folder / "audit.html").read_text(encoding="utf-8").rstrip()[-7:]  # the page tells the time


def monitored(world: World) -> Any:
    """Watch two months, with a file between."""
    file = world.folder / "month.json"
    puc.monitor(world.models["native"], world.new, world.new_claim, margin=0.05, num_threads=1).to_json(file)
    world.damage(file)
    again = puc.monitor(world.models["native"], world.X, world.claim, previous=file, num_threads=1)
    return [str(again.verdict), again.to_dict().get("penalties")]


def written(world: World, engine: str) -> Any:
    """Write a letter."""
    page = world.folder / "letter.html"
    person = world.new[world.new.notna().all(axis=1)][:1]
    puc.letter(world.models[engine], person, quantity="risk", background=world.X[:200]).to_html(page)
    return page.read_bytes()


def kept(world: World, engine: str) -> Any:
    """Write a model, and read it back."""
    path = world.folder / f"kept.{'ubj' if engine == 'xgboost' else 'txt'}"
    puc.save_model(world.models[engine], path)
    world.damage(path)
    yield puc.predict(puc.load_model(path), world.new[:100], num_threads=1)
    yield puc.predict(pickle.loads(pickle.dumps(world.models[engine])), world.new[:100], num_threads=1)


def from_files(world: World) -> Any:
    """Train from a table on the disk."""
    path = world.folder / "people.parquet"
    world.X.assign(claim=world.claim).to_parquet(path)
    world.damage(path, a_bit=False)  # Parquet has no digests
    params = {**ENGINES["native"], "engine": "native", "optional": OPTIONAL}
    return puc.predict(puc.train(params, puc.Dataset(path, "claim"), 5), world.new[:100], num_threads=1)


Call = Callable[[World], Any]


def calls(quick: bool) -> dict[str, Sequence[Call]]:
    """List what is called, with the variants of each."""
    trainings: list[Call] = []
    for more in ({}, {"objective": "regression"}, {"augmentation": "exhaustive"}, {"augmentation": "none"}):
        trainings += [lambda world, e=e, m=more: trained(world, e, **m) for e in ENGINES]  # type: ignore[misc]
    trainings.append(larger_than_memory)
    found: dict[str, Sequence[Call]] = {
        "trainings": trainings,
        "trainings in folds, or that go on": [
            *(lambda world, e=e: crossed(world, e) for e in ENGINES),  # type: ignore[misc]
            *(lambda world, e=e: continued(world, e) for e in ENGINES),  # type: ignore[misc]
        ],
        "trainings from files": [from_files],
        "predictions, quotes": [lambda world, e=e: told(world, e) for e in ENGINES],  # type: ignore[misc]
        "explanations, intervals, questions": [lambda world, e=e: understood(world, e) for e in ENGINES],  # type: ignore[misc]
        "audits with pages": [lambda world, w=who: audited(world, w) for who in ("native", "a function")],  # type: ignore[misc]
        "monitoring": [monitored],
        "letters": [lambda world, e=e: written(world, e) for e in ENGINES],  # type: ignore[misc]
        "saving and loading": [lambda world, e=e: kept(world, e) for e in ENGINES],  # type: ignore[misc]
    }
    return {what: variants[:2] for what, variants in found.items()} if quick else found


# How a call meets its fault, and what became of it


@dataclass
class Outcomes:
    """What became of the calls of one kind."""

    calls: int = 0
    faults: Counter[str] = field(default_factory=Counter)  # those that ended a call, by kind
    errors: int = 0
    other_results: int = 0
    files_left: int = 0

    def row(self) -> Row:
        """Return the line of the table."""
        ended = {f"ended by {fault}": self.faults[fault] for fault in FAULTS[1:]}
        found = {"errors": self.errors, "other results": self.other_results, "files left": self.files_left}
        return {"calls": self.calls, **ended, **found}


def digest(result: Any) -> str:
    """Return what two equal results have in common, and no others."""
    if isinstance(result, Iterator):
        result = list(result)
    if isinstance(result, list | tuple):
        return "".join(map(digest, result))
    if isinstance(result, pd.DataFrame):
        result = result.to_dict("list")
    content = result.tobytes() if isinstance(result, np.ndarray) else repr(result).encode()
    return hashlib.sha256(content).hexdigest()[:16]


@contextmanager
def interrupted(after: float) -> Iterator[None]:
    """Press Ctrl-C after so many seconds, unless the end comes first."""
    armed = True

    def press(*_: Any) -> None:
        if armed:
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGALRM, press)
    signal.setitimer(signal.ITIMER_REAL, max(after, 1e-4))
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond so many bytes; the system refuses the next one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Soak:
    """Calls at random, and what became of them."""

    def __init__(self, quick: bool, folder: Path) -> None:
        self.world = World(600 if quick else 1_500, 5 if quick else 30, folder)
        self.variants = calls(quick)
        self.outcomes = {what: Outcomes() for what in self.variants}
        self.expected: dict[tuple[str, int], str] = {}
        self.took: dict[tuple[str, int], float] = {}
        self.swallowed = 0
        self.memory: list[float] = []
        self.open_files: list[float] = []
        self.threads: list[float] = []
        self._rng = np.random.default_rng(0)

    def learn(self) -> None:
        """Call everything once, without faults."""
        for what, variants in self.variants.items():
            for number, call in enumerate(variants):
                self.world.fault, self.world.steps, start = NOTHING, 0, time.perf_counter()
                self.expected[what, number] = digest(call(self.world))
                self.took[what, number] = time.perf_counter() - start

    def draw(self) -> None:
        """Make one call, of a kind, a variant and with a fault that are drawn."""
        what = str(self._rng.choice(list(self.variants)))
        number = int(self._rng.integers(len(self.variants[what])))
        world, outcome = self.world, self.outcomes[what]
        world.fault = NOTHING if self._rng.random() < 0.5 else str(self._rng.choice(FAULTS[1:]))
        world.when, world.steps = float(self._rng.random()), 0
        if self.variants[what][number] is larger_than_memory and world.fault == FULL:
            world.fault = NOTHING  # XGBoost ends the process when it cannot write its pages
        before = set(world.folder.iterdir())
        outcome.calls += 1
        try:
            found = self._met(what, number)
            outcome.other_results += found != self.expected[what, number]
            if found != self.expected[what, number]:
                print(f"other results: {what}, {number}, {world.fault}, {world.when}", file=sys.stderr)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and world.fault != INTERRUPT:
                raise  # somebody has really pressed it
            if isinstance(error, TOLD[world.fault]):
                outcome.faults[world.fault] += 1
            else:
                outcome.errors += 1
                print(f"{what}, {number}, {world.fault}, {world.when}: {error!r}", file=sys.stderr)
        self._clear(outcome, before)
        self.look()

    def _met(self, what: str, number: int) -> str:
        world, call = self.world, self.variants[what][number]
        if world.fault == INTERRUPT:
            with interrupted(world.when * self.took[what, number]):
                return digest(call(world))
        if world.fault == FULL:
            with full_disk(int(world.when * LARGEST_FILE)):
                return digest(call(world))
        return digest(call(world))

    def _clear(self, outcome: Outcomes, before: set[Path]) -> None:
        """Remove what calls wrote; a hidden name is a piece of a file or a folder that should have gone."""
        for path in set(self.world.folder.iterdir()) - before:
            if path.name.startswith(".") or path.is_dir():
                outcome.files_left += 1
                print(f"left: {path.name} after {self.world.fault}", file=sys.stderr)
            if path.is_file():
                path.unlink()

    def look(self) -> None:
        """Note what the process holds now."""
        self.memory.append(resident("VmRSS") / 1024)
        self.open_files.append(len(list(Path("/proc/self/fd").iterdir())))
        self.threads.append(threading.active_count())

    def rows(self) -> list[Row]:
        """Return a line for each kind of call, and one for the process."""
        lines = [{"what": what, **outcome.row()} for what, outcome in self.outcomes.items()]
        early, late = quarter(self.memory, 1), quarter(self.memory, 3)
        held = {
            "MB in the second quarter": f"{early:.0f}",
            "MB more": f"{late - early:.1f}",
            "more open files": f"{quarter(self.open_files, 3) - quarter(self.open_files, 1):.0f}",
            "more threads": f"{quarter(self.threads, 3) - quarter(self.threads, 1):.0f}",
            "errors that Python swallowed": self.swallowed,
        }
        return [*lines, {"what": PROCESS, **held}]


def soak(quick: bool) -> list[Row]:
    """Call for as long as was asked for."""
    end = 60 * minutes_of(quick, 60)

    def swallow(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):  # Ctrl-C in a destructor, which Python cannot raise
            running.swallowed += 1
            sys.__unraisablehook__(unraisable)

    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(tempfile, "tempdir", folder),
        patch.object(sys, "unraisablehook", swallow),
        warnings.catch_warnings(),
    ):
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background jobs
            signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.simplefilter("error")
        running = Soak(quick, Path(folder))
        running.learn()
        start = time.monotonic()
        while time.monotonic() - start < end:
            running.draw()
        return running.rows()


def units(quick: bool) -> list[Unit]:
    """List the one piece of work."""
    return [Unit({"minutes": f"{minutes_of(quick, 60):g}"}, lambda: soak(quick))]


def table(rows: Rows) -> Table:
    """Return what became of all calls, and what the process held, run by run."""
    counted = ["calls", *(f"ended by {fault}" for fault in FAULTS[1:]), "errors", "other results", "files left"]
    lines = []
    for (minutes,), run in by(rows, "minutes").items():
        kinds = [row for row in run if row["what"] != PROCESS]
        (held,) = (row for row in run if row["what"] == PROCESS)
        total = [sum(int(row[column]) for row in kinds) for column in counted]
        lines += [[minutes, row["what"], *(row[column] for column in counted)] for row in kinds]
        lines.append([minutes, "all together", *(f"{number:,}" for number in total)])
        kept = ", ".join(f"{value} {name}" for name, value in held.items() if name in HELD)
        lines.append([minutes, kept, *[""] * len(counted)])
    return ["minutes", "what", *counted], lines


STUDY = Study("soak", units, table, seed="0")
