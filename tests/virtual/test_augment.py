"""The virtual table for other learners: containers, labels and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tools import make_table

import pucboost as puc


def test_fill_value_and_indicators() -> None:
    X = np.array([[1.0, 5.0, np.nan], [np.nan, np.nan, 6.0]])
    X_aug, _, _, source = puc.augment(
        X, [0, 1], optional=[1, 2], augmentation="exhaustive", fill_value=-9.0, indicators=True
    )
    assert source.tolist() == [0, 0, 1, 1]
    np.testing.assert_array_equal(
        X_aug, [[1, -9, -9, 0, 0], [1, 5, -9, 1, 0], [np.nan, -9, -9, 0, 0], [np.nan, -9, 6, 0, 1]]
    )


def test_types_are_kept() -> None:
    for dtype in (np.float32, np.float64):
        X, y = make_table(100, dtype=dtype)
        X_aug, y_aug, weight, _ = puc.augment(X, y.astype(np.int8), optional=[3, 4, 5])
        assert (X_aug.dtype, y_aug.dtype, weight.dtype) == (dtype, np.int8, np.float32)
    X, _ = make_table(4)
    _, y_aug, _, source = puc.augment(X, ["a", "b", "c", "d"], optional=[5], augmentation="exhaustive")
    assert y_aug.tolist() == [["a", "b", "c", "d"][i] for i in source]


def test_pandas_stays_pandas_with_categories() -> None:
    X, y = make_table(50)
    frame = pd.DataFrame(X, columns=list("abcdef"), index=range(100, 150)).assign(k=pd.Categorical(["u", "v"] * 25))
    before = frame.copy()
    out, _, _, source = puc.augment(frame, y, optional=["f", "k"], augmentation="exhaustive", indicators=True)
    assert list(out.columns) == [*"abcdef", "k", "f_shared", "k_shared"]
    assert out["k"].dtype == frame["k"].dtype
    shared = out["k_shared"].to_numpy() == 1
    assert out["k"].isna().tolist() == (~shared).tolist()
    assert out["k"][shared].tolist() == frame["k"].iloc[source[shared]].tolist()
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_polars_and_arrow_stay_what_they_are(library: str) -> None:
    module = pytest.importorskip(library)
    X, y = make_table(50)
    columns = {name: X[:, j].tolist() for j, name in enumerate("abcdef")}
    table = module.DataFrame(columns) if library == "polars" else module.table(columns)
    out, *_ = puc.augment(table, y, optional=["d", "e", "f"])
    expected, *_ = puc.augment(X, y, optional=[3, 4, 5])
    assert type(out) is type(table)
    back = out.to_numpy() if library == "polars" else out.to_pandas().to_numpy()
    np.testing.assert_array_equal(back, expected)


def test_bad_input() -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        (
            {"X": pd.DataFrame(np.ones((60, 6)), columns=[6, 5, 4, 3, 2, 1])},
            "optional names column 3, but the table has integer labels that are not positions",
        ),
        ({"y": [1, 2]}, r"y must have one entry for each of the 60 rows of X, got shape \(2,\)"),
        ({"optional": [9]}, "optional names column 9"),
        ({"augmentation": "all"}, "augmentation must be one of"),
        ({"copies": 0}, "copies must be finite and at least 1"),
        ({"sample_weight": np.full(60, -1.0)}, "sample_weight is -1.0 in row 0"),
        ({"sample_weight": [1.0]}, "sample_weight must have one value for each of the 60 rows"),
        ({"available": np.zeros((60, 3), bool)}, "available says that row"),
        ({"augmentation": "exhaustive", "max_virtual_rows": 61}, "more than max_virtual_rows = 61"),
    ]
    X, y = make_table(60)
    for change, message in bad:
        with pytest.raises(ValueError, match=message):
            puc.augment(**{"X": X, "y": y, "optional": [3, 4, 5], **change})


def test_fill_value_is_no_category() -> None:
    X, y = make_table(60)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(k=pd.Categorical(["u", "v"] * 30))
    with pytest.raises(ValueError, match="cannot stand for a withheld category in column 'k'"):
        puc.augment(frame, y, optional=["k"], fill_value=0.0)
    out, *_ = puc.augment(frame, y, optional=["f"], fill_value=0.0, augmentation="exhaustive")
    assert out["f"].notna().all()
    assert (out["f"] == 0.0).sum() == 60


def test_learner_of_another_library() -> None:
    """The paper's route: any learner on the virtual rows, here a scikit-learn forest."""
    from sklearn.ensemble import RandomForestClassifier

    from pucboost.simulate import BinaryFamily, squared_puc_gap

    family = BinaryFamily.paper()
    train, test = family.sample(20_000, seed=0), family.sample(5_000, seed=1)
    gaps = {}
    for augmentation in ("none", "exhaustive"):
        X, y, weight, _ = puc.augment(train.X, train.y, optional=family.optional, augmentation=augmentation)
        forest = RandomForestClassifier(30, min_samples_leaf=5, random_state=0, n_jobs=1).fit(
            X, y, sample_weight=weight
        )
        gaps[augmentation] = squared_puc_gap(forest.predict_proba(test.X)[:, 1], family, test.X)
    assert gaps["exhaustive"] < gaps["none"] / 5
