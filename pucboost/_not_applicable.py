"""What does not apply to somebody is not withheld: the declaration ``not_applicable``, read and checked.

A missing optional value means silence. Where there was nothing to share, that is wrong: nobody declined anything. Three
declarations tell the two apart, for each optional column or group:

1. **values** of the column that stand for it (-8, "n/a"). They are values already, and are not reported as codes;
2. **rules**: values of a base column with which an empty cell does not apply. They are part of the consent schema, so
   every table that a model reads later is read by them;
3. **flags**, one per row, for a single table. They are written into it as :data:`NOT_APPLICABLE`, which is then a value
   as in 1.

An empty cell that does not apply gets a value of its own (:class:`pucboost._tables.sources.FilledSource`), which is
shared and may be withheld like any other.

A rule may look at base columns only. If it looked at an optional column, the virtual row in which that column is erased
would still show "does not apply", and so tell what was erased. And a rule should cover people of whom nobody has a
value. Otherwise those who have one and withhold it look like those who have none, and their silence is read; then only
the people themselves can tell.

With a rule that covers nobody with a value the target stays what it was: given b, f*(b, a, z) with "does not apply" and
f* of the silent average over the same people. What changes is who counts as silent, in plans, quotes, letters, audits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ._common import Array, did_you_mean, warn
from ._consent import Consent, is_whole, position_of_name
from ._tables.sources import (
    NOT_APPLICABLE,
    NOT_APPLICABLE_WORD,
    DoesNotApply,
    RowSource,
    codes_of,
    filled,
    flags_of,
)
from .warnings import EncodedSilenceWarning

NotApplicable: TypeAlias = Mapping[Any, Any] | None
"""Optional column or group → values of it, flags, or a dict base column → values."""

TOLERATED = 0.01
"""Share of the people whom a rule covers that may have a value: errors in the data."""


def read_not_applicable(
    consent: Consent, source: RowSource, *declarations: NotApplicable, only_part: bool = False
) -> tuple[Consent, RowSource]:
    """Return the consent schema with what is declared, and the table with values where something does not apply.

    Parameters
    ----------
    consent
        If it has rules already, a declaration must not contradict them, but may add the flags of a table.
    source
        The table to train on, or another one that is read for the first time.
    *declarations
        Those of the Dataset and of the parameters, None for none.
    only_part
        Whether the table is one of several parts, which need not have every value, and no flags.
    """
    given = [one for one in declarations if one]
    if len(given) > 1:
        raise ValueError("not_applicable is given twice, with the table and with the parameters. Give it once.")
    if not given:
        return consent, filled(source, consent.not_applicable, source.categories)
    declared, flags = _declared(consent, given[0])
    if only_part and flags:
        raise _no_flags(declared, next(iter(flags)))
    for j, mask in flags.items():
        if len(mask) != source.n_rows:
            raise ValueError(
                f"not_applicable of column {consent.feature_names[j]!r} has {len(mask)} flags for {source.n_rows} rows."
            )
    if not only_part and not consent.not_applicable:
        _check_values(declared, source)
    words = {j: NOT_APPLICABLE_WORD if j in source.coded else NOT_APPLICABLE for j in flags}
    by_flags = tuple(DoesNotApply(j, None, (word,)) for j, word in words.items())
    known = declared.not_applicable
    declared = replace(declared, not_applicable=(*known, *(one for one in by_flags if one not in known)))
    return declared, filled(source, declared.not_applicable, source.categories, flags)


def declared_without_table(consent: Consent, not_applicable: NotApplicable) -> Consent:
    """Return the consent schema with values and rules; raise for flags, which belong to one table."""
    declared, flags = _declared(consent, not_applicable or {})
    if flags:
        raise _no_flags(declared, next(iter(flags)))
    return declared


def _declared(consent: Consent, not_applicable: Any) -> tuple[Consent, dict[int, Array]]:
    """Return the consent schema with values and rules of a declaration, and flags by column."""
    if not isinstance(not_applicable, Mapping):
        raise ValueError(
            "not_applicable must be a dict: optional column -> a value, {base column: [values]} or one flag per row; "
            f"got {type(not_applicable).__name__}."
        )
    if not_applicable and not consent.n_groups:
        raise ValueError("not_applicable needs optional columns: nothing else is silence when it is missing.")
    entries: list[DoesNotApply] = []
    flags: dict[int, Array] = {}
    for key, given in not_applicable.items():
        for column in _columns(key, consent):
            mask = flags_of(given)
            if mask is not None:
                flags[column] = mask
            elif isinstance(given, Mapping):
                where = {_position(base, consent): values for base, values in given.items()}
                entries += [DoesNotApply(column, base, _listed(values)) for base, values in where.items()]
            else:
                entries.append(DoesNotApply(column, None, _listed(given)))
    for column in flags:
        replace(consent, not_applicable=(DoesNotApply(column, None, (NOT_APPLICABLE,)),))  # raises for base columns
    declared = replace(consent, not_applicable=tuple(entries))
    if not consent.not_applicable:
        return declared, flags
    if not set(declared.not_applicable) <= set(consent.not_applicable):
        raise ValueError(f"The consent schema is {consent}, but not_applicable says {declared}. Declare only one.")
    return consent, flags


def _columns(key: Any, consent: Consent) -> tuple[int, ...]:
    """Return the positions of a column, or of all columns of a group."""
    if key in consent.groups and key not in consent.feature_names:
        return consent.groups[key]
    return (_position(key, consent),)


def _position(column: Any, consent: Consent) -> int:
    if not is_whole(column):
        return position_of_name(str(column), consent.feature_names, "not_applicable")
    if not 0 <= column < len(consent.feature_names):
        raise ValueError(f"not_applicable names column {column}; there are 0 to {len(consent.feature_names) - 1}.")
    return int(column)


def _listed(values: Any) -> tuple[Any, ...]:
    """Return one value or several as a tuple; the schema checks them."""
    return tuple(values) if isinstance(values, (list, tuple, set, np.ndarray)) else (values,)


def _no_flags(consent: Consent, column: int) -> ValueError:
    return ValueError(
        f"not_applicable of column {consent.feature_names[column]!r} has one flag per row. Flags belong to one table: "
        f"write them into the tables as pucboost.NOT_APPLICABLE (in text columns {NOT_APPLICABLE_WORD!r}), or give a "
        "rule, {base column: [values]}."
    )


def _check_values(consent: Consent, source: RowSource) -> None:
    """Raise for values that nobody has, and warn of rules that cover people who have a value."""
    names = consent.feature_names
    lists = {j: list(values) for j, values in source.categories.by_column(source.coded).items()}
    entries = consent.not_applicable
    looked_at = [one.column if one.where is None else one.where for one in entries]
    codes = [codes_of(one.values, lists.get(j)).astype(source.dtype) for one, j in zip(entries, looked_at, strict=True)]
    people = [np.zeros(len(one.values), dtype=np.int64) for one in entries]
    with_value = [0] * len(entries)
    for lo, hi in source.blocks() if entries else ():
        block = source.window(lo, hi)
        for i, (one, j) in enumerate(zip(entries, looked_at, strict=True)):
            found = block[:, j, None] == codes[i]
            people[i] += found.sum(axis=0)
            given = ~np.isnan(block[:, one.column]) & (block[:, one.column] != NOT_APPLICABLE)
            with_value[i] += int((found.any(axis=1) & given).sum())
    for one, j, counts, some in zip(entries, looked_at, people, with_value, strict=True):
        never = [value for value, count in zip(one.values, counts, strict=True) if not count]
        own = [value for value in never if value not in (NOT_APPLICABLE, NOT_APPLICABLE_WORD) or one.where is not None]
        if len(own) == len(one.values):
            known = [value for value in lists.get(j, ()) if isinstance(value, str)]
            hint = did_you_mean(own[0], known) if isinstance(own[0], str) else ""
            raise ValueError(
                f"not_applicable says that {consent.in_words(one)}, but nobody has {names[j]!r} = {own[0]!r}.{hint}"
            )
        covered = int(counts.sum())
        if one.where is not None and some > TOLERATED * covered:
            warn(
                f"not_applicable says that {consent.in_words(one)}. Of {covered:,} such people {some:,} have a value "
                "there. So it does apply to some, and whoever of them withholds it is taken for somebody to whom it "
                "does not apply: their silence is read. Use a rule where nobody has a value. Elsewhere let people "
                "tell, and write pucboost.NOT_APPLICABLE where they say so.",
                EncodedSilenceWarning,
            )
