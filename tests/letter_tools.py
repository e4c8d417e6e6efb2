"""A small model with three groups, and letters from it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from engine_kits import LIGHTGBM, EngineKit
from tools import make_table

import pucboost as puc

COLUMNS = ["age", "bmi", "sex", "steps", "pulse", "glucose"]
GROUPS = {"app": ["steps"], "watch": ["pulse"], "blood": ["glucose"]}
NAMES = {"app": "your fitness app", "watch": "your watch", "blood": "your blood test"}
EUROS = puc.letters.LetterNumber(decimals=2, prefix="€")
TEXT = puc.letters.LetterText(quantity="yearly price", groups=NAMES, number=EUROS)


def people(n: int = 400) -> tuple[pd.DataFrame, Any]:
    """A table with names, and who has a claim."""
    X, y = make_table(n)
    return pd.DataFrame(X, columns=COLUMNS), y


@cache
def priced(kit: EngineKit = LIGHTGBM) -> tuple[Any, pd.DataFrame]:
    """A model of prices in the hundreds, to which everything matters, and the people it is about."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 6)), columns=COLUMNS)
    price = 500 + 40 * X.sum(axis=1)
    X[COLUMNS[3:]] = X[COLUMNS[3:]].where(rng.random((400, 3)) < 0.6)
    params = {**kit.params, "objective": kit.objectives["l2"], "optional": GROUPS}
    return puc.train(params, puc.Dataset(X, price), 40), X


def sharing(X: pd.DataFrame, *groups: str) -> pd.DataFrame:
    """The first person who shares exactly these groups, as a table of one row."""
    shared = pd.DataFrame({group: X[columns[0]].notna() for group, columns in GROUPS.items()})
    same = (shared == [group in groups for group in GROUPS]).all(axis=1)
    return X.iloc[[int(np.flatnonzero(same)[0])]]
