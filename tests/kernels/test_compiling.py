"""Kernels work whatever is wrong with numba's cache; it only saves time."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

from pucboost._kernels import compiling

ROOT = Path(__file__).parents[2]
ADVICE = "Set the environment variable NUMBA_CACHE_DIR to a folder that can be written to"


def double(values: Any) -> Any:
    return values * 2


def compiled() -> Any:
    """The same function as another process would see it."""
    return compiling.kernel(double)


def hits(function: Any) -> int:
    return sum(function.stats.cache_hits.values())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))
    compiling._say_once.cache_clear()
    return folder


def test_another_process_finds_what_was_compiled(cache: Path) -> None:
    first, second = compiled(), compiled()
    assert (first(3), second(3)) == (6, 6)
    assert (hits(first), hits(second)) == (0, 1)
    assert Path(second.stats.cache_path).parent == cache
    assert compiling.cache_folder().parent == cache


def test_damaged_files_are_replaced(cache: Path) -> None:
    damages: list[Callable[[bytes], bytes]] = [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: bytes(range(256)),
        lambda content: content[: (half := len(content) // 2)] + bytes([content[half] ^ 1]) + content[half + 1 :],
    ]
    for damage in damages:
        for ending in ("nbi", "nbc"):
            shutil.rmtree(cache, ignore_errors=True)
            compiled()(3)
            (file,) = cache.rglob(f"*.{ending}")
            file.write_bytes(damage(file.read_bytes()))
            second, third = compiled(), compiled()
            assert (second(3), third(3)) == (6, 6)
            assert (hits(second), hits(third)) == (0, 1)


def test_code_for_other_types_is_not_run(cache: Path) -> None:
    """Two processes may give the same name to their files; then the index leads to code for other types."""
    for value in (np.ones(2, np.float32), np.ones(2, np.float64)):
        compiled()(value)
    one, two = sorted(cache.rglob("*.nbc"))
    shutil.copy(one, two)
    assert compiled()(np.array([1.5, 2.5])).tolist() == [3.0, 5.0]


def test_processes_that_compile_at_once(cache: Path) -> None:
    code = (
        "import numpy as np\n"
        "from pucboost._kernels.masks import count_shared\n"
        "for kind in (np.int64, np.int32, np.uint8)[::STEP]:\n"
        "    out = np.zeros(3, kind)\n"
        "    count_shared(np.array([0, 1, 7], np.uint64), 0, 3, out)\n"
        "    assert out.tolist() == [0, 1, 3], out\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen([sys.executable, "-c", code.replace("STEP", step)], env=environment) for step in ("1", "-1")
    ]
    assert [process.wait() for process in running] == [0, 0]
    subprocess.run([sys.executable, "-c", code.replace("STEP", "1")], env=environment, check=True)


def test_kernels_that_others_call_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()(3)
    monkeypatch.setattr(compiling, "_sources", lambda: "another version")
    other = compiled()
    assert other(3) == 6
    assert hits(other) == 0


def test_full_disk(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "_save_data", full)
    one, other = compiled(), compiled()
    assert (one(3), one(3.5), other(3)) == (6, 7.0, 6)
    assert caplog.text.count(ADVICE) == 1


def test_damaged_and_read_only(cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    compiled()(3)
    next(cache.rglob("*.nbi")).write_bytes(b"")

    def read_only(*_: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(IndexDataCacheFile, "_save_index", read_only)
    assert compiled()(3) == 6
    assert caplog.text.count(ADVICE) == 1


def test_no_folder_can_be_written_to(tmp_path: Path) -> None:
    """An installed package that nobody may write to, and a user without a home."""
    package = tmp_path / "site" / "pucboost"
    shutil.copytree(ROOT / "pucboost", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "_kernels" / "__pycache__").touch()  # a file, because root may write to any folder
    code = (
        "import numpy as np, pucboost\n"
        "from pucboost._kernels import compiling, masks\n"
        "print(pucboost.__file__, compiling.cache_folder(), masks.count_groups(np.uint64(7)))"
    )
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), "/dev/null/nowhere")
    environment = {**os.environ, **nowhere, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(package / "__init__.py"), "None", "3"]
    assert done.stderr.count(ADVICE) == 1


def test_compiling_is_announced_if_nobody_did_it_before(caplog: pytest.LogCaptureFixture, cache: Path) -> None:
    def messages(function: Any) -> list[str]:
        caplog.clear()
        with caplog.at_level("INFO", logger="pucboost"), compiling.reported_if_compiled_now(function, "a test"):
            function(np.ones(3))
        return [record.message.partition(",")[0] for record in caplog.records]

    first = compiled()
    assert messages(first) == ["compiling a test"]
    assert messages(first) == []
    assert messages(compiled()) == []  # as another process would find it
