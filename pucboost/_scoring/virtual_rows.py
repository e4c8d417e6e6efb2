"""Which virtual rows count in a score, and how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arrays import Array
from .._consent import JOINED_BY, NOTHING, Consent
from .._prediction.people import People, mask_of


@dataclass(frozen=True)
class ScoredPeople(People):
    """People and their outcomes, which may be classes of any type."""

    y: Array


@dataclass(frozen=True)
class Cell:
    """All virtual rows of one set S: who has one, and its weight."""

    mask: int
    rows: Array
    weight: Array


def virtual_rows(shared: Array, weight: Array, shares: Mapping[int, float], max_masks: int) -> list[Cell]:
    """Return the virtual rows (i, S), a_i ⊇ S, with weights p(S)·w_i / Σ_{j: a_j ⊇ S} w_j that add up to 1."""
    found: list[tuple[int, Array]] = []
    for mask in shares:
        rows = np.flatnonzero(((shared & np.uint64(mask)) == np.uint64(mask)) & (weight > 0))
        if len(rows):
            found.append((mask, rows))
        if len(found) == max_masks:
            break
    if not found:
        raise ValueError("Nobody in X shares any of the sets in frequencies.")
    total = sum(shares[mask] for mask, _ in found)
    return [Cell(mask, rows, shares[mask] / total * weight[rows] / weight[rows].sum()) for mask, rows in found]


def given_shares(frequencies: Mapping[Any, float], consent: Consent) -> dict[int, float]:
    """Return frequencies given by sets of groups as frequencies of masks, most frequent first."""
    if not isinstance(frequencies, Mapping):
        raise ValueError(f"frequencies must be a dict set of groups -> share, got {type(frequencies).__name__}.")
    shares: dict[int, float] = {}
    for groups, share in frequencies.items():
        if not np.isreal(share) or not 0 <= float(share) < np.inf:
            raise ValueError(f"The frequency of {groups!r} is {share!r}; it must be a non-negative number.")
        mask = _mask_of_set(groups, consent)
        shares[mask] = shares.get(mask, 0.0) + float(share)
    if not any(shares.values()):
        raise ValueError("frequencies are all 0.")
    return {mask: share for mask, share in sorted(shares.items(), key=lambda item: (-item[1], item[0])) if share > 0}


def _mask_of_set(groups: Any, consent: Consent) -> int:
    """Return the mask of a set of groups: a tuple of names, one name, or the name of a set in an audit report."""
    if isinstance(groups, str) and groups not in consent.groups:
        if groups == "everything":
            groups = consent.group_names
        else:
            groups = () if groups == NOTHING else tuple(groups.split(JOINED_BY))
    try:
        return mask_of((groups,) if isinstance(groups, str) else groups, consent)
    except ValueError as error:
        raise ValueError(f"frequencies: {error}") from None
