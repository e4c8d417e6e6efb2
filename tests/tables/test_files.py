"""Files are written whole or not at all: every step of writing fails once, and permissions stay."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from tools import QUIET, make_table

import pucboost as puc
from pucboost._tables import files
from pucboost._tables.files import check_can_be_written, folder_written_whole, scratch_folder, table_writer, write_whole

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")

STEPS = ("open", "fsync", "chmod", "replace", "mkdir", "stat")
"""Functions of the system that writing a file calls."""
FAULTS: dict[str, Callable[[], BaseException]] = {
    "no space": lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    "permission": lambda: PermissionError(errno.EACCES, os.strerror(errno.EACCES)),
    "interrupted": KeyboardInterrupt,
    "no memory": MemoryError,
}


_OPEN, _RMTREE = os.open, shutil.rmtree


class Faults:
    """Counts steps, and fails at one of them: before it is done or, as a signal does, just after.

    Only steps of the thread that writes count. Others call the system, too: a cluster of Dask looks at its disks twice
    a second, keeps an interrupt that ends its loop, and raises it when it is closed, after the very last test.
    """

    def __init__(self, at: int, fault: Callable[[], BaseException], late: bool) -> None:
        self.at, self.fault, self.late, self.n = at, fault, late, 0
        self.writer = threading.current_thread()
        self.reached: set[str] = set()

    def step(self, do: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not self.writer:
                return do(*args, **kwargs)
            self.reached.add(do.__name__)
            self.n += 1
            if self.n != self.at:
                return do(*args, **kwargs)
            if self.late:
                made = do(*args, **kwargs)
                if do is _OPEN:
                    os.close(made)
            raise self.fault()

        return stepped

    def opened(self, *args: Any, **kwargs: Any) -> Any:
        return _Failing(open(*args, **kwargs), self)  # noqa: PTH123  (Path.open has no opener)

    def cleaned_up(self, *args: Any, **kwargs: Any) -> None:
        """Remove a folder without failing: whoever is stopped while cleaning up may leave something."""
        self.at = 0
        _RMTREE(*args, **kwargs)


class _Failing:
    """A file whose writes and flushes are steps, and its closing, which ends it even if it fails."""

    def __init__(self, inner: Any, faults: Faults) -> None:
        self._inner = inner
        self.fileno, self.tell = inner.fileno, inner.tell
        self.write, self.flush = faults.step(inner.write), faults.step(inner.flush)
        self._closing = faults.step(lambda: None)

    def close(self) -> None:
        self._inner.close()
        self._closing()

    @property
    def closed(self) -> bool:
        return bool(self._inner.closed)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def failing(at: int, fault: str, late: bool) -> Iterator[Faults]:
    faults = Faults(at, FAULTS[fault], late)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "open", faults.opened, raising=False)
        patch.setattr(shutil, "rmtree", faults.cleaned_up)
        patch.setattr(os, "fsync", lambda handle: None)  # slow
        for name in STEPS:
            patch.setattr(os, name, faults.step(getattr(os, name)))
        yield faults


@cache
def booster(engine: str) -> Any:
    X, y = make_table(200)
    return puc.train({"optional": [4], "objective": "binary", "engine": engine, **QUIET}, puc.Dataset(X, y), 2)


def write_table(path: Path) -> None:
    with table_writer(path) as write:
        for i in range(3):
            write({"a": np.arange(5.0) + i})


def write_folder(path: Path) -> None:
    with folder_written_whole(path.parent) as folder:
        (folder / path.name).write_bytes(b"new")


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "bytes": ("a.bin", lambda path: write_whole(path, b"new" * 1000)),
    "csv": ("a.csv", write_table),
    "gzip": ("a.csv.gz", write_table),
    "parquet": ("a.parquet", write_table),
    "lightgbm": ("a.txt", lambda path: puc.save_model(booster("lightgbm"), path)),
    "xgboost": ("a.ubj", lambda path: puc.save_model(booster("xgboost"), path)),
    "folder": ("a.html", write_folder),
}


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("what", WRITERS)
def test_old_survives_or_new_is_whole(
    what: str, is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ROW_GROUP", 5)
    name, write = WRITERS[what]
    path, expected = tmp_path / name, tmp_path / "expected" / name
    expected.parent.mkdir()
    write(expected)
    whole = expected.read_bytes()
    if is_there:
        path.write_bytes(b"old")
    with failing(0, "no space", False) as faults:
        write(path)
    assert path.read_bytes() == whole
    n_steps = faults.n
    assert n_steps > 5
    other = {"mkdir"} if what != "folder" else {"open"}  # or this would prove nothing
    assert {*STEPS} - faults.reached <= other | {"fsync"} | (set() if is_there else {"chmod"})
    outcomes, named = set(), set()
    for fault in FAULTS:
        for late in (False, True):
            for at in range(1, n_steps + 1):
                path.unlink(missing_ok=True)
                if is_there:
                    path.write_bytes(b"old")
                stopped = False
                try:
                    with failing(at, fault, late):
                        write(path)
                except (OSError, KeyboardInterrupt, MemoryError) as error:
                    stopped = True
                    if fault == "no space" and what != "folder":
                        named.add(error.filename)  # type: ignore[union-attr]
                case = (fault, late, at)
                found = path.read_bytes() if path.exists() else None
                assert found in (whole, b"old" if is_there else None), case
                assert stopped or found == whole, case
                outcomes.add((stopped, found == whole))
                left = {file.name for file in tmp_path.iterdir()} - {name, "expected"}
                assert not left, case
    assert (True, False) in outcomes
    assert (True, True) in outcomes  # a signal just after the renaming
    assert named == ({str(path)} if what != "folder" else set())  # errors of a full disk


def test_errors_about_other_files_keep_their_names(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="input"), table_writer(tmp_path / "a.csv"):
        (tmp_path / "input.csv").read_bytes()
    with pytest.raises(IsADirectoryError) as raised:
        write_whole(tmp_path, b"")
    assert raised.value.filename == str(tmp_path)


KILLED = """
import sys
from pathlib import Path
from pucboost._tables.files import folder_written_whole, written_whole
place = Path(sys.argv[1])
with written_whole(place / "a.csv") as out, folder_written_whole(place) as folder:
    out.write(b"half")
    out.flush()
    (folder / "a.html").write_bytes(b"half")
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_a_killed_process_leaves_nothing_half_written_under_a_name_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"old")
    root = Path(__file__).parents[2]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    writing: Any = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], cwd=root, **pipes)
    assert writing.stdout.readline() == "writing\n"
    writing.kill()
    writing.communicate()
    assert (tmp_path / "a.csv").read_bytes() == b"old"
    assert not (tmp_path / "a.html").exists()
    assert len(list(tmp_path.iterdir())) == 3  # what was begun, under hidden names
    write_whole(tmp_path / "a.csv", b"new")
    write_folder(tmp_path / "a.html")
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", "a.html"}
    assert ((tmp_path / "a.csv").read_bytes(), (tmp_path / "a.html").read_bytes()) == (b"new", b"new")


