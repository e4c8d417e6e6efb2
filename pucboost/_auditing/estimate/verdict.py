"""From intervals to verdicts: on one set of people, and on the whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..findings import CERTIFIED, INCONCLUSIVE, VIOLATED, Penalty, TrainedOn


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
    tested = [p for p in penalties if p.decisive]
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
        more = f" About {needed:,} rows would decide." if needed else ""
        return INCONCLUSIVE, (
            f"For {len(open_ones)} of {len(tested)} sets of people the data do not decide whether the penalty lies "
            f"within the margin of {describe(margin)}.{more}"
        )
    return CERTIFIED, (
        f"In each of the {len(tested)} sets of people tested, the average penalty of withholding lies within "
        f"{describe(margin)}."
    )


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
    if verdict == VIOLATED:
        return verdict, reason, lowered
    seen = seen_in_words(trained_on)
    return INCONCLUSIVE, seen if verdict == CERTIFIED else f"{seen} {reason}", lowered


def _who(p: Penalty) -> str:
    people = "People who withhold something" if p.groups is None else f"People who share {p.name} and no more"
    people = "People who share nothing" if p.groups == () else people
    return people if p.subgroup is None else f"{people} (subgroup {p.subgroup})"
