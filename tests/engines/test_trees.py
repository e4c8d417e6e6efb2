"""Trees read from boosters predict what their engines predict, bit for bit."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from forest_tools import ODD
from hypothesis import given, settings
from hypothesis import strategies as st

from pucboost._engines import boosters_of
from pucboost._engines.lightgbm_boosters import forest_of_text
from pucboost._engines.xgboost_boosters import forest_of_model, read_ubjson
from pucboost._prediction.leaf_sets import LeafSets

N = 600
GROUPS = np.array([-1, -1, 0, 1, 1, 2])
MASKS = np.array([0, 7, 1, 2, 4, 5], dtype=np.uint64)
CATEGORY = 5


def table(seed: int = 0, n: int = N) -> Any:
    """Two base columns, one of them with many zeros; four optional ones, the last of 40 categories."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    X[rng.random(n) < 0.4, 1] = 0.0
    X[:, CATEGORY] = rng.integers(0, 40, n)
    X[:, 2:][rng.random((n, 4)) < 0.3] = np.nan
    return X


X = table()
SIGNAL = X[:, 0] + np.nan_to_num(X[:, 2] * X[:, 3]) + 2 * np.nan_to_num(np.sin(X[:, CATEGORY])) + (X[:, 1] == 0)
Y = SIGNAL + np.random.default_rng(1).normal(size=N)


def people(refuses_infinite: bool) -> Any:
    """People with odd values: rows of another table, thresholds as values, and whatever an engine takes."""
    rng = np.random.default_rng(2)
    odd = [x for x in ODD if not refuses_infinite or not abs(x) > 3e38]
    strange = rng.choice(odd, (300, 6))
    strange[:, CATEGORY] = rng.choice([*odd, 39.0, 40.0, 41.0, 64.0, 1e5], 300)
    return np.concatenate([table(3, 200), np.where(rng.random((300, 6)) < 0.5, strange, table(4, 300))])


def erased(rows: Any, mask: int) -> Any:
    out = rows.copy()
    out[:, [j for j, g in enumerate(GROUPS) if g >= 0 and not mask >> int(g) & 1]] = np.nan
    return out


def assert_same_bits(booster: Any, rows: Any = None, response: bool = True, masks: Any = MASKS) -> None:
    """Compare raw scores and predictions with the engine's own, under several masks."""
    boosters = boosters_of(booster)
    forest = boosters.trees(booster)
    assert forest is not None
    rows = people(np.isfinite(forest.largest)) if rows is None else rows
    for dtype in (np.float64, np.float32):
        with np.errstate(over="ignore", under="ignore"):
            given_rows = rows.astype(dtype)
        raw = LeafSets(forest, GROUPS, 1).raw(given_rows, masks)
        for k, mask in enumerate(masks):
            matrix = erased(given_rows, int(mask))
            wanted = boosters.predict(booster, matrix, raw_score=True)
            assert raw.dtype == wanted.dtype
            np.testing.assert_array_equal(raw[:, k].reshape(wanted.shape), wanted)
            if response:
                assert forest.response is not None
                wanted = boosters.predict(booster, matrix, raw_score=False)
                found = forest.response(np.ascontiguousarray(raw[:, k]))
                assert found.dtype == wanted.dtype
                np.testing.assert_array_equal(found, wanted)
            else:
                assert forest.response is None


# ----- LightGBM

QUIET = {
    "min_data_per_group": 5,
    "cat_smooth": 1,
    "cat_l2": 1,
    "verbosity": -1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "min_data_in_leaf": 5,
}


def fit_lgb(params: dict[str, Any], y: Any = Y, rounds: int = 12, X: Any = X, **given: Any) -> Any:
    categories = params.get("categorical_feature", [])
    dataset = lgb.Dataset(X, y, categorical_feature=categories, free_raw_data=False, params={"verbosity": -1})
    return lgb.train({**QUIET, **{k: v for k, v in params.items() if v != categories}}, dataset, rounds, **given)


