"""How features become columns of codes: a column each, or several that are never seen together in one column.

One-hot columns of a categorical, and sparse columns in general, are mostly 0, and hardly ever two of them at once. As a
bundle they cost as much as one column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._arrays import Array
from ..._consent import Consent
from ..._kernels.native.codes import MISSING
from .bins import Bins
from .sample import ColumnSample

CONFLICTS = 1e-4
"""The share of people who may have values in two features of a bundle, one of which is then lost; as in LightGBM."""

TRIED = 64
"""How many bundles are tried for a feature."""

_GLANCE = 1024
"""People by whom most bundles are seen not to fit."""


@dataclass(frozen=True)
class Layout:
    """Where the bins of each feature are found among the codes.

    Bin b of a feature with its own column is code b. Bins b ≥ 1 of a bundled feature are the codes first + b − 1, and
    bin 0 is every other code of the column. Code 255 is a missing value or, in a bundle, one that is withheld.

    Parameters
    ----------
    column
        The column of each feature; −1 if no split on the feature is possible.
    first
        The code of bin 1 of each bundled feature; 0 for other features.
    bundled
        Which features share a column.
    group
        The consent group of each column; −1 for a base column.
    n_codes
        How many codes a column has, besides 255: those from 0 on.
    """

    column: Array
    first: Array
    bundled: Array
    group: Array
    n_codes: Array

    @classmethod
    def plain(cls, bins: Bins, consent: Consent) -> Layout:
        """Return the layout in which every feature that can be split has a column of its own."""
        splits = np.array([feature.can_split for feature in bins.features])
        column = np.where(splits, np.cumsum(splits) - 1, -1).astype(np.int64)
        none = np.zeros(len(bins), dtype=np.int64)
        return cls(column, none, none.astype(bool), feature_groups(consent)[splits], bins.n_bins[splits])

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.group)

    @property
    def n_groups(self) -> int:
        """Number of groups up to the last that has a column."""
        return int(self.group.max(initial=-1)) + 1

    @property
    def words(self) -> int:
        """Number of 64-bit words that hold the codes of a person, eight each."""
        return max(1, -(-self.n_columns // 8))


def feature_groups(consent: Consent) -> Array:
    """Return the number of each feature's group; −1 for base features."""
    groups = np.full(len(consent.feature_names), -1, dtype=np.int64)
    groups[consent.group_columns] = consent.column_groups
    return groups


def find_layout(sample: ColumnSample, bins: Bins, consent: Consent, *, bundle: bool = True) -> Layout:
    """Return the layout of the columns; with ``bundle``, features that are never seen together share one."""
    groups = feature_groups(consent)
    plain = Layout.plain(bins, consent)
    if not bundle:
        return plain
    column, first = plain.column.copy(), np.zeros(len(bins), dtype=np.int64)
    shared = [one for one in _bundles(sample, bins, groups) if len(one.features) > 1]
    for one in shared:
        column[one.features] = column[one.features[0]]
        first[one.features] = 1 + np.cumsum([0, *(bins.n_bins[one.features[:-1]] - 1)])
    # Columns are numbered by their first features.
    splits = column >= 0
    used, column[splits] = np.unique(column[splits], return_inverse=True)
    n_codes = np.zeros(len(used), dtype=np.int64)
    n_codes[column[splits]] = bins.n_bins[splits]
    for one in shared:
        n_codes[column[one.features[0]]] = one.n_codes
    group = np.full(len(used), -1, dtype=np.int64)
    group[column[splits]] = groups[splits]
    return Layout(column, first, first > 0, group, n_codes)


class _Bundle:
    """Features of one consent group, or of base, and the sampled people who have a value in one of them."""

    def __init__(self, group: int, n_rows: int) -> None:
        self.group = group
        self.features: list[int] = []
        self.n_codes = 1
        self.conflicts = 0
        self._taken = np.zeros(n_rows, dtype=bool)

    def conflicts_with(self, rows: Array, most: int) -> int:
        """Return how many of the rows are taken; if there are more than ``most``, perhaps only those seen first."""
        seen = int(np.count_nonzero(self._taken[rows[:_GLANCE]]))
        return seen if seen > most else int(np.count_nonzero(self._taken[rows]))

    def add(self, feature: int, n_bins: int, rows: Array, conflicts: int) -> None:
        self.features.append(feature)
        self.n_codes += n_bins - 1
        self.conflicts += conflicts
        self._taken[rows] = True

    def close(self) -> None:
        """Forget who has a value; nothing is added any more."""
        self._taken = self._taken[:0]


def _bundles(sample: ColumnSample, bins: Bins, groups: Array) -> list[_Bundle]:
    """Put each feature that may be bundled where it fits best, those with most values first."""
    found: list[_Bundle] = []
    tried: list[_Bundle] = []
    rows_of = {f: _rows_with_value(sample, bins, f) for f in _candidates(sample, bins, groups)}
    most = int(CONFLICTS * sample.n_rows)
    for f in sorted(rows_of, key=lambda f: -len(rows_of[f])):
        rows, n_bins = rows_of[f], int(bins.n_bins[f])
        best, fewest = None, most + 1
        for one in tried:
            if one.group != groups[f] or one.n_codes + n_bins - 1 > MISSING:
                continue
            conflicts = one.conflicts_with(rows, most - one.conflicts)
            if one.conflicts + conflicts <= most and conflicts < fewest:
                best, fewest = one, conflicts
                if conflicts == 0:
                    break
        if best is None:
            best, fewest = _Bundle(int(groups[f]), sample.n_rows), 0
            found.append(best)
            tried.append(best)
            if len(tried) > TRIED:
                tried.pop(0).close()  # the one with most values, into which hardly anything fits
        best.add(f, n_bins, rows, fewest)
    for one in found:
        one.features.sort()
    return found


def _candidates(sample: ColumnSample, bins: Bins, groups: Array) -> list[int]:
    """Return the numbers with 0 in their first bin that lack a value only where their whole group is withheld."""
    withheld = {
        int(g): _rows_without_values(sample, np.flatnonzero(groups == g)) for g in np.unique(groups[groups >= 0])
    }
    return [
        f
        for f, feature in enumerate(bins.features)
        if feature.categories is None
        and feature.n_bins > 1
        and feature.zero_bin == 0
        and not bins.zero_as_missing
        and (
            feature.missing_type == "none"
            if groups[f] < 0
            else np.count_nonzero(np.isnan(sample.values[f])) == withheld[int(groups[f])]
        )
    ]


def _rows_without_values(sample: ColumnSample, features: Array) -> int:
    """Return how many sampled people have none of the features."""
    missing = np.concatenate([sample.positions[f][np.isnan(sample.values[f])] for f in features])
    return int(np.count_nonzero(np.bincount(missing, minlength=1) == len(features)))


def _rows_with_value(sample: ColumnSample, bins: Bins, feature: int) -> Array:
    above: Array = sample.positions[feature][sample.values[feature] > bins.features[feature].upper[0]]
    return above
