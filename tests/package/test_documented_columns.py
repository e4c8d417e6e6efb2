"""Tables of results have the columns that their documentation lists."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pucboost as puc


def listed(thing: Any) -> list[str]:
    """The names at the beginning of the items of the list in a docstring, in their order."""
    text = inspect.getdoc(thing) or ""
    items = re.findall(r"^\s*- (``[^:]*?):", text, re.MULTILINE)
    return [name for item in items for name in re.findall(r"``(\w+)``", item)]


@pytest.fixture(scope="module")
def people() -> tuple[pd.DataFrame, Any, Any]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=["age", "steps", "glucose"])
    y = (X.sum(axis=1) > 0).to_numpy(dtype=float)
    for column in ("steps", "glucose"):
        X.loc[rng.random(400) < 0.4, column] = np.nan
    params = {"objective": "binary", "optional": {"app": ["steps"], "blood": ["glucose"]}, "verbosity": -1}
    return X.set_axis(range(1000, 1400)), y, puc.train(params, (X, y), 5)


def test_penalty(people: Any) -> None:
    X, y, booster = people
    report = puc.audit(booster, X, y, margin=0.5, folds=3)
    assert list(report.penalty.columns) == listed(puc.typing.AuditReport.penalty)


def test_quote(people: Any) -> None:
    X, _, booster = people
    quotes = puc.quote(booster, X)
    assert listed(puc.quote) == [quotes.columns[0]]
    assert "such as ``app + blood``" in (puc.quote.__doc__ or "")
    assert list(quotes.columns) == ["nothing", "app", "blood", "app + blood"]
    assert quotes.index.equals(X.index)


def test_quote_of_several_classes(people: Any) -> None:
    X, _, _ = people
    params = {"objective": "multiclass", "num_class": 3, "optional": ["steps"], "verbosity": -1}
    booster = puc.train(params, (X, np.arange(400) % 3), 2)
    columns = puc.quote(booster, X).columns
    assert columns.names == ["shared", "class"]
    assert "two levels, ``shared`` (as above) and ``class``" in (puc.quote.__doc__ or "")


def test_groups_used(people: Any) -> None:
    X, _, booster = people
    used = puc.predict(booster, X, sharing="best", return_subset=True)[1]
    assert list(used.columns) == ["app", "blood"]
    assert (used.dtypes == "bool").all()
    assert used.index.equals(X.index)


def test_sharing_value(people: Any) -> None:
    X, _, booster = people
    values = puc.sharing_value(booster, X)
    first, last = listed(puc.sharing_value)
    assert list(values.columns) == [first, "app", "blood", last]
    assert values.index.equals(X.index)


def test_sharing_effects(people: Any) -> None:
    X, _, booster = people
    assert [field.name for field in fields(puc.sharing_effects(booster, X))] == listed(puc.sharing_effects)


def test_rounds_of_a_strategic_world() -> None:
    columns = [field.name for field in fields(puc.simulate.Round)]
    played = puc.simulate.Round(1, *[0.5] * (len(columns) - 2), {"app": 0.4})  # type: ignore[arg-type]
    unused: Any = None
    table = puc.simulate.StrategicWorld((played,), True, unused, unused, unused, unused).table()
    assert [table.index.name, *table.columns] == [*columns[:-1], "shares app"]
