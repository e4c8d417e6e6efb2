"""The report's numbers in words: one function per section of the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from ..results import (
    CERTIFIED,
    INCONCLUSIVE,
    NOT_TESTABLE,
    VIOLATED,
    AuditReport,
    Estimate,
    Informativeness,
    LossComparison,
    Penalty,
    title,
)
from .blocks import Block, Bullets, Cell, Fact, Facts, Figure, Figures, Paragraph, Section, Table, Verdict
from .plotting import PICTURES
from .wording import (
    MISSING,
    Scale,
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
_NONE = Estimate(math.nan, math.nan, math.nan, math.nan)
MAX_NAMES = 8
_RATIO = Scale(1, 3, "", "")


# The verdict ----------------------------------------------------------------------------------------------------------

_MEANING = {
    CERTIFIED: "Certified means: for every set of people tested, the whole verdict interval lies within the margin. "
    "The data rule out a larger average penalty.",
    VIOLATED: "Violated means: for at least one set of people the whole verdict interval lies outside the margin. "
    "Chance does not explain a difference of this size.",
    INCONCLUSIVE: "Inconclusive is neither a pass nor a failure: the data do not rule out a penalty beyond the margin, "
    "nor do they prove one. More data would tell.",
}


def verdict(report: AuditReport) -> Verdict:
    """Put the verdict and the key figures into words."""
    return Verdict(report.verdict, report.reason, _MEANING.get(report.verdict, ""), tuple(_key_figures(report)))


def _key_figures(report: AuditReport) -> list[Fact]:
    rows, untested = report.provenance.rows, report.support.untested_people
    tested = [p for p in report.penalties if p.decisive]
    worst = max(tested, key=lambda p: abs(finite((p.estimate or _NONE).value) or 0), default=None)
    facts = [Fact("Margin", _margin(report))]
    if worst is not None and worst.estimate is not None:
        scale, e = penalty_scale(report), worst.estimate
        numbers = f"{scale.words(e.value, signed=True)} ({level_interval(report)} {scale.between(e.lower, e.upper)})"
        facts.append(Fact("Largest penalty", f"{numbers}: {_who(worst)}"))
    return [
        *facts,
        Fact("Sets of people tested", count(len(tested))),
        Fact("People audited", f"{count(rows)}, {share(1 - untested / max(rows, 1))} of them in tested sets"),
    ]


def _margin(report: AuditReport) -> str:
    text = f"±{penalty_scale(report).words(report.margin)}"
    if report.relative_margin is None:
        return text
    mean = prediction_scale(report).show(report.mean_prediction)
    return f"{text}: {share(report.relative_margin)} of the mean prediction of {mean}"


def _who(p: Penalty) -> str:
    """Return whom a penalty is about, inside a sentence."""
    if p.groups is None:
        who = p.name
    elif not p.groups:
        who = "people who share nothing"
    else:
        who = f"people who share {p.name}" + ("" if p.name == "everything" else " and no more")
    return who if p.subgroup is None else f"{who} (subgroup {p.subgroup})"


def subject(report: AuditReport) -> str:
    """Say what was audited and when, in a line."""
    made = report.provenance
    return f"{made.model_kind} · {count(made.rows)} people · {_date(made.date)}"


def _date(iso: str) -> str:
    try:
        moment = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    zone = f" {moment:%Z}" if moment.tzinfo else ""
    return f"{moment.day} {moment:%B %Y, %H:%M}{zone}"


def notices(report: AuditReport) -> list[str]:
    """Return what to know before relying on the verdict: the audit's warnings, and one on silence that says nothing."""
    found = [*report.warnings]
    if report.verdict == CERTIFIED and not _informative(report):
        found.append(
            "It does not show in these data that withholding says anything about the outcome. Where silence says "
            "nothing, a model without any protection passes as well: the verdict is then no merit of the model."
        )
    return found


