"""``pucboost doctor``."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from .shared import EXIT_ERROR, Commands, complain

PACKAGES = ("numpy", "numba", "scikit-learn", "pandas", "pyarrow", "scipy", "narwhals", "matplotlib", "jinja2", "rich")
OPTIONAL_PACKAGES = ("polars", "skops", "shap", "optuna", "fairlearn", "glum", "statsmodels")
VARIABLES = ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "OMP_NUM_THREADS", "OMP_WAIT_POLICY")
EXAMPLE_COLUMNS = 50

_EPILOG = """\
example:
    pucboost doctor > doctor.txt

exit codes:
  0    everything works
  3    a check failed
  130  interrupted (Ctrl-C)"""


def add_parser(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help="print versions, threads, memory and cache, and try the main jobs; for reports of problems",
        description="Print what a report of a problem should contain, and try the main jobs on\nsimulated people. "
        "No data are read, and nothing is sent anywhere.",
        epilog=_EPILOG,
    )
    parser.add_argument("--no-test", action="store_true", help="try nothing, which takes up to a minute")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Print what is found, then try."""
    for what, found in [*_versions(), *_machine()]:
        print(f"{what:<24}{found}")
    if given.no_test:
        return 0
    sys.stdout.flush()
    from .self_test import checks

    failed = 0
    started = time.perf_counter()
    for check in checks():
        print(f"{check.what:<24}{'FAILED: ' + check.trouble if check.trouble else 'works'}", flush=True)
        failed += bool(check.trouble)
    print(f"{'seconds':<24}{time.perf_counter() - started:.0f}")
    if failed:
        complain(f"pucboost: error: {failed} of the checks failed")
    return EXIT_ERROR if failed else 0


def _versions() -> Iterator[tuple[str, str]]:
    from .. import __version__
    from .._engines import PACKAGES as ENGINE_PACKAGES

    yield "pucboost", __version__
    yield "Python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}"
    for name in (*ENGINE_PACKAGES, *PACKAGES):
        yield name, _version(name) or "NOT INSTALLED"
    for name in OPTIONAL_PACKAGES:
        yield f"{name} (optional)", _version(name) or "not installed"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _machine() -> Iterator[tuple[str, str]]:
    from .._engines import ENGINES, engine_named
    from .._kernels.compiling import cache_folder, thread_count
    from .._training.steps import memory_bytes, rows_that_fit

    yield "threads", f"{thread_count(None)} of {os.cpu_count()} cores"
    for name in VARIABLES:
        if name in os.environ:
            yield name, _without_home(os.environ[name])
    folder = cache_folder()
    yield (
        "compiled kernels",
        "not kept: no folder can be written to" if folder is None else _without_home(folder),
    )
    yield "memory", f"{memory_bytes() / 2**30:.1f} GiB"
    for name in ENGINES:
        rows = rows_that_fit(engine_named(name).prepare({}, {}, 1).in_less_memory(), EXAMPLE_COLUMNS)
        yield f"row budget, {name}", f"{rows:,} virtual rows of {EXAMPLE_COLUMNS} columns"


def _without_home(path: Path | str) -> str:
    """Return a path for others to read: names of users are nobody's business."""
    home = str(Path.home())
    return str(path).replace(home, "~") if len(home) > 1 else str(path)
