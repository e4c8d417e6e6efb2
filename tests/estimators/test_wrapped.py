"""Models that wrap ours: their consent is followed back to the columns of the table, or there is no score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV, cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import pucboost as puc
from pucboost.demo import insurance_family
from pucboost.metrics import puc_score, puc_scorer

FAMILY = insurance_family()
PEOPLE = FAMILY.sample(3_000, seed=0)
NAMES = ["age", "sex", "app", "blood", "history"]
OPTIONAL = ["app", "blood", "history"]
X, y = pd.DataFrame(PEOPLE.X, columns=NAMES), PEOPLE.y


def classifier(**given: Any) -> puc.PUCClassifier:
    return puc.PUCClassifier(**{"optional": OPTIONAL, "n_estimators": 25, "num_leaves": 7, "n_jobs": 1, **given})


def scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler().set_output(transform="pandas"), model)


def test_a_search_over_a_pipeline_chooses_the_protected_model() -> None:
    grid = {"pucclassifier__augmentation": ["none", "balanced"]}
    search = GridSearchCV(scaled(classifier()), grid, scoring=puc_scorer("neg_log_loss"), cv=3).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_ == {"pucclassifier__augmentation": "balanced"}
    # The ordinary score prefers the one that reads silence: the choice above is the scorer's doing.
    plain = GridSearchCV(scaled(classifier()), grid, scoring="neg_log_loss", cv=3).fit(X, y)
    assert plain.best_params_ == {"pucclassifier__augmentation": "none"}
    assert puc_score(search, X, y) == pytest.approx(puc_score(search.best_estimator_, X, y))


WRAPPERS = {
    "pipeline": scaled,
    "nested pipeline": lambda model: make_pipeline("passthrough", scaled(scaled(model))),
    "reordered": lambda model: make_pipeline(
        ColumnTransformer(
            [("optional", "passthrough", OPTIONAL), ("base", StandardScaler(), ["age", "sex"])],
        ).set_output(transform="pandas"),
        model.set_params(optional=[f"optional__{name}" for name in OPTIONAL]),
    ),
    "calibrated": lambda model: CalibratedClassifierCV(scaled(model), cv=2),
    "threshold": lambda model: TunedThresholdClassifierCV(scaled(model), cv=2),
    "search": lambda model: GridSearchCV(scaled(model), {"pucclassifier__num_leaves": [7]}, cv=2),
}


def test_consent_is_followed_back() -> None:
    """The same score as when the columns are declared by hand."""
    for kind in WRAPPERS:
        model = WRAPPERS[kind](classifier()).fit(X, y)
        metric = "accuracy" if kind == "threshold" else "neg_log_loss"
        groups = dict(zip(model_groups(model), OPTIONAL, strict=True))
        declared = {group: [column] for group, column in groups.items()}
        assert puc_score(model, X, y, metric=metric) == puc_score(model, X, y, metric=metric, optional=declared)


def model_groups(model: Any) -> list[str]:
    return [f"optional__{name}" for name in OPTIONAL] if "optional__app" in str(model) else OPTIONAL


def test_transformed_targets() -> None:
    regressor = puc.PUCRegressor(optional=[2, 3, 4], n_estimators=10, n_jobs=1)
    model = TransformedTargetRegressor(make_pipeline(StandardScaler(), regressor), func=np.log1p, inverse_func=np.expm1)
    model.fit(X.to_numpy(), y + 1.0)
    score = puc_score(model, X.to_numpy(), y + 1.0, metric="neg_mean_squared_error")
    assert score == puc_score(model, X.to_numpy(), y + 1.0, metric="neg_mean_squared_error", optional=[2, 3, 4])


IMPUTER = SimpleImputer().set_output(transform="pandas")
UNSCORABLE = {
    "imputed": (make_pipeline(IMPUTER, classifier()), "a step before it fills in what people withhold"),
    "indicator": (
        make_pipeline(
            make_union(FunctionTransformer(feature_names_out="one-to-one"), MissingIndicator(features="all")),
            classifier(optional=[2, 3, 4]),
        ),
        r"changes when group 'Column_2' is erased: a step before the model carries silence into other columns",
    ),
    "components": (
        make_pipeline(
            make_column_transformer((PCA(1), ["age", "sex"]), remainder="passthrough"), classifier(optional=[0])
        ),
        "The column 'Column_0' of the model is made by the steps before it",
    ),
    "nameless": (
        make_pipeline(FunctionTransformer(np.asarray), classifier(optional=[2, 3, 4])),
        "Step FunctionTransformer does not say which columns it returns",
    ),
}


def test_what_cannot_be_followed_has_no_score() -> None:
    for kind in UNSCORABLE:
        model, message = UNSCORABLE[kind]
        with pytest.raises(ValueError, match=message):
            puc_score(model.fit(X, y), X, y)


def test_a_search_that_is_to_raise_fails_instead_of_choosing() -> None:
    for kind in UNSCORABLE:
        model, message = UNSCORABLE[kind]
        grid = {"pucclassifier__num_leaves": [5, 7]}
        for scoring, refit in ((puc_scorer(), True), ({"puc": puc_scorer(), "plain": "neg_log_loss"}, "puc")):
            with pytest.raises(ValueError, match=message):
                GridSearchCV(model, grid, scoring=scoring, refit=refit, cv=2, error_score="raise").fit(X, y)


def test_models_without_consent_fail_in_a_search_too() -> None:
    model = make_pipeline(SimpleImputer(), LogisticRegression())
    with pytest.raises(ValueError, match="It is not known what people may withhold: the model, a Pipeline"):
        cross_val_score(model, X, y, scoring=puc_scorer(), cv=2, error_score="raise")
    assert np.isfinite(cross_val_score(model, X, y, scoring=puc_scorer(optional=OPTIONAL), cv=2)).all()


def test_parts_under_different_consent() -> None:
    class Both:
        """Two models in one."""

        def __init__(self, *models: Any) -> None:
            self.estimator_, self.regressor_ = models

    one, two = classifier().fit(X, y), classifier(optional=["app"]).fit(X, y)
    with pytest.raises(ValueError, match="parts of the Both were trained under different consent schemas"):
        puc_score(Both(one, two), X, y)


def test_unions_keep_what_they_name() -> None:
    union = FeatureUnion([("all", StandardScaler())]).set_output(transform="pandas")
    model = make_pipeline(union, classifier(optional=[f"all__{name}" for name in OPTIONAL])).fit(X, y)
    declared = {f"all__{name}": [name] for name in OPTIONAL}
    assert puc_score(model, X, y) == puc_score(model, X, y, optional=declared)
