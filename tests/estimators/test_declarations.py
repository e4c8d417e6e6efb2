"""What is optional: by name, position and group, also behind the steps of a pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from estimator_tools import (
    ENGINES,
    NAMES,
    classifier,
    named_table,
)
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from tools import make_table

import pucboost as puc


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


def columns_by_name(output: str, optional: Any = None, **options: Any) -> Pipeline:
    """A pipeline that reorders, drops and scales columns before the model sees them."""
    select = ColumnTransformer(
        [("scaled", StandardScaler(), ["pulse", "age"]), ("kept", "passthrough", ["glucose", "steps"])], **options
    )
    model = classifier(optional=optional or {"app": ["steps", "pulse"], "blood": ["glucose"]})
    return make_pipeline(select, model).set_output(transform=output)


def test_optional_names_survive_column_selection() -> None:
    for output in ["pandas", "polars"]:
        X, y = named_table()
        pipeline = columns_by_name(output, verbose_feature_names_out=False).fit(X, y)
        consent = pipeline[-1].consent_
        assert consent.feature_names == ("pulse", "age", "glucose", "steps")
        assert consent.groups == {"app": (3, 0), "blood": (2,)}
        by_position = columns_by_name("default", {"app": [3, 0], "blood": [2]})
        scores = [cross_val_score(p, X, y, cv=2, scoring="neg_log_loss") for p in (pipeline, by_position)]
        assert np.array_equal(scores[0], scores[1])
        search = GridSearchCV(pipeline, {"pucclassifier__reg_lambda": [0.0, 1.0]}, cv=2).fit(X, y)
        assert search.best_estimator_[-1].consent_ == consent


def test_names_that_do_not_arrive_are_errors() -> None:
    X, y = named_table()
    with pytest.raises(ValueError, match="optional names column 'steps', but the table has no column names"):
        columns_by_name("default").fit(X, y)
    renamed = (
        "optional names column 'steps', which the table does not have. Its columns are: scaled__pulse, scaled__age, "
        "kept__glucose, kept__steps. If 'kept__steps' is meant, set verbose_feature_names_out=False"
    )
    with pytest.raises(ValueError, match=renamed):
        columns_by_name("pandas").fit(X, y)
    with pytest.raises(
        ValueError, match=r"optional names column 'glucose', which the table does not have\. Its columns are: age"
    ):
        classifier(optional=["glucose"]).fit(X.drop(columns="glucose"), y)


def test_wrong_declarations() -> None:
    for optional, message in [
        ([6], r"optional names column 6, but the table has 6 feature\(s\), columns 0 to 5"),
        ([-1], r"optional names column -1, but the table has 6 feature\(s\)"),
        ({"app": []}, "Group 'app' of optional has no columns"),
        ([3, 3], "declared optional twice"),
        ("steps", "optional must be a list of columns or a dict of groups, got 'steps'"),
        ([2.5], "optional must name columns by string or integer position, got 2.5"),
        (7.5, "optional must be a list of columns or a dict group -> columns, got float"),
    ]:
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
        model = classifier(optional=list(range(6))).fit(X, y)
    silent = model.predict_proba(np.full((1, 6), np.nan))[0, 1]
    assert silent == pytest.approx(y.mean(), abs=0.1)
    assert np.ptp(model.predict_proba(X)[:, 1]) > 0.2


def test_an_optional_column_nobody_shares() -> None:
    for engine in ENGINES:
        for missing in [np.nan, None]:
            X, y = named_table()
            model = classifier(engine=engine, optional=["steps", "pulse", "glucose"]).fit(X, y)
            silent = X.assign(steps=missing, pulse=missing, glucose=missing)
            withheld = puc.predict(model.booster_, X, sharing="withheld")
            assert np.allclose(model.predict_proba(silent)[:, 1], withheld, rtol=1e-6)
            nobody = classifier(engine=engine, optional=["steps"]).fit(X.assign(steps=np.nan), y)
            without = classifier(engine=engine, optional=None).fit(X.drop(columns="steps"), y)
            assert np.array_equal(
                nobody.predict_proba(X.assign(steps=np.nan)), without.predict_proba(X.drop(columns="steps"))
            )
