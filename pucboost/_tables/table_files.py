"""Tables that are not in memory: CSV and Parquet files, folders, ``pyarrow.dataset``, lazy frames of polars.

A :class:`TableFile` yields its rows in :class:`Block` objects, whose columns go through the same readers as those of a
DataFrame. :func:`load_table` collects all rows in one matrix. Arrow does the reading and is loaded when the first file
is opened.
"""

from __future__ import annotations

import csv
import gzip
import io
import logging
import os
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._common import Array, quoted, similar
from .columns import (
    CATEGORIES,
    Absent,
    Codes,
    Column,
    ColumnError,
    FirstValueDecides,
    Learned,
    as_numbers,
    as_text,
    first_failure,
    has_order,
    kind_of,
    native_dtype,
    pandas_categories,
    pandas_notes,
    reader_of,
    warn_of_unknown_values,
    without_missing,
)
from .files import DELIMITERS, PARQUET, DataError, check_can_be_read, ending_of, scratch_folder
from .sources import ArraySource, Categories, ColumnTypes

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa


logger = logging.getLogger("pucboost")

BATCH_BYTES = 2 << 20
"""Size of a block, and the longest possible row of a CSV file. Arrow reads up to 32 blocks ahead."""

MAX_CATEGORIES = 10_000
"""A text column with more distinct values than this probably holds names or comments."""


class Block:
    """Some rows of a table, as Arrow has read them. Rows are counted from 1, a header not included."""

    def __init__(self, path: Path | str, first_row: int, content: pa.RecordBatch) -> None:
        self.path, self.first_row, self._content = path, first_row, content

    def __len__(self) -> int:
        return int(self._content.num_rows)

    def where(self, index: int, column: str) -> str:
        return f"{self.path}, row {self.first_row + index}, column {column!r}"

    def as_stored(self, column: str) -> pa.Array:
        return self._content.column(column)

    @cached_property
    def _frame(self) -> nw.DataFrame[Any]:
        """All columns for their readers; one by one, they would take narwhals longer than the readers."""
        import narwhals as nw
        import pyarrow as pa

        columns = {name: self._readable(name) for name in self._content.schema.names}
        return nw.from_native(pa.table(columns), eager_only=True)

    def _readable(self, column: str) -> pa.Array:
        return self.as_stored(column)

    def text(self, column: str) -> pa.Array:
        """Return a column as strings, null where it is missing."""
        return as_text(self._frame.get_column(column))

    def numbers(self, column: str, advice: str = "") -> Array:
        """Return a column as float64, NaN where it is missing; ``advice`` ends the error about any other value."""
        with self._cells(advice):
            return as_numbers(column, self._frame.get_column(column)).astype(np.float64, copy=False)

    def matrix(self, readers: Sequence[Column]) -> Array:
        out = np.empty((len(self), len(readers)))
        for j, reader in enumerate(readers):
            with self._cells(reader.advice):
                absent = isinstance(reader, Absent)
                out[:, j] = np.nan if absent else reader.encode(self._frame.get_column(reader.name))
        return out

    @contextmanager
    def _cells(self, advice: str) -> Iterator[None]:
        """Add the name of the file, and that of the cell if one is at fault, to errors of readers."""
        try:
            yield
        except ColumnError as error:
            where = self.path if error.row is None else self.where(error.row, error.column)
            raise DataError(f"{where}: {error}{advice}") from None


