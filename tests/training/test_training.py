"""train and cv beyond the laws: sampling parameters, validation, objectives, folds, bad input."""

from __future__ import annotations

import copy
import logging
import pickle
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from lightgbm.basic import _ConfigAliases
from sklearn.model_selection import GroupKFold
from tools import QUIET, make_table, table_training

import pucboost as puc
from pucboost._engines.lightgbm import sample_rows
from pucboost._engines.names import PARAMETERS as LIGHTGBM_ALIASES

OPTIONAL = [3, 4, 5]
PARAMS: dict[str, Any] = {**QUIET, "objective": "binary", "optional": OPTIONAL}


def test_aliases_are_lightgbms() -> None:
    for name, aliases in LIGHTGBM_ALIASES.items():
        assert list(aliases) == _ConfigAliases.get_sorted(name)


# ---------------------------------------------------------------- row sampling


@pytest.mark.parametrize(
    ("params", "expected", "scale"),
    [
        ({}, {"bagging_fraction": 0.25, "bagging_freq": 1}, 1),
        (
            {"subsample": 0.8},
            {"bagging_fraction": 0.25, "bagging_freq": 1},
            1,
        ),  # LightGBM ignores it without a frequency
        ({"subsample": 0.8, "subsample_freq": 5}, {"bagging_fraction": 0.2, "bagging_freq": 5}, 1),
        (
            {"pos_bagging_fraction": 0.5, "bagging_freq": 1},
            {"pos_bagging_fraction": 0.125, "neg_bagging_fraction": 0.25, "bagging_freq": 1},
            1,
        ),
        (
            {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1},
            {"boosting": "rf", "bagging_fraction": 0.15},
            1,
        ),
        ({"data_sample_strategy": "goss"}, {"data_sample_strategy": "goss"}, 0.25),
        ({"boosting_type": "goss"}, {"boosting_type": "goss"}, 0.25),
    ],
)
def test_row_sampling_comes_on_top_of_the_users(params: Any, expected: Any, scale: float) -> None:
    got, factor = sample_rows(params, 1_000, 4_000)
    assert {k: pytest.approx(v) if isinstance(v, float) else v for k, v in expected.items()}.items() <= got.items()
    assert factor == scale
    assert sample_rows(params, 1_000, 1_000) == (params, 1.0)


def test_half_a_table_is_not_copied() -> None:
    """At one half LightGBM copies each bag; just above it does not."""
    got, _ = sample_rows({}, 1_000, 2_000)
    assert 0.5 < got["bagging_fraction"] < 0.502
    assert int(got["bagging_fraction"] * 2_000) > 1_000


@pytest.mark.parametrize(
    "params",
    [
        {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1},
        {"data_sample_strategy": "goss"},
        {"boosting": "dart"},
        {"pos_bagging_fraction": 0.5, "neg_bagging_fraction": 0.9, "bagging_freq": 2},
        {"extra_trees": True, "feature_fraction": 0.5},
        {"monotone_constraints": [1, 0, 0, 0, 0, 0]},
    ],
)
def test_other_kinds_of_boosting_train(params: dict[str, Any]) -> None:
    X, y = make_table(1_000)
    booster = puc.train({**PARAMS, **params}, lgb.Dataset(X, y), 8)
    assert booster.num_trees() == 8
    assert np.isfinite(booster.predict(X)).all()


def test_total_weight_of_a_tree_is_that_of_plain_training() -> None:
    """So that min_sum_hessian_in_leaf and lambda_l2 keep their meaning. Squared error has hessian 1 a row."""
    X, _ = make_table(4_000)
    y = np.random.default_rng(0).normal(size=4_000)
    for extra in ({"copies": 4}, {"copies": 2}, {"augmentation": "exhaustive"}, {"augmentation": "fixed"}):
        params = {**QUIET, "objective": "l2", "optional": OPTIONAL, "num_leaves": 4, **extra}
        tree = puc.train(params, lgb.Dataset(X, y), 1).dump_model()["tree_info"][0]["tree_structure"]
        assert tree["internal_weight"] in (0, pytest.approx(4_000, rel=0.05))
        total, stack = 0.0, [tree]
        while stack:
            node = stack.pop()
            total += node.get("leaf_weight", 0)
            stack += [node[side] for side in ("left_child", "right_child") if side in node]
        assert total == pytest.approx(4_000, rel=0.05)


