"""The options of an audit: named once, listed by help, and refused by name if mistyped."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest
from audit_tools import TEASER, audit

import pucboost as puc
from pucboost._auditing.settings import (
    AuditOptions,
    FittingOptions,
    JudgementOptions,
    NuisanceEstimators,
    PeopleOptions,
    group_options,
)

GROUPS = (PeopleOptions, JudgementOptions, FittingOptions)
OPTIONS = [field.name for group in GROUPS for field in fields(group) if field.name != "margin"]


def test_options_for_type_checkers_are_the_fields_of_the_groups() -> None:
    assert len(OPTIONS) == len(set(OPTIONS))
    assert set(OPTIONS) == set(AuditOptions.__annotations__)
    assert AuditOptions.__required_keys__ == frozenset()


def test_signature_and_docstring_name_every_option() -> None:
    parameters = inspect.signature(puc.audit).parameters
    assert list(parameters) == ["model", "X", "y", "margin", "train_data", "truth", *OPTIONS]
    assert {name: parameters[name].default for name in ("level", "min_count", "folds", "loss", "optional")} == {
        "level": 0.95,
        "min_count": 100,
        "folds": 5,
        "loss": "auto",
        "optional": None,
    }
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for name, p in parameters.items() if name in OPTIONS)
    lines = (inspect.getdoc(puc.audit) or "").split("Returns\n")[0].splitlines()
    documented = {name.strip() for line in lines if not line.startswith(" ") for name in line.split(",")}
    assert set(parameters) <= documented


@pytest.mark.parametrize(
    ("mistyped", "message"),
    [
        ("clutsers", r"unexpected keyword argument 'clutsers'\. Did you mean 'clusters'\?"),
        ("favorable", r"unexpected keyword argument 'favorable'\. Did you mean 'favourable'\?"),
        ("train", r"unexpected keyword argument 'train'\. Did you mean 'train_data'\?"),
        ("xyz", r"unexpected keyword argument 'xyz'\. The options are optional, available, .*, progress\."),
    ],
)
def test_a_mistyped_option_is_named_with_the_closest(mistyped: str, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        audit(TEASER.puc_prediction, TEASER.sample(300, 0), **{mistyped: 1})


def test_options_reach_their_group() -> None:
    given = {"weight": "w", "level": np.float32(0.9), "folds": np.int64(4), "nuisance": {"num_leaves": 7}}
    people, judgement, fitting = group_options(np.float64(0.02), given)
    assert people == PeopleOptions(weight="w")
    assert judgement == JudgementOptions(0.02, level=float(np.float32(0.9)))
    assert fitting == FittingOptions(folds=4, nuisance={"num_leaves": 7})
    assert [type(value) for value in (judgement.margin, judgement.level, fitting.folds)] == [float, float, int]
    with pytest.raises(FrozenInstanceError):
        judgement.level = 0.5  # type: ignore[misc]


def test_nuisance_is_read_once() -> None:
    class Estimator:
        def fit(self) -> None: ...

    outcome, availability = Estimator(), Estimator()
    read = FittingOptions(nuisance=(outcome, availability)).nuisance
    assert read == NuisanceEstimators(outcome, availability)
    assert FittingOptions(nuisance=read).nuisance is read
    assert FittingOptions().nuisance == {}


def test_bound_is_the_margin_in_units_of_the_prediction() -> None:
    assert JudgementOptions(0.1).bound(-3.0) == 0.1
    assert JudgementOptions(0.1, relative=True).bound(-3.0) == pytest.approx(0.3)
    with pytest.raises(ValueError, match="mean prediction other than 0"):
        JudgementOptions(0.1, relative=True).bound(0.0)


PROBABILITY_MARGIN = (
    r"margin is 2, but penalties are probabilities: no model could exceed it. Did you mean 0.02, 2 percentage points\?"
)
WIDE_MARGIN = r"margin is 3, more than the standard deviation of the outcomes \(0\.9791\): any model would be certified"


def a_surcharge(X: np.ndarray) -> np.ndarray:
    """What no audit may certify: everybody who is silent is told 0.3 more than justified."""
    return np.clip(TEASER.puc_prediction(X) + 0.3 * np.isnan(X[:, 2]), 0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 2}, PROBABILITY_MARGIN),
        ({"margin": 1.0}, "margin is 1, but penalties are probabilities"),
        ({"margin": 5, "relative": True}, r"margin is 5 with relative=True, which is 500% .* Did you mean 0\.05\?"),
    ],
)
def test_margins_that_certify_anything_are_refused(options: dict[str, Any], message: str) -> None:
    people = TEASER.sample(400, seed=0)
    given = {"optional": [2], "num_threads": 1, **options}
    with pytest.raises(ValueError, match=message):
        puc.audit(a_surcharge, people.X, people.y, **given)
    with pytest.raises(ValueError, match=message):
        puc.testing.assert_consent(a_surcharge, people.X, people.y, **given)


def test_margins_wider_than_the_outcomes_are_refused() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = X.sum(axis=1) / np.sqrt(2)
    X[::2, 1] = np.nan
    given: dict[str, Any] = {"optional": [1], "num_threads": 1}
    with pytest.raises(ValueError, match=WIDE_MARGIN):
        puc.audit(lambda rows: np.nan_to_num(rows).sum(axis=1), X, y, margin=3, **given)
    assert puc.audit(lambda rows: np.nan_to_num(rows).sum(axis=1), X, y, margin=0.9, **given).margin == 0.9
