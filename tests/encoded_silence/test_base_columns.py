"""Which columns part two samples, for all columns at once; a naive twin says it column by column."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pucboost._silence.signs import _part

VALUES = st.sampled_from([np.nan, -np.inf, np.inf, 0.0, -0.0, 1.0, 2.0, 3.0])


def naive(left: list[float], right: list[float], most: int) -> bool:
    here, there = ({None if np.isnan(value) else value for value in side} for side in (left, right))
    return not here & there and len(here) + len(there) <= most


@given(
    columns=st.lists(
        st.tuples(st.lists(VALUES, min_size=4, max_size=4), st.lists(VALUES, min_size=3, max_size=3)), min_size=1
    ),
    most=st.integers(1, 7),
)
def test_columns_that_part_people(columns: list[tuple[list[float], list[float]]], most: int) -> None:
    left, right = (np.array([pair[side] for pair in columns]).T for side in (0, 1))
    assert _part(left, right, most).tolist() == [naive(*pair, most) for pair in columns]
