"""What every room uses: the type of arrays, warnings at the user's line, and a progress bar."""

from __future__ import annotations

import html
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
"""A numpy array, whatever it holds."""

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
