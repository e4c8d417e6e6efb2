"""An audit recognises people the model was trained on, says how many, and then certifies nothing."""

from __future__ import annotations

import json
import os
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audit_tools import HARMLESS, NO_FIT, QUICK
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tools import QUIET

import pucboost as puc
from pucboost._auditing import training_data as overlap
from pucboost._auditing.findings import CERTIFIED, INCONCLUSIVE, VIOLATED, VIOLATED_FOR_SOME, TrainedOn
from pucboost._auditing.training_data import estimate_overlap, judge_overlap, on_people_seen
from pucboost._consent import Consent, shared_counts
from pucboost._models.schema import model_schema, read_schema
from pucboost._tables.sources import SourceTable, row_source
from pucboost._virtual.merging import RowSketch, hash_people, read_row_key
from pucboost._virtual.rows import VirtualTable, shown_table

SETTINGS: dict[str, Any] = {"margin": 0.45, **QUICK}
os.environ["PUCBOOST_TEST_KEY"] = "0123456789abcdef-a-secret"
ROW_KEY = "env:PUCBOOST_TEST_KEY"
SETTINGS["row_key"] = ROW_KEY
PARAMS = {"objective": "binary", "optional": [2], "num_leaves": 7, "row_key": ROW_KEY, **QUIET}
SEEN, FRESH = HARMLESS.sample(1600, 0), HARMLESS.sample(1600, 1)


def train(X: Any = SEEN.X, y: Any = SEEN.y, **params: Any) -> Any:
    return puc.train({**PARAMS, **params}, puc.Dataset(X, y), 3)


def audit(model: Any, X: Any, y: Any, **options: Any) -> puc.typing.AuditReport:
    return puc.audit(model, X, y, **{**SETTINGS, **options})


def share(report: puc.typing.AuditReport) -> Any:
    return report.support.trained_on and report.support.trained_on.share


def known_share(*given: Any, **options: Any) -> Any:
    """How many were trained on; an audit knows without fitting anything."""
    return share(audit(*given, **options, **NO_FIT))


@pytest.fixture(scope="module")
def booster() -> Any:
    return train()


# What the audit does -------------------------------------------------------------------------------------------------


def test_people_the_model_has_not_seen_are_certified(booster: Any) -> None:
    report = audit(booster, FRESH.X, FRESH.y)
    assert (report.verdict, share(report)) == (CERTIFIED, 0.0)
    assert not any("trained on" in warning for warning in report.warnings)
    assert report.support.trained_on.upper < 0.05


def some_rows(n: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).permutation(len(SEEN.y))[:n]


def test_training_people_in_any_order_are_not_certified(booster: Any) -> None:
    rows = some_rows(1600)
    report = audit(booster, SEEN.X[rows].astype(np.float32), SEEN.y[rows])
    assert (report.verdict, report.passed, share(report)) == (INCONCLUSIVE, False, 1.0)
    assert report.reason.startswith(
        "The model was trained on about 100% of the audited people, so it cannot be certified"
    )
    assert report.warnings[0] == report.reason
    assert report.support.trained_on.found == report.support.trained_on.compared == 256
    assert CERTIFIED not in report.verdicts.values()
    assert json.loads(report.to_json())["support"]["trained_on"]["too_many"] is True
    assert known_share(booster, SEEN.X[rows[:700]], SEEN.y[rows[:700]]) == 1.0


def test_some_of_the_people(booster: Any) -> None:
    for n_seen, alarm in ((800, True), (400, True), (16, False)):
        rows = some_rows(n_seen)
        X, y = np.vstack([SEEN.X[rows], FRESH.X[n_seen:]]), np.r_[SEEN.y[rows], FRESH.y[n_seen:]]
        report = audit(booster, X, y)
        found = report.support.trained_on
        assert found.lower <= n_seen / 1600 <= found.upper
        assert share(report) == pytest.approx(n_seen / 1600, abs=0.1)
        assert (found.too_many, report.verdict) == (alarm, INCONCLUSIVE if alarm else CERTIFIED)
        if alarm:
            assert f"trained on about {found.share:.0%} of the audited people" in report.warnings[0]


def test_what_is_violated_stays_violated() -> None:
    silent = np.isnan(SEEN.X[:, 2])
    unlucky = train(SEEN.X, np.where(silent, 0.0, SEEN.y), augmentation="none")
    report = audit(unlucky, SEEN.X, np.where(silent, 0.0, SEEN.y), margin=0.01)
    assert (report.verdict, share(report)) == (VIOLATED, 1.0)
    assert "People who share" in report.reason
    assert "trained on about 100%" in report.warnings[0]


