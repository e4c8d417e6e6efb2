"""Tables of results have the columns that their documentation lists."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

import pucboost as puc
from pucboost.simulate import Round, StrategicWorld


def listed(thing: Any) -> list[str]:
    """The names at the beginning of the items of the list in a docstring, in their order."""
    text = inspect.getdoc(thing) or ""
    items = re.findall(r"^\s*- (``[^:]*?):", text, re.MULTILINE)
    return [name for item in items for name in re.findall(r"``(\w+)``", item)]


def test_results_have_the_documented_columns() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=["age", "steps", "glucose"], index=range(1000, 1400))
    y = (X.sum(axis=1) > 0).to_numpy(dtype=float)
    for column in ("steps", "glucose"):
        X.loc[rng.random(400) < 0.4, column] = np.nan
    params = {"objective": "binary", "optional": {"app": ["steps"], "blood": ["glucose"]}, "verbosity": -1}
    booster = puc.train(params, (X, y), 5)

    report = puc.audit(booster, X, y, margin=0.5, folds=3)
    assert list(report.penalty.columns) == listed(puc.typing.AuditReport.penalty)
    checked = puc.check(X, optional=params["optional"])
    assert list(checked.to_frame().columns) == listed(puc.typing.Suitability.to_frame)
    asked = puc.questions(booster, X, y)
    assert list(asked.to_frame().columns) == listed(puc.typing.Questions.to_frame)
    effects = puc.sharing_effects(booster, X, favourable="lower")
    assert [field.name for field in fields(effects)] == listed(puc.sharing_effects)

    found = puc.intervals(puc.train({**params, "objective": "regression"}, (X, y), 5), X, y, level=0.8)
    assert list(found.predict_interval(X).columns) == listed(puc.typing.Intervals.predict_interval)
    assert list(found.coverage(X, y).columns) == listed(puc.typing.Intervals.coverage)

    quotes, values = puc.quote(booster, X), puc.sharing_value(booster, X)
    _, used = puc.predict(booster, X, sharing="best", favourable="lower", return_subset=True)
    assert listed(puc.quote) == [quotes.columns[0]]
    assert "such as ``app + blood``" in (puc.quote.__doc__ or "")
    assert list(quotes.columns) == ["nothing", "app", "blood", "app + blood"]
    first, last = listed(puc.sharing_value)
    assert list(values.columns) == [first, "app", "blood", last]
    assert list(used.columns) == ["app", "blood"]
    assert (used.dtypes == "bool").all()
    assert all(table.index.equals(X.index) for table in (quotes, values, used))

    classes = puc.train({**params, "objective": "multiclass", "num_class": 3}, (X, np.arange(400) % 3), 2)
    assert puc.quote(classes, X).columns.names == ["shared", "class"]
    assert "two levels, ``shared`` (as above) and ``class``" in (puc.quote.__doc__ or "")


def test_rounds_of_a_strategic_world() -> None:
    columns = [field.name for field in fields(Round)]
    played = Round(1, *[0.5] * (len(columns) - 2), {"app": 0.4})  # type: ignore[arg-type]
    unused: Any = None
    table = StrategicWorld((played,), True, unused, unused, unused, unused).table()
    assert [table.index.name, *table.columns] == [*columns[:-1], "shares app"]
