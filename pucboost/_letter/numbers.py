"""Numbers as a letter shows them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .._pages import decimals_for

MOST_DECIMALS = 8


@dataclass(frozen=True)
class LetterNumber:
    """How a letter shows numbers: ``prefix``, ``factor`` · value with ``decimals``, ``suffix``.

    Parameters
    ----------
    factor
        What predictions are multiplied by; 100 for percent, 12 for a yearly price from a monthly one.
    decimals
        Digits after the decimal mark.
    decimal_mark, thousands
        The decimal mark, and what separates thousands (may be empty).
    prefix, suffix
        What stands before and after a number, such as ``"€"`` or ``" € a year"``.
    difference_suffix
        What stands after a difference, if it is not ``suffix``, such as ``" percentage points"``.

    Examples
    --------
    >>> import pucboost as puc
    >>> euros = puc.LetterNumber(decimal_mark=",", thousands=".", suffix=" €")
    >>> euros.show(-1234.5), euros.difference(1234.5, 1200)
    ('−1.234,50 €', '34,50 €')
    >>> puc.LetterNumber(100, 1, suffix="%", difference_suffix=" points").difference(0.25, 0.125)
    '12.5 points'
    """

    factor: float = 1.0
    decimals: int = 2
    decimal_mark: str = "."
    thousands: str = ","
    prefix: str = ""
    suffix: str = ""
    difference_suffix: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.factor, (int, float)) or not math.isfinite(self.factor) or self.factor == 0:
            raise ValueError(f"factor of LetterNumber must be a number other than 0, got {self.factor!r}.")
        if not isinstance(self.decimals, int) or not 0 <= self.decimals <= MOST_DECIMALS:
            raise ValueError(
                f"decimals of LetterNumber must be a whole number from 0 to {MOST_DECIMALS}, got {self.decimals!r}."
            )
        for name in ("decimal_mark", "thousands", "prefix", "suffix", "difference_suffix"):
            value = getattr(self, name)
            if not isinstance(value, str) and not (name == "difference_suffix" and value is None):
                raise ValueError(f"{name} of LetterNumber must be text, got {value!r}.")
        if self.decimal_mark in ("", self.thousands):
            raise ValueError(
                f"decimal_mark of LetterNumber must be neither empty nor the separator of thousands, got "
                f"{self.decimal_mark!r}."
            )

    def show(self, value: float) -> str:
        """Return a number."""
        return self._with_sign(self._rounded(value), self.suffix)

    def difference(self, value: float, other: float) -> str:
        """Return how far two numbers are apart as they are shown, without a sign."""
        suffix = self.suffix if self.difference_suffix is None else self.difference_suffix
        return self._with_sign(abs(self._rounded(value) - self._rounded(other)), suffix)

    def compare(self, value: float, other: float) -> int:
        """Return 1 if a number is shown larger than another, −1 if smaller, 0 if the same."""
        a, b = self._rounded(value), self._rounded(other)
        return (a > b) - (a < b)

    def _rounded(self, value: float) -> float:
        return float(f"{self.factor * value:.{self.decimals}f}")

    def _with_sign(self, value: float, suffix: str) -> str:
        digits = f"{abs(value):,.{self.decimals}f}"
        marks = str.maketrans({",": self.thousands, ".": self.decimal_mark})
        return f"{'−' if value < 0 else ''}{self.prefix}{digits.translate(marks)}{suffix}"


PERCENT = LetterNumber(factor=100, decimals=1, suffix="%", difference_suffix=" percentage points")


def amount_like(values: Iterable[float]) -> LetterNumber:
    """Return how amounts of this size are shown if nobody says it: four significant digits."""
    return LetterNumber(decimals=decimals_for(max(map(abs, values), default=0.0), 4))
