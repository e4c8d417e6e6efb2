"""What ``explain`` returns: tables, reasons, JSON and a picture, in the words and containers of the caller."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pucboost as puc
from pucboost.demo import people

GROUPS = {"fitness app": ["steps", "pulse"], "blood test": ["glucose"]}
X, CLAIM = people(1_500)
NEW = people(60, seed=1)[0].set_axis([f"p{i}" for i in range(60)])


@cache
def fitted(**params: Any) -> Any:
    params = {"objective": "binary", "num_leaves": 15, "num_threads": 1, "verbosity": -1, "seed": 0, **params}
    return puc.train({**params, "optional": GROUPS}, (X, CLAIM), 30)


def explain(**given: Any) -> Any:
    return puc.explain(fitted(), NEW, X, **given)


def test_tables_are_those_of_the_caller() -> None:
    found = explain(favourable="lower")
    frame, reasons = found.to_frame(), found.reasons()
    assert frame.columns.tolist() == ["shared", "base_value", *X.columns]
    assert frame.index.tolist() == reasons.index.tolist() == NEW.index.tolist()
    np.testing.assert_array_equal(frame[X.columns], found.values)
    for convert in (pl.from_pandas, pa.Table.from_pandas):
        other = puc.explain(fitted(), convert(NEW.reset_index(drop=True)), X, favourable="lower")
        assert type(other.to_frame()) is type(other.reasons()) is type(convert(NEW))
        np.testing.assert_array_equal(other.values, found.values)
        assert other.reasons()["reason_1"].to_pylist() if convert is pa.Table.from_pandas else True


def test_reasons_are_the_largest_in_the_unfavourable_direction() -> None:
    found = explain()
    values = found.to_frame()[X.columns]
    for favourable, sign in (("lower", 1), ("higher", -1)):
        reasons = found.reasons(top=3, favourable=favourable)
        assert reasons.columns.tolist() == [f"{what}_{k}" for k in (1, 2, 3) for what in ("reason", "value")]
        for person, row in values.iterrows():
            against = (sign * row)[sign * row > 0].sort_values(ascending=False)[:3]
            named = reasons.loc[person, ["reason_1", "reason_2", "reason_3"]]
            assert named.dropna().tolist() == against.index.tolist()
            moved = [reasons.loc[person, f"value_{k}"] for k in range(1, len(against) + 1)]
            assert moved == (sign * against).tolist()


def test_silence_is_never_a_reason() -> None:
    """The columns of those who withhold, by whichever end is favourable and however many reasons are asked for."""
    found = explain()
    for favourable in ("lower", "higher"):
        reasons = found.reasons(top=5, favourable=favourable)
        for k in range(1, 6):
            cited = reasons[f"reason_{k}"]
            for column in X.columns:
                assert NEW.loc[cited == column, column].notna().all()


def test_what_is_favourable_is_given_or_kept_never_guessed() -> None:
    with pytest.raises(ValueError, match=r"reasons needs favourable='lower' \(a price\) or favourable='higher'"):
        explain().reasons()
    kept = puc.explain(fitted(favourable="higher"), NEW, X)
    assert kept.favourable == "higher"
    pd.testing.assert_frame_equal(kept.reasons(), explain().reasons(favourable="higher"))
    pd.testing.assert_frame_equal(kept.reasons(favourable="lower"), explain(favourable="lower").reasons())
    with pytest.raises(ValueError, match="favourable must be 'lower' or 'higher', got 'less'"):
        explain().reasons(favourable="less")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="top must be a whole number of at least 1, got 0"):
        kept.reasons(0)


@pytest.mark.parametrize("sharing", ["withheld", "best"])
def test_the_score_that_is_told_is_the_one_explained(sharing: Any) -> None:
    found = explain(sharing=sharing, favourable="lower")
    told, used = puc.predict(fitted(), NEW, sharing=sharing, favourable="lower", return_subset=True)
    score = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(1 / (1 + np.exp(-score)), told, rtol=1e-9)
    for group, columns in GROUPS.items():
        assert (found.to_frame().loc[~used[group], columns] == 0).all(axis=None)
    assert sharing == "withheld" or 0.1 < used.to_numpy().mean() < 0.6


def test_the_best_of_too_many_subsets_is_refused() -> None:
    table = np.random.default_rng(0).normal(size=(300, 14))
    table[::2, 1:] = np.nan
    model = puc.train({"optional": list(range(1, 14)), "verbosity": -1}, puc.Dataset(table, table[:, 0]), 2)
    with pytest.raises(
        ValueError, match=r"Row 1 shares 13 groups, 2\^13 subsets; for sharing='best', explain compares"
    ):
        puc.explain(model, table[:4], table, sharing="best", favourable="lower")


def test_columns_that_play_together() -> None:
    found = explain(together="groups")
    assert found.feature_names == ("age", "region", "fitness app", "blood test")
    assert explain(together={"body": ["age", 4]}).feature_names == ("body", "region", "steps", "pulse")
    for wrong, message in (
        ("all", "together must be None, 'groups' or a dict of name → columns, got 'all'"),
        ({"a": "age"}, r"together\['a'\] must be a list of columns, got 'age'"),
        ({"a": [9]}, r"together\['a'\] names the column '9'; its columns are age, region"),
        ({"a": ["ages"]}, r"together\['a'\] names the column 'ages'; did you mean 'age'"),
        ({"a": ["age"], "b": ["age"]}, "together: column 'age' is in 'a' and in 'b'"),
        ({"age": ["steps"]}, "together has the name 'age', which is a column that is not in it"),
    ):
        with pytest.raises(ValueError, match=message):
            explain(together=wrong)


def test_background_is_checked() -> None:
    for given, message in (
        ({"max_samples": 19}, "max_samples must be a whole number from 20 on, or None; got 19"),
        ({"max_samples": 50.0}, "max_samples must be a whole number from 20 on, or None; got 50.0"),
    ):
        with pytest.raises(ValueError, match=message):
            explain(**given)
    with pytest.raises(ValueError, match="background has 19 people, but nobody is compared with fewer than 20"):
        puc.explain(fitted(), NEW, X[:19])
    with pytest.raises(ValueError, match="The table has no column 'age', which the model was trained on"):
        puc.explain(fitted(), NEW, X.drop(columns="age"))


def test_json_has_every_number() -> None:
    found = json.loads(puc.explain(fitted(), NEW, X, max_samples=40).to_json())
    assert found["feature_names"] == list(X.columns)
    assert {one["used"] for one in found["compared_with"]} == {40}
    wanted = puc.explain(fitted(), NEW, X, max_samples=40)
    assert [one["values"] for one in found["people"]] == wanted.values.tolist()
    assert [one["base_value"] for one in found["people"]] == wanted.base_values.tolist()


def test_several_classes() -> None:
    y = np.digitize(X["age"], [40, 60])
    model = puc.PUCClassifier(optional=GROUPS, n_estimators=8, n_jobs=1, verbosity=-1).fit(
        X, np.array(["young", "middle", "old"])[y]
    )
    found = model.explain(NEW, X)
    assert found.values.shape == (60, 5, 3)
    assert found.classes == tuple(model.classes_)
    assert found.to_frame()[("age", "old")].tolist() == found.values[:, 0, 1].tolist()
    in_polars = model.explain(pl.from_pandas(NEW), X).to_frame()
    assert in_polars.columns[:3] == ["shared", "base_value + class middle", "base_value + class old"]
    one = model.explain(NEW, X, target_class="middle")
    np.testing.assert_array_equal(one.values, found.values[:, :, 0])
    assert set(one.reasons(1, favourable="higher")["reason_1"].dropna()) <= set(X.columns)
    with pytest.raises(ValueError, match="reasons of several classes: choose one with target_class of explain"):
        found.reasons(favourable="lower")
    with pytest.raises(ValueError, match="target_class is 'ancient', but the classes of the model are"):
        model.explain(NEW, X, target_class="ancient")
    with pytest.raises(ValueError, match="target_class is 1, but it has one value per person"):
        explain(target_class=1)


def test_estimators_and_pipelines() -> None:
    columns = ["age", "steps", "pulse", "glucose"]
    model = puc.PUCClassifier(optional=["glucose"], n_estimators=8, n_jobs=1, verbosity=-1).fit(X[columns], CLAIM)
    found = model.explain(NEW[columns], X[columns], favourable="lower")
    score = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(score, model.decision_function(NEW[columns]))
    np.testing.assert_array_equal(puc.explain(model, NEW[columns], X[columns]).values, found.values)
    scaler = StandardScaler().set_output(transform="pandas")
    pipeline = make_pipeline(scaler, puc.PUCRegressor(optional=["glucose"], n_estimators=8, n_jobs=1, verbosity=-1))
    pipeline.fit(X[columns], CLAIM * 100.0)
    found = puc.explain(pipeline, NEW[columns], X[columns])
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), pipeline.predict(NEW[columns]))
    assert (found.to_frame().loc[NEW["glucose"].isna(), "glucose"] == 0).all()


def test_picture_ends_at_the_score() -> None:
    mpl.use("Agg")
    found = explain()
    person = int(np.flatnonzero(NEW.notna().all(axis=1))[0])
    axes = found.plot(person)
    bars = sorted(axes.patches, key=lambda bar: bar.get_y())
    assert len(bars) == 5
    assert bars[0].get_x() == pytest.approx(found.base_values[person])
    assert bars[-1].get_x() + bars[-1].get_width() == pytest.approx(puc.predict(fitted(), NEW, raw_score=True)[person])
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert f"region = {NEW['region'].iloc[person]}" in labels
    whom = {one.shared: one for one in found.compared_with}["fitness app + blood test"]
    assert f"of {whom.used} people who share as much" in axes.get_xlabel()
    for nobody in (60, -1, "a", True, None):
        with pytest.raises(ValueError, match="person must be the number of a row, from 0 to 59, got"):
            found.plot(nobody)  # type: ignore[arg-type]
    mpl.pyplot.close("all")
    assert "data:image/png" in found._repr_html_()
    assert repr(found) == "<Explanation: 60 people, 5 columns>"


def test_what_is_left_over_is_one_bar() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(800, 14))
    model = puc.train({"optional": [13], "num_threads": 1, "verbosity": -1}, (table, table.sum(axis=1)), 40)
    bars = list(puc.explain(model, table[:1], table)._bars(0))
    assert len(bars) == 10
    assert bars[-1][0] == "5 other columns"
    assert bars[0][0].startswith("Column_")
    assert " = " in bars[0][0]
