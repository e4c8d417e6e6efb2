"""What every engine does beyond the laws: validation, objectives, cv, continuing, model files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kits import OPTIONAL, EngineKit, every_engine, logistic
from tools import make_table

import pucboost as puc
from pucboost._virtual.plan import child_seed

# ---------------------------------------------------------------- validation and early stopping


@every_engine
def test_validation_is_augmented_and_stops_early(kit: EngineKit) -> None:
    X, y = make_table(1_000)
    own = np.linspace(0.5, 2, 400)
    train, valid = puc.Dataset(X[:600], y[:600]), puc.Dataset(X[600:], y[600:], weight=own)
    metric = kit.metrics["binary"]

    def size(preds: Any, data: Any) -> tuple[str, float, bool]:
        assert len(preds) == len(data.get_label())
        return "size", float(len(preds)), False

    params = {**kit.params, "optional": OPTIONAL, "copies": 2, "seed": 11, "metric": metric}
    booster, record = kit.fit_recorded(params, train, 4, [train, valid], ["mine", "other"], size)
    given: dict[str, Any] = {"copies": 2, "seed": child_seed(11, 0), "sample_weight": own}
    X_aug, y_aug, weight, _ = puc.augment(X[600:], y[600:], optional=OPTIONAL, **given)
    p = kit.predict(booster, X_aug)
    loss = np.average(-np.log(np.where(y_aug == 1, p, 1 - p)), weights=weight)
    assert record["other"][metric][-1] == pytest.approx(loss, rel=1e-5)
    assert list(record) == ["mine", "other"]
    assert record["mine"]["size"] == [booster.puc_summary.virtual_rows] * 4
    assert record["other"]["size"] == [len(y_aug)] * 4
    _, record = kit.fit_recorded(params, train, 1, [train, valid, puc.Dataset(X, y)], ["mine"])
    assert list(record) == ["mine", "valid_1", "valid_2"]
    _, record = kit.fit_recorded(params, train, 1, [train, valid])
    assert list(record) == ["training", "valid_1"]
    stopped, record = kit.fit_recorded({**params, "early_stopping_round": 3}, train, 300, [valid])
    losses = record["valid_0"][metric]
    assert kit.best_rounds(stopped) == np.argmin(losses) + 1
    assert len(losses) == kit.best_rounds(stopped) + 3 < 300


def accuracy(preds: Any, data: Any) -> tuple[str, float, bool]:
    return "my_accuracy", float(((preds > 0.5) == (data.get_label() > 0.5)).mean()), True


@every_engine
def test_early_stopping_knows_the_direction_of_a_metric_and_ignores_the_training_set(kit: EngineKit) -> None:
    X, y = make_table(1_000)
    train, valid = puc.Dataset(X[:600], y[:600]), puc.Dataset(X[600:], y[600:])
    params = {**kit.params, "optional": OPTIONAL, "early_stopping_round": 5}
    silent = {**params, "metric": "None"}
    by_accuracy, record = kit.fit_recorded(silent, train, 200, [valid], None, accuracy)
    values = record["valid_0"]["my_accuracy"]
    assert kit.best_rounds(by_accuracy) == np.argmax(values) + 1 > 1
    assert len(values) == kit.best_rounds(by_accuracy) + 5
    means = puc.cv(silent, puc.Dataset(X, y), 50, nfold=3, feval=accuracy)["valid my_accuracy-mean"]
    assert len(means) > 1
    assert means[-1] == max(means)
    alone = puc.train(params, train, 300, [valid]).best_iteration
    for sets in ([train, valid], [valid, train]):
        assert puc.train(params, train, 300, sets).best_iteration == alone
    with pytest.raises(ValueError, match="For early stopping, at least one dataset and eval metric is required"):
        puc.train(kit.nothing_to_watch(params), train, 5, [train])


# ---------------------------------------------------------------- callable objectives


@every_engine
def test_copy_weights_reach_a_callable_objective_once(kit: EngineKit) -> None:
    """An objective that applies the user's weights, as the engines demand, gives the built-in's trees."""
    X, y = make_table(900)
    plain = kit.predict(kit.fit_alone({**kit.params, **kit.start_at_zero}, X, y, 8), X, raw=True)
    for weight in (None, np.linspace(0.5, 2, 900)):
        built_in = kit.fit(X, y, 8, {"weight": weight}, copies=2, **kit.start_at_zero)
        own = kit.fit(X, y, 8, {"weight": weight}, copies=2, objective=logistic, **kit.custom_start_at_zero)
        raw = [kit.predict(booster, X, raw=True) for booster in (built_in, own)]
        np.testing.assert_allclose(raw[1], raw[0], atol=2e-4)  # gradients are float32
        assert np.abs(plain - raw[0]).max() > 0.05


# ---------------------------------------------------------------- cv


@every_engine
def test_cv_splits_people(kit: EngineKit) -> None:
    X, _ = make_table(300)
    identity = np.arange(300.0)
    seen: list[set[float]] = []

    def spy(preds: Any, data: Any) -> tuple[str, float, bool]:
        seen.append(set(data.get_label().tolist()))
        return "spy", 0.0, False

    params = {**kit.params, "objective": kit.objectives["l2"], "optional": OPTIONAL, "augmentation": "exhaustive"}
    result = puc.cv(params, puc.Dataset(X, identity), 2, nfold=3, stratified=False, feval=spy, return_cvbooster=True)
    metric = kit.metrics["l2"]
    assert len(result[f"valid {metric}-mean"]) == len(result[f"valid {metric}-stdv"]) == 2
    assert not any(key.startswith("train") for key in result)
    held_out = [labels for labels in seen if len(labels) == 100]
    assert set.union(*held_out) == set(identity.tolist())
    assert [b.puc_summary.source_rows for b in result["cvbooster"].boosters] == [200] * 3


@every_engine
def test_cv_is_training_each_fold(kit: EngineKit) -> None:
    X, y = make_table(600)
    folds = [(np.arange(0, 400), np.arange(400, 600)), (np.arange(200, 600), np.arange(0, 200))]
    # "fixed" needs no row sampling: XGBoost's random numbers are shared by the boosters that xgb.cv trains in turn.
    params = {"augmentation": "fixed", "seed": 5}
    result = puc.cv(
        {**kit.params, "optional": OPTIONAL, **params},
        puc.Dataset(X, y),
        6,
        folds=folds,
        return_cvbooster=True,
        eval_train_metric=True,
    )
    assert any(key.startswith("train") for key in result)
    for number, ((train, _), booster) in enumerate(zip(folds, result["cvbooster"].boosters, strict=True)):
        table = kit.fit_table(X[train], y[train], 6, mask_seed=child_seed(5, 2 * number), **params)
        np.testing.assert_allclose(kit.predict(booster, X), kit.predict(table, X), rtol=1e-6)


# ---------------------------------------------------------------- continuing, and the model file


@every_engine
def test_continued_training(kit: EngineKit, tmp_path: Path) -> None:
    X, y = make_table(600)
    first = kit.fit(X, y, 4, augmentation="fixed")
    puc.save_model(first, tmp_path / "model.json")
    more = [
        puc.train({**kit.params, "optional": OPTIONAL}, puc.Dataset(X, y), 3, init_model=given)
        for given in (first, tmp_path / "model.json")
    ]
    assert [kit.rounds(booster) for booster in more] == [7, 7]
    with pytest.raises(ValueError, match="init_model was trained under Consent"):
        puc.train({**kit.params, "optional": [3]}, puc.Dataset(X, y), 3, init_model=first)


@every_engine
def test_consent_travels_with_the_model(kit: EngineKit, tmp_path: Path) -> None:
    X, y = make_table(500)
    booster = kit.fit(X, y, 5, optional={"äpp": [3, 4], "blood": [5]})
    assert booster.consent.groups == {"äpp": (3, 4), "blood": (5,)}
    assert booster.puc_summary.source_rows == 500
    others = [pickle.loads(pickle.dumps(booster))]
    for path in (tmp_path / "model.json", tmp_path / "model.ubj"):
        puc.save_model(booster, path)
        others.append(puc.load_model(path))
        np.testing.assert_array_equal(kit.predict(kit.load_alone(path), X), kit.predict(booster, X))
        assert puc.consent_of(path) == booster.consent
        # The engine's own way of saving keeps the schema, too; loaded by the engine, only the booster itself has it.
        booster.save_model(path)
        others.append(puc.load_model(path))
        alone = kit.load_alone(path)
        assert not hasattr(alone, "consent")
        assert puc.consent_of(alone) == booster.consent
    for other in others:
        assert type(other) is type(booster)
        assert isinstance(other, kit.module.Booster)
        assert puc.consent_of(other) == other.consent == booster.consent
        assert other.puc_summary == booster.puc_summary
        np.testing.assert_array_equal(kit.predict(other, X), kit.predict(booster, X))
    assert puc.consent_of(kit.fit_alone(kit.params, X, y, 1)) is None
