"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .unfinished import finished_name, kept_locked, new_file, new_folder, remove_leftovers

_CANNOT_SYNC = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
"""How file systems say that they do not know fsync."""
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What only writing fails with; such errors do not name the file."""


class DataError(ValueError):
    """Something is wrong with a file; the message names the file and, if known, the row and column."""


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Write to a neighbour, then rename: whatever happens, there is never half a file under the name asked for.

    A file that is replaced hands on its permissions. Neighbours that killed processes have left behind are removed.
    """
    path = Path(os.path.realpath(path))  # a link stays one, and its target is replaced
    with _naming(path):
        before = _permissions(path)
        remove_leftovers(path.parent, path.name)
        # The system takes the umask off the rights of a new file. What replaces a file must never be open to more.
        handle, temporary = new_file(path, 0o666 if before is None else 0o600)
        try:
            with kept_locked(handle):
                with os.fdopen(handle, "wb") as out:
                    yield out
                    _to_disk(out, temporary)
                if before is not None:
                    os.chmod(temporary, before)
                os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):  # after the renaming it has gone: a signal may come late
                os.unlink(temporary)
            raise


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Make errors of writing name the file or folder that was to be written, not its neighbour."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            name = str(path) if error.errno in _DISK_IS_FULL else None
        else:
            name = finished_name(error.filename, path)
        if name is None:
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


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with written_whole(path) as out:
        out.write(content)


@contextmanager
def folder_written_whole(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to write files to; they are moved to ``folder`` when all are there, else none is.

    ``folder`` is made if it does not exist. Files of the same name are replaced, others stay.
    """
    folder = Path(os.path.realpath(folder))
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    remove_leftovers(folder)
    try:
        with _naming(folder), new_folder(folder) as temporary:
            yield temporary
            for file in sorted(temporary.iterdir()):
                before = _permissions(folder / file.name)
                if before is not None:
                    file.chmod(before)
                os.replace(file, folder / file.name)
    except BaseException:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
        raise


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
