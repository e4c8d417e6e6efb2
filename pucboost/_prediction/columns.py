"""Columns by name: a table may have further columns, another order, and lack groups that nobody in it shares."""

from __future__ import annotations

from typing import Any

from .._consent import Consent
from .._tables.containers import eager, is_frame
from .._tables.erasing import column_names, named_columns
from .._tables.names import similar
from .._tables.sources import Categories, RowSource, are_default_names
from .._tables.stored_tables import load_as_trained, stored_table
from .._warnings import warn


def in_order_of(consent: Consent, X: Any) -> Any:
    """Return a table with the columns of training in their order, as far as it has names.

    Further columns are left out. A group of which the table has no column counts as withheld by everybody, with a
    warning. Any other column that is missing is an error.
    """
    X = eager(X)
    if not is_frame(X) or are_default_names(consent.feature_names):
        return X
    given, names = column_names(X), consent.feature_names
    if given == list(names) or len(set(given)) < len(given):
        return X
    _check_columns(consent, given, "The table")
    return named_columns(X, names)


def read_stored(consent: Consent, X: Any, categories: Categories | None) -> RowSource:
    """Return the columns of training from a table that is not in memory, by the rules of :func:`in_order_of`.

    It is read once, in pieces, into a matrix that may be a temporary file.
    """
    file = stored_table(X)
    names = consent.feature_names
    if are_default_names(names):
        names = tuple(file.columns)
    else:
        _check_columns(consent, file.columns, str(file.path))
    return load_as_trained(file, names, categories, {}).source


def _check_columns(consent: Consent, given: list[str], table: str) -> None:
    """Raise for a column that is missing, warn of a group that is."""
    name = consent.missing_column(given)
    if name is not None:
        raise ValueError(f"{table} has no column {name!r}, which the model was trained on{similar(name, given)}")
    for group, members in consent.absent_groups(given).items():
        warn(
            f"{table} has no column of group {group!r} ({', '.join(members)}); it counts as withheld by everybody.",
        )
