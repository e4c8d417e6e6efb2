"""Law 2: with nothing optional, puc.train is the engine itself. (LightGBM's further arguments: test_lightgbm.py.)"""

from __future__ import annotations

import inspect
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from engine_kits import KITS, EngineKit, every_engine
from tools import make_table

import pucboost as puc


@pytest.mark.parametrize("function", ["train", "cv"])
def test_signature_is_lightgbms(function: str) -> None:
    theirs = described(getattr(lgb, function))
    ours = described(getattr(puc, function))
    if function == "train":  # what only XGBoost has follows, by name only
        theirs |= {name: how for name, how in described(xgb.train).items() if how[1] is inspect.Parameter.KEYWORD_ONLY}
        theirs["callbacks"] = described(lgb.train)["callbacks"]
    assert [*ours.items()][: len(described(lgb.train))] == [*theirs.items()][: len(described(lgb.train))]
    assert ours == theirs


def described(function: Any) -> dict[str, Any]:
    return {p.name: (p.default, p.kind) for p in inspect.signature(function).parameters.values()}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("container", ["float64", "float32", "fortran", "pandas"])
@pytest.mark.parametrize(("kit", "params"), [(kit, params) for kit in KITS for params in kit.alone], ids=str)
def test_same_model(kit: EngineKit, params: dict[str, Any], container: str, weighted: bool) -> None:
    X, y = make_table(400)
    weight = np.abs(y) + 0.5 if weighted else None
    X = {"float64": X, "float32": X.astype(np.float32), "fortran": np.asfortranarray(X), "pandas": pd.DataFrame(X)}[
        container
    ]
    plain = kit.fit_alone({**kit.params, **params}, X, y, 10, weight=weight)
    ours = kit.fit(X, y, 10, {"weight": weight}, optional=None, **params)
    assert kit.model(ours) == kit.model(plain)
    assert ours.consent is None
    assert ours.puc_summary is None


@every_engine
@pytest.mark.parametrize("optional", [None, [], {}])
def test_empty_declaration_means_nothing_optional(kit: EngineKit, optional: Any) -> None:
    X, y = make_table(300)
    plain = kit.fit_alone(kit.params, X, y, 5)
    ours = kit.fit(X, y, 5, {"optional": optional}, optional=optional)
    assert kit.model(ours) == kit.model(plain)
