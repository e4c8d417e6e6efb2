"""What several sections share: names of columns, recurring sentences, figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from markupsafe import Markup

from ..findings import (
    CERTIFIED,
    GIVEN_AWAY,
    INCONCLUSIVE,
    NOT_TESTABLE,
    VIOLATED,
    VIOLATED_FOR_SOME,
    BaseFeature,
    Comparability,
    Estimate,
    Findings,
    Informativeness,
    LossComparison,
    Penalty,
    TrainedOn,
    WithinSet,
    title,
)
from ..settings import counted, people_in_words, roughly
from .plots import PLOTS, inline_svg
from .text import (
    MISSING,
    Block,
    Bullets,
    Cell,
    Fact,
    Facts,
    Figure,
    Figures,
    Paragraph,
    Scale,
    Section,
    Table,
    VerdictBox,
    count,
    difference_scale,
    estimate_scale,
    finite,
    fixed,
    listing,
    p_value,
    penalty_scale,
    prediction_scale,
    share,
    shorten,
    significant,
)

SHARES, VERDICT, PENALTY, JOINT, PEOPLE = "Shares exactly", "Verdict", "Penalty", "Verdict interval", "People"
WHOM, IN_WORDS = "Who", "In words"
NO_ESTIMATE = Estimate(math.nan, math.nan, math.nan, math.nan)
MAX_NAMES = 8


def informative_groups(findings: Findings) -> list[str]:
    """Return the groups whose withholding is informative."""
    adjusted = {found.group: finite(found.adjusted_p_value) for found in findings.informativeness}
    return [group for group, p in adjusted.items() if p is not None and p < 1 - findings.level]


def seen_in_training(findings: Findings) -> bool:
    """Return whether the model was trained on so many of the people that nothing is certified."""
    return findings.support.trained_on is not None and findings.support.trained_on.too_many


def tested_sets(findings: Findings) -> list[Penalty]:
    """Return the entries about one set each of people who withhold something, subgroups aside."""
    return [p for p in findings.penalties if p.decisive and p.groups is not None and p.subgroup is None]


def quoted(names: Iterable[str]) -> str:
    """Return the first few names in quotation marks, so that they are not read as words of the sentence."""
    shown = [f"“{shorten(name, 60)}”" for name in names]
    further = len(shown) - MAX_NAMES
    return listing([*shown[:MAX_NAMES], f"{further} more"] if further > 0 else shown)


def about_several_sets(findings: Findings) -> str:
    """Say how verdicts on several sets are kept jointly valid."""
    if findings.simultaneous.startswith("none"):
        return "No allowance is made for that: each verdict stands alone, and the more sets, the more may be wrong."
    return (
        "That all sets lie within the margin needs no allowance for their number: to be wrong, the audit would have to "
        f"misjudge a particular one. Other verdicts are kept valid together by this method: {findings.simultaneous}."
    )


def level_interval(findings: Findings) -> str:
    """Return the name of intervals that hold for one set alone."""
    return f"{share(findings.level, 0)} interval"


def is_quantile(findings: Findings) -> bool:
    """Return whether the model predicts a quantile, so that penalties are probabilities."""
    return findings.unit.startswith("probability of")


def date_in_words(iso: str) -> str:
    """Return a date as people write it; text that is not a date is returned as it is."""
    try:
        moment = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    zone = f" {moment:%Z}" if moment.tzinfo else ""
    return f"{moment.day} {moment:%B %Y, %H:%M}{zone}"


def figure(name: str, findings: Findings, label: str, caption: str) -> Block:
    """Return a figure, or a sentence that says why there is none."""
    missing = PLOTS[name].missing(findings)
    if missing:
        return Paragraph(missing, "notice")
    return Figures((Figure(Markup(inline_svg(name, findings, label)), caption),))


# --------------------------------------------------------------------------------------------------
# The top of the page: the verdict, what was audited, and what to know before relying on it.


_MEANING = {
    CERTIFIED: "Certified means: for every set of people tested, the whole verdict interval lies within the margin. "
    "The data rule out a larger average penalty. It is about averages, and says nothing about single people.",
    VIOLATED: "Violated means: for at least one set of people the whole verdict interval lies outside the margin. "
    "Chance does not explain a difference of this size.",
    VIOLATED_FOR_SOME: "Violated for some means: averages hide that some people are told more and others less than "
    "their data justify, by more than the margin. It was found in some of the people and confirmed in others.",
    INCONCLUSIVE: "Inconclusive is neither a pass nor a failure: the data neither rule out a penalty beyond the margin "
    "nor prove one. More data would tell.",
}
_SEEN = (
    "Inconclusive is neither a pass nor a failure: the model was trained on some of these people, and how it treats "
    "them says little about others. People it has not seen would tell."
)
_GIVEN_AWAY = (
    "Inconclusive is neither a pass nor a failure: base features give away who withholds, so the comparison has "
    "nothing to compare with. More people would not help; a model without these features would."
)


def verdict_box(findings: Findings) -> VerdictBox:
    """Put the verdict and the key figures into words."""
    meaning = _MEANING.get(findings.verdict, "")
    if findings.verdict == INCONCLUSIVE and seen_in_training(findings):
        meaning = _SEEN
    open_ones = [p for p in findings.penalties if p.decisive and p.verdict == INCONCLUSIVE]
    if findings.verdict == INCONCLUSIVE and open_ones and all(p.note == GIVEN_AWAY for p in open_ones):
        meaning = _GIVEN_AWAY
    return VerdictBox(findings.verdict, findings.reason, meaning, tuple(_key_figures(findings)))


def _key_figures(findings: Findings) -> list[Fact]:
    tested = [p for p in findings.penalties if p.decisive]
    worst = max(tested, key=lambda p: abs(finite((p.estimate or NO_ESTIMATE).value) or 0), default=None)
    facts = [Fact("Margin", _margin(findings))]
    if worst is not None and worst.estimate is not None:
        scale, e = penalty_scale(findings), worst.estimate
        numbers = f"{scale.words(e.value, signed=True)} ({level_interval(findings)} {scale.between(e.lower, e.upper)})"
        facts.append(Fact("Largest penalty", f"{numbers}: {_who(worst)}"))
    if findings.exposure is not None:
        facts.append(Fact("Exposure", f"{significant(findings.exposure)} units; margin and penalties are per unit"))
    return [
        *facts,
        Fact("Sets of people tested", _tested(findings)),
        Fact("People audited", count(findings.provenance.rows)),
    ]


def _tested(findings: Findings) -> str:
    """Say how many sets of people who withhold something were tested, and how many of such people are in these sets."""
    sets = tested_sets(findings)
    within = sum(p.decisive and p.groups is not None and p.subgroup is not None for p in findings.penalties)
    number = count(len(sets)) + (f", and {count(within)} within subgroups" if within else "")
    withholding = findings.support.withholding_people
    if not withholding:
        return number
    covered = sum(p.people for p in sets)
    return f"{number}, with {count(covered)} ({share(covered / withholding)}) of those who withhold something"


def _no_more_than_everybody(p: Penalty, margin: float) -> bool:
    """Return whether what silence adds lies within the margin."""
    d = p.difference
    return d is not None and -margin <= d.lower and d.upper <= margin


def _margin(findings: Findings) -> str:
    text = f"±{penalty_scale(findings).words(findings.margin)}"
    if findings.relative_margin is None:
        return text
    mean = prediction_scale(findings).show(findings.mean_prediction)
    return f"{text}: {share(findings.relative_margin)} of the mean prediction of {mean}"


def _who(p: Penalty) -> str:
    """Return whom a penalty is about, as part of a sentence."""
    if p.groups is None:
        who = p.name
    elif not p.groups:
        who = "people who share nothing"
    else:
        who = f"people who share {p.name}" + ("" if p.name == "everything" else " and no more")
    return who if p.subgroup is None else f"{who} (subgroup {p.subgroup})"


def subject(findings: Findings) -> str:
    """Say in one line what was audited and when."""
    made = findings.provenance
    return f"{made.model_kind} · {count(made.rows)} people · {date_in_words(made.date)}"


def notices(findings: Findings) -> list[str]:
    """Return the audit's warnings, and what the numbers taken together say beyond them."""
    found = [*findings.warnings]
    violated = [p for p in findings.penalties if p.decisive and p.verdict == VIOLATED]
    if violated and all(_no_more_than_everybody(p, findings.margin) for p in violated):
        found.append(
            "The model is as far off for people who withhold nothing, within the margin: it is wrong for everybody, "
            "rather than hard on silence."
        )
    if findings.verdict == CERTIFIED and not informative_groups(findings):
        found.append(
            "These data do not show that withholding says anything about the outcome. Where silence says nothing, a "
            "model without any protection passes as well: the verdict is then no credit to the model."
        )
    return found


