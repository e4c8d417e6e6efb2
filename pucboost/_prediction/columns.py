"""Columns by name: a table may have further columns, another order, and lack groups that nobody in it shares."""

from __future__ import annotations

import warnings
from typing import Any

from .._consent import Consent
from .._tables.containers import eager, is_frame
from .._tables.erasing import column_names, named_columns
from .._tables.names import similar
from .._tables.sources import are_default_names


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
    name = consent.missing_column(given)
    if name is not None:
        raise ValueError(f"The table has no column {name!r}, which the model was trained on{similar(name, given)}")
    for group, members in consent.absent_groups(given).items():
        warnings.warn(
            f"The table has no column of group {group!r} ({', '.join(members)}); it counts as withheld by everybody.",
            UserWarning,
            stacklevel=4,
        )
    return named_columns(X, names)
