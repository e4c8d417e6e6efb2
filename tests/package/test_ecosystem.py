"""What people do with boosters elsewhere: explain, draw, export, track, pickle and serve them from many threads.

shap comes with the ``test`` extra. The converters to ONNX, MLflow and graphviz are large: their tests run where
they are installed.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import lightgbm as lgb
import matplotlib
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from engine_kits import KITS
from tools import make_table

import pucboost as puc

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[2]
ENGINES = tuple(kit.name for kit in KITS)
COLUMNS = ["age", "income", "region", "glucose", "steps", "pulse"]
GROUPS = {"blood test": ["glucose"], "fitness app": ["steps", "pulse"]}
QUIET = {kit.name: {"verbosity": -1, kit.threads: 2} for kit in KITS}


def frame(n: int = 800, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """People with values missing in base columns, too."""
    X, y = make_table(n, seed=seed, dtype=np.float32)
    X[::7, 1] = np.nan
    return pd.DataFrame(X, columns=COLUMNS), y


def masked_rows(seed: int = 1) -> pd.DataFrame:
    """People who share everything, one group, half a group, or nothing."""
    X, _ = frame(400, seed)
    X.loc[:100, "glucose"] = np.nan
    X.loc[50:200, ["steps", "pulse"]] = np.nan
    X.loc[200:250, "pulse"] = np.nan
    return X


@cache
def trained(engine: str, objective: str = "binary") -> Any:
    params = {"objective": objective, "optional": GROUPS, "engine": engine, "seed": 3, **QUIET[engine]}
    if objective == "multiclass":
        params["num_class"] = 3
    X, y = frame()
    return puc.train(params, puc.Dataset(X, y if objective != "multiclass" else y + (X["age"] > 0.5)), 25)


@cache
def stopped_early(engine: str) -> Any:
    """A booster with more rounds than its best one, where the engine keeps them."""
    X, y = frame()
    params = {"objective": "binary", "optional": GROUPS, "engine": engine, "learning_rate": 0.8, **QUIET[engine]}
    params["early_stopping_rounds"] = 3
    booster = puc.train(params, puc.Dataset(X, y), 60, valid_sets=[puc.Dataset(*frame(seed=2))])
    assert booster.best_iteration < 50
    return booster


@cache
def anchored(engine: str) -> Any:
    X, y = frame()
    params = {"objective": "binary", "optional": GROUPS, "engine": engine, "anchor": "base", **QUIET[engine]}
    return puc.train(params, puc.Dataset(X, y), 25)


def with_categories() -> tuple[pd.DataFrame, np.ndarray]:
    X, y = frame()
    rng = np.random.default_rng(0)
    job = rng.choice(["clerk", "nurse", "pilot", "smith"], len(X))
    X["job"] = pd.Categorical(np.where(rng.random(len(X)) < 0.3, None, job))
    return X, np.where(np.isin(job, ["nurse", "smith"]), 1 - y, y)


# ----- explanations


@pytest.fixture(scope="module")
def shap() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # shap 0.51 with matplotlib 3.11
        import shap

    return shap


@pytest.mark.filterwarnings("ignore:LightGBM binary classifier with TreeExplainer:UserWarning")
@pytest.mark.parametrize("objective", ["binary", "regression"])
@pytest.mark.parametrize("engine", ENGINES)
def test_shap_values_add_up_to_raw_predictions(shap: Any, engine: str, objective: str) -> None:
    booster, X = trained(engine, objective), masked_rows()
    explainer = shap.TreeExplainer(booster)
    values = explainer.shap_values(X)
    assert values.shape == X.shape
    raw = puc.predict(booster, X, raw_score=True)
    # XGBoost adds up in single precision.
    np.testing.assert_allclose(
        values.sum(axis=1) + explainer.expected_value, raw, atol=1e-10 if engine != "xgboost" else 1e-5
    )
    assert np.abs(values[:, 3:]).max() > 0.05


def test_shap_explains_the_best_rounds(shap: Any) -> None:
    """XGBoost's own predict takes all rounds; puc.predict and shap take those up to the best one."""
    booster, X = stopped_early("xgboost"), masked_rows()
    explainer = shap.TreeExplainer(booster)
    total = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, puc.predict(booster, X, raw_score=True), atol=1e-5)
    assert np.abs(total - booster.predict(xgb.DMatrix(X), output_margin=True)).max() > 0.01


