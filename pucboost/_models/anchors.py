"""Anchors: existing models that use base features only, which give raw scores and their own predictions.

An anchor sees the table with everything optional erased, whatever a person shares: the legacy premium is a function of
base data. It predicts for the whole table at once, in the user's container. The last bits of matrix products depend
on the number of rows and on memory layout, and those of scalers on float types. Which container an estimator needs is
found by trial at training and kept: glum orders categories by container, and a step may know only one.

The scale of what an estimator predicts is known: class probabilities, or the predicted outcome itself. Its raw score is
the link of the trees' loss at that prediction: log-odds of a probability, log of class probabilities or of a mean.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import narwhals.dependencies as nwd
import numpy as np

from .._common import Array
from .._consent import Consent
from .._engines import boosters_of, is_booster
from .._losses import Objective
from .._persistence import pickled
from .._tables.sources import (
    Categories,
    SourceTable,
    are_default_names,
    erase_columns,
    fill_columns,
    is_frame,
    row_source,
    rows_of,
    select_columns,
)
from .schema import categories_of, kept_of

if TYPE_CHECKING:
    import pandas as pd

BASE = "base"
"""The anchor that is trained first, on base features."""
NAMES_SHOWN = 8
"""How many columns a description lists."""
TRIAL_ROWS = 200
"""How many people show what values an optional column has, when a function is tried out."""
PANDAS, POLARS, ARRAY = "pandas", "polars", "array"
"""The containers that estimators are given."""
PREDICT, PROBABILITIES = METHODS = ("predict", "predict_proba")
CONTAINERS = (PANDAS, POLARS, ARRAY)
_INNER = ("best_estimator_", "regressor_")
"""Where scikit-learn's searches and transformed regressors keep the estimator that answers."""


@dataclass(frozen=True)
class AnchorScores:
    """Raw scores and predictions of an anchor, one row per person."""

    raw: Array
    """The raw scores that trees are added to, one per person (and class)."""
    response: Array
    """What people who share nothing are told: the anchor's own prediction, bit for bit."""

    def of(self, people: Array | slice) -> AnchorScores:
        return AnchorScores(self.raw[people], self.response[people])


@dataclass(frozen=True, repr=False)
class Anchor(ABC):
    """A model that uses base features only: it never sees anything optional.

    Parameters
    ----------
    model
        The model itself, as the user gave it.
    consent
        The consent schema, which says what the anchor must not see.
    objective
        The loss of the trees, whose link connects raw scores and predictions.
    """

    model: Any
    consent: Consent
    objective: Objective

    returns_raw_scores: ClassVar[bool] = False
    """Whether a user's function returns the raw scores, whose scale must then be checked."""

    @abstractmethod
    def scores(self, X: Any, codes: Categories | None = None) -> AnchorScores:
        """Return raw scores and predictions for a table; ``codes`` explains category codes in an array."""

    @abstractmethod
    def described(self) -> str:
        """Return what the anchor is and what is read from it, in words."""

    def __reduce__(self) -> Any:
        return pickled(type(self).__name__, vars(self))

    def __repr__(self) -> str:
        return f"<anchor: {self.described()}>"


def checked_scores(scores: Any, X: Any) -> Array:
    """Return raw scores as an array, if there is a finite one for every row of the table."""
    array: Array = np.asarray(scores)
    n = row_count(X)
    if array.ndim not in (1, 2) or len(array) != n or not np.issubdtype(array.dtype, np.number):
        raise ValueError(f"The anchor must return one raw score for each of the {n} rows, got shape {array.shape}.")
    bad = np.flatnonzero(~np.isfinite(array.reshape(n, -1)).all(axis=1))
    if len(bad):
        raise ValueError(f"The anchor's score is not finite in row {bad[0]} ({len(bad)} such rows).")
    return array


