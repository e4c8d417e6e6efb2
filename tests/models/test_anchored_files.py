"""Files of anchored models: estimators go through skops, and only what is trusted is loaded."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_kits import LIGHTGBM, EngineKit, every_engine
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import pucboost as puc
from pucboost._cli.main import main

N = 600
RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {
        "steps": np.where(RNG.random(N) < 0.5, np.nan, RNG.normal(size=N)),
        "age": RNG.normal(size=N),
        "region": RNG.choice(["north", "south"], N),
    }
)
CLAIM = (RNG.random(N) < 1 / (1 + np.exp(-PEOPLE["age"]))).astype(int).to_numpy()
SILENT = PEOPLE["steps"].isna().to_numpy()


def trained(anchor: Any, kit: EngineKit = LIGHTGBM, **params: Any) -> Any:
    given = {**kit.params, **kit.small_trees, "optional": ["steps"], "anchor": anchor, **params}
    return puc.train(given, puc.Dataset(PEOPLE, CLAIM), 3)


@cache
def legacy() -> Any:
    encode = make_column_transformer((OneHotEncoder(), ["region"]), (StandardScaler(), ["age"]))
    return make_pipeline(encode, LogisticRegression()).fit(PEOPLE[["region", "age"]], CLAIM)


class Tariff(BaseEstimator):
    """An estimator that nobody else knows."""

    def fit(self, X: Any, y: Any) -> Tariff:
        self.feature_names_in_, self.mean_ = np.array(["age"], dtype=object), float(np.mean(y))
        return self

    def predict(self, X: Any) -> Any:
        return self.mean_ + 0.01 * np.tanh(X["age"].to_numpy())


TARIFF = f"{Tariff.__module__}.Tariff"


@every_engine
def test_estimators_are_kept(kit: EngineKit, tmp_path: Path) -> None:
    model = trained(legacy(), kit)
    puc.save_model(model, tmp_path / "one.json")
    model.save_model(tmp_path / "two.json")
    kept = json.loads((tmp_path / "one.json").read_text())
    assert base64.b64decode(kept["anchor"]["skops"]).startswith(b"PK")  # skops' archive: no pickle
    for name in ("one.json", "two.json"):
        loaded = puc.load_model(tmp_path / name)
        np.testing.assert_array_equal(loaded.predict(PEOPLE), model.predict(PEOPLE))
    before = legacy().predict_proba(PEOPLE[["region", "age"]])[:, 1]
    np.testing.assert_array_equal(loaded.predict(PEOPLE)[SILENT], before[SILENT])
    assert repr(loaded) == repr(model)
    assert (loaded.consent, loaded.puc_summary) == (model.consent, model.puc_summary)


@every_engine
def test_the_command_line_reads_it(kit: EngineKit, tmp_path: Path) -> None:
    """From a CSV file, where the anchor's categories are text."""
    trained(legacy(), kit).save_model(tmp_path / "model.json")
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    given = ["predict", str(tmp_path / "model.json"), str(tmp_path / "people.csv"), "--quiet"]
    assert main([*given, "--out", str(tmp_path / "told.csv")]) == 0
    told = pd.read_csv(tmp_path / "told.csv", dtype=str)["prediction"].astype(float).to_numpy()
    before = legacy().predict_proba(PEOPLE[["region", "age"]])[:, 1]
    np.testing.assert_array_equal(told[SILENT], before[SILENT])


