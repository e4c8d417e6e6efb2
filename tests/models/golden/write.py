"""Write small model files of the version at hand: ``python tests/models/golden/write.py``.

The files of each version lie in a folder of that name and stay there once it is released: later versions must load them
and predict what ``expected.json`` says. Run this when the format of model files changes, with a new version number, and
never to make a failing test pass.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import sklearn
from sklearn.linear_model import LogisticRegression

import pucboost as puc

HERE = Path(__file__).parent
PARAMS = {"num_leaves": 5, "learning_rate": 0.3, "seed": 7, "verbosity": -1, "num_threads": 1}


def people() -> pd.DataFrame:
    """People: two base columns, one of them text, and two groups they may withhold, one of them text as well."""
    rng = np.random.default_rng(2024)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 80, 400).astype(np.float64),
            "region": rng.choice(["north", "south", "Île"], 400),
            "steps": rng.normal(8, 3, 400).round(2),
            "pulse": rng.normal(65, 9, 400).round(1),
            "diet": rng.choice(["plain", "rich"], 400),
        }
    )
    table["claim"] = (table["age"] / 80 + (table["steps"] < 7) + (table["diet"] == "rich") > 1.4).astype(int)
    table.loc[rng.random(400) < 0.5, ["steps", "pulse"]] = np.nan
    table.loc[rng.random(400) < 0.4, "diet"] = None
    return table


OPTIONAL = {"app": ["steps", "pulse"], "diet": ["diet"]}


def models(X: pd.DataFrame, y: Any) -> dict[str, Any]:
    """One model of each kind that files are written of, by file name."""
    numbers = X[["age", "steps", "pulse"]]
    app = {"app": ["steps", "pulse"]}
    binary = {**PARAMS, "objective": "binary"}
    xgboost = {"engine": "xgboost", "objective": "binary:logistic", "max_depth": 3, "seed": 7, "nthread": 1}
    legacy = lgb.train(binary, lgb.Dataset(numbers[["age"]], y), 3)
    tariff = LogisticRegression().fit(numbers[["age"]], y)
    band = np.digitize(X["age"], [35, 55])  # three classes
    years = 0.5 + X["age"] % 3 / 2  # under risk
    rates = {**PARAMS, "objective": "poisson"}
    data = {
        "all": lambda: puc.Dataset(X, y, optional=OPTIONAL),
        "numbers": lambda: puc.Dataset(numbers, y, optional=app),
        "years": lambda: puc.Dataset(numbers, y, optional=app, exposure=years),
        "levels": lambda: puc.Dataset(numbers, y, optional={"app": puc.Levels(["steps"], ["pulse"])}),
        "band": lambda: puc.Dataset(X.drop(columns="age"), band, optional=OPTIONAL),
    }
    return {
        "lightgbm.txt": puc.train(binary, data["all"](), 6),
        "lightgbm_poisson.txt": puc.train(
            {**PARAMS, "objective": "poisson", "augmentation": "fixed"}, data["numbers"](), 6
        ),
        "xgboost.json": puc.train(xgboost, data["all"](), 6),
        "xgboost.ubj": puc.train(xgboost, data["numbers"](), 6),
        "anchored_lightgbm.json": puc.train({**binary, "anchor": legacy}, data["numbers"](), 6),
        "anchored_xgboost.json": puc.train({**xgboost, "anchor": "base"}, data["numbers"](), 6),
        "anchored_estimator.json": puc.train({**binary, "anchor": tariff}, data["numbers"](), 6),
        "lightgbm_exposure.txt": puc.train(rates, data["years"](), 6),
        "lightgbm_levels.txt": puc.train(binary, data["levels"](), 6),
        "lightgbm_classes.txt": puc.train({**PARAMS, "objective": "multiclass", "num_class": 3}, data["band"](), 4),
        "xgboost_classes.json": puc.train(
            {**xgboost, "objective": "multi:softprob", "num_class": 3}, data["band"](), 4
        ),
        "native.txt": puc.train({**binary, "engine": "native"}, data["all"](), 6),
        "lightgbm_calibrated.txt": puc.train({**binary, "calibrate_masks": True}, data["all"](), 6),
        "xgboost_calibrated.json": puc.train({**xgboost, "calibrate_masks": True}, data["all"](), 6),
        "lightgbm_balanced.txt": puc.load_to_balance(puc.train(rates, data["numbers"](), 6), numbers, y),
    }


def quotes(model: Any, X: pd.DataFrame) -> dict[str, Any]:
    """The quotes of people as JSON; null for what they cannot share."""
    found = puc.quote(model, X)
    values = [[None if np.isnan(one) else float(one) for one in row] for row in found.to_numpy()]
    return {"columns": [str(column) for column in found.columns], "values": values}


def expected(model: Any, X: pd.DataFrame) -> dict[str, Any]:
    """What a model says, and what it knows of its training."""
    given = X[list(model.consent.feature_names)]
    return {
        "as_given": np.asarray(puc.predict(model, given), dtype=np.float64).tolist(),
        "raw": np.asarray(puc.predict(model, given, raw_score=True), dtype=np.float64).tolist(),
        "withheld": np.asarray(puc.predict(model, given, sharing="withheld"), dtype=np.float64).tolist(),
        "quotes": quotes(model, given.head(5)),
        "consent": model.consent.to_dict(),
        "virtual_rows": model.puc_summary.virtual_rows,
        "augmentation": model.puc_summary.augmentation,
        "masks_seen": list(model.puc_summary.masks_seen),
        "mask_calibration": model.puc_summary.mask_calibration,
        "loading": model.puc_summary.loading,
    }


def main() -> None:
    """Write all files of this version."""
    folder = HERE / puc.__version__
    folder.mkdir()
    table = people()
    X, y = table.drop(columns="claim"), table["claim"].to_numpy()
    shown = X.head(20)
    shown.to_csv(folder / "people.csv", index=False)
    found: dict[str, Any] = {}
    for name, model in models(X, y).items():
        puc.save_model(model, folder / name)
        found[name] = expected(puc.load_model(folder / name), shown)
    found["anchored_estimator.json"]["scikit-learn"] = sklearn.__version__
    (folder / "expected.json").write_text(json.dumps(found, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
