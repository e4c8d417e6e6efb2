"""The same data give the same model and the same predictions, whichever container they come in."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import xgboost as xgb
from tools import table_training

import pucboost as puc
from pucboost._models.schema import categories_of
from pucboost._prediction import prediction
from pucboost._tables import frames, series, sources
from pucboost._tables.containers import row_source
from pucboost._tables.other_sources import OtherArraySource
from pucboost._tables.sources import Categories
from pucboost._virtual import rows as stream

N = 400
ENGINES: dict[str, dict[str, Any]] = {
    "lightgbm": {
        "objective": "binary",
        "verbosity": -1,
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "min_data_in_leaf": 5,
        "min_data_per_group": 5,
        "cat_smooth": 1,
    },
    "xgboost": {"engine": "xgboost", "objective": "binary:logistic", "nthread": 1, "verbosity": 0, "max_depth": 4},
}
# Base columns of every kind, an optional group of a number and a text, an optional text, an optional number.
OPTIONAL = {"app": ["steps", "diet"], "grade": ["grade"], "glucose": ["glucose"]}
TEXT, WHOLE = ["region", "diet", "grade"], ["children", "steps"]


def people(seed: int = 0) -> tuple[dict[str, list[Any]], Any]:
    """Columns of plain Python values, None where they are missing, and labels."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "age": rng.normal(size=N),
        "children": rng.integers(0, 4, N),
        "smoker": rng.random(N) < 0.3,
        "region": rng.choice(["north", "south", "Äland", "east"], N),
        "steps": rng.integers(1_000, 20_000, N),
        "diet": rng.choice(["vegan", "meat"], N),
        "grade": rng.choice(["b", "a", "d", "c", "e", "f"], N),
        "glucose": rng.normal(size=N),
    }
    score = columns["age"] + columns["smoker"] + (columns["region"] == "south") + columns["glucose"]
    score = score + (columns["diet"] == "meat") - np.isin(columns["grade"], ["a", "f"]) + columns["steps"] / 10_000
    y = (score + rng.normal(size=N) > score.mean()).astype(float)
    lists = {name: values.tolist() for name, values in columns.items()}
    for name in ("age", "children", "region", "steps", "diet", "grade", "glucose"):
        for row in np.flatnonzero(rng.random(N) < (0.1 if name in ("age", "children", "region") else 0.4)):
            lists[name][row] = None
    for row in range(0, N, 3):
        lists["steps"][row] = lists["diet"][row] = None
    return lists, y


def objects(data: Any) -> Any:
    return pd.DataFrame({name: pd.Series(v, dtype=object if name in TEXT else None) for name, v in data.items()})


def nullable(data: Any) -> Any:
    return objects(data).astype(
        {
            "age": "Float64",
            "glucose": "Float64",
            "smoker": "boolean",
            **dict.fromkeys(TEXT, "string[pyarrow]"),
            **dict.fromkeys(WHOLE, "Int64"),
        }
    )


def categories(data: Any) -> Any:
    return objects(data).astype(dict.fromkeys(TEXT, "category"))


def arrow(data: Any) -> Any:
    return pa.table(data)


def dictionaries(data: Any) -> Any:
    return pa.table(
        {n: c.dictionary_encode() if n in TEXT else c for n, c in zip(data, arrow(data).columns, strict=True)}
    )


def chunks(data: Any) -> Any:
    """Three chunks, each with a dictionary of its own."""
    parts = [{name: values[lo : lo + 150] for name, values in data.items()} for lo in (0, 150, 300)]
    return pa.concat_tables([dictionaries(part) for part in parts])


def codes(data: Any) -> Any:
    """A matrix, categories as numbers given by hand."""
    frame = categories(data)
    for name in TEXT:
        frame[name] = frame[name].cat.codes.replace(-1, np.nan)
    return frame.to_numpy(dtype=np.float64)


CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "pandas, categories": categories,
    "pandas, objects": objects,
    "pandas, str": lambda data: objects(data).astype(dict.fromkeys(TEXT, "str")),
    "pandas, nullable": nullable,
    "pandas, Arrow": lambda data: arrow(data).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas, Arrow dictionaries": lambda data: dictionaries(data).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas, own index": lambda data: objects(data).set_axis(range(N, 2 * N)),
    "polars": pl.DataFrame,
    "polars, NaN": lambda data: pl.DataFrame(data).with_columns(pl.col("age", "glucose").fill_null(float("nan"))),
    "polars, Categorical": lambda data: pl.DataFrame(data).with_columns(pl.col(TEXT).cast(pl.Categorical)),
    "polars, lazy": lambda data: pl.DataFrame(data).lazy(),
    "narwhals": lambda data: nw.from_native(pl.DataFrame(data)),
    "Arrow": arrow,
    "Arrow, dictionaries": dictionaries,
    "Arrow, chunks": chunks,
    "Arrow, of pandas": lambda data: pa.Table.from_pandas(categories(data)),
    "Arrow, batch": lambda data: arrow(data).combine_chunks().to_batches()[0],
    "numpy": codes,
}
DATA, Y = people()
OTHERS, _ = people(seed=1)


def dataset(table: Any, y: Any = Y, **more: Any) -> puc.Dataset:
    if isinstance(table, np.ndarray):
        more = {"feature_name": list(DATA), "categorical_feature": TEXT, **more}
    return puc.Dataset(table, y, **{"optional": OPTIONAL, **more})


def train(engine: str, table: Any, rounds: int = 10, **params: Any) -> Any:
    return puc.train({**ENGINES[engine], "copies": 3, **params}, dataset(table), rounds)


@cache
def reference(engine: str) -> tuple[Any, Any, Any]:
    """A model of pandas categories, and its predictions for those it was trained on and for others."""
    booster = train(engine, categories(DATA))
    expected = puc.predict(booster, categories(DATA))
    assert len(np.unique(expected)) > 50
    return booster, expected, puc.predict(booster, categories(OTHERS))


def trees(booster: Any) -> Any:
    if isinstance(booster, lgb.Booster):
        text: str = booster.model_to_string()
        return text[text.index("\nTree=0") : text.index("end of trees")]
    return json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("container", CONTAINERS)