# --------------------------------------------------------------------------------------------------
# What was asked, and the decisive numbers.


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


# --------------------------------------------------------------------------------------------------
# Whether silence says anything, and what the model predicts for silent people.


MAX_COLUMNS = 12
"""Base features shown; the JSON has them all."""
_OPTIONAL = "Optional data"
_ALL = "all of it at once"


def informativeness(findings: Findings) -> Section | None:
    """Say whether withholding means anything."""
    if not findings.informativeness:
        return None
    informative = informative_groups(findings)
    if informative:
        finding = (
            f"Yes, for {quoted(informative)}. A model that sees who is silent would use it, so protection is needed."
        )
    elif any(found.p_value is not None for found in findings.informativeness):
        finding = (
            "These data do not show it. If silence says nothing, a model without any protection passes this audit as "
            "well, and a clean verdict is no credit to the model."
        )
    else:
        finding = "That could not be tested."
    rows = tuple(
        (
            Cell(found.group, found.note),
            Cell(share(found.shared)),
            Cell(fixed(found.correlation, 3, signed=True)),
            Cell(p_value(found.adjusted_p_value)),
            Cell(_informative_words(found, found.group in informative)),
        )
        for found in findings.informativeness
    )
    return Section(
        "informative",
        "Does silence say anything?",
        (
            Paragraph("Do people with the same base data have different outcomes if they withhold? " + finding),
            Table(
                "Sharing and outcome, given the base features",
                ("Optional data", "Shared by", "Correlation", "p-value (Holm)", IN_WORDS),
                rows,
                frozenset({"Optional data", IN_WORDS}),
                cards=True,
            ),
            Paragraph(
                "The correlation is between sharing and outcome, after removing what the base features explain. A "
                "small p-value speaks against chance alone; Holm's method allows for testing several groups."
            ),
        ),
    )


