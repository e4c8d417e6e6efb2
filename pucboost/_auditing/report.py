"""The audit as something to read: an HTML page, a notebook box, a section of a model card, plain text.

Each function below puts one aspect of the findings into words, tables and figures: a :class:`Section`, or None where
there is nothing to show. :data:`SECTIONS` lists them in the order of the page; a new section is a function and its
entry there. ``blocks`` defines what sections are made of and how numbers are written, ``plots`` draws the figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup

from .._pages import printable, templates
from .blocks import (
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
    markdown,
    markdown_facts,
    markdown_list,
    markdown_table,
    p_value,
    penalty_scale,
    prediction_scale,
    share,
    shorten,
    significant,
    text_table,
)
from .findings import (
    CERTIFIED,
    GIVEN_AWAY,
    INCONCLUSIVE,
    NOT_TESTABLE,
    VIOLATED,
    VIOLATED_FOR_SOME,
    AuditReport,
    BaseFeature,
    Estimate,
    Informativeness,
    LossComparison,
    Penalty,
    TrainedOn,
    WithinSet,
    title,
)
from .plots import PLOTS, inline_svg
from .settings import counted, people_in_words, roughly

HEADING = "Consent audit"
SHARES, VERDICT, PENALTY, JOINT, PEOPLE = "Shares exactly", "Verdict", "Penalty", "Verdict interval", "People"
BEYOND, WHOM, OPTIONAL, IN_WORDS = "Above those who share everything", "Who", "Optional data", "In words"
NO_ESTIMATE = Estimate(math.nan, math.nan, math.nan, math.nan)
MAX_NAMES = 8
MAX_COLUMNS = 12
"""Base features shown; the JSON has them all."""


def render_html(findings: AuditReport) -> str:
    """Return one complete HTML page: no script, nothing to load, all text escaped."""
    findings = printable(findings)
    made = (make(findings) for make in SECTIONS)
    page = templates("pucboost._auditing").get_template("page.html")
    return page.render(
        heading=HEADING,
        verdict=verdict_box(findings),
        subject=subject(findings),
        notices=notices(findings),
        sections=[section for section in made if section is not None],
    )


def render_fragment(findings: AuditReport) -> str:
    """Return verdict and penalties as one ``<div>`` for a notebook."""
    findings = printable(findings)
    columns = (SHARES, VERDICT, PENALTY, JOINT, PEOPLE)
    box = templates("pucboost._auditing").get_template("fragment.html")
    return box.render(
        heading=HEADING,
        verdict=verdict_box(findings),
        notices=notices(findings),
        tables=[table.only(columns) for table in penalty_tables(findings)],
        untested=untested(findings),
    )


def render_markdown(findings: AuditReport) -> str:
    """Return a section for a model card."""
    findings = printable(findings)
    verdict = verdict_box(findings)
    consent = "; ".join(f"{group} ({', '.join(columns)})" for group, columns in findings.provenance.consent.items())
    facts = [*provenance_facts(findings), Fact("Consent schema", consent or "nothing is optional")]
    parts = [
        f"## {HEADING}: {verdict.word}",
        f"**{markdown(verdict.reason)}**",
        markdown(verdict.meaning),
        markdown_facts(verdict.facts),
    ]
    if notices(findings):
        parts += ["**Before you rely on it**", markdown_list(notices(findings))]
    parts += ["### The penalty of withholding"]
    for table in penalty_tables(findings):
        parts += [f"{markdown(table.caption)}:", markdown_table(table)]
    if untested(findings):
        parts += ["Not tested:", markdown_list([f"{name}: {why}" for name, why in untested(findings)])]
    parts += [
        "### What this audit cannot say",
        markdown_list([f"{point} {rest}" for point, rest in limits_in_words(findings)]),
    ]
    parts += ["### Provenance", markdown_facts(facts)]
    return "\n\n".join(parts) + "\n"


def render_text(findings: AuditReport) -> str:
    """Return verdict, margin, penalties and warnings as plain text."""
    findings = printable(findings)
    verdict = verdict_box(findings)
    interval = _level_interval(findings)
    columns = (SHARES, PEOPLE, PENALTY, interval, JOINT, VERDICT)
    width = max(len(fact.term) for fact in verdict.facts)
    parts = [
        f"{HEADING}: {verdict.word.upper()}\n{verdict.reason}",
        "\n".join(f"{fact.term:<{width}}  {fact.text}" for fact in verdict.facts),
    ]
    parts += [f"{table.caption}\n{text_table(table.only(columns))}" for table in penalty_tables(findings)]
    if untested(findings):
        parts.append("Not tested\n" + "\n".join(f"  {name}: {why}" for name, why in untested(findings)))
    if notices(findings):
        parts.append("Warnings\n" + "\n".join(f"  - {notice}" for notice in notices(findings)))
    return "\n\n".join(parts)


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


def verdict_box(findings: AuditReport) -> VerdictBox:
    meaning = _MEANING.get(findings.verdict, "")
    if findings.verdict == INCONCLUSIVE and _seen_in_training(findings):
        meaning = _SEEN
    open_ones = [p for p in findings.penalties if p.decisive and p.verdict == INCONCLUSIVE]
    if findings.verdict == INCONCLUSIVE and open_ones and all(p.note == GIVEN_AWAY for p in open_ones):
        meaning = _GIVEN_AWAY
    return VerdictBox(findings.verdict, findings.reason, meaning, tuple(_key_figures(findings)))


def _key_figures(findings: AuditReport) -> list[Fact]:
    tested = [p for p in findings.penalties if p.decisive]
    worst = max(tested, key=lambda p: abs(finite((p.estimate or NO_ESTIMATE).value) or 0), default=None)
    set_by = findings.margin_set_by or "this report does not know by whom, nor when"
    facts = [Fact("Margin", _margin(findings)), Fact("Margin fixed by", set_by)]
    if worst is not None and worst.estimate is not None:
        scale, e = penalty_scale(findings), worst.estimate
        numbers = f"{scale.words(e.value, signed=True)} ({_level_interval(findings)} {scale.between(e.lower, e.upper)})"
        facts.append(Fact("Largest penalty", f"{numbers}: {_who(worst)}"))
    if findings.exposure is not None:
        facts.append(Fact("Exposure", f"{significant(findings.exposure)} units; margin and penalties are per unit"))
    return [
        *facts,
        Fact("Sets of people tested", _tested(findings)),
        Fact("People audited", count(findings.provenance.rows)),
    ]


def _tested(findings: AuditReport) -> str:
    sets = _tested_sets(findings)
    within = sum(p.decisive and p.groups is not None and p.subgroup is not None for p in findings.penalties)
    number = count(len(sets)) + (f", and {count(within)} within subgroups" if within else "")
    withholding = findings.support.withholding_people
    if not withholding:
        return number
    covered = sum(p.people for p in sets)
    return f"{number}, with {count(covered)} ({share(covered / withholding)}) of those who withhold something"


def _no_more_than_everybody(p: Penalty, margin: float) -> bool:
    d = p.difference
    return d is not None and -margin <= d.lower and d.upper <= margin


def _margin(findings: AuditReport) -> str:
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


def subject(findings: AuditReport) -> str:
    made = findings.provenance
    return f"{made.model_kind} · {count(made.rows)} people · {_date_in_words(made.date)}"


def notices(findings: AuditReport) -> list[str]:
    """Return the audit's warnings, and what the numbers taken together say beyond them."""
    found = [*findings.warnings]
    violated = [p for p in findings.penalties if p.decisive and p.verdict == VIOLATED]
    if violated and all(_no_more_than_everybody(p, findings.margin) for p in violated):
        found.append(
            "The model is as far off for people who withhold nothing, within the margin: it is wrong for everybody, "
            "rather than hard on silence."
        )
    if findings.verdict == CERTIFIED and not _informative_groups(findings):
        found.append(
            "These data do not show that withholding says anything about the outcome. Where silence says nothing, a "
            "model without any protection passes as well: the verdict is then no credit to the model."
        )
    return found


