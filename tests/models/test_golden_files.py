"""Model files of earlier versions load, and predict what they predicted then."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.exceptions import InconsistentVersionWarning

import pucboost as puc

GOLDEN = Path(__file__).parent / "golden"
KNOWN = {
    (folder.name, name): expected
    for folder in sorted(GOLDEN.iterdir())
    if (folder / "expected.json").exists()
    for name, expected in json.loads((folder / "expected.json").read_text(encoding="utf-8")).items()
}
files = pytest.mark.parametrize(("version", "name"), KNOWN, ids=["-".join(key) for key in KNOWN])


def people(version: str) -> pd.DataFrame:
    table = pd.read_csv(GOLDEN / version / "people.csv", keep_default_na=False, na_values=[""])
    return table.astype({"region": object, "diet": object})


def model_of(version: str, name: str) -> Any:
    """The model of a file. scikit-learn reads its own estimators in later versions, with a warning that is its own."""
    writer = KNOWN[version, name].get("scikit-learn", "0")
    if _numbers(sklearn.__version__) < _numbers(writer):
        pytest.skip(f"the anchor was written with scikit-learn {writer}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        return puc.load_model(GOLDEN / version / name)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]


@files
def test_predicts_as_when_it_was_written(version: str, name: str) -> None:
    expected = KNOWN[version, name]
    model = model_of(version, name)
    X = people(version)[list(model.consent.feature_names)]
    # float32 sums of XGBoost may be ordered differently by another version; LightGBM's are doubles.
    tolerance = {"rtol": 1e-6, "atol": 1e-7} if "xgboost" in name else {"rtol": 1e-12, "atol": 0}
    np.testing.assert_allclose(puc.predict(model, X), expected["as_given"], **tolerance)
    np.testing.assert_allclose(puc.predict(model, X, raw_score=True), expected["raw"], **tolerance)
    np.testing.assert_allclose(puc.predict(model, X, sharing="withheld"), expected["withheld"], **tolerance)
    quotes = puc.quote(model, X.head(5))
    assert [str(column) for column in quotes.columns] == expected["quotes"]["columns"]
    np.testing.assert_allclose(quotes, np.array(expected["quotes"]["values"], dtype=np.float64), **tolerance)


@files
def test_knows_consent_and_training(version: str, name: str) -> None:
    expected = KNOWN[version, name]
    model = model_of(version, name)
    assert model.consent.to_dict() == expected["consent"]
    assert model.puc_summary.virtual_rows == expected["virtual_rows"]
    assert model.puc_summary.augmentation == expected["augmentation"]
    assert list(model.puc_summary.masks_seen) == expected["masks_seen"]
    assert model.puc_summary.mask_calibration == expected["mask_calibration"]
    assert model.puc_summary.loading == expected["loading"]


def test_every_version_has_its_files() -> None:
    """A version number without files: run ``golden/write.py`` before it is released."""
    numbers = {version for version, _ in KNOWN}
    assert puc.__version__ in numbers
    for version in numbers:
        written = {path.name for path in (GOLDEN / version).iterdir()} - {"expected.json", "people.csv"}
        assert written == {name for known, name in KNOWN if known == version}


def test_every_kind_of_model_file_is_there() -> None:
    kinds = {name for version, name in KNOWN if version == puc.__version__}
    assert {
        "lightgbm.txt", "lightgbm_classes.txt", "lightgbm_exposure.txt", "lightgbm_levels.txt", "xgboost.json",
        "xgboost.ubj", "xgboost_classes.json", "anchored_lightgbm.json", "anchored_xgboost.json",
        "anchored_estimator.json", "native.txt", "lightgbm_calibrated.txt", "xgboost_calibrated.json",
        "lightgbm_balanced.txt",
    } <= kinds  # fmt: skip
