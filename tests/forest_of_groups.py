"""Random relations between groups, for tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pucboost._consent import Nesting


@st.composite
def forests(draw: Any, most: int = 9) -> dict[int, int]:
    """What each group needs, by number; with at least one that needs another. Any order of the numbers."""
    r = draw(st.integers(2, most))
    parents = [-1, *(draw(st.integers(-1, g - 1)) for g in range(1, r))]
    if max(parents) < 0:
        parents[-1] = 0
    names = draw(st.permutations(range(r)))
    return {names[g]: names[other] for g, other in enumerate(parents) if other >= 0} | {-1: r}


def nesting_of(needs: dict[int, int]) -> tuple[Nesting, dict[int, int]]:
    """The nesting, and the relation without the entry that says how many groups there are."""
    r = needs[-1]
    rest = {g: other for g, other in needs.items() if g >= 0}
    return Nesting(tuple(rest.get(g, -1) for g in range(r))), rest
