"""The laws of reasons: values add up, silence has none, and they are those of the game by its definition."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from engine_kits import LIGHTGBM, OPTIONAL, EngineKit, every_engine
from tools import make_table
from twins.shapley import shapley_values

import pucboost as puc
from pucboost._engines import boosters_of
from pucboost._engines.trees import Forest
from pucboost._explaining import game
from pucboost._explaining.game import Players, TreeGame
from pucboost._kernels import compiling
from pucboost._prediction.predictor import MaskedPredictor

X, Y = make_table(600)
CATEGORY = 6
"""The column of categories in ``mixed``."""
TOLERANCE = 1e-5
"""XGBoost's own scores are of single precision."""


def mixed() -> Any:
    """The table with a column of categories that some withhold."""
    rng = np.random.default_rng(1)
    codes = np.where(rng.random(len(X)) < 0.3, np.nan, rng.integers(0, 9, len(X)))
    return np.column_stack([X, codes])


@cache
def fitted(kit: EngineKit, what: str = "numbers") -> Any:
    """A model that tests share and leave as it is."""
    if what == "classes":
        classes = np.digitize(X[:, 0] + np.nan_to_num(X[:, 5]), [-0.5, 0.5])
        return kit.fit(X, classes, 5, objective=kit.objectives["multiclass"], num_class=3)
    if what == "categories":
        table = frame(mixed())
        y = Y + np.isin(mixed()[:, CATEGORY], (1, 4, 5)) * np.nan_to_num(X[:, 3], nan=2.0)
        return kit.fit(table, y, 12, objective=kit.objectives["l2"], optional=["c3", "c4", "c5", f"c{CATEGORY}"])
    return kit.fit(X, Y, 15)


def frame(matrix: Any) -> pd.DataFrame:
    table = pd.DataFrame(matrix, columns=[f"c{j}" for j in range(matrix.shape[1])])
    if matrix.shape[1] > CATEGORY:
        table[f"c{CATEGORY}"] = pd.Categorical.from_codes(
            np.nan_to_num(matrix[:, CATEGORY], nan=-1).astype(int), [f"k{i}" for i in range(9)]
        )
    return table


def by_definition(
    model: Any, people: Any, background: Any, found: Any, of_column: Sequence[int], optional: Sequence[int] = OPTIONAL
) -> None:
    """Compare with the game by its definition, whose predictions are the engine's own."""
    boosters = boosters_of(model)
    for i in range(len(people)):
        silent = [j for j in optional if np.isnan(people[i, j])]
        who = ~np.isnan(np.delete(background, silent, axis=1)[:, 3:]).any(axis=1)
        others = background[who].copy()
        others[:, silent] = np.nan
        assert len(others) >= 20
        values, base = shapley_values(
            lambda rows: boosters.predict(model, rows, raw_score=True).astype(np.float64), people[i], others, of_column
        )
        np.testing.assert_allclose(found.values[i], values, atol=TOLERANCE)
        np.testing.assert_allclose(found.base_values[i], base, atol=TOLERANCE)
        wholly_silent = [j for j in set(of_column) if set(np.flatnonzero(np.array(of_column) == j)) <= set(silent)]
        assert (found.values[i][wholly_silent] == 0.0).all()


@every_engine
@pytest.mark.parametrize("what", ["numbers", "classes"])
def test_values_are_those_of_the_game(kit: EngineKit, what: str) -> None:
    model = fitted(kit, what)
    found = puc.explain(model, X[:6], X, max_samples=None)
    by_definition(model, X[:6], X, found, range(6))


@every_engine
def test_categories_and_columns_that_play_together(kit: EngineKit) -> None:
    matrix, model = mixed(), fitted(kit, "categories")
    codes = {"together": {"first": ["c0", "c3"], "kind": [f"c{CATEGORY}", "c5"]}, "max_samples": None}
    found = puc.explain(model, frame(matrix[:5]), frame(matrix), **codes)
    assert found.feature_names == ("first", "c1", "c2", "c4", "kind")
    by_definition(model, matrix[:5], matrix, found, [0, 1, 2, 0, 3, 4, 4], [3, 4, 5, 6])


