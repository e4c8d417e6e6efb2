"""The audit as something to read: an HTML page, a notebook box, a section of a model card, plain text.

The page begins with one sheet: the verdict, who was tested, a picture of the penalties, what to know before relying on
it. The rest is folded into :data:`CHAPTERS`, at the end of this module: lists of sections, each a function from the
findings to blocks of words, tables and figures. A section without blocks is left out. ``blocks`` defines what these are
and how numbers are written, ``plots`` draws the figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from markupsafe import Markup

from .._pages import printable, templates
from . import blocks
from .blocks import MISSING, Block, Cell, Figures, Scale, Table, count, finite, fixed, share, significant, tone
from .findings import (
    CERTIFIED,
    CERTIFIED_IN_PART,
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
WORDS = frozenset((SHARES, VERDICT, WHOM, OPTIONAL, IN_WORDS, "Tells most about", "Columns", "Shared only with"))
"""The columns that hold words, not numbers, beside the first one of each table."""
_PERCENT, _RATIO, _OF_100 = Scale(1, 1, "%", ""), Scale(1, 3, "", ""), Scale(100, 1, "", "")
_ALL = "all of it at once"
MAX_NAMES = 8
MAX_COLUMNS = 12
"""Base features shown; the JSON has them all."""

Blocks = list[Block]


def render_html(findings: AuditReport) -> str:
    """Return one complete HTML page: no script, nothing to load, all text escaped."""
    findings = printable(findings)
    return _fill(
        "page.html", findings, subject=subject(findings), picture=picture(findings), chapters=chapters(findings)
    )


def render_fragment(findings: AuditReport) -> str:
    """Return verdict and penalties as one ``<div>`` for a notebook."""
    findings = printable(findings)
    columns = (SHARES, VERDICT, PENALTY, JOINT, PEOPLE)
    return _fill("fragment.html", findings, tables=[table.only(columns) for table in penalty_tables(findings)])


def _fill(name: str, findings: AuditReport, **more: Any) -> str:
    template = templates("pucboost._auditing").get_template(name)
    return template.render(
        heading=HEADING,
        findings=findings,
        tone=tone(findings.verdict),
        meaning=meaning(findings),
        facts=key_figures(findings),
        coverage=coverage(findings),
        untested=untested(findings),
        notices=notices(findings),
        **more,
    )


def render_markdown(findings: AuditReport) -> str:
    """Return a section for a model card."""
    findings = printable(findings)
    consent = "; ".join(f"{group} ({', '.join(columns)})" for group, columns in findings.provenance.consent.items())
    facts = {**provenance_facts(findings), "Consent schema": consent or "nothing is optional"}
    parts = [
        f"## {HEADING}: {findings.verdict}",
        f"**{blocks.markdown(findings.reason)}**",
        blocks.markdown(meaning(findings)),
        blocks.markdown_facts({**key_figures(findings), **coverage(findings)}),
    ]
    if notices(findings):
        parts += ["**Before you rely on it**", blocks.markdown_list(notices(findings))]
    parts += ["### The penalty of withholding"]
    for table in penalty_tables(findings):
        parts += [f"{blocks.markdown(table.caption)}:", blocks.markdown_table(table)]
    parts += [blocks.markdown(two_intervals(findings))] if findings.penalties else []
    if untested(findings):
        parts += ["Not tested:", blocks.markdown_list([f"{name}: {why}" for name, why in untested(findings)])]
    cannot_say = [f"{point} {rest}" for point, rest in limits_in_words(findings)]
    parts += ["### What this audit cannot say", blocks.markdown_list(cannot_say)]
    parts += ["### Provenance", blocks.markdown_facts(facts)]
    return "\n\n".join(parts) + "\n"


def render_text(findings: AuditReport) -> str:
    """Return verdict, margin, penalties and warnings as plain text."""
    findings = printable(findings)
    facts = {**key_figures(findings), **coverage(findings)}
    columns = (SHARES, PEOPLE, PENALTY, _interval(findings), JOINT, VERDICT)
    width = max(map(len, facts))
    parts = [
        f"{HEADING}: {findings.verdict.upper()}\n{findings.reason}",
        "\n".join(f"{term:<{width}}  {text}" for term, text in facts.items()),
    ]
    parts += [f"{table.caption}\n{blocks.text_table(table.only(columns))}" for table in penalty_tables(findings)]
    if untested(findings):
        parts.append("Not tested\n" + "\n".join(f"  {name}: {why}" for name, why in untested(findings)))
    if notices(findings):
        parts.append("Warnings\n" + "\n".join(f"  - {notice}" for notice in notices(findings)))
    return "\n\n".join(parts)


# --------------------------------------------------------------------------------------------------
# The first sheet: the verdict, who was tested, the penalties as a picture, what to know before relying on it.


_MEANING = {
    CERTIFIED: "Certified means: for every set of people who share the same data and make up at least 1% of all, and "
    "for rarer sets taken together, the whole verdict interval lies within the margin. The data rule out a larger "
    "average penalty. It is about averages, and says nothing about single people.",
    CERTIFIED_IN_PART: "Certified in part means: what was tested lies within the margin, but the verdict does not "
    "cover everybody who withholds something. Nothing is known about the others.",
    VIOLATED: "Violated means: for at least one set of people the whole verdict interval lies outside the margin. "
    "Chance does not explain a difference of this size.",
    VIOLATED_FOR_SOME: "Violated for some means: averages hide that some people are told more and others less than "
    "their data justify, by more than the margin. It was found in some of the people and confirmed in others.",
}
_UNDECIDED = "Inconclusive is neither a pass nor a failure: "


def meaning(findings: AuditReport) -> str:
    """Return what the verdict means."""
    if findings.verdict != INCONCLUSIVE:
        return _MEANING.get(findings.verdict, "")
    undecided = [p for p in findings.penalties if p.decisive and p.verdict == INCONCLUSIVE]
    if undecided and all(p.note == GIVEN_AWAY for p in undecided):
        return _UNDECIDED + (
            "base features give away who withholds, so the comparison has nothing to compare with. More people would "
            "not help; a model without these features would."
        )
    if _seen_in_training(findings):
        return _UNDECIDED + (
            "the model was trained on some of these people, and how it treats them says little about others. People it "
            "has not seen would tell."
        )
    return _UNDECIDED + ("the data neither rule out a penalty beyond the margin nor prove one. More data would tell.")


def key_figures(findings: AuditReport) -> dict[str, str]:
    """Return the margin, who fixed it, and the largest penalty."""
    scale = blocks.penalty_scale(findings)
    margin = f"±{scale.words(findings.margin)}"
    if findings.relative_margin is not None:
        mean = blocks.prediction_scale(findings).show(findings.mean_prediction)
        margin += f": {share(findings.relative_margin)} of the mean prediction of {mean}"
    set_by = findings.margin_set_by or "this report does not know by whom, nor when"
    facts = {"Margin": margin, "Margin fixed by": set_by}
    tested = [(p, p.estimate) for p in findings.penalties if p.decisive and p.estimate is not None]
    if tested:
        worst, e = max(tested, key=lambda one: abs(finite(one[1].value) or 0))
        numbers = f"{scale.words(e.value, signed=True)} ({_interval(findings)} {scale.interval(e)})"
        facts["Largest penalty"] = f"{numbers}: {_who(worst)}"
    if findings.cap is not None:
        facts["Cap"] = f"outcomes and predictions above {significant(findings.cap)} count as that"
    if findings.exposure is not None:
        facts["Exposure"] = f"{significant(findings.exposure)} units; margin and penalties are per unit"
    return facts


def _who(p: Penalty) -> str:
    """Return whom a penalty is about, as part of a sentence."""
    if p.groups is None:
        who = p.name
    elif not p.groups:
        who = "people who share nothing"
    else:
        who = f"people who share {p.name}" + ("" if p.name == "everything" else " and no more")
    return who if p.subgroup is None else f"{who} (subgroup {p.subgroup})"


def coverage(findings: AuditReport) -> dict[str, str]:
    """Return how many people were audited, how many of them withhold something, and for how many of these it counts."""
    rows, withholding = findings.provenance.rows, findings.support.withholding_people
    facts = {"People audited": count(rows)}
    if not withholding:
        return facts
    sets, covered = _tested_sets(findings), _covered(findings)
    within = sum(p.decisive and p.groups is not None and p.subgroup is not None for p in findings.penalties)
    more = f", and {count(within)} within subgroups" if within else ""
    if findings.coverage is not None and findings.coverage.together:
        more += ", and rarer sets together"

    def those(people: int, more: str = "") -> str:
        return f"{count(people)} ({share(people / withholding)}){more}" if people else "nobody"

    facts["Withhold something"] = f"{count(withholding)} ({share(withholding / rows)} of all)"
    facts["Of these, covered"] = those(covered, f", in {counted(len(sets), 'set', 'sets')}{more}")
    facts["Of these, not covered"] = those(withholding - covered)
    return facts


def untested(findings: AuditReport) -> list[tuple[str, str]]:
    """Return the sets of people that were not tested, and why."""
    return [(title(p), p.note or "not testable") for p in findings.penalties if p.verdict == NOT_TESTABLE]


def picture(findings: AuditReport) -> Blocks:
    caption = (
        "The penalty is what people are told, minus what their remaining data justify, on average. Each mark is a set "
        "of people, by what they share; the shaded band is the margin. Inside it the set is certified (circle), "
        "outside violated (diamond), across its edge inconclusive (triangle). A hollow mark stands for people who "
        f"withhold nothing, shown for comparison. {two_intervals(findings)}"
    )
    if _seen_in_training(findings):
        caption += " Nothing is certified here, since the model was trained on these people."
    label = "Average penalties of sets of people, with intervals; a table in the first chapter has the numbers."
    return _figures(findings, ("penalty", label, caption))


def two_intervals(findings: AuditReport) -> str:
    """Return why there are two intervals, in one sentence."""
    if findings.simultaneous.startswith("none"):
        why = "but makes no allowance for their number, as asked for"
    elif any(p.decisive and p.verdict != CERTIFIED and p.note != GIVEN_AWAY for p in findings.penalties):
        why = "and allows for their number, because among many sets one looks bad by chance alone"
    else:
        why = "and needs no allowance for their number, since every set passes its own two tests"
    return (
        f"There are two intervals because there are two questions: the {_interval(findings)} is for a reader who looks "
        f"at one set alone; the verdict interval decides about all sets judged together, {why}."
    )


def subject(findings: AuditReport) -> str:
    made = findings.provenance
    return f"{made.model_kind} · {count(made.rows)} people · {date_in_words(made.date)}"


def notices(findings: AuditReport) -> list[str]:
    """Return the audit's warnings, and what the numbers taken together say beyond them."""
    found = [*findings.warnings]
    violated = [p.difference for p in findings.penalties if p.decisive and p.verdict == VIOLATED]
    if violated and all(d and -findings.margin <= d.lower and d.upper <= findings.margin for d in violated):
        found.append(
            "The model is as far off for people who withhold nothing, within the margin: it is wrong for everybody, "
            "rather than hard on silence."
        )
    if findings.verdict in (CERTIFIED, CERTIFIED_IN_PART) and not _informative_groups(findings):
        found.append(
            "These data do not show that withholding says anything about the outcome. Where silence says nothing, a "
            "model without any protection passes as well: the verdict is then no credit to the model."
        )
    return found


