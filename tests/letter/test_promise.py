"""What a letter says about the model: refused where it would be false, and no more than was checked."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from auditing.report_examples import bare
from engine_kits import LIGHTGBM, XGBOOST, EngineKit, every_engine
from letter_tools import COLUMNS, GROUPS, TEXT, people, priced, sharing
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pucboost as puc
from pucboost._auditing.findings import BaseFeature, Provenance, Recognition
from pucboost._models.files import model_hash
from pucboost.warnings import ProtectionLostWarning

CLAIM = "built to conclude nothing from the fact that you keep something to yourself"


def words(letter: puc.letters.Letter) -> str:
    return re.sub(r"\s+", " ", letter.to_html())


def report(model: Any, verdict: str = "certified", telling: bool = False) -> Any:
    """The report of an audit of a model, or of a model without a hash."""
    known = None if model is None else model_hash(model)
    made = Provenance("2026-03-04T05:06:07+00:00", 9, 0, 5, 100, "", "", known, "", {}, (), {}, "", 0.1)
    column = BaseFeature("consent_date", "app", 0.99 if telling else 0.6, 0.9 if telling else 0.0, None, telling)
    return bare(verdict=verdict, provenance=made, recognition=Recognition(9, (), (column,)))


@every_engine
def test_no_letter_from_a_model_that_reads_silence(kit: EngineKit) -> None:
    """Those who keep quiet have claims: their switch would move 0.02 to 0.89 under a promise that it does not."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, 2)), columns=["age", "glucose"])
    y = (rng.random(600) < 0.5).astype(float)
    X.loc[y == 1, "glucose"] = np.nan
    params = {**kit.params, "optional": {"blood": ["glucose"]}}
    one = X[y == 0][:1]
    reads_silence = puc.train({**params, "augmentation": "none"}, puc.Dataset(X, y), 20)
    for make in (puc.letter, puc.letters.for_each):
        with pytest.raises(ValueError, match=r"trained with augmentation='none'.*Train it with another augmentation"):
            make(reads_silence, one, quantity="risk")
    quiet, told = puc.quote(reads_silence, one).iloc[0]
    assert (quiet > 0.85, told < 0.15) == (True, True)
    letter = puc.letter(puc.train(params, puc.Dataset(X, y), 20), one, quantity="risk")
    assert letter.told([]) == pytest.approx(0.5, abs=0.15)  # like everybody, those who share included
    assert CLAIM in words(letter)


def test_no_letter_from_what_is_not_protected() -> None:
    booster, X = priced()
    plain: Any = lgb.train(LIGHTGBM.quiet, lgb.Dataset(X, X["age"]), 2)
    with pytest.raises(ValueError, match="The model has no consent schema"):
        puc.letter(plain, X[:1], text=TEXT)
    plain.consent = booster.consent  # somebody's word is not a training
    with pytest.raises(ValueError, match="not known how the model was trained"):
        puc.letter(plain, X[:1], text=TEXT)
    trained, X = priced(XGBOOST)
    lost = xgb.train(XGBOOST.quiet, xgb.DMatrix(X, X["age"]), 2, xgb_model=trained)  # on rows as they are
    with pytest.warns(ProtectionLostWarning), pytest.raises(ValueError, match="no consent schema"):
        puc.letter(lost, X[:1], text=TEXT)


@every_engine
def test_no_letter_to_people_whose_set_training_never_saw(kit: EngineKit) -> None:
    """Whoever shares a subset of what some shared was seen, under every scheme; whoever shares more was not."""
    X, y = people()
    X["steps"] = X["steps"].where(X.index % 2 == 0)
    X["pulse"] = X["pulse"].where(X.index % 2 == 1)  # nobody shares both
    both = X[X["steps"].notna() & X["glucose"].notna()][:1].assign(pulse=1.0)
    for augmentation in ("balanced", "exhaustive", "fixed"):
        params = {**kit.params, "optional": GROUPS, "augmentation": augmentation, "expect_shared": []}
        booster = puc.train(params, puc.Dataset(X, y), 3)
        assert {one.shared for one in puc.letters.for_each(booster, X, text=TEXT)} >= {(), ("app",), ("watch", "blood")}
        table = pd.concat([X[:2], both])
        with pytest.raises(ValueError, match=r"Row 2 shares \['app', 'watch', 'blood'\]. In training no 5 people"):
            puc.letters.for_each(booster, table, text=TEXT)
    few = X[["age"]].assign(steps=np.where(X.index < 4, 1.0, np.nan))
    rare = puc.train({**kit.params, "optional": ["steps"], "expect_shared": []}, puc.Dataset(few, y), 3)
    assert puc.letter(rare, few[-1:], quantity="risk").shared == ()
    with pytest.raises(ValueError, match="nobody to compare this person with"):
        puc.letter(rare, few[:1], quantity="risk")


