"""What ``predict`` and ``quote`` share: a model, a table file read in batches, and one written as they come."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .shared import add_quiet, flat, load, names, note, progress

if TYPE_CHECKING:
    from .._consent import Consent
    from .._tables.file_columns import Feature
    from .._tables.files import TableFile
    from .._tables.sources import ArraySource


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments both commands have."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="model file, as written by train or puc.save_model")
    parser.add_argument(
        "data", type=Path, metavar="DATA", help="table file; its columns may be in any order, further ones are ignored"
    )
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
    """Write, for every batch of people, kept columns and those computed for them.

    ``make`` gets the model and returns a function from a table, and the number of its first row, to columns.
    """
    from .._tables.file_columns import Known, Withheld, check_columns, encode
    from .._tables.files import DataError, check_can_be_written, ending_of, open_table, table_writer
    from .._tables.sources import ArraySource

    out = None if given.out == "-" else Path(given.out)
    if out is not None:
        ending_of(out)
        check_can_be_written(out, given.model, given.data)
    file = open_table(given.data)
    model = load(given.model)
    kept = flat(given.keep)
    check_columns(file, kept, "--keep")
    features = features_of(model, file, given.quiet)
    compute = make(model)
    feature_names = [feature.name for feature in features]
    wanted = [feature.name for feature in features if not isinstance(feature, Withheld)]
    with progress(what, given.quiet) as report, table_writer(out) as write:
        for batch in file.batches([*wanted, *kept], report):
            columns = {name: batch.as_stored(name) for name in kept}
            for name, values in compute(ArraySource(encode(features, batch), feature_names), batch.first_row).items():
                if name in columns:
                    raise DataError(f"the output would have two columns {name!r}; rename the one that --keep names")
                columns[name] = values
            write(columns)
    for feature in features:
        if isinstance(feature, Known) and feature.n_unknown:
            note(
                f"column {feature.name!r} has {feature.n_unknown:,} values that the model does not know, the first "
                f"{feature.first_unknown}; they were read as missing",
                given.quiet,
            )
    return 0


def features_of(model: Any, file: TableFile, quiet: bool) -> list[Feature]:
    """Return how to read each column of the model. A group of which the file has no column is shared by nobody."""
    from .._tables.file_columns import Known, Number, Withheld, category_columns, similar
    from .._tables.files import DataError

    consent: Consent = model.consent
    groups = {group: [consent.feature_names[j] for j in positions] for group, positions in consent.groups.items()}
    nobodys = {group: members for group, members in groups.items() if not set(members) & set(file.columns)}
    withheld = {name for members in nobodys.values() for name in members}
    for name in consent.feature_names:
        if name not in file.columns and name not in withheld:
            raise DataError(
                f"{file.path} has no column {name!r}, which the model was trained on{similar(name, file.columns)}"
            )
    for group, members in nobodys.items():
        note(
            f"{file.path} has no column of group {group!r} ({', '.join(members)}), so it counts as withheld by "
            f"everybody{_or_misspelt(members, file)}",
            quiet,
        )
    categories = category_columns(model, consent.feature_names)
    features: list[Feature] = []
    for name in consent.feature_names:
        if name in withheld:
            features.append(Withheld(name))
            continue
        file.kind(name)  # raises for dates and the like
        if name in categories:
            features.append(Known(name, categories[name]))
        else:
            features.append(Number(name, ". The model was trained on numbers there"))
    return features


def _or_misspelt(members: list[str], file: TableFile) -> str:
    from .._tables.file_columns import similar

    hints = [similar(name, file.columns) for name in members]
    return next((hint for hint in hints if "did you mean" in hint), "")
