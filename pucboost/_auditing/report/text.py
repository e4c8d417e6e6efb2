"""Names and sentences that a page, a plot and a terminal can show."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable


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
