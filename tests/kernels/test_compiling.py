"""Kernels work whatever is wrong with numba's cache; it only saves time."""

from __future__ import annotations

import errno
import importlib
import inspect
import os
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from pucboost._kernels import compiling, together

ROOT = Path(__file__).parents[2]
ADVICE = "Set the environment variable NUMBA_CACHE_DIR to a folder that can be written to"


def double(values: Any, out: Any) -> Any:
    for i in range(out.size):
        out[i] = 2 * values[i]
    return out[0]


def compiled() -> Any:
    """The same function as another process would see it."""
    return compiling.kernel(double)


def doubled(function: Any, kind: Any = np.float64) -> list[float]:
    out = np.zeros(2, kind)
    function(np.array([1.5, 2.5], kind), out)
    return [float(value) for value in out]


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
    assert doubled(first) == doubled(second) == [3.0, 5.0]
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
    doubled(compiled())
    (file,) = cache.rglob("*.kernel")
    for damage in damages:
        file.write_bytes(damage(file.read_bytes()))
        second, third = compiled(), compiled()
        assert doubled(second) == doubled(third) == [3.0, 5.0]
        assert (hits(second), hits(third)) == (0, 1)
    assert list(cache.rglob("*.*")) == [file]


def test_each_type_has_a_file(cache: Path) -> None:
    for kind in (np.float32, np.float64):
        assert doubled(compiled(), kind) == [3.0, 5.0]
    assert len(list(cache.rglob("*.kernel"))) == 2


