"""Encoded silence is found, and honest tables are left alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from silence.encodings import ENCODINGS, JOBS, findings, people
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from pucboost import _silence
from pucboost._consent import Consent
from pucboost._silence import NOBODY, EncodedSilence, _part, describe, find_encoded_silence, find_spikes
from pucboost._tables.sources import ArraySource, SubsetSource


@given(
    name=st.sampled_from(sorted(ENCODINGS)),
    n=st.integers(300, 3_000),
    share=st.floats(0.05, 0.45),
    seed=st.integers(0, 1_000),
)
@settings(max_examples=150)
def test_every_encoding_is_found_and_real_silence_is_not(name: str, n: int, share: float, seed: int) -> None:
    table, _ = people(n, share, seed)
    encoding = ENCODINGS[name]
    found = findings(encoding.encode(table), encoding.optional)
    assert [one.people for one in found if one.kind == NOBODY] == [0]
    value = encoding.value(table)
    if value is not None:
        [hidden] = [one for one in found if one.kind != NOBODY]
        assert (hidden.column, hidden.value) == (encoding.column, value)
        silent = table[encoding.column if encoding.column in table else "z" if "z" in encoding.optional else "job"]
        if encoding.column != "Column_1":
            assert hidden.share == pytest.approx(silent.isna().mean(), abs=1.5 / n)  # somebody may be the median
    else:
        assert len(found) == 1
    assert findings(table, ["z", "job"]) == []
    assert findings(pd.get_dummies(table, columns=["job"]).assign(job=table["job"]), ["z", "job"]) == []


def test_part_of_silence_encoded_is_found_too() -> None:
    """Where some people withhold properly, and others by a code or a word."""
    table, _ = people(2_000)
    half = np.arange(2_000) % 2 == 0
    mean = table["z"].mean()
    codes = [("z", float(code), f"{code}") for code in (-1, -9, -99, -999, 9999)]
    for column, value, said in (*codes, ("z", mean, f"{mean:.6g}"), ("job", "unknown", "'unknown'")):
        mixed = table.assign(**{column: table[column].where(table[column].notna() | half, value)})
        [one] = findings(mixed, ["z", "job"])
        assert (one.group, one.column) == (column, column)
        assert one.value == said


def honest_columns(n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Columns as real tables have them: census, credit, health, insurance, surveys."""
    return {
        "age in years": np.clip(rng.gamma(8, 5, n).astype(int) + 17, 17, 90),
        "hours per week, mostly 40": np.select(
            [rng.random(n) < 0.47, rng.random(n) < 0.5],
            [40, rng.choice([20, 30, 35, 45, 50, 60], n)],
            rng.integers(1, 99, n),
        ),
        "capital gain, capped": np.where(
            rng.random(n) < 0.92, 0, np.where(rng.random(n) < 0.05, 99999, np.exp(rng.normal(8.5, 1, n)).round())
        ),
        "capital loss, mostly 0": np.where(rng.random(n) < 0.95, 0, rng.normal(1870, 380, n).round()),
        "years of education": rng.choice([7, 9, 10, 11, 13, 14, 16], n, p=[0.05, 0.33, 0.25, 0.07, 0.2, 0.07, 0.03]),
        "visits": rng.poisson(3, n),
        "claims, mostly 0": rng.poisson(0.1, n),
        "months since": rng.geometric(0.05, n) - 1,
        "score with ceiling": np.clip(rng.normal(80, 20, n), 0, 100),
        "score of 0 to 99": np.clip(rng.normal(70, 15, n).round(), 0, 99),
        "rating": rng.integers(1, 6, n),
        "last digit": rng.integers(0, 10, n),
        "yes or no": rng.integers(0, 2, n),
        "minus one or one": rng.choice([-1, 1], n),
        "worse, same, better": rng.choice([-1, 0, 1], n),
        "months in arrears": rng.choice([-2, -1, 0, 1, 2, 3], n, p=[0.1, 0.2, 0.5, 0.1, 0.07, 0.03]),
        "constant": np.full(n, 3.0),
        "change, often none": np.where(rng.random(n) < 0.4, 0, rng.normal(0, 3, n)),
        "standard normal": rng.normal(size=n),
        "temperature": rng.normal(36.8, 0.4, n).round(1),
        "blood pressure, rounded": np.where(
            rng.random(n) < 0.6, (rng.normal(80, 10, n) / 10).round() * 10, rng.normal(80, 10, n).round()
        ),
        "income, some without": np.where(rng.random(n) < 0.1, 0, np.exp(rng.normal(10.5, 0.8, n)).round()),
        "loan": (np.exp(rng.normal(9.4, 0.6, n)) / 25).round() * 25,
        "credit score": np.clip(rng.normal(700, 80, n).round(), 300, 850),
        "price": rng.choice([9.99, 19.99, 49.99, 99.99], n),
        "tenure, capped": np.clip(rng.exponential(30, n).round(), 0, 72),
        "exposure in years": np.where(rng.random(n) < 0.6, 1.0, rng.random(n).round(2)),
        "year of birth": rng.integers(1930, 2005, n),
        "country": pd.Categorical(rng.choice(["NA", "DE", "FR", "US"], n)),
        "rhesus factor": pd.Categorical(rng.choice(["+", "-"], n)),
        "sector": pd.Categorical(rng.choice(["private", "public", "other", "self-employed"], n)),
        "other debts": pd.Categorical(rng.choice(["none", "guarantor", "co-applicant"], n)),
        "answer": pd.Categorical(rng.choice(["yes", "no", "don't know"], n)),
        "declared, not used": pd.Categorical(rng.choice(["a", "b"], n), categories=["a", "b", "unknown"]),
    }  # fmt: skip


