"""Names and sentences that a page, a plot and a terminal can show."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]+")


def printable(value: T) -> T:
    """Return ``value`` with control characters in its texts, however deep, replaced by a space.

    Names come from users. Control characters are not allowed in XML, and they steer terminals or reverse text.
    """
    return _printable(value)  # type: ignore[no-any-return]


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return _UNPRINTABLE.sub(" ", value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _printable(getattr(value, field.name)) for field in fields(value)})
    if isinstance(value, tuple):
        return tuple(_printable(inner) for inner in value)
    if hasattr(value, "items"):
        return {_printable(key): _printable(inner) for key, inner in value.items()}
    return value


def shorten(text: str, width: int) -> str:
    """Cut text to at most ``width`` characters, with an ellipsis for the rest."""
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def wrap(text: str, width: int, lines: int) -> list[str]:
    """Break text into at most ``lines`` lines of at most ``width`` characters, between words where possible."""
    width = width * len(text) // max(1, columns_of(text))  # wide characters
    return textwrap.wrap(text, width, max_lines=lines, placeholder="…", break_on_hyphens=False) or [""]


def columns_of(text: str) -> int:
    """Return how many terminal columns a text takes: two for wide characters, none for combining ones."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Fill text with spaces to ``width`` terminal columns."""
    space = " " * max(0, width - columns_of(text))
    return space + text if right else text + space


def listing(items: Iterable[str], empty: str = "none") -> str:
    """Return a, b and c."""
    *first, last = [*items] or [empty]
    return f"{', '.join(first)} and {last}" if first else last
