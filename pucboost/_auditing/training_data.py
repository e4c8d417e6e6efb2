"""What is known of the training data; above all, how many of the audited people the model was trained on.

A model looks better calibrated on people it has seen, so it is not certified on them. Who they were is known from the
training data, or from the model if it was trained with a key: it then keeps a sketch of its training rows, the smallest
keyed hashes of some of them, a random sample that any table can be compared with, in any order.

All training rows whose hash is at most t, the largest one kept, are known. An audited row with a hash up to t was
therefore trained on if and only if its hash was kept. Hashes do not depend on what a row holds, so these rows are a
random sample of the distinct audited rows: with N of them, X of which were kept,

    E[X / N] = π + (1 − π)·c

where π is the share of the audited rows that were trained on and c the chance that somebody else's row is equal to a
training row. By exchangeability (Good and Turing's estimate), a new person has a twin in training as often as one of
the training people has: c is the share of training people whose row is not unique. It is taken by how many groups
people share, since those who share little are more alike, and an audit may have more of them than training had. So

    π̂ = (X/N − c) / (1 − c),

with the exact binomial interval of X/N. The other direction, the share of kept hashes that were audited times
n_train/n_audit, has the same X and only replaces N by its expectation k·n_audit/n_train: where N is too small to
estimate anything, so is X, and there is no estimate.

Decision: too many were trained on if X is too large for π ≤ :data:`TOLERATED`, at the level :data:`DOUBT` of a
one-sided binomial test. Twins are allowed to be more frequent than in training, by :data:`TWIN_ODDS` in odds:
audited people may be alike for reasons that training does not show. There is no estimate where the test could not
decide even if X = N, because N is small or nearly everybody has a twin (few distinct rows), and where it did not decide
although c is above :data:`MANY_TWINS`: rows that are rare have fewer twins than people have, so π̂ is then too small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._common import Array
from .._consent import Consent, shared_counts
from .._kernels.compiling import thread_count
from .._models.anchored import is_tree_model
from .._models.files import summary_of
from .._models.schema import TrainingSummary, categories_of
from .._prediction.people import Wrapped, models_within, transformed
from .._tables.sources import RowSource, SourceTable, as_vector, eager, row_source
from .._virtual.merging import RowSketch, hash_people, read_row_key
from .._virtual.plan import common_masks
from .._virtual.rows import shown_table
from .findings import CERTIFIED, INCONCLUSIVE, VIOLATED, VIOLATED_FOR_SOME, Penalty, TrainedOn
from .people import AuditPeople, outcome_of_class, reads_zero_as_missing

TOLERATED = 0.05
"""So few cannot hide much: even if the model fitted those it has seen perfectly, a penalty would look a twentieth
smaller."""
DOUBT = 1e-3
TWIN_ODDS = 3.0
MANY_TWINS = 0.25
LEVEL = 0.95
"""Of the interval that is shown."""
SKETCH_OF_GIVEN = 1 << 16
"""How many hashes of ``train_data`` are compared with."""

_CANNOT_TELL = "Whether the model was trained on these people is not known: {}. They must be people it has not seen."
_NOTHING_KEPT = _CANNOT_TELL.format("it keeps nothing about single people")
_NO_KEY = _CANNOT_TELL.format("it keeps hashes of some, and comparing these takes the row_key of its training")


@dataclass(frozen=True)
class TrainingData:
    """What is known about the data the model was trained on."""

    masks_seen: frozenset[int] | None
    """Sets of groups that at least a few people shared."""
    table: SourceTable | None = None
    shared: Array | None = None
    trained_on: TrainedOn | None = None
    """How many of the audited people were trained on; None if nothing is known about it."""


def read_training(
    train_data: Any,
    row_key: Any,
    model: Any,
    people: AuditPeople,
    given: Any,
    target_class: Any,
    num_threads: int | None,
) -> tuple[TrainingData, list[str], list[str]]:
    """Return what is known of the training data, a warning if the audited people are among them, and what is unknown.

    Parameters
    ----------
    train_data
        ``(X, y)`` or ``(X, y, weight)``; None if only the model can tell.
    row_key
        Where the key is with which the model was trained.
    given
        The outcomes of the audited people as the user passed them.
    """
    threads = thread_count(num_threads)
    key = None if row_key is None else read_row_key(row_key)
    seen, known, notes = _known_to_model(model, people, given, key, threads)
    training = TrainingData(seen, trained_on=known)
    if train_data is not None:
        training = _read_given(train_data, model, people, target_class, threads)
        if known is not None and known.too_many:  # whatever was given as training data
            training = replace(training, trained_on=known)
        notes = []
    return training, _in_words(training.trained_on), notes


def _read_given(train_data: Any, model: Any, people: AuditPeople, target_class: Any, threads: int) -> TrainingData:
    if not isinstance(train_data, (tuple, list)) or len(train_data) not in (2, 3):
        raise ValueError("train_data must be (X, y) or (X, y, weight), the data the model was trained on.")
    X, y, *weight = train_data
    y, _ = outcome_of_class(model, y, target_class)
    source = row_source(eager(X), people.source.categories)
    people.consent.check_table(source)
    table = SourceTable.of(source, y, weight[0] if weight else None, name="train_data")
    shared = people.consent.availability(source)
    visible = people.consent.visible(source, zero_as_missing=reads_zero_as_missing(model), num_threads=threads)
    sketch = RowSketch.of(shown_table(table, people.consent, visible, threads), size=SKETCH_OF_GIVEN)
    overlap = _overlap(sketch, None, people.source, people.consent, people.shared, [people.y], threads)
    return TrainingData(frozenset(common_masks(shared)), table, shared, overlap)


def _known_to_model(
    model: Any, people: AuditPeople, given: Any, key: bytes | None, threads: int
) -> tuple[frozenset[int] | None, TrainedOn | None, list[str]]:
    """Return which sets the model saw in training, how many of the people it knows, and a note if that is unknown."""
    if is_tree_model(model):
        summary = summary_of(model)
        seen = None if summary is None or summary.masks_seen is None else frozenset(summary.masks_seen)
        if summary is None or summary.row_hashes is None or key is None:
            return seen, None, [_why_unknown(summary)]
        labels = _labels(given, None, people)
        found = _overlap(summary.row_hashes, key, people.source, people.consent, people.shared, labels, threads)
        return seen, found, []
    parts = models_within(model)
    if not parts:
        return None, None, [_NOTHING_KEPT]
    told = [_known_to_part(part, people, given, key, threads) for part in parts]
    known_masks = [summary.masks_seen for summary, _, _ in told if summary is not None and summary.masks_seen]
    # Masks count groups in the order of the model; groups that were declared for the audit may have another.
    same = all(part.consent.group_names == people.consent.group_names for part in parts)
    masks = frozenset[int]().union(*known_masks) if same and len(known_masks) == len(parts) else None
    overlaps = [overlap for _, overlap, _ in told if overlap is not None]
    notes = list(dict.fromkeys(note for _, _, note in told if note))
    # Models of several folds have seen some of the people each: the one that has seen most counts.
    most = max(overlaps, key=lambda overlap: overlap.share or 0.0, default=None)
    return masks, most, notes


def _known_to_part(
    part: Wrapped, people: AuditPeople, given: Any, key: bytes | None, threads: int
) -> tuple[TrainingSummary | None, TrainedOn | None, str]:
    """Compare with a model inside an estimator, a pipeline or the like, by rows as the steps before it pass them on."""
    booster = part.model if is_tree_model(part.model) else getattr(part.model, "booster_", None)
    summary = None if booster is None else summary_of(booster)
    if summary is None or summary.row_hashes is None or key is None:
        return summary, None, _why_unknown(summary)
    summary.row_hashes.check_key(key)
    try:
        consent = part.consent
        source = row_source(eager(transformed(part.steps, people.container)), categories_of(booster))
        consent.check_table(source)
        shared = consent.visible(source, zero_as_missing=reads_zero_as_missing(booster), num_threads=threads)
        classes = getattr(part.model, "classes_", None)
        labels = _labels(_transformed_outcomes(part, given), classes, people)
        return summary, _overlap(summary.row_hashes, key, source, consent, shared, labels, threads), ""
    except Exception as error:  # steps may do and raise anything
        failed = f"they could not be brought into the form that it was trained on ({type(error).__name__}: {error})"
        return summary, None, _CANNOT_TELL.format(failed)


def _why_unknown(summary: TrainingSummary | None) -> str:
    return _NOTHING_KEPT if summary is None or summary.row_hashes is None else _NO_KEY


def _transformed_outcomes(part: Wrapped, given: Any) -> Any:
    """Return outcomes as a model inside a TransformedTargetRegressor was given them."""
    y = given
    for transformer in part.of_outcomes:
        y = np.asarray(transformer.transform(np.asarray(y, dtype=np.float64).reshape(-1, 1)))[:, 0]
    return y


def _labels(given: Any, classes: Any, people: AuditPeople) -> list[Array]:
    """Return the outcomes of the people audited in every way training may have had them.

    The classes of a classifier are numbers there. With an exposure, labels are rates, or totals beside the logarithm
    of the exposure.
    """
    y = np.asarray(given)
    y = y if people.kept is None else y[people.kept]
    y = as_vector(y if classes is None else np.searchsorted(classes, y), "y", len(people), np.float64)
    return [y] if people.exposure is None else [y, people.y]


def _overlap(
    sketch: RowSketch,
    key: bytes | None,
    source: RowSource,
    consent: Consent,
    shared: Array,
    labels: list[Array],
    threads: int,
) -> TrainedOn:
    """Compare people with a sketch; of several ways to read their labels, the one by which most are found."""
    counts = shared_counts(shared, threads)
    different = [y for i, y in enumerate(labels) if not any(np.array_equal(y, other) for other in labels[:i])]
    people = shown_table(SourceTable(source, different[0]), consent, shared, threads)
    return max(
        (estimate_overlap(sketch, hash_people(people, y), counts, key) for y in different),
        key=lambda overlap: overlap.found,
    )


def estimate_overlap(sketch: RowSketch, hashes: Array, shared: Array, key: bytes | None = None) -> TrainedOn:
    """Estimate the overlap from ``hash_people`` of those audited and how many groups each ``shared``."""
    rows, first = np.unique(hashes, return_index=True)
    own, number = sketch.hashes_of(rows, key), shared[first]
    known = own <= np.uint64(sketch.threshold)
    found = int(np.isin(own[known], np.array(sketch.hashes, dtype=np.uint64)).sum())
    return judge_overlap(found, int(known.sum()), np.array(sketch.twins)[number[known]])


def judge_overlap(found: int, compared: int, twin: Array) -> TrainedOn:
    """Estimate and decide from counts and each row's chance of a twin."""
    if compared == 0:
        return TrainedOn(None, None, None, 0, 0, None, False)
    chance = float(twin.mean())
    odds = TWIN_ODDS * twin / (1 - twin)
    doubtful = float((odds / (1 + odds)).mean())
    tolerated = TOLERATED + (1 - TOLERATED) * doubtful
    # The mean of unequal chances is on the safe side: a binomial has heavier tails (Hoeffding 1956).
    too_many = _at_least(found, compared, tolerated) <= DOUBT
    if not too_many and (tolerated**compared > DOUBT or chance > MANY_TWINS):
        return TrainedOn(None, None, None, compared, found, chance, False)
    share, lower, upper = (
        (p - chance) / (1 - chance) for p in (found / compared, *_binomial_interval(found, compared))
    )
    share, lower, upper = (min(max(end, 0.0), 1.0) for end in (share, lower, upper))
    return TrainedOn(share, lower, upper, compared, found, chance, too_many)