def test_an_inconclusive_audit_says_it_first_and_what_is_proven_stays() -> None:
    seen = TrainedOn(1.0, 0.9, 1.0, 256, 256, 0.0, True)
    verdict, reason, _ = on_people_seen(INCONCLUSIVE, "Here the data do not decide.", [], seen)
    assert verdict == INCONCLUSIVE
    assert reason.startswith("The model was trained on about 100%")
    assert reason.endswith("Here the data do not decide.")
    for proven in (VIOLATED, VIOLATED_FOR_SOME):
        assert on_people_seen(proven, "why", [], seen) == (proven, "why", [])


def test_train_data_are_compared_too() -> None:
    model = train(row_key=None)
    half = some_rows(800)
    X, y = np.vstack([SEEN.X[half], FRESH.X[:800]]), np.r_[SEEN.y[half], FRESH.y[:800]]
    report = audit(model, X, y, train_data=(SEEN.X, SEEN.y))
    assert report.verdict == INCONCLUSIVE
    assert share(report) == pytest.approx(0.5, abs=0.01)
    assert audit(model, FRESH.X, FRESH.y, train_data=(SEEN.X, SEEN.y)).verdict == CERTIFIED
    # Rows of weight 0 were not trained on.
    held_out = np.where(np.isin(np.arange(1600), half), 0.0, 1.0)
    assert known_share(model, SEEN.X[half], SEEN.y[half], train_data=(SEEN.X, SEEN.y, held_out)) == 0
    # Whatever is said to be the training data, the model knows better.
    assert known_share(train(), SEEN.X, SEEN.y, train_data=(FRESH.X, FRESH.y)) == 1.0


NOT_KNOWN = "Whether the model was trained on these people is not known: "
HELD_OUT = ". They must be people it has not seen."


def test_without_hashes_or_key_the_audit_says_that_it_is_not_known(booster: Any) -> None:
    nothing_kept = NOT_KNOWN + "it keeps nothing about single people" + HELD_OUT
    no_key = NOT_KNOWN + "it keeps hashes of some, and comparing these takes the row_key of its training" + HELD_OUT
    plain = puc.train({**PARAMS, "row_key": None, "augmentation": "none"}, puc.Dataset(SEEN.X, SEEN.y), 3)
    for model, key, said in (
        (train(row_key=None), None, nothing_kept),
        (train(row_key=None), ROW_KEY, nothing_kept),
        (plain, None, nothing_kept),
        (booster, None, no_key),
    ):
        report = audit(model, SEEN.X, SEEN.y, row_key=key, **NO_FIT)
        assert report.support.trained_on is None
        assert report.warnings[-1] == said
    assert audit(train(row_key=None), FRESH.X, FRESH.y).verdict == CERTIFIED


def test_another_key_is_an_error(booster: Any, tmp_path: Path) -> None:
    """With it nobody would be recognised."""
    (tmp_path / "other").write_text("another secret of many bytes")
    model = puc.PUCClassifier(optional=[2], n_estimators=3, n_jobs=1, row_key=ROW_KEY).fit(SEEN.X, SEEN.y)
    for one in (booster, make_pipeline(FunctionTransformer(), model)):
        with pytest.raises(ValueError, match="row_key is another key than that with which the model was trained"):
            audit(one, SEEN.X, SEEN.y, row_key=tmp_path / "other", optional=[2], **NO_FIT)


def test_neither_files_nor_pickles_hold_the_key(booster: Any, tmp_path: Path) -> None:
    model = puc.PUCClassifier(optional=[2], n_estimators=3, n_jobs=1, row_key=ROW_KEY).fit(SEEN.X, SEEN.y)
    puc.save_model(booster, tmp_path / "model.txt")
    held = [(tmp_path / "model.txt").read_bytes(), pickle.dumps(booster), pickle.dumps(model)]
    secret = os.environ["PUCBOOST_TEST_KEY"].encode()
    for one in held:
        assert secret not in one
        assert read_row_key(ROW_KEY) not in one
        assert read_row_key(ROW_KEY).hex().encode() not in one


def test_of_too_few_people_nothing_is_said() -> None:
    X = np.random.default_rng(0).normal(size=(60_000, 3))
    X[::2, 2] = np.nan
    y = (X[:, 0] > 0).astype(float)
    model = train(X, y)
    report = audit(model, X[:250], y[:250], min_count=10, loss="binary")
    assert share(report) is None
    assert report.support.trained_on.compared < 3
    assert any("of their rows can be compared with what the model keeps" in warning for warning in report.warnings)