@every_engine
@pytest.mark.parametrize("seed", range(3))
def test_random_models(kit: EngineKit, seed: int) -> None:
    """Ties, zeros, gaps in base columns, groups of several columns, trees of any size."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(400, 5)).round(int(rng.integers(0, 3)))
    table[:, 1][rng.random(400) < 0.2] = np.nan
    table[rng.random(400) < 0.4, 2] = np.nan
    table[rng.random(400) < 0.4, 3:] = np.nan
    y = rng.normal(size=400) + np.nan_to_num(table) @ rng.normal(size=5) + np.nan_to_num(table[:, 0] * table[:, 4])
    size = kit.small_trees if seed % 2 else kit.tiny_trees
    own = {"zero_as_missing": True} if kit is LIGHTGBM and seed == 2 else {}
    groups = {"one": [2], "two": [3, 4]}
    model = kit.fit(table, y, 8, optional=groups, objective=kit.objectives["l2"], **size, **own)
    found = puc.explain(model, table, table, max_samples=None)
    scores = puc.predict(model, table, raw_score=True)
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), scores, rtol=1e-5, atol=1e-5)
    assert (found.values[:, 2:][np.isnan(table[:, 2:])] == 0.0).all()
    shares = ~np.isnan(table[:, [2, 3]])
    predict = partial(boosters_of(model).predict, model, raw_score=True)
    for i in rng.choice(400, 3, replace=False):
        others = table[(shares >= shares[i]).all(axis=1)]
        others[:, np.flatnonzero(~shares[i][[0, 1, 1]]) + 2] = np.nan
        values, base = shapley_values(predict, table[i], others, range(5))
        np.testing.assert_allclose(found.values[i], values, atol=TOLERANCE)
        np.testing.assert_allclose(found.base_values[i], base, atol=TOLERANCE)


@every_engine
def test_values_add_up_and_what_is_withheld_has_none(kit: EngineKit) -> None:
    """On random people of every set: the sum is the engine's score, and silence adds 0, not nearly 0."""
    model = fitted(kit)
    found = puc.explain(model, X, X)
    scores = puc.predict(model, X, raw_score=True)
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), scores, rtol=1e-5, atol=1e-6)
    assert (found.values[np.isnan(X)] == 0.0).all()
    assert (found.values[:, 3:][~np.isnan(X[:, 3:])] != 0.0).mean() > 0.9
    assert {one.shared: one.used for one in found.compared_with}["nothing"] == 600


def test_sum_is_exact_in_double_precision() -> None:
    model = fitted(LIGHTGBM)
    found = puc.explain(model, X, X)
    scores = puc.predict(model, X, raw_score=True)
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), scores, rtol=1e-9, atol=1e-12)


@every_engine
def test_shap_agrees(kit: EngineKit) -> None:
    """On numbers, shap's interventional values with our background are ours."""
    shap = pytest.importorskip("shap")
    model = fitted(kit)
    found = puc.explain(model, X[:150], X, max_samples=50)
    predictor = MaskedPredictor(model, X)
    background = game.Background(predictor, 50)
    for mask in (0, 3, 7):
        _, rows = background.of(mask)
        people = np.flatnonzero(predictor.shared[:150] == mask)
        assert len(people) > 5
        explainer = shap.TreeExplainer(
            model, data=background.masked(rows, mask).rows, feature_perturbation="interventional", model_output="raw"
        )
        wanted = explainer.shap_values(X[people], check_additivity=False)
        np.testing.assert_allclose(found.values[people], wanted, atol=1e-6)
        np.testing.assert_allclose(found.base_values[people], explainer.expected_value, atol=1e-6)


@every_engine
def test_symmetric_columns_get_the_same(kit: EngineKit) -> None:
    """A score that stays the same when two columns are exchanged gives each what the other gets in the mirror."""
    forest, consent = boosters_of(fitted(kit)).trees(fitted(kit)), fitted(kit).consent
    symmetric = twice(forest, np.array([1, 0, 2, 3, 4, 5]))
    solver = TreeGame(symmetric, Players(consent, None), 1)
    background = np.concatenate([X[:30], X[:30, [1, 0, 2, 3, 4, 5]]])
    values, base = solver.solve(X[:50], background)
    mirrored, same_base = solver.solve(X[:50, [1, 0, 2, 3, 4, 5]], background)
    np.testing.assert_allclose(values[:, 0], mirrored[:, 1], atol=1e-12)
    np.testing.assert_allclose(values[:, 2:], mirrored[:, 2:], atol=1e-12)
    np.testing.assert_allclose(base, same_base)
    assert np.abs(values[:, 0] - values[:, 1]).max() > 0.1


def twice(forest: Forest, exchanged: Any) -> Forest:
    """A forest, and once more with columns exchanged."""
    per_node = ("left", "right", "reading", "threshold", "missing_left", "category_start", "category_count", "value")
    doubled = {name: np.tile(getattr(forest, name), 2) for name in (*per_node, "output")}
    columns = np.where(forest.left >= 0, exchanged[forest.column], forest.column)
    return dataclasses.replace(
        forest,
        tree_start=np.concatenate([forest.tree_start, forest.tree_start[1:] + forest.tree_start[-1]]),
        column=np.concatenate([forest.column, columns]),
        **doubled,
    )


def test_column_that_no_tree_uses_gets_nothing() -> None:
    table = X.copy()
    table[:, 1] = 0.5
    model = LIGHTGBM.fit(table, Y, 5)
    others = table.copy()
    others[:, 1] = np.random.default_rng(0).normal(size=len(table))
    assert (puc.explain(model, table[:50], others).values[:, 1] == 0.0).all()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("block", [7, 2_048])
