"""Running a study: the units that are not done yet, one after the other or side by side in several processes.

Rows are kept as they come, so that a study resumes after an interruption. Most studies train many small models: a
second thread hardly helps them, a second process helps a lot. A process finds its unit by the study's name and the
unit's place in the list, because functions cannot always be sent.
"""

from __future__ import annotations

import csv
import hashlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .study import (
    LANES_VARIABLE,
    RESULTS,
    ROOT,
    THREADS_VARIABLE,
    Rows,
    Study,
    Unit,
    circumstances,
    run_unit,
    threads_in,
    write_rows,
    written,
)

# Rows of a study under way, kept as they come so that the study can resume after an interruption


def _hash_of_sources() -> str:
    source = hashlib.sha256()
    for folder in ("benchmarks", "pucboost"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            source.update(path.read_bytes())
    return source.hexdigest()[:12]


CODE = _hash_of_sources()  # computed on import, because files may change while a study runs


def partial_path(study: Study) -> Path:
    """Return where the rows of a study under way are kept."""
    return RESULTS / f"{study.name}.partial.csv"


class Kept:
    """Rows of a study under way, in a file of their own until the study is complete.

    Rows measured by other code, with other versions of the engines or with other threads are ignored.
    """

    def __init__(self, study: Study, lanes: int = 1) -> None:
        self.path = partial_path(study)
        where = circumstances(threads_in(lanes), lanes)
        self._code = "; ".join([CODE, where["machine"], where["versions"]])
        self._rows = self._read()

    def _read(self) -> Rows:
        if not self.path.is_file():
            return []
        with self.path.open(newline="", encoding="utf-8") as source:
            rows = list(csv.DictReader(source))
        return [row for row in rows if row.get("code") == self._code and None not in row.values()]

    def rows_of(self, unit: Unit) -> Rows:
        """Return the rows of a unit that is already done, or none."""
        key = {name: written(value) for name, value in unit.key.items()}
        found = [row for row in self._rows if row["unit"] == _name(key)]
        return [{name: value for name, value in row.items() if name not in ("code", "unit")} for row in found]

    def add(self, unit: Unit, rows: Rows) -> None:
        """Write the rows of a finished unit, all at once."""
        key = {name: written(value) for name, value in unit.key.items()}
        self._rows += [{**row, "unit": _name(key), "code": self._code} for row in rows]
        self.path.parent.mkdir(exist_ok=True)
        aside = self.path.with_suffix(".tmp")
        write_rows(aside, self._rows)
        aside.replace(self.path)

    def forget(self) -> None:
        """Remove what was kept."""
        self.path.unlink(missing_ok=True)
        self._rows = []


def _name(key: Mapping[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in key.items())


# Units of a study side by side in several processes


def in_lanes(name: str, quick: bool, keys: Mapping[int, Mapping[str, Any]], lanes: int) -> Iterator[tuple[int, Rows]]:
    """Run units of a catalogued study and yield the rows of each as it finishes, with the unit's place in the list.

    ``keys`` maps places to the units' keys. If a unit fails, those under way finish first, so that none is lost.
    """
    threads = str(threads_in(lanes))
    with (
        # Workers read these when they import the studies; OpenMP and BLAS only know their own variable.
        patch.dict(os.environ, {THREADS_VARIABLE: threads, LANES_VARIABLE: str(lanes), "OMP_NUM_THREADS": threads}),
        ProcessPoolExecutor(lanes, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool,
    ):
        places = {pool.submit(_work, name, quick, place, key, CODE): place for place, key in keys.items()}
        try:
            waiting, failed = set(places), None
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    error = future.exception()
                    if error is None:
                        yield places[future], future.result()
                    else:
                        failed = failed or error
                        waiting = {other for other in waiting if not other.cancel()}
            if failed is not None:
                raise failed
        finally:
            pool.shutdown(cancel_futures=True)


def _work(name: str, quick: bool, place: int, key: Mapping[str, Any], code: str) -> Rows:
    from benchmarks.catalogue import STUDIES  # here, because the studies import the harness

    study = STUDIES[name]
    units = list(study.units(quick)) if code == CODE else []
    if not units or dict(units[place].key) != dict(key):
        raise RuntimeError(f"benchmarks/ or pucboost/ changed while {name} ran; start it again")
    return run_unit(study, units[place])


def _end_with_parent() -> None:
    """End a worker quietly when it is interrupted or its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# Running a study: the units that are not done yet, one after the other or side by side


class OutOfTimeError(Exception):
    """A study was stopped between two units; what is done is kept."""


def run_study(
    study: Study, quick: bool, console: Console, fresh: bool = False, lanes: int = 1, minutes: float | None = None
) -> Rows:
    """Run the units that are not done yet, in ``lanes`` processes, and return all rows of the study.

    After ``minutes``, no further unit is begun, and :class:`OutOfTimeError` is raised.
    """
    until = None if minutes is None else time.monotonic() + 60 * minutes
    units = list(study.units(quick))
    lanes = 1 if study.alone else lanes
    kept = None if quick else Kept(study, lanes)
    if kept is not None and fresh:
        kept.forget()
    found = {place: kept.rows_of(unit) for place, unit in enumerate(units)} if kept is not None else {}
    missing = [place for place in range(len(units)) if not found.get(place)]
    columns = (
        TextColumn(study.name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        bar = progress.add_task("", total=len(units), completed=len(units) - len(missing))
        for place, rows in _measured(study, units, quick, missing, lanes):
            found[place] = rows
            if kept is not None:
                kept.add(units[place], rows)
            progress.update(bar, advance=1, description=", ".join(map(written, units[place].key.values())))
            left = len(units) - sum(1 for rows in found.values() if rows)
            if until is not None and left and time.monotonic() > until:
                raise OutOfTimeError(f"{study.name}: {left} of {len(units)} units are left; the next run resumes")
    return [row for place in range(len(units)) for row in found[place]]


def _measured(
    study: Study, units: Sequence[Unit], quick: bool, places: Sequence[int], lanes: int
) -> Iterator[tuple[int, Rows]]:
    """Yield the rows of each unit as it finishes, with the unit's place in the list."""
    if lanes > 1:
        yield from in_lanes(study.name, quick, {place: dict(units[place].key) for place in places}, lanes)
    else:
        for place in places:
            yield place, run_unit(study, units[place])
