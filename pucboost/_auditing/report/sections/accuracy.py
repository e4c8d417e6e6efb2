"""How well the model predicts: against other models, and against a known truth."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...findings import Findings, LossComparison
from ..blocks import Block, Cell, Paragraph, Section, Table
from ..numbers import count, difference_scale, estimate_scale, finite, significant
from .shared import IN_WORDS, NO_ESTIMATE, PEOPLE, SHARES, WHOM, is_quantile, level_interval

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
