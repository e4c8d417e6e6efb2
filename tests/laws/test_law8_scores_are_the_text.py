"""Law 8: the scores that training keeps are what the saved model tells the same rows.

Bins come from a sample, and a table holds values that are not in it: missing ones, infinite ones, categories, pairs of
columns that are otherwise never seen together. Training and the model's text must read them alike.

Three things of the engines themselves are left out: XGBoost refuses infinite numbers and strange categories; LightGBM
bundles columns that a sample never shows together, and loses one of two values where they are; and its
``zero_as_missing`` takes negative numbers for zeros where the sample has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from engine_kits import LIGHTGBM, NATIVE, XGBOOST, EngineKit, every_engine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pucboost as puc
from pucboost._virtual.rare_categories import LARGEST_WRITTEN

NUMBERS = [np.nan, 0.0, -0.0, 7.5, -7.5, 1e6, -1e6, 0.1, 1e-36, -1e-36, 5e-324, -5e-324, 16_777_217.0]
TOO_LARGE = [np.inf, -np.inf, 1e308, -1e308, 3.5e38, -3.5e38, 1e300, -1e300, 1e301, -1e301]
CATEGORIES = [np.nan, 77.0, 78.0, 300.0]
NO_CATEGORIES = [-1.0, -0.5, 0.5, 3.7, 2.0**31, 1e18, np.inf, -np.inf]
LARGE_CATEGORIES = [LARGEST_WRITTEN - 1.0, LARGEST_WRITTEN + 1.0, 200_000.0]


@dataclass
class People:
    X: Any
    y: Any
    categorical: list[int]
    settings: dict[str, Any]


def column(kind: str, n: int, rng: np.random.Generator) -> Any:
    if kind == "category":
        share = 1.0 / np.arange(1, rng.choice([3, 12, 60, 400]) + 1) ** rng.choice([0, 1, 2])
        return rng.choice(len(share), n, p=share / share.sum()).astype(float)
    if kind == "sparse":
        return np.where(rng.random(n) < rng.choice([0.02, 0.06, 0.2]), rng.poisson(3.0, n), 0.0) * rng.choice([1, -1])
    return {"normal": rng.normal(size=n), "whole": np.round(rng.normal(size=n)), "constant": np.ones(n)}[kind]


@st.composite
def people(draw: st.DrawFn, kit: EngineKit) -> People:
    """Draw a table of numbers, categories and sparse columns, each with a few strange values, and groups of columns."""
    some = st.sampled_from(["normal", "sparse", "whole", "category", "constant"])
    kinds = [*draw(st.lists(some, min_size=2, max_size=6)), *["sparse"] * draw(st.sampled_from([0, 4, 6]))]
    n, rng = draw(st.sampled_from([120, 300, 600])), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    group = [draw(st.sampled_from([-1, -1, 0, 1, 2])) for _ in kinds]
    group[0] = 0
    optional = {f"g{g}": [j for j, one in enumerate(group) if one == g] for g in range(3) if g in group}
    X = np.column_stack([column(kind, n, rng) for kind in kinds])
    categorical = [j for j, kind in enumerate(kinds) if kind == "category"]
    for j, kind in enumerate(kinds):
        odd = [*NUMBERS, *TOO_LARGE] if kit is not XGBOOST else NUMBERS
        if kind == "category":
            odd = [*CATEGORIES, *NO_CATEGORIES] if kit is not XGBOOST else CATEGORIES
            odd = [*odd, *LARGE_CATEGORIES] if group[j] < 0 and kit is not XGBOOST else odd
        values = draw(st.lists(st.sampled_from(odd), max_size=3))
        if values:
            rows = rng.random(n) < draw(st.sampled_from([0.002, 0.01, 0.1]))
            X[rows, j] = rng.choice(values, rows.sum())
    for columns in optional.values():
        X[np.ix_(rng.random(n) < draw(st.sampled_from([0.0, 0.02, 0.3, 0.7])), columns)] = np.nan
    with np.errstate(over="ignore"):
        y = rng.normal(size=n) + np.clip(np.nan_to_num(X, nan=3.0), -5, 5) @ rng.normal(size=len(kinds))
    augmentation = draw(st.sampled_from(["exhaustive", "balanced", "fixed", "none"]))
    seed = draw(st.integers(0, 99))
    return People(X, y, categorical, {"augmentation": augmentation, "copies": 2, "optional": optional, "seed": seed})


@st.composite
def of_lightgbm(draw: st.DrawFn, kit: EngineKit) -> dict[str, Any]:
    choices: dict[str, list[Any]] = {
        "bin_construct_sample_cnt": [50, 200, 10**6], "max_bin": [8, 63, 255], "min_data_in_bin": [1, 3],
        "min_data_in_leaf": [1, 3, 20], "num_leaves": [4, 24, 80], "cat_smooth": [0.0, 1.0, 10.0],
        "min_data_per_group": [1, 5, 100], "max_cat_to_onehot": [1, 4, 20], "path_smooth": [0.0, 1.0],
        "extra_trees": [False, True], "boost_from_average": [True, False],
    }  # fmt: skip
    own = {"enable_bundle": [True, False], "zero_as_missing": [False, False, True]} if kit is NATIVE else {}
    params = {name: draw(st.sampled_from(values)) for name, values in {**choices, **own}.items()}
    return {"metric": "None", "enable_bundle": False, **params}


@st.composite
def of_xgboost(draw: st.DrawFn, _: EngineKit) -> dict[str, Any]:
    choices = {
        "max_bin": [8, 63, 256],
        "max_depth": [2, 6],
        "min_child_weight": [0.0, 1.0],
        "max_cat_to_onehot": [1, 20],
    }
    return {name: draw(st.sampled_from(values)) for name, values in choices.items()}


class Kept:
    """A metric that keeps the predictions it sees."""

    seen: Any = None

    def __call__(self, predictions: Any, data: Any) -> tuple[str, float, bool]:
        self.seen = predictions.copy()
        return "none", 0.0, False


def told(kit: EngineKit, booster: Any, rows: Any, categorical: list[int]) -> Any:
    """Return what the saved model predicts, by the engine alone."""
    if kit is not XGBOOST:
        return lgb.Booster(model_str=booster.model_to_string()).predict(rows)
    types = ["c" if j in categorical else "q" for j in range(rows.shape[1])] if categorical else None
    matrix = xgb.DMatrix(rows.astype(np.float32), feature_types=types, enable_categorical=True)
    return xgb.Booster(model_file=bytearray(booster.save_raw("json"))).predict(matrix)


def check(kit: EngineKit, table: People, params: dict[str, Any], objective: str, rate: float) -> None:
    X, y = table.X, table.y
    if objective != "l2":
        y = (np.argsort(np.argsort(y)) * (3 if objective == "multiclass" else 2) // len(y)).astype(float)
    zero = params.get("zero_as_missing", False)
    if zero:  # then 0 is no category, and denormal numbers are zeros
        X = np.where(np.abs(X) < 1e-30, 0.0, X)
        X[:, table.categorical] = np.where(np.abs(X[:, table.categorical]) < 1, 1.0, X[:, table.categorical])
    data, kept = puc.Dataset(X, y, categorical_feature=table.categorical or "auto"), Kept()
    goal = {"objective": kit.objectives[objective], "learning_rate": rate, kit.threads: 1}
    goal |= {"num_class": 3} if objective == "multiclass" else {}
    given = {**kit.params, **goal, **params, **table.settings}
    booster = puc.train(given, data, 5, valid_sets=[data], feval=kept)
    rows = puc.augment(np.where(X == 0, np.nan, X) if zero else X, y, **table.settings)[0]
    expected = told(kit, booster, rows, table.categorical)
    scale = max(1.0, float(np.abs(expected).max()))
    found = kept.seen.reshape(expected.shape)
    off = ~np.isclose(found, expected, rtol=1e-4, atol=2e-5 * scale).reshape(len(rows), -1).all(axis=1)
    assert not off.any(), (off.sum(), rows[off][0].tolist(), found[off][0], expected[off][0])


def search(kit: EngineKit, data: st.DataObject) -> None:
    table, params = data.draw(people(kit)), data.draw(of_xgboost(kit) if kit is XGBOOST else of_lightgbm(kit))
    objective = data.draw(st.sampled_from(["l2", "l2", "binary", "multiclass"]))
    check(kit, table, params, objective, data.draw(st.sampled_from([0.1, 0.5, 1.0])))


quietly = pytest.mark.filterwarnings("ignore::UserWarning")
patiently = [HealthCheck.too_slow, HealthCheck.data_too_large]


@every_engine
@quietly
@settings(max_examples=40, suppress_health_check=patiently)
@given(data=st.data())
def test_scores_in_training_are_those_of_the_saved_model(kit: EngineKit, data: st.DataObject) -> None:
    search(kit, data)


@pytest.mark.slow
@every_engine
@quietly
@settings(max_examples=400, suppress_health_check=patiently)
@given(data=st.data())
def test_however_long_one_looks(kit: EngineKit, data: st.DataObject) -> None:
    search(kit, data)


@quietly
def test_columns_that_a_sample_never_shows_together() -> None:
    """The native engine bundles those that nobody has together, and looks at everybody."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.normal(size=600), *(column("sparse", 600, rng) for _ in range(6))])
        X[:, 1:] = np.abs(X[:, 1:])
        X[rng.random(600) < 0.3, 0] = np.nan
        X[np.ix_(rng.random(600) < 0.3, [4, 5, 6])] = np.nan
        y = rng.normal(size=600) + (np.nan_to_num(X[:, 1:]) > 0) @ rng.normal(size=6)
        groups = {"augmentation": "exhaustive", "optional": {"a": [0], "b": [4, 5, 6]}, "seed": seed}
        params = {"bin_construct_sample_cnt": 50, "min_data_in_leaf": 1, "min_data_in_bin": 1}
        check(NATIVE, People(X, y, [], groups), params, "l2", 0.5)


@pytest.mark.parametrize("kit", [LIGHTGBM, NATIVE], ids=str)
@quietly
def test_what_nobody_withholds_in_the_sample_has_a_direction(kit: EngineKit) -> None:
    """Otherwise withheld values are read as 0, here an extreme one. Three in 2,000 withhold the last column."""
    rng = np.random.default_rng(0)
    X = rng.normal(loc=100.0, size=(2_000, 2))
    y = X[:, 1] + rng.normal(size=2_000)
    X[[500, 1_000, 1_500], 1] = np.nan
    params = {**kit.params, "optional": [1], "augmentation": "none", "bin_construct_sample_cnt": 50, "seed": 1}
    booster = puc.train({**params, "objective": "l2"}, puc.Dataset(X, y), 20)
    splits = booster.trees_to_dataframe().query("split_feature == 'Column_1'")
    assert set(splits.missing_type) == {"NaN"}
