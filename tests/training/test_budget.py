"""How many virtual rows there may be, and how many there are."""

from __future__ import annotations

import logging
from typing import Any

import lightgbm as lgb
import pytest
from engine_kits import OPTIONAL
from tools import QUIET, make_table

import pucboost as puc

PARAMS: dict[str, Any] = {**QUIET, "objective": "binary", "optional": OPTIONAL}


def test_balanced_reduces_copies_to_the_budget_and_says_so() -> None:
    X, y = make_table(1_000)
    with pytest.warns(
        UserWarning, match=r"copies = 4 would make .* max_virtual_rows = 1,500; copies is reduced to 1\.4"
    ):
        booster = puc.train({**PARAMS, "max_virtual_rows": 1_500}, lgb.Dataset(X, y), 2)
    assert 1_300 < booster.puc_summary.virtual_rows <= 1_500


def test_default_budget_depends_on_memory(monkeypatch: Any) -> None:
    X, y = make_table(1_000)
    monkeypatch.setattr("pucboost._training.job._memory_bytes", lambda: 200_000.0)
    with pytest.warns(UserWarning, match="copies is reduced"):
        puc.train(PARAMS, lgb.Dataset(X, y), 2)


def test_budget_of_training_does_not_refuse_a_validation_set() -> None:
    X, y = make_table(1_000)
    params = {**PARAMS, "augmentation": "fixed", "max_virtual_rows": 300}
    puc.train(params, lgb.Dataset(X[:300], y[:300]), 2, valid_sets=[lgb.Dataset(X[300:], y[300:])])


def test_plan_is_logged_in_one_line(caplog: Any) -> None:
    X, y = make_table(500)
    with caplog.at_level(logging.INFO, logger="pucboost"):
        puc.train({**PARAMS, "copies": 2}, lgb.Dataset(X, y), 1, valid_sets=[lgb.Dataset(X, y)])
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].startswith("training: augmentation=balanced seed=0: 500 rows -> ")
    for part in ("virtual rows", "rows complete", "effective sample size"):
        assert part in lines[0]
