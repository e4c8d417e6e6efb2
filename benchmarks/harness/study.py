"""What a study is: units of work on a named machine, and the table and figure made from their rows."""

from __future__ import annotations

import csv
import datetime
import importlib.metadata
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# Names for what passes between the modules

Array = np.ndarray[Any, Any]
Row = dict[str, Any]  # as measured
Rows = list[dict[str, str]]  # as they stand in a CSV
Table = tuple[list[str], list[list[str]]]  # columns and lines


# Where results, pages and figures are kept

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = ROOT / "docs" / "evidence"
FIGURES = PAGES / "figures"
QUOTING = (ROOT / "docs" / "guides" / "engines.md",)
"""Pages that show the table of a study beside its own page."""


# The machine a study runs on: cores, threads, and what a result records about it

# The cores this process may use where the system says so, else those of the machine.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
THREADS_VARIABLE, LANES_VARIABLE = "PUCBOOST_BENCH_THREADS", "PUCBOOST_BENCH_LANES"
MINUTES_VARIABLE = "PUCBOOST_BENCH_MINUTES"  # how long studies of load go on, if it is set
THREADS = int(os.environ.get(THREADS_VARIABLE, 2))
LANES = int(os.environ.get(LANES_VARIABLE, 1))  # processes that measure side by side, including this one


def threads_in(lanes: int) -> int:
    """Return how many threads each of several processes side by side may use."""
    return max(1, THREADS // lanes)


def circumstances(threads: int = THREADS, lanes: int = LANES) -> dict[str, str]:
    """Return where and with what a result was measured."""
    used = f"{threads} thread{'s' if threads > 1 else ''}" + (f" in each of {lanes} processes" if lanes > 1 else "")
    packages = ("lightgbm", "xgboost", "scikit-learn", "numba", "numpy")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {CORES} cores, {_processor()}, {used}",
        "versions": " ".join([f"python {platform.python_version()}", *(f"{k} {v}" for k, v in versions.items())]),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")


# Rows of results as they stand in a CSV


def written(value: Any) -> str:
    """Return a value as it stands in a CSV: six digits are enough for any measurement."""
    if isinstance(value, str | int):
        return str(value)
    if value is None:
        return ""
    return f"{float(value):.6g}"


def write_rows(path: Path, rows: Rows) -> None:
    """Write rows, whose columns may differ."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, fieldnames=columns, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(rows)


# What a study is: units of work, and the table and figure made from their rows

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
    """A study: units of work, the table and the figure made from their rows.

    ``units(quick)`` lists the work. Tables and figures read rows as they stand in the CSV, so that they can be made
    again without measuring; ``figure`` returns a matplotlib figure. A run prints ``table``; pages show ``page`` where a
    study has it, a table that people read from top to bottom. A study that runs ``alone`` has the
    machine to itself, because speed is its subject or because it uses all cores anyway; others may run several units
    side by side. ``seed`` is the number from which all seeds follow, for a study whose units name no "seed" or "run".
    Table and figure are made from the study's own rows and those of the studies it ``reads``, which carry their name
    in the column "study".
    """

    name: str
    units: Callable[[bool], Iterable[Unit]]
    table: Callable[[Rows], Table] = as_it_is
    figure: Callable[[Rows], Any] | None = None
    page: Callable[[Rows], Table] | None = None
    alone: bool = False
    seed: str = ""
    reads: tuple[str, ...] = ()


def part_of(
    table: Callable[[Rows], Table], *columns: str, lines: Callable[[dict[str, str]], bool] = lambda line: True
) -> Callable[[Rows], Table]:
    """Return a function that makes some columns of a table, in this order, and those of its lines that are wanted."""

    def page(rows: Rows) -> Table:
        names, everything = table(rows)
        kept = [line for line in (dict(zip(names, cells, strict=True)) for cells in everything) if lines(line)]
        return list(columns), [[line[column] for column in columns] for line in kept]

    return page


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
