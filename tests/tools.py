"""What several test files need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from engine_kits import LIGHTGBM

QUIET = LIGHTGBM.quiet


def make_table(
    n: int = 600, n_base: int = 3, n_optional: int = 3, seed: int = 0, dtype: Any = np.float64
) -> tuple[Any, Any]:
    """A table whose optional columns (the last ones) are withheld the more, the larger their value."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_base + n_optional)).astype(dtype)
    y = (X.sum(axis=1) + rng.normal(size=n) > 0).astype(np.float64)
    withheld = rng.random((n, n_optional)) < 1 / (1 + np.exp(-2 * X[:, n_base:]))
    X[:, n_base:][withheld] = np.nan
    return X, y


def table_training(
    params: dict[str, Any], X: Any, y: Any, rounds: int, *, sample_weight: Any = None, seed: int = 0
) -> lgb.Booster:
    """The oracle of law 3 for LightGBM, with ``params`` as they would go to puc.train."""
    return LIGHTGBM.fit_table(X, y, rounds, mask_seed=seed, weight=sample_weight, **{"objective": "l2", **params})


# For scripts in processes of their own. Not getrusage: there a new process inherits its parent's peak.
PEAK_MEMORY = """
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024  # MB
"""


def skip_without_peak_memory() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("no peak of memory here")
