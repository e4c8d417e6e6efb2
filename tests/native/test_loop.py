"""The order of callbacks, trees and metrics; the oracle is ``lgb.train``."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import pucboost as puc

LOSSES = [0.9, 0.5, 0.4, 0.41, 0.42, 0.43, 0.1]
"""The value of the metric in each round."""

X, Y = np.arange(60.0)[:, None], np.arange(60.0) % 7


def run(engine: str, callbacks: list[Any], rounds: int, params: dict[str, Any], init_rounds: int = 0) -> Any:
    """Train with a metric whose values are :data:`LOSSES`."""
    values = iter(LOSSES)
    train, dataset = (lgb.train, lgb.Dataset) if engine == "lightgbm" else (puc.train, puc.Dataset)
    given = {"verbosity": -1, "metric": "None", **params} | ({} if engine == "lightgbm" else {"engine": engine})
    return train(
        given,
        dataset(X, Y),
        rounds,
        valid_sets=[dataset(X, Y)],
        valid_names=["held out"],
        feval=lambda preds, data: ("loss", next(values), False),
        init_model=lgb.train({"verbosity": -1}, lgb.Dataset(X, Y), init_rounds) if init_rounds else None,
        callbacks=callbacks,
    )


class Spy:
    """A callback that records when it is called, and with what."""

    def __init__(self, name: str, log: list[Any], **attributes: Any) -> None:
        self.name, self.log = name, log
        vars(self).update(attributes)

    def __call__(self, env: Any) -> None:
        results = env.evaluation_result_list
        known = None if results is None else [tuple(one)[:4] for one in results]
        self.log.append((self.name, env.iteration, env.begin_iteration, env.end_iteration, known))


def test_callbacks_are_called_as_by_lightgbm() -> None:
    """One that is given twice is called once, and none is changed."""
    for init_rounds in (0, 4):
        logs: dict[str, list[Any]] = {"lightgbm": [], "native": []}
        for engine, log in logs.items():
            late, unordered = Spy("late", log, order=50), Spy("unordered", log)
            spies = [
                late,
                Spy("before", log, before_iteration=True, order=3),
                unordered,
                Spy("early", log, order=1),
                Spy("first", log, before_iteration=True),
                late,
            ]
            run(engine, spies, 3, {}, init_rounds)
            if engine == "native":
                assert set(vars(unordered)) == {"name", "log"}
        assert logs["native"] == logs["lightgbm"]
        assert len(logs["native"]) == 15


def test_early_stopping_by_parameters() -> None:
    given: list[dict[str, Any]] = [
        {"early_stopping_round": 2},
        {"n_iter_no_change": 2},
        {"early_stopping_round": 3},
        {"early_stopping_round": 2, "early_stopping_min_delta": 0.3},
        {"early_stopping_round": 0},
        {"early_stopping_round": 50},
    ]
    for params in given:
        for init_rounds in (0, 4):
            theirs, ours = (run(engine, [], len(LOSSES), params, init_rounds) for engine in ("lightgbm", "native"))
            assert ours.best_iteration == theirs.best_iteration
            assert ours.best_score == theirs.best_score
    with pytest.raises(TypeError, match=r"early_stopping_round should be an integer\. Got 'str'"):
        run("native", [], 1, {"early_stopping_round": "2"})
