"""Table files, CSV and Parquet, read in batches.

Arrow does the reading and is loaded when the first file is opened.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .batches import Batch, CsvBatch, is_text
from .files import DataError
from .formats import DELIMITERS, PARQUET, ending_of
from .names import similar

if TYPE_CHECKING:
    import pyarrow as pa


BATCH_BYTES = 2 << 20
"""Size of a batch, and the longest possible row of a CSV file. Arrow reads up to 32 batches ahead."""


class TableFile:
    """A table file: its column names, and its rows in batches."""

    columns: list[str]

    def __init__(self, path: Path) -> None:
        self.path = path

    def kind(self, column: str) -> str | None:
        """Return ``"number"`` or ``"text"``, None if only the values can tell; raise for any other type."""
        return None

    def batches(self, columns: Sequence[str], report: Callable[[float], None] = lambda share: None) -> Iterator[Batch]:
        """Yield all rows; raise if there are none. ``report`` is called with the share of the file read so far."""
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
        """Add the name of the file to errors of Arrow and gzip."""
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
    path.stat()  # raises the same error about a missing file for both formats
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
        if types.is_dictionary(kind) or is_text(kind):
            return "text"
        numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
        if any(is_one(kind) for is_one in numeric):
            return "number"
        raise DataError(f"{self.path}: column {column!r} is of type {kind}, neither number nor text")

    def _contents(self, columns: list[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        import pyarrow.parquet as pq

        # With a buffer, row groups are read in pieces, however large.
        with pq.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False) as file:
            rows = max(1, BATCH_BYTES // (8 * max(1, len(columns))))
            done, total = 0, max(1, file.metadata.num_rows)
            for batch in file.iter_batches(rows, columns=columns):
                done += batch.num_rows
                # Arrow takes "a" for "a and everything nested in it", which includes a column "a.b".
                yield batch.select(columns), done / total

    def _explained(self, message: str) -> str:
        return f"not a Parquet file, or a damaged one ({message})"


class CsvTable(TableFile):
    """A file of comma- or tab-separated values in UTF-8 with a header, possibly compressed."""

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
        start = _Start(content, BATCH_BYTES)
        text = io.TextIOWrapper(io.BufferedReader(start), "utf-8-sig", "surrogateescape", newline="")
        last = ""

        def lines() -> Iterator[str]:
            nonlocal last
            for line in text:
                last = line
                yield line
            last = ""

        try:
            header = next((row for row in csv.reader(lines(), delimiter=self._delimiter) if row), None)
        except csv.Error as error:
            raise DataError(f"{self.path}: the header cannot be read as CSV ({error})") from None
        if start.is_cut and not last.endswith(("\n", "\r")):
            raise DataError(
                f"{self.path}: the header does not end within the first {BATCH_BYTES:,} bytes; is this a CSV file, and "
                "is every quoted field closed?"
            )
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
                    # With one thread Arrow knows the number of a bad row, and is just as fast.
                    pa_csv.ReadOptions(use_threads=False, block_size=BATCH_BYTES),
                    pa_csv.ParseOptions(
                        delimiter=self._delimiter,
                        newlines_in_values=True,
                        # In a table of one column an empty line is a missing value.
                        ignore_empty_lines=len(self.columns) > 1,
                        invalid_row_handler=remember,
                    ),
                    # As bytes: Arrow would settle types by the first block, and kept columns must stay as they are.
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
                    f"{self.path} has an odd number of double quotes: a quoted field is not closed, and the rows after "
                    "it were swallowed. A quote within a field must be doubled, and the field quoted"
                )

    def _batch(self, first_row: int, content: pa.RecordBatch) -> Batch:
        return CsvBatch(self.path, first_row, content)

    def _explained(self, message: str) -> str:
        if "straddling object" in message:
            return f"a row is longer than {BATCH_BYTES:,} bytes; is a quoted field not closed?"
        return message


def _shortened(text: str, length: int = 60) -> str:
    return text if len(text) <= length else text[:length] + "…"


class _Start(io.RawIOBase):
    """The first bytes of a stream: a small compressed file may hold a line that is larger than the memory."""

    def __init__(self, content: Any, size: int) -> None:
        self._content, self._left = content, size
        self.is_cut = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        got: bytes = self._content.read(min(len(buffer), self._left))
        buffer[: len(got)] = got
        self._left -= len(got)
        self.is_cut |= self._left == 0
        return len(got)


class _Watched(io.RawIOBase):
    """A stream that counts double quotes and knows how much of the underlying file has been read."""

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


def check_columns(file: TableFile, wanted: Iterable[str], option: str) -> None:
    """Raise for the first column that a file does not have, and suggest which one may be meant."""
    for column in wanted:
        if column not in file.columns:
            raise DataError(f"{file.path} has no column {column!r} ({option}){similar(column, file.columns)}")
