"""What several test files need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import pucboost as puc

# Two identical calls must give identical bits, whatever the thread count.
QUIET = {"verbosity": -1, "num_threads": 2, "deterministic": True, "force_row_wise": True}


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
    params: dict[str, Any], X: Any, y: Any, rounds: int, *, sample_weight: Any = None, seed: int = 0, **dataset: Any
) -> lgb.Booster:
    """The oracle of law 3: materialise the virtual table with puc.augment and give it to plain lgb.train.

    Row sampling is set by hand here, as DESIGN says: a random N of the virtual rows for every tree.
    """
    own = {k: params[k] for k in ("optional", "augmentation", "copies") if k in params}
    engine = {k: v for k, v in params.items() if k not in own}
    X_aug, y_aug, weight, _ = puc.augment(X, y, seed=seed, sample_weight=sample_weight, **own)
    if len(y_aug) > len(y):
        fraction = len(y) / len(y_aug)
        # At one half and below LightGBM copies each bag; pucboost stays just above.
        engine["bagging_fraction"] = 0.5 + 2 / len(y_aug) if 0.49 <= fraction <= 0.5 and len(y_aug) > 100 else fraction
        engine["bagging_freq"] = 1
    return lgb.train(engine, lgb.Dataset(X_aug, y_aug, weight=weight, **dataset), rounds)


# For scripts in processes of their own. Not getrusage: there a new process inherits its parent's peak.
PEAK_MEMORY = """
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024  # MB
"""


def skip_without_peak_memory() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("no peak of memory here")
