"""The native engine as a whole: what it reports, what callbacks may do, and what it refuses."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from engine_kits import NATIVE, OPTIONAL, logistic
from tools import make_table

import pucboost as puc
from pucboost._virtual.plan import child_seed

PARAMS = {**NATIVE.params, "optional": OPTIONAL, "num_leaves": 8, "copies": 3, "seed": 1}
X, Y = make_table(600)
X_NEW, Y_NEW = make_table(300, seed=1)
CLASSES = Y + (X[:, 0] > 0.5)

FLOAT32 = 2e-6
"""The engine keeps scores in single precision."""


def train(params: dict[str, Any] | None = None, rounds: int = 8, y: Any = Y, **given: Any) -> Any:
    return puc.train({**PARAMS, **(params or {})}, puc.Dataset(X, y), rounds, **given)


def train_on_categories(X: Any, y: Any, rounds: int, **params: Any) -> Any:
    given = {"verbosity": -1, "num_threads": 1, "optional": [2], "learning_rate": 0.2, **params}
    return puc.train(given, puc.Dataset(X, y, categorical_feature=[0]), rounds)


# ----- metrics


class Seen:
    """A metric that keeps what it sees."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, preds: Any, data: Any) -> tuple[str, float, bool]:
        weight = data.get_weight()
        self.calls.append((preds.copy(), data.get_label(), None if weight is None else weight.copy(), data.num_data()))
        return "mean", float(preds.mean()), True


