"""Files that are written whole or not at all: their permissions, and when they get their name."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from pucboost._tables.files import folder_written_whole, write_whole

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o666])
def test_permissions_of_a_replaced_file_stay(tmp_path: Path, mode: int) -> None:
    file, link = tmp_path / "a.csv", tmp_path / "link.csv"
    file.write_bytes(b"old")
    file.chmod(mode)
    link.symlink_to(file)
    for path in (file, link):
        write_whole(path, b"new")
        assert (file.read_bytes(), permissions(file)) == (b"new", mode)
    assert link.is_symlink()


@posix
def test_files_of_a_folder_keep_their_permissions(tmp_path: Path) -> None:
    (tmp_path / "a.html").touch(0o600)
    with folder_written_whole(tmp_path) as folder:
        (folder / "a.html").write_bytes(b"new")
    assert permissions(tmp_path / "a.html") == 0o600


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


@pytest.mark.parametrize(("error", "is_written"), [(errno.EINVAL, True), (errno.ENOSPC, False), (errno.EIO, False)])
def test_errors_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, is_written: bool) -> None:
    (tmp_path / "a.csv").write_bytes(b"old")

    def failing(handle: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fsync", failing)
    if is_written:  # the file system does not know fsync
        write_whole(tmp_path / "a.csv", b"new")
    else:
        with pytest.raises(OSError, match=os.strerror(error)):
            write_whole(tmp_path / "a.csv", b"new")
    assert (tmp_path / "a.csv").read_bytes() == (b"new" if is_written else b"old")
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]
