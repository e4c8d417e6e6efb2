"""Which sets of shared groups are tested, and which are too rare."""

from __future__ import annotations

from ..findings import Penalty
from ..settings import JudgementOptions
from ..wording import counted, people_in_words
from .penalty import not_testable
from .people import AuditPeople

MAX_UNTESTED_SHOWN = 10


def tested_masks(people: AuditPeople, judgement: JudgementOptions) -> list[int]:
    """Return the sets to test: nothing first, everything last, the others in between by frequency."""
    masks = [mask for mask, count in people.mask_counts.items() if count >= judgement.min_count][: judgement.max_masks]
    return sorted(masks, key=lambda mask: (mask != 0, mask == people.everything))


def untested_sets(people: AuditPeople, masks: list[int], judgement: JudgementOptions) -> list[Penalty]:
    """Return entries for the most frequent sets that were not tested, and one for all others."""
    rest = [(mask, count) for mask, count in people.mask_counts.items() if mask not in masks]
    rest.sort(key=lambda item: item[0] != 0)  # those who share nothing come first, however few they are
    entries = []
    for mask, count in rest[:MAX_UNTESTED_SHOWN]:
        few = f"{people_in_words(count)}, fewer than the {judgement.min_count} asked for."
        note = few if count < judgement.min_count else f"Beyond the {judgement.max_masks} most frequent sets."
        groups = people.consent.groups_of(mask)
        entries.append(not_testable(people.name(mask), groups, None, count, len(people.at_least(mask)), note))
    further = rest[MAX_UNTESTED_SHOWN:]
    if further:
        count = sum(count for _, count in further)
        note = f"{counted(len(further), 'further set', 'further sets')}, too rare to be tested."
        entries.append(not_testable("other sets", None, None, count, count, note))
    return entries
