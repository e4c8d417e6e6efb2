"""Standard output and standard error: what is printed there, and what happens if they are closed or full."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .._pages import printable

STANDARD_OUTPUT = "standard output"


def complain(text: str) -> None:
    """Print a line to standard error; where that cannot be written to, nobody listens."""
    with suppress(OSError):
        print(printable(text), file=sys.stderr, flush=True)


def say(text: str) -> None:
    """Print lines to standard output. Names come from files: control characters would steer the terminal."""
    with writing_output():
        print("\n".join(printable(line) for line in text.split("\n")))


def ensure_streams() -> None:
    """Open what the caller has closed, on nothing: a file would be given its number, and whatever the engines print.

    Characters that the terminal does not know are written as escapes.
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


def is_closed() -> bool:
    """Return whether the caller has closed standard output."""
    return getattr(sys.stdout, "name", None) == 1  # only what we have opened ourselves is called by its number


def forget_output() -> None:
    """Drop what is still to be written: Python would complain again when it closes the stream itself."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def writing_output() -> Iterator[None]:
    """Make errors name standard output, where nothing else is read or written."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from error
