"""How many threads are used: the number given, else that of OMP_NUM_THREADS, else one for small tables or all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import ThreadpoolController, threadpool_limits

import pucboost as puc
from pucboost import _common
from pucboost._common import VALUES_WORTH_THREADS, threads_for
from pucboost._engines import ENGINES
from pucboost._tables.sources import row_source, values_in

DEFAULT = 3
"""What OpenMP would use in these tests, however many cores there are."""
X = np.random.default_rng(0).normal(size=(300, 2))
Y = X.sum(axis=1)
X[::3, 1] = np.nan


@pytest.fixture(autouse=True)
def _default(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with threadpool_limits(DEFAULT, "openmp"):
        yield


OPENMP = ThreadpoolController().select(user_api="openmp")  # looked up once: audits ask for it thousands of times


def openmp() -> int:
    (threads,) = {library.num_threads for library in OPENMP.lib_controllers}
    return int(threads)


@contextmanager
def watched(*methods: tuple[Any, str]) -> Iterator[set[int]]:
    """Note how many threads OpenMP may use in every call of some methods."""
    seen: set[int] = set()

    def noting(call: Any) -> Any:
        def noted(*given: Any, **more: Any) -> Any:
            seen.add(openmp())
            with OPENMP.limit(limits=1):  # more would take minutes on a busy machine
                return call(*given, **more)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in methods:
            patch.setattr(owner, name, noting(getattr(owner, name)))
        yield seen


ENGINE_CALLS = [
    *((lgb.Booster, name) for name in ("update", "predict", "refit")),
    *((xgb.Booster, name) for name in ("update", "inplace_predict")),
    *((HistGradientBoostingRegressor, name) for name in ("fit", "predict")),
]


@cache
def model(kind: str = "lightgbm") -> Any:
    if kind == "other":
        return HistGradientBoostingRegressor(max_iter=2).fit(X, Y)
    anchored = {"anchor": HistGradientBoostingRegressor(max_iter=2).fit(X[:, :1], Y)} if kind == "anchored" else {}
    engine = "lightgbm" if anchored else kind
    return puc.train({"optional": [1], "verbosity": -1, "engine": engine, **anchored}, puc.Dataset(X, Y), 2)


def number(threads: int | None, name: str = "num_threads") -> dict[str, Any]:
    return {} if threads is None else {name: threads}


def trained(engine: str) -> Callable[[int | None], Any]:
    name = "nthread" if engine == "xgboost" else "n_jobs"
    params = {"engine": engine, "optional": [1], "verbosity": -1}
    return lambda threads: puc.train(params | number(threads, name), puc.Dataset(X, Y), 2, valid_sets=[(X, Y)])


JOBS: dict[str, Callable[[int | None], Any]] = {
    **{f"train, {engine}": trained(engine) for engine in ("lightgbm", "xgboost")},
    "train, anchored": lambda n: puc.train(
        {"optional": [1], "anchor": "base", "verbosity": -1, **number(n)}, (X, Y), 2, valid_sets=[(X, Y)]
    ),
    "cv": lambda n: puc.cv({"optional": [1], "verbosity": -1, **number(n)}, (X, Y), 2, nfold=2, stratified=False),
    "fit": lambda n: puc.PUCRegressor(optional=[1], n_estimators=2, n_jobs=n).fit(X, Y),
    "refit": lambda n: puc.refit(model(), X, Y, **number(n)),
    **{
        f"{ask.__name__}, {kind}": lambda n, ask=ask, kind=kind: ask(model(kind), X, **number(n))  # type: ignore[misc]
        for ask in (puc.predict, puc.quote, puc.sharing_value)
        for kind in ("lightgbm", "native", "anchored")
    },
    "sharing_effects": lambda n: puc.sharing_effects(model(), X, favourable="lower", **number(n)),
    "load_to_balance": lambda n: puc.load_to_balance(model(), X, Y, **number(n)),
    "estimator predicts": lambda n: puc.PUCRegressor(optional=[1], n_estimators=2, n_jobs=n).fit(X, Y).predict(X),
    "audit": lambda n: puc.audit(model(), X, Y, margin=0.5, folds=3, **number(n)),
    "audit, another model": lambda n: puc.audit(
        model("other").predict, X, Y, optional=[1], margin=0.5, folds=3, **number(n)
    ),
    "monitor": lambda n: puc.monitor(
        model(), X, Y, margin=0.5, previous=puc.monitor(model(), X, Y, margin=0.5, **number(n)), **number(n)
    ),
    "check": lambda n: puc.check(X, optional=[1], **number(n)),
}
WINS = {
    # given, OMP_NUM_THREADS, whether the table is large → threads
    (None, None, False): 1,
    (None, None, True): DEFAULT,
    (None, "2", False): 2,
    (None, "2", True): 2,
    (2, None, False): 2,
    (2, "4", True): 2,
}
SLOW = {"audit", "audit, another model", "monitor", "check"}
"""Jobs with many small fits, which take minutes with several threads on a busy machine."""


@pytest.mark.parametrize("job", JOBS)
def test_who_decides(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("lightgbm", "native", "anchored", "other"):
        model(kind)  # trained once, unwatched
    for (given, environment, large), threads in WINS.items():
        if job in SLOW and (large or environment):
            continue
        with monkeypatch.context() as patch, watched(*ENGINE_CALLS) as seen:
            if environment is not None:
                patch.setenv("OMP_NUM_THREADS", environment)
            if large:
                patch.setattr(_common, "VALUES_WORTH_THREADS", 1)
            JOBS[job](given)
        assert seen == {threads}, (given, environment, large)
    assert openmp() == DEFAULT


def test_threads_of_the_native_engine_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from pucboost._engines.native import engine as native

    seen: set[int] = set()
    crew = native.Crew
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    monkeypatch.setattr(native, "Crew", lambda threads: (seen.add(threads), crew(1))[1])

    def threads(**params: Any) -> set[int]:
        seen.clear()
        data, given = puc.Dataset(X, Y), {"engine": "native", "optional": [1], "verbosity": -1, **params}
        puc.train(given, data, 1, valid_sets=[(X, Y)])
        puc.cv(given, data, 1, nfold=2, stratified=False)
        return set(seen)

    assert threads() == {1}
    assert threads(n_jobs=2) == {2}
    assert threads(num_threads=0) == {8}
    with monkeypatch.context() as patch:
        patch.setattr(_common, "VALUES_WORTH_THREADS", X.size)
        assert threads() == {8}
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads() == {2}


def test_a_letter_takes_one_thread() -> None:
    with watched(*ENGINE_CALLS) as seen:
        puc.letter(model(), X[1:2], quantity="risk")
    assert seen <= {1}


def test_with_nothing_optional_the_default_is_lightgbms() -> None:
    with watched((lgb.Booster, "update")) as seen:
        puc.train({"verbosity": -1}, puc.Dataset(X, Y), 2)
    assert seen == {DEFAULT}


def test_what_is_given_wins_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [threads_for(None, VALUES_WORTH_THREADS - 1), threads_for(None, VALUES_WORTH_THREADS)] == [1, None]
    for environment, threads in {"7": 7, "6,2": 6, " 5 ": 5, "": 1, "many": 1, "0": 1}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
        assert threads_for(None, 10) == threads, environment
        assert [threads_for(given, 10) for given in (4, 0, -1)] == [4, 0, -1]


def test_work_is_measured_before_a_table_is_read() -> None:
    frame = pd.DataFrame(X)
    tables = [X, frame, X.tolist(), frame.to_dict("records"), xgb.DMatrix(X), row_source(frame)]
    assert [values_in(table) for table in tables] == [X.size] * len(tables)
    assert [values_in(table) for table in ("people.parquet", [], X[0])] == [np.inf] * 3


@pytest.mark.parametrize("engine", ENGINES)
def test_models_do_not_depend_on_threads(engine: str) -> None:
    """Also where the last bits of a sum depend on its order: outcomes over many orders of magnitude, enough rows."""
    rng = np.random.default_rng(1)
    people = rng.normal(size=(30_000, 4))
    amount = np.exp(3 * rng.normal(size=len(people)) + people.sum(axis=1))
    people[rng.random(people.shape) < 0.3] = np.nan
    params = {"engine": engine, "objective": "regression", "optional": [2, 3], "verbosity": -1, "copies": 2}
    one, *others = (
        puc.train({**params, "num_threads": threads}, puc.Dataset(people, amount), 5) for threads in (1, 2, 3)
    )
    for other in others:
        np.testing.assert_array_equal(puc.predict(other, people), puc.predict(one, people))


def test_workers_of_dask_get_as_many_threads_as_their_parts_are_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    from pucboost._dask.training import _params_of_workers

    client: Any = SimpleNamespace(nthreads=lambda: {"a": 4, "b": 6})
    where = {"a": [0], "b": [1, 2]}

    def threads(rows: int, **params: Any) -> Any:
        consent = SimpleNamespace(feature_names=["x"] * 10)
        plan: Any = SimpleNamespace(part_rows=(rows, rows, rows), consent=consent)
        return _params_of_workers(client, params, where, plan)

    per_part = VALUES_WORTH_THREADS // 20  # two parts of ten columns are worth all threads of a worker
    assert threads(per_part - 1) == {"num_threads": 1}
    assert threads(per_part) == {"num_threads": 4}
    assert threads(10, nthread=3) == {"nthread": 3}
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads(10) == threads(per_part) == {"num_threads": 2}
