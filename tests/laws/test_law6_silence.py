"""Law 6: a value in a withheld group never changes a prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from engine_kits import OPTIONAL, EngineKit, every_engine
from tools import make_table

import pucboost as puc


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


@every_engine
def test_unstored_zeros_denied_by_available_are_withheld(kit: EngineKit) -> None:
    """In a CSR matrix `available` can say that what is not stored was withheld; then it acts like a missing value."""
    X, y = make_table(800)
    shared = ~np.isnan(X[:, 3:])
    sparse = scipy.sparse.csr_matrix(np.nan_to_num(X))
    ours = kit.fit(sparse, y, 10, {"optional": OPTIONAL, "available": shared}, augmentation="exhaustive")
    dense = kit.fit(X, y, 10, augmentation="exhaustive")
    np.testing.assert_array_equal(kit.predict(ours, X), kit.predict(dense, X))


@every_engine
def test_every_optional_column_was_missing_in_training(kit: EngineKit) -> None:
    """An engine may read NaN as it likes in a column that is never missing in training; under pucboost none is.

    Everybody shares column 2 here, and zero is a telling value of it.
    """
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3_000, 3))
    X[:, 2] = rng.integers(0, 2, 3_000)
    y = X[:, 0] + 10 * X[:, 2]
    booster = kit.fit(X, y, 80, optional=[2], objective=kit.objectives["l2"])
    silent = X.copy()
    silent[:, 2] = np.nan
    assert np.mean(kit.predict(booster, silent) - X[:, 0]) == pytest.approx(5, abs=0.5)


@every_engine
def test_partly_missing_group_is_shared_and_wholly_missing_is_not(kit: EngineKit) -> None:
    X, y = make_table(400, n_optional=2)
    booster = kit.fit(X, y, 3, optional={"both": [3, 4]}, augmentation="exhaustive")
    anything = ~np.isnan(X[:, 3:]).all(axis=1)
    assert booster.puc_summary.virtual_rows == 400 + anything.sum()


@every_engine
@pytest.mark.parametrize("kind", ["numpy", "pandas"])
def test_caller_is_never_changed(kit: EngineKit, kind: str) -> None:
    X, y = make_table(500)
    data: Any = X if kind == "numpy" else pd.DataFrame(X).assign(c=pd.Categorical(["u", "v"] * 250))
    before = data.copy()
    weight = np.ones(500)
    train, valid = puc.Dataset(data, y, weight=weight), puc.Dataset(data, y)
    params = {**kit.params, "optional": OPTIONAL, "copies": 2, "metric": ["auc"], "seed": 1}
    params_before = {**params, "optional": list(OPTIONAL), "metric": ["auc"]}
    state = {k: v for k, v in vars(train).items() if k not in ("data", "label", "weight")}
    kit.fit_recorded(params, train, 3, [valid])
    puc.cv(params, train, 2, nfold=2)
    puc.augment(data, y, optional=OPTIONAL)
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
