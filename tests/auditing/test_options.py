"""Options of an audit, what comes out of it, and what becomes of too little or wrong input."""

from __future__ import annotations

import inspect
import json
from dataclasses import FrozenInstanceError, fields
from types import SimpleNamespace
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from audit_tools import HARMLESS, NO_FIT, PAPER, QUICK, TEASER, audit, numbers
from tools import QUIET

import pucboost as puc
from pucboost._auditing.findings import VIOLATED_FOR_SOME
from pucboost._auditing.settings import (
    AuditOptions,
    FittingOptions,
    JudgementOptions,
    NuisanceEstimators,
    PeopleOptions,
    group_options,
)
from pucboost.simulate.families import expit

GROUPS = (PeopleOptions, JudgementOptions, FittingOptions)
OPTIONS = [field.name for group in GROUPS for field in fields(group) if field.name != "margin"]


def test_every_option_is_in_the_types_the_signature_and_the_docstring() -> None:
    assert len(OPTIONS) == len(set(OPTIONS))
    assert set(OPTIONS) == set(AuditOptions.__annotations__)
    assert AuditOptions.__required_keys__ == frozenset()
    parameters = inspect.signature(puc.audit).parameters
    assert list(parameters) == ["model", "X", "y", "margin", "train_data", "row_key", "truth", *OPTIONS]
    defaults = {"level": 0.95, "min_count": 40, "partial": None, "folds": 5, "loss": "auto", "optional": None}
    assert {name: parameters[name].default for name in defaults} == defaults
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for name, p in parameters.items() if name in OPTIONS)
    lines = (inspect.getdoc(puc.audit) or "").split("Returns\n")[0].splitlines()
    documented = {name.strip() for line in lines if not line.startswith(" ") for name in line.split(",")}
    assert set(parameters) <= documented


def test_options_reach_their_group_as_plain_numbers() -> None:
    class Estimator:
        def fit(self) -> None: ...

    given = {"weight": "w", "level": np.float32(0.9), "folds": np.int64(4), "nuisance": {"num_leaves": 7}}
    people, judgement, fitting = group_options(np.float64(0.02), given)
    assert people == PeopleOptions(weight="w")
    assert judgement == JudgementOptions(0.02, level=float(np.float32(0.9)))
    assert fitting == FittingOptions(folds=4, nuisance={"num_leaves": 7})
    assert [type(value) for value in (judgement.margin, judgement.level, fitting.folds)] == [float, float, int]
    pair = Estimator(), Estimator()
    read = FittingOptions(nuisance=pair).nuisance
    assert read == NuisanceEstimators(*pair)
    assert FittingOptions(nuisance=read).nuisance is read
    assert FittingOptions().nuisance == {}


def test_bound_is_the_margin_in_units_of_the_prediction() -> None:
    assert JudgementOptions(0.1).bound(-3.0) == 0.1
    assert JudgementOptions(0.1, relative=True).bound(-3.0) == pytest.approx(0.3)
    with pytest.raises(ValueError, match="mean prediction other than 0"):
        JudgementOptions(0.1, relative=True).bound(0.0)
    people = TEASER.sample(1000, 0)
    options = {"margin": 0.1, "relative": True, "margin_set_by": "the board, 3 May 2026", "folds": 3}
    report = audit(TEASER.puc_prediction, people, **options)
    assert report.margin == pytest.approx(0.1 * TEASER.puc_prediction(people.X).mean())
    assert report.relative_margin == 0.1
    assert "the board, 3 May 2026" in str(report)


# The result ---------------------------------------------------------------------------------------------------------


