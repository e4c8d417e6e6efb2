"""Law 1: on simulated families with known truth the squared PUC-gap falls with N and beats plain training."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from engine_kits import EngineKit, every_engine

import pucboost as puc
from pucboost.simulate import BinaryFamily, DiscreteFamily, LogisticFamily, squared_puc_gap

FAMILIES = {
    "binary": BinaryFamily.paper(),
    "logistic": LogisticFamily.paper(),
    "discrete": DiscreteFamily.random(2, 3, seed=0),
}


def fit(kit: EngineKit, family: Any, sample: Any, augmentation: str, **params: Any) -> Any:
    given = {**kit.small_trees, "learning_rate": 0.1, "optional": family.optional, "augmentation": augmentation}
    return kit.fit(sample.X, sample.y, 60, **given, **params)


@cache
def gap(kit: EngineKit, name: str, n: int, augmentation: str) -> float:
    family = FAMILIES[name]
    test = family.sample(20_000, seed=999)
    booster = fit(kit, family, family.sample(n, seed=1), augmentation, seed=1)
    return squared_puc_gap(kit.predict(booster, test.X), family, test.X)


@every_engine
@pytest.mark.parametrize("name", FAMILIES)
def test_gap_falls_with_n(kit: EngineKit, name: str) -> None:
    gaps = [gap(kit, name, n, "balanced") for n in (1_000, 6_000, 40_000)]
    assert gaps[0] > 1.5 * gaps[1] > 2.25 * gaps[2], gaps


@every_engine
@pytest.mark.parametrize("augmentation", ["balanced", "exhaustive", "fixed"])
@pytest.mark.parametrize("name", FAMILIES)
def test_gap_beats_plain_training_by_a_wide_margin(kit: EngineKit, name: str, augmentation: str) -> None:
    plain, protected = gap(kit, name, 20_000, "none"), gap(kit, name, 20_000, augmentation)
    assert protected < plain / 4, (plain, protected)


@every_engine
@pytest.mark.parametrize("name", FAMILIES)
def test_non_sharers_are_not_shifted(kit: EngineKit, name: str) -> None:
    """The average prediction of those who share nothing is what their base features justify."""
    family = FAMILIES[name]
    train, test = family.sample(40_000, seed=3), family.sample(20_000, seed=4)
    nothing = ~test.available.any(axis=1)
    justified = family.puc_prediction(test.X)[nothing].mean()
    shift = {}
    for augmentation in ("none", "balanced"):
        booster = fit(kit, family, train, augmentation)
        shift[augmentation] = kit.predict(booster, test.X[nothing]).mean() - justified
    assert abs(shift["balanced"]) < 0.015, shift
    assert abs(shift["none"]) > 0.08, shift


@every_engine
def test_early_stopping_needs_augmented_validation(kit: EngineKit) -> None:
    """On raw validation data the log loss keeps rewarding the inference from silence."""
    family = LogisticFamily.paper()
    train, valid = family.sample(4_000, seed=0), family.sample(4_000, seed=1)
    losses = {}
    for scheme in ("exhaustive", "none"):
        params = {**kit.params, **kit.small_trees, "optional": family.optional, "augmentation": "none"}
        _, record = kit.fit_recorded(
            {**params, "valid_augmentation": scheme},
            puc.Dataset(train.X, train.y),
            60,
            [puc.Dataset(valid.X, valid.y)],
        )
        losses[scheme] = record["valid_0"][kit.metrics["binary"]]
    # The plain model looks good on raw data and bad on what consent allows it to know.
    assert losses["none"][-1] < losses["exhaustive"][-1] - 0.05
    assert np.argmin(losses["exhaustive"]) < np.argmin(losses["none"])
