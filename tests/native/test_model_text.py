"""Trees made by hand, written as LightGBM's text, and read by LightGBM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from native_pools import bins_in, random_tree

import pucboost as puc
from pucboost._engines.native.booster import ModelText
from pucboost._engines.native.kernels.growth import Tree

NAN = float("nan")
ZERO = 1e-35
"""Values up to this one are zero to LightGBM."""


def numeric(missing_type: str, *upper: float) -> Any:
    return SimpleNamespace(
        upper=np.array(upper), categories=None, n_bins=len(upper) + 1, missing_type=missing_type, low=-9.0, high=9.5
    )


BINS = [
    numeric("nan", -1.5, 0.25, 1.0),
    numeric("none", -0.5, 0.5),
    numeric("zero", -1.0, 1e-3, 2.0),
    SimpleNamespace(upper=np.empty(0), categories=np.array([7, 0, 40, 3]), n_bins=4, missing_type="nan", low=0, high=0),
    numeric("none"),  # constant
]


def any_tree(rng: np.random.Generator, n_leaves: int) -> Tree:
    """Return a tree that splits random leaves."""
    feature = rng.integers(0, 4, n_leaves - 1)
    left_set = np.zeros((n_leaves - 1, 4), dtype=np.uint64)
    left_set[:, 0] = rng.integers(1, 16, n_leaves - 1)  # some of the four categories
    return Tree(
        code=random_tree(n_leaves, 4, int(rng.integers(1000))),
        feature=feature,
        bin=np.array([rng.integers(0, BINS[f].n_bins) for f in feature], dtype=np.int64),
        left_set=left_set,
        default_left=rng.random(n_leaves - 1) < 0.5,
        gain=rng.random(n_leaves - 1) * 10,
        internal_value=rng.normal(size=n_leaves - 1),
        internal_weight=rng.random(n_leaves - 1) * 100,
        internal_count=rng.integers(1, 1000, n_leaves - 1),
        leaf_value=rng.normal(size=n_leaves),
        leaf_weight=rng.random(n_leaves) * 30,
        leaf_count=rng.integers(1, 300, n_leaves),
        shrinkage=0.05,
    )


def value(tree: Tree, row: Any) -> float:
    """Walk down a tree by the meaning of its fields."""
    node = 0 if len(tree.feature) else ~0
    while node >= 0:
        bins, x = BINS[tree.feature[node]], row[tree.feature[node]]
        if bins.categories is not None:
            goes_left = not np.isnan(x) and x in bins.categories[bins_in(tree.left_set[node])]
        else:
            if bins.missing_type == "none" and np.isnan(x):
                x = 0.0
            missing = np.isnan(x) or (bins.missing_type == "zero" and abs(x) <= ZERO)
            b = int(np.searchsorted(bins.upper, x))
            goes_left = tree.default_left[node] if missing else b <= tree.bin[node]
        node = int(tree.code.left[node] if goes_left else tree.code.right[node])
    return float(tree.leaf_value[~node])


def untrained(objective: str = "binary", n_classes: int = 1, **params: Any) -> str:
    data = lgb.Dataset(
        np.tile(np.arange(40.0)[:, None], len(BINS)),
        np.arange(40) % max(2, n_classes),
        feature_name=[f"column {j}" for j in range(len(BINS))],
        categorical_feature=[3],
        params={"verbosity": -1},
    )
    return lgb.Booster(
        {"objective": objective, "num_class": n_classes, "verbosity": -1, **params}, data
    ).model_to_string()


def people(rng: np.random.Generator, n: int = 400) -> Any:
    X = rng.normal(size=(n, len(BINS))) * 2
    X[:, 3] = rng.choice([0, 3, 7, 40, 41, 500], n)
    X[:50, 0] = [*BINS[0].upper, -np.inf, np.inf] * 10  # on the thresholds
    X[rng.random((n, len(BINS))) < 0.2] = NAN
    X[rng.random((n, len(BINS))) < 0.2] = 0.0
    return X


@pytest.mark.parametrize("n_classes", [1, 3])
def test_lightgbm_reads_the_trees_as_meant(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    start = rng.normal(size=n_classes)
    rounds = [[any_tree(rng, int(size)) for _ in range(n_classes)] for size in (1, 2, 31, 90, 2, 31)]
    booster = booster_of(rounds, start, objective="binary" if n_classes == 1 else "multiclass", n_classes=n_classes)
    X = people(rng)
    found = booster.predict(X, raw_score=True).reshape(len(X), n_classes)
    expected = np.array([[start[k] + sum(value(t[k], row) for t in rounds) for k in range(n_classes)] for row in X])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert booster.num_trees() == 6 * n_classes
    assert booster.current_iteration() == 6


def booster_of(rounds: list[list[Tree]], start: Any = (0.5,), **given: Any) -> lgb.Booster:
    model = ModelText(untrained(**given), BINS, np.array(start))
    for trees in rounds:
        model.append(trees)
    return lgb.Booster(model_str=model.text())


def test_what_a_booster_says_of_its_trees() -> None:
    rng = np.random.default_rng(5)
    trees = [any_tree(rng, 20) for _ in range(4)]
    booster = booster_of([[tree] for tree in trees])
    assert booster.feature_name() == [f"column_{j}" for j in range(5)]
    splits = np.concatenate([tree.feature for tree in trees])
    gains = np.concatenate([tree.gain for tree in trees])
    np.testing.assert_array_equal(booster.feature_importance("split"), np.bincount(splits, minlength=5))
    np.testing.assert_allclose(booster.feature_importance("gain"), np.bincount(splits, gains, 5), rtol=1e-6)
    frame = booster.trees_to_dataframe()
    leaves = frame[frame.split_feature.isna() & (frame.tree_index == 1)]
    names = leaves.node_index.str.extract(r"L(\d+)")[0].astype(int)
    np.testing.assert_allclose(leaves.value, trees[1].leaf_value[names])
    np.testing.assert_allclose(leaves.weight, trees[1].leaf_weight[names])
    np.testing.assert_array_equal(leaves["count"], trees[1].leaf_count[names])
    root = frame[frame.tree_index == 2].iloc[0]
    assert root["count"] == trees[2].internal_count[0]
    assert root.value == pytest.approx(trees[2].internal_value[0], rel=1e-5)
    assert root.weight == pytest.approx(trees[2].internal_weight[0], rel=1e-5)
    dumped = booster.dump_model()
    infos = dumped["feature_infos"]
    assert infos["column_0"] == {"min_value": -9.0, "max_value": 9.5, "values": []}
    assert sorted(infos["column_3"]["values"]) == [0, 3, 7, 40]
    assert "column_4" not in infos
    assert [tree["shrinkage"] for tree in dumped["tree_info"]] == [1, 0.05, 0.05, 0.05]  # the first has the start
    assert dumped["tree_info"][0]["tree_structure"]["internal_value"] == pytest.approx(
        trees[0].internal_value[0] + 0.5, rel=1e-5
    )


def test_where_converters_send_missing_values() -> None:
    """A column without missing values reads NaN as 0; converters look only at where missing values go."""
    X = np.random.default_rng(0).normal(size=(500, 2))
    params = {"engine": "native", "verbosity": -1, "num_leaves": 12}
    trees = puc.train(params, lgb.Dataset(X, X[:, 0] * X[:, 1]), 3).trees_to_dataframe().dropna(subset="threshold")
    assert set(trees.missing_type) == {"None"}
    assert (trees.threshold < 0).any()
    assert list(trees.missing_direction == "left") == list(trees.threshold >= 0)


def test_the_text_survives_lightgbm() -> None:
    """What LightGBM writes of the booster, it reads as the same booster; the parameters are those given."""
    rng = np.random.default_rng(7)
    booster = booster_of([[any_tree(rng, 15)] for _ in range(3)], num_leaves=15, seed=3)
    text = booster.model_to_string()
    again = lgb.Booster(model_str=text)
    assert again.model_to_string() == text
    assert (again.params["num_leaves"], again.params["seed"]) == (15, 3)
    X = people(rng, 100)
    np.testing.assert_array_equal(booster.predict(X), again.predict(X))
    contributions = booster.predict(X, pred_contrib=True)
    np.testing.assert_allclose(contributions.sum(axis=1), booster.predict(X, raw_score=True), rtol=1e-9)


def test_trees_of_an_earlier_model_come_first() -> None:
    rng = np.random.default_rng(8)
    before = booster_of([[any_tree(rng, 9)] for _ in range(12)])
    tree = any_tree(rng, 5)
    model = ModelText(untrained(), BINS, np.zeros(1), before)
    assert len(model) == 12
    model.append([tree])
    booster = lgb.Booster(model_str=model.text())
    X = people(rng, 100)
    X[np.isposinf(X[:, 0]), 0] = 1e299
    expected = before.predict(X, raw_score=True) + [value(tree, row) for row in X]
    np.testing.assert_allclose(booster.predict(X, raw_score=True), expected, rtol=1e-12)
    np.testing.assert_array_equal(
        booster.predict(X, raw_score=True, num_iteration=12), before.predict(X, raw_score=True)
    )
    assert booster.dump_model()["tree_info"][12]["shrinkage"] == 0.05


def test_no_trees_yet() -> None:
    assert lgb.Booster(model_str=ModelText(untrained(), BINS, np.zeros(1)).text()).num_trees() == 0
