"""Whether silence says anything, and what the model predicts for silent people."""

from __future__ import annotations

from ...findings import BaseFeature, Findings, Informativeness
from ..blocks import Cell, Figures, Paragraph, Section, Table
from ..numbers import MISSING, count, finite, fixed, p_value, share
from .shared import IN_WORDS, figure, informative_groups, quoted

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
