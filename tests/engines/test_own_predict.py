"""What the engines' own predict reads as it was meant, refuses, or misreads; puc.predict reads it all.

``docs/guides/deployment.md`` shows the same as a table.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost as xgb
from engine_kits import EngineKit, every_engine
from scipy import sparse

import pucboost as puc


@cache
def people() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=600), "z z": rng.normal(5, 1, 600), "job": rng.choice(["x", "y", "w"], 600)})
    y = 2 * X["a"] + X["z z"] + (X["job"] == "y")
    X.loc[rng.random(600) < 0.4, "z z"] = np.nan
    return X, y.to_numpy()


@cache
def trained(kit: EngineKit, columns: tuple[str, ...]) -> Any:
    X, y = people()
    return kit.fit(X[list(columns)], y, 20, optional=["z z"], objective=kit.objectives["l2"])


NUMBERS = ("a", "z z")
FRAMES: tuple[Callable[[pd.DataFrame], Any], ...] = (
    lambda X: X,
    pl.from_pandas,
    lambda X: pa.Table.from_pandas(X, preserve_index=False),
)


@every_engine
def test_columns_in_another_order(kit: EngineKit) -> None:
    """LightGBM alone would read them by position."""
    X, booster = people()[0][list(NUMBERS)], trained(kit, NUMBERS)
    expected = puc.predict(booster, X)
    for frame in FRAMES:
        turned = frame(X[["z z", "a"]])
        np.testing.assert_array_equal(puc.predict(booster, turned), expected)
        with pytest.raises(ValueError, match=r"columns are in another order than .*: z z, a …|feature_names mism"):
            kit.predict(booster, turned)
        np.testing.assert_allclose(kit.predict(booster, frame(X)), expected, rtol=1e-6)


@every_engine
def test_a_table_without_the_optional_column(kit: EngineKit) -> None:
    X = people()[0][list(NUMBERS)]
    booster = trained(kit, NUMBERS)
    with pytest.warns(UserWarning, match="it counts as withheld by everybody"):
        withheld = puc.predict(booster, X[["a"]])
    np.testing.assert_array_equal(withheld, puc.predict(booster, X, sharing="withheld"))
    with pytest.raises(Exception, match=r"number of features|feature_names mismatch"):
        kit.predict(booster, X[["a"]])


@every_engine
def test_text(kit: EngineKit) -> None:
    """Read by LightGBM's boosters and refused by XGBoost, in any container; pandas categories are matched by name."""
    X, booster = people()[0], trained(kit, ("a", "z z", "job"))
    expected = puc.predict(booster, X)
    for frame in FRAMES:
        if kit.module is xgb:
            with pytest.raises(Exception, match=r"categorical|category|Unsupported Arrow|string"):
                kit.predict(booster, frame(X))
        else:
            np.testing.assert_array_equal(kit.predict(booster, frame(X)), expected)
        np.testing.assert_array_equal(puc.predict(booster, frame(X)), expected)
    turned = X.assign(job=pd.Categorical(X["job"], ["y", "w", "x"]))
    np.testing.assert_allclose(kit.predict(booster, turned), expected, rtol=1e-6)


@every_engine
def test_sparse_matrices(kit: EngineKit) -> None:
    """What is not stored is the number 0 in training, to LightGBM and to puc.predict, but missing to XGBoost."""
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(600, 2)) * (rng.random((600, 2)) < 0.6)
    y = np.where(dense[:, 1] == 0, 5.0, 0.0) + dense[:, 0]
    X = sparse.csr_matrix(dense)
    booster = kit.fit(X, y, 20, optional=[1], objective=kit.objectives["l2"], expect_shared=[1])
    expected = puc.predict(booster, dense)
    np.testing.assert_array_equal(puc.predict(booster, X), expected)
    np.testing.assert_allclose(kit.predict(booster, dense), expected, rtol=1e-6)
    if kit.module is not xgb:
        np.testing.assert_array_equal(booster.predict(X), expected)
        return
    with pytest.warns(UserWarning, match="XGBoost reads what a sparse matrix does not store as missing"):
        misread = booster.inplace_predict(X)
    np.testing.assert_array_equal(misread, booster.predict(xgb.DMatrix(X)))  # cannot be told from NaN, and is not
    assert np.abs(misread - expected).max() > 1
    booster.inplace_predict(dense)


@every_engine
def test_available_at_training_only(kit: EngineKit) -> None:
    """Who is silent was said apart from the matrix; at prediction the matrix must show it."""
    rng = np.random.default_rng(0)
    dense = rng.normal(5, 1, (600, 2))
    shares = rng.random(600) < 0.6
    y = np.where(shares, 0.0, 3.0) + dense[:, 0]
    X = sparse.csr_matrix(np.column_stack([dense[:, 0], np.where(shares, dense[:, 1], 0.0)]))
    booster = kit.fit(X, y, 20, {"available": shares}, optional=[1], objective=kit.objectives["l2"])
    marked = np.column_stack([dense[:, 0], np.where(shares, dense[:, 1], np.nan)])
    assert puc.predict(booster, sparse.csr_matrix(marked))[~shares].mean() == pytest.approx(6.2, abs=0.3)
    for model in (booster, pickle.loads(pickle.dumps(booster))):
        with pytest.warns(UserWarning, match="read as the number 0, that is as shared") as caught:
            puc.predict(model, X)
        assert caught[0].filename == __file__
