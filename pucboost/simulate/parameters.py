"""Parameters of families: checked and kept read-only, or drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .checks import require
from .odds import FloatArray


def keep(family: Any, **parameters: FloatArray) -> None:
    """Set fields of a frozen dataclass."""
    for name, parameter in parameters.items():
        object.__setattr__(family, name, parameter)


def parameter(name: str, value: npt.ArrayLike, shape: tuple[int | None, ...]) -> FloatArray:
    """Return a read-only copy of a family's parameter; None in the shape means any length of at least 1."""
    array = np.array(value, dtype=np.float64)
    fits = array.ndim == len(shape) and all(
        length >= 1 and wanted in (None, length) for length, wanted in zip(array.shape, shape, strict=True)
    )
    wanted_text = ", ".join("any" if wanted is None else str(wanted) for wanted in shape)
    require(fits, f"{name} must have shape ({wanted_text}), got {array.shape}")
    require(bool(np.isfinite(array).all()), f"{name} must be finite")
    array.setflags(write=False)
    return array


def probabilities(name: str, value: npt.ArrayLike, shape: tuple[int | None, ...]) -> FloatArray:
    """Return a read-only copy of a parameter whose entries are probabilities."""
    array = parameter(name, value, shape)
    outside = array[(array < 0) | (array > 1)]
    if outside.size:
        raise ValueError(f"{name} must lie in [0, 1], got {outside[0]}")
    return array


def parameter_rng(n_base: int, n_optional: int, seed: int) -> np.random.Generator:
    """Return the generator that draws a family's parameters, after checking its sizes."""
    require(n_base >= 1, f"n_base must be at least 1, got {n_base}")
    require(n_optional >= 1, f"n_optional must be at least 1, got {n_optional}")
    return np.random.default_rng(seed)


def shrink(count: int, free: int) -> float:
    """Return the factor that gives a sum of `count` effects the spread of a sum of `free` ones."""
    return float(min(1.0, np.sqrt(free / count)))


def effects(rng: np.random.Generator, low: float, high: float, shape: tuple[int, ...]) -> FloatArray:
    """Draw effects, as many of either sign, none near zero; the more there are, the smaller they get."""
    sign = float(rng.choice([-1, 1])) * rng.permutation(np.resize([-1.0, 1.0], shape[0]))
    return sign.reshape(shape) * rng.uniform(low, high, shape) * shrink(shape[0], 3)