def test_same_model_and_predictions_from_every_container(container: str, engine: str) -> None:
    convert = CONTAINERS[container]
    booster, expected, expected_of_others = reference(engine)
    table, others = convert(DATA), convert(OTHERS)
    own = train(engine, table)
    assert trees(own) == trees(booster)
    np.testing.assert_array_equal(puc.predict(own, table), expected)
    np.testing.assert_array_equal(puc.predict(own, others), expected_of_others)
    # A model of one container, a table in another.
    np.testing.assert_array_equal(puc.predict(booster, others), expected_of_others)
    if container == "numpy":
        assert own.puc_summary.coded_columns == ()
        with pytest.raises(ValueError, match="Column 'region' holds text or categories"):
            puc.predict(own, arrow(OTHERS))
    else:
        assert own.puc_summary == booster.puc_summary
        assert own.puc_summary.coded_columns == (3, 5, 6)
        np.testing.assert_array_equal(puc.predict(own, categories(OTHERS)), expected_of_others)
        np.testing.assert_array_equal(puc.predict(own, codes(DATA)), expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("container", ["pandas, nullable", "polars, lazy", "Arrow, chunks"])
def test_everything_else_takes_every_container(container: str, engine: str) -> None:
    table, plain = CONTAINERS[container](DATA), categories(DATA)
    booster, _, _ = reference(engine)
    pd.testing.assert_frame_equal(puc.quote(booster, table), puc.quote(booster, plain))
    pd.testing.assert_frame_equal(puc.sharing_value(booster, table), puc.sharing_value(booster, plain))
    for sharing in ("withheld", "best"):
        expected = puc.predict(booster, plain, sharing=sharing)
        np.testing.assert_array_equal(puc.predict(booster, table, sharing=sharing), expected)
    assert puc.monotonicity(booster, table) == puc.monotonicity(booster, plain)
    params = {**ENGINES[engine], "metric": "auc"}
    losses = [puc.cv(params, dataset(t), 3, nfold=2)["valid auc-mean"] for t in (table, plain)]
    assert losses[0] == losses[1]
    # Validation sets get the codes of the training set, which has categories that they do not have.
    rows = [row for row, grade in enumerate(DATA["grade"]) if grade != "a"]
    few = {name: [values[row] for row in rows] for name, values in DATA.items()}
    valid = [convert(few) for convert in (CONTAINERS[container], categories)]
    measured = []
    for train_table, valid_table in ((table, valid[1]), (plain, valid[0]), (plain, valid[1])):
        model = puc.train(params, dataset(train_table), 3, valid_sets=[dataset(valid_table, Y[rows])])
        measured.append(model.best_score if engine == "lightgbm" else model.evals_result)
    assert measured[0] == measured[1] == measured[2]


@pytest.mark.parametrize("engine", ENGINES)
def test_fpreproc_and_compact_with_text(engine: str) -> None:
    table, others = pl.LazyFrame(DATA), arrow(OTHERS)
    same = lambda train, valid, params: (train, valid, params)  # noqa: E731
    results = [
        puc.cv(ENGINES[engine], dataset(table), 3, nfold=2, fpreproc=hook, return_cvbooster=True)
        for hook in (None, same)
    ]
    plain, hooked = ([puc.predict(b, others) for b in result["cvbooster"].boosters] for result in results)
    np.testing.assert_array_equal(plain, hooked)
    few = {name: DATA[name] for name in ("smoker", *TEXT)}
    params = {**ENGINES[engine], "optional": ["diet", "grade"], "compact": True}
    params.pop("cat_smooth", None)
    one, other = (puc.train(params, puc.Dataset(t, Y), 3) for t in (pa.table(few), categories(DATA)[list(few)]))
    assert trees(one) == trees(other)


def test_audit_of_a_lazy_table_with_text() -> None:
    booster, _, _ = reference("lightgbm")
    settings: dict[str, Any] = {"margin": 0.1, "num_threads": 1, "min_count": 30, "max_masks": 2}
    settings["nuisance"] = {"num_iterations": 5, "num_leaves": 4}
    table = pl.LazyFrame(OTHERS)
    here, there = (puc.audit(booster, t, Y, **settings) for t in (table, categories(OTHERS)))
    pd.testing.assert_frame_equal(here.penalty, there.penalty)
    seen: list[Any] = []

    def model(people: Any) -> Any:
        seen.append(people)
        return np.where(people["region"] == "south", 0.6, 0.4)

    assert puc.audit(model, table, Y, optional=OPTIONAL, **settings).verdict
    assert {type(people) for people in seen} == {pl.DataFrame}


# ---------------------------------------------------------------- numbers only

NUMBERS = np.round(np.random.default_rng(0).normal(size=(300, 4)), 1) * (np.arange(4) != 1)
NUMBERS[::3, 2], NUMBERS[1::4, 3] = np.nan, np.nan
NAMES = list("abcd")
NUMERIC = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32).astype(np.float64),
    "Fortran": np.asfortranarray,
    "list": lambda X: X.tolist(),
    "CSR": scipy.sparse.csr_matrix,
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "pandas, several blocks": lambda X: pd.DataFrame(X[:, :2], columns=NAMES[:2]).assign(c=X[:, 2], d=X[:, 3]),
    "pandas, sparse": lambda X: pd.DataFrame(X, columns=NAMES).astype({"b": pd.SparseDtype(float, 0.0)}),
    "pandas, nullable": lambda X: pd.DataFrame(X, columns=NAMES).astype("Float64"),
    "pandas, Arrow": lambda X: pd.DataFrame(X, columns=NAMES).astype(pd.ArrowDtype(pa.float64())),
    "pandas, decimals": lambda X: pd.DataFrame(X, columns=NAMES).assign(
        a=pd.Series([Decimal(repr(float(x))) for x in X[:, 0]], dtype=object)
    ),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "polars, null": lambda X: pl.DataFrame(X, schema=NAMES).fill_nan(None),
    "polars, Decimal": lambda X: pl.DataFrame(X, schema=NAMES).fill_nan(None).cast(pl.Decimal(10, 1)),
    "polars, lazy": lambda X: pl.LazyFrame(X, schema=NAMES),
    "Arrow": lambda X: pa.table(list(X.T.copy()), names=NAMES),
    "Arrow, batch": lambda X: pa.record_batch(list(X.T.copy()), names=NAMES),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_same_model_and_predictions_of_numbers(engine: str) -> None:
    X32 = NUMBERS.astype(np.float32).astype(np.float64)  # so that float32 tables are no exception
    y = (np.nan_to_num(NUMBERS).sum(axis=1) > 0).astype(float)
    params = {**ENGINES[engine], "optional": [2, 3]}
    for name, convert in NUMERIC.items():
        X = NUMBERS if "ecimal" in name else X32
        expected = puc.train(params, puc.Dataset(X, y), 5)
        table = convert(X)
        booster = puc.train(params, puc.Dataset(table, y), 5)
        assert trees(booster) == trees(expected), name
        np.testing.assert_array_equal(puc.predict(expected, table), puc.predict(expected, X), err_msg=name)
        np.testing.assert_array_equal(puc.predict(booster, table), puc.predict(expected, X), err_msg=name)


