"""``pucboost demo``, ``doctor`` and ``warmup``: the package on simulated people.

The first is for newcomers. The doctor prints what a report of a problem should contain, and tries the main jobs on this
machine. ``warmup`` has kernels compiled before somebody waits for them.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from .shared import EXIT_ERROR, Commands, add_command, complain, one_line, say, whole_number

PACKAGES = ("numpy", "numba", "scikit-learn", "pandas", "pyarrow", "scipy", "narwhals", "matplotlib", "jinja2", "rich")
OPTIONAL_PACKAGES = ("polars", "skops", "shap", "optuna", "fairlearn", "glum", "statsmodels")
VARIABLES = ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "OMP_NUM_THREADS", "OMP_WAIT_POLICY")
EXAMPLE_COLUMNS = 50

ROUNDS = 60
TRAINING_PEOPLE, OTHER_PEOPLE = 10_000, 5_000
LARGEST_GAP = 60e-4
"""With these people every engine comes to about 30e-4, and to 150e-4 if they may learn from silence."""
MARGIN = 0.1
KNOWN_HASHES = {(0, 1, 0, 0): 2391539541053276776, (42, 2, 10**9, 7): 13782525429815852779}
"""(seed, stream, row, counter) → the random number that masks are made of."""

_EPILOG = """\
example:
    pucboost doctor > doctor.txt"""

_WARMUP_EPILOG = """\
example:
    export NUMBA_CACHE_DIR=/opt/kernels
    pucboost warmup --threads 1"""

_WARMUP_EXIT_CODES = """\
exit codes:
  0    every kernel is kept
  3    there is no folder to keep them in
  130  interrupted (Ctrl-C)"""

_EXIT_CODES = """\
exit codes:
  0    everything works
  3    a check failed
  130  interrupted (Ctrl-C)"""


def add_parsers(commands: Commands) -> None:
    demo = add_command(
        commands,
        "demo",
        run_demo,
        help="compare plain LightGBM, a base-features model and pucboost on simulated data with known truth",
        description="Train three models on simulated data and print how each treats people who\ndo not share.",
        reads_tables=False,
    )
    demo.add_argument("--rows", type=whole_number(1_000), default=50_000, help="people to train on (default 50000)")
    demo.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    doctor = add_command(
        commands,
        "doctor",
        run,
        help="print versions, threads, memory and cache, and try the main jobs; for reports of problems",
        description="Print what a report of a problem should contain, and try the main jobs on\nsimulated people. "
        "No data are read, and nothing is sent anywhere.",
        epilog=_EPILOG,
        exit_codes=_EXIT_CODES,
        reads_tables=False,
    )
    doctor.add_argument("--no-test", action="store_true", help="try nothing, which takes up to a minute")
    add_command(
        commands,
        "warmup",
        run_warmup,
        help="compile all kernels now, for an image of a container or before the first request",
        description="Train, predict, quote and audit on a few simulated people with every engine, so\nthat all kernels "
        "are compiled and kept.",
        epilog=_WARMUP_EPILOG,
        exit_codes=_WARMUP_EXIT_CODES,
        reads_tables=False,
    )


def run_demo(given: argparse.Namespace) -> int:
    from ..demo import main

    main(given.rows, given.seed, given.threads)
    return 0


def run(given: argparse.Namespace) -> int:
    for what, found in [*_versions(), *_machine()]:
        print(f"{what:<24}{found}")
    if given.no_test:
        return 0
    sys.stdout.flush()
    failed, started = 0, time.perf_counter()
    for what, attempt in _checks(given.threads):
        trouble = _tried(attempt)
        print(f"{what:<24}{'FAILED: ' + trouble if trouble else 'works'}", flush=True)
        failed += bool(trouble)
    print(f"{'seconds':<24}{time.perf_counter() - started:.0f}")
    if failed:
        complain(f"pucboost: error: {failed} of the checks failed")
    return EXIT_ERROR if failed else 0


def run_warmup(given: argparse.Namespace) -> int:
    from .._engines import installed_engines
    from .._kernels.compiling import ADVICE, cache_folder, counts

    counts.clear()
    started = time.perf_counter()
    for engine in installed_engines():
        for work in (_numbers, _text, _many_groups):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about people who are few, and simulated
                work(engine, given.threads)
            if counts["lost"]:
                complain(f"pucboost: error: compiled kernels cannot be kept. {ADVICE}")
                return EXIT_ERROR
    folder = cache_folder()
    say(
        f"{counts['kept']} kernels compiled in {time.perf_counter() - started:.0f} seconds, {counts['found']} found"
        + (f"; kept in {folder}" if folder else "")
    )
    return 0


def _versions() -> Iterator[tuple[str, str]]:
    from .. import __version__
    from .._engines import EXTRA_PACKAGES
    from .._engines import PACKAGES as ENGINE_PACKAGES

    yield "pucboost", __version__
    yield "Python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}"
    for name in (*ENGINE_PACKAGES, *PACKAGES):
        yield name, _version(name) or "NOT INSTALLED"
    for name in (*EXTRA_PACKAGES, *OPTIONAL_PACKAGES):
        yield f"{name} (optional)", _version(name) or "not installed"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _machine() -> Iterator[tuple[str, str]]:
    from .._common import threads_for
    from .._engines import engine_named, installed_engines
    from .._kernels.compiling import cache_folder, thread_count
    from .._training.steps import memory_bytes, rows_that_fit

    yield "threads", f"{thread_count(threads_for(None))} of {os.cpu_count()} cores"
    for name in VARIABLES:
        if name in os.environ:
            yield name, _without_home(os.environ[name])
    folder = cache_folder()
    yield (
        "compiled kernels",
        "not kept: no folder can be written to" if folder is None else _without_home(folder),
    )
    yield "memory", f"{memory_bytes() / 2**30:.1f} GiB"
    for name in installed_engines():
        rows = rows_that_fit(engine_named(name).prepare({}, {}, 1).in_less_memory(), EXAMPLE_COLUMNS)
        yield f"row budget, {name}", f"{rows:,} virtual rows of {EXAMPLE_COLUMNS} columns"


def _without_home(path: Path | str) -> str:
    """Return a path without the name of the user, because reports are read by others."""
    home = str(Path.home())
    return str(path).replace(home, "~") if len(home) > 1 else str(path)


# The main jobs, on simulated people -----------------------------------------------------------------------------------


class _WrongResultError(Exception):
    """A result differs from what is known."""


def _checks(threads: int | None) -> Iterator[tuple[str, Callable[[], None]]]:
    from .._engines import installed_engines

    yield "kernels", _kernels
    for engine in installed_engines():
        world = _World(engine, threads)
        for attempt in (world.training, world.files, world.quotes, world.audit):
            yield f"{engine}: {attempt.__name__}", attempt


def _tried(attempt: Callable[[], None]) -> str:
    """Return what was wrong; an empty text if nothing was."""
    try:
        attempt()
    except Exception as error:  # whatever it is, the user wants to read it in the report, and the other checks
        return one_line(error) if isinstance(error, _WrongResultError) else f"{type(error).__name__}: {one_line(error)}"
    return ""


def _require(right: bool, otherwise: str) -> None:
    if not right:
        raise _WrongResultError(otherwise)


def _kernels() -> None:
    """Random numbers that every machine must agree on, or models would differ."""
    import numpy as np

    from .._kernels.masks import counter_hash, stream_key

    for (seed, stream, row, counter), expected in KNOWN_HASHES.items():
        key = np.uint64(stream_key(np.uint64(seed), np.uint64(stream)))
        found = int(counter_hash(key, np.uint64(row), np.uint64(counter)))
        _require(found == expected, f"the hash of row {row} is {found} on this machine, and {expected} on others")


class _World:
    """Simulated people whose justified predictions are known, and a model of one engine."""

    def __init__(self, engine: str, threads: int | None = None) -> None:
        from ..demo import insurance_family

        self._engine, self._threads = engine, threads
        self._family = insurance_family()
        self._test = self._family.sample(OTHER_PEOPLE, 2)

    @cached_property
    def _model(self) -> Any:
        from .._training.datasets import Dataset
        from .._training.train import train

        people = self._family.sample(TRAINING_PEOPLE, 1)
        params = {"engine": self._engine, "objective": "binary", "verbosity": -1, "optional": self._family.optional}
        params |= {} if self._threads is None else {"num_threads": self._threads}
        return train({**params, "learning_rate": 0.1, "num_leaves": 8}, Dataset(people.X, people.y), ROUNDS)

    def _predictions(self, model: Any) -> Any:
        from .._prediction.predictor import predict

        return predict(model, self._test.X, num_threads=self._threads)

    def training(self) -> None:
        """Predictions are near the known truth."""
        from ..simulate import squared_puc_gap

        gap = squared_puc_gap(self._predictions(self._model), self._family, self._test.X)
        _require(gap < LARGEST_GAP, f"the squared PUC-gap is {gap:.2g}, expected less than {LARGEST_GAP:.2g}")

    def files(self) -> None:
        """A model that was saved and loaded predicts the same."""
        from .._models.files import load_model, save_model

        with tempfile.TemporaryDirectory() as folder:
            save_model(self._model, Path(folder) / "model.txt")
            loaded = load_model(Path(folder) / "model.txt")
        same = bool((self._predictions(loaded) == self._predictions(self._model)).all())
        _require(same, "the saved model predicts something else")

    def quotes(self) -> None:
        """A quote for sharing nothing is the prediction for somebody who shares nothing."""
        from .._prediction.predictor import predict, quote

        silent = self._test.X.copy()
        silent[:, self._family.optional] = float("nan")
        quoted = quote(self._model, self._test.X, subsets=["nothing"], num_threads=self._threads)["nothing"].to_numpy()
        same = bool((quoted == predict(self._model, silent, num_threads=self._threads)).all())
        _require(same, "quotes for sharing nothing depend on what is shared")

    def audit(self) -> None:
        """A protected model is not found to be unprotected."""
        from .._auditing.run import audit

        report = audit(self._model, self._test.X, self._test.y, margin=MARGIN, num_threads=self._threads)
        _require(report.passed, f"the verdict of the audit is {report.verdict}, expected certified")


# Small jobs of every kind, for the kernels they compile --------------------------------------------------------------

PEOPLE = 5_000
"""As many as make it worth the while to read the trees of a model."""


def _numbers(engine: str, threads: int | None) -> None:
    """Tables of numbers, row by row: a loss of each kind, all ways to predict, and an audit."""
    import numpy as np

    from .._auditing.run import audit

    family, X, y = _few_people(3)
    model = _small_model(engine, threads, X, y, family.optional)
    _predict_all(model, X, threads)
    audit(model, X[:1000], y[:1000], margin=MARGIN, num_threads=threads)
    for single in (X.astype(np.float32), np.asfortranarray(X)):
        _predict_all(_small_model(engine, threads, single, y, family.optional), single, threads)
    _small_model(engine, threads, X, X[:, 0], family.optional, "regression")


def _text(engine: str, threads: int | None) -> None:
    """Tables of columns, some of them text, and several classes."""
    import numpy as np
    import pandas as pd

    _, X, y = _few_people(3)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    _predict_all(_small_model(engine, threads, frame, y, ["d", "e", "f"]), frame, threads)
    frame["a"], frame["f"] = (np.where(frame[name] > 0, "yes", "no") for name in ("a", "f"))
    _predict_all(_small_model(engine, threads, frame, y, ["d", "e", "f"]), frame, threads)
    classes = y + (X[:, 0] > 0)
    several = _small_model(engine, threads, frame, classes, ["d", "e", "f"], "multiclass", num_class=3)
    _predict_all(several, frame, threads)


def _many_groups(engine: str, threads: int | None) -> None:
    """Their masks are of another type."""
    from .._prediction.predictor import predict

    family, X, y = _few_people(17)
    predict(_small_model(engine, threads, X, y, family.optional), X, num_threads=threads)


def _few_people(groups: int) -> tuple[Any, Any, Any]:
    from ..simulate import LogisticFamily

    family = LogisticFamily.random(3, groups, seed=0)
    people = family.sample(PEOPLE, 1)
    return family, people.X, people.y


def _small_model(
    engine: str, threads: int | None, X: Any, y: Any, optional: Any, objective: str = "binary", **more: Any
) -> Any:
    from .._training.datasets import Dataset
    from .._training.train import train

    params = {"engine": engine, "objective": objective, **more}
    params |= {"verbosity": -1, "optional": optional} | ({} if threads is None else {"num_threads": threads})
    return train(params, Dataset(X, y), 3, valid_sets=[Dataset(X[:100], y[:100])])


def _predict_all(model: Any, X: Any, threads: int | None) -> None:
    from .._explaining.explanation import explain
    from .._prediction.predictor import predict, quote

    predict(model, X, num_threads=threads)
    predict(model, X, sharing="withheld", num_threads=threads)
    quote(model, X, num_threads=threads)
    explain(model, X[:20], X, num_threads=threads)
