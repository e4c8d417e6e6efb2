"""The data the model was trained on, as far as they are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._consent import Consent
from ..._kernels.threads import thread_count
from ..._models.anchored import is_tree_model
from ..._models.files import summary_of
from ..._models.schema import TrainingSummary, categories_of
from ..._nesting import shared_counts
from ..._prediction.wrapped import Wrapped, models_within, transformed
from ..._tables.containers import SourceTable, as_vector, eager, row_source
from ..._tables.sources import RowSource
from ..._virtual.hashing import hash_people
from ..._virtual.part_facts import common_masks
from ..._virtual.rows import shown_table
from ..._virtual.sketch import RowSketch
from ..findings import TrainedOn
from .labels import outcome_of_class
from .losses import reads_zero_as_missing
from .overlap import MANY_TWINS, estimate_overlap
from .people import AuditPeople
from .verdict import seen_in_words

SKETCH_OF_GIVEN = 1 << 16
"""How many hashes of ``train_data`` are compared with."""

_NO_SKETCH = (
    "The model keeps no sketch of its training rows, so this audit cannot tell whether it was trained on these people."
)
_CANNOT_ASK = (
    "The model keeps a sketch of its training rows, but these people could not be brought into the form that it was "
    "trained on ({}). So this audit cannot tell whether it was trained on them."
)
_CANNOT_TELL = "Whether the model was trained on these people cannot be told: {}. They must be people it has not seen."


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
    train_data: Any, model: Any, people: AuditPeople, given: Any, target_class: Any, num_threads: int | None
) -> tuple[TrainingData, list[str]]:
    """Return what is known about the training data, with a warning if the audited people are among them.

    Parameters
    ----------
    train_data
        ``(X, y)`` or ``(X, y, weight)``; None if only the model can tell.
    given
        The outcomes of the audited people as the user passed them.
    """
    threads = thread_count(num_threads)
    seen, told, notes = _told_by_model(model, people, given, threads)
    training = TrainingData(seen, trained_on=told)
    if train_data is not None:
        training = _read_given(train_data, model, people, target_class, threads)
        if told is not None and told.too_many:  # whatever was given as training data
            training = replace(training, trained_on=told)
        notes = []
    return training, [*_in_words(training.trained_on), *notes]


def _read_given(train_data: Any, model: Any, people: AuditPeople, target_class: Any, threads: int) -> TrainingData:
    if not isinstance(train_data, (tuple, list)) or len(train_data) not in (2, 3):
        raise ValueError("train_data must be (X, y) or (X, y, weight), the data the model was trained on.")
    X, y, *weight = train_data
    y, _ = outcome_of_class(model, y, target_class)
    source = row_source(eager(X), people.source.categories)
    people.consent.check_table(source)
    table = SourceTable.of(source, y, weight[0] if weight else None, name="train_data")
    shared = people.consent.presence(source)
    visible = people.consent.visible(source, zero_as_missing=reads_zero_as_missing(model), num_threads=threads)
    sketch = RowSketch.of(shown_table(table, people.consent, visible, threads), 0, SKETCH_OF_GIVEN, 1)
    overlap = _overlap(sketch, people.source, people.consent, people.shared, [people.y], threads)
    return TrainingData(frozenset(common_masks(shared)), table, shared, overlap)


def _told_by_model(
    model: Any, people: AuditPeople, given: Any, threads: int
) -> tuple[frozenset[int] | None, TrainedOn | None, list[str]]:
    """Return which sets the model saw in training, how many of the people it knows, and what to say if it cannot."""
    if is_tree_model(model):
        summary = summary_of(model)
        if summary is None:
            return None, None, []
        seen = None if summary.masks_seen is None else frozenset(summary.masks_seen)
        if summary.training_sketch is None:
            return seen, None, [_NO_SKETCH]
        labels = _labels(given, None, people)
        found = _overlap(summary.training_sketch, people.source, people.consent, people.shared, labels, threads)
        return seen, found, []
    parts = models_within(model)
    if not parts:
        return None, None, []
    told = [_told_by_part(part, people, given, threads) for part in parts]
    known_masks = [summary.masks_seen for summary, _, _ in told if summary is not None and summary.masks_seen]
    # Masks count groups in the order of the model; groups that were declared for the audit may have another.
    same = all(part.consent.group_names == people.consent.group_names for part in parts)
    masks = frozenset[int]().union(*known_masks) if same and len(known_masks) == len(parts) else None
    overlaps = [overlap for _, overlap, _ in told if overlap is not None]
    notes = list(dict.fromkeys(note for _, _, note in told if note))
    # Models of several folds know some of the people each: the one that knows most says that they are not new.
    most = max(overlaps, key=lambda overlap: overlap.share or 0.0, default=None)
    return masks, most, notes


def _told_by_part(
    part: Wrapped, people: AuditPeople, given: Any, threads: int
) -> tuple[TrainingSummary | None, TrainedOn | None, str]:
    """Ask a model inside an estimator, a pipeline or the like; its rows are what the steps before it make of people."""
    booster = part.model if is_tree_model(part.model) else getattr(part.model, "booster_", None)
    summary = None if booster is None else summary_of(booster)
    if summary is None or summary.training_sketch is None:
        return summary, None, _NO_SKETCH
    try:
        consent = part.consent
        source = row_source(eager(transformed(part.steps, people.container)), categories_of(booster))
        consent.check_table(source)
        shared = consent.visible(source, zero_as_missing=reads_zero_as_missing(booster), num_threads=threads)
        classes = getattr(part.model, "classes_", None)
        labels = _labels(_transformed_outcomes(part, given), classes, people)
        return summary, _overlap(summary.training_sketch, source, consent, shared, labels, threads), ""
    except Exception as error:  # steps may do and raise anything
        return summary, None, _CANNOT_ASK.format(f"{type(error).__name__}: {error}")


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
    sketch: RowSketch, source: RowSource, consent: Consent, shared: Array, labels: list[Array], threads: int
) -> TrainedOn:
    """Compare people with a sketch; of several ways to read their labels, the one by which most are found."""
    counts = shared_counts(shared, threads)
    different = [y for i, y in enumerate(labels) if not any(np.array_equal(y, other) for other in labels[:i])]
    people = shown_table(SourceTable(source, different[0]), consent, shared, threads)
    return max(
        (estimate_overlap(sketch, hash_people(people, y), counts, threads) for y in different),
        key=lambda overlap: overlap.found,
    )


def _in_words(trained_on: TrainedOn | None) -> list[str]:
    if trained_on is None:
        return []
    if trained_on.share is None:
        twins = (trained_on.by_chance or 0) > MANY_TWINS
        few = f"only {trained_on.compared:,} of their rows can be compared with what the model keeps"
        return [_CANNOT_TELL.format("the rows of different people are too often equal" if twins else few)]
    return [seen_in_words(trained_on)] if trained_on.too_many else []
