"""What several commands need: a parser, exit codes, notes and progress on the terminal."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn

from .._pages import printable
from .streams import complain

EXIT_ERROR = 3
"""Wrong usage, or something wrong with the data, a model or a file; 1 and 2 are reserved for verdicts of an audit."""
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
EXIT_BROKEN_PIPE = 141

EXIT_CODES = """\
exit codes:
  0    done
  3    wrong usage, or something is wrong with the data, the model or a file;
       nothing was written
  130  interrupted (Ctrl-C); outputs are as before, or complete"""

TABLE_FILES = """\
table files:
  CSV in UTF-8 with a header (.csv, .tsv, also .csv.gz) or Parquet (.parquet,
  .pq), of any size: they are read and written in batches. DATA may also be a
  folder of Parquet files. In CSV an empty field, NA, N/A, NaN and null are
  missing values; true and false are 1 and 0.
  Messages count rows from 1, the header not included."""

Commands = Any  # argparse has no public name for the type of its sub-parsers


class Parser(argparse.ArgumentParser):
    """A parser whose usage errors have the exit code of all other errors."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Print usage and message, and exit."""
        self.print_usage(sys.stderr)
        self.exit(EXIT_ERROR, f"{self.prog}: error: {message}\n")


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add ``--quiet``."""
    parser.add_argument("--quiet", action="store_true", help="print nothing but warnings and errors")


def names(text: str) -> list[str]:
    """Read ``COL,COL``."""
    return text.split(",")


def flat(lists: list[list[str]] | None) -> list[str]:
    """Return the values of a repeated option as one list without duplicates."""
    return list(dict.fromkeys(name for some in lists or () for name in some))


def note(text: str, quiet: bool) -> None:
    """Print a note to standard error, unless told to be quiet."""
    if not quiet:
        complain(f"pucboost: {text}")


def progress(what: str, quiet: bool) -> AbstractContextManager[Callable[[float], None]]:
    """Return a progress bar, shown on a terminal unless told to be quiet."""
    from .._common import progress_bar

    return progress_bar(printable(what), False if quiet else None)


def load(path: Path) -> Any:
    """Return the model in a file; errors name the file."""
    from .._models.files import load_model
    from .._tables.files import DataError, check_can_be_read

    check_can_be_read(path)
    try:
        return load_model(path)
    except OSError:
        raise
    except Exception as error:  # the engines raise errors of all kinds for damaged files
        raise DataError(f"cannot read a model from {path}: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line; XGBoost's lose their time, source file and stack trace."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return f"not enough memory ({error})" if str(error) else "not enough memory"
    text = str(error)
    if type(error).__name__ == "XGBoostError":
        text = re.sub(r"^\[[\d:]+\] \S+: ", "", text).partition("\n")[0]
    return " ".join(text.split()) or type(error).__name__
