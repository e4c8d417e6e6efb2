"""Merging equal virtual rows changes nothing but the time."""

from __future__ import annotations

import logging
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from engine_kits import NATIVE, EngineKit, every_engine
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tools import QUIET
from twins import masks as naive

import pucboost as puc
from pucboost._virtual import merging as compaction
from pucboost.simulate import BinaryFamily, DiscreteFamily, squared_puc_gap

LIGHTGBM = {**QUIET, "engine": "lightgbm"}  # of whose leaves some tests know the weights

GROUPS = [2, 3, 4]


@given(
    st.data(),
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 40), st.integers(1, 3)),
        elements=st.sampled_from([0.0, -0.0, 1.0, np.nan, np.inf]),
    ),
)
@settings(max_examples=60)
def test_cells_are_those_of_a_dict(data: Any, table: Any) -> None:
    extra = data.draw(st.lists(st.integers(0, 2), min_size=len(table), max_size=len(table)))
    cut = data.draw(st.integers(0, len(table)))
    for values in (table, table.astype(np.float64), np.asfortranarray(table)):
        blocks = [part for part in (values[:cut], values[cut:]) if len(part)]
        extras = [np.array(part, dtype=np.uint64) for part in (extra[:cut], extra[cut:]) if len(part)]
        n_cells, cell = compaction._cells(blocks, len(table), extras, 1)
        assert cell.tolist() == naive.cells(values, extra)
        assert n_cells == len(set(cell.tolist()))


def test_hash_table_grows() -> None:
    values = np.arange(50_000, dtype=np.float64)[:, None] % 20_011
    blocks = [values[i : i + 777] for i in range(0, 50_000, 777)]
    n_cells, cell = compaction._cells(blocks, 50_000, [np.zeros(len(b), dtype=np.uint64) for b in blocks], 2)
    assert n_cells == 20_011
    np.testing.assert_array_equal(cell, values[:, 0])


