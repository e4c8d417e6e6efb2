"""What a letter says, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from .._nesting import Nesting
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
    """One number for each of the ``subsets``."""
    values: tuple[float, ...]
    """How much each shared group moves the number (its Shapley value), in the order of ``shared``."""
    bonus: bool
    """Whether the most favourable number counts (``sharing="best"``)."""
    number: LetterNumber
    text: LetterText
    reference: str | None = None
    """What identifies the letter."""
    needs: tuple[int, ...] = ()
    """For each shared group the place of the one that it needs, −1 for none; empty if no group needs another."""

    @property
    def nesting(self) -> Nesting:
        """Which of the shared groups need others."""
        return Nesting(self.needs or (-1,) * len(self.shared))

    @property
    def subsets(self) -> list[int]:
        """The subsets of ``shared`` that the person can choose, ascending: bit g is group number g of ``shared``."""
        return [int(mask) for mask in self.nesting.submasks((1 << len(self.shared)) - 1)]
