"""What is XGBoost's own: its names, its data and callbacks, its model files."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from engine_kits import OPTIONAL, XGBOOST
from scipy.sparse import csr_matrix
from tools import make_table

import pucboost as puc
from pucboost._engines.xgboost_data import MaskedBatches
from pucboost._tables.sources import eager


def test_what_xgboost_takes_as_data_and_callbacks() -> None:
    X, y = make_table(200)
    params = {**XGBOOST.params, "optional": OPTIONAL}
    expected = XGBOOST.trees(puc.train(params, puc.Dataset(X, y), 3))
    assert XGBOOST.trees(puc.train(params, lgb.Dataset(X, y), 3)) == expected
    assert XGBOOST.trees(puc.train(params, (X, y), 3, valid_sets=(X, y))) == expected
    with pytest.raises(TypeError, match=r"callbacks of engine='xgboost' must be xgb\.callback objects"):
        puc.train(params, (X, y), 3, callbacks=[lgb.early_stopping(3)])
    stopped = puc.train(
        params,
        (X[:100], y[:100]),
        300,
        valid_sets=[(X[100:], y[100:])],
        callbacks=[xgb.callback.EarlyStopping(rounds=3)],
    )
    losses = stopped.evals_result["valid_0"]["logloss"]
    assert stopped.best_iteration == np.argmin(losses)
    assert len(losses) == stopped.best_iteration + 4 < 300
    with pytest.raises(ValueError, match="init_model is not supported by cv with engine='xgboost'"):
        puc.cv(params, (X, y), 2, init_model=stopped)


# ----- the data and arguments of xgb.train


PLAIN = {"objective": "binary:logistic", "eta": 0.2, "alpha": 0.5, "subsample": 0.7, "seed": 3, "nthread": 1}


def halved_logistic(preds: Any, data: Any) -> tuple[Any, Any]:
    p = 1 / (1 + np.exp(-preds))
    return (p - data.get_label()) / 2, p * (1 - p) / 2


def distance(preds: Any, data: Any) -> tuple[str, float]:
    return "distance", float(np.abs(preds - data.get_label()).mean())


def matrices(kind: Any = xgb.DMatrix) -> tuple[Any, Any]:
    X, y = make_table(500)
    train = kind(X[:400], y[:400], weight=np.arange(1, 401), base_margin=y[:400] / 4)
    return train, xgb.DMatrix(X[400:], y[400:])


@pytest.mark.parametrize(
    "further",
    [
        {},
        {"early_stopping_rounds": 3},
        {"custom_metric": distance, "maximize": True, "early_stopping_rounds": 4},
        {"obj": halved_logistic, "custom_metric": distance},
        {"xgb_model": "model"},
        {"params": {"booster": "gblinear", "subsample": None}},
        {"params": {"tree_method": "exact", "alpha": 0.1}},
        {"params": {"objective": None}},
    ],
    ids=", ".join,  # of the keys: functions have another address in each process
)
def test_with_nothing_optional_train_is_xgboosts(further: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Law 2 for XGBoost's own data: the same model, history and lines, bit for bit."""
    train, valid = matrices()
    params = {**PLAIN, **further.get("params", {})}
    given = {name: value for name, value in further.items() if name != "params"}
    if "xgb_model" in given:
        given["xgb_model"] = xgb.train(PLAIN, train, 3).save_raw()
    found = []
    for function in (xgb.train, puc.train):
        history: dict[str, Any] = {}
        evals = [(train, "seen"), (valid, "held_out")]
        booster = function(params, train, 20, evals=evals, evals_result=history, verbose_eval=4, **given)
        found.append((booster.save_raw("json"), booster.attributes(), history, capsys.readouterr().out))
    assert found[0] == found[1]
    assert "held_out" in found[0][3]


