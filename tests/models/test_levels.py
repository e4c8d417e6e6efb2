"""What a model keeps of groups that need others: in files, pickles, estimators, pipelines and on the command line."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_tools import read, run, write_table
from engine_kits import EngineKit, every_engine
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pucboost as puc
from pucboost._models.files import hash_of

NAMES = ["age", "steps", "pulse", "gps"]
OPTIONAL = {"app": ["steps"], "heart": puc.Needs("app", ["pulse"]), "place": puc.Needs("heart", ["gps"])}
NEEDS = {"heart": "app", "place": "heart"}


def make_people(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    people = pd.DataFrame(rng.normal(size=(n, 4)), columns=NAMES)
    people["claim"] = (people.sum(axis=1) > 0).astype(float)
    level = rng.integers(0, 4, n)
    for k, name in enumerate(NAMES[1:]):
        people.loc[level <= k, name] = np.nan
    return people


PEOPLE = make_people()
X, Y = PEOPLE[NAMES], PEOPLE["claim"].to_numpy()


def checked(model: Any, like: Any) -> None:
    assert puc.consent_of(model).needs == NEEDS
    assert puc.consent_of(model) == puc.consent_of(like)
    pd.testing.assert_frame_equal(puc.quote(model, X), puc.quote(like, X))


@every_engine
@pytest.mark.parametrize("anchor", [{}, {"anchor": "base"}])
def test_files_and_pickles_keep_the_relation(kit: EngineKit, anchor: dict[str, Any], tmp_path: Path) -> None:
    model = puc.train({**kit.params, "optional": OPTIONAL, **anchor}, puc.Dataset(X, Y), 4)
    assert list(puc.quote(model, X)) == ["nothing", "app", "heart", "place"]
    path = tmp_path / "model.json"
    puc.save_model(model, path)
    for again in (puc.load_model(path), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        checked(again, model)


def test_the_hash_of_a_schema_covers_what_is_needed() -> None:
    consent = puc.Consent.declare(OPTIONAL, NAMES)
    free = puc.Consent(consent.groups, consent.feature_names)
    assert hash_of(consent) != hash_of(free)


def test_estimators_pipelines_and_skops(tmp_path: Path) -> None:
    model = puc.PUCClassifier(optional=OPTIONAL, n_estimators=4, n_jobs=1)
    fitted = clone(model).fit(X, Y)
    assert fitted.consent_.needs == NEEDS
    assert clone(model).optional == OPTIONAL
    assert "Needs('app', ['pulse'])" in repr(model)
    sio = pytest.importorskip("skops.io")
    kept = sio.dumps(fitted)
    again = sio.loads(kept, trusted=sio.get_untrusted_types(data=kept))
    assert (again.consent_, again.optional) == (fitted.consent_, OPTIONAL)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    scaled = make_pipeline(StandardScaler().set_output(transform="pandas"), clone(model)).fit(X, Y)
    assert list(puc.quote(scaled, X)) == ["nothing", "app", "heart", "place"]
    report = puc.audit(scaled, X, Y, margin=0.3, min_count=30, folds=3, num_threads=1)
    assert {p.name for p in report.penalties} <= {"nothing", "app", "heart", "everything", "all who withhold something"}


def test_declarations_that_differ_in_what_is_needed_are_refused() -> None:
    booster = puc.train({"optional": OPTIONAL, "verbosity": -1, "num_threads": 1}, puc.Dataset(X, Y), 2)
    free = {group: list(columns) for group, columns in booster.consent.groups.items()}
    with pytest.raises(ValueError, match=r"optional declares .* but the model was trained under .* heart needs app"):
        puc.audit(booster, X, Y, margin=0.3, optional=free)
    with pytest.raises(ValueError, match="the optional of train_set differ"):
        puc.train({"optional": free, "verbosity": -1}, puc.Dataset(X, Y, optional=OPTIONAL), 2)
    valid = puc.Dataset(X, Y, optional=free)
    with pytest.raises(ValueError, match="Validation set 0 declares other groups"):
        puc.train({"optional": OPTIONAL, "verbosity": -1}, puc.Dataset(X, Y), 2, valid_sets=[valid])
    with pytest.raises(ValueError, match=r"init_model was trained under .* heart needs app"):
        puc.train({"optional": free, "verbosity": -1}, puc.Dataset(X, Y), 2, init_model=booster)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, model, out = write_table(PEOPLE, tmp_path / "people.csv"), tmp_path / "model.txt", tmp_path / "out.csv"
    groups = ["--optional", "app=steps", "--optional", "heart=pulse", "--optional", "place=gps"]
    train = ["train", data, "--label", "claim", "--out", model, "--rounds", 4, "--param", "num_threads=1", *groups]
    needs = ["--needs", "heart=app", "--needs", "place=heart"]
    assert run(*train, *needs) == 0
    assert "(pulse)  needs app" in capsys.readouterr().out
    assert puc.load_model(model).consent.needs == NEEDS
    assert run("quote", model, data, "--out", out) == 0
    assert list(read(out)) == ["nothing", "app", "heart", "place"]
    for wrong, message in (
        (["--needs", "heart"], "--needs heart: write --needs GROUP=OTHER"),
        (["--needs", "lungs=app"], "--needs lungs=app: --optional names no group 'lungs'"),
        (["--needs", "heart=lungs"], "Group 'heart' needs 'lungs', but there is no group 'lungs'"),
        ([*needs, "--needs", "heart=place"], "--needs says twice what group 'heart' needs"),
    ):
        assert run(*train, *wrong) == 3
        assert message in capsys.readouterr().err
    assert run("audit", model, data, "--label", "claim", "--margin", 0.3, *needs) == 3
    assert "--needs goes with --optional" in capsys.readouterr().err