class TableFile:
    """A table that is not in memory: its column names, and its rows in blocks; errors name its ``path``."""

    columns: list[str]
    index_columns: frozenset[str] = frozenset()
    """Those of the columns that are the index of a pandas table."""

    def __init__(self, path: Path | str) -> None:
        self.path = path

    def kind(self, column: str) -> str | None:
        """Return what the type of a column tells (:func:`kind_of`), None if only values can; raise for dates etc."""
        return None

    def learn(self, column: str, *, reads_text: bool = False, advice: str = "") -> Learned:
        """Return how to read a column of a training table (see :class:`Learned`)."""
        reader = Learned if reads_text else FirstValueDecides
        return reader(column, max_categories=MAX_CATEGORIES, advice=advice)

    def read_whole(self) -> Any:
        raise NotImplementedError

    def blocks(
        self, columns: Sequence[str], report: Callable[[float], None] = lambda share: None
    ) -> Generator[Block, None, None]:
        """Yield all rows; raise if there are none. ``report`` is called with the share of the file read so far.

        A caller that may stop half-way closes the generator (``contextlib.closing``), and with it the file: an error
        that is kept somewhere would keep it open.
        """
        n_rows = 0
        with self._errors(), closing(self._contents(list(dict.fromkeys(columns)))) as contents:
            for content, share in contents:
                if content.num_rows:
                    yield self._block(n_rows, content)
                    n_rows += content.num_rows
                    report(share)
        if n_rows == 0:
            raise DataError(f"{self.path} has columns, but no rows")

    def _contents(self, columns: list[str]) -> Generator[tuple[pa.RecordBatch, float], None, None]:
        raise NotImplementedError

    def _block(self, rows_before: int, content: pa.RecordBatch) -> Block:
        return Block(self.path, rows_before + 1, content)

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


class _TypedTable(TableFile):
    """A table whose columns have types."""

    def __init__(self, path: Path | str, columns: Sequence[str], types: Any, schema: Any = None) -> None:
        """``types`` is a table without rows, ``schema`` that of Arrow, if there is one."""
        super().__init__(path)
        self.columns = list(columns)
        self.index_columns = frozenset(name for name in pandas_notes(schema, "index_columns") if isinstance(name, str))
        self._check_names()
        import narwhals as nw

        self._types = nw.from_native(types, eager_only=True)
        self._from_pandas = pandas_categories(schema)

    def kind(self, column: str) -> str:
        try:
            return kind_of(column, self._types.get_column(column))
        except ColumnError as error:
            raise DataError(f"{self.path}: {error}") from None

    def learn(self, column: str, *, reads_text: bool = False, advice: str = "") -> Learned:
        self.kind(column)
        series = self._types.get_column(column)
        ordered = has_order(series)
        # As in Arrow tables in memory, dictionaries without an order declare something only if pandas wrote them.
        declares = ordered or (column in self._from_pandas and hasattr(native_dtype(series), "value_type"))
        return Learned(
            column,
            declares=declares and not reads_text,
            ordered=ordered,
            reads_text=reads_text,
            max_categories=MAX_CATEGORIES,
            advice=advice,
        )


class ParquetTable(_TypedTable):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.path = path
        with self._errors(), pq.ParquetFile(path) as file:
            schema = file.schema_arrow
        super().__init__(path, schema.names, schema.empty_table(), schema)

    def read_whole(self) -> Any:
        import pyarrow.parquet as pq

        with self._errors(), pq.ParquetFile(self.path) as file:
            return file.read()

    def _contents(self, columns: list[str]) -> Generator[tuple[pa.RecordBatch, float], None, None]:
        import pyarrow.parquet as pq

        # With a buffer, row groups are read in pieces, however large.
        with pq.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False) as file:
            done, total = 0, max(1, file.metadata.num_rows)
            for batch in file.iter_batches(_rows_per_block(columns), columns=columns):
                done += batch.num_rows
                # Arrow takes "a" for "a and everything nested in it", which includes a column "a.b".
                yield batch.select(columns), done / total

    def _explained(self, message: str) -> str:
        return f"not a Parquet file, or a damaged one ({message})"


