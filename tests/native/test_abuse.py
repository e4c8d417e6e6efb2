"""The native engine under attack: whatever it is given, it grows trees or says what is wrong, and never otherwise."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from engine_kits import NATIVE, OPTIONAL
from tools import make_table

import pucboost as puc
from pucboost._engines.native.booster import GrowingBooster

PARAMS = {**NATIVE.params, "optional": OPTIONAL, "num_leaves": 8, "copies": 3, "seed": 1}
X, Y = make_table(300)


def train(params: dict[str, Any] | None = None, rounds: int = 3, y: Any = Y, **given: Any) -> Any:
    of_data = {name: given.pop(name) for name in ("weight", "init_score") if name in given}
    return puc.train({**PARAMS, **(params or {})}, puc.Dataset(X, y, **of_data), rounds, **given)


# ----- parameters


def test_parameters_that_make_no_sense_are_refused() -> None:
    for params, words in (
        ({"learning_rate": "fast"}, "learning_rate must be a number above 0, got 'fast'"),
        ({"lambda_l2": True}, "lambda_l2 must be a number at least 0, got True"),
        ({"min_data_in_leaf": True}, "min_data_in_leaf must be a whole number from 0 to"),
        ({"lambda_l1": 10**400}, "lambda_l1 must be a number at least 0"),
        ({"max_depth": 10**30}, "max_depth must be a whole number from -2147483647 to 2147483647"),
        ({"min_data_in_bin": 2**31}, "min_data_in_bin must be a whole number from 1 to"),
        ({"num_iterations": 1e300}, "boosting rounds must be at most 2147483647"),
        ({"num_iterations": 0}, r"Number of boosting rounds must be greater than 0\. Got 0"),
        ({"interaction_constraints": "[[0,1],[2"}, r"must be lists of columns, got '\[\[0,1\]"),
        ({"interaction_constraints": "exit()"}, "must be lists of columns, got 'exit"),
        ({"interaction_constraints": [0, 1]}, "must be a list of lists of columns; it contains 0"),
        ({"monotone_constraints": "up,down"}, "must be a list of whole numbers, got 'up,down'"),
    ):
        with pytest.raises(ValueError, match=words):
            train(params)


def test_more_threads_than_a_system_has_are_refused() -> None:
    """OpenMP would end the process."""
    for engine in ("native", "auto", "lightgbm", "xgboost"):
        quiet = {"engine": engine, "objective": "binary", "verbosity": -1, "optional": OPTIONAL}
        with pytest.raises(ValueError, match="num_threads is 1000000000, but at most"):
            puc.train({**quiet, "num_threads": 10**9}, puc.Dataset(X, Y), 1)


def test_auto_does_not_stop_at_what_only_lightgbm_can_read() -> None:
    auto = train({"engine": "auto", "interaction_constraints": ["[0,1]", "[2,3]"], "optional": [5]})
    assert auto.num_trees() == 3


# ----- labels, weights, initial scores


@pytest.mark.parametrize("engine", ["native", "lightgbm", "xgboost"])
def test_what_single_precision_cannot_hold_is_refused_by_row(engine: str) -> None:
    """It would become infinite on the way to the engine."""
    values = np.ones(len(Y))
    values[7] = 1e39
    with pytest.raises(ValueError, match=r"weight of train_set is 1e\+39 in row 7; weights must be finite"):
        train({"engine": engine}, weight=values)
    values[7] = np.inf
    with pytest.raises(ValueError, match="init_score of train_set is inf in row 7; initial scores must be finite"):
        train({"engine": engine}, init_score=values)
    by_class = np.zeros((len(Y), 3))
    by_class[5, 1] = np.nan
    for scores in (by_class, by_class.ravel(order="F")):
        with pytest.raises(ValueError, match="init_score of train_set is nan in row 5"):
            train({"engine": engine, "objective": "multiclass", "num_class": 3}, init_score=scores)


def test_labels_beyond_the_exponents_of_the_kernels_are_refused() -> None:
    """Gradients would have the wrong sign for ever, and predictions run off to infinity."""
    for objective in ("poisson", "tweedie", "gamma"):
        with pytest.raises(ValueError, match=r"mean label is about 1.\d+e\+30, which is too far from 1"):
            train({"objective": objective}, y=1e30 * (1 + Y))
    with pytest.raises(ValueError, match="The feature table has no columns"):
        puc.train({**PARAMS, "optional": []}, puc.Dataset(X[:, :0], Y), 1)


def test_values_at_the_edges_are_trained_on() -> None:
    edges = X.copy()
    edges[:3, 0], edges[3:6, 1], edges[:, 2] = np.inf, -np.inf, 1e308
    edges[:2, 3] = np.inf
    booster = puc.train(PARAMS, puc.Dataset(edges, Y), 3)
    assert np.isfinite(puc.predict(booster, edges)).all()
    for rows in (1, 2):
        booster = puc.train({**PARAMS, "min_data_in_leaf": 0}, puc.Dataset(X[:rows], Y[:rows]), 2)
        assert np.isfinite(puc.predict(booster, X)).all()


# ----- functions of the user


def test_a_metric_that_returns_something_else_is_named() -> None:
    for result in (None, ("name",), ("name", "high", True), [("name", 1.0)]):
        with pytest.raises(TypeError, match=r"feval must return a name, a number and whether higher is better.*got"):
            train(feval=lambda preds, data, result=result: result, valid_sets=[(X, Y)])


def test_an_objective_that_returns_something_else_is_named() -> None:
    with pytest.raises(TypeError, match="must return gradients and hessians, got 'NoneType'"):
        train({"objective": lambda preds, data: None})
    with pytest.raises(ValueError, match="returned a gradient of 3 values for"):
        train({"objective": lambda preds, data: (preds[:3], preds[:3])})
    with pytest.raises(ValueError, match="Gradients are not finite"):
        train({"objective": lambda preds, data: (preds * np.nan, np.ones(len(preds)))})


class Stop(BaseException):
    """As KeyboardInterrupt, but not the user's."""


