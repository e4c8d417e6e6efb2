"""Gradient and hessian of the losses in single precision, many rows at once.

The losses are those of :mod:`pucboost._kernels.losses`. Raw scores are relative to ``start``, so that a large constant
costs no precision. The loops are simple enough to become vector instructions, and for that values are first gathered
into short arrays (:func:`take`). Exponents are kept within ±60: e⁶⁰ times any sensible weight is finite.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import float32, float64, int32, types, uint64
from numba.extending import intrinsic

from ..._arrays import Array
from ..compiling import kernel

LARGEST_EXPONENT = 60.0

_VECTORS: Any = {"error_model": "numpy", "fastmath": {"contract"}}
"""Divisions that cannot raise, and products that are added in one instruction."""


def _bits_as_float(typing_context: Any, bits: Any) -> Any:
    """Return the single-precision number that has the given 32 bits."""

    def instruction(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), instruction


_as_float: Any = intrinsic(_bits_as_float)


@kernel(**_VECTORS)
def exponential(x: Any) -> Any:
    """eˣ in single precision, by a polynomial: e^(k·log 2 + r) = 2ᵏ·e^r with |r| ≤ ½ log 2; relative error < 2·10⁻⁷.

    log 2 is subtracted in two parts, of which the first has few digits, so that r is exact. The coefficients are those
    of a minimax polynomial, which are close to 1/n!.
    """
    x = min(max(x, float32(-LARGEST_EXPONENT)), float32(LARGEST_EXPONENT))
    k = np.floor(x * float32(1.4426950408889634) + float32(0.5))
    r = x - k * float32(0.693359375) + k * float32(2.12194440e-4)
    tail = float32(1.9875691500e-4)
    tail = tail * r + float32(1.3981999507e-3)
    tail = tail * r + float32(8.3334519073e-3)
    tail = tail * r + float32(4.1665795894e-2)
    tail = tail * r + float32(1.6666665459e-1)
    tail = tail * r + float32(5.0000001201e-1)
    return (tail * (r * r) + r + float32(1.0)) * _as_float((int32(k) + int32(127)) << int32(23))


@kernel(**_VECTORS)
def take(values: Array, index: Array, out: Array) -> None:
    """out[q] = values[index[q]]."""
    for q in range(uint64(out.size)):
        out[q] = values[uint64(index[q])]


@kernel(**_VECTORS)
def squared_error(
    score: Array, label: Array, weight: Array, start: float, _: Any, gradient_out: Array, hessian_out: Array
) -> None:
    """Gradient s − y, hessian 1."""
    for q in range(uint64(score.size)):
        gradient_out[q] = weight[q] * (score[q] - float32(float64(label[q]) - start))
        hessian_out[q] = weight[q]


@kernel(**_VECTORS)
def logistic(
    score: Array, label: Array, weight: Array, start: float, _: Any, gradient_out: Array, hessian_out: Array
) -> None:
    """Gradient p − y = p·(1 − y) − (1 − p)·y, hessian p·(1 − p), from e^(−|s|): no score is too large."""
    one = float32(1.0)
    for q in range(uint64(score.size)):
        s = float32(start) + score[q]
        e = exponential(-abs(s))
        larger = one / (one + e)
        smaller = e * larger
        p = larger if s >= 0 else smaller
        not_p = smaller if s >= 0 else larger
        gradient_out[q] = weight[q] * (p * (one - label[q]) - not_p * label[q])
        hessian_out[q] = weight[q] * (larger * smaller)


@kernel(**_VECTORS)
def poisson(
    score: Array, label: Array, weight: Array, start: float, enlarge: Any, gradient_out: Array, hessian_out: Array
) -> None:
    """Gradient eˢ − y, hessian eˢ·e^max_delta_step; ``enlarge`` is the second factor."""
    for q in range(uint64(score.size)):
        mean = exponential(float32(start) + score[q])
        gradient_out[q] = weight[q] * (mean - label[q])
        hessian_out[q] = weight[q] * (mean * float32(enlarge))


@kernel(**_VECTORS)
def gamma(
    score: Array, label: Array, weight: Array, start: float, _: Any, gradient_out: Array, hessian_out: Array
) -> None:
    """Gradient 1 − y·e⁻ˢ, hessian y·e⁻ˢ."""
    for q in range(uint64(score.size)):
        ratio = label[q] * exponential(-(float32(start) + score[q]))
        gradient_out[q] = weight[q] * (float32(1.0) - ratio)
        hessian_out[q] = weight[q] * ratio


@kernel(**_VECTORS)
def tweedie(
    score: Array, label: Array, weight: Array, start: float, power: Any, gradient_out: Array, hessian_out: Array
) -> None:
    """Gradient e^((2−ρ)s) − y·e^((1−ρ)s), hessian (2−ρ)·e^((2−ρ)s) − (1−ρ)·y·e^((1−ρ)s)."""
    above = float32(2.0 - power)
    below = float32(1.0 - power)
    for q in range(uint64(score.size)):
        s = float32(start) + score[q]
        upper = exponential(above * s)
        lower = label[q] * exponential(below * s)
        gradient_out[q] = weight[q] * (upper - lower)
        hessian_out[q] = weight[q] * (above * upper - below * lower)


@kernel(**_VECTORS)
def quantile(
    score: Array, label: Array, weight: Array, start: float, alpha: Any, gradient_out: Array, hessian_out: Array
) -> None:
    """Gradient 1 − α if s ≥ y, else −α; hessian 1."""
    for q in range(uint64(score.size)):
        is_above = score[q] >= float32(float64(label[q]) - start)
        gradient_out[q] = weight[q] * (float32(1.0 - alpha) if is_above else float32(-alpha))
        hessian_out[q] = weight[q]


@kernel(**_VECTORS)
def raise_to(score: Array, start: float, largest_out: Array) -> None:
    """The larger of what is there and the score of one more class."""
    for q in range(uint64(score.size)):
        largest_out[q] = max(largest_out[q], float32(start) + score[q])


@kernel(**_VECTORS)
def add_exponentials(score: Array, start: float, largest: Array, total_out: Array) -> None:
    """Add e^(s − largest score) of one more class."""
    for q in range(uint64(score.size)):
        total_out[q] += exponential(float32(start) + score[q] - largest[q])


@kernel(**_VECTORS)
def softmax(
    score: Array,
    label: Array,
    weight: Array,
    start: float,
    factor: float,
    largest: Array,
    total: Array,
    class_index: int,
    gradient_out: Array,
    hessian_out: Array,
) -> None:
    """One class: gradient p − 1[y is the class], hessian factor·p·(1 − p), where p = e^(s − largest) / total."""
    one = float32(1.0)
    for q in range(uint64(score.size)):
        p = exponential(float32(start) + score[q] - largest[q]) / total[q]
        gradient_out[q] = weight[q] * (p - one if label[q] == float32(class_index) else p)
        hessian_out[q] = weight[q] * (float32(factor) * p * (one - p))


SQUARED_ERROR, LOGISTIC, POISSON, GAMMA, TWEEDIE, QUANTILE, SOFTMAX = range(7)
"""Numbers of the losses."""


@kernel(**_VECTORS)
def _add_up_classes(
    scores: Array, rows: Array, start: Array, score: Array, largest_out: Array, total_out: Array
) -> None:
    """Write the largest score of each row, and the sum of e^(score − largest) over the classes."""
    for q in range(uint64(rows.size)):
        largest_out[q], total_out[q] = float32(-np.inf), float32(0.0)
    for k in range(scores.shape[0]):
        take(scores[k], rows, score)
        raise_to(score, start[k], largest_out)
    for k in range(scores.shape[0]):
        take(scores[k], rows, score)
        add_exponentials(score, start[k], largest_out, total_out)


@kernel(**_VECTORS)
def fill_gradients(
    loss: int,
    constant: float,
    start: Array,
    scores: Array,
    label: Array,
    weight: Array,
    rows: Array,
    people: Array,
    lo: int,
    hi: int,
    class_index: int,
    room: Array,
    largest: Array,
    total: Array,
    gradient_out: Array,
    hessian_out: Array,
) -> None:
    """Write weight × gradient and weight × hessian of the picks lo … hi − 1.

    ``room`` has three rows for scores, labels and weights of some picks at a time, which stay in the caches, and one
    more. ``largest`` and ``total`` are for softmax, for which class 0 must come first: what the classes of a row have
    in common is kept for the others.
    """
    k = class_index
    for at in range(lo, hi, room.shape[1]):
        end = min(at + room.shape[1], hi)
        n = end - at
        s, y, w = room[0, :n], room[1, :n], room[2, :n]
        take(scores[k], rows[at:end], s)
        take(label, people[at:end], y)
        take(weight, people[at:end], w)
        g, h = gradient_out[at:end], hessian_out[at:end]
        if loss == SQUARED_ERROR:
            squared_error(s, y, w, start[k], constant, g, h)
        elif loss == LOGISTIC:
            logistic(s, y, w, start[k], constant, g, h)
        elif loss == POISSON:
            poisson(s, y, w, start[k], constant, g, h)
        elif loss == GAMMA:
            gamma(s, y, w, start[k], constant, g, h)
        elif loss == TWEEDIE:
            tweedie(s, y, w, start[k], constant, g, h)
        elif loss == QUANTILE:
            quantile(s, y, w, start[k], constant, g, h)
        elif loss == SOFTMAX:
            if k == 0:
                _add_up_classes(scores, rows[at:end], start, room[3, :n], largest[at:end], total[at:end])
            softmax(s, y, w, start[k], constant, largest[at:end], total[at:end], k, g, h)
