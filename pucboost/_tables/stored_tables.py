"""Tables that are not in memory: files, folders, ``pyarrow.dataset``, lazy frames of polars."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .column_kinds import check_readable
from .file_columns import PYTHON, Feature, Known, Learned, Number, OtherKind, Withheld
from .formats import PARQUET
from .frame_columns import warn_of_unknown_values
from .loading import LoadedTable, load_table
from .sources import Categories
from .table_files import DatasetTable, ParquetTable, TableFile, open_table

if TYPE_CHECKING:
    import pyarrow as pa


class LazyTable(TableFile):
    """A lazy frame of polars. Polars runs the query piece by piece, into a temporary Parquet file."""

    def __init__(self, frame: Any) -> None:
        super().__init__("the LazyFrame")
        import narwhals as nw

        schema = nw.from_native(frame).collect_schema()
        for name, dtype in schema.items():
            check_readable(name, dtype)
        self.columns = list(schema.names())
        self._frame, self._schema = frame, schema

    def kind(self, column: str) -> str:
        """Return ``"number"`` or ``"text"``."""
        dtype = self._schema[column]
        return "number" if dtype.is_numeric() or str(dtype) in ("Boolean", "Unknown") else "text"

    def dictionary(self, column: str) -> str | None:
        """Return ``"ordered"`` for an Enum."""
        return "ordered" if str(self._schema[column]).startswith("Enum") else None

    def read_whole(self) -> Any:
        """Run the query in memory."""
        return self._frame.collect()

    def _contents(self, columns: list[str]) -> Generator[tuple[pa.RecordBatch, float], None, None]:
        with tempfile.TemporaryDirectory(prefix="pucboost-") as folder:
            file = Path(folder, "query.parquet")
            self._frame.select(columns).sink_parquet(file)
            yield from ParquetTable(file)._contents(columns)


def is_stored(data: Any) -> bool:
    """Return whether a table is not in memory.

    That holds for names of Parquet files and folders, objects of ``pyarrow.dataset`` and lazy frames of polars. Nothing
    is opened. Other names are left to LightGBM, which reads text files by rules of its own.
    """
    import narwhals as nw
    import narwhals.dependencies as nwd

    if isinstance(data, (str, Path)):
        path = Path(data)
        return path.name.lower().endswith(PARQUET) or path.is_dir()
    if isinstance(data, TableFile) or type(data).__module__.startswith("pyarrow._dataset"):
        return True
    return bool(nwd.is_polars_lazyframe(nw.to_native(data, pass_through=True)))


def stored_table(data: Any) -> TableFile:
    """Open a table that is not in memory, without reading it."""
    import narwhals as nw

    if isinstance(data, TableFile):
        return data
    if isinstance(data, (str, Path)):
        return open_table(Path(data))
    if type(data).__module__.startswith("pyarrow._dataset"):
        return DatasetTable(data, f"the {type(data).__name__}")
    return LazyTable(nw.to_native(data, pass_through=True))


def read_whole(data: Any) -> Any:
    """Return a stored table in memory: a lazy frame collected, anything else as an Arrow table."""
    file = stored_table(data)  # raises for columns that cannot be read
    return file.read_whole()


def learn_columns(file: TableFile, names: Sequence[str]) -> list[Feature]:
    """Return how to read the columns of a training table."""
    return [Learned(name, file.kind(name), dictionary=file.dictionary(name), remedies=PYTHON) for name in names]


def load_as_trained(
    file: TableFile, names: Sequence[str], categories: Categories | None, roles: Mapping[str, str]
) -> LoadedTable:
    """Read the columns of a training table from another one; those that it lacks are missing.

    Parameters
    ----------
    file
        The other table.
    names
        The columns of the training table.
    categories
        Its categories.
    roles
        Columns that are no features, as in :func:`load_table`.
    """
    text = [j for j, name in enumerate(names) if name in file.columns and file.kind(name) == "text"]
    known = {} if categories is None else categories.by_column(text)
    features: list[Feature] = []
    for j, name in enumerate(names):
        if name not in file.columns:
            features.append(Withheld(name))
        elif (j in text) != (j in known):
            features.append(OtherKind(name, list(known[j]) if j in known else None))
        else:
            features.append(Known(name, list(known[j])) if j in known else Number(name))
    table = load_table(file, features, roles)
    for feature in features:
        if isinstance(feature, Known) and feature.n_unknown:
            warn_of_unknown_values(feature.name)
    return table
