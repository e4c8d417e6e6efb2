"""The order of callbacks, trees and metrics; the oracle is ``lgb.train``."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from pucboost._engines.native.loop import best_scores, run_rounds, with_early_stopping
from pucboost._engines.native.losses import EvalResult

LOSSES = [0.9, 0.5, 0.4, 0.41, 0.42, 0.43, 0.1]
"""What the metric says in each round."""


class Spy:
    """A callback that writes down when it is called, and with what."""

    def __init__(self, name: str, log: list[Any], **attributes: Any) -> None:
        self.name, self.log = name, log
        vars(self).update(attributes)

    def __call__(self, env: Any) -> None:
        results = env.evaluation_result_list
        known = None if results is None else [tuple(one)[:4] for one in results]
        self.log.append((self.name, env.iteration, env.begin_iteration, env.end_iteration, known))


def spies(log: list[Any]) -> list[Any]:
    """Callbacks in an order that is not the one of the list."""
    return [
        Spy("late", log, order=50),
        Spy("before", log, before_iteration=True, order=3),
        Spy("unordered", log),
        Spy("early", log, order=1),
        Spy("first", log, before_iteration=True),
    ]


def lightgbm_run(callbacks: list[Any], rounds: int, params: dict[str, Any], init_rounds: int = 0) -> lgb.Booster:
    """Train with a metric that says what :data:`LOSSES` say."""
    X, y = np.arange(60.0)[:, None], np.arange(60) % 7
    called = iter(LOSSES)
    init = None
    if init_rounds:
        init = lgb.train({"verbosity": -1}, lgb.Dataset(X, y), init_rounds)
    return lgb.train(
        {"verbosity": -1, "metric": "None", **params},
        lgb.Dataset(X, y),
        rounds,
        valid_sets=[lgb.Dataset(X, y)],
        valid_names=["held out"],
        feval=lambda preds, data: ("loss", next(called), False),
        init_model=init,
        callbacks=callbacks,
    )


class FakeBooster(lgb.Booster):
    """What early stopping looks at."""

    _train_data_name = "training"

    def __init__(self) -> None:
        pass

    def __del__(self) -> None:
        pass


def our_run(callbacks: list[Any], rounds: range, params: dict[str, Any]) -> tuple[int | None, list[Any]]:
    called = iter(LOSSES)
    return run_rounds(
        FakeBooster(),
        {"verbosity": -1, **params},
        rounds,
        with_early_stopping(callbacks, {"verbosity": -1, **params}),
        lambda: None,
        lambda: [EvalResult("held out", "loss", next(called), False)],
    )


@pytest.mark.parametrize("init_rounds", [0, 4])
def test_callbacks_are_called_as_by_lightgbm(init_rounds: int) -> None:
    theirs: list[Any] = []
    ours: list[Any] = []
    lightgbm_run(spies(theirs), 3, {}, init_rounds)
    our_run(spies(ours), range(init_rounds, init_rounds + 3), {})
    assert ours == theirs
    assert len(ours) == 15


@pytest.mark.parametrize(
    "params",
    [
        {"early_stopping_round": 2},
        {"n_iter_no_change": 2},
        {"early_stopping_round": 3},
        {"early_stopping_round": 2, "early_stopping_min_delta": 0.3},
        {"early_stopping_round": 0},
        {},
        {"early_stopping_round": 50},
    ],
    ids=str,
)
@pytest.mark.parametrize("init_rounds", [0, 4])
def test_early_stopping_by_parameters(params: dict[str, Any], init_rounds: int) -> None:
    booster = lightgbm_run([], len(LOSSES), params, init_rounds)
    best, results = our_run([], range(init_rounds, init_rounds + len(LOSSES)), params)
    assert (best or 0) == booster.best_iteration
    assert best_scores(results) == booster.best_score


def test_early_stopping_says_what_lightgbm_says(caplog: Any) -> None:
    caplog.set_level("INFO", "lightgbm-in-tests")
    lightgbm_run([lgb.early_stopping(2)], len(LOSSES), {})
    theirs = caplog.messages[:]
    caplog.clear()
    our_run([lgb.early_stopping(2)], range(len(LOSSES)), {})
    assert caplog.messages == theirs
    assert any("Early stopping, best iteration is:" in message for message in theirs)


def test_a_callback_given_twice_is_called_once() -> None:
    log: list[Any] = []
    spy = Spy("one", log)
    our_run([spy, spy], range(2), {})
    assert [number for _, number, *_ in log] == [0, 1]


def test_callbacks_are_not_changed() -> None:
    spy = Spy("one", [])
    our_run([spy], range(1), {})
    assert set(vars(spy)) == {"name", "log"}


def test_the_patience_must_be_a_whole_number() -> None:
    with pytest.raises(TypeError, match=r"early_stopping_round should be an integer\. Got 'float'"):
        with_early_stopping([], {"early_stopping_round": 2.0})
