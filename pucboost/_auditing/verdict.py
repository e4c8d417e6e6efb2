"""From intervals to verdicts: on one set of people, and on the whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from .findings import (
    CERTIFIED,
    GIVEN_AWAY,
    INCONCLUSIVE,
    NOT_TESTABLE,
    VIOLATED,
    VIOLATED_FOR_SOME,
    BaseFeature,
    Penalty,
    TrainedOn,
    WithinSet,
)
from .settings import roughly


def decide(lower: float, upper: float, margin: float) -> str:
    """Return the verdict on an interval: inside the margin, outside, or neither."""
    if -margin <= lower and upper <= margin:
        return CERTIFIED
    return VIOLATED if lower > margin or upper < -margin else INCONCLUSIVE


def rows_to_decide(theta: float, half_width: float, margin: float, n: int) -> int | None:
    """Return how many rows would decide if the estimate stayed the same: widths shrink with the root of the rows."""
    distance = abs(margin - abs(theta))
    if distance == 0 or not math.isfinite(half_width):
        return None
    needed = n * (half_width / distance) ** 2
    return math.ceil(needed) if needed < 1e12 else None


def overall(penalties: Sequence[Penalty], margin: float, describe: Callable[[float], str]) -> tuple[str, str]:
    """Return the verdict on the whole, and why: violated if any set is, certified if every set is."""
    verdict, reason = _overall([p for p in penalties if p.decisive], margin, describe)
    silent = next((p for p in penalties if p.groups == () and p.subgroup is None and p.verdict == NOT_TESTABLE), None)
    if silent is None or not any(p.decisive for p in penalties):
        return verdict, reason
    untested = f"People who share nothing were not tested: {silent.note} The verdict does not cover them."
    return verdict, f"{reason} {untested}" if verdict == VIOLATED else f"{untested} {reason}"


def _overall(tested: Sequence[Penalty], margin: float, describe: Callable[[float], str]) -> tuple[str, str]:
    if not tested:
        return INCONCLUSIVE, "No set of people who withhold something is large enough to be tested."
    violated = [p for p in tested if p.verdict == VIOLATED]
    if violated:
        worst = max(violated, key=lambda p: abs(p.estimate.value) if p.estimate else 0.0)
        assert worst.estimate is not None
        told = "more" if worst.estimate.value > 0 else "less"
        return VIOLATED, (
            f"{_who(worst)} are told {describe(abs(worst.estimate.value))} {told} than their data justify, beyond "
            f"the margin of {describe(margin)}."
        )
    open_ones = [p for p in tested if p.verdict == INCONCLUSIVE]
    if open_ones:
        needed = max((p.rows_to_decide or 0) for p in open_ones)
        more = f" About {roughly(needed)} rows would decide." if needed else ""
        return INCONCLUSIVE, (
            f"For {_which(open_ones, tested)} the data do not decide whether the penalty lies within the margin of "
            f"{describe(margin)}.{more}"
        )
    return CERTIFIED, (f"{_each(tested)}, the average penalty of withholding lies within {describe(margin)}.")


def _sets(penalties: Sequence[Penalty], *, within_subgroups: bool) -> list[Penalty]:
    """Return the entries about one set of people each; several sets together are not one more set."""
    return [p for p in penalties if p.groups is not None and (p.subgroup is not None) == within_subgroups]


def _each(tested: Sequence[Penalty]) -> str:
    sets, parts = len(_sets(tested, within_subgroups=False)), _sets(tested, within_subgroups=True)
    if not sets:
        return "Over all people who withhold something"
    which = "In the one set of people tested" if sets == 1 else f"In each of the {sets} sets of people tested"
    return f"{which}, and in each subgroup of them" if parts else which


def _which(open_ones: Sequence[Penalty], tested: Sequence[Penalty]) -> str:
    """Return how many of the sets are open, in all and within subgroups."""
    words = []
    for within, where in ((False, ""), (True, " within subgroups")):
        some, of = (len(_sets(entries, within_subgroups=within)) for entries in (open_ones, tested))
        if some:
            words.append(f"the one set of people tested{where}" if of == 1 else f"{some} of {of} sets of people{where}")
    return " and ".join(words) or "all who withhold something, taken together,"


def seen_in_words(trained_on: TrainedOn) -> str:
    """Say that too many of the audited people were trained on."""
    return (
        f"The model was trained on about {trained_on.share:.0%} of the audited people, so it cannot be certified on "
        "them: a model looks better calibrated on data it has seen. Audit held-out people."
    )


def on_people_seen(
    verdict: str, reason: str, penalties: Sequence[Penalty], trained_on: TrainedOn | None
) -> tuple[str, str, list[Penalty]]:
    """Return verdict, reason and penalties with nothing certified if the model was trained on too many of the people.

    What is violated on people it has seen is violated all the more on others, so that stays.
    """
    if trained_on is None or not trained_on.too_many:
        return verdict, reason, list(penalties)
    note = "within the margin, but on people the model was trained on"
    lowered = [replace(p, verdict=INCONCLUSIVE, note=note) if p.verdict == CERTIFIED else p for p in penalties]
    if verdict in (VIOLATED, VIOLATED_FOR_SOME):
        return verdict, reason, lowered
    seen = seen_in_words(trained_on)
    return INCONCLUSIVE, seen if verdict == CERTIFIED else f"{seen} {reason}", lowered


def for_some(
    verdict: str,
    reason: str,
    penalties: Sequence[Penalty],
    within: Sequence[WithinSet],
    margin: float,
    describe: Callable[[float], str],
) -> tuple[str, str, list[Penalty]]:
    """Return verdict and reason, "violated for some" if penalties within a set are beyond the margin but cancel.

    Averages stay as they are, with a note.
    """
    beyond = [one for one in within if one.decisive and one.beyond_margin and one.spread is not None]
    names, note = {one.name for one in beyond}, "on average; some are told too much, others too little"
    noted = [
        replace(p, note=note) if p.decisive and p.subgroup is None and p.verdict == CERTIFIED and p.name in names else p
        for p in penalties
    ]
    if verdict == VIOLATED or not beyond:
        return verdict, reason, noted
    worst = max(beyond, key=lambda one: one.spread.value if one.spread else 0.0)
    assert worst.spread is not None
    who = "People who share nothing" if worst.name == "nothing" else f"People who share {worst.name} and no more"
    told = (
        f"{who} differ: some are told more and others less than their data justify, by {describe(worst.spread.value)} "
        f"on average in either direction, beyond the margin of {describe(margin)}. Averages over all of them hide it."
    )
    told += _for_whom(worst, describe)
    if any(one.beyond_margin and not one.decisive for one in within):
        told += " People who withhold nothing differ in this way, too: the model is inaccurate, not only about silence."
    return VIOLATED_FOR_SOME, told, noted


def _for_whom(one: WithinSet, describe: Callable[[float], str]) -> str:
    """Name the part that is told most too much, or too little, if chance does not explain it."""
    proven = [part for part in one.parts if part.penalty.lower > 0 or part.penalty.upper < 0]
    if not proven:
        return ""
    most = max(proven, key=lambda part: abs(part.penalty.value))
    told = "more" if most.penalty.value > 0 else "less"
    return f" Those with {most.rule} are told {describe(abs(most.penalty.value))} {told}."


def on_columns_that_tell(
    verdict: str, reason: str, penalties: Sequence[Penalty], telling: Sequence[BaseFeature]
) -> tuple[str, str, list[Penalty]]:
    """Return verdict, reason and penalties with nothing certified about those whom base columns give away.

    They are compared with others who have the same value of these columns, and so with themselves: a small penalty
    means nothing. A large one is real all the same.
    """
    if not telling:
        return verdict, reason, list(penalties)
    groups = {column.group for column in telling}
    lowered = [
        replace(p, verdict=INCONCLUSIVE, note=GIVEN_AWAY) if p.verdict == CERTIFIED and _withholds(p, groups) else p
        for p in penalties
    ]
    if verdict != CERTIFIED:
        return verdict, reason, lowered
    names = ", ".join(repr(column.name) for column in telling)
    columns, them = ("Base column", "it") if len(telling) == 1 else ("Base columns", "them")
    return (
        INCONCLUSIVE,
        (
            f"{columns} {names} {'gives' if len(telling) == 1 else 'give'} away who withholds, so these people are "
            f"compared with themselves, and a model that reads their silence there would pass. Leave {them} out of the "
            f"model, or name {them} in justified if there is a good reason for {them}."
        ),
        lowered,
    )


def _withholds(p: Penalty, groups: set[str | None]) -> bool:
    """Return whether a set is about people who withhold one of the groups; None stands for all groups at once."""
    if not p.decisive:
        return False
    return p.groups is None or any(p.groups == () if group is None else group not in p.groups for group in groups)


def _who(p: Penalty) -> str:
    people = "People who withhold something" if p.groups is None else f"People who share {p.name} and no more"
    people = "People who share nothing" if p.groups == () else people
    return people if p.subgroup is None else f"{people} (subgroup {p.subgroup})"
