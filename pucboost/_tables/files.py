"""Table files: CSV and Parquet, read and written in batches; and files that are written whole or not at all.

Arrow does the reading and writing and is loaded when the first table file is opened.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from .._arrays import Array

if TYPE_CHECKING:
    import pyarrow as pa


BATCH_BYTES = 2 << 20
"""Size of a batch. Arrow reads up to 32 of them ahead. A row of a CSV file may not be longer."""

ROW_GROUP = 1 << 17
"""How many rows a row group of a Parquet file that is written has at least, the last one excepted."""

MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
"""What stands for a missing value in a CSV file."""

DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
PARQUET = (".parquet", ".pq")


class DataError(ValueError):
    """Something is wrong with a file; the message names the file and, where that is known, the row and column."""


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Write to a neighbour, then rename: whatever happens, there is never half a file under the name asked for."""
    path = Path(os.path.realpath(path))  # a link stays one, and its target is replaced
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
        # mkstemp makes files only the owner can read; give this one the rights any new file gets.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with written_whole(path) as out:
        out.write(content)


def check_can_be_written(path: Path, *inputs: Path) -> None:
    """Raise if a file cannot be written, or is one of the inputs; to be called before hours of work."""
    if path.exists() and not path.is_file():
        raise DataError(f"cannot write {path}: it is {'a directory' if path.is_dir() else 'not a regular file'}")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise DataError(f"cannot write {path}: there is no directory {folder}")
    for other in inputs:
        if path.exists() and other.exists() and path.samefile(other):
            raise DataError(f"{path} is both read and written; choose another name for the output")
    try:  # what the rights say is not the whole truth, for example on a read-only disk
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}") from None


def ending_of(path: Path) -> str:
    """Return which of the known endings a table file has, else raise."""
    for ending in (*DELIMITERS, *PARQUET):
        if path.name.lower().endswith(ending):
            return ending
    raise DataError(f"{path}: a table file must end in one of {', '.join((*DELIMITERS, *PARQUET))}")


class Batch:
    """Some rows of a table file. Rows are counted from 1, the header not included."""

    def __init__(self, path: Path, first_row: int, content: pa.RecordBatch) -> None:
        self.path, self.first_row, self._content = path, first_row, content

    def __len__(self) -> int:
        return int(self._content.num_rows)

    def where(self, index: int, column: str) -> str:
        """Return how errors call a cell."""
        return f"{self.path}, row {self.first_row + index}, column {column!r}"

    def as_stored(self, column: str) -> pa.Array:
        """Return a column as it is in the file."""
        return self._content.column(column)

    def text(self, column: str) -> pa.Array:
        """Return a column as strings, null where it is missing."""
        import pyarrow as pa

        values = self.as_stored(column)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_floating(values.type):  # NaN is missing, not a category
            values = pa.array(values.to_numpy(zero_copy_only=False), from_pandas=True)
        return values.cast(pa.string())

    def numbers(self, column: str, advice: str = "") -> Array:
        """Return a column as float64, NaN where it is missing; true and false are 1 and 0.

        ``advice`` ends the error about a value that is not a number.
        """
        import pyarrow as pa

        values = self.as_stored(column)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        values = self._parsed(values.cast(pa.string()), column, advice) if _is_text(values.type) else values
        return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))

    def _parsed(self, text: pa.Array, column: str, advice: str) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        text = _without_missing(pc.utf8_trim_whitespace(text))
        try:
            return text.cast(pa.float64())
        except pa.ArrowInvalid:
            pass
        truth = pc.index_in(pc.utf8_lower(text), value_set=pa.array(["false", "true"])).cast(pa.float64())
        rest = pc.if_else(pc.is_valid(truth), pa.scalar(None, pa.string()), text)
        try:
            return pc.coalesce(truth, rest.cast(pa.float64()))
        except pa.ArrowInvalid:
            bad = _first_failure(rest, lambda part: part.cast(pa.float64()))
        raise DataError(f"{self.where(bad, column)}: {text[bad].as_py()!r} is not a number{advice}")


class CsvBatch(Batch):
    """Some rows of a CSV file, stored as bytes."""

    def as_stored(self, column: str) -> pa.Array:
        """Return a column as strings, null where the field is empty."""
        import pyarrow as pa
        import pyarrow.compute as pc

        raw = self._content.column(column)
        try:
            text = raw.cast(pa.string())
        except pa.ArrowInvalid:
            bad = _first_failure(raw, lambda part: part.cast(pa.string()))
            raise DataError(
                f"{self.where(bad, column)}: {raw[bad].as_py()!r} is not UTF-8. Convert the file, for example with "
                "iconv -f latin1 -t utf-8"
            ) from None
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)

    def text(self, column: str) -> pa.Array:
        """Return a column as strings, null where it is missing."""
        return _without_missing(self.as_stored(column))


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _without_missing(text: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.is_in(text, value_set=pa.array(MISSING)), pa.scalar(None, pa.string()), text)