@pytest.mark.filterwarnings("ignore:LightGBM binary classifier with TreeExplainer:UserWarning")
@pytest.mark.parametrize("engine", ENGINES)
def test_shap_values_with_categories(shap: Any, engine: str) -> None:
    X, y = with_categories()
    params = {"objective": "binary", "optional": ["job", "glucose"], "engine": engine, **QUIET[engine]}
    booster = puc.train(params, puc.Dataset(X, y), 10)
    explainer = shap.TreeExplainer(booster)
    # shap makes XGBoost's DMatrix without enable_categorical; one's own is taken as it is.
    values = explainer.shap_values(X if engine != "xgboost" else xgb.DMatrix(X, enable_categorical=True))
    total = np.asarray(values).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, puc.predict(booster, X, raw_score=True), atol=1e-5)


# ----- pictures


def test_importance_is_drawn_with_the_names_of_columns() -> None:
    for engine in ENGINES:
        module = xgb if engine == "xgboost" else lgb
        labels = {label.get_text() for label in module.plot_importance(trained(engine)).get_yticklabels()}
        assert labels == set(COLUMNS)
        plt.close("all")


@pytest.mark.parametrize("engine", ENGINES)
def test_trees_are_described_for_graphviz(engine: str) -> None:
    pytest.importorskip("graphviz")
    booster = trained(engine)
    source = (lgb.create_tree_digraph(booster) if engine != "xgboost" else xgb.to_graphviz(booster)).source
    used = {name for name in COLUMNS if name in source}
    assert used & {"age", "income", "region"}
    assert used & {"glucose", "steps", "pulse"}


# ----- ONNX


def onnx_predictions(booster: Any, X: pd.DataFrame, rounds: int | None = None) -> Any:
    """Convert a booster, with the two precautions that XGBoost needs, and run it."""
    onnxmltools = pytest.importorskip("onnxmltools")
    onnxruntime = pytest.importorskip("onnxruntime")
    from onnxmltools.convert.common.data_types import FloatTensorType

    columns = [("X", FloatTensorType([None, X.shape[1]]))]
    if isinstance(booster, lgb.Booster):
        model = onnxmltools.convert_lightgbm(booster, initial_types=columns, zipmap=False)
    else:
        booster = booster[:rounds]  # all rounds would be converted, not those up to the best one
        booster.feature_names = None  # the converter knows columns by number
        model = onnxmltools.convert_xgboost(booster, initial_types=columns)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"X": X.to_numpy(np.float32)})[-1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("objective", ["binary", "regression", "multiclass"])
@pytest.mark.parametrize("engine", ENGINES)
def test_onnx_keeps_predictions_on_masked_rows(engine: str, objective: str) -> None:
    booster, X = trained(engine, objective), masked_rows()
    if engine != "xgboost":
        X.loc[::5, "age"] = np.nan
    exported = onnx_predictions(booster, X)
    expected = puc.predict(booster, X)
    if objective == "binary":
        expected = np.column_stack([1 - expected, expected])
    np.testing.assert_allclose(exported.reshape(expected.shape), expected, atol=1e-5)  # leaf values in single precision
    names = booster.feature_name() if engine != "xgboost" else booster.feature_names
    assert names == COLUMNS  # those of the booster, not only of a copy


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("engine", ENGINES)
def test_onnx_of_a_booster_that_stopped_early(engine: str) -> None:
    booster, X = stopped_early(engine), masked_rows()
    exported = onnx_predictions(booster, X, rounds=booster.best_iteration + 1)
    np.testing.assert_allclose(exported[:, 1], puc.predict(booster, X), atol=1e-5)


# ----- MLflow

TRACKED = """
import json, sys
import lightgbm as lgb, mlflow, numpy as np, xgboost as xgb
import pucboost as puc

mlflow.set_tracking_uri("file:tracking")  # a database takes longer to set up than all the rest
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3)); y = (X.sum(axis=1) > 0).astype(float); X[::2, 2] = np.nan
found = {}
for engine, flavour in (("lightgbm", mlflow.lightgbm), ("xgboost", mlflow.xgboost)):
    flavour.autolog(log_models=False, log_datasets=False)
    params = {"objective": "binary", "optional": [2], "engine": engine, "verbosity": -1 if engine != "xgboost" else 0}
    with mlflow.start_run() as run:
        booster = puc.train(params, puc.Dataset(X, y), 5, valid_sets=[puc.Dataset(X[:200], y[:200])], callbacks=[])
        puc.save_model(booster, f"{engine}.model")
        mlflow.log_artifact(f"{engine}.model")
        # Requirements are given, or MLflow imports everything again to find them out.
        logged = flavour.log_model(booster, name="model", pip_requirements=["pucboost"])
    kept = mlflow.get_run(run.info.run_id).data
    own = puc.load_model(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path=f"{engine}.model"))
    loaded = flavour.load_model(logged.model_uri)
    expected = puc.predict(booster, X)
    found[engine] = {
        "params": sorted(kept.params),
        "metrics": sorted(kept.metrics),
        "consent": booster.consent == own.consent,
        "same": bool((puc.predict(own, X) == expected).all()),
        "consent of the flavour": puc.consent_of(loaded) is not None,
        "same by the flavour": bool(
            (np.asarray(loaded.predict(X if engine != "xgboost" else xgb.DMatrix(X))) == expected).all()
        ),
    }
json.dump(found, open(sys.argv[1], "w"))
"""


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What MLflow keeps of two trainings, in a process of its own: autolog replaces the engines' functions."""
    pytest.importorskip("mlflow")
    folder = tmp_path_factory.mktemp("mlflow")
    settings = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true", "MPLBACKEND": "Agg"}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", TRACKED, "found.json"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **settings, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "found.json").read_text())


