"""Files that are written whole or not at all: to a new file beside the target, to the disk, then ``os.replace``.

If something fails, the new file is removed. Only a process that is killed leaves one behind, under a hidden name.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

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
    with _naming(path, temporary):
        before = _permissions(path)
        # The system takes the umask off the rights of a new file. What replaces a file must never be open to more.
        rights = 0o666 if before is None else 0o600
        try:
            with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, rights)) as out:
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
    temporary = folder / _hidden_name()
    is_new = not folder.exists()
    try:
        with _naming(folder, temporary):
            folder.mkdir(exist_ok=True)
            temporary.mkdir(0o700)
            yield temporary
            for file in sorted(temporary.iterdir()):
                before = _permissions(folder / file.name)
                if before is not None:
                    file.chmod(before)
                os.replace(file, folder / file.name)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        if is_new:
            with suppress(OSError):  # some files may have been moved
                folder.rmdir()
        raise
    shutil.rmtree(temporary, ignore_errors=True)


def _hidden_name() -> str:
    """Return a new name; it is short, because the name of the target may be as long as the system allows."""
    return f".pucboost-{secrets.token_hex(8)}.unfinished"


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
