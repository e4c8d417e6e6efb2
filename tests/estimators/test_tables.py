"""Tables of all kinds, and weights of their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from engine_kits import KITS
from estimator_tools import (
    ENGINES,
    NAMES,
    OPTIONAL,
    classifier,
    named_table,
    rich_table,
    uses_categories,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tools import make_table

import pucboost as puc


@pytest.mark.parametrize("engine", ENGINES)
def test_dataframes_of_all_kinds(engine: str) -> None:
    for optional in [None, {"app": ["steps", "pulse"], "contract": ["plan"]}]:
        X, y = rich_table()
        model = classifier(engine=engine, optional=optional, min_child_weight=0.01).fit(X, y)
        assert uses_categories(model)
        expected = model.predict_proba(X)
        polars = pl.from_pandas(X)
        for table in (polars, polars.to_arrow(), polars.lazy()):
            # How the other containers order categories is their own affair, so trees may round differently.
            assert np.allclose(model.predict_proba(table), expected, atol=1e-12)
            other = classifier(engine=engine, optional=optional, min_child_weight=0.01).fit(
                table, y, eval_set=(table, y)
            )
            assert np.allclose(other.predict_proba(table), expected, atol=1e-6)
            assert other.feature_names_in_.tolist() == list(X.columns)
        recoded = X.assign(
            region=pd.Categorical(X["region"].astype(str), categories=["west", "east", "south", "north"]),
            plan=X["plan"].astype("category"),
        )
        assert np.array_equal(model.predict_proba(recoded), expected)
        unknown = recoded.assign(region=pd.Categorical(["west"] * len(X), categories=["west"]))
        missing = recoded.assign(region=pd.Categorical([None] * len(X), categories=["north", "south", "east"]))
        with pytest.warns(UserWarning, match="Column 'region' has values that the model does not know"):
            told = model.predict_proba(unknown)
        assert np.array_equal(told, model.predict_proba(missing))
        assert not np.array_equal(model.predict_proba(missing), expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_sparse_tables(engine: str) -> None:
    X, y = make_table(300)
    X[np.abs(X) < 0.3] = 0
    dense = classifier(engine=engine).fit(X, y)
    for container in (sp.csr_array, sp.csc_array, sp.csr_matrix):
        model = classifier(engine=engine).fit(container(X), y)
        assert np.array_equal(model.predict_proba(container(X)), dense.predict_proba(X))
        assert np.array_equal(model.predict_proba(X), dense.predict_proba(X))


def test_lists_integers_and_float32() -> None:
    X, y = make_table(100, dtype=np.float32)
    assert np.array_equal(classifier().fit(X, y).predict(X), classifier().fit(X.tolist(), y.tolist()).predict(X))
    counts = np.random.default_rng(0).integers(0, 9, (100, 6))
    expected = classifier().fit(counts.astype(float), y).predict_proba(counts.astype(float))
    assert np.array_equal(classifier().fit(counts, y).predict_proba(counts), expected)
    assert np.ptp(expected) > 0.05


def test_categorical_columns_of_an_array() -> None:
    X, y = make_table(300)
    X[:, 0] = np.random.default_rng(0).integers(0, 5, 300)
    for kit in KITS:
        engine = kit.name
        for optional in (None, OPTIONAL) if engine != "xgboost" else (OPTIONAL,):
            model = classifier(optional=optional, engine=engine, categorical_feature=[0]).fit(X, y)
            if engine != "xgboost":
                assert model.booster_.dump_model()["feature_infos"]["Column_0"]["values"]
            else:
                assert model.booster_.feature_types == ["c", "q", "q", "q", "q", "q"]
            plain = {"objective": "binary", "engine": engine, "optional": optional, "num_leaves": 7, "num_threads": 1}
            plain |= {"learning_rate": 0.1, "seed": 0, "verbosity": -1}
            same = puc.train(plain, puc.Dataset(X, y, categorical_feature=[0]), 5)
            assert np.array_equal(model.predict_proba(X)[:, 1], kit.predict(same, X))


def test_other_columns_than_in_training() -> None:
    X, y = named_table()
    model = classifier().fit(X, y)
    with pytest.raises(ValueError, match="The feature names should match those that were passed during fit"):
        model.predict(X[NAMES[::-1]])
    with pytest.raises(ValueError, match="X has 5 features, but PUCClassifier is expecting 6 features as input"):
        classifier().fit(X.to_numpy(), y).predict(X.to_numpy()[:, :5])
    with pytest.warns(UserWarning, match="X does not have valid feature names, but PUCClassifier was fitted with"):
        given = model.predict_proba(X.to_numpy())
    assert np.array_equal(given, model.predict_proba(X))
    for empty in (X.head(0), pl.from_pandas(X).head(0)):
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\) \(shape=\(0, 6\)\) while a minimum of 1"):
            model.predict(empty)
    with pytest.raises(ValueError, match=r"Found array with 1 sample\(s\) .* while a minimum of 2 is required"):
        classifier().fit(X.head(1), y[:1])
    with pytest.raises(ValueError, match=r"Found array with 0 feature\(s\)"):
        classifier(optional=None).fit(X[[]], y)


def test_a_table_that_cannot_be_read_names_the_column() -> None:
    X, y = named_table()
    with pytest.raises(ValueError, match="'when'"):
        classifier().fit(X.assign(when=pd.Timestamp("2024-01-01")), y)


def as_arrow(X: Any) -> Any:
    return pl.DataFrame(X).to_arrow()


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_weight_0_are_not_there(engine: str) -> None:
    for container in [np.asarray, pd.DataFrame, pl.DataFrame, as_arrow, sp.csr_array]:
        X, y = make_table(300)
        y[:3] = 2  # a class that has no weight is not there either
        weight = np.random.default_rng(0).integers(0, 3, 300).astype(float)
        weight[:3] = 0
        model = classifier(engine=engine).fit(container(X), y, sample_weight=weight)
        keep = weight > 0
        expected = classifier(engine=engine).fit(container(X[keep]), y[keep], sample_weight=weight[keep])
        assert model.classes_.tolist() == [0, 1]
        assert np.array_equal(model.predict_proba(container(X)), expected.predict_proba(container(X)))


def test_wrong_weights() -> None:
    for weight, message in [
        (np.zeros(100), "Sample weights must contain at least one non-zero number"),
        (np.full(100, -1.0), "Negative values in data passed to `sample_weight`"),
        (np.ones(99), r"sample_weight.shape == \(99,\), expected \(100,\)"),
        (np.full(100, np.nan), "Input sample_weight contains NaN"),
    ]:
        for container in [np.asarray, pd.DataFrame]:
            X, y = make_table(100)
            with pytest.raises(ValueError, match=message):
                classifier().fit(container(X), y, sample_weight=weight)


def test_weights_are_routed() -> None:
    X, y = make_table(300)
    weight = np.random.default_rng(0).uniform(0.1, 2, 300)
    expected = classifier().fit(X, y, sample_weight=weight).predict_proba(X)
    with sklearn.config_context(enable_metadata_routing=True):
        model = classifier().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        pipeline = make_pipeline(FunctionTransformer(), model).fit(X, y, sample_weight=weight)
        assert np.array_equal(pipeline.predict_proba(X), expected)
        search = GridSearchCV(model, {"num_leaves": [7]}, cv=2).fit(X, y, sample_weight=weight)
        assert np.array_equal(search.predict_proba(X), expected)
        ignoring = make_pipeline(FunctionTransformer(), classifier().set_fit_request(sample_weight="other"))
        with pytest.raises(TypeError, match="sample_weight"):
            ignoring.fit(X, y, sample_weight=weight)
