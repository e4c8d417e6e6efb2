"""Nobody guesses which direction is better: the call gives it, or the model keeps it from its training."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from engine_kits import EngineKit, every_engine
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tools import make_table

import pucboost as puc
from pucboost._cli.main import main
from pucboost._models.schema import model_schema, read_schema

X, Y = make_table(400)
BOTH = r"needs favourable='lower' \(a price\) or favourable='higher' \(an approval\)"


def best(model: Any, **given: Any) -> Any:
    return puc.predict(model, X, sharing="best", **given)


@every_engine
def test_the_model_keeps_it_and_the_call_wins(kit: EngineKit, tmp_path: Path) -> None:
    silent, kept = kit.fit(X, Y, 5), kit.fit(X, Y, 5, favourable="higher")
    assert (silent.puc_summary.favourable, kept.puc_summary.favourable) == (None, "higher")
    assert (silent.puc_summary.engine, kept.puc_summary.engine) == (kit.name, kit.name)
    for call in (
        lambda: best(silent),
        lambda: puc.sharing_effects(silent, X),
        lambda: puc.load_to_balance(silent, X, Y, sharing="best"),
        lambda: puc.letters.for_each(silent, X[:5], quantity="risk", sharing="best"),
    ):
        with pytest.raises(ValueError, match=BOTH):
            call()
    lower, higher = best(silent, favourable="lower"), best(silent, favourable="higher")
    assert (lower < higher).any()
    np.testing.assert_array_equal(best(kept), higher)
    np.testing.assert_array_equal(best(kept, favourable="lower"), lower)
    assert puc.sharing_effects(kept, X) == puc.sharing_effects(silent, X, favourable="higher")
    loaded = puc.load_to_balance(kept, X, Y, sharing="best")
    assert best(loaded).sum() == pytest.approx(Y.sum(), rel=1e-4)

    puc.save_model(kept, tmp_path / "model.json")
    rows = puc.Dataset(X, Y, optional=kept.consent)
    continued = puc.train({**kit.quiet, "engine": kit.name}, rows, 2, init_model=kept)
    for again in (
        puc.load_model(tmp_path / "model.json"),
        pickle.loads(pickle.dumps(kept)),
        copy.deepcopy(kept),
        puc.refit(kept, X, Y),
        continued,
        loaded,
    ):
        assert (again.puc_summary.favourable, again.puc_summary.engine) == ("higher", kit.name)
        assert best(again).sum() > best(again, favourable="lower").sum()


def test_anchored_models_keep_it(tmp_path: Path) -> None:
    legacy = lgb.train({"verbosity": -1, "objective": "binary"}, lgb.Dataset(X[:, :3], Y), 3)
    params = {"objective": "binary", "optional": [3, 4, 5], "anchor": legacy, "verbosity": -1, "favourable": "higher"}
    model = puc.train(params, (X, Y), 5)
    puc.save_model(model, tmp_path / "model.json")
    for again in (model, puc.load_model(tmp_path / "model.json"), pickle.loads(pickle.dumps(model))):
        assert again.puc_summary.favourable == "higher"
        np.testing.assert_array_equal(best(again), best(model, favourable="higher"))


def test_estimators_take_it() -> None:
    options: dict[str, Any] = {"optional": [3, 4, 5], "n_estimators": 4, "random_state": 0}
    model = clone(puc.PUCClassifier(favourable="higher", **options)).fit(X, Y)
    silent = puc.PUCClassifier(**options).fit(X, Y)
    assert model.get_params()["favourable"] == "higher"
    expected = silent.predict_proba(X, sharing="best", favourable="higher")
    np.testing.assert_array_equal(model.predict_proba(X, sharing="best"), expected)
    np.testing.assert_array_equal(
        best(make_pipeline(FunctionTransformer(feature_names_out="one-to-one"), model).fit(X, Y)), expected[:, 1]
    )
    assert model.sharing_effects(X) == silent.sharing_effects(X, favourable="higher")
    assert model.sharing_effects(X, favourable="lower") == silent.sharing_effects(X, favourable="lower")
    with pytest.raises(ValueError, match=f"sharing_effects {BOTH}: .* a higher probability of 1.0"):
        silent.sharing_effects(X)


def test_of_several_classes_the_call_decides() -> None:
    several = np.digitize(np.nan_to_num(X[:, 0]), [-0.5, 0.5])
    params = {"objective": "multiclass", "num_class": 3, "optional": [3], "verbosity": -1}
    with pytest.raises(ValueError, match="several classes does not tell of which class"):
        puc.train({**params, "favourable": "lower"}, (X, several), 2)
    model = puc.train(params, (X, several), 2)
    with pytest.raises(ValueError, match=BOTH):
        best(model, target_class=1)
    assert (best(model, target_class=1, favourable="higher") >= puc.predict(model, X, target_class=1)).all()


def test_an_audit_states_no_preference_that_nobody_gave() -> None:
    params = {"objective": "binary", "optional": [3], "verbosity": -1, "num_threads": 1}
    options: dict[str, Any] = {"margin": 0.2, "num_threads": 1, "folds": 3, "min_count": 50}
    silent, kept = (puc.train({**params, **more}, (X, Y), 3) for more in ({}, {"favourable": "higher"}))
    report = puc.audit(silent, X, Y, **options)
    effect = report.sharing_effect
    assert report.favourable is effect.share_worse_off is effect.largest_loss is effect.mean_bonus is None
    page = report.to_html()
    for words in ("People prefer", "predictions are better for people", "Worse off", "worse off", "Gain from a bonus"):
        assert words not in page
    assert "told more" in page
    assert json.loads(report.to_json())["favourable"] is None

    told = puc.audit(kept, X, Y, **options)
    assert "People prefer higher predictions here." in told.to_html()
    given = puc.audit(silent, X, Y, favourable="higher", **options)
    assert told.sharing_effect == given.sharing_effect
    assert given.sharing_effect.share_worse_off > 0
    assert puc.audit(kept, X, Y, favourable="lower", **options).favourable == "lower"


def test_the_command_line(tmp_path: Path, capsys: Any) -> None:
    table = pd.DataFrame(X, columns=list("abcdefg")[: X.shape[1]]).assign(y=Y)
    data, out = tmp_path / "people.csv", tmp_path / "told.csv"
    table.to_csv(data, index=False)
    train = ["train", str(data), "--label", "y", "--optional", "d", "--rounds", "3", "--quiet"]
    for name, options in (("silent", []), ("kept", ["--favourable", "higher"])):
        assert main([*train, *options, "--out", str(tmp_path / f"{name}.txt")]) == 0

    def told(name: str, *options: str) -> int:
        ask = ["predict", str(tmp_path / f"{name}.txt"), str(data), "--sharing", "best", "--quiet"]
        return main([*ask, *options, "--out", str(out)])

    assert told("silent") != 0
    assert "--sharing best needs --favourable lower (a price) or --favourable higher" in capsys.readouterr().err
    assert told("kept") == 0
    kept = pd.read_csv(out)
    assert told("silent", "--favourable", "higher") == 0
    pd.testing.assert_frame_equal(pd.read_csv(out), kept)
    assert told("kept", "--favourable", "lower") == 0
    assert (pd.read_csv(out)["prediction"] < kept["prediction"]).any()


def test_files_written_before_it_was_kept_are_read() -> None:
    model = puc.train({"optional": [3], "verbosity": -1, "favourable": "lower"}, (X, Y), 2)
    schema = model_schema(model.consent, model.puc_summary)
    assert read_schema(schema, "here")[1] == model.puc_summary
    for name, wrong in (("engine", 3), ("favourable", "up")):
        with pytest.raises(ValueError, match=f"'here' has a consent schema that cannot be used: {name}"):
            read_schema({**schema, "summary": {**schema["summary"], name: wrong}}, "here")
        del schema["summary"][name]
    before = read_schema(schema, "here")[1]
    assert before.engine is before.favourable is None
