"""Law 6: a value in a withheld group never changes a prediction."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from tools import QUIET, make_table

import pucboost as puc

PARAMS = {**QUIET, "objective": "binary", "min_data_in_leaf": 5}


@pytest.mark.parametrize("augmentation", ["balanced", "exhaustive", "fixed"])
def test_no_copy_that_withholds_a_group_knows_its_values(augmentation: str) -> None:
    """Change every value of one group: the virtual rows without that group stay the same, bit for bit."""
    X, y = make_table(800)
    other = X.copy()
    other[:, 4] = 7 - 3 * other[:, 4]
    kwargs = {"optional": [3, 4, 5], "augmentation": augmentation, "indicators": True}
    (one, *_), (two, *_) = (puc.augment(table, y, **kwargs) for table in (X, other))
    shares_group = one[:, -2] == 1
    assert 0.1 < shares_group.mean() < 0.9
    np.testing.assert_array_equal(one[~shares_group], two[~shares_group])
    assert (one[shares_group, 4] != two[shares_group, 4]).all()


def test_unstored_zeros_denied_by_available_are_withheld() -> None:
    """In a CSR matrix `available` can say that what is not stored was withheld; then it acts like a missing value."""
    import scipy.sparse

    X, y = make_table(800)
    shared = ~np.isnan(X[:, 3:])
    sparse = scipy.sparse.csr_matrix(np.nan_to_num(X))
    params = {**PARAMS, "augmentation": "exhaustive"}
    ours = puc.train(params, puc.Dataset(sparse, y, optional=[3, 4, 5], available=shared), 10)
    dense = puc.train({**params, "optional": [3, 4, 5]}, lgb.Dataset(X, y), 10)
    np.testing.assert_array_equal(ours.predict(X), dense.predict(X))


def test_every_optional_column_was_missing_in_training() -> None:
    """A column that is never missing in training makes LightGBM read NaN as 0; under pucboost none is.

    Everybody shares column 2 here, and zero is a telling value of it.
    """
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3_000, 3))
    X[:, 2] = rng.integers(0, 2, 3_000)
    y = X[:, 0] + 10 * X[:, 2]
    booster = puc.train({**QUIET, "optional": [2]}, lgb.Dataset(X, y), 60)
    silent = X.copy()
    silent[:, 2] = np.nan
    assert np.mean(booster.predict(silent) - X[:, 0]) == pytest.approx(5, abs=0.5)
    plain = lgb.train(QUIET, lgb.Dataset(X, y), 60)
    assert np.mean(plain.predict(silent) - X[:, 0]) == pytest.approx(0, abs=0.5)  # the trap this law is about


def test_partly_missing_group_is_shared_and_wholly_missing_is_not() -> None:
    X, y = make_table(400, n_optional=2)
    booster = puc.train({**PARAMS, "optional": {"both": [3, 4]}, "augmentation": "exhaustive"}, lgb.Dataset(X, y), 3)
    anything = ~np.isnan(X[:, 3:]).all(axis=1)
    assert booster.puc_summary.virtual_rows == 400 + anything.sum()


def test_zero_as_missing_counts_zeros_as_withheld() -> None:
    X, y = make_table(400)
    zeros = np.nan_to_num(X)
    params = {**PARAMS, "zero_as_missing": True, "optional": [3, 4, 5], "augmentation": "exhaustive"}
    from_zeros = puc.train(params, lgb.Dataset(zeros, y), 5)
    from_missing = puc.train(params, lgb.Dataset(X, y), 5)
    assert from_zeros.puc_summary == from_missing.puc_summary
    np.testing.assert_array_equal(from_zeros.predict(zeros), from_missing.predict(X))


@pytest.mark.parametrize("kind", ["numpy", "pandas"])
def test_caller_is_never_changed(kind: str) -> None:
    X, y = make_table(500)
    data: Any = X if kind == "numpy" else pd.DataFrame(X).assign(c=pd.Categorical(["u", "v"] * 250))
    before = data.copy()
    weight = np.ones(500)
    train, valid = lgb.Dataset(data, y, weight=weight), lgb.Dataset(data, y)
    params = {**PARAMS, "optional": [3, 4, 5], "copies": 2, "metric": ["auc"], "seed": 1}
    params_before = dict(params)
    state = {k: v for k, v in vars(train).items() if k not in ("data", "label", "weight")}
    puc.train(params, train, 3, valid_sets=[valid], callbacks=[lgb.log_evaluation(0)])
    puc.cv(params, train, 2, nfold=2)
    puc.augment(data, y, optional=[3, 4, 5])
    assert params == params_before
    assert train._handle is None
    assert valid._handle is None
    assert {k: v for k, v in vars(train).items() if k not in ("data", "label", "weight")} == state
    assert train.data is data
    assert train.label is y
    assert train.weight is weight
    assert valid.reference is None
    if kind == "numpy":
        np.testing.assert_array_equal(data, before)
    else:
        pd.testing.assert_frame_equal(data, before)
