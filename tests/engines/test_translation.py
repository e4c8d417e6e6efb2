"""LightGBM's parameters in XGBoost's words: every row of the table, and how the engines take the result."""

from __future__ import annotations

import copy
import re
import warnings
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

from pucboost._engines import names
from pucboost._engines.names import aliases
from pucboost._engines.translation import METRICS, OBJECTIVES, SHARED_NAMES, TABLE, Translated, to_xgboost

READ_BY_VALUE = {
    "alpha", "interaction_constraints", "max_delta_step", "max_depth", "monotone_constraints", "objective", "verbosity",
}  # fmt: skip
"""Names of both engines whose values the table looks at."""

LEAVES = {"max_leaves": 31, "grow_policy": "lossguide", "max_depth": 0}
DART = {"booster": "dart", "rate_drop": 0.1, "skip_drop": 0.5}


def params_of(**params: Any) -> dict[str, Any]:
    return to_xgboost(params).params


def names_of(main: str) -> list[str]:
    return list(aliases(main))


# --- the table against the engines


def test_the_table_has_all_names_and_shares_those_xgboost_has() -> None:
    assert TABLE.keys() == names.PARAMETERS.keys()  # which test_lightgbm.py compares with LightGBM's own list
    own = [name for main in TABLE for name in names_of(main) if name in SHARED_NAMES | READ_BY_VALUE]
    assert len(own) == len(SHARED_NAMES | READ_BY_VALUE)
    foreign = {name for main in TABLE for name in names_of(main)} - set(own)
    # These are fields of XGBoost's model, not parameters: to set them is an error.
    foreign -= {"boost_from_average", "num_trees"}
    assert unused(dict.fromkeys(foreign, 1)) == foreign


