"""scikit-learn's own checks of estimators."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from estimator_tools import ENGINES, classifier, regressor
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

import pucboost as puc

_WEIGHTS = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")


def exceptions(model: Any) -> dict[str, str]:
    """Which checks may fail: those that a weight of 2 is the same as two equal rows, to 7 digits."""
    if model.engine == "xgboost" and model.optional is not None:
        return dict.fromkeys(_WEIGHTS, "two equal people have virtual rows and draws of their own, a heavy one has not")
    if model.engine == "xgboost" and is_classifier(model):
        return dict.fromkeys(_WEIGHTS, "XGBoost adds up gradients in float32; the eighth digit differs")
    if "min_child_samples" in model.get_params():  # with the default of 20, no tree grows on the 15 rows of the check
        return dict.fromkeys(_WEIGHTS, "LightGBM's leaves and bins count rows, whatever their weight")
    return {}


def assert_passes(model: Any) -> None:
    found = check_estimator(model, expected_failed_checks=exceptions(model), on_skip=None, on_fail=None)
    assert len(found) > 40
    failed = {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"}
    assert not failed, failed


@pytest.mark.slow
@pytest.mark.parametrize("optional", [None, [1]], ids=["plain", "protected"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("estimator", [puc.PUCClassifier, puc.PUCRegressor])
def test_scikit_learns_checks(estimator: Any, engine: str, optional: Any) -> None:
    assert_passes(estimator(optional=optional, engine=engine, n_estimators=10, n_jobs=1))


def test_checks_with_keywords_of_the_engine() -> None:
    assert_passes(puc.PUCClassifier(n_estimators=5, n_jobs=1, min_child_samples=5, valid_augmentation="none"))


def test_tags() -> None:
    tags = get_tags(classifier())
    assert tags.input_tags.allow_nan
    assert tags.input_tags.sparse
    assert is_classifier(classifier())
    assert is_regressor(regressor())
    assert not get_tags(regressor()).target_tags.positive_only
    assert get_tags(regressor(objective="gamma")).target_tags.positive_only


def test_import_stays_light() -> None:
    code = "import pucboost, sys; assert not {'sklearn', 'lightgbm', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