def test_types_must_be_trusted(tmp_path: Path) -> None:
    model = trained(Tariff().fit(PEOPLE, CLAIM))
    path = tmp_path / "model.json"
    model.save_model(path)
    with pytest.raises(ValueError, match=rf"types that are not trusted: {TARIFF}\. .* trusted=\['{TARIFF}'\]\)"):
        puc.load_model(path)
    with pytest.raises(ValueError, match="types that are not trusted"):
        puc.load_model(path, trusted=["builtins.print"])
    with pytest.raises(TypeError, match="trusted must be a list of names of types, got the text"):
        puc.load_model(path, trusted=TARIFF)
    loaded = puc.load_model(path, trusted=[TARIFF])
    np.testing.assert_array_equal(loaded.predict(PEOPLE), model.predict(PEOPLE))


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    class Local(Tariff):
        """Cannot be found by its name."""

    of_lambda = make_pipeline(FunctionTransformer(lambda X: X[["age"]]), LogisticRegression())
    for anchor, message in (
        (
            lambda X: 0.1 * X["age"].to_numpy(),
            "The anchor is a callable, .* Pickle the model yourself, or make the anchor",
        ),
        (
            of_lambda.fit(PEOPLE[["age"]], CLAIM),
            r"\(LogisticRegression in a Pipeline\) cannot be written .* skops fails",
        ),
        (Local().fit(PEOPLE, CLAIM), r"The anchor \(Local\) cannot be written into a model file: skops fails with"),
    ):
        with pytest.raises(ValueError, match=message):
            trained(anchor).save_model(tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


def test_statsmodels_and_glum(tmp_path: Path) -> None:
    sm, glum = pytest.importorskip("statsmodels.api"), pytest.importorskip("glum")
    logit = sm.Logit(CLAIM, sm.add_constant(PEOPLE[["age"]])).fit(disp=0)
    with pytest.raises(
        ValueError, match=r"\(Logit of statsmodels\) cannot be written .* skops does not know statsmodels"
    ):
        trained(logit).save_model(tmp_path / "model.json")
    glm = glum.GeneralizedLinearRegressor(family="binomial", alpha=0.01).fit(PEOPLE[["age"]], CLAIM)
    model = trained(glm)
    model.save_model(tmp_path / "model.json")
    with pytest.raises(ValueError, match=r"not trusted: .*glum\._glm\.GeneralizedLinearRegressor"):
        puc.load_model(tmp_path / "model.json")
    types = ["glum._distribution.BinomialDistribution", "glum._link.LogitLink", "numpy.dtype"]
    loaded = puc.load_model(tmp_path / "model.json", trusted=[*types, "glum._glm.GeneralizedLinearRegressor"])
    np.testing.assert_array_equal(loaded.predict(PEOPLE), model.predict(PEOPLE))


def test_without_skops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, path = trained(legacy()), tmp_path / "model.json"
    model.save_model(path)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    needs = "a model whose anchor is an estimator, pucboost needs skops: pip install 'pucboost"
    with pytest.raises(ImportError, match=f"To write {needs}"):
        model.save_model(tmp_path / "other.json")
    with pytest.raises(ImportError, match=f"To read {needs}"):
        puc.load_model(path)
    base = trained("base")
    base.save_model(path)  # boosters do without
    np.testing.assert_array_equal(puc.load_model(path).predict(PEOPLE), base.predict(PEOPLE))


UNKNOWN: list[tuple[tuple[str, ...], Any, str]] = [
    (("objective", "class"), "Objective", "has the loss 'Objective', which .* knows Gamma, Logistic, .*, Tweedie"),
    (("objective", "class"), "annotations", "has the loss 'annotations', which this version"),
    (("objective", "class"), None, "has the loss None, which this version of pucboost does not know"),
    (("objective", "fields", "power"), 3, "has parameters of its loss that this version of pucboost does not know"),
    (("trees", "engine"), "catboost", "boosters of the engine 'catboost', which .* knows lightgbm, xgboost"),
    (("anchor",), {"engine": "catboost", "model": ""}, "boosters of the engine 'catboost', which this version"),
    (("anchor", "question", "method"), "fit", "asks its anchor by 'fit' about a table of kind 'pandas'"),
    (("anchor", "question", "container"), "excel", "about a table of kind 'excel'; this version"),
    (("trees",), ..., "is the file of an anchored model without its trees. The file is damaged"),
    (("objective",), ..., "is the file of an anchored model without its objective"),
]


def test_files_that_say_something_unknown(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    trained(legacy()).save_model(path)
    content = path.read_text()
    for place, value, message in UNKNOWN:
        kept = json.loads(content)
        del kept["pucboost_digest"]
        inner = kept
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        if value is ...:
            del inner[place[-1]]
        digest = hashlib.sha256(json.dumps(kept).encode()).hexdigest()
        path.write_text(json.dumps({**kept, "pucboost_digest": digest}))
        with pytest.raises(ValueError, match=f"model.json.*{message}"):
            puc.load_model(path)


def test_every_loss_is_kept(tmp_path: Path) -> None:
    for objective, y in (
        ("poisson", CLAIM * 2.0),
        ("gamma", CLAIM + 0.5),
        ("tweedie", CLAIM * 1.0),
        ("l2", CLAIM * 1.0),
    ):
        anchor = PoissonRegressor().fit(PEOPLE[["age"]], y)
        params = {**LIGHTGBM.params, "objective": objective, "optional": ["steps"], "anchor": anchor}
        model = puc.train(params, puc.Dataset(PEOPLE, y), 2)
        model.save_model(tmp_path / "model.json")
        loaded = puc.load_model(tmp_path / "model.json")
        assert loaded.objective == model.objective
        np.testing.assert_array_equal(loaded.predict(PEOPLE), model.predict(PEOPLE))
