"""Made-up tables for quick runs on a machine without the real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from .sources import SOURCES

QUICK_ROWS = 400


def _numbers(low: float, high: float) -> Callable[[Any, int], Any]:
    return lambda rng, n: np.round(rng.uniform(low, high, n))


def _words(*levels: str) -> Callable[[Any, int], Any]:
    return lambda rng, n: rng.choice(levels, n)


_MADE_UP: dict[str, dict[str, Callable[[Any, int], Any]]] = {
    "diabetes": {"Glucose": _numbers(50, 190), "Age": _numbers(21, 70), "BMI": _numbers(18, 45),
                 "Outcome": lambda rng, n: rng.integers(0, 2, n)},
    "compas": {"sex": _words("Male", "Female"), "race": _words("A", "B", "C"), "age": _numbers(18, 70),
               "priors_count": _numbers(0, 12), "juv_misd_count": _numbers(0, 3), "c_days_from_compas": _numbers(0, 60),
               "c_charge_degree": _words("F", "M"), "two_year_recid": lambda rng, n: rng.integers(0, 2, n)},
    "adult": {"age": _numbers(18, 80), "workclass": _words("Private", "State"), "education": _words("x", "y"),
              "fnlwgt": _numbers(1, 1000), "educational-num": _numbers(1, 16), "hours-per-week": _numbers(10, 60),
              "capital-gain": _numbers(0, 100), "capital-loss": _numbers(0, 100), "gender": _words("Male", "Female"),
              "income": _words("<=50K", ">50K")},
    "water_treatment": {"Name": _words("D-1"), "Q-E": _numbers(1, 9), "PH-E": _numbers(6, 9), "SS-E": _numbers(1, 99),
                        "RD-DBO-P": _numbers(1, 99), "RD-SS-G": _numbers(1, 99)},
    "horse_colic": {"Age": _numbers(1, 9), "pulse": _numbers(30, 180), "abdominocentesis_appearance": _numbers(1, 3),
                    "Hospital_Number": _numbers(1, 999), "outcome": _numbers(1, 3), "surgical_lesion": _numbers(1, 2),
                    "pathology_cp_data": lambda rng, n: rng.integers(1, 3, n)},
    "income": {"AGEP": _numbers(18, 90), "COW": _words("a", "b"), "SCHL": _numbers(0, 8), "WKHP": _numbers(1, 90),
               "SEX": _words("Male", "Female"), "PINCP": _numbers(2000, 90000)},
    "california_housing": {"longitude": _numbers(-124, -114), "housing_median_age": _numbers(1, 50),
                           "population": _numbers(5, 3000), "households": _numbers(5, 900),
                           "median_income": lambda rng, n: rng.uniform(0.5, 9, n),
                           "ocean_proximity": _words("INLAND", "NEAR BAY"), "median_house_value": _numbers(2e4, 5e5)},
    "insurance_hi": {"hhi": _words("no", "yes"), "experience": _numbers(0, 40), "kidslt6": _numbers(0, 3),
                     "kids618": _numbers(0, 4), "husby": _numbers(0, 90), "region": _words("north", "south"),
                     "whrswk": _numbers(0, 60)},
    "freMTPL2freq": {"IDpol": _numbers(1, 9999), "ClaimNb": lambda rng, n: rng.poisson(0.3, n).astype(float),
                     "Exposure": lambda rng, n: rng.uniform(0.05, 1, n), "Area": _words("A", "B"),
                     "VehAge": _numbers(0, 20), "DrivAge": _numbers(18, 90), "BonusMalus": _numbers(50, 150),
                     "VehGas": _words("Diesel", "Regular"), "Density": _numbers(1, 9999)},
    "give_me_some_credit": {"id": _numbers(1, 9999), "SeriousDlqin2yrs": lambda rng, n: rng.integers(0, 2, n),
                            "age": _numbers(20, 90), "DebtRatio": lambda rng, n: rng.uniform(0, 2, n),
                            "MonthlyIncome": _numbers(500, 9000), "NumberOfDependents": _numbers(0, 5)},
}  # fmt: skip


def stand_in(name: str, n: int = QUICK_ROWS) -> pd.DataFrame:
    """Return a made-up table with the columns that matter, only to check that a study runs."""
    rng = np.random.default_rng(len(name))
    table = pd.DataFrame({column: draw(rng, n) for column, draw in _MADE_UP[name].items()})
    column, strength = SOURCES[name].single
    if strength is None:
        table.loc[rng.random(n) < 0.3, column] = np.nan
    return table