# ---------------------------------------------------------------- validation


def test_validation_sets_are_augmented_with_a_seed_of_their_own() -> None:
    X, y = make_table(1_000)
    sizes: dict[str, set[int]] = {}

    def size(preds: Any, data: Any) -> tuple[str, float, bool]:
        sizes.setdefault("n", set()).add(len(preds))
        return "n", float(len(preds)), False

    train, valid = lgb.Dataset(X[:600], y[:600]), lgb.Dataset(X[600:], y[600:])
    record: dict[str, Any] = {}
    params = {**PARAMS, "augmentation": "exhaustive"}
    puc.train(
        params, train, 2, [train, valid, valid], ["train", "a", "b"], size, callbacks=[lgb.record_evaluation(record)]
    )
    expected = {name: len(puc.augment(part, part[:, 0], optional=OPTIONAL, augmentation="exhaustive")[1])
                for name, part in (("train", X[:600]), ("a", X[600:]))}  # fmt: skip
    assert record["train"]["n"] == [expected["train"]] * 2
    assert record["a"]["n"] == record["b"]["n"] == [expected["a"]] * 2
    raw: dict[str, Any] = {}
    puc.train(
        {**params, "valid_augmentation": "none"}, train, 2, [valid], None, size, callbacks=[lgb.record_evaluation(raw)]
    )
    assert raw["valid_0"]["n"] == [400.0] * 2


def test_validation_metric_is_the_weighted_metric_of_the_virtual_rows() -> None:
    X, y = make_table(1_000)
    record: dict[str, Any] = {}
    booster = puc.train(
        {**PARAMS, "copies": 2, "seed": 11},
        lgb.Dataset(X[:600], y[:600]),
        4,
        valid_sets=[lgb.Dataset(X[600:], y[600:], weight=np.arange(1, 401.0))],
        callbacks=[lgb.record_evaluation(record)],
    )
    from pucboost._virtual.plan import child_seed

    X_aug, y_aug, weight, _ = puc.augment(
        X[600:], y[600:], optional=OPTIONAL, copies=2, seed=child_seed(11, 0), sample_weight=np.arange(1, 401.0)
    )
    p = booster.predict(X_aug)
    loss = np.average(-np.log(np.where(y_aug == 1, p, 1 - p)), weights=weight)
    assert record["valid_0"]["binary_logloss"][-1] == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("scheme", ["none", "exhaustive", "fixed"])
def test_validation_without_weights_beside_training_with_weights(scheme: str) -> None:
    """LightGBM gives rows pushed behind a weighted reference weights of 0; they must count."""
    X, y = make_table(1_000)
    record: dict[str, Any] = {}
    booster = puc.train(
        {**PARAMS, "copies": 2, "valid_augmentation": scheme},
        lgb.Dataset(X[:600], y[:600]),
        4,
        valid_sets=[lgb.Dataset(X[600:], y[600:])],
        callbacks=[lgb.record_evaluation(record)],
    )
    from pucboost._virtual.plan import child_seed

    X_aug, y_aug, _, _ = puc.augment(X[600:], y[600:], optional=OPTIONAL, augmentation=scheme, seed=child_seed(0, 0))
    p = booster.predict(X_aug)
    expected = -np.log(np.where(y_aug == 1, p, 1 - p)).mean()
    assert record["valid_0"]["binary_logloss"][-1] == pytest.approx(expected, rel=1e-6)


def test_early_stopping_from_params_and_callback() -> None:
    X, y = make_table(1_000)
    for extra, callbacks in (({"early_stopping_round": 3}, []), ({}, [lgb.early_stopping(3, verbose=False)])):
        booster = puc.train(
            {**PARAMS, **extra},
            lgb.Dataset(X[:600], y[:600]),
            200,
            valid_sets=lgb.Dataset(X[600:], y[600:]),
            callbacks=callbacks,
        )
        assert 0 < booster.best_iteration < 200


