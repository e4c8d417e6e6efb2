"""Fitted estimators as anchors: scikit-learn's and those that work like them, pipelines, glum, results of statsmodels.

The scale of what an estimator predicts is known: class probabilities, or the predicted outcome itself. Its raw score is
the link of the trees' loss at that prediction: log-odds of a probability, log of class probabilities or of a mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._common import Array
from ..._consent import Consent
from ..._losses import Objective
from ..._persistence import pickled
from ..._tables.containers import SourceTable, erase_columns, rows_of
from ..._tables.sources import Categories, are_default_names
from .base import Anchor, AnchorScores, checked_scores, listed, row_count
from .reading import Columns, classifies, columns_of, is_statsmodels, name_of, per_unit_of_exposure
from .tables import ARRAY, PANDAS, POLARS, complete_row, container_of, frame_of, missing_value, numbers_of

PREDICT, PROBABILITIES, DECISION = "predict", "predict_proba", "decision_function"
METHODS = (PREDICT, PROBABILITIES, DECISION)
CONTAINERS = (PANDAS, POLARS, ARRAY)


@dataclass(frozen=True)
class AnchorQuestion:
    """How an estimator is asked."""

    method: str
    """One of :data:`METHODS`."""
    columns: tuple[int, ...] | None = None
    """Positions of its columns in the table, in its own order; None if it gets the table with all optional erased."""
    container: str = PANDAS
    """One of :data:`CONTAINERS`."""
    constant: tuple[int, str] | None = None
    """Place and name of a column of ones to put among its columns."""

    def __reduce__(self) -> Any:
        return pickled("AnchorQuestion", vars(self))


@dataclass(frozen=True, repr=False)
class EstimatorAnchor(Anchor):
    """A fitted estimator that sees its own columns only, all of them base features.

    Parameters
    ----------
    question
        How it is asked.
    """

    question: AnchorQuestion

    @classmethod
    def read(
        cls, model: Any, table: SourceTable, consent: Consent, objective: Objective, classes: Array | None
    ) -> EstimatorAnchor:
        """Return the anchor for a table to train on; raise if the estimator does not fit the table or the loss.

        ``classes`` are the labels that the class numbers in the table stand for; None if they are the numbers.
        """
        method = _method(model, objective)
        _check_classes(model, method, objective, classes)
        return _fitting(cls(model, consent, objective, AnchorQuestion(method)), table)

    @property
    def name(self) -> str:
        """What the estimator is, in words."""
        return name_of(self.model)

    def described(self) -> str:
        """Return what the estimator is, what is read from it, and its columns."""
        method, link = self.question.method, self.objective.link_name
        if method == DECISION:
            score = "decision_function, taken as raw scores"
        else:
            score = method if link == "identity" else f"{link} of {method}"
        if per_unit_of_exposure(self.model):
            score += ", a rate per unit of exposure (it was fitted with an offset)"
        return f"{self.name}; {score}, {self._columns_in_words()}"

    def _columns_in_words(self) -> str:
        if self.question.columns is None:
            return "the whole table with everything optional erased"
        return f"columns {listed([self.consent.feature_names[j] for j in self.question.columns])}"

    def scores(self, X: Any, codes: Categories | None = None) -> AnchorScores:
        """Return its own predictions, and their raw scores."""
        answer = self._answer(X, codes)
        if self.question.method == DECISION:
            raw = checked_scores(answer, X)
            return AnchorScores(raw, self.objective.response(raw))
        if self.objective.n_scores == 1 and answer.ndim == 2:
            answer = answer[:, -1]  # of two probabilities, that of class 1
        self._check_missing(X, answer)
        self.objective.check_predictions(answer, f"The prediction of the anchor ({self.name})")
        return AnchorScores(self.objective.link(answer), answer)

    def ask(self, X: Any, codes: Categories | None = None) -> Array:
        """Return what the estimator answers for a table; it raises what it raises."""
        table = self._table(X, codes)
        return np.asarray(getattr(self.model, self.question.method)(table))

    def _answer(self, X: Any, codes: Categories | None) -> Array:
        try:
            answer = self.ask(X, codes)
        except Exception as error:  # estimators raise errors of all kinds
            self._refuse_missing(X, error)
            reason = " ".join(str(error).split())
            raise ValueError(f"The anchor ({self.name}) cannot predict for the table: {reason}") from error
        n, k = row_count(X), self.objective.n_scores
        two = self.question.method == PROBABILITIES and k == 1
        if answer.shape not in ((n, k), (n, 2) if two else (n,)) or (k > 1 and answer.ndim == 1):
            raise ValueError(
                f"The anchor ({self.name}) must predict {'one value' if k == 1 else f'{k} values'} for each of the {n} "
                f"rows, but its {self.question.method} returned shape {answer.shape}."
            )
        return answer

    def _table(self, X: Any, codes: Categories | None) -> Any:
        question = self.question
        if question.columns is None:
            return erase_columns(X, self.consent.group_columns.tolist())
        if question.container == ARRAY:
            numbers = numbers_of(X, question.columns)
            return numbers if question.constant is None else np.insert(numbers, question.constant[0], 1.0, axis=1)
        names = [self.consent.feature_names[j] for j in question.columns]
        frame = frame_of(X, question.columns, names, question.container, codes)
        if question.constant is not None:
            frame.insert(question.constant[0], question.constant[1], 1.0)
        return frame

    def _check_missing(self, X: Any, answer: Array) -> None:
        """Name the column if a missing value is why there is no prediction."""
        bad = np.flatnonzero(np.isnan(answer.reshape(len(answer), -1)).any(axis=1))
        if len(bad):
            self._refuse_missing(rows_of(X, bad[:1]), None, int(bad[0]))

    def _refuse_missing(self, X: Any, error: Exception | None, row: int | None = None) -> None:
        if self.question.columns is None:
            return
        found = missing_value(X, self.question.columns)
        if found is not None:
            raise ValueError(
                f"The anchor ({self.name}) cannot take missing values, and the base column "
                f"{self.consent.feature_names[found[1]]!r} has one in row {found[0] if row is None else row}. Impute "
                "within the anchor, for example in a pipeline, or fill the column."
            ) from error


def _method(model: Any, objective: Objective) -> str:
    """Return which method of an estimator has what the loss needs."""
    of_classes = objective.link_name == "log-odds" or objective.n_scores > 1
    if not of_classes:
        if classifies(model):
            raise ValueError(
                f"The anchor, {name_of(model)}, predicts classes, but objective {objective.name!r} is not for classes. "
                "Anchor it on a regressor."
            )
        return PREDICT
    if is_statsmodels(model) or not classifies(model):
        return PREDICT
    for method in (PROBABILITIES, DECISION):
        if hasattr(model, method):
            return method
    raise ValueError(
        f"The anchor, {name_of(model)}, is a classifier without predict_proba or decision_function. Wrap it, for "
        "example in a CalibratedClassifierCV."
    )


def _check_classes(model: Any, method: str, objective: Objective, classes: Array | None) -> None:
    """Raise unless the classes of a classifier are the labels of training, in the same order."""
    own = getattr(model, "classes_", None)
    if method == PREDICT or own is None:
        return
    n = max(2, objective.n_scores)
    expected = list(range(n)) if classes is None else np.asarray(classes).tolist()
    given = np.asarray(own).tolist()
    if given != expected:
        raise ValueError(
            f"The classes of the anchor ({name_of(model)}) are {given}, but the labels of training are {expected}. "
            "Train the anchor on the same labels; their order must be the same as well."
        )


def _fitting(anchor: EstimatorAnchor, table: SourceTable) -> EstimatorAnchor:
    """Return the anchor with the question that works for a table."""
    consent, own = anchor.consent, columns_of(anchor.model, anchor.consent.feature_names)
    if own.names is None and own.count is None:
        return anchor
    if own.names is None:
        columns = _by_position(anchor, own)
        return replace(
            anchor, question=replace(anchor.question, columns=columns, container=ARRAY, constant=own.constant)
        )
    optional = {consent.feature_names[j] for j in consent.group_columns.tolist()}
    foreign = [name for name in own.names if name not in consent.feature_names or name in optional]
    columns = tuple(consent.feature_names.index(name) for name in own.names if name not in foreign)
    X, codes = table.container(), table.source.categories
    containers = [own.container] if own.container else sorted((PANDAS, POLARS), key=lambda one: one != container_of(X))
    if not columns:
        _refuse_foreign(anchor, foreign, optional, None)
    one = rows_of(X, np.array([complete_row(X, columns)]))
    errors: list[Exception] = []
    for container in containers:
        question = replace(anchor.question, columns=columns, container=container, constant=own.constant)
        tried = replace(anchor, question=question)
        try:
            tried.ask(one, codes)
        except Exception as error:  # estimators raise errors of all kinds
            errors.append(error)
        else:
            return tried
    # What it was trained on besides its base columns may be dropped by its first step. Here it is not.
    _refuse_foreign(anchor, foreign, optional, errors[0])
    return replace(
        anchor, question=replace(anchor.question, columns=columns, container=containers[0], constant=own.constant)
    )


def _refuse_foreign(anchor: EstimatorAnchor, foreign: list[str], optional: set[str], error: Exception | None) -> None:
    """Raise for a column that the estimator needs and must not have, or that is not there."""
    for name in foreign:
        if name in optional:
            raise _trained_on_optional(anchor, name) from error
    if foreign:
        without_names = are_default_names(anchor.consent.feature_names)
        remedy = (
            "The table has no names: pass a DataFrame, or feature_name to the Dataset."
            if without_names
            else "Give the table the anchor's columns."
        )
        raise ValueError(
            f"The anchor ({anchor.name}) was trained on a column {foreign[0]!r}, which the table does not have. "
            f"{remedy}"
        ) from error


def _trained_on_optional(anchor: EstimatorAnchor, name: str) -> ValueError:
    return ValueError(
        f"The anchor ({anchor.name}) was trained on column {name!r}, which is optional. An anchor must be a function "
        "of base features: whoever withholds the column would get what the anchor makes of its absence. Train it "
        "without the column."
    )


def _by_position(anchor: EstimatorAnchor, own: Columns) -> tuple[int, ...]:
    """Return the base columns, for an estimator that does not know names and was trained on as many."""
    consent = anchor.consent
    optional = set(consent.group_columns.tolist())
    base = tuple(j for j in range(len(consent.feature_names)) if j not in optional)
    if own.count == len(base):
        return base
    if own.count == len(consent.feature_names):
        raise _trained_on_optional(anchor, consent.feature_names[min(optional)])
    raise ValueError(
        f"The anchor ({anchor.name}) has {own.count} features; the table has {len(consent.feature_names)} columns, "
        f"{len(base)} of them not optional. Train it on the base columns, or on a DataFrame, so that it knows them by "
        "name."
    )