def _informative(report: AuditReport) -> list[str]:
    """Return the groups of which withholding is informative."""
    adjusted = {found.group: finite(found.adjusted_p_value) for found in report.informativeness}
    return [group for group, p in adjusted.items() if p is not None and p < 1 - report.level]


def _names(names: Iterable[str]) -> str:
    """Return the first few names from the data, so that they are not taken for words of the sentence."""
    quoted = [f"“{shorten(name, 60)}”" for name in names]
    further = len(quoted) - MAX_NAMES
    return listing([*quoted[:MAX_NAMES], f"{further} more"] if further > 0 else quoted)


def _about_several_sets(report: AuditReport) -> str:
    if report.simultaneous.startswith("none"):
        return "No allowance is made for that: each verdict holds for itself, and the more sets, the more may be wrong."
    return f"The verdicts are kept valid together by this method: {report.simultaneous}."


def _about_the_verdict_interval(report: AuditReport) -> str:
    if report.simultaneous.startswith("none"):
        return "The verdict interval is that of the two one-sided tests; each interval holds for a single set."
    return "The verdict interval allows for all sets being judged together; the other one holds for a single set."


def level_interval(report: AuditReport) -> str:
    """Return what intervals of one set alone are called."""
    return f"{share(report.level, 0)} interval"


def _is_quantile(report: AuditReport) -> bool:
    return report.unit.startswith("probability of")


def _figure(name: str, report: AuditReport, label: str, caption: str) -> Block:
    """Return a picture, or the sentence that stands in its place."""
    from markupsafe import Markup

    from .svg import inline_svg

    missing = PICTURES[name].missing(report)
    if missing:
        return Paragraph(missing, "notice")
    return Figures((Figure(Markup(inline_svg(name, report, label)), caption),))


# What was asked, and the penalty --------------------------------------------------------------------------------------


def asked(report: AuditReport) -> Section:
    """Say what the audit is about."""
    amount = penalty_scale(report).words(report.margin)
    if _is_quantile(report):
        told = "how often their outcomes lie below what the model quotes"
        justified = "how often they should"
    else:
        told = "what the model tells them"
        justified = (
            "the average outcome of everybody with the same remaining data who shares at least as much, whatever else "
            "those people share being ignored"
        )
    return Section(
        "asked",
        "What was asked",
        (
            Paragraph(
                f"Some data are optional here: people may share or withhold {_names(report.provenance.consent)}. "
                "Are people who withhold data told something other than what their remaining data justify?"
            ),
            Paragraph(
                "The penalty answers this. For a set of people, say those who share one thing and no more, it is the "
                f"average of {told}, minus {justified}. A penalty of 0 means that silence costs nothing. A penalty of "
                f"+{amount} means that these people are told that much more than their data justify; a negative one, "
                f"that they are told less. People prefer {report.favourable} predictions here."
            ),
            Paragraph(
                f"No estimate is ever exactly 0, so a margin says which penalty is harmless: here ±{amount}. A set of "
                "people is certified if its penalty lies within the margin, statistical uncertainty included; "
                "violated if it lies outside; inconclusive if the data do not decide."
            ),
        ),
    )


def penalties(report: AuditReport) -> Section:
    """Show the decisive numbers."""
    tested = sum(p.verdict != NOT_TESTABLE for p in report.penalties)
    blocks: list[Block] = [
        _figure(
            "penalty",
            report,
            f"Average penalties of {tested} sets of people, with intervals. The numbers are in the table that follows.",
            "Each mark is a set of people, by what they share. The shaded band is the margin. The thick bar is the "
            "verdict interval: inside the band the set is certified (circle), outside violated (diamond), across its "
            f"edge inconclusive (triangle). The thin line is the {level_interval(report)} of that set alone. People of "
            "a hollow mark withhold nothing; they are shown for comparison.",
        ),
        *penalty_tables(report),
    ]
    if tested:
        yardstick = "“Compared with” counts the people who share at least as much and so make the yardstick."
        words = [_about_the_verdict_interval(report), yardstick]
        if any(p.rows_to_decide for p in report.penalties):
            words.append("“Rows to decide” is how many people an audit would need, if the estimate stayed as it is.")
        blocks.append(Paragraph(" ".join(words)))
    if untested(report):
        lead = "Not tested; the verdict says nothing about these people:"
        blocks.append(Bullets(tuple((f"{name}:", why) for name, why in untested(report)), lead))
    return Section("penalty", "The penalty of withholding", tuple(blocks), "decisive")


