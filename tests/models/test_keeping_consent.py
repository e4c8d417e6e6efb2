"""What keeps the consent schema of a booster, and what must not pretend to."""

from __future__ import annotations

import copy
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from engine_kits import KITS, LIGHTGBM, XGBOOST, EngineKit, every_engine
from tools import make_table

import pucboost as puc
from pucboost._engines import boosters_of

COLUMNS = list("abcdef")
GROUPS = {"äpp, [1]: x": ["d", "e"], "blood": ["f"]}


def table(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    X, y = make_table(500, seed=seed)
    job = np.random.default_rng(seed).choice(["clerk", "nurse", "smith"], 500)
    return pd.DataFrame(X, columns=COLUMNS).assign(job=pd.Categorical(job)), y


@cache
def trained(engine: str, rounds: int = 12) -> Any:
    kit = next(kit for kit in KITS if kit.name == engine)
    X, y = table()
    return kit.fit(X, y, rounds, optional=GROUPS)


def by_engine_file(booster: Any, folder: Path) -> Any:
    path = folder / ("own.txt" if isinstance(booster, lgb.Booster) else "own.json")
    booster.save_model(path)
    return lgb.Booster(model_file=path) if isinstance(booster, lgb.Booster) else xgb.Booster(model_file=path)


def by_engine_text(booster: Any, folder: Path) -> Any:
    if isinstance(booster, lgb.Booster):
        return lgb.Booster(model_str=booster.model_to_string())
    return xgb.Booster(model_file=booster.save_raw())


def twice(booster: Any, folder: Path) -> Any:
    """Read by the engine alone, copied by it, and written by it again."""
    return by_engine_file(copy.deepcopy(by_engine_file(booster, folder)), folder)


WAYS = {
    "pickle": lambda booster, folder: pickle.loads(pickle.dumps(booster)),
    "copy": lambda booster, folder: copy.copy(booster),
    "deepcopy": lambda booster, folder: copy.deepcopy(booster),
    "pickled copy": lambda booster, folder: pickle.loads(pickle.dumps(copy.deepcopy(booster))),
    "engine's own file": by_engine_file,
    "engine's own text": by_engine_text,
    "engine's own file, copied": twice,
    "pickle of the engine's own": lambda b, folder: pickle.loads(pickle.dumps(by_engine_file(b, folder))),
}


@every_engine
def test_consent_is_kept(kit: EngineKit, tmp_path: Path) -> None:
    booster, (X, _) = trained(kit.name), table(1)
    for way in WAYS.values():
        again = way(booster, tmp_path)
        assert isinstance(again, kit.module.Booster)
        assert puc.consent_of(again) == booster.consent
        np.testing.assert_array_equal(puc.predict(again, X), puc.predict(booster, X))
        pd.testing.assert_frame_equal(puc.quote(again, X), puc.quote(booster, X))
        puc.save_model(again, tmp_path / "model")  # a loaded one is as good as the original
        assert puc.load_model(tmp_path / "model").puc_summary == booster.puc_summary


@every_engine
def test_python_copies_are_protected_as_well(kit: EngineKit, tmp_path: Path) -> None:
    booster = trained(kit.name)
    shown = f"<{kit.module.__name__}.Booster: 12 rounds, grown by {kit.name}, {booster.consent!r}>"
    for way in ("pickle", "copy", "deepcopy"):
        again = WAYS[way](booster, tmp_path)
        assert type(again) is type(booster)
        assert repr(again) == shown
        assert (again.consent, again.puc_summary) == (booster.consent, booster.puc_summary)
        with pytest.raises(TypeError, match="would learn what silence says"):
            again.update(object())


def test_slices_and_copies_of_xgboost() -> None:
    booster = trained("xgboost")
    for part, rounds in ((booster[:5], 5), (booster[2:10:2], 4), (booster.copy(), 12), (booster[:5][:3], 3)):
        assert puc.consent_of(part) == part.consent == booster.consent
        assert part.num_boosted_rounds() == rounds


def test_shuffled_trees_of_lightgbm_are_the_same_trees() -> None:
    booster = copy.deepcopy(trained("lightgbm")).shuffle_models()
    assert puc.consent_of(booster) == booster.consent


def test_a_copy_of_lightgbm_predicts_with_the_best_rounds() -> None:
    X, y = table()
    params = {**LIGHTGBM.params, "optional": GROUPS, "learning_rate": 0.8, "early_stopping_rounds": 3}
    booster = puc.train(params, lgb.Dataset(X, y), 60, valid_sets=[lgb.Dataset(*table(2))], keep_training_booster=True)
    assert 0 < booster.best_iteration < booster.current_iteration()
    np.testing.assert_array_equal(copy.deepcopy(booster).predict(X), booster.predict(X))


@every_engine
def test_the_class_goes_by_the_name_of_the_engines(kit: EngineKit) -> None:
    """MLflow, for one, decides by it how to write and read a model."""
    kind, own = type(trained(kit.name)), kit.module.Booster
    assert issubclass(kind, own)
    assert kind is not own
    assert (kind.__module__, kind.__name__, kind.__qualname__) == (own.__module__, own.__name__, own.__qualname__)


def test_a_kept_training_booster_writes_its_schema_and_grows_on_virtual_rows() -> None:
    X, y = table()
    booster = puc.train({**LIGHTGBM.params, "optional": GROUPS}, lgb.Dataset(X, y), 3, keep_training_booster=True)
    assert puc.consent_of(lgb.Booster(model_str=booster.model_to_string())) == booster.consent
    booster.update()
    assert booster.current_iteration() == 4
    with pytest.raises(TypeError, match=r"booster.update would grow a tree on the rows as they are"):
        booster.update(lgb.Dataset(X, y))
    lgb.Booster.update(booster)  # the way around it is open to who wants it
    assert booster.current_iteration() == 5


# ----- lost, and said so


def test_raw_refit_is_refused() -> None:
    X, y = table()
    booster = trained("lightgbm")
    with pytest.raises(TypeError, match=r"Use pucboost.refit\(booster, X, y\)"):
        booster.refit(X, y)
    lost = lgb.Booster.refit(booster, X, y)
    assert type(lost) is lgb.Booster
    assert puc.consent_of(lost) is None


def refreshed(booster: Any, X: Any, y: Any) -> Any:
    params = {**XGBOOST.quiet, "objective": "binary:logistic", "process_type": "update", "updater": "refresh"}
    return xgb.train(params, xgb.DMatrix(X, y, enable_categorical=True), 12, xgb_model=booster)


def continued(booster: Any, X: Any, y: Any) -> Any:
    params = {**XGBOOST.quiet, "objective": "binary:logistic"}
    return xgb.train(params, xgb.DMatrix(X, y, enable_categorical=True), 2, xgb_model=booster)


def grown_in_place(booster: Any, X: Any, y: Any) -> Any:
    booster = copy.deepcopy(booster)
    xgb.Booster.update(booster, xgb.DMatrix(X, y, enable_categorical=True), 13)
    return booster


@pytest.mark.parametrize("change", [refreshed, continued, grown_in_place])
def test_xgboost_with_other_trees_does_not_pass_for_protected(change: Any, tmp_path: Path) -> None:
    """XGBoost copies attributes into every model it makes of a booster."""
    X, y = table()
    booster = change(trained("xgboost"), X, y)
    assert boosters_of(booster).kept_schema(booster) is not None
    if change is not grown_in_place:
        assert type(booster) is xgb.Booster
        assert not hasattr(booster, "consent")
    with pytest.warns(puc.warnings.ProtectionLostWarning, match="continued or refreshed it on rows as they were"):
        assert puc.consent_of(booster) is None
    booster.save_model(tmp_path / "model.json")
    with pytest.raises(ValueError, match=r"model.json' has a consent schema, but other trees"):
        puc.load_model(tmp_path / "model.json")
    with pytest.warns(puc.warnings.ProtectionLostWarning), pytest.raises(ValueError, match="has no consent schema"):
        puc.predict(booster, X)
    with (
        pytest.warns(puc.warnings.ProtectionLostWarning),
        pytest.warns(UserWarning, match="init_model has no consent schema"),
    ):
        puc.train({**XGBOOST.params, "optional": GROUPS}, puc.Dataset(X, y), 2, init_model=booster)


def test_the_same_trees_are_recognised_however_they_predict() -> None:
    """Marks are predictions of single rounds; threads and files must not matter to them."""
    booster = xgb.Booster(model_file=trained("xgboost").save_raw("json"))
    for threads in (1, 2):
        booster.set_param({"nthread": threads})
        assert boosters_of(booster).has_its_trees(booster)


def test_continuing_with_lightgbm_alone_loses_the_schema() -> None:
    X, y = table()
    more = lgb.train(LIGHTGBM.quiet, lgb.Dataset(X, y), 2, init_model=trained("lightgbm"))
    assert puc.consent_of(more) is None