# --------------------------------------------------------------------------------------------------
# What the numbers are: the question, the penalties, what averages hide, the truth where it is known.


def asked(findings: AuditReport) -> Blocks:
    amount = blocks.penalty_scale(findings).words(findings.margin)
    told = (
        "what the model tells them, minus the average outcome of everybody with the same remaining data who shares at "
        "least as much, ignoring whatever else those people share"
    )
    if _is_quantile(findings):
        told = "how often their outcomes lie below what the model quotes, minus how often they should"
    per_unit = (
        " Outcomes add up over an exposure here. They were divided by it, so predictions, outcomes, penalties and the "
        "margin are per unit of exposure, and in every average people count by their exposure."
    )
    return [
        f"People may share or withhold {_quoted(findings.provenance.consent)}. Are those who withhold told something "
        "other than what their remaining data justify?" + ("" if findings.exposure is None else per_unit),
        "The penalty answers this. For a set of people, say those who share one thing and no more, it is the average "
        f"of {told}. A penalty of 0 means that silence costs nothing; one of +{amount}, that these people are told "
        "that much more than their data justify; a negative one, that they are told less.",
        "No estimate is ever exactly 0, so a margin says which penalty is harmless. A set is certified if its penalty "
        "lies within the margin, statistical uncertainty included; violated if it lies outside; inconclusive if the "
        "data do not decide.",
    ]