def test_whole_numbers_of_every_size() -> None:
    values = [0, 1, None, 2**53 + 1, 2**62]
    expected = np.array([0, 1, np.nan, 2.0**53, 2.0**62])
    for table in (
        pa.table({"a": values}),
        pl.DataFrame({"a": values}),
        pl.DataFrame({"a": pl.Series(values, dtype=pl.Int128)}),
        pd.DataFrame({"a": pd.Series(values, dtype="Int64")}),
        pd.DataFrame({"a": pd.Series(values, dtype=object)}),
        pd.DataFrame({"a": pd.Series(values, dtype=pd.ArrowDtype(pa.int64()))}),
    ):
        np.testing.assert_array_equal(row_source(table).window(0, 5)[:, 0], expected)
    small = pl.DataFrame({"a": pl.Series([1, 2], dtype=pl.Int16), "b": pl.Series([0.5, None], dtype=pl.Float32)})
    assert row_source(small).dtype == np.float32
    assert row_source(small.with_columns(c=pl.Series([True, None]))).dtype == np.float32
    assert row_source(small.with_columns(c=pl.Series([1, None]))).dtype == np.float64


# ---------------------------------------------------------------- categories


def test_text_is_what_lightgbm_makes_of_pandas_categories() -> None:
    """Law 3 for text: the trees of plain LightGBM on the materialised table."""
    params = {**ENGINES["lightgbm"], "optional": OPTIONAL, "augmentation": "exhaustive"}
    table = table_training(params, categories(DATA), Y, 8)
    for data in (objects(DATA), pl.DataFrame(DATA), arrow(DATA)):
        booster = puc.train(params, lgb.Dataset(data, Y), 8)
        assert booster.model_to_string() == table.model_to_string()
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
            np.testing.assert_array_equal(puc.predict(booster, convert(unseen)), expected)
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
@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("region", [1.5] * N, r"Column 'region' holds numbers \(dtype .*\), but categories \('east', "),
        ("grade", [True] * N, "Column 'grade' holds numbers"),
        ("age", ["old"] * N, r"Column 'age' holds text or categories \(dtype .*\), but numbers in the training table"),
        ("glucose", ["5.1"] * N, "Column 'glucose' holds text or categories"),
    ],
)
def test_columns_of_another_kind_than_in_training(engine: str, column: str, values: Any, message: str) -> None:
    booster, _, _ = reference(engine)
    data = {**DATA, column: values}
    for table in (pd.DataFrame(data), pl.DataFrame(data), pl.LazyFrame(data), pa.table(data)):
        with pytest.raises(ValueError, match=message):
            puc.predict(booster, table)
        with pytest.raises(ValueError, match=message):
            puc.train({**ENGINES[engine]}, dataset(arrow(DATA)), 1, valid_sets=[dataset(table)])
    # That columns have changed places is said first.
    with pytest.raises(ValueError, match="Column 0 is 'region', the consent schema expects 'age' there"):
        puc.predict(booster, arrow(DATA).select(sorted(DATA, reverse=True, key=lambda name: name == "region")))


