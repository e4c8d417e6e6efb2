"""What a study is: units of work, and the table and figure made from their rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .machine import LANES, circumstances
from .rows import written
from .types import Row, Rows, Table

TOOK = "took, s"
CIRCUMSTANCES = ("seed", "date", "machine", "versions")


@dataclass(frozen=True)
class Unit:
    """A piece of a study: ``key`` tells it from the others, ``run`` returns its rows without the key."""

    key: Mapping[str, Any]
    run: Callable[[], Sequence[Row]]


def as_it_is(rows: Rows) -> Table:
    """Return all rows of a study as its table."""
    columns = [column for column in rows[0] if column not in (*CIRCUMSTANCES, TOOK)]
    return columns, [[row[column] for column in columns] for row in rows]


@dataclass(frozen=True)
class Study:
    """A study: units of work, the table and the figure made from their rows, perhaps a short table for README or docs.

    ``units(quick)`` lists the work. Tables and figures read rows as they stand in the CSV, so that they can be made
    again without measuring; ``figure`` returns a matplotlib figure. A study that runs ``alone`` has the
    machine to itself, because speed is its subject or because it uses all cores anyway; others may run several units
    side by side. ``seed`` is the number from which all seeds follow, for a study whose units name no "seed" or "run".
    Table and figure are made from the study's own rows and those of the studies it ``reads``, which carry their name
    in the column "study".
    """

    name: str
    units: Callable[[bool], Iterable[Unit]]
    table: Callable[[Rows], Table] = as_it_is
    figure: Callable[[Rows], Any] | None = None
    in_short: Callable[[Rows], Table] | None = None
    alone: bool = False
    seed: str = ""
    reads: tuple[str, ...] = ()


def in_one(name: str, job: Callable[[bool], Sequence[Row]], seed: str, **others: Any) -> Study:
    """Return a study of a single unit, alone on the machine."""
    return Study(name, lambda quick: [Unit({}, lambda: job(quick))], alone=True, seed=seed, **others)


def from_study(name: str, rows: Rows) -> Rows:
    """Return rows with the name of their study."""
    return [{"study": name, **row} for row in rows]


def run_unit(study: Study, unit: Unit) -> Rows:
    """Return what a unit measures, with its key, its time and the circumstances."""
    start = time.perf_counter()
    measured = list(unit.run())
    # Divided by the number of lanes, so that the column adds up to the duration of the study.
    took = (time.perf_counter() - start) / max(len(measured), 1) / LANES
    known = {**unit.key, "seed": unit.key.get("seed", unit.key.get("run", study.seed))}
    return [
        {name: written(value) for name, value in {**known, **row, TOOK: took, **circumstances()}.items()}
        for row in measured
    ]
