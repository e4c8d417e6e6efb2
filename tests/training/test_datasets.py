"""What a Dataset may be: where it declares what is optional, subsets, containers of labels, degenerate tables."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from engine_kits import LIGHTGBM, OPTIONAL
from tools import QUIET, make_table

import pucboost as puc

PARAMS: dict[str, Any] = {**QUIET, "objective": "binary", "optional": OPTIONAL}


def test_optional_on_dataset_or_in_params() -> None:
    X, y = make_table(300)
    in_params = puc.train(PARAMS, lgb.Dataset(X, y), 3)
    without = {k: v for k, v in PARAMS.items() if k != "optional"}
    on_dataset = puc.train(without, puc.Dataset(X, y, optional=OPTIONAL), 3)
    both = puc.train(PARAMS, puc.Dataset(X, y, optional=OPTIONAL), 3)
    subset = puc.train(without, puc.Dataset(X, y, optional=OPTIONAL).subset(list(range(300))), 3)
    for other in (on_dataset, both, subset):
        assert LIGHTGBM.model(other) == LIGHTGBM.model(in_params)
    with pytest.raises(ValueError, match=r"params\['optional'\] and the optional of train_set differ"):
        puc.train(PARAMS, puc.Dataset(X, y, optional=[3]), 3)


@pytest.mark.parametrize(
    "label", [lambda y: pd.DataFrame(y), lambda y: pd.Series(y), lambda y: y.tolist(), lambda y: y[:, None]]
)
def test_labels_in_any_container(label: Any) -> None:
    X, y = make_table(200)
    expected = LIGHTGBM.model(puc.train(PARAMS, lgb.Dataset(X, y), 3))
    ours = puc.train(PARAMS, lgb.Dataset(X, label(y), weight=pd.Series(np.ones(200))), 3)
    assert LIGHTGBM.model(ours) == expected


def test_bins_of_a_reference_are_not_used_for_training() -> None:
    X, y = make_table(200)
    with pytest.warns(UserWarning, match="The reference of train_set is not used"):
        ours = puc.train(PARAMS, lgb.Dataset(X, y, reference=lgb.Dataset(X, y, params={"max_bin": 3})), 2)
    assert LIGHTGBM.model(ours) == LIGHTGBM.model(puc.train(PARAMS, lgb.Dataset(X, y), 2))


def test_subset_and_raw_data_kept_after_construction() -> None:
    X, y = make_table(400)
    whole = lgb.Dataset(X, y, free_raw_data=False, weight=np.linspace(1, 2, 400)).construct()
    rows = list(range(0, 400, 2))
    from_subset = puc.train(PARAMS, whole.subset(rows), 4)
    by_hand = puc.train(PARAMS, lgb.Dataset(X[rows], y[rows], weight=np.linspace(1, 2, 400)[rows]), 4)
    assert LIGHTGBM.model(from_subset) == LIGHTGBM.model(by_hand)


def test_constructed_subset_keeps_consent_and_weights() -> None:
    X, y = make_table(400)
    weight, rows = np.linspace(1, 3, 400), list(range(0, 400, 2))
    without = {k: v for k, v in PARAMS.items() if k != "optional"}
    expected = LIGHTGBM.model(puc.train(PARAMS, lgb.Dataset(X[rows], y[rows], weight=weight[rows]), 4))
    whole = puc.Dataset(X, y, optional=OPTIONAL, weight=weight, free_raw_data=False)
    subset = whole.subset(rows).construct()
    assert LIGHTGBM.model(puc.train(without, subset, 4)) == expected
    other = subset.set_weight(weight[rows][::-1].copy())
    assert LIGHTGBM.model(puc.train(without, other, 4)) != expected


def test_weight_set_after_construction() -> None:
    X, y = make_table(400)
    weight = np.linspace(1, 3, 400)
    data = lgb.Dataset(X, y, free_raw_data=False).construct()
    data.set_field("weight", weight)
    expected = LIGHTGBM.model(puc.train(PARAMS, lgb.Dataset(X, y, weight=weight.astype(np.float32)), 4))
    assert LIGHTGBM.model(puc.train(PARAMS, data, 4)) == expected


@pytest.mark.parametrize("kind", ["one row", "constant", "all missing", "nobody withholds", "one optional"])
def test_degenerate_tables(kind: str) -> None:
    X, y = make_table(100)
    if kind == "one row":
        X, y = X[:1], y[:1]
    elif kind == "constant":
        X[:, :3] = 1.0
    elif kind == "all missing":
        X[:, 3:] = np.nan
    elif kind == "nobody withholds":
        X = np.nan_to_num(X)
    optional = [5] if kind == "one optional" else OPTIONAL
    booster = puc.train({**PARAMS, "optional": optional}, lgb.Dataset(X, y), 3)
    assert np.isfinite(booster.predict(X)).all()
    assert booster.puc_summary.virtual_rows == len(puc.augment(X, y, optional=optional)[1])
    if kind == "all missing":  # nobody has anything to withhold
        assert booster.puc_summary.virtual_rows == 100
        plain = lgb.train({**QUIET, "objective": "binary"}, lgb.Dataset(X, y), 3)
        np.testing.assert_array_equal(booster.predict(X), plain.predict(X))
    elif kind == "one row":
        assert booster.predict(X)[0] == pytest.approx(y[0], abs=1e-6)
    elif kind == "nobody withholds":
        assert booster.puc_summary.complete_rows < 100 < booster.puc_summary.virtual_rows


def test_every_column_optional_is_allowed_with_a_warning() -> None:
    X, y = make_table(2_000, n_base=0)
    with pytest.warns(UserWarning, match="Every column is optional"):
        booster = puc.train({**QUIET, "optional": [0, 1, 2]}, lgb.Dataset(X, y), 50)
    silent = booster.predict(np.full((1, 3), np.nan))[0]
    assert silent == pytest.approx(y.mean(), abs=0.05)
