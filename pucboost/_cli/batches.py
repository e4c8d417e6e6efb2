"""What ``predict``, ``quote`` and ``letter`` have in common: they read people in batches, and write batch by batch."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .model_columns import features_of
from .shared import add_quiet, flat, load, names, note, progress
from .streams import is_closed, writing_output

if TYPE_CHECKING:
    from .._tables.columns import Column
    from .._tables.sources import ArraySource
    from .._tables.table_files import Block, TableFile


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