def penalty_tables(report: AuditReport) -> list[Table]:
    """Return a table of the penalties of everybody, and one for each subgroup."""
    tables = []
    for subgroup in dict.fromkeys(p.subgroup for p in report.penalties):
        rows = [p for p in report.penalties if p.subgroup == subgroup and p.verdict != NOT_TESTABLE]
        if rows:
            tables.append(_penalty_table(report, subgroup, rows))
    return tables


def _penalty_table(report: AuditReport, subgroup: str | None, rows: Sequence[Penalty]) -> Table:
    scale = penalty_scale(report)
    columns: dict[str, Callable[[Penalty, Estimate], Cell]] = {
        SHARES: lambda p, e: Cell(p.name, "" if p.decisive else "withholds nothing; does not count"),
        VERDICT: lambda p, e: Cell(p.verdict, verdict=p.verdict),
        PENALTY: lambda p, e: Cell(scale.show(e.value, signed=True)),
        level_interval(report): lambda p, e: Cell(scale.between(e.lower, e.upper)),
        JOINT: lambda p, e: Cell(scale.between(p.verdict_lower, p.verdict_upper)),
        "% of mean prediction": lambda p, e: Cell(_percent(p.percent)),
        PEOPLE: lambda p, e: Cell(count(p.people)),
        "Compared with": lambda p, e: Cell(count(p.comparable)),
        "Rows to decide": lambda p, e: Cell(count(p.rows_to_decide)),
    }
    if all(p.rows_to_decide is None for p in rows):
        del columns["Rows to decide"]
    if _is_quantile(report):  # a probability is no part of a quoted amount
        del columns["% of mean prediction"]
    of = "" if subgroup is None else f" in subgroup {subgroup}"
    return Table(
        f"Average penalty{of} by what people share, in {scale.unit}",
        tuple(columns),
        tuple(tuple(cell(p, p.estimate or _NONE) for cell in columns.values()) for p in rows),
        frozenset({SHARES, VERDICT}),
        cards=True,
    )


def _percent(value: float | None) -> str:
    text = fixed(value, 1, signed=True)
    return text if text == MISSING else f"{text}%"


def untested(report: AuditReport) -> list[tuple[str, str]]:
    """Return the sets that were not tested, and why."""
    return [(title(p), p.note or "not testable") for p in report.penalties if p.verdict == NOT_TESTABLE]


# What belongs beside it -----------------------------------------------------------------------------------------------


