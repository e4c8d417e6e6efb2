"""Validation sets: how they are augmented, weighed, named and stopped by."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from engine_kits import LIGHTGBM, OPTIONAL
from tools import QUIET, make_table

import pucboost as puc
from pucboost._virtual.plan import child_seed

PARAMS: dict[str, Any] = {**QUIET, "objective": "binary", "optional": OPTIONAL}


def test_validation_sets_are_augmented_with_a_seed_of_their_own() -> None:
    X, y = make_table(1_000)
    sizes: dict[str, set[int]] = {}

    def size(preds: Any, data: Any) -> tuple[str, float, bool]:
        sizes.setdefault("n", set()).add(len(preds))
        return "n", float(len(preds)), False

    train, valid = lgb.Dataset(X[:600], y[:600]), lgb.Dataset(X[600:], y[600:])
    record: dict[str, Any] = {}
    params = {**PARAMS, "augmentation": "exhaustive"}
    puc.train(
        params, train, 2, [train, valid, valid], ["train", "a", "b"], size, callbacks=[lgb.record_evaluation(record)]
    )
    expected = {name: len(puc.augment(part, part[:, 0], optional=OPTIONAL, augmentation="exhaustive")[1])
                for name, part in (("train", X[:600]), ("a", X[600:]))}  # fmt: skip
    assert record["train"]["n"] == [expected["train"]] * 2
    assert record["a"]["n"] == record["b"]["n"] == [expected["a"]] * 2
    raw: dict[str, Any] = {}
    puc.train(
        {**params, "valid_augmentation": "none"}, train, 2, [valid], None, size, callbacks=[lgb.record_evaluation(raw)]
    )
    assert raw["valid_0"]["n"] == [400.0] * 2


def test_validation_metric_is_the_weighted_metric_of_the_virtual_rows() -> None:
    X, y = make_table(1_000)
    record: dict[str, Any] = {}
    booster = puc.train(
        {**PARAMS, "copies": 2, "seed": 11},
        lgb.Dataset(X[:600], y[:600]),
        4,
        valid_sets=[lgb.Dataset(X[600:], y[600:], weight=np.arange(1, 401.0))],
        callbacks=[lgb.record_evaluation(record)],
    )
    X_aug, y_aug, weight, _ = puc.augment(
        X[600:], y[600:], optional=OPTIONAL, copies=2, seed=child_seed(11, 0), sample_weight=np.arange(1, 401.0)
    )
    p = booster.predict(X_aug)
    loss = np.average(-np.log(np.where(y_aug == 1, p, 1 - p)), weights=weight)
    assert record["valid_0"]["binary_logloss"][-1] == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("scheme", ["none", "exhaustive", "fixed"])
def test_validation_without_weights_beside_training_with_weights(scheme: str) -> None:
    """LightGBM gives rows pushed behind a weighted reference weights of 0; they must count."""
    X, y = make_table(1_000)
    record: dict[str, Any] = {}
    booster = puc.train(
        {**PARAMS, "copies": 2, "valid_augmentation": scheme},
        lgb.Dataset(X[:600], y[:600]),
        4,
        valid_sets=[lgb.Dataset(X[600:], y[600:])],
        callbacks=[lgb.record_evaluation(record)],
    )
    X_aug, y_aug, _, _ = puc.augment(X[600:], y[600:], optional=OPTIONAL, augmentation=scheme, seed=child_seed(0, 0))
    p = booster.predict(X_aug)
    expected = -np.log(np.where(y_aug == 1, p, 1 - p)).mean()
    assert record["valid_0"]["binary_logloss"][-1] == pytest.approx(expected, rel=1e-6)


def test_early_stopping_from_params_and_callback() -> None:
    X, y = make_table(1_000)
    for extra, callbacks in (({"early_stopping_round": 3}, []), ({}, [lgb.early_stopping(3, verbose=False)])):
        record: dict[str, Any] = {}
        booster = puc.train(
            {**PARAMS, **extra},
            lgb.Dataset(X[:600], y[:600]),
            200,
            valid_sets=lgb.Dataset(X[600:], y[600:]),
            callbacks=[*callbacks, lgb.record_evaluation(record)],
        )
        losses = record["valid_0"]["binary_logloss"]
        assert booster.best_iteration == np.argmin(losses) + 1
        assert len(losses) == booster.best_iteration + 3 < 200


def test_place_in_the_list_does_not_change_a_validation_set() -> None:
    X, y = make_table(600)
    train, valid = lgb.Dataset(X[:400], y[:400]), lgb.Dataset(X[400:], y[400:])
    records: list[Any] = [{}, {}, {}]
    for sets, record in zip(([valid], [train, valid], [valid, valid]), records, strict=True):
        puc.train({**PARAMS, "copies": 2}, train, 3, list(sets), callbacks=[lgb.record_evaluation(record)])
    assert records[0]["valid_0"] == records[1]["valid_1"] == records[2]["valid_0"] == records[2]["valid_1"]


def test_validation_set_of_pandas_with_other_category_order() -> None:
    X, y = make_table(800)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(g=pd.Categorical(np.where(y > 0, "yes", "no")))
    reordered = frame.assign(g=frame["g"].cat.set_categories(["yes", "no", "maybe"]))
    records: list[Any] = [{}, {}]
    for valid, record in zip((frame, reordered), records, strict=True):
        train = lgb.Dataset(frame, y)
        puc.train(PARAMS, train, 3, [train.create_valid(valid, y)], callbacks=[lgb.record_evaluation(record)])
    assert records[0] == records[1]


def test_own_feature_names_and_validation_sets() -> None:
    X, y = make_table(300)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    train = lgb.Dataset(frame, y, feature_name=[f"f{j}" for j in range(6)])
    booster = puc.train({**PARAMS, "optional": ["f3"]}, train, 2, valid_sets=(train.create_valid(frame, y),))
    assert booster.feature_name() == [f"f{j}" for j in range(6)]
    assert booster.consent.groups == {"f3": (3,)}


def test_same_groups_in_another_order() -> None:
    """`available` has its columns in the order of the declaration beside it."""
    X, y = make_table(400)
    shared = ~np.isnan(X[:, 3:])
    one, two = {"a": [3], "b": [4], "c": [5]}, {"c": [5], "a": [3], "b": [4]}
    params = {k: v for k, v in PARAMS.items() if k != "optional"}
    records = []
    for groups, available in ((one, shared), (two, shared[:, [2, 0, 1]])):
        train = puc.Dataset(X, y, optional=one, available=shared)
        valid = puc.Dataset(X, y, optional=groups, available=available)
        _, record = LIGHTGBM.fit_recorded({**params, "optional": two}, train, 2, [valid])
        records.append(record)
    assert records[0] == records[1]
