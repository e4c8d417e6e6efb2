"""Letters to many people, and what letters are made of. :func:`pucboost.letter` writes to one person."""

from __future__ import annotations

from ._letter.letters import Letter, for_each
from ._letter.text import LetterNumber, LetterText

__all__ = ["Letter", "LetterNumber", "LetterText", "for_each"]


def __dir__() -> list[str]:
    return sorted(__all__)
