"""Progress of long work: a bar on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(what: str, shown: bool | None = None) -> Iterator[Callable[[float], None]]:
    """Show a bar on stderr, and yield a function that sets the share done.

    By default the bar is shown if stderr is a terminal.
    """
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)
