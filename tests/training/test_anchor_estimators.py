"""Anchors that people have: fitted estimators, pipelines, GLMs of glum and statsmodels."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from engine_kits import LIGHTGBM, XGBOOST, EngineKit, every_engine
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    RidgeClassifier,
    TweedieRegressor,
)
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import pucboost as puc

N = 1_200
RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {
        "steps": RNG.normal(size=N),
        "age": RNG.normal(size=N),
        "region": RNG.choice(["north", "south", "west"], N),
        "bmi": RNG.normal(size=N),
        "pulse": RNG.normal(size=N),
    }
)
RISK = 0.6 * PEOPLE["age"] + 0.8 * PEOPLE["steps"].fillna(0) - 0.5 * (PEOPLE["region"] == "north") - 0.3
CLAIM = (RNG.random(N) < 1 / (1 + np.exp(-RISK))).astype(int).to_numpy()
COUNT = RNG.poisson(np.exp(RISK)).astype(float)
AMOUNT = (np.exp(RISK) * RNG.gamma(3.0, 1 / 3, N) + 1e-3).to_numpy()
KIND = (CLAIM + (PEOPLE["bmi"] > 0.5)).to_numpy()
PEOPLE.loc[RNG.random(N) < 0.4, "steps"] = np.nan
PEOPLE.loc[RNG.random(N) < 0.4, "pulse"] = np.nan
OPTIONAL = ["steps", "pulse"]
SILENT = PEOPLE[OPTIONAL].isna().all(axis=1).to_numpy()
BASE = ["bmi", "region", "age"]
"""The columns of the legacy model, in an order of its own."""
NUMBERS = PEOPLE[["age", "bmi", "steps", "pulse"]].to_numpy()
"""The numbers as an array: two base columns, then two optional ones."""


def pipeline(model: Any, scaled: tuple[str, ...] = ("bmi", "age")) -> Pipeline:
    encode = make_column_transformer((OneHotEncoder(), ["region"]), (StandardScaler(), list(scaled)))
    return make_pipeline(encode, model)


def settings(kit: EngineKit, loss: str = "binary", **more: Any) -> dict[str, Any]:
    return {**kit.params, **kit.small_trees, "objective": kit.objectives[loss], "optional": OPTIONAL, **more}


def fit(anchor: Any, y: Any, loss: str = "binary", kit: EngineKit = LIGHTGBM, table: Any = PEOPLE, **more: Any) -> Any:
    return puc.train(settings(kit, loss, anchor=anchor, **more), puc.Dataset(table, y), 5)


@cache
def legacy() -> Pipeline:
    return pipeline(LogisticRegression()).fit(PEOPLE[BASE], CLAIM)


# ---------------------------------------------------------------- every loss: bit for bit, and the right raw score

LOSSES: dict[str, tuple[Any, Any, str, Any]] = {
    "binary": (LogisticRegression(), CLAIM, "predict_proba", lambda p: np.log(p / (1 - p))),
    "multiclass": (LogisticRegression(), KIND, "predict_proba", np.log),
    "poisson": (PoissonRegressor(), COUNT, "predict", np.log),
    "gamma": (GammaRegressor(), AMOUNT, "predict", np.log),
    "tweedie": (TweedieRegressor(power=1.5, link="log"), AMOUNT, "predict", np.log),
    "l2": (LinearRegression(), AMOUNT, "predict", lambda p: p),
    "quantile": (QuantileRegressor(quantile=0.9, alpha=0.0), AMOUNT, "predict", lambda p: p),
}


@every_engine
def test_silent_people_keep_the_estimators_own_prediction(kit: EngineKit) -> None:
    more = {"multiclass": {"num_class": 3}, "quantile": {"quantile_alpha" if kit is XGBOOST else "alpha": 0.9}}
    for loss, (unfitted, y, method, link) in LOSSES.items():
        anchor = pipeline(clone(unfitted)).fit(PEOPLE[BASE], y)
        model = fit(anchor, y, loss, kit, **more.get(loss, {}))
        assert isinstance(model, puc.typing.AnchoredModel)
        before = getattr(anchor, method)(PEOPLE[BASE])
        told = before[:, 1] if loss == "binary" else before
        for after in (model.predict(PEOPLE), puc.predict(model, PEOPLE)):
            np.testing.assert_array_equal(after[SILENT], told[SILENT])
            assert np.abs(after - told)[~SILENT].mean() > 1e-3
        np.testing.assert_array_equal(puc.predict(model, PEOPLE, sharing="withheld"), told)
        raw = model.predict(PEOPLE, raw_score=True)
        np.testing.assert_allclose(raw[SILENT], link(told[SILENT]), rtol=1e-9)
        # XGBoost's scores are float32.
        np.testing.assert_allclose(model.objective.response(raw), model.predict(PEOPLE), rtol=1e-5)


@every_engine
def test_trees_are_fitted_to_what_the_anchor_leaves(kit: EngineKit) -> None:
    """As from a callable that returns the same raw scores: the trees are the same, bit for bit."""
    p = legacy().predict_proba(PEOPLE[BASE])[:, 1]
    score = np.log(p) - np.log1p(-p)
    kept = fit(legacy(), CLAIM, kit=kit), fit(lambda X: score, CLAIM, kit=kit)
    assert kit.trees(kept[0].booster) == kit.trees(kept[1].booster)


# ---------------------------------------------------------------- tables


def test_containers() -> None:
    polars = pl.from_pandas(PEOPLE)
    for own in (PEOPLE[BASE], polars[BASE]):
        anchor = pipeline(LogisticRegression()).fit(own, CLAIM)
        before = anchor.predict_proba(own)[:, 1]
        for table in (PEOPLE, polars, polars.lazy(), pa.Table.from_pandas(PEOPLE)):
            model = fit(anchor, CLAIM, table=table)
            for told in (model.predict(table), puc.predict(model, table), model.predict(PEOPLE)):
                np.testing.assert_array_equal(told[SILENT], before[SILENT])


def test_a_step_that_knows_one_kind_of_table_gets_that_kind() -> None:
    of_polars = make_pipeline(
        FunctionTransformer(lambda frame: frame.select(pl.col("age"), pl.col("bmi") * 2).to_numpy()),
        LogisticRegression(),
    ).fit(pl.from_pandas(PEOPLE[BASE]), CLAIM)
    of_pandas = make_pipeline(
        FunctionTransformer(lambda frame: frame.loc[:, ["age"]].assign(north=frame["region"].eq("north")).to_numpy()),
        LogisticRegression(),
    ).fit(PEOPLE[BASE], CLAIM)
    for anchor, own in ((of_polars, pl.from_pandas(PEOPLE[BASE])), (of_pandas, PEOPLE[BASE])):
        for given in (PEOPLE, pl.from_pandas(PEOPLE)):
            model = fit(anchor, CLAIM, table=given)
            np.testing.assert_array_equal(model.predict(given)[SILENT], anchor.predict_proba(own)[SILENT, 1])


def test_arrays_without_names() -> None:
    table = np.where(np.abs(NUMBERS) < 0.2, 0.0, NUMBERS)
    anchor = LogisticRegression().fit(table[:, :2], CLAIM)
    for given, own in (
        (table, table[:, :2]),
        (scipy.sparse.csr_matrix(table), scipy.sparse.csr_matrix(table)[:, :2]),
        (table.tolist(), table[:, :2].tolist()),
    ):
        model = puc.train(settings(LIGHTGBM, anchor=anchor, optional=[2, 3]), puc.Dataset(given, CLAIM), 5)
        np.testing.assert_array_equal(model.predict(given)[SILENT], anchor.predict_proba(own)[SILENT, 1])
    assert repr(model.anchor) == "<anchor: LogisticRegression; log-odds of predict_proba, columns Column_0, Column_1>"


def test_last_bits_of_many_columns() -> None:
    """They depend on how an array lies in memory, which must be as in a slice of the caller's."""
    table = np.random.default_rng(1).normal(size=(N, 7))
    table[::2, 6] = np.nan
    anchor = LogisticRegression().fit(table[:, :6], CLAIM)
    before = anchor.predict_proba(table[:, :6])[:, 1]
    model = fit(anchor, CLAIM, table=table, optional=[6])
    np.testing.assert_array_equal(model.predict(table)[::2], before[::2])


