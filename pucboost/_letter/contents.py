"""What a letter says, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from .numbers import LetterNumber
from .text import LetterText


@dataclass(frozen=True)
class Contents:
    """What one person would be told for every choice of what they share, and how it is worded."""

    shared: tuple[str, ...]
    """The groups that the person shares."""
    withheld: tuple[str, ...]
    """The groups that they do not share."""
    quotes: tuple[float, ...]
    """One number per subset of ``shared``: bit g of the position is group number g of ``shared``."""
    values: tuple[float, ...]
    """How much each shared group moves the number (its Shapley value), in the order of ``shared``."""
    bonus: bool
    """Whether the most favourable number counts (``sharing="best"``)."""
    number: LetterNumber
    text: LetterText
    reference: str | None = None
    """What identifies the letter."""
