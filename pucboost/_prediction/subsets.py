"""Subsets of groups: their masks, their names, and who shares them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .._arrays import Array
from .._consent import Consent
from .._declarations import JOINED_BY, NOTHING

MAX_SUBSETS = 64
"""How many subsets are listed without being asked for: those of 6 groups, or of 63 levels."""
PEOPLE_WORTH_A_LIST = 32
FAMILIES = (NOTHING, "alone", "all_but_one", "all")


def subset_masks(consent: Consent, subsets: Any = None) -> list[int]:
    """Return the masks of the subsets asked for, without repetition.

    Parameters
    ----------
    consent
        The schema.
    subsets
        None for all 2^r (up to 6 groups), or a list whose items are families (``"nothing"``, ``"alone"`` for each group
        alone, ``"all_but_one"``, ``"all"``) or lists of group names. Groups that need others come with these: only
        admissible subsets are returned.
    """
    r, nesting = consent.n_groups, consent.nesting
    everything = (1 << r) - 1
    if subsets is None:
        if nesting.count(everything) > MAX_SUBSETS:
            how_many = f"2^{r} subsets" if nesting.is_free else f"{nesting.count(everything):,} admissible subsets"
            raise ValueError(
                f"There are {how_many} of {r} groups. Choose some: subsets=['nothing', 'alone', 'all_but_one', "
                "'all'], or lists of group names."
            )
        return [int(mask) for mask in nesting.submasks(everything)]
    families = {
        NOTHING: [0],
        "alone": list(nesting.above),
        "all_but_one": [everything & ~below for below in nesting.below],
        "all": [everything],
    }
    masks: list[int] = []
    for wanted in [subsets] if isinstance(subsets, str) else subsets:
        if isinstance(wanted, str):
            if wanted not in families:
                raise ValueError(
                    f"subsets must be among {', '.join(map(repr, FAMILIES))} or lists of groups; got {wanted!r}."
                )
            masks += families[wanted]
        else:
            masks.append(mask_of(wanted, consent))
    return list(dict.fromkeys(masks))


def mask_of(groups: Iterable[str], consent: Consent) -> int:
    """Return the mask of some groups, given by name, and of all that these need."""
    mask = 0
    for group in groups:
        if group not in consent.groups:
            raise ValueError(
                f"Group {group!r} is not in the consent schema; its groups are {list(consent.group_names)}."
            )
        mask |= consent.nesting.above[consent.group_names.index(group)]
    return mask


def subset_name(mask: int, consent: Consent) -> str:
    """Return the name of a subset in tables: its groups, joined by `` + ``, or ``nothing``.

    Groups that others of the subset need go without saying: ``fitness: full`` stands for all levels up to it.
    """
    return JOINED_BY.join(consent.groups_of(consent.nesting.topmost(mask))) or NOTHING


def subset_names(masks: Iterable[int], consent: Consent) -> list[str]:
    """Return the names of subsets. Different subsets have different names: a schema refuses groups like ``a + b``."""
    return [subset_name(int(mask), consent) for mask in masks]


def people_by_mask(shared: Array) -> Iterator[tuple[int, Array]]:
    """Yield every mask that occurs, with the people who have it."""
    order, masks, bounds = _sorted_by(shared)
    if len(masks):
        yield from zip(masks.tolist(), np.split(order, bounds), strict=True)


def people_by_subsets(shared: Array, masks: Array) -> Iterator[tuple[Array, Array, bool]]:
    """Yield people, the numbers of the masks to predict them for, and whether all of them share all of these.

    Every person who shares any of the masks is in one of the lists. People who share the same of them come together.
    Lists of fewer than 32 people would take longer than a few predictions that nobody needs, so they are merged.
    """
    if not len(shared):
        return
    order, have, bounds = _sorted_by(shared)
    patterns, pattern = np.unique((have[:, None] & masks) == masks, axis=0, return_inverse=True)
    sizes = np.diff(np.concatenate([[0], bounds, [len(order)]]))
    again, numbers, bounds = _sorted_by(np.repeat(pattern.reshape(-1), sizes))
    rare: list[Array] = []
    for number, people in zip(numbers.tolist(), np.split(order[again], bounds), strict=True):
        if len(people) < PEOPLE_WORTH_A_LIST:
            rare.append(people)
        elif patterns[number].any():
            yield people, np.flatnonzero(patterns[number]), True
    if rare:
        together = np.sort(np.concatenate(rare))
        shares = (shared[together, None] & masks) == masks
        if shares.any():
            yield together, np.flatnonzero(shares.any(axis=0)), False


def _sorted_by(values: Array) -> tuple[Array, Array, Array]:
    """Return the order that sorts values, the distinct values, and where in that order each but the first begins."""
    # Numbers of 16 bits are sorted by counting, many times faster than others.
    order = np.argsort(values.astype(np.uint16) if values.max(initial=0) < 1 << 16 else values, kind="stable")
    ordered = values[order]
    bounds = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    return order, ordered[np.concatenate([[0], bounds])] if len(ordered) else ordered, bounds
