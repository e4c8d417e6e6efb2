"""Wrong input, mistyped keys, and slips that would lose the protection: each is an error that names what is wrong."""

from __future__ import annotations

import copy
import logging
import re
import warnings
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from engine_kits import KITS, LIGHTGBM, NATIVE, OPTIONAL, XGBOOST, EngineKit, every_engine
from tools import QUIET, make_table

import pucboost as puc
from pucboost._models import schema
from pucboost._training import steps

PARAMS: dict[str, Any] = {**QUIET, "objective": "binary", "optional": OPTIONAL}


def small() -> tuple[Any, Any]:
    return make_table(60)


BAD_PARAMS: list[tuple[dict[str, Any], str]] = [
    ({"optional": ["glucose"]}, "optional names column 'glucose', but the table has no column names"),
    ({"optional": 3}, r"got 3; write \[3\]"),
    ({"optional": {"a": []}}, "Group 'a' of optional has no columns"),
    ({"copies": 0.5}, "copies must be finite and at least 1"),
    ({"copies": float("nan")}, "copies must be finite"),
    ({"copies": "two"}, "copies must be a number of at least 1"),
    ({"copies": True}, "copies must be a number"),
    (
        {"augmentation": "balance"},
        "augmentation must be one of 'none', 'exhaustive', 'fixed', 'balanced'; got 'balance'",
    ),
    ({"valid_augmentation": "raw"}, "valid_augmentation must be one of"),
    ({"max_virtual_rows": 0}, "max_virtual_rows must be a whole number of at least 1, got 0"),
    ({"max_virtual_rows": 10.5}, "max_virtual_rows must be a whole number"),
    ({"max_virtual_rows": 20}, "The table has [46][08] rows, more than max_virtual_rows = 20"),
    ({"augmentation": "exhaustive", "max_virtual_rows": 70}, "augmentation='exhaustive' makes .* more than max_virtu"),
    ({"engine": "forest"}, f"engine must be one of {', '.join(repr(kit.name) for kit in KITS)}, 'auto'; got 'forest'"),
    ({"metric": ["auc", "ndcg@3"]}, "metric='ndcg@3' needs queries"),
    ({"compact": 3}, "compact must be True, False or 'auto'"),
    ({"num_iterations": float("inf")}, "num_iterations.* a whole number, got inf"),
    ({"seed": "seven"}, "seed must be a whole number, got 'seven'"),
    ({"seed": 2.7}, "seed must be a whole number, got 2.7"),
]


@every_engine
def test_bad_params(kit: EngineKit) -> None:
    for function in (puc.train, puc.cv):
        for params, message in BAD_PARAMS:
            data, given = lgb.Dataset(*small()), {**kit.params, "optional": OPTIONAL, **params}
            before = copy.deepcopy(given)
            with pytest.raises(ValueError, match=message):
                function(given, data, 2)
            assert given == before
            assert data._handle is None


def test_parameters_under_other_names_and_on_the_dataset() -> None:
    for function in (puc.train, puc.cv):
        with pytest.raises(ValueError, match="linear_tree with optional features"):
            function({**PARAMS, "linear_trees": "true"}, lgb.Dataset(*small()), 2)
        for params in ({"use_missing": False}, {"linear_tree": True}):
            with pytest.raises(ValueError, match=next(iter(params))):
                function(PARAMS, lgb.Dataset(*small(), params=params), 2)


def with_value(vector: Any, row: int, value: float) -> Any:
    out = np.array(vector, dtype=float)
    out[row] = value
    return out