def penalties(findings: AuditReport) -> Blocks:
    words = ["“Compared with” counts the people who share at least as much and so set the yardstick."]
    if any(p.rows_to_decide for p in findings.penalties):
        words.append("“Rows to decide” is roughly how many people an audit would need if the estimate stayed the same.")
    if any(p.difference for p in findings.penalties):
        words.append(
            f"“{BEYOND}” is the penalty minus that of people who withhold nothing. It tells a model that is wrong for "
            "everybody, with a large penalty but no difference, from one that is hard on silence. It does not decide: "
            "a penalty counts, whoever else has one."
        )
    tables = penalty_tables(findings)
    return [*tables, " ".join(words)] if tables else ["No set of people was tested."]


def penalty_tables(findings: AuditReport) -> list[Table]:
    """Return a table of the penalties of everybody, and one for each subgroup."""
    scale = blocks.penalty_scale(findings)
    columns: dict[str, Callable[[Penalty], Cell | str]] = {
        SHARES: lambda p: Cell(p.name, _note(p)),
        VERDICT: lambda p: Cell(p.verdict, tone=tone(p.verdict)),
        PENALTY: lambda p: scale.value(p.estimate),
        _interval(findings): lambda p: scale.interval(p.estimate),
        JOINT: lambda p: scale.between(p.verdict_lower, p.verdict_upper),
        BEYOND: lambda p: scale.with_interval(p.difference),
        "% of mean prediction": lambda p: _PERCENT.show(p.percent, signed=True),
        PEOPLE: lambda p: count(p.people),
        "Compared with": lambda p: count(p.comparable),
        "Rows to decide": lambda p: MISSING if p.rows_to_decide is None else roughly(p.rows_to_decide),
    }
    tested = [p for p in findings.penalties if p.verdict != NOT_TESTABLE]
    made = []
    for subgroup in dict.fromkeys(p.subgroup for p in tested):
        of = "" if subgroup is None else f" in subgroup {subgroup}"
        caption = f"Average penalty{of} by what people share, in {scale.unit}"
        made.append(_table(caption, columns, [p for p in tested if p.subgroup == subgroup]))
    return made


