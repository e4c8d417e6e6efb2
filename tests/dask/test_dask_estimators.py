"""The estimators on collections, by the conventions of the engines' own."""

from __future__ import annotations

import pickle
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from engine_kits import OPTIONAL, EngineKit, every_distributed_engine
from sklearn.base import clone
from tools import make_table

import pucboost as puc

pytestmark = pytest.mark.xdist_group("dask")  # one cluster, not one in each process of tests


def collections(X: Any, y: Any, kind: str) -> tuple[Any, Any, Any]:
    """A table and its outcomes as collections, and the table as a local one."""
    if kind == "array":
        return da.from_array(X, chunks=(300, X.shape[1])), da.from_array(y, chunks=(300,)), X
    frame = pd.DataFrame(X, columns=list("abcdef"))
    return dd.from_pandas(frame, npartitions=3), dd.from_pandas(pd.Series(y), npartitions=3), frame


@pytest.mark.slow
@every_distributed_engine
@pytest.mark.parametrize("kind", ["array", "frame"])
def test_classifier(client: Client, kit: EngineKit, kind: str) -> None:
    X, y = make_table(900)
    label = np.where(y == 1, "yes", "no")
    rows, labels, local_rows = collections(X, label, kind)
    optional = OPTIONAL if kind == "array" else list("def")
    model = puc.dask.DaskPUCClassifier(client=client, optional=optional, engine=kit.name, n_estimators=15, copies=2)
    evals = [(rows, labels), (local_rows, label)]
    model.fit(rows, labels, eval_set=evals)
    assert set(model.evals_result_) == {"valid_0", "valid_1"}
    assert model.classes_.tolist() == ["no", "yes"]
    local = model.to_local()
    assert type(local) is puc.PUCClassifier
    assert isinstance(model.booster_, kit.module.Booster)
    probabilities = model.predict_proba(rows)
    assert isinstance(probabilities, da.Array)
    np.testing.assert_array_equal(probabilities.compute(), local.predict_proba(local_rows))
    told = model.predict(rows)
    assert isinstance(told, da.Array if kind == "array" else dd.Series)
    assert (np.asarray(told.compute()) == local.predict(local_rows)).all()
    assert (model.predict(local_rows) == local.predict(local_rows)).all()  # local tables, too
    assert (np.asarray(told.compute()) == label).mean() > 0.75
    quotes = model.quote(rows).compute().reset_index(drop=True)
    pd.testing.assert_frame_equal(quotes, local.quote(local_rows).reset_index(drop=True))
    again = pickle.loads(pickle.dumps(model))
    assert again.client is None
    np.testing.assert_array_equal(again.predict_proba(local_rows), local.predict_proba(local_rows))


@every_distributed_engine
def test_regressor_with_early_stopping(client: Client, kit: EngineKit) -> None:
    X, _ = make_table(1_500)
    y = X[:, 0] + np.nan_to_num(X[:, 4])
    rows, labels, _ = collections(X[:900], y[:900], "array")
    model = puc.dask.DaskPUCRegressor(optional=OPTIONAL, engine=kit.name, n_estimators=300, learning_rate=0.3)
    model.fit(rows, labels, eval_set=(X[900:], y[900:]), early_stopping_rounds=4)  # the current client
    assert 4 < model.best_iteration_ < 296
    np.testing.assert_array_equal(model.predict(rows).compute(), model.to_local().predict(X[:900]))
    with pytest.raises(ValueError, match="early_stopping_rounds needs eval_set"):
        model.fit(rows, labels, early_stopping_rounds=4)


def test_class_weights_count_people_of_all_workers(client: Client) -> None:
    X, y = make_table(900)
    y = y * (np.arange(900) % 3 == 0)
    order = np.argsort(y, kind="stable")
    rows, labels, _ = collections(X[order], y[order], "array")
    given = {"optional": OPTIONAL, "n_estimators": 30, "copies": 2}
    balanced = puc.dask.DaskPUCClassifier(client=client, class_weight="balanced", **given).fit(rows, labels)
    local = puc.PUCClassifier(class_weight="balanced", n_jobs=1, **given).fit(X, y)
    assert abs(balanced.to_local().predict_proba(X)[:, 1].mean() - local.predict_proba(X)[:, 1].mean()) < 0.03