CLASSES = np.digitize(Y, [-0.5, 0.5])
BINARY = (Y > 0).astype(float)
LGB: dict[str, tuple[dict[str, Any], Any]] = {
    "numbers": ({"objective": "binary"}, BINARY),
    "categories": ({"objective": "l2", "categorical_feature": [CATEGORY]}, Y),
    "one category against the others": (
        {"categorical_feature": [CATEGORY], "max_cat_to_onehot": 64, "min_data_per_group": 1},
        Y,
    ),
    "zeros are missing": ({"zero_as_missing": True, "categorical_feature": [CATEGORY]}, Y),
    "nothing is missing": ({"use_missing": False}, Y),
    "several classes": ({"objective": "multiclass", "num_class": 3}, CLASSES),
    "one against all": ({"objective": "multiclassova", "num_class": 3, "sigmoid": 0.7}, CLASSES),
    "dart": ({"boosting": "dart", "drop_rate": 0.5, "categorical_feature": [CATEGORY]}, Y),
    "forest": ({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "objective": "binary"}, BINARY),
    "forest of classes": (
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "objective": "multiclass", "num_class": 3},
        CLASSES,
    ),
    "many leaves": ({"num_leaves": 255, "min_data_in_leaf": 1, "categorical_feature": [CATEGORY]}, Y),
    "64 leaves": ({"num_leaves": 64, "min_data_in_leaf": 1}, Y),
    "65 leaves": ({"num_leaves": 65, "min_data_in_leaf": 1}, Y),
    "deep": (
        {"num_leaves": 90, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0, "max_bin": 500},
        np.exp(5 * X[:, 0]),
    ),
    "stumps": ({"num_leaves": 2}, Y),
    "no splits": ({"min_data_in_leaf": 10**6}, Y),
    "goss": ({"data_sample_strategy": "goss", "objective": "poisson"}, np.exp(Y)),
    "gamma": ({"objective": "gamma"}, np.exp(Y)),
    "tweedie": ({"objective": "tweedie"}, np.exp(Y)),
    "quantile": ({"objective": "quantile", "alpha": 0.3}, Y),
    "l1": ({"objective": "l1"}, Y),
    "root": ({"objective": "l2", "reg_sqrt": True}, Y),
    "cross entropy": ({"objective": "cross_entropy"}, BINARY),
    "intensities": ({"objective": "cross_entropy_lambda"}, BINARY),
    "slope": ({"objective": "binary", "sigmoid": 2.25}, BINARY),
    "extremely random": ({"extra_trees": True, "path_smooth": 1.0, "monotone_constraints": [1, 0, 0, 0, 0, 0]}, Y),
}


def test_lightgbm() -> None:
    for kind, (params, y) in LGB.items():
        print(kind)  # shown if it fails
        booster = fit_lgb(params, y)
        assert (re.search("num_cat=[1-9]", booster.model_to_string()) is not None) == ("categorical_feature" in params)
        assert_same_bits(booster)
        assert_same_bits(lgb.Booster(model_str=booster.model_to_string()), masks=MASKS[1:3])


def test_lightgbm_with_its_own_thresholds_as_values() -> None:
    booster = fit_lgb({"objective": "l2"})
    forest = forest_of_text(booster.model_to_string())
    assert forest is not None
    rows = np.full((3 * len(forest.threshold), 6), np.nan)
    at = np.arange(len(forest.threshold))
    for side, values in enumerate(
        (forest.threshold, np.nextafter(forest.threshold, np.inf), np.nextafter(forest.threshold, -np.inf))
    ):
        rows[side * len(at) + at, forest.column] = values
    assert_same_bits(booster, rows)


def test_lightgbm_stops_at_the_best_round_and_goes_on_from_other_models() -> None:
    other, y = table(7), Y[::-1].copy()
    stopped = fit_lgb(
        {"early_stopping_round": 2, "learning_rate": 0.9, "metric": "l2"},
        rounds=60,
        valid_sets=[lgb.Dataset(other, y, params={"verbosity": -1})],
        keep_training_booster=True,
    )
    assert 0 < stopped.best_iteration < stopped.current_iteration()
    assert_same_bits(stopped)
    # The same columns are read in two ways: NaN is a number to the first trees, and missing to the others.
    first = fit_lgb({"use_missing": False, "objective": "binary"}, BINARY)
    both = fit_lgb({"objective": "binary"}, BINARY, init_model=first)
    forest = forest_of_text(both.model_to_string())
    assert forest is not None
    assert len(np.unique(forest.reading[forest.left >= 0])) > 1
    assert_same_bits(both)


