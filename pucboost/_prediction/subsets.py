"""Subsets of groups: their masks, their names, and who shares them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .._arrays import Array
from .._consent import JOINED_BY, NOTHING, Consent

MAX_GROUPS_OF_ALL_SUBSETS = 6
FAMILIES = (NOTHING, "alone", "all_but_one", "all")


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
        NOTHING: [0],
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
    return JOINED_BY.join(consent.groups_of(mask)) or NOTHING


def subset_names(masks: Iterable[int], consent: Consent) -> list[str]:
    """Return the names of different subsets; raise if two have the same, as in models of earlier versions."""
    names = [subset_name(int(mask), consent) for mask in masks]
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise ValueError(
            f"Two sets of groups are called {twice!r}, because of how the groups of the model are named: "
            f"{list(consent.group_names)}. Train it with other names of groups, or choose subsets."
        )
    return names


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
