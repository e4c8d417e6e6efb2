"""Errors that say what was expected, what came, and which column or row did it."""

from __future__ import annotations

import copy
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from engine_kits import KITS, OPTIONAL, EngineKit, every_engine
from tools import QUIET, make_table

import pucboost as puc

PARAMS: dict[str, Any] = {**QUIET, "objective": "binary", "optional": OPTIONAL}


def small() -> tuple[Any, Any]:
    return make_table(60)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"optional": ["glucose"]}, "optional names column 'glucose', but the table has no column names"),
        ({"optional": 3}, r"got 3; write \[3\]"),
        ({"copies": 0.5}, "copies must be finite and at least 1"),
        ({"copies": float("nan")}, "copies must be finite"),
        ({"copies": float("inf")}, "copies must be finite"),
        ({"copies": "two"}, "copies must be a number of at least 1"),
        ({"copies": True}, "copies must be a number"),
        (
            {"augmentation": "balance"},
            "augmentation must be one of 'none', 'exhaustive', 'fixed', 'balanced'; got 'balance'",
        ),
        ({"augmentation": None}, "augmentation must be one of"),
        ({"valid_augmentation": "raw"}, "valid_augmentation must be one of"),
        ({"max_virtual_rows": 0}, "max_virtual_rows must be a whole number of at least 1, got 0"),
        ({"max_virtual_rows": 10.5}, "max_virtual_rows must be a whole number"),
        ({"max_virtual_rows": 20}, "The table has [46][08] rows, more than max_virtual_rows = 20"),
        (
            {"augmentation": "exhaustive", "max_virtual_rows": 70},
            "augmentation='exhaustive' makes .* more than max_virtual",
        ),
        (
            {"engine": "forest"},
            f"engine must be one of {', '.join(repr(kit.name) for kit in KITS)}, 'auto'; got 'forest'",
        ),
        ({"objective": "lambdarank"}, "Protected User Consent is defined for predictions of a person's outcome"),
        ({"metric": ["auc", "ndcg@3"]}, "metric='ndcg@3' needs queries"),
        ({"linear_tree": True}, "linear_tree with optional features"),
        ({"linear_trees": "true"}, "linear_tree with optional features"),
        ({"use_missing": False}, "use_missing=False makes LightGBM read a withheld value as the number 0"),
        (
            {"use_quantized_grad": True},
            "use_quantized_grad=True with optional features: .* in the middle of a tree",
        ),
        ({"bagging_by_query": True}, "bagging_by_query"),
        ({"objective": "xentlambda"}, "reads weights as exposures"),
        ({"objective": "multiclassova", "num_class": 2, "is_unbalance": True}, "counts virtual rows instead of people"),
        ({"seed": "seven"}, "seed must be a whole number, got 'seven'"),
        ({"seed": 2.7}, "seed must be a whole number, got 2.7"),
    ],
)
@pytest.mark.parametrize("function", ["train", "cv"])
def test_bad_params(function: str, params: dict[str, Any], message: str) -> None:
    X, y = small()
    data = lgb.Dataset(X, y)
    given = {**PARAMS, **params}
    before = copy.deepcopy(given)
    with pytest.raises(ValueError, match=message):
        getattr(puc, function)(given, data, 2)
    assert given == before
    assert data._handle is None


def with_value(vector: Any, row: int, value: float) -> Any:
    out = np.array(vector, dtype=float)
    out[row] = value
    return out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda X, y: lgb.Dataset(X, y[:-1]),
            r"label of train_set must have one value for each of the 60 rows, got shape \(59,\)",
        ),
        (lambda X, y: lgb.Dataset(X), "train_set has no label"),
        (lambda X, y: lgb.Dataset(X, with_value(y, 7, np.nan)), r"label of train_set is nan in row 7 \(1 such rows\)"),
        (lambda X, y: lgb.Dataset(X, with_value(y, 7, np.inf)), "label of train_set is inf in row 7"),
        (lambda X, y: lgb.Dataset(X, ["a"] * 60), "label of train_set must be numeric"),
        (
            lambda X, y: lgb.Dataset(X, y, weight=y[:5]),
            "weight of train_set must have one value for each of the 60 rows",
        ),
        (lambda X, y: lgb.Dataset(X, y, weight=with_value(y, 3, -1)), "weight of train_set is -1.0 in row 3"),
        (lambda X, y: lgb.Dataset(X, y, weight=with_value(y, 3, np.nan)), "weight of train_set is nan in row 3"),
        (
            lambda X, y: lgb.Dataset(X, y, init_score=y[:7]),
            "init_score of train_set must have one value per row and class",
        ),
        (lambda X, y: lgb.Dataset(X, y).construct(), "train_set is already constructed and its raw data are gone"),
        (lambda X, y: lgb.Dataset("table.csv"), "text or binary file"),
        (lambda X, y: lgb.Dataset(X, y, feature_name=["a", "b"]), "6 columns, but feature_name lists 2 names"),
        (lambda X, y: lgb.Dataset(X[:0], y[:0]), "no rows"),
        (
            lambda X, y: puc.Dataset(X, y, optional=OPTIONAL, available=np.ones((60, 2), bool)),
            "available must have one row per row",
        ),
        (
            lambda X, y: puc.Dataset(X, y, optional=OPTIONAL, available=np.zeros((60, 3), bool)),
            "available says that row",
        ),
        (lambda X, y: lgb.Dataset(X, y, position=[0] * 60), "train_set has positions"),
    ],
)
def test_bad_datasets(change: Any, message: str) -> None:
    X, y = small()
    with pytest.raises(ValueError, match=message):
        puc.train(PARAMS, change(X, y), 2)


def test_bad_validation_sets() -> None:
    X, y = small()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    cases: list[tuple[Any, Any, type[Exception], str]] = [
        (X, lgb.Dataset(X[:, :5], y), ValueError, "A validation set has 5 columns, but train_set has 6"),
        (X, lgb.Dataset(X, y).construct(), ValueError, "validation set 0 is already constructed"),
        (X, lgb.Dataset(X, with_value(y, 1, np.nan)), ValueError, "label of validation set 0 is nan in row 1"),
        (
            frame,
            lgb.Dataset(frame[list("bacdef")], y),
            ValueError,
            "Column 0 is 'b', but the consent schema expects 'a' there",
        ),
        (X, puc.Dataset(X, y, optional=[3]), ValueError, "Validation set 0 declares other groups"),
        (X, "valid.csv", TypeError, "Every item in valid_sets must be a Dataset object. Item 0 has type 'str'"),
    ]
    for data, valid, error, message in cases:
        with pytest.raises(error, match=message):
            puc.train(PARAMS, lgb.Dataset(data, y), 2, valid_sets=[valid])


@every_engine
@pytest.mark.parametrize("function", ["train", "cv"])
def test_not_a_dataset(kit: EngineKit, function: str) -> None:
    """LightGBM's own words, and what else may be passed."""
    X, y = small()
    message = rf"{function}\(\) only accepts Dataset object, train_set has type '%s'. Pass .* or a pair \(X, y\)"
    for given in (X, [X, y], (X, y, y)):
        with pytest.raises(TypeError, match=message % type(given).__name__):
            getattr(puc, function)({**kit.params, "optional": OPTIONAL}, given, 2)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"use_missing": False}, "use_missing=False makes"),
        ({"linear_tree": True}, "linear_tree with optional features"),
    ],
)
def test_parameters_on_the_dataset_are_checked_too(params: dict[str, Any], message: str) -> None:
    X, y = small()
    with pytest.raises(ValueError, match=message):
        puc.train(PARAMS, lgb.Dataset(X, y, params=params), 2)
