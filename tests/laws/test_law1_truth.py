"""Law 1: on simulated families with known truth the squared PUC-gap falls with N and beats plain training."""

from __future__ import annotations

from functools import cache

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


SMALL, MIDDLE, LARGE = 1_000, 4_000, 20_000
SCHEMES = ("balanced", "exhaustive", "fixed")
every_family = pytest.mark.parametrize("name", FAMILIES)


@cache
def gap_and_shift(kit: EngineKit, name: str, n: int, augmentation: str) -> tuple[float, float]:
    """Return the squared PUC-gap, and by how much those who share nothing are told too much on average.

    With two groups and more copies than two, "balanced" would have all virtual rows, as "exhaustive" has.
    """
    family = FAMILIES[name]
    train, test = family.sample(n, seed=1), family.sample(10_000, seed=999)
    params = {**kit.small_trees, "learning_rate": 0.15, "optional": family.optional, "seed": 1}
    params |= {"augmentation": augmentation, "copies": 2}
    told = kit.predict(kit.fit(train.X, train.y, 40, **params), test.X)
    nothing = ~test.available.any(axis=1)
    justified = family.puc_prediction(test.X)[nothing]
    return squared_puc_gap(told, family, test.X), float((told[nothing] - justified).mean())


@every_engine
@every_family
def test_gap_falls_with_n(kit: EngineKit, name: str) -> None:
    gaps = [gap_and_shift(kit, name, n, "balanced")[0] for n in (SMALL, MIDDLE, LARGE)]
    assert gaps[0] > 1.5 * gaps[1] > 2.25 * gaps[2], gaps


@every_engine
@every_family
def test_plain_training_is_worse_by_a_wide_margin(kit: EngineKit, name: str) -> None:
    """The average prediction of those who share nothing is what their base features justify."""
    plain, plain_shift = gap_and_shift(kit, name, LARGE, "none")
    assert abs(plain_shift) > 0.08
    for augmentation in SCHEMES:
        protected, shift = gap_and_shift(kit, name, LARGE, augmentation)
        assert protected < plain / 4, (augmentation, plain, protected)
        assert abs(shift) < 0.02, (augmentation, shift)


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
