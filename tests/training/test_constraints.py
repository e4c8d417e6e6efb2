"""Monotone and interaction constraints by column name, on every engine."""

from __future__ import annotations

import re
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from engine_kits import EngineKit, every_engine

import pucboost as puc

COLUMNS = ["age", "bmi", "steps", "pulse"]
OPTIONAL = ["steps", "pulse"]

with_and_without = pytest.mark.parametrize("optional", [OPTIONAL, None], ids=["optional", "nothing optional"])


def people(n: int = 700) -> tuple[pd.DataFrame, Any]:
    """Outcomes that rise and fall with age, and depend on age × bmi."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, size=(n, 4)), columns=COLUMNS)
    y = np.sin(4 * X["age"]) + 2 * X["age"] * X["bmi"] + X["steps"] - X["pulse"]
    for column in OPTIONAL:
        X.loc[rng.random(n) < 0.4, column] = np.nan
    return X, y.to_numpy()


X, y = people()


def train(kit: EngineKit, optional: Any, data: Any = None, rounds: int = 15, **constraints: Any) -> Any:
    params = {**kit.params, "objective": kit.objectives["l2"], "optional": optional, **constraints}
    return puc.train(params, (X, y) if data is None else data, rounds)


def at(kit: EngineKit, booster: Any, **values: float) -> Any:
    """Predictions for the first hundred people, with some values set."""
    return np.asarray(kit.predict(booster, X.head(100).assign(**values)), dtype=np.float64)


@every_engine
@with_and_without
def test_a_monotone_constraint_holds(kit: EngineKit, optional: Any) -> None:
    def falls(booster: Any) -> float:
        along = np.array([at(kit, booster, age=age) for age in np.linspace(-1, 1, 21)])
        return float(-np.diff(along, axis=0).min())

    assert falls(train(kit, optional)) > 0.1
    assert falls(train(kit, optional, monotone_constraints={"age": 1})) <= 1e-6


@every_engine
@with_and_without
def test_interactions_are_limited(kit: EngineKit, optional: Any) -> None:
    """Without interaction, what age adds does not depend on bmi."""

    def interaction(booster: Any) -> float:
        corners = [[at(kit, booster, age=age, bmi=bmi) for bmi in (-0.8, 0.8)] for age in (-0.8, 0.8)]
        (a, b), (c, d) = corners
        return float(np.abs(a - b - c + d).max())

    assert interaction(train(kit, optional)) > 1
    assert interaction(train(kit, optional, interaction_constraints=[["age", "steps"], ["bmi", "steps"]])) < 1e-5
    # A column in no list is used, but by itself.
    alone = train(kit, optional, interaction_constraints=[["age", "steps"]])
    assert interaction(alone) < 1e-5
    assert np.abs(at(kit, alone, pulse=-0.8) - at(kit, alone, pulse=0.8)).min() > 0.1


@every_engine
@with_and_without
def test_by_name_is_by_position(kit: EngineKit, optional: Any) -> None:
    named = {"monotone_constraints": {"bmi": -1.0, "age": 0}, "interaction_constraints": [["pulse", "age"], ["bmi"]]}
    before = {key: value.copy() for key, value in named.items()}  # type: ignore[attr-defined]
    listed = {"monotone_constraints": [0, -1, 0, 0], "interaction_constraints": [[3, 0], [1], [2]]}
    expected = kit.model(train(kit, optional, **listed))
    assert kit.model(train(kit, optional, **named)) == expected
    assert named == before
    assert kit.model(train(kit, optional, mc=named["monotone_constraints"],
                           interaction_constraints=listed["interaction_constraints"])) == expected  # fmt: skip
    own_names = puc.Dataset(X.to_numpy(), y, feature_name=COLUMNS)
    positions = puc.Dataset(X.to_numpy(), y, feature_name=COLUMNS)
    assert kit.model(train(kit, optional, own_names, **named)) == kit.model(train(kit, optional, positions, **listed))
    params = {**kit.params, "objective": kit.objectives["l2"], "optional": optional}
    folds: Any = {"nfold": 2, "stratified": False}
    assert puc.cv({**params, **named}, (X, y), 2, **folds) == puc.cv({**params, **listed}, (X, y), 2, **folds)


@every_engine
def test_estimators(kit: EngineKit) -> None:
    def predict(**constraints: Any) -> Any:
        model = puc.PUCRegressor(optional=OPTIONAL, engine=kit.name, n_estimators=10, n_jobs=2, **constraints)
        return model.fit(X, y).predict(X)

    named = predict(monotonic_cst={"age": 1}, interaction_constraints=[["age", "bmi"]])
    listed = predict(monotone_constraints=[1, 0, 0, 0], interaction_constraints=[[0, 1], [2], [3]])
    np.testing.assert_array_equal(named, listed)
    assert (named != predict()).any()


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"monotone_constraints": {"Age": 1}}, "names column 'Age', which the table does not have. Did you mean 'age'?"),
    ({"mc": {"age": 2}}, "mc of column 'age' must be 1 (increasing), -1 (decreasing) or 0 (neither), got 2."),
    ({"monotone_constraints": {"age": True}}, "monotone_constraints of column 'age' must be 1"),
    ({"monotone_constraints": {0: 1}}, "monotone_constraints must name columns by strings"),
    ({"interaction_constraints": [["age", "bmj"]]}, "interaction_constraints names column 'bmj', which"),
    ({"interaction_constraints": [["age", 1]]}, "must name columns by strings, or list all by position; got 1."),
    ({"interaction_constraints": ["age", "bmi"]}, "must be a list of lists of columns; it contains 'age'."),
]


@every_engine
def test_errors(kit: EngineKit) -> None:
    for optional in (OPTIONAL, None):
        for constraints, message in ERRORS:
            params = {**kit.params, "objective": kit.objectives["l2"], "optional": optional, **constraints}
            for run in (puc.train, puc.cv):
                with pytest.raises(ValueError, match=re.escape(message)):
                    run(params, (X, y), 2)
    with pytest.raises(ValueError, match="monotone_constraints names column 'age', but the table has no column names"):
        puc.train({**kit.params, "optional": [2, 3], "monotone_constraints": {"age": 1}}, (X.to_numpy(), y), 2)


def test_datasets_that_lightgbm_has_read_already() -> None:
    """With nothing optional LightGBM reads the Dataset itself, so the names come from wherever it has them."""
    params = {"verbosity": -1, "num_threads": 2}
    expected = lgb.train({**params, "monotone_constraints": [1, 0, 0, 0]}, lgb.Dataset(X, y), 5).predict(X)
    rows = list(range(len(y)))
    datasets = [lgb.Dataset(X, y).construct(), lgb.Dataset(X, y, free_raw_data=False).subset(rows)]
    for data in datasets:
        booster = puc.train({**params, "monotone_constraints": {"age": 1}}, data, 5)
        np.testing.assert_array_equal(booster.predict(X), expected)
