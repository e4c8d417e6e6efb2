"""Rows of a study under way, kept as they come so that the study can resume after an interruption."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping
from pathlib import Path

from .machine import circumstances, threads_in
from .paths import RESULTS, ROOT
from .rows import write_rows, written
from .study import Study, Unit
from .types import Rows


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
