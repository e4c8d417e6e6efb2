"""cv: folds of people, and what a user may do to them."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from engine_kits import OPTIONAL, logistic
from sklearn.model_selection import GroupKFold
from tools import QUIET, make_table, table_training

import pucboost as puc
from pucboost._virtual.plan import child_seed

PARAMS: dict[str, Any] = {**QUIET, "objective": "binary", "optional": OPTIONAL}


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