def test_honest_columns_raise_no_alarm() -> None:
    for n, seed in product((100, 1_000, 20_000), range(3)):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame(honest_columns(n, rng))
        names = list(table.columns)
        for name in names:
            table[name] = table[name].where(rng.random(n) < 0.8)
        found = findings(table.assign(base=1.0), names)
        assert found == [], describe(found)


def test_shared_by_everybody_is_all_that_is_said_of_honest_columns() -> None:
    """No value is blamed, but for a word that is a word for missing values in Python."""
    for n in (1_000, 20_000):
        table = pd.DataFrame(honest_columns(n, np.random.default_rng(0)))
        found = findings(table.assign(base=1.0), list(table.columns))
        assert {one.column for one in found if one.kind != NOBODY} == {"other debts"}
        assert sum(one.kind == NOBODY for one in found) == table.shape[1]
        assert describe(found).startswith("groups 'age in years', 'hours per week, mostly 40', ")


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
def test_honest_columns_withheld_at_random_or_by_value(
    kind: str, seed: int, n: int, share: float, by_value: bool
) -> None:
    """Withheld at random, or the more, the larger the value."""
    rng = np.random.default_rng(seed)
    values, age = HONEST[kind](rng, n), rng.integers(18, 90, n).astype(float)
    rank = np.argsort(np.argsort(values)) / n if by_value else np.full(n, 0.5)
    X = np.column_stack([age, np.where(rng.random(n) < 2 * share * rank, np.nan, values)])
    assume(np.isnan(X[:, 1]).sum() > 5)
    assert findings(X, [1]) == []


def test_how_many_must_withhold() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 2))
    assert findings(X[:199], [1]) == []
    assert str(findings(X[:200], [1])[0]) == "group 'Column_1' is withheld by nobody in training (0 of 200 people)"
    X[:9, 1] = np.nan
    [few] = findings(X, [1])
    assert str(few) == "group 'Column_1' is withheld by nearly nobody in training (9 of 10,000 people)"
    X[9, 1] = np.nan
    assert findings(X, [1]) == []


def test_averages_of_whole_numbers_and_of_scaled_columns() -> None:
    rng = np.random.default_rng(0)
    age, silent = rng.integers(18, 80, 3_000).astype(float), rng.random(3_000) < 0.1
    for average, rule in ((age[~silent].mean(), "mean"), (np.median(age[~silent]), "mean")):
        [spike] = find_spikes(np.where(silent, average, age))
        assert (spike.value, spike.rule) == (average, rule)
    skewed = np.exp(rng.normal(size=3_000))
    assert find_spikes(np.where(silent, np.median(skewed[~silent]), skewed))[0].rule == "median"
    scaled = StandardScaler().fit_transform(np.where(silent, skewed[~silent].mean(), skewed)[:, None])[:, 0]
    assert [spike.count for spike in find_spikes(scaled)] == [silent.sum()]
    zero_filled = np.where(silent, 0, (age - age[~silent].mean()) / age[~silent].std())
    assert [spike.value for spike in find_spikes(zero_filled)] == [0]