def _note(p: Penalty) -> str:
    if p.decisive:
        return p.note
    told = "; told too much" if p.estimate and p.estimate.lower > 0 else ""
    told = "; told too little" if p.estimate and p.estimate.upper < 0 else told
    return f"withholds nothing; does not count{told}"


def within(findings: AuditReport) -> Blocks:
    if not findings.within:
        return []
    scale = blocks.penalty_scale(findings)
    beyond = [one for one in findings.within if one.beyond_margin and one.decisive]
    answer = "Yes, beyond the margin: the model is violated for some." if beyond else "Not beyond the margin, as found."
    sets: dict[str, Callable[[WithinSet], Cell | str]] = {
        SHARES: lambda one: Cell(one.name, "" if one.decisive else "withholds nothing; does not count"),
        "Off by": lambda one: scale.show(one.spread.value if one.spread else None),
        _interval(findings): lambda one: scale.interval(one.spread),
        "At least": lambda one: scale.show(_at_least(one)),
        "Tested on": lambda one: count(one.tested),
        IN_WORDS: _within_words,
    }
    parts = {
        WHOM: lambda part: part.rule,
        PENALTY: lambda part: scale.value(part.penalty),
        f"{_interval(findings)}, all parts together": lambda part: scale.interval(part.penalty),
        PEOPLE: lambda part: count(part.people),
    }
    return [
        f"Do averages hide that some people of a set are told too much and others too little? {answer}",
        _table(f"Differences within sets of people, in {scale.unit}", sets, findings.within),
        *(
            _table(f"For whom, of those who share exactly: {one.name}, in {scale.unit}", parts, one.parts)
            for one in beyond
        ),
        "Some of the people taught in which direction the model errs for whom; the others tested it. “Off by” is how "
        "far the latter are told more or less than their data justify, in that direction: on average they are off by "
        "at least that, whatever else the model does. “At least” allows for chance and for all sets together; beyond "
        "the margin it decides. The opposite is never certified: a difference that was not found may exist.",
    ]


def _at_least(one: WithinSet) -> float | None:
    return None if finite(one.at_least) is None else max(0.0, one.at_least or 0.0)


def _within_words(one: WithinSet) -> str:
    if one.beyond_margin:
        return "some are told too much, others too little"
    if one.spread is None:
        return one.note or "not testable"
    return "some difference, not beyond the margin" if (_at_least(one) or 0) > 0 else "no clear difference"


def truth(findings: AuditReport) -> Blocks:
    gap = findings.puc_gap
    if gap is None:
        return []
    scale = blocks.difference_scale(findings)
    estimates = {p.name: p.estimate for p in findings.penalties if p.subgroup is None and p.groups is not None}
    if _is_quantile(findings):  # penalties are probabilities then, which cannot be compared with these distances
        estimates = {}
    return [
        "The justified prediction of every person is known here, as in a simulation. The model's typical distance from "
        f"it (root mean square) is {scale.words(math.sqrt(max(gap.squared, 0)))}.",
        _table(
            f"True penalties, in {scale.unit}",
            {
                SHARES: lambda name: name,
                "True penalty": lambda name: scale.show(gap.mean_by_mask[name], signed=True),
                "Estimate": lambda name: scale.value(estimates.get(name)),
                _interval(findings): lambda name: scale.interval(estimates.get(name)),
            },
            gap.mean_by_mask,
        ),
    ]


# --------------------------------------------------------------------------------------------------
# What silence and sharing change: outcomes, predictions, the balance of the book, how well the model predicts.


def informativeness(findings: AuditReport) -> Blocks:
    if not findings.informativeness:
        return []
    informative = _informative_groups(findings)
    finding = "That could not be tested."
    if informative:
        finding = (
            f"Yes, for {_quoted(informative)}. A model that sees who is silent would use it, so protection is needed."
        )
    elif any(found.p_value is not None for found in findings.informativeness):
        finding = "These data do not show it."

    def in_words(found: Informativeness) -> str:
        correlation = finite(found.correlation)
        if correlation is None or found.p_value is None:
            return "not testable"
        if found.group not in informative:
            return "no clear sign"
        return f"those who withhold have {'higher' if correlation < 0 else 'lower'} outcomes"

    return [
        "Do people with the same base data have different outcomes if they withhold? " + finding,
        _table(
            "Sharing and outcome, given the base features",
            {
                OPTIONAL: lambda one: Cell(one.group, one.note),
                "Shared by": lambda one: share(one.shared),
                "Correlation": lambda one: fixed(one.correlation, 3, signed=True),
                "p-value (Holm)": lambda one: blocks.p_value(one.adjusted_p_value),
                IN_WORDS: in_words,
            },
            findings.informativeness,
        ),
        "The correlation is between sharing and outcome, after removing what the base features explain. A small "
        "p-value speaks against chance alone; Holm's method allows for testing several groups.",
    ]