def test_validation_set_of_pandas_with_other_category_order() -> None:
    X, y = make_table(800)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(g=pd.Categorical(np.where(y > 0, "yes", "no")))
    reordered = frame.assign(g=frame["g"].cat.set_categories(["yes", "no", "maybe"]))
    records: list[Any] = [{}, {}]
    for valid, record in zip((frame, reordered), records, strict=True):
        train = lgb.Dataset(frame, y)
        puc.train(PARAMS, train, 3, [train.create_valid(valid, y)], callbacks=[lgb.record_evaluation(record)])
    assert records[0] == records[1]


# ---------------------------------------------------------------- callable objectives


def logistic(preds: Any, data: Any) -> tuple[Any, Any]:
    p = 1 / (1 + np.exp(-preds))
    return p - data.get_label(), p * (1 - p)


def weighted_logistic(preds: Any, data: Any) -> tuple[Any, Any]:
    gradient, hessian = logistic(preds, data)
    weight = data.get_weight()
    return (gradient, hessian) if weight is None else (gradient * weight, hessian * weight)


@pytest.mark.parametrize("user_weight", [None, np.linspace(0.5, 2, 900)])
def test_copy_weights_reach_a_callable_objective_once(user_weight: Any) -> None:
    """An objective that applies the user's weights, as LightGBM demands, gives the built-in's trees."""
    X, y = make_table(900)
    built_in = puc.train(
        {**PARAMS, "copies": 2, "boost_from_average": False}, lgb.Dataset(X, y, weight=user_weight), 8
    ).predict(X, raw_score=True)
    own = puc.train(
        {**PARAMS, "copies": 2, "objective": weighted_logistic}, lgb.Dataset(X, y, weight=user_weight), 8
    ).predict(X, raw_score=True)
    # float32 gradients: LightGBM's own differ in the last bits
    np.testing.assert_allclose(own, built_in, atol=1e-4)
    unweighted = puc.train({**QUIET, "objective": "binary", "boost_from_average": False}, lgb.Dataset(X, y), 8)
    assert np.abs(unweighted.predict(X, raw_score=True) - built_in).max() > 0.05


def test_objective_sees_virtual_labels_and_only_the_users_weights() -> None:
    X, y = make_table(300)
    seen = {}

    def spy(preds: Any, data: Any) -> tuple[Any, Any]:
        seen["weight"], seen["field"], seen["n"] = data.get_weight(), data.get_field("weight"), len(data.get_label())
        return logistic(preds, data)

    def spy_metric(preds: Any, data: Any) -> tuple[str, float, bool]:
        seen["metric weight"] = data.get_weight()
        return "spy", 0.0, False

    train = lgb.Dataset(X, y)
    booster = puc.train({**PARAMS, "objective": spy, "copies": 2}, train, 1, valid_sets=[train], feval=spy_metric)
    assert seen["weight"] is None
    assert seen["field"] is None
    assert seen["n"] == booster.puc_summary.virtual_rows > 300
    assert len(seen["metric weight"]) == seen["n"]


