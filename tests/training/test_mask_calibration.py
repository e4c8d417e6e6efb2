"""``calibrate_masks``: right on average for all who share at least a mask, by a round of trees on what is missing."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from engine_kits import LIGHTGBM, XGBOOST, EngineKit, every_engine
from sklearn.linear_model import LinearRegression

import pucboost as puc
from pucboost._engines import boosters_of
from pucboost._tables.containers import row_source

OPTIONAL = {"app": ["steps", "pulse"], "job": ["job"], "blood": ["glucose"]}
JOBS = ["baker", "nurse", "pilot"]


def people(n: int = 3_000, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Two groups of one column, one of them categories, and one of two columns that are partly missing on their own."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({name: rng.normal(size=n) for name in ("age", "steps", "pulse", "glucose")})
    X.insert(3, "job", pd.Categorical(rng.choice(JOBS, n), categories=JOBS))
    score = X["age"] + X["steps"] + X["glucose"] / 2 + (X["job"] == "pilot")
    for columns, chance in (("steps pulse", 0.3), ("steps", 0.2), ("pulse", 0.2)):
        X.loc[rng.random(n) < chance, columns.split()] = np.nan
    for column in ("job", "glucose"):
        X.loc[rng.random(n) < 1 / (1 + np.exp(-score)), column] = np.nan
    return X, score.to_numpy() + rng.normal(size=n)


X, SCORE = people()
MEAN = np.exp(np.clip(SCORE, -3, 3) / 3)
OUTCOMES = {
    "l2": SCORE,
    "binary": (SCORE > 0).astype(float),
    "poisson": np.random.default_rng(1).poisson(MEAN).astype(float),
    "gamma": MEAN,
    "tweedie": 1.5 * np.random.default_rng(2).poisson(MEAN),
    "multiclass": np.digitize(SCORE, [-1, 1]).astype(float),
}


def train(kit: EngineKit, loss: str = "l2", strength: Any = True, rounds: int = 8, **others: Any) -> Any:
    params = {
        **kit.params,
        "objective": kit.objectives.get(loss, loss),
        "optional": OPTIONAL,
        "augmentation": "exhaustive",
        "calibrate_masks": strength,
        "num_leaves": 4,
        **({"num_class": 3} if loss == "multiclass" else {}),
        **others,
    }
    return puc.train(params, puc.Dataset(X, OUTCOMES[loss]), rounds)


AUGMENTED, _, _, SOURCE = puc.augment(X, SCORE, optional=OPTIONAL, augmentation="exhaustive")
MASKS = puc.Consent.of(OPTIONAL, row_source(X)).availability(AUGMENTED)


def residuals(model: Any, loss: str = "l2", weight: Any = None) -> np.ndarray:
    """Σ w·(f − y) / Σ w over the virtual rows of each mask, with classes as columns."""
    y = OUTCOMES[loss][SOURCE]
    y = np.eye(3)[y.astype(int)] if loss == "multiclass" else y[:, None]
    off = puc.predict(model, AUGMENTED).reshape(len(y), -1) - y
    w = np.ones(len(y)) if weight is None else weight[SOURCE]
    return np.array([np.average(off[s == MASKS], axis=0, weights=w[s == MASKS]) for s in range(8)])


@every_engine
@pytest.mark.parametrize("loss", OUTCOMES)
def test_residuals_of_every_mask_add_up_to_nothing(kit: EngineKit, loss: str) -> None:
    """But for shrinkage, which is weak here: every mask has hundreds of people, and eight small trees are far off."""
    before, after = residuals(train(kit, loss, False), loss), residuals(train(kit, loss), loss)
    assert np.abs(after).max() < 0.25 * np.abs(before).max()


@every_engine
def test_weights_and_exposures_count(kit: EngineKit) -> None:
    """With an exposure e the book is Σ (e·f − y), with w = e."""
    exposure = np.random.default_rng(3).uniform(0.2, 3, len(X))
    params = {
        **kit.params,
        "objective": kit.objectives["poisson"],
        "optional": OPTIONAL,
        "augmentation": "exhaustive",
        "num_leaves": 4,
    }
    total = OUTCOMES["poisson"] * exposure
    data = puc.Dataset(X, total, exposure=exposure)
    before, after = (
        residuals(puc.train({**params, "calibrate_masks": flag}, data, 8), "poisson", exposure) for flag in (0, 1)
    )
    assert np.abs(after).max() < 0.25 * np.abs(before).max()


@every_engine
def test_the_trees_before_are_the_same_and_a_strength_scales_what_is_added(kit: EngineKit) -> None:
    plain, half, whole = (raw(train(kit, strength=s)) for s in (False, 0.5, True))
    assert np.abs(whole - plain).max() > 0.05
    np.testing.assert_allclose(half - plain, (whole - plain) / 2, atol=1e-5)


def raw(booster: Any, table: Any = AUGMENTED) -> np.ndarray:
    return boosters_of(booster).predict(booster, numbers(table), raw_score=True)


def numbers(table: Any) -> np.ndarray:
    return row_source(table).window(0, len(table))


@every_engine
def test_one_constant_per_mask_whatever_is_missing_within_a_group(kit: EngineKit) -> None:
    """A group counts as shared as ``Consent.availability`` says: if at least one of its columns has a value."""
    others, _ = people(1_000, seed=9)
    if kit is LIGHTGBM:  # XGBoost refuses infinite values
        others.loc[:99, "steps"], others.loc[100:199, "glucose"] = np.inf, -np.inf
    plain, calibrated = train(kit, strength=False), train(kit)
    added, masks = raw(calibrated, others) - raw(plain, others), plain.consent.availability(others)
    means = [added[masks == s].mean() for s in range(8)]
    np.testing.assert_allclose(added, np.array(means)[masks.astype(int)], atol=1e-5)
    assert len(set(np.round(means, 4))) > 4


def test_zeros_that_are_missing_are_missing() -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2_000, 2))
    y = Z.sum(axis=1)
    Z[rng.random(2_000) < 1 / (1 + np.exp(-y)), 1] = 0.0
    params = {**LIGHTGBM.params, "objective": "l2", "optional": [1], "zero_as_missing": True, "num_leaves": 3}
    plain, calibrated = (puc.train({**params, "calibrate_masks": flag}, (Z, y), 3) for flag in (False, True))
    added = calibrated.predict(Z) - plain.predict(Z)
    assert len(set(np.round(added[Z[:, 1] == 0], 9))) == len(set(np.round(added[Z[:, 1] != 0], 9))) == 1
    assert abs(added[Z[:, 1] == 0][0] - added[Z[:, 1] != 0][0]) > 0.01


@every_engine
def test_rounds_after_the_best_are_dropped_and_the_constants_are_those_of_the_best(kit: EngineKit) -> None:
    params = {**kit.params, "objective": kit.objectives["l2"], "optional": OPTIONAL, "early_stopping_round": 3}
    others = puc.Dataset(*people(300, seed=5))
    plain, calibrated = (
        puc.train({**params, "calibrate_masks": flag, "learning_rate": 0.8}, (X, SCORE), 60, [others])
        for flag in (False, True)
    )
    boosters = boosters_of(plain)
    best = boosters.facts(plain).best_round
    assert best is not None
    assert best < 50
    facts = boosters.facts(calibrated)
    assert facts.rounds == facts.used_rounds == best + 1
    added = raw(calibrated, X) - boosters.predict(plain, numbers(X), raw_score=True)
    assert len(set(np.round(added, 4))) <= 8
    np.testing.assert_array_equal(puc.predict(calibrated, X), np.asarray(kit.predict(calibrated, X)))


@every_engine
def test_files_copies_explanations_and_quotes_know_the_round(kit: EngineKit, tmp_path: Path) -> None:
    booster = train(kit, "binary", rounds=5)
    assert booster.puc_summary.mask_calibration == 1.0
    path = tmp_path / ("model.json" if kit is XGBOOST else "model.txt")
    puc.save_model(booster, path)
    told = puc.predict(booster, X)
    for again in (puc.load_model(path), pickle.loads(pickle.dumps(booster)), copy.deepcopy(booster)):
        assert again.puc_summary.mask_calibration == 1.0
        np.testing.assert_array_equal(puc.predict(again, X), told)
    rows, n_trees = numbers(X)[:100], 6
    if kit is not XGBOOST:
        plain: Any = lgb.Booster(model_file=path)
        assert len(booster.dump_model()["tree_info"]) == plain.num_trees() == n_trees
        assert len(booster.trees_to_dataframe()["tree_index"].unique()) == n_trees
        shares, scores = (plain.predict(rows, **{kind: True}) for kind in ("pred_contrib", "raw_score"))
    else:
        plain = xgb.Booster(model_file=path)
        matrix = xgb.DMatrix(rows, feature_names=plain.feature_names, feature_types=plain.feature_types)
        assert len(plain.get_dump(with_stats=True)) == len(plain.trees_to_dataframe()["Tree"].unique()) == n_trees
        shares, scores = (plain.predict(matrix, **{kind: True}) for kind in ("pred_contribs", "output_margin"))
    np.testing.assert_allclose(shares.sum(axis=1), scores, atol=1e-5)
    np.testing.assert_allclose(scores, raw(booster, X)[:100])
    forest = boosters_of(booster).trees(booster)
    assert forest is not None
    assert len(forest.output) == n_trees
    quotes = puc.quote(booster, X.head(400))
    for name, shown in (("nothing", []), ("job + blood", ["job", "glucose"])):
        hidden = X.head(400).copy()
        hidden.loc[:, [c for c in X.columns[1:] if c not in shown]] = np.nan
        can = quotes[name].notna()
        np.testing.assert_array_equal(quotes[name][can], puc.predict(booster, hidden)[can])


@every_engine
def test_a_continued_model_keeps_its_constants_and_gets_new_ones(kit: EngineKit) -> None:
    first = train(kit, rounds=3)
    params = {**kit.params, "objective": kit.objectives["l2"], "optional": OPTIONAL, "num_leaves": 4}
    params |= {"augmentation": "exhaustive", "calibrate_masks": True}
    more = puc.train(params, (X, SCORE), 4, init_model=first)
    assert boosters_of(more).facts(more).rounds == 3 + 1 + 4 + 1
    assert np.abs(residuals(more)).max() < 0.1
    without = puc.train({**params, "calibrate_masks": False}, (X, SCORE), 4, init_model=first)
    assert boosters_of(without).facts(without).rounds == 3 + 1 + 4
    assert without.puc_summary.mask_calibration == 0


@every_engine
def test_refitting_makes_the_constants_again(kit: EngineKit) -> None:
    booster = train(kit, rounds=6, strength=0.9)
    again = puc.refit(booster, X, SCORE + 2)
    assert boosters_of(again).facts(again).rounds == 7
    assert again.puc_summary.mask_calibration == 0.9
    assert np.abs(residuals(again) - 2).max() < 0.3


@every_engine
def test_people_who_share_nothing_keep_their_anchor(kit: EngineKit) -> None:
    anchor = LinearRegression().fit(X[["age"]].to_numpy(), SCORE)
    model = train(kit, anchor=anchor)
    off = residuals(model)
    assert np.abs(off[1:]).max() < 0.25 * np.abs(residuals(train(kit, strength=False, anchor=anchor))[1:]).max()
    nothing = MASKS == 0
    expected = anchor.predict(AUGMENTED.loc[nothing, ["age"]].to_numpy())
    np.testing.assert_array_equal(puc.predict(model, AUGMENTED[nothing]), expected)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "strength": ({"calibrate_masks": 2}, "calibrate_masks must be True, False or a strength from 0"),
    "word": ({"calibrate_masks": "yes"}, "got 'yes'"),
    "quantile": ({"objective": "quantile"}, "calibrate_masks with objective 'quantile': constants make the mean"),
    "callable": ({"objective": lambda s, d: (s, s)}, "calibrate_masks with this objective"),
    "l1": ({"objective": "l1"}, "calibrate_masks with this objective"),
    "none": ({"augmentation": "none"}, "people as they are tell what silence says"),
    "pull": ({"anchor": "base", "anchor_strength": 1.0}, "calibrate_masks with anchor_strength"),
    "compact": ({"compact": True}, "calibrate_masks with compact"),
    "interactions": ({"interaction_constraints": [["age", "glucose"]]}, "its tree combines all groups"),
    "forest": (
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        "a forest predicts the mean of its trees",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_calibrated_is_refused_by_name(name: str) -> None:
    params, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        puc.train({"optional": OPTIONAL, "calibrate_masks": True, "verbosity": -1, **params}, (X, SCORE), 2)


def test_what_else_is_refused() -> None:
    params = {"optional": OPTIONAL, "calibrate_masks": True, "verbosity": -1, "objective": "l2"}
    with pytest.raises(ValueError, match="with keep_training_booster: the calibration comes after the last round"):
        puc.train(params, (X, SCORE), 2, keep_training_booster=True)
    with pytest.raises(ValueError, match="calibrate_masks is not supported by cv"):
        puc.cv(params, puc.Dataset(X, SCORE), 2, stratified=False)
    with pytest.raises(ValueError, match="multi_output_tree"):
        puc.train({**params, "engine": "xgboost", "multi_strategy": "multi_output_tree"}, (X, SCORE), 2)


def test_nothing_optional_is_nothing_to_calibrate() -> None:
    given = {"objective": "l2", "verbosity": -1}
    booster = puc.train({**given, "calibrate_masks": True}, (X, SCORE), 2)
    assert booster.num_trees() == 2


def test_estimators_take_it() -> None:
    model = puc.PUCRegressor(optional=OPTIONAL, n_estimators=5, num_leaves=4, calibrate_masks=True, n_jobs=1)
    model.fit(X, SCORE)
    assert model.booster_.puc_summary.mask_calibration == 1.0
    assert model.best_iteration_ == 6