@every_engine
def test_bad_datasets(kit: EngineKit) -> None:
    X, y = small()

    def wrong(vector: Any = y, **given: Any) -> Any:
        return puc.Dataset(X, vector, **{"optional": OPTIONAL, **given})

    for data, message in [
        (wrong(y[:-1]), r"label of train_set must have one value for each of the 60 rows, got shape \(59,\)"),
        (wrong(None), "train_set has no label"),
        (wrong(with_value(y, 7, np.nan)), r"label of train_set is nan in row 7 \(1 such rows\)"),
        (wrong(with_value(y, 7, np.inf)), "label of train_set is inf in row 7"),
        (wrong(["a"] * 60), "label of train_set must be numeric"),
        (wrong(weight=y[:5]), "weight of train_set must have one value for each of the 60 rows"),
        (wrong(weight=with_value(y, 3, -1)), "weight of train_set is -1.0 in row 3"),
        (wrong(weight=with_value(y, 3, np.nan)), "weight of train_set is nan in row 3"),
        (wrong(init_score=y[:7]), "init_score of train_set must have one value per row and class"),
        (wrong().construct(), "train_set is already constructed and its raw data are gone"),
        (lgb.Dataset("table.csv"), "text or binary file"),
        (wrong(feature_name=["a", "b"]), "6 columns, but feature_name lists 2 names"),
        (lgb.Dataset(X[:0], y[:0]), "no rows"),
        (wrong(available=np.ones((60, 2), bool)), "available must have one row per row"),
        (wrong(available=np.zeros((60, 3), bool)), "available says that row"),
        (wrong(position=[0] * 60), "train_set has positions"),
    ]:
        with pytest.raises(ValueError, match=message):
            puc.train({**kit.params, "optional": OPTIONAL}, data, 2)
    for objective, label in [("poisson", -1.0), ("binary", 2.0), ("multiclass", 7.0), ("gamma", 0.0)]:
        params = {"num_class": 3} if objective == "multiclass" else {}
        with pytest.raises(ValueError, match=f"label of train_set is {label} in row 4"):
            kit.fit(X, with_value(np.ones(60), 4, label), 2, objective=kit.objectives[objective], **params)


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


# ----- mistyped keys


X, y = make_table(200)


@every_engine
def test_mistyped_keys_of_ours_are_errors_with_a_suggestion(kit: EngineKit) -> None:
    """Also where nothing else is declared, and where the engine is quiet."""
    for key, meant in (
        ("optionals", "optional"),
        ("optional_columns", "optional"),
        ("copys", "copies"),
        ("avaliable", "available"),
        ("enigne", "engine"),
    ):
        message = f"Unknown parameter {key!r}: neither pucboost nor {kit.title} knows it. Did you mean {meant!r}?"
        for params in ({**kit.params, key: OPTIONAL}, {**kit.params, "optional": OPTIONAL, key: 2}):
            for run in (puc.train, puc.cv):
                with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
                    run(params, puc.Dataset(X, y), 2)
    model = puc.PUCClassifier(engine=kit.name, optional=OPTIONAL, copys=2)
    with pytest.raises(ValueError, match=f"'copys': neither pucboost nor {kit.title} knows it. Did you mean 'copies'"):
        model.fit(X, y)


