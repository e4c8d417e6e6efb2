"""The consent schema of models that wrap ours: pipelines, searches, calibrated and transformed estimators.

A wrapped model knows its consent in terms of the columns that reach it, and steps before it may have renamed, reordered
or replaced columns. :func:`consent_within` maps the schema back to the columns of the table that people see, and checks
by trial that erasing a group there is silence where the model is, and nothing but silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arrays import Array
from .._consent import Consent
from .._models.anchored import is_tree_model
from .._models.files import consent_of, summary_of
from .._tables.containers import eager, row_source, rows_of
from .._tables.erasing import erase_columns
from .._tables.sources import RowSource

INNER = ("best_estimator_", "estimator_", "regressor_", "classifier_")
"""Where scikit-learn's wrappers keep the one estimator they have fitted."""

TRIAL_ROWS = 200
"""How many people the steps of a pipeline are tried on."""


class ConsentError(ValueError):
    """It is not known, or not certain, what people may withhold from a model."""


@dataclass(frozen=True)
class Wrapped:
    """A model with a consent schema, and the transformers that tables and outcomes go through before it."""

    model: Any
    consent: Consent
    steps: tuple[Any, ...]
    of_outcomes: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Unwrapped:
    """A model of trees, the table that reaches it, and the labels of its classes, if it has any."""

    model: Any
    table: Any
    classes: Array | None = None

    def class_number(self, label: Any) -> int | None:
        """Return the number of a class: its place among the labels, or the number itself."""
        if label is None or self.classes is None:
            return None if label is None else int(label)
        labels = self.classes.tolist()
        if label not in labels:
            raise ValueError(f"target_class is {label!r}, but the classes of the model are {labels}.")
        if len(labels) > 2:
            return int(labels.index(label))
        if label == labels[0]:
            raise ValueError(
                f"target_class is {label!r}, but with two classes predictions are the probability of {labels[1]!r}. "
                "Leave target_class out, and where something is to be favourable, say so of that probability."
            )
        return None


def pipeline_parts(model: Any) -> tuple[list[Any], Any] | None:
    """Return the transformers of a pipeline and its last step, None for any other model."""
    steps = getattr(model, "steps", None)
    if not isinstance(steps, list) or not steps or is_tree_model(model):
        return None
    return [step for _, step in steps[:-1] if step is not None and step != "passthrough"], steps[-1][1]


def transformed(steps: Iterable[Any], table: Any) -> Any:
    """Return what a table becomes by these transformers."""
    for step in steps:
        table = step.transform(table)
    return table


def unwrap(model: Any, X: Any) -> Unwrapped:
    """Return the trees within pucboost's own estimators, and within pipelines and searches that end in one.

    A pipeline is only unwrapped if silence survives its steps, see :func:`consent_within`.
    """
    best = None if is_tree_model(model) else getattr(model, "best_estimator_", None)
    if best is not None:
        return unwrap(best, X)
    pipeline = pipeline_parts(model)
    if pipeline is not None:
        steps, last = pipeline
        table = eager(X)
        consent_within(model, table, row_source(table))
        return unwrap(last, transformed(steps, table))
    if isinstance(getattr(model, "consent_", None), Consent) and is_tree_model(getattr(model, "booster_", None)):
        return Unwrapped(model.booster_, X, getattr(model, "classes_", None))
    return Unwrapped(model, X)


def consent_within(model: Any, table: Any, source: RowSource) -> Consent | None:
    """Return the consent schema of a model in terms of the columns of a table; None if nothing in it has one.

    Parameters
    ----------
    model
        A booster, an anchored model, an estimator, or whatever wraps one.
    table, source
        The table the model is given, and its numbers.
    """
    found = models_within(model)
    if not found:
        return None
    if any(one.consent != found[0].consent for one in found):
        raise ConsentError(
            f"The parts of the {type(model).__name__} were trained under different consent schemas. Say with optional "
            "which columns people may withhold."
        )
    consents = [one.consent if not one.steps else _mapped(one, table, source) for one in found]
    if any(consent != consents[0] for consent in consents):
        raise ConsentError(
            f"The parts of the {type(model).__name__} read optional columns from different columns of the table. Say "
            "with optional which columns people may withhold."
        )
    return consents[0]


def models_within(model: Any) -> list[Wrapped]:
    """Return all models with a consent schema inside a model: several for one that was calibrated on folds."""
    return list(_search(model, (), ()))


def predicts_per_exposure(model: Any) -> bool:
    """Return whether a model, or one that it wraps, knows that it was trained with an exposure."""
    inner = [model, *(part.model for part in models_within(model))]
    summaries = [summary_of(getattr(one, "booster_", one)) for one in inner]
    return any(summary is not None and summary.per_exposure for summary in summaries)