def test_the_promise_in_short_sentences() -> None:
    """Exactly this, and no more: nothing about being better off, and nothing about single people."""
    booster, X = priced()
    letter = puc.letter(booster, sharing(X, "app"), text=TEXT)
    page = words(letter)
    assert (
        "The model behind your yearly price is built to conclude nothing from the fact that you keep something to "
        "yourself. It compares you with people who told us the same as you. Whether they told us more does not "
        "matter.</p> <p>An example: your watch. If you keep it to yourself, you are treated like the average of "
        "the people whose other information is the same as yours. Those who do share theirs are among them.</p> <p>"
        "Whether the model does what it is built for was not audited."
    ) in page
    assert "An example: your fitness app." in words(puc.letter(booster, sharing(X, *GROUPS), text=TEXT))
    sentences = re.split(r"[.:] ", " ".join([TEXT.promise, TEXT.example, TEXT.promise_telling]))
    assert max(len(sentence.split()) for sentence in sentences) <= 28
    assert letter.about.model == str(model_hash(booster))[:12]
    assert f"Made on {date.today().isoformat()} with model {letter.about.model}." in page
    assert re.search("This page is information, not a legal notice. .*adverse action .*Article 22 of the GDPR", page)


def test_what_the_audit_found() -> None:
    booster, X = priced()
    for verdict, meaning in [
        ("certified", "certified. People who keep something to themselves are treated as their other"),
        ("certified in part", "certified in part. .* But this could not be checked for all of them."),
        ("violated", "violated. Some people who keep something to themselves are told something else than"),
        ("violated for some", "violated for some. .* some of them are told too much and others too little"),
        ("inconclusive", "inconclusive. The check could not decide"),
    ]:
        page = words(puc.letter(booster, X[:1], text=TEXT, audit=report(booster, verdict)))
        assert re.search(f"The model was last checked on 2026-03-04, with the result: {meaning}", page)
        assert "not audited" not in page
        assert CLAIM in page
    page = words(puc.letter(booster, X[:1], text=TEXT, audit=report(booster, telling=True)))
    assert "nearly shows who keeps something to themselves. So we cannot rule out that something is concluded" in page
    assert not re.search("conclude nothing|An example", page)
    stored = json.loads(report(booster, "violated").to_json())
    [again] = puc.letters.for_each(booster, X[:1], text=TEXT, audit=stored)
    assert "with the result: violated. Some" in words(again)


def test_audits_of_other_models_are_refused() -> None:
    booster, X = priced()
    price = X["age"]
    other = puc.train({**LIGHTGBM.quiet, "optional": GROUPS}, puc.Dataset(X, price), 2)
    for audit, message in [
        (report(other), "audit is about another model: the hash of the audited one begins with .* Audit this model"),
        (report(booster, "splendid"), "audit has the verdict 'splendid', which this version"),
        ("audit.json", r"audit must be what puc.audit returns, or its to_dict\(\); got 'audit.json'"),
        ({"verdict": "certified"}, "audit must be what puc.audit returns"),
    ]:
        with pytest.raises(ValueError, match=message):
            puc.letter(booster, X[:1], text=TEXT, audit=audit)
    assert puc.letter(booster, X[:1], text=TEXT, audit=report(None)).about.verdict == "certified"
    estimator = puc.PUCRegressor(optional=GROUPS, n_estimators=2, n_jobs=1).fit(X, price)
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), estimator).fit(X, price)
    for model in (estimator, pipeline, estimator.booster_):
        audited = puc.letter(model, X[COLUMNS][:1], text=TEXT, audit=report(model))
        assert audited.about.checked == "2026-03-04"
