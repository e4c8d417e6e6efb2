"""The same data give the same model and the same predictions, whichever container they come in."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
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
    as_pandas,
    categories,
    codes,
    dataset,
    reference,
    train,
    trees,
)

import pucboost as puc
from pucboost._prediction import predictor
from pucboost._tables import columns, sources
from pucboost._tables.sources import NumericFrameSource, OtherArraySource, is_stored, row_source
from pucboost._tables.table_files import read_whole
from pucboost._virtual import rows as stream


@pytest.mark.parametrize("engine", ENGINES)
def test_same_model_and_predictions_from_every_container(engine: str) -> None:
    booster, expected, expected_of_others = reference(engine)
    for container, convert in CONTAINERS.items():
        table, others = convert(DATA), convert(OTHERS)
        own = train(engine, table)
        assert trees(own) == trees(booster), container
        np.testing.assert_array_equal(puc.predict(own, table), expected, container)
        np.testing.assert_array_equal(puc.predict(own, others), expected_of_others, container)
        # A model of one container, a table in another.
        np.testing.assert_array_equal(puc.predict(booster, others), expected_of_others, container)
        if container == "numpy":
            assert own.puc_summary.coded_columns == ()
            with pytest.raises(ValueError, match="Column 'region' holds text or categories"):
                puc.predict(own, arrow(OTHERS))
        else:
            assert own.puc_summary == booster.puc_summary, container
            assert own.puc_summary.coded_columns == (3, 5, 6)
            np.testing.assert_array_equal(puc.predict(own, categories(OTHERS)), expected_of_others, container)
            np.testing.assert_array_equal(puc.predict(own, codes(DATA)), expected, container)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("container", ["pandas, nullable", "Arrow, chunks"])
def test_everything_else_takes_every_container(container: str, engine: str) -> None:
    table, plain = CONTAINERS[container](DATA), categories(DATA)
    booster, _, _ = reference(engine)
    pd.testing.assert_frame_equal(as_pandas(puc.quote(booster, table)), as_pandas(puc.quote(booster, plain)))
    pd.testing.assert_frame_equal(
        as_pandas(puc.sharing_value(booster, table)), as_pandas(puc.sharing_value(booster, plain))
    )
    rule: dict[str, Any] = {"favourable": "lower"}
    for sharing in ("withheld", "best"):
        expected = puc.predict(booster, plain, sharing=sharing, **rule)
        np.testing.assert_array_equal(puc.predict(booster, table, sharing=sharing, **rule), expected)
    assert puc.sharing_effects(booster, table, **rule) == puc.sharing_effects(booster, plain, **rule)
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
        pl.DataFrame({"a": pl.Series(values, dtype=getattr(pl, "Int128", pl.Int64))}),
        pd.DataFrame({"a": pd.Series(values, dtype="Int64")}),
        pd.DataFrame({"a": pd.Series(values, dtype=object)}),
        pd.DataFrame({"a": pd.Series(values, dtype=pd.ArrowDtype(pa.int64()))}),
    ):
        np.testing.assert_array_equal(row_source(table).window(0, 5)[:, 0], expected)
    small = pl.DataFrame({"a": pl.Series([1, 2], dtype=pl.Int16), "b": pl.Series([0.5, None], dtype=pl.Float32)})
    assert row_source(small).dtype == np.float32
    assert row_source(small.with_columns(c=pl.Series([True, None]))).dtype == np.float32
    assert row_source(small.with_columns(c=pl.Series([1, None]))).dtype == np.float64


# ---------------------------------------------------------------- the rest


def test_augment_gives_the_same_kind_of_table_back() -> None:
    expected, *_ = puc.augment(categories(DATA), Y, optional=OPTIONAL, copies=2, indicators=True)
    for container in CONTAINERS.keys() - {"numpy"}:
        table = CONTAINERS[container](DATA)
        out, labels, weight, source = puc.augment(table, Y, optional=OPTIONAL, copies=2, indicators=True)
        frame = out if hasattr(out, "iloc") else out.to_pandas()
        assert len(labels) == len(weight) == len(source) == len(frame)
        for name in frame.columns:
            got, wanted = frame[name].astype(object), expected[name].astype(object)
            assert got.isna().tolist() == wanted.isna().tolist(), container
            assert got.dropna().tolist() == wanted.dropna().tolist(), container
        if hasattr(table, "iloc"):
            assert (out[TEXT].dtypes == table[TEXT].dtypes).all()
        elif is_stored(table) and not isinstance(table, pl.LazyFrame):
            assert isinstance(out, pa.Table)
        elif isinstance(table, pa.RecordBatch):
            assert out.schema.field("diet").type == pa.string()
        elif not isinstance(table, (pl.LazyFrame, nw.DataFrame)):
            assert type(out) is type(table)
            one, other = (t["diet"].type if isinstance(t, pa.Table) else t["diet"].dtype for t in (out, table))
            assert one == other or (pa.types.is_dictionary(one) and pa.types.is_dictionary(other))
        with pytest.raises(ValueError, match=r"fill_value=0\.0 cannot stand for a withheld category in column 'diet'"):
            puc.augment(table, Y, optional=OPTIONAL, fill_value=0.0)


def test_nothing_of_the_caller_is_changed() -> None:
    for container, convert in CONTAINERS.items():
        table, before = (convert(DATA) for _ in range(2))
        data = dataset(table)
        booster = puc.train({**ENGINES["lightgbm"], "copies": 2}, data, 2, valid_sets=[dataset(table)])
        puc.predict(booster, table, sharing="best", favourable="lower")
        puc.augment(table, Y, optional=OPTIONAL if container != "numpy" else [4, 5, 6, 7])
        assert data.data is table
        assert data.categorical_feature == (TEXT if container == "numpy" else "auto")
        table, before = (nw.to_native(t, pass_through=True) for t in (table, before))
        if isinstance(table, pd.DataFrame):
            pd.testing.assert_frame_equal(table, before)
        elif isinstance(table, np.ndarray):
            np.testing.assert_array_equal(table, before)
        elif is_stored(table):
            assert read_whole(table).equals(read_whole(before))
        else:
            assert table.equals(before, **({"null_equal": True} if container == "polars, NaN" else {}))


def test_small_tables_become_numbers_once(monkeypatch: Any) -> None:
    encoded = []
    encode = columns.FrameSource._encode
    monkeypatch.setattr(columns.FrameSource, "_encode", lambda *given: encoded.append(1) or encode(*given))
    booster = train("lightgbm", CONTAINERS["pandas, categories"](DATA))
    assert len(encoded) == 1
    puc.predict(booster, CONTAINERS["pandas, categories"](OTHERS))
    assert len(encoded) == 2


def test_tables_are_read_in_blocks(monkeypatch: Any) -> None:
    monkeypatch.setattr(columns, "KEPT_BYTES", 1_000)
    monkeypatch.setattr(sources, "BLOCK_BYTES", 2_000)
    monkeypatch.setattr(columns, "BLOCK_ROWS", 30)
    monkeypatch.setattr(stream, "BATCH_BYTES", 2_000)
    monkeypatch.setattr(predictor, "BATCH_BYTES", 1_000)
    sizes = []
    encode = columns.FrameSource._encode

    def record(self: Any, n_rows: int, pick: Any) -> Any:
        sizes.append(n_rows)
        return encode(self, n_rows, pick)

    monkeypatch.setattr(columns.FrameSource, "_encode", record)
    for container in ("pandas, objects", "pandas, categories", "polars, Categorical", "Arrow, chunks"):
        booster = train("lightgbm", CONTAINERS[container](DATA))
        assert trees(booster) == trees(reference("lightgbm")[0])
        np.testing.assert_array_equal(puc.predict(booster, CONTAINERS[container](OTHERS)), reference("lightgbm")[2])
        assert 0 < max(sizes) < N / 3
        sizes.clear()


def test_float_tables_are_not_copied(monkeypatch: Any) -> None:
    X = np.random.default_rng(0).normal(size=(100, 3))
    for table in (X, np.asfortranarray(X), X[10:], pd.DataFrame(X), pd.DataFrame(X, columns=list("abc"))):
        array = row_source(table).array  # type: ignore[attr-defined]
        assert np.shares_memory(array, np.asarray(table))
    monkeypatch.setattr(sources, "BLOCK_BYTES", 0)  # larger frames; small ones are converted at once
    in_blocks: list[Any] = [
        (X[::2], OtherArraySource, np.float64),
        (X[:, 1:], OtherArraySource, np.float64),
        ((10 * X).astype(np.int8), OtherArraySource, np.float32),
        (X > 0, OtherArraySource, np.float32),
        (pd.DataFrame(X).iloc[10:, 1:], NumericFrameSource, np.float64),
        (pd.DataFrame(X).assign(more=1.0), NumericFrameSource, np.float64),
        (pd.DataFrame(X.astype(np.float32)).assign(more=X[:, 0] > 0), NumericFrameSource, np.float32),
    ]
    for table, kind, dtype in in_blocks:
        source = row_source(table)
        assert isinstance(source, kind)
        assert source.dtype == dtype
        np.testing.assert_array_equal(source.window(0, len(table)), np.asarray(table, dtype=dtype))
        np.testing.assert_array_equal(source.take(np.array([7, 3, 3])), np.asarray(table, dtype=dtype)[[7, 3, 3]])


def test_a_frame_of_numbers_is_read_as_its_columns_are(monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    kinds = ["f8", "f4", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]
    for trial in range(120):
        monkeypatch.setattr(sources, "BLOCK_BYTES", (4 << 20) * (trial % 2))
        chosen = rng.choice(kinds, rng.integers(1, 7))
        large = {"f8": 0.1, "i8": 10**16 + 1}
        frame = pd.DataFrame(
            {f"c{j}": (rng.integers(0, 100, 40) * large.get(kind, 1)).astype(kind) for j, kind in enumerate(chosen)}
        )
        frame = frame.mask(rng.random(frame.shape) < 0.2) if trial % 3 == 0 else frame
        frame = [frame, frame[::-1], frame[::2], frame[1:], frame.iloc[:1]][trial % 5]
        block, by_column = row_source(frame), columns.FrameSource(frame)
        assert isinstance(block, columns.FrameSource) == ("object" in map(str, frame.dtypes))  # masked booleans
        assert (block.dtype, block.columns) == (by_column.dtype, by_column.columns)
        rows = rng.integers(0, len(frame), 7)
        assert block.window(0, 1).dtype == block.take(rows).dtype == block.dtype
        np.testing.assert_array_equal(block.window(0, len(frame)), by_column.window(0, len(frame)))
        np.testing.assert_array_equal(block.take(rows), by_column.take(rows))