def _at_least(found: int, compared: int, chance: float) -> float:
    from scipy.stats import binom

    return float(binom.sf(found - 1, compared, chance))


def _binomial_interval(found: int, compared: int) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson."""
    from scipy.stats import beta

    tail = (1 - LEVEL) / 2
    lower = 0.0 if found == 0 else float(beta.ppf(tail, found, compared - found + 1))
    upper = 1.0 if found == compared else float(beta.ppf(1 - tail, found + 1, compared - found))
    return lower, upper


def _in_words(trained_on: TrainedOn | None) -> list[str]:
    if trained_on is None:
        return []
    if trained_on.share is None:
        twins = (trained_on.by_chance or 0) > MANY_TWINS
        few = f"only {trained_on.compared:,} of their rows can be compared with what the model keeps"
        return [_CANNOT_TELL.format("the rows of different people are too often equal" if twins else few)]
    return [seen_in_words(trained_on)] if trained_on.too_many else []


def seen_in_words(trained_on: TrainedOn) -> str:
    return (
        f"The model was trained on about {trained_on.share:.0%} of the audited people, so it cannot be certified on "
        "them: a model looks better calibrated on data it has seen. Audit held-out people."
    )


def on_people_seen(
    verdict: str, reason: str, penalties: Sequence[Penalty], trained_on: TrainedOn | None
) -> tuple[str, str, list[Penalty]]:
    """Return verdict, reason and penalties with nothing certified if the model was trained on too many of the people.

    What is violated on people it has seen is violated all the more on others, so that stays.
    """
    if trained_on is None or not trained_on.too_many:
        return verdict, reason, list(penalties)
    note = "within the margin, but on people the model was trained on"
    lowered = [replace(p, verdict=INCONCLUSIVE, note=note) if p.verdict == CERTIFIED else p for p in penalties]
    if verdict in (VIOLATED, VIOLATED_FOR_SOME):
        return verdict, reason, lowered
    seen = seen_in_words(trained_on)
    return INCONCLUSIVE, seen if verdict == CERTIFIED else f"{seen} {reason}", lowered
