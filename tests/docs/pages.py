"""The pages of the site and the README, and what is in them."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?P<options>[^\n]*)\n(?P<code>.*?)^(?P=indent)```$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A block of code, and where it begins."""

    language: str
    code: str
    line: int


def name_of(page: Path) -> str:
    """Return the name of a page in test reports."""
    return page.relative_to(ROOT).as_posix()


def code_blocks(page: Path, *languages: str) -> list[Block]:
    """Return the blocks of code in these languages, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["language"], textwrap.dedent(found["code"]), text.count("\n", 0, found.start()) + 1)
        for found in _FENCE.finditer(text)
        if found["language"] in languages
    ]


def prose(page: Path) -> str:
    """Return a page without code, and without the tables and numbers that are written between markers."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"<!-- (?P<name>\w+) -->.*?<!-- end (?P=name) -->", "", text, flags=re.DOTALL)
    text = re.sub(r"\$\$.*?\$\$|\\\(.*?\\\)|\$[^$\n]+\$", "", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "", text)
    return re.sub(r"\]\([^)]*\)|<[^>]+>", "", text)