def unused(params: dict[str, Any], label: Any = None, rounds: int = 2) -> set[str]:
    """Train on a small table and return the parameters XGBoost reports as not used."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = (X[:, 0] > 0).astype(float) if label is None else label
    data = xgb.DMatrix(X, y)
    # XGBoost's verbosity is global: another test may have silenced it.
    with warnings.catch_warnings(record=True) as caught, xgb.config_context(verbosity=1):
        warnings.simplefilter("always")
        xgb.train({"nthread": 1, **params}, data, rounds, evals=[(data, "train")], verbose_eval=False)
    texts = [str(warning.message) for warning in caught]
    return {name for text in texts if "not used" in text for name in text.split('"')[1::2]}


# --- every row that is translated

TRANSLATED: list[tuple[str, Any, dict[str, Any]]] = [
    ("objective", "regression", {"objective": "reg:squarederror"}),
    ("boosting", "gbdt", {"booster": "gbtree"}),
    ("boosting", "dart", DART),
    ("learning_rate", 0.2, {"learning_rate": 0.2}),
    ("num_leaves", 31, LEAVES),
    ("max_depth", 4, {"max_depth": 4}),
    ("max_depth", -1, LEAVES),
    ("min_sum_hessian_in_leaf", 2.0, {"min_child_weight": 2.0}),
    ("lambda_l1", 0.5, {"reg_alpha": 0.5}),
    ("lambda_l2", 0.5, {"reg_lambda": 0.5}),
    ("min_gain_to_split", 0.5, {"gamma": 0.5}),
    ("max_delta_step", 0.5, {"max_delta_step": 0.5}),
    ("max_delta_step", -1, {"max_delta_step": 0}),
    ("monotone_constraints", [1, 0, -1], {"monotone_constraints": (1, 0, -1)}),
    ("monotone_constraints", "1,0,-1", {"monotone_constraints": "(1,0,-1)"}),
    ("interaction_constraints", [[0, 1], [2]], {"interaction_constraints": "[[0, 1], [2]]"}),
    ("interaction_constraints", "[0,1],[2]", {"interaction_constraints": "[[0,1],[2]]"}),
    ("max_bin", 63, {"max_bin": 63}),
    ("max_cat_to_onehot", 4, {"max_cat_to_onehot": 4}),
    ("max_cat_threshold", 16, {"max_cat_threshold": 16}),
    ("bagging_fraction", 1.0, {"subsample": 1.0}),
    ("bagging_freq", 1, {}),
    ("bagging_freq", 0, {}),
    ("feature_fraction", 0.7, {"colsample_bytree": 0.7}),
    ("feature_fraction_bynode", 0.7, {"colsample_bynode": 0.7}),
    ("seed", 3, {"seed": 3}),
    ("scale_pos_weight", 2.0, {"scale_pos_weight": 2.0}),
    ("metric", "l1", {"eval_metric": "mae"}),
    ("num_threads", 1, {"nthread": 1}),
    ("num_threads", -1, {"nthread": 0}),
    ("verbosity", -1, {"verbosity": 0}),
    ("device_type", "cpu", {}),
]


def test_translated() -> None:
    for main, value, expected in TRANSLATED:
        for name in names_of(main):
            translated = params_of(**{name: value})
            assert translated == ({name: value} if name in SHARED_NAMES else expected), name
        assert unused({"verbosity": 2} | expected) == set(), main
        assert to_xgboost(params_of(**{main: value})).params == expected  # it is its own translation


def test_rules_that_depend_on_other_parameters() -> None:
    for given, expected in [
        ({"bagging_fraction": 0.8, "bagging_freq": 1}, {"subsample": 0.8}),
        ({"sub_row": 0.8, "subsample_freq": 1}, {"subsample": 0.8}),
        ({"subsample": 0.8, "bagging_freq": 1}, {"subsample": 0.8}),
        ({"objective": "quantile", "alpha": 0.3}, {"objective": "reg:quantileerror", "quantile_alpha": 0.3}),
        ({"objective": "quantile"}, {"objective": "reg:quantileerror", "quantile_alpha": 0.9}),
        ({"objective": "quantile", "quantile_alpha": 0.2}, {"objective": "reg:quantileerror", "quantile_alpha": 0.2}),
        ({"alpha": 0.3, "objective": "reg:squarederror"}, {"objective": "reg:squarederror", "alpha": 0.3}),
        (
            {"objective": "tweedie", "tweedie_variance_power": 1.2, "metric": "tweedie"},
            {"objective": "reg:tweedie", "tweedie_variance_power": 1.2, "eval_metric": "tweedie-nloglik@1.2"},
        ),
        (
            {"objective": "tweedie", "metric": "tweedie"},
            {"objective": "reg:tweedie", "eval_metric": "tweedie-nloglik@1.5"},
        ),
        (
            {"objective": "poisson", "poisson_max_delta_step": 0.6},
            {"objective": "count:poisson", "max_delta_step": 0.6},
        ),
        ({"poisson_max_delta_step": 0.6}, {}),
        (
            {"boosting": "dart", "drop_rate": 0.2, "skip_drop": 0.1, "uniform_drop": False},
            {"booster": "dart", "rate_drop": 0.2, "skip_drop": 0.1, "sample_type": "weighted"},
        ),
        ({"booster": "dart", "uniform_drop": True}, {"booster": "dart", "sample_type": "uniform"}),
        ({"boosting": "dart", "max_drop": 0, "xgboost_dart_mode": True}, DART),
        ({"drop_rate": 0.2, "uniform_drop": True, "max_drop": 50, "xgboost_dart_mode": False, "drop_seed": 4}, {}),
        ({"seed": 3, "bagging_seed": 3, "feature_fraction_seed": 3}, {"seed": 3}),
        ({"num_leaves": 7, "max_depth": 3}, {"max_leaves": 7, "grow_policy": "lossguide", "max_depth": 3}),
        ({"num_leaves": 7, "max_depth": -1}, {"max_leaves": 7, "grow_policy": "lossguide", "max_depth": 0}),
        ({"num_leaves": 7, "grow_policy": "depthwise"}, {"max_leaves": 7, "grow_policy": "depthwise", "max_depth": 0}),
        ({"max_leaves": 7, "max_depth": -1}, {"max_leaves": 7, "max_depth": 0}),
        ({"max_leaves": 7}, {"max_leaves": 7}),
        ({"num_class": 3, "objective": "softmax"}, {"num_class": 3, "objective": "multi:softprob"}),
        ({"num_classes": 3, "objective": "multiclass"}, {"num_class": 3, "objective": "multi:softprob"}),
        ({"verbosity": 1, "objective": "binary:logistic"}, {"verbosity": 1, "objective": "binary:logistic"}),
        ({"verbosity": 1, "objective": "binary"}, {"verbosity": 2, "objective": "binary:logistic"}),
        ({"verbosity": 0}, {"verbosity": 0}),
        ({"verbose": 0}, {"verbosity": 1}),
        ({"verbose": 1}, {"verbosity": 2}),
        ({"verbose": 5}, {"verbosity": 3}),
    ]:
        assert to_xgboost(given).params == expected
        assert to_xgboost(dict(reversed(given.items()))).params == expected
        label = np.arange(40) % 3 if "num_class" in expected else None
        assert unused(expected, label) == set()


def test_arguments_of_train_and_devices() -> None:
    assert params_of(device_type="gpu") == params_of(device_type="cuda") == {"device": "cuda"}
    assert params_of(device="cuda:1") == {"device": "cuda:1"}
    for name in names_of("num_iterations"):
        assert to_xgboost({name: 7}) == Translated({}, num_boost_round=7)
    for name in names_of("early_stopping_round"):
        assert to_xgboost({name: 5}) == Translated({}, early_stopping_rounds=5)
        assert to_xgboost({name: 0}) == Translated({})
    translated = to_xgboost({"first_metric_only": "true", "early_stopping_min_delta": 0.1, "early_stopping_round": 2})
    assert translated == Translated({}, None, 2, True, 0.1)


# --- objectives and metrics


def test_objectives() -> None:
    assert OBJECTIVES.keys() == names.OBJECTIVES.keys()
    for main, row in OBJECTIVES.items():
        for value in (main, *names.OBJECTIVES[main].split(), main.upper()):
            for name in names_of("objective"):
                if row.instead:
                    refused(name, value, row.instead)
                else:
                    assert params_of(**{name: value})["objective"] == row.to
        if row.to:
            num_class = {"num_class": 3} if main == "multiclass" else {}
            label = np.arange(40) % 3 if num_class else np.linspace(0.1, 0.9, 40)
            assert unused({**params_of(objective=main, **num_class), "verbosity": 2}, label) == set()
            for value in (main, *names.OBJECTIVES[main].split()):
                # LightGBM knows the name: it would raise for another.
                lgb.Booster({"objective": value, "metric": "None", **num_class}, lightgbm_data())


def lightgbm_data() -> lgb.Dataset:
    X = np.random.default_rng(0).normal(size=(40, 2))
    return lgb.Dataset(X, np.arange(40) % 2, params={"verbosity": -1, "num_threads": 1})


def test_metrics() -> None:
    assert METRICS.keys() == names.METRICS.keys()
    for main, row in METRICS.items():
        for value in (main, *names.METRICS[main].split(), main.upper()):
            for name in names_of("metric"):
                if row.to is None:
                    refused(name, value, row.instead)
                else:
                    assert params_of(**{name: value}) == {"eval_metric": row.to.format(rho=1.5)}
        if row.to:
            objective: dict[str, Any] = {"objective": "binary"}
            if main.startswith("multi_"):
                objective = {"objective": "multiclass", "num_class": 2}
            elif main == "quantile":
                objective = {"objective": "quantile", "alpha": 0.4}
            params = params_of(metric=main, **objective)
            assert unused({**params, "verbosity": 2}, np.repeat([1.0, 0.0], 20)) == set()


def test_several_metrics_or_none() -> None:
    for metric, expected in [
        (["binary_logloss", "auc"], ["logloss", "auc"]),
        (("auc", "binary_error"), ["auc", "error"]),
        ({"rmse", "auc", "l1"}, ["auc", "mae", "rmse"]),
        ("binary_logloss, auc", ["logloss", "auc"]),
        (["binary_logloss", "cross_entropy"], "logloss"),
        (["None", "auc"], "auc"),
        ("error@0.7", "error@0.7"),
        ("logloss,aucpr", ["logloss", "aucpr"]),
    ]:
        assert params_of(metric=metric) == {"eval_metric": expected}

    for metric in ("None", "na", "null", "custom", ["None"]):
        assert params_of(metric=metric) == {"disable_default_eval_metric": True}
    assert unused(params_of(metric="None")) == set()
    for metric in ("", [], ()):  # that of the objective, as in LightGBM
        result: dict[str, Any] = {}
        params = {"objective": "regression", "metric": metric, "verbosity": -1, "num_threads": 1}
        lgb.train(params, lightgbm_data(), 1, [lightgbm_data()], callbacks=[lgb.record_evaluation(result)])
        assert list(result["valid_0"]) == ["l2"]
        assert params_of(metric=metric) == {}


def test_a_function_passes() -> None:
    def objective(preds: Any, data: Any) -> Any:
        return preds - data.get_label(), np.ones_like(preds)

    assert params_of(objective=objective)["objective"] is objective
    assert params_of(metric=objective)["eval_metric"] is objective


# --- what is dropped, what is refused

REFUSED: dict[str, Any] = {
    "is_unbalance": True, "sigmoid": 2.0, "boost_from_average": False, "reg_sqrt": True, "multi_error_top_k": 3,
    "gpu_device_id": 0, "gpu_device_id_list": "0,1", "num_gpu": 2, "num_machines": 2, "machines": "10.0.0.1:12400",
    "machine_list_filename": "list.txt", "min_data_in_leaf": 20, "data_sample_strategy": "goss",
    "pos_bagging_fraction": 0.5, "neg_bagging_fraction": 0.5, "bagging_by_query": True, "extra_trees": True,
    "linear_tree": True, "path_smooth": 1.0, "cat_l2": 10.0, "cat_smooth": 10.0, "min_data_per_group": 100,
    "categorical_feature": [0], "max_bin_by_feature": [15, 255], "min_data_in_bin": 3,
    "forcedbins_filename": "bins.json", "forcedsplits_filename": "splits.json", "feature_contri": [1.0, 0.5],
    "monotone_constraints_method": "advanced", "monotone_penalty": 1.0, "use_missing": False, "zero_as_missing": True,
    "use_quantized_grad": True, "cegb_penalty_split": 1.0, "cegb_penalty_feature_lazy": [1.0],
    "cegb_penalty_feature_coupled": [1.0], "input_model": "model.txt",
}  # fmt: skip
"""A value of each parameter that XGBoost lacks."""

REFUSED_THERE: dict[str, tuple[Any, dict[str, Any]]] = {
    "max_drop": (50, {"boosting": "dart"}),
    "xgboost_dart_mode": (False, {"boosting": "dart"}),
    "eval_at": ([5], {"objective": "rank:ndcg"}),
    "label_gain": ([0, 1], {"objective": "rank:ndcg"}),
    "lambdarank_norm": (True, {"objective": "rank:ndcg"}),
    "lambdarank_truncation_level": (9, {"objective": "rank:ndcg"}),
    "lambdarank_position_bias_regularization": (1.0, {"objective": "rank:ndcg"}),
}
"""The same where it matters only together with others."""

REFUSED_BY_RULE: list[tuple[str, Any, dict[str, Any], str]] = [
    ("boosting", "rf", {}, "use num_parallel_tree"),
    ("boosting", "goss", {}, "use subsample"),
    ("bagging_freq", 5, {}, "=1"),
    ("bagging_seed", 3, {}, "use seed"),
    ("feature_fraction_seed", 2, {}, "use seed"),
    ("drop_seed", 4, {"boosting": "dart"}, "use seed"),
]

NO_EFFECT: list[tuple[str, Any]] = [
    ("is_unbalance", False), ("sigmoid", 1), ("sigmoid", "1.0"), ("boost_from_average", True), ("reg_sqrt", False),
    ("multi_error_top_k", 1), ("gpu_device_id", -1), ("gpu_device_id_list", ""), ("num_gpu", 1), ("num_machines", 1),
    ("machines", ""), ("machine_list_filename", ""), ("min_data_in_leaf", 1), ("min_data_in_leaf", 0),
    ("data_sample_strategy", "bagging"), ("pos_bagging_fraction", 1.0), ("neg_bagging_fraction", 1.0),
    ("bagging_by_query", False), ("extra_trees", False), ("linear_tree", False), ("path_smooth", 0), ("cat_l2", 0),
    ("cat_smooth", 0.0), ("min_data_per_group", 1), ("categorical_feature", "auto"), ("categorical_feature", ""),
    ("max_bin_by_feature", []), ("min_data_in_bin", 1), ("forcedbins_filename", ""), ("forcedsplits_filename", ""),
    ("feature_contri", []), ("monotone_constraints_method", "basic"), ("monotone_penalty", 0), ("use_missing", True),
    ("zero_as_missing", False), ("use_quantized_grad", False), ("cegb_penalty_split", 0.0),
    ("cegb_penalty_feature_lazy", []), ("cegb_penalty_feature_coupled", []), ("input_model", ""),
    ("monotone_constraints", []), ("interaction_constraints", ""),
]  # fmt: skip


def refused(name: str, value: Any, reason: str, **other: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name}=.* has no counterpart in XGBoost: .*{re.escape(reason)}"):
        to_xgboost({name: value, **other})


def test_refused() -> None:
    for main, value in REFUSED.items():
        for name in names_of(main):
            refused(name, value, TABLE[main].instead)
    for main, (value, other) in REFUSED_THERE.items():
        for name in names_of(main):
            refused(name, value, TABLE[main].instead, **other)
            assert to_xgboost({name: value}).params == {}
    for main, value, other, reason in REFUSED_BY_RULE:
        for name in names_of(main):
            refused(name, value, reason, **other)
    assert {main for main, row in TABLE.items() if row.instead} == REFUSED.keys() | REFUSED_THERE.keys()


def test_without_effect() -> None:
    for main, value in NO_EFFECT:
        for name in names_of(main):
            assert to_xgboost({name: value}) == Translated({})


TECHNICALITIES = [
    main
    for main, row in TABLE.items()
    if row.to is None and row.rule is None and not row.instead and main not in SHARED_NAMES
]


def test_technicalities_are_dropped_and_every_row_is_tested() -> None:
    for main in TECHNICALITIES:
        for name in names_of(main):
            assert to_xgboost({name: 1}) == Translated({})
    assert {"force_row_wise", "deterministic", "histogram_pool_size", "two_round"} <= set(TECHNICALITIES)
    tested = {main for main, *_ in [*TRANSLATED, *REFUSED_BY_RULE, *NO_EFFECT]} | set(TECHNICALITIES)
    tested |= REFUSED.keys() | REFUSED_THERE.keys()
    elsewhere = {
        "alpha", "drop_rate", "early_stopping_min_delta", "early_stopping_round", "first_metric_only", "num_class",
        "num_iterations", "poisson_max_delta_step", "skip_drop", "top_k", "tweedie_variance_power", "uniform_drop",
    }  # fmt: skip
    assert set(TABLE) == tested | elsewhere


# --- ambiguity and contradiction


def test_ambiguous_or_contradictory() -> None:
    for objective in (None, "regression", "binary", lambda preds, data: (preds, preds)):
        with pytest.raises(ValueError, match=r"alpha=0\.5 is ambiguous.*quantile_alpha.*reg_alpha"):
            to_xgboost({"alpha": 0.5, "objective": objective})
    with pytest.raises(ValueError, match="use reg:pseudohubererror"):  # named before its parameters
        to_xgboost({"alpha": 0.5, "objective": "huber"})
    for name in ("bagging_fraction", "bagging", "sub_row"):
        for freq in ({}, {"bagging_freq": 0}):
            with pytest.raises(ValueError, match=rf"{name}=0\.8 has no effect in LightGBM.*write subsample=0\.8"):
                to_xgboost({name: 0.8, **freq})
    message = r"bagging_freq=0 switches row sampling off, but subsample=0\.8 switches it on"
    with pytest.raises(ValueError, match=message):
        to_xgboost({"subsample": 0.8, "bagging_freq": 0})
    with pytest.raises(ValueError, match="num_leaves=7 with tree_method='exact': XGBoost then has only max_depth"):
        to_xgboost({"num_leaves": 7, "tree_method": "exact", "max_depth": 3})


def test_one_parameter_under_two_names() -> None:
    for given in [
        {"learning_rate": 0.1, "eta": 0.2},
        {"num_leaves": 7, "max_leaves": 8},
        {"bagging_freq": 1, "subsample_freq": 0},
        {"objective": "binary", "loss": "binary:logistic"},
        {"n_estimators": 10, "num_boost_round": 20},
        {"device_type": "cpu", "device": "cuda"},
        {"bagging_fraction": 0.5, "subsample": 0.6, "bagging_freq": 1},
    ]:
        first, second, *_ = given
        with pytest.raises(ValueError, match=f"{first}=.* and {second}=.* are the same parameter; give one of them"):
            to_xgboost(given)

    for given in [
        {"gamma": 0.1, "min_gain_to_split": 0.2},
        {"min_split_loss": 0.1, "gamma": 0.2},
        {"boosting": "dart", "booster": "gbtree"},
        {"metric": "auc", "eval_metric": "logloss"},
        {"objective": "poisson", "poisson_max_delta_step": 0.7, "max_delta_step": 1.0},
        {"objective": "quantile", "alpha": 0.5, "quantile_alpha": 0.6},
        {"objective": "reg:squarederror", "alpha": 0.5, "lambda_l1": 0.6},
    ]:
        first, second = list(given)[-2:]
        with pytest.raises(ValueError, match=f"{first}=.* and {second}=.* are the same parameter in XGBoost, .*; give"):
            to_xgboost(given)

    assert params_of(eta=0.1, learning_rate=0.1) == {"eta": 0.1}
    assert params_of(metric="binary_logloss", eval_metric="logloss") == {"eval_metric": "logloss"}
    assert params_of(monotone_constraints=(1, 0), mc=np.array([1, 0])) == {"monotone_constraints": (1, 0)}


def test_not_a_number() -> None:
    for name in ("max_depth", "num_iterations", "min_data_in_leaf", "num_threads", "bagging_freq"):
        with pytest.raises(ValueError, match=f"{name}='many': expected a number, got 'many'"):
            to_xgboost({name: "many"})
    for value in (float("inf"), float("nan"), 2.5):
        with pytest.raises(ValueError, match=f"num_iterations={value}: expected a whole number, got {value}"):
            to_xgboost({"num_iterations": value})


def test_xgboosts_own_names_pass() -> None:
    given = {
        "objective": "binary:logistic", "eta": 0.1, "gamma": 0.2, "max_depth": 4, "min_child_weight": 3, "lambda": 1,
        "alpha": 0.1, "subsample": 0.8, "colsample_bytree": 0.9, "colsample_bylevel": 0.9, "n_jobs": -1,
        "random_state": 4, "max_leaves": 5, "grow_policy": "lossguide", "booster": "gbtree", "device": "cpu",
        "verbosity": 2, "eval_metric": ["auc", "logloss"], "tree_method": "hist", "max_bin": 64, "base_score": 0.5,
        "scale_pos_weight": 2, "monotone_constraints": (1, 0, -1), "interaction_constraints": "[[0,1],[2]]",
        "num_parallel_tree": 1, "max_delta_step": 1,
    }  # fmt: skip
    assert to_xgboost(given) == Translated(given)
    assert unused(given) == set()
    named = {"interaction_constraints": [["a", "b"]], "monotone_constraints": {"a": 1}}
    assert to_xgboost(named).params == named


def test_unknown_names_pass_and_none_is_not_given() -> None:
    given = {"something": 1, "max_depth": None, "objective": None, "metric": ["auc", "rmse"], "seed": None}
    before = copy.deepcopy(given)
    assert to_xgboost(given).params == {"something": 1, "eval_metric": ["auc", "rmse"]}
    assert given == before


# --- the engines agree

COMMON = {
    "objective": "regression", "learning_rate": 0.1, "num_leaves": 15, "min_sum_hessian_in_leaf": 5.0,
    "lambda_l2": 1.0, "lambda_l1": 0.5, "max_bin": 127, "num_threads": 1, "seed": 1,
    "verbosity": -1,
}  # fmt: skip


def regression_data() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 5))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * (X[:, 3] > 0) + 0.3 * rng.normal(size=4000)
    return X, y


def test_the_engines_learn_the_same() -> None:
    X, y = regression_data()
    for more, label in [
        ({}, y),
        ({"max_depth": 4}, y),
        ({"objective": "regression_l1"}, y),
        ({"bagging_fraction": 0.8, "bagging_freq": 1, "feature_fraction": 0.8}, y),
        ({"monotone_constraints": [1, 0, 0, 0, 0]}, y),
        ({"interaction_constraints": [[0, 1], [2, 3], [4]]}, y),
        ({"objective": "binary"}, (y > 0).astype(float)),
        ({"objective": "cross_entropy"}, 1 / (1 + np.exp(-y))),
        ({"objective": "poisson"}, np.round(np.exp(0.5 * y))),
        ({"objective": "gamma"}, np.exp(0.5 * y)),
        ({"objective": "tweedie"}, np.maximum(y, 0)),
    ]:
        given = {**COMMON, **more}
        # LightGBM's own limit on rows has no counterpart and is switched off.
        ours = lgb.train({**given, "min_data_in_leaf": 0}, lgb.Dataset(X, label), 40).predict(X)
        theirs = xgb.train(to_xgboost(given).params, xgb.DMatrix(X, label), 40).predict(xgb.DMatrix(X))
        assert np.corrcoef(ours, theirs)[0, 1] > 0.99, more


def test_gains_are_on_one_scale() -> None:
    X, y = regression_data()
    given = {"num_leaves": 2, "lambda_l2": 0.0, "min_sum_hessian_in_leaf": 1.0, "num_threads": 1, "verbosity": -1}
    given |= {"learning_rate": 1.0, "max_bin": 255}
    first = xgb.train(to_xgboost(given).params, xgb.DMatrix(X, y), 1).trees_to_dataframe()
    for share, leaves in ((0.99, 2), (1.01, 1)):
        given["min_gain_to_split"] = share * float(first["Gain"].iloc[0])
        ours = lgb.train({**given, "min_data_in_leaf": 0}, lgb.Dataset(X, y), 1).predict(X)
        theirs = xgb.train(to_xgboost(given).params, xgb.DMatrix(X, y), 1).predict(xgb.DMatrix(X))
        assert len(np.unique(ours)) == len(np.unique(theirs)) == leaves
