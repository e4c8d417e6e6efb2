"""A table file read as a whole: its features as one matrix, its labels, weights and exposures as vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from .._common import Array
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
    vectors: dict[str, Array]
    """What else belongs to each row, by its role: label, weight, …"""

    @property
    def label(self) -> Array:
        """The outcome of each row."""
        return self.vectors["label"]

    @property
    def weight(self) -> Array | None:
        """The weight of each row, if there is one."""
        return self.vectors.get("weight")

    @property
    def exposure(self) -> Array | None:
        """The exposure of each row, if there is one."""
        return self.vectors.get("exposure")


def load_table(
    file: TableFile,
    features: Sequence[Feature],
    roles: Mapping[str, str | None],
    report: Callable[[float], None] = lambda share: None,
) -> LoadedTable:
    """Read the features of everybody in a file, and what else belongs to a row; the matrix may be larger than memory.

    Parameters
    ----------
    file
        The file, read once.
    features
        How to read each column.
    roles
        Columns of numbers that are no features, by what they are: label, weight, exposure, init_score.
    report
        Called with the share of the file read so far.
    """
    rows = GrowingMatrix(len(features))
    further = {role: column for role, column in roles.items() if column is not None}
    parts: dict[str, list[Array]] = {role: [] for role in further}
    wanted = [feature.name for feature in features if not isinstance(feature, Withheld)]
    with closing(file.batches(list(dict.fromkeys([*wanted, *further.values()])), report)) as batches:
        for batch in batches:
            rows.append(encode(features, batch))
            for role, column in further.items():
                parts[role].append(_READ[role](batch, column))
    matrix = rows.matrix()
    _recode(matrix, features)
    settled = [feature.settled() if isinstance(feature, Learned) else feature for feature in features]
    return LoadedTable(
        source=ArraySource(matrix, _column_types(settled)),
        features=settled,
        vectors={role: np.concatenate(some) for role, some in parts.items()},
    )


def _column_types(features: Sequence[Feature]) -> ColumnTypes:
    """Return column types that declare category columns as LightGBM and XGBoost expect them from DataFrames."""
    known = {j: feature for j, feature in enumerate(features) if isinstance(feature, Known)}
    categorical = tuple(j for j, feature in known.items() if not feature.ordered)
    return ColumnTypes(
        names=tuple(feature.name for feature in features),
        coded=tuple(known),
        categorical=categorical,
        never_numbers=categorical,
        pandas_categorical=[feature.categories for feature in known.values()],
    )


def _recode(matrix: Array, features: Sequence[Feature]) -> None:
    """Replace codes in order of appearance by final ones."""
    orders = {j: feature.order() for j, feature in enumerate(features) if isinstance(feature, Learned)}
    changed = {j: order for j, order in orders.items() if order is not None and (order != np.arange(len(order))).any()}
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


def _read_init_score(batch: Batch, init_score: str) -> Array:
    values = batch.numbers(init_score, ". Initial scores must be numbers")
    _check(~np.isfinite(values), values, batch, init_score, "every row needs an initial score that is finite")
    return values


_READ = {"label": _read_label, "weight": _read_weight, "exposure": _read_exposure, "init_score": _read_init_score}


def _check(bad: Array, values: Array, batch: Batch, column: str, expected: str) -> None:
    at = np.flatnonzero(bad)
    if len(at):
        found = "missing" if np.isnan(values[at[0]]) else f"{values[at[0]]:g}"
        raise DataError(f"{batch.where(int(at[0]), column)}: the value is {found}; {expected}")