def test_array_with_names_and_base_columns_apart() -> None:
    names = ["age", "steps", "bmi", "pulse"]
    table = PEOPLE[names].to_numpy()
    for anchor in (
        LogisticRegression().fit(table[:, [0, 2]], CLAIM),
        LogisticRegression().fit(PEOPLE[["age", "bmi"]], CLAIM),
    ):
        model = puc.train(settings(LIGHTGBM, anchor=anchor), puc.Dataset(table, CLAIM, feature_name=names), 5)
        own = PEOPLE[["age", "bmi"]] if hasattr(anchor, "feature_names_in_") else table[:, [0, 2]]
        np.testing.assert_array_equal(model.predict(table)[SILENT], anchor.predict_proba(own)[SILENT, 1])


def test_categories_as_codes_are_read_as_categories() -> None:
    """A subset of a Dataset has no container, so the anchor is asked about what its codes stand for."""
    whole = puc.Dataset(PEOPLE, CLAIM, optional=OPTIONAL, free_raw_data=False)
    rows = np.arange(0, N, 2)
    model = puc.train({**LIGHTGBM.params, "anchor": legacy()}, whole.subset(rows.tolist()), 5)
    before = legacy().predict_proba(PEOPLE[BASE])[:, 1]
    np.testing.assert_array_equal(model.predict(PEOPLE)[SILENT], before[SILENT])
    codes = PEOPLE.assign(region=PEOPLE["region"].map({"north": 0, "south": 1, "west": 2})).to_numpy(dtype=float)
    np.testing.assert_array_equal(model.predict(codes)[SILENT], before[SILENT])