def test_several_codes_and_an_average_at_once() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(50, 10, 3_000)
    values[:900] = np.repeat([-99, -98, values[900:].mean()], 300)
    assert [(spike.rule, spike.count) for spike in find_spikes(values)] == [("code", 300), ("code", 300), ("mean", 300)]
    assert find_spikes(values.astype(np.float32))[:2] == find_spikes(values)[:2]
    survey = rng.integers(1, 6, 1_000)
    survey[:50] = 9
    assert [spike.value for spike in find_spikes(survey)] == [9]
    assert find_spikes(np.r_[np.full(500, np.inf), rng.normal(size=40)]) == []


def test_codes_of_categories_begin_with_minus_one() -> None:
    table, _ = people(1_000)
    codes = table.assign(job=table["job"].astype("category").cat.codes)
    [nobody] = findings(codes.drop(columns="z"), ["job"])  # three jobs and −1: could be anything
    assert nobody.kind == NOBODY
    rng = np.random.default_rng(0)
    many = np.where(rng.random(2_000) < 0.3, -1, rng.integers(0, 12, 2_000))
    assert [spike.value for spike in find_spikes(many)] == [-1]


def test_one_hot_columns() -> None:
    table, _ = people(1_000)
    encoder = OneHotEncoder(sparse_output=False).set_output(transform="pandas")
    hot = encoder.fit_transform(table[["job"]]).assign(age=table["age"])
    for optional in ({"job": [*JOBS, "job_nan"]}, [*JOBS, "job_nan"]):
        [one] = [one for one in findings(hot, optional) if one.kind != NOBODY]
        assert (one.column, one.value, one.people) == ("job_nan", "1", table["job"].isna().sum())
    text = str(findings(hot, {"work": [*JOBS, "job_nan"]})[1])
    assert text.startswith("column 'job_nan' is 1 for ")
    assert "(group 'work')" in text
    assert "and its name says" in text
    # Withheld properly: all columns missing. Then zeros are a dropped category, or boxes that were not ticked.
    shared = table["job"].notna()
    for columns in (JOBS, JOBS[:2]):
        withheld = hot[columns].where(shared).assign(age=hot["age"])
        assert findings(withheld, {"job": columns}) == []
    boxes = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (1_000, 4)), columns=list("abcd"))
    assert [one.kind for one in findings(boxes, {"boxes": list("bcd")})] == [NOBODY]


def test_base_columns_that_tell_who_withholds_by_name() -> None:
    """The optional columns are as they should be, and an indicator beside them undoes it, even one with mistakes."""
    table, _ = people(1_000)
    silent = table["z"].isna() & (table.index != table.index[table["z"].isna()][0])
    for name in ("missingindicator_z", "z_missing", "z_nan", "z_is_missing"):
        [one] = findings(table.assign(**{name: silent}), ["z", "job"])
        assert (one.group, one.column, one.people) == ("z", name, silent.sum())
        assert str(one).startswith(f"base column '{name}' is 1 for ")
        assert str(one).endswith("and its name says that they withhold 'z': leave it out")
    for name in ("zone_missing", "y_missing", "z_score", "missing"):
        assert findings(table.assign(**{name: silent}), ["z", "job"]) == []
    assert findings(table.assign(z_missing=0), ["z", "job"]) == []
    hot = pd.get_dummies(table["job"], prefix="job", dummy_na=True).assign(age=1.0)
    assert "job_nan" in {one.column for one in findings(hot, {"job": JOBS})}


