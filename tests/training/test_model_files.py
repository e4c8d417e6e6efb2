"""Model files keep the consent schema, and continuing a model needs the same one."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from engine_kits import OPTIONAL
from tools import QUIET, make_table

import pucboost as puc

PARAMS: dict[str, Any] = {**QUIET, "objective": "binary", "optional": OPTIONAL}


def test_consent_and_summary_travel(tmp_path: Path) -> None:
    X, y = make_table(500)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(k=pd.Categorical(["ü", "v"] * 250))
    booster = puc.train({**PARAMS, "optional": {"äpp": ["d", "e"], "blood": ["f"]}}, lgb.Dataset(frame, y), 5)
    assert isinstance(booster, lgb.Booster)
    assert booster.consent.group_names == ("äpp", "blood")
    assert booster.puc_summary.source_rows == 500
    again = pickle.loads(pickle.dumps(booster))
    assert again.consent == booster.consent
    assert again.puc_summary == booster.puc_summary

    path = tmp_path / "model.txt"
    puc.save_model(booster, path)
    loaded = puc.load_model(path)
    assert loaded.consent == booster.consent
    assert loaded.puc_summary == booster.puc_summary
    plain = lgb.Booster(model_file=path)  # plain LightGBM reads the file, categories included
    for other in (loaded, plain, again):
        np.testing.assert_array_equal(other.predict(frame), booster.predict(frame))
        assert other.pandas_categorical == [["v", "ü"]] or other.pandas_categorical == [["ü", "v"]]
    puc.save_model(loaded, path, num_iteration=2)
    assert puc.load_model(path).num_trees() == 2
    assert list(tmp_path.iterdir()) == [path]


def test_saving_without_consent_or_loading_a_plain_file(tmp_path: Path) -> None:
    X, y = make_table(200)
    plain = lgb.train(QUIET, lgb.Dataset(X, y), 2)
    with pytest.raises(ValueError, match="The booster has no consent schema"):
        puc.save_model(plain, tmp_path / "model.txt")
    assert list(tmp_path.iterdir()) == []
    plain.save_model(tmp_path / "plain.txt")
    with pytest.raises(ValueError, match=r"plain.txt' has no consent schema"):
        puc.load_model(tmp_path / "plain.txt")
    with pytest.raises(FileNotFoundError):
        puc.load_model(tmp_path / "nothing.txt")


def test_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: Any) -> None:
    X, y = make_table(200)
    booster = puc.train(PARAMS, lgb.Dataset(X, y), 2)
    path = tmp_path / "model.txt"
    puc.save_model(booster, path)
    before = path.read_text()

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        puc.save_model(booster, path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_continuing_needs_the_same_consent() -> None:
    X, y = make_table(300)
    first = puc.train(PARAMS, lgb.Dataset(X, y), 2)
    for optional in ([3], []):
        with pytest.raises(ValueError, match="init_model was trained under Consent"):
            puc.train({**PARAMS, "optional": optional}, lgb.Dataset(X, y), 2, init_model=first)
    assert puc.train(PARAMS, lgb.Dataset(X, y), 2, init_model=first).num_trees() == 4


def test_init_model_file_is_checked(tmp_path: Path) -> None:
    X, y = make_table(300)
    path = tmp_path / "model.txt"
    puc.save_model(puc.train(PARAMS, lgb.Dataset(X, y), 2), path)
    with pytest.raises(ValueError, match="init_model was trained under Consent"):
        puc.train({**PARAMS, "optional": []}, lgb.Dataset(X, y), 2, init_model=path)
    assert puc.train(PARAMS, lgb.Dataset(X, y), 2, init_model=str(path)).num_trees() == 4