def test_weights_exposures_and_classes(booster: Any) -> None:
    weight = np.where(np.arange(1600) < 300, 0.0, 1.5)
    assert known_share(booster, SEEN.X, SEEN.y, weight=weight) == 1.0
    rates = train(SEEN.X, SEEN.y / 2.5, objective="poisson")
    assert known_share(rates, SEEN.X, SEEN.y, exposure=np.full(1600, 2.5), margin=0.1) == 1.0
    counts = train(objective="poisson")
    assert known_share(counts, SEEN.X, SEEN.y, exposure=np.full(1600, 2.5), margin=0.1) == 1.0
    classes = SEEN.y + (SEEN.X[:, 0] > 0.5)
    several = train(SEEN.X, classes, objective="multiclass", num_class=3)
    assert known_share(several, SEEN.X, classes, target_class=1) == 1.0


# Models of every kind ------------------------------------------------------------------------------------------------


def test_models_of_every_kind_and_their_files(tmp_path: Path) -> None:
    rows = some_rows(1000)
    for params in (
        {"engine": "xgboost", "objective": "binary"},
        {"anchor": "base"},
        {"anchor": "base", "engine": "xgboost"},
        {"anchor": "base", "anchor_strength": 1.0},
        {"compact": True},
    ):
        puc.save_model(train(**params), tmp_path / "model")
        model = puc.load_model(tmp_path / "model")
        assert known_share(model, SEEN.X[rows], SEEN.y[rows]) == 1.0
        assert known_share(model, FRESH.X, FRESH.y) == 0


WORDS = np.array(["no", "yes"])[SEEN.y.astype(int)]
NAMES = ["a", "b", "z"]


def with_text(X: Any) -> pd.DataFrame:
    frame = pd.DataFrame(X, columns=NAMES)
    frame["region"] = np.where(X[:, 0] > 0, "north", np.where(X[:, 1] > 0, "south", "east"))
    return frame


def test_estimators() -> None:
    rows = some_rows(900)
    frame = with_text(SEEN.X)
    model = puc.PUCClassifier(optional=["z"], n_estimators=3, n_jobs=1, row_key=ROW_KEY).fit(frame, WORDS)
    seen, labels = frame.iloc[rows].query("region != 'east'"), pd.Series(WORDS).iloc[rows]
    labels = labels[seen.index]
    quick = {"margin": 0.45, "row_key": ROW_KEY, **NO_FIT}
    for report in (
        model.audit(seen, labels, **quick),
        model.audit(seen, labels, target_class="no", **quick),
        puc.audit(model, seen, labels, optional=["z"], **quick),
        puc.audit(model.booster_, seen, (labels == "yes") * 1.0, **quick),
    ):
        assert (report.support.trained_on.too_many, share(report)) == (True, 1.0)
    fresh = model.audit(with_text(FRESH.X), np.array(["no", "yes"])[FRESH.y.astype(int)], **SETTINGS)
    assert (fresh.verdict, share(fresh)) == (CERTIFIED, 0)
    without = puc.PUCRegressor(optional=["z"], n_estimators=3, n_jobs=1, row_key=None).fit(frame, SEEN.y)
    report = puc.audit(without, frame, SEEN.y, optional=["z"], **quick)
    assert any("keeps nothing about single people" in warning for warning in report.warnings)


def test_where_it_cannot_be_known_nothing_is_claimed(booster: Any) -> None:
    report = audit(lambda table: puc.predict(booster, table), SEEN.X, SEEN.y, optional=[2])
    assert report.support.trained_on is None
    assert [warning for warning in report.warnings if "keeps nothing about single people" not in warning] == []
    noise = iter(range(10**6))
    jitter = FunctionTransformer(lambda X: X + 1e-3 * next(noise))
    last = puc.PUCClassifier(optional=[2], n_estimators=3, n_jobs=1, row_key=ROW_KEY)
    assert known_share(make_pipeline(jitter, last).fit(SEEN.X, WORDS), SEEN.X, WORDS, optional=[2]) == 0


# Files ---------------------------------------------------------------------------------------------------------------


