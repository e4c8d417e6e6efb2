"""Rows of results as they stand in a CSV."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from .types import Rows


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
