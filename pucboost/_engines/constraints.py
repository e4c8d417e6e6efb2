"""Monotone and interaction constraints by column name, as positions, which every engine reads.

What the engines take themselves (lists of signs, lists of positions, text) is left alone. In constraints by name, a
column that is not mentioned has no monotone constraint, and interacts with no other column. (By position, such a column
would still be used by XGBoost, but not by LightGBM.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from .._declarations import position_of_name
from .names import aliases

MONOTONE, INTERACTION = aliases("monotone_constraints"), aliases("interaction_constraints")


def names_columns(params: Mapping[str, Any]) -> bool:
    """Return whether any constraint is by column name."""
    return any(isinstance(params.get(key), Mapping) for key in MONOTONE) or any(
        _lists_names(key, params.get(key)) for key in INTERACTION
    )


def by_position(params: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the parameters with constraints by position; ``names`` are those of the table's columns.

    Examples
    --------
    >>> by_position({"monotone_constraints": {"bmi": -1}, "eta": 0.1}, ["age", "bmi", "pulse"])
    {'monotone_constraints': [0, -1, 0], 'eta': 0.1}
    >>> by_position({"interaction_constraints": [["age", "pulse"]]}, ["age", "bmi", "pulse"])
    {'interaction_constraints': [[0, 2], [1]]}
    """
    changed = dict(params)
    for key in MONOTONE:
        if isinstance(params.get(key), Mapping):
            changed[key] = _signs(key, params[key], names)
    for key in INTERACTION:
        if _lists_names(key, params.get(key)):
            changed[key] = _sets(key, params[key], names)
    return changed


def _signs(key: str, given: Mapping[Any, Any], names: Sequence[str]) -> list[int]:
    signs = [0] * len(names)
    for column, sign in given.items():
        position = _position(key, column, names)
        if isinstance(sign, bool) or not isinstance(sign, Real) or sign not in (-1, 0, 1):
            raise ValueError(
                f"{key} of column {column!r} must be 1 (increasing), -1 (decreasing) or 0 (neither), got {sign!r}."
            )
        signs[position] = int(float(sign))
    return signs


def _sets(key: str, given: Sequence[Any], names: Sequence[str]) -> list[list[int]]:
    sets = [[_position(key, column, names) for column in columns] for columns in given]
    listed = {position for columns in sets for position in columns}
    return sets + [[position] for position in range(len(names)) if position not in listed]


def _lists_names(key: str, given: Any) -> bool:
    if isinstance(given, str) or not isinstance(given, Sequence):
        return False
    for columns in given:
        named = isinstance(columns, str) and not columns.lstrip().startswith("[")  # LightGBM takes ["[0,1]", "[2]"]
        if named or not isinstance(columns, Iterable):
            raise ValueError(f"{key} must be a list of lists of columns; it contains {columns!r}. Write [[...], ...].")
    return any(isinstance(column, str) for columns in given if not isinstance(columns, str) for column in columns)


def _position(key: str, column: Any, names: Sequence[str]) -> int:
    if not isinstance(column, str):
        raise ValueError(f"{key} must name columns by strings, or list all by position; got {column!r}.")
    return position_of_name(column, names, key)
