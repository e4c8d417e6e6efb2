"""Bundles of features that are never seen together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from native_pools import ALL, encoded, masked_codes, virtual_table

from pucboost._consent import Consent
from pucboost._engines.native import people as bundles
from pucboost._engines.native.people import BinParams, Bins, ColumnSample, Layout, find_bins, find_layout
from pucboost._engines.native.pool import Pool
from pucboost._tables.containers import row_source

NAN = np.nan


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


def test_without_bundles() -> None:
    bins, layout = bins_and_layout(one_hot(500, 5, 0), bundle=False)
    assert layout.column.tolist() == [0, 1, 2, 3]
    assert not layout.bundled.any()
    assert layout.n_codes.tolist() == bins.n_bins.tolist() == [2] * 4


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


def test_few_conflicts_are_allowed() -> None:
    X = np.zeros((20_000, 2))
    X[:5000, 0] = 1
    X[5000:9000, 1] = 1
    X[:2, 1] = 1
    assert bins_and_layout(X)[1].bundled.all()
    X[2, 1] = 1
    assert not bins_and_layout(X)[1].bundled.any()


def test_the_best_bundle_is_chosen() -> None:
    """Of two bundles that a feature fits into, it joins the one with fewer conflicts, though that is tried later."""
    n = 40_000
    X = np.zeros((n, 3))
    X[: n // 2, 0] = 1
    X[n // 2 - 10 :, 1] = 1
    X[0, 2] = 1
    X[n - 3 :, 2] = 1
    _, layout = bins_and_layout(X)
    assert layout.column.tolist() == [0, 1, 0]  # one conflict with the first, three with the second


def test_a_bundle_has_at_most_255_codes() -> None:
    n = 30_000
    generator = np.random.default_rng(0)
    X = np.where(np.eye(4, dtype=bool)[generator.integers(0, 4, n)], generator.integers(1, 101, n)[:, None], 0.0)
    bins, layout = bins_and_layout(X)
    assert bins.n_bins.tolist() == [101] * 4
    assert sorted(layout.n_codes) == [201, 201]


def test_no_more_bundles_are_tried_than_needed(monkeypatch: Any) -> None:
    monkeypatch.setattr(bundles, "TRIED", 2)
    X = (np.random.default_rng(0).random((2000, 12)) < np.linspace(0.6, 0.3, 12)).astype(float)
    _, layout = bins_and_layout(X)
    assert layout.column.tolist() == list(range(12))


def test_constants_have_no_column() -> None:
    X = np.column_stack([one_hot(500, 3, 0), np.zeros(500), one_hot(500, 3, 1)])
    assert bins_and_layout(X)[1].column.tolist() == [0, 0, -1, 1, 1]