DATE = datetime.date(2020, 2, 29)
BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "pandas, datetime": (
        lambda: pd.DataFrame({"a": [1.0], "b": pd.to_datetime(["2020-01-01"])}),
        "Column 'b' has dtype datetime64.*days since a fixed date",
    ),
    "pandas, timedelta": (
        lambda: pd.DataFrame({"a": [1.0], "b": pd.to_timedelta([1])}),
        r"Column 'b' has dtype timedelta64\[ns\]",
    ),
    "pandas, period": (
        lambda: pd.DataFrame({"b": pd.period_range("2020", periods=2)}),
        r"Column 'b' has dtype period\[",
    ),
    "pandas, complex": (lambda: pd.DataFrame({"b": [1j]}), "Column 'b' has dtype complex128"),
    "pandas, dates": (lambda: pd.DataFrame({"b": [None, DATE]}), r"Column 'b' holds a date in row 1 \(datetime.date"),
    "pandas, lists": (lambda: pd.DataFrame({"b": [[1]]}), r"Column 'b' holds a list in row 0 \(\[1\]\)"),
    "pandas, bytes": (lambda: pd.DataFrame({"b": ["a", b"a"]}), "Column 'b' holds a bytes in row 1"),
    "pandas, text among numbers": (
        lambda: pd.DataFrame({"b": [None, 1, 2.5, "x"]}, dtype=object),
        "Column 'b' mixes text and numbers: row 1 holds 1, row 3 'x'",
    ),
    "pandas, number among texts": (
        lambda: pd.DataFrame({"b": pd.Series(["x"] * 70_000 + [7], dtype=object)}),
        "Column 'b' mixes text and numbers: row 0 holds 'x', row 70000 7",
    ),
    "pandas, Arrow date": (
        lambda: pd.DataFrame({"b": pd.Series([DATE], dtype=pd.ArrowDtype(pa.date32()))}),
        r"Column 'b' has dtype date32\[day\]",
    ),
    "polars, date": (lambda: pl.DataFrame({"b": [DATE]}), "Column 'b' has dtype Date"),
    "polars, lazy date": (lambda: pl.LazyFrame({"b": [DATE]}), "Column 'b' has dtype Date"),
    "polars, duration": (lambda: pl.DataFrame({"b": [datetime.timedelta(1)]}), "Column 'b' has dtype Duration"),
    "polars, time": (lambda: pl.DataFrame({"b": [datetime.time(1)]}), "Column 'b' has dtype Time"),
    "polars, list": (lambda: pl.DataFrame({"b": [[1]]}), r"Column 'b' has dtype List\(Int64\)"),
    "polars, struct": (lambda: pl.DataFrame({"b": [{"x": 1}]}), "Column 'b' has dtype Struct"),
    "polars, objects": (
        lambda: pl.DataFrame({"b": pl.Series([object()], dtype=pl.Object)}),
        "Column 'b' has dtype Object",
    ),
    "Arrow, timestamp": (
        lambda: pa.table({"b": pa.array([datetime.datetime(2020, 1, 1)])}),
        "Column 'b' has dtype timestamp",
    ),
    "Arrow, list": (lambda: pa.table({"b": [[1]]}), "Column 'b' has dtype list"),
    "Arrow, binary": (lambda: pa.table({"b": [b"x"]}), "Column 'b' has dtype binary"),
    "Arrow, dictionary of dates": (
        lambda: pa.table({"b": pa.array([DATE]).dictionary_encode()}),
        "Column 'b' has dtype dictionary<values=date32",
    ),
    "Arrow, same name twice": (lambda: pa.table([[1], [2]], names=["b", "b"]), "Column 'b' appears more than once"),
    "numpy, text": (lambda: np.array([["a", "b"]]), "must be numeric.*Arrow table with text or category columns"),
    "numpy, complex": (lambda: np.array([[1j]]), "must be numeric, got an array of dtype complex128"),
    "numpy, timedelta": (lambda: np.array([[1]], dtype="m8[s]"), "must be numeric, got an array of dtype timedelta64"),
    "no columns": (lambda: pl.DataFrame({"b": [1]}).drop("b"), "The feature table has no"),
    "no rows": (lambda: pl.LazyFrame({"b": ["x"]}).head(0), "The feature table has no rows"),
}


@pytest.mark.parametrize("case", BAD)
def test_columns_that_are_neither_numbers_nor_categories(case: str) -> None:
    make, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        row_source(make())


def test_a_lazy_frame_of_the_wrong_types_is_not_collected() -> None:
    def fail(frame: Any) -> Any:
        raise AssertionError("collected")

    lazy = pl.LazyFrame({"a": [1.0], "b": [DATE]}).map_batches(fail, schema={"a": pl.Float64, "b": pl.Date})
    with pytest.raises(ValueError, match="Column 'b' has dtype Date"):
        puc.train({**ENGINES["lightgbm"], "optional": ["a"]}, puc.Dataset(lazy, [1.0]), 1)


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


# ---------------------------------------------------------------- models


