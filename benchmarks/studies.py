"""What a study is: units of work whose rows are kept as they come, so that it can be taken up again."""

from __future__ import annotations

import csv
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .harness import LANES, RESULTS, ROOT, Row, circumstances, threads_in

Rows = list[dict[str, str]]
Table = tuple[list[str], list[list[str]]]  # columns and lines
TOOK = "took, s"


def _hash_of_sources() -> str:
    source = hashlib.sha256()
    for folder in ("benchmarks", "pucboost"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            source.update(path.read_bytes())
    return source.hexdigest()[:12]


CODE = _hash_of_sources()  # when it is imported: files may change while a study runs
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
    """A study: units of work, the table and the figure made of their rows, perhaps a short table for the README.

    ``units(quick)`` lists the work. Tables and figures read rows as they stand in the CSV, so that they can be made
    again without measuring; ``figure`` returns a matplotlib figure. A study ``alone`` wants the machine for itself,
    because speed is its subject or because it uses all cores anyway; others may run several units side by side.
    ``seed`` is the number all seeds follow from, in a study whose units do not name their "seed" or "run". Table and
    figure are made of the study's own rows and of those of the studies it ``reads``, which have their name in the
    column "study".
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
    """Return rows with the name of the study they were measured for."""
    return [{"study": name, **row} for row in rows]


def partial_path(study: Study) -> Path:
    """Return where the rows of a study under way are kept."""
    return RESULTS / f"{study.name}.partial.csv"


class Kept:
    """Rows of a study under way, in a file of their own until the study is complete.

    Rows measured by other code, with other versions of the engines or with other threads are not taken up again.
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
        """Return the rows of a unit that was done before, or none."""
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


def written(value: Any) -> str:
    """Return a value as it stands in a CSV: six digits are enough of any measurement."""
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


def run_unit(study: Study, unit: Unit) -> Rows:
    """Return what a unit measures, with its key, its time and the circumstances."""
    start = time.perf_counter()
    measured = list(unit.run())
    # So that the column adds up to the duration of the study, other processes at work beside this one.
    took = (time.perf_counter() - start) / max(len(measured), 1) / LANES
    known = {**unit.key, "seed": unit.key.get("seed", unit.key.get("run", study.seed))}
    return [
        {name: written(value) for name, value in {**known, **row, TOOK: took, **circumstances()}.items()}
        for row in measured
    ]