def _search(model: Any, steps: tuple[Any, ...], of_outcomes: tuple[Any, ...]) -> Iterator[Wrapped]:
    if model is None:
        return
    consent = getattr(model, "consent_", None)
    if consent is None and is_tree_model(model):
        consent = consent_of(model)
    if isinstance(consent, Consent):
        if consent.n_groups:
            yield Wrapped(model, consent, steps, of_outcomes)
        return
    pipeline = pipeline_parts(model)
    if pipeline is not None:
        before, last = pipeline
        yield from _search(last, (*steps, *before), of_outcomes)
        return
    for fold in getattr(model, "calibrated_classifiers_", ()):
        yield from _search(fold.estimator, steps, of_outcomes)
    if not hasattr(model, "estimators_features_"):  # each of those may see other columns
        for one in np.ravel(np.asarray(getattr(model, "estimators_", ()), dtype=object)):
            yield from _search(one, steps, of_outcomes)
    transformer = getattr(model, "transformer_", None)  # of outcomes, in a TransformedTargetRegressor
    for name in INNER:
        inner = of_outcomes if transformer is None or name != "regressor_" else (*of_outcomes, transformer)
        yield from _search(getattr(model, name, None), steps, inner)


def _mapped(wrapped: Wrapped, table: Any, source: RowSource) -> Consent:
    """Return the schema with the columns of the table in place of those that reach the model."""
    arriving = _names_that_arrive(wrapped, source.names)
    groups = {
        group: tuple(
            dict.fromkeys(_origin(arriving[j], wrapped.consent.feature_names[j], source.names) for j in columns)
        )
        for group, columns in wrapped.consent.groups.items()
    }
    consent = Consent(groups, tuple(source.names), wrapped.consent.needs)
    _try_out(wrapped, consent, table, source)
    return consent


def _names_that_arrive(wrapped: Wrapped, names: Sequence[str]) -> list[str]:
    """Return the names of the columns after all steps."""
    arriving = np.asarray(names, dtype=object)
    for step in wrapped.steps:
        if not hasattr(step, "get_feature_names_out"):
            raise ConsentError(
                f"Step {type(step).__name__} does not say which columns it returns, so it is not known which columns "
                "of the table are optional. Say it with optional, by the columns of the table."
            )
        arriving = np.asarray(step.get_feature_names_out(arriving), dtype=object)
    if len(arriving) != len(wrapped.consent.feature_names):
        raise ConsentError(
            f"The steps before the model return {len(arriving)} columns, but it was trained on "
            f"{len(wrapped.consent.feature_names)}. Say with optional which columns people may withhold."
        )
    return [str(name) for name in arriving]


def _origin(arrived: str, trained: str, names: Sequence[str]) -> int:
    """Return the position of the column of the table that a column of the model comes from."""
    if arrived in names:
        return list(names).index(arrived)
    behind = [j for j, name in enumerate(names) if arrived.endswith(f"__{name}")]
    if len(behind) == 1:
        return behind[0]
    raise ConsentError(
        f"The optional column {trained!r} of the model is made by the steps before it, and it is not known from which "
        "columns of the table. Say with optional which columns people may withhold."
    )


def _try_out(wrapped: Wrapped, consent: Consent, table: Any, source: RowSource) -> None:
    """Erase each group in the table and look at what arrives: silence in that group, and no change elsewhere."""
    rows = np.unique(np.linspace(0, source.n_rows - 1, min(TRIAL_ROWS, source.n_rows)).astype(np.int64))
    some = rows_of(table, rows)
    complete = _arrived(wrapped, some)
    for g, group in enumerate(consent.group_names):
        erased = _arrived(wrapped, erase_columns(some, list(consent.groups[group])))
        inner = list(wrapped.consent.groups[group])
        if not np.isnan(erased[:, inner]).all():
            column = inner[int(np.argmax(~np.isnan(erased[:, inner]).all(axis=0)))]
            raise ConsentError(
                f"Group {group!r} is erased in the table, but its column "
                f"{wrapped.consent.feature_names[column]!r} has values when it reaches the model: a step before it "
                "fills in what people withhold. Leave missing values alone before the model."
            )
        others = wrapped.consent.column_bits != np.uint64(1 << g)
        same = (complete == erased) | (np.isnan(complete) & np.isnan(erased))
        if not same[:, others].all():
            column = int(np.flatnonzero(others & ~same.all(axis=0))[0])
            raise ConsentError(
                f"Column {wrapped.consent.feature_names[column]!r} that reaches the model changes when group {group!r} "
                "is erased: a step before the model carries silence into other columns. Leave that step out, or make "
                "the column part of the group."
            )


def _arrived(wrapped: Wrapped, table: Any) -> Array:
    source = row_source(transformed(wrapped.steps, table))
    return np.asarray(source.window(0, source.n_rows), dtype=np.float64)