@pytest.mark.parametrize("engine", ENGINES)
def test_models_say_which_columns_have_which_categories(engine: str, tmp_path: Path) -> None:
    booster, _, expected = reference(engine)
    path = tmp_path / "model.ubj"  # XGBoost warns of a file whose ending says nothing
    puc.save_model(booster, path)
    loaded = puc.load_model(path)
    assert loaded.puc_summary == booster.puc_summary
    np.testing.assert_array_equal(puc.predict(loaded, pl.DataFrame(OTHERS)), expected)
    if engine == "xgboost":  # XGBoost itself keeps what it needs
        own = xgb.Booster(model_file=path)
        np.testing.assert_array_equal(puc.predict(own, pl.DataFrame(OTHERS)), expected)
        return
    old = re.sub(r', "coded_columns": \[[^]]*\]', "", path.read_text())
    assert old != path.read_text()
    path.write_text(old)
    loaded = puc.load_model(path)
    assert loaded.puc_summary.coded_columns is None
    for table in (pl.DataFrame(OTHERS), categories(OTHERS)):  # matched in order
        np.testing.assert_array_equal(puc.predict(loaded, table), expected)
    with pytest.raises(ValueError, match="The training table has 3 category columns, this one has 2"):
        puc.predict(loaded, pl.DataFrame({**OTHERS, "grade": [1.0] * N}))