def test_lightgbm_ignores_default_directions_of_categories() -> None:
    lines = fit_lgb({"categorical_feature": [CATEGORY]}).model_to_string().splitlines()
    lines = [line for line in lines if not line.startswith("tree_sizes=")]  # numbers become longer
    turned = 0
    for i, line in enumerate(lines):
        if line.startswith("decision_type="):
            kinds = [int(word) for word in line.removeprefix("decision_type=").split()]
            turned += sum(kind & 1 for kind in kinds)
            lines[i] = "decision_type=" + " ".join(str(kind | 2 if kind & 1 else kind) for kind in kinds)
    assert turned
    assert_same_bits(lgb.Booster(model_str="\n".join(lines)))


def test_lightgbm_with_changed_leaves_or_a_callable_objective() -> None:
    booster = fit_lgb({"objective": "l2"})
    booster.set_leaf_output(3, 2, 17.5)
    assert_same_bits(booster)
    assert_same_bits(booster.refit(X, -Y))
    assert_same_bits(fit_lgb({"objective": lambda preds, data: (preds - data.get_label(), np.ones(N))}))


def test_what_is_not_read_of_lightgbm() -> None:
    boosters = boosters_of(fit_lgb({}, rounds=1))
    linear = fit_lgb({"linear_tree": True})
    assert boosters.trees(linear) is None
    assert boosters.trees(lgb.Booster({"verbosity": -1}, lgb.Dataset(X, Y, params={"verbosity": -1}))) is None
    # LightGBM writes six digits of the slope; the booster in memory has all of them.
    assert_same_bits(fit_lgb({"objective": "binary", "sigmoid": 1.2345678}, BINARY), response=False)
    assert_same_bits(fit_lgb({"objective": "binary", "sigmoid": 0.012345}, BINARY))


numbers = st.one_of(st.floats(), st.floats(-3, 3), st.sampled_from(ODD))


@cache
def any_lightgbm(kind: str) -> Any:
    if kind == "numbers":
        return fit_lgb({"objective": "l2"}, rounds=5)
    return fit_lgb({"categorical_feature": [CATEGORY, 3], "zero_as_missing": True}, np.abs(Y), X=np.abs(X), rounds=5)


@pytest.mark.parametrize("kind", ["numbers", "categories"])
@given(rows=st.lists(st.tuples(*[numbers] * 6), min_size=1, max_size=5))
@settings(max_examples=50)
def test_lightgbm_with_any_number(kind: str, rows: list[Any]) -> None:
    assert_same_bits(any_lightgbm(kind), np.array(rows))


# ----- XGBoost


def fit_xgb(
    params: dict[str, Any], y: Any = Y, rounds: int = 12, categories: bool = False, X: Any = X, **given: Any
) -> Any:
    kinds = ["c" if categories and j == CATEGORY else "q" for j in range(6)]
    matrix = xgb.DMatrix(X, y, feature_types=kinds, enable_categorical=True)
    return xgb.train({"verbosity": 0, "nthread": 1, **params}, matrix, rounds, **given)