def test_base_columns_that_tell_who_withholds_by_value() -> None:
    table, _ = people(1_000)
    silent, rng = table["z"].isna().to_numpy(), np.random.default_rng(1)
    days, excuses = rng.integers(1, 500, 1_000).astype(float), rng.choice(["no time", "no trust"], 1_000)
    columns = {
        "x": (silent.astype(int), "1", "withhold 'z': leave it out"),
        "missingindicator_z": (silent.astype(int), "1", "withhold 'z': leave it out"),
        "consent date": (np.where(silent, np.nan, days), "missing", "withhold 'z': make it part of group 'z'"),
        "days": (np.where(silent, -1, days), "-1", "withhold 'z': leave it out"),
        "reminders": (np.where(silent, days, 0), "0", "share 'z': leave it out"),
        "reason": (np.where(silent, excuses, None), "missing", "share 'z': leave it out"),
        "channel": (np.where(silent, "post", "app"), "'post'", "withhold 'z': leave it out"),
    }
    for name, (values, value, reason) in columns.items():
        [one] = findings(table.assign(**{name: values}), ["z", "job"])
        assert (one.group, one.column, one.value) == ("z", name, value)
        assert str(one).startswith(f"base column '{name}' is {value} for ")
        assert str(one).endswith(f" of the people, exactly those who {reason}")
    # One person who is different, and it no longer tells exactly.
    for name in ("x", "consent date", "days", "reminders", "channel"):
        values = columns[name][0].copy()
        values[np.flatnonzero(silent)[-1]] = values[np.flatnonzero(~silent)[0]]
        assert findings(table.assign(**{name: values}), ["z", "job"]) == []


def test_base_columns_that_count_what_is_withheld() -> None:
    table, _ = people(1_000)
    missing = table[["z", "job"]].isna().sum(axis=1)
    for name, values, word in (("n_missing", missing, "withhold"), ("answers", 2 - missing, "share")):
        [one] = findings(table.assign(**{name: values}), ["z", "job"])
        assert str(one).startswith(f"base column '{name}' is between 1 and 2 for ")
        assert str(one).endswith(f"which is how many groups they {word}: leave it out")
    assert findings(table.assign(n_missing=missing + (table.index == 500)), ["z", "job"]) == []


def test_few_people_tell_nothing() -> None:
    """Nineteen silent people who happen to have a value in common that nobody else has."""
    table, _ = people(1_000, share=0.0)
    table.loc[:18, "z"] = np.nan
    rare = np.where(np.arange(1_000) < 19, 7.0, 1.0)
    assert [one for one in findings(table.assign(x=rare), ["z"]) if one.column == "x"] == []
    table.loc[19, "z"] = np.nan
    rare[19] = 7.0
    assert [one.column for one in findings(table.assign(x=rare), ["z"])] == ["x"]


def test_sparse_matrices() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1_000, 3))
    silent = rng.random(1_000) < 0.3
    values[silent, 2] = 0
    matrix = sparse.csr_matrix(values)
    [nobody, one] = findings(matrix, [2])
    assert (nobody.kind, one.kind, one.people) == (NOBODY, "unstored", silent.sum())
    assert "not stored in the CSR matrix" in str(one)
    assert findings(matrix, [2], available=~silent) == []
    values[:100, 2] = np.nan  # some withhold properly
    assert [one.kind for one in findings(sparse.csr_matrix(values), [2])] == ["unstored"]
    counts = np.where(rng.random((1_000, 3)) < 0.8, 0, rng.gamma(2, 1, (1_000, 3)))
    counts[:100, 2] = np.nan
    assert findings(sparse.csr_matrix(counts), [2]) == []


def test_words_in_every_container() -> None:
    table, _ = people(500)
    for make in (pd.DataFrame, pl.from_pandas, pa.Table.from_pandas):
        [nobody, word] = findings(make(table.assign(job=table["job"].fillna("Unknown"))), ["job"])
        assert (nobody.group, word.value) == ("job", "'Unknown'")


def test_many_columns_and_categories() -> None:
    """Few of many alike are listed, and thousands of categories cost no more than one look at each."""
    X = np.zeros((300, 40))
    X[:, 0] = np.arange(300)
    X[np.arange(300), np.arange(300) % 39 + 1] = 1
    text = describe(findings(sparse.csr_matrix(X * 3.5), {"words": list(range(1, 40))}))
    assert text.count("not stored") == 5
    assert text.endswith("; so are 34 more columns of group 'words'")
    towns = np.array([f"town {i}" for i in range(30_000)])
    [_, word] = findings(pd.DataFrame({"a": 1.0, "town": np.r_[towns, ["unknown"] * 30_000]}), ["town"])
    assert word.value == "'unknown'"


