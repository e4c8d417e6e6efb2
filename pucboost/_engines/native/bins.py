"""Bins: how the values of a feature become at most 254 codes, much as in LightGBM.

Numbers: each distinct value is a bin if there are few enough, else bins hold about as many people each. The bounds
between bins lie halfway between neighbouring values, in double precision. Categories: one bin each, by falling count;
rare ones, which do not fit or have too few people, are read as missing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from ..._arrays import Array
from ..._kernels.native.codes import BOUNDS, MISSING, bin_ends, sort_keys
from ..._kernels.rows import ZERO_THRESHOLD
from ..._kernels.threads import run_in_ranges
from ..._virtual.rare_categories import are_categories
from .sample import ColumnSample

MissingType: TypeAlias = Literal["none", "nan", "zero"]

MOST_BINS = 254
"""Value bins of a feature. One code is for missing values, and a bundle needs one for "none of its features"."""

_SIGN = np.int64(-(2**63))


@dataclass(frozen=True)
class BinParams:
    """What LightGBM's parameters say about bins."""

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
        """Return how many bins the values of a feature may have; missing values are one more."""
        most = self.max_bin_by_feature[feature] if self.max_bin_by_feature else self.max_bin
        return max(1, min(most - has_missing, MOST_BINS))


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
        What is missing, as LightGBM's models say it: nothing (NaN is read as 0), NaN, or NaN and zeros.
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
        """The bin of the number 0."""
        return int(np.searchsorted(self.upper, 0.0))


@dataclass(frozen=True)
class Bins:
    """The bins of all features."""

    features: tuple[FeatureBins, ...]
    zero_as_missing: bool = False

    def __len__(self) -> int:
        return len(self.features)

    @cached_property
    def n_bins(self) -> Array:
        """Number of value bins of each feature (int64)."""
        return np.array([feature.n_bins for feature in self.features], dtype=np.int64)

    @cached_property
    def is_category(self) -> Array:
        """Which features are categories."""
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
    most = params.value_bins(feature, has_missing)
    ends = np.empty(most, dtype=np.int64)
    ends = ends[: bin_ends(counts, most, params.min_data_in_bin, ends)]
    upper = _halfway(distinct[ends[:-1]], distinct[ends[:-1] + 1])
    return FeatureBins(len(ends), upper, None, missing_type, has_missing, float(distinct[0]), float(distinct[-1]))


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
    enough = _enough_categories(counts[order], params.min_data_in_bin, has_missing)
    kept = order[: min(enough, params.value_bins(feature, True))]
    has_missing = has_missing or len(kept) < len(order)
    categories = distinct[kept].astype(np.int64)
    return FeatureBins(len(kept), np.empty(0), categories, "nan", has_missing)


def _enough_categories(counts: Array, least: int, has_missing: bool) -> int:
    """Return how many of the categories, the most frequent first, get a bin; the others are as good as missing.

    By LightGBM's rule: if nothing else is missing, the rarest has none where the others are 99 % of the people. After
    the first two, those with fewer than ``least`` people have none, either.
    """
    rare = np.flatnonzero((counts < least) & (np.arange(len(counts)) > 1))
    enough = int(rare[0]) if len(rare) else len(counts)
    if not has_missing and enough == len(counts) > 1 and counts[:-1].sum() >= np.floor(0.99 * counts.sum() + 0.5):
        enough -= 1
    return enough
