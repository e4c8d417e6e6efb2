"""Awkward names of columns, groups and categories: refused before training, or kept through a file to the letter."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tools import QUIET

import pucboost as puc

NAMES = [
    "", "  ", " a", "a ", "a b", "a\tb", "a\nb", "a\rb", "a\x00b", "a\x0bb", "a\x1bb", "a\x7fb", "a\x85b",
    "a\u2028b", "a\u202eb",
    "é", "e\u0301", "日本", "😀", "x" * 3000, "a=b", "a=", "=", "a+b", "a + b", "nothing", "None", "nan", "0", "-1",
    "Column_0", "f0", "a,b", 'a"b', "a:b", "a[b", "a{b", "a<b", "a'b", "a\\b", "tree", "end of trees", "feature_names=",
    "pandas_categorical:[]", "tree_sizes=", "__proto__", "%s", "{}", "<script>", "]]>", "\\u0041", "\\n", "\ufeffa",
]  # fmt: skip

REFUSED = (
    r"(LightGBM|XGBoost) does not accept the name .* because .* Rename the column\."
    r"|A group of optional is called .*, but quotes and audits call .* so\. Name it otherwise"
    r"|Column 'm' has a category with a null character in it\. Remove it\."
)


def people(place: str, name: str) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=["k", "l", "m"])
    X.loc[::2, "m"] = np.nan
    if place == "base column":
        return X.rename(columns={"k": name}), {"g": ["m"]}
    if place == "optional column":
        return X.rename(columns={"m": name}), {"g": [name]}
    if place == "group":
        return X, {name: ["m"]}
    text = np.where(X["l"] > 0, name, "zz").astype(object)
    return X.assign(m=pd.Series(text).where(X["m"].notna())), {"g": ["m"]}


@pytest.mark.slow
@pytest.mark.parametrize("place", ["base column", "optional column", "group", "category"])
@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_refused_or_kept(engine: str, place: str, tmp_path: Path) -> None:
    refusals = []
    for name in NAMES:
        X, optional = people(place, name)
        y, given = (X["l"] > 0).astype(float), {"optional": optional, "expect_shared": list(optional)}
        try:
            model = puc.train({**QUIET, "objective": "binary", "engine": engine, **given}, puc.Dataset(X, y), 2)
        except ValueError as error:
            refusals.append(str(error))
            continue
        for ending in ("txt",) if engine == "lightgbm" else ("json", "ubj"):
            puc.save_model(model, tmp_path / f"model.{ending}")
            loaded = puc.load_model(tmp_path / f"model.{ending}")
            assert loaded.consent == model.consent, name
            np.testing.assert_array_equal(puc.predict(loaded, X), puc.predict(model, X))
            assert puc.quote(loaded, X).shape == (60, 2)
    assert [text for text in refusals if not re.match(REFUSED, text, re.DOTALL)] == []


def test_rounds_that_are_none() -> None:
    """XGBoost itself would return a model without trees."""
    X, optional = people("group", "g")
    params = {"optional": optional, "engine": "xgboost", **QUIET}
    for rounds in (0, -1, 1.5, "3", True):
        for train in (puc.train, puc.cv):
            with pytest.raises(ValueError, match="num_boost_round must be a whole number of at least 1, got"):
                train(params, puc.Dataset(X, X["l"]), rounds)  # type: ignore[operator]