def test_result_is_frozen_plain_data_and_repeatable(tmp_path: Any) -> None:
    people = PAPER.sample(800, 2)
    before = people.X.copy()
    one, two = (audit(PAPER.puc_prediction, people, PAPER, truth=PAPER) for _ in range(2))
    np.testing.assert_array_equal(people.X, before)
    first, second = one.to_dict(), two.to_dict()
    for volatile in ("date", "seconds"):
        first["provenance"].pop(volatile)
        second["provenance"].pop(volatile)
    assert first == second
    with pytest.raises(FrozenInstanceError):
        one.margin = 1  # type: ignore[misc]
    read = json.loads(one.to_json())
    assert read["schema_version"] == 3
    assert read["passed"] == one.passed
    assert read["verdict"] == one.verdict
    assert len(read["penalties"]) == len(one.penalties) == len(one.penalty)
    assert one.penalty["verdict"].tolist() == [p.verdict for p in one.penalties]
    assert not any(c["decisive"] for c in (read["inference_from_silence"], *read["non_degradation"]))
    assert any(p["decisive"] for p in read["penalties"])
    assert next(iter(one.verdicts)) == "overall"
    one.to_json(tmp_path / "audit.json")
    assert (tmp_path / "audit.json").read_text(encoding="utf-8") == one.to_json()
    assert read["puc_gap"]["squared"] == 0.0
    assert read["provenance"]["data_hash"] == two.provenance.data_hash
    other = audit(PAPER.puc_prediction, PAPER.sample(800, 3), PAPER, **NO_FIT)
    assert other.provenance.data_hash != one.provenance.data_hash


def test_threads_and_seed() -> None:
    people = TEASER.sample(800, 0)
    one = audit(TEASER.puc_prediction, people)
    two = audit(TEASER.puc_prediction, people, num_threads=2)
    assert numbers(one) == numbers(two)
    other = audit(TEASER.puc_prediction, people, seed=1)
    assert numbers(other) != numbers(one)


def test_assert_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    people = HARMLESS.sample(8000, 0)
    options = {"optional": [2], "margin": 0.03, **QUICK}
    assert puc.testing.assert_consent(HARMLESS.puc_prediction, people.X, people.y, **options).passed

    def dear(X: Any) -> Any:
        return np.clip(HARMLESS.puc_prediction(X) + 0.2 * np.isnan(X[:, 2]), 0, 1)

    with pytest.raises(AssertionError, match="violated"):
        puc.testing.assert_consent(dear, people.X, people.y, **options)
    with monkeypatch.context() as patch:
        for_some = SimpleNamespace(verdict=VIOLATED_FOR_SOME, passed=False)
        patch.setattr("pucboost.testing.audit", lambda *given, **options: for_some)
        with pytest.raises(AssertionError, match="violated for some"):
            puc.testing.assert_consent(dear, people.X, people.y, fail_on="violated", **options)
    few = (people.X[:400], people.y[:400])
    with pytest.raises(AssertionError, match="inconclusive"):
        puc.testing.assert_consent(HARMLESS.puc_prediction, *few, **options)
    assert not puc.testing.assert_consent(HARMLESS.puc_prediction, *few, fail_on="violated", **options).passed
    with pytest.raises(ValueError, match="fail_on must be among"):
        puc.testing.assert_consent(dear, people.X, people.y, fail_on="certified", **options)


# Too little, and wrong, input ---------------------------------------------------------------------------------------


def test_rare_sets_get_no_number() -> None:
    people = PAPER.sample(1200, 0)
    report = audit(PAPER.puc_prediction, people, PAPER, min_count=150, folds=3)
    untested = [p for p in report.penalties if p.verdict == "not testable"]
    assert untested
    for p in untested:
        assert p.people < 150
        assert p.estimate is p.verdict_lower is p.verdict_upper is p.percent is None
        assert "fewer than the 150" in p.note
    assert report.support.untested_people == sum(p.people for p in untested)
    assert report.coverage.not_covered == report.support.untested_people
    json.loads(report.to_json())


def test_too_few_people_for_anything() -> None:
    report = audit(TEASER.puc_prediction, TEASER.sample(60, 0))
    assert report.verdict == "inconclusive"
    assert report.reason.startswith("No set of people who withhold something can be tested. The largest are people who")
    assert all(p.estimate is None for p in report.penalties)


