"""Law 2: with nothing optional, puc.train is lgb.train, for every argument lgb.train takes."""

from __future__ import annotations

import inspect
import itertools
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from tools import QUIET, make_table

import pucboost as puc


def squared_error(preds: Any, data: Any) -> tuple[Any, Any]:
    return preds - data.get_label(), np.ones_like(preds)


def mean_error(preds: Any, data: Any) -> tuple[str, float, bool]:
    return "mean_error", float(np.mean(preds - data.get_label())), False


def both(params: dict[str, Any], make: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    results = []
    for module in (lgb, puc):
        data = make()
        got = {k: (v(data) if callable(v) and k in ("valid_sets", "callbacks") else v) for k, v in kwargs.items()}
        results.append(module.train(dict(params), data, *args, **got))
    return results[0], results[1]


@pytest.mark.parametrize("function", ["train", "cv"])
def test_signature_is_lightgbms(function: str) -> None:
    theirs = inspect.signature(getattr(lgb, function)).parameters
    ours = inspect.signature(getattr(puc, function)).parameters
    assert [(p.name, p.default, p.kind) for p in ours.values()] == [
        (p.name, p.default, p.kind) for p in theirs.values()
    ]


COMBINATIONS = list(
    itertools.product(
        [{"objective": "binary"}, {"objective": "regression_l1", "bagging_fraction": 0.7, "bagging_freq": 2}],
        [{}, {"num_iterations": 7}, {"boosting": "dart", "n_estimators": 6}, {"data_sample_strategy": "goss"}],
        [{}, {"seed": 3, "max_bin": 31}],
        ["float64", "float32", "fortran", "pandas"],
    )
)


@pytest.mark.parametrize(("objective", "rounds", "extra", "container"), COMBINATIONS)
def test_same_model(objective: dict[str, Any], rounds: dict[str, Any], extra: dict[str, Any], container: str) -> None:
    if "goss" in rounds.values() and "bagging_freq" in objective:
        objective = {"objective": "regression_l1"}
    X, y = make_table(400)
    X = {"float64": X, "float32": X.astype(np.float32), "fortran": np.asfortranarray(X), "pandas": pd.DataFrame(X)}[
        container
    ]
    plain, ours = both(
        {**QUIET, **objective, **rounds, **extra},
        lambda: lgb.Dataset(X, y, weight=np.abs(y) + 0.5, free_raw_data=False),
        10,
    )
    assert ours.model_to_string() == plain.model_to_string()
    assert not hasattr(ours, "consent")


@pytest.mark.parametrize("params", [{"objective": "binary", "early_stopping_round": 3}, {"objective": squared_error}])
def test_same_model_with_validation_callbacks_and_init_model(params: dict[str, Any], tmp_path: Path) -> None:
    X, y = make_table(500)
    first = lgb.train({**QUIET, "objective": "binary"}, lgb.Dataset(X, y), 3)
    first.save_model(tmp_path / "first.txt")
    for init_model in (first, str(tmp_path / "first.txt"), tmp_path / "first.txt"):
        records: list[dict[str, Any]] = [{}, {}]
        boosters = [
            module.train(
                {**QUIET, **params},
                (data := lgb.Dataset(X[:300], y[:300], free_raw_data=False)),
                20,
                valid_sets=[data, lgb.Dataset(X[300:], y[300:], reference=data)],
                valid_names=["mine", "other"],
                feval=[mean_error],
                init_model=init_model,
                callbacks=[lgb.record_evaluation(record)],
            )
            for module, record in zip((lgb, puc), records, strict=True)
        ]
        assert boosters[0].model_to_string() == boosters[1].model_to_string()
        assert boosters[0].best_iteration == boosters[1].best_iteration
        assert records[0] == records[1]


@pytest.mark.parametrize("optional", [None, [], {}])
def test_empty_declaration_means_nothing_optional(optional: Any) -> None:
    X, y = make_table(300)
    plain = lgb.train({**QUIET}, lgb.Dataset(X, y), 5)
    ours = puc.train({**QUIET, "optional": optional}, puc.Dataset(X, y, optional=optional), 5)
    assert ours.model_to_string() == plain.model_to_string()


def test_ranking_linear_trees_and_files_pass_when_nothing_is_optional(tmp_path: Path) -> None:
    X, y = make_table(300)
    np.savetxt(tmp_path / "data.csv", np.column_stack([y, np.nan_to_num(X)]), delimiter=",")
    for params, make in [
        ({"objective": "lambdarank"}, lambda: lgb.Dataset(X, y, group=[100, 200])),
        ({"linear_tree": True}, lambda: lgb.Dataset(np.nan_to_num(X), y)),
        ({}, lambda: lgb.Dataset(str(tmp_path / "data.csv"))),
    ]:
        plain, ours = both({**QUIET, **params}, make, 5)
        assert ours.model_to_string() == plain.model_to_string()


def test_cv_is_lightgbms_when_nothing_is_optional() -> None:
    X, y = make_table(400)
    params = {**QUIET, "objective": "binary"}
    plain, ours = (m.cv(params, lgb.Dataset(X, y), 6, nfold=3, eval_train_metric=True, seed=5) for m in (lgb, puc))
    assert plain == ours


def test_keep_training_booster() -> None:
    X, y = make_table(300)
    for optional in ([], [5]):
        booster = puc.train({**QUIET, "optional": optional}, lgb.Dataset(X, y), 3, keep_training_booster=True)
        booster.update()
        assert booster.current_iteration() == 4
        assert booster.eval_train()
