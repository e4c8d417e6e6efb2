"""What models, letters, audits and the rest keep about people: one test for each line of the table on the page."""

from __future__ import annotations

import json
import logging
import pickle
import re
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from engine_kits import EngineKit, every_engine
from letter_tools import TEXT, priced, sharing

import pucboost as puc
from pucboost._kernels import compiling
from pucboost._tables import columns as column_readers

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "deployment.md"
N = 400
TESTED: set[str] = set()


def line(start: str) -> Callable[[Any], Any]:
    """Say which line of the table a test holds."""
    TESTED.add(start)
    return lambda test: test


def lines() -> list[str]:
    text = PAGE.read_text(encoding="utf-8").split("| of how few |")[1].split("\n\n")[0]
    return [row.split("|")[1].replace("**", "").strip() for row in text.splitlines()[2:]]


def test_every_line_of_the_page_has_a_test() -> None:
    assert sorted(lines()) == sorted(TESTED)


def people() -> tuple[pd.DataFrame, Any]:
    """People with values that occur nowhere else, and two of them with a region of their own."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(1000, 100, (N, 3)), columns=["age", "steps", "pulse"])
    X["region"] = rng.choice(["north", "south"], N)
    X.loc[:1, "region"] = ["Little Snoring", "Great Snoring"]
    y = X.age + X.steps + rng.normal(size=N)
    X.loc[rng.random(N) < 0.5, ["steps", "pulse"]] = np.nan
    X.loc[0, ["steps", "pulse"]] = 1.0, np.nan  # one person shares the one and not the other
    X.loc[1, ["steps", "pulse"]] = np.nan, 1.0
    return X, y.to_numpy()


GROUPS = {"app": ["steps"], "watch": ["pulse"]}
ALONE = {"verbosity": -1, "num_threads": 1}
KEY = "0123456789abcdef-a-secret"


@cache
def trained(kit: EngineKit, **more: Any) -> Any:
    X, y = people()
    weight = np.linspace(1.0, 2.0, N)
    params = {**kit.params, "optional": GROUPS, "objective": kit.objectives["l2"], **more}
    return puc.train(params, puc.Dataset(X, y, weight=weight), 5)


def kept(model: Any) -> dict[str, bytes]:
    """Return all that is kept of a model."""
    text = model.save_raw("json") if isinstance(model, xgb.Booster) else model.model_to_string().encode()
    return {"text": bytes(text), "pickle": pickle.dumps(model), "summary": repr(model.puc_summary).encode()}


def thresholds(kit: EngineKit, model: Any) -> Any:
    if isinstance(model, xgb.Booster):
        frame = model.trees_to_dataframe()
        return frame.loc[frame.Feature == "age", "Split"].to_numpy(dtype=np.float32)
    frame = model.trees_to_dataframe()
    return frame.loc[frame.split_feature == "age", "threshold"].to_numpy(dtype=np.float64)


def written(value: float) -> list[bytes]:
    """Return the ways to write a number, in text and in bytes."""
    single = float(np.float32(value))
    texts = [repr(value), repr(single), f"{value:.17g}", f"{value:.6f}", str(np.float32(value))]
    return [*(text.encode() for text in texts), struct.pack("<d", value), struct.pack("<f", value)]


@line("models: names of columns, groups, `not_applicable`, parameters, `favourable`")
@every_engine
def test_names(kit: EngineKit) -> None:
    model = trained(kit)
    assert model.consent.groups == {"app": (1,), "watch": (2,)}
    allowed = {"augmentation", "seed", "engine", "favourable", "per_exposure", "unstored_withheld", "loading"}
    allowed |= {"mask_calibration", "coded_columns"}
    counts = {"source_rows", "virtual_rows", "complete_rows", "effective_sample_size", "masks_seen", "mask_people"}
    assert set(vars(model.puc_summary)) == allowed | counts | {"row_hashes"}


@line("names of [categories](groups.md)")
@every_engine
def test_names_of_categories(kit: EngineKit, caplog: pytest.LogCaptureFixture) -> None:
    column_readers._log_few.cache_clear()
    trained.cache_clear()
    with caplog.at_level(logging.WARNING, "pucboost"):
        model = trained(kit)
    assert b"Little Snoring" in kept(model)["text"]
    said = [one for one in caplog.messages if "fewer than 5 people" in one]
    assert said == ["column 'region': the model names 2 categories that fewer than 5 people have"]


@line("thresholds of splits")
@every_engine
def test_thresholds(kit: EngineKit) -> None:
    """LightGBM's and native ones lie between two values, XGBoost's are values."""
    X, _ = people()
    found = thresholds(kit, trained(kit))
    assert len(found) > 3
    values = X.age.to_numpy().astype(found.dtype)
    assert np.isin(found, values).all() if kit.name == "xgboost" else not np.isin(found, values).any()


@line("smallest and largest values of columns")
@every_engine
def test_ranges(kit: EngineKit, tmp_path: Path) -> None:
    X, _ = people()
    model = trained(kit)
    puc.save_model(model, tmp_path / "model")
    loaded = puc.load_model(tmp_path / "model")
    held = [*kept(model).values(), *kept(loaded).values(), (tmp_path / "model").read_bytes()]
    if kit.name != "xgboost":
        held += [json.dumps(one.dump_model()).encode() for one in (model, loaded)]
        assert b"\nfeature_infos=[-inf:inf]" in held[0]
    for value in (X.age.min(), X.age.max()):
        assert not any(way in one for way in written(value) for one in held)


@line("values and counts of leaves")
def test_leaves() -> None:
    """Virtual rows are counted, so a leaf may be of one person, and tells their outcome."""
    X, _ = people()
    y, optional = np.zeros(N), [f"o{j}" for j in range(7)]
    y[0], X.loc[0, "age"] = 1e6, 3000.0
    shared = {name: np.where(np.arange(N) == 0, float(j), np.nan) for j, name in enumerate(optional)}
    data = puc.Dataset(X[["age"]].assign(**shared), y)
    params = {"optional": optional, "augmentation": "exhaustive", "learning_rate": 1.0, "engine": "lightgbm", **ALONE}
    told = {
        m: puc.train({**params, "min_data_in_leaf": m}, data, 1).predict(X[["age"]].assign(**shared))[0]
        for m in (50, 200)
    }
    assert told[50] > 0.9e6
    assert told[200] < 0.7e6


@line("sets of groups that people shared, and how many")
@every_engine
def test_sets(kit: EngineKit) -> None:
    """Exactly one person shares "app" alone, and one "watch" alone."""
    summary = trained(kit).puc_summary
    assert summary.masks_seen == (0, 3)
    assert all(count % 5 == 0 for count in summary.mask_people)


@line("constants of `calibrate_masks`")
@every_engine
def test_constants(kit: EngineKit) -> None:
    """A set of fewer than five people has the constant of those who share less."""
    X, y = people()
    params = kit.params | {"optional": GROUPS, "calibrate_masks": True, "objective": kit.objectives["l2"]}
    told = {}
    for sharers in (4, 40):
        X["steps"], share = np.where(np.arange(N) < sharers, np.arange(N), np.nan), np.arange(N) < sharers
        model = puc.train(params, puc.Dataset(X, y + 1e4 * share), 1)
        told[sharers] = (puc.predict(model, X) - y)[share].mean()
    assert told[4] < 3e3
    assert told[40] > 7e3


@line("numbers of people and of virtual rows")
@every_engine
def test_numbers(kit: EngineKit) -> None:
    assert trained(kit).puc_summary.source_rows == N


@line("hashes of rows")
@every_engine
def test_hashes(kit: EngineKit, monkeypatch: pytest.MonkeyPatch) -> None:
    assert trained(kit).puc_summary.row_hashes is None
    monkeypatch.setenv("PUCBOOST_TEST_KEY", KEY)
    keyed = trained(kit, row_key="env:PUCBOOST_TEST_KEY")
    assert len(keyed.puc_summary.row_hashes.hashes) == 256
    assert not any(KEY.encode() in one for one in kept(keyed).values())


@line("labels, weights, rows, keys")
@every_engine
def test_nothing_else(kit: EngineKit) -> None:
    """No number of the table is in a model, but for the thresholds of XGBoost."""
    X, y = people()
    estimator = puc.PUCRegressor(optional=GROUPS, engine=kit.name, n_estimators=5, n_jobs=1).fit(X, y)
    held = [*kept(trained(kit)).values(), pickle.dumps(estimator)]
    some = [*y[:50], *X.steps.dropna()[1:50], *np.linspace(1.0, 2.0, N)[1:50]]
    if kit.name != "xgboost":
        some += [*X.age[:50]]
    allowed = thresholds(kit, trained(kit)) if kit.name == "xgboost" else ()
    for value in some:
        if not any(np.float32(value) == one for one in allowed):
            assert not any(way in one for way in written(value)[:3] for one in held)


@line("letters")
def test_letters() -> None:
    """A letter holds the numbers of the person concerned, and none of anybody else."""
    booster, X = priced()
    who = sharing(X, "app", "blood")
    others = X.drop(index=who.index)
    found = {column: f"{others[column].dropna().iloc[0]:.3f}" for column in X}
    for background in (None, others):
        page = puc.letter(booster, who, text=TEXT, background=background).to_html()
        assert not [value for value in found.values() if value in page]


@line("explanations: base values")
def test_base_values() -> None:
    """They are averages over at least 20 people."""
    booster, X = priced()
    together = X[X.notna().all(axis=1)]
    for people, known in ((19, False), (20, True)):
        background = pd.concat([X[X["glucose"].isna()], together[:people]])
        found = puc.explain(booster, together[-1:], background)
        assert found.compared_with[0].used == people * known
        assert np.isfinite(found.base_values).all() == np.isfinite(found.values).all() == known


@line("questions: values, losses and their errors")
def test_values_of_questions() -> None:
    """They are averages over at least 100 people, none of whom is in files or pickles."""
    booster, X = priced()
    together, y = pd.concat([X[X.notna().all(axis=1)]] * 2), np.arange(len(X)) % 7
    with pytest.raises(ValueError, match="99 people share all of"):
        puc.questions(booster, together[:99], y[:99])
    found = puc.questions(booster, together[:100], y[:100])
    assert found.people == 100
    told = found.to_json() + found.to_html() + repr(vars(pickle.loads(pickle.dumps(found))))
    assert not [value for column in X for value in together[column][:100] if f"{value:.4f}" in told]


@line("whom people are compared with")
def test_compared_with() -> None:
    booster, X = priced()
    found = puc.explain(booster, X, X)
    assert all(isinstance(one.people, int) for one in found.compared_with)
    assert max(one.people for one in found.compared_with) == len(X)


@cache
def audited() -> Any:
    X, y = people()
    model = trained_lightgbm()
    return puc.audit(model, X, y, margin=100.0, folds=3, num_threads=1)


@line("audits: penalties, calibration and other averages")
def test_averages_of_audits() -> None:
    report = audited()
    assert all(one.people >= 10 for one in report.penalties if one.estimate is not None)
    assert all(one.people >= 10 for curve in report.calibration for one in curve.bins)


@line("how many people share each set")
def test_counts_of_sets() -> None:
    assert "1 person" in audited().to_markdown()


@line("points of the picture of the silent")
def test_points_of_the_picture() -> None:
    """No point is a person, in the JSON or in the picture."""
    X, _ = people()
    report = audited()
    silent = X[["steps", "pulse"]].isna().all(axis=1)
    assert 1 < len(report.scatter) <= silent.sum() / 5


@line("the hash of the audited data")
def test_the_hash_of_the_audited_data() -> None:
    assert re.fullmatch("[0-9a-f]{64}", audited().provenance.data_hash)


@line("intervals: thresholds, mean widths, numbers of people")
def test_thresholds_of_intervals() -> None:
    """A few rounded numbers for each set. A residual has more digits, and five people lie at or beyond a threshold."""
    X, y = people()
    model = trained_lightgbm()
    found = json.loads(puc.intervals(model, X, y, level=0.9).to_json())
    assert set(found) == {"format", "level", "score", "classes", "seed", "model_hashes", "sets", "pucboost_digest"}
    assert all(set(one) == {"shared", "mask", "people", "threshold", "width"} for one in found["sets"])
    residuals = np.abs(y - puc.predict(model, X, sharing="withheld"))
    for one in found["sets"]:
        assert one["people"] % 5 == 0
        assert all(value == float(f"{value:.3g}") for value in (one["threshold"], one["width"]))
    assert found["sets"][0]["threshold"] not in residuals
    assert np.count_nonzero(residuals >= 0.99 * found["sets"][0]["threshold"]) >= 5


@line("caches")
def test_caches() -> None:
    """What is compiled depends on code and machine; a training has compiled or loaded all that it needs."""
    X, y = people()
    puc.train({"optional": GROUPS, "engine": "native", **ALONE}, puc.Dataset(X, y), 2)
    folder = compiling.cache_folder()
    files = [] if folder is None else [*folder.glob("*.nb*"), *folder.glob("*.puc*")]
    values = [struct.pack("<d", value) for value in y[:20]]
    assert not [file for file in files for held in [file.read_bytes()] if any(value in held for value in values)]


@line("logs, warnings, errors")
def test_errors() -> None:
    long = "x" * 500
    X, _ = people()
    model = trained_lightgbm()
    with pytest.raises((TypeError, ValueError)) as caught:
        puc.predict(model, X.assign(age=X.age.astype(object).where(np.arange(N) != 7, long)))
    assert "row 8" in str(caught.value) or "row 7" in str(caught.value)
    assert "x" * 100 not in str(caught.value)


@cache
def trained_lightgbm() -> Any:
    X, y = people()
    return puc.train({"optional": GROUPS, **ALONE}, puc.Dataset(X, y), 5)


@line("checkpoints of callbacks")
def test_checkpoints(tmp_path: Path) -> None:
    X, y = people()
    params = {"optional": GROUPS, "engine": "xgboost", "verbosity": 0, "nthread": 1}
    callback = xgb.callback.TrainingCheckPoint(tmp_path, interval=1)
    puc.train(params, puc.Dataset(X, y), 2, callbacks=[callback])
    found = sorted(tmp_path.iterdir())
    assert found
    with pytest.raises(ValueError, match="no consent schema"):
        puc.load_model(found[0])


@line("shared plans of several machines")
def test_shared_plans() -> None:
    X, y = people()
    plan = puc.distributed.SharedPlan.agree([puc.distributed.SharedPlan.facts(X, y, optional=GROUPS)])
    plan = plan.complete([plan.count(X, 0)])
    assert struct.pack("<d", X.age[0]) in pickle.dumps(plan)


@line("`external_memory`, queries of lazy frames")
def test_external_memory(tmp_path: Path) -> None:
    X, y = people()
    seen = []

    class Listing(xgb.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            seen.extend(path for path in tmp_path.rglob("*") if path.is_file())
            return False

    params = {"optional": GROUPS, "engine": "xgboost", "verbosity": 0, "nthread": 1, "external_memory": tmp_path}
    puc.train(params, puc.Dataset(X.drop(columns="region"), y), 1, callbacks=[Listing()])
    assert any("page" in path.name for path in seen)
    assert not list(tmp_path.iterdir())
