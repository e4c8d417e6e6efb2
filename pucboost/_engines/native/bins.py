"""From values to bytes: a sample of the people, the bins of each feature, and the columns of codes.

Numbers: each distinct value is a bin if there are few enough, else bins hold about as many people each, as in LightGBM.
The bounds between bins lie halfway between neighbouring values, in double precision, and around zero. Categories: one
bin each, by falling count, for 99 % of the people or more, whatever ``max_bin`` is; those who then have too few people
are read as missing. Of more categories than fit a byte the rarest are one (:mod:`pucboost._virtual.rare_categories`).

A feature has a column of codes of its own, or shares one with features that are never seen together with it. One-hot
columns of a categorical, and sparse columns in general, are mostly 0, and hardly ever two of them at once. As a bundle
they cost as much as one column.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal, TypeAlias

import numpy as np

from ..._common import Array
from ..._consent import Consent
from ..._kernels.compiling import run_in_ranges
from ..._kernels.rows import ZERO_THRESHOLD, append_nonzero_columns, count_nonzero_columns
from ..._tables.sources import RowSource
from ..._virtual.plan import child_seed
from ..._virtual.rare_categories import are_categories
from .kernels.codes import BOUNDS, MISSING, bin_ends, sort_keys

COUNTED = 1 << 26
"""In a sample with more values than this, those other than 0 are counted before memory for them is allocated."""


@dataclass(frozen=True)
class ColumnSample:
    """The values of each column other than 0, and the numbers of their rows: sparse columns take little memory."""

    n_rows: int
    values: tuple[Array, ...]
    """float64, in the order of the rows; NaN counts as a value."""
    positions: tuple[Array, ...]

    @classmethod
    def of(cls, source: RowSource, n_rows: int, seed: int) -> ColumnSample:
        """Return a sample of ``n_rows`` people, or of all; one random person from each of as many equal stretches."""
        rows = np.arange(source.n_rows)
        if n_rows < source.n_rows:
            bounds = np.arange(n_rows + 1) * source.n_rows // n_rows
            place = np.random.default_rng(child_seed(seed, 0)).random(n_rows)
            rows = bounds[:-1] + (place * np.diff(bounds)).astype(np.int64)
        step = source.rows_per_block
        blocks = [(start, rows[start : start + step]) for start in range(0, len(rows), step)]

        def read(block: Array) -> Array:
            everybody = len(rows) == source.n_rows
            return source.window(int(block[0]), int(block[-1]) + 1) if everybody else source.take(block)

        counts = np.full(source.n_columns, len(rows))
        if len(rows) * source.n_columns > COUNTED:
            counts[:] = 0
            for _, block in blocks:
                count_nonzero_columns(read(block), counts)
        first = np.cumsum(counts) - counts
        values, positions = (np.empty(int(counts.sum()), dtype=kind) for kind in (np.float64, np.int32))
        last = first.copy()
        for start, block in blocks:
            append_nonzero_columns(read(block), start, last, values, positions)
        cut = [slice(lo, hi) for lo, hi in zip(first.tolist(), last.tolist(), strict=True)]
        return cls(len(rows), tuple(values[part] for part in cut), tuple(positions[part] for part in cut))


# ----- bins

MissingType: TypeAlias = Literal["none", "nan", "zero"]

MOST_BINS = 254
"""Value bins of a feature. One code is for missing values, and a bundle needs one for "none of its features"."""

_SIGN = np.int64(-(2**63))


@dataclass(frozen=True)
class BinParams:
    """LightGBM's parameters of bins."""

    max_bin: int = 255
    max_bin_by_feature: tuple[int, ...] = ()
    min_data_in_bin: int = 3
    sample_rows: int = 200_000
    """`bin_construct_sample_cnt`."""
    seed: int = 1
    """`data_random_seed`."""
    zero_as_missing: bool = False

    def __post_init__(self) -> None:
        for name, given in (("max_bin", (self.max_bin,)), ("max_bin_by_feature", self.max_bin_by_feature)):
            for value in given:
                if not 2 <= value <= MISSING:
                    raise ValueError(
                        f"{name}: the native engine keeps a value in a byte, so there may be 2 to {MISSING} bins, got "
                        f"{value}. For more, use engine='lightgbm'."
                    )

    def value_bins(self, feature: int, has_missing: bool) -> int:
        """Return the most bins that the numbers of a feature may have; missing values are one more."""
        return max(1, self.bins_of(feature) - has_missing)

    def bins_of(self, feature: int) -> int:
        return self.max_bin_by_feature[feature] if self.max_bin_by_feature else self.max_bin