def test_float32_columns_keep_their_type() -> None:
    """A scaler of float32 columns computes in float32; the numbers of the whole table are float64."""
    people = PEOPLE.astype({"age": np.float32, "bmi": np.float32})
    anchor = make_pipeline(StandardScaler(), LogisticRegression()).fit(people[["age", "bmi"]], CLAIM)
    before = anchor.predict_proba(people[["age", "bmi"]])[:, 1]
    model = fit(anchor, CLAIM, table=people)
    np.testing.assert_array_equal(puc.quote(model, people)["nothing"], before)
    fitted = puc.PUCClassifier(optional=OPTIONAL, n_estimators=3, anchor=anchor).fit(people, CLAIM)
    np.testing.assert_array_equal(fitted.predict_proba(people)[SILENT, 1], before[SILENT])
    np.testing.assert_array_equal(fitted.quote(people)["nothing"], before)


def test_tables_are_left_alone() -> None:
    """Even by steps that write into what they get."""
    for table, own in ((NUMBERS, NUMBERS[:, :2]), (PEOPLE, PEOPLE[["age", "bmi"]])):
        anchor = make_pipeline(StandardScaler(copy=False), LogisticRegression()).fit(own.copy(), CLAIM)
        before = table.copy()
        names = {"optional": [2, 3]} if table is NUMBERS else {}
        model = fit(anchor, CLAIM, table=table, **names)
        told = model.predict(table)
        pd.testing.assert_frame_equal(pd.DataFrame(table), pd.DataFrame(before))
        # The last bits of products depend on the order in memory, which a copy of an array changes.
        kept = own.copy(order="K") if table is NUMBERS else own.copy()
        np.testing.assert_array_equal(told[SILENT], anchor.predict_proba(kept)[SILENT, 1])


def test_columns_that_the_estimator_drops_do_not_matter() -> None:
    anchor = pipeline(LogisticRegression()).fit(PEOPLE.assign(id=range(N)), CLAIM)
    assert {"steps", "id"} <= set(anchor.feature_names_in_)
    model = fit(anchor, CLAIM)
    np.testing.assert_array_equal(model.predict(PEOPLE)[SILENT], anchor.predict_proba(PEOPLE.assign(id=0))[SILENT, 1])


def test_missing_values_in_base_columns() -> None:
    people = PEOPLE.copy()
    people.loc[7, "bmi"] = np.nan
    with pytest.raises(ValueError, match="cannot take missing values, and the base column 'bmi' has one in row 7"):
        fit(legacy(), CLAIM, table=people)
    imputing = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["region"]), (SimpleImputer(), ["bmi", "age"])), LogisticRegression()
    ).fit(people[BASE], CLAIM)
    model = fit(imputing, CLAIM, table=people)
    np.testing.assert_array_equal(model.predict(people)[SILENT], imputing.predict_proba(people[BASE])[SILENT, 1])
    # Those who predict also hear of it.
    with pytest.raises(ValueError, match="the base column 'bmi' has one in row 7"):
        fit(legacy(), CLAIM).predict(people)