def _rows_per_block(columns: list[str]) -> int:
    return max(1, BATCH_BYTES // (8 * max(1, len(columns))))


class DatasetTable(_TypedTable):
    """A ``pyarrow.dataset``: a folder of Parquet files, or any other. Errors name the file that a row is in."""

    def __init__(self, dataset: Any, path: Path | str) -> None:
        super().__init__(path, dataset.schema.names, dataset.schema.empty_table(), dataset.schema)
        self._dataset = dataset
        self._file, self._rows_before_file = "", 0

    def read_whole(self) -> Any:
        with self._errors():
            return self._dataset.to_table()

    def _contents(self, columns: list[str]) -> Generator[tuple[pa.RecordBatch, float], None, None]:
        import pyarrow.dataset as ds

        given: dict[str, Any] = {}
        if isinstance(getattr(self._dataset, "format", None), ds.ParquetFileFormat):
            # As for a single file: row groups are read in pieces, however large.
            pieces = ds.ParquetFragmentScanOptions(use_buffered_stream=True, buffer_size=1 << 20, pre_buffer=False)
            given = {"fragment_scan_options": pieces}
        size = _rows_per_block(columns)
        scanner = self._dataset.scanner(
            columns=columns, batch_size=size, batch_readahead=2, fragment_readahead=1, **given
        )
        done, total, self._file = 0, max(1, self._dataset.count_rows()), ""
        for tagged in scanner.scan_batches():
            file = str(getattr(tagged.fragment, "path", self.path))
            if file != self._file:
                self._file, self._rows_before_file = file, done
            done += tagged.record_batch.num_rows
            yield tagged.record_batch.select(columns), done / total

    def _block(self, rows_before: int, content: pa.RecordBatch) -> Block:
        return Block(self._file, rows_before - self._rows_before_file + 1, content)

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
        start = content.read(BATCH_BYTES)  # a small compressed file may hold a line larger than memory
        text = io.TextIOWrapper(io.BytesIO(start), "utf-8-sig", "surrogateescape", newline="")
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
        if len(start) == BATCH_BYTES and not last.endswith(("\n", "\r")):
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
                    # With one thread Arrow reports the number of a bad row, and is just as fast.
                    pa_csv.ReadOptions(use_threads=False, block_size=BATCH_BYTES),
                    pa_csv.ParseOptions(
                        delimiter=self._delimiter,
                        newlines_in_values=True,
                        # In a table of one column an empty line is a missing value.
                        ignore_empty_lines=len(self.columns) > 1,
                        invalid_row_handler=remember,
                    ),
                    # As bytes: Arrow would fix types by the first block, and kept columns must stay as they are.
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
            if content.n_quotes % 2:  # Arrow reads an unclosed quote to the end of the file without complaint
                raise DataError(
                    f"{self.path} has an odd number of double quotes: a quoted field is not closed, and the rows after "
                    "it were swallowed. A quote within a field must be doubled, and the field quoted"
                )

    def _block(self, rows_before: int, content: pa.RecordBatch) -> Block:
        return _CsvBlock(self.path, rows_before + 1, content)

    def _explained(self, message: str) -> str:
        if "straddling object" in message:
            return f"a row is longer than {BATCH_BYTES:,} bytes; is a quoted field not closed?"
        return message


class _CsvBlock(Block):
    """Some rows of a CSV file, which Arrow has read as bytes."""

    def as_stored(self, column: str) -> pa.Array:
        """Return a column as strings, null where the field is empty."""
        import pyarrow as pa
        import pyarrow.compute as pc

        text = self._text(column)
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)

    def _readable(self, column: str) -> pa.Array:
        return without_missing(self._text(column))

    def _text(self, column: str) -> pa.Array:
        import pyarrow as pa

        raw = self._content.column(column)
        try:
            return raw.cast(pa.string())
        except pa.ArrowInvalid:
            bad = first_failure(raw, lambda part: part.cast(pa.string()))
            raise DataError(
                f"{self.where(bad, column)}: {quoted(raw[bad].as_py())} is not UTF-8. Convert the file, for example "
                "with iconv -f latin1 -t utf-8"
            ) from None


class _Watched(io.RawIOBase):
    """A stream that counts double quotes, and measures how much of the underlying file has been read."""

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


class LazyTable(_TypedTable):
    """A lazy frame of polars. Polars runs the query piece by piece, into a temporary Parquet file."""

    def __init__(self, frame: Any) -> None:
        types = frame.collect_schema().to_frame()
        super().__init__("the LazyFrame", types.columns, types)
        self._frame = frame
        for column in self.columns:
            self.kind(column)

    def read_whole(self) -> Any:
        return self._frame.collect()

    def _contents(self, columns: list[str]) -> Generator[tuple[pa.RecordBatch, float], None, None]:
        with scratch_folder() as folder:
            file = folder / "query.parquet"
            file.touch(0o600)
            self._frame.select(columns).sink_parquet(file)
            yield from ParquetTable(file)._contents(columns)