@dataclass(frozen=True)
class FeatureBins:
    """The bins of one feature.

    Parameters
    ----------
    n_bins
        Number of bins for values; 0 if only missing values were seen.
    upper
        Bounds between the bins of a number (float64, one fewer than bins): x ≤ upper[b] means bin b or a lower one.
    categories
        The category of each bin (int64); None for numbers.
    missing_type
        What is missing, as in LightGBM's models: nothing (NaN is read as 0), NaN, or NaN and zeros.
    has_missing
        Whether some row of training may lack the feature: by itself, or because it is optional.
    low, high
        The smallest and the largest number seen.
    """

    n_bins: int
    upper: Array
    categories: Array | None = None
    missing_type: MissingType = "none"
    has_missing: bool = False
    low: float = 0.0
    high: float = 0.0

    @property
    def can_split(self) -> bool:
        """Whether two rows can differ in this feature."""
        return self.n_bins > 1 or (self.n_bins == 1 and self.has_missing)

    @property
    def zero_bin(self) -> int:
        return int(np.searchsorted(self.upper, 0.0))


@dataclass(frozen=True)
class Bins:
    features: tuple[FeatureBins, ...]
    zero_as_missing: bool = False

    def __len__(self) -> int:
        return len(self.features)

    @cached_property
    def n_bins(self) -> Array:
        return np.array([feature.n_bins for feature in self.features], dtype=np.int64)

    @cached_property
    def is_category(self) -> Array:
        return np.array([feature.categories is not None for feature in self.features])

    @property
    def least(self) -> float:
        """The size up to which a number is missing; −1 if zeros are values."""
        return ZERO_THRESHOLD if self.zero_as_missing else -1.0

    @cached_property
    def missing_codes(self) -> Array:
        """The code that stands for NaN: where NaN is never missing, it is read as 0."""
        codes = [f.zero_bin if f.missing_type == "none" and f.categories is None else MISSING for f in self.features]
        return np.array(codes, dtype=np.uint8)

    @cached_property
    def search_tables(self) -> tuple[Array, Array]:
        """Bounds of each feature, or its categories in rising order, and the codes of these categories."""
        bounds = np.full((len(self), BOUNDS), np.inf)
        codes = np.full((len(self), BOUNDS), MISSING, dtype=np.uint8)
        for f, feature in enumerate(self.features):
            if feature.categories is None:
                bounds[f, : len(feature.upper)] = feature.upper
            else:
                order = np.argsort(feature.categories)
                bounds[f, : len(order)] = feature.categories[order]
                codes[f, : len(order)] = order
        return bounds, codes


def find_bins(
    sample: ColumnSample,
    params: BinParams,
    optional: Collection[int] = (),
    categorical: Collection[int] = (),
    threads: int = 1,
) -> Bins:
    """Return the bins of all columns; ``optional`` and ``categorical`` are positions of columns."""
    n_columns = len(sample.values)
    if params.max_bin_by_feature and len(params.max_bin_by_feature) != n_columns:
        raise ValueError(
            f"max_bin_by_feature lists {len(params.max_bin_by_feature)} numbers, but there are {n_columns} columns."
        )
    found: list[FeatureBins] = [None] * n_columns  # type: ignore[list-item]

    def find(lo: int, hi: int) -> None:
        for f in range(lo, hi):
            values = sample.values[f]
            bins_of = _category_bins if f in categorical else _number_bins
            found[f] = bins_of(values, sample.n_rows - len(values), params, f, f in optional)

    run_in_ranges(find, n_columns, threads, least=1)
    return Bins(tuple(found), params.zero_as_missing)


def _number_bins(values: Array, zeros: int, params: BinParams, feature: int, optional: bool) -> FeatureBins:
    missing_type: MissingType = "none"
    if params.zero_as_missing:
        missing_type, zeros = "zero", 0
    elif optional or bool(np.isnan(values).any()):
        missing_type = "nan"
    has_missing = missing_type != "none"
    # Infinite values are in the first or last bin, whatever its bound.
    distinct, counts = _distinct(_rising(values[np.isfinite(values)]), zeros)
    if not len(distinct):
        return FeatureBins(0, np.empty(0), None, missing_type, has_missing)
    upper = _bounds(distinct, counts, params.value_bins(feature, has_missing), params.min_data_in_bin)
    if len(upper) >= MOST_BINS:
        upper = _bounds(distinct, counts, MOST_BINS, params.min_data_in_bin)
    n_bins, low, high = len(upper) + 1, float(distinct[0]), float(distinct[-1])
    return FeatureBins(n_bins, upper, None, missing_type, has_missing, low, high)


