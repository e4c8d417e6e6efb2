"""The laws as a contract that every engine keeps. (LightGBM's own files test more of it, this one tests both alike.)"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from tools import PEAK_MEMORY, make_table, skip_without_peak_memory

import pucboost as puc
from pucboost._virtual import rows as stream
from pucboost._virtual.plan import child_seed
from pucboost.simulate import BinaryFamily, DiscreteFamily, LogisticFamily, squared_puc_gap

OPTIONAL = [3, 4, 5]
COMMON: dict[str, dict[str, Any]] = {
    "lightgbm": {
        "verbosity": -1,
        "num_threads": 2,
        "deterministic": True,
        "force_row_wise": True,
        "objective": "binary",
    },
    "xgboost": {"engine": "xgboost", "objective": "binary:logistic", "nthread": 2, "verbosity": 0, "eta": 0.1},
}
ENGINES = list(COMMON)
FAMILIES = {
    "binary": BinaryFamily.paper(),
    "logistic": LogisticFamily.paper(),
    "discrete": DiscreteFamily.random(2, 3, seed=0),
}


def predict(booster: Any, X: Any) -> Any:
    return (
        booster.predict(X)
        if isinstance(booster, lgb.Booster)
        else booster.predict(xgb.DMatrix(X, enable_categorical=True))
    )


def trees(booster: Any) -> Any:
    """The model without its parameters and attributes."""
    if isinstance(booster, lgb.Booster):
        text: str = booster.model_to_string()
        return text[: text.index("\nparameters:")]
    model = json.loads(booster.save_raw("json"))["learner"]
    return model["gradient_booster"], model["learner_model_param"], model["feature_names"]


def fit(engine: str, X: Any, y: Any, rounds: int = 10, dataset: Any = None, **params: Any) -> Any:
    return puc.train({**COMMON[engine], "optional": OPTIONAL, **params}, puc.Dataset(X, y, **(dataset or {})), rounds)


def fit_table(
    engine: str, X: Any, y: Any, rounds: int, mask_seed: int | None = None, sample_weight: Any = None, **params: Any
) -> Any:
    """The oracle: materialise the virtual table and give it to the plain engine, sampling N rows a tree by hand."""
    own = {k: params.pop(k) for k in ("optional", "augmentation", "copies") if k in params}
    seed = params.get("seed", 0) if mask_seed is None else mask_seed
    X_aug, y_aug, w, _ = puc.augment(X, y, seed=seed, sample_weight=sample_weight, **{"optional": OPTIONAL, **own})
    share = min(1.0, len(y) / len(y_aug))
    given = {k: v for k, v in {**COMMON[engine], **params}.items() if k != "engine"}
    if engine == "lightgbm":
        if share < 1:
            given |= {"bagging_freq": 1, "bagging_fraction": 0.5 + 2 / len(w) if 0.49 <= share <= 0.5 else share}
        return lgb.train(given, lgb.Dataset(X_aug, y_aug, weight=w), rounds)
    matrix = xgb.QuantileDMatrix(X_aug, y_aug, weight=w, max_bin=given.get("max_bin", 256), enable_categorical=True)
    if share < 1:
        given["subsample"] = given.get("subsample", 1.0) * share
    return xgb.train(given, matrix, rounds)


# ---------------------------------------------------------------- law 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FAMILIES)
def test_truth(engine: str, name: str) -> None:
    family = FAMILIES[name]
    test = family.sample(20_000, seed=999)

    def gap(n: int, augmentation: str) -> float:
        train = family.sample(n, seed=1)
        booster = fit(engine, train.X, train.y, 60, optional=family.optional, augmentation=augmentation, seed=1)
        return squared_puc_gap(predict(booster, test.X), family, test.X)

    gaps = [gap(n, "balanced") for n in (1_000, 6_000, 40_000)]
    assert gaps[0] > 1.5 * gaps[1] > 2.25 * gaps[2], gaps
    assert gap(20_000, "balanced") < gap(20_000, "none") / 4


# ---------------------------------------------------------------- law 2


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_optional_is_the_engine_itself(engine: str) -> None:
    X, y = make_table(500)
    X32 = X.astype(np.float32)
    ours = fit(engine, X32, y, 12, optional=None, seed=3)
    assert not hasattr(ours, "consent")
    given = {k: v for k, v in COMMON[engine].items() if k != "engine"} | {"seed": 3}
    if engine == "lightgbm":
        plain = lgb.train(given, lgb.Dataset(X32, y), 12)
    else:
        plain = xgb.train(given, xgb.QuantileDMatrix(X32, y), 12)
    assert trees(ours) == trees(plain)


# ---------------------------------------------------------------- law 3


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("augmentation", "copies"),
    [("balanced", 2), ("balanced", 3.5), ("exhaustive", None), ("fixed", None), ("none", None)],
)
@pytest.mark.parametrize("batch_bytes", [2_000, stream.BATCH_BYTES])
def test_stream_is_table(engine: str, augmentation: str, copies: Any, batch_bytes: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(stream, "BATCH_BYTES", batch_bytes)
    X, y = make_table(900)
    weight = np.random.default_rng(0).uniform(0.5, 2, 900)
    params = {"augmentation": augmentation, "copies": copies, "seed": 7, "max_bin": 63}
    ours = fit(engine, X, y, 12, {"weight": weight}, **params)
    assert trees(ours) == trees(fit_table(engine, X, y, 12, sample_weight=weight, **params))


@pytest.mark.parametrize("engine", ENGINES)
def test_stream_is_table_when_quantiles_are_approximate(engine: str) -> None:
    """More rows than the engines keep for their bins."""
    X, y = make_table(120_000, n_base=1, n_optional=2)
    params = {"optional": [1, 2], "augmentation": "exhaustive"}
    assert trees(fit(engine, X, y, 3, **params)) == trees(fit_table(engine, X, y, 3, **params))


@pytest.mark.parametrize("engine", ENGINES)
def test_categories_and_names(engine: str) -> None:
    rng = np.random.default_rng(0)
    X, y = make_table(900)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["colour"] = pd.Categorical(rng.choice(["red", "green", "blue"], 900))
    frame["grade"] = pd.Categorical(rng.choice(["x", "y", None], 900))
    y = ((frame["colour"] == "red").to_numpy() & (y > 0)).astype(float)
    params = {"optional": ["d", "grade", "f"], "augmentation": "exhaustive"}
    ours = fit(engine, frame, y, 8, **params)
    table = fit_table(engine, frame, y, 8, **params)
    if engine == "lightgbm":
        assert trees(ours) == trees(table)
    else:
        assert ours.feature_names == [*"abcdef", "colour", "grade"]
        assert ours.feature_types[-2:] == ["c", "c"]
    np.testing.assert_allclose(predict(ours, frame), predict(table, frame), rtol=1e-6)
    # Both engines map the categories of a new table by name.
    shuffled = frame.assign(colour=frame["colour"].cat.set_categories(["red", "blue", "green"]))
    np.testing.assert_array_equal(predict(ours, shuffled), predict(ours, frame))
    valid_losses = []
    for valid in (frame, shuffled):
        data = puc.Dataset(frame, y)
        booster = puc.train({**COMMON[engine], **params}, data, 3, [puc.Dataset(valid, y)])
        valid_losses.append(booster.best_score if engine == "lightgbm" else booster.evals_result)
    assert valid_losses[0] == valid_losses[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_init_scores_and_continued_training(engine: str) -> None:
    X, y = make_table(600)
    scores = np.random.default_rng(0).normal(size=600)
    with_scores = fit(engine, X, y, 5, {"init_score": scores}, augmentation="exhaustive")
    assert trees(with_scores) != trees(fit(engine, X, y, 5, augmentation="exhaustive"))
    first = fit(engine, X, y, 4, augmentation="fixed")
    more = puc.train({**COMMON[engine], "optional": OPTIONAL}, puc.Dataset(X, y), 3, init_model=first)
    count = more.num_trees() if engine == "lightgbm" else more.num_boosted_rounds()
    assert count == 7
    with pytest.raises(ValueError, match="init_model was trained under Consent"):
        puc.train({**COMMON[engine], "optional": [3]}, puc.Dataset(X, y), 3, init_model=first)


# ---------------------------------------------------------------- law 4


@pytest.mark.parametrize("engine", ENGINES)
def test_identical_calls_give_identical_models(engine: str) -> None:
    X, y = make_table(800)
    assert trees(fit(engine, X, y)) == trees(fit(engine, X, y))
    one, two = (fit(engine, X, y, **{"num_threads" if engine == "lightgbm" else "nthread": t}) for t in (1, 2))
    assert trees(one) == trees(two)
    assert trees(fit(engine, X, y, seed=1)) != trees(fit(engine, X, y, seed=2))


# ---------------------------------------------------------------- laws 5 and 6


@pytest.mark.parametrize("engine", ENGINES)
def test_weights_reach_the_engine(engine: str) -> None:
    """On one leaf the model is the weighted mean of the virtual labels: the weight law, seen from the other end."""
    X, y = make_table(4_000)
    _, y_aug, weight, _ = puc.augment(X, y, optional=OPTIONAL, copies=2)
    expected = np.average(y_aug, weights=weight)
    objective = {"lightgbm": "l2", "xgboost": "reg:squarederror"}[engine]
    stump = {"lightgbm": {"min_data_in_leaf": 10**6}, "xgboost": {"max_depth": 1, "gamma": 1e9}}[engine]
    booster = fit(engine, X, y, 1, objective=objective, copies=2, **stump)
    assert float(predict(booster, X[:1])[0]) == pytest.approx(expected, abs=2e-3)
    assert abs(expected - y.mean()) > 0.01


@pytest.mark.parametrize("engine", ENGINES)
def test_every_optional_column_was_missing_in_training(engine: str) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3_000, 3))
    X[:, 2] = rng.integers(0, 2, 3_000)
    y = X[:, 0] + 10 * X[:, 2]
    objective = {"lightgbm": "l2", "xgboost": "reg:squarederror"}[engine]
    booster = fit(engine, X, y, 80, optional=[2], objective=objective)
    silent = X.copy()
    silent[:, 2] = np.nan
    assert np.mean(predict(booster, silent) - X[:, 0]) == pytest.approx(5, abs=0.5)


# ---------------------------------------------------------------- law 7

MEMORY = (
    PEAK_MEMORY
    + """
