"""Which loss parameters name, its labels, its best constant and link, and what an exposure makes of it."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import product
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from loss_tools import EVERY, LIGHTGBM, XGBOOST, Array, K, some_rows, table

from pucboost._engines.names import MAIN_OBJECTIVE
from pucboost._losses import per_unit
from pucboost.objectives import (
    Gamma,
    Logistic,
    Objective,
    Poisson,
    Quantile,
    Softmax,
    SquaredError,
    Tweedie,
    objective_for,
)

OBJECTIVES_FOR: dict[str, list[tuple[dict[str, Any], Objective | None]]] = {
    "lightgbm": [
        ({}, SquaredError()),
        ({"objective": None}, SquaredError()),
        ({"app": "binary"}, Logistic()),
        ({"objective": "binary", "sigmoid": 1, "scale_pos_weight": None}, Logistic()),
        ({"objective": "xentropy"}, Logistic(soft_labels=True)),
        ({"objective": "softmax", "num_classes": 5}, Softmax(5)),
        ({"objective": "poisson", "poisson_max_delta_step": 0.3}, Poisson(0.3)),
        ({"objective": "tweedie", "tweedie_variance_power": "1.2"}, Tweedie(1.2)),
        ({"objective": "quantile"}, Quantile(0.9)),
        ({"objective": "quantile", "alpha": 0.2}, Quantile(0.2)),
        ({"objective": "regression", "reg_sqrt": True}, None),
        ({"objective": "binary", "sigmoid": 2.0}, None),
        ({"objective": "binary", "scale_pos_weight": 3}, None),
        ({"objective": "binary", "unbalance": True}, None),
        ({"objective": "regression_l1"}, None),
        ({"objective": "multiclassova", "num_class": 3}, None),
        ({"objective": "none"}, None),
        ({"objective": Poisson()}, None),
    ],
    "xgboost": [
        ({}, SquaredError()),
        ({"objective": "reg:squarederror"}, SquaredError()),
        ({"objective": "binary:logistic"}, Logistic()),
        ({"objective": "reg:logistic"}, Logistic()),
        ({"objective": "multi:softprob", "num_class": 3}, Softmax(3, 2.0)),
        ({"objective": "multi:softmax", "num_class": 3}, Softmax(3, 2.0)),
        ({"objective": "count:poisson"}, Poisson(0.7)),
        ({"objective": "count:poisson", "max_delta_step": 0}, Poisson(0.0)),
        ({"objective": "reg:gamma"}, Gamma()),
        ({"objective": "reg:tweedie", "tweedie_variance_power": 1.7}, Tweedie(1.7)),
        ({"objective": "reg:quantileerror", "quantile_alpha": [0.3]}, Quantile(0.3)),
        ({"objective": "reg:quantileerror", "quantile_alpha": [0.3, 0.5]}, None),
        ({"objective": "reg:squarederror", "scale_pos_weight": 2}, None),
        ({"objective": "count:poisson", "scale_pos_weight": 2}, Poisson(0.7)),
        ({"objective": "binary:logitraw"}, None),
        ({"objective": "rank:ndcg"}, None),
        ({"objective": "regression"}, None),
    ],
}


def test_objective_for() -> None:
    for engine, cases in OBJECTIVES_FOR.items():
        for params, expected in cases:
            assert objective_for(params, engine=engine) == expected, params


CLOSED_FORMS = (
    "regression", "binary", "cross_entropy", "multiclass", "poisson", "gamma", "tweedie", "quantile",
)  # fmt: skip


def test_names_mean_what_they_mean_to_lightgbm() -> None:
    for alias in sorted(a for a, main in MAIN_OBJECTIVE.items() if main in CLOSED_FORMS):
        params = {"objective": alias.upper()} | ({"num_class": 3} if alias in ("multiclass", "softmax") else {})
        objective = objective_for(params)
        assert objective is not None
        label = np.tile([0.0, 1.0, 1.0], 20) if objective.name != "gamma" else np.ones(60)
        booster = lgb.train({**LIGHTGBM, **params}, lgb.Dataset(np.arange(60.0)[:, None], label), 1)
        assert booster.dump_model()["objective"].split()[0] == objective.name


def test_xgboost_name_leads_back() -> None:
    for objective in EVERY:
        params = {"objective": objective.xgboost_name, "num_class": objective.n_scores, "quantile_alpha": 0.3}
        assert type(objective_for(params, engine="xgboost")) is type(objective)


def test_no_engine_is_imported() -> None:
    code = "import sys, pucboost.objectives; print({'lightgbm', 'xgboost'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


BAD_LABELS: list[tuple[Objective, list[Any], str]] = [
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
]


def test_bad_labels_are_named() -> None:
    for objective, label, text in BAD_LABELS:
        with pytest.raises(ValueError, match=text):
            objective.check_labels(label)
        with pytest.raises(ValueError, match="The label of train_set "):
            objective.check_labels(label, name="The label of train_set")


def test_good_labels_pass() -> None:
    for objective in EVERY:
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


def test_what_is_given_is_checked() -> None:
    l2 = SquaredError()
    bad: list[tuple[Any, str]] = [
        (
            lambda: Softmax(3).gradient(np.zeros(6), [0, 1]),
            r"score must have shape \(n, 3\) .*'multiclass'.* \(6,\)",
        ),
        (lambda: l2.gradient(np.zeros((2, 2)), [0, 1]), r"score must have shape \(n,\) .* 'regression', got \(2, 2\)"),
        (lambda: l2.gradient(np.zeros(2), [0, 1, 2]), r"label must have one value for each of the 2 rows, .* \(3,\)"),
        (
            lambda: l2.gradient(np.zeros(2), [0, 1], [1, 1, 1]),
            r"weight must have one value for each .* \(3,\)",
        ),
        (
            lambda: objective_for({"objective": "softmax"}),
            "'softmax' needs .* num_class, at least 2; got None",
        ),
        (
            lambda: objective_for({"objective": "multi:softprob", "num_class": 1}, engine="xgboost"),
            "objective 'multi:softprob' needs the parameter num_class, at least 2; got 1",
        ),
        (lambda: objective_for({"objective": "reg:quantileerror"}, engine="xgboost"), "the parameter quantile_alpha"),
        (lambda: objective_for({}, engine="forest"), r"engine must be .*'lightgbm'.*'xgboost'.*got 'forest'"),
        (
            lambda: Poisson().check_predictions([1.0, 0.0, -2.0], "fee"),
            r"fee is 0\.0 in row 1 \(2 .* to their log",
        ),
        (lambda: Logistic().check_predictions([0.5, 1.0]), "'binary' adds to their log-odds, .* above 0 and below 1"),
        (lambda: Softmax(3).check_predictions([[0.5, 0.6, 0.1]]), r"prediction is \[0\.5, 0\.6, 0\.1\] in .* up to 1"),
        (lambda: Quantile(0.5).check_predictions([np.inf]), r"prediction is inf in row 0 .* to predictions themselves"),
        (lambda: Softmax(3).check_predictions([0.5, 0.5]), r"must have shape \(2, 3\) .* 'multiclass', got \(2,\)"),
        (lambda: Softmax(1), "n_classes must be at least 2, got 1"),
        (lambda: Softmax(3, 0.0), "hessian_factor must be positive, got 0.0"),
        (lambda: Poisson(-0.1), "max_delta_step must not be negative, got -0.1"),
        (lambda: Tweedie(2.0), "variance_power must be at least 1 and below 2, got 2.0"),
        (lambda: Quantile(1.0), "alpha must be between 0 and 1, got 1.0"),
    ]
    for make, text in bad:
        with pytest.raises(ValueError, match=text):
            make()


def test_initial_score_minimises_the_loss() -> None:
    for objective, weighted in product(EVERY, (False, True)):
        _, label, weight = some_rows(objective, 301)
        used = weight if weighted else None
        best = np.asarray(objective.initial_score(label, used))

        least = objective.loss(np.broadcast_to(best, (301, *best.shape)), label, used)
        for place in np.ndindex(best.shape):
            for step in (-0.1, -1e-3, 1e-3, 0.1):
                moved = best.copy()
                moved[place] += step
                assert objective.loss(np.broadcast_to(moved, (301, *best.shape)), label, used) > least


def constant_model(params: dict[str, Any], label: Array, weight: Array | None) -> Array:
    """What LightGBM predicts when it may not split: its own initial score."""
    params = {**LIGHTGBM, **params, "min_data_in_leaf": len(label)}
    feature = np.arange(len(label), dtype=np.float64)[:, None]
    booster = lgb.train(params, lgb.Dataset(feature, label, weight=weight), 1)
    return np.asarray(booster.predict(feature[:1], raw_score=True)[0])


LIGHTGBMS_OWN: list[dict[str, Any]] = [
    *({"objective": name} for name in ("regression", "binary", "cross_entropy", "poisson", "gamma", "tweedie")),
    {"objective": "multiclass", "num_class": K},
]


def test_initial_score_is_lightgbms() -> None:
    for params, weighted in product(LIGHTGBMS_OWN, (False, True)):
        objective = objective_for(params)
        assert objective is not None
        _, label, weight = some_rows(objective, 500)
        used = weight if weighted else None
        # LightGBM multiplies label and weight in float32 before it adds them up.
        np.testing.assert_allclose(
            objective.initial_score(label, used), constant_model(params, label, used), rtol=1e-6, atol=1e-7
        )


def test_one_class_only() -> None:
    for value in (0.0, 1.0):
        label = np.full(50, value)
        theirs = float(constant_model({"objective": "binary"}, label, None))
        assert Logistic().initial_score(label) == pytest.approx(theirs)
        ours = Softmax(3).initial_score(label)
        np.testing.assert_allclose(ours, constant_model({"objective": "multiclass", "num_class": 3}, label, None))


def test_quantile_initial_score_is_no_worse_than_lightgbms() -> None:
    for alpha, weighted in product((0.1, 0.37, 0.9), (False, True)):
        objective = Quantile(alpha)
        _, label, weight = some_rows(objective, 103)
        used = weight if weighted else None
        theirs = float(constant_model({"objective": "quantile", "alpha": alpha}, label, used))
        ours = objective.initial_score(label, used)
        # LightGBM interpolates: at most one label away from the minimum.
        assert abs(np.searchsorted(np.sort(label), theirs) - np.searchsorted(np.sort(label), ours)) <= 1
        least = objective.loss(np.full(103, ours), label, used)
        assert least <= objective.loss(np.full(103, theirs), label, used) + 1e-12


def test_initial_score_needs_rows_and_weight() -> None:
    for objective in EVERY:
        _, label, _ = some_rows(objective, 3)
        with pytest.raises(ValueError, match="no row"):
            objective.initial_score([])
        with pytest.raises(ValueError, match="All weights are 0"):
            objective.initial_score(label, [0.0, 0.0, 0.0])


def test_log_links_need_a_positive_mean() -> None:
    for objective in (Poisson(), Gamma(), Tweedie()):
        with pytest.raises(ValueError, match=f"'{objective.name}' needs a positive mean label, got 0.0"):
            objective.initial_score([0.0, 0.0])


def test_response_inverts_the_initial_score() -> None:
    for objective in EVERY:
        _, label, weight = some_rows(objective, 100)
        got = objective.response(objective.initial_score(label, weight))
        if isinstance(objective, Softmax):
            hot = np.eye(objective.n_classes)[label.astype(int)]
            np.testing.assert_allclose(got, np.average(hot, axis=0, weights=weight))
        elif not isinstance(objective, Quantile):
            assert got == pytest.approx(np.average(label, weights=weight))
    assert Poisson().response([1000.0]).tolist() == [math.inf]
    assert Logistic().response([-1000.0, 0.0, 1000.0]).tolist() == [0.0, 0.5, 1.0]


def test_link_is_the_way_back() -> None:
    for objective in EVERY:
        scores, _, _ = some_rows(objective, 50)
        response = objective.response(scores)
        objective.check_predictions(response)
        np.testing.assert_allclose(objective.response(objective.link(response)), response, rtol=1e-12)
        if objective.n_scores == 1:  # a softmax does not change if all its scores move
            np.testing.assert_allclose(objective.link(response), scores, rtol=1e-6, atol=1e-9)


# Exposure as label and weight, and as an offset: the same for Poisson, another model for the others.

RNG = np.random.default_rng(3)
SCORE, EXPOSURE = RNG.normal(size=200), RNG.uniform(0.05, 20, 200)
TOTAL = RNG.gamma(2.0, 1.0, 200)
RATE, WEIGHT = per_unit(TOTAL, None, EXPOSURE)


def test_poisson_with_an_offset_has_the_same_gradients() -> None:
    for max_delta_step in (0.0, 0.7):
        loss = Poisson(max_delta_step)
        offset = loss.gradient(SCORE + np.log(EXPOSURE), TOTAL)
        ours = loss.gradient(SCORE, RATE, WEIGHT)
        for theirs, mine in zip(offset, ours, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)  # float32


def test_others_with_an_offset_weigh_less() -> None:
    losses: list[tuple[Objective, float]] = [(Gamma(), 2.0), (Tweedie(1.5), 1.5), (Tweedie(1.1), 1.1)]
    for loss, power in losses:
        offset = loss.gradient(SCORE + np.log(EXPOSURE), TOTAL)
        as_weight = loss.gradient(SCORE, RATE, EXPOSURE ** (2 - power))
        for theirs, mine, ours in zip(offset, as_weight, loss.gradient(SCORE, RATE, WEIGHT), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)  # float32
            assert not np.allclose(ours, theirs, rtol=0.01)


def test_variance_of_a_rate_falls_with_its_exposure() -> None:
    """What the weight assumes: Var[Y/e] = φ·μ^p / e for counts, sums of gamma amounts, and amounts of e claims."""
    n, claims = 200_000, 4
    for exposure in (1.0, 4.0):
        counts = RNG.poisson(exposure * 0.5, n)
        assert np.var(counts / exposure) == pytest.approx(0.5 / exposure, rel=0.03)
        sums = RNG.gamma(2.0 * np.maximum(counts, 1e-12), 3.0)
        # λ·E[amount²] per unit: 0.5 · (2·9 + 36)
        assert np.var(sums / exposure) == pytest.approx(27.0 / exposure, rel=0.03)
    means = RNG.gamma(2.0, 3.0, (n, claims)).mean(axis=1)
    assert np.var(means) == pytest.approx(18.0 / claims, rel=0.03)


def test_weights_multiply_exposures() -> None:
    rate, weight = per_unit(np.array([2.0, 3.0]), np.array([10.0, 1.0]), np.array([0.5, 6.0]))
    assert rate.tolist() == [4.0, 0.5]
    assert weight.tolist() == [5.0, 6.0]
