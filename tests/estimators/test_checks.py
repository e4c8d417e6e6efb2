"""scikit-learn's own checks of estimators."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from estimator_tools import (
    ENGINES,
    classifier,
    regressor,
)
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import pucboost as puc

_WEIGHTS = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")


def exceptions(model: Any) -> dict[str, str]:
    """A weight of 2 must be the same as two equal rows, to 7 digits."""
    if model.engine == "xgboost" and model.optional is not None:
        return dict.fromkeys(_WEIGHTS, "two equal people have virtual rows and draws of their own, a heavy one has not")
    if model.engine == "xgboost" and is_classifier(model):
        return dict.fromkeys(_WEIGHTS, "XGBoost adds up gradients in float32; the eighth digit differs")
    if "min_child_samples" in model.get_params():  # with the default of 20, no tree grows on the 15 rows of the check
        return dict.fromkeys(_WEIGHTS, "LightGBM's leaves and bins count rows, whatever their weight")
    return {}


@parametrize_with_checks(
    [
        estimator(optional=optional, engine=engine, n_estimators=10, n_jobs=1)
        for estimator in (puc.PUCClassifier, puc.PUCRegressor)
        for engine in ENGINES
        for optional in (None, [1])
    ],
    expected_failed_checks=exceptions,
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@parametrize_with_checks(
    [puc.PUCClassifier(n_estimators=5, n_jobs=1, min_child_samples=5, valid_augmentation="none")],
    expected_failed_checks=exceptions,
)
def test_checks_with_keywords_of_the_engine(estimator: Any, check: Any) -> None:
    check(estimator)


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