OBJECTIVES: dict[str, dict[str, Any]] = {
    "binary": {"metric": ["auc", "binary_logloss"]},
    "multiclass": {"num_class": 3, "metric": ["multi_logloss", "multi_error"]},
    "poisson": {"metric": ["poisson", "l2"]},
    "callable": {"metric": ["l2", "auc"]},
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_metrics_are_those_of_the_final_model(name: str) -> None:
    """On the virtual rows of the validation set, in their order; LightGBM predicts and evaluates them, too."""
    params = {"objective": logistic if name == "callable" else name, **OBJECTIVES[name]}
    y, y_new = (Y, Y_NEW) if name != "multiclass" else (CLASSES, Y_NEW + (X_NEW[:, 0] > 0.5))
    record: dict[str, Any] = {}
    seen = Seen()
    given = {"valid_sets": [puc.Dataset(X_NEW, y_new)], "feval": seen, "callbacks": [lgb.record_evaluation(record)]}
    booster = train(params, 8, y, **given)
    reported = {metric: values[-1] for metric, values in record["valid_0"].items()}
    preds, label, weight, n = seen.calls[-1]
    assert n == len(label)
    rows, *expected_info, _ = puc.augment(X_NEW, y_new, optional=OPTIONAL, copies=3, seed=child_seed(1, 0))
    np.testing.assert_array_equal(label, expected_info[0])
    np.testing.assert_allclose(weight, expected_info[1], rtol=1e-6)
    raw = booster.predict(rows, raw_score=True)
    np.testing.assert_allclose(preds, booster.predict(rows), rtol=1e-5, atol=FLOAT32)
    data = lgb.Dataset(
        np.arange(len(label))[:, None].astype(float), label, weight=weight, init_score=raw.ravel(order="F")
    )
    judge = lgb.Booster({**params, "objective": "none" if name == "callable" else name, "verbosity": -1}, data)
    expected = {metric: value for _, metric, value, _ in judge.eval_train()} | {"mean": preds.mean()}
    assert list(reported) == list(expected)
    for metric, value in reported.items():
        assert value == pytest.approx(expected[metric], rel=1e-4), metric


def test_metrics_of_amounts_with_any_objective() -> None:
    """LightGBM checks the labels for these metrics; it must not see those of a stand-in."""
    amounts = np.exp(X_NEW[:, 0])
    for objective in ("regression", "poisson", "cross_entropy"):
        record: dict[str, Any] = {}
        params = {"objective": objective, "metric": "gamma,gamma_deviance"}
        data = puc.Dataset(X_NEW, amounts / amounts.max())
        train(params, 2, np.exp(X[:, 0]) / np.exp(X[:, 0]).max(), valid_sets=[data],
              callbacks=[lgb.record_evaluation(record)])  # fmt: skip
        assert set(record["valid_0"]) == {"gamma", "gamma_deviance"}


def test_the_training_set_among_the_validation_sets() -> None:
    record: dict[str, Any] = {}
    data, other = puc.Dataset(X, Y), puc.Dataset(X_NEW, Y_NEW)
    callbacks = [lgb.record_evaluation(record)]
    booster = puc.train(PARAMS, data, 5, [other, data, other], ["new", "own", "again"], callbacks=callbacks)
    assert list(record) == ["own", "new", "again"]
    assert record["new"] == record["again"]
    assert booster.best_score["own"]["binary_logloss"] == record["own"]["binary_logloss"][-1]
    assert record["own"]["binary_logloss"][-1] < record["own"]["binary_logloss"][0]


# ----- rounds


def test_early_stopping_cuts_the_model() -> None:
    given = {"valid_sets": [puc.Dataset(X_NEW, Y_NEW)]}
    stopped = train({"early_stopping_round": 3, "learning_rate": 0.5}, 200, **given)
    by_callback = train({"learning_rate": 0.5}, 200, callbacks=[lgb.early_stopping(3, verbose=False)], **given)
    assert 0 < stopped.best_iteration == by_callback.best_iteration < 100
    assert stopped.current_iteration() == stopped.best_iteration
    assert NATIVE.trees(stopped) == NATIVE.trees(by_callback)
    assert NATIVE.trees(stopped) == NATIVE.trees(train({"learning_rate": 0.5}, stopped.best_iteration))
    assert stopped.best_score == by_callback.best_score


def test_learning_rates_by_round() -> None:
    rates = [0.3, 0.2, 0.1, 0.05]
    booster = train({}, 4, callbacks=[lgb.reset_parameter(learning_rate=rates)])
    assert [tree["shrinkage"] for tree in booster.dump_model()["tree_info"]] == [1, *rates[1:]]
    assert NATIVE.trees(booster) != NATIVE.trees(train({}, 4))
    constant = train({}, 4, callbacks=[lgb.reset_parameter(learning_rate=lambda number: 0.2)])
    assert NATIVE.trees(constant) == NATIVE.trees(train({"learning_rate": 0.2}, 4))
    with pytest.raises(ValueError, match="'num_leaves' cannot change during a training with 'engine': 'native', only"):
        train({}, 4, callbacks=[lgb.reset_parameter(num_leaves=[3, 4, 5, 6])])


def test_callbacks_see_a_booster_with_the_trees_so_far() -> None:
    seen: list[Any] = []

    def look(env: Any) -> None:
        model = env.model
        seen.append((model.num_trees(), model.current_iteration(), model.predict(X, raw_score=True)))
        assert isinstance(model, lgb.Booster)
        assert model.feature_importance().sum() > 0

    booster = train({}, 3, callbacks=[look])
    assert [found[:2] for found in seen] == [(1, 1), (2, 2), (3, 3)]
    for number, (*_, raw) in enumerate(seen):
        np.testing.assert_array_equal(raw, booster.predict(X, raw_score=True, num_iteration=number + 1))


@pytest.mark.parametrize(
    "params", [{}, {"objective": "multiclass", "num_class": 3}, {"bagging_freq": 2, "bagging_fraction": 0.6}]
)
def test_four_rounds_and_four_are_eight(params: dict[str, Any], tmp_path: Any) -> None:
    """Bags are numbered by rounds, so that a model that is continued does not see those of its beginning again."""
    y = CLASSES if "num_class" in params else Y
    first = train(params, 4, y)
    puc.save_model(first, tmp_path / "model.txt")
    whole = train(params, 8, y).predict(X)
    for init_model in (first, tmp_path / "model.txt"):
        np.testing.assert_allclose(train(params, 4, y, init_model=init_model).predict(X), whole, rtol=1e-4)


def test_rounds_by_parameter_and_what_stays_in_the_booster() -> None:
    booster = train({"n_estimators": 3, "verbose": -1}, 100)
    assert booster.num_trees() == 3
    assert booster.params["num_iterations"] == 3
    assert lgb.Booster(model_str=booster.model_to_string()).params["num_leaves"] == 8
    assert "\n[num_threads: 2]\n" in train({"num_threads": 2}, 1).model_to_string()


def test_no_split_at_all() -> None:
    """The constant is the best one, and further rounds add nothing, as in LightGBM."""
    for objective, constant in (("l2", Y.mean()), ("binary", np.log(Y.mean() / (1 - Y.mean())))):
        params = {"objective": objective, "min_data_in_leaf": 10**6, "optional": None}
        for start in (True, False):
            booster = train({**params, "boost_from_average": start}, 5)
            assert booster.num_trees() == 1
            np.testing.assert_allclose(booster.predict(X, raw_score=True), constant, rtol=1e-6)
            theirs = {"objective": objective, "min_data_in_leaf": 10**6, "boost_from_average": start, "verbosity": -1}
            lightgbm = lgb.train(theirs, lgb.Dataset(X, Y), 5)
            np.testing.assert_allclose(lightgbm.predict(X, raw_score=True), constant, rtol=1e-6)
            assert lightgbm.num_trees() == 1


# ----- weights, categories, missing values


def test_weights_of_classes() -> None:
    """They weigh people, but not the constant that training starts from, as in LightGBM."""
    heavy = train({"scale_pos_weight": 3.0})
    weighted = puc.train(
        {**PARAMS, "boost_from_average": False}, puc.Dataset(X, Y, weight=np.where(Y > 0, 3.0, 1.0)), 8
    )
    from_zero = train({"scale_pos_weight": 3.0, "boost_from_average": False})
    np.testing.assert_allclose(from_zero.predict(X), weighted.predict(X), rtol=1e-5)
    assert heavy.predict(X).mean() > train().predict(X).mean()
    rare = (X[:, 0] > 1).astype(float)
    ratio = (rare == 0).sum() / (rare == 1).sum()
    balanced, by_hand = (train(given, y=rare) for given in ({"is_unbalance": True}, {"scale_pos_weight": ratio}))
    np.testing.assert_allclose(balanced.predict(X), by_hand.predict(X), rtol=1e-5)


def test_categories() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 30, 600)
    y = np.isin(codes, [2, 5, 7, 11, 13]) + 0.1 * rng.normal(size=600)
    table = X.copy()
    table[:, 1] = codes
    frame = pd.DataFrame(table, columns=list("abcdef"))
    frame["b"] = pd.Categorical([f"job {code}" for code in codes])
    params = {**PARAMS, "objective": "l2", "min_data_per_group": 5, "cat_smooth": 1, "learning_rate": 0.5}
    given: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
        (table, {}, {"categorical_feature": [1]}),
        (table, {"categorical_feature": [1]}, {}),
        (frame, {"optional": ["d", "e", "f"]}, {}),
    ]
    for data, more, of_data in given:
        booster = puc.train({**params, **more}, puc.Dataset(data, y, **of_data), 12)
        assert booster.trees_to_dataframe()["decision_type"].eq("==").any()
        assert np.mean((puc.predict(booster, data) - y) ** 2) < 0.1 * y.var()
        again = lgb.Booster(model_str=booster.model_to_string())
        np.testing.assert_array_equal(again.predict(data), booster.predict(data))


