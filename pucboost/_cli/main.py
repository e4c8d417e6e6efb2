"""The command line: ``pucboost`` or ``python -m pucboost``. Each command is a module beside this one.

Such a module has ``add_parser(commands)``, which adds its arguments to the command line, and ``run(given)``, which does
the work and returns the exit code. It imports whatever is slow to load inside ``run``.
"""

from __future__ import annotations

import importlib
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from .shared import (
    EXIT_BROKEN_PIPE,
    EXIT_CODES,
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    STANDARD_OUTPUT,
    Parser,
    complain,
    ensure_streams,
    forget_output,
    one_line,
    writing_output,
)

COMMANDS = ("train", "predict", "quote", "letter", "audit", "demo", "doctor")
"""In the order of the help."""

_EXPECTED = (ValueError, TypeError, OSError, MemoryError)
_ENGINE_ERRORS = {"LightGBMError", "XGBoostError"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    from .. import __version__

    ensure_streams()
    parser = Parser(
        prog="pucboost",
        description="Gradient-boosted trees on data that people may decline to share.",
        epilog=f"'pucboost COMMAND --help' explains a command, with an example.\n\n{EXIT_CODES}",
    )
    parser.add_argument("--version", action="version", version=f"pucboost {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(f".{name}", __package__).add_parser(commands)
    given = parser.parse_args(arguments)
    try:
        with _warnings_in_one_line(), _unwound_on_termination():
            code = int(given.run(given))
            with writing_output():
                sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has closed the output
        forget_output()
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        complain("pucboost: interrupted")
        # If the interrupt came during an exec (of dataclasses, for example), Python would end by the signal itself,
        # whatever the exit code: https://bugs.python.org/issue1054041. Another exec resets that.
        exec("")
        return EXIT_INTERRUPTED
    except Exception as error:
        if isinstance(error, _EXPECTED) or type(error).__name__ in _ENGINE_ERRORS:
            complain(f"pucboost: error: {one_line(error)}")
        else:  # a bug; Python's own exit code, 1, would be mistaken for a verdict
            with suppress(OSError):
                traceback.print_exc()
        if isinstance(error, OSError) and error.filename == STANDARD_OUTPUT:
            forget_output()
        return EXIT_ERROR


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    def show(message: Any, *where: Any, **more: Any) -> None:
        complain(f"pucboost: warning: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextmanager
def _unwound_on_termination() -> Iterator[None]:
    """Clean up after SIGTERM as after Ctrl-C."""

    def leave(*_: Any) -> None:
        sys.exit(EXIT_TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