class Counting(ArraySource):
    """Counts the rows that are read."""

    rows = largest = 0

    def take(self, rows: Any) -> Any:
        self.rows, self.largest = self.rows + len(rows), max(self.largest, len(rows))
        return super().take(rows)

    def window(self, lo: int, hi: int) -> Any:
        raise AssertionError("the whole table is read")


def test_cost_is_bounded() -> None:
    for n, width in [(500, 3), (20_001, 3), (300_000, 3), (3_000, 2_000)]:
        X = np.zeros((n, width), dtype=np.float32)
        X[:, -1] = np.random.default_rng(0).normal(size=n)
        X[::3, -1] = -999
        source = Counting(X)
        consent = Consent.declare([width - 1], source.names)
        [nobody, code] = find_encoded_silence(source, consent, np.ones(n, dtype=np.uint64))
        assert nobody.of == n
        assert source.rows == code.of == min(n, _silence.SAMPLE)
        assert source.largest * width * 4 <= max(4 << 20, width * 4)
        assert code.share == pytest.approx(1 / 3, abs=0.02)


def test_sample_is_deterministic_and_spread() -> None:
    rows = _silence._sample(1_000_003, 5)
    assert len(rows) == len(set(rows)) == _silence.SAMPLE
    assert rows[0] == 0
    assert rows[-1] > 999_900
    assert (np.diff(rows) > 0).all()
    assert np.diff(rows).max() <= 102
    assert np.bincount(rows % 10, minlength=10).min() > 0.09 * len(rows)  # whatever the period of the table
    assert len(_silence._sample(1_000_000, 2_000)) == 4_000


def test_rows_of_another_table() -> None:
    X = np.random.default_rng(0).normal(size=(900, 2))
    X[:300, 1] = -99
    consent = Consent.declare([1], ["a", "b"])
    part = SubsetSource(ArraySource(X), np.arange(0, 900, 2))
    assert [one.people for one in find_encoded_silence(part, consent, np.ones(450, dtype=np.uint64))] == [0, 150]
    assert find_encoded_silence(part, Consent({}, ("a", "b")), np.zeros(450, dtype=np.uint64)) == []


VALUES = st.sampled_from([np.nan, -np.inf, np.inf, 0.0, -0.0, 1.0, 2.0, 3.0])


def naive(left: list[float], right: list[float], most: int) -> bool:
    here, there = ({None if np.isnan(value) else value for value in side} for side in (left, right))
    return not here & there and len(here) + len(there) <= most


@given(
    columns=st.lists(
        st.tuples(st.lists(VALUES, min_size=4, max_size=4), st.lists(VALUES, min_size=3, max_size=3)), min_size=1
    ),
    most=st.integers(1, 7),
)
def test_columns_that_part_people(columns: list[tuple[list[float], list[float]]], most: int) -> None:
    """For all columns at once; a naive twin goes column by column."""
    left, right = (np.array([pair[side] for pair in columns]).T for side in (0, 1))
    assert _part(left, right, most).tolist() == [naive(*pair, most) for pair in columns]


def test_few_of_many_people_are_counted() -> None:
    few = EncodedSilence("blood", "code", 73, 250_000, "glucose", "1", "like a code")
    assert str(few) == "column 'glucose' is 1 for 73 of 250,000 people (group 'blood'), like a code"
    assert "is 1 for 0.1% of the people" in str(replace(few, people=250))


def test_numbers_whose_squares_are_infinite() -> None:
    """They are left out, without a warning."""
    values = np.random.default_rng(0).normal(size=1_000)
    values[:300] = 1.5
    spikes = find_spikes(values)
    values[990:] = [1e308, -1e308, 1e300, -1e300, 1e160, np.inf, -np.inf, np.nan, 1e308, 1e307]
    assert [one.value for one in find_spikes(values)] == [one.value for one in spikes]
