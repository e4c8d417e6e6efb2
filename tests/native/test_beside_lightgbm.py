"""LightGBM as the oracle: trees on plain data with nothing sampled, and the order of callbacks, trees and metrics."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import pucboost as puc

N = 3_000
TREES = 3
"""The first few: sooner or later two splits gain nearly the same, and rounding decides."""


def people(levels: int, rare: int, seed: int = 0) -> tuple[Any, Any]:
    """Return whole numbers, some missing, and categories; few values, so that each has a bin of its own.

    ``rare`` people have a category of their own, and a large outcome.
    """
    rng = np.random.default_rng(seed)
    X = np.column_stack([
        rng.integers(0, 40, N), rng.integers(0, 15, N), rng.integers(0, levels, N), rng.integers(0, 2, N),
    ]).astype(float)  # fmt: skip
    X[rng.random(N) < 0.3, 1] = np.nan
    X[rng.random(N) < 0.1, 3] = np.nan
    X[:rare, 2] = levels
    both = np.nan_to_num(X[:, 1], nan=-3.0) * np.nan_to_num(X[:, 3])
    signal = np.sin(X[:, 0] / 8) + 0.3 * both + 2 * np.cos(2 * X[:, 2])
    return X, signal + rng.normal(size=N) + 4 * (X[:, 2] == levels)


@pytest.mark.parametrize("levels", [2, 3, 4, 5, 12, 100])
def test_first_trees(levels: int) -> None:
    """Up to three categories, one against the others; else two sets. What gains nothing is not tried further down.

    A category without which 99 % of the people remain has no bin.
    """
    for objective in ("regression", "binary", "poisson"):
        if (levels, objective) != (100, "binary"):  # events of small categories: too many have the same means
            compare(levels, objective)
    # Rows are counted by hessians, and LightGBM rounds these numbers bin by bin: in small groups only squared error
    # agrees.
    for rare in (25, 60):
        compare(levels, "regression", rare)


def compare(levels: int, objective: str, rare: int = 0) -> None:
    X, y = people(levels, rare)
    label = {"regression": y, "binary": (y > 0).astype(float), "poisson": np.floor(np.exp(y / 2))}[objective]
    theirs, mine = (
        puc.train(
            {
                "engine": engine, "objective": objective, "optional": [3], "augmentation": "none", "num_leaves": 15,
                "learning_rate": 0.2, "min_data_per_group": 20, "num_threads": 1, "verbosity": -1, "seed": 1,
            },
            puc.Dataset(X, label, categorical_feature=[2]),
            TREES,
        ).trees_to_dataframe()
        for engine in ("lightgbm", "native")
    )  # fmt: skip
    splits, leaves = theirs.split_feature.notna(), theirs.split_feature.isna()
    assert 30 < splits.sum() <= TREES * 14
    for name in ("node_index", "split_feature", "count"):
        assert list(mine[name]) == list(theirs[name])
    by_set = splits & (theirs.decision_type == "==")
    assert by_set.any()
    assert list(mine.threshold[by_set]) == list(theirs.threshold[by_set])
    np.testing.assert_allclose(mine.split_gain[splits], theirs.split_gain[splits], rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(mine.value[leaves], theirs.value[leaves], rtol=1e-4, atol=1e-4)


# ----- rounds

LOSSES = [0.9, 0.5, 0.4, 0.41, 0.42, 0.43, 0.1]
"""The value of the metric in each round."""

FEW, LABELS = np.arange(60.0)[:, None], np.arange(60.0) % 7


def run(engine: str, callbacks: list[Any], rounds: int, params: dict[str, Any], init_rounds: int = 0) -> Any:
    """Train with a metric whose values are :data:`LOSSES`."""
    values = iter(LOSSES)
    train, dataset = (lgb.train, lgb.Dataset) if engine == "lightgbm" else (puc.train, puc.Dataset)
    given = {"verbosity": -1, "metric": "None", **params} | ({} if engine == "lightgbm" else {"engine": engine})
    return train(
        given,
        dataset(FEW, LABELS),
        rounds,
        valid_sets=[dataset(FEW, LABELS)],
        valid_names=["held out"],
        feval=lambda preds, data: ("loss", next(values), False),
        init_model=lgb.train({"verbosity": -1}, lgb.Dataset(FEW, LABELS), init_rounds) if init_rounds else None,
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
