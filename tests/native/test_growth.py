"""The grower against its readable twin, tree by tree: the twin tries every split, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from native_pools import ALL, bins_in, people_table, virtual_table
from twins.growth import Feature, NaiveGrower, NaiveTree, Rules

import pucboost as puc
from pucboost._engines.native.bins import BinParams, Bins, ColumnSample, find_bins, find_layout
from pucboost._engines.native.engine import read_growth_params
from pucboost._engines.native.grower import EVERY, Crew, Grower, bag_probability
from pucboost._engines.native.kernels import codes, histograms
from pucboost._engines.native.kernels.growth import Tree
from pucboost._engines.native.losses import Filler, Picks
from pucboost._engines.native.pool import Pool
from pucboost._kernels.masks import counter_hash
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


@dataclass
class Grown:
    """A tree grown on the pool of a virtual table, and all that its twin needs."""

    tree: Tree
    grower: Grower
    bins: Bins
    gradients: RandomGradients
    table: Any
    optional: list[int]

    def twin(self) -> NaiveTree:
        """Grow the tree that the twin finds on the same bag, with the same rounded gradients."""
        pool, params = self.grower.pool, self.grower.params
        place = np.empty(len(pool), dtype=np.int64)
        place[pool.virtual_order()] = np.arange(len(pool))
        picked = np.sort(place[self.grower.picks.rows])
        in_pool = np.arange(len(pool))[pool.virtual_order()][picked]
        rounded = []
        for values in (self.gradients.gradient[in_pool], self.gradients.hessian[in_pool]):
            most = min(2**14 / np.abs(values.astype(float)).mean(), 2**22 / np.abs(values).max())
            scale = 2.0 ** np.floor(np.log2(most))
            rounded.append(np.floor(values * np.float32(scale) + np.float32(0.5)).astype(float) / scale)
        monotone = params.monotone_constraints or (0,) * len(self.bins)
        optional = self.optional
        features = [
            Feature(
                one.n_bins if one.can_split else 0, one.has_missing, one.categories is not None, sign,
                f in optional and one.has_missing and sign == 0,
            )
            for f, (one, sign) in enumerate(zip(self.bins.features, monotone, strict=True))
        ]  # fmt: skip
        rules = Rules(**{name: getattr(params, name) for name in Rules.__dataclass_fields__})
        rows = [bins_of_row(row, self.bins) for row in self.table[picked]]
        return NaiveGrower(rows, *rounded, features, rules).grow()


def grown(
    virtual: VirtualTable,
    params: dict[str, Any],
    *,
    categorical: Sequence[int] = (),
    threads: int = 1,
    bundle: bool = False,
    share: float = 1.0,
    max_bin: int = 12,
    seed: int = 0,
    silence_first: bool = False,
) -> Grown:
    """Grow one tree on the pool of a virtual table."""
    consent = virtual.rows.consent
    sample = ColumnSample.of(virtual.rows.source, ALL, 0)
    bins = find_bins(sample, BinParams(max_bin=max_bin, min_data_in_bin=1), consent.group_columns.tolist(), categorical)
    layout = find_layout(sample, bins, consent, bundle=bundle)
    pool = Pool.of(virtual, bins, layout, 1, for_growth=True, threads=1)
    table = virtual.rows.materialise()
    gradients = RandomGradients(pool, table, seed)
    with Crew(threads) as crew:
        growth = replace(read_growth_params({**SMALL, **params}), silence_first=silence_first)
        grower = Grower(pool, bins, layout, growth, gradients, share, crew)
        (tree,) = grower.step(EVERY - 1)  # which may begin with what is missing
    return Grown(tree, grower, bins, gradients, table, consent.group_columns.tolist())


def assert_same(tree: Tree, naive: NaiveTree) -> None:
    assert tree.feature.tolist() == [split.feature for _, split in naive.splits]
    for node, (_, split) in enumerate(naive.splits):
        if split.left_bins is None:
            assert (tree.bin[node], bool(tree.default_left[node])) == (split.bin, split.missing_left), node
        else:
            assert set(bins_in(tree.left_set[node])) == split.left_bins, node
    assert tree.gain.tolist() == pytest.approx([split.gain for _, split in naive.splits], rel=1e-6)
    assert tree.leaf_value.tolist() == pytest.approx([leaf.value for leaf in naive.leaves], rel=1e-9)
    assert tree.leaf_count.tolist() == [len(leaf.rows) for leaf in naive.leaves]


def numbers(n: int = 160, seed: int = 0) -> VirtualTable:
    return virtual_table(people_table(n, seed=seed, values=9), {"a": [3], "b": [4, 6], "c": [5]}, copies=2.0)


MONOTONE: dict[str, Any] = {"monotone_constraints": [0, 1, -1, 1, 0, -1, 1]}
INTERMEDIATE = {"monotone_constraints_method": "intermediate"}


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
        {**MONOTONE, "num_leaves": 12},
        {"monotone_constraints": [1, 1, 1, 1, 1, 1, 1], "lambda_l2": 1.0},
        {**MONOTONE, **INTERMEDIATE, "num_leaves": 14},
        {"monotone_constraints": [1, 1, 1, -1, 1, 1, 1], **INTERMEDIATE, "path_smooth": 2.0},
        {"interaction_constraints": [[0, 1, 3], [2, 4], [5, 6]], "num_leaves": 12},
    ],
    ids=str,
)
def test_a_tree_is_that_of_its_twin(params: dict[str, Any]) -> None:
    one, three = (grown(numbers(), params, threads=threads) for threads in (1, 3))
    naive = one.twin()
    assert len(naive.leaves) > 2
    assert_same(one.tree, naive)
    assert_same(three.tree, naive)


def test_random_tables_and_bags() -> None:
    for seed in range(6):
        one = grown(numbers(120, seed), {"min_data_in_leaf": 3, "num_leaves": 6}, share=0.7)
        assert 0.5 * len(one.grower.pool) < len(one.grower.picks.rows) < 0.9 * len(one.grower.pool)
        assert_same(one.tree, one.twin())


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
def test_categories(levels: int, params: dict[str, Any]) -> None:
    virtual = categories(levels)
    one, two = (grown(virtual, params, categorical=[1, 4], threads=threads, max_bin=30) for threads in (1, 2))
    naive = one.twin()
    assert any(split.left_bins is not None for _, split in naive.splits)
    assert_same(one.tree, naive)
    assert_same(two.tree, naive)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"lambda_l1": 2.0, "lambda_l2": 3.0, "path_smooth": 4.0},
        {"max_depth": 3},
        {"monotone_constraints": [0, 0, 0, 1, 0, 0, 0]},
        {"monotone_constraints": [0, 0, 0, 1, 0, -1, 0], **INTERMEDIATE},
    ],
    ids=str,
)
def test_trees_that_begin_with_what_is_missing(params: dict[str, Any]) -> None:
    for categorical in ((), (1, 4)):
        virtual = categories(9) if categorical else numbers()
        given: dict[str, Any] = {"categorical": categorical, "max_bin": 30 if categorical else 12}
        one, three = (grown(virtual, params, threads=n, silence_first=True, **given) for n in (1, 3))
        naive = one.twin()
        _, first = naive.splits[0]
        assert first.feature in one.optional
        assert (first.bin, first.missing_left) == (one.bins.features[first.feature].n_bins - 1, False)
        assert not (params.get("monotone_constraints") or [0] * 7)[first.feature]
        assert_same(one.tree, naive)
        assert_same(three.tree, naive)


def test_when_no_tree_begins_with_what_is_missing() -> None:
    """Where that would narrow the tree or take much of it, and where nothing is gained by it."""
    for params in ({"num_leaves": 7}, {"max_depth": 2}, {"interaction_constraints": [[0, 1, 3], [2, 4], [5, 6]]}):
        with_it, without = (grown(numbers(), params, silence_first=flag) for flag in (True, False))
        assert with_it.tree.feature.tolist() == without.tree.feature.tolist()
        assert_same(with_it.tree, without.twin())
    little_gain = grown(numbers(), {"min_gain_to_split": 400.0}, silence_first=True)
    naive = little_gain.twin()
    assert naive.splits[0][1].feature not in little_gain.optional
    assert_same(little_gain.tree, naive)


def test_bundles_change_nothing() -> None:
    to_the_right = 0
    for seed in range(4):
        splits = [split for _, split in twin_of_bundles(seed).splits if split.feature >= 9 and split.bin == 0]
        to_the_right += sum(not split.missing_left for split in splits)
    assert to_the_right  # with who has the value go those who withhold it, though their codes are not neighbours


def twin_of_bundles(seed: int) -> NaiveTree:
    generator = np.random.default_rng(seed)
    n = 400
    X = people_table(n, values=4)
    kind, shared = generator.integers(0, 6, n), generator.random(n) < 0.7
    base = (kind[:, None] == np.arange(6)).astype(float)
    optional = np.where(shared[:, None], (generator.integers(0, 5, n)[:, None] == np.arange(5)).astype(float), np.nan)
    X = np.hstack([X[:, :3], base, optional])
    virtual = virtual_table(X, {"hot": list(range(9, 14))}, copies=1.8)
    params = {"num_leaves": 12, "min_data_in_leaf": 8}
    bundled = grown(virtual, params, bundle=True, threads=2, seed=seed)
    naive, layout = bundled.twin(), bundled.grower.layout
    assert layout.bundled.sum() >= 10
    assert any(layout.bundled[split.feature] for _, split in naive.splits)
    assert_same(bundled.tree, naive)
    assert grown(virtual, params, seed=seed).tree.gain.tolist() == bundled.tree.gain.tolist()
    return naive


def test_a_table_without_anything_to_split() -> None:
    X = np.zeros((60, 3))
    X[:30, 2] = np.nan
    one = grown(virtual_table(X, [2], copies=1.5), {"min_data_in_leaf": 100})
    assert len(one.tree.feature) == len(one.twin().splits) == 0
    assert one.tree.leaf_value.tolist() == [0.0]  # as in LightGBM, it adds nothing


def test_many_leaves() -> None:
    one = grown(numbers(500), {"num_leaves": 120, "min_data_in_leaf": 2}, share=0.6)
    assert len(one.tree.leaf_value) > 64
    assert_same(one.tree, one.twin())


@pytest.mark.parametrize(("heavy", "first_word", "end"), [(False, 0, 16), (True, 0, 16), (True, 1, 13), (False, 0, 9)])
def test_histograms_are_poured_before_they_overflow(heavy: bool, first_word: int, end: int) -> None:
    """Whichever columns are wanted, from the first of a word on: the last word need not be full."""
    generator = np.random.default_rng(1)
    n, words, columns = 3000, 2, range(8 * first_word, end)
    codes = generator.integers(0, 2**63, (n, words)).astype(np.uint64)
    g = (generator.standard_cauchy(n) * 2**12 if heavy else generator.normal(size=n) * 2**20).clip(-(2**22), 2**22)
    h = generator.integers(0, 2**22, n)
    packed = (g.astype(np.int64) << 32) + h
    narrow, poured_g, poured_h = (np.full(words * 8 * histograms.STRIDE, 7, dtype=t) for t in (np.int64, float, float))
    histograms.clear_histogram(first_word, end, narrow)
    where = (first_word, end, 0, 0, False, narrow, poured_g, poured_h)
    _, _, poured = histograms.add_to_histogram(codes, packed, 5, n, *where)
    assert poured
    wide_g, wide_h = np.zeros(words * 8 * 256), np.zeros(words * 8 * 256)
    by_column = codes.view(np.uint8)
    for column in columns:
        parts = narrow[None], np.array([poured]), poured_g[None], poured_h[None]
        histograms.merge_column(*parts, column, column * 256, 255, 0, 1, wide_g, wide_h)
        wanted_g = np.bincount(by_column[5:, column], g.astype(np.int64)[5:], 256)
        wanted_h = np.bincount(by_column[5:, column], h[5:], 256)
        assert wide_g[column * 256 : column * 256 + 256].tolist() == wanted_g.tolist()
        assert wide_h[column * 256 : column * 256 + 256].tolist() == wanted_h.tolist()
    others = [column for column in range(words * 8) if column not in columns]
    assert (narrow.reshape(-1, histograms.STRIDE)[others] == 7).all()


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("in_set", [False, True])
def test_rows_are_parted(words: int, in_set: bool) -> None:
    """Those that go left in order, then those that go right in reverse; nothing outside the rows is touched."""
    generator = np.random.default_rng(words)
    n, lo, hi, column, first, span = 300, 7, 290, 8 * words - 3, 250, 40
    codes = generator.integers(0, 2**63, (n, words)).astype(np.uint64)
    packed = np.arange(n)
    right_set = generator.integers(0, 2**63, 4).astype(np.uint64)
    right = np.full(256, 9, dtype=np.uint8)
    histograms.right_codes(first, span, in_set, right_set, right)
    members = [
        (int(right_set[c // 64]) >> c % 64) & 1 if in_set else int((c - first) % 256 <= span) for c in range(256)
    ]
    assert right.tolist() == members
    codes_out, packed_out = np.zeros_like(codes), np.full(n, -1)
    middle = histograms.partition(codes, packed, lo, hi, column, right, codes_out, packed_out)
    goes_right = right[codes.view(np.uint8)[:, column]].astype(bool)
    left = [i for i in range(lo, hi) if not goes_right[i]]
    wanted = [*left, *(i for i in reversed(range(lo, hi)) if goes_right[i])]
    assert middle == lo + len(left)
    assert packed_out.tolist() == [-1] * lo + wanted + [-1] * (n - hi)
    assert np.array_equal(codes_out[lo:hi], codes[wanted])


@pytest.mark.parametrize("probability", [1, 13_000, 13_056, 2**15, 2**16 - 512, 2**16])
def test_words_of_the_bag(probability: int) -> None:
    """Each bit is made of its own fair bits, whichever words are made together."""
    key, words = np.uint64(77), np.zeros(1_300, dtype=np.uint64)
    for lo, hi in ((0, 700), (700, 1_300)):
        codes.bag_words(key, np.uint64(probability), lo, hi, words)
    for q in (0, 1, 511, 512, 699, 700, 1_299):
        fair = [int(counter_hash(key, np.uint64(64 * q), np.uint64(k))) for k in range(16)]
        for place in (0, 17, 63):
            drawn = sum(((bits >> place) & 1) << k for k, bits in enumerate(fair))  # uniform on 0 … 2¹⁶ − 1
            assert (int(words[q]) >> place) & 1 == (2**16 - 1 - drawn < probability)
    share = np.unpackbits(words.view(np.uint8)).mean()
    assert abs(share - probability / 2**16) < 5 * np.sqrt(0.25 / (64 * len(words)))


@pytest.mark.parametrize("share", [1e-9, 0.01, 0.1987, 0.5, 0.9, 0.9999, 1.0])
def test_probability_of_the_bag(share: float) -> None:
    units = bag_probability(share)
    assert 0 < units <= 2**16
    assert (units == 2**16) == (share == 1.0)
    assert abs(units / 2**16 - share) <= max(2**-7 * share, 2**-16)
    assert len(bin(units).rstrip("0")) <= 2 + 7  # "0b" and seven bits


def test_feature_sampling() -> None:
    seen = set()
    for seed in range(20):
        used = set(grown(numbers(80), {"feature_fraction": 0.4, "seed": seed, "num_leaves": 6}).tree.feature.tolist())
        assert len(used) <= 3
        seen |= used
    assert len(seen) == 7


def test_a_small_share_of_the_features_is_one() -> None:
    """As in LightGBM, not at least two."""
    for seed in range(5):
        tree = grown(numbers(80), {"feature_fraction": 0.1, "seed": seed}).tree
        assert len(set(tree.feature.tolist())) == 1
    first = [grown(numbers(80), {"feature_fraction_bynode": 0.1, "seed": seed, "num_leaves": 2}) for seed in range(20)]
    assert len({int(one.tree.feature[0]) for one in first}) > 3  # the best of two would hardly ever be the weak ones


def test_children_that_may_go_farther_than_their_parent() -> None:
    """Where the largest step limits both children of a split, it gains nothing; further down it may."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 3))
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=3_000)
    params = {"engine": "native", "max_delta_step": 0.1, "verbosity": -1}
    assert puc.train(params, lgb.Dataset(X, y), 1).feature_importance().min() > 0


