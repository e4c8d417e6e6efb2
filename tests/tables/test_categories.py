"""Text and categories of every container: their codes, their order, and columns of another kind."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from container_tools import (
    CONTAINERS,
    DATA,
    ENGINES,
    OPTIONAL,
    OTHERS,
    TEXT,
    N,
    Y,
    arrow,
    categories,
    codes,
    dataset,
    objects,
    reference,
    train,
    trees,
)
from engine_kits import LIGHTGBM
from tools import table_training

import pucboost as puc
from pucboost._models.schema import categories_of
from pucboost._tables.sources import Categories, row_source


def test_text_is_what_lightgbm_makes_of_pandas_categories() -> None:
    """Law 3 for text: the trees of plain LightGBM on the materialised table."""
    params = {**ENGINES["lightgbm"], "optional": OPTIONAL, "augmentation": "exhaustive"}
    table = table_training(params, categories(DATA), Y, 8)
    for data in (objects(DATA), pl.DataFrame(DATA), arrow(DATA)):
        booster = puc.train(params, lgb.Dataset(data, Y), 8)
        assert LIGHTGBM.model(booster) == LIGHTGBM.model(table)
        np.testing.assert_array_equal(booster.predict(categories(OTHERS)), puc.predict(booster, arrow(OTHERS)))


GRADES = ["f", "b", "a", "d", "e", "c"]


def with_grade(column: Any, library: str) -> Any:
    if library == "pandas":
        return objects(DATA).assign(grade=column)
    if library == "polars":
        return pl.DataFrame(DATA).with_columns(column.alias("grade"))
    return arrow(DATA).set_column(list(DATA).index("grade"), "grade", column)


@pytest.mark.parametrize("engine", ENGINES)
def test_declared_order_is_kept_and_ordered_categories_are_ordered(engine: str) -> None:
    """Enums of polars, ordered dictionaries of Arrow and ordered categories of pandas are one another's conversions."""
    ordered = pd.Categorical(DATA["grade"], categories=GRADES, ordered=True)
    dictionary = pa.array(ordered)
    assert dictionary.type.ordered
    forms = [
        with_grade(ordered, "pandas"),
        with_grade(pl.Series(DATA["grade"], dtype=pl.Enum(GRADES)), "polars"),
        with_grade(dictionary, "arrow"),
    ]
    boosters = [train(engine, table) for table in forms]
    for booster, table in zip(boosters, forms, strict=True):
        assert trees(booster) == trees(boosters[0])
        assert categories_of(booster).values[2] == GRADES  # type: ignore[union-attr]
        np.testing.assert_array_equal(puc.predict(boosters[0], table), puc.predict(booster, pl.DataFrame(DATA)))
    if engine == "lightgbm":
        plain = lgb.train({**ENGINES[engine]}, lgb.Dataset(forms[0][["age", "grade"]], Y), 3)
        ours = train(engine, forms[1], 3)
        assert "[categorical_feature: 3,5]" in ours.model_to_string()
        assert plain.pandas_categorical == [GRADES]
    # Without an order, too, pandas' categories keep their codes; Arrow notes down that they were pandas'.
    unordered = with_grade(pd.Categorical(DATA["grade"], categories=GRADES), "pandas")
    as_arrow = pa.Table.from_pandas(unordered)
    one, two = train(engine, unordered), train(engine, as_arrow)
    assert trees(one) == trees(two)
    assert categories_of(two).values[2] == GRADES  # type: ignore[union-attr]
    assert trees(one) != trees(boosters[0]) or engine == "xgboost"


def test_chunks_of_an_ordered_dictionary_must_agree() -> None:
    one, two = (pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(v), ordered=True) for v in ("ab", "ba"))
    table = pa.table({"k": pa.chunked_array([one, two])})
    with pytest.raises(ValueError, match="Column 'k' is an ordered dictionary, but its chunks have different dict"):
        row_source(table)
    got = row_source(table, Categories([["a", "b"]], (0,))).window(0, 4)[:, 0]
    assert got.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("engine", ENGINES)
