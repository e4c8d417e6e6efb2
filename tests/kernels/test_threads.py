"""How many threads are used where nobody gives a number: one for small tables, all cores for others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

import pucboost as puc
from pucboost import _common
from pucboost._common import VALUES_WORTH_THREADS, threads_for
from pucboost._engines import ENGINES

DEFAULT = 3
"""What OpenMP would use in these tests, however many cores there are."""
SMALL = np.random.default_rng(0).normal(size=(300, 2))


@pytest.fixture(autouse=True)
def _default(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with threadpool_limits(DEFAULT, "openmp"):
        yield


def openmp() -> int:
    (threads,) = {library["num_threads"] for library in ThreadpoolController().select(user_api="openmp").info()}
    return int(threads)


@contextmanager
def watched(owner: Any, name: str) -> Iterator[list[int]]:
    """Note how many threads OpenMP may use in every call of a method."""
    seen: list[int] = []
    call = getattr(owner, name)

    def noting(*given: Any, **more: Any) -> Any:
        seen.append(openmp())
        return call(*given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, noting)
        yield seen


@pytest.mark.parametrize("engine", ENGINES)
def test_small_trainings_take_one_thread_unless_a_number_is_given(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pucboost._engines.native import engine as native

    seen: set[int] = set()
    crew = native.Crew
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    monkeypatch.setattr(native, "Crew", lambda threads: (seen.add(threads), crew(1))[1])

    def feval(*_: Any) -> Any:
        if engine != "native":  # which has threads of its own
            seen.add(openmp())
        return ("nothing", 0.0) if engine == "xgboost" else ("nothing", 0.0, True)

    def threads(**params: Any) -> set[int]:
        seen.clear()
        data, given = puc.Dataset(SMALL, SMALL[:, 0]), {"engine": engine, "optional": [1], "verbosity": -1, **params}
        puc.train(given, data, 1, valid_sets=[(SMALL, SMALL[:, 0])], feval=feval)
        puc.cv(given, data, 1, nfold=2, stratified=False, feval=feval)
        return set(seen)

    all_cores = {8} if engine == "native" else {DEFAULT}
    assert threads() == {1}
    assert threads(**{"nthread" if engine == "xgboost" else "n_jobs": 2}) == {2}
    assert threads(num_threads=0) == all_cores
    with monkeypatch.context() as patch:
        patch.setattr(_common, "VALUES_WORTH_THREADS", SMALL.size)
        assert threads() == all_cores
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads() == {2}


def test_predictions_of_few_people_take_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    model = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(SMALL, SMALL.sum(axis=1)), 2)
    estimator = puc.PUCRegressor(optional=[1], n_estimators=2).fit(SMALL, SMALL.sum(axis=1))
    for ask in (puc.predict, puc.quote, puc.sharing_value):
        for booster in (model, estimator):
            with watched(lgb.Booster, "predict") as seen:
                ask(booster, SMALL)
            assert set(seen) == {1}
    monkeypatch.setattr(_common, "VALUES_WORTH_THREADS", SMALL.size)
    with watched(lgb.Booster, "predict") as seen:
        puc.predict(model, SMALL)
    assert set(seen) == {DEFAULT}


def test_audits_and_refits_of_few_people_take_one_thread() -> None:
    X = SMALL.copy()
    X[::3, 1] = np.nan
    y = SMALL.sum(axis=1)
    model = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, y), 2)
    with watched(lgb.Booster, "update") as seen:
        puc.audit(model, X, y, margin=0.5, folds=3)
    assert set(seen) == {1}
    with watched(lgb.Booster, "refit") as seen:
        puc.refit(model, X, y)
        puc.refit(model, X, y, num_threads=2)
    assert seen == [1, 2]


def test_with_nothing_optional_the_default_is_lightgbms() -> None:
    with watched(lgb.Booster, "update") as seen:
        puc.train({"verbosity": -1}, puc.Dataset(SMALL, SMALL[:, 0]), 2)
    assert set(seen) == {DEFAULT}


def test_what_is_given_wins_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [threads_for(None, VALUES_WORTH_THREADS - 1), threads_for(None, VALUES_WORTH_THREADS)] == [1, None]
    for environment, threads in {"7": 7, "6,2": 6, " 5 ": 5, "": 1, "many": 1, "0": 1}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
        assert threads_for(None, 10) == threads, environment
        assert [threads_for(given, 10) for given in (4, 0, -1)] == [4, 0, -1]
