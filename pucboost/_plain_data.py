"""Plain data out of files that others may have changed: JSON in which every key stands once, and checks of values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from numbers import Integral
from typing import Any


class NotValidError(ValueError):
    """Plain data are not what they should be. Says what is wrong; who reads a file says in which."""


def entries(text: str | bytes) -> dict[str, Any]:
    """Return a JSON object; raise if it is none, or if one in it has a key twice, of which Python would drop one.

    Examples
    --------
    >>> entries('{"app": [1]}')
    {'app': [1]}
    >>> entries('{"app": [1], "app": [2]}')
    Traceback (most recent call last):
    pucboost._plain_data.NotValidError: the key 'app' stands twice
    """
    try:
        found = json.loads(text, object_pairs_hook=_keys_once)
    except NotValidError:
        raise
    except (ValueError, RecursionError) as error:
        raise NotValidError(f"it is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise NotValidError(f"it is {found!r:.60}, not a set of named entries")
    return found


def _keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise NotValidError(f"the key {key!r} stands twice")
        found[key] = value
    return found


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def whole_numbers(values: Any, name: str, below: int | None = None) -> tuple[int, ...]:
    """Return a list of distinct integers that are at least 0 (and below a bound) as a tuple, or raise.

    Examples
    --------
    >>> whole_numbers([2, 0], "coded_columns", below=3)
    (2, 0)
    >>> whole_numbers([2, 3], "coded_columns", below=3)
    Traceback (most recent call last):
    pucboost._plain_data.NotValidError: coded_columns has the entry 3, which is not in 0 … 2
    """
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        raise NotValidError(f"{name} is {values!r:.60}, not a list of integers")
    for value in values:
        if not is_whole(value):
            raise NotValidError(f"{name} has the entry {value!r:.60}, which is not an integer")
        if value < 0 or (below is not None and value >= below):
            bound = "…" if below is None else f"… {below - 1}"
            raise NotValidError(f"{name} has the entry {value!r:.60}, which is not in 0 {bound}")
    if len(set(values)) != len(values):
        raise NotValidError(f"{name} has an entry twice")
    return tuple(int(value) for value in values)