import sys, numpy as np, pucboost as puc
engine, r, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
params = {"engine": engine, "verbosity": -1 if engine == "lightgbm" else 0, "augmentation": "exhaustive", "max_bin": 15}
X = np.random.default_rng(0).normal(size=(n, 2 + r)).astype(np.float32)
params["optional"] = list(range(2, 2 + r))
puc.train({**params, "augmentation": "fixed"}, puc.Dataset(X, X[:, 0]), 1)
before = peak()
puc.train(params, puc.Dataset(X, X[:, 0]), 1)
print(peak() - before)
"""
)


@pytest.mark.parametrize("engine", ENGINES)
def test_raw_masked_rows_are_never_stored(engine: str) -> None:
    """250 rows with 12 groups: a million virtual rows of 14 float32, 57 MB, which the engine keeps as bytes."""
    skip_without_peak_memory()
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, engine, "12", "250"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    per_row = {"lightgbm": 14 + 70, "xgboost": 14 + 110}[engine]  # bins, labels, scores, gradients, partitions, …
    assert float(done.stdout) < 1_024_000 * per_row / 2**20 + 25, done.stdout


# ---------------------------------------------------------------- validation, objectives, cv


@pytest.mark.parametrize("engine", ENGINES)
def test_validation_is_augmented_and_stops_early(engine: str) -> None:
    X, y = make_table(1_500)
    train, valid = puc.Dataset(X[:900], y[:900]), puc.Dataset(X[900:], y[900:])
    metric = {"lightgbm": "binary_logloss", "xgboost": "logloss"}[engine]
    sizes = []

    def size(preds: Any, data: Any) -> tuple[str, float, bool]:
        sizes.append((len(preds), len(data.get_label())))
        return "size", float(len(preds)), False

    params = {**COMMON[engine], "optional": OPTIONAL, "copies": 2, "seed": 11, "metric": metric}
    booster = puc.train(params, train, 4, [train, valid], ["mine", "other"], size)
    X_aug, y_aug, weight, _ = puc.augment(X[900:], y[900:], optional=OPTIONAL, copies=2, seed=child_seed(11, 0))
    p = predict(booster, X_aug)
    loss = np.average(-np.log(np.where(y_aug == 1, p, 1 - p)), weights=weight)
    measured = (
        booster.best_score["other"][metric] if engine == "lightgbm" else booster.evals_result["other"][metric][-1]
    )
    assert measured == pytest.approx(loss, rel=1e-5)
    assert (len(y_aug), len(y_aug)) in sizes
    stopped = puc.train({**params, "early_stopping_round": 3}, train, 300, [valid])
    assert 0 < stopped.best_iteration < 299


def logistic(preds: Any, data: Any) -> tuple[Any, Any]:
    p = 1 / (1 + np.exp(-preds.astype(np.float64)))
    gradient, hessian = p - data.get_label(), p * (1 - p)
    weight = data.get_weight()
    if weight is not None and len(weight):
        gradient, hessian = gradient * weight, hessian * weight
    return gradient, hessian


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("user_weight", [None, np.linspace(0.5, 2, 900)])
def test_copy_weights_reach_a_callable_objective_once(engine: str, user_weight: Any) -> None:
    X, y = make_table(900)
    start = {"lightgbm": {"boost_from_average": False}, "xgboost": {"base_score": 0.5}}[engine]
    margin = {"lightgbm": {}, "xgboost": {"base_score": 0.0}}[engine]
    data = {"weight": user_weight}
    built_in = fit(engine, X, y, 8, data, copies=2, **start)
    own = fit(engine, X, y, 8, data, copies=2, objective=logistic, **margin)
    raw = [
        b.predict(X, raw_score=True) if engine == "lightgbm" else b.predict(xgb.DMatrix(X), output_margin=True)
        for b in (built_in, own)
    ]
    np.testing.assert_allclose(raw[0], raw[1], atol=2e-4)  # gradients are float32


@pytest.mark.parametrize("engine", ENGINES)
def test_cv_splits_people(engine: str) -> None:
    X, _ = make_table(300)
    identity = np.arange(300.0)
    objective = {"lightgbm": "l2", "xgboost": "reg:squarederror"}[engine]
    seen: list[set[float]] = []

    def spy(preds: Any, data: Any) -> tuple[str, float, bool]:
        seen.append(set(data.get_label().tolist()))
        return "spy", 0.0, False

    params = {**COMMON[engine], "objective": objective, "optional": OPTIONAL, "augmentation": "exhaustive"}
    result = puc.cv(params, puc.Dataset(X, identity), 2, nfold=3, stratified=False, feval=spy, return_cvbooster=True)
    metric = {"lightgbm": "l2", "xgboost": "rmse"}[engine]
    assert len(result[f"valid {metric}-mean"]) == len(result[f"valid {metric}-stdv"]) == 2
    assert not any(key.startswith("train") for key in result)
    held_out = [labels for labels in seen if len(labels) == 100]
    assert set.union(*held_out) == set(identity.tolist())
    assert [b.puc_summary.source_rows for b in result["cvbooster"].boosters] == [200] * 3


@pytest.mark.parametrize("engine", ENGINES)
def test_cv_is_training_each_fold(engine: str) -> None:
    X, y = make_table(600)
    folds = [(np.arange(0, 400), np.arange(400, 600)), (np.arange(200, 600), np.arange(0, 200))]
    # "fixed" needs no row sampling: XGBoost's random numbers are shared by the boosters that xgb.cv trains in turn.
    params = {**COMMON[engine], "optional": OPTIONAL, "augmentation": "fixed", "seed": 5}
    result = puc.cv(params, puc.Dataset(X, y), 6, folds=folds, return_cvbooster=True, eval_train_metric=True)
    assert any(key.startswith("train") for key in result)
    for number, ((train, _), booster) in enumerate(zip(folds, result["cvbooster"].boosters, strict=True)):
        table = fit_table(
            engine, X[train], y[train], 6, mask_seed=child_seed(5, 2 * number), seed=5, augmentation="fixed"
        )
        np.testing.assert_allclose(predict(booster, X), predict(table, X), rtol=1e-6)


# ---------------------------------------------------------------- the model file


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("ending", ["json", "ubj"])
def test_consent_travels_with_the_model(engine: str, ending: str, tmp_path: Path) -> None:
    X, y = make_table(500)
    booster = fit(engine, X, y, 5, optional={"äpp": [3, 4], "blood": [5]})
    again = pickle.loads(pickle.dumps(booster))
    path = tmp_path / f"model.{ending}"
    puc.save_model(booster, path)
    loaded = puc.load_model(path)
    for other in (again, loaded):
        assert other.consent == booster.consent
        assert other.puc_summary == booster.puc_summary
        np.testing.assert_array_equal(predict(other, X), predict(booster, X))
    plain = lgb.Booster(model_file=path) if engine == "lightgbm" else xgb.Booster(model_file=path)
    np.testing.assert_array_equal(predict(plain, X), predict(booster, X))
    if engine == "xgboost":  # the engine's own way of saving keeps it, too
        booster.save_model(tmp_path / f"own.{ending}")
        assert puc.load_model(tmp_path / f"own.{ending}").consent == booster.consent


# ---------------------------------------------------------------- bad input: one validation, the same text


def with_value(vector: Any, row: int, value: float) -> Any:
    out = np.array(vector, dtype=float)
    out[row] = value
    return out


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"optional": ["glucose"]}, "optional names column 'glucose', which the table does not have"),
        ({"optional": {"a": []}}, "Group 'a' of optional has no columns"),
        ({"copies": 0.5}, "copies must be finite and at least 1"),
        ({"augmentation": "balance"}, "augmentation must be one of"),
        ({"max_virtual_rows": 20}, "The table has 60 rows, more than max_virtual_rows = 20"),
        ({"augmentation": "exhaustive", "max_virtual_rows": 70}, "augmentation='exhaustive' makes"),
        ({"seed": "seven"}, "seed must be a whole number, got 'seven'"),
        ({"compact": 3}, "compact must be True, False or 'auto'"),
    ],
)
def test_bad_params(engine: str, params: dict[str, Any], message: str) -> None:
    X, y = make_table(60)
    with pytest.raises(ValueError, match=message):
        fit(engine, X, y, 2, **params)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda X, y: {"label": y[:-1]},
            r"label of train_set must have one value for each of the 60 rows, got shape \(59,\)",
        ),
        (lambda X, y: {"label": with_value(y, 7, np.nan)}, "label of train_set is nan in row 7"),
        (lambda X, y: {"label": y, "weight": with_value(y, 3, -1)}, "weight of train_set is -1.0 in row 3"),
        (lambda X, y: {"label": y, "available": np.zeros((60, 3), bool)}, "available says that row"),
        (lambda X, y: {"label": y, "init_score": y[:7]}, "init_score of train_set must have"),
        (lambda X, y: {"label": y, "feature_name": ["a"]}, "6 columns, but feature_name lists 1 names"),
    ],
)
def test_bad_datasets(engine: str, change: Any, message: str) -> None:
    X, y = make_table(60)
    with pytest.raises(ValueError, match=message):
        puc.train({**COMMON[engine], "optional": OPTIONAL}, puc.Dataset(X, **change(X, y)), 2)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"objective": "rank:ndcg"}, "Protected User Consent is defined for predictions of a person's outcome"),
        ({"objective": "survival:cox"}, "its loss is not a sum over people"),
        ({"booster": "gblinear"}, "booster='gblinear' reads a withheld value as the number 0"),
        ({"tree_method": "exact"}, "tree_method='exact' needs the whole table in memory"),
        ({"min_data_in_leaf": 30}, "min_data_in_leaf"),
    ],
)
def test_what_xgboost_cannot_do(params: dict[str, Any], message: str) -> None:
    X, y = make_table(60)
    with pytest.raises(ValueError, match=message):
        fit("xgboost", X, y, 2, **params)


def test_what_xgboost_takes_as_data_and_callbacks() -> None:
    X, y = make_table(200)
    params = {**COMMON["xgboost"], "optional": OPTIONAL}
    expected = trees(puc.train(params, puc.Dataset(X, y), 3))
    assert trees(puc.train(params, lgb.Dataset(X, y), 3)) == expected
    assert trees(puc.train(params, (X, y), 3, valid_sets=(X, y))) == expected
    with pytest.raises(TypeError, match="train_set is an xgboost DMatrix, which no longer has the raw rows"):
        puc.train(params, xgb.DMatrix(X, y), 3)
    with pytest.raises(
        TypeError, match=r"takes a puc.Dataset, an lgb.Dataset or a pair \(X, y\); train_set has type 'ndarray'"
    ):
        puc.train(params, X, 3)
    with pytest.raises(TypeError, match=r"callbacks of engine='xgboost' must be xgb\.callback objects"):
        puc.train(params, (X, y), 3, callbacks=[lgb.early_stopping(3)])
    stopped = puc.train(
        params,
        (X[:100], y[:100]),
        300,
        valid_sets=[(X[100:], y[100:])],
        callbacks=[xgb.callback.EarlyStopping(rounds=3)],
    )
    assert stopped.best_iteration < 299
    with pytest.raises(ValueError, match="init_model is not supported by cv with engine='xgboost'"):
        puc.cv(params, (X, y), 2, init_model=stopped)


def test_lightgbm_names_train_xgboost() -> None:
    X, y = make_table(500)
    common = {
        "objective": "binary",
        "num_leaves": 8,
        "learning_rate": 0.2,
        "lambda_l2": 2.0,
        "num_threads": 2,
        "verbosity": -1,
    }
    ours = puc.train({**common, "engine": "xgboost", "optional": OPTIONAL, "num_iterations": 7}, puc.Dataset(X, y))
    assert ours.num_boosted_rounds() == 7
    assert max(text.count("leaf=") for text in ours.get_dump()) <= 8


def test_consent_of_any_form_of_a_model(tmp_path: Path) -> None:
    X, y = make_table(200)
    for engine in ENGINES:
        booster = fit(engine, X, y, 2)
        puc.save_model(booster, tmp_path / engine)
        assert puc.consent_of(booster) == puc.consent_of(tmp_path / engine) == booster.consent
    loaded = xgb.Booster(model_file=tmp_path / "xgboost")  # by the engine itself: only the attribute is there
    assert not hasattr(loaded, "consent")
    assert puc.consent_of(loaded) == booster.consent
    assert puc.consent_of(lgb.train({"verbosity": -1}, lgb.Dataset(X, y), 1)) is None


# ---------------------------------------------------------------- found by review


def accuracy(preds: Any, data: Any) -> tuple[str, float, bool]:
    return "my_accuracy", float(((preds > 0.5) == (data.get_label() > 0.5)).mean()), True


@pytest.mark.parametrize("engine", ENGINES)
def test_early_stopping_knows_the_direction_of_a_metric_and_ignores_the_training_set(engine: str) -> None:
    X, y = make_table(1_500)
    train, valid = puc.Dataset(X[:900], y[:900]), puc.Dataset(X[900:], y[900:])
    params = {**COMMON[engine], "optional": OPTIONAL, "early_stopping_round": 5}
    silent = {**params, "metric": "None"}
    by_accuracy = puc.train(silent, train, 200, [valid], feval=accuracy)
    assert by_accuracy.best_iteration > 1
    result = puc.cv(silent, puc.Dataset(X, y), 50, nfold=3, feval=accuracy)
    values = result["valid my_accuracy-mean"]
    assert len(values) > 1
    assert values[-1] == max(values)
    alone = puc.train(params, train, 300, [valid]).best_iteration
    for sets in ([train, valid], [valid, train]):
        assert puc.train(params, train, 300, sets).best_iteration == alone
    with pytest.raises(ValueError, match="For early stopping, at least one dataset and eval metric is required"):
        puc.train(
            {**params, "engine": "xgboost"} if engine == "xgboost" else {**params, "metric": "None"}, train, 5, [train]
        )


def test_parameters_on_the_dataset_reach_xgboost() -> None:
    X, y = make_table(600)
    params = {**COMMON["xgboost"], "optional": OPTIONAL}
    in_call = puc.train({**params, "max_bin": 4}, puc.Dataset(X, y), 4)
    assert trees(puc.train(params, puc.Dataset(X, y, params={"max_bin": 4}), 4)) == trees(in_call)
    assert trees(puc.train(params, puc.Dataset(X, y), 4)) != trees(in_call)


def test_xgboost_validation_set_takes_names_from_training() -> None:
    X, y = make_table(300)
    params = {**COMMON["xgboost"], "optional": ["f3"]}
    train = puc.Dataset(X, y, feature_name=[f"f{j}" for j in range(6)])
    booster = puc.train(params, train, 2, valid_sets=[(X, y), puc.Dataset(X, y)])
    assert set(booster.evals_result) == {"valid_0", "valid_1"}
    assert puc.train(params, train, 2, valid_sets=((X, y), (X, y))).num_boosted_rounds() == 2


def test_xgboost_cv_translates_metrics_and_mixed_categories_are_refused() -> None:
    X, y = make_table(300)
    result = puc.cv({**COMMON["xgboost"], "optional": OPTIONAL}, (X, y), 2, nfold=2, metrics=["binary_logloss", "auc"])
    assert {"valid logloss-mean", "valid auc-mean"} <= result.keys()
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(k=pd.Categorical(["u", "v"] * 150), m=np.arange(300) % 3)
    with pytest.raises(ValueError, match="categorical_feature names column 'm', which is not of category type"):
        puc.train({**COMMON["xgboost"], "optional": ["f"]}, puc.Dataset(frame, y, categorical_feature=["k", "m"]), 2)


def test_objective_names_in_any_case() -> None:
    X, y = make_table(300)
    for objective in ("LambdaRank", " lambdarank "):
        with pytest.raises(ValueError, match="Protected User Consent is defined for"):
            fit("lightgbm", X, y, 2, objective=objective)


def test_sliced_and_reloaded_xgboost_models_can_be_saved(tmp_path: Path) -> None:
    X, y = make_table(300)
    booster = fit("xgboost", X, y, 5)
    booster.save_model(tmp_path / "own.json")
    for other in (booster[:2], xgb.Booster(model_file=tmp_path / "own.json")):
        puc.save_model(other, tmp_path / "again.json")
        assert puc.load_model(tmp_path / "again.json").consent == booster.consent


def test_verbosity_of_one_call_is_not_that_of_the_next() -> None:
    import xgboost as xgb

    X, y = make_table(100)
    before = xgb.get_config()
    params = {"engine": "xgboost", "optional": [3], "verbosity": 0}
    puc.train(params, puc.Dataset(X, y), 2)
    puc.cv(params, puc.Dataset(X, y), 2, nfold=2)
    assert xgb.get_config() == before
