"""Predictions in a process that was forked after the parent had used its models, as prefork servers do."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import pucboost as puc
from pucboost._engines import ENGINES
from pucboost._kernels.compiling import engine_threads

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, signal, sys
import numpy as np
import pucboost as puc
from threadpoolctl import threadpool_limits

threadpool_limits(2, "openmp")  # also on a machine with one core
rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 3))
y = X.sum(axis=1)
X[rng.random(3000) < 0.3, 2] = np.nan
params = {"engine": ENGINE, "optional": [2], "verbosity": -1, "num_threads": 2}
trained = puc.train(params, puc.Dataset(X, y), 5)
puc.save_model(trained, "model.txt")
model = puc.load_model("model.txt")
expected = puc.predict(model, X)  # the parent's threads are running now
child = os.fork()
if child == 0:
    signal.alarm(60)  # it would wait for ever
    same = (puc.predict(model, X, num_threads=1) == expected).all()
    same &= (puc.predict(trained, X, num_threads=1) == expected).all()
    quotes = puc.quote(model, X, num_threads=1)
    values = puc.sharing_value(model, X, num_threads=1)
    found = puc.sharing_effects(model, X, num_threads=1, favourable="lower")
    os._exit(0 if same and len(quotes) == len(values) == found.people == 3000 else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("engine", ENGINES)
def test_one_thread_works_after_a_fork(engine: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("ENGINE", repr(engine))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def openmp() -> set[int]:
    return {library["num_threads"] for library in ThreadpoolController().select(user_api="openmp").info()}


def test_the_number_of_threads_is_that_of_the_call_only() -> None:
    before = openmp()
    with engine_threads(3):
        assert openmp() == {3}
    assert openmp() == before
    for all_cores in (None, 0, -1):
        with engine_threads(all_cores):
            assert openmp() == before


def test_engines_are_asked_with_the_threads_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = puc.train({"optional": [1], "verbosity": -1, "num_threads": 1}, puc.Dataset(X, X.sum(axis=1)), 2)
    seen = []
    predict = lgb.Booster.predict

    def watched(*given: object, **more: object) -> object:
        seen.append(openmp())
        return predict(*given, **more)

    monkeypatch.setattr(lgb.Booster, "predict", watched)
    for ask in (puc.predict, puc.quote, puc.sharing_value, partial(puc.sharing_effects, favourable="lower")):
        seen.clear()
        ask(model, X, num_threads=3)
        assert seen
        assert all(threads == {3} for threads in seen)
