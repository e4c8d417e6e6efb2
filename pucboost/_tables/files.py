"""Files: written whole or not at all, scratch folders, the formats of tables, and tables written block by block.

A file is written to a new one beside the target, to the disk, then ``os.replace`` names it. If something fails, the new
file is removed, and so is a scratch folder. Only a process that is killed leaves them behind, under a hidden name, and
who writes to the same folder next removes them.
"""

from __future__ import annotations

import csv
import errno
import gzip
import io
import os
import re
import secrets
import shutil
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


_CANNOT_SYNC = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
"""Raised by file systems that do not support fsync."""
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Raised by writing, without the name of the file."""


class DataError(ValueError):
    """Something is wrong with a file; the message names the file and, if known, the row and column."""


def write_whole(path: Path, content: bytes) -> None:
    with written_whole(path) as out:
        out.write(content)


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that gets its name when everything is written. It takes the permissions of the file it replaces."""
    path = Path(os.path.realpath(path))  # a link stays one, and its target is replaced
    temporary = path.parent / _hidden_name()
    remove_abandoned(path.parent)
    with _naming(path, temporary), ended_by_sigterm():
        before = _permissions(path)
        # The system takes the umask off the rights of a new file. What replaces a file must never be open to more.
        rights = 0o666 if before is None else 0o600
        try:
            with open(temporary, "xb", opener=lambda name, flags: _claimed(name, flags, rights)) as out:
                yield out
                _to_disk(out, temporary)
            if before is not None:
                os.chmod(temporary, before)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):  # a signal may come after the renaming
                os.unlink(temporary)
            raise


@contextmanager
def folder_written_whole(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to write files to; they are moved to ``folder`` when all are there, else none is.

    ``folder`` is made if it does not exist. Files of the same name are replaced, others stay.
    """
    folder = Path(os.path.realpath(folder))
    is_new = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
        with scratch_folder(folder) as temporary, _naming(folder, temporary):
            yield temporary
            for file in sorted(temporary.iterdir()):
                before = _permissions(folder / file.name)
                if before is not None:
                    file.chmod(before)
                os.replace(file, folder / file.name)
    except BaseException:
        if is_new:
            with suppress(OSError):  # some files may have been moved
                folder.rmdir()
        raise


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """Yield an empty folder that only its owner can read; at the end it goes with all that is in it.

    None stands for the system's folder of temporary files.
    """
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    remove_abandoned(parent)
    folder = parent / _hidden_name()
    with ended_by_sigterm():
        try:
            claim = _claimed(folder)
            try:
                yield folder
            finally:
                _close(claim)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _hidden_name() -> str:
    """Return a new name; it is short, because the name of the target may be as long as the system allows."""
    return f".pucboost-{secrets.token_hex(8)}.unfinished"


_UNFINISHED = re.compile(r"\.pucboost-[0-9a-f]{16}\.unfinished")


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Clean up after SIGTERM as after Ctrl-C, unless somebody else handles it."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        with suppress(ValueError):  # a generator may be closed in another thread
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


# Who writes holds a lock, which the system takes away when the process ends, however it does. Numbers of processes
# would not tell: they are given again, and containers that share a folder have the same. Where there are no locks, as
# in some shared file systems, nothing counts as abandoned.


def _claimed(path: Any, flags: int | None = None, rights: int = 0o600) -> int:
    """Make a new file, or a folder without ``flags``; return a descriptor that holds its lock until it is closed."""
    while True:
        if flags is None:
            Path(path).mkdir(0o700)
            if fcntl is None:
                return -1
        descriptor = os.open(path, os.O_RDONLY if flags is None else flags, rights)
        if fcntl is None:
            return descriptor
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if Path(path).exists():  # else somebody took it for abandoned before it was locked
            return descriptor
        os.close(descriptor)


def _close(claim: int) -> None:
    if claim >= 0:
        os.close(claim)


def remove_abandoned(folder: Path) -> None:
    """Remove what processes that were killed have left in a folder: it may be people's data."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        left = [Path(entry) for entry in entries if _UNFINISHED.fullmatch(entry.name)]
        for path in left:
            with suppress(OSError):  # somebody else's, or gone
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
                finally:
                    os.close(descriptor)


@contextmanager
def _naming(path: Path, temporary: Path) -> Iterator[None]:
    """Make errors of writing name the file or folder that was to be written."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _DISK_IS_FULL:
            name = str(path)
        elif str(temporary) in str(error.filename):
            name = str(error.filename).replace(str(temporary), str(path))
        else:
            raise
        raise OSError(error.errno, error.strerror, name) from error


def _permissions(path: Path) -> int | None:
    """Return who may do what with a file; None if there is none."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None


def _to_disk(out: IO[bytes], path: Path) -> None:
    """Wait until a file is on the disk: after a power cut, its name must not lead to an empty one."""
    out.flush()
    try:
        os.fsync(out.fileno())
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise OSError(error.errno, error.strerror, str(path)) from error


def check_can_be_read(path: Path) -> None:
    """Raise if there is something else than a file: a pipe cannot be read twice, and nobody may ever write to it."""
    if not stat.S_ISREG(path.stat().st_mode):
        what = "a directory" if path.is_dir() else "not a regular file; if it is a pipe, write its content to a file"
        raise DataError(f"cannot read {path}: it is {what}")


def check_can_be_written(path: Path, *inputs: Path) -> None:
    """Raise if a file cannot be written or is one of the inputs; call this before hours of work."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # such as a name that is too long
        raise DataError(f"cannot write {path}: {error.strerror}") from None
    if path.exists() and not path.is_file():
        raise DataError(f"cannot write {path}: it is {'a directory' if path.is_dir() else 'not a regular file'}")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise DataError(f"cannot write {path}: there is no directory {folder}")
    for other in inputs:
        if path.exists() and other.exists() and path.samefile(other):
            raise DataError(f"{path} is both read and written; choose another name for the output")
    try:  # permissions do not tell everything: the disk may be read-only
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}") from None


# Formats of table files -----------------------------------------------------------------------------------------------


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


# Table files, CSV and Parquet, written in blocks ----------------------------------------------------------------------


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
    import numpy as np
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
            options = pa_csv.WriteOptions(include_header=False, delimiter=self._delimiter, quoting_style=quotes)
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
