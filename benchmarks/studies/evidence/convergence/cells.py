"""The 864 cells of the paper's binary family: exact gaps, and virtual rows merged by cell."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

import pucboost as puc
from benchmarks.harness.machine import THREADS
from benchmarks.harness.types import Array
from pucboost.simulate import BinaryFamily

COPIES = 2


@functools.lru_cache(maxsize=1)
def all_cells() -> tuple[Array, Array, Array]:
    """Return the 864 possible rows of the binary family, their probabilities and their true predictions."""
    family = BinaryFamily.paper()
    levels = [(0.0, 1.0)] * family.n_base + [(0.0, 1.0, math.nan)] * family.n_optional
    cells = np.array(list(itertools.product(*levels)))
    base, z = cells[:, : family.n_base], cells[:, family.n_base :]
    probability = np.zeros(len(cells))
    for y, prior in enumerate((1 - family.prior, family.prior)):
        by_base = np.where(base == 1, family.p_base[:, y], 1 - family.p_base[:, y])
        value = np.stack([1 - family.p_value[:, y], family.p_value[:, y]])
        share = family.p_share[:, :, y].T
        shared = np.where(z == 1, (value * share)[1], (value * share)[0])
        by_optional = np.where(np.isnan(z), (value * (1 - share)).sum(axis=0), shared)
        probability += prior * by_base.prod(axis=1) * by_optional.prod(axis=1)
    return cells, probability, family.puc_prediction(cells)


def exact_gap(prediction: Array) -> float:
    """Return the expected squared PUC-gap of predictions for all cells."""
    _, probability, truth = all_cells()
    return float(probability @ (prediction - truth) ** 2)


def cell_of(X: Array) -> Array:
    """Return the number of the cell each row falls into."""
    family = BinaryFamily.paper()
    digits = np.where(np.isnan(X), 2, X).astype(np.intp)
    return np.ravel_multi_index(tuple(digits.T), (2,) * family.n_base + (3,) * family.n_optional)


def completed(X: Array, optional: list[int]) -> Array:
    """Return rows with withheld values set to 0, followed by indicators of sharing."""
    return np.hstack([np.nan_to_num(X), ~np.isnan(X[:, optional])]).astype(np.float64)


def augmented(people: Any, optional: list[int], scheme: str, seed: int) -> tuple[Array, Array, Array]:
    """Return virtual rows, their labels and weights."""
    X, y, weight, _ = puc.augment(
        people.X, people.y, optional=optional, augmentation=scheme, seed=seed, num_threads=THREADS,
        copies=COPIES if scheme == "balanced" else None,
    )  # fmt: skip
    return X, y, weight


def merged(X: Array, y: Array, weight: Array) -> tuple[Array, Array, Array, Array]:
    """Return the distinct virtual rows: cell, label, weight of one, and how many there are."""
    kinds, kind = np.unique(weight, return_inverse=True)
    count = np.bincount((cell_of(X) * 2 + y.astype(np.intp)) * len(kinds) + kind)
    code = np.flatnonzero(count)
    cell_and_label, kind = np.divmod(code, len(kinds))
    return cell_and_label // 2, (cell_and_label % 2).astype(np.float64), kinds[kind].astype(np.float64), count[code]
