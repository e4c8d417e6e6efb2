"""What the commands share: parser and exit codes, the terminal, models and their columns, people in batches.

Everything here that takes long to load is imported within the functions that need it, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .._common import similar
from .._pages import printable
from .._tables.files import DataError, check_can_be_read, check_can_be_written, ending_of, table_writer

if TYPE_CHECKING:
    from .._tables.columns import Column
    from .._tables.sources import ArraySource
    from .._tables.table_files import Block, LoadedTable, TableFile


# Parser and exit codes ------------------------------------------------------------------------------------------------

# 1 and 2 are reserved for verdicts of an audit, so wrong usage and crashes exit with 3.
EXIT_ERROR = 3
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
        self.print_usage(sys.stderr)
        self.exit(EXIT_ERROR, f"{self.prog}: error: {message}\n")


def add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="print nothing but warnings and errors")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="model file, as written by train or puc.save_model")
    parser.add_argument(
        "data", type=Path, metavar="DATA", help="table file; its columns may be in any order, and others are ignored"
    )


def add_inputs_and_output(parser: argparse.ArgumentParser) -> None:
    """Add what :func:`map_file` reads."""
    add_inputs(parser)
    parser.add_argument(
        "--out", required=True, metavar="FILE", help="table file to write; - writes CSV to standard output"
    )
    parser.add_argument(
        "--keep", type=names, action="append", metavar="COL,COL", help="columns of DATA to copy, such as an id"
    )
    parser.add_argument("--raw-score", action="store_true", help="raw scores instead of predictions")
    add_quiet(parser)


def names(text: str) -> list[str]:
    return text.split(",")


def whole_number(at_least: int) -> Callable[[str], int]:
    """Return the type of an option."""

    def read(text: str) -> int:
        if not text.isdigit() or int(text) < at_least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {at_least}, got {text!r}")
        return int(text)

    return read


def flat(lists: list[list[str]] | None) -> list[str]:
    """Return the values of a repeated option as one list without duplicates."""
    return list(dict.fromkeys(name for some in lists or () for name in some))


# The terminal ---------------------------------------------------------------------------------------------------------

STANDARD_OUTPUT = "standard output"


def say(text: str) -> None:
    """Print lines to standard output. Names come from files: control characters would steer the terminal."""
    with writing_output():
        print("\n".join(printable(line) for line in text.split("\n")))


def complain(text: str) -> None:
    """Print a line to standard error; a closed or full stream is ignored."""
    with suppress(OSError):
        print(printable(text), file=sys.stderr, flush=True)


def note(text: str, quiet: bool) -> None:
    if not quiet:
        complain(f"pucboost: {text}")


def progress(what: str, quiet: bool) -> AbstractContextManager[Callable[[float], None]]:
    """Return a progress bar, which is shown on a terminal only."""
    from .._common import progress_bar

    return progress_bar(printable(what), False if quiet else None)


@contextmanager
def writing_output() -> Iterator[None]:
    """Make errors name standard output, where nothing else is read or written."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from error


def ensure_streams() -> None:
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


def output_was_closed() -> bool:
    return getattr(sys.stdout, "name", None) == 1  # only a stream opened by ensure_streams is named by its number


def forget_output() -> None:
    """Drop what is still to be written: Python would complain again when it closes the stream itself."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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


# Models, and the columns they were trained on -------------------------------------------------------------------------


def load(path: Path, reader: Callable[[Path], Any] | None = None) -> Any:
    """Return the model in a file, read by ``puc.load_model`` or another function; errors name the file."""
    if reader is None:
        from .._models.files import load_model

        reader = load_model
    check_can_be_read(path)
    try:
        return reader(path)
    except OSError:
        raise
    except Exception as error:  # the engines raise errors of all kinds for damaged files
        raise DataError(f"cannot read a model from {path}: {one_line(error)}") from error


def features_of(model: Any, file: TableFile, quiet: bool) -> list[Column]:
    """Return how to read each column of the model. If the file has no column of a group, nobody shares it."""
    from .._tables.columns import Absent, Codes, Numbers

    consent = model.consent
    lacking = consent.missing_column(file.columns)
    if lacking is not None:
        raise DataError(
            f"{file.path} has no column {lacking!r}, which the model was trained on{similar(lacking, file.columns)}"
        )
    for group, members in consent.absent_groups(file.columns).items():
        hints = (similar(name, file.columns) for name in members)
        note(
            f"{file.path} has no column of group {group!r} ({', '.join(members)}), so it counts as withheld by "
            f"everybody{next((hint for hint in hints if 'did you mean' in hint), '')}",
            quiet,
        )
    categories = _categories_by_name(model)

    def reader(name: str) -> Column:
        if name not in file.columns:
            return Absent(name)
        file.kind(name)  # raises for dates and the like
        # The model decides what a column holds, not the values of this file.
        if name in categories:
            return Codes(name, categories[name], converts=True)
        return Numbers(name, ". The model was trained on numbers there")

    return [reader(name) for name in consent.feature_names]


def _categories_by_name(model: Any) -> dict[str, Sequence[Any]]:
    from .._models.schema import categories_of

    categories = categories_of(model)
    if categories is None or not categories.values:
        return {}
    if categories.columns is None:
        raise DataError(
            "the model was trained with categorical features that the table does not show to be categories, and does "
            "not keep which columns have which categories; use puc.predict or puc.quote in Python"
        )
    return {model.consent.feature_names[j]: v for j, v in zip(categories.columns, categories.values, strict=True)}


# People ---------------------------------------------------------------------------------------------------------------


def roles_of(given: argparse.Namespace) -> dict[str, str | None]:
    """Return the columns that are no features: role → column, None if there is none."""
    return {"label": given.label, "weight": given.weight, "exposure": given.exposure}


def read_people(given: argparse.Namespace, file: TableFile, features: Sequence[Column]) -> LoadedTable:
    """Return everybody in a file, with label, weight and exposure."""
    from .._tables.table_files import load_table

    with progress(f"reading {file.path}", given.quiet) as report:
        return load_table(file, features, roles_of(given), report)


def map_file(given: argparse.Namespace, compute: Callable[[Any, ArraySource, int], dict[str, Any]], what: str) -> int:
    """Write the kept columns and the computed ones, batch by batch.

    ``compute`` takes the model, some people and the number of their first row, and returns columns.
    """
    from .._tables.table_files import check_columns, open_table

    out = None if given.out == "-" else Path(given.out)
    if out is not None:
        ending_of(out)
        check_can_be_written(out, given.model, given.data)
    elif output_was_closed():
        raise DataError("--out -: standard output is closed")
    file = open_table(given.data)
    model = load(given.model)
    kept = flat(given.keep)
    check_columns(file, kept, "--keep")
    features = features_of(model, file, given.quiet)
    with people_in_batches(features, file, kept, what, given.quiet) as blocks, table_writer(out) as write:
        for block, people in blocks:
            columns = {name: block.as_stored(name) for name in kept}
            for name, values in compute(model, people, block.first_row).items():
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

    Values that the model does not know are noted at the end.
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
