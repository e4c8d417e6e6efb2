"""The model card: what is known about a model, and what is not."""

import dataclasses

import numpy as np
import pytest
from auditing.report_examples import HOSTILE, golden
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import pucboost as puc

RNG = np.random.default_rng(5)
X = RNG.normal(size=(300, 3))
Y = (X[:, 0] + RNG.normal(size=300) > 0).astype(float)
X[::3, 1] = X[::4, 2] = np.nan
PARAMS = {"objective": "binary", "verbosity": -1, "num_threads": 1}


@pytest.fixture(scope="module")
def booster():
    return puc.train(PARAMS | {"optional": {"app": [1], "clinic": [2]}}, puc.Dataset(X, Y), 4)


def audited(model):
    """The golden findings, as if they were about this model."""
    report = golden()
    own = dataclasses.replace(report.provenance, model_hash=puc._models.files.model_hash(model))
    return dataclasses.replace(report, provenance=own)


def test_bundles_training_consent_checks_limits_and_versions(booster):
    page = puc.card(booster, audit=audited(booster))
    facts = page.sections["The model"][0]
    assert facts["People in training"] == "300"
    assert facts["Rounds"] == "4"
    assert facts["Objective"] == "binary"
    assert facts["Engine"] == "lightgbm"
    text = str(page)
    for expected in ("app", "clinic", golden().reason[:40], golden().verdict, puc.__version__, "Column_0"):
        assert expected in text.replace("\n", " ")
    assert golden().reason in page.to_html()
    assert "not audited" not in text


def test_says_that_a_model_was_not_audited(booster):
    assert "not audited" in str(puc.card(booster))


def test_refuses_the_audit_of_another_model(booster):
    other = puc.train(PARAMS | {"optional": {"app": [1], "clinic": [2]}}, puc.Dataset(X, Y), 5)
    with pytest.raises(ValueError, match="audit is about another model"):
        puc.card(booster, audit=audited(other))


def test_takes_estimators_pipelines_anchored_models_and_exposures(booster):
    estimator = puc.PUCClassifier(optional=[1], n_estimators=3, n_jobs=1).fit(X, Y)
    piped = make_pipeline(FunctionTransformer(), puc.PUCClassifier(optional=[1], n_estimators=3, n_jobs=1)).fit(X, Y)
    anchored = puc.train(PARAMS | {"optional": [1], "anchor": "base"}, puc.Dataset(X, Y), 3)
    for model in (estimator, piped, anchored):
        assert puc.card(model).sections["The model"][0]["People in training"] == "300"
    params = PARAMS | {"objective": "poisson", "favourable": "lower"}
    rates = puc.train(params, puc.Dataset(X, Y, optional=[1], exposure=np.full(300, 2.0)), 3)
    facts = puc.card(rates).sections["The model"][0]
    assert "per unit" in facts["Outcomes"]
    assert facts["Better for people"] == "lower predictions"


def test_refuses_models_without_consent():
    for model in (puc.train(PARAMS, puc.Dataset(X, Y), 2), FunctionTransformer(), None):
        with pytest.raises(ValueError, match="has no consent schema"):
            puc.card(model)


def test_hostile_names_stay_text():
    model = puc.train(PARAMS | {"optional": {HOSTILE: [1], "<b>group</b>": [2]}}, puc.Dataset(X, Y), 2)
    page = puc.card(model)
    for text in (page.to_html(), page.to_markdown(), page._repr_html_()):
        assert "<script>" not in text
        assert "<b>group" not in text
    assert "\x1b" not in str(page)


def test_files_are_written(booster, tmp_path):
    page = puc.card(booster)
    assert page.to_html(tmp_path / "card.html") == (tmp_path / "card.html").read_text(encoding="utf-8")
    assert page.to_markdown(tmp_path / "card.md") == (tmp_path / "card.md").read_text(encoding="utf-8")
