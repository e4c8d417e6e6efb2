"""``puc.monitor``: what has changed since training, and whether those who withhold are still treated well.

``drift`` compares who shares what, ``sequence`` adds up penalties over batches; here are the call and its report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._models.anchored import is_tree_model
from .._models.files import consent_of, model_hash, summary_of
from .._models.schema import categories_of
from .._pages import deliver
from .._persistence import NotValidError, sealed, unsealed
from .._prediction.people import models_within, predicts_per_exposure
from .._tables.sources import Categories, eager, engine_threads_for, row_source
from .blocks import Block, Cell, Document, Scale, Table, count, listing, p_value, share, tone
from .drift import MAX_VALUES, SharingChange, SharingCounts, UnknownValues, compare, unknown_categories
from .findings import CERTIFIED, RARER_SETS, VIOLATED
from .penalty import LARGE_SET
from .people import AuditPeople, outcome_of_class, read_audit_people, reads_zero_as_missing
from .report import date_in_words
from .sequence import NOT_DECIDED, PenaltySoFar, State, Sums, look
from .settings import FittingOptions, JudgementOptions, NuisanceEstimators, counted

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
NO_OUTCOMES = "no outcomes yet"


def monitor(
    model: Any,
    X_new: Any,
    y_new: Any = None,
    *,
    margin: float | None = None,
    previous: MonitorReport | str | Path | None = None,
    reference: Any = None,
    optional: Any = None,
    available: Any = None,
    weight: Any = None,
    exposure: Any = None,
    clusters: Any = None,
    target_class: Any = None,
    loss: str = "auto",
    alpha: float | None = None,
    level: float | None = None,
    min_count: int = 40,
    max_masks: int = 64,
    nuisance: Any = None,
    seed: int = 0,
    num_threads: int | None = None,
) -> MonitorReport:
    """Compare new people with those of training, and test the penalties of withholding again, as often as you like.

    Without outcomes: which sets and groups are shared more or less often, new sets, unknown categories, and which sets'
    predictions such a change exposes. With outcomes, batch after batch: the average penalty θ_S of :func:`audit`, with
    intervals that hold at every look together, so that looking every month does not inflate errors.

    Parameters
    ----------
    model
        As in :func:`audit`.
    X_new, y_new
        New people, and their outcomes if they are known. Every batch must hold other people: somebody who comes again
        is not independent of their last visit.
    margin
        Largest average penalty regarded as harmless, needed with the first outcomes; it stays the same afterwards.
    previous
        The last report, or the file it was written to with ``to_json``: with outcomes, this batch is added to its sums.
    reference
        People to compare with instead of those of training: a table, or an earlier report. Models keep how often sets
        were shared in training, rounded.
    optional, available, weight, exposure, clusters, target_class, loss, alpha
        As in :func:`audit`.
    level
        1 − level bounds the probability that a model within the margin is ever called violated, in all sets and looks;
        0.95 unless given with the first outcomes, and the same afterwards.
    min_count, max_masks
        As in :func:`audit`; the sets to test are chosen in the first batch with outcomes.
    nuisance
        LightGBM parameters for the models of outcome and availability.
    seed, num_threads
        Seed, threads.

    Returns
    -------
    MonitorReport
        ``verdict``, ``sharing``, ``exposed``, ``unknown``, ``penalties``, ``to_frame``, ``to_html``, ``to_markdown``,
        ``to_json``, ``from_json``.

    Examples
    --------
    >>> from pucboost.simulate import LogisticFamily
    >>> family = LogisticFamily.teaser()
    >>> june, july = family.sample(1500, seed=0), family.sample(1500, seed=1)
    >>> report = None
    >>> for month in (june, july):
    ...     report = monitor(
    ...         family.puc_prediction, month.X, month.y, margin=0.1, previous=report, optional=family.optional
    ...     )
    >>> report.looks, report.verdict
    (2, 'certified')
    """
    last = MonitorReport.from_json(previous) if isinstance(previous, (str, Path)) else previous
    if last is not None and not isinstance(last, MonitorReport):
        raise TypeError(f"previous must be what monitor returned, or the file it was written to; got {last!r:.60}.")
    state = None if last is None else last.state
    bound = _margin(margin, y_new, state)
    if state is not None and level not in (None, state.level):
        raise ValueError(f"level is {level!r}, but {state.level:g} in previous. Leave it out, or begin anew.")
    level = level if level is not None else 0.95 if state is None else state.level
    options = JudgementOptions(
        bound or 1.0, loss=loss, alpha=alpha, level=level, min_count=min_count, max_masks=max_masks
    )
    fitting = FittingOptions(nuisance=nuisance, seed=seed, num_threads=num_threads)
    if isinstance(fitting.nuisance, NuisanceEstimators):
        raise ValueError(
            "nuisance must be a dict of LightGBM parameters here: models are kept as text between batches."
        )
    trees = is_tree_model(model)
    known = categories_of(model) if trees else None if state is None else state.categories
    if y_new is not None:
        outcome, output = outcome_of_class(model, y_new, target_class)
        if exposure is None and predicts_per_exposure(model):
            raise ValueError("The model predicts per unit of exposure, so exposure is needed with y_new.")
    else:
        X_new, output = eager(X_new), None
        outcome = np.zeros(row_source(X_new, known).n_rows)
    people, notes = read_audit_people(
        X_new,
        outcome,
        consent=consent_of(model) if trees else None,
        wrapper=None if trees else model,
        categories=known,
        optional=optional,
        available=available,
        weight=weight,
        exposure=exposure if y_new is not None else None,
        clusters=clusters,
        zero_as_missing=reads_zero_as_missing(model),
        num_threads=num_threads,
    )
    digest = model_hash(model)
    if last is not None:
        last.check_continues(digest, people.consent.to_dict())
    now = SharingCounts(len(people), tuple(sorted(people.mask_counts.items())), 1)
    with engine_threads_for(num_threads, people.source):
        before, against = _before(model, people, reference, num_threads)
        sharing, exposed, new = compare(before, now, people, 1 - level)
        if y_new is not None:
            assert bound is not None
            state = look(model, people, output, state, bound, options, fitting)
    return MonitorReport(
        date=datetime.now(UTC).isoformat(timespec="minutes"),
        model_hash=digest,
        consent=people.consent.to_dict(),
        people=len(people),
        compared_with=against,
        counts=now.kept(),
        sharing=sharing,
        exposed=exposed,
        new_sets=new,
        unknown=unknown_categories(people, known),
        penalties=() if state is None else state.judged(),
        state=state,
        notes=tuple(notes),
    )


def _margin(margin: float | None, y: Any, state: State | None) -> float | None:
    if y is None:
        if margin is not None:
            raise ValueError("margin is about outcomes; give y_new, or leave margin out.")
        return None
    if state is None and margin is None:
        raise ValueError("The first outcomes need a margin, the largest average penalty regarded as harmless.")
    if state is not None and margin not in (None, state.margin):
        raise ValueError(
            f"margin is {margin!r}, but {state.margin:g} in previous. It stays the same; begin anew without previous."
        )
    return margin if state is None else state.margin


def _before(
    model: Any, people: AuditPeople, reference: Any, num_threads: int | None
) -> tuple[SharingCounts | None, str]:
    """Return the counts to compare with, and where they come from."""
    consent = people.consent
    if isinstance(reference, MonitorReport):
        reference.check_continues(None, consent.to_dict())
        return reference.counts, f"the report of {date_in_words(reference.date)}"
    if reference is not None:
        source = row_source(eager(reference), people.source.categories)
        consent.check_table(source)
        zeros = reads_zero_as_missing(model)
        masks, n = np.unique(
            consent.visible(source, zero_as_missing=zeros, num_threads=num_threads), return_counts=True
        )
        return SharingCounts(source.n_rows, tuple(zip(masks.tolist(), n.tolist(), strict=True)), 1), "the reference"
    parts = [model] if is_tree_model(model) else [part.model for part in models_within(model)]
    summaries = [summary_of(part if is_tree_model(part) else part.booster_) for part in parts]
    for summary, part in zip(summaries, models_within(model), strict=False):
        # Masks count groups in the order of the model; groups that were declared may have another.
        if summary is not None and summary.mask_people and part.consent.group_names == consent.group_names:
            sets = tuple(zip(summary.masks_seen or (), summary.mask_people, strict=True))
            return SharingCounts(summary.source_rows, sets), "training"
    return None, "nothing: the model does not keep how often sets were shared; give reference="


# --------------------------------------------------------------------------------------------------
# The report.


@dataclass(frozen=True)
class MonitorReport:
    """What :func:`pucboost.monitor` found; the next call takes it as ``previous``.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(600, 2)); X[::3, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, X[:, 0]), 5)
    >>> report = puc.monitor(booster, X[:300], num_threads=1)
    >>> report.verdict, report.changed, report.exposed
    ('no outcomes yet', (), ())
    """

    date: str
    model_hash: str | None
    consent: dict[str, Any]
    people: int
    compared_with: str
    counts: SharingCounts
    """How many people shared each set, as models keep it: rounded, and without rare sets."""
    sharing: tuple[SharingChange, ...]
    exposed: tuple[str, ...]
    """Sets between nothing and everything whose predictions a change of sharing exposes."""
    new_sets: tuple[tuple[str, int], ...]
    """Sets that hardly anybody shared before, with the number of people now."""
    unknown: tuple[UnknownValues, ...]
    penalties: tuple[PenaltySoFar, ...]
    state: State | None = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """Return "violated", "certified", "not decided yet", or "no outcomes yet"."""
        if self.state is None:
            return NO_OUTCOMES
        if any(p.verdict == VIOLATED for p in self.penalties):
            return VIOLATED
        # Rare sets that are few people even together are part of all who withhold something.
        few = max(self.state.min_count, LARGE_SET * self.state.people)
        needed = [p for p in self.penalties if p.name != RARER_SETS or p.people >= few]
        return CERTIFIED if all(p.verdict == CERTIFIED for p in needed) else NOT_DECIDED

    @property
    def looks(self) -> int:
        """Return how many batches with outcomes there were."""
        return 0 if self.state is None else self.state.looks

    @property
    def changed(self) -> tuple[SharingChange, ...]:
        """Return the sets and groups that are shared more or less often than before, beyond chance."""
        return tuple(change for change in self.sharing if change.changed)

    def check_continues(self, digest: str | None, consent: Mapping[str, Any]) -> None:
        """Raise if this report is about another model, or about other groups."""
        if None not in (digest, self.model_hash) and digest != self.model_hash:
            raise ValueError(
                f"The earlier report is about another model: its hash begins with {self.model_hash:.12}, that of this "
                f"one with {digest:.12}. Begin anew without previous."
            )
        if json.loads(json.dumps(consent)) != json.loads(json.dumps(self.consent)):
            raise ValueError("The earlier report has other columns or consent groups. Begin anew without it.")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, the state included."""
        return {"format": FORMAT, "verdict": self.verdict, **asdict(self)}

    def to_json(self, path: str | Path | None = None) -> str:
        """Return everything as JSON, and write it to ``path`` (whole or not at all) if one is given."""
        return deliver(sealed(self.to_dict(), default=_plain), path)

    @classmethod
    def from_json(cls, source: str | Path) -> MonitorReport:
        """Return the report in a file that ``to_json`` wrote, or in its text."""
        is_text = isinstance(source, str) and source.lstrip().startswith("{")
        text = str(source) if is_text else Path(source).read_text("utf-8")
        where = "the text" if is_text else f"{str(source)!r}"
        try:
            given = unsealed(text)  # models of the audit are in it, and LightGBM ends the process over a damaged one
            if given.pop("format", None) != FORMAT:
                raise NotValidError(f"it has another format than {FORMAT}")
            given.pop("verdict")
            given["counts"] = SharingCounts(**_tuples(given["counts"]))
            for name, kind in (("sharing", SharingChange), ("unknown", UnknownValues), ("penalties", PenaltySoFar)):
                given[name] = tuple(kind(**_tuples(one)) for one in given[name])
            if given["state"] is not None:
                state = _tuples(given["state"])
                state["sums"] = {name: Sums(**one) for name, one in state["sums"].items()}
                state["categories"] = state["categories"] and Categories(**state["categories"])
                given["state"] = State(**state)
            return cls(**{**given, **{n: _tuple(given[n]) for n in ("exposed", "new_sets", "notes")}})
        except (NotValidError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{where} is not a report of pucboost.monitor: {error}.") from error

    def to_frame(self) -> pd.DataFrame:
        """Return the penalties as a DataFrame, or the changes of sharing while there are no outcomes."""
        import pandas as pd

        kind, rows = (PenaltySoFar, self.penalties) if self.penalties else (SharingChange, self.sharing)
        return pd.DataFrame([asdict(row) for row in rows], columns=[f.name for f in fields(kind)])

    def page(self) -> Document:
        """Return the report as a page."""
        sections: dict[str, list[Block]] = {"Sharing": self._sharing(), "Penalties of withholding": self._penalties()}
        if self.unknown:
            sections["Values the model does not know"] = [
                "They were read as missing, and so as withheld where the column is optional.",
                [(f"{u.column}:", f"{count(u.rows)} rows; {listing(u.values)}") for u in self.unknown],
            ]
        if self.notes:
            sections["Notes"] = [[("Note:", note) for note in self.notes]]
        about = f"{self.verdict} · {count(self.people)} new people · {date_in_words(self.date)}"
        return Document("Monitoring report", about, sections)

    def _sharing(self) -> list[Block]:
        columns = ("People who share", "Before", "Now", "Difference (95%)", "Adjusted p", "Verdict")
        points = Scale(100, 1, "", "points")
        rows = tuple(
            (
                Cell(f"{c.kind} {c.name}"),
                Cell(share(c.before)),
                Cell(share(c.now)),
                Cell(points.show(c.difference, signed=True), points.between(c.lower, c.upper)),
                Cell(p_value(c.adjusted_p_value)),
                Cell("changed" if c.changed else "as before", tone="inconclusive" if c.changed else ""),
            )
            for c in self.sharing
        )
        told: list[Block] = [f"Compared with {self.compared_with}."]
        if self.sharing:
            told.append(Table("Who shares what", columns, rows, frozenset(columns[-1:])))
        if self.new_sets:
            some = listing(f"{name} ({count(n)})" for name, n in self.new_sets[:MAX_VALUES])
            more = len(self.new_sets) - MAX_VALUES
            told.append(f"Hardly anybody shared these sets before: {some}{f', and {more} more' if more > 0 else ''}.")
        if self.exposed:
            told.append(
                f"Exposed to the change are the predictions of those who share {listing(self.exposed)}: they are to "
                "equal the average outcome of everybody who shares at least as much, and these are other people now. "
                "Train again on recent people, or watch the penalties below. Those who share nothing are not exposed, "
                "nor those who share everything, if outcomes do not depend on sharing given all data."
            )
        elif self.sharing:
            told.append("No set's predictions are exposed to a change of sharing that is larger than chance.")
        return told

    def _penalties(self) -> list[Block]:
        if self.state is None:
            return ["Without outcomes nothing is known about penalties. Give y_new and a margin once they are there."]
        state = self.state
        scale = Scale(100, 2, "", "points") if state.loss in ("binary", "quantile") else Scale(1, 4, "", "")
        columns = (
            "People who share",
            "Verdict",
            "Penalty",
            "Any-time interval",
            "For all sets together",
            "People",
            "Note",
        )
        rows = tuple(
            (
                Cell(p.name),
                Cell(p.verdict, tone=tone(p.verdict)),
                Cell(scale.show(p.value, signed=True)),
                Cell(scale.between(p.lower, p.upper)),
                Cell(scale.between(p.joint_lower, p.joint_upper)),
                Cell(count(p.people)),
                Cell(p.note),
            )
            for p in self.penalties
        )
        return [
            f"Over {counted(state.looks, 'batch', 'batches')} with {count(state.people)} people, against a margin of "
            f"{scale.words(state.margin)}. The intervals hold at every look: the probability that a model within the "
            f"margin is ever called violated is at most about {share(state.error, 0)}.",
            Table("Penalties so far", columns, rows, frozenset(("Verdict", "Note"))),
            "Violated: the interval for all sets together lies beyond the margin. Certified: that of the set lies "
            "within it. The penalties are averages over all batches. Whether averages hide opposite penalties, and "
            "whether base columns give away who withholds, is checked by a full audit only.",
        ]

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one self-contained HTML page, and write it to ``path`` (whole or not at all) if one is given."""
        return self.page().to_html(path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the report as Markdown, and write it to ``path`` (whole or not at all) if one is given."""
        return self.page().to_markdown(path)

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()

    def __str__(self) -> str:
        return str(self.page())


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def _tuples(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _tuple(value) for name, value in given.items()}


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