def test_unseen_categories_are_missing_and_columns_without_values_fit_everywhere(engine: str) -> None:
    booster, _, _ = reference(engine)
    unseen = {**OTHERS, "region": ["Mars"] * N, "diet": ["ice"] * N}
    missing = {**OTHERS, "region": [None] * N, "diet": [None] * N}
    expected = puc.predict(booster, categories(missing).astype({"region": object, "diet": object}))
    for convert in CONTAINERS.values():
        if convert is not codes:
            with pytest.warns(UserWarning, match="know in 400 rows .*; they were read as missing") as said:
                np.testing.assert_array_equal(puc.predict(booster, convert(unseen)), expected)
            assert sorted(str(one.message).split("'")[1] for one in said) == ["diet", "region"]  # once for each column
            assert said[0].filename == __file__
            assert "region' has values that the model does not know in 400 rows ('Mars');" in "".join(
                str(one.message) for one in said
            )
    for table in (
        pl.DataFrame(missing),  # of type Null
        pl.DataFrame(missing).with_columns(pl.col("region", "diet").cast(pl.Float32)),
        arrow(missing),
        objects(missing).assign(region=np.nan, diet=np.nan),
        objects(missing).assign(diet=pd.Series([None] * N, dtype="Int64")),
    ):
        np.testing.assert_array_equal(puc.predict(booster, table), expected)
    nothing = {**OTHERS, "steps": [None] * N}
    silent = pl.DataFrame(nothing).with_columns(pl.col("steps").cast(pl.String))
    np.testing.assert_array_equal(puc.predict(booster, silent), puc.predict(booster, objects(nothing)))
    # In training, text without a value is no category; neither engine can use it.
    empty = pl.DataFrame({**DATA, "grade": [None] * N}).with_columns(pl.col("grade").cast(pl.String))
    model = train(engine, empty, 3)
    assert model.puc_summary.coded_columns == (3, 5)
    declared = categories(DATA).assign(grade=pd.Categorical([None] * N))
    np.testing.assert_array_equal(puc.predict(train(engine, declared, 3), declared), puc.predict(model, empty))


@pytest.mark.parametrize("engine", ENGINES)
def test_categories_that_are_numbers(engine: str) -> None:
    frame = objects(DATA).assign(children=pd.Categorical(DATA["children"]))
    dictionary = arrow(DATA)["children"].dictionary_encode()
    table = arrow(DATA).set_column(1, "children", dictionary)
    booster, other = train(engine, frame), train(engine, table)
    assert trees(booster) == trees(other)
    np.testing.assert_array_equal(puc.predict(booster, table), puc.predict(other, frame))
    text = arrow(DATA).set_column(1, "children", arrow(DATA)["children"].cast(pa.string()))
    with pytest.raises(ValueError, match=r"The categories of column 'children' are text \('"):
        puc.predict(booster, text)
    with pytest.raises(ValueError, match="Column 'children' holds numbers"):
        puc.predict(booster, arrow(DATA))


@pytest.mark.parametrize("engine", ENGINES)
def test_columns_of_another_kind_than_in_training(engine: str) -> None:
    booster, _, _ = reference(engine)
    text = r"holds text or categories \(dtype .*\), but numbers in the training table"
    for column, values, message in (
        ("region", [1.5] * N, r"holds numbers \(dtype .*\), but categories \('east', "),
        ("grade", [True] * N, "holds numbers"),
        ("age", ["old"] * N, text),
        ("glucose", ["5.1"] * N, text),
    ):
        data = {**DATA, column: values}
        for table in (pd.DataFrame(data), pl.DataFrame(data), pl.LazyFrame(data), pa.table(data)):
            with pytest.raises(ValueError, match=f"Column '{column}' {message}"):
                puc.predict(booster, table)
            with pytest.raises(ValueError, match=f"Column '{column}' {message}"):
                puc.train({**ENGINES[engine]}, dataset(arrow(DATA)), 1, valid_sets=[dataset(table)])
    # Columns go by name: in another order they are the same columns.
    reordered = arrow(DATA).select(sorted(DATA, reverse=True, key=lambda name: name == "region"))
    np.testing.assert_array_equal(puc.predict(booster, reordered), puc.predict(booster, arrow(DATA)))


@pytest.mark.parametrize("engine", ENGINES)
def test_categories_that_a_model_cannot_keep(engine: str) -> None:
    frame = objects(DATA).assign(age=pd.cut(objects(DATA)["age"], 4))
    with pytest.raises(ValueError, match=r"Column 'age' of train_set has the category Interval\(.*rename_categories"):
        train(engine, frame)
    text = frame.assign(age=frame["age"].cat.rename_categories(str))
    names = [str(interval) for interval in frame["age"].cat.categories]
    assert categories_of(train(engine, text, 2)).values[0] == names  # type: ignore[union-attr]
    assert puc.augment(frame, Y, optional=OPTIONAL)[0]["age"].dtype == frame["age"].dtype


def test_categorical_feature_beside_text() -> None:
    """What categorical_feature names is added to the texts; of pandas categories it names all, as in LightGBM."""
    frame, table = categories(DATA), arrow(DATA)
    given = {"categorical_feature": ["children"]}
    from_text = puc.train(ENGINES["lightgbm"], dataset(table, **given), 5)
    assert "[categorical_feature: 1,3,5,6]" in from_text.model_to_string()
    by_name = puc.train(ENGINES["lightgbm"], dataset(frame, categorical_feature=["children", *TEXT]), 5)
    assert trees(from_text) == trees(by_name)
    alone = puc.train(ENGINES["lightgbm"], dataset(frame, **given), 5)
    assert "[categorical_feature: 1]" in alone.model_to_string()
    with pytest.raises(ValueError, match="categorical_feature names column 'children', which is not of category type"):
        puc.train(ENGINES["xgboost"], dataset(table, **given), 5)
