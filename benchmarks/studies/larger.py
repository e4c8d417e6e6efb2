"""Tables larger than memory: training from a folder of Parquet files, what it takes of memory and disk.

Every training has a process of its own. Its memory is private memory (RssAnon), looked at 200 times a second: pages of
mapped files, the temporary matrix among them, are given back to the system when it needs them.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import insurance_like
from benchmarks.harness.study import ROOT, THREADS, Row, Unit

BASE, OPTIONAL, COPIES = 20, 10, 2
ROWS_PER_FILE = 500_000
LARGEST = "PUCBOOST_LARGEST"
"""If this variable is set, 10⁸ rows are trained on, too, from external memory: some 15 GiB of memory, 60 GB of disk."""

_CHILD = """
import json, sys, threading, time
from pathlib import Path
import numpy as np, pucboost as puc
from pucboost._engines import engine_named
from benchmarks.harness.measuring import resident

given = json.loads(sys.argv[1])
columns, external = given["columns"], given["params"].get("external_memory")
params = {"objective": "binary", "num_threads": given["threads"], "max_virtual_rows": 2**31 - 1, **given["params"]}
if params["engine"] == "lightgbm":
    params["verbosity"] = -1
engine = engine_named(params["engine"])
small = np.random.default_rng(0).normal(size=(500, columns)).astype(np.float32)
optional = list(range(columns - len(params["optional"]), columns))
puc.train({**params, "optional": optional}, puc.Dataset(small, np.arange(500) % 2), 1)  # compile
before = largest = resident("RssAnon")
cache, rounds, running = 0, [], True

def watch():
    global largest, cache
    while running:
        largest = max(largest, resident("RssAnon"))
        if external:
            cache = max(cache, sum(file.stat().st_size for file in Path(external).rglob("*.page")))
        time.sleep(0.005)

watching = threading.Thread(target=watch)
watching.start()
start = time.perf_counter()
try:
    callback = engine.progress_callback(lambda share: rounds.append(time.perf_counter() - start), given["rounds"])
    booster = puc.train(params, puc.Dataset(given["people"], "claim"), given["rounds"], callbacks=[callback])
finally:
    running = False
watching.join()
folder = None if external is None else Path(external)
per_row = engine.prepare(params, {}, 1, {"external_memory": folder}).bytes_per_virtual_row(columns)
print(json.dumps({
    "rows": booster.puc_summary.virtual_rows, "bytes": (largest - before) * 1024, "cache": cache, "estimate": per_row,
    "first": rounds[0], "further": float(np.median(np.diff(rounds))),
}))
"""

_XGBOOST: dict[str, Any] = {"engine": "xgboost", "learning_rate": 0.3, "max_depth": 6}
MODES: dict[str, dict[str, Any]] = {
    "LightGBM": {"engine": "lightgbm"},
    "LightGBM, by column": {"engine": "lightgbm", "force_col_wise": True},
    "XGBoost": _XGBOOST,
    "XGBoost, external memory": {**_XGBOOST, "external_memory": True},
}


def units(quick: bool) -> Iterator[Unit]:
    """List the trainings, by size."""
    sizes = [20_000] if quick else [1_000_000, 10_000_000]
    for n_rows in sizes:
        for mode in MODES:
            yield Unit({"rows": n_rows, "engine": mode}, functools.partial(_measure, n_rows, mode, 5))
    if os.environ.get(LARGEST) and not quick:
        mode = "XGBoost, external memory"
        yield Unit({"rows": 10**8, "engine": mode}, functools.partial(_measure, 10**8, mode, 3))


def _measure(n_rows: int, mode: str, rounds: int) -> list[Row]:
    people = _people(n_rows)
    with tempfile.TemporaryDirectory(prefix="pucboost-larger-") as cache:
        params = {**MODES[mode], "optional": [f"z{j}" for j in range(OPTIONAL)], "copies": COPIES}
        if "external_memory" in params:
            params["external_memory"] = cache
        job = {
            "people": people, "params": params, "rounds": rounds, "threads": THREADS, "columns": BASE + OPTIONAL,
        }  # fmt: skip
        done = subprocess.run([sys.executable, "-c", _CHILD, json.dumps(job)], capture_output=True, text=True, cwd=ROOT)
        left = list(Path(cache).iterdir())
    if done.returncode or left:
        raise RuntimeError(done.stderr or f"left on the disk: {left}")
    found = json.loads(done.stdout)
    on_disk = sum(file.stat().st_size for file in Path(people).iterdir())
    return [
        {
            "virtual rows": found["rows"],
            "rounds": rounds,
            "Parquet, GB": on_disk / 1e9,
            "matrix on the disk, GB": n_rows * (BASE + OPTIONAL) * 4 / 1e9,
            "bins on the disk, GB": found["cache"] / 1e9,
            "peak of memory, GiB": found["bytes"] / 2**30,
            "bytes per virtual row": found["bytes"] / found["rows"],
            "estimated": found["estimate"],
            "seconds until round 1 is done": found["first"],
            "seconds per further round": found["further"],
        }
    ]


@functools.cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="pucboost-larger-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.lru_cache(maxsize=1)  # one table is kept: the next one replaces it
def _people(n_rows: int) -> str:
    """Write people into a folder of Parquet files, and return its name."""
    shutil.rmtree(_folder() / "people", ignore_errors=True)
    (_folder() / "people").mkdir()
    names = [*(f"b{j}" for j in range(BASE)), *(f"z{j}" for j in range(OPTIONAL))]
    for number, start in enumerate(range(0, n_rows, ROWS_PER_FILE)):
        X, y, _ = insurance_like(min(ROWS_PER_FILE, n_rows - start), BASE, OPTIONAL, seed=number)
        table = pa.table({"claim": y.astype("int8"), **{name: X[:, j] for j, name in enumerate(names)}})
        pq.write_table(table, _folder() / "people" / f"{number:05}.parquet")
    return str(_folder() / "people")


def table(rows: list[dict[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Return one line per training, rounded."""
    formats = {
        "rows": ",.0f",
        "engine": "",
        "virtual rows": ",.0f",
        "rounds": "",
        "Parquet, GB": ".1f",
        "matrix on the disk, GB": ".1f",
        "bins on the disk, GB": ".1f",
        "peak of memory, GiB": ".1f",
        "bytes per virtual row": ".0f",
        "estimated": "",
        "seconds until round 1 is done": ".0f",
        "seconds per further round": ".1f",
    }
    return list(formats), [
        [format(float(row[name]), how) if how else row[name] for name, how in formats.items()] for row in rows
    ]