@pytest.mark.parametrize("flat", [False, True])
def test_multiclass_callable_objective(flat: bool) -> None:
    X, y = make_table(900)
    y = y + (X[:, 0] > 0.5)

    def softmax(preds: Any, data: Any) -> tuple[Any, Any]:
        p = np.exp(preds - preds.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        gradient = p - np.eye(3)[data.get_label().astype(int)]
        hessian = 1.5 * p * (1 - p)  # LightGBM's factor K / (K − 1)
        return (gradient.ravel(order="F"), hessian.ravel(order="F")) if flat else (gradient, hessian)

    base = {**QUIET, "num_class": 3, "optional": OPTIONAL, "copies": 2}
    built_in = puc.train({**base, "objective": "multiclass", "boost_from_average": False}, lgb.Dataset(X, y), 4)
    own = puc.train({**base, "objective": softmax}, lgb.Dataset(X, y), 4)
    np.testing.assert_allclose(own.predict(X, raw_score=True), built_in.predict(X, raw_score=True), atol=1e-4)


# ---------------------------------------------------------------- cv


def test_folds_split_people_not_copies() -> None:
    """With one label per person, a fold's validation labels never occur in its training labels."""
    X, _ = make_table(300)
    identity = np.arange(300.0)
    seen: list[tuple[set[float], set[float]]] = []

    def spy(preds: Any, data: Any) -> tuple[str, float, bool]:
        seen.append((set(data.reference.get_label().tolist()), set(data.get_label().tolist())))
        return "spy", 0.0, False

    params = {**QUIET, "objective": "l2", "metric": "None", "optional": OPTIONAL, "augmentation": "exhaustive"}
    puc.cv(params, lgb.Dataset(X, identity), 1, nfold=3, stratified=False, feval=spy)
    assert len(seen) == 3
    for train, valid in seen:
        assert not train & valid
        assert train | valid == set(identity.tolist())
    assert set.union(*(valid for _, valid in seen)) == set(identity.tolist())


def test_cv_equals_training_each_fold_by_hand() -> None:
    X, y = make_table(600)
    folds = [(np.arange(0, 400), np.arange(400, 600)), (np.arange(200, 600), np.arange(0, 200))]
    from pucboost._virtual.plan import child_seed

    params = {**PARAMS, "copies": 2, "seed": 5}
    result = puc.cv(params, lgb.Dataset(X, y), 6, folds=folds, return_cvbooster=True)
    for number, ((train, valid), booster) in enumerate(zip(folds, result["cvbooster"].boosters, strict=True)):
        seed = child_seed(5, 2 * number)
        expected = table_training(params, X[train], y[train], 6, seed=seed)
        np.testing.assert_array_equal(booster.predict(X[valid]), expected.predict(X[valid]))
        assert booster.consent.n_groups == 3
        assert booster.puc_summary.source_rows == 400


def test_cv_respects_stratification_groups_and_splitters() -> None:
    X, _ = make_table(400)
    y = (np.arange(400) % 10 == 0).astype(float)
    rates: list[float] = []

    def rate(preds: Any, data: Any) -> tuple[str, float, bool]:
        # weights of the copies of one person sum to the same: back to people by the weighted mean over "none"
        rates.append(float(data.get_label().mean()))
        return "rate", 0.0, False

    params = {**PARAMS, "augmentation": "none", "metric": "None"}
    puc.cv(params, lgb.Dataset(X, y), 1, nfold=4, feval=rate)
    assert rates == pytest.approx([0.1] * 4)
    households = [4] * 100
    seen: list[set[int]] = []

    def members(preds: Any, data: Any) -> tuple[str, float, bool]:
        seen.append({int(v) // 4 for v in data.get_label()})
        return "members", 0.0, False

    data = lgb.Dataset(X, np.arange(400.0), group=households)
    puc.cv({**params, "objective": "l2"}, data, 1, folds=GroupKFold(4), feval=members)
    assert sum(map(len, seen)) == len(set.union(*seen)) == 100


def test_cv_with_fpreproc_callable_objective_and_init_model() -> None:
    X, y = make_table(500)
    first = puc.train(PARAMS, lgb.Dataset(X, y), 2)
    calls = []

    def fpreproc(train: Any, valid: Any, params: Any) -> Any:
        calls.append((type(train), train.get_label().shape, params["min_data_in_leaf"]))
        return train, valid, {**params, "min_data_in_leaf": 50}

    result = puc.cv(
        {**PARAMS, "objective": logistic, "metric": "auc", "min_data_in_leaf": 5},
        lgb.Dataset(X, y, weight=np.linspace(1, 2, 500)),
        5,
        nfold=2,
        fpreproc=fpreproc,
        init_model=first,
        eval_train_metric=True,
        return_cvbooster=True,
    )
    assert calls == [(puc.Dataset, (250,), 5)] * 2
    assert result["valid auc-mean"][-1] > 0.7
    assert len(result["train auc-mean"]) == 5
    for booster in result["cvbooster"].boosters:
        assert booster.params["min_data_in_leaf"] == 50


# ---------------------------------------------------------------- what comes back


def test_consent_and_summary_travel(tmp_path: Path) -> None:
    X, y = make_table(500)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(k=pd.Categorical(["ü", "v"] * 250))
    booster = puc.train({**PARAMS, "optional": {"äpp": ["d", "e"], "blood": ["f"]}}, lgb.Dataset(frame, y), 5)
    assert isinstance(booster, lgb.Booster)
    assert booster.consent.group_names == ("äpp", "blood")
    assert booster.puc_summary.source_rows == 500
    again = pickle.loads(pickle.dumps(booster))
    assert again.consent == booster.consent
    assert again.puc_summary == booster.puc_summary

    path = tmp_path / "model.txt"
    puc.save_model(booster, path)
    loaded = puc.load_model(path)
    assert loaded.consent == booster.consent
    assert loaded.puc_summary == booster.puc_summary
    plain = lgb.Booster(model_file=path)  # plain LightGBM reads the file, categories included
    for other in (loaded, plain, again):
        np.testing.assert_array_equal(other.predict(frame), booster.predict(frame))
        assert other.pandas_categorical == [["v", "ü"]] or other.pandas_categorical == [["ü", "v"]]
    puc.save_model(loaded, path, num_iteration=2)
    assert puc.load_model(path).num_trees() == 2
    assert list(tmp_path.iterdir()) == [path]


def test_saving_without_consent_or_loading_a_plain_file(tmp_path: Path) -> None:
    X, y = make_table(200)
    plain = lgb.train(QUIET, lgb.Dataset(X, y), 2)
    with pytest.raises(ValueError, match="The booster has no consent schema"):
        puc.save_model(plain, tmp_path / "model.txt")
    assert list(tmp_path.iterdir()) == []
    plain.save_model(tmp_path / "plain.txt")
    with pytest.raises(ValueError, match=r"plain.txt' has no consent schema"):
        puc.load_model(tmp_path / "plain.txt")
    with pytest.raises(FileNotFoundError):
        puc.load_model(tmp_path / "nothing.txt")


def test_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: Any) -> None:
    X, y = make_table(200)
    booster = puc.train(PARAMS, lgb.Dataset(X, y), 2)
    path = tmp_path / "model.txt"
    puc.save_model(booster, path)
    before = path.read_text()

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        puc.save_model(booster, path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_plan_is_logged_in_one_line(caplog: Any) -> None:
    X, y = make_table(500)
    with caplog.at_level(logging.INFO, logger="pucboost"):
        puc.train({**PARAMS, "copies": 2}, lgb.Dataset(X, y), 1, valid_sets=[lgb.Dataset(X, y)])
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].startswith("training: augmentation=balanced seed=0: 500 rows -> ")
    for part in ("virtual rows", "rows complete", "effective sample size"):
        assert part in lines[0]


def test_continuing_needs_the_same_consent() -> None:
    X, y = make_table(300)
    first = puc.train(PARAMS, lgb.Dataset(X, y), 2)
    for optional in ([3], []):
        with pytest.raises(ValueError, match="init_model was trained under Consent"):
            puc.train({**PARAMS, "optional": optional}, lgb.Dataset(X, y), 2, init_model=first)
    assert puc.train(PARAMS, lgb.Dataset(X, y), 2, init_model=first).num_trees() == 4


def test_optional_on_dataset_or_in_params() -> None:
    X, y = make_table(300)
    in_params = puc.train(PARAMS, lgb.Dataset(X, y), 3)
    without = {k: v for k, v in PARAMS.items() if k != "optional"}
    on_dataset = puc.train(without, puc.Dataset(X, y, optional=OPTIONAL), 3)
    both = puc.train(PARAMS, puc.Dataset(X, y, optional=OPTIONAL), 3)
    subset = puc.train(without, puc.Dataset(X, y, optional=OPTIONAL).subset(list(range(300))), 3)
    for other in (on_dataset, both, subset):
        assert other.model_to_string() == in_params.model_to_string()
    with pytest.raises(ValueError, match=r"params\['optional'\] and the optional of train_set differ"):
        puc.train(PARAMS, puc.Dataset(X, y, optional=[3]), 3)


@pytest.mark.parametrize(
    "label", [lambda y: pd.DataFrame(y), lambda y: pd.Series(y), lambda y: y.tolist(), lambda y: y[:, None]]
)
def test_labels_in_any_container(label: Any) -> None:
    X, y = make_table(200)
    expected = puc.train(PARAMS, lgb.Dataset(X, y), 3).model_to_string()
    assert puc.train(PARAMS, lgb.Dataset(X, label(y), weight=pd.Series(np.ones(200))), 3).model_to_string() == expected


def test_bins_of_a_reference_are_not_used_for_training() -> None:
    X, y = make_table(200)
    with pytest.warns(UserWarning, match="The reference of train_set is not used"):
        puc.train(PARAMS, lgb.Dataset(X, y, reference=lgb.Dataset(X, y)), 2)


def test_subset_and_raw_data_kept_after_construction() -> None:
    X, y = make_table(400)
    whole = lgb.Dataset(X, y, free_raw_data=False, weight=np.linspace(1, 2, 400)).construct()
    rows = list(range(0, 400, 2))
    from_subset = puc.train(PARAMS, whole.subset(rows), 4)
    by_hand = puc.train(PARAMS, lgb.Dataset(X[rows], y[rows], weight=np.linspace(1, 2, 400)[rows]), 4)
    assert from_subset.model_to_string() == by_hand.model_to_string()


# ---------------------------------------------------------------- bad input


def small() -> tuple[Any, Any]:
    return make_table(60)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"optional": ["glucose"]}, "optional names column 'glucose', which the table does not have"),
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
        ({"engine": "catboost"}, "engine must be one of 'lightgbm', 'xgboost'; got 'catboost'"),
        ({"objective": "lambdarank"}, "Protected User Consent is defined for predictions of a person's outcome"),
        ({"metric": ["auc", "ndcg@3"]}, "metric='ndcg@3' needs queries"),
        ({"linear_tree": True}, "linear_tree with optional features"),
        ({"linear_trees": "true"}, "linear_tree with optional features"),
        ({"use_missing": False}, "use_missing=False makes LightGBM read a withheld value as the number 0"),
        ({"bagging_by_query": True}, "bagging_by_query"),
        ({"objective": "xentlambda"}, "reads weights as exposures"),
        ({"objective": "multiclassova", "num_class": 2, "is_unbalance": True}, "counts virtual rows instead of people"),
        ({"seed": "seven"}, "seed must be a whole number, got 'seven'"),
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
        (X, lgb.Dataset(X[:, :5], y), ValueError, "A validation set has 5 columns, train_set has 6"),
        (X, lgb.Dataset(X, y).construct(), ValueError, "validation set 0 is already constructed"),
        (X, lgb.Dataset(X, with_value(y, 1, np.nan)), ValueError, "label of validation set 0 is nan in row 1"),
        (
            frame,
            lgb.Dataset(frame[list("bacdef")], y),
            ValueError,
            "Column 0 is 'b', the consent schema expects 'a' there",
        ),
        (X, puc.Dataset(X, y, optional=[3]), ValueError, "Validation set 0 declares other groups"),
        (X, "valid.csv", TypeError, "Every item in valid_sets must be a Dataset object. Item 0 has type 'str'"),
    ]
    for data, valid, error, message in cases:
        with pytest.raises(error, match=message):
            puc.train(PARAMS, lgb.Dataset(data, y), 2, valid_sets=[valid])


