"""Pickles name our classes by names that do not change, and say which version wrote them."""

from __future__ import annotations

import pickle
import pickletools
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from engine_kits import EngineKit, every_engine
from sklearn.linear_model import LogisticRegression
from tools import make_table

import pucboost as puc
from pucboost import _persistence
from pucboost._losses import Logistic
from pucboost.warnings import PickledByAnotherVersionWarning


@pytest.fixture(autouse=True)
def _forget_warnings() -> None:
    _persistence.warn_of_other_version.cache_clear()


def models(kit: EngineKit) -> dict[str, Any]:
    X, y = make_table(300)
    params = {**kit.params, "optional": [3, 4, 5]}
    legacy = LogisticRegression().fit(X[:, :3], y)
    estimator = puc.PUCClassifier(optional=[3], engine=kit.name, n_estimators=3, n_jobs=2).fit(X, y)
    return {
        "booster": puc.train(params, puc.Dataset(X, y), 3),
        "anchored": puc.train({**params, "anchor": "base"}, puc.Dataset(X, y), 3),
        "anchored on an estimator": puc.train({**params, "anchor": legacy}, puc.Dataset(X, y), 3),
        "classifier": estimator,
        "regressor": puc.PUCRegressor(optional=[3], engine=kit.name, n_estimators=3, n_jobs=2).fit(X, y),
    }


def modules_named_in(content: bytes) -> set[str]:
    """The modules that a pickle of protocol 2 looks up."""
    found = [argument.split(" ")[0] for code, argument, _ in pickletools.genops(content) if code.name == "GLOBAL"]
    assert found
    return {name for name in found if name.startswith("pucboost")}


@every_engine
def test_pickles_refer_to_one_module_of_ours(kit: EngineKit) -> None:
    X, _ = make_table(50)
    for name, model in models(kit).items():
        content = pickle.dumps(model, protocol=2)
        assert modules_named_in(content) == {"pucboost._persistence"}, name
        np.testing.assert_array_equal(puc.predict(pickle.loads(content), X), puc.predict(model, X))


def test_another_version_is_warned_of_once(monkeypatch: Any) -> None:
    X, y = make_table(200)
    model = puc.PUCClassifier(optional=[3], n_estimators=3).fit(X, y)
    monkeypatch.setattr(_persistence, "__version__", "0.0.9")
    content = pickle.dumps(model)
    monkeypatch.undo()
    with pytest.warns(PickledByAnotherVersionWarning, match=r"pickled by pucboost 0\.0\.9, and this is") as caught:
        again = [pickle.loads(content), pickle.loads(content)]
    assert len(caught) == 1
    assert again[0].consent_ == model.consent_


def test_what_a_later_version_has_pickled_is_refused() -> None:
    with (
        pytest.warns(PickledByAnotherVersionWarning),
        pytest.raises(ValueError, match=r"pucboost 99.0 as a 'Marvel', which pucboost .* does not know"),
    ):
        _persistence.restore("Marvel", "99.0", {})


def test_every_name_leads_to_a_class() -> None:
    for name in _persistence.HOMES:
        consent = {"groups": {}, "feature_names": ()}
        state = consent if name == "Consent" else {"handle": None, "_handle": None}
        assert type(_persistence.restore(name, puc.__version__, state)).__name__ in (name, "Booster")


class OwnRegressor(puc.PUCRegressor):
    """Somebody else's class."""


class OwnLoss(Logistic):
    """Somebody else's class."""


def test_derived_classes_pickle_as_themselves() -> None:
    X, y = make_table(200)
    model = OwnRegressor(optional=[3], n_estimators=3).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert type(again) is OwnRegressor
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert type(pickle.loads(pickle.dumps(OwnLoss()))) is OwnLoss


def test_boosters_without_consent_pickle_as_the_engine_does() -> None:
    X, y = make_table(200)
    booster = puc.train({"verbosity": -1}, lgb.Dataset(X, y), 2)
    assert type(pickle.loads(pickle.dumps(booster))) is lgb.Booster
