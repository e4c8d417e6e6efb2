"""What type checkers and editors see: the documented calls under mypy and pyright, and names that must not drift."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import lightgbm as lgb
import numpy as np
import pytest
from engine_kits import OPTIONAL
from tools import make_table

import pucboost as puc
from pucboost import typing
from pucboost._engines import ENGINES
from pucboost._models import files
from pucboost._virtual.plan import SCHEMES

ROOT = Path(__file__).parents[2]
USER_CODE = Path(__file__).with_name("user_code.py")


def check(module: str, *arguments: str, cwd: Path) -> None:
    """Run a type checker; pucboost is a library to it, as for a user who installed it."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed; pip install -e '.[dev]' installs it")
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments, str(USER_CODE)],
        cwd=cwd,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_mypy_strict(tmp_path: Path) -> None:
    # Silent about what is imported: only errors in the user's own code are shown to a user.
    check("mypy", "--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={tmp_path}", cwd=tmp_path)


@pytest.mark.slow
def test_pyright(tmp_path: Path) -> None:
    settings = {
        "typeCheckingMode": "strict",
        "extraPaths": [str(ROOT)],
        "enableTypeIgnoreComments": True,
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    # A Pyright that brings its own node, so that nothing is downloaded.
    check("basedpyright", f"--project={tmp_path}", f"--pythonpath={sys.executable}", cwd=tmp_path)


def test_the_documented_calls_run(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("user_code", USER_CODE)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(tmp_path)


def test_what_two_models_have_in_different_ways_is_not_checked() -> None:
    """Otherwise correct calls of one engine would be refused where a checker cannot know the engine."""
    [declared] = [node for node in ast.walk(ast.parse(inspect.getsource(files))) if isinstance(node, ast.ClassDef)]
    unchecked = {getattr(getattr(one, "target", one), "id", getattr(one, "name", None)) for one in declared.body}
    X, y = make_table(100)
    kinds = [
        puc.train({"optional": OPTIONAL, "verbosity": -1}, (X, y), 2),
        puc.train({"optional": OPTIONAL, "verbosity": 0, "engine": "xgboost"}, (X, y), 2, valid_sets=(X, y)),
        puc.train({"optional": OPTIONAL, "verbosity": -1, "anchor": "base"}, (X, y), 2),
    ]
    names = [{name for name in dir(model) if not name.startswith("_")} for model in kinds]
    several = {name for one in names for name in one if sum(name in other for other in names) > 1}
    assert several <= unchecked, sorted(several - unchecked)


def test_words_are_those_that_are_checked() -> None:
    assert get_args(typing.EngineName) == (*ENGINES, "auto")
    assert set(get_args(typing.Augmentation)) == set(SCHEMES)


def test_dataset_shows_lightgbms_keywords() -> None:
    theirs, ours = (inspect.signature(one).parameters for one in (lgb.Dataset, puc.Dataset))
    assert [(p.name, p.default, p.kind) for p in ours.values()][: len(theirs)] == [
        (p.name, p.default, p.kind) for p in theirs.values()
    ]
    more = list(ours.values())[len(theirs) :]
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY and p.default is None for p in more[:-1])
    assert (more[-1].kind, more[-1].annotation) == (inspect.Parameter.VAR_KEYWORD, "Never")


def test_dataset_hands_every_argument_to_lightgbm() -> None:
    X, y = make_table(60)
    given: dict[str, Any] = {
        "label": y, "reference": lgb.Dataset(X, y), "weight": y + 1, "group": [30, 30], "init_score": y,
        "feature_name": list("abcdef"), "categorical_feature": [0], "params": {"max_bin": 9}, "free_raw_data": False,
        "position": np.zeros(60),
    }  # fmt: skip
    assert ["data", *given] == list(inspect.signature(lgb.Dataset).parameters)
    theirs = vars(lgb.Dataset(X, *given.values()))
    for ours in (puc.Dataset(X, *given.values()), puc.Dataset(X, **given)):
        assert {name: value for name, value in vars(ours).items() if name in theirs} == theirs
