"""The top of the page: the verdict, what was audited, and what to know before relying on it."""

from __future__ import annotations

from ...findings import CERTIFIED, GIVEN_AWAY, INCONCLUSIVE, VIOLATED, VIOLATED_FOR_SOME, Findings, Penalty
from ..blocks import Fact, VerdictBox
from ..numbers import count, finite, penalty_scale, prediction_scale, share, significant
from .shared import NO_ESTIMATE, date_in_words, informative_groups, level_interval, seen_in_training, tested_sets

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