def agreement(findings: AuditReport) -> Blocks:
    calibration = (
        "Everybody treated as if they withheld everything (solid). If silence is neutral, the points lie on the "
        "diagonal; below it, silent people are told too much. People as they come (dashed) may lie off the diagonal "
        "through no fault of the model: see the cost of consent."
    )
    silent = (
        "People who share nothing; a point is the mean of five who are alike. On the diagonal, they are told what a "
        "model with base features only tells them; above it, more. Both models are estimates, so scatter is normal; a "
        "cloud that lies above or below the diagonal as a whole is not."
    )
    return _figures(
        findings,
        ("calibration", "Average outcomes against predictions, for people with similar predictions.", calibration),
        ("base-versus-model", "People who share nothing: audited model against one of base features only.", silent),
    )


def sharing(findings: AuditReport) -> Blocks:
    effect, scale = findings.sharing_effect, blocks.difference_scale(findings)
    label = "Histogram of how sharing changes predictions, against withholding everything."
    caption = (
        "How predictions of people who share something differ from those they would get if they withheld everything."
    )
    if findings.favourable is not None:
        caption += f" People prefer {findings.favourable} predictions here."
    figures = _figures(findings, ("sharing-effect", label, caption))
    if effect is None:
        return figures
    facts = {
        "People who share something": count(effect.people),
        "Average change": scale.words(effect.mean, signed=True),
        "Half of them lie within": scale.between(effect.quantiles.get("0.25"), effect.quantiles.get("0.75")),
    }
    if effect.share_worse_off is not None:
        facts["Worse off by sharing"] = share(effect.share_worse_off)
    if effect.largest_loss is not None:
        facts["Largest change for the worse"] = scale.words(effect.largest_loss)
    if effect.share_with_better_subset is not None:
        facts["Would do better by sharing less"] = share(effect.share_with_better_subset)
    if effect.mean_bonus is not None:
        gain = f"{scale.words(effect.mean_bonus)} on average, if everybody got the best of their possible offers"
        facts["Gain from a bonus system"] = gain
    return [*figures, facts]


def balance(findings: AuditReport) -> Blocks:
    scale, cost, interval = blocks.prediction_scale(findings), blocks.difference_scale(findings), _interval(findings)
    label = "Actual divided by expected outcomes by what people share. The numbers are in the table that follows."
    caption = f"Average outcome / average prediction, with {interval}s. Right of 1, outcomes are higher than predicted."
    return [
        "When withholding is informative, a correct model under consent is not balanced on people who withhold: actual "
        "/ expected differs from 1 there. That difference is the cost of consent. It is not an error of the model, but "
        "somebody has to bear it.",
        *_figures(findings, ("balance", label, caption)),
        _table(
            f"Actual and expected outcomes; the cost is actual minus expected, in {cost.unit}",
            {
                WHOM: lambda b: b.name,
                PEOPLE: lambda b: count(b.people),
                "Actual": lambda b: scale.show(b.actual),
                "Expected": lambda b: scale.show(b.expected),
                "Actual / expected": lambda b: _RATIO.show(b.ratio and b.ratio.value),
                interval: lambda b: _RATIO.between(b.ratio and b.ratio.lower, b.ratio and b.ratio.upper, signed=False),
                "Cost": lambda b: cost.value(b.cost),
                f"{interval} of cost": lambda b: cost.interval(b.cost),
            },
            findings.balance,
        ),
    ]


def averages(findings: AuditReport) -> Blocks:
    if not findings.averages:
        return []
    scale = blocks.prediction_scale(findings)
    return [
        "The model with base features only ignores all optional data. The unrestricted model uses all data, silence "
        "included: it says what a model without protection would say. Both were fitted on "
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
        ),
    ]


_LOSS_WORDS = {None: "not testable", -1: "audited model better", 0: "no clear difference", 1: "audited model worse"}
_SILENCE_WORDS = {**_LOSS_WORDS, -1: "better than base features allow: AIR fails", 1: "no gain from silence"}


def losses(findings: AuditReport) -> Blocks:
    on_silent = (
        "The literature asks whether the model predicts silent people better than base features allow; if so, it has "
        "used their silence (availability inference restriction, AIR). That does not decide here: a flat surcharge on "
        "silence only makes predictions worse, and so passes; and since the other model is itself fitted to data, even "
        "a perfect model can seem to fail."
    )
    use = "Does the model use optional data well? If so, the difference is negative: it predicts better."
    if findings.provenance.reference_data.startswith("the audit data"):
        use += (
            " No training data were given, so the other model learned from the audited people, part by part: the "
            "audited model may look better or worse for that reason alone."
        )
    price = "An unrestricted model may learn from silence. A positive difference is what protection costs in accuracy."

    def columns(words: Mapping[int | None, str]) -> dict[str, Callable[[LossComparison], Cell | str]]:
        return {
            WHOM: lambda c: Cell(c.people_name, c.note),
            PEOPLE: lambda c: count(c.people),
            "Audited model": lambda c: significant(c.loss),
            "Other model": lambda c: significant(c.other_loss),
            "Difference": lambda c: blocks.estimate_scale(c.difference).value(c.difference),
            _interval(findings): lambda c: blocks.estimate_scale(c.difference).interval(c.difference),
            IN_WORDS: lambda c: words[_sign(c.difference)],
        }

    base = [c for c in findings.non_degradation if c.other != "unrestricted"]
    unrestricted = [c for c in findings.non_degradation if c.other == "unrestricted"]
    made: Blocks = []
    for lead, caption, comparisons, words in (
        (on_silent, "Inference from silence (AIR)", [findings.inference_from_silence], _SILENCE_WORDS),
        (use, "Against a model with base features only", base, _LOSS_WORDS),
        (price, "Against an unrestricted model", unrestricted, _LOSS_WORDS),
    ):
        if comparisons:
            made += [lead, _table(f"{caption}: mean {findings.loss}, lower is better", columns(words), comparisons)]
    return made


