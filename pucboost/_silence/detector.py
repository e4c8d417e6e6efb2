"""Where in a table silence seems to be imputed or encoded.

Five things are looked for in every group:

1. **Nobody withholds it**: fewer than one in a thousand, among at least 200 people. Whatever an imputer or encoder made
   of silence, this remains, and nothing else does for good imputers. In a smaller table nobody may withhold by chance.
2. **A spike** in a column of numbers (:mod:`.signs`), or values that a CSR matrix does not store, so that they are 0.
   The latter count where nobody withholds otherwise, or where the stored ones are measurements on both sides of 0;
   counts and amounts above 0 are stored that way by everybody.
3. **A word** for silence among the categories of a column.
4. **One-hot columns**: a 0/1 column whose name ends in such a word, or people with 0 in all columns of a group in which
   everybody else has a single 1. The latter is what ``drop="first"`` does too, so it counts only where nobody withholds
   the group otherwise; the same holds for the category "none".
5. **A base column** that tells who withholds the group, by its name or by its values.

What is certain enough to be said of a group that people do withhold must be rare in honest tables, because then silence
seems to be encoded for some only. Where nobody withholds, there is a finding anyway, and the others explain it.

Encoded silence is suspected, never proved, and honest columns that look like it are spared where they are known; tests
have a list of them. Sharing is counted over all people, everything else in a sample of at most :data:`SAMPLE` rows,
evenly spread.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from .._common import Array, warn
from .._consent import Consent
from .._tables.sources import RowSource
from ..warnings import EncodedSilenceWarning
from .signs import (
    BASE_COLUMN,
    MIN_SPIKE,
    MIN_VALUES,
    NOBODY,
    SPIKE_SHARE,
    EncodedSilence,
    describe,
    find_indicators,
    find_spikes,
    find_telling_values,
    may_stand_for_silence,
    name_says_silence,
    read_columns,
    stands_for_silence,
    telling_by_name,
)

SAMPLE = 20_000
"""How many rows are read at most."""
SAMPLE_VALUES = 8_000_000
"""How many values are kept at most."""
GOLDEN_RATIO = (5**0.5 - 1) / 2
"""Its multiples are spread evenly over the unit interval."""
MIN_PEOPLE = 200
"""In a smaller table nobody may withhold by chance."""
WITHHELD_BY_FEW = 1_000
"""One in so many."""

_REASONS = {
    "mean": "the mean of its other values, as an imputer fills it in",
    "median": "the median of its other values, as an imputer fills it in",
    "code": "outside the range of its other values, like a code",
    "zero": "far from all its other values",
}


def find_encoded_silence(
    source: RowSource, consent: Consent, shared: Array, *, zero_as_missing: bool = False
) -> list[EncodedSilence]:
    """Return where silence seems to be imputed or encoded, group by group.

    Examples
    --------
    >>> import numpy as np
    >>> from pucboost._tables.sources import ArraySource
    >>> X = np.random.default_rng(0).normal(size=(300, 2)); X[:90, 1] = -999
    >>> consent = Consent.declare([1], ["age", "glucose"])
    >>> for found in find_encoded_silence(ArraySource(X), consent, consent.availability(X)):
    ...     print(found)
    group 'glucose' is withheld by nobody in training (0 of 300 people)
    column 'glucose' is -999 for 30.0% of the people, outside the range of its other values, like a code
    """
    if consent.n_groups == 0 or source.n_rows == 0:
        return []
    optional = consent.group_columns
    telling = telling_by_name(consent)
    rows = _sample(source.n_rows, len(optional) + len(telling))
    values = read_columns(source, rows, np.array([*optional, *telling], dtype=np.int64))
    indicators = values[:, len(optional) :].copy()
    if zero_as_missing:
        values[values == 0] = np.nan
    stored = source.present(rows, optional) if source.is_sparse else None
    categories = dict(zip(source.coded, source.pandas_categorical or (), strict=False))
    found = find_telling_values(source, consent, rows, shared[rows], categories)
    exact = {(one.group, one.column) for one in found}
    named = find_indicators(consent, telling, indicators)
    found += [one for one in named if (one.group, one.column) not in exact]
    for g, group in enumerate(consent.group_names):
        silent = (shared >> np.uint64(g)) & np.uint64(1) == 0
        withheld = int(silent.sum())
        by_few = withheld * WITHHELD_BY_FEW < source.n_rows
        if by_few and source.n_rows >= MIN_PEOPLE:
            found.append(EncodedSilence(group, NOBODY, withheld, source.n_rows))
        start = consent.group_start[g]
        mine = values[:, start : consent.group_start[g + 1]]
        mine[silent[rows]] = np.nan  # with available= there may be something unstored
        given = ~np.isnan(mine)
        binary = ((mine == 0) | (mine == 1) | ~given).all(axis=0) & given.any(axis=0)
        for place, position in enumerate(consent.groups[group]):
            name, column = consent.feature_names[position], mine[:, place]
            if position in categories:
                signs = _words(column, categories[position], by_few)
            elif binary[place]:
                signs = _named(column, name, consent.feature_names)
            else:
                signs = _numbers(column, None if stored is None else stored[:, start + place], by_few)
            found += [
                EncodedSilence(group, kind, people, len(rows), name, value, reason)
                for kind, people, value, reason in signs
            ]
        if by_few and len(binary) > 1 and binary.all():
            found += _all_zero(group, mine)
    return found


def _sample(n_rows: int, n_columns: int) -> Array:
    """Return the rows to look at: one from each of as many stretches of equal length.

    Not the first ones of each: a table may have a period, such as three rows per person.
    """
    size = min(n_rows, SAMPLE, max(MIN_PEOPLE, SAMPLE_VALUES // n_columns))
    number = np.arange(size + 1, dtype=np.int64)
    start = number * n_rows // size
    within = (number[:-1] * GOLDEN_RATIO) % 1.0
    return np.asarray(start[:-1] + (within * np.diff(start)).astype(np.int64))


Sign: TypeAlias = tuple[str, int, str, str]
"""Kind, number of people, value, reason."""


def _words(values: Array, categories: list[str], by_few: bool) -> Iterator[Sign]:
    for code, category in enumerate(categories):
        if stands_for_silence(category, categories) or (by_few and may_stand_for_silence(category)):
            people = int((values == code).sum())
            if people:
                yield "word", people, repr(category), "a word for silence"


def _named(values: Array, name: str, all_names: Collection[str]) -> Iterator[Sign]:
    """A 0/1 column whose name means that a 1 stands for silence."""
    people = int((values == 1).sum())
    if people and name_says_silence(name, all_names):
        yield "indicator", people, "1", "and its name says that this stands for silence"


def _numbers(values: Array, stored: Array | None, by_few: bool) -> Iterator[Sign]:
    """Numbers that stand for silence, and values that a sparse matrix does not store."""
    given = ~np.isnan(values)
    unstored = None if stored is None else given & ~stored
    if unstored is not None and _are_silence(values[given & ~unstored], unstored, by_few):
        reason = "because it is not stored in the CSR matrix: say with available= if that is silence"
        yield "unstored", int(unstored.sum()), "0", reason
        given &= ~unstored
    for spike in find_spikes(values[given]):
        yield spike.rule, spike.count, f"{spike.value:.6g}", _REASONS[spike.rule]


def _are_silence(stored: Array, unstored: Array, by_few: bool) -> bool:
    """Return whether unstored values may be silence: the others are measurements, not counts or amounts above 0."""
    people = int(unstored.sum())
    if people < max(MIN_SPIKE, SPIKE_SHARE * len(unstored)):
        return False
    if by_few:
        return True
    both_sides = len(stored) >= MIN_VALUES and min((stored < 0).mean(), (stored > 0).mean()) > 0.05
    return bool(both_sides and len(np.unique(stored)) > len(stored) / 2)


def _all_zero(group: str, values: Array) -> Iterator[EncodedSilence]:
    """People with 0 in all 0/1 columns of a group, where all others have a single 1."""
    ones = np.nansum(values, axis=1)[~np.isnan(values).all(axis=1)]
    zero = int((ones == 0).sum())
    if len(ones) >= MIN_VALUES and ones.max() == 1 and MIN_SPIKE <= zero <= len(ones) / 2:
        reason = "as encoders write silence, unless it is the category they drop"
        yield EncodedSilence(group, "all zero", zero, len(ones), None, "0 in all its columns", reason)


def warn_of_encoded_silence(
    source: RowSource, consent: Consent, shared: Array, expect_shared: Any, *, zero_as_missing: bool = False
) -> None:
    """Warn once if silence seems to be imputed or encoded in a table that a model will be trained on.

    ``shared`` has the mask of each person, and nothing is reported of the groups in ``expect_shared``, as in ``train``.
    """
    expected = _groups_named(expect_shared, consent)
    if len(expected) == consent.n_groups:  # also if there are none
        return
    findings = find_encoded_silence(source, consent, shared, zero_as_missing=zero_as_missing)
    findings = [one for one in findings if one.group not in expected]
    if findings:
        warn(_in_words(findings), EncodedSilenceWarning)


def _in_words(findings: list[EncodedSilence]) -> str:
    # As JSON, which is Python and also the value of an option of the command line.
    groups = json.dumps(list(dict.fromkeys(one.group for one in findings)), ensure_ascii=False)
    if all(one.kind == BASE_COLUMN for one in findings):
        return (
            f"Base columns tell who is silent, and then the silent are not protected: {describe(findings)}. If such a "
            f"column must stay, expect_shared={groups} turns this warning off."
        )
    return (
        f"Silence may have been imputed or encoded, and then the silent are not protected: {describe(findings)}. "
        "Leave what is withheld missing (NaN) and drop the imputer or encoder, or declare who shares. "
        f"If all these values were really shared, set the parameter expect_shared={groups}."
    )


def _groups_named(expect_shared: Any, consent: Consent) -> frozenset[str]:
    """Return the groups that ``expect_shared`` names, by their names or by the position of a column; else raise."""
    if expect_shared is None:
        return frozenset()
    if isinstance(expect_shared, bool) or not isinstance(expect_shared, (str, Integral, Iterable)):
        raise ValueError(f"expect_shared must list groups of optional columns, got {expect_shared!r}.")
    named = [expect_shared] if isinstance(expect_shared, (str, Integral)) else list(expect_shared)
    of_column = {column: group for group, columns in consent.groups.items() for column in columns}
    groups = [of_column.get(int(one)) if isinstance(one, Integral) else one for one in named]
    for given, group in zip(named, groups, strict=True):
        if group not in consent.groups:
            raise ValueError(f"expect_shared names {given!r}; the groups are {list(consent.group_names)}.")
    return frozenset(str(group) for group in groups)
