"""Names of columns: the ones LightGBM gives to columns without a name, and the ones a misspelt name may stand for."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def default_names(n_columns: int) -> list[str]:
    """Return the names LightGBM gives to the columns of a table without names.

    Examples
    --------
    >>> default_names(2)
    ['Column_0', 'Column_1']
    """
    return [f"Column_{j}" for j in range(n_columns)]


def are_default_names(names: Sequence[str | None]) -> bool:
    """Return whether these are the names of a table without names; None stands for a name that is not known.

    Examples
    --------
    >>> are_default_names(["Column_0", "Column_1"]), are_default_names(["Column_1", "age"])
    (True, False)
    """
    return all(name in (None, default) for name, default in zip(names, default_names(len(names)), strict=True))


def similar(column: str, columns: Sequence[str]) -> str:
    """Return the end of an error about an unknown column: those with a similar name, or else the first ten.

    Examples
    --------
    >>> similar("Age", ["age", "income"])
    "; did you mean 'age'?"
    """
    by_lower = {name.lower(): name for name in columns}
    close = [by_lower[name] for name in difflib.get_close_matches(column.lower(), by_lower)]
    if close:
        return f"; did you mean {' or '.join(map(repr, close))}?"
    return f"; its columns are {', '.join(columns[:10])}{', …' if len(columns) > 10 else ''}"
