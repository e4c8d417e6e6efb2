"""The grower against its readable twin, tree by tree: the twin tries every split, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from native_pools import ALL, people_table, virtual_table
from twins.growth import Feature, NaiveGrower, NaiveTree, Rules

from pucboost._engines.native.grower import Crew, Grower
from pucboost._engines.native.kernels import histograms
from pucboost._engines.native.losses import Filler, Picks
from pucboost._engines.native.parameters import GrowthParams
from pucboost._engines.native.people import BinParams, Bins, ColumnSample, find_bins, find_layout
from pucboost._engines.native.pool import Pool, Tree
from pucboost._virtual.rows import VirtualTable

SMALL = {"num_leaves": 8, "min_data_in_leaf": 5, "learning_rate": 1.0}


class RandomGradients(Filler):
    """Gradients that lean on the columns, so that there is something to find."""

    def __init__(self, pool: Pool, values: Any, seed: int = 0, spread: float = 0.5) -> None:
        super().__init__(pool, np.zeros(1))
        generator = np.random.default_rng(seed)
        n = len(pool)
        slope = np.nan_to_num(values) @ generator.normal(size=values.shape[1]) + np.isnan(values) @ generator.normal(
            size=values.shape[1]
        )
        slope += 2.0 * np.sin(3.0 * np.nan_to_num(values)).sum(axis=1)  # categories have no order
        self.gradient = np.empty(n, dtype=np.float32)
        self.hessian = np.empty(n, dtype=np.float32)
        self.gradient[pool.virtual_order()] = slope + generator.normal(size=n)
        self.hessian[pool.virtual_order()] = np.exp(spread * generator.normal(size=n))

    def fill(self, picks: Picks, lo: int, hi: int, class_index: int, gradient_out: Any, hessian_out: Any) -> None:
        rows = picks.rows[lo:hi]
        gradient_out[lo:hi], hessian_out[lo:hi] = self.gradient[rows], self.hessian[rows]


def bins_of_row(row: Any, bins: Bins) -> list[int | None]:
    """Return the bins of a row of values, by definition."""
    made: list[int | None] = []
    for value, feature in zip(row, bins.features, strict=True):
        if feature.categories is not None:
            known = feature.categories.tolist()
            made.append(known.index(int(value)) if value == value and int(value) in known else None)
        elif value != value:
            made.append(None if feature.has_missing else feature.zero_bin)
        else:
            made.append(sum(bound < value for bound in feature.upper))
    return made


def grown_and_naive(
    virtual: VirtualTable,
    params: dict[str, Any],
    *,
    categorical: Sequence[int] = (),
    threads: int = 1,
    bundle: bool = False,
    share: float = 1.0,
    max_bin: int = 12,
) -> tuple[Tree, NaiveTree, Grower]:
    """Grow one tree on the pool of a virtual table, and one with the twin."""
    consent = virtual.rows.consent
    sample = ColumnSample.of(virtual.rows.source, ALL, 0)
    bins = find_bins(sample, BinParams(max_bin=max_bin, min_data_in_bin=1), consent.group_columns.tolist(), categorical)
    layout = find_layout(sample, bins, consent, bundle=bundle)
    pool = Pool.of(virtual, bins, layout, 1, for_growth=True, threads=1)
    table = virtual.rows.materialise()
    gradients = RandomGradients(pool, table)
    read = GrowthParams.read({**SMALL, **params})
    with Crew(threads) as crew:
        grower = Grower(pool, bins, layout, read, gradients, share, crew)
        (tree,) = grower.step(0)
    place = np.empty(len(pool), dtype=np.int64)
    place[pool.virtual_order()] = np.arange(len(pool))
    picked = np.sort(place[grower.picks.rows])
    in_pool = np.arange(len(pool))[pool.virtual_order()][picked]
    scales = [
        2.0
        ** np.floor(
            np.log2(min(2**14 / np.abs(values[in_pool].astype(float)).mean(), 2**22 / np.abs(values[in_pool]).max()))
        )
        for values in (gradients.gradient, gradients.hessian)
    ]
    rounded = [
        np.floor(values[in_pool] * np.float32(scale) + np.float32(0.5)).astype(float) / scale
        for values, scale in zip((gradients.gradient, gradients.hessian), scales, strict=True)
    ]
    monotone = read.monotone_constraints or (0,) * len(bins)
    features = [
        Feature(one.n_bins if one.can_split else 0, one.has_missing, one.categories is not None, sign)
        for one, sign in zip(bins.features, monotone, strict=True)
    ]
    rules = Rules(**{name: getattr(read, name) for name in Rules.__dataclass_fields__})
    naive = NaiveGrower([bins_of_row(row, bins) for row in table[picked]], *rounded, features, rules).grow()
    return tree, naive, grower


def assert_same(tree: Tree, naive: NaiveTree) -> None:
    """Raise unless both trees have the same splits, gains, values and rows."""
    assert tree.feature.tolist() == [split.feature for _, split in naive.splits]
    for node, (_, split) in enumerate(naive.splits):
        if split.left_bins is None:
            assert (tree.bin[node], bool(tree.default_left[node])) == (split.bin, split.missing_left), node
        else:
            assert set(tree.categories_left[node]) == split.left_bins, node
    assert tree.gain.tolist() == pytest.approx([split.gain for _, split in naive.splits], rel=1e-6)
    assert tree.leaf_value.tolist() == pytest.approx([leaf.value for leaf in naive.leaves], rel=1e-9)
    assert tree.leaf_count.tolist() == [len(leaf.rows) for leaf in naive.leaves]


def numbers(n: int = 160, seed: int = 0) -> VirtualTable:
    return virtual_table(people_table(n, seed=seed, values=9), {"a": [3], "b": [4, 6], "c": [5]}, copies=2.0)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"lambda_l2": 3.0, "min_gain_to_split": 2.0},
        {"lambda_l1": 4.0},
        {"max_delta_step": 0.4},
        {"path_smooth": 8.0},
        {"path_smooth": 2.0, "lambda_l1": 1.0, "lambda_l2": 1.0, "max_delta_step": 0.5},
        {"max_depth": 2},
        {"min_sum_hessian_in_leaf": 60.0, "min_data_in_leaf": 0},
        {"min_data_in_leaf": 40},
        {"monotone_constraints": [0, 1, -1, 1, 0, -1, 1], "num_leaves": 12},
        {"monotone_constraints": [1, 1, 1, 1, 1, 1, 1], "lambda_l2": 1.0},
        {
            "monotone_constraints": [0, 1, -1, 1, 0, -1, 1],
            "monotone_constraints_method": "intermediate",
            "num_leaves": 14,
        },
        {
            "monotone_constraints": [1, 1, 1, -1, 1, 1, 1],
            "monotone_constraints_method": "intermediate",
            "path_smooth": 2.0,
        },
        {"interaction_constraints": [[0, 1, 3], [2, 4], [5, 6]], "num_leaves": 12},
    ],
    ids=str,
)
def test_a_tree_is_that_of_its_twin(params: dict[str, Any], threads: int) -> None:
    tree, naive, _ = grown_and_naive(numbers(), params, threads=threads)
    assert len(naive.leaves) > 2
    assert_same(tree, naive)


@pytest.mark.parametrize("seed", range(6))
def test_random_tables(seed: int) -> None:
    tree, naive, _ = grown_and_naive(numbers(120, seed), {"min_data_in_leaf": 3, "num_leaves": 6}, share=0.7)
    assert_same(tree, naive)


def test_a_bag_of_some_rows() -> None:
    tree, naive, grower = grown_and_naive(numbers(), {}, share=0.5)
    assert 0.3 * len(grower.pool) < len(grower.picks.rows) < 0.7 * len(grower.pool)
    assert_same(tree, naive)


def categories(levels: int, n: int = 300) -> VirtualTable:
    generator = np.random.default_rng(levels)
    X = people_table(n, values=5)
    X[:, 1] = generator.integers(0, levels, n)
    X[:, 4] = np.where(np.isnan(X[:, 4]), np.nan, generator.integers(0, levels, n))
    return virtual_table(X, {"a": [3], "b": [4, 6], "c": [5]}, copies=2.0)


@pytest.mark.parametrize(
    ("levels", "params"),
    [
        (3, {}),
        (9, {"cat_smooth": 1.0, "min_data_per_group": 5, "cat_l2": 2.0}),
        (9, {"cat_smooth": 1.0, "min_data_per_group": 30, "cat_l2": 0.0, "max_cat_threshold": 2}),
        (12, {"cat_smooth": 30.0, "min_data_per_group": 1, "lambda_l1": 1.0, "path_smooth": 3.0, "cat_l2": 0.0}),
    ],
    ids=str,
)
@pytest.mark.parametrize("threads", [1, 2])
def test_categories(levels: int, params: dict[str, Any], threads: int) -> None:
    tree, naive, _ = grown_and_naive(categories(levels), params, categorical=[1, 4], threads=threads, max_bin=30)
    assert any(split.left_bins is not None for _, split in naive.splits)
    assert_same(tree, naive)


def test_bundles_change_nothing() -> None:
    generator = np.random.default_rng(0)
    n = 400
    X = people_table(n, values=4)
    kind, shared = generator.integers(0, 6, n), generator.random(n) < 0.7
    base = (kind[:, None] == np.arange(6)).astype(float)
    optional = np.where(shared[:, None], (generator.integers(0, 5, n)[:, None] == np.arange(5)).astype(float), np.nan)
    X = np.hstack([X[:, :3], base, optional])
    virtual = virtual_table(X, {"hot": list(range(9, 14))}, copies=1.8)
    params = {"num_leaves": 12, "min_data_in_leaf": 8}
    tree, naive, grower = grown_and_naive(virtual, params, bundle=True, threads=2)
    assert grower.layout.bundled.sum() >= 10
    assert any(grower.layout.bundled[split.feature] for _, split in naive.splits)
    assert_same(tree, naive)
    plain, _, _ = grown_and_naive(virtual, params)
    assert plain.gain.tolist() == tree.gain.tolist()


def test_a_table_without_anything_to_split() -> None:
    X = np.zeros((60, 3))
    X[:30, 2] = np.nan
    tree, naive, _ = grown_and_naive(virtual_table(X, [2], copies=1.5), {"min_data_in_leaf": 100})
    assert len(tree.feature) == len(naive.splits) == 0
    assert tree.leaf_value.tolist() == [0.0]  # as in LightGBM, it adds nothing


def test_many_leaves_and_scores() -> None:
    tree, naive, _ = grown_and_naive(numbers(500), {"num_leaves": 120, "min_data_in_leaf": 2}, share=0.6)
    assert len(naive.leaves) > 64
    assert_same(tree, naive)


@pytest.mark.parametrize("heavy", [False, True])
def test_histograms_are_poured_before_they_overflow(heavy: bool) -> None:
    generator = np.random.default_rng(1)
    n, words = 3000, 2
    codes = generator.integers(0, 2**63, (n, words)).astype(np.uint64)
    g = (generator.standard_cauchy(n) * 2**12 if heavy else generator.normal(size=n) * 2**20).clip(-(2**22), 2**22)
    h = generator.integers(0, 2**22, n)
    packed = (g.astype(np.int64) << 32) + h
    narrow, poured_g, poured_h = (np.full(words * 8 * histograms.STRIDE, 7, dtype=t) for t in (np.int64, float, float))
    histograms.clear_histogram(0, words, narrow)
    where = (0, words, 0, 0, False, narrow, poured_g, poured_h)
    _, _, poured = histograms.add_to_histogram(codes, packed, 5, n, *where)
    assert poured
    cells = words * 8
    wide_g, wide_h = np.zeros(cells * 256), np.zeros(cells * 256)
    for column in range(cells):
        parts = narrow[None], np.array([poured]), poured_g[None], poured_h[None]
        histograms.merge_column(*parts, column, column * 256, 255, 0, 1, wide_g, wide_h)
    by_column = codes.view(np.uint8)
    for column in range(cells):
        wanted_g = np.bincount(by_column[5:, column], g.astype(np.int64)[5:], 256)
        wanted_h = np.bincount(by_column[5:, column], h[5:], 256)
        assert wide_g[column * 256 : column * 256 + 256].tolist() == wanted_g.tolist()
        assert wide_h[column * 256 : column * 256 + 256].tolist() == wanted_h.tolist()


def test_feature_sampling() -> None:
    seen = set()
    for seed in range(20):
        tree, _, _ = grown_and_naive(numbers(80), {"feature_fraction": 0.4, "seed": seed, "num_leaves": 6})
        assert len(set(tree.feature.tolist())) <= 3
        seen |= set(tree.feature.tolist())
    assert len(seen) == 7


def test_sampling_by_node_and_extra_trees_depend_on_nothing_but_seeds() -> None:
    for params in ({"feature_fraction_bynode": 0.5}, {"extra_trees": True}):
        first, exhaustive, _ = grown_and_naive(numbers(), {**params, "seed": 3})
        again, _, _ = grown_and_naive(numbers(), {**params, "seed": 3}, threads=3)
        other, _, _ = grown_and_naive(numbers(), {**params, "seed": 4})
        assert first.gain.tolist() == again.gain.tolist()
        assert first.gain.tolist() != other.gain.tolist()
        assert first.gain[0] <= exhaustive.splits[0][1].gain * (1 + 1e-9)
