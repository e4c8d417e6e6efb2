"""Refitting and continuing models keeps the protection, which the engines' own ways on raw rows undo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from engine_kits import LIGHTGBM, OPTIONAL, XGBOOST, EngineKit, every_engine, logistic
from tools import QUIET, make_table

import pucboost as puc

GROUPS = {"blood": ["d"], "app": ["e", "f"]}


def informative(n: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The value is noise to the sharers, but who withholds has twice the outcome: f* is the same for all."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    silent = rng.random(n) < 0.5
    y = np.where(silent, 2.0, 1.0) + rng.normal(0, 0.1, n)
    X[silent, 1] = np.nan
    return X, y


def raw_refit(kit: EngineKit, booster: Any, X: Any, y: Any) -> Any:
    if kit is not XGBOOST:
        return lgb.Booster.refit(booster, X, y, decay_rate=0.0)
    params = {"process_type": "update", "updater": "refresh", **XGBOOST.quiet}
    return xgb.train(params, xgb.DMatrix(X, y), booster.num_boosted_rounds(), xgb_model=booster)


@every_engine
def test_the_silent_stay_protected(kit: EngineKit) -> None:
    X, y = informative()
    booster = kit.fit(X, y, 60, optional=[1], objective=kit.objectives["l2"])
    silent = np.isnan(X[:, 1])

    def told(model: Any) -> float:
        return float(np.mean(kit.predict(model, X)[silent]))

    assert told(booster) == pytest.approx(1.5, abs=0.05)
    again = puc.refit(booster, X, y, decay_rate=0.0)
    more = puc.train(
        {**kit.params, "objective": kit.objectives["l2"], "optional": [1]}, puc.Dataset(X, y), 5, init_model=again
    )
    assert kit.rounds(more) == 65
    assert told(again) == pytest.approx(1.5, abs=0.05)
    # What is prevented: there is a split between the silent and the others, and leaves learn what is in the data.
    assert told(raw_refit(kit, booster, X, y)) > 1.6


@every_engine
def test_consent_summary_and_sketch_are_those_of_the_refit(kit: EngineKit, tmp_path: Path) -> None:
    X, y = make_table(500)
    key = tmp_path / "key"
    key.write_text("0123456789abcdef-a-secret")
    booster = kit.fit(X, y, row_key=key)
    before = kit.trees(booster)
    others, y_others = make_table(400, seed=5)
    again = puc.refit(booster, others, y_others, seed=3, augmentation="exhaustive")
    assert kit.trees(booster) == before
    assert again.consent == booster.consent == puc.consent_of(again)
    assert again.puc_summary.source_rows == 400
    assert (again.puc_summary.augmentation, again.puc_summary.seed) == ("exhaustive", 3)
    assert again.puc_summary.row_hashes is None
    keyed = puc.refit(booster, others, y_others, row_key=key).puc_summary.row_hashes
    assert keyed != booster.puc_summary.row_hashes
    assert len(keyed.hashes) == 256
    puc.save_model(again, tmp_path / "model")
    np.testing.assert_array_equal(puc.predict(puc.load_model(tmp_path / "model"), X), puc.predict(again, X))
    with pytest.raises(TypeError, match="would learn what silence says"):
        again.update(lgb.Dataset(X, y))


def test_lightgbm_on_the_materialised_table() -> None:
    X, y = make_table(500)
    booster = LIGHTGBM.fit(X, y)
    weight = np.random.default_rng(0).uniform(0.5, 2, 500)
    ours = puc.refit(booster, X, y, sample_weight=weight, seed=2, decay_rate=0.3)
    X_aug, y_aug, w, _ = puc.augment(X, y, optional=OPTIONAL, seed=2, sample_weight=weight)
    theirs = lgb.Booster.refit(booster, X_aug, y_aug, weight=w * np.float32(500 / len(w)), decay_rate=0.3)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)
    assert not np.allclose(ours.predict(X), booster.predict(X))


def test_xgboost_on_the_materialised_table() -> None:
    X, y = make_table(500)
    booster = XGBOOST.fit(X, y)
    ours = puc.refit(booster, *make_table(500, seed=1), seed=2)
    X_aug, y_aug, w, _ = puc.augment(*make_table(500, seed=1), optional=OPTIONAL, seed=2)
    matrix = xgb.DMatrix(X_aug, y_aug, weight=w * np.float32(500 / len(w)))
    theirs = xgb.train({"process_type": "update", "updater": "refresh"}, matrix, 10, xgb_model=booster)
    np.testing.assert_allclose(puc.predict(ours, X), theirs.predict(xgb.DMatrix(X)), rtol=1e-5)
    assert not np.allclose(puc.predict(ours, X), puc.predict(booster, X))


def test_xgboost_knows_its_learning_rate_from_a_file(tmp_path: Path) -> None:
    """XGBoost's files leave it out, and with its default leaves would be three times too large."""
    X, y = make_table(500)
    booster = XGBOOST.fit(X, y, learning_rate=0.1, reg_lambda=5.0)
    puc.save_model(booster, tmp_path / "model.json")
    loaded = puc.load_model(tmp_path / "model.json")
    np.testing.assert_allclose(
        puc.predict(puc.refit(loaded, X, y), X), puc.predict(puc.refit(booster, X, y), X), rtol=1e-6
    )