def _informative_words(found: Informativeness, informative: bool) -> str:
    correlation = finite(found.correlation)
    if correlation is None or found.p_value is None:
        return "not testable"
    if not informative:
        return "no clear sign"
    return f"those who withhold have {'higher' if correlation < 0 else 'lower'} outcomes"


def recognition(findings: Findings) -> Section | None:
    """Say whether base features tell who withholds."""
    found = findings.recognition
    if found is None:
        return None
    flagged = [column.name for column in found.columns if column.conspicuous]
    answer = "No base feature gives it away here."
    if flagged:
        answer = (
            f"Look first at {quoted(flagged)}: whoever withholds can be recognised by "
            f"{'it' if len(flagged) == 1 else 'them'}, so the model may read silence there. Keep such a column out, or "
            "justify it; until then nothing about these people is certified."
        )
    groups = Table(
        "How often all base features together tell which of two people withholds",
        (_OPTIONAL, "People who withhold", "Of 100 cases"),
        tuple(
            (Cell(_ALL if one.group is None else one.group), Cell(count(one.people)), Cell(_of_100(one.together)))
            for one in found.groups
        ),
        frozenset({_OPTIONAL}),
    )
    shown = found.columns[:MAX_COLUMNS]
    more = len(found.columns) - len(shown)
    columns = Table(
        "What each base feature tells, those to look at first on top"
        + (f" ({count(more)} more not shown)" if more else ""),
        ("Base feature", "Tells most about", "Alone", "Gives away", "Beyond the others", IN_WORDS),
        tuple(
            (
                Cell(column.name),
                Cell(_ALL if column.group is None else column.group),
                Cell(_of_100(column.alone)),
                Cell(share(column.recognised, 0)),
                Cell(_of_100(column.beyond_others)),
                Cell(_recognition_words(column)),
            )
            for column in shown
        ),
        frozenset({"Base feature", "Tells most about", IN_WORDS}),
        cards=True,
    )
    return Section(
        "recognition",
        "Do base features tell who withholds?",
        (
            Paragraph(
                "Base features may well go with withholding, and the model may use them: older people may share less. "
                "But a base feature that gives silence away for certain, such as the date of a consent form, makes "
                "every inference from it look justified, and the penalties above do not show it. " + answer
            ),
            columns,
            groups,
            Paragraph(
                "Take two people, one of whom withholds. “Alone” is in how many of 100 such cases this feature tells "
                "which one: 50 is chance, 100 is always. “Gives away” is the share of those who withhold with values "
                "that hardly anybody else has. “Beyond the others” is how many of the 100 cases are lost if a model of "
                "all base features does without this one; where two features say the same, neither is missed. The "
                f"numbers rest on {count(found.people)} people, each judged by what was learned from others."
            ),
        ),
    )


