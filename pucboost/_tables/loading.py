"""A table file read as a whole: its features as one matrix, its labels, weights and exposures as vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .._arrays import Array
from .batches import Batch
from .file_columns import Feature, Known, Learned, Withheld, encode
from .files import DataError
from .growing_matrix import GrowingMatrix
from .sources import ArraySource, ColumnTypes
from .table_files import TableFile


@dataclass(frozen=True)
class LoadedTable:
    """The content of a table file, as numbers."""

    source: ArraySource
    features: list[Feature]
    """How each column was read; a second file read the same way gets the same codes."""
    label: Array
    weight: Array | None
    exposure: Array | None


def load_table(
    file: TableFile,
    features: Sequence[Feature],
    label: str,
    weight: str | None = None,
    exposure: str | None = None,
    report: Callable[[float], None] = lambda share: None,
) -> LoadedTable:
    """Read the features, label, weight and exposure of everybody in a file; the matrix may be larger than memory.

    Parameters
    ----------
    file
        The file, read once.
    features
        How to read each column.
    label, weight, exposure
        Columns of numbers.
    report
        Called with the share of the file read so far.
    """
    rows = GrowingMatrix(len(features))
    labels, weights, exposures = [], [], []
    wanted = [feature.name for feature in features if not isinstance(feature, Withheld)]
    further = [column for column in (label, weight, exposure) if column is not None]
    for batch in file.batches(list(dict.fromkeys([*wanted, *further])), report):
        rows.append(encode(features, batch))
        labels.append(_read_label(batch, label))
        if weight is not None:
            weights.append(_read_weight(batch, weight))
        if exposure is not None:
            exposures.append(_read_exposure(batch, exposure))
    matrix = rows.matrix()
    _recode(matrix, features)
    settled = [feature.settled() if isinstance(feature, Learned) else feature for feature in features]
    return LoadedTable(
        source=ArraySource(matrix, _column_types(settled)),
        features=settled,
        label=np.concatenate(labels),
        weight=np.concatenate(weights) if weights else None,
        exposure=np.concatenate(exposures) if exposures else None,
    )


def _column_types(features: Sequence[Feature]) -> ColumnTypes:
    """Return column types that declare category columns as LightGBM and XGBoost expect them from DataFrames."""
    known = {j: feature for j, feature in enumerate(features) if isinstance(feature, Known)}
    return ColumnTypes(
        names=tuple(feature.name for feature in features),
        coded=tuple(known),
        categorical=tuple(known),
        pandas_categorical=[feature.categories for feature in known.values()],
    )


def _recode(matrix: Array, features: Sequence[Feature]) -> None:
    """Replace codes in order of appearance by codes in sorted order."""
    orders = {j: feature.order() for j, feature in enumerate(features) if isinstance(feature, Learned)}
    changed = {j: order for j, order in orders.items() if order is not None and (np.diff(order) < 0).any()}
    step = 1 << 16
    for lo in range(0, len(matrix) if changed else 0, step):
        for j, order in changed.items():
            codes = matrix[lo : lo + step, j]
            given = ~np.isnan(codes)
            codes[given] = order[codes[given].astype(np.int64)]


def _read_label(batch: Batch, label: str) -> Array:
    values = batch.numbers(label, ". Labels must be numbers: encode the outcome, for example as 0 and 1")
    _check(~np.isfinite(values), values, batch, label, "every row needs a label that is a finite number")
    return values


def _read_weight(batch: Batch, weight: str) -> Array:
    values = batch.numbers(weight, ". Weights must be numbers")
    bad = ~(np.isfinite(values) & (values >= 0))
    _check(bad, values, batch, weight, "every row needs a weight that is finite and not negative")
    return values


def _read_exposure(batch: Batch, exposure: str) -> Array:
    values = batch.numbers(exposure, ". Exposures must be numbers")
    bad = ~(np.isfinite(values) & (values > 0))
    _check(bad, values, batch, exposure, "every row needs an exposure that is finite and above 0")
    return values


def _check(bad: Array, values: Array, batch: Batch, column: str, expected: str) -> None:
    at = np.flatnonzero(bad)
    if len(at):
        found = "missing" if np.isnan(values[at[0]]) else f"{values[at[0]]:g}"
        raise DataError(f"{batch.where(int(at[0]), column)}: the value is {found}; {expected}")
