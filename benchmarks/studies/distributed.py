"""Worker processes on one machine: what the order of partitions does to the model, and what the training costs.

Order: the binary family of the paper, whose truth is known, with partitions that are alike (shuffled) and that are not.
Cost: time and peak memory per worker at two copies, from the stream and from materialised virtual rows, against the
engines' own Dask interfaces on the same rows without consent. A worker's peak is counted from what it held before.
Scaling: one worker and two, with the same rows and with as many rows for each.
"""

from __future__ import annotations

import ctypes
import gc
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import lightgbm as lgb
import numpy as np
import xgboost.dask as xgb_dask
from distributed import Client, LocalCluster

import pucboost as puc
from benchmarks.data import insurance_like
from benchmarks.harness.measuring import median_ratio, resident
from benchmarks.harness.study import Row, Rows, Study, Table, Unit, as_it_is, part_of
from pucboost._engines import boosters_of
from pucboost.simulate import BinaryFamily, squared_puc_gap

ENGINES = ("lightgbm", "xgboost")
COPIES, LEAVES, RATE = 2, 31, 0.1
ORDER_ROWS, ORDER_ROUNDS = 50_000, 100
COST_ROWS, COST_COLUMNS, COST_ROUNDS = 1_000_000, (20, 10), 50
REPEAT = 2
NONE = "–"


def units(quick: bool) -> Iterator[Unit]:
    """List one unit per question and engine."""
    questions: dict[str, Callable[[str, bool], list[Row]]] = {"order": _orders, "cost": _costs, "scaling": _scaling}
    for question, answer in questions.items():
        for engine in ENGINES:
            yield Unit({"question": question, "engine": engine}, partial(answer, engine, quick))


def table(rows: Rows) -> Table:
    """Return one line per training, without the question."""
    columns, lines = as_it_is(rows)
    return columns[1:], [line[1:] for line in lines]


PAGE = part_of(
    table, "engine", "workers", "what", "rows", "plan", "squared PUC-gap ×10⁴", "penalty of the silent, points",
    "time, s", "times", "that of", "peak per worker, MB",
    lines=lambda line: NONE not in (line["plan"], line["penalty of the silent, points"]) or line["times"] != NONE,
)  # fmt: skip
STUDY = Study("distributed", units, table, page=PAGE, alone=True, seed="0")


@contextmanager
def _cluster(n_workers: int = 2) -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=None
        ) as cluster,
        Client(cluster) as client,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", puc.warnings.EncodedSilenceWarning)
        yield client


def _params(engine: str) -> dict[str, Any]:
    quiet = {"verbosity": -1} if engine == "lightgbm" else {"verbosity": 0}
    return {"engine": engine, "objective": "binary", "num_leaves": LEAVES, "learning_rate": RATE, **quiet}


