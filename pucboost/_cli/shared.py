"""Standard output and standard error: what is printed there, and what happens if they are closed or full."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .._pages import printable

if TYPE_CHECKING:
    from .._consent import Consent
    from .._tables.columns import Column
    from .._tables.sources import ArraySource
    from .._tables.table_files import Block, TableFile


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


# --------------------------------------------------------------------------------------------------
# What several commands need: a parser, exit codes, notes and progress on the terminal.


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


# --------------------------------------------------------------------------------------------------
# How to read the columns of a table file that a model was trained on.


def features_of(model: Any, file: TableFile, quiet: bool) -> list[Column]:
    """Return how to read each column of the model. If the file has no column of a group, nobody shares it."""
    from .._tables.columns import Absent, Codes, Numbers
    from .._tables.files import DataError
    from .._tables.names import similar

    consent: Consent = model.consent
    lacking = consent.missing_column(file.columns)
    if lacking is not None:
        raise DataError(
            f"{file.path} has no column {lacking!r}, which the model was trained on{similar(lacking, file.columns)}"
        )
    for group, members in consent.absent_groups(file.columns).items():
        note(
            f"{file.path} has no column of group {group!r} ({', '.join(members)}), so it counts as withheld by "
            f"everybody{_or_misspelt(members, file)}",
            quiet,
        )
    categories = category_columns(model, consent.feature_names)
    features: list[Column] = []
    for name in consent.feature_names:
        if name not in file.columns:
            features.append(Absent(name))
            continue
        file.kind(name)  # raises for dates and the like
        if name in categories:
            features.append(Codes(name, categories[name], converts=True))
        else:
            features.append(Numbers(name, ". The model was trained on numbers there"))
    return features


def category_columns(model: Any, feature_names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the categories of each category column a model was trained on."""
    from .._models.schema import categories_of
    from .._tables.files import DataError

    categories = categories_of(model)
    if categories is None or not categories.values:
        return {}
    if categories.columns is None:
        raise DataError(
            "the model was trained with categorical features that the table does not show to be categories, and does "
            "not keep which columns have which categories; use puc.predict or puc.quote in Python"
        )
    return {feature_names[j]: list(values) for j, values in zip(categories.columns, categories.values, strict=True)}


def _or_misspelt(members: list[str], file: TableFile) -> str:
    from .._tables.names import similar

    hints = [similar(name, file.columns) for name in members]
    return next((hint for hint in hints if "did you mean" in hint), "")


# --------------------------------------------------------------------------------------------------
# What ``predict``, ``quote`` and ``letter`` have in common: they read people in batches, and write batch by batch.


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the model and the table."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="model file, as written by train or puc.save_model")
    parser.add_argument(
        "data", type=Path, metavar="DATA", help="table file; its columns may be in any order, and others are ignored"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``predict`` and ``quote``."""
    add_inputs(parser)
    parser.add_argument(
        "--out", required=True, metavar="FILE", help="table file to write; - writes CSV to standard output"
    )
    parser.add_argument(
        "--keep", type=names, action="append", metavar="COL,COL", help="columns of DATA to copy, such as an id"
    )
    parser.add_argument("--raw-score", action="store_true", help="raw scores instead of predictions")
    add_quiet(parser)


def map_file(
    given: argparse.Namespace, make: Callable[[Any], Callable[[ArraySource, int], dict[str, Any]]], what: str
) -> int:
    """Write the kept columns and the computed ones, batch by batch.

    ``make`` takes the model and returns a function from a table and the number of its first row to columns.
    """
    from .._tables.files import DataError, check_can_be_written, ending_of, table_writer
    from .._tables.table_files import check_columns, open_table

    out = None if given.out == "-" else Path(given.out)
    if out is not None:
        ending_of(out)
        check_can_be_written(out, given.model, given.data)
    elif is_closed():
        raise DataError("--out -: standard output is closed")
    file = open_table(given.data)
    model = load(given.model)
    kept = flat(given.keep)
    check_columns(file, kept, "--keep")
    features = features_of(model, file, given.quiet)
    compute = make(model)
    with people_in_batches(features, file, kept, what, given.quiet) as blocks, table_writer(out) as write:
        for block, people in blocks:
            columns = {name: block.as_stored(name) for name in kept}
            for name, values in compute(people, block.first_row).items():
                if name in columns:
                    raise DataError(f"the output would have two columns {name!r}; rename the one that --keep names")
                columns[name] = values
            with nullcontext() if out is not None else writing_output():
                write(columns)
    return 0


@contextmanager
def people_in_batches(
    features: list[Column], file: TableFile, further: Sequence[str], what: str, quiet: bool
) -> Iterator[Iterator[tuple[Block, ArraySource]]]:
    """Yield blocks of a file, each with its people as the model sees them; ``further`` columns are read, too.

    What the model does not know is noted at the end.
    """
    from .._tables.columns import Absent, Codes
    from .._tables.sources import ArraySource, ColumnTypes

    columns_of_model = ColumnTypes(names=tuple(feature.name for feature in features))
    wanted = [feature.name for feature in features if not isinstance(feature, Absent)]
    with progress(what, quiet) as report, closing(file.blocks([*wanted, *further], report)) as blocks:
        yield ((block, ArraySource(block.matrix(features), columns_of_model)) for block in blocks)
    for feature in features:
        if isinstance(feature, Codes) and feature.n_unknown:
            note(
                f"column {feature.name!r} has {feature.n_unknown:,} values that the model does not know, the first "
                f"{feature.first_unknown}; they were read as missing",
                quiet,
            )
