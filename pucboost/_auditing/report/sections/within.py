"""Behind the averages: opposite penalties within a set, and whom people are compared with."""

from __future__ import annotations

from ...findings import Comparability, Findings, WithinSet
from ..blocks import Block, Cell, Paragraph, Section, Table
from ..numbers import MISSING, Scale, count, finite, penalty_scale, share
from .shared import IN_WORDS, NO_ESTIMATE, PEOPLE, SHARES, is_quantile, level_interval

_PART = "Who"


def within(findings: Findings) -> Section | None:
    """Say whether averages hide opposite penalties."""
    if not findings.within:
        return None
    scale = penalty_scale(findings)
    beyond = [one for one in findings.within if one.beyond_margin and one.decisive]
    answer = "No such differences beyond the margin were found."
    if beyond:
        answer = "Yes, beyond the margin: the model is violated for some."
    blocks: list[Block] = [
        Paragraph(
            "A set of people can have no penalty on average while some of them are told too much and others too "
            f"little. Is that so here? {answer}"
        ),
        Table(
            f"Differences within sets of people, in {scale.unit}",
            (SHARES, "Off by", level_interval(findings), "At least", "Tested on", IN_WORDS),
            tuple(_within_row(one, scale) for one in findings.within),
            frozenset({SHARES, IN_WORDS}),
            cards=True,
        ),
        *(_parts_table(findings, one, scale) for one in beyond if one.parts),
        Paragraph(
            "Some of the people taught in which direction the model errs for whom; the others tested it. “Off by” is "
            "how far the latter are told more or less than their data justify, in that direction: on average they are "
            "off by at least that, whatever else the model does. “At least” allows for chance and for all sets "
            "together; beyond the margin it decides. The opposite is never certified: a difference that was not found "
            "may exist, and nothing here is about a single person."
        ),
    ]
    return Section("within", "Behind the averages", tuple(blocks), "decisive")


def _within_row(one: WithinSet, scale: Scale) -> tuple[Cell, ...]:
    e = one.spread or NO_ESTIMATE
    at_least = None if finite(one.at_least) is None else max(0.0, one.at_least or 0.0)
    if one.beyond_margin:
        words = "some are told too much, others too little"
    elif one.spread is None:
        words = one.note or "not testable"
    else:
        words = "some difference, not beyond the margin" if (at_least or 0) > 0 else "no clear difference"
    return (
        Cell(one.name, "" if one.decisive else "withholds nothing; does not count"),
        Cell(scale.show(e.value)),
        Cell(scale.between(e.lower, e.upper)),
        Cell(scale.show(at_least)),
        Cell(count(one.tested)),
        Cell(words),
    )


def _parts_table(findings: Findings, one: WithinSet, scale: Scale) -> Table:
    return Table(
        f"For whom: penalties of people who share {one.name}{'' if one.name == 'nothing' else ' and no more'}, in "
        f"{scale.unit}",
        (_PART, "Penalty", f"{level_interval(findings)}, all parts together", PEOPLE),
        tuple(
            (
                Cell(part.rule),
                Cell(scale.show(part.penalty.value, signed=True)),
                Cell(scale.between(part.penalty.lower, part.penalty.upper)),
                Cell(count(part.people)),
            )
            for part in one.parts
        ),
        frozenset({_PART}),
        cards=True,
    )


def comparability(findings: Findings) -> Section | None:
    """Say whom each set of people is compared with, and what that leaves out."""
    if not findings.comparability:
        return None
    scale = penalty_scale(findings)
    kappa = "Told minus outcome"
    if is_quantile(findings):
        kappa = "Outcomes below the quote, minus the level"
    recognised, stricter = "Compared with themselves", "Against those who share more"
    table = Table(
        f"Whom sets of people are compared with, amounts in {scale.unit}",
        (SHARES, kappa, recognised, stricter, "Bounds for all of them", PEOPLE, "Compared with"),
        tuple(_compared_row(one, scale) for one in findings.comparability),
        frozenset({SHARES}),
        cards=True,
    )
    return Section(
        "compared",
        "Whom people are compared with",
        (
            Paragraph(
                "The yardstick of a set is everybody who shares at least as much, and these people are among them. So "
                "silence itself has a part in the yardstick, and the fewer people with the same data share more, the "
                "larger that part: in the extreme, whatever a model reads out of silence is justified by the silent."
            ),
            table,
            Paragraph(
                f"“{kappa}” treats everybody of the comparison as if they shared no more than the set: near 0 the "
                f"model is calibrated for them, whatever the audit's own models say. “{recognised}” is the share of "
                "the set of whom hardly anybody with the same data shares more (at most 5 in 100). "
                f"“{stricter}” leaves the silent out of the yardstick, for the rest of the set; where silence is "
                "informative this is not 0 even for a perfect model. Its bounds for the whole set assume the lowest "
                "and the highest outcome for those recognised."
            ),
        ),
        "not decisive",
    )


def _compared_row(one: Comparability, scale: Scale) -> tuple[Cell, ...]:
    kappa, stricter = one.calibration, one.stricter or NO_ESTIMATE
    return (
        Cell(one.name),
        Cell(scale.show(kappa.value, signed=True), scale.between(kappa.lower, kappa.upper)),
        Cell(share(one.recognised)),
        Cell(
            scale.show(stricter.value, signed=True),
            "" if one.stricter is None else scale.between(stricter.lower, stricter.upper),
        ),
        Cell(MISSING if one.stricter is None else scale.between(one.stricter_lower, one.stricter_upper)),
        Cell(count(one.people)),
        Cell(count(one.comparable)),
    )
