"""What the parts of a table tell each other, so that everybody makes slices of one plan.

Two rounds of small messages suffice. First each part says how many of its people stand for how many virtual rows, and
what its columns hold (:class:`PartFacts`). With the copies that follow from all histograms together, each part counts
its virtual rows, and adds some of them for the engine's bins (:class:`PartCount`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arrays import Array
from .._consent import Consent
from .._tables.sources import ColumnTypes

MIN_PEOPLE_OF_MASK = 5
"""A model keeps no set that fewer people share: it would tell whoever knows one of them what that person shared."""

MAX_MASKS_TOLD = 4_096
"""How many distinct masks a part tells the others of."""


@dataclass(frozen=True)
class PartFacts:
    """What the others must know of a part before anything is agreed on."""

    n_rows: int
    how_many: tuple[int, ...] = ()
    """How many rows stand for each of the ``sizes``."""
    sizes: tuple[int, ...] = ()
    """For how many virtual rows people stand, in ascending order: 2^0 … 2^64 where no group needs another."""
    positives: int = 0
    """How many labels are above 0."""
    masks_seen: tuple[int, ...] | None = ()
    """The sets of groups that people share, as masks; None if there are too many."""
    mask_people: tuple[int, ...] = ()
    """How many people share each of these sets."""
    consent: Consent | None = None
    columns: ColumnTypes | None = None
    """None for a part without rows."""
    lacking: int = 0
    """How many people have values in a group, but not in the one that it needs."""


@dataclass(frozen=True)
class BinSample:
    """Some virtual rows, the same in every worker: from them an engine makes its bins."""

    rows: Array
    weight: Array


@dataclass(frozen=True)
class PartCount:
    """The virtual rows of a part."""

    virtual_rows: int
    complete_rows: int
    weight: float
    """Σ of the weights of its virtual rows, up to a constant that all parts have in common."""
    squares: float
    by_row_id: bool
    sample: BinSample
    order: Array
    """By which the sample of all parts is sorted, so that it does not depend on how the table is cut."""


def checked_facts(part: Any, number: int) -> PartFacts:
    """Return the facts of a part if they fit together; raise if another version of pucboost has made them."""
    if not isinstance(part, PartFacts):
        raise TypeError(f"Item {number} of facts must be what SharedPlan.facts returns, got {type(part).__name__!r}.")
    fits = sum(part.how_many) == part.n_rows and len(part.sizes) == len(part.how_many)
    fits = fits and len(part.masks_seen or ()) == len(part.mask_people)
    if not fits or (part.n_rows and (part.consent is None or part.columns is None)):
        raise ValueError(
            f"The facts of part {number} do not fit together. Were they made by another version of pucboost? Use the "
            "same one in every worker."
        )
    return part


def is_empty(X: Any) -> bool:
    """Return whether a table has no rows."""
    return getattr(X, "shape", (1,))[0] == 0


def all_sizes(parts: Sequence[PartFacts]) -> tuple[tuple[int, ...], Array]:
    """Return for how many virtual rows people of any part stand, in ascending order, and how many people do."""
    total: dict[int, int] = {}
    for part in parts:
        for size, count in zip(part.sizes, part.how_many, strict=True):
            total[size] = total.get(size, 0) + count
    return tuple(sorted(total)), np.array([total[size] for size in sorted(total)])


def common_masks(shared: Array) -> tuple[int, ...]:
    """Return the masks that at least :data:`MIN_PEOPLE_OF_MASK` people have, in ascending order."""
    masks, people = np.unique(shared, return_counts=True)
    return tuple(masks[people >= MIN_PEOPLE_OF_MASK].tolist())


def masks_in(parts: Sequence[PartFacts]) -> tuple[int, ...] | None:
    """Return the masks that enough people of all parts have for a model to keep them; None if there are too many."""
    people: Counter[int] = Counter()
    for part in parts:
        if part.masks_seen is None:
            return None
        people.update(dict(zip(part.masks_seen, part.mask_people, strict=True)))
    kept = tuple(sorted(mask for mask, n in people.items() if n >= MIN_PEOPLE_OF_MASK))
    return kept if len(kept) <= MAX_MASKS_TOLD else None


def common_columns(parts: Sequence[PartFacts]) -> ColumnTypes:
    """Return the column types of the whole table; a category column has the categories of all parts.

    Declared categories keep their order if all parts declare the same. All others are sorted: the same whatever the
    order of the parts.
    """
    given = [part.columns for part in parts if part.columns is not None]
    first = given[0]
    for number, columns in enumerate(given):
        if columns.names != first.names:
            raise ValueError(
                f"Part {number} has the columns {list(columns.names or ())}, the first one {list(first.names or ())}. "
                "Give every part the same columns in the same order."
            )
    lists: dict[int, list[Sequence[Any]]] = {}
    for columns in given:
        for j, values in zip(columns.coded, columns.pandas_categorical or (), strict=True):
            lists.setdefault(j, []).append(values)
    categorical = {j for columns in given for j in columns.categorical}
    merged = {j: _union(found, _name(first, j), j in categorical) for j, found in sorted(lists.items())}
    return ColumnTypes(
        names=first.names,
        coded=tuple(merged),
        categorical=tuple(sorted(categorical)),
        never_numbers=tuple(sorted({j for columns in given for j in columns.never_numbers})),
        pandas_categorical=None if first.pandas_categorical is None and not merged else list(merged.values()),
        has_other_integer_labels=first.has_other_integer_labels,
    )


def _name(columns: ColumnTypes, j: int) -> Any:
    return j if columns.names is None else columns.names[j]


def _union(lists: list[Sequence[Any]], name: Any, unordered: bool) -> list[Any]:
    if all(list(values) == list(lists[0]) for values in lists):
        return list(lists[0])
    if not unordered:
        raise ValueError(
            f"Column {name!r} has ordered categories, but they differ between parts, so their order is not known. "
            "Give every part the same categories."
        )
    values = {value for found in lists for value in found}
    try:
        return sorted(values)
    except TypeError:
        raise ValueError(
            f"Column {name!r} has categories of several types in different parts. Make it one type, for example with "
            "astype(str)."
        ) from None