@posix
def test_sigterm_removes_what_was_begun(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    writing: Any = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], cwd=root, **pipes)
    assert writing.stdout.readline() == "writing\n"
    writing.terminate()
    writing.communicate()
    assert writing.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


@posix
def test_a_handler_of_somebody_else_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with files.ended_by_sigterm():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with files.ended_by_sigterm():
            assert callable(signal.getsignal(signal.SIGTERM))
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


@posix
def test_only_what_is_abandoned_is_removed(tmp_path: Path) -> None:
    name = ".pucboost-0123456789abcde{}.unfinished"
    for place, digit in (("file", 1), ("folder", 2)):
        path = tmp_path / name.format(digit)
        path.write_bytes(b"people") if place == "file" else path.mkdir()
    others = [tmp_path / one for one in ("a.csv", ".pucboost-other.unfinished", "pucboost-0123456789abcdef")]
    for path in others:
        path.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / name.format(3)).symlink_to(outside)
    with scratch_folder(tmp_path) as mine, scratch_folder(tmp_path) as another:
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {*(path.name for path in others), "outside", name.format(3), mine.name, another.name}
        assert permissions(mine) == 0o700
        write_whole(tmp_path / "a.txt", b"new")
        assert mine.exists()
    assert not mine.exists()


@posix
def test_where_there_are_no_locks_nothing_counts_as_abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.fcntl, "flock", Mock(side_effect=OSError(errno.ENOSYS, "no locks")))
    with scratch_folder(tmp_path) as mine, scratch_folder(tmp_path):
        write_whole(tmp_path / "a.txt", b"new")
        assert mine.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_long_names(tmp_path: Path) -> None:
    longest = tmp_path / ("n" * 251 + ".csv")
    check_can_be_written(longest)
    write_whole(longest, b"new")
    assert longest.read_bytes() == b"new"
    with pytest.raises(ValueError, match=r"cannot write .*: File name too long"):
        check_can_be_written(tmp_path / ("n" * 252 + ".csv"))


# ----- permissions, and the moment when a file gets its name


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@posix
def test_permissions_of_a_replaced_file_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "a.csv", tmp_path / "link.csv"
    file.write_bytes(b"old")
    link.symlink_to(file)
    for mode in (0o600, 0o640, 0o644, 0o666):
        file.chmod(mode)
        for path in (file, link):
            write_whole(path, b"new")
            assert (file.read_bytes(), permissions(file)) == (b"new", mode)
        with folder_written_whole(tmp_path) as folder:
            (folder / "a.csv").write_bytes(b"newer")
        assert (file.read_bytes(), permissions(file)) == (b"newer", mode)
    assert link.is_symlink()


@posix
def test_new_files_have_the_usual_permissions_and_umask_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda _: pytest.fail("umask belongs to the whole process"))
        write_whole(tmp_path / "a.csv", b"new")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert permissions(tmp_path / "a.csv") == 0o640


@posix
def test_nobody_else_reads_a_private_file_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").touch(0o600)
    seen = []
    monkeypatch.setattr(os, "fsync", lambda handle: seen.append(stat.S_IMODE(os.fstat(handle).st_mode)))
    write_whole(tmp_path / "a.csv", b"new")
    assert seen == [0o600]


def test_the_content_is_on_the_disk_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []
    sync, replace = os.fsync, os.replace

    def watched_sync(handle: int) -> None:
        done.append(os.fstat(handle).st_size)
        sync(handle)

    def watched_replace(*names: Any) -> None:
        done.append("renamed")
        replace(*names)

    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(os, "replace", watched_replace)
    write_whole(tmp_path / "a.csv", b"new")
    assert done == [3, "renamed"]


def test_errors_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (errno.ENOSPC, errno.EIO):
        (tmp_path / "a.csv").write_bytes(b"old")
        monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(error, os.strerror(error))))
        with pytest.raises(OSError, match=os.strerror(error)):
            write_whole(tmp_path / "a.csv", b"new")
        assert (tmp_path / "a.csv").read_bytes() == b"old"
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.EINVAL, "the file system has no fsync")))
    write_whole(tmp_path / "a.csv", b"new")
    assert (tmp_path / "a.csv").read_bytes() == b"new"
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]
