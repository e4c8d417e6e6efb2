"""How a study runs: what is not done yet, one unit after the other or side by side in several processes.

Most studies train many small models, for which a second thread does little and a second process nearly everything.
A process finds its unit by the study's name and the unit's place in the list, as functions cannot always be sent.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .harness import LANES_VARIABLE, THREADS_VARIABLE, threads_in
from .studies import Kept, Rows, Study, Unit, run_unit, written


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
        yield from _in_lanes(study.name, quick, places, lanes)
    else:
        for place in places:
            yield place, run_unit(study, units[place])


def _in_lanes(name: str, quick: bool, places: Sequence[int], lanes: int) -> Iterator[tuple[int, Rows]]:
    """Run units of a catalogued study and yield the rows of each as it is done, with its place in the list."""
    threads = str(threads_in(lanes))
    with (
        # Workers read it when they import the studies; OpenMP and BLAS only know their own variable.
        _environment({THREADS_VARIABLE: threads, LANES_VARIABLE: str(lanes), "OMP_NUM_THREADS": threads}),
        ProcessPoolExecutor(lanes, mp_context=get_context("spawn"), initializer=_die_silently) as pool,
    ):
        try:
            futures = {pool.submit(_work, name, quick, place): place for place in places}
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _work(name: str, quick: bool, place: int) -> Rows:
    from .catalogue import STUDIES  # imported here, as it imports the studies

    study = STUDIES[name]
    return run_unit(study, list(study.units(quick))[place])


def _die_silently() -> None:
    """Let an interruption end a worker without a word: what it has not finished is measured again."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