def _sign(difference: Estimate | None) -> int | None:
    if difference is None or finite(difference.value) is None:
        return None
    return 1 if difference.lower > 0 else -1 if difference.upper < 0 else 0


# --------------------------------------------------------------------------------------------------
# What the verdict rests on: its limits, base features, the people compared, the data.


def limits(findings: AuditReport) -> Blocks:
    return [limits_in_words(findings)]


def limits_in_words(findings: AuditReport) -> list[tuple[str, str]]:
    withholding = findings.support.withholding_people or 0
    left = withholding - _covered(findings)
    subgroups = any(p.subgroup is not None for p in findings.penalties)
    covered = "Here everybody who withholds something is covered, by their own set or together with rarer ones."
    if left > 0:
        are = "is" if left == 1 else "are"
        covered = f"{count(left)} of {people_in_words(withholding)} who withhold something {are} not covered."
    base = f"Base features here: {_quoted(findings.provenance.base_features)}."
    if findings.exposure is not None:
        base += " The same holds for exposures, which must be measured alike for everybody, whether or not they share."
    limits = {
        "Averages, not individuals.": "A set of people can have no penalty on average while some of them are told too "
        "much and others too little. The audit looks for such differences and may find them, but it cannot rule them "
        "out. " + ("Subgroups were judged as well, which narrows this." if subgroups else "No subgroups were judged."),
        "Only the sets that were tested.": covered,
        "Only people like these.": "They must represent those the model is used on, must not have been used to train "
        "it, and their outcomes must be recorded correctly.",
        "Base features are taken for granted.": "A base feature that reveals who withholds makes inference from "
        "silence look justified: no penalty shows it. Whether a feature that goes with withholding has a good reason "
        f"to be there is for people to judge. {base}",
        "The margin is a decision, not a finding.": "Those responsible must set it beforehand; a wide margin is easily "
        "met.",
        "The yardstick is estimated.": "The reference models were fitted for this audit; their errors cancel to first "
        "order but not entirely, least of all where people are few. A wrong verdict by chance remains possible.",
        "It is only about silence.": "Certified does not mean fair or lawful in other respects.",
    }
    return [*limits.items()]


def recognition(findings: AuditReport) -> Blocks:
    found = findings.recognition
    if found is None:
        return []
    flagged = [column.name for column in found.columns if column.conspicuous]
    answer = "No base feature gives it away here."
    if flagged:
        answer = (
            f"Look first at {_quoted(flagged)}: whoever withholds can be recognised by "
            f"{'it' if len(flagged) == 1 else 'them'}, so the model may read silence there. Keep such a column out, or "
            "justify it; until then nothing about these people is certified."
        )
    more = len(found.columns) - MAX_COLUMNS
    not_shown = f" ({count(more)} more not shown)" if more > 0 else ""
    return [
        "Base features may well go with withholding, and the model may use them: older people may share less. But one "
        "that gives silence away for certain, such as the date of a consent form, makes every inference from it look "
        f"justified. {answer}",
        _table(
            f"What each base feature tells, those to look at first on top{not_shown}",
            {
                "Base feature": lambda column: column.name,
                "Tells most about": lambda column: column.group or _ALL,
                "Alone": lambda column: _OF_100.show(column.alone),
                "Gives away": lambda column: share(column.recognised, 0),
                "Beyond the others": lambda column: _OF_100.show(column.beyond_others),
                IN_WORDS: _recognition_words,
            },
            found.columns[:MAX_COLUMNS],
        ),
        _table(
            "How often all base features together tell which of two people withholds",
            {
                OPTIONAL: lambda one: one.group or _ALL,
                "People who withhold": lambda one: count(one.people),
                "Of 100 cases": lambda one: _OF_100.show(one.together),
            },
            found.groups,
        ),
        f"Take two people, one of whom withholds ({count(found.people)} people were looked at). “Alone” is in how many "
        "of 100 such cases this feature tells which one: 50 is chance. “Gives away” is the share of those who withhold "
        "with values that hardly anybody else has. “Beyond the others” is how many of the 100 cases are lost without "
        "this one; where two features say the same, neither is missed.",
    ]


