"""Stand-in estimators, through which a scorer asks any kind of model about virtual rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import get_tags

from .._arrays import Array
from .._models.anchored import is_tree_model
from .._prediction.predictor import MaskedPredictor, predict_tables
from .virtual_rows import Cell, ScoredPeople

RESPONSES = ("predict", "predict_proba", "predict_log_proba", "decision_function")


def as_estimator(
    model: Any, people: ScoredPeople, cells: list[Cell], scorer: Any, response: str | None, num_threads: int | None
) -> Any:
    """Return a stand-in estimator for a scorer, which answers for the virtual rows of all cells, in order."""
    if not is_tree_model(model) and hasattr(model, "predict"):
        return _MaskedEstimator(model, people, cells)
    values = _Values(model, people, cells, num_threads)
    needs = response or getattr(scorer, "_response_method", "predict")
    if needs == "predict" or needs == ["predict"]:
        return _MaskedValues(values)
    return _MaskedProbabilities(values)


def _ask(call: Callable[[Any], Any], people: ScoredPeople, cells: list[Cell]) -> Array:
    """Return what a function of tables answers for all virtual rows."""
    return np.concatenate([predict_tables(call, people.container, c.rows, people.consent, c.mask) for c in cells])


class _MaskedEstimator:
    """A fitted estimator whose methods answer for virtual rows; it has the same methods as the original."""

    def __init__(self, model: Any, people: ScoredPeople, cells: list[Cell]) -> None:
        self._model = model
        for name in RESPONSES:
            if hasattr(model, name):
                setattr(self, name, self._method(name, people, cells))

    def _method(self, name: str, people: ScoredPeople, cells: list[Cell]) -> Callable[[Any], Array]:
        def answer(rows: Any) -> Array:
            return _ask(getattr(self._model, name), people, cells)

        answer.__name__ = name
        return answer

    @property
    def classes_(self) -> Any:
        return self._model.classes_

    def __sklearn_tags__(self) -> Any:
        return get_tags(self._model)


class _Values:
    """The predictions of a booster or of a function for virtual rows."""

    def __init__(self, model: Any, people: ScoredPeople, cells: list[Cell], num_threads: int | None) -> None:
        self._model, self._people, self._cells, self._num_threads = model, people, cells, num_threads

    def __call__(self) -> Array:
        model, people = self._model, self._people
        if is_tree_model(model):
            predictor = MaskedPredictor(model, people.container, num_threads=self._num_threads, consent=people.consent)
            return np.concatenate([predictor.people(cell.rows, cell.mask) for cell in self._cells])
        if not callable(model):
            raise TypeError(
                f"Cannot score a {type(model).__name__}; pass a fitted estimator, a booster, or a function that takes "
                "a table and returns predictions."
            )
        return _ask(model, people, self._cells)


class _MaskedValues(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A booster or function that returns values."""

    def __init__(self, values: _Values) -> None:
        self.values = values

    def predict(self, rows: Any) -> Array:
        return self.values()


class _MaskedProbabilities(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A booster or function that returns the probability of class 1, or the probabilities of classes 0, 1, …."""

    def __init__(self, values: _Values) -> None:
        self.values = values
        p = np.asarray(values(), dtype=np.float64)
        self._probabilities = np.column_stack([1 - p, p]) if p.ndim == 1 else p / p.sum(axis=1, keepdims=True)
        self.classes_ = np.arange(self._probabilities.shape[1])

    def predict_proba(self, rows: Any) -> Array:
        return self._probabilities

    def predict(self, rows: Any) -> Array:
        return np.asarray(self.classes_[np.argmax(self._probabilities, axis=1)])
