"""Validation sets, folds of cv, and what metrics and objectives of the user's own see."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from engine_kits import LIGHTGBM, OPTIONAL, logistic
from sklearn.model_selection import GroupKFold
from tools import QUIET, make_table, table_training

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


def test_validation_without_weights_beside_training_with_weights() -> None:
    """LightGBM gives rows pushed behind a weighted reference weights of 0; they must count."""
    X, y = make_table(1_000)
    for scheme in ("none", "exhaustive"):
        record: dict[str, Any] = {}
        booster = puc.train(
            {**PARAMS, "copies": 2, "valid_augmentation": scheme},
            lgb.Dataset(X[:600], y[:600]),
            4,
            valid_sets=[lgb.Dataset(X[600:], y[600:])],
            callbacks=[lgb.record_evaluation(record)],
        )
        X_aug, y_aug, *_ = puc.augment(X[600:], y[600:], optional=OPTIONAL, augmentation=scheme, seed=child_seed(0, 0))
        p = booster.predict(X_aug)
        expected = -np.log(np.where(y_aug == 1, p, 1 - p)).mean()
        assert record["valid_0"]["binary_logloss"][-1] == pytest.approx(expected, rel=1e-6)


def test_early_stopping_by_a_callback() -> None:
    X, y = make_table(1_000)
    record: dict[str, Any] = {}
    callbacks = [lgb.early_stopping(3, verbose=False), lgb.record_evaluation(record)]
    valid = lgb.Dataset(X[600:], y[600:])
    booster = puc.train(PARAMS, lgb.Dataset(X[:600], y[:600]), 200, valid_sets=valid, callbacks=callbacks)
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


# ----- cv: folds of people, and what a user may do to them


def test_folds_split_people_not_copies() -> None:
    """With one label per person, a fold's validation labels never occur in its training labels."""
    X, _ = make_table(300)
    identity = np.arange(300.0)
    seen: list[tuple[set[float], set[float]]] = []

    def spy(preds: Any, data: Any) -> tuple[str, float, bool]:
        seen.append((set(data.reference.get_label().tolist()), set(data.get_label().tolist())))
        return "spy", 0.0, False

    params = {**QUIET, "objective": "l2", "metric": "None", "optional": OPTIONAL, "augmentation": "exhaustive"}
    puc.cv(params, lgb.Dataset(X, identity), 1, nfold=3, stratified=False, feval=spy)
    assert len(seen) == 3
    for train, valid in seen:
        assert not train & valid
        assert train | valid == set(identity.tolist())
    assert set.union(*(valid for _, valid in seen)) == set(identity.tolist())


def test_cv_equals_training_each_fold_by_hand() -> None:
    X, y = make_table(600)
    folds = [(np.arange(0, 400), np.arange(400, 600)), (np.arange(200, 600), np.arange(0, 200))]
    params = {**PARAMS, "copies": 2, "seed": 5}
    result = puc.cv(params, lgb.Dataset(X, y), 6, folds=folds, return_cvbooster=True)
    for number, ((train, valid), booster) in enumerate(zip(folds, result["cvbooster"].boosters, strict=True)):
        seed = child_seed(5, 2 * number)
        expected = table_training(params, X[train], y[train], 6, seed=seed)
        np.testing.assert_array_equal(booster.predict(X[valid]), expected.predict(X[valid]))
        assert booster.consent.n_groups == 3
        assert booster.puc_summary.source_rows == 400


