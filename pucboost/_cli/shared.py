"""What the commands share: parser and exit codes, the terminal, models and their columns, people in batches.

Everything here that takes long to load is imported within the functions that need it, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._common import similar
from .._pages import printable
from .._tables.files import DataError, check_can_be_read, check_can_be_written, write_whole

if TYPE_CHECKING:
    from .._tables.columns import Column
    from .._tables.table_files import LoadedTable, TableFile


# Parser and exit codes ------------------------------------------------------------------------------------------------

# 1 and 2 are reserved for verdicts of an audit, so wrong usage and crashes exit with 3.
EXIT_ERROR = 3

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


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    epilog: str = "",
    exit_codes: str = EXIT_CODES,
    reads_tables: bool = True,
    **texts: str,
) -> Any:
    """Add a command with the options that all have, and return its parser."""
    epilogs = [text for text in (epilog, TABLE_FILES if reads_tables else "", exit_codes) if text]
    parser = commands.add_parser(name, epilog="\n\n".join(epilogs), **texts)
    parser.add_argument(
        "--threads",
        type=whole_number(1),
        metavar="N",
        help="threads to use (default: 1 for a small table, else all cores)",
    )
    if reads_tables:
        parser.add_argument("--quiet", action="store_true", help="print nothing but warnings and errors")
    parser.set_defaults(run=run, fail=parser.error)
    return parser


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


def output_was_closed() -> bool:
    return getattr(sys.stdout, "name", None) == 1  # only a stream opened by main is named by its number


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


def labels_of(file: TableFile, column: str | None) -> Any:
    """Return one more column of everybody as text, or None; a missing value is a label like any other."""
    import numpy as np

    if column is None:
        return None
    with closing(file.blocks([column])) as blocks:
        texts = [block.text(column).fill_null("missing") for block in blocks]
    return np.concatenate([np.asarray(text.to_numpy(zero_copy_only=False), dtype=np.str_) for text in texts])


# Pages of findings ----------------------------------------------------------------------------------------------------


def check_pages(given: argparse.Namespace, *inputs: Path) -> None:
    """Raise before the work begins if the pages that are asked for cannot be written, or would replace each other."""
    outputs = [path for path in (given.html, given.json, given.markdown) if path is not None]
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise DataError("two pages would be written to the same file; choose different names")
    for path in outputs:
        check_can_be_written(path, *inputs)


def show(given: argparse.Namespace, found: Any) -> None:
    """Write the pages that are asked for, and print what was found."""
    # Render all before writing any: if one page cannot be made, none is left behind.
    renderers = ((given.html, found.to_html), (given.json, found.to_json), (given.markdown, found.to_markdown))
    for path, text in [(path, render()) for path, render in renderers if path is not None]:
        write_whole(path, text.encode("utf-8"))
        note(f"wrote {path}", given.quiet)
    if not given.quiet:
        say(str(found))
