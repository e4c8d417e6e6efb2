"""Log odds of the label: sums of evidence, and the probabilities they stand for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def expit(x: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(−x)) without overflow, and without a warning for NaN and infinities."""
    return np.asarray(np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x))))


def log_ratio(likelihood: FloatArray) -> FloatArray:
    """Return log(p(· | Y=1) / p(· | Y=0)), y being the last axis; infinite where one class is ruled out."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(likelihood[..., 1]) - np.log(likelihood[..., 0])


def total_log_odds(start: float | FloatArray, *evidence: FloatArray) -> FloatArray:
    """Sum log odds over features; NaN where both classes are ruled out, so that the row has probability zero."""
    with np.errstate(invalid="ignore"):
        return np.asarray(start + sum(part.sum(axis=1) for part in evidence))
