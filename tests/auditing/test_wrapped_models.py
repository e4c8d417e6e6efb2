"""Audits of models inside pipelines, searches and other wrappers: their consent, their training rows, their loss."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audit_tools import NO_FIT, QUICK, assert_same_case, read
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import pucboost as puc
from pucboost.demo import insurance_family

FAMILY = insurance_family()
NAMES, OPTIONAL = ["age", "sex", "app", "blood", "history"], ["app", "blood", "history"]
SEEN, FRESH = FAMILY.sample(1500, seed=0), FAMILY.sample(1200, seed=1)
X, y = pd.DataFrame(SEEN.X, columns=NAMES), SEEN.y
X_new, y_new = pd.DataFrame(FRESH.X, columns=NAMES), FRESH.y
os.environ["PUCBOOST_TEST_KEY"] = "0123456789abcdef-a-secret"
ROW_KEY = {"row_key": "env:PUCBOOST_TEST_KEY"}
SETTINGS: dict[str, Any] = {"margin": 0.05, **ROW_KEY, **QUICK}


def classifier(**given: Any) -> puc.PUCClassifier:
    params = {"optional": OPTIONAL, "n_estimators": 5, "num_leaves": 7, "n_jobs": 1}
    return puc.PUCClassifier(**{**params, **ROW_KEY, **given})


def scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler().set_output(transform="pandas"), model)


def audit(model: Any, X: Any = X_new, y: Any = y_new, **options: Any) -> puc.typing.AuditReport:
    return puc.audit(model, X, y, **{**SETTINGS, **options})


def share(report: puc.typing.AuditReport) -> Any:
    return report.support.trained_on and report.support.trained_on.share


def known_share(*given: Any, **options: Any) -> Any:
    """How many were trained on; an audit knows without fitting anything."""
    return share(audit(*given, **options, **NO_FIT))


WRAPPERS = {
    "estimator": lambda model: model,
    "pipeline": scaled,
    "nested pipeline": lambda model: make_pipeline("passthrough", scaled(scaled(model))),
    "reordered": lambda model: make_pipeline(
        ColumnTransformer(
            [("optional", "passthrough", OPTIONAL), ("base", StandardScaler(), ["age", "sex"])],
        ).set_output(transform="pandas"),
        model.set_params(optional=[f"optional__{name}" for name in OPTIONAL]),
    ),
    "search": lambda model: GridSearchCV(scaled(model), {"pucclassifier__num_leaves": [7]}, cv=2),
    "calibrated": lambda model: CalibratedClassifierCV(scaled(model), cv=3),
    "threshold": lambda model: TunedThresholdClassifierCV(scaled(model), cv=2),
}


@pytest.mark.parametrize("kind", WRAPPERS)
def test_consent_and_training_rows_are_found_within(kind: str) -> None:
    """The same people and predictions as with the columns declared by hand; people of training are recognised."""
    model = WRAPPERS[kind](classifier()).fit(X, y)
    report = audit(model, **NO_FIT)
    names = [f"optional__{name}" if kind == "reordered" else name for name in OPTIONAL]
    assert report.provenance.consent == {group: (name,) for group, name in zip(names, OPTIONAL, strict=True)}
    assert_same_case(read(model, X_new, y_new), read(model, X_new, y_new, optional=OPTIONAL))
    assert share(report) == 0
    assert report.support.unseen_in_training == ()
    assert known_share(model, X, y) >= (0.55 if kind == "calibrated" else 1)


def test_assert_consent_takes_pipelines() -> None:
    model = scaled(classifier()).fit(X, y)
    report = puc.testing.assert_consent(model, X_new, y_new, **{**SETTINGS, "margin": 0.9})
    assert report.passed
    with pytest.raises(AssertionError, match="trained on about 100%"):
        puc.testing.assert_consent(model, X, y, **{**SETTINGS, "margin": 0.9})


def test_outcomes_are_transformed_as_in_training() -> None:
    regressor = puc.PUCRegressor(optional=[2, 3, 4], n_estimators=5, n_jobs=1, **ROW_KEY)
    model = TransformedTargetRegressor(make_pipeline(StandardScaler(), regressor), func=np.log1p, inverse_func=np.expm1)
    model.fit(SEEN.X, y + 1.0)
    assert known_share(model, SEEN.X, y + 1.0) == 1
    assert known_share(model, FRESH.X, y_new + 1.0) == 0
    assert known_share(model, SEEN.X, 2.0 - y) < 0.2  # other outcomes are other rows


def test_the_loss_is_that_of_the_model_within() -> None:
    rng = np.random.default_rng(0)
    amount = np.exp(rng.normal(size=len(y)))
    regressor = puc.PUCRegressor(optional=OPTIONAL, objective="quantile", alpha=0.8, n_estimators=5, n_jobs=1)
    pipeline = scaled(regressor).fit(X, amount)
    search = GridSearchCV(pipeline, {"pucregressor__num_leaves": [7]}, cv=2).fit(X, amount)
    for model in (pipeline, search):
        assert read(model, X, amount).loss.title == "pinball loss at 0.8"
    # The expected value of a logarithm is no quantile, and no mean, of the amount.
    changed = TransformedTargetRegressor(pipeline, func=np.log, inverse_func=np.exp).fit(X, amount)
    assert read(changed, X, amount).loss.title == "squared error"


@pytest.mark.filterwarnings("ignore:Nothing is optional")
def test_what_cannot_be_followed_is_an_error_until_it_is_declared() -> None:
    no_schema = r"no consent schema.*optional=\[columns\]"
    filling = SimpleImputer().set_output(transform="pandas")
    nameless = make_pipeline(FunctionTransformer(np.asarray), classifier(optional=[2, 3, 4]))
    for model, message in (
        (make_pipeline(filling, classifier()), "a step before it fills in what people withhold"),
        (nameless, "Step FunctionTransformer does not say which columns it returns"),
        (make_pipeline(SimpleImputer(), LogisticRegression()), no_schema),
        (classifier(optional=None), no_schema),
    ):
        model.fit(X, y)
        with pytest.raises(ValueError, match=message):
            audit(model)
        assert read(model, X_new, y_new, optional=OPTIONAL).people.consent.n_groups == 3


def test_what_is_declared_must_not_contradict_the_model() -> None:
    model = scaled(classifier()).fit(X, y)
    with pytest.raises(ValueError, match=r"optional declares .* but the model was trained under"):
        audit(model, optional=["app", "blood"])
    groups = {"tracker": ["app"], "lab": ["blood"], "file": ["history"]}
    renamed = audit(model, optional=groups, **NO_FIT)
    assert list(renamed.provenance.consent) == list(groups)
    assert_same_case(read(model, X_new, y_new, optional=groups), read(model, X_new, y_new))
    assert renamed.support.unseen_in_training is None  # the model's masks may count groups in another order


def test_the_report_says_where_a_pipeline_cannot_be_asked() -> None:
    """Steps whose columns change from call to call are no longer the table the model was trained on."""
    width = iter([5, 5, 4])  # in training, for the predictions, for the sketch
    fickle = FunctionTransformer(lambda table: table[:, : next(width, 5)])
    model = make_pipeline(fickle, classifier(optional=[2, 3, 4])).fit(SEEN.X, y)
    report = audit(model, FRESH.X, y_new, optional=[2, 3, 4], **NO_FIT)
    assert report.support.trained_on is None
    (said,) = (warning for warning in report.warnings if "Whether the model was trained on these people" in warning)
    assert "could not be brought into the form that it was trained on (ValueError" in said
    assert said in str(report)
    without = scaled(classifier(row_key=None)).fit(X, y)
    assert any("keeps nothing about single people" in warning for warning in audit(without, **NO_FIT).warnings)
