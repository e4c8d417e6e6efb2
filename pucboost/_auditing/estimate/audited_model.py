"""The audited model, of any kind, asked for predictions with some groups erased."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._consent import Consent
from ..._engines import boosters_of, is_booster
from ..._models.anchored import AnchoredModel, is_tree_model, trees_of
from ..._models.files import consent_of, summary_of
from ..._models.schema import categories_of
from ..._prediction.balance import without_loading
from ..._prediction.predictor import MaskedPredictor, predict_tables
from ..._tables.sources import Categories, RowSource, are_default_names
from .losses import booster_within
from .people import AuditPeople


class AuditedModel:
    """A model of any kind, asked for predictions with all but some groups erased.

    Parameters
    ----------
    model
        A booster of any engine, an :class:`AnchoredModel`, a scikit-learn estimator, or a callable from a table to
        predictions.
    people
        The people. A model that is not a booster is given their table in the user's own container.
    target_class
        Which class of a classifier with several.
    """

    def __init__(self, model: Any, people: AuditPeople, target_class: int | None, num_threads: int | None) -> None:
        self._people, self._target = people, target_class
        self._predictor: MaskedPredictor | None = None
        if is_tree_model(model):
            _check_booster_columns(model, people.source)
            self._predictor = MaskedPredictor(
                model, people.source, num_threads=num_threads, consent=people.consent, container=people.container
            )
            self.kind = type(model).__module__.split(".")[0] + " " + type(model).__name__
        else:
            self._call, self.kind = _callable_of(model)
        self.fingerprint = _model_hash(model)
        self._booster, self.loading = _loading_of(model)
        self.given = self._checked(self._as_given(), len(people))

    def _as_given(self) -> Any:
        if self._predictor is not None:
            return self._predictor.everybody(self._people.shared)
        if hasattr(self._people.container, "tocsr") and not np.array_equal(
            self._people.consent.presence(self._people.source), self._people.shared
        ):
            raise ValueError(
                "In a sparse table withheld values are zeros to a model that is not a booster. Pass a dense table "
                "with NaN."
            )
        lacking = self._people.consent.lacking(self._people.source)
        if not lacking.any():
            return self._ask(np.arange(len(self._people)), self._people.everything)
        # Values without what they need count as withheld, so the model is not shown them.
        sets = [(self._people.everything, np.flatnonzero(lacking == 0))]
        sets += [
            (mask, np.flatnonzero((lacking != 0) & (self._people.shared == np.uint64(mask))))
            for mask in np.unique(self._people.shared[lacking != 0]).tolist()
        ]
        told = [self._ask(rows, mask) for mask, rows in sets if len(rows)]
        order = np.concatenate([rows for _, rows in sets])
        return np.concatenate(told)[np.argsort(order)]

    def _ask(self, rows: Array, mask: int) -> Array:
        return predict_tables(self._call, self._people.container, rows, self._people.consent, mask)

    def masked(self, rows: Array, mask: int) -> Array:
        """Predict some people with every group outside ``mask`` erased."""
        if len(rows) == 0:
            return np.empty(0)
        if self._predictor is not None:
            return self._checked(self._predictor.people(rows, mask), len(rows))
        return self._checked(self._ask(rows, mask), len(rows))

    def subsets(self, rows: Array, masks: Array) -> Iterator[tuple[Array, Array]] | None:
        """Return batches of rows with their predictions for each mask (rows × masks), if trees can answer at once.

        None means that it is better to ask for one mask at a time.
        """
        if self._predictor is None or not self._predictor.reads_trees(len(rows), len(masks)):
            return None
        return self._checked_subsets(self._predictor.subsets(rows, masks))

    def _checked_subsets(self, batches: Iterator[tuple[Array, Array]]) -> Iterator[tuple[Array, Array]]:
        for some, values in batches:
            n, n_masks = values.shape[:2]
            told = self._checked(values.reshape(n * n_masks, *values.shape[2:]), n * n_masks)
            yield some, told.reshape(n, n_masks)

    def _checked(self, prediction: Any, n: int) -> Array:
        array = np.asarray(prediction, dtype=np.float64)
        # Of two classes, what is added to the log-odds of one is taken from those of the other.
        sign = -1.0 if array.ndim == 2 and array.shape[1] == 2 and self._target == 0 else 1.0
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim == 2 and len(array) == n:
            if self._target is None:
                raise ValueError(
                    f"The model returns {array.shape[1]} values per row. Say which class to audit with target_class=0 "
                    f"… {array.shape[1] - 1}."
                )
            if not 0 <= self._target < array.shape[1]:
                raise ValueError(f"target_class is {self._target}, but the model has classes 0 … {array.shape[1] - 1}.")
            array = array[:, self._target]
        elif self._target not in (None, 1):
            raise ValueError(
                f"target_class is {self._target}, but the model returns one value per row, that of class 1. Leave it "
                "out."
            )
        if array.shape != (n,):
            raise ValueError(f"The model returned shape {array.shape} for {n} rows; one prediction per row is needed.")
        bad = np.flatnonzero(~np.isfinite(array))
        if len(bad):
            raise ValueError(f"The model's prediction is {array[bad[0]]} in row {bad[0]} ({len(bad)} such rows).")
        return without_loading(array, self._booster, sign * self.loading) if self.loading else array


def _callable_of(model: Any) -> tuple[Callable[[Any], Any], str]:
    name = f"{type(model).__module__.split('.')[0]} {type(model).__name__}"
    if hasattr(model, "predict_proba"):
        return model.predict_proba, name
    if hasattr(model, "predict"):
        return model.predict, name
    if callable(model):
        return model, f"callable {getattr(model, '__name__', type(model).__name__)}"
    raise TypeError(
        f"Cannot audit a {type(model).__name__}; pass a booster, an estimator with predict, or a callable that takes a "
        "table and returns predictions."
    )


def _check_booster_columns(model: Any, source: RowSource) -> None:
    """Raise if a plain booster was trained on other columns, or on the same in another order."""
    trees = trees_of(model)
    names, count = boosters_of(trees).columns(trees)
    if count != source.n_columns:
        raise ValueError(f"The model was trained on {count} columns, the table has {source.n_columns} columns.")
    if source.feature_names is not None and names is not None and not are_default_names(names):
        for j, (here, there) in enumerate(zip(source.feature_names, names, strict=True)):
            if here.replace(" ", "_") != there.replace(" ", "_"):  # LightGBM keeps names without spaces
                raise ValueError(
                    f"Column {j} is {here!r}, the model expects {there!r} there. Select the columns in the order used "
                    "for training."
                )


def _model_hash(model: Any) -> str | None:
    """Return a hash of a model and its consent schema: what is optional decides what is audited. None if unknown."""
    if isinstance(model, AnchoredModel):
        parts = [_model_hash(model.anchor.model), _model_hash(model.booster), repr(model.objective), model.consent]
        return None if None in parts else _hash_of(*parts)
    if is_booster(model):
        return _hash_of(boosters_of(model).to_text(model), consent_of(model))
    import pickle

    try:
        return hashlib.sha256(pickle.dumps(model)).hexdigest()
    except Exception:  # a callable may hold anything; its hash is then unknown
        return None


def _hash_of(*parts: Any) -> str:
    """Return a hash of texts and schemas; groups count in their order, which is that of the bits in masks."""
    plain = [part.to_dict() | {"order": part.group_names} if isinstance(part, Consent) else part for part in parts]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def _loading_of(model: Any) -> tuple[Any, float]:
    """Return the booster whose predictions a model passes on, and the loading that ``balance`` has given it."""
    booster = booster_within(model)
    summary = summary_of(booster) if is_booster(booster) else None
    return booster, 0.0 if summary is None else summary.loading


def consent_and_categories(model: Any) -> tuple[Consent | None, Categories | None]:
    """Return what a booster knows of its training table."""
    return (consent_of(model), categories_of(model)) if is_tree_model(model) else (None, None)
