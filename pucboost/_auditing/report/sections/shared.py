"""What several sections share: names of columns, recurring sentences, figures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

from markupsafe import Markup

from ...findings import Estimate, Findings, Penalty
from ..blocks import Block, Figure, Figures, Paragraph
from ..numbers import finite, share
from ..plotting import PLOTS
from ..svg import inline_svg
from ..text import listing, shorten

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