def test_labels_far_from_where_training_starts() -> None:
    """An offset costs no digits: LightGBM keeps them, and its trees come near it round by round."""
    offset = 1e6
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(2, 1_500, 3))
    y, mean_new = np.sin(2 * X[:, 0]) + rng.normal(scale=0.3, size=1_500), np.sin(2 * X_new[:, 0])
    mean_new += offset
    cases: list[tuple[dict[str, Any], Any, float]] = [
        ({"boost_from_average": False}, None, 0.0),
        ({}, np.zeros(1_500), 0.0),
        ({}, offset + 0.1 * X[:, 1], offset),
        ({}, np.full(1_500, offset - 50.0), offset - 50.0),
    ]
    for given, init_score, start in cases:
        errors = []
        for engine in ("lightgbm", "native"):
            record: dict[str, Any] = {}
            params = {
                "engine": engine,
                "verbosity": -1,
                "num_threads": 1,
                "augmentation": "none",
                "num_leaves": 8,
                **given,
            }
            data = puc.Dataset(X, y + offset, init_score=init_score)
            callbacks = [lgb.record_evaluation(record)]
            booster = puc.train(params, data, 200, valid_sets=[data], callbacks=callbacks)
            told = booster.predict(X_new) + start
            errors.append(np.mean((told - mean_new) ** 2))
        assert errors[1] < 1.1 * errors[0] + 0.005 < 0.1, (given, errors)
        fitted = booster.predict(X) + (0.0 if init_score is None else init_score)
        assert record["training"]["l2"][-1] == pytest.approx(np.mean((fitted - y - offset) ** 2), rel=0.02)
    params = {"engine": "native", "verbosity": -1, "num_threads": 1, "num_leaves": 8}
    few = puc.train(params, puc.Dataset(X, y + offset), 5)
    more = puc.train(params, puc.Dataset(X, y + offset), 100, init_model=few)
    assert np.mean((more.predict(X_new) - mean_new) ** 2) < 0.1


