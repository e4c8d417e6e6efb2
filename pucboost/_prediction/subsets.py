"""Subsets of groups: their masks, their names, and who shares them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .._arrays import Array
from .._consent import Consent

MAX_GROUPS_OF_ALL_SUBSETS = 6
PEOPLE_WORTH_A_LIST = 32
FAMILIES = ("nothing", "alone", "all_but_one", "all")


def subset_masks(consent: Consent, subsets: Any = None) -> list[int]:
    """Return the masks of the subsets asked for, without repetition.

    Parameters
    ----------
    consent
        The schema.
    subsets
        None for all 2^r (up to 6 groups), or a list whose items are families (``"nothing"``, ``"alone"`` for each group
        alone, ``"all_but_one"``, ``"all"``) or lists of group names.
    """
    r = consent.n_groups
    everything = (1 << r) - 1
    if subsets is None:
        if r > MAX_GROUPS_OF_ALL_SUBSETS:
            raise ValueError(
                f"There are 2^{r} subsets of {r} groups. Choose some: subsets=['nothing', 'alone', 'all_but_one', "
                "'all'], or lists of group names."
            )
        return list(range(everything + 1))
    families = {
        "nothing": [0],
        "alone": [1 << g for g in range(r)],
        "all_but_one": [everything ^ (1 << g) for g in range(r)],
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
    """Return the mask of some groups, given by name."""
    mask = 0
    for group in groups:
        if group not in consent.groups:
            raise ValueError(
                f"Group {group!r} is not in the consent schema; its groups are {list(consent.group_names)}."
            )
        mask |= 1 << consent.group_names.index(group)
    return mask


def subset_name(mask: int, consent: Consent) -> str:
    """Return the name of a subset in tables: its groups, joined by `` + ``, or ``nothing``."""
    return " + ".join(consent.groups_of(mask)) or "nothing"


def submasks_of(mask: int) -> Array:
    """Return all sub-masks, in ascending order."""
    subs, sub = [0], 0
    while sub != mask:
        sub = (sub - mask) & mask
        subs.append(sub)
    return np.array(subs, dtype=np.uint64)


def people_by_mask(shared: Array) -> Iterator[tuple[int, Array]]:
    """Yield every mask that occurs, with the people who have it."""
    masks, owner = np.unique(shared, return_inverse=True)
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(len(masks) + 1))
    for number, mask in enumerate(masks.tolist()):
        yield mask, order[bounds[number] : bounds[number + 1]]


def people_by_subsets(shared: Array, masks: Array) -> Iterator[tuple[Array, Array]]:
    """Yield people with the numbers of the masks that they share; everybody who shares any is in one of the lists.

    People who share the same of these masks come together. Lists of fewer than 32 people are merged into one, whose
    masks need not be shared by all of them.
    """
    have, owner = np.unique(shared, return_inverse=True)
    patterns, pattern = np.unique((have[:, None] & masks) == masks, axis=0, return_inverse=True)
    rare: list[Array] = []
    for number, people in people_by_mask(pattern.reshape(-1)[owner]):
        which = np.flatnonzero(patterns[number])
        if len(people) < PEOPLE_WORTH_A_LIST:
            rare.append(people)
        elif len(which):
            yield people, which
    if rare:
        together = np.sort(np.concatenate(rare))
        anybody = (shared[together, None] & masks) == masks
        if anybody.any():
            yield together, np.flatnonzero(anybody.any(axis=0))
