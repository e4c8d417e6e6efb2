"""What a process does: train on a table, then compare with the truth or with held-out policies."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pucboost as puc
from benchmarks.data.tables import read
from benchmarks.harness.machine import THREADS
from benchmarks.harness.types import Array, Row
from benchmarks.models import predict_booster
from pucboost.simulate import LogisticFamily, squared_puc_gap

from .training import Training

COLUMNS = 30
TEST_PEOPLE = 20_000
FAMILY_SEED = 0  # the same truth for all sizes and runs, so that the gaps of a column can be compared
POLICIES = "freMTPL2freq"
POLICY_SIGNS = {"BonusMalus": "+", "DrivAge": "-", "VehAge": "+"}
POLICY_WORDS = ("Area", "VehBrand", "VehGas", "Region")
MOST_CLAIMS = 4
AUDITED = 100_000
AUDIT_MARGIN = 0.1  # of the mean prediction: so few claims could not decide a smaller one


def scale_job(job: dict[str, Any]) -> Row:
    """Train on a drawn table and compare with the truth."""
    X, y = np.load(Path(job["folder"], "X.npy")), np.load(Path(job["folder"], "y.npy"))
    family = LogisticFamily.random(COLUMNS - job["r"], job["r"], FAMILY_SEED)
    booster, row = Training.of(job, family.optional).measure(X, y)
    test = family.sample(TEST_PEOPLE, 1_000_000 + job["run"]).X
    return {**row, "gap": 1e4 * squared_puc_gap(predict_booster(booster, test), family, test)}


def policy_job(job: dict[str, Any]) -> Row:
    """Train on four fifths of the policies and test on the others."""
    X, claims, exposure = _policies(job["quick"])
    X = puc.simulate.withhold_sigmoid(X, puc.simulate.paper_strength(X, POLICY_SIGNS), job["run"])
    optional = list(POLICY_SIGNS)
    order = np.random.default_rng(job["run"]).permutation(len(X))
    train, test = np.sort(order[len(X) // 5 :]), np.sort(order[: len(X) // 5])
    given = X.drop(columns=optional) if job["variant"] == "base" else X
    rate = claims / exposure
    booster, row = Training.of(job, optional).measure(given.iloc[train], rate[train], exposure[train])

    def predict(people: pd.DataFrame) -> Array:
        return predict_booster(booster, people[list(given.columns)])

    predicted, withheld = predict(X.iloc[test]), X[optional].isna().to_numpy()[test]
    row |= {"people": len(train)} | balance(predicted, claims[test], exposure[test], withheld)
    if job["audited"]:
        audited = order[: min(AUDITED, len(test))]  # at random: the file's first policies have more claims
        row |= _audit(predict, X.iloc[audited], claims[audited], exposure[audited])
    return row


@functools.lru_cache(maxsize=1)
def _policies(quick: bool) -> tuple[pd.DataFrame, Array, Array]:
    """Return the table, the claims and the years of exposure."""
    raw = read(POLICIES, quick)
    claims = np.minimum(raw["ClaimNb"].to_numpy(np.float64), MOST_CLAIMS)
    exposure = np.minimum(raw["Exposure"].to_numpy(np.float64), 1.0)
    columns = raw.drop(columns=["IDpol", "ClaimNb", "Exposure"])
    words = {name: columns[name].astype(str).astype("category") for name in POLICY_WORDS if name in columns}
    numbers = {name: columns[name].astype(np.float32) for name in columns if name not in words}
    return pd.DataFrame({name: words.get(name, numbers.get(name)) for name in columns}), claims, exposure


def balance(predicted: Array, claims: Array, exposure: Array, withheld: Array) -> Row:
    """Return the Poisson deviance per year, and predicted to observed claims by whether people withhold something."""
    expected = exposure * predicted
    ratio = np.log(np.where(claims > 0, claims, expected) / expected)
    row: Row = {"deviance": 2 * float(np.sum(claims * ratio - claims + expected) / exposure.sum())}
    for name, who in (("nothing", ~withheld.any(axis=1)), ("something", withheld.any(axis=1))):
        seen = claims[who].sum()
        row[f"predicted to observed, {name} withheld"] = expected[who].sum() / seen if seen else None
    silent = withheld.all(axis=1)
    row["claims a year predicted, all withheld"] = (
        expected[silent].sum() / exposure[silent].sum() if silent.any() else None
    )
    return row


def _audit(predict: Callable[[pd.DataFrame], Array], X: pd.DataFrame, claims: Array, exposure: Array) -> Row:
    """Return the verdict, and the penalties of those who withhold something, and all, in % of what they are told."""
    start = time.perf_counter()
    report = puc.audit(
        predict, X, claims, exposure=exposure, optional=list(POLICY_SIGNS), loss="poisson", margin=AUDIT_MARGIN,
        relative=True, num_threads=THREADS, progress=False,
    )  # fmt: skip
    row: Row = {"verdict": report.verdict, "audit, s": time.perf_counter() - start}
    for penalty in report.penalties:
        who = "something" if penalty.groups is None else "all" if penalty.groups == () else None
        if who is not None and penalty.estimate is not None and penalty.mean_prediction:
            percent = 100 / penalty.mean_prediction
            row[f"penalty, {who} withheld, %"] = percent * penalty.estimate.value
            row[f"its standard error, {who} withheld"] = percent * penalty.estimate.standard_error
    return row


JOBS: dict[str, Callable[[dict[str, Any]], Row]] = {"scale": scale_job, "freMTPL2": policy_job}
