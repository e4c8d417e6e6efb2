"""Table files, CSV and Parquet, and folders of Parquet files, read in batches.

Arrow does the reading and is loaded when the first file is opened.
"""

from __future__ import annotations

import csv
import gzip
import io
import logging
import os
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .batches import Batch, CsvBatch, is_text
from .files import DataError, check_can_be_read
from .formats import DELIMITERS, PARQUET, ending_of
from .frame_categories import pandas_categories_of, pandas_index_of
from .names import similar

if TYPE_CHECKING:
    import pyarrow as pa


logger = logging.getLogger("pucboost")

BATCH_BYTES = 2 << 20
"""Size of a batch, and the longest possible row of a CSV file. Arrow reads up to 32 batches ahead."""


class TableFile:
    """A table file: its column names, and its rows in batches."""

    columns: list[str]
    index_columns: frozenset[str] = frozenset()
    """Those of the columns that are the index of a pandas table."""

    def __init__(self, path: Path | str) -> None:
        self.path = path
        """The file, or what stands for it in errors."""

    def kind(self, column: str) -> str | None:
        """Return ``"number"`` or ``"text"``, None if only the values can tell; raise for any other type."""
        return None

    def dictionary(self, column: str) -> str | None:
        """Return ``"categories"`` or ``"ordered"`` if the type of a column declares its categories, else None.

        As for Arrow tables in memory, dictionaries without an order declare something only if pandas wrote them.
        """
        return None

    def read_whole(self) -> pa.Table:
        """Return the table in memory."""
        raise NotImplementedError

    def batches(
        self, columns: Sequence[str], report: Callable[[float], None] = lambda share: None
    ) -> Generator[Batch, None, None]:
        """Yield all rows; raise if there are none. ``report`` is called with the share of the file read so far.

        Whoever may stop half-way closes the generator (``contextlib.closing``), and so the file: an error that is kept
        somewhere would keep it open.
        """
        n_rows = 0
        with self._errors(), closing(self._contents(list(dict.fromkeys(columns)))) as contents:
            for content, share in contents:
                if content.num_rows:
                    yield self._batch(n_rows, content)
                    n_rows += content.num_rows
                    report(share)
        if n_rows == 0:
            raise DataError(f"{self.path} has columns, but no rows")

    def _contents(self, columns: list[str]) -> Generator[tuple[pa.RecordBatch, float], None, None]:
        raise NotImplementedError

    def _batch(self, rows_before: int, content: pa.RecordBatch) -> Batch:
        return Batch(self.path, rows_before + 1, content)

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
        except pa.ArrowCancelled:
            raise KeyboardInterrupt from None  # Arrow's name for it
        except (pa.ArrowException, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{self.path}: {self._explained(str(error))}") from error
        except OSError as error:
            if type(error) is OSError and error.errno is None:  # this is how Arrow reports a damaged file
                raise DataError(f"{self.path}: {self._explained(str(error))}") from error
            raise

    def _explained(self, message: str) -> str:
        return message


def open_table(path: Path) -> TableFile:
    """Open a table file, whose format follows the ending, or a folder of Parquet files."""
    if path.is_dir():
        return _folder(path)
    ending = ending_of(path)
    check_can_be_read(path)
    return ParquetTable(path) if ending in PARQUET else CsvTable(path, DELIMITERS[ending])


class ParquetTable(TableFile):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        import pyarrow.parquet as pq

        with self._errors(), pq.ParquetFile(path) as file:
            self._schema = file.schema_arrow
        self.columns = list(self._schema.names)
        self.index_columns = pandas_index_of(self._schema)
        self._check_names()

    def kind(self, column: str) -> str:
        """Return ``"number"`` or ``"text"``; raise for dates and nested values."""
        return _kind_of(self._schema.field(column), self.path)

    def dictionary(self, column: str) -> str | None:
        """Return whether the type of a column declares its categories."""
        return _dictionary_of(column, self._schema)

    def read_whole(self) -> pa.Table:
        """Return the table in memory."""
        import pyarrow.parquet as pq

        with self._errors(), pq.ParquetFile(self.path) as file:
            return file.read()

    def _contents(self, columns: list[str]) -> Generator[tuple[pa.RecordBatch, float], None, None]:
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


class DatasetTable(TableFile):
    """A ``pyarrow.dataset``: a folder of Parquet files, or any other. Errors name the file that a row is in."""

    def __init__(self, dataset: Any, path: Path | str) -> None:
        super().__init__(path)
        self._dataset = dataset
        self.columns = list(dataset.schema.names)
        self.index_columns = pandas_index_of(dataset.schema)
        self._file, self._rows_before_file = "", 0
        self._check_names()

    def kind(self, column: str) -> str:
        """Return ``"number"`` or ``"text"``; raise for dates and nested values."""
        return _kind_of(self._dataset.schema.field(column), self.path)

    def dictionary(self, column: str) -> str | None:
        """Return whether the type of a column declares its categories."""
        return _dictionary_of(column, self._dataset.schema)

    def read_whole(self) -> pa.Table:
        """Return the table in memory."""
        with self._errors():
            return self._dataset.to_table()

    def _contents(self, columns: list[str]) -> Generator[tuple[pa.RecordBatch, float], None, None]:
        import pyarrow.dataset as ds

        given: dict[str, Any] = {}
        if isinstance(getattr(self._dataset, "format", None), ds.ParquetFileFormat):
            # As for a single file: row groups are read in pieces, however large.
            pieces = ds.ParquetFragmentScanOptions(use_buffered_stream=True, buffer_size=1 << 20, pre_buffer=False)
            given = {"fragment_scan_options": pieces}
        rows = max(1, BATCH_BYTES // (8 * max(1, len(columns))))
        scanner = self._dataset.scanner(
            columns=columns, batch_size=rows, batch_readahead=2, fragment_readahead=1, **given
        )
        done, total, self._file = 0, max(1, self._dataset.count_rows()), ""
        for tagged in scanner.scan_batches():
            file = str(getattr(tagged.fragment, "path", self.path))
            if file != self._file:
                self._file, self._rows_before_file = file, done
            done += tagged.record_batch.num_rows
            yield tagged.record_batch.select(columns), done / total

    def _batch(self, rows_before: int, content: pa.RecordBatch) -> Batch:
        return Batch(self._file, rows_before - self._rows_before_file + 1, content)

    def _explained(self, message: str) -> str:
        return f"{message} (in {self._file})" if self._file else message


def _folder(path: Path) -> DatasetTable:
    """Open a folder of Parquet files, ``year=2025`` and the like included, that need not all have the same columns."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    files = sorted(file for ending in PARQUET for file in path.rglob(f"*{ending}"))
    files = [file for file in files if not any(part[0] in "._" for part in file.relative_to(path).parts)]
    if not files:
        raise DataError(f"{path} is a folder without Parquet files, which end in {' or '.join(PARQUET)}")
    ParquetTable(files[0])  # raises if it is no Parquet file
    names: list[Any] = [str(file) for file in files]
    given: dict[str, Any] = {"format": "parquet", "partitioning": "hive", "partition_base_dir": str(path)}
    dataset = ds.dataset(names, **given)
    schema, within = dataset.schema, Counter[str]()
    for file, fragment in zip(files, dataset.get_fragments(), strict=True):
        try:
            own = fragment.physical_schema
            schema = pa.unify_schemas([schema, own], promote_options="permissive")
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{file} cannot be read with the other files of {path}: {error}") from None
        within.update(own.names)
        # Arrow would read the name of the folder in place of the column.
        for name in set(own.names) & set(ds.get_partition_keys(fragment.partition_expression)):
            raise DataError(f"{file} has a column {name!r}, and its folder is called {name}=…; rename one of them")
    partly = [f"{name!r} ({n} of {len(files)})" for name, n in within.items() if n < len(files)]
    if partly:
        logger.warning("%s: missing where a file lacks them: %s", path, ", ".join(partly))
    return DatasetTable(ds.dataset(names, schema=schema, **given), path)


def _kind_of(field: pa.Field, path: Path | str) -> str:
    """Return whether a column holds numbers or text; raise for dates and nested values."""
    import pyarrow.types as types

    kind = field.type
    if types.is_dictionary(kind) or is_text(kind):
        return "text"
    numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    if any(is_one(kind) for is_one in numeric):
        return "number"
    raise DataError(f"{path}: column {field.name!r} is of type {kind}, neither number nor text")


def _dictionary_of(column: str, schema: pa.Schema) -> str | None:
    import pyarrow.types as types

    kind = schema.field(column).type
    if not types.is_dictionary(kind):
        return None
    if kind.ordered:
        return "ordered"
    return "categories" if column in pandas_categories_of(schema) else None


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
        with Path(self.path).open("rb") as file, ExitStack() as stack:
            zipped = str(self.path).lower().endswith(".gz")
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

    def _contents(self, columns: list[str]) -> Generator[tuple[pa.RecordBatch, float], None, None]:
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
                        f"has {row.actual_columns}"
                    ) from None
                if "Empty CSV file" in str(error):
                    return
                raise
            if content.n_quotes % 2:
                raise DataError(
                    f"{self.path} has an odd number of double quotes: a quoted field is not closed, and the rows after "
                    "it were swallowed. A quote within a field must be doubled, and the field quoted"
                )

    def _batch(self, rows_before: int, content: pa.RecordBatch) -> Batch:
        return CsvBatch(self.path, rows_before + 1, content)

    def _explained(self, message: str) -> str:
        if "straddling object" in message:
            return f"a row is longer than {BATCH_BYTES:,} bytes; is a quoted field not closed?"
        return message


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
