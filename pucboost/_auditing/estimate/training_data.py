"""The data the model was trained on, as far as they are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._kernels.cells import hash_rows
from ..._models.schema import label_hash
from ..._tables.containers import SourceTable, eager, row_source
from ..._tables.sources import RowSource
from .labels import outcome_of_class
from .people import AuditPeople

SUSPICIOUS_OVERLAP = 0.5
_SAME_DATA = "{}; a model looks better calibrated on data it has seen. Audit held-out people."


@dataclass(frozen=True)
class TrainingData:
    """What is known about the data the model was trained on."""

    masks_seen: frozenset[int] | None
    table: SourceTable | None = None
    shared: Array | None = None


def read_training(
    train_data: Any, model: Any, people: AuditPeople, given: Any, target_class: Any
) -> tuple[TrainingData, list[str]]:
    """Return what is known about the training data, with a warning if the audited people are among them.

    Parameters
    ----------
    train_data
        ``(X, y)`` or ``(X, y, weight)``; None if only the model can tell.
    given
        The outcomes of the audited people as the user passed them.
    """
    notes: list[str] = []
    summary = getattr(model, "puc_summary", None)
    if train_data is None:
        seen = getattr(summary, "masks_seen", None)
        if summary is not None and summary.label_hash is not None and summary.label_hash == _hash_of(given):
            notes.append(_SAME_DATA.format("The outcomes are exactly those the model was trained on"))
        return TrainingData(None if seen is None else frozenset(seen)), notes
    if not isinstance(train_data, (tuple, list)) or len(train_data) not in (2, 3):
        raise ValueError("train_data must be (X, y) or (X, y, weight), the data the model was trained on.")
    X, y, *weight = train_data
    y, _ = outcome_of_class(model, y, target_class)
    source = row_source(eager(X), people.source.categories)
    people.consent.check_table(source)
    table = SourceTable.of(source, y, weight[0] if weight else None, name="train_data")
    shared = people.consent.presence(source)
    known = row_hashes(source, table.label)
    share = float(np.isin(row_hashes(people.source, people.y), known).mean())
    if share > SUSPICIOUS_OVERLAP:
        notes.append(_SAME_DATA.format(f"{share:.0%} of the audited rows are rows of train_data"))
    return TrainingData(frozenset(np.unique(shared).tolist()), table, shared), notes


def _hash_of(y: Any) -> str | None:
    try:
        return label_hash(np.asarray(y))
    except (TypeError, ValueError):  # text
        return None


def row_hashes(source: RowSource, y: Array) -> Array:
    """Return a hash of every row with its outcome."""
    parts = []
    for lo, hi in source.blocks():
        block = np.column_stack([source.window(lo, hi), y[lo:hi]]).astype(np.float32).astype(np.float64)
        out = np.empty((len(block), 2), dtype=np.uint64)
        hash_rows(block, block.view(np.uint64), np.zeros(len(block), dtype=np.uint64), 0, len(block), out)
        parts.append(out[:, 0])
    return np.concatenate(parts)