@pytest.mark.parametrize("function", ["train", "cv"])
def test_not_a_dataset(function: str) -> None:
    X, _ = small()
    with pytest.raises(TypeError, match=rf"{function}\(\) only accepts Dataset object, train_set has type 'ndarray'"):
        getattr(puc, function)(PARAMS, X, 2)


def test_balanced_reduces_copies_to_the_budget_and_says_so() -> None:
    X, y = make_table(1_000)
    with pytest.warns(
        UserWarning, match=r"copies = 4 would make .* max_virtual_rows = 1,500; copies is reduced to 1\.4"
    ):
        booster = puc.train({**PARAMS, "max_virtual_rows": 1_500}, lgb.Dataset(X, y), 2)
    assert 1_300 < booster.puc_summary.virtual_rows <= 1_500


def test_more_virtual_rows_than_lightgbm_can_count() -> None:
    X = np.ones((5_000, 41))
    params = {**QUIET, "optional": list(range(1, 41)), "augmentation": "exhaustive", "max_virtual_rows": 10**18}
    with pytest.raises(
        ValueError, match=r"makes 5,497,558,138,880,000 virtual rows of 5,000 rows, more than .* 2,147,483,647"
    ):
        puc.train(params, lgb.Dataset(X, X[:, 0]), 2)