def informativeness(report: AuditReport) -> Section | None:
    """Say whether withholding means anything."""
    if not report.informativeness:
        return None
    informative = _informative(report)
    if informative:
        finding = (
            f"Yes, for {_names(informative)}. A model that sees who is silent would use it, so protection is needed."
        )
    elif any(found.p_value is not None for found in report.informativeness):
        finding = (
            "It does not show in these data. If they do not, a model without any protection passes this audit as well, "
            "and a clean verdict is no merit."
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
        for found in report.informativeness
    )
    return Section(
        "informative",
        "Does silence say anything?",
        (
            Paragraph("Do people with the same base data have other outcomes if they withhold? " + finding),
            Table(
                "Sharing and outcome, given the base features",
                ("Optional data", "Shared by", "Correlation", "p-value (Holm)", IN_WORDS),
                rows,
                frozenset({"Optional data", IN_WORDS}),
                cards=True,
            ),
            Paragraph(
                "The correlation is that of sharing and outcome, after what the base features explain of both. A small "
                "p-value speaks against mere chance; Holm's method allows for looking at several groups."
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


def agreement(report: AuditReport) -> Section:
    """Show predictions against outcomes and against the base-features model."""
    blocks = [
        _figure(
            "calibration",
            report,
            "Average outcomes against predictions, for groups of people with similar predictions.",
            "Everybody treated as if they withheld everything (solid). Where silence is neutral the points lie on the "
            "diagonal; below it, silent people are told too much. People as they come (dashed) may lie off the "
            "diagonal without any fault of the model: see the cost of consent.",
        ),
        _figure(
            "base-versus-model",
            report,
            f"{len(report.scatter)} people who share nothing: audited model against a model with base features only.",
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


def sharing(report: AuditReport) -> Section:
    """Show what sharing does to predictions."""
    effect, scale = report.sharing_effect, difference_scale(report)
    blocks = [
        _figure(
            "sharing-effect",
            report,
            "Histogram of how sharing changes predictions, against withholding everything.",
            "How predictions of people who share something differ from those they would get if they withheld "
            f"everything. {report.favourable.capitalize()} predictions are better for people here.",
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


def balance(report: AuditReport) -> Section:
    """Show actual against expected."""
    scale, cost = prediction_scale(report), difference_scale(report)
    rows = tuple(
        (
            Cell(b.name),
            Cell(count(b.people)),
            Cell(scale.show(b.actual)),
            Cell(scale.show(b.expected)),
            Cell(_RATIO.show((b.ratio or _NONE).value)),
            Cell(_RATIO.between((b.ratio or _NONE).lower, (b.ratio or _NONE).upper, signed=False)),
            Cell(cost.show(b.cost.value, signed=True)),
            Cell(cost.between(b.cost.lower, b.cost.upper)),
        )
        for b in report.balance
    )
    of_ratio = level_interval(report)
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
                "A correct model under consent is not balanced on people who withhold, when withholding is "
                "informative: actual / expected differs from 1 there. That difference is the cost of consent. It is no "
                "error of the model, but somebody has to bear it."
            ),
            _figure(
                "balance",
                report,
                "Actual divided by expected outcomes by what people share. The numbers are in the table that follows.",
                f"Average outcome divided by average prediction, with {level_interval(report)}s. Right of 1, outcomes "
                "are higher than predicted.",
            ),
            *((table,) if rows else ()),
        ),
    )


def averages(report: AuditReport) -> Section | None:
    """Show average predictions of three models."""
    if not report.averages:
        return None
    scale = prediction_scale(report)
    return Section(
        "averages",
        "What people are told on average",
        (
            Paragraph(
                "The model with base features only ignores all optional data. The unrestricted model uses all data and "
                "the silence too: it is what a model without protection would say. Both were fitted on "
                f"{report.provenance.reference_data}."
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
                    for a in report.averages
                ),
                frozenset({SHARES}),
            ),
        ),
    )


def losses(report: AuditReport) -> Section:
    """Show the loss comparisons, and say why they decide nothing."""
    blocks: list[Block] = [
        Paragraph(
            "The research literature asks whether the model predicts silent people better than base features allow; if "
            "so, it has used their silence (availability inference restriction, AIR). This is shown here but does not "
            "decide, for two reasons. It is one-sided: a flat surcharge on everybody who is silent only makes "
            "predictions worse, and so satisfies it. And it compares with a model that was itself fitted to data, "
            "whose own errors blur the comparison, so that even a perfect model can seem to fail."
        ),
        _loss_table(report, "Inference from silence (AIR)", [report.inference_from_silence], _SILENCE_WORDS),
    ]
    protected = [c for c in report.non_degradation if c.other != "unrestricted"]
    if protected:
        blocks += [
            Paragraph("Are optional data put to use? Then the difference is negative: the audited model does better."),
            _loss_table(report, "Against a model with base features only", protected, _LOSS_WORDS),
        ]
    price = [c for c in report.non_degradation if c.other == "unrestricted"]
    if price:
        blocks += [
            Paragraph(
                "The price of protection. An unrestricted model may read silence, and so predicts people as they come "
                "better. A positive difference is what protection costs in accuracy."
            ),
            _loss_table(report, "Against an unrestricted model", price, _LOSS_WORDS),
        ]
    return Section("losses", "How well the model predicts", tuple(blocks), "not decisive")


_SILENCE_WORDS = {-1: "better than base features allow: AIR fails", 0: "no clear difference", 1: "no gain from silence"}
_LOSS_WORDS = {-1: "audited model better", 0: "no clear difference", 1: "audited model worse"}


def _loss_table(
    report: AuditReport, caption: str, comparisons: Sequence[LossComparison], words: dict[int, str]
) -> Table:
    rows = []
    for c in comparisons:
        scale, d = estimate_scale(c.difference), c.difference or _NONE
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
        f"{caption}: mean {report.loss}, lower is better",
        (
            WHOM,
            PEOPLE,
            "Audited model",
            other[:1].upper() + other[1:],
            "Difference",
            level_interval(report),
            IN_WORDS,
        ),
        tuple(rows),
        frozenset({WHOM, IN_WORDS}),
        cards=True,
    )


def truth(report: AuditReport) -> Section | None:
    """Compare with a simulator's truth."""
    gap = report.puc_gap
    if gap is None:
        return None
    scale, comparable = difference_scale(report), not _is_quantile(report)
    estimates = {p.name: p.estimate for p in report.penalties if p.subgroup is None and p.groups is not None}
    rows = []
    for name, value in gap.mean_by_mask.items():
        e = estimates.get(name) or _NONE
        estimated = (Cell(scale.show(e.value, signed=True)), Cell(scale.between(e.lower, e.upper)))
        rows.append((Cell(name), Cell(scale.show(value, signed=True)), *(estimated if comparable else ())))
    return Section(
        "truth",
        "Distance to the truth",
        (
            Paragraph(
                "The justified prediction of every person is known here, as it is in a simulation. The model's typical "
                f"distance from it (root mean square) is {scale.words(math.sqrt(max(gap.squared, 0)))}."
            ),
            Table(
                f"True penalties{' and their estimates' if comparable else ''}, in {scale.unit}",
                (SHARES, "True penalty", *(("Estimate", level_interval(report)) if comparable else ())),
                tuple(rows),
                frozenset({SHARES}),
            ),
        ),
    )


# What it rests on -----------------------------------------------------------------------------------------------------


def support(report: AuditReport) -> Section:
    """Say whether the data can carry the conclusions."""
    s, rows = report.support, report.provenance.rows
    if s.unseen_in_training is None:
        unseen = "not known"
    elif not s.unseen_in_training:
        unseen = "none"
    else:
        names = "; ".join(shorten(name, 80) for name in s.unseen_in_training[:5])
        more = f"; and {len(s.unseen_in_training) - 5} more" if len(s.unseen_in_training) > 5 else ""
        unseen = f"{names}{more} ({count(s.unseen_people)} people)"
    facts = (
        Fact("Different sets of shared data", count(s.masks)),
        Fact("People in sets too rare to be tested", f"{count(s.untested_people)} of {count(rows)}"),
        Fact("Effective number of people, given the weights", count(s.effective_sample_size)),
        Fact("Sets that training never saw", unseen),
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
    return Section("support", "Can the data carry this?", (Facts(facts), *((table,) if s.groups else ())))


def limits(report: AuditReport) -> Section:
    """Say what the audit cannot say."""
    return Section("limits", "What this audit cannot say", (Bullets(tuple(limits_in_words(report))),))


def limits_in_words(report: AuditReport) -> list[tuple[str, str]]:
    """Return the limits: the point, and a sentence or two on it."""
    rows, rare = report.provenance.rows, report.support.untested_people
    narrower = "Subgroups were judged as well, which narrows this."
    if all(p.subgroup is None for p in report.penalties):
        narrower = "No subgroups were judged."
    covered = "Here everybody is in a set that was tested."
    if rare:
        covered = f"{count(rare)} of {count(rows)} people share sets too rare to be tested; no verdict covers them."
    base = _names(report.provenance.base_features)
    return [
        (
            "Averages, not individuals.",
            "A set of people can have no penalty on average while some of them are told too much and others too "
            f"little. {narrower}",
        ),
        ("Only the sets that were tested.", covered),
        (
            "Only people like these.",
            "They must represent those the model is used on, must not have been used to train it, and their outcomes "
            "must be recorded correctly.",
        ),
        (
            "Base features are taken for granted.",
            "One that tells who withholds, such as the date of a consent form, makes inference from silence look "
            f"justified, and this audit cannot see it. Base features here: {base}.",
        ),
        (
            "The margin is a decision, not a finding.",
            "Those responsible must set it beforehand; a wide one is easily met.",
        ),
        (
            "The yardstick is estimated.",
            "The models of reference were fitted for this audit; their errors cancel to first order but not entirely, "
            "least of all where people are few.",
        ),
        (
            "Several sets are judged at once.",
            f"{_about_several_sets(report)} A wrong verdict by chance remains possible.",
        ),
        ("It is about silence alone.", "Certified does not mean fair or lawful in other respects."),
    ]


def method(report: AuditReport) -> Section:
    """Say how it was done, with the formula."""
    from markupsafe import Markup

    quantile = _is_quantile(report)
    inner = "P(Y ≤ f | b, z<sub>S</sub>, A ⊇ S) − τ" if quantile else "f − E(Y | b, z<sub>S</sub>, A ⊇ S)"
    tested = sum(p.decisive for p in report.penalties)
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
                "An error of one of them is made up for by the other, to first order. Models: "
                f"{report.provenance.nuisance}; {count(report.provenance.folds)} folds."
            ),
            Paragraph(
                "The verdict comes from two one-sided tests against the margin, each with "
                f"{share(report.level, 0)} confidence. The verdict interval is the estimate ± "
                f"{fixed(report.critical_value, 2)} standard errors. Sets judged: {count(tested)}. "
                f"{_about_several_sets(report)}"
            ),
        ),
    )


