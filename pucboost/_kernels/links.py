"""From raw scores to predictions, operation by operation as the engines do it.

The type of the arrays is that of the engine's own sums: float64 or float32. Bits then agree as long as ``exp`` is the
one of the system's mathematical library, which both engines call too.
"""

from __future__ import annotations

import math

import numpy as np

from .._arrays import Array
from .compiling import kernel

_1F, _LARGEST, _TINY = np.float32(1.0), np.float32(88.7), np.float32(1e-16)


@kernel
def logistic(raw: Array, slope: float, response_out: Array) -> None:
    """1 / (1 + e^(−slope·s))."""
    for i in range(raw.size):
        response_out[i] = 1.0 / (1.0 + math.exp(-slope * raw[i]))


@kernel
def logistic_float32(raw: Array, response_out: Array) -> None:
    """1 / (1 + e^(−s)) in single precision, with XGBoost's guard against overflow."""
    for i in range(raw.size):
        response_out[i] = _1F / (math.exp(min(-raw[i], _LARGEST)) + _1F + _TINY)


@kernel
def exponential(raw: Array, response_out: Array) -> None:
    """eˢ."""
    for i in range(raw.size):
        response_out[i] = math.exp(raw[i])


@kernel
def softplus(raw: Array, response_out: Array) -> None:
    """log(1 + eˢ)."""
    for i in range(raw.size):
        response_out[i] = math.log1p(math.exp(raw[i]))


@kernel
def softmax(raw: Array, response_out: Array) -> None:
    """e^(s_k) / Σ e^(s_j), rows × classes; the sum is made in double precision."""
    for i in range(raw.shape[0]):
        largest = raw[i, 0]
        for k in range(1, raw.shape[1]):
            largest = max(largest, raw[i, k])
        total = 0.0
        for k in range(raw.shape[1]):
            response_out[i, k] = math.exp(raw[i, k] - largest)
            total += response_out[i, k]
        divisor = response_out.dtype.type(total)
        for k in range(raw.shape[1]):
            response_out[i, k] /= divisor