def _recognition_words(column: BaseFeature) -> str:
    if column.conspicuous:
        return "gives silence away: look at it"
    return "goes with withholding" if (finite(column.alone) or 0) >= 0.6 else "tells little"


def comparability(findings: AuditReport) -> Blocks:
    if not findings.comparability:
        return []
    scale = blocks.penalty_scale(findings)
    calibrated = "Outcomes below the quote, minus the level" if _is_quantile(findings) else "Told minus outcome"
    recognised, stricter = "Compared with themselves", "Against those who share more"
    return [
        "The yardstick of a set is everybody who shares at least as much, and these people are among them. So silence "
        "itself has a part in the yardstick, and the fewer people with the same data share more, the larger that part: "
        "in the extreme, whatever a model reads out of silence is justified by the silent.",
        _table(
            f"Whom sets of people are compared with, amounts in {scale.unit}",
            {
                SHARES: lambda one: one.name,
                calibrated: lambda one: scale.with_interval(one.calibration),
                recognised: lambda one: share(one.recognised),
                stricter: lambda one: scale.with_interval(one.stricter),
                "Bounds for all of them": lambda one: (
                    MISSING if one.stricter is None else scale.between(one.stricter_lower, one.stricter_upper)
                ),
                PEOPLE: lambda one: count(one.people),
                "Compared with": lambda one: count(one.comparable),
            },
            findings.comparability,
        ),
        f"“{calibrated}” treats everybody of the comparison as if they shared no more than the set: near 0 the model "
        f"is calibrated for them, whatever the audit's own models say. “{recognised}” is the share of the set of whom "
        f"hardly anybody with the same data shares more (at most 5 in 100). “{stricter}” leaves the silent out of the "
        "yardstick, for the rest of the set; where silence is informative this is not 0 even for a perfect model. Its "
        "bounds for the whole set assume the lowest and the highest outcome for those recognised.",
    ]


def support(findings: AuditReport) -> Blocks:
    s = findings.support
    unseen = "not known"
    if s.unseen_in_training is not None:
        names = [blocks.shorten(name, 80) for name in s.unseen_in_training[:5]]
        names += [f"and {count(len(s.unseen_in_training) - 5)} more"] if len(s.unseen_in_training) > 5 else []
        unseen = f"{'; '.join(names)} ({people_in_words(s.unseen_people or 0)})" if names else "none"
    return [
        {
            "Different sets of shared data": count(s.masks),
            "People the verdict does not cover": f"{count(s.untested_people)} of {count(findings.provenance.rows)}",
            "Effective number of people, given the weights": count(s.effective_sample_size),
            "Sets that hardly anybody shared in training": unseen,
            "People the model was trained on": _trained_on(s.trained_on),
        },
        _table(
            "How often each group of data is shared",
            {
                OPTIONAL: lambda g: g.group,
                "Shared by": lambda g: share(g.shared),
                "People who share": lambda g: count(g.shared_people),
                "People who withhold": lambda g: count(g.withheld_people),
            },
            s.groups,
        ),
    ]


def _trained_on(found: TrainedOn | None) -> str:
    if found is None or found.share is None:
        return "not known"
    interval = f"95% interval {share(found.lower, 0)} to {share(found.upper, 0)}"
    return f"about {share(found.share, 0)} ({interval}, from {counted(found.compared, 'row', 'rows')})"


# --------------------------------------------------------------------------------------------------
# How it was done, and with what.


def method(findings: AuditReport) -> Blocks:
    quantile = _is_quantile(findings)
    inner = "P(Y ≤ f | b, z<sub>S</sub>, A ⊇ S) − τ" if quantile else "f − E(Y | b, z<sub>S</sub>, A ⊇ S)"
    several = (
        "That all sets lie within the margin needs no allowance for their number: to be wrong, the audit would have to "
        f"misjudge a particular one. Other verdicts are kept valid together by this method: {findings.simultaneous}."
    )
    if findings.simultaneous.startswith("none"):
        several = "No allowance is made for the number of sets: the more there are, the more verdicts may be wrong."
    return [
        Markup(f"<span class=formula>θ<sub>S</sub> = E[ {inner} | A = S ]</span>"),
        "θ is the penalty of people who share exactly the set S; f is the prediction, Y the outcome, b the base "
        "features, z the optional data in S, and A what a person shares (A ⊇ S: at least S)."
        + (" τ is the level of the quantile." if quantile else ""),
        "It is estimated doubly robustly: a model of the outcome, which learns what is wrong with the audited model, "
        "and one of who shares exactly S are trained on disjoint parts of the data and applied to people neither has "
        "seen. To first order, each makes up for the errors of the other.",
        f"The verdict comes from two one-sided tests against the margin, each with {share(findings.level, 0)} "
        f"confidence. The joint interval is the estimate ± {fixed(findings.critical_value, 2)} standard errors, moved "
        f"and stretched where outcomes are skewed. {several}",
    ]


