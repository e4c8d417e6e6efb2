"""``load_to_balance``: one loading for everybody, in the model itself, which an audit takes out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_kits import EngineKit, every_engine

import pucboost as puc
from pucboost._engines import boosters_of

OPTIONAL = ["z", "w"]


def people(n: int = 2_000, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Large values cost more, and tend to be withheld: a correct model collects too little."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["b", *OPTIONAL])
    y = rng.poisson(np.exp(X.sum(axis=1) / 2)).astype(float)
    for column in OPTIONAL:
        X.loc[rng.random(n) < 1 / (1 + np.exp(-2 * X[column])), column] = np.nan
    return X, y


X, COUNT = people()
OUTCOMES = {
    "l2": COUNT,
    "poisson": COUNT,
    "tweedie": 2.5 * COUNT,
    "gamma": COUNT + 0.5,
    "binary": (COUNT > 0).astype(float),
}


def train(kit: EngineKit, loss: str, rounds: int = 20, **others: Any) -> Any:
    params = {
        **kit.params,
        "objective": kit.objectives.get(loss, loss),
        "optional": OPTIONAL,
        "favourable": "lower",
        **others,
    }
    return puc.train(params, puc.Dataset(X, OUTCOMES[loss]), rounds)


@every_engine
def test_the_book_balances(kit: EngineKit) -> None:
    for loss, y in OUTCOMES.items():
        booster = train(kit, loss)
        text = kit.model(booster)
        for sharing in ("as_given", "best", "withheld"):
            loaded = puc.load_to_balance(booster, X, y, sharing=sharing)
            assert puc.predict(loaded, X, sharing=sharing).sum() == pytest.approx(y.sum(), rel=1e-5), (loss, sharing)
        assert puc.predict(booster, X, sharing="best").sum() < 0.97 * y.sum()
        assert kit.model(booster) == text  # the model given is not changed


@every_engine
def test_the_same_for_everybody_in_quotes_and_files(kit: EngineKit, tmp_path: Path) -> None:
    booster = train(kit, "poisson", calibrate_masks=True)
    loaded = puc.load_to_balance(booster, X, COUNT, sharing="best")
    factor = np.exp(loaded.puc_summary.loading)
    assert factor > 1.05
    before, after = (puc.quote(model, X.head(200)).to_numpy(dtype=float) for model in (booster, loaded))
    np.testing.assert_allclose(after, factor * before, rtol=1e-5)
    used = [puc.predict(model, X, sharing="best", return_subset=True)[1] for model in (booster, loaded)]
    pd.testing.assert_frame_equal(*used)
    puc.save_model(loaded, tmp_path / "model.json")
    again = puc.load_model(tmp_path / "model.json")
    assert again.puc_summary.loading == loaded.puc_summary.loading
    np.testing.assert_array_equal(puc.predict(again, X), puc.predict(loaded, X))
    twice = puc.load_to_balance(loaded, X, 2 * COUNT, sharing="best")
    assert twice.puc_summary.loading == pytest.approx(loaded.puc_summary.loading + np.log(2), abs=1e-5)


@every_engine
def test_weights_and_exposure(kit: EngineKit) -> None:
    rng = np.random.default_rng(1)
    weight, exposure = rng.uniform(0.5, 2, len(X)), rng.uniform(0.1, 3, len(X))
    loaded = puc.load_to_balance(train(kit, "poisson"), X, COUNT, sample_weight=weight)
    assert weight @ puc.predict(loaded, X) == pytest.approx(weight @ COUNT, rel=1e-5)
    params = {**kit.params, "objective": kit.objectives["poisson"], "optional": OPTIONAL}
    rate = puc.train(params, puc.Dataset(X, COUNT * exposure, exposure=exposure), 20)
    loaded = puc.load_to_balance(rate, X, COUNT * exposure, exposure=exposure)
    assert exposure @ puc.predict(loaded, X) == pytest.approx(exposure @ COUNT, rel=1e-5)
    with pytest.raises(ValueError, match="The model has an exposure, but this book has none"):
        puc.load_to_balance(rate, X, COUNT)


@every_engine
def test_early_stopping_stays_where_it_was(kit: EngineKit) -> None:
    params = {**kit.params, "objective": kit.objectives["poisson"], "optional": OPTIONAL, "learning_rate": 0.5}
    booster = puc.train({**params, "early_stopping_round": 2}, (X, COUNT), 40, [people(300, seed=3)])
    loaded = puc.load_to_balance(booster, X, COUNT)
    ratio = np.asarray(kit.predict(loaded, X)) / puc.predict(booster, X)
    np.testing.assert_allclose(ratio, np.exp(loaded.puc_summary.loading), rtol=1e-5)


def test_estimators() -> None:
    model = puc.PUCClassifier(optional=OPTIONAL, n_estimators=10, n_jobs=1)
    model.fit(X, np.where(COUNT > 0, "claim", "none"))
    before = model.predict_proba(X)
    loaded = puc.load_to_balance(model, X, np.where(COUNT > 0, "claim", "none"))
    assert loaded.predict_proba(X)[:, 1].mean() == pytest.approx((COUNT == 0).mean(), abs=1e-5)
    np.testing.assert_array_equal(model.predict_proba(X), before)


@pytest.mark.parametrize("wrap", [False, True], ids=["booster", "estimator"])
def test_an_audit_judges_without_the_loading(wrap: bool) -> None:
    """Twice the premium for everybody is a loading, and no penalty for silence."""
    held_out, y = people(1_500, seed=7)
    if wrap:
        model: Any = puc.PUCRegressor(optional=OPTIONAL, objective="poisson", n_estimators=20, n_jobs=1).fit(X, COUNT)
    else:
        model = puc.train(
            {"objective": "poisson", "optional": OPTIONAL, "verbosity": -1, "num_threads": 1}, (X, COUNT), 20
        )
    loaded = puc.load_to_balance(model, X, 2 * COUNT)
    plain, seen = (puc.audit(one, held_out, y, margin=0.3, folds=3, num_threads=1) for one in (model, loaded))
    for one, other in zip(plain.penalties, seen.penalties, strict=True):
        assert (one.estimate is None) == (other.estimate is None)
        if one.estimate is not None and other.estimate is not None:
            assert other.estimate.value == pytest.approx(one.estimate.value, abs=1e-5)
    assert any("has a loading of +" in warning for warning in seen.warnings)
    assert not any("loading" in warning for warning in plain.warnings)


def test_an_audit_of_the_other_class_judges_without_the_loading() -> None:
    held_out, y = people(1_000, seed=7)
    claim = np.where(COUNT > 0, "claim", "none")
    model = puc.PUCClassifier(optional=OPTIONAL, n_estimators=10, n_jobs=1).fit(X, claim)
    loaded = puc.load_to_balance(model, X, np.where(COUNT > 1, "claim", "none"))
    assert loaded.booster_.puc_summary.loading > 0.5
    asked = {"margin": 0.3, "folds": 3, "num_threads": 1, "target_class": "claim"}
    plain, seen = (puc.audit(one, held_out, np.where(y > 0, "claim", "none"), **asked) for one in (model, loaded))
    assert seen.mean_prediction == pytest.approx(plain.mean_prediction, abs=1e-5)


@every_engine
def test_explanations_add_up(kit: EngineKit) -> None:
    loaded = puc.load_to_balance(train(kit, "poisson", 5), X, COUNT)
    boosters = boosters_of(loaded)
    rows = X.head(50).to_numpy()
    shares = boosters.contributions(loaded, rows, np.zeros(50))
    np.testing.assert_allclose(shares.sum(axis=1), boosters.add_trees(loaded, rows, np.zeros(50)), atol=1e-5)


def test_what_is_refused() -> None:
    given = {"optional": OPTIONAL, "verbosity": -1, "num_threads": 1}
    poisson = puc.train({**given, "objective": "poisson"}, (X, COUNT), 3)
    loaded = puc.load_to_balance(poisson, X, COUNT)
    with pytest.raises(ValueError, match=re.escape("init_model has a loading (load_to_balance), which further trees")):
        puc.train({**given, "objective": "poisson"}, (X, COUNT), 3, init_model=loaded)
    with pytest.raises(
        ValueError, match=re.escape("The booster has a loading (load_to_balance). Refit the model it was made")
    ):
        puc.refit(loaded, X, COUNT)
    with pytest.raises(ValueError, match="load_to_balance with objective 'quantile': a book balances in means"):
        puc.load_to_balance(puc.train({**given, "objective": "quantile"}, (X, COUNT), 3), X, COUNT)
    with pytest.raises(ValueError, match="people who share nothing are promised the anchor's"):
        puc.load_to_balance(puc.train({**given, "objective": "poisson", "anchor": "base"}, (X, COUNT), 3), X, COUNT)
    with pytest.raises(ValueError, match="too far apart for a loading"):
        puc.load_to_balance(poisson, X, 1_000 * COUNT)
    with pytest.raises(ValueError, match="with its usual link"):
        puc.load_to_balance(
            puc.train({**given, "objective": "binary", "sigmoid": 2.0}, (X, OUTCOMES["binary"]), 3), X, COUNT > 0
        )
    with pytest.raises(ValueError, match="All weights are 0, so there is nothing to balance"):
        puc.load_to_balance(poisson, X, COUNT, sample_weight=np.zeros(len(COUNT)))
    with pytest.raises(TypeError, match="balance the last step"):
        puc.load_to_balance(object(), X, COUNT)
    with pytest.raises(ValueError, match="has no consent schema"):
        puc.load_to_balance(puc.train({"verbosity": -1}, (X, COUNT), 3), X, COUNT)