def test_cv_respects_stratification_groups_and_splitters() -> None:
    X, _ = make_table(400)
    y = (np.arange(400) % 10 == 0).astype(float)
    rates: list[float] = []

    def rate(preds: Any, data: Any) -> tuple[str, float, bool]:
        # weights of the copies of one person sum to the same: back to people by the weighted mean over "none"
        rates.append(float(data.get_label().mean()))
        return "rate", 0.0, False

    params = {**PARAMS, "augmentation": "none", "metric": "None"}
    puc.cv(params, lgb.Dataset(X, y), 1, nfold=4, feval=rate)
    assert rates == pytest.approx([0.1] * 4)
    households = [4] * 100
    seen: list[set[int]] = []

    def members(preds: Any, data: Any) -> tuple[str, float, bool]:
        seen.append({int(v) // 4 for v in data.get_label()})
        return "members", 0.0, False

    data = lgb.Dataset(X, np.arange(400.0), group=households)
    puc.cv({**params, "objective": "l2"}, data, 1, folds=GroupKFold(4), feval=members)
    assert sum(map(len, seen)) == len(set.union(*seen)) == 100


def test_cv_with_fpreproc_callable_objective_and_init_model() -> None:
    X, y = make_table(500)
    first = puc.train(PARAMS, lgb.Dataset(X, y), 2)
    calls = []

    def fpreproc(train: Any, valid: Any, params: Any) -> Any:
        calls.append((type(train), train.get_label().shape, params["min_data_in_leaf"]))
        return train, valid, {**params, "min_data_in_leaf": 50}

    result = puc.cv(
        {**PARAMS, "objective": logistic, "metric": "auc", "min_data_in_leaf": 5},
        lgb.Dataset(X, y, weight=np.linspace(1, 2, 500)),
        5,
        nfold=2,
        fpreproc=fpreproc,
        init_model=first,
        eval_train_metric=True,
        return_cvbooster=True,
    )
    assert calls == [(puc.Dataset, (250,), 5)] * 2
    assert result["valid auc-mean"][-1] > 0.7
    assert len(result["train auc-mean"]) == 5
    for booster in result["cvbooster"].boosters:
        assert booster.params["min_data_in_leaf"] == 50


def test_fpreproc_may_add_a_class() -> None:
    """Held-out labels are checked by its parameters, not by those of the call."""
    X, y = make_table(300)
    fold = 0

    def fpreproc(train: Any, valid: Any, params: Any) -> Any:
        for part in (train, valid):
            label = np.array(part.get_label())
            label[:9] = 2.0
            part.set_label(label)
        return train, valid, {**params, "num_class": 3}

    params = {**PARAMS, "objective": "multiclass", "num_class": 2}
    result = puc.cv(params, lgb.Dataset(X, y), 2, nfold=2, fpreproc=fpreproc, return_cvbooster=True)
    assert result["cvbooster"].boosters[fold].num_model_per_iteration() == 3


def test_fpreproc_keeps_categories_and_available() -> None:
    X, y = make_table(600)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(k=pd.Categorical(np.where(y > 0, "u", "v")))
    same = lambda train, valid, params: (train, valid, params)  # noqa: E731
    result = puc.cv(PARAMS, lgb.Dataset(frame, y), 3, nfold=2, fpreproc=same, return_cvbooster=True)
    plain = puc.cv(PARAMS, lgb.Dataset(frame, y), 3, nfold=2, return_cvbooster=True)
    swapped = frame.assign(k=frame["k"].cat.set_categories(["v", "u"]))
    for booster, other in zip(result["cvbooster"].boosters, plain["cvbooster"].boosters, strict=True):
        assert booster.pandas_categorical == [["u", "v"]]
        np.testing.assert_array_equal(booster.predict(swapped), other.predict(frame))
    sparse = puc.Dataset(scipy.sparse.csr_matrix(np.nan_to_num(X)), y, optional=OPTIONAL, available=~np.isnan(X[:, 3:]))
    sizes = [
        [
            b.puc_summary.virtual_rows
            for b in puc.cv(PARAMS, sparse, 1, nfold=2, fpreproc=f, return_cvbooster=True)["cvbooster"].boosters
        ]
        for f in (None, same)
    ]
    assert sizes[0] == sizes[1]
    assert puc.train(PARAMS, sparse.subset(list(range(300))), 1).puc_summary.source_rows == 300


# ----- objectives of the user's own: what they see, and whose weights they apply


def test_objective_sees_virtual_labels_and_only_the_users_weights() -> None:
    X, y = make_table(300)
    seen = {}

    def spy(preds: Any, data: Any) -> tuple[Any, Any]:
        seen["weight"], seen["field"], seen["n"] = data.get_weight(), data.get_field("weight"), len(data.get_label())
        return logistic(preds, data)

    def spy_metric(preds: Any, data: Any) -> tuple[str, float, bool]:
        seen["metric weight"] = data.get_weight()
        return "spy", 0.0, False

    train = lgb.Dataset(X, y)
    booster = puc.train({**PARAMS, "objective": spy, "copies": 2}, train, 1, valid_sets=[train], feval=spy_metric)
    assert seen["weight"] is None
    assert seen["field"] is None
    assert seen["n"] == booster.puc_summary.virtual_rows > 300
    assert len(seen["metric weight"]) == seen["n"]


def test_objective_that_reads_the_weight_field() -> None:
    X, y = make_table(900)

    def by_field(preds: Any, data: Any) -> tuple[Any, Any]:
        p = 1 / (1 + np.exp(-preds))
        weight = data.get_field("weight")
        return (p - data.get_label()) * weight, p * (1 - p) * weight

    models = [
        puc.train({**PARAMS, "copies": 2, "objective": f}, lgb.Dataset(X, y, weight=np.linspace(0.5, 2, 900)), 6)
        for f in (by_field, logistic)
    ]
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))


def test_multiclass_callable_objective() -> None:
    X, y = make_table(900)
    y = y + (X[:, 0] > 0.5)

    def softmax(preds: Any, data: Any) -> tuple[Any, Any]:
        p = np.exp(preds - preds.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return p - np.eye(3)[data.get_label().astype(int)], 1.5 * p * (1 - p)  # LightGBM's factor K / (K − 1)

    def flat(preds: Any, data: Any) -> tuple[Any, ...]:
        return tuple(part.ravel(order="F") for part in softmax(preds, data))

    base = {**QUIET, "num_class": 3, "optional": OPTIONAL, "copies": 2}
    built_in = puc.train({**base, "objective": "multiclass", "boost_from_average": False}, lgb.Dataset(X, y), 4)
    for objective in (softmax, flat):
        own = puc.train({**base, "objective": objective}, lgb.Dataset(X, y), 4)
        np.testing.assert_allclose(own.predict(X, raw_score=True), built_in.predict(X, raw_score=True), atol=1e-4)
