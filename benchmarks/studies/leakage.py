"""Who was in training? Attacks on plain LightGBM and on pucboost, whose training sees copies of a person.

**What is expected.** One person moves a score by about their residual × rate × rounds ÷ the people in their leaf. The
weight law gives the virtual row of everybody who shares a set the same weight, and a tree grows on as many rows as
there are people: the capacity of plain training, spread over all sets. So the number told for what a person shares
should tell *less* about them than a plain model's. An attacker may quote every subset of it, though, each of which was
trained on another copy, and all of them together should tell about as much again. The number of copies (2, 4, 8) should
hardly matter, as their weights add up to the same; but several copies of a person can fill a leaf, and
``min_data_in_leaf`` counts them, so that large values should help a little less than they do in plain training.

**The attacks.** Half of a table's people are in the training of each of many models, drawn for each person anew. The
attacker knows person and outcome, and has trained such models (shadows). Loss: members have smaller ones. Likelihood
ratio: scores of a person are normal around two means, with and without them. With few shadows the difference of the
means is mostly noise, so it is shrunk towards what the residual says, by empirical Bayes; this is stronger than the
ratio of raw means. It is asked of what the person shares, and of all subsets of it together, whose errors are
correlated: δ' Σ⁻¹ (x − μ − δ/2).
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.metrics import log_loss, mean_squared_error, roc_auc_score, roc_curve

import pucboost as puc
from benchmarks.data import insurance_like, load
from benchmarks.harness.measuring import by, plus_minus, values
from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit

TABLES = ("adult", "california_housing", "simulated")
SEEDS = range(3)
PEOPLE, MODELS, ROUNDS = 4_000, 16, 100
RARE_WORDS = ("native-country",)  # a category of few people names them, whatever a model has learned
ENOUGH = 30
"""People who share a set, at least, so that the errors of their scores can be told."""

PLAIN = {"engine": "lightgbm", "augmentation": "none"}
OURS = {"engine": "native", "copies": 4}
LEAF, EARLY = "min_data_in_leaf", "early stopping"
SETTINGS: dict[str, dict[str, Any]] = {
    "plain LightGBM": PLAIN,
    "plain LightGBM, bags of 2/3": {**PLAIN, "bagging_fraction": 2 / 3, "bagging_freq": 1},
    "native, 2 copies": {**OURS, "copies": 2},
    "native, 4 copies": OURS,
    "native, 8 copies": {**OURS, "copies": 8},
    "lightgbm, 4 copies": {**OURS, "engine": "lightgbm"},
    **{
        f"{name}, {what}": {**params, **more}
        for name, params in (("plain LightGBM", PLAIN), ("native, 4 copies", OURS))
        for what, more in {
            "leaves of 5": {LEAF: 5},
            "leaves of 100": {LEAF: 100},
            "25 rounds": {"rounds": 25},
            "400 rounds": {"rounds": 400},
            EARLY: {"rounds": 400, EARLY: True},
        }.items()
    },
}
LOSS, RATIO, ALL = "loss", "ratio, what is shared", "ratio, every subset"
ATTACKS = (LOSS, RATIO, ALL)
SILENT, OPEN = "AUC of who shares nothing, %", "AUC of who shares everything, %"
AUC, ADVANTAGE, RARE, UTILITY = "AUC, %", "TPR − FPR, points", "TPR at 1 % FPR, %", "loss of others"


def units(quick: bool) -> list[Unit]:
    """List every table and seed."""
    tables, seeds = (TABLES[-1:], SEEDS[:1]) if quick else (TABLES, SEEDS)
    return [Unit({"table": t, "seed": seed}, partial(measure, t, seed, quick)) for seed in seeds for t in tables]


def measure(name: str, seed: int, quick: bool) -> Iterator[Row]:
    """Attack every setting on the same people, members drawn anew for each model but alike in all settings."""
    n, n_models = (400, 4) if quick else (PEOPLE, MODELS)
    X, y, optional = people(name, n, seed)
    rng = np.random.default_rng([seed, 1])
    half = np.arange(n_models) < n_models // 2
    members = rng.permuted(np.tile(half[:, None], (1, n)), axis=0)  # each person in half of the models
    binary = len(np.unique(y)) == 2
    for setting, given in SETTINGS.items():
        params = {"objective": "binary" if binary else "l2", "optional": optional, "num_threads": 1, "verbosity": -1}
        quotes = np.stack([quoted(X, y, inside, {**params, **given}, quick) for inside in members])
        own, shared = quotes[..., :1], np.isfinite(quotes[0]).sum(axis=1) - 1
        told = expit(own[..., 0]) if binary else own[..., 0]
        loss = -np.log(np.clip(np.where(y == 1, told, 1 - told), 1e-12, 1)) if binary else (y - told) ** 2
        others = [log_loss(y[~i], t[~i]) if binary else mean_squared_error(y[~i], t[~i]) for i, t in zip(members, told, strict=True)]  # fmt: skip  # noqa: E501
        for attack, scores in (
            (LOSS, -loss),
            (RATIO, ratios(own, members, y, binary)),
            (ALL, ratios(quotes, members, y, binary)),
        ):
            found = {**success(scores, members), UTILITY: statistics.mean(others)}
            for column, some in ((SILENT, shared == 0), (OPEN, shared == len(optional))):
                found[column] = success(scores[:, some], members[:, some])[AUC]
            yield {"model": setting, "attack": attack, **found}


def people(name: str, n: int, seed: int) -> tuple[pd.DataFrame, Array, list[str]]:
    """Return some people of a table with four or five optional columns."""
    if name == "simulated":
        drawn, y, optional = insurance_like(n, 10, 5, seed)
        X = pd.DataFrame(drawn, columns=[f"column {place}" for place in range(drawn.shape[1])])
        return X, y, [X.columns[place] for place in optional]
    task = load(name)
    X, optional = task.withhold_several(seed)
    X = X.drop(columns=[column for column in RARE_WORDS if column in X])
    rows = np.random.default_rng(seed).permutation(len(task.y))[:n]
    return X.iloc[rows].reset_index(drop=True), task.y[rows], optional


def quoted(X: pd.DataFrame, y: Array, inside: Array, params: Mapping[str, Any], quick: bool) -> Array:
    """Train on those inside, and return what everybody is told: raw scores, averaged by how many groups they hold back.

    The first column is what they share as it is. Subsets that differ are many, and an attacker has few shadows, so that
    their averages tell more than all of them one by one.
    """
    params = dict(params)
    rounds, early = min(params.pop("rounds", ROUNDS), 5 if quick else 400), params.pop(EARLY, False)
    train = np.flatnonzero(inside)
    data: dict[str, Any] = {}
    if early:  # a fifth of the members decides when to stop, and leaks only by that
        valid, train = train[::5], np.delete(train, np.s_[::5])
        data["valid_sets"] = [puc.Dataset(X.iloc[valid], y[valid])]
        params["early_stopping_round"] = 10
    with warnings.catch_warnings():  # of the largest gain in adult, which looks like a code
        warnings.simplefilter("ignore", puc.warnings.EncodedSilenceWarning)
        model = puc.train(params, puc.Dataset(X.iloc[train], y[train]), rounds, **data)
    quotes = puc.quote(model, X, raw_score=True, num_threads=1)
    size = np.array([0 if name == "nothing" else 1 + name.count(" + ") for name in quotes])
    scores = quotes.to_numpy(dtype=np.float64)
    held_back = np.where(np.isfinite(scores), size, 0).max(axis=1, keepdims=True) - size
    found = np.full((len(X), size.max() + 1), np.nan)
    for n in range(found.shape[1]):
        asked = np.isfinite(scores) & (held_back == n)
        some = asked.any(axis=1)
        found[some, n] = np.where(asked, scores, 0.0)[some].sum(axis=1) / asked[some].sum(axis=1)
    return found


def ratios(scores: Array, members: Array, y: Array, binary: bool) -> Array:
    """Return the likelihood ratio of membership for each model and person.

    Parameters
    ----------
    scores
        Raw scores by model, person and question; NaN where a person cannot ask. People who ask the same are taken
        together: the errors of their scores have one covariance.
    members
        Who was in the training of each model. A model is attacked by what all others tell.
    """
    found = np.full(members.shape, np.nan)
    asks = np.isfinite(scores[0])
    for pattern in np.unique(asks, axis=0):
        who = np.flatnonzero((asks == pattern).all(axis=1))
        if len(who) < ENOUGH:
            pattern = np.arange(len(pattern)) == 0  # what they share alone
        part = scores[:, who][:, :, pattern]
        for victim in range(len(members)):
            shadows = np.arange(len(members)) != victim
            found[victim, who] = _ratio(part[victim], part[shadows], members[shadows][:, who], y[who], binary)
    return found


def _ratio(x: Array, shadows: Array, members: Array, y: Array, binary: bool) -> Array:
    """Return the log likelihood ratio of some people who ask the same questions, for one model."""
    inside, n_inside = members[..., None], members.sum(axis=0)[:, None]
    n_outside = len(members) - n_inside
    within = np.where(inside, shadows, 0.0).sum(axis=0) / n_inside
    without = np.where(inside, 0.0, shadows).sum(axis=0) / n_outside
    errors = (shadows - np.where(inside, within, without)).reshape(-1, x.shape[1])
    covariance = errors.T @ errors / ((len(members) - 2) * len(x))
    covariance += 1e-3 * np.diag(covariance).mean() * np.eye(len(covariance))  # some questions have one answer

    # The difference that a person makes: what the residual says, and what the shadows say, by their precisions.
    residual = y[:, None] - (expit(without) if binary else without)
    slope = (residual * (within - without)).sum(axis=0) / (residual**2).sum(axis=0)
    rest = within - without - slope * residual
    noise = float((1 / n_inside + 1 / n_outside).mean()) * covariance
    size, direction = np.linalg.eigh(rest.T @ rest / len(rest) - noise)
    spread = (direction * np.maximum(size, 0.0)) @ direction.T
    difference = slope * residual + rest @ np.linalg.solve(spread + noise, spread)
    middle = (shadows - (inside - 0.5) * difference).mean(axis=0)
    return np.einsum("ij,ij->i", difference, np.linalg.solve(covariance, (x - middle).T).T)


def success(scores: Array, members: Array) -> Row:
    """Return how well scores tell members, over all models together."""
    false, true, _ = roc_curve(members.ravel(), scores.ravel())
    return {
        AUC: 100 * roc_auc_score(members.ravel(), scores.ravel()),
        ADVANTAGE: 100 * float(np.max(true - false)),
        RARE: 100 * float(np.interp(0.01, false, true)),
    }


def table(rows: Rows) -> Table:
    """Return a line per table, setting and attack, means ± standard errors over seeds."""
    measures = (AUC, ADVANTAGE, RARE, SILENT, OPEN)
    columns = ["table", "model", "attack", *measures, UTILITY]
    lines = [
        [*key, *(plus_minus(values(here, column), 1) for column in measures), _mean(here, UTILITY)]
        for key, here in by(rows, "table", "model", "attack").items()
    ]
    return columns, lines


def _mean(rows: Rows, column: str) -> str:
    return f"{statistics.mean(values(rows, column)):.4f}"


def page(rows: Rows) -> Table:
    """Return a line per table and setting: how well the attacks do."""
    tables = list(dict.fromkeys(row["table"] for row in rows))
    wanted = ((LOSS, AUC), (RATIO, AUC), (ALL, AUC), (ALL, ADVANTAGE), (ALL, RARE), (ALL, SILENT), (ALL, OPEN))
    lines = []
    for (name, model), here in by(rows, "table", "model").items():
        found = (values([row for row in here if row["attack"] == attack], column) for attack, column in wanted)
        lines.append([name, model, *(plus_minus(numbers, 1) for numbers in found), _mean(here, UTILITY)])
    lines.sort(key=lambda line: tables.index(line[0]))
    return ["table", "model", *(f"{attack}: {column}" for attack, column in wanted), UTILITY], lines


STUDY = Study("leakage", units, table, page=page)
