"""What sharing changes: predictions, the balance of the book, averages."""

from __future__ import annotations

from ...findings import Findings
from ..blocks import Cell, Fact, Facts, Paragraph, Section, Table
from ..numbers import Scale, count, difference_scale, prediction_scale, share
from .shared import NO_ESTIMATE, PEOPLE, SHARES, WHOM, figure, level_interval

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