def _bounds(distinct: Array, counts: Array, most: int, least: int) -> Array:
    """Return the bounds between at most ``most`` bins of at least ``least`` people each.

    As in LightGBM, zero has a bin of its own, and the numbers below and above it share the others by how many people
    have them. A bin for zero that nobody is in is left out.
    """
    if most < 2:
        return np.empty(0)
    lo, hi = np.searchsorted(distinct, (-ZERO_THRESHOLD, ZERO_THRESHOLD), side="right")
    n_below, n_above = int(counts[:lo].sum()), int(counts[hi:].sum())
    share = int(n_below / max(n_below + n_above, 1) * (most - 1))
    below = [_side(distinct[:lo], counts[:lo], max(1, share), least)] if n_below else []
    left = most - 1 - sum(len(part) + 1 for part in below)
    above = [_side(distinct[hi:], counts[hi:], left, least)] if n_above and left > 0 else []
    zeros = hi > lo
    to_zero = [np.array([-ZERO_THRESHOLD])] if below and (zeros or (n_above and not above)) else []
    from_zero = [np.array([ZERO_THRESHOLD])] if above and (zeros or below) else []
    return np.concatenate([*below, *to_zero, *from_zero, *above, np.empty(0)])


def _side(distinct: Array, counts: Array, most: int, least: int) -> Array:
    ends = np.empty(most, dtype=np.int64)
    ends = ends[: bin_ends(counts, most, least, ends)]
    return _halfway(distinct[ends[:-1]], distinct[ends[:-1] + 1])


def _rising(values: Array) -> Array:
    """Return the values in rising order. Their bits have the same order, once those of negative values are turned."""
    if len(values) == 0:
        return values
    bits = values.view(np.int64)
    keys = (bits ^ ((bits >> 63) | _SIGN)).view(np.uint64)
    other = np.empty_like(keys)
    bits = (other if sort_keys(keys, other, np.empty((8, 256), dtype=np.int64)) else keys).view(np.int64)
    return (bits ^ (~(bits >> 63) | _SIGN)).view(np.float64)


def _distinct(rising: Array, zeros: int) -> tuple[Array, Array]:
    """Return the distinct values and how often each occurs, with ``zeros`` further zeros."""
    first = np.flatnonzero(np.concatenate(([True], rising[1:] != rising[:-1]))) if len(rising) else np.empty(0, np.intp)
    distinct, counts = rising[first], np.diff(np.append(first, len(rising)))
    if zeros:
        place = np.searchsorted(distinct, 0.0)
        distinct, counts = np.insert(distinct, place, 0.0), np.insert(counts, place, zeros)
    return distinct, counts.astype(np.int64)


def _halfway(below: Array, above: Array) -> Array:
    """Return bounds with below ≤ bound < above, halfway where a double can be."""
    middle = below * 0.5 + above * 0.5
    return np.asarray(np.where((below <= middle) & (middle < above), middle, below))


def _category_bins(values: Array, zeros: int, params: BinParams, feature: int, optional: bool) -> FeatureBins:
    whole = np.trunc(values[are_categories(values)])
    distinct, counts = _distinct(_rising(whole), 0)
    if zeros:  # fractions below 1 are zeros, too
        extra = 1 if len(distinct) and distinct[0] == 0 else 0
        counts = np.concatenate(([zeros + counts[:extra].sum()], counts[extra:]))
        distinct = np.concatenate(([0.0], distinct[extra:]))
    order = np.argsort(-counts, kind="stable")
    has_missing = optional or len(whole) < len(values)
    most = min(len(order) + has_missing, params.bins_of(feature))
    kept = order[: min(_enough_categories(counts[order], params.min_data_in_bin, most), MOST_BINS)]
    has_missing = has_missing or len(kept) < len(order)
    categories = distinct[kept].astype(np.int64)
    return FeatureBins(len(kept), np.empty(0), categories, "nan", has_missing)


