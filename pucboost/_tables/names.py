"""What a misspelt name may stand for, and how values are quoted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

MAX_QUOTED = 20
"""How many characters of a value an error shows."""


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the end of an error about an unknown name: the most similar known one, or nothing.

    Examples
    --------
    >>> did_you_mean("copys", ["copies", "compact"])
    " Did you mean 'copies'?"
    >>> did_you_mean("blorb", ["copies", "compact"])
    ''
    """
    by_lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), by_lower, 1, cutoff)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""


def quoted(value: object) -> str:
    """Return the value of a cell for an error that names its row and column: as much as helps to recognise it.

    Errors end up in logs, and values are people's.

    Examples
    --------
    >>> quoted("1,5"), quoted("Jane Doe, 7 Elm Street, Springfield")
    ("'1,5'", "'Jane Doe, 7 Elm Stre…'")
    """
    if isinstance(value, (str, bytes)) and len(value) > MAX_QUOTED:
        return f"{value[:MAX_QUOTED]!r}"[:-1] + "…'"
    text = repr(value)
    return text if len(text) <= 2 * MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


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
