"""How a study runs: what is not done yet, one unit after the other or side by side in several processes.

Most studies train many small models, for which a second thread does little and a second process nearly everything.
A process finds its unit by the study's name and the unit's place in the list, as functions cannot always be sent.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context, parent_process
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .harness import LANES_VARIABLE, THREADS_VARIABLE, threads_in
from .studies import CODE, Kept, Rows, Study, Unit, run_unit, written


def run_study(study: Study, quick: bool, console: Console, fresh: bool = False, lanes: int = 1) -> Rows:
    """Run what of a study is not done yet, in so many processes side by side, and return all its rows."""
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
    return [row for place in range(len(units)) for row in found[place]]


def _measured(
    study: Study, units: Sequence[Unit], quick: bool, places: Sequence[int], lanes: int
) -> Iterator[tuple[int, Rows]]:
    """Yield the rows of units as they are done, each with its place in the list."""
    if lanes > 1:
        yield from in_lanes(study.name, quick, {place: dict(units[place].key) for place in places}, lanes)
    else:
        for place in places:
            yield place, run_unit(study, units[place])


def in_lanes(name: str, quick: bool, keys: Mapping[int, Mapping[str, Any]], lanes: int) -> Iterator[tuple[int, Rows]]:
    """Run units of a catalogued study and yield the rows of each as it is done, with its place in the list.

    ``keys`` are the units' keys by their places. If a unit fails, those under way are finished first, and not lost.
    """
    threads = str(threads_in(lanes))
    with (
        # Workers read it when they import the studies; OpenMP and BLAS only know their own variable.
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
    from .catalogue import STUDIES  # imported here, as it imports the studies

    study = STUDIES[name]
    units = list(study.units(quick)) if code == CODE else []
    if not units or dict(units[place].key) != dict(key):
        raise RuntimeError(f"benchmarks/ or pucboost/ changed while {name} ran; start it again")
    return run_unit(study, units[place])


def _end_with_parent() -> None:
    """Let a worker end without a word when it is interrupted or its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