def _of_100(area: float | None) -> str:
    shown = finite(area)
    return MISSING if shown is None else fixed(100 * shown, 1)


def _recognition_words(column: BaseFeature) -> str:
    if column.conspicuous:
        return "gives silence away: look at it"
    return "goes with withholding" if (finite(column.alone) or 0) >= 0.6 else "tells little"


def agreement(findings: Findings) -> Section:
    """Show predictions against outcomes and against the base-features model."""
    blocks = [
        figure(
            "calibration",
            findings,
            "Average outcomes against predictions, for groups of people with similar predictions.",
            "Everybody treated as if they withheld everything (solid). If silence is neutral, the points lie on the "
            "diagonal; below it, silent people are told too much. People as they come (dashed) may lie off the "
            "diagonal through no fault of the model: see the cost of consent.",
        ),
        figure(
            "base-versus-model",
            findings,
            f"{len(findings.scatter)} people who share nothing: audited model against a model with base features only.",
            "People who share nothing. On the diagonal, they are told what a model with base features only tells them; "
            "above it, more. Both models are estimates, so scatter is normal; a cloud that lies above or below the "
            "diagonal as a whole is not.",
        ),
    ]
    figures = tuple(figure for block in blocks if isinstance(block, Figures) for figure in block.entries)
    rest = [block for block in blocks if not isinstance(block, Figures)]
    return Section(
        "agreement", "Predictions for people who withhold", (*((Figures(figures),) if figures else ()), *rest)
    )


# --------------------------------------------------------------------------------------------------
# Behind the averages: opposite penalties within a set, and whom people are compared with.


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


# --------------------------------------------------------------------------------------------------
# What sharing changes: predictions, the balance of the book, averages.


_RATIO = Scale(1, 3, "", "")


