"""What was asked, and the decisive numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...findings import CERTIFIED, GIVEN_AWAY, NOT_TESTABLE, Estimate, Findings, Penalty, title
from ...wording import roughly
from ..blocks import Block, Bullets, Cell, Paragraph, Section, Table
from ..numbers import MISSING, Scale, count, fixed, penalty_scale
from .shared import (
    JOINT,
    NO_ESTIMATE,
    PENALTY,
    PEOPLE,
    SHARES,
    VERDICT,
    figure,
    is_quantile,
    level_interval,
    quoted,
    seen_in_training,
)

BEYOND = "Above those who share everything"


def asked(findings: Findings) -> Section:
    """Say what the audit is about."""
    amount = penalty_scale(findings).words(findings.margin)
    if is_quantile(findings):
        told = "how often their outcomes lie below what the model quotes"
        justified = "how often they should"
    else:
        told = "what the model tells them"
        justified = (
            "the average outcome of everybody with the same remaining data who shares at least as much, ignoring "
            "whatever else those people share"
        )
    per_unit = ""
    if findings.exposure is not None:
        per_unit = (
            " Outcomes add up over an exposure here. They were divided by it, so predictions, outcomes, penalties and "
            "the margin are per unit of exposure, and in every average people count by their exposure."
        )
    return Section(
        "asked",
        "What was asked",
        (
            Paragraph(
                f"Some data are optional here: people may share or withhold {quoted(findings.provenance.consent)}. "
                "Are people who withhold data told something other than what their remaining data justify?" + per_unit
            ),
            Paragraph(
                "The penalty answers this. For a set of people, say those who share one thing and no more, it is the "
                f"average of {told}, minus {justified}. A penalty of 0 means that silence costs nothing. A penalty of "
                f"+{amount} means that these people are told that much more than their data justify; a negative one, "
                f"that they are told less. People prefer {findings.favourable} predictions here."
            ),
            Paragraph(
                f"No estimate is ever exactly 0, so a margin says which penalty is harmless: here ±{amount}. A set of "
                "people is certified if its penalty lies within the margin, statistical uncertainty included; "
                "violated if it lies outside; inconclusive if the data do not decide. Where averages hide that some "
                "people of a set are told too much and others too little, the model is violated for some."
            ),
        ),
    )


def penalties(findings: Findings) -> Section:
    """Show the decisive numbers."""
    tested, seen = sum(p.verdict != NOT_TESTABLE for p in findings.penalties), seen_in_training(findings)
    blocks: list[Block] = [
        figure(
            "penalty",
            findings,
            "Average penalties of sets of people, with intervals. The numbers are in the table that follows.",
            "Each mark is a set of people, by what they share. The shaded band is the margin. The thick bar is the "
            "verdict interval: inside the band the set is certified (circle), outside violated (diamond), across its "
            f"edge inconclusive (triangle). The thin line is the {level_interval(findings)} of that set alone. A "
            "hollow mark stands for people who withhold nothing, shown for comparison."
            + (" Nothing is certified here, since the model was trained on these people." if seen else ""),
        ),
        *penalty_tables(findings),
    ]
    if tested:
        yardstick = "“Compared with” counts the people who share at least as much and so set the yardstick."
        words = [_about_the_verdict_interval(findings), yardstick]
        if any(p.rows_to_decide for p in findings.penalties):
            words.append(
                "“Rows to decide” is roughly how many people an audit would need if the estimate stayed the same."
            )
        blocks.append(Paragraph(" ".join(words)))
        blocks += [Paragraph(words) for words in _about_the_difference(findings)]
    if untested(findings):
        lead = "Not tested; the verdict says nothing about these people:"
        blocks.append(Bullets(tuple((f"{name}:", why) for name, why in untested(findings)), lead))
    return Section("penalty", "The penalty of withholding", tuple(blocks), "decisive")


def _about_the_verdict_interval(findings: Findings) -> str:
    if findings.simultaneous.startswith("none"):
        return "The verdict interval is that of the two one-sided tests; each interval holds for a single set."
    if any(p.decisive and p.verdict != CERTIFIED and p.note != GIVEN_AWAY for p in findings.penalties):
        return (
            "The verdict interval allows for all sets being judged together; the other interval holds for a single set."
        )
    return (
        "Every set passes the two one-sided tests by itself, which is what it takes to certify all of them; the "
        "verdict interval is the one of these tests."
    )


def _about_the_difference(findings: Findings) -> list[str]:
    """Say what silence adds to what is wrong for everybody."""
    everything = next((p for p in findings.penalties if not p.decisive and p.estimate is not None), None)
    if everything is None or not any(p.difference for p in findings.penalties):
        return []
    too = _too(everything)
    told = f" People who withhold nothing are told {too}: the model is not only wrong for the others." if too else ""
    return [
        f"“{BEYOND}” is the penalty minus that of people who withhold nothing. It tells a model that is wrong for "
        "everybody, with a large penalty but no difference, from one that is hard on silence. It does not decide: a "
        f"penalty counts, whoever else has one.{told}"
    ]


def _too(p: Penalty) -> str:
    """Return whether people are told too much or too little, beyond chance."""
    e = p.estimate or NO_ESTIMATE
    return "too much" if e.lower > 0 else "too little" if e.upper < 0 else ""


def penalty_tables(findings: Findings) -> list[Table]:
    """Return a table of the penalties of everybody, and one for each subgroup."""
    tables = []
    for subgroup in dict.fromkeys(p.subgroup for p in findings.penalties):
        rows = [p for p in findings.penalties if p.subgroup == subgroup and p.verdict != NOT_TESTABLE]
        if rows:
            tables.append(_penalty_table(findings, subgroup, rows))
    return tables


def _penalty_table(findings: Findings, subgroup: str | None, rows: Sequence[Penalty]) -> Table:
    scale = penalty_scale(findings)
    columns: dict[str, Callable[[Penalty, Estimate], Cell]] = {
        SHARES: lambda p, e: Cell(p.name, _note(p)),
        VERDICT: lambda p, e: Cell(p.verdict, verdict=p.verdict),
        PENALTY: lambda p, e: Cell(scale.show(e.value, signed=True)),
        level_interval(findings): lambda p, e: Cell(scale.between(e.lower, e.upper)),
        JOINT: lambda p, e: Cell(scale.between(p.verdict_lower, p.verdict_upper)),
        BEYOND: lambda p, e: _difference(p.difference, scale),
        "% of mean prediction": lambda p, e: Cell(_percent(p.percent)),
        PEOPLE: lambda p, e: Cell(count(p.people)),
        "Compared with": lambda p, e: Cell(count(p.comparable)),
        "Rows to decide": lambda p, e: Cell(MISSING if p.rows_to_decide is None else roughly(p.rows_to_decide)),
    }
    if all(p.difference is None for p in rows):
        del columns[BEYOND]
    if all(p.rows_to_decide is None for p in rows):
        del columns["Rows to decide"]
    if is_quantile(findings):  # a probability is not a percentage of a quoted amount
        del columns["% of mean prediction"]
    of = "" if subgroup is None else f" in subgroup {subgroup}"
    return Table(
        f"Average penalty{of} by what people share, in {scale.unit}",
        tuple(columns),
        tuple(tuple(cell(p, p.estimate or NO_ESTIMATE) for cell in columns.values()) for p in rows),
        frozenset({SHARES, VERDICT}),
        cards=True,
    )


def _note(p: Penalty) -> str:
    if p.decisive:
        return p.note
    return "withholds nothing; does not count" + (f"; told {_too(p)}" if _too(p) else "")


def _difference(estimate: Estimate | None, scale: Scale) -> Cell:
    if estimate is None:
        return Cell(MISSING)
    return Cell(scale.show(estimate.value, signed=True), scale.between(estimate.lower, estimate.upper))


def _percent(value: float | None) -> str:
    text = fixed(value, 1, signed=True)
    return text if text == MISSING else f"{text}%"


def untested(findings: Findings) -> list[tuple[str, str]]:
    """Return the sets that were not tested, and why."""
    return [(title(p), p.note or "not testable") for p in findings.penalties if p.verdict == NOT_TESTABLE]
