"""Train under consent, inspect the result, save the model.

Run with ``python examples/quickstart.py``; it needs only pucboost.

What to look at: the three averages. Plain LightGBM tells the silent much more than people of their age are told;
pucboost tells them the same.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pandas as pd

import pucboost as puc


def people(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return people who withhold their glucose and fitness data more often the worse they are."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 80, n)
    glucose = rng.normal(90 + 0.3 * age, 15)
    steps = rng.gamma(4, 2_000, n)
    pulse = 80 - steps / 800 + rng.normal(0, 5, n)
    ill = rng.random(n) < 1 / (1 + np.exp(-(0.04 * (age - 50) + 0.05 * (glucose - 105) - steps / 8_000)))
    table = pd.DataFrame({"age": age, "glucose": glucose, "steps": steps, "pulse": pulse})
    table.loc[rng.random(n) < 1 / (1 + np.exp(-(glucose - 110) / 8)), "glucose"] = np.nan
    table.loc[rng.random(n) < 1 / (1 + np.exp((steps - 7_000) / 2_000)), ["steps", "pulse"]] = np.nan
    return table, ill.astype(float)


def main() -> None:
    """Compare plain LightGBM and pucboost on people who share nothing."""
    X, y = people(20_000, seed=0)
    X_valid, y_valid = people(5_000, seed=1)
    # One thread: as fast on small data, and other work on the machine does not slow it down.
    params = {"objective": "binary", "learning_rate": 0.05, "verbosity": -1, "num_threads": 1}
    optional = {"blood test": ["glucose"], "fitness app": ["steps", "pulse"]}

    plain = lgb.train(params, lgb.Dataset(X, y), 200)
    booster = puc.train(
        {**params, "optional": optional},
        lgb.Dataset(X, y),
        200,
        valid_sets=[lgb.Dataset(X_valid, y_valid)],
        callbacks=[lgb.early_stopping(20, verbose=False)],
    )
    print(booster.consent)
    print(booster.puc_summary)

    silent = X_valid[["glucose", "steps"]].isna().all(axis=1)
    # The yardstick for those who share nothing: the risk of everybody of their age, sharing or not.
    by_age = lgb.train(params, lgb.Dataset(X[["age"]], y), 50)
    for name, prediction in {
        "plain LightGBM": plain.predict(X_valid[silent]),
        "pucboost": booster.predict(X_valid[silent]),
        "people of the same age": by_age.predict(X_valid.loc[silent, ["age"]]),
    }.items():
        print(f"{name:>24}: average risk of those who share nothing {np.mean(prediction):.3f}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.txt")
        puc.save_model(booster, path)
        assert puc.load_model(path).consent == booster.consent  # the file keeps the consent schema
        lgb.Booster(model_file=path)  # and plain LightGBM can read the file


if __name__ == "__main__":
    main()