def sharing(findings: Findings) -> Section:
    """Show what sharing does to predictions."""
    effect, scale = findings.sharing_effect, difference_scale(findings)
    blocks = [
        figure(
            "sharing-effect",
            findings,
            "Histogram of how sharing changes predictions, against withholding everything.",
            "How predictions of people who share something differ from those they would get if they withheld "
            f"everything. {findings.favourable.capitalize()} predictions are better for people here.",
        )
    ]
    if effect is not None:
        facts = [
            Fact("People who share something", count(effect.people)),
            Fact("Average change", scale.words(effect.mean, signed=True)),
            Fact("Half of them lie within", scale.between(effect.quantiles.get("0.25"), effect.quantiles.get("0.75"))),
            Fact("Worse off by sharing", share(effect.share_worse_off)),
            Fact("Largest change for the worse", scale.words(effect.largest_loss)),
        ]
        if effect.share_with_better_subset is not None:
            facts.append(Fact("Would do better by sharing less", share(effect.share_with_better_subset)))
        if effect.mean_bonus is not None:
            gain = f"{scale.words(effect.mean_bonus)} on average, if everybody got the best of their possible offers"
            facts.append(Fact("Gain from a bonus system", gain))
        blocks.append(Facts(tuple(facts)))
    return Section("sharing", "Does sharing pay?", tuple(blocks))


def balance(findings: Findings) -> Section:
    """Show actual against expected."""
    scale, cost = prediction_scale(findings), difference_scale(findings)
    rows = tuple(
        (
            Cell(b.name),
            Cell(count(b.people)),
            Cell(scale.show(b.actual)),
            Cell(scale.show(b.expected)),
            Cell(_RATIO.show((b.ratio or NO_ESTIMATE).value)),
            Cell(_RATIO.between((b.ratio or NO_ESTIMATE).lower, (b.ratio or NO_ESTIMATE).upper, signed=False)),
            Cell(cost.show(b.cost.value, signed=True)),
            Cell(cost.between(b.cost.lower, b.cost.upper)),
        )
        for b in findings.balance
    )
    of_ratio = level_interval(findings)
    table = Table(
        f"Actual and expected outcomes; the cost is actual minus expected, in {cost.unit}",
        (WHOM, PEOPLE, "Actual", "Expected", "Actual / expected", of_ratio, "Cost", f"{of_ratio} of cost"),
        rows,
        frozenset({WHOM}),
    )
    return Section(
        "balance",
        "The cost of consent",
        (
            Paragraph(
                "When withholding is informative, a correct model under consent is not balanced on people who "
                "withhold: actual / expected differs from 1 there. That difference is the cost of consent. It is not "
                "an error of the model, but somebody has to bear it."
            ),
            figure(
                "balance",
                findings,
                "Actual divided by expected outcomes by what people share. The numbers are in the table that follows.",
                f"Average outcome divided by average prediction, with {level_interval(findings)}s. Right of 1, "
                "outcomes are higher than predicted.",
            ),
            *((table,) if rows else ()),
        ),
    )


def averages(findings: Findings) -> Section | None:
    """Show average predictions of three models."""
    if not findings.averages:
        return None
    scale = prediction_scale(findings)
    return Section(
        "averages",
        "What people are told on average",
        (
            Paragraph(
                "The model with base features only ignores all optional data. The unrestricted model uses all data, "
                "silence included: it says what a model without protection would say. Both were fitted on "
                f"{findings.provenance.reference_data}."
            ),
            Table(
                "Average predictions and outcomes by what people share",
                (SHARES, PEOPLE, "Audited model", "Base features only", "Unrestricted", "Actual outcome"),
                tuple(
                    (
                        Cell(a.name),
                        Cell(count(a.people)),
                        *(Cell(scale.show(v)) for v in (a.model, a.base_model, a.unrestricted_model, a.outcome)),
                    )
                    for a in findings.averages
                ),
                frozenset({SHARES}),
            ),
        ),
    )


# --------------------------------------------------------------------------------------------------
# How well the model predicts: against other models, and against a known truth.


_SILENCE_WORDS = {-1: "better than base features allow: AIR fails", 0: "no clear difference", 1: "no gain from silence"}

_LOSS_WORDS = {-1: "audited model better", 0: "no clear difference", 1: "audited model worse"}


