"""What an audit page is made of: sections of blocks, which the templates lay out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar


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
    """A list of facts."""

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
        """Text and note in one line."""
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
        """Return the table with these of its columns, in this order."""
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
    """The box at the top of the page."""

    word: str
    reason: str
    meaning: str
    facts: tuple[Fact, ...]
