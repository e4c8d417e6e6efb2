"""The short interface between training and an engine."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from .._arrays import Array
from .._training.datasets import SourceTable
from .._virtual.rows import MaskedRows

ENGINES = ("lightgbm", "xgboost")


@dataclass(frozen=True)
class VirtualTable:
    """Masked rows together with what belongs to each of them."""

    rows: MaskedRows
    table: SourceTable

    merged: ClassVar[bool] = False
    """Whether a row may stand for several people with different labels."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def people(self) -> int:
        """Number of source rows: what a tree is grown on when masks are drawn afresh for each."""
        return self.table.source.n_rows

    def label(self) -> Array:
        """Label of every virtual row."""
        return self.rows.plan.spread(self.table.label)

    def weight(self, scale: float = 1.0) -> Array | None:
        """User weight × copy weight × ``scale`` of every virtual row, None if all are 1."""
        return self.rows.plan.weights(self.table.weight, scale)

    def copy_weight(self, scale: float = 1.0) -> Array | None:
        """The part of the weight that is pucboost's."""
        return self.rows.plan.weights(None, scale)

    def user_weight(self) -> Array | None:
        """The part of the weight that is the user's."""
        return None if self.table.weight is None else self.rows.plan.spread(self.table.weight.astype(np.float32))

    def init_score(self) -> Array | None:
        """Initial scores of every virtual row, one column per class.

        A flat vector of n·K values holds class after class, as in LightGBM.
        """
        scores = self.table.init_score
        if scores is None:
            return None
        by_class = scores.T if scores.ndim == 2 else scores.reshape(-1, self.table.source.n_rows)
        return np.stack([self.rows.plan.spread(one) for one in by_class], axis=1)


Validation = Sequence[tuple[VirtualTable | None, str]]
"""Validation sets with their names; None is the training set itself."""


@dataclass(frozen=True)
class EngineFacts:
    """What pucboost needs to know from an engine's parameters."""

    seed: int = 0
    num_threads: int | None = None
    zero_as_missing: bool = False
    n_classes: int = 1


class Engine(Protocol):
    """What an engine must do. Each is a module of this package."""

    def prepare(
        self, params: dict[str, Any], dataset_params: Mapping[str, Any], num_boost_round: int
    ) -> tuple[dict[str, Any], int]:
        """Return the parameters under the engine's own names, and the number of rounds."""

    def facts(self, params: Mapping[str, Any]) -> EngineFacts:
        """Read seed, threads and the like from the parameters."""

    def check_supported(self, params: Mapping[str, Any]) -> None:
        """Refuse what cannot be done with optional features, before anything is built."""

    def bytes_per_virtual_row(self, n_columns: int, n_classes: int) -> int:
        """Estimate what the engine keeps per row."""

    def train(
        self,
        train: VirtualTable,
        params: dict[str, Any],
        num_boost_round: int,
        valid: Validation | None,
        *,
        feval: Any,
        init_model: Any,
        keep_training_booster: bool,
        callbacks: Any,
    ) -> Any:
        """Train on the virtual rows and return the engine's own booster."""

    def cv(
        self,
        label: Array,
        folds: Sequence[tuple[Array, Array]],
        build: Callable[[int, dict[str, Any]], tuple[VirtualTable, VirtualTable, dict[str, Any]]],
        params: dict[str, Any],
        num_boost_round: int,
        **options: Any,
    ) -> dict[str, Any]:
        """Cross-validate; ``build(k, params)`` gives the two virtual tables of fold k, and its parameters."""

    def for_merged_rows(self, params: dict[str, Any], objective: Any, hessian_per_person: float) -> dict[str, Any]:
        """Return the parameters for rows that stand for several people: soft labels, counts made up by weights."""

    def attach(self, booster: Any, consent: Any, summary: Any, categories: Any) -> Any:
        """Make the consent schema, the summary and the categories of a DataFrame part of the booster, and return it."""


def engine_named(name: Any) -> Engine:
    """Return an engine, loading it on first use."""
    if name not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(map(repr, ENGINES))}; got {name!r}.")
    return cast(Engine, importlib.import_module(f".{name}", __package__))


def rows_per_tree(people: int, virtual_rows: int) -> float:
    """Return φ = min(1, N / V): the share of the virtual rows that amounts to N."""
    return min(1.0, people / virtual_rows)


def times_rows(values: Any, weight: Array) -> Array:
    """Multiply gradients by row weights; classes are columns, or follow one another in a flat array."""
    array: Array = np.asarray(values)
    if array.ndim == 2:
        return np.asarray(array * weight[:, None])
    if array.size % weight.size:
        return array  # of wrong length: the engine says so
    return np.asarray(array.reshape(-1, weight.size) * weight).ravel()
