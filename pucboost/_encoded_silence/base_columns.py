"""Base columns that tell who withholds a group: the model learns from them what it must not learn from silence.

**By name.** A 0/1 column named after an optional one and after silence, such as ``missingindicator_z`` or ``job_nan``.

**By value.** All who withhold a group, and nobody else, have the same value in a base column: an indicator of any name,
a date of consent that is missing where there was none. Or all who share it, and nobody else, have. At least
:data:`MIN_EACH` people of the sample must share the group and as many withhold it, so that chance is out of the
question. Or the column counts how many groups each person withholds or shares. Or it has a few values, none of which
occurs both among those who withhold a group (share nothing, withhold anything) and among the others: the number of
unanswered questions, the channel through which people came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._arrays import Array
from .._consent import Consent
from .._tables.sources import RowSource
from .findings import BASE_COLUMN, EncodedSilence
from .words import indicated_column

MIN_EACH = 20
"""So many people must share a group, and as many withhold it, before a value counts as telling who does."""


MAX_VALUES = 32
"""Columns with more values are not looked at value by value: where values are rare, each is on one side by chance."""


def telling_by_name(consent: Consent) -> dict[int, str]:
    """Return the base columns whose names say who withholds, and the optional column they speak of."""
    names = [consent.feature_names[column] for column in consent.group_columns]
    spoken_of = {column: indicated_column(consent.feature_names[column], names) for column in _base(consent)}
    return {column: optional for column, optional in spoken_of.items() if optional is not None}


def find_indicators(consent: Consent, telling: dict[int, str], values: Array) -> list[EncodedSilence]:
    """Return the indicators of silence among the base columns.

    Parameters
    ----------
    consent
        What is optional.
    telling
        As :func:`telling_by_name` returns it.
    values
        Their values in a sample of people.
    """
    owner = {consent.feature_names[c]: group for group, columns in consent.groups.items() for c in columns}
    found = []
    for place, (position, optional) in enumerate(telling.items()):
        people, name = int((values[:, place] == 1).sum()), consent.feature_names[position]
        if people and np.isin(values[:, place], (0, 1)).all():
            reason = f"and its name says that they withhold {optional!r}: leave it out"
            found.append(EncodedSilence(owner[optional], BASE_COLUMN, people, len(values), name, "1", reason))
    return found


def find_telling_values(
    source: RowSource,
    consent: Consent,
    rows: Array,
    shared: Array,
    categories: Mapping[int, Sequence[Any]],
) -> list[EncodedSilence]:
    """Return the base columns whose values tell who withholds a group.

    A few people who share a group and a few who withhold it show which columns can tell; only those are read further.

    Parameters
    ----------
    source
        The people.
    consent
        What is optional.
    rows
        The numbers of those in the sample.
    shared
        Their masks.
    categories
        The categories of coded columns, for messages.
    """
    base = _base(consent)
    if not base:
        return []
    events = _events(consent, shared)
    suspects: dict[str, tuple[Array, list[int]]] = {}
    parting: set[int] = set()
    group_of = {_withholds(group): group for group in consent.group_names}
    for who, apart in events.items():
        here, there = (source.take(rows[side][:MIN_EACH])[:, base] for side in (apart, ~apart))
        parting |= {base[j] for j in np.flatnonzero(_part(here, there, MIN_EACH))}
        if who in group_of:
            told = np.flatnonzero(_tells(here, there) | _tells(there, here))
            suspects[group_of[who]] = apart, [base[j] for j in told]
    counted = _counting_columns(source, consent, rows, shared, base) if len(suspects) > 1 else []
    parting -= set(counted)
    columns = sorted({column for _, some in suspects.values() for column in some} | set(counted) | parting)
    if not columns:
        return []
    values = dict(zip(columns, read_columns(source, rows, np.array(columns)).T, strict=True))
    found: list[EncodedSilence] = []
    for group, (silent, some) in suspects.items():
        for column in some:
            found += _telling(group, consent.feature_names[column], values[column], silent, categories.get(column))
    for column in counted:
        found += _count(consent, consent.feature_names[column], values[column], shared)
    for column in sorted(parting):
        name = consent.feature_names[column]
        if all(one.column != name for one in found):
            found += _parting(consent, name, values[column], events, categories.get(column))
    return found


def _base(consent: Consent) -> list[int]:
    return np.flatnonzero(consent.column_bits == 0).tolist()


def _tells(some: Array, others: Array) -> Array:
    """Return for each column whether all of some have one value there, and none of the others has it."""
    return np.asarray(_is(some, some[0]).all(axis=0) & ~_is(others, some[0]).any(axis=0))


def _is(values: Array, value: Any) -> Array:
    return np.asarray((values == value) | (np.isnan(values) & np.isnan(value)))


def _telling(
    group: str, name: str, values: Array, silent: Array, categories: Sequence[Any] | None
) -> Iterator[EncodedSilence]:
    """Say that a column tells who withholds a group, if it does for everybody in the sample."""
    for some, who in ((silent, "withhold"), (~silent, "share")):
        value = values[some][0]
        if not np.array_equal(_is(values, value), some):
            continue
        part_of_it = np.isnan(value) and who == "withhold"
        shown, what = _shown(value, categories), f"make it part of group {group!r}" if part_of_it else "leave it out"
        reason = f"exactly those who {who} {group!r}: {what}"
        yield EncodedSilence(group, BASE_COLUMN, int(some.sum()), len(values), name, shown, reason)
        return


def _counting_columns(source: RowSource, consent: Consent, rows: Array, shared: Array, base: list[int]) -> list[int]:
    """Return the base columns that may count the groups people withhold or share."""
    few = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), 2 * MIN_EACH)).astype(np.int64))
    values, count = source.take(rows[few])[:, base], _shared_groups(shared[few])
    counts = (values == count[:, None]).all(axis=0) | (values == consent.n_groups - count[:, None]).all(axis=0)
    return [base[j] for j in np.flatnonzero(counts)]


def _count(consent: Consent, name: str, values: Array, shared: Array) -> Iterator[EncodedSilence]:
    count = _shared_groups(shared)
    for counted, who in ((consent.n_groups - count, "withhold"), (count, "share")):
        if np.array_equal(values, counted) and len(np.unique(count)) > 1:
            reason = f"which is how many groups they {who}: leave it out"
            people, largest = int((counted > 0).sum()), f"between 1 and {counted.max():.0f}"
            yield EncodedSilence(consent.group_names[0], BASE_COLUMN, people, len(values), name, largest, reason)
            return


def _events(consent: Consent, shared: Array) -> dict[str, Array]:
    """Return what a column may tell: in words → of whom it is true, where enough people are on either side."""
    everything = np.uint64((1 << consent.n_groups) - 1)
    told = {
        _withholds(group): (shared >> np.uint64(g)) & np.uint64(1) == 0 for g, group in enumerate(consent.group_names)
    }
    if consent.n_groups > 1:
        told |= {"share nothing": shared == 0, "withhold something": shared != everything}
    return {who: some for who, some in told.items() if min(some.sum(), (~some).sum()) >= MIN_EACH}


def _withholds(group: str) -> str:
    return f"withhold {group!r}"


def _part(left: Array, right: Array, most: int) -> Array:
    """Return for each column whether two samples have no value in common, and few values in all."""
    here, there = _distinct(left), _distinct(right)
    missing_here, missing_there = np.isnan(left).any(axis=0), np.isnan(right).any(axis=0)
    apart = _distinct(np.concatenate([left, right])) == here + there
    # All missing values count as one.
    return np.asarray(apart & ~(missing_here & missing_there) & (here + there + missing_here + missing_there <= most))


def _distinct(values: Array) -> Array:
    """Return how many values each column has, missing ones not counted; differences of infinite ones would be NaN."""
    ordered = np.sort(values, axis=0)  # missing values last
    return np.asarray((ordered[1:] > ordered[:-1]).sum(axis=0) + ~np.isnan(ordered[0]))


def _parting(
    consent: Consent, name: str, values: Array, events: dict[str, Array], categories: Sequence[Any] | None
) -> Iterator[EncodedSilence]:
    """Say that the values of a column part some people from all others, if they do for everybody in the sample."""
    for who, some in events.items():
        if _part(values[some][:, None], values[~some][:, None], MAX_VALUES)[0]:
            known = [_shown(code, categories) for code in np.unique(values[some])]
            shown = known[0] if len(known) == 1 else f"one of {', '.join(known[:4])}{' …' * (len(known) > 4)}"
            group = next((g for g in consent.groups if who == _withholds(g)), consent.group_names[0])
            reason = f"exactly those who {who}: leave it out"
            yield EncodedSilence(group, BASE_COLUMN, int(some.sum()), len(values), name, shown, reason)
            return


def _shown(value: float, categories: Sequence[Any] | None) -> str:
    """Return a value of a base column as people know it."""
    if np.isnan(value):
        return "missing"
    return f"{value:.6g}" if categories is None else repr(categories[int(value)])


def _shared_groups(shared: Array) -> Array:
    return np.array([int(mask).bit_count() for mask in shared.tolist()], dtype=np.float64)


def read_columns(source: RowSource, rows: Array, columns: Array) -> Array:
    """Return some rows and columns; whole rows are in memory a block at a time."""
    step = source.rows_per_block
    out = np.empty((len(rows), len(columns)), dtype=source.dtype, order="F")
    for lo in range(0, len(rows), step):
        out[lo : lo + step] = source.take(rows[lo : lo + step])[:, columns]
    return out
