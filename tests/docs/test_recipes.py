"""The recipes of the guide to several machines, where the package that they are for is installed.

None of these packages is needed by pucboost, so mostly nothing runs here. ``.ci/clusters`` installs them and runs this
file; Spark needs Java.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, code_blocks

GUIDE = ROOT / "docs/guides/scale.md"


def recipe(word: str) -> str:
    """Return the blocks of the guide that are about something, in order."""
    found = [block.code for block in code_blocks(GUIDE, "py") if word in block.code]
    assert found
    return "\n".join(found)


def run(script: str, folder: Path, **variables: str) -> str:
    """Run a script in a process of its own, and return what it printed last."""
    (folder / "recipe.py").write_text(script)
    where = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]), **variables}
    command = [sys.executable, "recipe.py"]
    done = subprocess.run(command, cwd=folder, env=where, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


PEOPLE = """
import numpy as np
import pandas as pd
import pucboost as puc

rng = np.random.default_rng(0)
age, glucose = rng.uniform(20, 80, 2_000), rng.normal(105, 18, 2_000)
y = (rng.random(2_000) < 1 / (1 + np.exp(-0.04 * (age - 50) - 0.06 * (glucose - 105)))).astype(float)
glucose[rng.random(2_000) < 1 / (1 + np.exp((110 - glucose) / 8))] = np.nan
X, ids = pd.DataFrame({"age": age, "glucose": glucose}), np.arange(2_000)
columns, optional = ["age", "glucose"], ["glucose"]
"""

SPARK = """
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "300").getOrCreate()
)
table = spark.createDataFrame(X.assign(y=y, id=ids)).repartition(2, "id")
"""

SAME_ROWS = """
whole = puc.distributed.SharedPlan.agree([puc.distributed.SharedPlan.facts(X, y, optional=optional)], copies=2)
whole = whole.complete([whole.count(X, row_id=ids)])
rows, labels, weight, _ = whole.augment(X, y, row_id=ids)
wanted = rows.assign(y=labels, weight=weight)
both = [np.asarray(one.sort_values(list(wanted)), dtype=np.float64) for one in (augmented.toPandas(), wanted)]
np.testing.assert_array_equal(*both)
"""

SAME_MODEL = """
alone = puc.train({"engine": ENGINE, "objective": "binary", "optional": optional, "copies": 2}, (X, y), 100)
assert booster.consent == alone.consent
assert booster.puc_summary.virtual_rows == alone.puc_summary.virtual_rows
assert np.corrcoef(puc.predict(booster, X), puc.predict(alone, X))[0, 1] > 0.85
"""

SAME_FILE = """
import xgboost as xgb

