"""The table of what each engine can do is what engines do."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kits import KITS

import pucboost as puc
from pucboost._engines import ENGINES
from pucboost._engines.features import FEATURES, why_not

NOT_TRAINED = ("forcedsplits_filename", "forcedbins_filename", "device_type", "tree_learner", "num_machines")
"""Need a file, a device or other machines."""


@pytest.mark.parametrize("engine", ENGINES)
def test_examples_are_refused_or_trained(engine: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))  # as many columns as the examples of constraints have
    y = (X[:, 0] + X[:, 2] > 0).astype(float)
    X[rng.random(200) < 0.4, 2] = np.nan
    kit = next(kit for kit in KITS if kit.name == engine)
    refused = 0
    for row in FEATURES:
        if not row.example or "plan" in row.example:
            continue
        given: dict[str, Any] = {**kit.quiet, "engine": engine, "optional": [2, 3], "objective": "binary"}
        given |= row.example
        if "external_memory" in given:
            given["external_memory"] = tmp_path
        keep = given.pop("keep_training_booster", False)
        reason = why_not(engine, row)
        if reason is None and not any(name in row.example for name in NOT_TRAINED):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of small tables
                booster: Any = puc.train(given, puc.Dataset(X, y), 1, keep_training_booster=keep)
            assert puc.consent_of(booster) is not None, row.name
        elif reason is not None:
            refused += 1
            words = "Unknown parameter" if reason.endswith("does not know.") else re.escape(reason)
            with pytest.raises(ValueError, match=words):
                puc.train(given, puc.Dataset(X, y), 1, keep_training_booster=keep)
    assert refused > 10


def test_sentences_belong_to_engines_and_are_sentences() -> None:
    for row in FEATURES:
        assert set(row.no) <= set(ENGINES), row.name
        assert all(sentence.endswith(".") for sentence in row.no.values()), row.name
