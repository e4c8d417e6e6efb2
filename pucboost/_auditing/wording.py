"""Words that go with numbers: singular and plural, and numbers that are only roughly known."""

from __future__ import annotations

_NAMES = ((1e9, "billion"), (1e6, "million"))


def counted(number: int, one: str, many: str) -> str:
    """Return a number with the noun, or the clause, that goes with it: 1 person, 2,000 people."""
    return f"{number:,} {one if number == 1 else many}"


def people_in_words(number: int) -> str:
    """Return 1 person, 2,000 people."""
    return counted(number, "person", "people")


def roughly(number: int) -> str:
    """Return a number with two digits: 640, 12,000, 2.6 million."""
    rounded = float(f"{number:.1e}")
    for size, name in _NAMES:
        if rounded >= size:
            return f"{rounded / size:,g} {name}"
    return f"{rounded:,.0f}"
