"""Rare categories in the text of LightGBM's models."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pucboost._engines.lightgbm_text import members_of, spelt_out, words_of
from pucboost._virtual.rare_categories import PooledColumn, RareCategories


@given(st.sets(st.integers(0, 300), min_size=1))
def test_sets_as_words(categories: set[int]) -> None:
    words = words_of(np.array(sorted(categories)))
    assert words == [sum(1 << c % 32 for c in categories if c // 32 == k) for k in range(max(categories) // 32 + 1)]
    assert np.flatnonzero(members_of(np.array(words))).tolist() == sorted(categories)


def booster(n_classes: int = 1, **params: Any) -> lgb.Booster:
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
def test_without_rare_categories_the_text_stays(params: Any) -> None:
    text = booster(**params).model_to_string()
    assert spelt_out(text, RareCategories({})) == text


@pytest.mark.parametrize("params", MODELS.values(), ids=list(MODELS))
def test_whoever_is_rare_is_read_like_the_one_that_stands_for_all(params: Any) -> None:
    model = booster(**params)
    rare = RareCategories({0: PooledColumn(np.array([3, 40, 77]), 3)})
    spelt = lgb.Booster(model_str=spelt_out(model.model_to_string(), rare))
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