def test_blocks_and_threads_do_not_matter(monkeypatch: pytest.MonkeyPatch, block: int, threads: int) -> None:
    wanted = puc.explain(fitted(LIGHTGBM), X, X)
    monkeypatch.setattr(game, "_PEOPLE_PER_BLOCK", block)
    monkeypatch.setattr(game, "_PEOPLE_PER_ROUND", 50)
    monkeypatch.setattr(game, "_LEAST_PER_THREAD", 10)
    found = puc.explain(fitted(LIGHTGBM), X, X, num_threads=threads)
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.base_values, wanted.base_values)
    assert compiling.thread_count(3) == 3


def test_large_backgrounds_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = puc.explain(fitted(LIGHTGBM), X[:60], X, max_samples=None)
    monkeypatch.setattr(game, "_COMPARED_PER_ROUND", 37)
    found = puc.explain(fitted(LIGHTGBM), X[:60], X, max_samples=None)
    np.testing.assert_allclose(found.values, wanted.values, atol=1e-12)
    np.testing.assert_allclose(found.base_values, wanted.base_values, atol=1e-12)


def test_everybody_is_compared_with_the_same_people() -> None:
    """The order of the explained people, and who else is explained, change nothing."""
    model = fitted(LIGHTGBM)
    all_at_once = puc.explain(model, X, X, max_samples=30)
    reverse = puc.explain(model, X[::-1], X, max_samples=30)
    np.testing.assert_array_equal(all_at_once.values, reverse.values[::-1])
    one = puc.explain(model, X[[7]], X, max_samples=30)
    np.testing.assert_array_equal(all_at_once.values[7], one.values[0])


def long_path(columns: int) -> Any:
    """A model with one path that tests many columns, and more rows of few."""
    rng = np.random.default_rng(0)
    table = rng.random((4_000, columns + 1))
    y = np.where((table[:, :columns] < 0.97).cumprod(axis=1).astype(bool), 1.0, 0.0).sum(axis=1)
    params = {"num_leaves": 300, "min_data_in_leaf": 1, "min_data_in_bin": 1, "objective": "l2"}
    return LIGHTGBM.fit(table, y, 1, optional=[columns], **params), table


def test_long_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    model, table = long_path(30)
    found = puc.explain(model, table[:200], table, max_samples=100)
    scores = puc.predict(model, table[:200], raw_score=True)
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), scores, rtol=1e-9)
    forest = boosters_of(model).trees(model)
    assert TreeGame(forest, Players(model.consent, None), 1)._deepest > 30
    monkeypatch.setattr(game, "MOST_PLAYERS", 12)
    with pytest.raises(ValueError, match=r"Tree 0 tests more than 12 columns on one path. Report some"):
        puc.explain(model, table[:200], table)


def test_anchor_adds_its_own_part() -> None:
    """What a column adds through the trees, and the anchor's score against the mean of its scores."""
    legacy = lgb.train({"verbosity": -1, "objective": "binary"}, lgb.Dataset(X[:, :3], Y), 8)
    model = LIGHTGBM.fit(X, Y, 10, anchor=legacy, objective="binary")
    found = puc.explain(model, X, X)
    assert found.feature_names[-1] == "anchor"
    scores = puc.predict(model, X, raw_score=True)
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), scores, rtol=1e-9, atol=1e-12)
    nothing = np.isnan(X[:, 3:]).all(axis=1)
    assert nothing.sum() > 20
    assert (found.values[nothing, :-1] == 0).all()
    own = legacy.predict(X[:, :3], raw_score=True)
    np.testing.assert_allclose(found.values[nothing, -1], own[nothing] - own.mean())
    assert (found.values[:, :-1][np.isnan(X)] == 0).all()


def test_without_enough_people_there_is_no_explanation() -> None:
    model = fitted(LIGHTGBM)
    shares_all = ~np.isnan(X).any(axis=1)
    background = np.concatenate([X[~shares_all], X[shares_all][:19]])
    found = puc.explain(model, X, background, favourable="lower")
    assert {one.shared: (one.people, one.used) for one in found.compared_with}["Column_3 + Column_4 + Column_5"] == (
        19,
        0,
    )
    np.testing.assert_array_equal(np.isnan(found.values).all(axis=1), shares_all)
    assert found.reasons()["reason_1"].isna()[shares_all].all()
    with pytest.raises(ValueError, match="Fewer than 20 people of the background share what person 0 shares"):
        puc.explain(model, X[shares_all], background).plot()


def test_trees_that_are_not_what_predicts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(LIGHTGBM)
    original = game.forest_of

    def damaged(*given: Any) -> Any:
        forest = original(*given)
        forest.value[:] *= 1.5
        return forest

    monkeypatch.setattr(game, "forest_of", damaged)
    with pytest.raises(ValueError, match="The engine predicts something else than the trees that were read"):
        puc.explain(model, X[:10], X)


def test_trees_that_cannot_be_read_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(game, "forest_of", lambda *given: None)
    with pytest.raises(ValueError, match="This version of pucboost cannot read the trees of the model"):
        puc.explain(fitted(LIGHTGBM), X[:10], X)
