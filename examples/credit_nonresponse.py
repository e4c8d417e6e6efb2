"""Credit applicants who leave two questions of the form blank: real non-response, with a picture.

Some state no monthly income or no number of dependants. The script compares three models on new applicants: plain
LightGBM, which may read something into the blanks, base features only, and pucboost; a fourth falls into a trap.
It uses ``give_me_some_credit.parquet`` from the folder that the environment variable ``PUCBOOST_DATA`` names, or from
``shared/data`` beside the checkout, else simulated applicants. It saves ``credit_nonresponse.png``; needs matplotlib.

What to look at: the fourth model. A base column that was computed from the withheld income brings the inference back,
although the model was trained under consent.
"""

from __future__ import annotations

import os
from pathlib import Path

import lightgbm as lgb
import matplotlib
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

import pucboost as puc

matplotlib.use("Agg")
import matplotlib.pyplot as plt

INCOME, DEPENDANTS = "MonthlyIncome", "NumberOfDependents"
OPTIONAL = {"income": [INCOME], "dependants": [DEPENDANTS]}
LABEL = "SeriousDlqin2yrs"
# One thread: as fast on small data, and other work on the machine does not slow it down.
PARAMS = {"objective": "binary", "learning_rate": 0.05, "num_leaves": 15, "verbosity": -1, "num_threads": 1, "seed": 0}
ROUNDS = 120
PEOPLE = 60_000  # of the file; half of them are held out
MARGIN = 0.01  # one percentage point of default probability; fix it before you look


def applicants() -> tuple[pd.DataFrame, str]:
    """Return applicants in random order, and where they come from."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("PUCBOOST_DATA") or beside, "give_me_some_credit.parquet")
    if not path.exists():
        return simulated_applicants(36_000, seed=0), "simulated applicants, as no data file was found"
    table = pd.read_parquet(path).drop(columns="id", errors="ignore")
    return table.sample(PEOPLE, random_state=0, ignore_index=True), path.name


def simulated_applicants(n: int, seed: int) -> pd.DataFrame:
    """Return a stand-in with some of the columns; here people with a low income tend to withhold it."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(21, 80, n).round()
    income = np.exp(rng.normal(8.2 + 0.02 * np.minimum(age, 50) - 0.004 * age, 0.6)).round()
    debt = np.exp(rng.normal(7.2, 0.8, n)).round()
    dependants = rng.poisson(np.where(age < 60, 1.1, 0.3)).astype(float)
    late = rng.poisson(0.3, n)
    strain = 0.6 * late + 1.1 * (8.7 - np.log(income)) + 0.25 * (np.log(debt) - 7.2) + 0.15 * dependants
    default = rng.random(n) < 1 / (1 + np.exp(3 - strain))
    blank = rng.random(n) < 1 / (1 + np.exp(2.5 * (np.log(income) - 8.2)))
    table = pd.DataFrame({LABEL: default.astype(int), "age": age, "NumberOfTime30-59DaysPastDueNotWorse": late})
    # As in the file, the column of the ratio holds the debt itself for those who state no income.
    table["DebtRatio"] = np.where(blank, debt, debt / (income + 1))
    table[INCOME] = np.where(blank, np.nan, income)
    table[DEPENDANTS] = np.where(blank & (rng.random(n) < 0.15 + 0.05 * dependants), np.nan, dependants)
    return table


def without_traces(X: pd.DataFrame) -> pd.DataFrame:
    """Replace the debt ratio by the debt.

    A ratio of debt to income gives away who states no income: it is then the debt itself, not a fraction of 1.
    No promise to the silent holds if a base feature reveals who they are. Debt = ratio · (income + 1) is known for all.
    """
    debt = (X["DebtRatio"] * (X[INCOME].fillna(0) + 1)).round()
    return X.drop(columns="DebtRatio").assign(MonthlyDebt=debt)


def main() -> None:
    """Train four models, compare them on the silent, audit two of them."""
    table, source = applicants()
    y = table.pop(LABEL).to_numpy(float)
    X = without_traces(table)
    train, held_out = np.split(np.arange(len(X)), 2)
    print(f"{source}: {len(train):,} to train on, {len(held_out):,} held out")
    blank = X.loc[held_out, INCOME].isna().to_numpy()
    print(
        f"no income stated: {blank.mean():.0%}; no dependants stated: {X.loc[held_out, DEPENDANTS].isna().mean():.0%}"
    )

    def fit(train_model, features: pd.DataFrame, **more) -> tuple[lgb.Booster, np.ndarray]:
        booster = train_model({**PARAMS, **more}, lgb.Dataset(features.iloc[train], y[train]), ROUNDS)
        return booster, booster.predict(features.iloc[held_out])

    plain, by_plain = fit(lgb.train, X)
    protected, by_protected = fit(puc.train, X, optional=OPTIONAL)
    predictions = {
        "plain LightGBM": by_plain,
        "base features only": fit(lgb.train, X.drop(columns=[INCOME, DEPENDANTS]))[1],
        "pucboost": by_protected,
        "pucboost, debt ratio left in": fit(puc.train, table, optional=OPTIONAL)[1],
    }
    actual = y[held_out]
    compared = pd.DataFrame(
        {
            "blank, %": {name: 100 * p[blank].mean() for name, p in predictions.items()},
            "stated, %": {name: 100 * p[~blank].mean() for name, p in predictions.items()},
            "AUC": {name: roc_auc_score(actual, p) for name, p in predictions.items()},
        }
    )
    compared.loc["actual defaults"] = [100 * actual[blank].mean(), 100 * actual[~blank].mean(), np.nan]
    print("\naverage default probability, by whether income is stated, and AUC")
    print(compared.to_string(formatters=["{:.2f}".format, "{:.2f}".format, "{:.4f}".format], na_rep=""))

    common = {"margin": MARGIN, "num_threads": 1}
    reports = {
        "plain LightGBM": puc.audit(plain, X.iloc[held_out], actual, optional=OPTIONAL, **common),
        "pucboost": puc.audit(protected, X.iloc[held_out], actual, **common),
    }
    print()
    for name, report in reports.items():
        print(f"audit of {name}: {report.verdict}. {report.reason}")
    draw_picture(reports, source)
    print("saved credit_nonresponse.png")


def draw_picture(reports: dict[str, puc.typing.AuditReport], source: str) -> None:
    """Save the penalties of both models, with the finding as title."""
    plain, protected = (report.verdict for report in reports.values())
    findings = {
        ("violated", "certified"): "Plain training charges for blank answers, pucboost does not",
        (
            "certified",
            "certified",
        ): "Blank answers say little about these applicants, and neither model charges for them",
    }
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained", sharex=True)
    finding = findings.get((plain, protected), f"Plain training: {plain}, pucboost: {protected}")
    figure.suptitle(f"{finding}\n({source}; by what applicants state)", fontsize=12)
    for ax, (name, report) in zip(axes, reports.items(), strict=True):
        report.plot_penalty(ax)
        ax.set_title(f"{name}: {report.verdict}", fontsize=11, pad=22)
    figure.savefig("credit_nonresponse.png", dpi=150)


if __name__ == "__main__":
    main()