# --------------------------------------------------------------------------------------------------
# What was asked, and the decisive numbers.


def asked(findings: AuditReport) -> Section:
    amount = penalty_scale(findings).words(findings.margin)
    if _is_quantile(findings):
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
    return _section(
        "asked",
        "What was asked",
        f"Some data are optional here: people may share or withhold {_quoted(findings.provenance.consent)}. "
        "Are people who withhold data told something other than what their remaining data justify?" + per_unit,
        "The penalty answers this. For a set of people, say those who share one thing and no more, it is the "
        f"average of {told}, minus {justified}. A penalty of 0 means that silence costs nothing. A penalty of "
        f"+{amount} means that these people are told that much more than their data justify; a negative one, "
        f"that they are told less. People prefer {findings.favourable} predictions here.",
        f"No estimate is ever exactly 0, so a margin says which penalty is harmless: here ±{amount}. A set of "
        "people is certified if its penalty lies within the margin, statistical uncertainty included; "
        "violated if it lies outside; inconclusive if the data do not decide. Where averages hide that some "
        "people of a set are told too much and others too little, the model is violated for some.",
    )


def penalties(findings: AuditReport) -> Section:
    tested, seen = sum(p.verdict != NOT_TESTABLE for p in findings.penalties), _seen_in_training(findings)
    blocks: list[Block | str] = [
        _figure(
            "penalty",
            findings,
            "Average penalties of sets of people, with intervals. The numbers are in the table that follows.",
            "Each mark is a set of people, by what they share. The shaded band is the margin. The thick bar is the "
            "verdict interval: inside the band the set is certified (circle), outside violated (diamond), across its "
            f"edge inconclusive (triangle). The thin line is the {_level_interval(findings)} of that set alone. A "
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
        blocks += [" ".join(words), *_about_the_difference(findings)]
    if untested(findings):
        lead = "Not tested; the verdict says nothing about these people:"
        blocks.append(Bullets(tuple((f"{name}:", why) for name, why in untested(findings)), lead))
    return _section("penalty", "The penalty of withholding", *blocks, tag="decisive")


def _about_the_verdict_interval(findings: AuditReport) -> str:
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


def _about_the_difference(findings: AuditReport) -> list[str]:
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


def penalty_tables(findings: AuditReport) -> list[Table]:
    """Return a table of the penalties of everybody, and one for each subgroup."""
    tables = []
    for subgroup in dict.fromkeys(p.subgroup for p in findings.penalties):
        rows = [p for p in findings.penalties if p.subgroup == subgroup and p.verdict != NOT_TESTABLE]
        if rows:
            tables.append(_penalty_table(findings, subgroup, rows))
    return tables


def _penalty_table(findings: AuditReport, subgroup: str | None, rows: Sequence[Penalty]) -> Table:
    scale = penalty_scale(findings)

    def e(p: Penalty) -> Estimate:
        return p.estimate or NO_ESTIMATE

    columns: dict[str, Callable[[Penalty], Cell | str]] = {
        SHARES: lambda p: Cell(p.name, _note(p)),
        VERDICT: lambda p: Cell(p.verdict, verdict=p.verdict),
        PENALTY: lambda p: scale.show(e(p).value, signed=True),
        _level_interval(findings): lambda p: scale.between(e(p).lower, e(p).upper),
        JOINT: lambda p: scale.between(p.verdict_lower, p.verdict_upper),
        BEYOND: lambda p: _with_interval(p.difference, scale),
        "% of mean prediction": lambda p: _percent(p.percent),
        PEOPLE: lambda p: count(p.people),
        "Compared with": lambda p: count(p.comparable),
        "Rows to decide": lambda p: MISSING if p.rows_to_decide is None else roughly(p.rows_to_decide),
    }
    if all(p.difference is None for p in rows):
        del columns[BEYOND]
    if all(p.rows_to_decide is None for p in rows):
        del columns["Rows to decide"]
    if _is_quantile(findings):  # a probability is not a percentage of a quoted amount
        del columns["% of mean prediction"]
    of = "" if subgroup is None else f" in subgroup {subgroup}"
    caption = f"Average penalty{of} by what people share, in {scale.unit}"
    return _table(caption, columns, rows, (SHARES, VERDICT), cards=True)


def _note(p: Penalty) -> str:
    if p.decisive:
        return p.note
    return "withholds nothing; does not count" + (f"; told {_too(p)}" if _too(p) else "")


def _with_interval(estimate: Estimate | None, scale: Scale) -> Cell:
    if estimate is None:
        return Cell(MISSING)
    return Cell(scale.show(estimate.value, signed=True), scale.between(estimate.lower, estimate.upper))


def _percent(value: float | None) -> str:
    text = fixed(value, 1, signed=True)
    return text if text == MISSING else f"{text}%"


def untested(findings: AuditReport) -> list[tuple[str, str]]:
    return [(title(p), p.note or "not testable") for p in findings.penalties if p.verdict == NOT_TESTABLE]


# --------------------------------------------------------------------------------------------------
# Whether silence says anything, and what the model predicts for silent people.


_ALL = "all of it at once"


def informativeness(findings: AuditReport) -> Section | None:
    if not findings.informativeness:
        return None
    informative = _informative_groups(findings)
    if informative:
        finding = (
            f"Yes, for {_quoted(informative)}. A model that sees who is silent would use it, so protection is needed."
        )
    elif any(found.p_value is not None for found in findings.informativeness):
        finding = (
            "These data do not show it. If silence says nothing, a model without any protection passes this audit as "
            "well, and a clean verdict is no credit to the model."
        )
    else:
        finding = "That could not be tested."
    return _section(
        "informative",
        "Does silence say anything?",
        "Do people with the same base data have different outcomes if they withhold? " + finding,
        _table(
            "Sharing and outcome, given the base features",
            {
                OPTIONAL: lambda one: Cell(one.group, one.note),
                "Shared by": lambda one: share(one.shared),
                "Correlation": lambda one: fixed(one.correlation, 3, signed=True),
                "p-value (Holm)": lambda one: p_value(one.adjusted_p_value),
                IN_WORDS: lambda one: _informative_words(one, one.group in informative),
            },
            findings.informativeness,
            (OPTIONAL, IN_WORDS),
            cards=True,
        ),
        "The correlation is between sharing and outcome, after removing what the base features explain. A "
        "small p-value speaks against chance alone; Holm's method allows for testing several groups.",
    )


def _informative_words(found: Informativeness, informative: bool) -> str:
    correlation = finite(found.correlation)
    if correlation is None or found.p_value is None:
        return "not testable"
    if not informative:
        return "no clear sign"
    return f"those who withhold have {'higher' if correlation < 0 else 'lower'} outcomes"


def recognition(findings: AuditReport) -> Section | None:
    found = findings.recognition
    if found is None:
        return None
    flagged = [column.name for column in found.columns if column.conspicuous]
    answer = "No base feature gives it away here."
    if flagged:
        answer = (
            f"Look first at {_quoted(flagged)}: whoever withholds can be recognised by "
            f"{'it' if len(flagged) == 1 else 'them'}, so the model may read silence there. Keep such a column out, or "
            "justify it; until then nothing about these people is certified."
        )
    groups = _table(
        "How often all base features together tell which of two people withholds",
        {
            OPTIONAL: lambda one: _ALL if one.group is None else one.group,
            "People who withhold": lambda one: count(one.people),
            "Of 100 cases": lambda one: _of_100(one.together),
        },
        found.groups,
        (OPTIONAL,),
    )
    more = len(found.columns) - MAX_COLUMNS
    columns = _table(
        "What each base feature tells, those to look at first on top"
        + (f" ({count(more)} more not shown)" if more > 0 else ""),
        {
            "Base feature": lambda column: column.name,
            "Tells most about": lambda column: _ALL if column.group is None else column.group,
            "Alone": lambda column: _of_100(column.alone),
            "Gives away": lambda column: share(column.recognised, 0),
            "Beyond the others": lambda column: _of_100(column.beyond_others),
            IN_WORDS: _recognition_words,
        },
        found.columns[:MAX_COLUMNS],
        ("Base feature", "Tells most about", IN_WORDS),
        cards=True,
    )
    return _section(
        "recognition",
        "Do base features tell who withholds?",
        "Base features may well go with withholding, and the model may use them: older people may share less. "
        "But a base feature that gives silence away for certain, such as the date of a consent form, makes "
        "every inference from it look justified, and the penalties above do not show it. " + answer,
        columns,
        groups,
        "Take two people, one of whom withholds. “Alone” is in how many of 100 such cases this feature tells "
        "which one: 50 is chance, 100 is always. “Gives away” is the share of those who withhold with values "
        "that hardly anybody else has. “Beyond the others” is how many of the 100 cases are lost if a model of "
        "all base features does without this one; where two features say the same, neither is missed. The "
        f"numbers rest on {count(found.people)} people, each judged by what was learned from others.",
    )


def _of_100(area: float | None) -> str:
    shown = finite(area)
    return MISSING if shown is None else fixed(100 * shown, 1)


def _recognition_words(column: BaseFeature) -> str:
    if column.conspicuous:
        return "gives silence away: look at it"
    return "goes with withholding" if (finite(column.alone) or 0) >= 0.6 else "tells little"


def agreement(findings: AuditReport) -> Section:
    blocks = [
        _figure(
            "calibration",
            findings,
            "Average outcomes against predictions, for groups of people with similar predictions.",
            "Everybody treated as if they withheld everything (solid). If silence is neutral, the points lie on the "
            "diagonal; below it, silent people are told too much. People as they come (dashed) may lie off the "
            "diagonal through no fault of the model: see the cost of consent.",
        ),
        _figure(
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
    return _section(
        "agreement",
        "Predictions for people who withhold",
        Figures(figures) if figures else None,
        *rest,
    )


# --------------------------------------------------------------------------------------------------
# Behind the averages: opposite penalties within a set, and whom people are compared with.


def within(findings: AuditReport) -> Section | None:
    if not findings.within:
        return None
    scale = penalty_scale(findings)
    beyond = [one for one in findings.within if one.beyond_margin and one.decisive]
    answer = "No such differences beyond the margin were found."
    if beyond:
        answer = "Yes, beyond the margin: the model is violated for some."
    blocks: list[Block | str] = [
        (
            "A set of people can have no penalty on average while some of them are told too much and others too "
            f"little. Is that so here? {answer}"
        ),
        _table(
            f"Differences within sets of people, in {scale.unit}",
            {
                SHARES: lambda one: Cell(one.name, "" if one.decisive else "withholds nothing; does not count"),
                "Off by": lambda one: scale.show((one.spread or NO_ESTIMATE).value),
                _level_interval(findings): lambda one: scale.between(
                    (one.spread or NO_ESTIMATE).lower, (one.spread or NO_ESTIMATE).upper
                ),
                "At least": lambda one: scale.show(_at_least(one)),
                "Tested on": lambda one: count(one.tested),
                IN_WORDS: _within_words,
            },
            findings.within,
            (SHARES, IN_WORDS),
            cards=True,
        ),
        *(_parts_table(findings, one, scale) for one in beyond if one.parts),
        (
            "Some of the people taught in which direction the model errs for whom; the others tested it. “Off by” is "
            "how far the latter are told more or less than their data justify, in that direction: on average they are "
            "off by at least that, whatever else the model does. “At least” allows for chance and for all sets "
            "together; beyond the margin it decides. The opposite is never certified: a difference that was not found "
            "may exist, and nothing here is about a single person."
        ),
    ]
    return _section("within", "Behind the averages", *blocks, tag="decisive")


def _at_least(one: WithinSet) -> float | None:
    return None if finite(one.at_least) is None else max(0.0, one.at_least or 0.0)


def _within_words(one: WithinSet) -> str:
    if one.beyond_margin:
        return "some are told too much, others too little"
    if one.spread is None:
        return one.note or "not testable"
    return "some difference, not beyond the margin" if (_at_least(one) or 0) > 0 else "no clear difference"


def _parts_table(findings: AuditReport, one: WithinSet, scale: Scale) -> Table:
    return _table(
        f"For whom: penalties of people who share {one.name}{'' if one.name == 'nothing' else ' and no more'}, in "
        f"{scale.unit}",
        {
            WHOM: lambda part: part.rule,
            PENALTY: lambda part: scale.show(part.penalty.value, signed=True),
            f"{_level_interval(findings)}, all parts together": lambda part: scale.between(
                part.penalty.lower, part.penalty.upper
            ),
            PEOPLE: lambda part: count(part.people),
        },
        one.parts,
        (WHOM,),
        cards=True,
    )


def comparability(findings: AuditReport) -> Section | None:
    if not findings.comparability:
        return None
    scale = penalty_scale(findings)
    kappa = "Told minus outcome"
    if _is_quantile(findings):
        kappa = "Outcomes below the quote, minus the level"
    recognised, stricter = "Compared with themselves", "Against those who share more"
    table = _table(
        f"Whom sets of people are compared with, amounts in {scale.unit}",
        {
            SHARES: lambda one: one.name,
            kappa: lambda one: _with_interval(one.calibration, scale),
            recognised: lambda one: share(one.recognised),
            stricter: lambda one: _with_interval(one.stricter, scale),
            "Bounds for all of them": lambda one: (
                MISSING if one.stricter is None else scale.between(one.stricter_lower, one.stricter_upper)
            ),
            PEOPLE: lambda one: count(one.people),
            "Compared with": lambda one: count(one.comparable),
        },
        findings.comparability,
        (SHARES,),
        cards=True,
    )
    return _section(
        "compared",
        "Whom people are compared with",
        "The yardstick of a set is everybody who shares at least as much, and these people are among them. So "
        "silence itself has a part in the yardstick, and the fewer people with the same data share more, the "
        "larger that part: in the extreme, whatever a model reads out of silence is justified by the silent.",
        table,
        f"“{kappa}” treats everybody of the comparison as if they shared no more than the set: near 0 the "
        f"model is calibrated for them, whatever the audit's own models say. “{recognised}” is the share of "
        "the set of whom hardly anybody with the same data shares more (at most 5 in 100). "
        f"“{stricter}” leaves the silent out of the yardstick, for the rest of the set; where silence is "
        "informative this is not 0 even for a perfect model. Its bounds for the whole set assume the lowest "
        "and the highest outcome for those recognised.",
        tag="not decisive",
    )


# --------------------------------------------------------------------------------------------------
# What sharing changes: predictions, the balance of the book, averages.


_RATIO = Scale(1, 3, "", "")


def sharing(findings: AuditReport) -> Section:
    effect, scale = findings.sharing_effect, difference_scale(findings)
    blocks = [
        _figure(
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
    return _section("sharing", "Does sharing pay?", *blocks)


def balance(findings: AuditReport) -> Section:
    scale, cost = prediction_scale(findings), difference_scale(findings)
    of_ratio = _level_interval(findings)
    table = _table(
        f"Actual and expected outcomes; the cost is actual minus expected, in {cost.unit}",
        {
            WHOM: lambda b: b.name,
            PEOPLE: lambda b: count(b.people),
            "Actual": lambda b: scale.show(b.actual),
            "Expected": lambda b: scale.show(b.expected),
            "Actual / expected": lambda b: _RATIO.show((b.ratio or NO_ESTIMATE).value),
            of_ratio: lambda b: _RATIO.between(
                (b.ratio or NO_ESTIMATE).lower, (b.ratio or NO_ESTIMATE).upper, signed=False
            ),
            "Cost": lambda b: cost.show(b.cost.value, signed=True),
            f"{of_ratio} of cost": lambda b: cost.between(b.cost.lower, b.cost.upper),
        },
        findings.balance,
        (WHOM,),
    )
    return _section(
        "balance",
        "The cost of consent",
        "When withholding is informative, a correct model under consent is not balanced on people who "
        "withhold: actual / expected differs from 1 there. That difference is the cost of consent. It is not "
        "an error of the model, but somebody has to bear it.",
        _figure(
            "balance",
            findings,
            "Actual divided by expected outcomes by what people share. The numbers are in the table that follows.",
            f"Average outcome divided by average prediction, with {_level_interval(findings)}s. Right of 1, "
            "outcomes are higher than predicted.",
        ),
        table if findings.balance else None,
    )


def averages(findings: AuditReport) -> Section | None:
    if not findings.averages:
        return None
    scale = prediction_scale(findings)
    return _section(
        "averages",
        "What people are told on average",
        "The model with base features only ignores all optional data. The unrestricted model uses all data, "
        "silence included: it says what a model without protection would say. Both were fitted on "
        f"{findings.provenance.reference_data}.",
        _table(
            "Average predictions and outcomes by what people share",
            {
                SHARES: lambda a: a.name,
                PEOPLE: lambda a: count(a.people),
                "Audited model": lambda a: scale.show(a.model),
                "Base features only": lambda a: scale.show(a.base_model),
                "Unrestricted": lambda a: scale.show(a.unrestricted_model),
                "Actual outcome": lambda a: scale.show(a.outcome),
            },
            findings.averages,
            (SHARES,),
        ),
    )


# --------------------------------------------------------------------------------------------------
# How well the model predicts: against other models, and against a known truth.


_SILENCE_WORDS = {-1: "better than base features allow: AIR fails", 0: "no clear difference", 1: "no gain from silence"}

_LOSS_WORDS = {-1: "audited model better", 0: "no clear difference", 1: "audited model worse"}


def losses(findings: AuditReport) -> Section:
    blocks: list[Block | str] = [
        (
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
            (
                "Does the model use optional data well? If so, the difference is negative: it predicts better."
                + _where_fitted(findings)
            ),
            _loss_table(findings, "Against a model with base features only", protected, _LOSS_WORDS),
        ]
    price = [c for c in findings.non_degradation if c.other == "unrestricted"]
    if price:
        blocks += [
            (
                "The price of protection. An unrestricted model may learn from silence, and so predicts better for "
                "people as they come. A positive difference is what protection costs in accuracy."
            ),
            _loss_table(findings, "Against an unrestricted model", price, _LOSS_WORDS),
        ]
    return _section("losses", "How well the model predicts", *blocks, tag="not decisive")


def _where_fitted(findings: AuditReport) -> str:
    if not findings.provenance.reference_data.startswith("the audit data"):
        return ""
    return (
        " No training data were given, so the model with base features only was fitted on the audited people "
        "themselves, part by part. It had other and perhaps fewer people to learn from than the audited model, which "
        "may look better or worse for that reason alone."
    )


def _loss_table(
    findings: AuditReport, caption: str, comparisons: Sequence[LossComparison], words: dict[int, str]
) -> Table:
    def difference(c: LossComparison) -> Estimate:
        return c.difference or NO_ESTIMATE

    def in_words(c: LossComparison) -> str:
        d = difference(c)
        sign = 1 if d.lower > 0 else -1 if d.upper < 0 else 0
        return "not testable" if finite(d.value) is None else words[sign]

    other = comparisons[0].other
    return _table(
        f"{caption}: mean {findings.loss}, lower is better",
        {
            WHOM: lambda c: Cell(c.people_name, c.note),
            PEOPLE: lambda c: count(c.people),
            "Audited model": lambda c: significant(c.loss),
            other[:1].upper() + other[1:]: lambda c: significant(c.other_loss),
            "Difference": lambda c: estimate_scale(c.difference).show(difference(c).value, signed=True),
            _level_interval(findings): lambda c: estimate_scale(c.difference).between(
                difference(c).lower, difference(c).upper
            ),
            IN_WORDS: in_words,
        },
        comparisons,
        (WHOM, IN_WORDS),
        cards=True,
    )


def truth(findings: AuditReport) -> Section | None:
    gap = findings.puc_gap
    if gap is None:
        return None
    scale, comparable = difference_scale(findings), not _is_quantile(findings)
    estimates = {p.name: p.estimate for p in findings.penalties if p.subgroup is None and p.groups is not None}
    columns: dict[str, Callable[[str], str]] = {
        SHARES: lambda name: name,
        "True penalty": lambda name: scale.show(gap.mean_by_mask[name], signed=True),
    }
    if comparable:
        columns["Estimate"] = lambda name: scale.show((estimates.get(name) or NO_ESTIMATE).value, signed=True)
        columns[_level_interval(findings)] = lambda name: scale.between(
            (estimates.get(name) or NO_ESTIMATE).lower, (estimates.get(name) or NO_ESTIMATE).upper
        )
    return _section(
        "truth",
        "Distance to the truth",
        "The justified prediction of every person is known here, as in a simulation. The model's typical "
        f"distance from it (root mean square) is {scale.words(math.sqrt(max(gap.squared, 0)))}.",
        _table(
            f"True penalties{' and their estimates' if comparable else ''}, in {scale.unit}",
            columns,
            gap.mean_by_mask,
            (SHARES,),
        ),
    )


# --------------------------------------------------------------------------------------------------
# What the verdict rests on: the data, the limits, the method, the provenance.


def support(findings: AuditReport) -> Section:
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
    table = _table(
        "How often each group of data is shared",
        {
            OPTIONAL: lambda g: g.group,
            "Shared by": lambda g: share(g.shared),
            "People who share": lambda g: count(g.shared_people),
            "People who withhold": lambda g: count(g.withheld_people),
        },
        s.groups,
        (OPTIONAL,),
    )
    return _section(
        "support",
        "Do the data support this?",
        Facts(facts),
        table if s.groups else None,
    )


def _trained_on(found: TrainedOn | None) -> str:
    if found is None or found.share is None:
        return "not known"
    interval = f"95% interval {share(found.lower, 0)} to {share(found.upper, 0)}"
    return f"about {share(found.share, 0)} ({interval}, from {counted(found.compared, 'row', 'rows')})"


def limits(findings: AuditReport) -> Section:
    return _section(
        "limits",
        "What this audit cannot say",
        Bullets(tuple(limits_in_words(findings))),
    )


def limits_in_words(findings: AuditReport) -> list[tuple[str, str]]:
    withholding = findings.support.withholding_people or 0
    untested = withholding - sum(p.people for p in _tested_sets(findings))
    narrower = "Subgroups were judged as well, which narrows this."
    if all(p.subgroup is None for p in findings.penalties):
        narrower = "No subgroups were judged."
    covered = "Here everybody who withholds something is in a set that was tested."
    if untested > 0:
        are = "is in a set that was" if untested == 1 else "are in sets that were"
        covered = f"{count(untested)} of {people_in_words(withholding)} who withhold something {are} not tested."
    base = _quoted(findings.provenance.base_features)
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
            f"{_about_several_sets(findings)} A wrong verdict by chance remains possible.",
        ),
        ("It is only about silence.", "Certified does not mean fair or lawful in other respects."),
    ]


def method(findings: AuditReport) -> Section:
    quantile = _is_quantile(findings)
    inner = "P(Y ≤ f | b, z<sub>S</sub>, A ⊇ S) − τ" if quantile else "f − E(Y | b, z<sub>S</sub>, A ⊇ S)"
    return _section(
        "method",
        "How it was done",
        Paragraph(Markup(f"θ<sub>S</sub> = E[ {inner} | A = S ]"), "formula"),
        "θ is the penalty of people who share exactly the set S; f is the prediction, Y the outcome, b the "
        "base features, z the optional data in S, and A what a person shares (A ⊇ S: at least S)."
        + (" τ is the level of the quantile." if quantile else ""),
        "It is estimated by a doubly robust, cross-fitted estimate: a model of the outcome and one of who "
        "shares exactly S are trained on disjoint parts of the data and applied to people neither has seen. "
        "To first order, each makes up for the errors of the other. The model of the outcome starts from what "
        "the audited model says and learns only what is wrong with it. Models: "
        f"{findings.provenance.nuisance}; {count(findings.provenance.folds)} folds.",
        "The verdict comes from two one-sided tests against the margin, each with "
        f"{share(findings.level, 0)} confidence. The joint interval is the estimate ± "
        f"{fixed(findings.critical_value, 2)} standard errors, moved and stretched where outcomes are skewed. "
        f"{_about_several_sets(findings)}",
    )


def provenance(findings: AuditReport) -> Section:
    consent, needs = findings.provenance.consent, findings.provenance.needs
    columns: dict[str, Callable[[str], str]] = {
        OPTIONAL: lambda group: group,
        "Columns": lambda group: ", ".join(consent[group]),
    }
    if needs:
        columns["Shared only with"] = lambda group: needs.get(group, "")
    table = _table("Consent schema: what people may withhold", columns, consent, columns)
    return _section(
        "provenance",
        "Provenance",
        Facts(tuple(provenance_facts(findings))),
        table if consent else None,
    )


def provenance_facts(findings: AuditReport) -> list[Fact]:
    made = findings.provenance
    return [
        Fact("Date", _date_in_words(made.date)),
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
# What several sections share.


def _section(name: str, title: str, *blocks: Block | str | None, tag: str = "") -> Section:
    """Return a section; texts are paragraphs, and None stands for a block that is left out."""
    made = (Paragraph(block) if isinstance(block, str) else block for block in blocks)
    return Section(name, title, tuple(block for block in made if block is not None), tag)


def _table(
    caption: str,
    columns: Mapping[str, Callable[[Any], Cell | str]],
    rows: Iterable[Any],
    words: Iterable[str] = (),
    cards: bool = False,
) -> Table:
    """Return a table from what each column shows of an entry; ``words`` are the columns without numbers."""
    cells = ((make(row) for make in columns.values()) for row in rows)
    made = tuple(tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in cells)
    return Table(caption, tuple(columns), made, frozenset(words), cards)


def _figure(name: str, findings: AuditReport, label: str, caption: str) -> Block:
    """Return a figure, or a sentence with the reason why there is none."""
    missing = PLOTS[name].missing(findings)
    if missing:
        return Paragraph(missing, "notice")
    return Figures((Figure(Markup(inline_svg(name, findings, label)), caption),))


def _informative_groups(findings: AuditReport) -> list[str]:
    adjusted = {found.group: finite(found.adjusted_p_value) for found in findings.informativeness}
    return [group for group, p in adjusted.items() if p is not None and p < 1 - findings.level]


def _seen_in_training(findings: AuditReport) -> bool:
    """Return whether the model was trained on so many of the people that nothing is certified."""
    return findings.support.trained_on is not None and findings.support.trained_on.too_many


def _tested_sets(findings: AuditReport) -> list[Penalty]:
    """Return the entries about one set each of people who withhold something, subgroups aside."""
    return [p for p in findings.penalties if p.decisive and p.groups is not None and p.subgroup is None]


def _quoted(names: Iterable[str]) -> str:
    """Return the first few names in quotation marks, so that they are not read as words of the sentence."""
    shown = [f"“{shorten(name, 60)}”" for name in names]
    further = len(shown) - MAX_NAMES
    return listing([*shown[:MAX_NAMES], f"{further} more"] if further > 0 else shown)


def _about_several_sets(findings: AuditReport) -> str:
    if findings.simultaneous.startswith("none"):
        return "No allowance is made for that: each verdict stands alone, and the more sets, the more may be wrong."
    return (
        "That all sets lie within the margin needs no allowance for their number: to be wrong, the audit would have to "
        f"misjudge a particular one. Other verdicts are kept valid together by this method: {findings.simultaneous}."
    )


def _level_interval(findings: AuditReport) -> str:
    return f"{share(findings.level, 0)} interval"


def _is_quantile(findings: AuditReport) -> bool:
    """Return whether the model predicts a quantile, so that penalties are probabilities."""
    return findings.unit.startswith("probability of")


def _date_in_words(iso: str) -> str:
    """Return a date as people write it; text that is not a date is returned as it is."""
    try:
        moment = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    zone = f" {moment:%Z}" if moment.tzinfo else ""
    return f"{moment.day} {moment:%B %Y, %H:%M}{zone}"


SECTIONS: tuple[Callable[[AuditReport], Section | None], ...] = (
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