XGB: dict[str, tuple[dict[str, Any], Any, bool]] = {
    "numbers": ({"objective": "binary:logistic"}, BINARY, False),
    "categories": ({}, Y, True),
    "one category against the others": ({"max_cat_to_onehot": 100}, Y, True),
    "several classes": ({"objective": "multi:softprob", "num_class": 3}, CLASSES, True),
    "dart": ({"booster": "dart", "rate_drop": 0.5, "seed": 1, "one_drop": 1}, Y, True),
    "dart of classes": (
        {"booster": "dart", "rate_drop": 0.5, "objective": "multi:softprob", "num_class": 3},
        CLASSES,
        False,
    ),
    "parallel trees": ({"num_parallel_tree": 3, "subsample": 0.5}, Y, False),
    "many leaves": ({"max_depth": 12, "min_child_weight": 0}, Y, True),
    "by loss": ({"grow_policy": "lossguide", "max_leaves": 70, "max_depth": 0, "tree_method": "hist"}, Y, True),
    "stumps": ({"max_depth": 1}, Y, False),
    "no splits": ({"gamma": 1e9}, Y, False),
    "pruned": ({"gamma": 2.0, "tree_method": "exact"}, Y, False),
    "poisson": ({"objective": "count:poisson"}, np.exp(Y), False),
    "gamma": ({"objective": "reg:gamma"}, np.exp(Y), False),
    "tweedie": ({"objective": "reg:tweedie"}, np.exp(Y), False),
    "base score": ({"objective": "binary:logistic", "base_score": 0.123}, BINARY, False),
    "margins": ({"objective": "binary:logitraw"}, BINARY, False),
    "quantiles": ({"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.5, 0.9]}, Y, False),
    "l1": ({"objective": "reg:absoluteerror"}, Y, False),
    "huber": ({"objective": "reg:pseudohubererror"}, Y, False),
    "monotone": ({"monotone_constraints": "(1,0,0,0,0,0)", "colsample_bynode": 0.5}, Y, False),
}


def test_xgboost() -> None:
    for kind, (params, y, categories) in XGB.items():
        print(kind)  # shown if it fails
        booster = fit_xgb(params, y, categories=categories)
        assert ('"split_type":[1' in booster.save_raw("json").decode()) == categories
        assert_same_bits(booster)
        assert_same_bits(xgb.Booster(model_file=booster.save_raw("ubj")), masks=MASKS[1:3])
        assert_same_content(read_ubjson(bytes(booster.save_raw("ubj"))), json.loads(booster.save_raw("json")))


def assert_same_content(binary: Any, text: Any) -> None:
    """Compare UBJSON with JSON."""
    if isinstance(binary, dict):
        assert binary.keys() == text.keys()
        for name, value in binary.items():
            assert_same_content(value, text[name])
    elif isinstance(binary, list):
        assert len(binary) == len(text)
        for one, other in zip(binary, text, strict=True):
            assert_same_content(one, other)
    elif isinstance(binary, np.ndarray):
        np.testing.assert_array_equal(binary, np.array(text, dtype=binary.dtype))
    else:
        assert binary == (np.float32(text) if isinstance(binary, float) else text)


def test_all_of_ubjson_and_what_is_not() -> None:
    for content in (b"", b"{", b"{L", b"[$U", b"[$U#U\x05abc", b"[$UU", b"?", b"SU\x02\xff\xff", b"[i\x01"):
        with pytest.raises(ValueError, match="The model is damaged: it is not UBJSON"):
            read_ubjson(content)
    written = b"{U\x01a[TFZi\xffI\x01\x00l\x00\x01\x00\x00D@\x04\x00\x00\x00\x00\x00\x00]i\x01b[#i\x02Si\x01xSi\x00}"
    assert read_ubjson(written) == {"a": [True, False, None, -1, 256, 65536, 2.5], "b": ["x", ""]}


def test_xgboost_with_its_own_thresholds_as_values() -> None:
    booster = fit_xgb({})
    forest = boosters_of(booster).trees(booster)
    assert forest is not None
    rows = np.full((2 * len(forest.threshold), 6), np.nan)
    at, inner = np.arange(len(forest.threshold)), forest.left >= 0
    for side, values in enumerate((forest.threshold, np.nextafter(forest.threshold, np.float32(np.inf)))):
        rows[side * len(at) + at[inner], forest.column[inner]] = values[inner]
    assert_same_bits(booster, rows)


def test_xgboost_stops_at_the_best_round_and_goes_on_from_other_models() -> None:
    stopped = fit_xgb(
        {"eta": 0.9},
        rounds=60,
        early_stopping_rounds=3,
        evals=[(xgb.DMatrix(table(7), Y[::-1]), "valid")],
        verbose_eval=False,
    )
    assert stopped.best_iteration + 1 < stopped.num_boosted_rounds()
    assert_same_bits(stopped)
    boosters = boosters_of(stopped)
    every, best = boosters.trees(stopped, best_rounds=False), boosters.trees(stopped)
    assert every is not None
    assert best is not None
    assert len(every.output) == stopped.num_boosted_rounds() > len(best.output) == stopped.best_iteration + 1
    assert_same_bits(fit_xgb({"max_depth": 3}, rounds=4, xgb_model=fit_xgb({}, rounds=3)))
    assert_same_bits(stopped[1:3])


def test_what_is_not_read_of_xgboost() -> None:
    boosters = boosters_of(fit_xgb({}, rounds=1))
    assert boosters.trees(fit_xgb({"booster": "gblinear"}, X=np.nan_to_num(X))) is None
    vector = fit_xgb({"multi_strategy": "multi_output_tree", "tree_method": "hist"}, np.column_stack([Y, -Y]))
    assert boosters.trees(vector) is None
    assert_same_bits(fit_xgb({"objective": "multi:softmax", "num_class": 3}, CLASSES), response=False)
    assert_same_bits(fit_xgb({"objective": "binary:hinge"}, BINARY), response=False)


@cache
def any_xgboost() -> Any:
    return fit_xgb({}, rounds=5, categories=True)


@given(rows=st.lists(st.tuples(*[numbers.filter(lambda x: not abs(x) > 3e38)] * 6), min_size=1, max_size=5))
@settings(max_examples=50)
def test_xgboost_with_any_number(rows: list[Any]) -> None:
    assert_same_bits(any_xgboost(), np.array(rows))


# ----- damaged models


@cache
def small_text() -> str:
    return str(fit_lgb({"categorical_feature": [CATEGORY]}, rounds=3).model_to_string())


def damaged_text(pattern: str, change: Any) -> str:
    """Change the numbers behind a key of tree 1."""
    lines = small_text().splitlines()
    start = lines.index("Tree=1")
    place = next(i for i in range(start, len(lines)) if lines[i].startswith(f"{pattern}="))
    key, _, words = lines[place].partition("=")
    lines[place] = f"{key}={' '.join(change(words.split()))}"
    return "\n".join(lines)


DAMAGED_TEXTS: list[tuple[str, Any, str]] = [
    ("left_child", lambda words: ["999", *words[1:]], "node 0 of tree 1 has a child that does not exist"),
    ("right_child", lambda words: ["-999", *words[1:]], "node 0 of tree 1 has a child that does not exist"),
    ("left_child", lambda words: ["0", *words[1:]], "tree 1 is not a tree: a node has two parents"),
    ("right_child", lambda words: ["-1", *words[1:]], "tree 1 is not a tree: a node has two parents"),
    ("split_feature", lambda words: ["6", *words[1:]], "node 0 of tree 1 tests no column"),
    ("split_feature", lambda words: ["-1", *words[1:]], "node 0 of tree 1 tests no column"),
    ("threshold", lambda words: ["nan"] * len(words), "categories that do not exist|has no threshold"),
    ("threshold", lambda words: ["99"] * len(words), "tests categories that do not exist"),
    ("cat_boundaries", lambda words: [*words[:-1], "999"], "tests categories that do not exist"),
    ("leaf_value", lambda words: words[1:], "more or fewer numbers than nodes"),
    ("decision_type", lambda words: words[1:], "more or fewer numbers than nodes"),
    ("num_leaves", lambda words: ["0"], "more or fewer numbers than nodes"),
]


def test_damaged_lightgbm_models_are_refused() -> None:
    for key, change, message in DAMAGED_TEXTS:
        with pytest.raises(ValueError, match=f"The model is damaged: .*({message})"):
            forest_of_text(damaged_text(key, change))
    text = fit_lgb({}, rounds=2).model_to_string()
    first = text.index("threshold=") + len("threshold=")
    with pytest.raises(ValueError, match="The model is damaged: node 0 of tree 0 has no threshold"):
        forest_of_text(text[:first] + "nan" + text[text.index(" ", first) :])


def test_damaged_xgboost_models_are_refused() -> None:
    for key, value, message in [
        ("left_children", 999, "node 0 of tree 1 has a child that does not exist"),
        ("right_children", -1, "node 0 of tree 1 has a child that does not exist"),
        ("left_children", 0, "tree 1 is not a tree"),
        ("split_indices", 6, "node 0 of tree 1 tests no column"),
        ("categories_nodes", 10**6, "tests categories that do not exist"),
        ("categories_sizes", 10**6, "tests categories that do not exist"),
        ("categories", -3, "tests categories that do not exist"),
    ]:
        model = json.loads(any_xgboost().save_raw("json"))
        tree = model["learner"]["gradient_booster"]["model"]["trees"][1]
        assert tree[key], "the tree tests no categories"
        tree[key][0] = value
        with pytest.raises(ValueError, match=f"The model is damaged: .*{message}"):
            forest_of_model(model, 5)
    for change, message in (
        (lambda model: model["tree_info"].__setitem__(1, 1), "tree 1 adds to an output that does not exist"),
        (
            lambda model: model["trees"][1].update(
                left_children=[], categories_nodes=[], categories_segments=[], categories_sizes=[]
            ),
            "a tree without nodes",
        ),
        (lambda model: model["trees"][1].update(split_indices=[0]), "nodes, but .* of 'column'"),
    ):
        whole = json.loads(any_xgboost().save_raw("json"))
        change(whole["learner"]["gradient_booster"]["model"])  # type: ignore[no-untyped-call]
        with pytest.raises(ValueError, match=f"The model is damaged: .*{message}"):
            forest_of_model(whole, 5)
