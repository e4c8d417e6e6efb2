"""The native engine grows the same trees whatever processor numba compiles for, and whichever version of it compiles.

``python tests/native/test_digests.py`` prints what stands below. It changes with the engine itself, never with numba,
the processor or the number of threads.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__

import pucboost as puc

GOLDEN = {
    "l2": "35129481fbaf70a3",
    "quantile": "975d67e7b2fcfc76",
    "binary": "8429df407f542c2f",
    "cross_entropy": "f9ad14e47f5f00fb",
    "poisson": "c11476a83db28de5",
    "gamma": "9ead244821900658",
    "tweedie": "1bada55a91aee343",
    "multiclass": "a7f1c2ff7b83b356",
}

LEVELS = {"x86-64-v2": "sse4_2", "x86-64-v3": "avx2", "x86-64-v4": "avx512vl"}
"""Levels of processors, each with one of the instructions that it brings."""


def digests(threads: int) -> dict[str, str]:
    """Train with each loss on numbers, categories and groups, and return the digests of the trees."""
    rng = np.random.default_rng(0)
    n = 3_000
    X = np.column_stack([rng.normal(size=(n, 5)), rng.integers(0, 9, n)])
    signal = X[:, 0] + X[:, 3] / 2 + (X[:, 5] == 3)
    outcome, mean = signal + rng.normal(size=n), np.exp(signal / 3)
    X[:, 1] = X[:, 1].round(1)
    X[rng.random(n) < 0.4, 3] = np.nan
    X[rng.random(n) < 0.5, 4] = np.nan
    labels = {
        "l2": outcome,
        "quantile": outcome,
        "binary": (outcome > 0) * 1.0,
        "cross_entropy": 1 / (1 + np.exp(-outcome)),
        "poisson": rng.poisson(mean) * 1.0,
        "gamma": rng.gamma(2, mean) + 1e-3,
        "tweedie": rng.poisson(mean) * rng.gamma(2, 1, n),
        "multiclass": np.digitize(outcome, [-1, 1]) * 1.0,
    }
    found = {}
    for objective, y in labels.items():
        params: dict[str, Any] = {"engine": "native", "objective": objective, "verbosity": -1, "num_threads": threads}
        params |= {"optional": {"a": [3], "b": [4]}, **({"num_class": 3} if objective == "multiclass" else {})}
        text = puc.train(params, puc.Dataset(X, y.round(6), categorical_feature=[5]), 20).model_to_string()
        trees = text[text.index("Tree=0") : text.index("end of trees")]
        found[objective] = hashlib.sha256(trees.encode()).hexdigest()[:16]
    return found


def printed(folder: Path, threads: int, **variables: str) -> dict[str, str]:
    """Return the digests of a process of its own, which compiles anew."""
    command = [sys.executable, __file__, str(threads)]
    where = {**os.environ, "NUMBA_CACHE_DIR": str(folder), **variables}
    done = subprocess.run(command, env=where, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def has(instructions: str) -> bool:
    info = Path("/proc/cpuinfo")
    return info.is_file() and instructions in info.read_text().split()


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="levels of x86-64")
@pytest.mark.parametrize("level", LEVELS)
def test_the_processor_does_not_matter(level: str, tmp_path: Path) -> None:
    if not has(LEVELS[level]):
        pytest.skip("this processor is older")
    # On the oldest, numpy uses nothing newer either.
    old = {"NPY_DISABLE_CPU_FEATURES": " ".join(__cpu_dispatch__)} if level == "x86-64-v2" else {}
    assert printed(tmp_path, 2, NUMBA_CPU_NAME=level, **old) == GOLDEN


if __name__ == "__main__":
    print(json.dumps(digests(int(sys.argv[1]) if len(sys.argv) > 1 else 1), indent=4))