def test_default_budget_depends_on_memory(monkeypatch: Any) -> None:
    X, y = make_table(1_000)
    monkeypatch.setattr("pucboost._training.augmenting._memory_bytes", lambda: 200_000.0)
    with pytest.warns(UserWarning, match="copies is reduced"):
        puc.train(PARAMS, lgb.Dataset(X, y), 2)


@pytest.mark.parametrize("special", [np.inf, -np.inf, 1e300])
def test_infinite_values_are_treated_as_lightgbm_does(special: float) -> None:
    X, y = make_table(500)
    X[::7, 0], X[::5, 3] = special, special
    params = {**PARAMS, "augmentation": "exhaustive"}
    ours = puc.train(params, lgb.Dataset(X, y), 5)
    assert ours.model_to_string() == table_training(params, X, y, 5).model_to_string()


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
    if kind == "all missing":
        assert booster.puc_summary.virtual_rows == 100


def test_every_column_optional_is_allowed_with_a_warning() -> None:
    X, y = make_table(2_000, n_base=0)
    with pytest.warns(UserWarning, match="Every column is optional"):
        booster = puc.train({**QUIET, "optional": [0, 1, 2]}, lgb.Dataset(X, y), 50)
    silent = booster.predict(np.full((1, 3), np.nan))[0]
    assert silent == pytest.approx(y.mean(), abs=0.05)


