"""Whether the data can support the conclusions."""

from __future__ import annotations

import numpy as np

from ..._encoded_silence.detector import find_encoded_silence
from ..._encoded_silence.findings import BASE_COLUMN, NOBODY, describe
from ..._virtual.part_facts import MIN_PEOPLE_OF_MASK
from ..findings import GroupSupport, Support
from ..wording import counted
from .people import AuditPeople
from .training_data import TrainingData

RARE_SHARE = 0.01
"""A group shared or withheld by fewer people than this gets a warning."""


def describe_support(people: AuditPeople, tested: list[int], training: TrainingData) -> tuple[Support, list[str]]:
    """Say whether the data can support the conclusions, with warnings in words."""
    notes = []
    counts = people.mask_counts
    seen = training.masks_seen
    unseen = None if seen is None else [mask for mask in counts if mask not in seen]
    unseen_people = None if unseen is None else sum(counts[mask] for mask in unseen)
    if unseen:
        notes.append(
            f"{counted(unseen_people or 0, 'person shares a set', 'people share sets')} of groups that fewer than "
            f"{MIN_PEOPLE_OF_MASK} people in training shared exactly so, for example {people.name(unseen[0])!r}."
        )
    encoded = find_encoded_silence(people.source, people.consent, people.shared)
    withheld_by_nobody = {one.group for one in encoded if one.kind == NOBODY}
    groups = []
    for g, group in enumerate(people.consent.group_names):
        shared = int(((people.shared >> np.uint64(g)) & np.uint64(1)).sum())
        rate = shared / len(people)
        groups.append(GroupSupport(group, rate, len(people) - shared, shared))
        if rate < RARE_SHARE or rate > 1 - RARE_SHARE:
            word = "shared" if rate < RARE_SHARE else "withheld"
            few = shared if rate < RARE_SHARE else len(people) - shared
            notes.append(
                f"Group {group!r} is {word} by {few:,} of {len(people):,} people; little can be said about it."
                + (" Was silence imputed or encoded in these data?" if group in withheld_by_nobody else "")
            )
    telling = [one for one in encoded if one.kind == BASE_COLUMN]
    if telling:
        notes.append(
            f"Base columns tell who is silent: {describe(telling)}. A model can read silence in them, and the audit, "
            "which compares people with equal base columns, does not see it."
        )
    values = [one for one in encoded if one.kind not in (NOBODY, BASE_COLUMN)]
    if values:
        notes.append(
            f"Silence may have been encoded as a value: {describe(values)}. If so, these people are counted as "
            "sharing, and the audit does not see what their silence costs them."
        )
    untested = len(people) - sum(counts[mask] for mask in tested)
    if untested:
        notes.append(
            f"{untested:,} of {len(people):,} people {'shares a set' if untested == 1 else 'share sets'} of groups too "
            "rare to be tested; the verdict does not cover them."
        )
    w = people.weight
    effective = float(w.sum() ** 2 / (w**2).sum())
    if effective < 0.5 * len(people):
        notes.append(f"The weights leave an effective sample of {effective:,.0f} of {len(people):,} rows.")
    return Support(
        masks=len(counts),
        unseen_in_training=None if unseen is None else tuple(people.name(mask) for mask in unseen),
        unseen_people=unseen_people,
        untested_people=untested,
        groups=tuple(groups),
        effective_sample_size=effective,
        trained_on=training.trained_on,
        withholding_people=len(people) - counts.get(people.everything, 0),
    ), notes