@every_engine
def test_keys_nobody_knows_are_warned_of_once(kit: EngineKit) -> None:
    """As LightGBM does, and the model is the same; with a suggestion where there is one."""

    def said(key: str, run: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run({**kit.params, key: 2})
        found = f"Unknown parameter {key!r}: neither pucboost nor {kit.title} knows it, so it has no effect."
        # XGBoost warns, too.
        told = [(one.filename, str(one.message)) for one in caught if "neither" in str(one.message)]
        assert [file for file, _ in told] == [__file__]
        assert told[0][1].startswith(found)
        return told[0][1].removeprefix(found)

    for declared in ({}, {"optional": OPTIONAL}):
        assert said("blorb", lambda params, more=declared: puc.train({**params, **more}, (X, y), 2)) == ""
        hint = said("learning_rat", lambda params, more=declared: puc.cv({**params, **more}, (X, y), 2))
        assert hint == " Did you mean 'learning_rate'?"
        options = {"engine": kit.name, "n_jobs": 1, "n_estimators": 2, **declared}
        said("max_bins_", lambda params, more=options: puc.PUCClassifier(max_bins_=7, **more).fit(X, y))
    of_data = puc.Dataset(X, y, params={"max_bins_": 7})
    with pytest.warns(UserWarning, match=r"Unknown parameter 'max_bins_': .* Did you mean 'max_bins'"):
        booster = puc.train({**kit.params, "optional": OPTIONAL}, of_data, 2)
    alike = puc.train({**kit.params, "optional": OPTIONAL}, (X, y), 2)
    assert np.array_equal(puc.predict(booster, X), puc.predict(alike, X))


def test_names_of_xgboost_are_told() -> None:
    with pytest.warns(UserWarning, match=r"'eval_metric': .* It is XGBoost's \('engine': 'xgboost'\)"):
        puc.train({**PARAMS, "eval_metric": "auc"}, puc.Dataset(X, y), 2)


@every_engine
def test_names_that_differ_in_case(kit: EngineKit) -> None:
    frame = pd.DataFrame(X, columns=["age", "sex", "bmi", "steps", "pulse", "glucose"])
    with pytest.raises(ValueError, match=r"column 'Glucose', which the table does not have. Did you mean 'glucose'\?"):
        puc.train({**kit.params, "optional": ["Glucose"]}, puc.Dataset(frame, y), 2)
    for name, message in (
        ("class_weight", "Give weight to the Dataset, or class_weight to PUCClassifier"),
        ("exposure", "Give exposure to puc.Dataset, or to fit of PUCRegressor"),
        ("available", "Give available to puc.Dataset"),
    ):
        with pytest.raises(ValueError, match=f"Unknown parameter '{name}': .* {message}"):
            puc.train({**kit.params, "optional": ["glucose"], name: "balanced"}, puc.Dataset(frame, y), 2)
    with pytest.raises(ValueError, match="Unknown parameter 'class_weight'"):  # a regressor has no classes
        puc.PUCRegressor(engine=kit.name, optional=["glucose"], class_weight="balanced").fit(frame, y)


def test_a_table_in_place_of_a_model(tmp_path: Path) -> None:
    pd.DataFrame(X).to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(ValueError, match=r"is a table file, not a model file. Were the two swapped"):
        puc.load_model(tmp_path / "people.csv")


def test_mistyped_arguments_of_a_dataset() -> None:
    with pytest.raises(TypeError, match=r"Dataset\(\) got an unexpected keyword argument 'optionals'.*'optional'\?"):
        puc.Dataset(X, y, optionals=OPTIONAL)


def test_aliases_of_the_engines_pass() -> None:
    known = {"verbose": -1, "sub_feature": 0.9, "min_data": 5, "num_thread": 1, "objective": "binary"}
    puc.train({**known, "optional": OPTIONAL}, lgb.Dataset(X, y), 2)
    own = {"verbosity": 0, "colsample_bylevel": 0.5, "sampling_method": "uniform", "nthread": 1, "engine": "xgboost"}
    puc.train({**own, "optional": OPTIONAL}, (X, y), 2)


@every_engine
def test_nothing_optional_is_said_once(kit: EngineKit, caplog: Any) -> None:
    schema.log_unprotected.cache_clear()
    with caplog.at_level(logging.WARNING, logger="pucboost"):
        for _ in range(2):
            booster = puc.train(dict(kit.params), puc.Dataset(X, y), 2)
            assert booster.consent is None
            assert booster.puc_summary is None
            assert puc.consent_of(booster) is None
    told = [record.getMessage() for record in caplog.records if record.name == "pucboost" and record.levelno >= 30]
    assert told == [f"nothing is declared optional, so this is plain {kit.title}: nobody's silence is protected"]
    assert np.isfinite(kit.predict(booster, X)).all()


# ----- slips by which people lose the protection, or a model


def test_lightgbm_itself_trains_on_a_dataset_with_optional_columns() -> None:
    """The likeliest slip of all: lgb.train where puc.train was meant."""
    X, y = make_table(200)
    for train in (lgb.train, lambda params, data, rounds: lgb.cv(params, data, rounds, nfold=2, stratified=False)):
        with pytest.warns(puc.warnings.ProtectionLostWarning, match="LightGBM itself trains on this Dataset") as caught:
            train(QUIET, puc.Dataset(X, y, optional=OPTIONAL), 2)
        assert [one.filename for one in caught] == [__file__]
    lgb.train(QUIET, puc.Dataset(X, y), 2)  # nothing optional, nothing lost
    data = puc.Dataset(X, y, optional=OPTIONAL, free_raw_data=False)
    data.construct()  # by the user, who may still hand it to puc.train
    assert puc.train(QUIET, data, 2).consent is not None


@pytest.mark.parametrize("engine", ["lightgbm", "native"])
def test_a_model_that_lightgbm_itself_continues_is_not_protected(engine: str) -> None:
    """Its trees are grown on rows as they are, and nothing warns; but it no longer passes for a protected model."""
    X, y = make_table(200)
    params = {**QUIET, "objective": "binary"}
    protected = puc.train({**params, "engine": engine, "optional": OPTIONAL}, puc.Dataset(X, y), 2)
    estimator = lgb.LGBMClassifier(n_estimators=1, n_jobs=1, verbosity=-1)
    for more in (
        lgb.train(params, lgb.Dataset(X, y), 1, init_model=protected),
        estimator.fit(X, y, init_model=protected).booster_,
    ):
        assert more.num_trees() == 3
        assert puc.consent_of(more) is None
        with pytest.raises(ValueError, match="has no consent schema"):
            puc.predict(more, X)
    for again in ("lightgbm", "native"):
        model = puc.train({**params, "engine": again, "optional": OPTIONAL}, puc.Dataset(X, y), 1, init_model=protected)
        assert model.num_trees() == 3
        assert model.consent == protected.consent
    with pytest.raises(TypeError, match=r"booster\.update has no data"):
        protected.update()


@every_engine
def test_a_model_that_cannot_be_continued_is_not_ignored(kit: EngineKit) -> None:
    X, y = make_table(200)
    params = {**kit.params, "optional": OPTIONAL}
    estimator = puc.PUCClassifier(optional=OPTIONAL, engine=kit.name, n_estimators=3, n_jobs=1).fit(X, y)
    other = LIGHTGBM if kit is XGBOOST else XGBOOST
    of_another_engine = puc.train({**other.params, "optional": OPTIONAL}, puc.Dataset(X, y), 2)
    anchored = puc.train({**params, "anchor": "base"}, puc.Dataset(X, y), 2)
    for init_model, words in (
        (estimator, "got 'PUCClassifier'. Pass its booster_."),
        (anchored, "got 'AnchoredModel'."),
        (of_another_engine, "got 'Booster'."),
        (7, "got 'int'."),
    ):
        with pytest.raises(TypeError, match=rf"init_model must be a booster of [\w ]+ or a model file, {words}"):
            puc.train(params, puc.Dataset(X, y), 2, init_model=init_model)
    objective = {"objective": kit.objectives["binary"]} if "binary" in kit.objectives else {}
    continued = puc.train({**params, **objective}, puc.Dataset(X, y), 2, init_model=estimator.booster_)
    assert continued.consent == estimator.consent_


def rates(kit: EngineKit, exposure: Any) -> Any:
    X, _ = make_table(400)
    params = {**kit.params, "objective": "poisson", "optional": OPTIONAL}
    claims = np.random.default_rng(0).poisson(2 * np.linspace(0.5, 2, 400)).astype(float)
    return params, X, claims, puc.train(params, puc.Dataset(X, claims, exposure=exposure), 10)


@every_engine
def test_an_exposure_is_not_forgotten_later(kit: EngineKit) -> None:
    """Refitted or continued without its exposure, a model of rates would become one of totals."""
    years = np.linspace(0.5, 2, 400)
    params, X, claims, model = rates(kit, years)
    with pytest.raises(ValueError, match="the booster has an exposure, but this refit has none"):
        puc.refit(model, X, claims)
    again = puc.refit(model, X, claims, exposure=years)
    assert again.puc_summary.per_exposure
    assert puc.predict(again, X).mean() == pytest.approx(2, rel=0.1)
    with pytest.raises(ValueError, match="init_model has an exposure, but train_set has none"):
        puc.train(params, puc.Dataset(X, claims), 2, init_model=model)
    more = puc.train(params, puc.Dataset(X, claims, exposure=years), 2, init_model=model)
    assert more.puc_summary.per_exposure
    _, _, _, totals = rates(kit, None)
    with pytest.raises(ValueError, match="this refit has an exposure, but the booster has none"):
        puc.refit(totals, X, claims, exposure=years)
    with pytest.raises(ValueError, match="train_set has an exposure, but init_model has none"):
        puc.train(params, puc.Dataset(X, claims, exposure=years), 2, init_model=totals)


def test_own_keys_among_the_parameters_of_a_dataset() -> None:
    X, y = make_table(100)
    with pytest.raises(ValueError, match="'optional' is a parameter of train and cv; a Dataset takes optional as an"):
        puc.train(QUIET, lgb.Dataset(X, y, params={"optional": OPTIONAL}), 2)


def test_text_columns_with_nothing_optional() -> None:
    """LightGBM alone does not read them."""
    X = pd.DataFrame({"age": np.arange(40.0), "job": ["clerk", "smith"] * 20})
    for call in (puc.train, puc.cv):
        for data in (lgb.Dataset(X, X["age"]), puc.Dataset(X, X["age"])):
            with pytest.raises(ValueError, match=r"it reads no text \(job: \w+\)\. Name what people may withhold"):
                call({"verbosity": -1}, data, 2)


# ----- one label that decides for everybody


@every_engine
def test_one_label_that_has_most_of_the_gradient(kit: EngineKit) -> None:
    """Whatever the engine, everybody is then told something else; in a loss of bounded gradients nobody is."""
    X, _ = make_table(1_000)
    label = np.random.default_rng(0).poisson(1.0, 1_000).astype(float)
    label[17] = 1e4
    message = "One of 1,000 labels decides what everybody is told: label of train_set is 10,000 in row 17, while .*"
    for name in ("l2", "poisson", "tweedie"):
        params = {**kit.params, **kit.tiny_trees, "objective": kit.objectives[name], "optional": OPTIONAL}
        with pytest.warns(UserWarning, match=f"{message} has 9[0-9]% of the gradient"):
            puc.train(params, puc.Dataset(X, label), 1)
    with pytest.warns(UserWarning, match="has 9[0-9]% of the gradient"):
        puc.cv(params, puc.Dataset(X, label), 1, nfold=2, stratified=False)
    quiet = [
        {"label": label, "weight": np.where(np.arange(1_000) == 17, 1e-4, 1.0)},
        {"label": np.where(label > 1e3, 100.0, label)},
        {"label": (np.arange(1_000) == 17).astype(float)},  # all others are equal: nothing else to learn from
        {"label": label, "init_score": np.full(1_000, 0.1)},
    ]
    for given in quiet:
        puc.train(params, puc.Dataset(X, **given), 1)
    alpha = {"quantile_alpha": 0.5} if kit is XGBOOST else {}
    puc.train({**params, "objective": kit.objectives["quantile"], **alpha}, puc.Dataset(X, label), 1)
    rates = {"label": 1.0 + label, "exposure": 1.0 + label}
    puc.train(params, puc.Dataset(X, **rates), 1)


@pytest.mark.parametrize("kit", [LIGHTGBM, NATIVE], ids=str)
def test_amounts_that_run_off_to_infinity(kit: EngineKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 0 one step for a label of 1,000 leads to e^498. XGBoost limits Poisson's steps."""
    X, y = make_table(300)
    amounts = np.where(X[:, 0] > 1, 1_000.0, 1.0) + y
    params = {**kit.params, "optional": OPTIONAL, "objective": "poisson", "learning_rate": 1.0, "seed": 1}
    words = r"objective 'poisson' has run off: some people would be told e\^\d{3,4}, while the mean label is 1\d\d\."
    with pytest.raises(ValueError, match=words):
        puc.train({**params, "boost_from_average": False}, puc.Dataset(X, amounts), 1)
    data = puc.Dataset(X, amounts, init_score=np.full(300, -1.0))
    with pytest.raises(ValueError, match=words):
        puc.train(params, data, 1)
    # The largest leaves of all trees add up to more than anybody has.
    monkeypatch.setattr(steps, "LARGEST_SCORE", 8.0)
    booster = puc.train({**params, "learning_rate": 0.5}, puc.Dataset(X, amounts), 60)
    assert puc.predict(booster, X, raw_score=True).max() < 8.0