def test_mlflow_keeps_parameters_metrics_and_models(tracked: dict[str, Any]) -> None:
    """Models as an artifact and by the flavours; both keep predictions and the consent schema."""
    for engine in ("lightgbm", "xgboost"):
        found = tracked[engine]
        assert {"objective", "num_boost_round"} <= set(found["params"])
        assert [name.endswith("logloss") for name in found["metrics"]] == [True]
        assert all(found[what] for what in ("consent", "same", "same by the flavour", "consent of the flavour"))


# ----- pickles and threads

MODELS = {
    "lightgbm": lambda: trained("lightgbm"),
    "xgboost": lambda: trained("xgboost"),
    "xgboost, stopped early": lambda: stopped_early("xgboost"),
    "lightgbm, anchored": lambda: anchored("lightgbm"),
    "xgboost, anchored": lambda: anchored("xgboost"),
}


def by_joblib(model: Any) -> Any:
    file = io.BytesIO()
    joblib.dump(model, file, compress=3)
    file.seek(0)
    return joblib.load(file)


def test_pickled_models_keep_consent_and_predictions() -> None:
    X = masked_rows()
    for name, made in MODELS.items():
        model = made()
        for again in (pickle.loads(pickle.dumps(model)), by_joblib(model)):
            assert type(again) is type(model)
            assert puc.consent_of(again) == model.consent
            assert again.puc_summary == model.puc_summary
            for sharing in ("as_given", "withheld", "best"):
                told = (puc.predict(one, X, sharing=sharing, favourable="lower") for one in (again, model))
                np.testing.assert_array_equal(*told, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_many_threads_predict_as_one_does(name: str) -> None:
    model, X = MODELS[name](), masked_rows()
    pieces = [X.iloc[lo : lo + 80] for lo in range(0, len(X), 80)]

    def own_predict(piece: pd.DataFrame) -> Any:
        return model.predict(xgb.DMatrix(piece) if isinstance(model, xgb.Booster) else piece)

    calls = {
        "booster.predict": own_predict,
        "predict": lambda piece: puc.predict(model, piece),
        "withheld": lambda piece: puc.predict(model, piece, sharing="withheld"),
        "best": lambda piece: puc.predict(model, piece, sharing="best", favourable="lower", num_threads=1),
        "quote": lambda piece: puc.quote(model, piece).to_numpy(),
        "sharing_value": lambda piece: puc.sharing_value(model, piece).to_numpy(),
        "explain": lambda piece: puc.explain(model, piece, X).values,
    }
    work = [(call, piece) for piece in pieces for call in calls.values()]
    one_by_one = [call(piece) for call, piece in work]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            together = list(pool.map(lambda job: job[0](job[1]), work))
            for expected, found in zip(one_by_one, together, strict=True):
                np.testing.assert_array_equal(found, expected)
