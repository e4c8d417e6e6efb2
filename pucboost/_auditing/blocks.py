"""What a report is made of, whatever it says: numbers as people read them, names that fit, and blocks.

Blocks are texts, facts, tables and figures. The HTML templates lay them out on a page; Markdown and plain text are made
at the end of this module.
"""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from markupsafe import Markup

from .._pages import decimals_for, deliver, printable, templates
from .findings import CERTIFIED, INCONCLUSIVE, NOT_TESTABLE, VIOLATED, VIOLATED_FOR_SOME, AuditReport, Estimate

MISSING = "–"
_MINUS = "−"
_SCIENTIFIC_FROM = 1e9
_NAME_WIDTH = 48
"""Terminal columns of the name of a row in plain text; longer names go on in further lines."""
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_TONES = {CERTIFIED: CERTIFIED, VIOLATED: VIOLATED, VIOLATED_FOR_SOME: VIOLATED, NOT_TESTABLE: "not-testable"}


def tone(verdict: str) -> str:
    """Return the colour and sign of a verdict: green only for a full pass, red for violations, otherwise amber."""
    return _TONES.get(verdict, INCONCLUSIVE)


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

    def value(self, estimate: Estimate | None) -> str:
        return MISSING if estimate is None else self.show(estimate.value, signed=True)

    def interval(self, estimate: Estimate | None) -> str:
        return MISSING if estimate is None else self.between(estimate.lower, estimate.upper)

    def with_interval(self, estimate: Estimate | None) -> Cell:
        return Cell(MISSING) if estimate is None else Cell(self.value(estimate), self.interval(estimate))

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


def listing(items: Iterable[str], empty: str = "none") -> str:
    """Return a, b and c."""
    *first, last = [*items] or [empty]
    return f"{', '.join(first)} and {last}" if first else last


# --------------------------------------------------------------------------------------------------
# Blocks: what an audit page is made of. The templates lay them out.


@dataclass(frozen=True)
class Cell:
    """One entry of a table; a tone is shown with its sign."""

    text: str
    note: str = ""
    tone: str = ""

    @property
    def with_note(self) -> str:
        return f"{self.text} ({self.note})" if self.note else self.text


@dataclass(frozen=True)
class Table:
    """Rows of cells, the first of which names the row; without rows nothing is shown."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    words: frozenset[str]
    """The columns that hold words, not numbers, beside the first."""

    def only(self, columns: Sequence[str]) -> Table:
        places = [self.columns.index(name) for name in columns if name in self.columns]
        rows = tuple(tuple(row[place] for place in places) for row in self.rows)
        return replace(self, columns=tuple(self.columns[place] for place in places), rows=rows)

    def is_words(self, name: str) -> bool:
        return name in self.words or name == self.columns[0]


@dataclass(frozen=True)
class Figures:
    """Plots and their captions, side by side where there is room; the SVG is our own and is not escaped."""

    kind: ClassVar[str] = "figures"
    entries: tuple[tuple[Markup, str], ...]


Block = str | dict[str, str] | list[tuple[str, str]] | Table | Figures
"""A string is a paragraph, a dict a list of facts, a list of pairs has bullets: a few words in bold and a sentence."""


# --------------------------------------------------------------------------------------------------
# Blocks as Markdown and as plain text.


_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}\[\]#!|~$@]|^[-+])")


def markdown(text: str) -> str:
    """Escape text so that Markdown shows it as it is, also in a table."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN_SPECIAL.sub(r"\\\1", escaped)


def markdown_list(items: list[str]) -> str:
    return "\n".join(f"- {markdown(item)}" for item in items)


def markdown_facts(facts: dict[str, str]) -> str:
    return "\n".join(f"- {term}: {markdown(text)}" for term, text in facts.items())


def markdown_table(table: Table) -> str:
    lines = [
        [markdown(name) for name in table.columns],
        ["---" if table.is_words(name) else "---:" for name in table.columns],
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
    words = [table.is_words(name) for name in table.columns]
    lines = []
    for row in rows:
        space = [" " * (width - columns_of(text)) for text, width in zip(row, widths, strict=True)]
        padded = [text + s if left else s + text for text, s, left in zip(row, space, words, strict=True)]
        lines.append("  ".join(["", *padded]).rstrip())
    return "\n".join(lines)


# --------------------------------------------------------------------------------------------------
# A short page of its own, made of sections of blocks.


@dataclass(frozen=True)
class Document:
    """A page that is not an audit: a heading, a line about its subject, and sections of blocks by title."""

    heading: str
    subject: str
    sections: dict[str, list[Block]]

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one self-contained HTML page, and write it to ``path`` (whole or not at all) if one is given."""
        return deliver(self._fill("document.html"), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the page as Markdown, and write it to ``path`` (whole or not at all) if one is given."""
        shown = printable(self)
        parts = [f"# {markdown(shown.heading)}", markdown(shown.subject)]
        for title, contents in shown.sections.items():
            parts += [f"## {markdown(title)}", *map(_as_markdown, contents)]
        return deliver("\n\n".join(part for part in parts if part) + "\n", path)

    def _repr_html_(self) -> str:
        return self._fill("document_box.html")

    def __str__(self) -> str:
        shown = printable(self)
        parts = [f"{shown.heading}\n{shown.subject}"]
        for title, contents in shown.sections.items():
            parts += [title, *map(_as_text, contents)]
        return "\n\n".join(part for part in parts if part)

    def _fill(self, template: str) -> str:
        shown = printable(self)
        page = templates("pucboost._auditing").get_template(template)
        return page.render(heading=shown.heading, subject=shown.subject, sections=shown.sections)


def _as_markdown(block: Block) -> str:
    if isinstance(block, str):
        return markdown(block)
    if isinstance(block, dict):
        return markdown_facts(block)
    if isinstance(block, list):
        return markdown_list([f"{term} {text}" for term, text in block])
    return markdown_table(block) if isinstance(block, Table) and block.rows else ""


def _as_text(block: Block) -> str:
    if isinstance(block, str):
        return textwrap.fill(block, 100)
    if isinstance(block, dict):
        width = max(map(columns_of, block), default=0)
        return "\n".join(f"  {term}{' ' * (width - columns_of(term))}  {text}" for term, text in block.items())
    if isinstance(block, list):
        return "\n".join(textwrap.fill(f"- {term} {text}", 100, subsequent_indent="  ") for term, text in block)
    return f"{block.caption}\n{text_table(block)}" if isinstance(block, Table) and block.rows else ""
