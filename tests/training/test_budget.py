"""How many virtual rows there may be, and how many there are."""

from __future__ import annotations

import logging
from typing import Any

import lightgbm as lgb
import pytest
from engine_kits import LIGHTGBM, OPTIONAL
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
    rows = []
    for memory in (240_000.0, 320_000.0):
        monkeypatch.setattr("pucboost._training.steps.memory_bytes", lambda memory=memory: memory)
        with pytest.warns(UserWarning, match="copies is reduced"):
            rows.append(puc.train(PARAMS, lgb.Dataset(X, y), 2).puc_summary.virtual_rows)
    # Half of the memory, at 87 bytes a row: 6 bins by column and by row, since QUIET asks for that, and 75 for label,
    # weight, bag, score, gradients and the plan. The number of copies is drawn, so a little less is aimed at.
    assert 0.93 * 120_000 / 87 < rows[0] <= 120_000 / 87
    assert 0.93 * 160_000 / 87 < rows[1] <= 160_000 / 87
    monkeypatch.setattr("pucboost._training.steps.memory_bytes", lambda: 1.0)
    with pytest.warns(UserWarning, match="copies is reduced"):  # the people themselves are never refused
        assert puc.train(PARAMS, lgb.Dataset(X, y), 2).puc_summary.virtual_rows == 1_000


def test_budget_of_training_does_not_refuse_a_validation_set() -> None:
    """It has one row for each person then; with a larger budget, as many as the budget allows."""
    X, y = make_table(1_000)
    train, valid = lgb.Dataset(X[:300], y[:300]), lgb.Dataset(X[300:], y[300:])

    def size(preds: Any, data: Any) -> tuple[str, float, bool]:
        return "size", float(len(preds)), False

    def rows_of_validation(budget: int) -> Any:
        params = {**PARAMS, "augmentation": "fixed", "valid_augmentation": "balanced", "max_virtual_rows": budget}
        _, record = LIGHTGBM.fit_recorded(params, train, 2, [valid], None, size)
        return record["valid_0"]["size"]

    with pytest.warns(UserWarning, match="max_virtual_rows = 700; copies is reduced to 1"):
        assert rows_of_validation(300) == [700, 700]
    with pytest.warns(UserWarning, match="max_virtual_rows = 1,000; copies is reduced to 1"):
        first, second = rows_of_validation(1_000)
    assert 930 < first == second <= 1_000
    everything = len(puc.augment(X[300:], y[300:], optional=OPTIONAL, augmentation="exhaustive")[1])
    assert rows_of_validation(10_000) == [everything] * 2  # the default of copies covers them all


def test_plan_is_logged_in_one_line(caplog: Any) -> None:
    X, y = make_table(500)
    with caplog.at_level(logging.INFO, logger="pucboost"):
        puc.train({**PARAMS, "copies": 2}, lgb.Dataset(X, y), 1, valid_sets=[lgb.Dataset(X, y)])
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].startswith("training: augmentation=balanced seed=0: 500 rows -> ")
    for part in ("virtual rows", "rows complete", "effective sample size"):
        assert part in lines[0]
