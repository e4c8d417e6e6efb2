"""What every room uses: the type of arrays, warnings at the user's line, words of errors, threads, a progress bar."""

from __future__ import annotations

import difflib
import html
import importlib
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
"""A numpy array, whatever it holds. As text, because the command line starts without numpy."""

BETWEEN = ("pucboost", "sklearn", "functools")
"""Packages whose frames lie between the user's line and a warning: pipelines call our estimators."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called pucboost, however deep inside the package the reason was found.

    Frames are only counted. From Python 3.12 on ``skip_file_prefixes`` does this.
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def signals_held() -> Iterator[Callable[[], bool]]:
    """Hold back Ctrl-C and SIGTERM to the end, and yield a function that tells whether there was any.

    Their handlers may raise at any moment. Within a call from C++ that would be ignored, and XGBoost go on with a batch
    that is not there: an error about missing rows, or the end of the process. Numba, which reads the arguments of a
    kernel, would raise a SystemError in place of what the handler raises.
    """
    came: list[int] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():  # the only one in which handlers run
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    held = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in held:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        for one in came:
            held[signal.Signals(one)](one, None)


MAX_QUOTED = 20
"""How many characters of a value an error shows."""


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the end of an error about an unknown name: the most similar known one, or nothing.

    Examples
    --------
    >>> did_you_mean("copys", ["copies", "compact"])
    " Did you mean 'copies'?"
    >>> did_you_mean("blorb", ["copies", "compact"])
    ''
    """
    by_lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), by_lower, 1, cutoff)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""


def quoted(value: object) -> str:
    """Return the value of a cell for an error that names its row and column: as much as helps to recognise it.

    Errors end up in logs, and values are people's.

    Examples
    --------
    >>> quoted("1,5"), quoted("Jane Doe, 7 Elm Street, Springfield")
    ("'1,5'", "'Jane Doe, 7 Elm Stre…'")
    """
    if isinstance(value, (str, bytes)) and len(value) > MAX_QUOTED:
        return f"{value[:MAX_QUOTED]!r}"[:-1] + "…'"
    text = repr(value)
    return text if len(text) <= 2 * MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


def similar(column: str, columns: Sequence[str]) -> str:
    """Return the end of an error about an unknown column: those with a similar name, or else the first ten.

    Examples
    --------
    >>> similar("Age", ["age", "income"])
    "; did you mean 'age'?"
    """
    by_lower = {name.lower(): name for name in columns}
    close = [by_lower[name] for name in difflib.get_close_matches(column.lower(), by_lower)]
    if close:
        return f"; did you mean {' or '.join(map(repr, close))}?"
    return f"; its columns are {', '.join(columns[:10])}{', …' if len(columns) > 10 else ''}"


VALUES_WORTH_THREADS = 500_000
"""From this many values (rows × columns) on, engines use all cores unless another number is given."""


def threads_for(requested: int | None, n_values: float = math.inf) -> int | None:
    """Return the threads for work on so many values; None stands for all cores.

    What is requested wins, then the environment variable ``OMP_NUM_THREADS``. Without either, little work has one
    thread. Our kernels share out only what is worth it, and need not give ``n_values``. The threads of an engine meet
    for every leaf and spin while they wait for each other, so that on a machine with other work two take many times
    as long as one.
    """
    if requested is not None:
        return requested
    named = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # further numbers are for nested regions
    if named.isdecimal() and int(named) > 0:
        return int(named)
    return 1 if n_values < VALUES_WORTH_THREADS else None


STEPS = 100
"""A notebook keeps every update it is sent, so there are at most this many."""


@contextmanager
def progress_bar(what: str, shown: bool | None = None) -> Iterator[Callable[[float], None]]:
    """Show a bar, and yield a function that sets the share done. The bar is gone at the end.

    By default it is shown if stderr is a terminal, or in a notebook unless ``CI`` is set in the environment: logs and
    pipes stay free of it.
    """
    notebook = _in_notebook()
    if shown is None:
        shown = not os.environ.get("CI") if notebook else sys.stderr.isatty()
    if not shown:
        yield lambda share: None
    elif notebook:
        with _notebook_bar(what) as report:
            yield report
    else:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(escape(what), total=1.0)
            yield lambda share: bar.update(task, completed=share)


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    from rich.console import Console

    return Console().is_jupyter


@contextmanager
def _notebook_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Show a bar of HTML. Rich's own needs ipywidgets in a notebook."""
    display = importlib.import_module("IPython.display").display  # not installed where there are no notebooks
    last = 0

    def bar(done: int) -> dict[str, str]:
        text = f'{html.escape(what)} <progress value="{done}" max="{STEPS}"></progress> {done} %'
        return {"text/html": text, "text/plain": f"{what} {done} %"}

    def report(share: float) -> None:
        nonlocal last
        done = round(STEPS * min(max(share, 0.0), 1.0))
        if done != last:
            last = done
            handle.update(bar(done), raw=True)

    handle = display(bar(0), raw=True, display_id=True)
    try:
        yield report
    finally:
        handle.update({"text/html": "", "text/plain": ""}, raw=True)