def losses(findings: Findings) -> Section:
    """Show the loss comparisons, and say why they do not decide."""
    blocks: list[Block] = [
        Paragraph(
            "The research literature asks whether the model predicts silent people better than base features allow; if "
            "so, it has used their silence (availability inference restriction, AIR). The test is shown here but does "
            "not decide, for two reasons. It is one-sided: a flat surcharge on everybody who is silent only makes "
            "predictions worse, and so satisfies it. And it compares with a model that was itself fitted to data, "
            "whose own errors blur the comparison, so that even a perfect model can seem to fail."
        ),
        _loss_table(findings, "Inference from silence (AIR)", [findings.inference_from_silence], _SILENCE_WORDS),
    ]
    protected = [c for c in findings.non_degradation if c.other != "unrestricted"]
    if protected:
        blocks += [
            Paragraph(
                "Does the model use optional data well? If so, the difference is negative: it predicts better."
                + _where_fitted(findings)
            ),
            _loss_table(findings, "Against a model with base features only", protected, _LOSS_WORDS),
        ]
    price = [c for c in findings.non_degradation if c.other == "unrestricted"]
    if price:
        blocks += [
            Paragraph(
                "The price of protection. An unrestricted model may learn from silence, and so predicts better for "
                "people as they come. A positive difference is what protection costs in accuracy."
            ),
            _loss_table(findings, "Against an unrestricted model", price, _LOSS_WORDS),
        ]
    return Section("losses", "How well the model predicts", tuple(blocks), "not decisive")


def _where_fitted(findings: Findings) -> str:
    """Say what the other model was fitted on, if not on what the audited one had."""
    if not findings.provenance.reference_data.startswith("the audit data"):
        return ""
    return (
        " No training data were given, so the model with base features only was fitted on the audited people "
        "themselves, part by part. It had other and perhaps fewer people to learn from than the audited model, which "
        "may look better or worse for that reason alone."
    )


def _loss_table(
    findings: Findings, caption: str, comparisons: Sequence[LossComparison], words: dict[int, str]
) -> Table:
    rows = []
    for c in comparisons:
        scale, d = estimate_scale(c.difference), c.difference or NO_ESTIMATE
        sign = 1 if d.lower > 0 else -1 if d.upper < 0 else 0
        rows.append(
            (
                Cell(c.people_name, c.note),
                Cell(count(c.people)),
                Cell(significant(c.loss)),
                Cell(significant(c.other_loss)),
                Cell(scale.show(d.value, signed=True)),
                Cell(scale.between(d.lower, d.upper)),
                Cell("not testable" if finite(d.value) is None else words[sign]),
            )
        )
    other = comparisons[0].other
    return Table(
        f"{caption}: mean {findings.loss}, lower is better",
        (
            WHOM,
            PEOPLE,
            "Audited model",
            other[:1].upper() + other[1:],
            "Difference",
            level_interval(findings),
            IN_WORDS,
        ),
        tuple(rows),
        frozenset({WHOM, IN_WORDS}),
        cards=True,
    )


def truth(findings: Findings) -> Section | None:
    """Compare with a simulator's truth."""
    gap = findings.puc_gap
    if gap is None:
        return None
    scale, comparable = difference_scale(findings), not is_quantile(findings)
    estimates = {p.name: p.estimate for p in findings.penalties if p.subgroup is None and p.groups is not None}
    rows = []
    for name, value in gap.mean_by_mask.items():
        e = estimates.get(name) or NO_ESTIMATE
        estimated = (Cell(scale.show(e.value, signed=True)), Cell(scale.between(e.lower, e.upper)))
        rows.append((Cell(name), Cell(scale.show(value, signed=True)), *(estimated if comparable else ())))
    return Section(
        "truth",
        "Distance to the truth",
        (
            Paragraph(
                "The justified prediction of every person is known here, as in a simulation. The model's typical "
                f"distance from it (root mean square) is {scale.words(math.sqrt(max(gap.squared, 0)))}."
            ),
            Table(
                f"True penalties{' and their estimates' if comparable else ''}, in {scale.unit}",
                (SHARES, "True penalty", *(("Estimate", level_interval(findings)) if comparable else ())),
                tuple(rows),
                frozenset({SHARES}),
            ),
        ),
    )