def _as_collections(X: Any, y: Any) -> tuple[Any, Any]:
    step = -(-len(y) // 4)
    return da.from_array(X, chunks=(step, X.shape[1])), da.from_array(y, chunks=(step,))


def _persisted(client: Client, n: int) -> tuple[Any, Any, list[int]]:
    X, y, optional = insurance_like(n, *COST_COLUMNS)
    rows, labels = client.persist(list(_as_collections(X, y)))
    return rows, labels, optional


# ----- the order of partitions


def _half_without(X: Any, y: Any, column: int) -> Any:
    """People without a value in a column first, so that the first worker has none."""
    return np.argsort(~np.isnan(X[:, column]), kind="stable")


ORDERS: dict[str, Callable[[Any, Any, list[int]], Any]] = {
    "shuffled": lambda X, y, optional: np.arange(len(y)),
    "by what people share": lambda X, y, optional: np.argsort((~np.isnan(X[:, optional])).sum(axis=1), kind="stable"),
    "by label": lambda X, y, optional: np.argsort(y, kind="stable"),
    "one column absent from the first": lambda X, y, optional: _half_without(X, y, optional[0]),
}


def _orders(engine: str, quick: bool) -> list[Row]:
    n, rounds, orders = (3_000, 10, ["by what people share"]) if quick else (ORDER_ROWS, ORDER_ROUNDS, list(ORDERS))
    family = BinaryFamily.paper()
    people, test = family.sample(n, seed=0), family.sample(100_000, seed=1)
    optional = list(family.optional)
    truth = family.puc_prediction(test.X)
    silent = np.isnan(test.X[:, optional]).all(axis=1)

    def row(workers: int, order: str, plan: str, told: Any) -> Row:
        gap = f"{1e4 * squared_puc_gap(told, family, test.X):.1f}"
        penalty = f"{100 * float((np.asarray(told) - truth)[silent].mean()):+.2f}".replace("-", "−")
        return _row(workers, n, order, plan, gap=gap, penalty=penalty)

    params = {**_params(engine), "optional": optional, "copies": COPIES}
    local = puc.train({**params, "num_threads": 1}, (people.X, people.y), rounds)
    rows = [row(1, "no partitions", "one plan", puc.predict(local, test.X))]
    with _cluster() as client:
        for order in orders:
            placed = ORDERS[order](people.X, people.y, optional)
            booster = puc.dask.train(client, params, *_as_collections(people.X[placed], people.y[placed]), rounds)
            rows.append(row(2, f"partitions {order}", "one plan", puc.predict(booster, test.X)))
    placed = ORDERS["by what people share"](people.X, people.y, optional)
    halves = [puc.augment(people.X[half], people.y[half], optional=optional, copies=COPIES)
              for half in np.array_split(placed, 2)]  # fmt: skip
    X, y, weight = (np.concatenate([half[i] for half in halves]) for i in range(3))
    alone = {**_params(engine), "num_threads": 1, "bagging_freq": 1, "bagging_fraction": n / len(y)}
    each = puc.train(alone, puc.Dataset(X, y, weight=weight), rounds)
    told = boosters_of(each).predict(each, np.asarray(test.X, dtype=np.float32), raw_score=False)
    return [*rows, row(2, "partitions by what people share", "a plan per worker", told)]


# ----- time and memory


def _costs(engine: str, quick: bool) -> list[Row]:
    n, rounds = (4_000, 3) if quick else (COST_ROWS, COST_ROUNDS)
    plain = f"{engine}.dask, no consent"
    with _cluster() as client:
        rows, labels, optional = _persisted(client, n)
        jobs = {
            plain: partial(_plain, client, engine, rows, labels, None, rounds),
            "pucboost.dask, streamed": partial(_protected, client, engine, rows, labels, optional, rounds),
            f"{engine}.dask on virtual rows": partial(_materialised, client, engine, rows, labels, optional, rounds),
        }
        times, peaks = _in_turn({name: (client, job) for name, job in jobs.items()}, 1 if quick else REPEAT)
    return [
        _row(2, n, what, time=times[what], compared=(plain, times[plain]), memory=f"{peaks[what]:.0f}") for what in jobs
    ]


def _scaling(engine: str, quick: bool) -> list[Row]:
    n, rounds = (4_000, 3) if quick else (COST_ROWS, COST_ROUNDS)
    cases = {"half": (1, n // 2), "one": (1, n), "two": (2, n)}
    rows = []
    with _cluster(1) as alone, _cluster(2) as both:
        tables = {name: _persisted((alone, both)[workers - 1], many) for name, (workers, many) in cases.items()}
        for what in (f"{engine}.dask, no consent", "pucboost.dask, streamed"):
            jobs = {}
            for name, (workers, _) in cases.items():
                client, (X, y, optional) = (alone, both)[workers - 1], tables[name]
                if what.startswith("pucboost"):
                    jobs[name] = client, partial(_protected, client, engine, X, y, optional, rounds)
                else:
                    jobs[name] = client, partial(_plain, client, engine, X, y, None, rounds)
            times, peaks = _in_turn(jobs, 1 if quick else REPEAT)
            same, as_many = ("one worker, the same rows", times["one"]), ("one worker, half the rows", times["half"])
            for name, (workers, many), compared in (
                ("half", cases["half"], None), ("one", cases["one"], None), ("two", cases["two"], same),
                ("two", cases["two"], as_many),
            ):  # fmt: skip
                memory = f"{peaks[name]:.0f}"
                rows.append(_row(workers, many, what, time=times[name], compared=compared, memory=memory))
    return rows


def _in_turn(
    jobs: Mapping[str, tuple[Client, Callable[[], Any]]], repeat: int
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Return seconds, without a first turn, and the largest peak of a worker in MB beyond what it held before."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    peaks = dict.fromkeys(jobs, 0.0)
    for turn in range(repeat + 1):
        for name, (client, job) in jobs.items():
            took, peak = _measure(client, job)
            if turn:  # the first one also compiles
                times[name].append(took)
                peaks[name] = max(peaks[name], peak)
    return times, peaks


def _measure(client: Client, job: Callable[[], Any]) -> tuple[float, float]:
    """Return seconds, and the largest peak of a worker in MB beyond what it held before."""
    before = client.run(_reset_peak)
    start = time.perf_counter()
    with client.as_current():  # xgboost.dask asks the current one here and there
        job()
    took = time.perf_counter() - start
    peaks = client.run(partial(resident, "VmHWM"))
    return took, max((peaks[worker] - before[worker]) / 1024 for worker in before)


def _reset_peak() -> float:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # so that what earlier jobs freed counts as free
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def _protected(client: Client, engine: str, X: Any, y: Any, optional: list[int], rounds: int) -> Any:
    return puc.dask.train(client, {**_params(engine), "optional": optional, "copies": COPIES}, X, y, rounds)


def _plain(client: Client, engine: str, X: Any, y: Any, weight: Any, rounds: int) -> Any:
    if engine == "lightgbm":
        model = lgb.DaskLGBMClassifier(client=client, n_estimators=rounds, num_leaves=LEAVES, learning_rate=RATE,
                                       verbosity=-1)  # fmt: skip
        return model.fit(X, y, sample_weight=weight)
    matrix = xgb_dask.DaskQuantileDMatrix(client, X, y, weight=weight)
    params = {"objective": "binary:logistic", "max_leaves": LEAVES, "grow_policy": "lossguide", "max_depth": 0,
              "eta": RATE, "nthread": 1, "tree_method": "hist"}  # fmt: skip
    return xgb_dask.train(client, params, matrix, rounds)


def _materialised(client: Client, engine: str, X: Any, y: Any, optional: list[int], rounds: int) -> Any:
    """Virtual rows as a table of twice the size, in the engine's own interface; all of them in every tree."""
    parts = list(zip(X.to_delayed().ravel(), y.to_delayed().ravel(), strict=True))
    facts = client.gather([client.submit(_facts, *client.compute(part), optional, pure=False) for part in parts])
    plan = puc.distributed.SharedPlan.agree(facts, copies=COPIES)
    futures = [client.compute(part) for part in parts]
    counts = [client.submit(_count, part[0], number, plan, pure=False) for number, part in enumerate(futures)]
    plan = plan.complete(client.gather(counts))
    made = [client.submit(_augmented, *part, number, plan, pure=False) for number, part in enumerate(futures)]
    sizes, width = plan.part_virtual or (), X.shape[1]

    def column(place: int, dtype: Any, *more: int) -> Any:
        pieces = [
            da.from_delayed(_item(future, place), shape=(size, *more), dtype=dtype)
            for future, size in zip(made, sizes, strict=True)
        ]
        return da.concatenate(pieces, axis=0)

    return _plain(client, engine, column(0, np.float32, width), column(1, np.float32), column(2, np.float32), rounds)


def _facts(X: Any, y: Any, optional: list[int]) -> Any:
    return puc.distributed.SharedPlan.facts(X, y, optional=optional)


def _count(X: Any, number: int, plan: Any) -> Any:
    return plan.count(X, number, sample=False)


def _augmented(X: Any, y: Any, number: int, plan: Any) -> Any:
    return plan.augment(X, y, part=number)


def _item(future: Any, place: int) -> Any:
    import dask

    return dask.delayed(lambda made: made[place])(dask.delayed(future))


def _row(
    workers: int | str, n: int, what: str, plan: str = NONE, *, gap: str = NONE, penalty: str = NONE,
    time: list[float] | None = None, compared: tuple[str, list[float]] | None = None, memory: str = NONE,
) -> Row:  # fmt: skip
    return {
        "workers": str(workers),
        "what": what,
        "rows": f"{n:,}",
        "plan": plan,
        "squared PUC-gap ×10⁴": gap,
        "penalty of the silent, points": penalty,
        "time, s": f"{statistics.median(time):.1f}" if time else NONE,
        "times": f"{median_ratio(time, compared[1]):.2f}" if time and compared else NONE,
        "that of": compared[0] if compared else NONE,
        "peak per worker, MB": memory,
    }
