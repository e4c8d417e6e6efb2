"""Progress of long work: a bar on a terminal and in a notebook, silence in logs, pipes and CI."""

from __future__ import annotations

import html
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STEPS = 100
"""A notebook keeps every update it is sent, so there are at most this many."""


@contextmanager
def progress_bar(what: str, shown: bool | None = None) -> Iterator[Callable[[float], None]]:
    """Show a bar, and yield a function that sets the share done. The bar is gone at the end.

    By default it is shown if stderr is a terminal, or in a notebook unless ``CI`` is set in the environment.
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
    """Return whether a notebook shows what is displayed, as Rich judges it."""
    if "IPython" not in sys.modules:
        return False
    from rich.console import Console

    return Console().is_jupyter


@contextmanager
def _notebook_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Show a bar of HTML. Rich's own needs ipywidgets in a notebook."""
    display = importlib.import_module("IPython.display").display  # not installed where there are no notebooks
    last = 0

    def shown(content: str, plain: str) -> dict[str, str]:
        return {"text/html": content, "text/plain": plain}

    def bar(done: int) -> dict[str, str]:
        text = html.escape(what)
        return shown(f'{text} <progress value="{done}" max="{STEPS}"></progress> {done} %', f"{what} {done} %")

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
        handle.update(shown("", ""), raw=True)