# --------------------------------------------------------------------------------------------------
# What the verdict rests on: the data, the limits, the method, the provenance.


def support(findings: Findings) -> Section:
    """Say whether the data can support the conclusions."""
    s, rows = findings.support, findings.provenance.rows
    if s.unseen_in_training is None:
        unseen = "not known"
    elif not s.unseen_in_training:
        unseen = "none"
    else:
        names = "; ".join(shorten(name, 80) for name in s.unseen_in_training[:5])
        more = f"; and {len(s.unseen_in_training) - 5} more" if len(s.unseen_in_training) > 5 else ""
        unseen = f"{names}{more} ({people_in_words(s.unseen_people or 0)})"
    facts = (
        Fact("Different sets of shared data", count(s.masks)),
        Fact("People in sets too rare to be tested", f"{count(s.untested_people)} of {count(rows)}"),
        Fact("Effective number of people, given the weights", count(s.effective_sample_size)),
        Fact("Sets that hardly anybody shared in training", unseen),
        Fact("People the model was trained on", _trained_on(s.trained_on)),
    )
    table = Table(
        "How often each group of data is shared",
        ("Optional data", "Shared by", "People who share", "People who withhold"),
        tuple(
            (Cell(g.group), Cell(share(g.shared)), Cell(count(g.shared_people)), Cell(count(g.withheld_people)))
            for g in s.groups
        ),
        frozenset({"Optional data"}),
    )
    return Section("support", "Do the data support this?", (Facts(facts), *((table,) if s.groups else ())))


def _trained_on(found: TrainedOn | None) -> str:
    if found is None or found.share is None:
        return "not known"
    interval = f"95% interval {share(found.lower, 0)} to {share(found.upper, 0)}"
    return f"about {share(found.share, 0)} ({interval}, from {counted(found.compared, 'row', 'rows')})"


def limits(findings: Findings) -> Section:
    """Say what the audit cannot say."""
    return Section("limits", "What this audit cannot say", (Bullets(tuple(limits_in_words(findings))),))


def limits_in_words(findings: Findings) -> list[tuple[str, str]]:
    """Return the limits: the point, and a sentence or two about it."""
    withholding = findings.support.withholding_people or 0
    untested = withholding - sum(p.people for p in tested_sets(findings))
    narrower = "Subgroups were judged as well, which narrows this."
    if all(p.subgroup is None for p in findings.penalties):
        narrower = "No subgroups were judged."
    covered = "Here everybody who withholds something is in a set that was tested."
    if untested > 0:
        are = "is in a set that was" if untested == 1 else "are in sets that were"
        covered = f"{count(untested)} of {people_in_words(withholding)} who withhold something {are} not tested."
    base = quoted(findings.provenance.base_features)
    alike = ""
    if findings.exposure is not None:
        alike = " The same holds for exposures, which must be measured alike for everybody, whether or not they share."
    return [
        (
            "Averages, not individuals.",
            "A set of people can have no penalty on average while some of them are told too much and others too "
            "little. The audit looks for such differences and may find them, but it cannot rule them out. " + narrower,
        ),
        ("Only the sets that were tested.", covered),
        (
            "Only people like these.",
            "They must represent those the model is used on, must not have been used to train it, and their outcomes "
            "must be recorded correctly.",
        ),
        (
            "Base features are taken for granted.",
            "A base feature that reveals who withholds, such as the date of a consent form, makes inference from "
            "silence look justified: no penalty shows it. Whether a feature that goes with withholding has a good "
            f"reason to be there is for people to judge. Base features here: {base}.{alike}",
        ),
        (
            "The margin is a decision, not a finding.",
            "Those responsible must set it beforehand; a wide margin is easily met.",
        ),
        (
            "The yardstick is estimated.",
            "The reference models were fitted for this audit; their errors cancel to first order but not entirely, "
            "least of all where people are few.",
        ),
        (
            "Several sets are judged at once.",
            f"{about_several_sets(findings)} A wrong verdict by chance remains possible.",
        ),
        ("It is only about silence.", "Certified does not mean fair or lawful in other respects."),
    ]