def row_count(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else row_source(X).n_rows


def listed(names: Sequence[str]) -> str:
    """Return names with commas, the first few of them if there are many."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def check_anchor(anchor: Any) -> Any:
    """Return the anchor, taken out of an engine's scikit-learn wrapper; raise if it cannot be an anchor."""
    if anchor is None or is_booster(anchor) or (isinstance(anchor, str) and anchor == BASE):
        return anchor
    if isinstance(anchor, type):
        raise ValueError(f"anchor is the class {anchor.__name__} itself. Pass a fitted {anchor.__name__}.")
    for unwrap in ("booster_", "get_booster"):  # scikit-learn's wrappers of the engines
        if getattr(type(anchor), unwrap, None) is not None:
            check_fitted(anchor)
            return anchor.booster_ if unwrap == "booster_" else anchor.get_booster()
    if is_estimator(anchor):
        check_fitted(anchor)
        return anchor
    if callable(anchor):
        return anchor
    raise ValueError(
        "anchor must be 'base', a booster, a fitted estimator (of scikit-learn, glum or statsmodels) or a callable "
        f"that returns raw scores; got {anchor!r}."
    )


def anchor_of(
    model: Any, table: SourceTable, consent: Consent, objective: Objective, classes: Array | None = None
) -> Anchor:
    """Return a model that :func:`check_anchor` let pass as an anchor for a table to train on.

    ``classes`` are the labels that the class numbers in the table stand for; None if they are the numbers.
    """
    if is_booster(model):
        booster = BoosterAnchor(model, consent, objective)
        booster.check_reads_base_only()
        return booster
    if is_estimator(model):
        return EstimatorAnchor.read(model, table, consent, objective, classes)
    function = CallableAnchor(model, consent, objective)
    function.check_reads_base_only(table)
    return function


# ----- functions


@dataclass(frozen=True, repr=False)
class CallableAnchor(Anchor):
    """A function that takes the table with everything optional erased and returns raw scores."""

    returns_raw_scores: ClassVar[bool] = True

    def check_reads_base_only(self, table: SourceTable) -> None:
        """Raise if the function answers differently when optional values are there; they are nobody's own."""
        X, codes = table.container(), table.source.categories
        erased = self.scores(X, codes).raw
        optional = self.consent.group_columns.tolist()
        some = table.source.take(np.arange(min(TRIAL_ROWS, table.source.n_rows)))[:, optional]
        shown = [np.nan_to_num(values[~np.isnan(values)]) for values in some.T]
        words = codes.by_column(table.source.coded)
        for level in (0.1, 0.9):
            typical = [_typical(values, level, words.get(j)) for j, values in zip(optional, shown, strict=True)]
            try:
                answer = np.asarray(self.model(fill_columns(X, optional, typical)))
            except Exception:  # it may expect that nothing optional is there
                return
            if not np.array_equal(answer, erased, equal_nan=True):
                raise ValueError(
                    "The anchor is a function that reads optional columns: it answers differently where they have "
                    "values, so what it says where they are erased is what silence told the model behind it. An anchor "
                    "must be a function of base columns, over a model that was trained without the optional ones."
                )

    def scores(self, X: Any, codes: Categories | None = None) -> AnchorScores:
        raw = checked_scores(self.model(erase_columns(X, self.consent.group_columns.tolist())), X)
        return AnchorScores(raw, self.objective.response(raw))

    def described(self) -> str:
        name = getattr(self.model, "__name__", type(self.model).__name__)
        return f"callable {name}; what it returns is taken as raw scores"


def _typical(values: Array, level: float, categories: Sequence[Any] | None) -> Any:
    """Return a value of a column that is rather small or rather large, or one of its categories."""
    if not len(values):
        return 0.0
    value = float(np.quantile(values, level, method="nearest"))
    return value if categories is None else categories[int(value)]


# ----- boosters


@dataclass(frozen=True, repr=False)
class BoosterAnchor(Anchor):
    """A booster of any engine. Optional columns that it was trained on are erased."""

    def check_reads_base_only(self) -> None:
        """Raise if trees split on an optional column, unless the booster was trained under consent.

        Such trees were grown where people withhold the column, or where nobody did. What they say where it is erased is
        what silence told them in the first case, and means nothing in the second.
        """
        if kept_of(self.model)[0] is not None:
            return
        boosters = boosters_of(self.model)
        keep, splits = self._known_columns(), boosters.importance(self.model, "split")
        read = [j for j, n in zip(keep, splits.tolist(), strict=True) if n and j in self.consent.group_columns]
        if read:
            name = self.consent.feature_names[read[0]]
            raise ValueError(
                f"The anchor's trees split on column {name!r}, which is optional, and the anchor was not trained under "
                "consent: with the column erased it would tell everybody what silence told it. Train the anchor on "
                "base columns only, train it with pucboost.train, or use anchor='base'."
            )

    def scores(self, X: Any, codes: Categories | None = None) -> AnchorScores:
        raw, response = (checked_scores(self._predict(X, codes, raw), X) for raw in (True, False))
        return AnchorScores(raw, response)

    def described(self) -> str:
        boosters = boosters_of(self.model)
        facts = boosters.facts(self.model)
        columns = "" if facts.column_names is None else f", columns {listed(facts.column_names)}"
        return f"{boosters.name} booster of {facts.n_trees} trees; its raw scores{columns}"

    def _predict(self, X: Any, codes: Categories | None, raw: bool) -> Any:
        boosters = boosters_of(self.model)
        keep = self._known_columns()
        # Predict as the anchor itself does: nobody's premium may change.
        return np.concatenate(
            [
                boosters.predict(self.model, block, raw_score=raw, best_rounds=False)
                for block in self._blocks(X, keep, codes)
            ]
        )

    def _blocks(self, X: Any, keep: list[int], codes: Categories | None) -> Iterator[Array]:
        """Yield the columns a booster was trained on, with its own category codes and everything optional erased."""
        known = categories_of(self.model)
        # Everything optional is erased, also where it does not apply.
        known = None if known is None else _located(replace(known, not_applicable=()), keep, codes)
        recoded: dict[int, Array] = {}
        if is_frame(X):
            source, columns = row_source(select_columns(X, keep), known), list(range(len(keep)))
            if known is None and source.coded:
                name = self.consent.feature_names[keep[source.coded[0]]]
                raise ValueError(
                    f"The anchor does not say which categories it was trained on, so column {name!r} cannot be read. "
                    "Pass a callable that uses the anchor."
                )
        else:
            source, columns = row_source(X), keep
            recoded = _recoding(codes, keep, known)
        erased = np.isin(keep, self.consent.group_columns)
        for lo, hi in source.blocks():
            block = source.window(lo, hi)[:, columns]
            block[:, erased] = np.nan
            for j, code in recoded.items():
                block[:, j] = code[np.nan_to_num(block[:, j], nan=-1).astype(np.int64).clip(-1, len(code) - 1)]
            yield block

    def _known_columns(self) -> list[int]:
        """Return the positions of the columns that a booster was trained on, found by name if it has names.

        A booster without names must have as many features as the table has columns, or as it has base columns. LightGBM
        stores names with underscores for spaces.
        """
        facts = boosters_of(self.model).facts(self.model)
        wanted: Any = facts.column_names or [None] * facts.n_columns
        names = [name.replace(" ", "_") for name in self.consent.feature_names]
        base = [j for j in range(len(names)) if j not in set(self.consent.group_columns.tolist())]
        nameless = are_default_names(wanted)
        asked = [None if name is None else str(name).replace(" ", "_") for name in wanted]
        if not nameless and set(asked) <= set(names):
            keep = [names.index(str(name)) for name in asked]
        elif nameless or are_default_names(names):
            keep = list(range(len(names))) if len(wanted) == len(names) else base
        else:
            unknown = next(name for name in asked if name not in names)
            raise ValueError(
                f"The anchor was trained on a column {unknown!r}, which the table does not have. Give the table the "
                "anchor's columns, or pass a callable."
            )
        if len(keep) != len(wanted):
            raise ValueError(
                f"The anchor has {len(wanted)} features; the table has {len(names)} columns, {len(base)} of them "
                "not optional. Train the anchor on the same columns, or pass a callable."
            )
        return keep


def _located(known: Categories, keep: list[int], codes: Categories | None) -> Categories:
    """Return the categories of the columns ``keep`` with their positions, if the table's ``codes`` show them."""
    if known.columns is not None or codes is None or codes.columns is None:
        return known
    places = [j for j, column in enumerate(keep) if column in codes.columns]
    return Categories(known.values, places) if len(places) == len(known.values) else known


def _recoding(codes: Categories | None, keep: list[int], known: Categories | None) -> dict[int, Array]:
    """Return, for each column whose codes differ, an array that maps the table's codes to those of ``known``.

    Its last entry, which index −1 reaches, stands for missing values.
    """
    if codes is None or not codes.values or known is None or not known.values:
        return {}
    here = codes.by_column(())
    theirs = known.by_column([j for j, column in enumerate(keep) if column in here])
    recoded = {}
    for j, values in theirs.items():
        given = here.get(keep[j])
        if given is not None and list(given) != list(values):
            place = {value: code for code, value in enumerate(values)}
            recoded[j] = np.array([*(place.get(value, np.nan) for value in given), np.nan])
    return recoded


# ----- estimators


@dataclass(frozen=True)
class AnchorQuestion:
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
        return name_of(self.model)

    def described(self) -> str:
        method, link = self.question.method, self.objective.link_name
        score = method if link == "identity" else f"{link} of {method}"
        if per_unit_of_exposure(self.model):
            score += ", a rate per unit of exposure (it was fitted with an offset)"
        columns = "the whole table with everything optional erased"
        if self.question.columns is not None:
            columns = f"columns {listed([self.consent.feature_names[j] for j in self.question.columns])}"
        return f"{self.name}; {score}, {columns}"

    def scores(self, X: Any, codes: Categories | None = None) -> AnchorScores:
        answer = self._answer(X, codes)
        if self.objective.n_scores == 1 and answer.ndim == 2:
            answer = answer[:, -1]  # of two probabilities, that of class 1
        self._check_missing(X, answer)
        self.objective.check_predictions(answer, f"The prediction of the anchor ({self.name})")
        return AnchorScores(self.objective.link(answer), answer)

    def ask(self, X: Any, codes: Categories | None = None) -> Array:
        """Return the estimator's own answer, or raise its own error."""
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
    if hasattr(model, PROBABILITIES):
        return PROBABILITIES
    # The margins that decision_function gives are on a scale of their own, not log-odds.
    raise ValueError(
        f"The anchor, {name_of(model)}, is a classifier without predict_proba. Wrap it, for example in a "
        "CalibratedClassifierCV."
    )


def _check_classes(model: Any, method: str, objective: Objective, classes: Array | None) -> None:
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
    """Return the anchor with the columns and the container in which the estimator takes them."""
    consent, own = anchor.consent, columns_of(anchor.model, anchor.consent.feature_names)
    if own.names is None and own.count is None:
        return anchor

    def asked(columns: tuple[int, ...], container: str) -> EstimatorAnchor:
        return replace(anchor, question=AnchorQuestion(anchor.question.method, columns, container, own.constant))

    if own.names is None:
        return asked(_by_position(anchor, own), ARRAY)
    optional = {consent.feature_names[j] for j in consent.group_columns.tolist()}
    foreign = [name for name in own.names if name not in consent.feature_names or name in optional]
    columns = tuple(consent.feature_names.index(name) for name in own.names if name not in foreign)
    if not columns:
        _refuse_foreign(anchor, foreign, optional, None)
    X = table.container()
    is_polars = nwd.is_polars_dataframe(X)
    candidates = [asked(columns, own.container or (POLARS if is_polars else PANDAS))]
    if own.container is None:
        candidates.append(asked(columns, PANDAS if is_polars else POLARS))
    one = rows_of(X, np.array([complete_row(X, columns)]))
    errors: list[Exception] = []
    for tried in candidates:
        try:
            tried.ask(one, table.source.categories)
        except Exception as error:  # estimators raise errors of all kinds
            errors.append(error)
        else:
            return tried
    # What it was trained on besides its base columns may be dropped by its first step. Here it is not.
    _refuse_foreign(anchor, foreign, optional, errors[0])
    return candidates[0]


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


# Even one that takes missing values is no anchor: it has learnt from silence, and anchoring would keep that. Columns
# that its first step drops do not count. A booster may have such columns, as long as its trees do not split on them:
# boosters of base features on all columns are common.
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


# ----- what fitted models of other libraries tell: name, columns, container, classes, exposure


@dataclass(frozen=True)
class Columns:
    names: tuple[str, ...] | None = None
    """In its own order; None if it does not know names."""
    count: int | None = None
    """How many, if it does not know names; None if it does not know that either."""
    container: str | None = None
    """The container it was trained on, if that shows."""
    constant: tuple[int, str] | None = None
    """Place and name of a column of ones among its columns, which tables of people do not have."""


def is_statsmodels(model: Any) -> bool:
    return _library(model) == "statsmodels"


def is_estimator(model: Any) -> bool:
    """Return whether something predicts as scikit-learn's estimators or statsmodels' results do.

    What can be called as a function and is not an estimator of scikit-learn is a function.
    """
    if isinstance(model, type):
        return False
    predicts = any(hasattr(model, name) for name in METHODS)
    return is_statsmodels(model) or hasattr(model, "get_params") or (predicts and not callable(model))


def check_fitted(model: Any) -> None:
    """Raise for an estimator that has not been fitted, or that cannot predict."""
    if is_statsmodels(model):
        if not hasattr(model, "params"):
            raise ValueError(
                f"The anchor is a statsmodels {type(model).__name__} that has not been fitted. Pass the results that "
                "its fit returns."
            )
        return
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if hasattr(model, "fit"):
        try:
            check_is_fitted(model)
        except NotFittedError:
            raise ValueError(
                f"The anchor, {name_of(model)}, has not been fitted. Fit it first, on base features: an anchor is used "
                "as it is."
            ) from None
    if not any(hasattr(model, name) for name in METHODS):
        raise ValueError(f"The anchor, {name_of(model)}, has neither predict nor predict_proba.")


def name_of(model: Any) -> str:
    """Return what a model is, in words: ``LogisticRegression in a Pipeline``."""
    inner, wrapper = _answering(model)
    if inner is None:
        if hasattr(model, "model") and is_statsmodels(model):
            return f"{type(model.model).__name__} of statsmodels"
        return type(model).__name__.removesuffix("Wrapper")
    return name_of(inner) if wrapper is None else f"{name_of(inner)} in a {wrapper}"


def _answering(model: Any) -> tuple[Any, str | None]:
    """Return the estimator that answers inside another one, and what to call the outer one; None if there is none."""
    if type(model).__name__ == "FrozenEstimator":  # asked for anything else, it answers for its estimator
        return model.estimator, None
    steps = getattr(model, "steps", None)
    if isinstance(steps, list) and steps:
        return steps[-1][1], type(model).__name__
    for attribute in _INNER:
        if hasattr(model, attribute):
            return getattr(model, attribute), type(model).__name__
    return None, None


def classifies(model: Any) -> bool:
    if not hasattr(model, "__sklearn_tags__"):
        return hasattr(model, "predict_proba")
    from sklearn.base import is_classifier

    return bool(is_classifier(model))


def per_unit_of_exposure(model: Any) -> bool:
    """Return whether a model was fitted with an offset or an exposure, without which it predicts rates per unit."""
    if not is_statsmodels(model):
        return False
    given = (getattr(model.model, name, None) for name in ("exposure", "offset"))
    return any(values is not None and bool(np.any(np.asarray(values) != 0)) for values in given)


def columns_of(model: Any, table_names: Sequence[str]) -> Columns:
    """Return the columns that a model says it was trained on."""
    if is_statsmodels(model):
        return _columns_of_statsmodels(model, table_names)
    if _library(model) == "glum":
        return _columns_of_glum(model, table_names)
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return Columns(tuple(str(name) for name in names))
    steps = getattr(model, "steps", None)
    inner = steps[0][1] if isinstance(steps, list) and steps else _answering(model)[0]
    if inner is not None and not isinstance(inner, str):
        return columns_of(inner, table_names)
    count = getattr(model, "n_features_in_", None)
    return Columns(count=None if count is None else int(count))


def _columns_of_glum(model: Any, table_names: Sequence[str]) -> Columns:
    """Read a GLM of glum, whose ``feature_names_`` count a category column once per category."""
    spec = getattr(model, "X_model_spec_", None)
    if spec is not None:
        wanted = {str(name) for name in spec.required_variables}
        in_order = [name for name in table_names if name in wanted]
        return Columns((*in_order, *sorted(wanted - set(table_names))))
    names = tuple(dict.fromkeys(getattr(model, "term_names_", None) or model.feature_names_))
    if all(re.fullmatch(r"_col_\d+", name) for name in names):
        return Columns(count=len(names))
    # The order of categories depends on the container: it must be that of the fit.
    from_polars = hasattr(model, "_categorical_levels_") and not hasattr(model, "_feature_dtypes_")
    return Columns(names, container=POLARS if from_polars else PANDAS)


def _columns_of_statsmodels(results: Any, table_names: Sequence[str]) -> Columns:
    model = results.model
    formula = getattr(model, "formula", None)
    if formula is not None:
        right = str(formula).partition("~")[2]
        # A name is a variable unless it is called or has something within.
        used = [name for name in table_names if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w(.])", right)]
        return Columns(tuple(used), container=PANDAS)
    names = [str(name) for name in model.exog_names]
    place = model.data.const_idx
    constant = None if place is None or names[place] in table_names else (int(place), names[place])
    own = [name for j, name in enumerate(names) if constant is None or j != constant[0]]
    if all(re.fullmatch(r"x\d+", name) for name in own) and not set(own) <= set(table_names):
        return Columns(count=len(own), constant=constant)  # names that statsmodels gives to arrays
    return Columns(tuple(own), container=PANDAS, constant=constant)


def _library(model: Any) -> str:
    return type(model).__module__.partition(".")[0]


# ----- the table that an estimator gets: its own columns, in its own order, in a container it accepts


def frame_of(X: Any, columns: Sequence[int], names: Sequence[str], container: str, codes: Categories | None) -> Any:
    """Return some columns of a table as a DataFrame with these names, which the estimator may write into.

    ``codes`` are the categories that numbers stand for if the table is an array.
    """
    import narwhals as nw

    frame = select_columns(X, list(columns)) if is_frame(X) else _decoded(X, columns, names, codes)
    table = nw.from_native(frame, eager_only=True)
    if table.columns != list(names):
        table = table.rename(dict(zip(table.columns, names, strict=True)))
    # Steps that save copies write into the memory of a pandas table, whatever pandas says of it.
    return table.to_pandas().copy() if container == PANDAS else table.to_polars()


def _decoded(X: Any, columns: Sequence[int], names: Sequence[str], codes: Categories | None) -> pd.DataFrame:
    """Return numbers as they are, and codes as the categories they stand for."""
    import pandas as pd

    source = row_source(X)
    numbers = source.window(0, source.n_rows)
    known = {} if codes is None or not codes.values else codes.by_column(())

    def column(j: int) -> Any:
        if j not in known:
            return numbers[:, j]
        whole = np.nan_to_num(numbers[:, j], nan=-1.0).astype(np.int64)
        return pd.Categorical.from_codes(whole, categories=pd.Index(known[j]))

    return pd.DataFrame({name: column(j) for j, name in zip(columns, names, strict=True)})


def numbers_of(X: Any, columns: Sequence[int]) -> Any:
    """Return some columns of a table as an array, or as a sparse matrix if it is one; they must be numbers."""
    # A copy, since estimators may change what they get, of a slice if possible: the last bits of products depend on the
    # order in memory, and a list of columns would turn it round.
    wanted: Any = list(columns)
    if wanted == list(range(wanted[0], wanted[0] + len(wanted))):
        wanted = slice(wanted[0], wanted[0] + len(wanted))
    if isinstance(X, np.ndarray):
        return X[:, wanted].copy(order="K")
    if hasattr(X, "tocsr"):
        return X.tocsr()[:, wanted]
    if not is_frame(X):
        source = row_source(X)
        return source.window(0, source.n_rows)[:, wanted].copy(order="K")
    source = row_source(select_columns(X, list(columns)))
    if source.coded:
        raise ValueError(
            f"The anchor was trained without column names, so it takes numbers only, but column "
            f"{source.names[source.coded[0]]!r} holds text or categories. Train it on a DataFrame."
        )
    return source.window(0, source.n_rows)


def missing_value(X: Any, columns: Sequence[int]) -> tuple[int, int] | None:
    """Return row and column of the first missing value in some columns; None if there is none."""
    for lo, missing in _missing(X, columns):
        for row in np.flatnonzero(missing.any(axis=1))[:1]:
            return lo + int(row), columns[int(np.argmax(missing[row]))]
    return None


def complete_row(X: Any, columns: Sequence[int]) -> int:
    """Return the first row without missing values in some columns; 0 if there is none."""
    complete = (lo + np.flatnonzero(~missing.any(axis=1)) for lo, missing in _missing(X, columns))
    return next((int(rows[0]) for rows in complete if len(rows)), 0)


def _missing(X: Any, columns: Sequence[int]) -> Iterator[tuple[int, Array]]:
    own = select_columns(X, list(columns)) if is_frame(X) else None
    source = row_source(X if own is None else own)
    for lo, hi in source.blocks():
        block = source.window(lo, hi)
        yield lo, np.isnan(block[:, columns] if own is None else block)
