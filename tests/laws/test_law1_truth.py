"""Law 1: on simulated families with known truth the squared PUC-gap falls with N and beats plain training."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from tools import QUIET

import pucboost as puc
from pucboost.simulate import BinaryFamily, DiscreteFamily, LogisticFamily, squared_puc_gap

PARAMS = {**QUIET, "objective": "binary", "learning_rate": 0.1, "num_leaves": 15}
FAMILIES = {
    "binary": BinaryFamily.paper(),
    "logistic": LogisticFamily.paper(),
    "discrete": DiscreteFamily.random(2, 3, seed=0),
}


def gap(family: Any, n: int, augmentation: str, rounds: int = 60, seed: int = 1) -> float:
    train, test = family.sample(n, seed=seed), family.sample(20_000, seed=999)
    params = {**PARAMS, "optional": family.optional, "augmentation": augmentation, "seed": seed}
    booster = puc.train(params, lgb.Dataset(train.X, train.y), rounds)
    return squared_puc_gap(booster.predict(test.X), family, test.X)


@pytest.mark.parametrize("name", FAMILIES)
def test_gap_falls_with_n(name: str) -> None:
    gaps = [gap(FAMILIES[name], n, "balanced") for n in (1_000, 6_000, 40_000)]
    assert gaps[0] > 1.5 * gaps[1] > 2.25 * gaps[2], gaps


@pytest.mark.parametrize("augmentation", ["balanced", "exhaustive", "fixed"])
@pytest.mark.parametrize("name", FAMILIES)
def test_gap_beats_plain_training_by_a_wide_margin(name: str, augmentation: str) -> None:
    family = FAMILIES[name]
    plain, protected = gap(family, 20_000, "none"), gap(family, 20_000, augmentation)
    assert protected < plain / 4, (plain, protected)


@pytest.mark.parametrize("name", FAMILIES)
def test_non_sharers_are_not_shifted(name: str) -> None:
    """The average prediction of those who share nothing is what their base features justify."""
    family = FAMILIES[name]
    train, test = family.sample(40_000, seed=3), family.sample(20_000, seed=4)
    nothing = ~test.available.any(axis=1)
    justified = family.puc_prediction(test.X)[nothing].mean()
    shift = {}
    for augmentation in ("none", "balanced"):
        booster = puc.train(
            {**PARAMS, "optional": family.optional, "augmentation": augmentation}, lgb.Dataset(train.X, train.y), 60
        )
        shift[augmentation] = booster.predict(test.X[nothing]).mean() - justified
    assert abs(shift["balanced"]) < 0.015, shift
    assert abs(shift["none"]) > 0.08, shift


def test_early_stopping_needs_augmented_validation() -> None:
    """On raw validation data the log loss keeps rewarding the inference from silence."""
    family = LogisticFamily.paper()
    train, valid = family.sample(4_000, seed=0), family.sample(4_000, seed=1)
    losses = {}
    for scheme in ("exhaustive", "none"):
        record: dict[str, Any] = {}
        puc.train(
            {**PARAMS, "optional": family.optional, "augmentation": "none", "valid_augmentation": scheme},
            lgb.Dataset(train.X, train.y),
            60,
            valid_sets=[lgb.Dataset(valid.X, valid.y)],
            callbacks=[lgb.record_evaluation(record)],
        )
        losses[scheme] = record["valid_0"]["binary_logloss"]
    # The plain model looks good on raw data and bad on what consent allows it to know.
    assert losses["none"][-1] < losses["exhaustive"][-1] - 0.05
    assert np.argmin(losses["exhaustive"]) < np.argmin(losses["none"])