def method(findings: Findings) -> Section:
    """Say how it was done, with the formula."""
    quantile = is_quantile(findings)
    inner = "P(Y ≤ f | b, z<sub>S</sub>, A ⊇ S) − τ" if quantile else "f − E(Y | b, z<sub>S</sub>, A ⊇ S)"
    return Section(
        "method",
        "How it was done",
        (
            Paragraph(Markup(f"θ<sub>S</sub> = E[ {inner} | A = S ]"), "formula"),
            Paragraph(
                "θ is the penalty of people who share exactly the set S; f is the prediction, Y the outcome, b the "
                "base features, z the optional data in S, and A what a person shares (A ⊇ S: at least S)."
                + (" τ is the level of the quantile." if quantile else "")
            ),
            Paragraph(
                "It is estimated by a doubly robust, cross-fitted estimate: a model of the outcome and one of who "
                "shares exactly S are trained on disjoint parts of the data and applied to people neither has seen. "
                "To first order, each makes up for the errors of the other. The model of the outcome starts from what "
                "the audited model says and learns only what is wrong with it. Models: "
                f"{findings.provenance.nuisance}; {count(findings.provenance.folds)} folds."
            ),
            Paragraph(
                "The verdict comes from two one-sided tests against the margin, each with "
                f"{share(findings.level, 0)} confidence. The joint interval is the estimate ± "
                f"{fixed(findings.critical_value, 2)} standard errors, moved and stretched where outcomes are skewed. "
                f"{about_several_sets(findings)}"
            ),
        ),
    )


def provenance(findings: Findings) -> Section:
    """Say what was audited, and with which data, settings and versions."""
    consent, needs = findings.provenance.consent, findings.provenance.needs
    headings = ("Optional data", "Columns", *(("Shared only with",) if needs else ()))
    table = Table(
        "Consent schema: what people may withhold",
        headings,
        tuple(
            (Cell(group), Cell(", ".join(columns)), *((Cell(needs.get(group, "")),) if needs else ()))
            for group, columns in consent.items()
        ),
        frozenset(headings),
    )
    return Section(
        "provenance", "Provenance", (Facts(tuple(provenance_facts(findings))), *((table,) if consent else ()))
    )


def provenance_facts(findings: Findings) -> list[Fact]:
    """Return the facts, without the consent schema."""
    made = findings.provenance
    return [
        Fact("Date", date_in_words(made.date)),
        Fact("Model", made.model_kind),
        Fact("Model hash (SHA-256)", made.model_hash or "none; models of this kind have none", bool(made.model_hash)),
        Fact("Data hash (SHA-256)", made.data_hash, True),
        Fact("Base features", ", ".join(made.base_features) or "none"),
        Fact("Loss", findings.loss),
        Fact("Seed and folds", f"seed {made.seed}, {made.folds} folds"),
        Fact("Smallest set tested", f"{count(made.min_count)} people"),
        Fact("Reference models", made.nuisance),
        Fact("Versions", ", ".join(f"{name} {number}" for name, number in made.versions.items())),
        Fact("Time taken", f"{significant(made.seconds, 2)} seconds"),
    ]


# --------------------------------------------------------------------------------------------------
# The sections of the page in their order.


SECTIONS: tuple[Callable[[Findings], Section | None], ...] = (
    asked,
    penalties,
    within,
    limits,
    informativeness,
    recognition,
    comparability,
    agreement,
    sharing,
    balance,
    averages,
    losses,
    truth,
    support,
    method,
    provenance,
)