@pytest.mark.parametrize("kind", [xgb.DMatrix, xgb.QuantileDMatrix])
def test_with_nothing_optional_any_matrix_is_xgboosts(kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    train, _ = matrices(kind)
    ours = puc.train(PLAIN, train, 10)
    assert ours.save_raw("json") == xgb.train(PLAIN, train, 10).save_raw("json")
    assert ours.consent is None
    assert capsys.readouterr().out == ""
    X, y = make_table(100)
    with pytest.raises(TypeError, match=r"Validation set 0 is no \w*DMatrix, as train_set is"):
        puc.train(PLAIN, train, 10, evals=[((X, y), "pair")])


def test_a_matrix_under_consent_is_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = make_table(500)
    train, valid = matrices()
    history: dict[str, Any] = {}
    params = {**PLAIN, "optional": OPTIONAL}
    ours = puc.train(
        params, train, 30, evals=[(train, "seen"), (valid, "held_out")], evals_result=history, early_stopping_rounds=3,
        verbose_eval=False, custom_metric=distance,
    )  # fmt: skip
    in_words_of_ours = {**{name: value for name, value in params.items() if name != "alpha"}, "reg_alpha": 0.5}
    same = puc.train(
        {**in_words_of_ours, "engine": "xgboost"},
        puc.Dataset(X[:400], y[:400], weight=np.arange(1, 401), init_score=y[:400] / 4),
        30,
        valid_sets=[(X[:400], y[:400]), (X[400:], y[400:])],
        feval=distance,
        callbacks=[xgb.callback.EarlyStopping(rounds=3)],
    )
    assert XGBOOST.trees(ours) == XGBOOST.trees(same)
    assert ours.best_iteration == same.best_iteration
    assert history == ours.evals_result
    assert list(history) == ["seen", "held_out"]
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(puc.predict(ours, valid), puc.predict(ours, X[400:]))
    # A Dataset of a matrix; another engine; folds.
    again = puc.train(params, puc.Dataset(train, optional=OPTIONAL), 30, valid_sets=[train, valid])
    assert again.consent == ours.consent
    other = puc.train({"engine": "lightgbm", "optional": OPTIONAL, "verbosity": -1}, train, 3, valid_sets=valid)
    assert isinstance(other, lgb.Booster)
    assert isinstance(puc.train({"engine": "lightgbm", "verbosity": -1}, train, 3), lgb.Booster)
    assert len(puc.cv(PLAIN, train, 3, nfold=2)["valid logloss-mean"]) == 3


def test_what_a_matrix_stores() -> None:
    """A stored zero is a number, what is not stored is missing; categories keep their names, and codes are codes."""
    sparse = csr_matrix(([0.0, 3.0, 2.0], ([0, 0, 1], [0, 2, 1])), shape=(2, 3))
    missing = xgb.DMatrix(np.array([[0, -9, 3], [-9, 2, -9.0]]), missing=-9)
    for matrix in (xgb.DMatrix(sparse), missing):
        np.testing.assert_array_equal(eager(matrix), [[0, np.nan, 3], [np.nan, 2, np.nan]])
    frame = pd.DataFrame({"n": [1.5, np.nan, 3], "k": pd.Categorical(["b", None, "a"], ["c", "b", "a"])})
    back = eager(xgb.DMatrix(frame, enable_categorical=True))
    pd.testing.assert_frame_equal(back, frame.astype({"n": np.float32}))
    codes = xgb.DMatrix(np.array([[1.0, 2], [0, 5]]), [0, 1], feature_types=["c", "q"], enable_categorical=True)
    assert puc.Dataset(codes).categorical_feature == [0]


def test_categories_of_a_matrix_under_consent() -> None:
    X, y = make_table(300)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(k=pd.Categorical(["u", "v", None] * 100))
    params = {**PLAIN, "reg_alpha": 0.5, "optional": ["k", "f"]}
    ours = puc.train(params, xgb.DMatrix(frame, y, enable_categorical=True), 5)
    params = {name: value for name, value in params.items() if name != "alpha"}
    assert XGBOOST.trees(ours) == XGBOOST.trees(puc.train({**params, "engine": "xgboost"}, (frame, y), 5))


def test_matrices_that_are_refused(tmp_path: Path) -> None:
    class Pages(xgb.DataIter):
        left = 2

        def reset(self) -> None:
            self.left = 2

        def next(self, input_data: Any) -> bool:
            self.left -= 1
            if self.left >= 0:
                input_data(data=np.ones((5, 2)), label=np.ones(5))
            return self.left >= 0

    params, paged = {**PLAIN, "optional": [1]}, str(tmp_path / "pages")
    for matrix, reason in {
        xgb.QuantileDMatrix(
            np.ones((5, 2)), np.ones(5)
        ): "An xgboost QuantileDMatrix holds bins, and no longer the raw",
        xgb.ExtMemQuantileDMatrix(
            Pages(cache_prefix=paged)
        ): "The rows of this xgboost ExtMemQuantileDMatrix cannot be",
        xgb.DMatrix(Pages(cache_prefix=paged)): "The rows of this xgboost DMatrix cannot be read back",
    }.items():
        with pytest.raises(TypeError, match=reason):
            puc.train(params, matrix, 2)
    with pytest.raises(ValueError, match="train_set has feature_weights, which virtual rows do not take"):
        puc.train(params, xgb.DMatrix(np.ones((5, 2)), np.ones(5), feature_weights=[1.0, 2.0]), 2)
    with pytest.raises(ValueError, match=r"label of train_set must have one value for each of the 2 rows, got shape"):
        puc.train(params, xgb.DMatrix(np.ones((2, 2)), np.ones((2, 2))), 2)


def test_arguments_of_xgboost_need_xgboost_and_are_given_once() -> None:
    X, y = make_table(100)
    params = {**XGBOOST.params, "optional": OPTIONAL}
    for given, words in {
        "evals": "give valid_sets and valid_names; or choose 'engine': 'xgboost'",
        "obj": "give a function as the objective in params",
    }.items():
        with pytest.raises(ValueError, match=f"{given} is an argument of xgb.train. With LightGBM, {words}"):
            puc.train({"optional": OPTIONAL}, (X, y), 2, **{given: [((X, y), "valid")]})
    with pytest.raises(ValueError, match="evals and valid_sets are the same argument; give one of them"):
        puc.train(params, (X, y), 2, valid_sets=[(X, y)], evals=[((X, y), "valid")])
    with pytest.raises(ValueError, match="obj and the objective in params are both functions; give one of them"):
        puc.train({**params, "objective": halved_logistic}, (X, y), 2, obj=halved_logistic)
    # The name of the objective still says how scores become predictions.
    own = puc.train(params, (X, y), 2, obj=halved_logistic)
    assert 0 < puc.predict(own, X).min() < puc.predict(own, X).max() < 1


def test_defaults_under_consent_are_lightgbms() -> None:
    """Rate and size of trees, unless they are given; with nothing optional all defaults are XGBoost's."""
    X, y = make_table(600)
    leaves = {"max_leaves": 31, "grow_policy": "lossguide", "max_depth": 0}
    plain = {"objective": "binary:logistic", "engine": "xgboost", "nthread": 1}

    def trees(**given: Any) -> Any:
        return XGBOOST.trees(puc.train({**plain, "optional": OPTIONAL, **given}, (X, y), 5))

    assert trees() == trees(eta=0.1, **leaves) == trees(learning_rate=0.1, num_leaves=31)
    assert trees() != trees(eta=0.3) == trees(eta=0.3, **leaves)
    assert trees(max_depth=6) == trees(eta=0.1, max_depth=6, max_leaves=0, grow_policy="depthwise") != trees()
    in_dataset = puc.train({**plain, "optional": OPTIONAL}, puc.Dataset(X, y, params={"max_depth": 6}), 5)
    assert XGBOOST.trees(in_dataset) == trees(max_depth=6)
    assert XGBOOST.trees(puc.train({**plain, "optional": OPTIONAL}, xgb.DMatrix(X, y), 5)) == trees()
    alone = XGBOOST.trees(puc.train(plain, (X, y), 5))
    assert alone == XGBOOST.trees(puc.train({**plain, "eta": 0.3, "max_depth": 6}, (X, y), 5))
    results = [
        puc.cv({**plain, "optional": OPTIONAL, **given}, (X, y), 5, nfold=2)["valid logloss-mean"]
        for given in ({}, {"eta": 0.1, **leaves}, {"eta": 0.3})
    ]
    assert results[0] == results[1] != results[2]


def test_lightgbm_names_train_xgboost() -> None:
    X, y = make_table(500)
    params = {"engine": "xgboost", "optional": OPTIONAL, "objective": "binary", "num_threads": 2, "verbosity": -1}
    params |= {"num_leaves": 8, "learning_rate": 0.2, "lambda_l2": 2.0, "num_iterations": 7}
    ours = puc.train(params, puc.Dataset(X, y))
    assert ours.num_boosted_rounds() == 7
    assert {text.count("leaf=") for text in ours.get_dump()} == {8}
    own = {"max_leaves": 8, "grow_policy": "lossguide", "max_depth": 0, "learning_rate": 0.2, "reg_lambda": 2.0}
    assert XGBOOST.trees(ours) == XGBOOST.trees(XGBOOST.fit(X, y, 7, **own))
    # Parameters on the Dataset count as well.
    params = {**XGBOOST.params, "optional": OPTIONAL}
    in_call = puc.train({**params, "max_bin": 4}, puc.Dataset(X, y), 4)
    assert XGBOOST.trees(puc.train(params, puc.Dataset(X, y, params={"max_bin": 4}), 4)) == XGBOOST.trees(in_call)
    assert XGBOOST.trees(puc.train(params, puc.Dataset(X, y), 4)) != XGBOOST.trees(in_call)


def test_validation_sets_take_names_from_training() -> None:
    X, y = make_table(300)
    params = {**XGBOOST.params, "optional": ["f3"]}
    train = puc.Dataset(X, y, feature_name=[f"f{j}" for j in range(6)])
    booster = puc.train(params, train, 2, valid_sets=[(X, y), puc.Dataset(X, y)])
    assert set(booster.evals_result) == {"valid_0", "valid_1"}
    assert puc.train(params, train, 2, valid_sets=((X, y), (X, y))).num_boosted_rounds() == 2


def test_metrics_of_cv_and_types_of_categories() -> None:
    X, y = make_table(300)
    result = puc.cv({**XGBOOST.params, "optional": OPTIONAL}, (X, y), 2, nfold=2, metrics=["binary_logloss", "auc"])
    assert {"valid logloss-mean", "valid auc-mean"} <= result.keys()
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(k=pd.Categorical(["u", "v"] * 150), m=np.arange(300) % 3)
    with pytest.raises(ValueError, match="categorical_feature names column 'm', which is not of category type"):
        puc.train({**XGBOOST.params, "optional": ["f"]}, puc.Dataset(frame, y, categorical_feature=["k", "m"]), 2)
    assert XGBOOST.fit(frame.drop(columns="m"), y, 2, optional=["k"]).feature_types == ["float"] * 6 + ["c"]


def test_sliced_and_reloaded_xgboost_models_can_be_saved(tmp_path: Path) -> None:
    X, y = make_table(300)
    booster = XGBOOST.fit(X, y, 5)
    booster.save_model(tmp_path / "own.json")
    for other in (booster[:2], xgb.Booster(model_file=tmp_path / "own.json")):
        puc.save_model(other, tmp_path / "again.json")
        assert puc.load_model(tmp_path / "again.json").consent == booster.consent


def test_verbosity_of_one_call_is_not_that_of_the_next() -> None:
    X, y = make_table(100)
    params = {"engine": "xgboost", "optional": [3], "verbosity": 0}
    with xgb.config_context(verbosity=1):
        before = xgb.get_config()
        puc.train(params, puc.Dataset(X, y), 2)
        assert xgb.get_config() == before
        puc.cv(params, puc.Dataset(X, y), 2, nfold=2)
        assert xgb.get_config() == before


def test_values_that_xgboost_does_not_take_are_named() -> None:
    """Infinite ones, also once they are in single precision, and numbers that are no categories."""
    X, y = make_table(200)
    booster = puc.train({**XGBOOST.params, "optional": OPTIONAL}, puc.Dataset(X, y), 1)
    for value in (np.inf, -np.inf, 1e39):
        strange = X.copy()
        strange[7, 1] = value
        words = rf"Column 'Column_1' has {value:g} in row 7; XGBoost takes numbers up to 3.4e38".replace("+", r"\+")
        for optional in (OPTIONAL, []):
            with pytest.raises(ValueError, match=words):
                puc.train({**XGBOOST.params, "optional": optional}, puc.Dataset(strange, y), 1)
        with pytest.raises(ValueError, match=words):
            puc.train({**XGBOOST.params, "optional": OPTIONAL}, puc.Dataset(X, y), 1, valid_sets=[(strange, y)])
        with pytest.raises(ValueError, match=words):
            puc.refit(booster, strange, y)
        with pytest.raises(ValueError, match=words.replace(" in row 7", "")):
            puc.predict(booster, strange)
    for value in (-1.0, 2.0**24, np.inf):
        strange = np.column_stack([X, np.arange(200.0) % 3])
        strange[5, 6] = value
        data = puc.Dataset(strange, y, categorical_feature=[6])
        with pytest.raises(ValueError, match=r"'Column_6' has \S+ in row 5; XGBoost takes categories that are whole"):
            puc.train({**XGBOOST.params, "optional": OPTIONAL}, data, 1)


@pytest.mark.parametrize("call", range(4))
@pytest.mark.parametrize("raised", [True, False])
def test_an_interrupt_while_batches_are_read_is_one(call: int, raised: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """C++ stands between: what is no Exception would be lost, and XGBoost go on with a batch that is not there."""
    X, y = make_table(200)
    read, calls = MaskedBatches._next, itertools.count()

    def pressed(self: MaskedBatches, input_data: Any) -> bool:
        if next(calls) == call:
            if raised:
                raise KeyboardInterrupt
            signal.raise_signal(signal.SIGINT)
        return read(self, input_data)

    monkeypatch.setattr(MaskedBatches, "_next", pressed)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        puc.train({**XGBOOST.params, "optional": OPTIONAL}, puc.Dataset(X, y), 1)
    assert signal.getsignal(signal.SIGINT) is before
    puc.train({**XGBOOST.params, "optional": OPTIONAL}, puc.Dataset(X, y), 1)


def test_an_interrupt_between_two_batches_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """In XGBoost's own Python, where it would end the process."""
    X, y = make_table(200)
    wrapped = xgb.DataIter._handle_exception

    def pressed(self: xgb.DataIter, *args: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return wrapped(self, *args)

    monkeypatch.setattr(xgb.DataIter, "_handle_exception", pressed)
    with pytest.raises(KeyboardInterrupt):
        puc.train({**XGBOOST.params, "optional": OPTIONAL}, puc.Dataset(X, y), 1)