def test_as_many_categorical_features_as_category_columns_are_not_mistaken_for_them() -> None:
    """LightGBM keeps ["a", "b"] and [children]; that children's codes are not those of grade, only pucboost knows."""
    frame = objects(DATA).drop(columns=["region", "diet"]).assign(grade=pd.Categorical(DATA["grade"]))
    data = puc.Dataset(frame, Y, optional=["grade"], categorical_feature=["children"])
    booster = puc.train(ENGINES["lightgbm"], data, 5)
    assert booster.puc_summary.coded_columns == (frame.columns.get_loc("grade"),)
    expected = booster.predict(frame)
    np.testing.assert_array_equal(puc.predict(booster, frame), expected)
    np.testing.assert_array_equal(puc.predict(booster, pl.from_pandas(frame)), expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_training_continues_with_the_same_categories_only(engine: str) -> None:
    booster, _, _ = reference(engine)
    more = puc.train({**ENGINES[engine]}, dataset(pl.DataFrame(DATA)), 2, init_model=booster)
    assert categories_of(more) == categories_of(booster)
    fewer = {**DATA, "region": [None if v == "east" else v for v in DATA["region"]]}
    with pytest.raises(ValueError, match=r"Column 'region' has the categories \['north', 'south', 'Äland'\] …, init_m"):
        puc.train({**ENGINES[engine]}, dataset(pl.DataFrame(fewer)), 2, init_model=booster)
    regions = ["east", "north", "south", "Äland", "west"]
    longer = categories(fewer).assign(region=pd.Categorical(fewer["region"], categories=regions))
    if engine == "lightgbm":
        puc.train({**ENGINES[engine]}, dataset(longer), 2, init_model=booster)


@pytest.mark.parametrize("engine", ENGINES)
def test_anchored_models_take_every_container(engine: str, tmp_path: Path) -> None:
    params = {**ENGINES[engine], "copies": 3, "anchor": "base"}
    model = puc.train(params, dataset(categories(DATA)), 4)
    expected, raw = model.predict(categories(OTHERS)), model.predict(categories(OTHERS), raw_score=True)
    puc.save_model(model, tmp_path / "model.json")
    loaded = puc.load_model(tmp_path / "model.json")
    for name, convert in CONTAINERS.items():
        table = convert(OTHERS)
        np.testing.assert_array_equal(model.predict(table), expected, err_msg=name)
        np.testing.assert_array_equal(loaded.predict(table, raw_score=True), raw, err_msg=name)
        np.testing.assert_allclose(puc.predict(loaded, table), expected, rtol=1e-12, err_msg=name)
        if name in ("pandas, nullable", "polars, lazy", "Arrow, chunks"):
            own = puc.train(params, dataset(convert(DATA)), 4)
            np.testing.assert_array_equal(own.predict(table), expected, err_msg=name)
    nobody = pl.DataFrame({**OTHERS, **{c: [None] * N for c in ("steps", "diet", "grade", "glucose")}})
    silent = objects(OTHERS).assign(steps=np.nan, diet=None, grade=None, glucose=np.nan)
    np.testing.assert_array_equal(model.predict(nobody), model.predict(silent))


@pytest.mark.parametrize("engine", ENGINES)
def test_anchors_have_codes_of_their_own(engine: str) -> None:
    """The premium of the silent is the legacy model's, whatever order the categories of the new table have."""
    frame = categories(DATA)[["age", "grade"]].rename(columns={"grade": "region"})
    data = {**DATA, "region": DATA["grade"]}

    def premiums(columns: Any) -> tuple[Any, Any]:
        if engine == "lightgbm":
            legacy = lgb.train(ENGINES[engine], lgb.Dataset(columns, Y), 5)
            return legacy, legacy.predict(columns)
        matrix = xgb.DMatrix(columns, Y, enable_categorical=True)
        legacy = xgb.train({"objective": "binary:logistic", "nthread": 1}, matrix, 5)
        return legacy, legacy.predict(matrix)

    legacy, premium = premiums(frame.assign(region=frame["region"].cat.set_categories(list("cafbed"))))
    model = puc.train({**ENGINES[engine], "anchor": legacy}, dataset(arrow(data)), 3)
    for table in (arrow(data), categories(data), pl.LazyFrame(data)):
        np.testing.assert_array_equal(puc.predict(model, table, sharing="withheld"), premium)
        silent = np.flatnonzero(puc.quote(model, table).notna().sum(axis=1) == 1)
        assert len(silent) > 10
        np.testing.assert_array_equal(model.predict(table)[silent], premium[silent])
    # XGBoost loses names of categories that are not ASCII, LightGBM keeps none of a matrix.
    lost = frame.assign(region=frame["region"].cat.rename_categories(str.upper).cat.rename_categories({"A": "Ä"}))
    legacy, _ = premiums(lost if engine == "xgboost" else lost.assign(region=lost["region"].cat.codes).to_numpy())
    with pytest.raises(ValueError, match="The anchor does not tell the categories it was trained on, so column 'reg"):
        puc.train(
            {**ENGINES[engine], "anchor": legacy}, dataset(arrow(data).select(["age", "region", *list(DATA)[4:]])), 3
        )


def test_callable_anchors_and_models_get_the_callers_table_with_nothing_optional() -> None:
    seen: list[Any] = []

    def tariff(table: Any) -> Any:
        seen.append(table)
        return np.zeros(len(table) if not hasattr(table, "num_rows") else table.num_rows)

    for name in ("pandas, nullable", "pandas, Arrow", "pandas, categories", "polars, Categorical", "Arrow, chunks"):
        table = CONTAINERS[name](DATA)
        puc.train({**ENGINES["lightgbm"], "anchor": tariff}, dataset(table), 2)
        assert type(seen[-1]) is type(table)
        erased = seen[-1].to_pandas() if hasattr(seen[-1], "to_pandas") else seen[-1]
        assert erased[["steps", "diet", "grade", "glucose"]].isna().all(axis=None)
        assert erased["region"].notna().sum() == sum(v is not None for v in DATA["region"])
        if name.startswith("pandas"):
            assert erased["diet"].dtype == table["diet"].dtype
        if name == "pandas, nullable":
            assert (erased.dtypes == table.dtypes).all()
    puc.train({**ENGINES["lightgbm"], "anchor": tariff}, dataset(pl.LazyFrame(DATA)), 2)
    assert isinstance(seen[-1], pl.DataFrame)


# ---------------------------------------------------------------- the rest


@pytest.mark.parametrize("container", [name for name in CONTAINERS if name != "numpy"])
def test_augment_gives_the_same_kind_of_table_back(container: str) -> None:
    table = CONTAINERS[container](DATA)
    out, labels, weight, source = puc.augment(table, Y, optional=OPTIONAL, copies=2, indicators=True)
    expected, *_ = puc.augment(categories(DATA), Y, optional=OPTIONAL, copies=2, indicators=True)
    frame = out if hasattr(out, "iloc") else out.to_pandas()
    assert len(labels) == len(weight) == len(source) == len(frame)
    for name in frame.columns:
        got, wanted = frame[name].astype(object), expected[name].astype(object)
        assert got.isna().tolist() == wanted.isna().tolist()
        assert got.dropna().tolist() == wanted.dropna().tolist()
    if hasattr(table, "iloc"):
        assert (out[TEXT].dtypes == table[TEXT].dtypes).all()
    elif isinstance(table, pa.RecordBatch):
        assert out.schema.field("diet").type == pa.string()
    elif not isinstance(table, (pl.LazyFrame, nw.DataFrame)):
        assert type(out) is type(table)
        one, other = (t["diet"].type if isinstance(t, pa.Table) else t["diet"].dtype for t in (out, table))
        assert one == other or (pa.types.is_dictionary(one) and pa.types.is_dictionary(other))
    with pytest.raises(ValueError, match=r"fill_value=0\.0 cannot stand for a withheld category in column 'diet'"):
        puc.augment(table, Y, optional=OPTIONAL, fill_value=0.0)


@pytest.mark.parametrize("container", CONTAINERS)
def test_nothing_of_the_caller_is_changed(container: str) -> None:
    table, before = (CONTAINERS[container](DATA) for _ in range(2))
    data = dataset(table)
    booster = puc.train({**ENGINES["lightgbm"], "copies": 2}, data, 2, valid_sets=[dataset(table)])
    puc.predict(booster, table, sharing="best")
    puc.augment(table, Y, optional=OPTIONAL if container != "numpy" else [4, 5, 6, 7])
    assert data.data is table
    assert data.categorical_feature == (TEXT if container == "numpy" else "auto")
    table, before = (nw.to_native(t, pass_through=True) for t in (table, before))
    if isinstance(table, pd.DataFrame):
        pd.testing.assert_frame_equal(table, before)
    elif isinstance(table, np.ndarray):
        np.testing.assert_array_equal(table, before)
    elif isinstance(table, pl.LazyFrame):
        assert table.collect().equals(before.collect())
    else:
        assert table.equals(before) or container == "polars, NaN"
        assert container != "polars, NaN" or table.equals(before, null_equal=True)


@pytest.mark.parametrize("container", ["pandas, objects", "pandas, categories", "polars, Categorical", "Arrow, chunks"])
def test_tables_are_read_in_blocks(container: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(sources, "BLOCK_BYTES", 2_000)
    monkeypatch.setattr(series, "BLOCK_ROWS", 30)
    monkeypatch.setattr(stream, "BATCH_BYTES", 2_000)
    monkeypatch.setattr(prediction, "BATCH_BYTES", 1_000)
    sizes = []
    encode = frames.FrameSource._encode

    def record(self: Any, n_rows: int, pick: Any) -> Any:
        sizes.append(n_rows)
        return encode(self, n_rows, pick)

    monkeypatch.setattr(frames.FrameSource, "_encode", record)
    booster = train("lightgbm", CONTAINERS[container](DATA))
    assert trees(booster) == trees(reference("lightgbm")[0])
    np.testing.assert_array_equal(puc.predict(booster, CONTAINERS[container](OTHERS)), reference("lightgbm")[2])
    assert 0 < max(sizes) < N / 3


def test_float_tables_are_not_copied() -> None:
    X = np.random.default_rng(0).normal(size=(100, 3))
    for table in (X, np.asfortranarray(X), X[10:], pd.DataFrame(X), pd.DataFrame(X, columns=list("abc"))):
        array = row_source(table).array  # type: ignore[attr-defined]
        assert np.shares_memory(array, np.asarray(table))
    in_blocks = [
        (X[::2], OtherArraySource, np.float64),
        (X[:, 1:], OtherArraySource, np.float64),
        ((10 * X).astype(np.int8), OtherArraySource, np.float32),
        (X > 0, OtherArraySource, np.float32),
        (pd.DataFrame(X).iloc[10:, 1:], frames.FrameSource, np.float64),
        (pd.DataFrame(X).assign(more=1.0), frames.FrameSource, np.float64),
        (pd.DataFrame(X.astype(np.float32)).assign(more=X[:, 0] > 0), frames.FrameSource, np.float32),
    ]
    for table, kind, dtype in in_blocks:
        source = row_source(table)
        assert isinstance(source, kind)
        assert source.dtype == dtype
        np.testing.assert_array_equal(source.window(0, len(table)), np.asarray(table, dtype=dtype))
        np.testing.assert_array_equal(source.take(np.array([7, 3, 3])), np.asarray(table, dtype=dtype)[[7, 3, 3]])