@pytest.mark.parametrize("shared", [True, False])
def test_everybody_or_nobody_shares(shared: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    if not shared:
        X[:, 2] = np.nan
    y = (rng.random(1000) < expit(X[:, 0])).astype(float)
    report = puc.audit(lambda t: expit(t[:, 0]), X, y, optional=[2], margin=0.1, **QUICK)
    assert report.informativeness == report.within == report.averages == ()  # nothing was fitted
    # If nobody shares anything, the silent could only be compared with the silent, and reading silence would pass.
    assert report.verdict == "inconclusive"
    if not shared:
        assert (
            report.penalties[0].note == "0 people share more than they do; at least 30 are needed to compare them with."
        )
    assert (report.sharing_effect is None) is (not shared)
    assert report.inference_from_silence.note == "Not compared, as nothing can be tested."
    assert "nothing to test" in report.reason if shared else "share more than they do" in report.reason
    str(report), report.to_html()
    json.loads(report.to_json())


def test_zero_weights_are_left_out() -> None:
    people = TEASER.sample(1000, 0)
    weight = np.ones(1000)
    weight[::2] = 0
    report = audit(TEASER.puc_prediction, people, weight=weight)
    alone = puc.audit(TEASER.puc_prediction, people.X[1::2], people.y[1::2], optional=[2], margin=0.02, **QUICK)
    assert numbers(report) == numbers(alone)
    assert "500 rows with weight 0 are left out." in report.warnings


def test_clusters_of_weight_zero_are_left_out() -> None:
    """They count neither in standard errors nor in the test of informativeness, and fill no folds."""
    people = TEASER.sample(400, 0)
    clusters = np.arange(400) // 2
    keep = clusters % 2 == 1
    options = {"optional": [2], "margin": 0.02, "min_count": 20, **QUICK}
    f = TEASER.puc_prediction
    report = puc.audit(f, people.X, people.y, weight=keep, clusters=clusters, **options)
    alone = puc.audit(f, people.X[keep], people.y[keep], clusters=clusters[keep], **options)
    assert report.penalties == alone.penalties
    assert report.informativeness == alone.informativeness
    assert report.balance == alone.balance


def with_value(values: Any, row: int, value: float) -> Any:
    out = np.array(values, dtype=float)
    out[row] = value
    return out


GOOD = TEASER.sample(300, 0)


WRONG_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"margin": 0}, "margin must be a positive number"),
    ({"margin": float("nan")}, "margin must be a positive number"),
    ({"level": 1.0}, "level must lie between"),
    ({"simultaneous": "scheffe"}, "simultaneous must be one of"),
    ({"min_count": 0}, "min_count must be at least 10"),
    ({"partial": 1.5}, "partial must be None, 'allow', or the largest share"),
    ({"partial": "yes"}, "partial must be None, 'allow', or the largest share"),
    ({"cap": float("nan")}, "cap must be a number"),
    ({"cap": 0.5}, "cap is for amounts, but the loss is log loss"),
    ({"folds": 2}, "folds must be at least 3"),
    ({"margin_set_by": " "}, "margin_set_by must name who fixed the margin and when"),
    ({"favourable": "up"}, "favourable must be 'lower' or 'higher'"),
    ({"loss": "hinge"}, "loss must be 'auto' or one of"),
    ({"loss": "quantile"}, "needs alpha"),
    ({"loss": "quantile", "alpha": 2.0}, "alpha must lie between 0 and 1"),
    ({"optional": ["z9"]}, "optional names column 'z9'"),
    ({"optional": None}, "no consent schema"),
    ({"weight": np.zeros(300)}, "All weights are 0"),
    ({"weight": with_value(np.ones(300), 7, -1)}, "weight is -1.0 in row 7"),
    ({"exposure": with_value(np.ones(300), 7, 0)}, "exposure is 0.0 in row 7"),
    ({"subgroups": {"old": np.ones(3)}}, "Subgroup 'old' must hold True or False"),
    ({"subgroups": np.ones(3)}, "subgroups must have one label"),
    ({"clusters": np.ones(3)}, "clusters must have one label"),
    ({"nuisance": 3}, "nuisance must be a dict"),
    ({"train_data": 3}, r"train_data must be \(X, y\)"),
    ({"truth": np.ones(3)}, "truth must give one prediction"),
    ({"optional": {"nothing": [2]}}, "is called 'nothing'"),
    ({"loss": "quantile", "alpha": 0.5, "relative": True}, "relative=True needs a penalty"),
    ({"margin": 2}, r"margin is 2, but penalties are probabilities: no .* mean 0.02, 2 percentage points\?"),
    ({"margin": 1.0}, "margin is 1, but penalties are probabilities"),
    ({"margin": 5, "relative": True}, r"margin is 5 with relative=True, which is 500% .* Did you mean 0\.05\?"),
]
MISTYPED = [
    ("clutsers", r"unexpected keyword argument 'clutsers'\. Did you mean 'clusters'\?"),
    ("favorable", r"unexpected keyword argument 'favorable'\. Did you mean 'favourable'\?"),
    ("train", r"unexpected keyword argument 'train'\. Did you mean 'train_data'\?"),
    ("xyz", r"unexpected keyword argument 'xyz'\. The options are optional, not_applicable, available, .*, progress\."),
]
WRONG_OUTCOMES: list[tuple[Any, str]] = [
    (np.ones(300), "Every outcome is 1: with only one class"),
    (with_value(GOOD.y, 4, np.nan), "y is nan in row 4"),
    (GOOD.y[:-1], "y must have one value for each of the 300 rows"),
    (["yes"] * 300, "y must be numeric"),
]
WRONG_MODELS: list[tuple[Any, str]] = [
    (lambda X: np.ones(3), r"returned shape \(3,\) for 300 rows"),
    (lambda X: with_value(np.full(300, 0.5), 9, np.nan), "prediction is nan in row 9"),
    (lambda X: with_value(np.full(300, 0.5), 9, 1.5), "prediction is 1.5 in row 9; loss='binary' needs prob"),
    (lambda X: np.ones((300, 4)), "returns 4 values per row"),
]