def people(objective: str, n: int = 6_000) -> tuple[Any, Any, Any]:
    """Discrete rows and labels that fit the objective."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, size=(n, 5)).astype(np.float32)
    rate = 0.3 + 0.4 * X[:, 0] + 0.5 * X[:, 3] * X[:, 1]
    y = {
        "l2": lambda: rate + rng.normal(size=n),
        "binary": lambda: (rng.random(n) < rate / rate.max()).astype(float),
        "poisson": lambda: rng.poisson(rate).astype(float),
        "gamma": lambda: rng.gamma(2, rate),
        "tweedie": lambda: rng.poisson(rate) * rng.gamma(2, 1, n),
        "multiclass": lambda: np.minimum(rng.poisson(rate), 2).astype(float),
    }[objective]()
    X[:, 2:][rng.random((n, 3)) < 0.15 + 0.3 * X[:, 2:] / 2] = np.nan
    return X, y, rng.uniform(0.5, 2, n)


@every_engine
def test_same_predictions_as_unmerged(kit: EngineKit) -> None:
    """Against the materialised exhaustive table, every tree on all its rows, at the same total weight."""
    losses = ("l2", "binary", "poisson", "gamma", "tweedie", "multiclass")
    for objective, weighted in [("l2", False), *((loss, True) for loss in losses)]:
        X, y, w = people(objective)
        weight = w if weighted else None
        params = {"objective": kit.objectives[objective], **kit.small_trees, **kit.leaf_hessian(5)}
        if objective == "multiclass":
            params["num_class"] = 3
        X_aug, y_aug, w_aug, _ = puc.augment(X, y, optional=GROUPS, augmentation="exhaustive", sample_weight=weight)
        w_aug = w_aug * (len(y) if weight is None else weight.sum()) / w_aug.sum()
        table = kit.predict(kit.fit_alone({**kit.params, **params}, X_aug, y_aug, 15, weight=w_aug), X)
        params |= {"optional": GROUPS, "augmentation": "exhaustive", "compact": True}
        if kit is NATIVE:  # in the table nothing is optional
            params["silence_first"] = False
        merged = kit.predict(kit.fit(X, y, 15, {"weight": weight}, **params), X)
        # Sums of float32 gradients in another order; a near-tie between two splits may fall the other way for a few.
        assert np.quantile(np.abs(merged - table) / np.abs(table), 0.95) < 2e-3
        np.testing.assert_allclose(merged.mean(axis=0), table.mean(axis=0), rtol=1e-3)


def test_binary_family_shrinks_to_its_cells(caplog: Any) -> None:
    family = BinaryFamily.paper()
    sample = family.sample(60_000, seed=0)
    X_aug, *_ = puc.augment(sample.X, sample.y, optional=family.optional, augmentation="exhaustive")
    distinct = len({tuple(row) for row in np.nan_to_num(X_aug, nan=-1).astype(int).tolist()})
    with caplog.at_level(logging.INFO, logger="pucboost"):
        booster = puc.train(
            {**QUIET, "objective": "binary", "optional": family.optional, "compact": True},
            puc.Dataset(sample.X, sample.y),
            40,
        )
    assert f"to {distinct} cells" in caplog.text
    assert distinct <= 2**5 * 3**3
    test = family.sample(10_000, seed=1)
    assert squared_puc_gap(booster.predict(test.X), family, test.X) < 5e-4
    assert booster.predict(test.X).max() <= 1  # probabilities, although the loss has another name inside


@every_engine
def test_balanced_is_exhaustive_once_people_are_merged(kit: EngineKit) -> None:
    X, y, _ = people("l2")
    params = {"objective": kit.objectives["l2"], "optional": GROUPS, "compact": True}
    balanced, exhaustive = (kit.fit(X, y, 5, augmentation=a, **params) for a in ("balanced", "exhaustive"))
    assert balanced.puc_summary == exhaustive.puc_summary
    assert kit.trees(balanced) == kit.trees(exhaustive)


# ---------------------------------------------------------------- min_data_in_leaf


def leaves(booster: lgb.Booster, column: str) -> Any:
    """One number for each leaf, by tree and size."""
    nodes = booster.trees_to_dataframe()
    nodes = nodes[nodes["split_feature"].isna()].sort_values(["tree_index", column])
    return nodes[column].to_numpy()


def leaves_of_the_table(X: Any, y: Any, people_in_leaf: int, rounds: int) -> Any:
    """The oracle: people in the leaves of the materialised table, in which min_data_in_leaf counts rows."""
    X_aug, y_aug, _, _ = puc.augment(X, y, optional=GROUPS, augmentation="exhaustive")
    rows_per_person = len(y_aug) / len(y)
    params = {**QUIET, "objective": "l2", "min_data_in_bin": 1, "min_sum_hessian_in_leaf": 0}
    params["min_data_in_leaf"] = int(np.ceil(people_in_leaf * rows_per_person))
    return leaves(lgb.train(params, lgb.Dataset(X_aug, y_aug), rounds), "count") / rows_per_person


def test_min_data_in_leaf_counts_people() -> None:
    """Squared error: the hessian of a leaf is its weight, which is the number of people in it, per copy."""
    X, y, _ = people("l2")
    params = {**LIGHTGBM, "objective": "l2", "optional": GROUPS, "compact": True, "min_data_in_leaf": 500}
    booster = puc.train(params, puc.Dataset(X, y), 10)
    weight = leaves(booster, "weight")
    np.testing.assert_allclose(weight, leaves_of_the_table(X, y, 500, 10), rtol=1e-6)
    assert 500 <= weight.min() < 550
    assert leaves(booster, "count").min() < 50  # rows


def test_min_data_in_leaf_does_not_depend_on_the_scale_of_the_weights() -> None:
    X, y, _ = people("l2")
    params = {**LIGHTGBM, "objective": "l2", "optional": GROUPS, "compact": True, "min_data_in_leaf": 300}
    expected = leaves_of_the_table(X, y, 300, 8)
    for scale in (0.01, 1.0, 100.0):
        nearly_equal = np.full(6_000, scale) * np.where(y > 0, 1.0, 1.001)
        booster = puc.train({**params, "min_sum_hessian_in_leaf": 0}, puc.Dataset(X, y, weight=nearly_equal), 8)
        weight = leaves(booster, "weight") / scale
        np.testing.assert_allclose(weight, expected, rtol=2e-3)
        assert 300 <= weight.min() < 330


def test_min_data_in_leaf_counts_people_by_their_hessian_at_the_start() -> None:
    """Log loss: a person counts p·(1 − p), p the mean label."""
    X, y, _ = people("binary")
    params = {**LIGHTGBM, "objective": "binary", "optional": GROUPS, "compact": True, "min_data_in_leaf": 300}
    in_first_tree = leaves(puc.train(params, puc.Dataset(X, y), 1), "weight") / (y.mean() * (1 - y.mean()))
    assert 300 <= in_first_tree.min() < 330


# ---------------------------------------------------------------- compact="auto"


def was_merged(booster: Any, n_people: int, n_distinct: int) -> bool:
    """Everybody shares one group of one: two virtual rows each, of people or of distinct people."""
    rows = booster.puc_summary.virtual_rows
    assert rows in (2 * n_people, 2 * n_distinct)
    return bool(rows == 2 * n_distinct)


@every_engine
def test_auto_merges_if_at_most_half_of_the_rows_are_distinct(kit: EngineKit) -> None:
    for n_distinct, merge in [(100, True), (1_000, True), (1_001, False)]:
        X = np.random.default_rng(0).normal(size=(n_distinct, 3))[np.arange(2_000) % n_distinct]
        booster = kit.fit(X, X[:, 0], 2, objective=kit.objectives["l2"], optional=[2], compact="auto")
        assert was_merged(booster, 2_000, n_distinct) == merge


def test_auto_decides_by_a_sample_of_rows(monkeypatch: Any) -> None:
    """One row in ten is looked at: the first, the eleventh, … Only those, or only others, are all equal here."""
    monkeypatch.setattr(compaction, "SAMPLE_ROWS", 200)
    for start, merge in [(0, True), (1, False)]:
        X = np.random.default_rng(0).normal(size=(1_991, 3))
        X[start::10] = 1.0
        params = {**QUIET, "objective": "l2", "optional": [2], "compact": "auto"}
        n_distinct = 1_991 - len(X[start::10]) + 1
        assert was_merged(puc.train(params, puc.Dataset(X, X[:, 0]), 2), 1_991, n_distinct) == merge


@every_engine
def test_auto_merges_classes_only_with_themselves(kit: EngineKit) -> None:
    """Each row occurs three times, with three classes; where labels have a mean, that is one row."""
    X = np.repeat(np.random.default_rng(0).normal(size=(500, 3)), 3, axis=0)
    y = np.tile([0.0, 1.0, 2.0], 500)
    params = {"optional": [2], "compact": "auto"}
    classes = kit.fit(X, y, 2, objective=kit.objectives["multiclass"], num_class=3, **params)
    assert not was_merged(classes, 1_500, 500)
    assert was_merged(kit.fit(X, y, 2, objective=kit.objectives["l2"], **params), 1_500, 500)


def test_auto_says_what_it_found_and_leaves_what_cannot_be_merged(caplog: Any) -> None:
    family = DiscreteFamily.random(2, 3, seed=0)
    sample = family.sample(5_000, seed=0)
    distinct = len({tuple(row) for row in np.nan_to_num(sample.X, nan=-1).tolist()})
    params = {**QUIET, "objective": "binary", "optional": GROUPS, "compact": "auto"}
    with caplog.at_level(logging.INFO, logger="pucboost"):
        booster = puc.train(params, puc.Dataset(sample.X, sample.y), 2)
    assert f"compact='auto': {distinct} of 5000 sampled rows are distinct, factor {5_000 / distinct:.1f}" in caplog.text
    assert booster.puc_summary.virtual_rows < 5_000 / 4
    quantile = puc.train({**params, "objective": "quantile"}, puc.Dataset(sample.X, sample.y), 2)
    assert quantile.puc_summary.virtual_rows > 5_000


# ---------------------------------------------------------------- the rest


def test_cross_validation_of_merged_rows() -> None:
    X, y, _ = people("binary")
    params = {**QUIET, "objective": "binary", "optional": GROUPS, "augmentation": "exhaustive"}
    merged, apart = (
        puc.cv({**params, "compact": c}, puc.Dataset(X, y), 15, nfold=3)["valid binary_logloss-mean"]
        for c in (True, False)
    )
    assert merged[-1] == pytest.approx(apart[-1], rel=0.01)


def absolute(preds: Any, data: Any) -> tuple[Any, Any]:
    return np.sign(preds - data.get_label()), np.ones_like(preds)


def test_refused() -> None:
    X, y, _ = people("binary")
    refused: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"objective": "quantile"}, {}, "compact with objective 'quantile': its loss is not linear in the label"),
        ({"objective": "huber"}, {}, "compact needs a built-in loss whose rows can be merged"),
        ({"objective": absolute}, {}, "compact needs a built-in loss whose rows can be merged"),
        ({"objective": "l2"}, {"init_score": np.zeros(6_000)}, "compact with init_score"),
        ({"objective": "l2", "compact": "yes"}, {}, "compact must be True, False or 'auto', got 'yes'"),
    ]
    given = {**QUIET, "objective": "binary", "optional": GROUPS, "compact": True}
    refused += [({name: 5.0}, {}, f"{name} counts rows") for name in ("path_smooth", "cat_smooth")]
    soft = "LightGBM's objective 'binary' would read it as 1. Use 'cross_entropy'"
    for params, dataset, message in [*refused, ({"compact": False}, {"label": y * 0.5}, soft)]:
        with pytest.raises(ValueError, match=message):
            puc.train({**given, **params}, puc.Dataset(X, **{"label": y, **dataset}), 2)
    data = puc.Dataset(X, y)
    with pytest.raises(ValueError, match="The training set among valid_sets: metrics cannot read the mean labels"):
        puc.train(given, data, 2, valid_sets=[data])
    with pytest.raises(ValueError, match="eval_train_metric: metrics cannot read the mean labels"):
        puc.cv(given, data, 2, eval_train_metric=True)


def test_categories_are_used_by_merged_rows() -> None:
    """LightGBM drops categories with few rows, and a merged row stands for many people."""
    rng = np.random.default_rng(0)
    n = 5_000
    X = np.column_stack([rng.integers(0, 12, n), rng.integers(0, 2, n)]).astype(float)
    y = rng.normal(size=12)[X[:, 0].astype(int)] * 3 + X[:, 1] + 0.3 * rng.normal(size=n)
    X[rng.random(n) < 0.3, 1] = np.nan
    params = {**QUIET, "objective": "l2", "optional": [1], "compact": True}
    booster = puc.train(params, puc.Dataset(X, y, categorical_feature=[0]), 60)
    assert np.mean((booster.predict(X) - y) ** 2) < 0.1 * y.var()


def test_fixed_draws_as_many_rows_as_people() -> None:
    X, y, _ = people("l2")
    params = {**QUIET, "objective": "l2", "optional": GROUPS, "augmentation": "fixed"}
    merged, apart = (puc.train({**params, "compact": c}, puc.Dataset(X, y), 30) for c in (True, False))
    assert merged.puc_summary == apart.puc_summary
    np.testing.assert_allclose(merged.predict(X).mean(), apart.predict(X).mean(), rtol=0.02)


def test_objective_on_the_dataset_is_not_the_objective() -> None:
    """LightGBM ignores it there, too."""
    X, y, _ = people("binary")
    data = puc.Dataset(X, y, params={"objective": "binary"})
    booster = puc.train({**QUIET, "optional": GROUPS, "compact": True}, data, 2)
    assert "objective=regression" in booster.model_to_string()