def test_extra_trees_draw_every_category() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(600, 1)).astype(float)
    params = {"engine": "native", "extra_trees": True, "num_leaves": 2, "min_data_in_leaf": 5, "verbosity": -1}
    booster = puc.train(params, lgb.Dataset(X, X[:, 0], categorical_feature=[0]), 30)
    assert set(booster.trees_to_dataframe().threshold.dropna()) == {"0", "1", "2"}


@pytest.mark.slow
@pytest.mark.parametrize("categorical", [(), (0, 3)])
@pytest.mark.parametrize("values", ["few", "many"])
def test_extra_trees_are_as_good_as_lightgbms(categorical: tuple[int, ...], values: str) -> None:
    """Held-out losses over seeds; two engines draw different thresholds, so only means agree."""
    ratio = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(4_000, 8))
        y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 2.0 * (X[:, 3] > 0.5) + 0.3 * X[:, 4] + rng.normal(size=4_000)
        if values == "few" or categorical:
            X = np.round(X * (1 if values == "few" else 4)) + 20.0
        params = {"extra_trees": True, "seed": seed, "verbosity": -1, "num_threads": 1}
        losses = []
        for train, given in ((lgb.train, {}), (puc.train, {"engine": "native"})):
            data = lgb.Dataset(X[:2_000], y[:2_000], categorical_feature=list(categorical))
            losses.append(np.mean((train(params | given, data, 100).predict(X[2_000:]) - y[2_000:]) ** 2))
        ratio.append(losses[1] / losses[0] - 1.0)
    assert np.mean(ratio) < 3.0 * np.std(ratio, ddof=1) / np.sqrt(len(ratio)) + 0.005, ratio


def test_sampling_by_node_and_extra_trees_depend_on_nothing_but_seeds() -> None:
    for params in ({"feature_fraction_bynode": 0.5}, {"extra_trees": True}):
        first, again, other = (
            grown(numbers(), {**params, "seed": seed}, threads=threads) for seed, threads in ((3, 1), (3, 3), (4, 1))
        )
        assert first.tree.gain.tolist() == again.tree.gain.tolist()
        assert first.tree.gain.tolist() != other.tree.gain.tolist()
        assert first.tree.gain[0] <= first.twin().splits[0][1].gain * (1 + 1e-9)
