"""The parts of one worker as one table, without copying their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._common import Array
from .._tables.containers import row_source
from .._tables.sources import Categories, RowSource, StackedSource
from .._training.datasets import Dataset
from .._virtual.shared_plan import PlanPart, SharedPlan
from .collections import Part


def training_part(parts: Sequence[Part], plan: SharedPlan) -> tuple[Dataset, PlanPart]:
    """Return what a worker trains on, and its slice of the plan."""
    source = _below_one_another([plan.read(part.X) for part in parts])
    row_id = [part.fields["row_id"] for part in parts] if "row_id" in parts[0].fields else None
    numbers = [part.number for part in parts]
    return _dataset(source, parts), plan.part(*numbers, row_id=None if row_id is None else _joined(row_id))


def validation_set(parts: Sequence[Part], plan: SharedPlan) -> Dataset:
    """Return a validation set, which every worker has as a whole."""
    categories = Categories(plan.columns.pandas_categorical or [], plan.columns.coded)
    filled = [part for part in parts if not part.is_empty]
    if not filled:
        raise ValueError("A validation set has no rows.")
    return _dataset(_below_one_another([row_source(part.X, categories) for part in filled]), filled)


def _dataset(source: RowSource, parts: Sequence[Part]) -> Dataset:
    given: dict[str, Any] = {
        name: _joined([part.fields[name] for part in parts]) for name in parts[0].fields if name != "row_id"
    }
    if "sample_weight" in given:
        given["weight"] = given.pop("sample_weight")
    return Dataset(source, **given)


def _below_one_another(sources: Sequence[RowSource]) -> RowSource:
    return sources[0] if len(sources) == 1 else StackedSource(sources).with_columns(sources[0].columns)


def _joined(values: Sequence[Any]) -> Array:
    """Return one number, or a few, for each row: small beside the rows themselves."""
    return values[0] if len(values) == 1 else np.concatenate([np.asarray(one) for one in values])