def check_columns(file: TableFile, wanted: Iterable[str | None], option: str) -> None:
    """Raise for the first column that a file does not have, and suggest which one may be meant; None is skipped."""
    for column in wanted:
        if column is not None and column not in file.columns:
            raise DataError(f"{file.path} has no column {column!r} ({option}){similar(column, file.columns)}")


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
    return stored_table(data).read_whole()


@dataclass(frozen=True)
class LoadedTable:
    """The content of a table file, as numbers."""

    source: ArraySource
    columns: list[Column]
    """How each column was read; another file read by them gets the same codes."""
    vectors: dict[str, Array]
    """What else belongs to each row, by its role: label, weight, …"""

    @property
    def label(self) -> Array:
        return self.vectors["label"]

    @property
    def weight(self) -> Array | None:
        return self.vectors.get("weight")

    @property
    def exposure(self) -> Array | None:
        return self.vectors.get("exposure")


def load_table(
    file: TableFile,
    columns: Sequence[Column],
    roles: Mapping[str, str | None],
    report: Callable[[float], None] = lambda share: None,
) -> LoadedTable:
    """Read the features of everybody in a file, and what else belongs to a row; the matrix may be larger than memory.

    The file is read once. ``columns`` are the readers of the features, ``roles`` the columns that are label, weight,
    exposure or init_score. ``report`` is called with the share of the file read so far.
    """
    rows = GrowingMatrix(len(columns))
    further = {role: column for role, column in roles.items() if column is not None}
    parts: dict[str, list[Array]] = {role: [] for role in further}
    wanted = [column.name for column in columns if not isinstance(column, Absent)]
    with closing(file.blocks([*wanted, *further.values()], report)) as blocks:
        for block in blocks:
            rows.append(block.matrix(columns))
            for role, column in further.items():
                parts[role].append(_role(block, column, role))
    matrix = rows.matrix()
    _recode(matrix, columns)
    settled = [column.settled() if isinstance(column, Learned) else column for column in columns]
    return LoadedTable(
        source=ArraySource(matrix, _column_types(settled)),
        columns=settled,
        vectors={role: np.concatenate(some) for role, some in parts.items()},
    )


_ROLES: dict[str, tuple[str, Callable[[Array], Array], str]] = {
    "label": (
        "Labels must be numbers: encode the outcome, for example as 0 and 1",
        np.isfinite,
        "a label that is a finite number",
    ),
    "weight": (
        "Weights must be numbers",
        lambda values: np.isfinite(values) & (values >= 0),
        "a weight that is finite and not negative",
    ),
    "exposure": (
        "Exposures must be numbers",
        lambda values: np.isfinite(values) & (values > 0),
        "an exposure that is finite and above 0",
    ),
    "init_score": ("Initial scores must be numbers", np.isfinite, "an initial score that is finite"),
}
"""For each role: the end of the error about text, which numbers are valid, the end of the error about others."""


def _role(block: Block, column: str, role: str) -> Array:
    """Return label, weight, exposure or initial score of each row, checked."""
    advice, is_valid, expected = _ROLES[role]
    values = block.numbers(column, f". {advice}")
    bad = np.flatnonzero(~is_valid(values))
    if len(bad):
        found = "missing" if np.isnan(values[bad[0]]) else f"{values[bad[0]]:g}"
        raise DataError(f"{block.where(int(bad[0]), column)}: the value is {found}; every row needs {expected}")
    return values


def _recode(matrix: Array, columns: Sequence[Column]) -> None:
    """Replace codes in order of appearance by final ones."""
    orders = {j: column.order() for j, column in enumerate(columns) if isinstance(column, Learned)}
    changed = {j: order for j, order in orders.items() if (order != np.arange(len(order))).any()}
    step = 1 << 16
    for lo in range(0, len(matrix) if changed else 0, step):
        for j, order in changed.items():
            codes = matrix[lo : lo + step, j]
            given = ~np.isnan(codes)
            codes[given] = order[codes[given].astype(np.int64)]


def _column_types(columns: Sequence[Column]) -> ColumnTypes:
    """Return column types that declare category columns as LightGBM and XGBoost expect them from DataFrames."""
    coded = {j: column for j, column in enumerate(columns) if isinstance(column, Codes)}
    categorical = tuple(j for j, column in coded.items() if not column.ordered)
    return ColumnTypes(
        names=tuple(column.name for column in columns),
        coded=tuple(coded),
        categorical=categorical,
        never_numbers=categorical,
        pandas_categorical=[column.categories for column in coded.values()],
    )


