"""Bins, codes and bundles: the kernels against their twins, and bins against what they promise."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from native_pools import ALL, encoded, masked_codes, people_table, virtual_table
from twins import codes as naive

from pucboost._consent import Consent
from pucboost._engines.native import bins as sampling
from pucboost._engines.native.bins import (
    MOST_BINS,
    BinParams,
    Bins,
    ColumnSample,
    FeatureBins,
    Layout,
    find_bins,
    find_layout,
    not_alone,
)
from pucboost._engines.native.kernels import codes as kernel
from pucboost._engines.native.pool import Pool
from pucboost._kernels.rows import ZERO_THRESHOLD
from pucboost._tables.sources import row_source

NAN = np.nan


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(1, 40), st.integers(0, 12))
def test_bin_ends(counts: list[int], max_bins: int, min_count: int) -> None:
    out = np.empty(max_bins, dtype=np.int64)
    n = kernel.bin_ends(np.array(counts), max_bins, min_count, out)
    ends = out[:n].tolist()
    assert ends == naive.bin_ends(counts, max_bins, min_count)
    assert ends == sorted(set(ends))  # all values once
    assert ends[-1] == len(counts) - 1
    assert len(ends) <= max_bins


def test_frequent_values_have_bins_of_their_own() -> None:
    counts = [1] * 50 + [100] + [1] * 50 + [90] + [1] * 50
    ends = naive.bin_ends(counts, 20, 3)
    assert {49, 50, 100, 101} <= set(ends)  # both are alone: the bins before them end just before


@given(
    hnp.arrays(np.uint64, st.integers(1, 80), elements=st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 300))),
    st.integers(0, 7),
)
def test_sort_keys(keys: Any, byte: int) -> None:
    for given_keys in (keys, (keys & np.uint64(255)) << np.uint64(8 * byte)):  # all bytes, or a single one
        wanted, other = sorted(given_keys.tolist()), np.empty_like(given_keys)
        moved = kernel.sort_keys(given_keys, other, np.empty((8, 256), dtype=np.int64))
        assert (other if moved else given_keys).tolist() == wanted


def bins_of(table: Any, *, optional: Any = (), categorical: Any = (), **params: Any) -> Bins:
    source = row_source(np.asarray(table, dtype=np.float64))
    return find_bins(ColumnSample.of(source, ALL, 0), BinParams(**params), optional, categorical)


numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-3, 3).map(float),
    st.sampled_from([0.0, -0.0, NAN, np.inf, -np.inf, 1e-36, -1e-30, 5e-324, 1.7e308, -1.7e308, 0.5]),
)


@pytest.mark.parametrize("zero_as_missing", [False, True])
@pytest.mark.parametrize("optional", [(), (0, 1)])
@given(table=hnp.arrays(np.float64, (25, 2), elements=numbers), max_bin=st.integers(2, 30), min_data=st.integers(0, 4))
@settings(max_examples=40)
def test_codes_of_numbers(zero_as_missing: bool, optional: Any, table: Any, max_bin: int, min_data: int) -> None:
    bins = bins_of(table, optional=optional, max_bin=max_bin, min_data_in_bin=min_data, zero_as_missing=zero_as_missing)
    least = ZERO_THRESHOLD if zero_as_missing else -1.0
    codes = encoded(bins, table)
    for f, feature in enumerate(bins.features):
        missing = kernel.MISSING if feature.has_missing else feature.zero_bin
        assert codes[f].tolist() == [naive.number_code(x, feature.upper.tolist(), missing, least) for x in table[:, f]]
        assert feature.n_bins == len(feature.upper) + 1 or feature.n_bins == len(feature.upper) == 0
        assert np.all(np.diff(feature.upper) > 0)
        assert np.isfinite(feature.upper).all()
        assert feature.n_bins + feature.has_missing <= max(max_bin, 2)
        present = codes[f][codes[f] != kernel.MISSING]
        assert not len(present) or feature.n_bins == 0 or present.max() < feature.n_bins


@given(hnp.arrays(np.float64, (30, 1), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_bounds_separate_all_values_if_there_are_few(table: Any) -> None:
    table = np.where(np.abs(table) <= ZERO_THRESHOLD, 0.0, table)
    codes = encoded(bins_of(table, min_data_in_bin=1), table)[0]
    assert codes.tolist() == np.unique(table[:, 0], return_inverse=True)[1].tolist()


@pytest.mark.parametrize("kind", ["amounts", "differences", "counts", "mostly zero", "below zero"])
def test_bins_of_numbers_are_those_of_lightgbm(kind: str, tmp_path: Any) -> None:
    """Zero has a bin of its own, and ``min_data_in_bin`` counts on each side of it."""
    rng, path = np.random.default_rng(len(kind)), tmp_path / "bins.txt"
    for _ in range(16):
        n, max_bin = int(rng.choice([200, 1_000])), int(rng.choice([2, 3, 8, 63, 254]))
        values = {
            "amounts": rng.exponential(size=n) + 0.1, "differences": rng.normal(size=n),
            "counts": rng.poisson(rng.choice([0.5, 5, 100]), n), "below zero": -rng.poisson(30.0, n),
            "mostly zero": np.where(rng.random(n) < 0.6, 0.0, np.round(9 * rng.normal(size=n))),
        }[kind].astype(float)  # fmt: skip
        values[rng.random(n) < rng.choice([0.0, 0.2])] = NAN
        params = {"max_bin": max_bin, "min_data_in_bin": int(rng.choice([1, 3, 20, 100]))}
        quiet = {"verbosity": -1, "num_threads": 1, "feature_pre_filter": False}
        lgb.Dataset(values[:, None], np.zeros(n), params={**params, **quiet}).construct()._dump_text(path)
        theirs = [line.strip(" ,") for line in path.read_text().splitlines()[-n:]]
        mine = encoded(bins_of(values[:, None], **params), values[:, None])[0].tolist()
        assert len(set(zip(theirs, mine, strict=True))) == len(set(mine)) in (len(set(theirs)), 1), params


def test_many_values_fill_all_bins_equally() -> None:
    table = np.random.default_rng(0).normal(size=(25_400, 1))
    bins = bins_of(table)
    (feature,) = bins.features
    assert feature.n_bins == MOST_BINS
    assert (feature.low, feature.high) == (table.min(), table.max())
    counts = np.bincount(encoded(bins, table)[0])
    assert counts.min() >= 95
    assert counts.max() <= 105


@given(hnp.arrays(np.float64, (40, 1), elements=st.one_of(st.integers(-2, 9).map(float), numbers)), st.integers(2, 8))
def test_codes_of_categories(table: Any, max_bin: int) -> None:
    bins = bins_of(table, categorical=[0], max_bin=max_bin, min_data_in_bin=2)
    (feature,) = bins.features
    assert feature.categories is not None
    assert feature.n_bins == len(feature.categories)
    codes = encoded(bins, table)[0]
    assert codes.tolist() == [naive.category_code(x, feature.categories.tolist()) for x in table[:, 0]]
    assert feature.has_missing == (codes == kernel.MISSING).any()
    counts = np.bincount(codes[codes != kernel.MISSING], minlength=1)
    assert np.all(np.diff(counts) <= 0)


@given(
    st.lists(st.one_of(st.integers(1, 9), st.integers(50, 200)), min_size=2, max_size=40),
    st.integers(0, 4), st.integers(3, 20), st.integers(1, 5),
)  # fmt: skip
@settings(max_examples=60)
def test_as_many_categories_as_lightgbm(counts: list[int], missing: int, max_bin: int, min_data: int) -> None:
    """Those of 99 % of the people have a bin, however small ``max_bin`` is."""
    values = np.concatenate([np.repeat(np.arange(len(counts)), counts).astype(float), np.full(missing, NAN)])
    params = {"max_bin": max_bin, "min_data_in_bin": min_data}
    quiet = {"verbosity": -1, "num_threads": 1, "min_data_in_leaf": 1, "feature_pre_filter": False}
    theirs = lgb.Dataset(values[:, None], values, categorical_feature=[0], params={**params, **quiet}).construct()
    n_bins = bins_of(values[:, None], categorical=[0], **params).n_bins[0]
    assert n_bins == max(theirs.feature_num_bin(0), 1) - 1  # theirs counts missing values


def test_rare_categories_are_missing() -> None:
    (feature,) = bins_of([[7.9]] * 5 + [[2.0]] * 4 + [[0.0]] * 4 + [[5.0]] * 2, categorical=[0]).features
    assert feature.categories is not None
    assert feature.categories.tolist() == [7, 0, 2]
    assert feature.has_missing
    assert feature.missing_type == "nan"


def test_what_is_missing() -> None:
    table = [[1.0, NAN, 0.0, 3.0, NAN], [2.0, 4.0, 1.0, 3.0, NAN]] * 3
    plain = bins_of(table, optional=[4]).features
    assert [feature.missing_type for feature in plain] == ["none", "nan", "none", "none", "nan"]
    assert [feature.has_missing for feature in plain] == [False, True, False, False, True]
    assert [feature.n_bins for feature in plain] == [2, 1, 2, 1, 0]
    assert [feature.can_split for feature in plain] == [True, True, True, False, False]
    zeros = bins_of(table, zero_as_missing=True).features
    assert {feature.missing_type for feature in zeros} == {"zero"}
    assert zeros[2].n_bins == 1


def test_nan_is_zero_where_nobody_lacked_the_feature() -> None:
    bins = bins_of([[-1.0], [0.0], [1.0]] * 3)
    assert encoded(bins, [[NAN], [0.0], [-1.0], [5.0]])[0].tolist() == [1, 1, 0, 2]


def test_a_bundle_keeps_who_is_not_in_the_first_bin() -> None:
    bins = Bins((FeatureBins(2, np.array([0.5])), FeatureBins(3, np.array([0.5, 1.5]), None, "nan", True)))
    rows: list[list[float]] = [[0, 0], [1, 0], [0, 1], [0, 2], [0, NAN], [1, 2]]
    codes = encoded(bins, rows, column=[0, 0], first=[1, 2], bundled=[True, True])
    wanted = []
    for a, b in rows:
        code = naive.bundled_code(0, naive.number_code(a, [0.5], 0, -1), 1)
        wanted.append(naive.bundled_code(code, naive.number_code(b, [0.5, 1.5], 255, -1), 2))
    assert codes[0].tolist() == wanted == [0, 1, 2, 3, 255, 3]


def test_pack_rows() -> None:
    for n_columns in (0, 1, 8, 9, 23):
        codes = np.random.default_rng(n_columns).integers(0, 256, (n_columns, 11), dtype=np.uint8)
        out = np.zeros((11, max(1, -(-n_columns // 8))), dtype=np.uint64)
        for lo, hi in ((0, 4), (4, 11)):
            kernel.pack_rows(codes, lo, hi, out)
        assert out.tolist() == [naive.packed(row) for row in codes.T.tolist()]


def test_a_sample_covers_the_table_evenly() -> None:
    source = row_source(np.arange(1.0, 1001.0).reshape(-1, 1))
    sample = ColumnSample.of(source, 100, seed=3)
    assert sample.n_rows == 100
    assert ((sample.values[0] - 1) // 10).tolist() == list(range(100))  # one of each ten
    again, other = ColumnSample.of(source, 100, seed=3), ColumnSample.of(source, 100, seed=4)
    assert np.array_equal(sample.values[0], again.values[0])
    assert not np.array_equal(sample.values[0], other.values[0])


def test_a_wide_sample_is_counted_first(monkeypatch: Any) -> None:
    table = people_table(300)
    table[::3, 1] = 0.0
    source = row_source(table)
    wanted = ColumnSample.of(source, 200, seed=0)
    monkeypatch.setattr(sampling, "COUNTED", 0)
    found = ColumnSample.of(source, 200, seed=0)
    for ours, theirs in zip((found.values, found.positions), (wanted.values, wanted.positions), strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert np.array_equal(a, b, equal_nan=True)
    assert len(found.values[1]) < 150


def test_bins_on_several_threads() -> None:
    sample = ColumnSample.of(row_source(people_table(500)), ALL, 0)
    one, three = find_bins(sample, BinParams(), [3, 4]), find_bins(sample, BinParams(), [3, 4], threads=3)
    for a, b in zip(one.features, three.features, strict=True):
        assert np.array_equal(a.upper, b.upper)
        assert (a.n_bins, a.missing_type) == (b.n_bins, b.missing_type)


def test_numbers_of_bins() -> None:
    table = np.random.default_rng(0).normal(size=(500, 2))
    assert bins_of(table, max_bin_by_feature=(5, 17)).n_bins.tolist() == [4, 16]  # and one for zero, which is empty
    for params, text in (
        ({"max_bin": 256}, "max_bin: .* 2 to 255 bins, got 256. For more, use engine='lightgbm'"),
        ({"max_bin_by_feature": (9, 1)}, "max_bin_by_feature: .* got 1"),
        ({"max_bin_by_feature": (9, 9, 9)}, "max_bin_by_feature lists 3 numbers, but there are 2 columns"),
    ):
        with pytest.raises(ValueError, match=text):
            bins_of(table, **params)


# ----- bundles of features that are never seen together


def bins_and_layout(
    X: Any, optional: Any = (), *, bundle: bool = True, categorical: Any = (), **params: Any
) -> tuple[Bins, Layout]:
    source = row_source(np.asarray(X, dtype=np.float64))
    sample, consent = ColumnSample.of(source, ALL, 0), Consent.declare(optional, source.names)
    bins = find_bins(sample, BinParams(**params), consent.group_columns.tolist(), categorical)
    return bins, find_layout(sample, bins, consent, bundle=bundle)


def one_hot(n: int, levels: int, seed: int) -> Any:
    """Return a column for each of ``levels`` − 1 levels."""
    return np.eye(levels)[np.random.default_rng(seed).integers(0, levels, n)][:, 1:]


def decoded(codes: Any, bins: Bins, layout: Layout, feature: int) -> Any:
    """Return the bins of a feature from the codes of its column, 255 where missing."""
    code = codes[:, layout.column[feature]].astype(int)
    if not layout.bundled[feature]:
        return code
    number = code - layout.first[feature] + 1
    inside = (number >= 1) & (number < bins.n_bins[feature])
    return np.where(code == 255, 255, np.where(inside, number, 0))


def test_one_hot_columns_share_a_column() -> None:
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.normal(size=2000), one_hot(2000, 6, 1), one_hot(2000, 4, 2)])
    order = [0, 6, 1, 7, 2, 3, 8, 4, 5]  # the columns of the two variables in turn
    _, layout = bins_and_layout(X[:, order])
    column = layout.column.tolist()
    assert column[0] == 0
    assert {column[order.index(k)] for k in range(1, 6)} == {2}
    assert {column[order.index(k)] for k in range(6, 9)} == {1}
    assert layout.n_codes[1:].tolist() == [4, 6]
    assert layout.bundled.tolist() == [False] + [True] * 8
    assert sorted(layout.first[layout.column == 2]) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("optional", [{}, {"a": [0, 1, 2, 3], "b": [5, 6, 7, 8, 9]}])
def test_the_pool_holds_the_bins_of_bundled_features(optional: Any) -> None:
    n = 3000
    generator = np.random.default_rng(3)
    counts = one_hot(n, 6, 2) * generator.integers(1, 5, n)[:, None]
    X = np.column_stack([one_hot(n, 5, 1), generator.normal(size=n), counts])
    for columns in optional.values():
        X[np.ix_(generator.random(n) < 0.3, columns)] = NAN
    virtual = virtual_table(X, optional)
    bins, layout = bins_and_layout(X, optional)
    assert layout.n_columns == 3
    assert layout.group.tolist() == ([0, -1, 1] if optional else [-1, -1, -1])
    pool = Pool.of(virtual, bins, layout, 1, for_growth=True, threads=1)
    codes = masked_codes(pool)[pool.virtual_order()]
    wanted = encoded(bins, virtual.rows.materialise())
    for f in range(10):
        assert decoded(codes, bins, layout, f).tolist() == wanted[f].tolist()
        assert (codes[:, layout.column[f]][codes[:, layout.column[f]] < 255] < layout.n_codes[layout.column[f]]).all()


def test_groups_are_never_mixed() -> None:
    X = one_hot(1000, 7, 0)
    _, layout = bins_and_layout(X, {"a": [0, 3], "b": [1, 4]})
    assert layout.column.tolist() == [0, 1, 2, 0, 1, 2]
    assert layout.group.tolist() == [0, 1, -1]


def test_who_may_not_be_bundled() -> None:
    X = one_hot(1000, 9, 0)
    X[0, 0] = NAN  # a gap of its own
    X[:, 1] = -X[:, 1]  # 0 is not in the first bin
    _, layout = bins_and_layout(X, categorical=[2])
    assert layout.bundled.tolist() == [False] * 3 + [True] * 5
    assert not bins_and_layout(X, zero_as_missing=True)[1].bundled.any()


def test_a_gap_within_a_shared_group() -> None:
    X = one_hot(1000, 5, 0)
    X[:300] = NAN
    assert bins_and_layout(X, {"a": [0, 1, 2, 3]})[1].bundled.all()
    X[500, 2] = NAN
    assert bins_and_layout(X, {"a": [0, 1, 2, 3]})[1].bundled.tolist() == [True, True, False, True]


def test_who_has_two_values() -> None:
    """There is no code for both, and a model reads both."""
    X = np.zeros((20_000, 2))
    X[:5000, 0] = 1
    X[5000:9000, 1] = 1
    assert bins_and_layout(X)[1].bundled.all()
    X[2, 1] = 1
    assert not bins_and_layout(X)[1].bundled.any()


def test_who_is_not_in_the_sample() -> None:
    X = one_hot(1000, 9, 0)
    X[:300, :4] = NAN
    bins, layout = bins_and_layout(X, {"a": [0, 1, 2, 3]})
    assert layout.bundled.all()
    assert not_alone(row_source(X), bins, layout, 1) == set()
    X[500, 2] = NAN
    X[501, 4:] = [0.0, 1.0, 0.0, 2.0]
    X[502, 6] = NAN  # of a base column without missing values, read as 0
    for threads in (1, 3):
        assert not_alone(row_source(X), bins, layout, threads) == {2, 5, 7}
    consent = Consent.declare({"a": [0, 1, 2, 3]}, [str(k) for k in range(8)])
    apart = find_layout(ColumnSample.of(row_source(X), ALL, 0), bins, consent, apart={2, 5, 7})
    assert apart.bundled.tolist() == [True, True, False, True, True, False, True, False]


def test_a_bundle_has_at_most_255_codes() -> None:
    n = 30_000
    generator = np.random.default_rng(0)
    X = np.where(np.eye(4, dtype=bool)[generator.integers(0, 4, n)], generator.integers(1, 101, n)[:, None], 0.0)
    bins, layout = bins_and_layout(X)
    assert bins.n_bins.tolist() == [101] * 4
    assert sorted(layout.n_codes) == [201, 201]


def test_no_more_bundles_are_tried_than_needed(monkeypatch: Any) -> None:
    monkeypatch.setattr(sampling, "TRIED", 2)
    X = (np.random.default_rng(0).random((2000, 12)) < np.linspace(0.6, 0.3, 12)).astype(float)
    _, layout = bins_and_layout(X)
    assert layout.column.tolist() == list(range(12))


def test_constants_have_no_column_and_bundles_can_be_switched_off() -> None:
    X = np.column_stack([one_hot(500, 3, 0), np.zeros(500), one_hot(500, 3, 1)])
    assert bins_and_layout(X)[1].column.tolist() == [0, 0, -1, 1, 1]
    _, layout = bins_and_layout(X, bundle=False)
    assert layout.column.tolist() == [0, 1, -1, 2, 3]
    assert not layout.bundled.any()
    assert layout.n_codes.tolist() == [2] * 4
