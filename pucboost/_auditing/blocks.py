"""What a report is made of: numbers as people read them, names that fit, and blocks of text, facts, tables, figures.

Sections of blocks are laid out by the HTML templates; Markdown and plain text are made at the end of this module.
"""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from .._pages import decimals_for
from .findings import AuditReport, Estimate

MISSING = "–"
_MINUS = "−"
_SCIENTIFIC_FROM = 1e9
_NAME_WIDTH = 48
"""Terminal columns of the name of a row in plain text; longer names go on in further lines."""
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def fixed(value: float | None, decimals: int, *, signed: bool = False) -> str:
    """Return a number with ``decimals`` decimals, thousands separators and a proper minus."""
    shown = finite(value)
    if shown is None:
        return MISSING
    if abs(shown) >= _SCIENTIFIC_FROM:
        return _scientific(shown, signed)
    text = f"{abs(shown):,.{decimals}f}"
    if not any(digit in "123456789" for digit in text):  # a rounded zero has no sign
        return text
    return (_MINUS if shown < 0 else "+" if signed else "") + text


def significant(value: float | None, digits: int = 4) -> str:
    shown = finite(value)
    if shown is None:
        return MISSING
    if shown != 0 and abs(shown) < 1e-5:
        return _scientific(shown, False)
    return fixed(shown, decimals_for(shown, digits))


def _scientific(value: float, signed: bool) -> str:
    mantissa, exponent = f"{abs(value):.3e}".split("e")
    sign = _MINUS if value < 0 else "+" if signed else ""
    return f"{sign}{mantissa}×10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def count(value: float | None) -> str:
    return fixed(value, 0)


def share(value: float | None, decimals: int = 1) -> str:
    """Return a share as a percentage; a share close to 0 or 1 is not rounded to 0% or 100%."""
    shown = finite(value)
    if shown is None:
        return MISSING
    if shown in (0.0, 1.0):
        return f"{shown:.0%}"
    smallest = 10**-decimals
    if 0 < shown < 1:
        shown = min(max(shown, smallest / 100), 1 - smallest / 100)
    return f"{fixed(100 * shown, decimals)}%"


def p_value(value: float | None) -> str:
    shown = finite(value)
    if shown is None:
        return MISSING
    return "< 0.001" if shown < 0.001 else f"{shown:.3f}"


@dataclass(frozen=True)
class Scale:
    """How one kind of number is shown: ``factor`` · value, with ``decimals``, ``suffix`` attached."""

    factor: float
    decimals: int
    suffix: str
    unit: str
    """Unit in words."""

    def show(self, value: float | None, *, signed: bool = False) -> str:
        text = fixed(None if finite(value) is None else self.factor * float(value or 0), self.decimals, signed=signed)
        return text if text == MISSING else text + self.suffix

    def between(self, lower: float | None, upper: float | None, *, signed: bool = True) -> str:
        ends = self.show(lower, signed=signed), self.show(upper, signed=signed)
        return MISSING if MISSING in ends else " to ".join(ends)

    def words(self, value: float | None, *, signed: bool = False) -> str:
        """Return one number with its unit, unless that is just the unit of the prediction."""
        text = self.show(value, signed=signed)
        return text if MISSING in text or self.suffix or self.factor == 1 else f"{text} {self.unit}"


def penalty_scale(findings: AuditReport) -> Scale:
    """Return how penalties are shown: percentage points for probabilities, else units of the prediction."""
    if findings.unit.startswith("probability"):
        return Scale(100, max(2, decimals_for(100 * findings.margin, 3)), "", "percentage points")
    return Scale(1, decimals_for(findings.margin, 4), "", findings.unit)


def prediction_scale(findings: AuditReport) -> Scale:
    if findings.unit == "probability":
        return Scale(100, 1, "%", "percent")
    return Scale(1, decimals_for(findings.mean_prediction, 4), "", "units of the prediction")


def difference_scale(findings: AuditReport) -> Scale:
    """Return how differences of predictions are shown; for quantiles these are not penalties."""
    if findings.unit == "probability":
        return Scale(100, 2, "", "percentage points")
    return Scale(1, decimals_for(findings.mean_prediction, 4), "", "units of the prediction")


def estimate_scale(estimate: Estimate | None) -> Scale:
    """Return a scale that shows two digits of the standard error."""
    return Scale(1, decimals_for(estimate.standard_error if estimate else None, 2), "", "")


