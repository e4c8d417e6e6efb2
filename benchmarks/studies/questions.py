"""How often a useless question is called useful, and whether the recommended form keeps its share on new people.

Simulated people whose truth is known: what a question adds is 0 by construction, and what a form keeps is measured on
many new people. Each family has several models, and each model is asked about by many samples of people. Beside it
stands what becomes of the test if forms are not put right on average first. Real tables get one more question, whose
answers are random numbers; half of the people train, a quarter is asked about, and on the last quarter the recommended
form is measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import pucboost as puc
from benchmarks.data import load, loaded
from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit
from pucboost._questions import asking
from pucboost._questions.values import SetValues, keeps
from pucboost.simulate import DiscreteFamily, Family, LogisticFamily

SHARE = 0.95
RUNS, SAMPLES, NAIVE = range(10), 50, 10
TRAINED, ASKED, NEW = 6_000, 6_000, 150_000
SPLITS, MOST = range(20), 100_000
NOISE = "random numbers"
OPTIONAL = {
    "adult": {"age": "-", "educational-num": "-", "hours-per-week": "-", "capital-gain": "-", "marital-status": ""},
    "income": {"AGEP": "-", "SCHL": "-", "WKHP": "-", "OCCP": "", "MAR": ""},
    "freMTPL2freq": {"BonusMalus": "+", "DrivAge": "-", "VehAge": "+", "VehPower": "+", "VehGas": ""},
}
"""What is optional, and whether low or high values are withheld more often."""


def families() -> dict[str, tuple[Family, tuple[int, ...]]]:
    """Return the families, and which optional columns say nothing in each."""
    zero = np.zeros((5, 2))
    tau = np.array([0.55, 0.35, 0.1, 0.0, 0.0])
    base, lam = np.array([0.5, -0.35]), np.array([-0.4, 0.3, 0.0, 0.0, -1.0])
    logistic = LogisticFamily(base, -0.3, zero, zero, lam, -tau, tau, base_variance=1.0, sharing=0.9)
    U = zero.copy()
    U[4] = [0.5, 0.3]
    return {
        "logistic": (logistic, (3, 4)),
        "logistic, sharing depends on base data": (replace(logistic, U=U), (3, 4)),
        "discrete, two say the same": (_discrete(), (3,)),
    }


def _discrete() -> DiscreteFamily:
    """The second question nearly repeats the first, the fourth says nothing; who shares it shares the third more."""
    cells, k = 4, 3
    value = np.full((4, cells, k, k), 1 / k)
    value[1] = 0.9 * np.eye(k) + 0.1 / k
    chance = np.empty((cells, k, k, k, k))
    for cell, one, two, three in np.ndindex(cells, k, k, k):
        score = 0.4 * (cell - 1.5) + 0.9 * (one - 1) + 0.1 * (two - 1) + 0.8 * (three - 1)
        chance[cell, one, two, three] = 1 / (1 + np.exp(-score))
    share = np.empty((4, k, 2, 2))
    for i, z, y, before in np.ndindex(*share.shape):
        share[i, z, y, before] = 0.6 + 0.2 * before + (0 if i == 3 else 0.08 * (z - 1) - 0.1 * y)
    return DiscreteFamily(np.full((2, 2), 0.25), value, chance, share)


def units(quick: bool) -> Iterable[Unit]:
    """List a unit for each family and model, then for each table and split."""
    for run in RUNS[: 1 if quick else None]:
        for name in families():
            yield Unit({"what": name, "run": run}, partial(measure, name, run, quick))
    for name in OPTIONAL:
        for run in SPLITS[: 1 if quick else None]:
            yield Unit({"what": name, "run": run}, partial(measure_table, name, run, quick))


def measure(name: str, run: int, quick: bool) -> list[Row]:
    """Train one model, ask about many samples, and look at what it says."""
    family, useless = families()[name]
    trained = family.sample(TRAINED, 1_000 + run)
    params = {"objective": "binary", "optional": family.optional, "num_leaves": 15, "verbosity": -1, "num_threads": 1}
    booster = puc.train(params, puc.Dataset(trained.X, trained.y), 20 if quick else 100)
    names = [booster.consent.group_names[j] for j in useless]
    new = family.sample(10_000 if quick else NEW, 2_000 + run)
    truth = {one.name: one.value for one in puc.questions(booster, new.X, new.y, num_threads=1).sets}
    total = truth[" + ".join(booster.consent.group_names)]
    counted = ("useful", "recommended", "naive", "naive samples", "shorter", "too short")
    found: dict[str, float] = dict.fromkeys(counted, 0)
    kept, sharing = [], []
    for number in range(3 if quick else SAMPLES):
        people = family.sample(ASKED, 100_000 + 1_000 * run + number)
        asked = puc.questions(booster, people.X, people.y, share=SHARE, num_threads=1)
        sharing.append(asked.people)
        found["useful"] += any(one.useful for one in asked.questions if one.group in names)
        if asked.enough is not None:
            found["recommended"] += any(name in asked.enough for name in names)
            kept.append(truth[" + ".join(asked.enough) or "nothing"] / total)
            found["shorter"] += 1
            found["too short"] += kept[-1] < SHARE
        if number < NAIVE:
            with mock.patch.object(asking, "put_right", _as_told):
                naive = puc.questions(booster, people.X, people.y, num_threads=1)
            found["naive"] += any(one.useful for one in naive.questions if one.group in names)
            found["naive samples"] += 1
    lowest, mean = (min(kept), statistics.fmean(kept)) if kept else (None, None)
    return [{"samples": len(sharing), "people": statistics.fmean(sharing), **found, "kept": mean, "lowest": lowest}]


def measure_table(name: str, run: int, quick: bool) -> list[Row]:
    """Train, ask, and measure the recommended form on three parts of a table."""
    task = load(name, quick) if quick else loaded(name, quick)
    table = task.X.copy()
    exposure = table.pop("Exposure").to_numpy() if "Exposure" in table else None
    signs = {column: sign for column, sign in OPTIONAL[name].items() if column in table}
    X = partly_withheld(table, task.y, signs, run)
    order = np.random.default_rng(run).permutation(len(X))[:MOST]
    half, rest = len(order) // 2, len(order) * 3 // 4
    parts = (order, order, order) if quick else (order[:half], order[half:rest], order[rest:])

    def part(rows: Array) -> tuple[pd.DataFrame, Array, Any]:
        return X.iloc[rows].reset_index(drop=True), task.y[rows], None if exposure is None else exposure[rows]

    training, asked, new = map(part, parts)
    objective = {"classification": "binary", "poisson": "poisson"}.get(task.source.kind, "regression")
    params = {"objective": objective, "optional": [*signs, NOISE], "verbosity": -1, "num_threads": 1}
    booster = puc.train(params, puc.Dataset(training[0], training[1], exposure=training[2]), 5 if quick else 100)
    with mock.patch.object(asking, "MIN_PEOPLE", 5 if quick else asking.MIN_PEOPLE):
        found = puc.questions(booster, asked[0], asked[1], exposure=asked[2], share=SHARE, num_threads=1)
        with mock.patch.object(asking, "put_right", _as_told):
            naive = puc.questions(booster, asked[0], asked[1], exposure=asked[2], num_threads=1)
        row: Row = {"samples": 1, "people": found.people, "shorter": 0, "naive samples": 1}
        row |= {"useful": int(found.questions[-1].useful), "naive": int(naive.questions[-1].useful)}
        if found.enough is None:
            return [row]
        place = [one.name for one in found.sets].index(" + ".join(found.enough) or "nothing")
        values = on_new_people(booster, new)
    kept = keeps(values, SHARE, 0.95, 0)
    z = kept.margin[place] / kept.error[place] if kept.error[place] else 0.0
    share = values.value[place] / values.value[-1]
    row |= {"shorter": 1, "recommended": int(NOISE in found.enough), "asked": " + ".join(found.enough) or "nothing"}
    return [{**row, "kept": share, "too short": int(share < SHARE), "z": z}]


def partly_withheld(table: pd.DataFrame, y: Array, signs: dict[str, str], seed: int) -> pd.DataFrame:
    """Return a table with one more column that says nothing, but that people with low outcomes share more often."""
    rng = np.random.default_rng(1_000 + seed)
    X = table.assign(**{NOISE: rng.normal(size=len(table))})
    for column, sign in (*signs.items(), (NOISE, "+")):
        of = y if column == NOISE else X[column].to_numpy() if sign else np.zeros(len(X))
        rank = pd.Series(of).rank(pct=True).to_numpy() - 0.5
        X[column] = X[column].where(rng.random(len(X)) < 0.85 + {"-": 0.25, "+": -0.25, "": 0.0}[sign] * rank)
    return X


def _as_told(objective: Any, scores: Array, *_: Any) -> Array:
    return scores


def on_new_people(booster: Any, new: tuple[pd.DataFrame, Array, Any]) -> SetValues:
    """Return the values of all sets with their covariance, on people who had no part in the choice."""
    predictor = puc._prediction.predictor.MaskedPredictor(booster, new[0], num_threads=1)
    sharers = asking._read(predictor, new[1], None, None, None, new[2], None, 0)
    return SetValues.of(asking._losses(predictor, sharers, False), sharers.weight, sharers.masks)


def table(rows: Rows) -> Table:
    """Return a line for each family and each table."""
    columns = [
        "people", "who share all", "samples", "useless called useful", "the same, forms as told",
        "useless recommended", "shorter form", "of all it keeps, new people", "keeps less than 95 %",
    ]  # fmt: skip
    lines = []
    for what in dict.fromkeys(row["what"] for row in rows):
        some = [row for row in rows if row["what"] == what]

        def total(name: str, some: Rows = some) -> float:
            return sum(float(row.get(name) or 0) for row in some)

        samples, known = total("samples"), [row for row in some if row.get("kept")]
        kept = [float(row["kept"]) for row in known]
        error = statistics.stdev(kept) / len(kept) ** 0.5 if len(kept) > 1 else float("nan")
        short = _rate(total("too short"), samples)
        if what in OPTIONAL:  # new people are no more than those asked about, so chance plays on both sides
            short += f", {sum(float(row['z']) < -1.645 for row in known)} of {samples:.0f} beyond chance"
        lines.append(
            [
                what,
                f"{statistics.fmean(float(row['people']) for row in some):,.0f}",
                f"{samples:.0f}",
                _rate(total("useful"), samples),
                _rate(total("naive"), total("naive samples")),
                _rate(total("recommended"), samples),
                f"{100 * total('shorter') / samples:.0f} %",
                f"{100 * statistics.fmean(kept):.1f} ± {100 * error:.1f} %" if kept else "–",
                short,
            ]
        )
    return columns, lines


def _rate(count: float, of: float) -> str:
    share = count / of
    return f"{100 * share:.1f} ± {100 * (share * (1 - share) / of) ** 0.5:.1f} %"


STUDY = Study("questions", units, table)
