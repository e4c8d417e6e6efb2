"""The formats of table files, and what they share."""

from __future__ import annotations

from pathlib import Path

from .files import DataError

DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
PARQUET = (".parquet", ".pq")


def is_table_file(path: Path) -> bool:
    """Return whether a file is a table by its ending."""
    return path.name.lower().endswith((*DELIMITERS, *PARQUET))


def ending_of(path: Path) -> str:
    """Return which of the known endings a table file has; raise if it has none of them."""
    for ending in (*DELIMITERS, *PARQUET):
        if path.name.lower().endswith(ending):
            return ending
    raise DataError(f"{path}: a table file must end in one of {', '.join((*DELIMITERS, *PARQUET))}")