# --------------------------------------------------------------------------------------------------
# Names and sentences that a page, a plot and a terminal can show.


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
    space = " " * max(0, width - columns_of(text))
    return space + text if right else text + space


def listing(items: Iterable[str], empty: str = "none") -> str:
    """Return a, b and c."""
    *first, last = [*items] or [empty]
    return f"{', '.join(first)} and {last}" if first else last


# --------------------------------------------------------------------------------------------------
# What an audit page is made of: sections of blocks, which the templates lay out.


@dataclass(frozen=True)
class Paragraph:
    """Some sentences; ``tone`` is empty, ``formula`` or ``notice``."""

    kind: ClassVar[str] = "paragraph"
    text: str
    tone: str = ""


@dataclass(frozen=True)
class Bullets:
    """A list of entries, each a few words in bold and a sentence; ``lead`` introduces the list."""

    kind: ClassVar[str] = "bullets"
    entries: tuple[tuple[str, str], ...]
    lead: str = ""


@dataclass(frozen=True)
class Fact:
    """A term and its description; ``code`` marks hashes and the like."""

    term: str
    text: str
    code: bool = False


@dataclass(frozen=True)
class Facts:
    kind: ClassVar[str] = "facts"
    entries: tuple[Fact, ...]


@dataclass(frozen=True)
class Cell:
    """One entry of a table; a verdict is shown with its icon."""

    text: str
    note: str = ""
    verdict: str = ""

    @property
    def with_note(self) -> str:
        return f"{self.text} ({self.note})" if self.note else self.text


@dataclass(frozen=True)
class Table:
    """Rows of cells, the first of which names the row."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    words: frozenset[str] = frozenset()
    """The columns that hold words, not numbers."""
    cards: bool = False
    """Whether rows become cards on a narrow page; otherwise the table scrolls."""

    def only(self, columns: Sequence[str]) -> Table:
        places = [self.columns.index(name) for name in columns if name in self.columns]
        rows = tuple(tuple(row[place] for place in places) for row in self.rows)
        return replace(self, columns=tuple(self.columns[place] for place in places), rows=rows)


@dataclass(frozen=True)
class Figure:
    """A plot with its caption; ``svg`` is our own and goes into the page unescaped."""

    svg: Any
    caption: str


@dataclass(frozen=True)
class Figures:
    """Figures side by side where there is room."""

    kind: ClassVar[str] = "figures"
    entries: tuple[Figure, ...]


Block = Paragraph | Bullets | Facts | Table | Figures


@dataclass(frozen=True)
class Section:
    """Part of the page; ``tag`` is a word beside its title."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    tag: str = ""


@dataclass(frozen=True)
class VerdictBox:
    word: str
    reason: str
    meaning: str
    facts: tuple[Fact, ...]


# --------------------------------------------------------------------------------------------------
# Blocks as Markdown and as plain text.


_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}\[\]#!|~$@]|^[-+])")


def markdown(text: str) -> str:
    """Escape text so that Markdown shows it as it is, also in a table."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN_SPECIAL.sub(r"\\\1", escaped)


def markdown_list(items: list[str]) -> str:
    return "\n".join(f"- {markdown(item)}" for item in items)


def markdown_facts(facts: Iterable[Fact]) -> str:
    shown = ((f.term, f"`{f.text}`" if f.code and f.text.isalnum() else markdown(f.text)) for f in facts)
    return "\n".join(f"- {term}: {text}" for term, text in shown)


def markdown_table(table: Table) -> str:
    lines = [
        [markdown(name) for name in table.columns],
        ["---" if name in table.words else "---:" for name in table.columns],
        *([markdown(cell.with_note) for cell in row] for row in table.rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text_rows(row: tuple[Cell, ...]) -> list[list[str]]:
    """Return the lines of a row: the name it begins with may be long."""
    name, *rest = (cell.with_note for cell in row)
    first, *more = wrap(name, _NAME_WIDTH, max(1, len(name)))
    return [[first, *rest], *([f"  {line}", *("" for _ in rest)] for line in more)]


def text_table(table: Table) -> str:
    rows = [[*table.columns], *(line for row in table.rows for line in _text_rows(row))]
    widths = [max(columns_of(row[place]) for row in rows) for place in range(len(table.columns))]
    right = [name not in table.words for name in table.columns]
    lines = ["  ".join(pad(text, w, right=r) for text, w, r in zip(row, widths, right, strict=True)) for row in rows]
    return "\n".join(f"  {line}".rstrip() for line in lines)
