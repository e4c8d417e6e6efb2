"""What a misspelt column name may stand for."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


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
