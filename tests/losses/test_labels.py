"""Labels, shapes and constants that do not fit a loss."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from loss_tools import (
    LIGHTGBM,
    XGBOOST,
    every_objective,
    some_rows,
    table,
)

from pucboost.objectives import Gamma, Logistic, Objective, Poisson, Quantile, Softmax, SquaredError, Tweedie


@pytest.mark.parametrize(
    ("objective", "label", "text"),
    [
        (SquaredError(), [0, np.nan], "label is nan in row 1; objective 'regression' needs labels to be finite"),
        (SquaredError(), [np.inf], "label is inf in row 0; objective 'regression' needs labels to be finite"),
        (SquaredError(), [1e39], "label is 1e\\+39 in row 0; objective 'regression' needs labels to be finite"),
        (Quantile(), [0, 1, np.nan], "label is nan in row 2; objective 'quantile' needs labels to be finite"),
        (Logistic(), [0, 1, -0.5, 2], "label is -0.5 in row 2; objective 'binary' needs labels between 0 and 1"),
        (Logistic(soft_labels=True), [1.5], "label is 1.5 in row 0; objective 'cross_entropy' needs labels between"),
        (Softmax(3), [0, 2, 1.5], "label is 1.5 in row 2; objective 'multiclass' needs labels to be whole .* 0 to 2"),
        (Softmax(3), [0, 3], "label is 3.0 in row 1; objective 'multiclass' needs labels to be whole .* 0 to 2"),
        (Softmax(3), [-1], "label is -1.0 in row 0"),
        (Softmax(3), [np.nan], "label is nan in row 0"),
        (
            Softmax(2),
            [[0.5, 0.5], [0.5, 0.6]],
            r"label is \[0.5, 0.6\] in row 1; .* shares: not negative, and adding up to 1",
        ),
        (Softmax(2), [[1.5, -0.5]], r"label is \[1.5, -0.5\] in row 0"),
        (Softmax(2), [[np.inf, -np.inf]], r"label is \[inf, -inf\] in row 0"),
        (Softmax(2), [[0.5, 0.5, 0.0]], r"or one share for each of 2 classes; got shape \(1, 3\)"),
        (Poisson(), [3, -1], "label is -1.0 in row 1; objective 'poisson' needs labels of at least 0"),
        (Gamma(), [3, 0], "label is 0.0 in row 1; objective 'gamma' needs labels above 0"),
        (Tweedie(), [-2], "label is -2.0 in row 0; objective 'tweedie' needs labels of at least 0"),
        (Tweedie(), [[0.0, 1.0]], r"label must have one value per row, got shape \(1, 2\)"),
    ],
    ids=lambda value: None if isinstance(value, (Objective, list)) else value[:30],
)
def test_bad_labels_are_named(objective: Objective, label: list[Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        objective.check_labels(label)
    with pytest.raises(ValueError, match="The label of train_set "):
        objective.check_labels(label, name="The label of train_set")


@every_objective
def test_good_labels_pass(objective: Objective) -> None:
    objective.check_labels(some_rows(objective, 100)[1])
    objective.check_labels([])
    if isinstance(objective, Softmax):
        shares = np.random.default_rng(0).dirichlet(np.ones(objective.n_classes), size=50)
        objective.check_labels(shares.astype(np.float32))
    if isinstance(objective, (Poisson, Tweedie, Logistic)):
        objective.check_labels([0.0, 1.0])


def test_both_engines_refuse_a_gamma_label_of_0() -> None:
    # LightGBM's loss would take it, but the metric that goes with it does not.
    X, label, _ = table(Gamma())
    label[3] = 0.0
    with pytest.raises(lgb.basic.LightGBMError, match="label"):
        lgb.train({**LIGHTGBM, "objective": "gamma"}, lgb.Dataset(X, label), 1)
    with pytest.raises(xgb.core.XGBoostError, match="label must be positive"):
        xgb.train({**XGBOOST, "objective": "reg:gamma"}, xgb.DMatrix(X, label), 1)


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"score must have shape \(n, 3\) for objective 'multiclass', got \(6,\)"):
        Softmax(3).gradient(np.zeros(6), [0, 1])
    with pytest.raises(ValueError, match=r"score must have shape \(n,\) for objective 'regression', got \(2, 2\)"):
        SquaredError().gradient(np.zeros((2, 2)), [0, 1])
    with pytest.raises(ValueError, match=r"label must have one value for each of the 2 rows, got shape \(3,\)"):
        SquaredError().gradient(np.zeros(2), [0, 1, 2])
    with pytest.raises(ValueError, match=r"weight must have one value for each of the 2 rows, got shape \(3,\)"):
        SquaredError().gradient(np.zeros(2), [0, 1], [1, 1, 1])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Softmax(1), "n_classes must be at least 2, got 1"),
        (lambda: Softmax(3, 0.0), "hessian_factor must be positive, got 0.0"),
        (lambda: Poisson(-0.1), "max_delta_step must not be negative, got -0.1"),
        (lambda: Tweedie(2.0), "variance_power must be at least 1 and below 2, got 2.0"),
        (lambda: Quantile(1.0), "alpha must be between 0 and 1, got 1.0"),
    ],
)
def test_constants_are_checked(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()