def test_what_files_hold(booster: Any, tmp_path: Path) -> None:
    kept = json.loads(json.dumps(model_schema(booster.consent, booster.puc_summary)))
    assert set(kept["summary"]["row_hashes"]) == {"salt", "check", "hashes", "complete", "twins"}
    puc.save_model(booster, tmp_path / "model.txt")
    assert puc.load_model(tmp_path / "model.txt").puc_summary == booster.puc_summary
    again = train()
    puc.save_model(again, tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == (tmp_path / "model.txt").read_bytes()


def test_what_later_versions_may_add_is_ignored(booster: Any) -> None:
    kept = json.loads(json.dumps(model_schema(booster.consent, booster.puc_summary)))
    kept["summary"] |= {"of_tomorrow": [1, 2]}
    assert read_schema(kept, "here") == (booster.consent, booster.puc_summary)
    kept["format"] = 2
    with pytest.raises(ValueError, match="'here' has consent schema format 2; this version of pucboost reads format 1"):
        read_schema(kept, "here")


# The estimate against the truth --------------------------------------------------------------------------------------


def shown(X: Any, y: Any) -> VirtualTable:
    source = row_source(X)
    consent = Consent.of([X.shape[1] - 1], source)
    return shown_table(SourceTable.of(source, y, name="X"), consent, consent.availability(source), 1)


def draw(kind: str, n: int, rng: np.random.Generator, silent: float = 0.4) -> tuple[Any, Any]:
    """Base columns with few or many values, and one optional column."""
    base = {
        "distinct": lambda: rng.normal(size=n),
        "few rows": lambda: rng.integers(0, 20, n),
        "some twins": lambda: rng.integers(0, 5000, n),
        "many twins": lambda: rng.integers(0, 500, n),
        "long tail": lambda: rng.zipf(1.3, n).clip(max=10**6),
        "few base values": lambda: rng.integers(0, 20, n),
    }[kind]()
    z = rng.normal(size=n) if kind in ("distinct", "few base values") else rng.integers(0, 3, n)
    X = np.column_stack([base, z]).astype(np.float64)
    X[rng.random(n) < silent, 1] = np.nan
    return X, (rng.random(n) < 0.3).astype(np.float64)


@cache
def trained_on(kind: str, seed: int) -> tuple[Any, Any, RowSketch]:
    X, y = draw(kind, 2000, np.random.default_rng(seed))
    return X, y, RowSketch.of(shown(X, y))


def simulate(kind: str, portion: float, times: int = 25, silent: float = 0.4) -> list[Any]:
    found = []
    for seed in range(times):
        X, y, sketch = trained_on(kind, seed)
        rng = np.random.default_rng(1_000 + seed)
        k = round(portion * 1000)
        old = rng.choice(2000, k, replace=False)
        new_X, new_y = draw(kind, 1000 - k, rng, silent)
        audited = shown(np.vstack([X[old], new_X]), np.r_[y[old], new_y])
        counts = shared_counts(audited.rows.plan.available)
        found.append(estimate_overlap(sketch, hash_people(audited), counts))
    return found


@pytest.mark.parametrize("kind", ["distinct", "few rows", "some twins", "many twins", "long tail", "few base values"])
def test_no_false_alarm(kind: str) -> None:
    """Also where rows are often equal, and where more people share nothing, who are more alike, than in training."""
    for silent in (0.0, 0.4, 0.95):
        assert not any(found.too_many for found in simulate(kind, 0.0, silent=silent))


@pytest.mark.parametrize("kind", ["distinct", "some twins", "few base values"])
def test_the_share_is_the_true_one(kind: str) -> None:
    for portion in (0.25, 0.5, 0.8):
        found = simulate(kind, portion, 100)
        assert np.mean([one.share for one in found]) == pytest.approx(portion, abs=0.03)
        assert np.mean([one.lower <= portion <= one.upper for one in found]) >= 0.9
        assert np.mean([one.too_many for one in found]) >= (0.95 if portion > 0.25 or kind == "distinct" else 0.0)


def test_of_few_distinct_rows_nothing_can_be_said() -> None:
    assert all(found.share is None and not found.too_many for found in simulate("few rows", 1.0, 5))
    assert all(found.share is None for found in simulate("many twins", 0.0, 5))
    assert all(found.too_many for found in simulate("some twins", 1.0, 5))


def test_the_rule_by_hand() -> None:
    """3 of 3 decide, since 0.05³ < 0.001; 2 of 2 do not; 5 % of many do not, 10 % of many do."""
    nobody = lambda n: np.zeros(n)  # noqa: E731
    assert judge_overlap(3, 3, nobody(3)).too_many
    assert judge_overlap(2, 2, nobody(2)).share is None
    assert judge_overlap(2, 3, nobody(3)).share == pytest.approx(2 / 3)
    assert not judge_overlap(50, 1000, nobody(1000)).too_many
    assert judge_overlap(100, 1000, nobody(1000)).too_many
    assert judge_overlap(0, 0, nobody(0)) == overlap.TrainedOn(None, None, None, 0, 0, None, False)
    # A fifth has twins: 20 % found are nobody, and 60 % are one half. Three times the odds of a twin are tolerated.
    twins = np.full(1000, 0.2)
    assert judge_overlap(200, 1000, twins).share == 0
    assert judge_overlap(600, 1000, twins).share == pytest.approx(0.5)
    assert not judge_overlap(450, 1000, twins).too_many
    assert judge_overlap(520, 1000, twins).too_many
    assert judge_overlap(450, 1000, np.full(1000, 0.3)).share is None
