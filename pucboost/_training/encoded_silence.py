"""One warning per training about silence that seems to be imputed or encoded."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from numbers import Integral
from typing import Any

from .._arrays import Array
from .._callers import users_level
from .._consent import Consent
from .._encoded_silence.detector import find_encoded_silence
from .._encoded_silence.findings import BASE_COLUMN, EncodedSilence, EncodedSilenceWarning, describe
from .request import TrainingRequest


def warn_of_encoded_silence(request: TrainingRequest, shared: Array | None = None) -> None:
    """Warn if silence seems to be imputed or encoded in the training table.

    Parameters
    ----------
    request
        What is to be trained. With ``augmentation="none"`` there is a warning, too: who asks for it may well believe
        that ``optional`` protects somebody.
    shared
        Mask of the groups each person shares, if it is known already.
    """
    consent, table, zero = request.consent, request.table, request.options.zero_as_missing
    if consent.n_groups == 0:
        return
    expected = groups_named(request.settings.expect_shared, consent)
    if len(expected) == consent.n_groups:
        return
    if shared is None:
        threads = request.options.num_threads
        shared = consent.visible(table.source, table.available, zero_as_missing=zero, num_threads=threads)
    findings = find_encoded_silence(table.source, consent, shared, zero_as_missing=zero)
    findings = [one for one in findings if one.group not in expected]
    if findings:
        warnings.warn(_in_words(findings), EncodedSilenceWarning, stacklevel=users_level())


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
