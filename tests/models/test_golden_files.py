"""Model files of earlier versions load, and predict what they predicted then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pucboost as puc

GOLDEN = Path(__file__).parent / "golden"
FILES = [
    (expected.parent, name)
    for expected in sorted(GOLDEN.glob("*/expected.json"))
    for name in json.loads(expected.read_text())
]


def people(folder: Path) -> pd.DataFrame:
    table = pd.read_csv(folder / "people.csv", keep_default_na=False, na_values=[""])
    return table.astype({"region": object, "diet": object})


@pytest.mark.parametrize(("folder", "name"), FILES, ids=[f"{folder.name}-{name}" for folder, name in FILES])
def test_predicts_as_when_it_was_written(folder: Path, name: str) -> None:
    expected = json.loads((folder / "expected.json").read_text())[name]
    model: Any = puc.load_model(folder / name)
    X = people(folder)[list(model.consent.feature_names)]
    # float32 sums of XGBoost may be ordered differently by another version; LightGBM's are doubles.
    tolerance = {"rtol": 1e-6, "atol": 1e-7} if "xgboost" in name else {"rtol": 1e-12, "atol": 0}
    np.testing.assert_allclose(puc.predict(model, X), expected["as_given"], **tolerance)
    np.testing.assert_allclose(puc.predict(model, X, raw_score=True), expected["raw"], **tolerance)
    np.testing.assert_allclose(puc.predict(model, X, sharing="withheld"), expected["withheld"], **tolerance)


@pytest.mark.parametrize(("folder", "name"), FILES, ids=[f"{folder.name}-{name}" for folder, name in FILES])
def test_knows_consent_and_training(folder: Path, name: str) -> None:
    expected = json.loads((folder / "expected.json").read_text())[name]
    model: Any = puc.load_model(folder / name)
    assert model.consent.to_dict() == expected["consent"]
    assert model.puc_summary.virtual_rows == expected["virtual_rows"]
    assert model.puc_summary.augmentation == expected["augmentation"]
    assert list(model.puc_summary.masks_seen) == expected["masks_seen"]


def test_every_kind_of_model_file_is_there() -> None:
    kinds = {name for _, name in FILES}
    assert {"lightgbm.txt", "xgboost.json", "xgboost.ubj", "anchored_lightgbm.json", "anchored_xgboost.json"} <= kinds