def test_clones_keep_the_client(client: Client) -> None:
    model = puc.dask.DaskPUCClassifier(client=client, optional=[1], min_child_samples=7)
    assert model.get_params()["min_child_samples"] == 7
    copied = clone(model)
    assert copied.client is client
    assert model.client is client
    assert {"client", "optional", "n_estimators", "class_weight"} <= set(copied.get_params())


def test_wrong_labels(client: Client) -> None:
    X, y = make_table(100)
    rows, labels, _ = collections(X, y, "array")
    model = puc.dask.DaskPUCClassifier(client=client, optional=OPTIONAL)
    with pytest.raises(ValueError, match="needs at least 2 classes, but y has 1"):
        model.fit(rows, labels * 0)
    with pytest.raises(ValueError, match="y has the label 7, which is not among those trained on"):
        model.fit(rows, labels, eval_set=(X, np.full(100, 7)))
    with pytest.raises(ValueError, match="y has missing labels"):
        model.fit(rows, da.from_array(np.full(100, np.nan), chunks=50))


def test_arguments_of_lightgbms_dask_estimators(client: Client) -> None:
    """Names, weights, classes, scores and metrics of validation sets, outputs, and a model to continue."""
    X, y = make_table(400)
    V, u = make_table(200, seed=1)
    label, other = np.where(y == 1, "yes", "no"), np.where(u == 1, "yes", "no")
    rows, labels, _ = collections(X, label, "array")
    weight, start = np.linspace(1, 2, 200), np.linspace(-1, 1, 200)
    params: dict[str, Any] = {"optional": OPTIONAL, "n_estimators": 4, "num_leaves": 7}

    def mean(y_true: Any, y_pred: Any) -> Any:
        return "mean", float(np.mean(y_pred)), False

    evals: dict[str, Any] = {"eval_class_weight": {"yes": 3.0}, "eval_names": ["people"], "eval_metric": ["auc", mean]}
    given = {"eval_set": [(V, other)], "eval_sample_weight": [weight], "eval_init_score": [start], **evals}
    model = puc.dask.DaskPUCClassifier(client=client, **params).fit(rows, labels, **given)
    assert list(model.evals_result_) == ["people"]
    assert list(model.evals_result_["people"]) == ["auc", "binary_logloss", "mean"]
    assert set(model.best_score_["people"]) == {"auc", "binary_logloss", "mean"}
    far = da.from_array(V, chunks=(100, 6)), da.from_array(other, chunks=100)
    as_collections = {
        "eval_set": [far],
        "eval_sample_weight": [da.from_array(weight, chunks=100)],
        "eval_init_score": [da.from_array(start, chunks=100)],
    }
    again = puc.dask.DaskPUCClassifier(client=client, **params).fit(rows, labels, **as_collections, **evals)
    assert again.evals_result_ == model.evals_result_
    without = puc.dask.DaskPUCClassifier(client=client, **params).fit(rows, labels, eval_set=[(V, other)], **evals)
    assert without.evals_result_ != {}
    assert without.evals_result_["people"]["auc"] != model.evals_result_["people"]["auc"]
    for outputs in ({"pred_contrib": True}, {"pred_leaf": True}, {"raw_score": True, "num_iteration": 2}):
        lazy = model.predict(da.from_array(V, chunks=(100, 6)), **outputs)
        np.testing.assert_array_equal(lazy.compute(), model.to_local().predict(V, **outputs))
    assert (model.n_iter_, model.n_classes_, model.objective_) == (4, 2, "binary")
    continued = puc.dask.DaskPUCClassifier(client=client, **params).fit(rows, labels, init_model=model)
    assert continued.n_iter_ == 8
    assert continued.consent_ == model.consent_ == puc.consent_of(continued.booster_)
    with pytest.raises(ValueError, match="a regressor has no classes"):
        puc.dask.DaskPUCRegressor(client=client, **params).fit(
            rows, labels, eval_set=(V, u), eval_class_weight="balanced"
        )
