"""The scikit-learn estimators: the library's own checks, and what is pucboost's."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
import xgboost as xgb
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from tools import make_table

import pucboost as puc
from pucboost.demo import insurance_family
from pucboost.simulate import LogisticFamily

ENGINES = ("lightgbm", "xgboost")
SMALL: dict[str, Any] = {"n_estimators": 5, "num_leaves": 7, "n_jobs": 1}
OPTIONAL = [3, 4, 5]
NAMES = ["age", "bmi", "sex", "steps", "pulse", "glucose"]


def classifier(**params: Any) -> puc.PUCClassifier:
    return puc.PUCClassifier(**{**SMALL, "optional": OPTIONAL, **params})


def regressor(**params: Any) -> puc.PUCRegressor:
    return puc.PUCRegressor(**{**SMALL, "optional": OPTIONAL, **params})


def named_table(n: int = 300, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    X, y = make_table(n, seed=seed)
    return pd.DataFrame(X, columns=NAMES), y


# ----- scikit-learn's own checks

_WEIGHTS = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")


def exceptions(model: Any) -> dict[str, str]:
    """A weight of 2 must be the same as two equal rows, to 7 digits."""
    if model.engine == "xgboost" and model.optional is not None:
        return dict.fromkeys(_WEIGHTS, "two equal people have virtual rows and draws of their own, a heavy one has not")
    if model.engine == "xgboost" and is_classifier(model):
        return dict.fromkeys(_WEIGHTS, "XGBoost adds up gradients in float32; the eighth digit differs")
    if "min_child_samples" in model.get_params():  # with the default of 20, no tree grows on the 15 rows of the check
        return dict.fromkeys(_WEIGHTS, "LightGBM's leaves and bins count rows, whatever their weight")
    return {}


@parametrize_with_checks(
    [
        estimator(optional=optional, engine=engine, n_estimators=10, n_jobs=1)
        for estimator in (puc.PUCClassifier, puc.PUCRegressor)
        for engine in ENGINES
        for optional in (None, [1])
    ],
    expected_failed_checks=exceptions,
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@parametrize_with_checks(
    [puc.PUCClassifier(n_estimators=5, n_jobs=1, min_child_samples=5, valid_augmentation="none")],
    expected_failed_checks=exceptions,
)
def test_checks_with_keywords_of_the_engine(estimator: Any, check: Any) -> None:
    check(estimator)


def test_tags() -> None:
    tags = get_tags(classifier())
    assert tags.input_tags.allow_nan
    assert tags.input_tags.sparse
    assert is_classifier(classifier())
    assert is_regressor(regressor())
    assert not get_tags(regressor()).target_tags.positive_only
    assert get_tags(regressor(objective="gamma")).target_tags.positive_only


def test_import_stays_light() -> None:
    code = "import pucboost, sys; assert not {'sklearn', 'lightgbm', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


# ----- the model is that of puc.train


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("augmentation", ["balanced", "exhaustive", "none"])
def test_the_model_is_that_of_train(engine: str, augmentation: str) -> None:
    X, y = make_table(400)
    weight = np.random.default_rng(0).uniform(0.5, 2, 400)
    model = classifier(engine=engine, augmentation=augmentation, copies=3, reg_lambda=2.0, random_state=7)
    model.fit(X, y, sample_weight=weight)
    params = {
        "objective": "binary", "optional": OPTIONAL, "engine": engine, "augmentation": augmentation, "copies": 3,
        "learning_rate": 0.1, "num_leaves": 7, "reg_lambda": 2.0, "seed": 7, "num_threads": 1, "verbosity": -1,
    }  # fmt: skip
    booster = puc.train(params, puc.Dataset(X, y, weight=weight), 5)
    assert np.array_equal(model.predict_proba(X)[:, 1], puc.predict(booster, X))
    assert model.consent_ == booster.consent
    assert model.booster_.puc_summary == booster.puc_summary
    assert type(model.booster_) is (lgb.Booster if engine == "lightgbm" else xgb.Booster)


@pytest.mark.parametrize("optional", [None, [], {}])
def test_nothing_optional_is_plain_training(optional: Any) -> None:
    X, y = make_table(300)
    model = regressor(optional=optional).fit(X, y)
    params = {"learning_rate": 0.1, "num_leaves": 7, "seed": 0, "num_threads": 1, "verbosity": -1}
    assert np.array_equal(model.predict(X), lgb.train(params, lgb.Dataset(X, y), 5).predict(X))
    assert model.consent_.n_groups == 0


@pytest.mark.parametrize(
    ("objective", "further"),
    [
        ("regression", {}), ("poisson", {}), ("gamma", {}), ("tweedie", {"tweedie_variance_power": 1.3}),
        ("quantile", {"alpha": 0.8}), ("regression_l1", {}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("engine", ENGINES)
def test_objectives_of_regressors(objective: str, further: dict[str, Any], engine: str) -> None:
    X, _ = make_table(600)
    y = np.random.default_rng(0).gamma(2.0, np.exp(X[:, 0] / 2)) + 0.01
    model = regressor(objective=objective, engine=engine, n_estimators=30, **further).fit(X, y)
    prediction = model.predict(X)
    assert prediction.dtype == np.float64
    assert np.corrcoef(prediction, y)[0, 1] > 0.3
    if objective == "quantile":
        assert (y <= prediction).mean() == pytest.approx(0.8, abs=0.06)
    elif objective != "regression_l1":
        assert prediction.mean() == pytest.approx(y.mean(), rel=0.1)


def test_a_callable_objective() -> None:
    X, y = make_table(300)
    model = regressor(objective=lambda preds, data: (preds - data.get_label(), np.ones(len(preds)))).fit(X, y)
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.3


@pytest.mark.parametrize("engine", ENGINES)
def test_random_state(engine: str) -> None:
    X, y = make_table(300)

    def fitted(state: Any) -> Any:
        return classifier(engine=engine, random_state=state, feature_fraction=0.5).fit(X, y).predict_proba(X)

    assert np.array_equal(fitted(None), fitted(None))
    assert np.array_equal(fitted(None), fitted(0))
    assert np.array_equal(fitted(np.int64(3)), fitted(3))
    assert not np.array_equal(fitted(3), fitted(4))
    assert np.array_equal(fitted(np.random.RandomState(1)), fitted(np.random.RandomState(1)))
    assert np.array_equal(fitted(np.random.default_rng(1)), fitted(np.random.default_rng(1)))
    state = np.random.RandomState(1)
    assert not np.array_equal(fitted(state), fitted(state))


def test_threads_as_in_joblib() -> None:
    X, y = make_table(300)
    assert np.allclose(
        classifier(n_jobs=-1).fit(X, y).predict_proba(X), classifier(n_jobs=1).fit(X, y).predict_proba(X)
    )


# ----- classes


@pytest.mark.parametrize("engine", ENGINES)
def test_string_classes(engine: str) -> None:
    X, y = make_table(300)
    words = np.where(y == 1, "claim", "none")  # sorted the other way round
    model = classifier(engine=engine).fit(X, words)
    numbers = classifier(engine=engine).fit(X, 1 - y)
    assert model.classes_.tolist() == ["claim", "none"]
    assert np.array_equal(model.predict_proba(X), numbers.predict_proba(X))
    assert set(model.predict(X)) == {"claim", "none"}
    assert model.score(X, words) == numbers.score(X, 1 - y)
    claim = model.predict_proba(X)[:, 0]
    assert claim[y == 1].mean() > claim[y == 0].mean() + 0.05
    for given in (pd.Series(words), pd.Series(words, dtype="category"), pl.Series(words), words.tolist()):
        assert np.array_equal(classifier(engine=engine).fit(X, given).predict(X), model.predict(X))


@pytest.mark.parametrize("engine", ENGINES)
def test_several_classes(engine: str) -> None:
    X, _ = make_table(600)
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])]
    model = classifier(engine=engine, n_estimators=15).fit(X, y)
    p = model.predict_proba(X)
    assert p.shape == (600, 3)
    assert p.dtype == np.float64
    assert np.abs(p.sum(axis=1) - 1).max() < 1e-12
    assert np.array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    assert model.decision_function(X).shape == (600, 3)
    assert model.score(X, y) > 0.8
    assert cross_val_score(model, X, y, cv=2, scoring="neg_log_loss").min() > -1.0
    quotes = model.quote(X[:4], subsets=["nothing", "all"])
    assert quotes.columns.get_level_values("class").tolist() == ["high", "low", "middle"] * 2


@pytest.mark.parametrize("engine", ENGINES)
def test_two_classes_under_a_loss_for_several(engine: str) -> None:
    X, y = make_table(300)
    model = classifier(engine=engine, objective="multiclass").fit(X, y == 1)
    p = model.predict_proba(X)
    assert model.classes_.tolist() == [False, True]
    assert np.allclose(1 / (1 + np.exp(-model.decision_function(X))), p[:, 1], atol=1e-6)


# ----- parameters


def test_parameters_of_the_engine_are_parameters() -> None:
    model = classifier(min_child_samples=7, reg_lambda=0.5)
    assert model.get_params()["min_child_samples"] == 7
    assert model.set_params(reg_lambda=2.0, max_bin=63, num_leaves=5) is model
    assert model.get_params()["min_child_samples"] == 7
    copied = clone(model)
    assert copied is not model
    assert copied.get_params() == model.get_params()
    assert copied.get_params()["max_bin"] == 63
    assert copied.get_params()["num_leaves"] == copied.num_leaves == 5
    assert "reg_lambda=2.0" in repr(model)
    assert "reg_lambda" in model._repr_html_()
    with pytest.raises(ValueError, match="Invalid parameter 'nested' for estimator PUCClassifier"):
        model.set_params(nested__x=1)


def test_clone_keeps_groups_and_does_not_share_engine_parameters() -> None:
    model = classifier(optional={"app": ["steps", "pulse"], "blood": ["glucose"]}, max_bin=63)
    copied = clone(model).set_params(max_bin=15)
    assert model.get_params()["max_bin"] == 63
    assert copied.optional == model.optional


@pytest.mark.parametrize("engine", ENGINES)
def test_grid_search_over_both_kinds_of_parameters(engine: str) -> None:
    X, y = make_table(300)
    grid = {"num_leaves": [3, 7], "reg_lambda": [0.1, 1e6], "augmentation": ["balanced", "exhaustive"]}
    search = GridSearchCV(classifier(engine=engine), grid, cv=2, scoring="neg_log_loss").fit(X, y)
    assert search.best_params_["reg_lambda"] == 0.1
    assert len(set(np.round(search.cv_results_["mean_test_score"], 12))) >= 3
    assert search.best_estimator_.get_params()["reg_lambda"] == 0.1
    assert search.predict_proba(X).shape == (300, 2)


def test_fit_changes_no_parameter() -> None:
    X, y = named_table()
    optional = {"app": ["steps", "pulse"]}
    model = classifier(optional=optional, early_stopping_rounds=2, max_bin=63)
    before = copy.deepcopy(model.get_params())
    model.fit(X, y, eval_set=(X, y), early_stopping_rounds=3)
    assert model.get_params() == before
    assert model.optional is optional


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"reg_lamda": 1.0}, "Invalid parameter 'reg_lamda' for PUCClassifier: .* Did you mean 'reg_lambda'?"),
        ({"qqqqqq": 1.0}, "neither pucboost nor LightGBM knows it.$"),
        ({"eta": 0.3}, "PUCClassifier calls 'eta' 'learning_rate'; give it under that name."),
        ({"num_iterations": 3}, "PUCClassifier calls 'num_iterations' 'n_estimators'"),
        ({"seed": 3}, "PUCClassifier calls 'seed' 'random_state'"),
        ({"engine": "xgboost", "max_leaves": 3}, "PUCClassifier calls 'max_leaves' 'num_leaves'"),
        ({"num_class": 3}, "'num_class' is no parameter of PUCClassifier: the classes are those of y"),
        ({"engine": "catboost"}, "engine must be one of 'lightgbm', 'xgboost'; got 'catboost'"),
        ({"engine": "xgboost", "min_child_samples": 30}, "min_child_samples=30 has no counterpart in XGBoost"),
        ({"augmentation": "all"}, "augmentation must be one of"),
        ({"n_estimators": 0}, "n_estimators must be a whole number of at least 1, got 0"),
        ({"n_estimators": 2.5}, "n_estimators must be a whole number of at least 1, got 2.5"),
        ({"num_leaves": 1}, "num_leaves must be a whole number of at least 2, got 1"),
        ({"learning_rate": -1}, "learning_rate must be a positive number, got -1"),
        ({"early_stopping_rounds": 3}, "early_stopping_rounds needs eval_set"),
        ({"objective": "regression"}, "objective='regression' does not give prob.* PUCClassifier takes 'binary'"),
        ({"objective": len}, "does not give probabilities of classes"),
        ({"random_state": "x"}, "'x' cannot be used to seed a numpy.random.RandomState instance"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_reported_by_fit(params: dict[str, Any], message: str) -> None:
    X, y = make_table(100)
    model = classifier(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_xgboost_reports_what_it_does_not_know() -> None:
    X, y = make_table(100)
    with xgb.config_context(verbosity=1):  # other tests may have left it at 0
        puc.train({"engine": "xgboost", "optional": OPTIONAL, "verbosity": -1, "nthread": 1}, (X, y), 1)
        with pytest.warns(UserWarning, match="reg_lamda"):  # also after XGBoost was told to be quiet
            classifier(engine="xgboost", reg_lamda=1.0).fit(X, y)
        classifier(engine="xgboost", reg_lamda=1.0, verbosity=-1).fit(X, y)  # LightGBM's word for: not even warnings
        assert xgb.get_config()["verbosity"] == 1


def test_parameters_can_be_left_to_the_engine() -> None:
    X, y = make_table(200)
    model = classifier(engine="xgboost", num_leaves=None, learning_rate=None, reg_lambda=None).fit(X, y)
    booster = puc.train(
        {"objective": "binary:logistic", "engine": "xgboost", "optional": OPTIONAL, "nthread": 1}, (X, y), 5
    )
    assert np.array_equal(model.predict_proba(X)[:, 1], puc.predict(booster, X))


def test_categorical_columns_of_an_array() -> None:
    X, y = make_table(300)
    X[:, 0] = np.random.default_rng(0).integers(0, 5, 300)
    for engine in ENGINES:
        for optional in (None, OPTIONAL) if engine == "lightgbm" else (OPTIONAL,):
            model = classifier(optional=optional, engine=engine, categorical_feature=[0]).fit(X, y)
            if engine == "lightgbm":
                assert model.booster_.dump_model()["feature_infos"]["Column_0"]["values"]
            else:
                assert model.booster_.feature_types == ["c", "q", "q", "q", "q", "q"]
            assert model.predict(X).shape == (300,)


def test_an_anchor() -> None:
    X, y = make_table(400)
    legacy = lgb.train({"objective": "binary", "verbosity": -1}, lgb.Dataset(X[:, :3], y), 5)
    model = classifier(anchor=legacy).fit(X, y)
    silent = np.isnan(X[:, 3:]).all(axis=1)
    assert np.array_equal(model.predict_proba(X[silent])[:, 1], legacy.predict(X[silent, :3]))
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.best_iteration_ == 5


# ----- what is optional


@pytest.mark.parametrize("engine", ENGINES)
def test_optional_by_name_position_and_group(engine: str) -> None:
    X, y = named_table()
    by_name = classifier(engine=engine, optional=["steps", "pulse", "glucose"]).fit(X, y)
    assert np.array_equal(by_name.predict_proba(X), classifier(engine=engine).fit(X, y).predict_proba(X))
    assert by_name.feature_names_in_.tolist() == NAMES
    assert by_name.consent_.group_names == ("steps", "pulse", "glucose")
    groups = classifier(engine=engine, optional={"app": ["steps", "pulse"], "blood": "glucose"}).fit(X, y)
    assert groups.consent_.groups == {"app": (3, 4), "blood": (5,)}
    assert groups.quote(X).columns.tolist() == ["nothing", "app", "blood", "app + blood"]


def columns_by_name(output: str, **options: Any) -> Pipeline:
    """A pipeline that reorders, drops and scales columns before the model sees them."""
    select = ColumnTransformer(
        [("scaled", StandardScaler(), ["pulse", "age"]), ("kept", "passthrough", ["glucose", "steps"])], **options
    )
    model = classifier(optional={"app": ["steps", "pulse"], "blood": ["glucose"]})
    return make_pipeline(select, model).set_output(transform=output)


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_optional_names_survive_column_selection(output: str) -> None:
    X, y = named_table()
    pipeline = columns_by_name(output, verbose_feature_names_out=False).fit(X, y)
    consent = pipeline[-1].consent_
    assert consent.feature_names == ("pulse", "age", "glucose", "steps")
    assert consent.groups == {"app": (3, 0), "blood": (2,)}
    assert cross_val_score(pipeline, X, y, cv=2).shape == (2,)
    search = GridSearchCV(pipeline, {"pucclassifier__reg_lambda": [0.0, 1.0]}, cv=2).fit(X, y)
    assert search.best_estimator_[-1].consent_ == consent


def test_names_that_do_not_arrive_are_errors() -> None:
    X, y = named_table()
    with pytest.raises(ValueError, match="optional names column 'steps', but X has no column names"):
        columns_by_name("default").fit(X, y)
    renamed = (
        "optional names column 'steps', which X does not have. Its columns are: scaled__pulse, scaled__age, "
        "kept__glucose, kept__steps. 'kept__steps' may be it: set verbose_feature_names_out=False"
    )
    with pytest.raises(ValueError, match=renamed):
        columns_by_name("pandas").fit(X, y)
    with pytest.raises(
        ValueError, match=r"optional names column 'glucose', which X does not have\. Its columns are: age"
    ):
        classifier(optional=["glucose"]).fit(X.drop(columns="glucose"), y)


@pytest.mark.parametrize(
    ("optional", "message"),
    [
        ([6], r"optional names column 6, but X has 6 feature\(s\), columns 0 to 5"),
        ([-1], r"optional names column -1, but X has 6 feature\(s\)"),
        ({"app": []}, "Group 'app' of optional has no columns"),
        ([3, 3], "declared optional twice"),
        ("steps", "optional must be a list of columns or a dict of groups, got 'steps'"),
        ([2.5], "optional must name columns by string or integer position, got 2.5"),
        (7.5, "optional must be a list of columns or a dict group -> columns, got float"),
    ],
)
def test_wrong_declarations(optional: Any, message: str) -> None:
    X, y = named_table()
    model = classifier(optional=optional)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_integer_labels_that_are_no_positions_are_refused() -> None:
    X, y = make_table(100)
    with pytest.raises(ValueError, match="this may be a label or a position"):
        classifier(optional=[12]).fit(pd.DataFrame(np.c_[X, X], columns=range(10, 22)), y)


def test_every_column_optional_is_allowed_with_a_warning() -> None:
    X, y = make_table(100)
    with pytest.warns(UserWarning, match="Every column is optional"):
        classifier(optional=list(range(6))).fit(X, y)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("missing", [np.nan, None])
def test_an_optional_column_nobody_shares(engine: str, missing: Any) -> None:
    X, y = named_table()
    model = classifier(engine=engine, optional=["steps", "pulse", "glucose"]).fit(X, y)
    silent = X.assign(steps=missing, pulse=missing, glucose=missing)
    withheld = puc.predict(model.booster_, X, sharing="withheld")
    assert np.allclose(model.predict_proba(silent)[:, 1], withheld, rtol=1e-6)
    nobody = classifier(engine=engine, optional=["steps"]).fit(X.assign(steps=np.nan), y)
    assert nobody.predict(X.assign(steps=np.nan)).shape == (300,)


# ----- containers


def rich_table(n: int = 400) -> tuple[pd.DataFrame, Any]:
    """Numbers with NaN, nullable integers, categories and text, some of them optional, and all of some use."""
    X, y = named_table(n)
    rng = np.random.default_rng(5)
    X["visits"] = pd.array(rng.integers(0, 9, n), dtype="Int64")
    X.loc[::7, "visits"] = pd.NA
    X["smoker"] = rng.random(n) < 0.3
    X["region"] = pd.Categorical(rng.choice(["north", "south", "east"], n), categories=["north", "south", "east"])
    X["plan"] = rng.choice(["basic", "full"], n)
    effect = X["region"].map({"north": 2.0, "south": -2.0, "east": 0.0}).astype(float)
    effect += np.where(X["plan"] == "full", 2.0, -2.0)
    y = (effect + X["age"] + rng.normal(size=n) > 0).to_numpy().astype(float)
    X.loc[::3, "plan"] = None
    return X, y


def uses_categories(model: Any) -> bool:
    """Whether a test of category codes tests anything."""
    share = dict(zip(model.feature_names_in_, model.feature_importances_, strict=True))
    return bool(share["region"] > 0.05 and share["plan"] > 0.05)


@pytest.mark.parametrize("optional", [None, {"app": ["steps", "pulse"], "contract": ["plan"]}])
@pytest.mark.parametrize("engine", ENGINES)
def test_dataframes_of_all_kinds(engine: str, optional: Any) -> None:
    X, y = rich_table()
    model = classifier(engine=engine, optional=optional, min_child_weight=0.01).fit(X, y)
    assert uses_categories(model)
    expected = model.predict_proba(X)
    polars = pl.from_pandas(X)
    for table in (polars, polars.to_arrow(), polars.lazy()):
        # How the other containers order categories is their own affair, so trees may round differently.
        assert np.allclose(model.predict_proba(table), expected, atol=1e-12)
        other = classifier(engine=engine, optional=optional, min_child_weight=0.01).fit(table, y, eval_set=(table, y))
        assert np.allclose(other.predict_proba(table), expected, atol=1e-6)
        assert other.feature_names_in_.tolist() == list(X.columns)
    recoded = X.assign(
        region=pd.Categorical(X["region"].astype(str), categories=["west", "east", "south", "north"]),
        plan=X["plan"].astype("category"),
    )
    assert np.array_equal(model.predict_proba(recoded), expected)
    unknown = recoded.assign(region=pd.Categorical(["west"] * len(X), categories=["west"]))
    missing = recoded.assign(region=pd.Categorical([None] * len(X), categories=["north", "south", "east"]))
    assert np.array_equal(model.predict_proba(unknown), model.predict_proba(missing))
    assert not np.array_equal(model.predict_proba(missing), expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_sparse_tables(engine: str) -> None:
    X, y = make_table(300)
    X[np.abs(X) < 0.3] = 0
    dense = classifier(engine=engine).fit(X, y)
    for container in (sp.csr_array, sp.csc_array, sp.csr_matrix):
        model = classifier(engine=engine).fit(container(X), y)
        assert np.array_equal(model.predict_proba(container(X)), dense.predict_proba(X))
        assert np.array_equal(model.predict_proba(X), dense.predict_proba(X))


def test_lists_integers_and_float32() -> None:
    X, y = make_table(100, dtype=np.float32)
    assert np.array_equal(classifier().fit(X, y).predict(X), classifier().fit(X.tolist(), y.tolist()).predict(X))
    counts = np.random.default_rng(0).integers(0, 9, (100, 6))
    assert classifier().fit(counts, y).predict(counts).shape == (100,)


def test_other_columns_than_in_training() -> None:
    X, y = named_table()
    model = classifier().fit(X, y)
    with pytest.raises(ValueError, match="The feature names should match those that were passed during fit"):
        model.predict(X[NAMES[::-1]])
    with pytest.raises(ValueError, match="X has 5 features, but PUCClassifier is expecting 6 features as input"):
        classifier().fit(X.to_numpy(), y).predict(X.to_numpy()[:, :5])
    with pytest.warns(UserWarning, match="X does not have valid feature names, but PUCClassifier was fitted with"):
        given = model.predict_proba(X.to_numpy())
    assert np.array_equal(given, model.predict_proba(X))
    for empty in (X.head(0), pl.from_pandas(X).head(0)):
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\) \(shape=\(0, 6\)\) while a minimum of 1"):
            model.predict(empty)
    with pytest.raises(ValueError, match=r"Found array with 1 sample\(s\) .* while a minimum of 2 is required"):
        classifier().fit(X.head(1), y[:1])
    with pytest.raises(ValueError, match=r"Found array with 0 feature\(s\)"):
        classifier(optional=None).fit(X[[]], y)


def test_a_table_that_cannot_be_read_names_the_column() -> None:
    X, y = named_table()
    with pytest.raises(ValueError, match="'when'"):
        classifier().fit(X.assign(when=pd.Timestamp("2024-01-01")), y)


# ----- weights


def as_arrow(X: Any) -> Any:
    return pl.DataFrame(X).to_arrow()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame, pl.DataFrame, as_arrow, sp.csr_array])
def test_rows_of_weight_0_are_not_there(engine: str, container: Any) -> None:
    X, y = make_table(300)
    y[:3] = 2  # a class that has no weight is not there either
    weight = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    weight[:3] = 0
    model = classifier(engine=engine).fit(container(X), y, sample_weight=weight)
    keep = weight > 0
    expected = classifier(engine=engine).fit(container(X[keep]), y[keep], sample_weight=weight[keep])
    assert model.classes_.tolist() == [0, 1]
    assert np.array_equal(model.predict_proba(container(X)), expected.predict_proba(container(X)))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.zeros(100), "Sample weights must contain at least one non-zero number"),
        (np.full(100, -1.0), "Negative values in data passed to `sample_weight`"),
        (np.ones(99), r"sample_weight.shape == \(99,\), expected \(100,\)"),
        (np.full(100, np.nan), "Input sample_weight contains NaN"),
    ],
)
@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame])
def test_wrong_weights(weight: Any, message: str, container: Any) -> None:
    X, y = make_table(100)
    with pytest.raises(ValueError, match=message):
        classifier().fit(container(X), y, sample_weight=weight)


def test_weights_are_routed() -> None:
    X, y = make_table(300)
    weight = np.random.default_rng(0).uniform(0.1, 2, 300)
    expected = classifier().fit(X, y, sample_weight=weight).predict_proba(X)
    with sklearn.config_context(enable_metadata_routing=True):
        model = classifier().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        pipeline = make_pipeline(FunctionTransformer(), model).fit(X, y, sample_weight=weight)
        assert np.array_equal(pipeline.predict_proba(X), expected)
        search = GridSearchCV(model, {"num_leaves": [7]}, cv=2).fit(X, y, sample_weight=weight)
        assert np.array_equal(search.predict_proba(X), expected)
        ignoring = make_pipeline(FunctionTransformer(), classifier().set_fit_request(sample_weight="other"))
        with pytest.raises(TypeError, match="sample_weight"):
            ignoring.fit(X, y, sample_weight=weight)


# ----- validation


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("optional", [None, OPTIONAL])
def test_early_stopping(engine: str, optional: Any) -> None:
    X, y = make_table(400)
    V, u = make_table(300, seed=1)
    params: dict[str, Any] = {"engine": engine, "optional": optional, "n_estimators": 200, "learning_rate": 0.5}
    model = classifier(**params, early_stopping_rounds=3).fit(X, y, eval_set=[(V, u)])
    assert 1 <= model.best_iteration_ < 100
    ((name, metrics),) = model.evals_result_.items()
    losses = metrics["binary_logloss" if engine == "lightgbm" else "logloss"]
    assert name == "valid_0"
    assert np.argmin(losses) == model.best_iteration_ - 1
    shorter = classifier(**{**params, "n_estimators": model.best_iteration_}).fit(X, y)
    assert np.array_equal(model.predict_proba(X), shorter.predict_proba(X))
    by_fit = classifier(**params, early_stopping_rounds=90).fit(X, y, eval_set=(V, u), early_stopping_rounds=3)
    assert by_fit.best_iteration_ == model.best_iteration_
    assert not hasattr(shorter, "evals_result_")
    assert shorter.best_iteration_ == shorter.n_estimators


@pytest.mark.parametrize("engine", ENGINES)
def test_validation_people_are_augmented_as_in_train(engine: str) -> None:
    X, y = make_table(300)
    V, u = make_table(200, seed=1)
    weight = np.linspace(0.5, 2, 200)
    model = classifier(engine=engine).fit(X, y, eval_set=[(X, y), (V, u)], eval_sample_weight=[None, weight])
    record: dict[str, Any] = {}
    params = {
        "objective": "binary", "engine": engine, "optional": OPTIONAL, "learning_rate": 0.1, "num_leaves": 7, "seed": 0,
        "num_threads": 1, "verbosity": -1,
    }  # fmt: skip
    train_set = puc.Dataset(X, y)
    callbacks = [lgb.record_evaluation(record)] if engine == "lightgbm" else None
    valid_sets = [train_set, puc.Dataset(V, u, weight=weight)]
    booster = puc.train(params, train_set, 5, valid_sets=valid_sets, callbacks=callbacks)
    assert model.evals_result_ == (record or booster.evals_result)
    assert list(model.evals_result_) == ["training", "valid_1"]
    raw = classifier(engine=engine, valid_augmentation="none").fit(X, y, eval_set=(V, u))
    assert raw.evals_result_["valid_0"] != model.evals_result_["valid_1"]


def test_validation_people_have_the_codes_of_training() -> None:
    X, y = rich_table()
    other = X.assign(region=X["region"].cat.reorder_categories(["east", "north", "south"]))
    for engine in ENGINES:
        for optional in (None, ["steps"]):
            model = classifier(engine=engine, optional=optional).fit(X, y, eval_set=[(X.copy(), y), (other, y)])
            assert uses_categories(model)
            first, second = (next(iter(metrics.values())) for metrics in model.evals_result_.values())
            if optional is None:
                assert first == second
            else:  # validation sets of their own have masks of their own, drawn with seeds of their own
                assert first[-1] == pytest.approx(second[-1], rel=0.05)
    with pytest.raises(ValueError, match="Column 'visits' holds text or categories"):
        classifier(optional=["steps"]).fit(X, y, eval_set=(X.assign(visits="many"), y))


def test_labels_of_validation_people() -> None:
    X, y = make_table(200)
    words = np.where(y == 1, "claim", "none")
    model = classifier().fit(X, words, eval_set=(X, words.copy()))
    same = classifier().fit(X, 1 - y, eval_set=(X, 1 - y.copy()))
    assert model.evals_result_ == same.evals_result_
    with pytest.raises(ValueError, match=r"eval_set\[0\]: y contains previously unseen labels"):
        classifier().fit(X, words, eval_set=(X, np.full(200, "other")))


def test_a_pipeline_transforms_validation_people() -> None:
    X, y = make_table(300)
    V, u = make_table(200, seed=1)
    scale = StandardScaler().fit(X)
    expected = classifier(early_stopping_rounds=3, n_estimators=50).fit(
        scale.transform(X), y, eval_set=(scale.transform(V), u)
    )
    with sklearn.config_context(enable_metadata_routing=True):
        model = classifier(early_stopping_rounds=3, n_estimators=50).set_fit_request(eval_X=True, eval_y=True)
        pipeline = Pipeline([("scale", StandardScaler()), ("model", model)], transform_input=["eval_X"])
        pipeline.fit(X, y, eval_X=V, eval_y=u)
    assert pipeline["model"].evals_result_ == expected.evals_result_
    two = classifier().fit(X, y, eval_X=(X, V), eval_y=(y, u), eval_sample_weight=(np.ones(300), np.ones(200)))
    assert list(two.evals_result_) == ["training", "valid_1"]


def test_wrong_validation_people() -> None:
    X, y = make_table(100)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"eval_set": [(X, y, y)]}, r"eval_set must be a pair \(X, y\) or a list of pairs; item 0 is 3 things"),
        ({"eval_set": [X, y]}, "eval_set must be a pair .* item 0 is ndarray"),
        ({"eval_set": [(X[:, :4], y)]}, r"eval_set\[0\]: X has 4 features, but PUCClassifier is expecting 6 features"),
        ({"eval_set": [(X, y), (X, y[:50])]}, r"eval_set\[1\]: Found input variables with inconsistent numbers"),
        ({"eval_set": (X, None)}, r"eval_set\[0\]: This PUCClassifier estimator requires y to be passed"),
        ({"eval_set": (X, y), "eval_X": X}, "Give eval_set, or eval_X and eval_y, but not both"),
        ({"eval_X": X}, "eval_X and eval_y belong together"),
        ({"eval_X": (X, X), "eval_y": y}, "eval_X holds 2 tables, eval_y outcomes for 1"),
        ({"eval_set": (X, y), "eval_sample_weight": [y, y]}, "eval_sample_weight has 2 items for 1 validation sets"),
        ({"eval_set": (X, y), "eval_sample_weight": -np.ones(100)}, r"eval_set\[0\]: Negative values"),
        ({"eval_sample_weight": y}, "eval_sample_weight needs eval_set"),
    ]
    for arguments, message in wrong:
        with pytest.raises(ValueError, match=message):
            classifier().fit(X, y.copy(), **arguments)


def test_callbacks() -> None:
    X, y = make_table(100)
    seen: list[int] = []
    classifier().fit(X, y, callbacks=[lambda env: seen.append(env.iteration)])
    assert seen == list(range(5))


# ----- outcomes


def test_wrong_outcomes() -> None:
    X, y = make_table(100)
    with pytest.raises(ValueError, match=r"Unknown label type: continuous\. Maybe you are trying to fit a classifier"):
        classifier().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="PUCClassifier needs at least 2 classes, but y has one class only"):
        classifier().fit(X, np.ones(100))
    with pytest.raises(ValueError, match="objective='binary' is for two classes, but y has 3"):
        classifier(objective="binary").fit(X, np.arange(100) % 3)
    for X_given in (X, pd.DataFrame(X)):
        with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
            classifier().fit(X_given, None)
        with pytest.raises(ValueError, match="Input y contains NaN"):
            regressor().fit(X_given, np.where(y == 1, np.nan, y))
        with pytest.raises(ValueError, match="Found input variables with inconsistent numbers of samples"):
            regressor().fit(X_given, y[:50])
        with pytest.raises(ValueError, match="y should be a 1d array, got an array of shape"):
            regressor().fit(X_given, np.c_[y, y])
        with pytest.warns(DataConversionWarning, match="A column-vector y was passed when a 1d array was expected"):
            regressor().fit(X_given, y[:, None])
    for engine in ENGINES:
        for optional in (None, OPTIONAL):
            with pytest.raises(ValueError, match=r"y is -1.0 in row 3; objective 'poisson' needs labels"):
                regressor(objective="poisson", engine=engine, optional=optional).fit(
                    X, np.where(np.arange(100) == 3, -1, y)
                )


def test_pandas_outcomes_with_nullable_types() -> None:
    X, y = named_table()
    for dtype in ("Int64", "boolean", "Float64"):
        model = classifier().fit(X, pd.Series(y).astype(dtype))
        assert np.array_equal(model.predict_proba(X), classifier().fit(X, y).predict_proba(X))


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "quote"])
def test_unfitted(method: str) -> None:
    X, y = make_table(100)
    with pytest.raises(NotFittedError, match="This PUCClassifier instance is not fitted yet"):
        getattr(classifier(), method)(X)
    with pytest.raises(NotFittedError):
        classifier().audit(X, y, margin=0.1)
    assert not hasattr(classifier(), "feature_importances_")


def test_a_fit_that_fails_leaves_nothing_fitted() -> None:
    X, y = make_table(100)
    model = classifier().fit(X, y)
    with pytest.raises(ValueError, match="continuous"):
        model.fit(X[:, :5], X[:, 0])
    with pytest.raises(NotFittedError):
        model.predict(X)


# ----- keeping, sharing and explaining models


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("optional", [None, {"app": ["steps", "pulse"], "contract": ["plan"]}])
def test_copies_keep_everything(engine: str, optional: Any, tmp_path: Path) -> None:
    X, y = rich_table()
    model = classifier(engine=engine, optional=optional, reg_lambda=1.0).fit(X, y, eval_set=(X, y))
    assert uses_categories(model)
    joblib.dump(model, tmp_path / "model.joblib")
    for back in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib"), copy.deepcopy(model)):
        assert np.array_equal(back.predict_proba(X), model.predict_proba(X))
        assert back.get_params() == model.get_params()
        assert back.consent_ == model.consent_
        assert back.evals_result_ == model.evals_result_
        assert back.best_iteration_ == model.best_iteration_
        assert np.array_equal(back.feature_importances_, model.feature_importances_)
        if optional is not None:
            pd.testing.assert_frame_equal(back.quote(X), model.quote(X))
            assert back.booster_.puc_summary == model.booster_.puc_summary


@pytest.mark.parametrize("engine", ENGINES)
def test_skops_keeps_everything(engine: str) -> None:
    sio = pytest.importorskip("skops.io")
    X, y = rich_table()
    model = classifier(engine=engine, optional=["steps", "plan"], reg_lambda=1.0).fit(X, y)
    data = sio.dumps(model)
    kinds = sio.get_untrusted_types(data=data)
    assert all(kind.startswith(("pucboost.", "lightgbm.", "xgboost.", "collections.")) for kind in kinds)
    back = sio.loads(data, trusted=kinds)
    assert np.array_equal(back.predict_proba(X), model.predict_proba(X))
    pd.testing.assert_frame_equal(back.quote(X), model.quote(X))


@pytest.mark.parametrize("engine", ENGINES)
def test_many_threads_predict_at_once(engine: str) -> None:
    X, y = rich_table()
    model = classifier(engine=engine, optional=["steps", "plan"]).fit(X, y)
    expected, quotes = model.predict_proba(X), model.quote(X)
    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(model.predict_proba, [X] * 40):
            assert np.array_equal(result, expected)
        for result in pool.map(model.quote, [X] * 16):
            pd.testing.assert_frame_equal(result, quotes)


@pytest.mark.parametrize("engine", ENGINES)
def test_feature_importances(engine: str) -> None:
    X, _ = named_table()
    y = 5 * X["age"] + 0.01 * X["bmi"]
    model = regressor(engine=engine, optional=["glucose"]).fit(X, y)
    assert model.feature_importances_.shape == (6,)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_.argmax() == 0
    selector = SelectFromModel(model, threshold=0.5).set_output(transform="pandas").fit(X, y)
    assert selector.transform(X).columns.tolist() == ["age"]
    constant = regressor(engine=engine, optional=["glucose"]).fit(X, np.ones(300))
    assert constant.feature_importances_.tolist() == [0] * 6


def test_in_a_pipeline_with_other_steps() -> None:
    X, y = rich_table()
    before = ColumnTransformer(
        [
            ("numbers", SimpleImputer(), ["age", "bmi"]),
            ("region", OneHotEncoder(sparse_output=False), ["region"]),
            ("optional", "passthrough", ["steps", "glucose"]),
        ],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = make_pipeline(before, classifier(optional=["steps", "glucose"]))
    probabilities = cross_val_predict(pipeline, X, y, cv=3, method="predict_proba")
    assert probabilities.shape == (400, 2)
    assert ((probabilities[:, 1] > 0.5) == (y == 1)).mean() > 0.6


# ----- quotes and audits


def test_quotes_are_those_of_the_booster() -> None:
    X, y = named_table()
    model = classifier(optional=["steps", "glucose"]).fit(X, np.where(y == 1, "yes", "no"))
    X.index = X.index + 1000
    table = model.quote(X)
    pd.testing.assert_frame_equal(table, puc.quote(model.booster_, X))
    shares_both = X[["steps", "glucose"]].notna().all(axis=1)
    assert np.allclose(table.loc[shares_both, "steps + glucose"], model.predict_proba(X)[shares_both, 1])
    assert table.columns.tolist() == ["nothing", "steps", "glucose", "steps + glucose"]
    assert model.quote(X, subsets=["nothing"], raw_score=True).shape == (300, 1)
    with pytest.raises(ValueError, match="fitted with nothing optional, so there is nothing to quote but predict"):
        classifier(optional=None).fit(X, y).quote(X)


def small_audit(**options: Any) -> dict[str, Any]:
    return {"margin": 0.05, "nuisance": {"num_leaves": 4, "learning_rate": 0.3}, "num_threads": 1, **options}


def test_audit_of_a_classifier() -> None:
    family = LogisticFamily.teaser()
    train, test = family.sample(2000, seed=0), family.sample(2000, seed=1)
    words = {True: "claim", False: "zero"}
    y, u = (np.array([words[bool(one)] for one in sample.y]) for sample in (train, test))
    model = classifier(optional=family.optional, n_estimators=30).fit(train.X, y)
    # classes_[1] is "zero": the booster predicts that nothing is claimed.
    report = model.audit(test.X, u, **small_audit())
    direct = puc.audit(model.booster_, test.X, 1 - test.y, **small_audit())
    pd.testing.assert_frame_equal(report.penalty, direct.penalty)
    assert report.provenance.model_kind == "lightgbm Booster"
    same = model.audit(test.X, u, target_class="zero", **small_audit())
    other = model.audit(test.X, u, target_class="claim", **small_audit(train_data=(train.X, y)))
    assert np.allclose(same.penalty["penalty"], report.penalty["penalty"], equal_nan=True)
    assert np.allclose(other.penalty["penalty"], -report.penalty["penalty"], atol=0.02, equal_nan=True)
    with pytest.raises(ValueError, match="y contains previously unseen labels"):
        model.audit(test.X, test.y, **small_audit())


def test_audit_of_several_classes() -> None:
    family = LogisticFamily.teaser()
    test = family.sample(1500, seed=1)
    y = np.array(["a", "b", "c"])[(test.y + (test.X[:, 0] > 1)).astype(int)]
    model = classifier(optional=family.optional).fit(test.X, y)
    with pytest.raises(ValueError, match=r"has 3 classes\. Say which .* target_class=…, one of 'a', 'b', 'c'"):
        model.audit(test.X, y, **small_audit())
    report = model.audit(test.X, y, target_class="b", **small_audit())
    direct = puc.audit(model.booster_, test.X, (y == "b") * 1 + (y == "c") * 2, target_class=1, **small_audit())
    pd.testing.assert_frame_equal(report.penalty, direct.penalty)


def test_audit_of_plain_models_and_regressors() -> None:
    family = LogisticFamily.teaser()
    test = family.sample(1500, seed=1)
    plain = regressor(optional=None, objective="quantile", alpha=0.7).fit(test.X, test.y + test.X[:, 0])
    with pytest.raises(ValueError, match="it is not known what is optional"):
        plain.audit(test.X, test.y, **small_audit())
    report = plain.audit(test.X, test.y + test.X[:, 0], optional=family.optional, **small_audit())
    assert report.loss == "pinball loss at 0.7"
    protected = regressor(optional=family.optional).fit(test.X, test.y)
    assert protected.audit(test.X, test.y, **small_audit()).loss == "squared error"
    with pytest.raises(ValueError, match="target_class='a': a regressor has no classes"):
        protected.audit(test.X, test.y, target_class="a", **small_audit())


@pytest.mark.parametrize("engine", ENGINES)
def test_silence_is_not_bad_news(engine: str) -> None:
    """The point of it all, through the estimator."""
    family = insurance_family()
    train, test = family.sample(8000, seed=0), family.sample(8000, seed=1)
    silent = ~test.available.any(axis=1)
    justified = family.puc_prediction(test.X)[silent].mean()
    shift = {}
    for augmentation in ("none", "balanced"):
        model = classifier(
            optional=family.optional, engine=engine, augmentation=augmentation, n_estimators=40, num_leaves=15
        )
        shift[augmentation] = model.fit(train.X, train.y).predict_proba(test.X[silent])[:, 1].mean() - justified
    assert abs(shift["balanced"]) < 0.03, shift
    assert shift["none"] > 0.08, shift
