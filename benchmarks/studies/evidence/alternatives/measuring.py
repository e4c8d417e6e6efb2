"""All methods on one table: simulated people with their truth, real ones with the audit."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from benchmarks import models
from benchmarks.data.tables import load
from benchmarks.harness.study import Unit
from benchmarks.harness.types import Array, Row
from pucboost.simulate import LogisticFamily

from .judge import MIN_COUNT, Judge
from .methods import METHODS, ON_SIMULATED, Training, shared_sets, train_all

QUICK_COUNT = 10
MOST_PEOPLE = 60_000
TRUTH = "the truth f*"
SIMULATED: dict[str, Callable[[], LogisticFamily]] = {
    "simulated, r = 3": LogisticFamily.paper,
    "simulated, r = 5": lambda: LogisticFamily.random(5, 5, seed=1),
}

REAL = ("adult", "compas", "give_me_some_credit")
CREDIT_OPTIONAL = ["MonthlyIncome", "NumberOfDependents"]


def repaired_credit(X: pd.DataFrame) -> pd.DataFrame:
    """Return the credit table with the debt in place of its ratio to an income that may be missing.

    The ratio is debt / (income + 1), and the debt itself where the income is missing: a base column that gives the
    silent away. Debts are whole numbers; without rounding, the decimals would reveal the same.
    """
    debt = np.round(X["DebtRatio"] * (X["MonthlyIncome"].fillna(0.0) + 1))
    return X.drop(columns="DebtRatio").assign(Debt=debt)


def real_people(name: str, run: int, quick: bool) -> tuple[pd.DataFrame, Array, list[str]]:
    """Return a real table, its outcomes and what is optional."""
    task = load(name, quick)
    if name == "give_me_some_credit":
        return repaired_credit(task.X), task.y, CREDIT_OPTIONAL
    X, optional = task.withhold_several(run)
    return X, task.y, optional


def mean_log_loss(y: Array, prediction: Array) -> float:
    """Return the mean log loss; predictions are kept away from 0 and 1."""
    return float(log_loss(y, np.clip(prediction, 1e-6, 1 - 1e-6), labels=(0, 1)))


def simulated_people(name: str, run: int, quick: bool) -> tuple[Training, pd.DataFrame, Callable[[Array], Row], Array]:
    """Return whom to learn from, whom to test, how predictions for the latter are judged, and the true ones."""
    family = SIMULATED[name]()
    n_train, n_test, rounds = (400, 400, 5) if quick else (30_000, 20_000, models.ROUNDS)
    columns = family.feature_names
    train, test = family.sample(n_train, 100 + run), family.sample(n_test, 200 + run)
    optional = [columns[j] for j in family.optional]
    X = pd.DataFrame(test.X, columns=columns)
    truth, sets = family.puc_prediction(test.X), shared_sets(X, optional)
    people = Training(pd.DataFrame(train.X, columns=columns), train.y, optional, run, rounds)
    return people, X, functools.partial(_against_truth, y=test.y, truth=truth, sets=sets, r=len(optional)), truth


def simulated_unit(name: str, run: int, quick: bool) -> list[Row]:
    """Train every method on simulated people and compare it with the truth."""
    people, X, judged, truth = simulated_people(name, run, quick)
    return [
        {"method": method, **row, **judged(trained.predict(X))}
        for method, (trained, row) in train_all(people, ON_SIMULATED).items()
    ] + [{"method": TRUTH, **judged(truth)}]


def _against_truth(f: Array, y: Array, truth: Array, sets: Array, r: int) -> Row:
    gap = 100 * (f - truth)
    silent = sets != (1 << r) - 1
    of_set = {int(one): gap[sets == one].mean() for one in np.unique(sets[silent]) if (sets == one).sum() >= MIN_COUNT}
    return {
        "log loss": mean_log_loss(y, f),
        "penalty": gap[silent].mean(),
        "largest penalty of a set": max(of_set.values(), key=abs) if of_set else None,
        "RMS gap": np.sqrt(np.mean(gap**2)),
    }


def real_halves(name: str, run: int, quick: bool) -> tuple[Training, Judge]:
    """Return half of the people to learn from, and the other half as a judge."""
    X, y, optional = real_people(name, run, quick)
    rounds = 5 if quick else models.ROUNDS
    order = np.random.default_rng(run).permutation(len(y))[:MOST_PEOPLE]
    train, rest = order[: len(order) // 2], order[len(order) // 2 :]
    people = Training(X.iloc[train].reset_index(drop=True), y[train], optional, run, rounds)
    judge = Judge(X.iloc[rest].reset_index(drop=True), y[rest], optional, run, QUICK_COUNT if quick else MIN_COUNT)
    return people, judge


def real_unit(name: str, run: int, quick: bool) -> list[Row]:
    """Train every method on half of the people and audit it on the other half."""
    people, judge = real_halves(name, run, quick)
    return [
        {
            "method": method,
            **row,
            "log loss": mean_log_loss(judge.y, trained.predict(judge.X)),
            **judge(trained.predict),
        }
        for method, (trained, row) in train_all(people, METHODS).items()
    ]


def units(quick: bool) -> list[Unit]:
    """List the work: all methods on one draw or one split of one table."""
    simulated, real = (list(SIMULATED)[:1], REAL[1:]) if quick else (list(SIMULATED), REAL)
    jobs = [
        (name, run, job)
        for names, runs, job in ((simulated, 3, simulated_unit), (real, 2, real_unit))
        for name in names
        for run in range(1 if quick else runs)
    ]
    return [Unit({"data": name, "run": run}, functools.partial(job, name, run, quick)) for name, run, job in jobs]