def many_categories(n: int, levels: int, spread: float, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return (X, y, mean): a category with an effect of its own, of ``levels`` that get rarer, and two numbers."""
    rng = np.random.default_rng(seed)
    share = np.exp(-spread * np.linspace(0, 1, levels))
    category = rng.choice(levels, n, p=share / share.sum())
    X = np.column_stack([category, rng.normal(size=n), np.where(rng.random(n) < 0.5, rng.normal(size=n), np.nan)])
    mean = 3 * np.sin(category * 12.9898) + X[:, 1]
    return X, mean + rng.normal(size=n), mean


def test_more_categories_than_bins() -> None:
    """As in LightGBM, ``max_bin`` is for numbers; categories have as many bins as they need."""
    X, y, mean = many_categories(8_000, 200, 0.0)
    errors = [
        np.mean((train_on_categories(X, y, 60, engine=engine, max_bin=63).predict(X) - mean) ** 2)
        for engine in ("lightgbm", "native")
    ]
    assert errors[1] < 1.1 * errors[0] < 1.0


def test_more_categories_than_codes() -> None:
    """The rarest are one category, whose people do not count as missing; where these are many, ``auto`` is LightGBM."""
    X, y, _ = many_categories(20_000, 300, 5.0)
    assert len(np.unique(X[:, 0])) > 254
    y += 9.0 * (X[:, 0] >= 260)
    booster = train_on_categories(X, y, 40, engine="auto")
    assert booster.puc_summary.engine == "native"
    rare, missing = booster.predict([[270.0, 0.0, np.nan], [np.nan, 0.0, np.nan]])
    assert rare > 4.0 + missing
    X, y, _ = many_categories(3_000, 400, 0.0)
    assert train_on_categories(X, y, 2, engine="auto").puc_summary.engine == "lightgbm"


def test_zeros_that_are_missing() -> None:
    table = X.copy()
    table[np.isnan(table)] = 0.0
    zeros, nans = (
        puc.train({**PARAMS, "zero_as_missing": zero}, puc.Dataset(data, Y), 8)
        for zero, data in ((True, table), (False, X))
    )
    np.testing.assert_allclose(zeros.predict(table), nans.predict(X), rtol=1e-5)


def test_a_callable_starts_at_zero_and_sees_the_users_weights() -> None:
    weight = np.random.default_rng(0).uniform(0.5, 2, 600)
    seen: list[Any] = []

    def objective(preds: Any, data: Any) -> Any:
        seen.append((preds.copy(), data.get_weight()))
        return logistic(preds, data)

    booster = puc.train({**PARAMS, "objective": objective}, puc.Dataset(X, Y, weight=weight), 4)
    assert (seen[0][0] == 0).all()
    assert len(seen) == 4
    assert set(np.unique(seen[0][1])) == set(weight.astype(np.float32))
    built_in = puc.train({**PARAMS, "boost_from_average": False}, puc.Dataset(X, Y, weight=weight), 4)
    np.testing.assert_allclose(booster.predict(X), built_in.predict(X, raw_score=True), rtol=1e-4, atol=1e-5)

    def asks_for_rows(preds: Any, data: Any) -> Any:
        return data.get_data()

    with pytest.raises(AttributeError, match="used 'get_data' of a data set; with 'engine': 'native' it has"):
        train({"objective": asks_for_rows})


# ----- cross-validation


def test_cross_validation_has_the_results_of_lightgbm() -> None:
    given: dict[str, Any] = {"nfold": 3, "eval_train_metric": True, "return_cvbooster": True, "feval": Seen()}
    ours, theirs = (
        puc.cv({**PARAMS, "engine": engine, "metric": "auc,binary_logloss"}, puc.Dataset(X, Y), 6, **given)
        for engine in ("native", "lightgbm")
    )
    assert list(ours) == list(theirs)
    assert [len(values) for name, values in ours.items() if name != "cvbooster"] == [6] * 12
    for name in ("valid auc-mean", "train binary_logloss-mean"):
        assert ours[name][-1] == pytest.approx(theirs[name][-1], abs=0.03)
    model = ours["cvbooster"]
    assert isinstance(model, lgb.CVBooster)
    assert [type(booster) for booster in model.boosters] == [type(train())] * 3
    assert [booster.num_trees() for booster in model.boosters] == [6] * 3


def test_cross_validation_stops_early() -> None:
    params = {**PARAMS, "learning_rate": 0.5, "early_stopping_round": 3}
    result = puc.cv(params, puc.Dataset(X, Y), 200, nfold=3, return_cvbooster=True, metrics="auc")
    best = result["cvbooster"].best_iteration
    assert len(result["valid auc-mean"]) == best < 100
    assert np.argmax(result["valid auc-mean"]) == best - 1
    assert {booster.best_iteration for booster in result["cvbooster"].boosters} == {best}


def test_a_forest_cannot_be_continued() -> None:
    forest = lgb.train(
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5, "verbosity": -1}, lgb.Dataset(X, Y), 3
    )
    with (
        pytest.raises(ValueError, match="init_model is a random forest"),
        pytest.warns(UserWarning, match="init_model has no consent schema"),
    ):
        train(init_model=forest)
    with (
        pytest.raises(ValueError, match="init_model has 1 scores per row, but this training has 3"),
        pytest.warns(UserWarning, match="init_model has no consent schema"),
    ):
        train(
            {"objective": "multiclass", "num_class": 3},
            y=CLASSES,
            init_model=lgb.train({"verbosity": -1}, lgb.Dataset(X, Y), 1),
        )


def test_silence_first_is_the_default_where_something_is_withheld() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = X.sum(axis=1)
    X[rng.random(600) < 0.4, 2] = np.nan

    def trees(**params: object) -> str:
        given = {"engine": "native", "objective": "l2", "verbosity": -1, "num_threads": 1, "num_leaves": 8, **params}
        text = puc.train(given, puc.Dataset(X, y), 10).model_to_string()
        return str(text[text.index("Tree=0") : text.index("end of trees")])

    def beginnings(text: str) -> list[str]:
        return [line.split("=")[1].split()[0] for line in text.splitlines() if line.startswith("split_feature=")]

    default = trees(optional=[2])
    assert default == trees(optional=[2], silence_first=True) != trees(optional=[2], silence_first=False)
    assert beginnings(default)[4::5] == ["2", "2"]
    plain = {"optional": [2], "augmentation": "none"}
    assert trees() == trees(silence_first=False)
    assert trees(**plain) == trees(**plain, silence_first=False)
    with pytest.raises(ValueError, match="silence_first must be True or False, got 'yes'"):
        trees(optional=[2], silence_first="yes")
    with pytest.raises(ValueError, match="silence_first: LightGBM chooses all splits of its trees by itself"):
        trees(optional=[2], silence_first=True, engine="lightgbm")