# ---------------------------------------------------------------- found by review


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


def test_zero_as_missing_on_the_dataset() -> None:
    X, y = make_table(600)
    X[:200, 3] = 0.0
    in_params = puc.train({**PARAMS, "zero_as_missing": True}, lgb.Dataset(X, y), 4)
    on_dataset = puc.train(PARAMS, lgb.Dataset(X, y, params={"zero_as_missing": True}), 4)
    assert on_dataset.puc_summary == in_params.puc_summary
    np.testing.assert_array_equal(on_dataset.predict(X), in_params.predict(X))


@pytest.mark.parametrize("rare", [1.0, 0.0])
def test_is_unbalance_counts_people(rare: float) -> None:
    """LightGBM would count virtual rows, of which those who share more have more."""
    rng = np.random.default_rng(0)
    n = 4_000
    y = np.where(rng.random(n) < 0.2, rare, 1 - rare)
    X = rng.normal(size=(n, 4))
    X[:, 1:][rng.random((n, 3)) < np.where(y == 1, 0.8, 0.2)[:, None]] = np.nan
    base = {
        **QUIET,
        "objective": "binary",
        "optional": [1, 2, 3],
        "augmentation": "exhaustive",
        "boost_from_average": False,
    }
    ratio = (y != rare).sum() / (y == rare).sum()
    ours = puc.train({**base, "is_unbalance": True}, lgb.Dataset(X, y), 20)
    by_hand = puc.train(base, lgb.Dataset(X, y, weight=np.where(y == rare, ratio, 1.0)), 20)
    # The same weights up to rounding, which may decide between two equal splits.
    assert np.abs(ours.predict(X) - by_hand.predict(X)).mean() < 1e-3
    assert np.abs(ours.predict(X) - puc.train(base, lgb.Dataset(X, y), 20).predict(X)).mean() > 0.03
    result = puc.cv({**base, "is_unbalance": True}, lgb.Dataset(X, y), 3, nfold=2)
    assert len(result["valid binary_logloss-mean"]) == 3


def test_constructed_subset_keeps_consent_and_weights() -> None:
    X, y = make_table(400)
    weight, rows = np.linspace(1, 3, 400), list(range(0, 400, 2))
    without = {k: v for k, v in PARAMS.items() if k != "optional"}
    expected = puc.train(PARAMS, lgb.Dataset(X[rows], y[rows], weight=weight[rows]), 4).model_to_string()
    whole = puc.Dataset(X, y, optional=OPTIONAL, weight=weight, free_raw_data=False)
    subset = whole.subset(rows).construct()
    assert puc.train(without, subset, 4).model_to_string() == expected
    other = subset.set_weight(weight[rows][::-1].copy())
    assert puc.train(without, other, 4).model_to_string() != expected


def test_weight_set_after_construction() -> None:
    X, y = make_table(400)
    weight = np.linspace(1, 3, 400)
    data = lgb.Dataset(X, y, free_raw_data=False).construct()
    data.set_field("weight", weight)
    expected = puc.train(PARAMS, lgb.Dataset(X, y, weight=weight.astype(np.float32)), 4).model_to_string()
    assert puc.train(PARAMS, data, 4).model_to_string() == expected


