"""One warning per table about silence that seems to be imputed or encoded."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from numbers import Integral
from typing import Any

from .._arrays import Array
from .._consent import Consent
from .._tables.sources import RowSource
from .detector import find_encoded_silence
from .findings import EncodedSilenceWarning, describe

NOT_THE_CALLER = ("pucboost", "sklearn", "joblib")
"""Packages whose frames lie between the user's call and the warning."""


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
        groups = list(dict.fromkeys(one.group for one in findings))
        warnings.warn(
            f"Silence may have been imputed or encoded, and then the silent are not protected: {describe(findings)}. "
            "Leave what is withheld missing (NaN) and drop the imputer or encoder, or say who shares with available=. "
            f"If all these values were really shared, say so: expect_shared={groups!r}.",
            EncodedSilenceWarning,
            stacklevel=_users_level(),
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


def _users_level() -> int:
    """Return the ``stacklevel``, for the caller, of the first frame that is neither pucboost's nor scikit-learn's."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in NOT_THE_CALLER:
        level, frame = level + 1, frame.f_back
    return level
