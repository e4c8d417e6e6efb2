"""Running a study: the units that are not done yet, one after the other or side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .keeping import Kept
from .lanes import in_lanes
from .rows import written
from .study import Study, Unit, run_unit
from .types import Rows


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