def test_objective_that_reads_the_weight_field() -> None:
    X, y = make_table(900)

    def by_field(preds: Any, data: Any) -> tuple[Any, Any]:
        gradient, hessian = logistic(preds, data)
        weight = data.get_field("weight")
        return gradient * weight, hessian * weight

    models = [
        puc.train({**PARAMS, "copies": 2, "objective": f}, lgb.Dataset(X, y, weight=np.linspace(0.5, 2, 900)), 6)
        for f in (by_field, weighted_logistic)
    ]
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))


def test_fpreproc_keeps_categories_and_available() -> None:
    import scipy.sparse

    X, y = make_table(600)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(k=pd.Categorical(np.where(y > 0, "u", "v")))
    same = lambda train, valid, params: (train, valid, params)  # noqa: E731
    result = puc.cv(PARAMS, lgb.Dataset(frame, y), 3, nfold=2, fpreproc=same, return_cvbooster=True)
    plain = puc.cv(PARAMS, lgb.Dataset(frame, y), 3, nfold=2, return_cvbooster=True)
    swapped = frame.assign(k=frame["k"].cat.set_categories(["v", "u"]))
    for booster, other in zip(result["cvbooster"].boosters, plain["cvbooster"].boosters, strict=True):
        assert booster.pandas_categorical == [["u", "v"]]
        np.testing.assert_array_equal(booster.predict(swapped), other.predict(frame))
    sparse = puc.Dataset(scipy.sparse.csr_matrix(np.nan_to_num(X)), y, optional=OPTIONAL, available=~np.isnan(X[:, 3:]))
    sizes = [
        [
            b.puc_summary.virtual_rows
            for b in puc.cv(PARAMS, sparse, 1, nfold=2, fpreproc=f, return_cvbooster=True)["cvbooster"].boosters
        ]
        for f in (None, same)
    ]
    assert sizes[0] == sizes[1]
    assert puc.train(PARAMS, sparse.subset(list(range(300))), 1).puc_summary.source_rows == 300


def test_own_feature_names_and_validation_sets() -> None:
    X, y = make_table(300)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    train = lgb.Dataset(frame, y, feature_name=[f"f{j}" for j in range(6)])
    booster = puc.train({**PARAMS, "optional": ["f3"]}, train, 2, valid_sets=(train.create_valid(frame, y),))
    assert booster.feature_name()[0] == "f0"


def test_place_in_the_list_does_not_change_a_validation_set() -> None:
    X, y = make_table(600)
    train, valid = lgb.Dataset(X[:400], y[:400]), lgb.Dataset(X[400:], y[400:])
    records: list[Any] = [{}, {}, {}]
    for sets, record in zip(([valid], [train, valid], [valid, valid]), records, strict=True):
        puc.train({**PARAMS, "copies": 2}, train, 3, list(sets), callbacks=[lgb.record_evaluation(record)])
    assert records[0]["valid_0"] == records[1]["valid_1"] == records[2]["valid_0"] == records[2]["valid_1"]


def test_init_model_file_is_checked(tmp_path: Path) -> None:
    X, y = make_table(300)
    path = tmp_path / "model.txt"
    puc.save_model(puc.train(PARAMS, lgb.Dataset(X, y), 2), path)
    with pytest.raises(ValueError, match="init_model was trained under Consent"):
        puc.train({**PARAMS, "optional": []}, lgb.Dataset(X, y), 2, init_model=path)
    assert puc.train(PARAMS, lgb.Dataset(X, y), 2, init_model=str(path)).num_trees() == 4


def test_budget_of_training_does_not_refuse_a_validation_set() -> None:
    X, y = make_table(1_000)
    params = {**PARAMS, "augmentation": "fixed", "max_virtual_rows": 300}
    puc.train(params, lgb.Dataset(X[:300], y[:300]), 2, valid_sets=[lgb.Dataset(X[300:], y[300:])])


def test_same_groups_in_another_order() -> None:
    X, y = make_table(400)
    shared = ~np.isnan(X[:, 3:])
    one, two = {"a": [3], "b": [4], "c": [5]}, {"c": [5], "a": [3], "b": [4]}
    params = {k: v for k, v in PARAMS.items() if k != "optional"}
    valid = puc.Dataset(X, y, optional=two, available=shared[:, [2, 0, 1]])
    puc.train({**params, "optional": two}, puc.Dataset(X, y, optional=one, available=shared), 2, valid_sets=[valid])
