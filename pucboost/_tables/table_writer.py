"""Table files, CSV and Parquet, written in batches; they appear whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from .files import DataError, written_whole
from .formats import DELIMITERS, PARQUET, ending_of

if TYPE_CHECKING:
    import pyarrow as pa


ROW_GROUP = 1 << 17
"""How many rows each row group of a Parquet file has at least, except the last one."""


@contextmanager
def table_writer(path: Path | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield a function that appends columns (name → values) to a table file; the file appears once it is complete.

    None means CSV to standard output. NaN is written as a missing value.
    """
    if path is None:
        import sys

        yield _CsvSink(sys.stdout.buffer, ",").write
        return
    ending = ending_of(path)
    with written_whole(path) as file, ExitStack() as stack:
        out: Any = _Abandonable(file)
        sink: _ParquetSink | _CsvSink
        if ending in PARQUET:
            sink = stack.enter_context(_ParquetSink(out))
        else:
            zipped = ending.endswith(".gz")
            out_of_csv = stack.enter_context(gzip.GzipFile("", "wb", fileobj=out, mtime=0)) if zipped else out
            sink = _CsvSink(out_of_csv, DELIMITERS[ending])
        stack.enter_context(out)
        yield sink.write


class _Abandonable:
    """A file that swallows what is written after a failure: writers try to end it properly, again and again."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._abandoned = file, False
        self.flush, self.tell, self.close = file.flush, file.tell, file.close

    def __enter__(self) -> _Abandonable:
        return self

    def __exit__(self, error: object, *more: object) -> None:
        self._abandoned = error is not None

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: Any) -> int:
        if self._abandoned:
            return len(data)
        try:
            return self._file.write(data)
        except BaseException:
            self._abandoned = True
            raise


def _as_arrow(columns: dict[str, Any]) -> pa.Table:
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        array = pa.array(values, from_pandas=True) if isinstance(values, np.ndarray) else values
        arrays[name] = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    return pa.table(arrays)


class _CsvSink:
    def __init__(self, out: Any, delimiter: str) -> None:
        self._out, self._delimiter, self._has_header = out, delimiter, False

    def write(self, columns: dict[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        table = _as_arrow(columns)
        if not self._has_header:
            for field in table.schema:
                if pa.types.is_nested(field.type):
                    raise DataError(f"column {field.name!r} is of type {field.type}, which CSV cannot hold")
            line = io.StringIO()
            csv.writer(line, delimiter=self._delimiter, lineterminator="\n").writerow(table.column_names)
            self._out.write(line.getvalue().encode())
            self._has_header = True
        if table.num_columns == 1:  # most readers skip an empty line
            values = table.column(0).cast(pa.string()).fill_null("NaN")
            table = pa.table({table.column_names[0]: values})
        for quotes in ("none", "needed"):  # Arrow's "needed" quotes all text: use it only if something needs quotes
            text = pa.BufferOutputStream()
            options = pa_csv.WriteOptions(
                include_header=False,
                delimiter=self._delimiter,
                quoting_style=quotes,
            )
            try:
                pa_csv.write_csv(table, text, options)
                break
            except pa.ArrowInvalid:
                if quotes == "needed":
                    raise
        self._out.write(text.getvalue())


class _ParquetSink:
    def __init__(self, out: Any) -> None:
        self._out = out
        self._writer: Any = None
        self._tables: list[pa.Table] = []

    def __enter__(self) -> _ParquetSink:
        return self

    def __exit__(self, error: object, *more: object) -> None:
        if self._tables and error is None:
            self._flush()
        if self._writer is not None:
            self._writer.close()

    def write(self, columns: dict[str, Any]) -> None:
        self._tables.append(_as_arrow(columns))
        if sum(len(table) for table in self._tables) >= ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._writer is None:
            self._writer = pq.ParquetWriter(self._out, self._tables[0].schema)
        self._writer.write_table(pa.concat_tables(self._tables))
        self._tables = []
