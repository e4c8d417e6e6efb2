"""Slips by which people lose the protection, or a model, without noticing: each is an error or a warning."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from engine_kits import LIGHTGBM, XGBOOST, EngineKit, every_engine
from tools import make_table

import pucboost as puc

OPTIONAL = [3, 4, 5]
QUIET = {"verbosity": -1, "num_threads": 1}


def test_lightgbm_itself_trains_on_a_dataset_with_optional_columns() -> None:
    """The likeliest slip of all: lgb.train where puc.train was meant."""
    X, y = make_table(200)
    for train in (lgb.train, lambda params, data, rounds: lgb.cv(params, data, rounds, nfold=2, stratified=False)):
        with pytest.warns(puc.warnings.ProtectionLostWarning, match="LightGBM itself trains on this Dataset") as caught:
            train(QUIET, puc.Dataset(X, y, optional=OPTIONAL), 2)
        assert [one.filename for one in caught] == [__file__]
    lgb.train(QUIET, puc.Dataset(X, y), 2)  # nothing optional, nothing lost
    data = puc.Dataset(X, y, optional=OPTIONAL, free_raw_data=False)
    data.construct()  # by the user, who may still hand it to puc.train
    assert puc.train(QUIET, data, 2).consent is not None


@pytest.mark.parametrize("engine", ["lightgbm", "native"])
def test_a_model_that_lightgbm_itself_continues_is_not_protected(engine: str) -> None:
    """Its trees are grown on rows as they are, and nothing warns; but it no longer passes for a protected model."""
    X, y = make_table(200)
    params = {**QUIET, "objective": "binary"}
    protected = puc.train({**params, "engine": engine, "optional": OPTIONAL}, puc.Dataset(X, y), 2)
    estimator = lgb.LGBMClassifier(n_estimators=1, n_jobs=1, verbosity=-1)
    for more in (
        lgb.train(params, lgb.Dataset(X, y), 1, init_model=protected),
        estimator.fit(X, y, init_model=protected).booster_,
    ):
        assert more.num_trees() == 3
        assert puc.consent_of(more) is None
        with pytest.raises(ValueError, match="has no consent schema"):
            puc.predict(more, X)
    for again in ("lightgbm", "native"):
        model = puc.train({**params, "engine": again, "optional": OPTIONAL}, puc.Dataset(X, y), 1, init_model=protected)
        assert model.num_trees() == 3
        assert model.consent == protected.consent
    with pytest.raises(TypeError, match=r"booster\.update has no data"):
        protected.update()


@every_engine
def test_a_model_that_cannot_be_continued_is_not_ignored(kit: EngineKit) -> None:
    X, y = make_table(200)
    params = {**kit.params, "optional": OPTIONAL}
    estimator = puc.PUCClassifier(optional=OPTIONAL, engine=kit.name, n_estimators=3, n_jobs=1).fit(X, y)
    other = LIGHTGBM if kit is XGBOOST else XGBOOST
    of_another_engine = puc.train({**other.params, "optional": OPTIONAL}, puc.Dataset(X, y), 2)
    anchored = puc.train({**params, "anchor": "base"}, puc.Dataset(X, y), 2)
    for init_model, words in (
        (estimator, "got 'PUCClassifier'. Pass its booster_."),
        (anchored, "got 'AnchoredModel'."),
        (of_another_engine, "got 'Booster'."),
        (7, "got 'int'."),
    ):
        with pytest.raises(TypeError, match=rf"init_model must be a booster of [\w ]+ or a model file, {words}"):
            puc.train(params, puc.Dataset(X, y), 2, init_model=init_model)
    objective = {"objective": kit.objectives["binary"]} if "binary" in kit.objectives else {}
    continued = puc.train({**params, **objective}, puc.Dataset(X, y), 2, init_model=estimator.booster_)
    assert continued.consent == estimator.consent_


def rates(kit: EngineKit, exposure: Any) -> Any:
    X, _ = make_table(400)
    params = {**kit.params, "objective": "poisson", "optional": OPTIONAL}
    claims = np.random.default_rng(0).poisson(2 * np.linspace(0.5, 2, 400)).astype(float)
    return params, X, claims, puc.train(params, puc.Dataset(X, claims, exposure=exposure), 10)


@every_engine
def test_an_exposure_is_not_forgotten_later(kit: EngineKit) -> None:
    """Refitted or continued without its exposure, a model of rates would become one of totals."""
    years = np.linspace(0.5, 2, 400)
    params, X, claims, model = rates(kit, years)
    with pytest.raises(ValueError, match="the booster has an exposure, but this refit has none"):
        puc.refit(model, X, claims)
    again = puc.refit(model, X, claims, exposure=years)
    assert again.puc_summary.per_exposure
    assert puc.predict(again, X).mean() == pytest.approx(2, rel=0.1)
    with pytest.raises(ValueError, match="init_model has an exposure, but train_set has none"):
        puc.train(params, puc.Dataset(X, claims), 2, init_model=model)
    more = puc.train(params, puc.Dataset(X, claims, exposure=years), 2, init_model=model)
    assert more.puc_summary.per_exposure
    _, _, _, totals = rates(kit, None)
    with pytest.raises(ValueError, match="this refit has an exposure, but the booster has none"):
        puc.refit(totals, X, claims, exposure=years)
    with pytest.raises(ValueError, match="train_set has an exposure, but init_model has none"):
        puc.train(params, puc.Dataset(X, claims, exposure=years), 2, init_model=totals)


def test_own_keys_among_the_parameters_of_a_dataset() -> None:
    X, y = make_table(100)
    with pytest.raises(ValueError, match="'optional' is a parameter of train and cv; a Dataset takes optional as an"):
        puc.train(QUIET, lgb.Dataset(X, y, params={"optional": OPTIONAL}), 2)