def test_processes_that_compile_at_once(cache: Path) -> None:
    code = (
        "import numpy as np\n"
        "from pucboost._kernels.masks import count_ideals, count_shared\n"
        "n = np.zeros(1, np.int64)\n"
        "count_ideals(n, n + 1, np.array([0, 1], np.uint64), 0, 2, ideals := np.zeros(2, np.uint64))\n"  # makes arrays
        "assert ideals.tolist() == [1, 2], ideals\n"
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


SOURCE = """
from pucboost._kernels.compiling import kernel

FACTOR = 2

@kernel
def inner(x):
    return FACTOR * x

@kernel
def outer(x):
    '''Words.'''
    return inner(x) + 1
"""


@pytest.mark.parametrize(
    ("before", "after", "again", "result"),
    [
        ("@kernel\ndef outer", "\n# Why\n@kernel\ndef outer", False, 11),
        ("Words", "Other words", False, 11),  # a first docstring would move constants from Python 3.14 on
        ("FACTOR = 2", "FACTOR = 2\nOTHER = 3", False, 11),
        ("FACTOR = 2", "FACTOR = 3", True, 16),
        ("FACTOR * x", "FACTOR - x", True, -2),
        ("inner(x) + 1", "inner(x) + 2", True, 12),
        ("@kernel\ndef inner", "@kernel(error_model='numpy')\ndef inner", True, 11),
    ],
)
def test_what_is_compiled_again_after_an_edit(before: str, after: str, again: bool, result: int) -> None:
    def outer(source: str) -> Any:
        module: dict[str, Any] = {"__name__": "builtins"}  # a module that numba can import again
        exec(source, module)
        return module["outer"]

    outer(SOURCE)(5)
    edited = outer(SOURCE.replace(before, after))
    assert edited(5) == result
    assert hits(edited) == (not again)


def test_names_of_files_do_not_depend_on_process_or_place(tmp_path: Path) -> None:
    package = tmp_path / "site" / "pucboost"
    shutil.copytree(ROOT / "pucboost", package, ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sys, kernel_names\nfor one in kernel_names.every_kernel(): print(one._cache._stem)"
    (tmp_path / "site" / "kernel_names.py").write_text(
        f"from __future__ import annotations\nimport importlib, pkgutil\n{inspect.getsource(every_kernel)}"
    )
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONHASHSEED": "7"}
    there = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    here = [one._cache._stem for one in every_kernel()]
    assert there.stdout.split() == here
    assert len(set(here)) == len(here) > 100


def every_kernel() -> list[Any]:
    found = {}
    for package in ("pucboost._kernels", "pucboost._engines.native.kernels"):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            for value in vars(importlib.import_module(f"{package}.{module.name}")).values():
                if hasattr(value, "py_func"):
                    found[value.__module__, value.__name__] = value
    return [found[name] for name in sorted(found)]


def test_full_disk(cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    write = Path.write_bytes

    def half(path: Path, content: bytes) -> None:
        write(path, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    one, other = compiled(), compiled()
    assert doubled(one) == doubled(one, np.float32) == doubled(other) == [3.0, 5.0]
    assert caplog.text.count(ADVICE) == 1
    assert not list(cache.rglob("*.*"))


def test_damaged_and_read_only(cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def read_only(*_: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    doubled(compiled())
    monkeypatch.setattr(Path, "write_bytes", read_only)
    assert hits(reader := compiled()) == 0
    assert doubled(reader) == [3.0, 5.0]
    assert (hits(reader), ADVICE in caplog.text) == (1, False)
    monkeypatch.undo()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(cache))
    next(cache.rglob("*.kernel")).write_bytes(b"")
    monkeypatch.setattr(Path, "write_bytes", read_only)
    assert doubled(compiled()) == [3.0, 5.0]
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
            doubled(function)
        return [record.message.partition(",")[0] for record in caplog.records]

    first = compiled()
    assert messages(first) == ["compiling a test"]
    assert messages(first) == []
    assert messages(compiled()) == []  # as another process would find it


# ----- kernels that are compiled together


class Numbers(NamedTuple):
    values: Any
    grid: Any
    pair: Any
    step: float
    up: bool
    key: Any


def test_tuples_by_reference() -> None:
    @compiling.kernel
    def inner(numbers: Any, i: Any) -> Any:
        return numbers.values[i] + numbers.grid[1, i] * numbers.pair.step if numbers.up else np.float64(numbers.key)

    @compiling.kernel
    def outer(numbers: Any, out: Any) -> None:
        for i in range(out.size):
            out[i] = inner(numbers, i) + numbers.pair.values[0] + numbers.values.shape[0]

    Table = together.by_reference(Numbers)
    values, grid = np.arange(6.0)[::2], np.arange(6, dtype=np.int32).reshape(2, 3)
    pair = Numbers(values, grid, None, -0.5, False, np.uint64(2**63))
    out = np.zeros(3)
    for up, key in ((True, 0), (False, 2**63 + 1)):
        table = Table(values, grid, pair._replace(pair=0.0), 1.5, up, np.uint64(key))
        outer(table, out)
        expected = [v + g * -0.5 if up else float(key) for v, g in zip(values, grid[1], strict=True)]
        assert out.tolist() == [one + values[0] + 3 for one in expected]
    values += 1  # the arrays themselves may change
    outer(Table(values, grid, pair._replace(pair=0.0), 1.5, True, np.uint64(0)), out)
    assert out.tolist() == [v + g * -0.5 + values[0] + 3 for v, g in zip(values, grid[1], strict=True)]


def items_and_extremes(grid: Any, column: Any, i: Any, u: Any, out: Any) -> None:
    out[0, 0], out[-1, -1], out[u, 0] = grid[i, u], grid[-2, i], column[i]  # these from the end, that not contiguous
    out[i, 1] = column[np.int8(-1)] + grid[0, column.size - 1]
    out[0, 2], out[0, 1] = min(grid[0, 0], i), max(u, 2)
    out[u, 2] = min(max(grid[0, 2], grid[0, 1]), 1e300)  # the first of them is NaN
    out[2, 0], out[2, 1] = max(np.nan, 1.0), min(i, np.uint64(3))


def test_items_and_extremes_are_numbas() -> None:
    found = []
    for compile_it in (compiling.kernel, numba.njit):
        grid = np.array([[1.5, -2, np.nan], [3, 4, 5]])
        out, whole = np.zeros((3, 3)), np.zeros((3, 3), np.int32)
        kernel = compile_it(items_and_extremes)
        kernel(grid, grid[:, 0], np.int64(-1), np.uint64(1), out)
        kernel(np.arange(6).reshape(2, 3), np.arange(4)[::2], np.int32(-2), np.uint8(1), whole)
        found.append((out, whole))
    for ours, numbas in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, numbas)
        assert len(np.unique(ours)) > 4
    assert not together._broken


def test_only_the_outer_kernel_becomes_machine_code(cache: Path) -> None:
    source: dict[str, Any] = {"__name__": "builtins"}
    exec(SOURCE, source)
    assert source["outer"](5) == 11
    assert not source["inner"].signatures
    assert [path.name.partition("-")[0] for path in cache.rglob("*.kernel")] == ["outer"]
    assert source["inner"](5) == 10
    assert not together._broken


def test_what_does_not_fit_a_version_of_numba_is_done_in_its_own_way(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def other_version(_: Any) -> None:
        raise AttributeError("_module_pass_manager")

    monkeypatch.setattr(together, "_broken", False)
    monkeypatch.setattr(together._Outer, "finalize", other_version)
    source: dict[str, Any] = {"__name__": "builtins"}
    exec(SOURCE, source)
    assert (source["outer"](5), source["outer"](5.0)) == (11, 11.0)
    assert caplog.text.count("in numba's own way") == 1
    assert together._broken


def test_a_version_of_numba_without_what_we_use(cache: Path) -> None:
    code = (
        "import sys; sys.modules['pucboost._kernels.together'] = None\n"
        "import numpy as np\n"
        "from pucboost._engines.native.kernels.growth import Cells\n"
        "from pucboost._kernels.masks import count_shared\n"
        "count_shared(np.array([7], np.uint64), 0, 1, out := np.zeros(1, np.int64))\n"
        "print(out, len(Cells(1, 2)))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[3] 2\n"
    assert done.stderr.count("in numba's own way") == 1


def test_what_numba_cannot_compile_is_no_reason_to_give_up() -> None:
    with pytest.raises(numba.core.errors.TypingError):
        compiled()(None, None)
    assert not together._broken