loaded, plain = puc.load_model("model.ubj"), xgb.Booster(model_file="model.ubj")
assert loaded.consent == alone.consent
np.testing.assert_array_equal(puc.predict(loaded, X), puc.predict(booster, X))
np.testing.assert_array_equal(plain.predict(xgb.DMatrix(X)), puc.predict(booster, X))
"""


def test_spark(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    first, second, lightgbm, xgboost = (
        recipe(word) for word in ("def asked", "virtual_rows(batches)", "local_listen_port", "json.dumps(arguments)")
    )
    # LightGBM twice: Spark may use the same process again.
    script = "\n".join([
        PEOPLE, SPARK, first, second, SAME_ROWS,
        lightgbm, lightgbm, SAME_MODEL.replace("ENGINE", "'lightgbm'"),
        xgboost, SAME_MODEL.replace("ENGINE", "'xgboost'"), SAME_FILE,
        "print('all is well')",
    ])  # fmt: skip
    assert run(script, tmp_path, PYSPARK_PYTHON=sys.executable) == "all is well"


RAY = """
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
mixed = rng.permutation(2_000)  # so that parts are no slices of the table
table = ray.data.from_pandas([X.assign(y=y, id=ids).iloc[some] for some in (mixed[:700], mixed[700:])])
"""

RAYS_ROWS = """
parts = ray.get([worker.virtual_rows.remote(plan) for worker in workers])
assert min(len(rows) for rows, *_ in parts) > 500
whole = puc.distributed.SharedPlan.agree([puc.distributed.SharedPlan.facts(X, y, optional=optional)], copies=2)
whole = whole.complete([whole.count(X, row_id=ids)])
one = whole.augment(X, y, row_id=ids)
found, wanted = (
    np.sort(np.rec.fromarrays([np.nan_to_num(column, nan=-1) for column in columns]))
    for columns in (
        [np.concatenate([rows["age"] for rows, *_ in parts]), np.concatenate([rows["glucose"] for rows, *_ in parts]),
         *(np.concatenate([part[place] for part in parts]) for place in (1, 2))],
        [one[0]["age"], one[0]["glucose"], one[1], one[2]],
    )
)
np.testing.assert_array_equal(found, wanted)
booster = boosters[0]
np.testing.assert_array_equal(puc.predict(booster, X), puc.predict(boosters[1], X))
"""


def test_ray(tmp_path: Path) -> None:
    """The virtual rows are those of one machine, all workers have the same model, and its file is XGBoost's."""
    pytest.importorskip("ray.data")
    script = "\n".join([
        PEOPLE, RAY, recipe("@ray.remote"), RAYS_ROWS, SAME_MODEL.replace("ENGINE", "'xgboost'"), SAME_FILE,
        "print('all is well')",
    ])  # fmt: skip
    assert run(script, tmp_path, RAY_AUTH_MODE="disabled", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0") == "all is well"


ON_CLUSTER = """
import dask.array as da
from distributed import Client

with Client(cluster) as client:
    client.wait_for_workers(2, timeout=120)
    for engine in ("lightgbm", "xgboost"):
        params = {"engine": engine, "objective": "binary", "optional": [1]}
        rows, labels = da.from_array(X.to_numpy(), chunks=(500, 2)), da.from_array(y, chunks=500)
        booster = puc.dask.train(client, params, rows, labels, 5)
        assert booster.puc_summary.source_rows == 2_000
"""

# Like the real one, it has a copy of the script when it returns: the caller then removes its own.
SBATCH = """#!/bin/sh
cp "$1" "$0.$$"
setsid sh "$0.$$" >/dev/null 2>&1 &
echo "Submitted batch job $!"
"""

SCANCEL = """#!/bin/sh
kill -- "-$1"
"""


def test_slurm(tmp_path: Path) -> None:
    """With an sbatch that runs the script at once, on this machine."""
    pytest.importorskip("dask_jobqueue")
    for name, content in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    small = (
        recipe("SLURMCluster").replace("cores=16", "cores=1").replace('"64GB"', '"2GB"').replace("jobs=20", "jobs=2")
    )
    body = "\n".join([PEOPLE, small, ON_CLUSTER, "cluster.close()", "print('all is well')"])
    script = "def main():\n" + "\n".join(f"    {line}" for line in body.splitlines()) + "\n\nmain()\n"
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    assert run(script, tmp_path, PATH=path, DASK_DISTRIBUTED__DASHBOARD__LINK="") == "all is well"


def test_kubernetes(tmp_path: Path) -> None:
    """What the containers would run, as processes of this machine."""
    pytest.importorskip("dask_kubernetes")
    made, _, _ = recipe("make_cluster_spec").partition("cluster = KubeCluster")
    started = """
import subprocess, sys, os

def start(part, **variables):
    (container,) = spec["spec"][part]["spec"]["containers"]
    named = {"$(DASK_WORKER_NAME)": variables.get("NAME", ""), "0.0.0.0": "127.0.0.1", "8788": ":0"}
    program, *arguments = [named.get(one, one) for one in container["args"]]
    assert program == "dask"
    more = ["--port", "23786", "--dashboard-address", ":0"] if part == "scheduler" else []
    return subprocess.Popen([sys.executable, "-m", "dask", *arguments, *more], env={**os.environ, **variables})

cluster = "tcp://127.0.0.1:23786"
running = [start("scheduler")]
running += [start("worker", NAME=name, DASK_SCHEDULER_ADDRESS=cluster) for name in ("a", "b")]
try:
"""
    body = "\n".join(f"    {line}" for line in ON_CLUSTER.splitlines())
    end = "finally:\n    for process in reversed(running):\n        process.terminate()\n        process.wait()\n"
    assert run("\n".join([PEOPLE, made, started, body, end, "print('all is well')"]), tmp_path) == "all is well"
