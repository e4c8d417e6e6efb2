"""What is LightGBM's own: parameters, row sampling, its private Dataset path, every argument of lgb.train."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from engine_kits import LIGHTGBM, OPTIONAL
from hypothesis import given
from hypothesis import strategies as st
from lightgbm.basic import _ConfigAliases
from tools import QUIET, make_table, table_training

import pucboost as puc
from pucboost._consent import Consent
from pucboost._engines.lightgbm import sample_rows
from pucboost._engines.lightgbm_boosters import members_of, spelt_out, words_of
from pucboost._engines.lightgbm_data import VirtualDataset, _nonzero_sample_columns
from pucboost._engines.names import PARAMETERS, aliases
from pucboost._tables.sources import row_source
from pucboost._virtual.plan import plan_masks
from pucboost._virtual.rare_categories import PooledColumn, RareCategories
from pucboost._virtual.rows import MaskedRows

PARAMS: dict[str, Any] = {**QUIET, "objective": "binary", "optional": OPTIONAL}


# ---------------------------------------------------------------- parameters


def test_aliases_are_lightgbms() -> None:
    known = _ConfigAliases._get_all_param_aliases()  # fewer in older versions
    assert set(known) <= set(PARAMETERS)
    for name in known:
        assert list(aliases(name)) == _ConfigAliases.get_sorted(name)


def test_row_sampling_comes_on_top_of_the_users() -> None:
    by_class = {"pos_bagging_fraction": 0.125, "neg_bagging_fraction": 0.25, "bagging_freq": 1}
    for params, expected, scale in [
        ({}, {"bagging_fraction": 0.25, "bagging_freq": 1}, 1),
        # LightGBM ignores it without a frequency.
        ({"subsample": 0.8}, {"bagging_fraction": 0.25, "bagging_freq": 1}, 1),
        ({"subsample": 0.8, "subsample_freq": 5}, {"bagging_fraction": 0.2, "bagging_freq": 5}, 1),
        ({"pos_bagging_fraction": 0.5, "bagging_freq": 1}, by_class, 1),
        (
            {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1},
            {"boosting": "rf", "bagging_fraction": 0.15},
            1,
        ),
        ({"data_sample_strategy": "goss"}, {"data_sample_strategy": "goss"}, 0.25),
        ({"boosting_type": "goss"}, {"boosting_type": "goss"}, 0.25),
    ]:
        got, factor = sample_rows(params, 0.25, 4_000)
        assert {name: got.get(name) for name in expected} == pytest.approx(expected)
        assert factor == scale
        assert sample_rows(params, 1.0, 1_000) == (params, 1.0)
    # At one half LightGBM copies each bag; just above it does not.
    got, _ = sample_rows({}, 0.5, 2_000)
    assert 0.5 < got["bagging_fraction"] < 0.502
    assert int(got["bagging_fraction"] * 2_000) > 1_000


def test_other_kinds_of_boosting() -> None:
    """LightGBM alone on the materialised table, with N / V of the user's fractions; GOSS with N / V of the weights."""
    X, y = make_table(1_000)
    X_aug, y_aug, weight, _ = puc.augment(X, y, optional=OPTIONAL)
    share = len(y) / len(y_aug)
    by_class = {"pos_bagging_fraction": 0.5, "neg_bagging_fraction": 0.9}
    for params, fractions in [
        ({"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1}, {"bagging_fraction": 0.6}),
        ({"data_sample_strategy": "goss"}, {}),
        ({"boosting": "dart"}, {"bagging_fraction": 1}),
        ({**by_class, "bagging_freq": 2}, by_class),
        ({"extra_trees": True, "feature_fraction": 0.5}, {"bagging_fraction": 1}),
        ({"monotone_constraints": [1, 0, 0, 0, 0, 0]}, {"bagging_fraction": 1}),
    ]:
        booster = puc.train({**PARAMS, **params}, lgb.Dataset(X, y), 8)
        by_hand = {"bagging_freq": 1, **params, **{name: value * share for name, value in fractions.items()}}
        plain = {**QUIET, "objective": "binary", **(by_hand if fractions else params)}
        table = lgb.Dataset(X_aug, y_aug, weight=weight if fractions else weight * np.float32(share))
        assert LIGHTGBM.trees(booster) == LIGHTGBM.trees(lgb.train(plain, table, 8)), params
        assert booster.num_trees() == 8


def test_total_weight_of_a_tree_is_that_of_plain_training() -> None:
    """So that min_sum_hessian_in_leaf and lambda_l2 keep their meaning. Squared error has hessian 1 a row."""
    X, _ = make_table(4_000)
    y = np.random.default_rng(0).normal(size=4_000)
    for extra in ({"copies": 4}, {"copies": 2}, {"augmentation": "exhaustive"}, {"augmentation": "fixed"}):
        params = {**QUIET, "objective": "l2", "optional": OPTIONAL, "num_leaves": 4, **extra}
        tree = puc.train(params, lgb.Dataset(X, y), 1).dump_model()["tree_info"][0]["tree_structure"]
        assert tree["internal_weight"] in (0, pytest.approx(4_000, rel=0.05))
        total, stack = 0.0, [tree]
        while stack:
            node = stack.pop()
            total += node.get("leaf_weight", 0)
            stack += [node[side] for side in ("left_child", "right_child") if side in node]
        assert total == pytest.approx(4_000, rel=0.05)


@pytest.mark.parametrize("rare", [1.0, 0.0])
def test_is_unbalance_counts_people(rare: float) -> None:
    """LightGBM would count virtual rows, of which those who share more have more."""
    rng = np.random.default_rng(0)
    n = 4_000
    y = np.where(rng.random(n) < 0.2, rare, 1 - rare)
    X = rng.normal(size=(n, 4))
    X[:, 1:][rng.random((n, 3)) < np.where(y == 1, 0.8, 0.2)[:, None]] = np.nan
    base = {**PARAMS, "optional": [1, 2, 3], "augmentation": "exhaustive", "boost_from_average": False}
    ratio = (y != rare).sum() / (y == rare).sum()
    ours = puc.train({**base, "is_unbalance": True}, lgb.Dataset(X, y), 20)
    by_hand = puc.train(base, lgb.Dataset(X, y, weight=np.where(y == rare, ratio, 1.0)), 20)
    # The same weights up to rounding, which may decide between two equal splits.
    assert np.abs(ours.predict(X) - by_hand.predict(X)).mean() < 1e-3
    assert np.abs(ours.predict(X) - puc.train(base, lgb.Dataset(X, y), 20).predict(X)).mean() > 0.03
    result = puc.cv({**base, "is_unbalance": True}, lgb.Dataset(X, y), 3, nfold=2)
    assert len(result["valid binary_logloss-mean"]) == 3


def test_zero_as_missing_counts_zeros_as_withheld() -> None:
    X, y = make_table(400)
    zeros = np.nan_to_num(X)
    params = {**PARAMS, "min_data_in_leaf": 5, "augmentation": "exhaustive"}
    from_missing = puc.train({**params, "zero_as_missing": True}, lgb.Dataset(X, y), 5)
    from_zeros = puc.train({**params, "zero_as_missing": True}, lgb.Dataset(zeros, y), 5)
    on_dataset = puc.train(params, lgb.Dataset(zeros, y, params={"zero_as_missing": True}), 5)
    for other in (from_zeros, on_dataset):
        assert other.puc_summary == from_missing.puc_summary
        np.testing.assert_array_equal(other.predict(zeros), from_missing.predict(X))


# ---------------------------------------------------------------- law 2: nothing is optional


def squared_error(preds: Any, data: Any) -> tuple[Any, Any]:
    return preds - data.get_label(), np.ones_like(preds)


def mean_error(preds: Any, data: Any) -> tuple[str, float, bool]:
    return "mean_error", float(np.mean(preds - data.get_label())), False


@pytest.mark.parametrize("params", [{"objective": "binary", "early_stopping_round": 3}, {"objective": squared_error}])
def test_same_model_with_validation_callbacks_and_init_model(params: dict[str, Any], tmp_path: Path) -> None:
    X, y = make_table(500)
    first = lgb.train({**QUIET, "objective": "binary"}, lgb.Dataset(X, y), 3)
    first.save_model(tmp_path / "first.txt")
    for init_model in (first, str(tmp_path / "first.txt"), tmp_path / "first.txt"):
        records: list[dict[str, Any]] = [{}, {}]
        boosters = [
            module.train(
                {**QUIET, **params},
                (data := lgb.Dataset(X[:300], y[:300], free_raw_data=False)),
                20,
                valid_sets=[data, lgb.Dataset(X[300:], y[300:], reference=data)],
                valid_names=["mine", "other"],
                feval=[mean_error],
                init_model=init_model,
                callbacks=[lgb.record_evaluation(record)],
            )
            for module, record in zip((lgb, puc), records, strict=True)
        ]
        assert boosters[0].model_to_string() == boosters[1].model_to_string()
        assert boosters[0].best_iteration == boosters[1].best_iteration
        assert records[0] == records[1]


def test_ranking_linear_trees_and_files_pass_when_nothing_is_optional(tmp_path: Path) -> None:
    X, y = make_table(300)
    np.savetxt(tmp_path / "data.csv", np.column_stack([y, np.nan_to_num(X)]), delimiter=",")
    for params, make in [
        ({"objective": "lambdarank"}, lambda: lgb.Dataset(X, y, group=[100, 200])),
        ({"linear_tree": True}, lambda: lgb.Dataset(np.nan_to_num(X), y)),
        ({}, lambda: lgb.Dataset(str(tmp_path / "data.csv"))),
    ]:
        plain, ours = (module.train({**QUIET, **params}, make(), 5) for module in (lgb, puc))
        assert ours.model_to_string() == plain.model_to_string()


def test_cv_is_lightgbms_when_nothing_is_optional() -> None:
    X, y = make_table(400)
    params = {**QUIET, "objective": "binary"}
    plain, ours = (m.cv(params, lgb.Dataset(X, y), 6, nfold=3, eval_train_metric=True, seed=5) for m in (lgb, puc))
    assert plain == ours


def test_keep_training_booster() -> None:
    X, y = make_table(300)
    for optional in ([], [5]):
        booster = puc.train({**QUIET, "optional": optional}, lgb.Dataset(X, y), 3, keep_training_booster=True)
        booster.update()
        assert booster.current_iteration() == 4
        assert booster.eval_train()


def test_a_booster_writes_its_file_whole_or_not_at_all(tmp_path: Path, monkeypatch: Any) -> None:
    X, y = make_table(100)
    booster, path = LIGHTGBM.fit(X, y, 1), tmp_path / "model.txt"
    path.write_text("the old one")

    def fails(*args: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="no space left"):
        booster.save_model(path)
    assert path.read_text() == "the old one"
    assert list(tmp_path.iterdir()) == [path]


# ---------------------------------------------------------------- laws 3, 6 and 7: how masked rows get into LightGBM


def test_same_model_string_with_seeds_and_binning_parameters() -> None:
    """The seed also decides which rows LightGBM samples for its bins."""
    X, y = make_table(2_000, seed=1)
    X[:, 1] = np.round(X[:, 1]) * (np.arange(2_000) % 7 == 0)  # a mostly-zero feature
    for seed in ({}, {"seed": 0}, {"seed": 17}, {"seed": 2**31 - 3}):
        for extra in ({"min_data_in_leaf": 2, "max_bin": 15}, {"bin_construct_sample_cnt": 500}):
            params = {**PARAMS, **extra, **seed, "copies": 2}
            ours = puc.train(params, lgb.Dataset(X, y), 10)
            by_hand = table_training(params, X, y, 10, seed=seed.get("seed", 0))
            assert LIGHTGBM.model(ours) == LIGHTGBM.model(by_hand), params


def test_infinite_values_are_treated_as_lightgbm_does() -> None:
    X, y = make_table(500)
    params = {**PARAMS, "augmentation": "exhaustive"}
    for special in (np.inf, -np.inf, 1e300):
        X[::7, 0], X[::5, 3] = special, special
        ours = puc.train(params, lgb.Dataset(X, y), 5)
        assert LIGHTGBM.model(ours) == LIGHTGBM.model(table_training(params, X, y, 5)), special


def test_public_sequence_path_is_the_fallback(monkeypatch: Any) -> None:
    """Should LightGBM rename its private methods, the public Sequence interface gives the same trees."""
    X, y = make_table(700)
    params = {**QUIET, "objective": "binary", "optional": [3, 4, 5], "seed": 4}
    fast = puc.train(params, lgb.Dataset(X, y), 8)
    monkeypatch.delattr(VirtualDataset, "_Dataset__init_from_seqs")
    assert LIGHTGBM.trees(puc.train(params, lgb.Dataset(X, y), 8)) == LIGHTGBM.trees(fast)


def test_sample_for_the_bins_is_bounded_by_lightgbms_own_limit() -> None:
    """What is sampled for the bins depends on bin_construct_sample_cnt, not on the number of virtual rows."""
    X = np.random.default_rng(0).normal(size=(500, 12))
    consent = Consent.declare(list(range(2, 12)), [f"c{j}" for j in range(12)])
    rows = MaskedRows(row_source(X), consent, plan_masks(consent.availability(X), "exhaustive"))
    sampled = np.arange(0, len(rows), 997)
    _nonzero_sample_columns(rows, sampled)
    tracemalloc.start()
    try:
        _nonzero_sample_columns(rows, sampled)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(sampled) * 12 * 8


def test_more_virtual_rows_than_lightgbm_can_count() -> None:
    X = np.ones((5_000, 41))
    params = {**QUIET, "optional": list(range(1, 41)), "augmentation": "exhaustive", "max_virtual_rows": 10**18}
    with pytest.raises(
        ValueError, match=r"makes 5,497,558,138,880,000 virtual rows of 5,000 rows, more than .* 2,147,483,647"
    ):
        puc.train(params, lgb.Dataset(X, X[:, 0]), 2)


# ---------------------------------------------------------------- rare categories in the text of a model


@given(st.sets(st.integers(0, 300), min_size=1))
def test_sets_as_words(categories: set[int]) -> None:
    words = words_of(np.array(sorted(categories)))
    assert words == [sum(1 << c % 32 for c in categories if c // 32 == k) for k in range(max(categories) // 32 + 1)]
    assert np.flatnonzero(members_of(np.array(words))).tolist() == sorted(categories)


def with_categories(n_classes: int = 1, **params: Any) -> lgb.Booster:
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.integers(0, 12, 900), generator.normal(size=900), generator.integers(0, 8, 900)])
    y = (X[:, 0] % 3 + X[:, 2] // 3 + X[:, 1]).round() % max(2, n_classes)
    small = {"verbosity": -1, "num_threads": 1, "min_data_per_group": 1, "cat_smooth": 1, "max_cat_to_onehot": 1}
    given = {**small, "num_leaves": 12, **params}
    return lgb.train(given, lgb.Dataset(X, y, categorical_feature=[0, 2]), 6)


MODELS: dict[str, dict[str, Any]] = {
    "regression": {"objective": "l2"},
    "classes": {"objective": "multiclass", "num_class": 3, "n_classes": 3},
    "a stump": {"objective": "l2", "min_data_in_leaf": 10_000},
}


@pytest.mark.parametrize("params", MODELS.values(), ids=list(MODELS))
def test_rare_categories_are_read_like_the_one_that_stands_for_all(params: Any) -> None:
    model = with_categories(**params)
    text = model.model_to_string()
    assert spelt_out(text, RareCategories({})) == text
    rare = RareCategories({0: PooledColumn(np.array([3, 40, 77]))})
    spelt = lgb.Booster(model_str=spelt_out(text, rare))
    rows = np.column_stack([np.tile(np.arange(12.0), 8), np.linspace(-1, 1, 96), np.repeat(np.arange(8.0), 12)])
    assert np.array_equal(spelt.predict(rows), model.predict(rows))
    like = np.where(np.column_stack([rows[:, 0] == 3] * 3), rows, np.nan)[rows[:, 0] == 3]
    for category in (40.0, 77.0):
        other = like.copy()
        other[:, 0] = category
        assert np.array_equal(spelt.predict(other), model.predict(like))
    other[:, 2] = category  # the other column has no rare ones
    unknown = like.copy()
    unknown[:, 2] = np.nan
    assert np.array_equal(spelt.predict(other), model.predict(unknown))
