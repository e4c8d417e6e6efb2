"""The command line: ``pucboost`` or ``python -m pucboost``.

The modules beside this one hold the commands. Each has ``add_parsers(commands)``, which adds the commands with their
options and with a function that does the work and returns the exit code. What is slow to load is imported inside such
functions, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from .._tables.files import ended_by_sigterm
from . import audit, check, doctor, explain, intervals, monitor, predict, questions, train
from .shared import EXIT_CODES, EXIT_ERROR, STANDARD_OUTPUT, complain, one_line, writing_output

COMMANDS = (check, train, predict, explain, intervals, questions, audit, monitor, doctor)
"""In the order of the help."""

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
_EXPECTED = (ValueError, TypeError, OSError, MemoryError, ImportError)
_ENGINE_ERRORS = {"LightGBMError", "XGBoostError"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    from .. import __version__

    _ensure_streams()
    parser = _Parser(
        prog="pucboost",
        description="Gradient-boosted trees on data that people may decline to share.",
        epilog=f"'pucboost COMMAND --help' explains a command, with an example.\n\n{EXIT_CODES}",
    )
    parser.add_argument("--version", action="version", version=f"pucboost {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add_parsers(commands)
    given = parser.parse_args(arguments)
    try:
        with _warnings_in_one_line(), ended_by_sigterm():
            code = int(given.run(given))
            with writing_output():
                sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has closed the output
        _forget_output()
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
            _forget_output()
        return EXIT_ERROR


class _Parser(argparse.ArgumentParser):
    """A parser whose usage errors have the exit code of all other errors."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_ERROR, f"{self.prog}: error: {message}\n")


def _ensure_streams() -> None:
    """Open standard streams that the caller has closed, on the null device.

    Otherwise the next file to be opened would get the number of a closed stream, and with it what the engines print.
    Characters that the terminal cannot show are written as escapes.
    """
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
        if getattr(sys, name) is None and number:
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _forget_output() -> None:
    """Drop what is still to be written: Python would complain again when it closes the stream itself."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    def show(message: Any, *where: Any, **more: Any) -> None:
        complain(f"pucboost: warning: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
