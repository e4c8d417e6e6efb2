"""People that models are applied to, and the consent schema of models that wrap ours.

Pipelines, searches, calibrated and transformed estimators wrap a model whose consent refers to the columns that reach
it, and steps before it may have renamed, reordered or replaced columns. :func:`consent_within` maps the schema back to
the columns of the table that people see. It checks by trial that erasing a group there is silence where the model is,
and nothing but silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._common import Array
from .._consent import Consent
from .._models.anchored import is_tree_model
from .._models.files import consent_of, summary_of
from .._models.schema import Favourable
from .._not_applicable import NotApplicable, read_not_applicable
from .._tables.sources import (
    Categories,
    DoesNotApply,
    RowSource,
    as_weight,
    eager,
    erase_columns,
    row_source,
    rows_of,
)

INNER = ("best_estimator_", "estimator_", "regressor_", "classifier_")
"""Where scikit-learn's wrappers keep the one estimator they have fitted."""

TRIAL_ROWS = 200
"""How many people the steps of a pipeline are tried on."""


class ConsentError(ValueError):
    """It is not known, or not certain, what people may withhold from a model."""


@dataclass(frozen=True)
class People:
    """People, and what each of them shares."""

    container: Any
    """The user's own table."""
    source: RowSource
    consent: Consent
    shared: Array
    """Mask of the groups each person shares (uint64)."""
    weight: Array

    def __len__(self) -> int:
        return len(self.shared)

    def at_least(self, mask: int) -> Array:
        """Return the numbers of the people who share at least the groups of ``mask``."""
        m = np.uint64(mask)
        return np.flatnonzero((self.shared & m) == m)


def read_people(
    X: Any,
    consent_for: Callable[[RowSource], Consent],
    *,
    categories: Categories | None = None,
    not_applicable: NotApplicable = None,
    available: Any = None,
    weight: Any = None,
    weight_name: str = "sample_weight",
    zero_as_missing: bool = False,
    num_threads: int | None = None,
) -> People:
    """Return the people in a table; ``consent_for`` takes its source and returns the consent schema.

    ``categories`` are those of the training table, ``available`` is who shares what if the values do not show it, and
    errors call the weights ``weight_name``.
    """
    container = eager(X)
    source = row_source(container, categories)
    consent = consent_for(source)
    consent.check_table(source)
    consent, source = read_not_applicable(consent, source, not_applicable)
    weights = np.ones(source.n_rows) if weight is None else as_weight(weight, weight_name, source.n_rows)
    shared = consent.visible(source, available, zero_as_missing=zero_as_missing, num_threads=num_threads)
    return People(container, source, consent, shared, weights)


def shares_of_masks(shared: Array, weight: Array) -> dict[int, float]:
    """Return p(S), the weighted share of people who share exactly S, most frequent first."""
    masks, owner = np.unique(shared, return_inverse=True)
    share = np.bincount(owner, weights=weight, minlength=len(masks)) / weight.sum()
    order = np.lexsort((masks, -share))
    return {int(masks[i]): float(share[i]) for i in order if share[i] > 0}


# ----- consent within wrappers


@dataclass(frozen=True)
class Wrapped:
    """A model with a consent schema, and the transformers that tables and outcomes go through before it."""

    model: Any
    consent: Consent
    steps: tuple[Any, ...]
    of_outcomes: tuple[Any, ...] = ()


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


def consent_within(model: Any, table: Any, source: RowSource) -> Consent | None:
    """Return the consent schema of a model in terms of the columns of a table; None if nothing in it has one.

    ``model`` is a booster, an anchored model, an estimator, or whatever wraps one; ``source`` is that of ``table``.
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

    def search(model: Any, steps: tuple[Any, ...], of_outcomes: tuple[Any, ...]) -> Iterator[Wrapped]:
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
            yield from search(last, (*steps, *before), of_outcomes)
            return
        for fold in getattr(model, "calibrated_classifiers_", ()):
            yield from search(fold.estimator, steps, of_outcomes)
        if not hasattr(model, "estimators_features_"):  # each of those may see other columns
            for one in np.ravel(np.asarray(getattr(model, "estimators_", ()), dtype=object)):
                yield from search(one, steps, of_outcomes)
        transformer = getattr(model, "transformer_", None)  # of outcomes, in a TransformedTargetRegressor
        for name in INNER:
            if getattr(model, name, None) is not None:
                inner = of_outcomes if transformer is None or name != "regressor_" else (*of_outcomes, transformer)
                yield from search(getattr(model, name), steps, inner)

    return list(search(model, (), ()))


def predicts_per_exposure(model: Any) -> bool:
    """Return whether a model, or one that it wraps, was trained with an exposure."""
    inner = [model, *(part.model for part in models_within(model))]
    summaries = [summary_of(getattr(one, "booster_", one)) for one in inner]
    return any(summary is not None and summary.per_exposure for summary in summaries)


def favourable_of(model: Any) -> Favourable | None:
    """Return which predictions people prefer, if a model or all that it wraps keep the same from their training."""
    parts = models_within(model)
    kept = {getattr(summary_of(getattr(one.model, "booster_", one.model)), "favourable", None) for one in parts}
    # Outcomes that are transformed may be turned round.
    return kept.pop() if len(kept) == 1 and not any(one.of_outcomes for one in parts) else None


def _mapped(wrapped: Wrapped, table: Any, source: RowSource) -> Consent:
    """Return the schema with the columns of the table in place of those that reach the model."""
    arriving = _names_that_arrive(wrapped, source.names)
    groups = {
        group: tuple(
            dict.fromkeys(_origin(arriving[j], wrapped.consent.feature_names[j], source.names) for j in columns)
        )
        for group, columns in wrapped.consent.groups.items()
    }

    def place(column: int) -> int:
        return _origin(arriving[column], wrapped.consent.feature_names[column], source.names)

    not_applicable = tuple(
        DoesNotApply(place(one.column), None if one.where is None else place(one.where), one.values)
        for one in wrapped.consent.not_applicable
    )
    consent = Consent(groups, tuple(source.names), wrapped.consent.needs, not_applicable)
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
        f"The column {trained!r} of the model is made by the steps before it, and it is not known from which "
        "columns of the table. Say with optional which columns people may withhold."
    )


def _try_out(wrapped: Wrapped, consent: Consent, table: Any, source: RowSource) -> None:
    """Erase each group in the table and look at what arrives: silence in that group, and no change elsewhere."""
    rows = np.unique(np.linspace(0, source.n_rows - 1, min(TRIAL_ROWS, source.n_rows)).astype(np.int64))
    some = rows_of(table, rows)
    complete = _arrived(wrapped, some)
    if consent.not_applicable and not np.array_equal(
        consent.availability(some), wrapped.consent.availability(transformed(wrapped.steps, some))
    ):
        raise ConsentError(
            "Who shares what differs between the table and what reaches the model: a step before it changes columns "
            "that not_applicable looks at. Say with optional and not_applicable what people may withhold."
        )
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