# ---------------------------------------------------------------- what it says


def test_it_says_what_it_reads(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pucboost"):
        model = fit(legacy(), CLAIM)
    said = "LogisticRegression in a Pipeline; log-odds of predict_proba, columns bmi, region, age"
    assert f"anchor: {said}" in caplog.messages
    assert f"anchor: {said}" in repr(model)
    assert "callable tariff; what it returns is taken as raw scores" in repr(fit(tariff, CLAIM))
    assert "lightgbm booster of 5 trees; its raw scores, columns steps, age" in repr(fit("base", CLAIM))


def tariff(X: Any) -> Any:
    return 0.1 * X["age"].to_numpy() - 0.3


def test_wrapped_estimators() -> None:
    search = GridSearchCV(legacy(), {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(PEOPLE[BASE], CLAIM)
    calibrated = CalibratedClassifierCV(legacy(), cv=2).fit(PEOPLE[BASE], CLAIM)
    for anchor, name in (
        (FrozenEstimator(legacy()), "LogisticRegression in a Pipeline"),
        (search, "LogisticRegression in a Pipeline in a GridSearchCV"),
        (calibrated, "CalibratedClassifierCV"),
    ):
        model = fit(anchor, CLAIM)
        np.testing.assert_array_equal(model.predict(PEOPLE)[SILENT], anchor.predict_proba(PEOPLE[BASE])[SILENT, 1])
        assert f"anchor: {name}; log-odds of predict_proba, columns bmi" in repr(model)


def test_classifier_without_probabilities() -> None:
    anchor = RidgeClassifier().fit(NUMBERS[:, :2], CLAIM)
    with pytest.raises(ValueError, match=r"RidgeClassifier, is a classifier without predict_proba. Wrap it"):
        fit(anchor, CLAIM, table=NUMBERS, optional=[2, 3])


class Tariff:
    """Not of scikit-learn, and silent about its columns."""

    def predict(self, X: Any) -> Any:
        assert X[OPTIONAL].isna().all(axis=None)
        return np.exp(0.3 * X["age"].to_numpy())


def test_an_estimator_that_does_not_know_its_columns_gets_the_erased_table() -> None:
    model = fit(Tariff(), COUNT, "poisson")
    np.testing.assert_array_equal(model.predict(PEOPLE)[SILENT], np.exp(0.3 * PEOPLE["age"].to_numpy())[SILENT])
    assert "Tariff; log of predict, the whole table with everything optional erased" in repr(model)


# ---------------------------------------------------------------- scikit-learn's own ways


@every_engine
def test_estimators_of_pucboost(kit: EngineKit) -> None:
    label = np.where(CLAIM == 1, "claim", "none")
    common = {"optional": OPTIONAL, "n_estimators": 5, "engine": kit.name, "n_jobs": 2}
    for y in (label, KIND):
        anchor = pipeline(LogisticRegression()).fit(PEOPLE[BASE], y)
        model = puc.PUCClassifier(**common, anchor=anchor).fit(PEOPLE, y)
        assert model.classes_.tolist() == anchor.classes_.tolist()
        before, after = anchor.predict_proba(PEOPLE[BASE]), model.predict_proba(PEOPLE)
        np.testing.assert_array_equal(after[SILENT, 1:], before[SILENT, 1:])
        np.testing.assert_allclose(after.sum(axis=1), 1)
    rates = pipeline(PoissonRegressor()).fit(PEOPLE[BASE], COUNT)
    regressor = puc.PUCRegressor(**common, objective="poisson", anchor=rates).fit(PEOPLE, COUNT)
    np.testing.assert_array_equal(regressor.predict(PEOPLE)[SILENT], rates.predict(PEOPLE[BASE])[SILENT])
    assert 0 < regressor.feature_importances_.sum() <= 1 + 1e-9


def test_clones_keep_the_anchor_fitted() -> None:
    """scikit-learn clones estimators among the parameters of an estimator into unfitted ones."""
    model = puc.PUCClassifier(optional=OPTIONAL, n_estimators=2, anchor=legacy())
    assert clone(model).get_params()["anchor"] is legacy()
    assert np.isfinite(cross_val_score(model, PEOPLE, CLAIM, cv=2, error_score="raise")).all()


# ---------------------------------------------------------------- errors


class Doctored(BaseEstimator):
    """Predicts what it is told to."""

    def __init__(self, prediction: Any = None) -> None:
        self.prediction = prediction

    def fit(self, X: Any, y: Any = None) -> Doctored:
        self.fitted_ = True
        return self

    def predict(self, X: Any) -> Any:
        return self.prediction


def at_row_5(value: float, fine: float = 0.4) -> Doctored:
    return Doctored(np.where(np.arange(N) == 5, value, fine)).fit(None)


def test_predictions_without_a_raw_score_name_the_row() -> None:
    tree = DecisionTreeClassifier(random_state=0).fit(PEOPLE[["age", "bmi"]], CLAIM)
    message = (
        r"The prediction of the anchor \(DecisionTreeClassifier\) is [01]\.0 in row 0 \(1200 such rows\); objective "
    )
    with pytest.raises(
        ValueError, match=message + "'binary' adds to their log-odds, which needs .* above 0 and below 1"
    ):
        fit(tree, CLAIM)
    for loss, y, value, needs in (
        ("binary", CLAIM, 1.0, "above 0 and below 1"),
        ("binary", CLAIM, 0.0, "above 0 and below 1"),
        ("poisson", COUNT, 0.0, "above 0"),
        ("gamma", AMOUNT, -1.0, "above 0"),
        ("l2", AMOUNT, np.nan, "to be finite"),
    ):
        with pytest.raises(ValueError, match=rf"anchor \(Doctored\) is {value} in row 5 \(1 such rows\).* {needs}\."):
            fit(at_row_5(value), y, loss)
    shares = np.full((N, 3), 1 / 3)
    shares[5] = [0.5, 0.5, 0.0]
    with pytest.raises(ValueError, match=r"is \[0\.5, 0\.5, 0\.0\] in row 5 .* above 0 that add up to 1"):
        fit(Doctored(shares).fit(None), KIND, "multiclass", num_class=3)
    with pytest.raises(ValueError, match=r"must predict 3 values for each of the 1200 rows, .* shape \(1200,\)"):
        fit(at_row_5(0.1), KIND, "multiclass", num_class=3)
    with pytest.raises(ValueError, match=r"must predict one value .* shape \(1200, 3\)"):
        fit(Doctored(shares).fit(None), CLAIM)


def test_not_fitted() -> None:
    for anchor in (LogisticRegression(), pipeline(LogisticRegression())):
        with pytest.raises(
            ValueError, match=r"LogisticRegression.*, has not been fitted. Fit it first, on base features"
        ):
            fit(anchor, CLAIM)
    with pytest.raises(ValueError, match=r"anchor is the class LogisticRegression itself. Pass a fitted"):
        fit(LogisticRegression, CLAIM)
    with pytest.raises(ValueError, match=r"StandardScaler, has neither predict nor predict_proba"):
        fit(StandardScaler().fit(PEOPLE[["age"]]), CLAIM)


def test_optional_columns_are_refused_by_name() -> None:
    message = r"The anchor \({}\) was trained on column '{}', which is optional. An anchor must be a function of base"
    linear = LinearRegression().fit(PEOPLE[["age", "pulse"]].fillna(0), AMOUNT)
    with pytest.raises(ValueError, match=message.format("LinearRegression", "pulse")):
        fit(linear, AMOUNT, "l2")
    # It would take missing values, but it has learnt from silence.
    boosted = HistGradientBoostingClassifier(max_iter=2).fit(PEOPLE[["steps", "age"]], CLAIM)
    with pytest.raises(ValueError, match=message.format("HistGradientBoostingClassifier", "steps")):
        fit(boosted, CLAIM)
    nameless = HistGradientBoostingClassifier(max_iter=2).fit(NUMBERS, CLAIM)
    with pytest.raises(ValueError, match=message.format("HistGradientBoostingClassifier", "Column_2")):
        fit(nameless, CLAIM, table=NUMBERS, optional=[2, 3])


def test_other_columns() -> None:
    for column in ("income", "age "):
        other = LinearRegression().fit(PEOPLE[["age"]].set_axis([column], axis=1), AMOUNT)
        with pytest.raises(ValueError, match=f"trained on a column '{column}', which the table does not have. Give"):
            fit(other, AMOUNT, "l2")
    named = LinearRegression().fit(PEOPLE[["age", "bmi"]], AMOUNT)
    with pytest.raises(
        ValueError, match=r"a column 'age', .* The table has no names: pass a DataFrame, or feature_name"
    ):
        fit(named, AMOUNT, "l2", table=NUMBERS, optional=[2, 3])
    three = LinearRegression().fit(NUMBERS[:, [0, 1, 0]], AMOUNT)
    with pytest.raises(ValueError, match="has 3 features; the table has 4 columns, 2 of them not optional"):
        fit(three, AMOUNT, "l2", table=NUMBERS, optional=[2, 3])
    nameless = LinearRegression().fit(NUMBERS[:, [0, 1, 0]], AMOUNT)
    with pytest.raises(ValueError, match="takes numbers only, but column 'region' holds text"):
        fit(nameless, AMOUNT, "l2")


def test_classes_must_be_the_labels() -> None:
    words = pipeline(LogisticRegression()).fit(PEOPLE[BASE], np.where(CLAIM, "yes", "no"))
    with pytest.raises(
        ValueError, match=r"classes of the anchor .* are \['no', 'yes'\], but the labels .* are \[0, 1\]"
    ):
        fit(words, CLAIM)
    with pytest.raises(ValueError, match=r"are \['no', 'yes'\], but the labels of training are \['bad', 'good'\]"):
        puc.PUCClassifier(optional=OPTIONAL, anchor=words).fit(PEOPLE, np.where(CLAIM, "good", "bad"))
    with pytest.raises(ValueError, match=r"are \[0, 1\], but the labels of training are \[0, 1, 2\]"):
        fit(legacy(), KIND, "multiclass", num_class=3)
    backwards = pipeline(LogisticRegression()).fit(PEOPLE[BASE], KIND)
    backwards[-1].classes_ = backwards[-1].classes_[::-1]
    with pytest.raises(ValueError, match=r"are \[2, 1, 0\], but .* their order must be the same as well"):
        fit(backwards, KIND, "multiclass", num_class=3)
    with pytest.raises(ValueError, match=r"predicts classes, but objective 'poisson' is not for classes"):
        fit(legacy(), COUNT, "poisson")


def test_errors_of_the_estimator_are_passed_on() -> None:
    strange = PEOPLE.assign(region=["east", *PEOPLE["region"][1:]])
    with pytest.raises(
        ValueError, match=r"\(LogisticRegression in a Pipeline\) cannot predict for the table: Found unk"
    ):
        fit(legacy(), CLAIM).predict(strange)


def test_the_scale_of_an_estimator_is_known() -> None:
    """Probabilities of a callable are refused as raw scores; those of an estimator are what they are."""
    rare = np.where(np.arange(N) % 20 == 0, 1, 0)
    anchor = LogisticRegression().fit(PEOPLE[["age"]], rare)
    with pytest.raises(ValueError, match="An anchor must return raw scores"):
        fit(lambda X: anchor.predict_proba(X[["age"]])[:, 1], rare)
    model = fit(anchor, rare)
    np.testing.assert_array_equal(model.predict(PEOPLE)[SILENT], anchor.predict_proba(PEOPLE[["age"]])[SILENT, 1])


def test_an_estimator_that_is_far_off_is_warned_of() -> None:
    daily = PoissonRegressor().fit(PEOPLE[["age"]], COUNT / 365)
    with pytest.warns(UserWarning, match="Is it for another population, or for another unit of exposure"):
        fit(daily, COUNT, "poisson")


# ---------------------------------------------------------------- statsmodels


def test_statsmodels_formula_with_exposure() -> None:
    sm, smf = pytest.importorskip("statsmodels.api"), pytest.importorskip("statsmodels.formula.api")
    people, gap = PEOPLE.assign(count=COUNT), PEOPLE.copy()
    gap.loc[9, "age"] = np.nan
    formula = "count ~ age + np.log(bmi ** 2 + 1) + C(region)"
    glm = smf.glm(formula, people, family=sm.families.Poisson(), exposure=RNG.uniform(0.5, 1.0, N)).fit()
    before = glm.predict(PEOPLE).to_numpy()
    for table in (PEOPLE, pl.from_pandas(PEOPLE)):
        model = fit(glm, COUNT, "poisson", table=table)
        np.testing.assert_array_equal(model.predict(table)[SILENT], before[SILENT])
    words = "log of predict, a rate per unit of exposure (it was fitted with an offset), columns age, region, bmi"
    assert f"GLM of statsmodels; {words}" in repr(model)
    for anchor, loss, table, message in (
        (smf.glm("count ~ age + steps", people).fit(), "l2", PEOPLE, r"trained on column 'steps', which is optional"),
        (glm, "poisson", PEOPLE.drop(columns="bmi"), r"\(GLM of statsmodels\) cannot predict for the table: .*bmi"),
        (glm, "poisson", gap, "the base column 'age' has one in row 9"),
        (smf.glm("count ~ age", people), "poisson", PEOPLE, "has not been fitted. Pass the results that its fit"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(anchor, COUNT, loss, table=table)


def test_statsmodels_matrices() -> None:
    sm = pytest.importorskip("statsmodels.api")
    exog, array = sm.add_constant(PEOPLE[["bmi", "age"]]), sm.add_constant(NUMBERS[:, :2])
    logit, nameless = sm.Logit(CLAIM, exog).fit(disp=0), sm.Logit(CLAIM, array).fit(disp=0)
    model = fit(logit, CLAIM)
    np.testing.assert_array_equal(model.predict(PEOPLE)[SILENT], logit.predict(exog).to_numpy()[SILENT])
    assert "Logit of statsmodels; log-odds of predict, columns bmi, age" in repr(model)
    model = fit(nameless, CLAIM, table=NUMBERS, optional=[2, 3])
    np.testing.assert_array_equal(model.predict(NUMBERS)[SILENT], nameless.predict(array)[SILENT])
    own = PEOPLE[["bmi", "age"]].copy()  # else a view that runs backwards, whose products have other last bits
    without = sm.GLM(COUNT, own, family=sm.families.Poisson()).fit()
    model = fit(without, COUNT, "poisson")
    np.testing.assert_array_equal(model.predict(PEOPLE)[SILENT], without.predict(own).to_numpy()[SILENT])
    assert "exposure" not in repr(model)


# ---------------------------------------------------------------- glum


def test_glum() -> None:
    glum = pytest.importorskip("glum")
    people = PEOPLE.astype({"region": "category"})
    glm = glum.GeneralizedLinearRegressor(family="poisson", alpha=0.01).fit(people[BASE], COUNT)
    before = glm.predict(people[BASE])
    for table in (people, pl.from_pandas(people)):
        model = fit(glm, COUNT, "poisson", table=table)
        np.testing.assert_array_equal(model.predict(table)[SILENT], before[SILENT])
    assert "GeneralizedLinearRegressor; log of predict, columns bmi, region, age" in repr(model)


def test_glum_of_other_kinds() -> None:
    glum = pytest.importorskip("glum")
    regressor = glum.GeneralizedLinearRegressor
    people = PEOPLE.astype({"region": "category"})
    by_formula = regressor(family="binomial", alpha=0.01, formula="age + region").fit(people, CLAIM)
    model = fit(by_formula, CLAIM, table=people)
    np.testing.assert_array_equal(model.predict(people)[SILENT], by_formula.predict(people)[SILENT])
    assert "log-odds of predict, columns age, region" in repr(model)
    array = regressor(family="gamma", alpha=0.01).fit(NUMBERS[:, :2], AMOUNT)
    model = fit(array, AMOUNT, "gamma", table=NUMBERS, optional=[2, 3])
    np.testing.assert_array_equal(model.predict(NUMBERS)[SILENT], array.predict(NUMBERS[:, :2])[SILENT])
    of_polars = regressor(family="poisson", alpha=0.01).fit(pl.from_pandas(people[["bmi", "age"]]), COUNT)
    model = fit(of_polars, COUNT, "poisson", table=people)
    np.testing.assert_array_equal(model.predict(people)[SILENT], of_polars.predict(people[["bmi", "age"]])[SILENT])
    assert model.anchor.question.container == "polars"
    frozen = regressor(family="poisson", alpha=0.01).fit(people[BASE], COUNT)
    assert "columns bmi, region, age" in repr(fit(FrozenEstimator(frozen), COUNT, "poisson", table=people))
    optional = regressor(family="poisson", alpha=0.01).fit(people[["age", "steps"]].fillna(0), COUNT)
    with pytest.raises(ValueError, match=r"GeneralizedLinearRegressor\) was trained on column 'steps'"):
        fit(optional, COUNT, "poisson", table=people)