def _enough_categories(counts: Array, least: int, most: int) -> int:
    """Return how many of the categories, the most frequent first, get a bin; the others are read as missing.

    LightGBM's rule: as many as 99 % of the people have, and then as long as there are fewer than ``most`` bins, one for
    missing values among them. After the first two, those with fewer than ``least`` people have none, either.
    """
    n = np.arange(len(counts))
    before = np.cumsum(counts) - counts
    enough = (before >= np.floor(0.99 * counts.sum() + 0.5)) & (n + 1 >= most)
    ends = np.flatnonzero(enough | ((counts < least) & (n > 1)))
    return int(ends[0]) if len(ends) else len(counts)


# ----- columns of codes

TRIED = 64
"""Bundles that are tried for a feature."""

_GLANCE = 1024
"""People whose values suffice to reject most bundles."""


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
        Number of codes of each column, from 0 on; 255 is not counted.
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


def find_layout(
    sample: ColumnSample, bins: Bins, consent: Consent, *, bundle: bool = True, apart: Collection[int] = ()
) -> Layout:
    """Return the layout of the columns; with ``bundle``, features that are never seen together share one.

    Those that are known not to fit any bundle are ``apart``.
    """
    groups = feature_groups(consent)
    plain = Layout.plain(bins, consent)
    if not bundle:
        return plain
    column, first = plain.column.copy(), np.zeros(len(bins), dtype=np.int64)
    shared = [one for one in _bundles(sample, bins, groups, apart) if len(one.features) > 1]
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
    """Features of one consent group, or of base, and the sampled people who have a value in one of them.

    Groups are never mixed: code 255 of a bundle means that the whole group is withheld.
    """

    def __init__(self, group: int, n_rows: int) -> None:
        self.group = group
        self.features: list[int] = []
        self.n_codes = 1
        self.taken = np.zeros(n_rows, dtype=bool)

    def takes(self, group: int, n_bins: int, rows: Array) -> bool:
        """Return whether a feature fits in: nobody has a value both in it and in another one of the bundle."""
        if self.group != group or self.n_codes + n_bins - 1 > MISSING:
            return False
        return not self.taken[rows[:_GLANCE]].any() and not self.taken[rows].any()

    def add(self, feature: int, n_bins: int, rows: Array) -> None:
        self.features.append(feature)
        self.n_codes += n_bins - 1
        self.taken[rows] = True


def _bundles(sample: ColumnSample, bins: Bins, groups: Array, apart: Collection[int]) -> list[_Bundle]:
    """Put each feature that may be bundled into the first bundle that takes it, those with most values first."""
    found: list[_Bundle] = []
    tried: list[_Bundle] = []
    rows_of = {
        f: sample.positions[f][sample.values[f] > bins.features[f].upper[0]]
        for f in _candidates(sample, bins, groups)
        if f not in apart
    }
    for f in sorted(rows_of, key=lambda f: -len(rows_of[f])):
        rows, n_bins, group = rows_of[f], int(bins.n_bins[f]), int(groups[f])
        fitting = next((one for one in tried if one.takes(group, n_bins, rows)), None)
        if fitting is None:
            fitting = _Bundle(group, sample.n_rows)
            found.append(fitting)
            tried.append(fitting)
            if len(tried) > TRIED:
                del tried.pop(0).taken  # the one with most values, into which hardly anything fits
        fitting.add(f, n_bins, rows)
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


def not_alone(source: RowSource, bins: Bins, layout: Layout, threads: int) -> set[int]:
    """Return the features of bundles of which somebody has two, or lacks some but not all.

    Such a person has no code for both. A sample may not have them, and a model would read their values otherwise than
    training.
    """
    columns = np.unique(layout.column[layout.bundled])
    bundles = [np.flatnonzero(layout.bundled & (layout.column == column)) for column in columns]
    first = np.array([one.upper[0] if len(one.upper) else np.inf for one in bins.features])
    found: set[int] = set()

    def look(block: Array, lo: int, hi: int) -> None:
        for column, features in zip(columns, bundles, strict=True):
            values = block[lo:hi, features]
            has, lacks = values > first[features], np.isnan(values)
            two = has.sum(axis=1) > 1
            if layout.group[column] >= 0:
                some = lacks.any(axis=1) & ~lacks.all(axis=1)
                found.update(features[lacks[some].any(axis=0)].tolist())
            found.update(features[has[two].any(axis=0)].tolist())

    for lo, hi in source.blocks():
        block = source.window(lo, hi)
        run_in_ranges(partial(look, block), len(block), threads)
    return found