@every_engine
def test_categories_go_by_name(kit: EngineKit) -> None:
    X, y = make_table(600)
    job = np.random.default_rng(0).choice(["clerk", "nurse", "smith"], 600)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(job=pd.Categorical(job))
    y = y + 2 * (job == "nurse")
    booster = kit.fit(frame, y, 20, optional=GROUPS, objective=kit.objectives["l2"])
    turned = frame.assign(job=frame["job"].cat.reorder_categories(["smith", "nurse", "clerk"]))
    again, other = puc.refit(booster, frame, y), puc.refit(booster, turned, y)
    np.testing.assert_array_equal(puc.predict(again, frame), puc.predict(other, turned))
    assert puc.predict(again, frame)[job == "nurse"].mean() > 1.5 + puc.predict(again, frame)[job == "clerk"].mean()


@every_engine
def test_what_cannot_be_refitted(kit: EngineKit) -> None:
    X, y = make_table(300)
    booster = kit.fit(X, y, 3)
    with pytest.raises(ValueError, match="has no consent schema, so it is not known what is optional"):
        puc.refit(kit.fit(X, y, 3, optional=[]), X, y)
    with pytest.raises(ValueError, match="An anchored model cannot be refitted"):
        puc.refit(kit.fit(X, y, 3, anchor="base"), X, y)
    with pytest.raises(ValueError, match="decay_rate must be between 0 and 1, got 2"):
        puc.refit(booster, X, y, decay_rate=2)
    if kit is XGBOOST:
        with pytest.raises(ValueError, match="XGBoost replaces the values of leaves"):
            puc.refit(booster, X, y, decay_rate=0.9)
    with pytest.raises(ValueError, match="The table has 5 columns"):
        puc.refit(booster, X[:, :5], y)
    with pytest.raises(ValueError, match="augmentation must be one of"):
        puc.refit(booster, X, y, augmentation="some")
    custom = kit.fit(X, y, 3, objective=logistic)
    with pytest.raises(ValueError, match="A model with a callable objective cannot be refitted"):
        puc.refit(custom, X, y)
    with pytest.warns(UserWarning, match="The booster was trained with augmentation='none'"):
        puc.refit(kit.fit(X, y, 3, augmentation="none"), X, y)


@every_engine
def test_continuing_a_model_that_reads_silence_is_said(kit: EngineKit, tmp_path: Path) -> None:
    X, y = make_table(300)
    reads = kit.fit(X, y, 3, augmentation="none")
    params = {**kit.params, "optional": OPTIONAL}
    puc.save_model(reads, tmp_path / "model")
    for init_model in (reads, tmp_path / "model", str(tmp_path / "model")):
        with pytest.warns(UserWarning, match="init_model was trained with augmentation='none'"):
            puc.train(params, puc.Dataset(X, y), 2, init_model=init_model)
    puc.train({**params, "augmentation": "none"}, puc.Dataset(X, y), 2, init_model=reads)  # nobody expects protection


# ----- files, and models to continue


PARAMS: dict[str, Any] = {**QUIET, "objective": "binary", "optional": OPTIONAL}


def test_saving_without_consent_or_loading_a_plain_file(tmp_path: Path) -> None:
    X, y = make_table(200)
    plain = lgb.train(QUIET, lgb.Dataset(X, y), 2)
    with pytest.raises(ValueError, match="The booster has no consent schema"):
        puc.save_model(plain, tmp_path / "model.txt")
    assert list(tmp_path.iterdir()) == []
    plain.save_model(tmp_path / "plain.txt")
    with pytest.raises(ValueError, match=r"plain.txt' has no consent schema"):
        puc.load_model(tmp_path / "plain.txt")
    with pytest.raises(FileNotFoundError):
        puc.load_model(tmp_path / "nothing.txt")


def test_continuing_needs_the_same_consent(tmp_path: Path) -> None:
    X, y = make_table(300)
    first, path = puc.train(PARAMS, lgb.Dataset(X, y), 2), tmp_path / "model.txt"
    puc.save_model(first, path)
    for model in (first, path, str(path)):
        for optional in ([3], []):
            with pytest.raises(ValueError, match="init_model was trained under Consent"):
                puc.train({**PARAMS, "optional": optional}, lgb.Dataset(X, y), 2, init_model=model)
        assert puc.train(PARAMS, lgb.Dataset(X, y), 2, init_model=model).num_trees() == 4
    puc.save_model(first, path, num_iteration=1)
    assert puc.load_model(path).num_trees() == 1
