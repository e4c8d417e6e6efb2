"""From raw scores to predictions, against formulas; ``engines/test_trees.py`` compares them with the engines."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from twins import trees as naive_trees

from pucboost._kernels import leaf_sets as links

RAW = np.concatenate([np.random.default_rng(0).normal(size=200) * 5, [0.0, -0.0, 80.0, -80.0, 1e-20]])
EXACT = {"rtol": 0.0, "atol": 0.0}
SINGLE = {"rtol": 4 * float(np.finfo(np.float32).eps)}  # a few roundings
DIFFERENCES = {"rtol": 1e-5, "atol": 1e-30}  # e^(s − largest) for differences up to 80, rounded; the smallest become 0


def written(kernel: Any, raw: Any, *given: Any) -> Any:
    out = np.empty_like(raw)
    kernel(raw, *given, out)
    return out


@pytest.mark.parametrize("slope", [1.0, 0.3])
def test_logistic(slope: float) -> None:
    wanted = [naive_trees.logistic(score, slope) for score in RAW]
    np.testing.assert_allclose(written(links.logistic, RAW, slope), wanted, **EXACT)


def test_logistic_in_single_precision() -> None:
    raw = RAW.astype(np.float32)
    wanted = [naive_trees.logistic(float(score)) for score in raw]
    np.testing.assert_allclose(written(links.logistic_float32, raw), wanted, **SINGLE)
    far = written(links.logistic_float32, np.array([-1e4, 1e4], dtype=np.float32))
    assert 0 < far[0] < 1e-38  # nothing overflows
    assert far[1] == 1


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, EXACT), (np.float32, SINGLE)])
def test_exponential(dtype: Any, tolerance: dict[str, float]) -> None:
    raw = RAW.astype(dtype)
    np.testing.assert_allclose(written(links.exponential, raw), [math.exp(score) for score in raw], **tolerance)


def test_softplus() -> None:
    np.testing.assert_allclose(written(links.softplus, RAW), [naive_trees.softplus(score) for score in RAW], **EXACT)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, EXACT), (np.float32, DIFFERENCES)])
def test_softmax(dtype: Any, tolerance: dict[str, float]) -> None:
    raw = np.concatenate([RAW[:204].reshape(-1, 3), [[1e3, 0.0, -1e3]]]).astype(dtype)
    wanted = [naive_trees.softmax([float(score) for score in row]) for row in raw]
    np.testing.assert_allclose(written(links.softmax, raw), wanted, **tolerance)