def test_what_a_function_raises_comes_out_and_leaves_nothing_behind() -> None:
    def stop(*_: Any) -> Any:
        raise Stop

    before = threading.active_count()
    for given in ({"callbacks": [stop]}, {"feval": stop, "valid_sets": [(X, Y)]}):
        with pytest.raises(Stop):
            train({"num_threads": 2}, **given)
    with pytest.raises(Stop):
        train({"num_threads": 2, "objective": stop})
    assert threading.active_count() <= before + 1  # of the pool that all trainings share
    assert train().num_trees() == 3


# ----- what callbacks do with a booster that is growing


def test_what_would_be_forgotten_is_refused() -> None:
    """LightGBM's own booster is made anew from the trees so far: changes to it would be lost without a word."""
    calls: dict[str, tuple[Any, ...]] = {
        "rollback_one_iter": (), "shuffle_models": (), "set_leaf_output": (0, 0, 1.0),
        "add_valid": (lgb.Dataset(X, Y), "more"),
    }  # fmt: skip
    for name, given in calls.items():
        with pytest.raises(TypeError, match=f"booster.{name} during a training with 'engine': 'native'"):
            train(callbacks=[lambda env, name=name, given=given: getattr(env.model, name)(*given)])
    with pytest.raises(TypeError, match=r"booster.update with 'engine': 'native' takes neither data"):
        train(callbacks=[lambda env: env.model.update(lgb.Dataset(X, Y))])


def test_a_growing_booster_can_be_pickled() -> None:
    kept: list[bytes] = []
    booster = train(callbacks=[lambda env: kept.append(pickle.dumps(env.model))])
    assert [pickle.loads(one).num_trees() for one in kept] == [1, 2, 3]
    np.testing.assert_array_equal(pickle.loads(kept[-1]).predict(X), booster.predict(X))


def test_a_booster_that_an_interrupt_left_unmade_goes_quietly() -> None:
    GrowingBooster.__new__(GrowingBooster).__del__()


def test_learning_rates_that_make_no_sense_are_refused_on_the_way() -> None:
    for rate in (0.0, np.nan, np.inf, "0.1"):
        with pytest.raises(ValueError, match="learning_rate must be a number above 0"):
            train(callbacks=[lgb.reset_parameter(learning_rate=lambda number, rate=rate: rate if number else 0.1)])


# ----- processes

FORK = """
import os, sys
sys.path.insert(0, "tests")
import numpy as np
from native import test_abuse as tests
import pucboost as puc

expected = puc.predict(tests.train({"num_threads": 2}), tests.X)
child = os.fork()
if child == 0:
    found = puc.predict(tests.train({"num_threads": 2}), tests.X, num_threads=1)
    os._exit(0 if np.array_equal(found, expected) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_training_after_a_fork() -> None:
    """OpenMP's threads do not survive one, and LightGBM, which writes the model, would wait for them for ever."""
    root = Path(__file__).parents[2]
    given = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", FORK], cwd=root, env=given, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
