"""Files and folders that are being written, and what is left of them if the process was killed.

They lie beside what they will replace, under names of their own, and are locked while they are written. A lock ends
with its process, so whoever writes to the same place next can tell what was left behind, and removes it.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, which does not remove files that are open
    fcntl = None

_BINARY: int = getattr(os, "O_BINARY", 0)  # Windows only
_ENDING = ".unfinished"


def unfinished_name(name: str) -> str:
    """Return a new name for a file that will be called ``name``; it is short, however long that is."""
    return f"{_stem(name)}{secrets.token_hex(8)}{_ENDING}"


def finished_name(name: str | Path, path: Path) -> str | None:
    """Return what an unfinished file, or one in an unfinished folder, will be called; None for any other file.

    Parameters
    ----------
    name
        Of the file.
    path
        What is being written.
    """
    file = Path(name)
    if file.name.endswith(_ENDING):
        return str(path)
    return str(path / file.name) if file.parent.name.endswith(_ENDING) else None


def _stem(name: str) -> str:
    return f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}."


def new_file(path: Path, mode: int) -> tuple[int, Path]:
    """Return the handle and the path of a new, empty, locked file beside ``path``."""
    while True:
        temporary = path.with_name(unfinished_name(path.name))
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _BINARY, mode)
        if _locked(handle, temporary):
            return handle, temporary


def _locked(handle: int, path: Path) -> bool:
    """Lock what was just made; close it and return False if somebody took it for a leftover before."""
    if fcntl is None:
        return True
    ours = False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours = path.stat().st_ino == os.fstat(handle).st_ino
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:  # the file system knows no locks: nobody will take it for a leftover
        ours = True
    finally:
        if not ours:
            os.close(handle)
    return ours


@contextmanager
def kept_locked(handle: int) -> Iterator[None]:
    """Hold the lock of a file until it has its name: closing the handle itself would end it."""
    try:
        lock = None if fcntl is None else os.dup(handle)
    except BaseException:
        os.close(handle)
        raise
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a new, empty, locked folder inside ``folder``; it is gone in the end."""
    temporary, lock = _made(folder)
    try:
        yield temporary
    finally:
        try:
            with suppress(OSError):
                shutil.rmtree(temporary, ignore_errors=True)
        finally:
            if lock is not None:
                os.close(lock)


def _made(folder: Path) -> tuple[Path, int | None]:
    while True:
        temporary = folder / unfinished_name("")
        temporary.mkdir(0o700)
        if fcntl is None:
            return temporary, None
        with suppress(FileNotFoundError):
            lock = os.open(temporary, os.O_RDONLY)
            if _locked(lock, temporary):
                return temporary, lock


def remove_leftovers(folder: Path, name: str = "") -> None:
    """Remove what killed processes have left of a file called ``name``, or of what they wrote to the folder itself."""
    pattern = re.compile(re.escape(_stem(name)) + "[0-9a-f]{16}" + re.escape(_ENDING))
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if pattern.fullmatch(entry.name):
                with suppress(OSError):
                    _remove(entry)


def _remove(entry: os.DirEntry[str]) -> None:
    is_folder = entry.is_dir(follow_symlinks=False)
    if fcntl is None:
        if not is_folder:
            os.unlink(entry.path)
        return
    handle = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if it is being written
        if is_folder:
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    finally:
        os.close(handle)
