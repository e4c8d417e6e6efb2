"""Ways of withholding columns of a table: how often, whose, and what stays as it was."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from pucboost import Levels
from pucboost.simulate import paper_strength, withhold_sigmoid, withhold_strategic


def test_sigmoid_withholding_has_the_stated_frequency():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(50, 10, 200_000), rng.exponential(1.0, 200_000), rng.random(200_000)])
    strength = {0: 0.1, 1: -1.5}
    result = withhold_sigmoid(X, strength, seed=3)
    np.testing.assert_array_equal(result[:, 2], X[:, 2])
    for column, lam in strength.items():
        z, withheld = X[:, column], np.isnan(result[:, column])
        np.testing.assert_array_equal(result[~withheld, column], z[~withheld])
        p = expit(lam * (z - z.mean()))
        decile = np.searchsorted(np.quantile(z, np.arange(0.1, 1, 0.1)), z)
        error = np.bincount(decile, withheld - p) / np.sqrt(np.bincount(decile, p * (1 - p)))
        assert np.abs(error).max() < 4.5  # 20 standard normal numbers
    both = np.isnan(result[:, :2])
    assert abs(np.corrcoef(both.T)[0, 1]) < 4.5 / np.sqrt(len(X))


def test_sigmoid_withholding_is_pure_and_separate_for_each_column():
    X = np.random.default_rng(0).normal(size=(500, 3))
    before = X.copy()
    alone, both = withhold_sigmoid(X, {1: 1.0}, seed=5), withhold_sigmoid(X, {0: 1.0, 1: 1.0}, seed=5)
    np.testing.assert_array_equal(alone[:, 1], both[:, 1])
    assert not np.array_equal(np.isnan(both[:, 0]), np.isnan(both[:, 1]))
    assert not np.array_equal(alone, withhold_sigmoid(X, {1: 1.0}, seed=6), equal_nan=True)
    np.testing.assert_array_equal(X, before)


def frame():
    rng = np.random.default_rng(1)
    age = pd.array([None, *rng.integers(18, 90, 399)], dtype="Int64")
    table = pd.DataFrame({"age": age, "city": ["A", "B"] * 200, "bmi": rng.normal(25, 4, 400)})
    table.loc[3, "bmi"] = np.nan
    return table.set_index(pd.Index(range(1000, 1400)))


def test_sigmoid_withholding_in_a_frame():
    table, before = frame(), frame()
    strength = {"age": 0.1, "bmi": -0.2}
    result = withhold_sigmoid(table, strength, seed=2)
    pd.testing.assert_frame_equal(table, before)
    assert list(result.columns) == ["age", "city", "bmi"]
    assert result.index.equals(table.index)
    pd.testing.assert_series_equal(result["city"], table["city"])
    assert result["age"].dtype == np.float64
    assert np.isnan(result["age"].iloc[0])
    assert np.isnan(result["bmi"].iloc[3])
    # An array with these values at these positions loses the same entries.
    age = table["age"].to_numpy(dtype=float, na_value=np.nan)
    array = withhold_sigmoid(np.column_stack([age, age, table["bmi"]]), {0: 0.1, 2: -0.2}, seed=2)
    np.testing.assert_array_equal(result["age"], array[:, 0])
    np.testing.assert_array_equal(result["bmi"], array[:, 2])
    assert 100 < result["age"].isna().sum() < 300


def test_withholding_keeps_or_makes_float_types():
    single = withhold_sigmoid(np.ones((4, 1), dtype=np.float32) * [[1], [2], [3], [4]], {0: 1e9}, seed=0)
    np.testing.assert_array_equal(single[:, 0], [1, 2, np.nan, np.nan])
    thin = np.array([[1.5], [2.5]], dtype=np.float32)
    assert withhold_sigmoid(thin, {0: 1e9}, seed=0).dtype == np.float32
    assert withhold_sigmoid(np.array([[1], [2]]), {0: 1e9}, seed=0).dtype == np.float64
    empty = np.full((3, 1), np.nan)
    np.testing.assert_array_equal(withhold_sigmoid(empty, {0: 1.0}, seed=0), empty)


def test_paper_strength():
    table = frame()
    strength = paper_strength(table, {"age": "-", "bmi": 1})
    assert strength["age"] == pytest.approx(-1 / table["age"].dropna().astype(float).std(ddof=0))
    assert strength["bmi"] == pytest.approx(1 / np.nanstd(table["bmi"]))
    result = withhold_sigmoid(table, strength, seed=0)
    # "+": higher values are withheld more often; "-": lower ones are.
    assert table["bmi"][result["bmi"].isna()].mean() > table["bmi"].mean() > result["bmi"].mean()
    assert result["age"].mean() > table["age"].mean()


def test_strategic_withholding_shares_the_bundle_only_where_it_does_not_hurt():
    X = np.array([[1.0, 10.0, 5.0], [2.0, 20.0, 5.0], [3.0, np.nan, 5.0], [4.0, 40.0, 5.0]])
    before = X.copy()
    f_with, f_without = [0.1, 0.5, 0.2, 0.9], [0.3, 0.5, 0.3, 0.3]
    nan = np.nan
    lower = withhold_strategic(X, [0, 1], f_with, f_without)
    np.testing.assert_array_equal(lower, [[1, 10, 5], [2, 20, 5], [3, nan, 5], [nan, nan, 5]])
    higher = withhold_strategic(X, [0, 1], f_with, f_without, favourable="higher")
    np.testing.assert_array_equal(higher, [[nan, nan, 5], [2, 20, 5], [nan, nan, 5], [4, 40, 5]])
    np.testing.assert_array_equal(X, before)
    table = pd.DataFrame(X, columns=["p", "q", "s"])
    named = withhold_strategic(table, "q", f_with, pd.Series(f_without))
    np.testing.assert_array_equal(named["q"], [10, 20, nan, nan])
    np.testing.assert_array_equal(named[["p", "s"]], X[:, [0, 2]])
    np.testing.assert_array_equal(withhold_strategic(X, 1, f_with, f_without)[:, 1], named["q"])


def test_tables_can_be_withheld_by_levels():
    values = np.random.default_rng(0).normal(size=(500, 4))
    for X, columns in ((values, [1, 2, 3]), (pd.DataFrame(values, columns=list("abcd")), ["b", "c", "d"])):
        strength = dict.fromkeys(columns, 1.0)
        optional = {"z": Levels(*([column] for column in columns))}
        plain, nested = (np.asarray(withhold_sigmoid(X, strength, 0, one)) for one in (None, optional))
        present = ~np.isnan(nested[:, 1:])
        assert (np.diff(present.astype(int), axis=1) <= 0).all()
        np.testing.assert_array_equal(present, np.cumprod(~np.isnan(plain[:, 1:]), axis=1).astype(bool))
        np.testing.assert_array_equal(nested[:, 1:][present], plain[:, 1:][present])


ERRORS = [
    (lambda t: withhold_sigmoid(t, {"wage": 1.0}, 0), KeyError, "unknown column 'wage'; the table has"),
    (lambda t: withhold_sigmoid(t.to_numpy(), {7: 1.0}, 0), KeyError, "unknown column 7; the array has columns 0 to 2"),
    (lambda t: withhold_sigmoid(np.ones((2, 2)), {"a": 1.0}, 0), KeyError, "unknown column 'a'; the array has"),
    (lambda t: withhold_sigmoid(t, {"city": 1.0}, 0), ValueError, "column 'city' is not numeric"),
    (lambda t: withhold_sigmoid(t.to_numpy(), {0: 1.0}, 0), ValueError, "column 0 is not numeric: object"),
    (lambda t: withhold_sigmoid(t, {"age": np.inf}, 0), ValueError, "strength of column 'age' must be finite, got inf"),
    (lambda t: withhold_sigmoid(t, {"age": np.nan}, 0), ValueError, "strength of column 'age' must be finite, got nan"),
    (lambda t: withhold_sigmoid([[1.0]], {0: 1.0}, 0), ValueError, "X must be a DataFrame or a 2-d ndarray"),
    (lambda t: withhold_sigmoid(np.array([[np.inf]]), {0: 1.0}, 0), ValueError, "column 0 has infinite values"),
    (
        lambda t: withhold_sigmoid(t.set_axis(["age", "city", "age"], axis=1), {"age": 1.0}, 0),
        ValueError,
        "column 'age' occurs 2 times",
    ),
    (lambda t: paper_strength(t.assign(one=0.1), {"one": "+"}), ValueError, "column 'one' is constant"),
    (lambda t: paper_strength(t, {"age": "up"}), ValueError, r"sign of column 'age' must be '\+' or '-', got 'up'"),
    (lambda t: paper_strength(t, {"wage": "+"}), KeyError, "unknown column 'wage'"),
    (
        lambda t: withhold_strategic(t, ["age"], np.ones(3), np.ones(400)),
        ValueError,
        r"prediction_with must have one entry per row of X: \(400,\), got \(3,\)",
    ),
    (
        lambda t: withhold_strategic(t, ["age"], np.ones(400), np.ones((400, 1))),
        ValueError,
        r"prediction_without must have one entry per row of X: \(400,\), got \(400, 1\)",
    ),
    (
        lambda t: withhold_strategic(t, ["age"], np.full(400, np.nan), np.ones(400)),
        ValueError,
        "prediction_with must not be NaN",
    ),
    (lambda t: withhold_strategic(t, ["wage"], np.ones(400), np.ones(400)), KeyError, "unknown column 'wage'"),
    (
        lambda t: withhold_strategic(t, ["age"], np.ones(400), np.ones(400), favourable="low"),
        ValueError,
        "favourable must be 'lower' or 'higher', got 'low'",
    ),
]


def test_withholding_errors_name_the_culprit():
    for call, error, text in ERRORS:
        with pytest.raises(error, match=text):
            call(frame())
