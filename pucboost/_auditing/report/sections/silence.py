"""Whether silence says anything, and what the model predicts for silent people."""

from __future__ import annotations

from ...findings import Findings, Informativeness
from ..blocks import Cell, Figures, Paragraph, Section, Table
from ..numbers import finite, fixed, p_value, share
from .shared import IN_WORDS, figure, informative_groups, quoted


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
