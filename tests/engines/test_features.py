"""The table of what each engine can do is what engines do; ``"auto"`` chooses by it."""

from __future__ import annotations

import logging
import re
import warnings
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from engine_kits import KITS, LIGHTGBM, NATIVE, OPTIONAL, EngineKit, logistic
from tools import make_table

import pucboost as puc
from pucboost._engines import ENGINES
from pucboost._engines.features import FEATURES, why_not

NOT_TRAINED = ("forcedsplits_filename", "forcedbins_filename", "device_type", "tree_learner", "num_machines")
"""Need a file, a device or other machines."""


@pytest.mark.parametrize("engine", ENGINES)
def test_examples_are_refused_or_trained(engine: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))  # as many columns as the examples of constraints have
    y = (X[:, 0] + X[:, 2] > 0).astype(float)
    X[rng.random(200) < 0.4, 2] = np.nan
    kit = _kit(engine)
    refused = 0
    for row in FEATURES:
        if not row.example or "plan" in row.example:
            continue
        given: dict[str, Any] = {**kit.quiet, "engine": engine, "optional": [2, 3], "objective": "binary"}
        given |= row.example
        if "external_memory" in given:
            given["external_memory"] = tmp_path
        keep = given.pop("keep_training_booster", False)
        reason = why_not(engine, row)
        if reason is None and not any(name in row.example for name in NOT_TRAINED):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of small tables
                booster: Any = puc.train(given, puc.Dataset(X, y), 1, keep_training_booster=keep)
            assert puc.consent_of(booster) is not None, row.name
        elif reason is not None:
            refused += 1
            unknown = reason.endswith("does not know.")  # passes, but has no effect
            warned: Any = pytest.warns(UserWarning, match="Unknown parameter")
            with warned if unknown else pytest.raises(ValueError, match=re.escape(reason)):
                puc.train(given, puc.Dataset(X, y), 1, keep_training_booster=keep)
    assert refused > 10


def _kit(engine: str) -> EngineKit:
    return next(kit for kit in KITS if kit.name == engine)


def test_sentences_belong_to_engines_and_are_sentences() -> None:
    for row in FEATURES:
        assert set(row.no) <= set(ENGINES), row.name
        assert all(sentence.endswith(".") for sentence in row.no.values()), row.name


def test_metrics_of_rankings_are_refused_under_all_names() -> None:
    """XGBoost would take the table for one query, and raise an error of its own where rows have weights."""
    X, y = make_table(60)
    for engine in ENGINES:
        names = ["ndcg", "map", "auc,ndcg@5", ["auc", "lambdarank"]]
        for metric in [*names, "pre@3", "ndcg-"] if engine == "xgboost" else names:
            with pytest.raises(ValueError, match="needs queries, which are not defined with optional features"):
                puc.train({"engine": engine, "optional": [5], "metric": metric}, puc.Dataset(X, y), 1)
            with pytest.raises(ValueError, match="needs queries, which are not defined with optional features"):
                puc.cv({"engine": engine, "optional": [5], "metric": "auc"}, puc.Dataset(X, y), 1, metrics=metric)
        # The argument of cv replaces what the parameters name.
        given = {**_kit(engine).quiet, "engine": engine, "objective": "binary", "optional": [5], "metric": "ndcg"}
        assert list(puc.cv(given, puc.Dataset(X, y), 1, nfold=2, metrics="auc")) == ["valid auc-mean", "valid auc-stdv"]
    with pytest.raises(ValueError, match="metric='ndcg' needs queries"):
        puc.train({"engine": "xgboost", "optional": [5], "eval_metric": "ndcg"}, puc.Dataset(X, y), 1)


# ---------------------------------------------------------------- "auto": native where it can, else LightGBM


@pytest.fixture(autouse=True)
def few_suffice(monkeypatch: Any) -> None:
    monkeypatch.setattr("pucboost._engines.FEWEST_PEOPLE", 400)


AUTO = {**NATIVE.params, "engine": "auto", "optional": OPTIONAL, "copies": 3}
X, Y = make_table(400)


@pytest.fixture
def said(caplog: Any) -> Any:
    caplog.set_level(logging.INFO, "pucboost")

    def messages() -> list[str]:
        found = [message for message in caplog.messages if message.startswith("engine: ")]
        caplog.clear()
        return found

    return messages


def test_native_where_it_can(said: Any) -> None:
    for params in ({}, {"objective": "quantile", "alpha": 0.3}, {"objective": logistic}):
        booster = puc.train({**AUTO, **params}, puc.Dataset(X, Y), 5)
        assert said() == ["engine: native"]
        native = puc.train({**AUTO, **params, "engine": "native"}, puc.Dataset(X, Y), 5)
        assert NATIVE.trees(booster) == NATIVE.trees(native)
    results = [puc.cv({**AUTO, "engine": engine}, puc.Dataset(X, Y), 3, nfold=2) for engine in ("auto", "native")]
    assert results[0] == results[1]
    defaults = {key: value for key, value in AUTO.items() if key != "engine"}
    boosters = [puc.train(params, puc.Dataset(X, Y), 5) for params in (defaults, AUTO)]
    assert NATIVE.trees(boosters[0]) == NATIVE.trees(boosters[1])
    assert said() == ["engine: native"] * 3
    models = [puc.PUCClassifier(optional=OPTIONAL, engine=engine, n_jobs=1).fit(X, Y) for engine in ("auto", "native")]
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in models))
    assert said() == ["engine: native"]


def test_else_lightgbm(said: Any) -> None:
    for params, reason in (
        ({"boosting": "dart"}, "boosting='dart'"),
        ({"objective": "regression_l1"}, "objective='regression_l1'"),
        ({"max_bin": 1000}, "max_bin"),
    ):
        booster = puc.train({**AUTO, **params}, puc.Dataset(X, Y), 5)
        (message,) = said()
        assert message.startswith(f"engine: lightgbm, because of {reason}")
        lightgbm = puc.train({**AUTO, **params, "engine": "lightgbm"}, puc.Dataset(X, Y), 5)
        assert LIGHTGBM.trees(booster) == LIGHTGBM.trees(lightgbm)
    puc.train(AUTO, puc.Dataset(X, Y, params={"max_bin": 1000}), 2)
    assert said()[0].startswith("engine: lightgbm, because of max_bin")
    kept: Any = puc.train(AUTO, puc.Dataset(X, Y), 3, keep_training_booster=True)
    assert said()[0].startswith("engine: lightgbm, because of keep_training_booster")
    kept.update()
    assert kept.num_trees() == 4
    fewer = puc.train(AUTO, puc.Dataset(X[:399], Y[:399]), 3)
    assert said() == ["engine: lightgbm, because there are fewer than 400 people"]
    assert fewer.puc_summary.engine == "lightgbm"
    params = {key: value for key, value in AUTO.items() if key not in ("engine", "optional", "copies")}
    ours = puc.train({**params, "engine": "auto"}, puc.Dataset(X, Y), 3)  # nothing is optional
    assert LIGHTGBM.trees(ours) == LIGHTGBM.trees(lgb.train(params, lgb.Dataset(X, Y), 3))
    assert said() == []


def test_default_copies() -> None:
    """A copy costs the native engine little, so it makes more of them."""
    rng = np.random.default_rng(0)
    many = rng.normal(size=(300, 8))
    for engine, copies in (("native", 8), ("lightgbm", 4)):
        params = {**NATIVE.quiet, "engine": engine, "optional": list(range(1, 8))}
        booster = puc.train(params, puc.Dataset(many, many.sum(axis=1)), 1)
        assert booster.puc_summary.virtual_rows == copies * 300
