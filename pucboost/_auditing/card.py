"""``puc.card``: what is known about a model on one page, from its schema, its trees and its audit.

Nothing is measured here. A line that a reader would look for and that is not known is printed as such, so that nobody
takes its absence for good news.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from .._consent import Consent
from .._engines import boosters_of
from .._models.anchored import trees_of
from .._models.files import model_hash
from .._models.schema import TrainingSummary, kept_of
from .._prediction.people import models_within
from .blocks import Block, Cell, Document, Table, count, listing
from .context import versions
from .findings import AuditReport
from .report import (
    JOINT,
    PENALTY,
    PEOPLE,
    SHARES,
    VERDICT,
    date_in_words,
    meaning,
    notices,
    penalty_tables,
)

PROMISE = (
    "Somebody who shares the groups a is meant to be told E[Y | b, A ⊇ a, z_a]: the average outcome of everybody with "
    "the same base data and the same shared data who shares at least as much. That is what training aims at. Whether "
    "the model reaches it is a matter of checks, not of construction."
)
LIMITS = [
    ("Silence must be missing.", "A mean, a −999 or a word in place of a withheld value is read as data."),
    ("Base columns are taken for granted.", "One that reveals who withholds brings the forbidden inference back."),
    ("Somebody bears the cost.", "Where withholding is informative, the model is not balanced on those who withhold."),
    ("Raw scores mislead.", "They prefer models that read silence; compare models on augmented data."),
]


def card(model: Any, *, audit: AuditReport | None = None) -> Document:
    """Return a model card: what a model was trained on, under which consent, how it was checked, and its limits.

    Parameters
    ----------
    model
        What :func:`pucboost.train` returns, a fitted estimator of pucboost, or a pipeline or search that ends in one.
    audit
        The report of :func:`pucboost.audit` about this model. Without one the card says that the model was not audited.

    Returns
    -------
    Document
        With ``to_html``, ``to_markdown``; it shows itself in notebooks and as text.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(100, 2)); X[::3, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, X[:, 0]), 5)
    >>> page = puc.card(booster)
    >>> page.heading, list(page.sections)[:2]
    ('Model card', ['The model', 'What people may withhold'])
    """
    consent, summary, trees = _known(model)
    digest = model_hash(model)
    if audit is not None:
        audited = audit.provenance.model_hash
        if None not in (audited, digest) and audited != digest:
            raise ValueError(
                f"audit is about another model: the hash of the audited one begins with {audited:.12}, that of this "
                f"one with {digest:.12}. Audit this model, or make the card of that one."
            )
    today = date_in_words(datetime.now(UTC).isoformat(timespec="minutes"))
    return Document(
        "Model card",
        f"{type(model).__name__} · made on {today}",
        {
            "The model": [_facts(trees, summary, digest)],
            "What people may withhold": [_groups(consent), f"Base features: {listing(_base(consent))}.", PROMISE],
            "What was checked": _checked(audit),
            "Limits": [LIMITS],
            "Versions": [versions()],
        },
    )


def _known(model: Any) -> tuple[Consent, TrainingSummary, Any]:
    """Return consent, summary and booster of a model; raise if it is not one under consent."""
    found = models_within(model)
    if len(found) == 1:
        trained = getattr(found[0].model, "booster_", found[0].model)
        consent, summary = kept_of(trained)
        if consent is not None and summary is not None:
            return consent, summary, trees_of(trained)
    raise ValueError(
        "A card needs a model that pucboost.train returned with optional features, or a fitted estimator of pucboost; "
        f"{type(model).__name__} has no consent schema."
    )


def _facts(trees: Any, summary: TrainingSummary, digest: str | None) -> dict[str, str]:
    facts = boosters_of(trees).facts(trees)
    per_person = summary.virtual_rows / summary.source_rows
    shown = {
        "Engine": summary.engine or "not known",
        "Objective": facts.loss or "a function of the user's own",
        "Rounds": count(facts.used_rounds),
        "People in training": count(summary.source_rows),
        "Virtual rows": f"{count(summary.virtual_rows)} ({per_person:.2f} per person, scheme “{summary.augmentation}”)",
        "Seed of the masks": str(summary.seed),
        "Outcomes": "totals over an exposure; predictions are per unit of it" if summary.per_exposure else "as given",
        "Sets of shared data seen in training": "not kept"
        if summary.masks_seen is None
        else f"{count(len(summary.masks_seen))} that at least five people shared",
    }
    shown["Kept about single people"] = (
        "nothing"
        if summary.row_hashes is None
        else f"{count(len(summary.row_hashes.hashes))} hashes, under a secret key"
    )
    if summary.favourable:
        shown["Better for people"] = f"{summary.favourable} predictions"
    if summary.loading:
        shown["Loading"] = f"{summary.loading:+.4g} on the scale of raw scores, for everybody"
    return {**shown, "Model hash (SHA-256)": digest or "none; models of this kind have none"}


def _groups(consent: Consent) -> Table:
    names = consent.feature_names
    rows = tuple(
        (
            Cell(group),
            Cell(", ".join(names[column] for column in columns)),
            Cell(consent.needs.get(group, "–")),
        )
        for group, columns in consent.groups.items()
    )
    columns = ("Group", "Columns", "Shared only with")
    return Table("What people share or withhold together", columns, rows, frozenset(columns))


def _base(consent: Consent) -> list[str]:
    optional = set(consent.group_columns.tolist())
    return [name for column, name in enumerate(consent.feature_names) if column not in optional]


def _checked(audit: AuditReport | None) -> list[Block]:
    if audit is None:
        return ["This model was not audited: nothing is known about how far it reaches its target."]
    made = audit.provenance
    found: list[Block] = [
        {
            "Audit": f"{audit.verdict}, on {date_in_words(made.date)}, with {count(made.rows)} people",
            "Data hash (SHA-256)": made.data_hash,
        },
        audit.reason,
        meaning(audit),
        *(table.only((SHARES, VERDICT, PENALTY, JOINT, PEOPLE)) for table in penalty_tables(audit)),
    ]
    warned = [("Note:", notice) for notice in notices(audit)]
    return [*found, warned] if warned else found