def provenance(findings: AuditReport) -> Blocks:
    needs = findings.provenance.needs
    return [
        provenance_facts(findings),
        _table(
            "Consent schema: what people may withhold",
            {
                OPTIONAL: lambda one: one[0],
                "Columns": lambda one: ", ".join(one[1]),
                "Shared only with": lambda one: needs.get(one[0], MISSING),
            },
            findings.provenance.consent.items(),
        ),
    ]


def provenance_facts(findings: AuditReport) -> dict[str, str]:
    made = findings.provenance
    return {
        "Date": date_in_words(made.date),
        "Model": made.model_kind,
        "Model hash (SHA-256)": made.model_hash or "none; models of this kind have none",
        "Data hash (SHA-256)": made.data_hash,
        "Base features": ", ".join(made.base_features) or "none",
        "Loss": findings.loss,
        "Seed and folds": f"seed {made.seed}, {made.folds} folds",
        "Smallest set tested": f"{count(made.min_count)} people",
        "Reference models": made.nuisance,
        "Versions": ", ".join(f"{name} {number}" for name, number in made.versions.items()),
        "Time taken": f"{significant(made.seconds, 2)} seconds",
    }


# --------------------------------------------------------------------------------------------------
# What several sections share.


def _table(caption: str, columns: Mapping[str, Callable[[Any], Cell | str]], rows: Iterable[Any]) -> Table:
    """Return a table from what each column shows of an entry; columns in which nothing is known are left out."""
    shown = [[show(row) for show in columns.values()] for row in rows]
    cells = tuple(tuple(one if isinstance(one, Cell) else Cell(one) for one in row) for row in shown)
    known = [name for place, name in enumerate(columns) if any(row[place].text != MISSING for row in cells)]
    return Table(caption, tuple(columns), cells, WORDS).only(known)


def _figures(findings: AuditReport, *wanted: tuple[str, str, str]) -> Blocks:
    """Return plots by name, label in words and caption, side by side; sentences say why others are missing."""
    missing = {name: PLOTS[name].missing(findings) for name, _, _ in wanted}
    drawn = [(Markup(inline_svg(name, findings, label)), text) for name, label, text in wanted if not missing[name]]
    return [Figures(tuple(drawn)), *filter(None, missing.values())]


def _informative_groups(findings: AuditReport) -> list[str]:
    adjusted = {found.group: finite(found.adjusted_p_value) for found in findings.informativeness}
    return [group for group, p in adjusted.items() if p is not None and p < 1 - findings.level]


def _seen_in_training(findings: AuditReport) -> bool:
    """Return whether the model was trained on so many of the people that nothing is certified."""
    return findings.support.trained_on is not None and findings.support.trained_on.too_many


def _tested_sets(findings: AuditReport) -> list[Penalty]:
    """Return the entries about one set each of people who withhold something, subgroups aside."""
    return [p for p in findings.penalties if p.decisive and p.groups is not None and p.subgroup is None]


def _covered(findings: AuditReport) -> int:
    """Return how many of those who withhold something the verdict covers."""
    if findings.coverage is None:
        return sum(p.people for p in _tested_sets(findings))
    return findings.coverage.withholding - findings.coverage.not_covered


def _quoted(names: Iterable[str]) -> str:
    """Return the first few names in quotation marks, so that they are not read as words of the sentence."""
    shown = [f"“{blocks.shorten(name, 60)}”" for name in names]
    further = len(shown) - MAX_NAMES
    return blocks.listing([*shown[:MAX_NAMES], f"{further} more"] if further > 0 else shown)


def _interval(findings: AuditReport) -> str:
    return f"{share(findings.level, 0)} interval"


def _is_quantile(findings: AuditReport) -> bool:
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


CHAPTERS: dict[str, tuple[tuple[str, str, Callable[[AuditReport], Blocks]], ...]] = {
    "What the numbers are": (
        ("What was asked", "", asked),
        ("The penalty of withholding", "decisive", penalties),
        ("Behind the averages", "decisive", within),
        ("Distance to the truth", "", truth),
    ),
    "What silence and sharing change": (
        ("Does silence say anything?", "", informativeness),
        ("Predictions for people who withhold", "", agreement),
        ("Does sharing pay?", "", sharing),
        ("The cost of consent", "", balance),
        ("What people are told on average", "", averages),
        ("How well the model predicts", "not decisive", losses),
    ),
    "What the verdict rests on": (
        ("What this audit cannot say", "", limits),
        ("Do base features tell who withholds?", "", recognition),
        ("Whom people are compared with", "not decisive", comparability),
        ("Do the data support this?", "", support),
    ),
    "How it was done, and with what": (
        ("How it was done", "", method),
        ("Provenance", "", provenance),
    ),
}
"""The sections of each chapter: title, a tag beside it, and what is in it."""


def chapters(findings: AuditReport) -> dict[str, list[dict[str, Any]]]:
    """Return the sections of each chapter that have something to show."""
    return {
        chapter: [
            {"name": make.__name__, "title": name, "tag": tag, "blocks": made}
            for name, tag, make in entries
            if (made := make(findings))
        ]
        for chapter, entries in CHAPTERS.items()
    }
