"""Small estimators and tables for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from engine_kits import KITS
from tools import make_table

import pucboost as puc

ENGINES = tuple(kit.name for kit in KITS)
SMALL: dict[str, Any] = {"n_estimators": 5, "num_leaves": 7, "n_jobs": 1}

OPTIONAL = [3, 4, 5]

NAMES = ["age", "bmi", "sex", "steps", "pulse", "glucose"]


def classifier(**params: Any) -> puc.PUCClassifier:
    return puc.PUCClassifier(**{**SMALL, "optional": OPTIONAL, **params})


def regressor(**params: Any) -> puc.PUCRegressor:
    return puc.PUCRegressor(**{**SMALL, "optional": OPTIONAL, **params})


def named_table(n: int = 300, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    X, y = make_table(n, seed=seed)
    return pd.DataFrame(X, columns=NAMES), y


def rich_table(n: int = 400) -> tuple[pd.DataFrame, Any]:
    """Numbers with NaN, nullable integers, categories and text, some of them optional, and all of some use."""
    X, y = named_table(n)
    rng = np.random.default_rng(5)
    X["visits"] = pd.array(rng.integers(0, 9, n), dtype="Int64")
    X.loc[::7, "visits"] = pd.NA
    X["smoker"] = rng.random(n) < 0.3
    X["region"] = pd.Categorical(rng.choice(["north", "south", "east"], n), categories=["north", "south", "east"])
    X["plan"] = rng.choice(["basic", "full"], n)
    effect = X["region"].map({"north": 2.0, "south": -2.0, "east": 0.0}).astype(float)
    effect += np.where(X["plan"] == "full", 2.0, -2.0)
    y = (effect + X["age"] + rng.normal(size=n) > 0).to_numpy().astype(float)
    X.loc[::3, "plan"] = None
    return X, y


def uses_categories(model: Any) -> bool:
    """Whether a test of category codes tests anything."""
    share = dict(zip(model.feature_names_in_, model.feature_importances_, strict=True))
    return bool(share["region"] > 0.05 and share["plan"] > 0.05)