def load_as_trained(
    file: TableFile, names: Sequence[str], categories: Categories | None, roles: Mapping[str, str]
) -> LoadedTable:
    """Read the columns of a training table from another one with types; those that it lacks are missing.

    ``names`` and ``categories`` are those of the training table, ``roles`` as in :func:`load_table`.
    """
    kinds = {j: file.kind(name) for j, name in enumerate(names) if name in file.columns}
    coded = [j for j, kind in kinds.items() if kind == CATEGORIES]
    lists = {} if categories is None else categories.by_column(coded)
    columns = [
        reader_of(name, str(kinds[j]), lists.get(j)) if j in kinds else Absent(name) for j, name in enumerate(names)
    ]
    table = load_table(file, columns, roles)
    for column in columns:
        if isinstance(column, Codes) and column.n_unknown:
            warn_of_unknown_values(column)
    return table


# A matrix that grows row by row and may become larger than memory -----------------------------------------------------


MEMORY_BYTES = 64 << 20
"""A larger matrix is kept in a temporary file."""

_COPIED_VALUES = 1 << 20
"""How many values are copied at a time when the numbers turn out to need more bytes."""


class GrowingMatrix:
    """Rows of numbers as they arrive: in memory while there are few, then in a temporary file without a name.

    A table in a file becomes one matrix, not a stream of rows: plan, bins and the sketch of people need rows at random,
    XGBoost reads all rows four times, and decoding Parquet costs more than reading a matrix that is mapped into memory.

    Numbers are kept as float32 as long as every one of them is the same in float32 as in float64, as category codes
    are, whole numbers up to 2²⁴, and whatever was float32 in a file. The first one that would be rounded makes the
    matrix float64 for good. So a table takes half the room where its values allow it, and never loses a digit. Types
    would not tell: integers and floats of pandas are 64 bits wide whatever they hold.
    """

    def __init__(self, n_columns: int) -> None:
        self._n_rows, self._n_columns = 0, n_columns
        self._dtype: np.dtype[Any] = np.dtype(np.float32)
        self._blocks: list[Array] = []
        self._file: Any = None

    def append(self, block: Array) -> None:
        """Add rows of float64 at the end."""
        narrow = _as_float32(block) if self._dtype == np.float32 else None
        if narrow is None and self._dtype == np.float32:
            self._widen()
        self._n_rows += len(block)
        self._blocks.append(block if narrow is None else narrow)
        if self._file is None and self._n_rows * self._n_columns * self._dtype.itemsize > MEMORY_BYTES:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
        if self._file is not None:
            _write(self._file, self._blocks)
            self._blocks = []

    def matrix(self) -> Array:
        """Return all rows; a temporary file is mapped into memory."""
        if self._file is None:
            return np.concatenate(self._blocks)
        self._file.flush()
        mapped = np.memmap(self._file, self._dtype, "r+", shape=(self._n_rows, self._n_columns))
        self._file.close()  # the mapping keeps the file alive, and takes it along when it goes
        return np.asarray(mapped)

    def _widen(self) -> None:
        self._dtype = np.dtype(np.float64)
        self._blocks = [block.astype(np.float64) for block in self._blocks]
        if self._file is None:
            return
        with self._file as narrow:
            narrow.seek(0)
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
            parts = iter(lambda: narrow.read(4 * _COPIED_VALUES), b"")
            _write(self._file, (np.frombuffer(part, np.float32).astype(np.float64) for part in parts))


def _as_float32(block: Array) -> Array | None:
    """Return a block as float32; None if a number would be rounded."""
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and so another number
        narrow = block.astype(np.float32)
    same = (narrow == block) | np.isnan(block)
    return narrow if bool(same.all()) else None


def _write(file: Any, blocks: Any) -> None:
    try:
        for block in blocks:
            file.write(block.data)
    except OSError as error:
        raise DataError(
            f"the table does not fit into {tempfile.gettempdir()} ({error.strerror}); set TMPDIR to a directory with "
            "more room"
        ) from None
