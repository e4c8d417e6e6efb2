"""One warning per table about silence that seems to be imputed or encoded."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

from .._arrays import Array
from .._consent import Consent
from .._tables.sources import RowSource
from .._warnings import warn
from .detector import find_encoded_silence
from .findings import BASE_COLUMN, EncodedSilence, EncodedSilenceWarning, describe


def warn_of_encoded_silence(
    source: RowSource, consent: Consent, shared: Array, expect_shared: Any, *, zero_as_missing: bool = False
) -> None:
    """Warn if silence seems to be imputed or encoded in a table that a model will be trained on.

    Parameters
    ----------
    source, consent
        The table, and what is optional in it.
    shared
        Mask of the groups each person shares.
    expect_shared
        As in ``train``: groups of which nothing is to be said.
    zero_as_missing
        Whether zeros count as missing.
    """
    expected = groups_named(expect_shared, consent)
    if len(expected) == consent.n_groups:  # also if there are none
        return
    findings = find_encoded_silence(source, consent, shared, zero_as_missing=zero_as_missing)
    findings = [one for one in findings if one.group not in expected]
    if findings:
        warn(_in_words(findings), EncodedSilenceWarning)


def _in_words(findings: list[EncodedSilence]) -> str:
    groups = list(dict.fromkeys(one.group for one in findings))
    if all(one.kind == BASE_COLUMN for one in findings):
        return (
            f"Base columns tell who is silent, and then the silent are not protected: {describe(findings)}. If such a "
            f"column must stay, expect_shared={groups!r} turns this warning off."
        )
    return (
        f"Silence may have been imputed or encoded, and then the silent are not protected: {describe(findings)}. "
        "Leave what is withheld missing (NaN) and drop the imputer or encoder, or say who shares with available=. "
        f"If all these values were really shared, say so: expect_shared={groups!r}."
    )


def groups_named(expect_shared: Any, consent: Consent) -> frozenset[str]:
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