def provenance(report: AuditReport) -> Section:
    """Say what was audited, with what."""
    consent = report.provenance.consent
    table = Table(
        "Consent schema: what people may withhold",
        ("Optional data", "Columns"),
        tuple((Cell(group), Cell(", ".join(columns))) for group, columns in consent.items()),
        frozenset({"Optional data", "Columns"}),
    )
    return Section("provenance", "Provenance", (Facts(tuple(provenance_facts(report))), *((table,) if consent else ())))


def provenance_facts(report: AuditReport) -> list[Fact]:
    """Return the facts, without the consent schema."""
    made = report.provenance
    return [
        Fact("Date", _date(made.date)),
        Fact("Model", made.model_kind),
        Fact("Model hash (SHA-256)", made.model_hash or "none; such a model has none", bool(made.model_hash)),
        Fact("Data hash (SHA-256)", made.data_hash, True),
        Fact("Base features", ", ".join(made.base_features) or "none"),
        Fact("Loss", report.loss),
        Fact("Seed and folds", f"seed {made.seed}, {made.folds} folds"),
        Fact("Smallest set tested", f"{count(made.min_count)} people"),
        Fact("Models of reference", made.nuisance),
        Fact("Versions", ", ".join(f"{name} {number}" for name, number in made.versions.items())),
        Fact("Time taken", f"{significant(made.seconds, 2)} seconds"),
    ]


SECTIONS: tuple[Callable[[AuditReport], Section | None], ...] = (
    asked,
    penalties,
    limits,
    informativeness,
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
