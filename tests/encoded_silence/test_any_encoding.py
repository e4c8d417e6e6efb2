"""Any encoding of silence in any column is found, with the column and the value; honest columns raise no suspicion."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

import pucboost as puc

CODES = (-1, -9, -99, -999, 9999)
WORDS = ("?", "unknown", "NA", "prefer not to say")
NUMBERS = ("mean", "median", *CODES)
ENCODINGS = (*NUMBERS, *WORDS, "one-hot with c_nan", "one-hot without", "unstored")


def warned(X: Any, optional: Any, y: Any) -> str:
    """What training says about the table; nothing is an empty text."""
    params = {"optional": optional, "verbosity": -1, "num_threads": 1}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        puc.train(params, puc.Dataset(X, y), 1)
    assert {one.category for one in caught} <= {puc.warnings.EncodedSilenceWarning}
    return " ".join(str(one.message) for one in caught)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pd.DataFrame, np.ndarray, str, np.ndarray]:
    """A table with two numbers and two categories, one of which is withheld by some, and who they are."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, share = draw(st.integers(300, 900)), draw(st.floats(0.05, 0.6))
    centre, relative = draw(st.floats(50, 400)), draw(st.floats(0.05, 0.15))
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float),
            "pressure": rng.normal(centre, relative * centre, n),
            "waiting": rng.gamma(9.0, centre / 9.0, n),
            "job": rng.choice(["office", "field", "home", "none at all"], n),
            "diet": rng.choice(["meat", "fish", "plants"], n, p=[0.6, 0.3, 0.1]),
        }
    )
    y = rng.normal(size=n)
    silent = rng.random(n) < share
    assume(20 <= silent.sum() <= n - 100)
    return table, y, draw(st.sampled_from(["first", "second"])), silent


def encoded(table: pd.DataFrame, silent: np.ndarray, which: str, encoding: Any) -> tuple[Any, Any, str | None, str]:
    """Return the table, what is optional, and the column and value to be named."""
    if encoding in NUMBERS or encoding == "unstored":
        column = {"first": "pressure", "second": "waiting"}[which]
        hidden = table[["age", column]].copy()
        honest = hidden[column][~silent]
        if encoding == "unstored":
            hidden.loc[silent, column] = 0.0
            return sparse.csr_matrix(hidden.to_numpy()), [1], "Column_1", "0"
        value = float(getattr(honest, encoding)()) if isinstance(encoding, str) else float(encoding)
        hidden.loc[silent, column] = value
        return hidden, [column], column, f"{value:.6g}"
    column = {"first": "job", "second": "diet"}[which]
    if encoding in WORDS:
        return (
            table[["age", column]].assign(**{column: table[column].where(~silent, encoding)}),
            [column],
            column,
            repr(encoding),
        )
    hot = pd.get_dummies(table[column].where(~silent), prefix="c", dummy_na=encoding == "one-hot with c_nan")
    group = {column: list(hot.columns)}
    named = ("c_nan", "1") if encoding == "one-hot with c_nan" else (None, "0 in all its columns")
    return pd.concat([table[["age"]], hot], axis=1), group, *named


@settings(max_examples=60)
@given(made=tables(), encoding=st.sampled_from(ENCODINGS))
def test_the_warning_names_column_and_value(made: Any, encoding: Any) -> None:
    table, y, which, silent = made
    if encoding == "one-hot without":
        assume(silent.mean() < 0.5)  # else nobody could tell who is the exception
    X, optional, column, value = encoded(table, silent, which, encoding)
    text = warned(X, optional, y)
    assert "is withheld by nobody in training" in text
    what = f"column {column!r}" if column else f"group {next(iter(optional))!r}"
    assert f"{what} is {value} for " in text, text


HONEST = {
    "measurement": lambda rng, n: rng.normal(120, 15, n),
    "rounded measurement": lambda rng, n: np.round(rng.normal(120, 15, n)),
    "standard scores": lambda rng, n: rng.normal(0, 1, n),
    "income": lambda rng, n: np.round(rng.lognormal(10, 0.6, n), -2),
    "amount, often none": lambda rng, n: np.where(rng.random(n) < 0.4, 0.0, rng.lognormal(5, 1, n)),
    "count": lambda rng, n: rng.poisson(2.0, n).astype(float),
    "rating": lambda rng, n: rng.integers(1, 6, n).astype(float),
    "scale 0 to 10": lambda rng, n: rng.integers(0, 11, n).astype(float),
    "share": lambda rng, n: rng.beta(2, 5, n),
    "hours": lambda rng, n: np.where(rng.random(n) < 0.3, 40.0, 5 * np.round(rng.normal(7.5, 1.6, n))),
    "yes or no": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "year": lambda rng, n: rng.integers(1950, 2024, n).astype(float),
    "change": lambda rng, n: np.where(rng.random(n) < 0.3, 0.0, rng.normal(0, 5, n)),
}


@settings(max_examples=60)
@given(
    kind=st.sampled_from(sorted(HONEST)),
    seed=st.integers(0, 10**6),
    n=st.integers(300, 900),
    share=st.floats(0.05, 0.6),
    by_value=st.booleans(),
)
def test_honest_columns_raise_no_suspicion(kind: str, seed: int, n: int, share: float, by_value: bool) -> None:
    """Withheld at random, or the more, the larger the value."""
    rng = np.random.default_rng(seed)
    values, age = HONEST[kind](rng, n), rng.integers(18, 90, n).astype(float)
    rank = np.argsort(np.argsort(values)) / n if by_value else np.full(n, 0.5)
    X = np.column_stack([age, np.where(rng.random(n) < 2 * share * rank, np.nan, values)])
    assume(np.isnan(X[:, 1]).sum() > 5)
    assert warned(X, [1], rng.normal(size=n)) == ""


@pytest.mark.parametrize("code", [*CODES, "mean"])
def test_encoded_for_some_and_missing_for_others(code: Any) -> None:
    """Two sources of data, one of which encodes silence."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(18, 90, 900), rng.normal(120, 15, 900)])
    X[:150, 1] = np.nan
    value = float(np.nanmean(X[:, 1])) if code == "mean" else float(code)
    X[150:300, 1] = value
    text = warned(X, [1], rng.normal(size=900))
    assert f"column 'Column_1' is {value:.6g} for 16.7% of the people" in text
    assert "withheld by nobody" not in text
