"""What the verdict rests on: the data, the limits, the method, the provenance."""

from __future__ import annotations

from markupsafe import Markup

from ...findings import Findings, TrainedOn
from ...wording import counted, people_in_words
from ..blocks import Bullets, Cell, Fact, Facts, Paragraph, Section, Table
from ..numbers import count, fixed, share, significant
from ..text import shorten
from .shared import about_several_sets, date_in_words, is_quantile, quoted, tested_sets


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