def _first_failure(values: pa.Array, convert: Callable[[pa.Array], Any]) -> int:
    """Return the place of the first value that cannot be converted, by bisection."""
    import pyarrow as pa

    lo, hi = 0, len(values)
    while hi - lo > 1:
        middle = (lo + hi) // 2
        try:
            convert(values[lo:middle])
            lo = middle
        except pa.ArrowInvalid:
            hi = middle
    return lo


class TableFile:
    """A table file: its column names, and its rows in batches."""

    columns: list[str]

    def __init__(self, path: Path) -> None:
        self.path = path

    def kind(self, column: str) -> str | None:
        """Return ``"number"`` or ``"text"``, None where only the values tell; raise for what is neither."""
        return None

    def batches(self, columns: Sequence[str], report: Callable[[float], None] = lambda share: None) -> Iterator[Batch]:
        """Yield all rows, at least one; ``report`` is told the share of the file that was read."""
        n_rows = 0
        with self._errors():
            for content, share in self._contents(list(dict.fromkeys(columns))):
                if content.num_rows:
                    yield self._batch(n_rows + 1, content)
                    n_rows += content.num_rows
                    report(share)
        if n_rows == 0:
            raise DataError(f"{self.path} has columns, but no rows")

    def _contents(self, columns: list[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        raise NotImplementedError

    def _batch(self, first_row: int, content: pa.RecordBatch) -> Batch:
        return Batch(self.path, first_row, content)

    def _check_names(self) -> None:
        seen: set[str] = set()
        for name in self.columns:
            if name in seen:
                raise DataError(f"{self.path} has two columns {name!r}; rename one of them")
            seen.add(name)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Let errors of Arrow and gzip name the file."""
        import pyarrow as pa

        try:
            yield
        except DataError:
            raise
        except (pa.ArrowException, EOFError, gzip.BadGzipFile) as error:
            raise DataError(f"{self.path}: {self._explained(str(error))}") from error
        except OSError as error:
            if type(error) is OSError and error.errno is None:  # this is how Arrow reports a damaged file
                raise DataError(f"{self.path}: {self._explained(str(error))}") from error
            raise

    def _explained(self, message: str) -> str:
        return message


def open_table(path: Path) -> TableFile:
    """Open a table file; the format follows the ending."""
    ending = ending_of(path)
    if path.is_dir():
        raise DataError(f"{path} is a directory; give one file")
    path.stat()  # the error about a missing file, the same for both formats
    return ParquetTable(path) if ending in PARQUET else CsvTable(path, DELIMITERS[ending])


class ParquetTable(TableFile):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        import pyarrow.parquet as pq

        with self._errors(), pq.ParquetFile(path) as file:
            self._schema = file.schema_arrow
        self.columns = list(self._schema.names)
        self._check_names()

    def kind(self, column: str) -> str:
        """Return ``"number"`` or ``"text"``; raise for dates and nested values."""
        import pyarrow.types as types

        kind = self._schema.field(column).type
        if types.is_dictionary(kind) or _is_text(kind):
            return "text"
        numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
        if any(is_one(kind) for is_one in numeric):
            return "number"
        raise DataError(f"{self.path}: column {column!r} is of type {kind}, neither number nor text")

    def _contents(self, columns: list[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        import pyarrow.parquet as pq

        # With a buffer, row groups are read in pieces, however large they are.
        with pq.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False) as file:
            rows = max(1, BATCH_BYTES // (8 * max(1, len(columns))))
            done, total = 0, max(1, file.metadata.num_rows)
            for batch in file.iter_batches(rows, columns=columns):
                done += batch.num_rows
                # Arrow reads "a" as "a and all that is nested in it", a column "a.b" included.
                yield batch.select(columns), done / total

    def _explained(self, message: str) -> str:
        return f"not a Parquet file, or a damaged one ({message})"


class CsvTable(TableFile):
    """A file of comma- or tab-separated values in UTF-8, with a header, possibly compressed."""

    def __init__(self, path: Path, delimiter: str) -> None:
        super().__init__(path)
        self._delimiter = delimiter
        with self._errors(), self._opened() as content:
            self.columns = self._header(content)
        self._check_names()

    @contextmanager
    def _opened(self) -> Iterator[_Watched]:
        with self.path.open("rb") as file, ExitStack() as stack:
            zipped = self.path.name.lower().endswith(".gz")
            content: Any = stack.enter_context(gzip.open(file)) if zipped else file
            yield _Watched(content, file, os.fstat(file.fileno()).st_size)

    def _header(self, content: _Watched) -> list[str]:
        text = io.TextIOWrapper(io.BufferedReader(content), "utf-8-sig", "surrogateescape", newline="")
        try:
            header = next((row for row in csv.reader(text, delimiter=self._delimiter) if row), None)
        except csv.Error as error:
            raise DataError(f"{self.path}: the header cannot be read as CSV ({error})") from None
        if header is None:
            raise DataError(f"{self.path} is empty")
        try:
            "".join(header).encode()
        except UnicodeEncodeError:
            raise DataError(f"{self.path}: the header is not UTF-8 text") from None
        return header

    def _contents(self, columns: list[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        ragged: list[Any] = []

        def remember(row: Any) -> str:
            ragged.append(row)
            return "error"

        with self._opened() as content:
            try:
                with pa_csv.open_csv(
                    content,
                    # In one thread Arrow knows which row it is at, and it is as fast.
                    pa_csv.ReadOptions(use_threads=False, block_size=BATCH_BYTES),
                    pa_csv.ParseOptions(
                        delimiter=self._delimiter,
                        newlines_in_values=True,
                        # In a table of one column an empty line is a missing value.
                        ignore_empty_lines=len(self.columns) > 1,
                        invalid_row_handler=remember,
                    ),
                    # As bytes, because Arrow would settle types by the first block, and kept columns stay as they are.
                    pa_csv.ConvertOptions(
                        column_types={name: pa.binary() for name in columns},
                        include_columns=columns,
                        strings_can_be_null=False,
                    ),
                ) as reader:
                    for batch in reader:
                        yield batch, content.share_read
            except pa.ArrowInvalid as error:
                if ragged:
                    row = ragged[0]
                    raise DataError(
                        f"{self.path}, row {row.number - 1}: the header has {row.expected_columns} fields, this row "
                        f"has {row.actual_columns}: {_shortened(row.text)}"
                    ) from None
                if "Empty CSV file" in str(error):
                    return
                raise
            if content.n_quotes % 2:
                raise DataError(
                    f"{self.path} has an odd number of double quotes: a quoted field is not closed, and rows behind it "
                    "were swallowed. A quote within a field must be doubled, and the field quoted"
                )

    def _batch(self, first_row: int, content: pa.RecordBatch) -> Batch:
        return CsvBatch(self.path, first_row, content)

    def _explained(self, message: str) -> str:
        if "straddling object" in message:
            return f"a row is longer than {BATCH_BYTES:,} bytes; is a quoted field not closed?"
        return message


def _shortened(text: str, length: int = 60) -> str:
    return text if len(text) <= length else text[:length] + "…"


class _Watched(io.RawIOBase):
    """A stream that counts double quotes and knows how much of the file underneath was read."""

    def __init__(self, content: Any, file: Any, size: int) -> None:
        self._content, self._file, self._size = content, file, max(1, size)
        self.n_quotes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        got = self.read(len(buffer))
        buffer[: len(got)] = got
        return len(got)

    def read(self, size: int = -1) -> bytes:
        got: bytes = self._content.read(size)
        self.n_quotes += got.count(b'"')
        return got

    @property
    def share_read(self) -> float:
        return min(1.0, float(self._file.tell() / self._size))


@contextmanager
def table_writer(path: Path | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Give a function that appends columns (name → values) to a table file, which appears when all is written.

    None means CSV to standard output. NaN is written as a missing value.
    """
    if path is None:
        import sys

        yield _CsvSink(sys.stdout.buffer, ",").write
        return
    ending = ending_of(path)
    with written_whole(path) as file, ExitStack() as stack:
        if ending in PARQUET:
            yield stack.enter_context(_ParquetSink(file)).write
        else:
            zipped = ending.endswith(".gz")
            out: Any = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)) if zipped else file
            yield _CsvSink(out, DELIMITERS[ending]).write


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
        for quotes in ("none", "needed"):  # Arrow's "needed" quotes all text; do so only where something needs it
            text = pa.BufferOutputStream()
            options = pa_csv.WriteOptions(
                include_header=False,
                delimiter=self._delimiter,
                quoting_style=quotes,
                # An empty line is skipped by most readers.
                null_string="" if table.num_columns > 1 else "NaN",
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