def test_what_is_wrong_is_named() -> None:
    for options, message in WRONG_OPTIONS:
        with pytest.raises(ValueError, match=message):
            audit(TEASER.puc_prediction, GOOD, **options)
    for name, message in MISTYPED:
        with pytest.raises(TypeError, match=message):
            audit(TEASER.puc_prediction, GOOD, **{name: 1})
    for y, message in WRONG_OUTCOMES:
        with pytest.raises(ValueError, match=message):
            puc.audit(TEASER.puc_prediction, GOOD.X, y, optional=[2], margin=0.02)
    for model, message in WRONG_MODELS:
        with pytest.raises(ValueError, match=message):
            audit(model, GOOD)
    with pytest.raises(TypeError, match="Cannot audit a str"):
        audit("model.txt", GOOD)


def test_margins_wider_than_the_outcomes_are_refused() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = X.sum(axis=1) / np.sqrt(2)
    X[::2, 1] = np.nan
    given: dict[str, Any] = {"optional": [1], **NO_FIT}
    wide = r"margin is 3, more than the standard deviation of the outcomes \(0\.9791\): any model would be certified"
    with pytest.raises(ValueError, match=wide):
        puc.audit(lambda rows: np.nan_to_num(rows).sum(axis=1), X, y, margin=3, **given)
    assert puc.audit(lambda rows: np.nan_to_num(rows).sum(axis=1), X, y, margin=0.9, **given).margin == 0.9


def test_columns_in_another_order_are_refused() -> None:
    people = TEASER.sample(500, 0)
    frame = pd.DataFrame(people.X, columns=["a", "b", "z"])
    for booster in (
        lgb.train({"objective": "binary", **QUIET}, lgb.Dataset(frame, people.y), 3),
        xgb.train({"objective": "binary:logistic", "nthread": 1}, xgb.DMatrix(frame, people.y), 3),
    ):
        with pytest.raises(ValueError, match="Column 0 is 'b', the model expects 'a'"):
            puc.audit(booster, frame[["b", "a", "z"]], people.y, optional=["z"], margin=0.1)
        with pytest.raises(ValueError, match="trained on 3 columns"):
            puc.audit(booster, people.X[:, 1:], people.y, optional=[1], margin=0.1)


def test_missing_labels() -> None:
    people = TEASER.sample(400, 0)
    labels = np.where(np.arange(400) % 3 == 0, None, "x").astype(object)
    assert {p.subgroup for p in audit(TEASER.puc_prediction, people, subgroups=labels).penalties} >= {"x", "missing"}
    with pytest.raises(ValueError, match="clusters has no label in row 0"):
        audit(TEASER.puc_prediction, people, clusters=labels)
