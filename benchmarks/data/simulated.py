"""The simulated table on which time and memory are measured."""

from __future__ import annotations

from typing import Any

import numpy as np


def insurance_like(n_rows: int, n_base: int = 20, n_optional: int = 10, seed: int = 0) -> tuple[Any, Any, list[int]]:
    """Return a float32 table of claims where the larger optional values are withheld more often."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_base + n_optional), dtype=np.float32)
    signal = X[:, :8].sum(axis=1) + X[:, n_base:].sum(axis=1) + 3 * rng.standard_normal(n_rows, dtype=np.float32)
    withheld = rng.random((n_rows, n_optional), dtype=np.float32) < 0.6 / (1 + np.exp(-X[:, n_base:]))
    X[:, n_base:][withheld] = np.nan
    return X, (signal > 0).astype(np.float32), list(range(n_base, n_base + n_optional))
