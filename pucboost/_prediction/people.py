"""Subsets of groups: their masks, their names, and who shares them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._common import Array, warn
from .._consent import JOINED_BY, NOTHING, Consent
from .._models.anchored import is_tree_model
from .._models.files import consent_of, summary_of
from .._tables.containers import (
    as_weight,
    column_names,
    eager,
    erase_columns,
    is_frame,
    named_columns,
    row_source,
    rows_of,
)
from .._tables.names import similar
from .._tables.sources import Categories, RowSource, are_default_names
from .._tables.table_files import load_as_trained, stored_table

MAX_SUBSETS = 64
"""How many subsets are listed without being asked for: those of 6 groups, or of 63 levels."""
PEOPLE_WORTH_A_LIST = 32
FAMILIES = (NOTHING, "alone", "all_but_one", "all")


def subset_masks(consent: Consent, subsets: Any = None) -> list[int]:
    """Return the masks of the subsets asked for, without repetition.

    Parameters
    ----------
    consent
        The schema.
    subsets
        None for all 2^r (up to 6 groups), or a list whose items are families (``"nothing"``, ``"alone"`` for each group
        alone, ``"all_but_one"``, ``"all"``) or lists of group names. Groups that need others come with these: only
        admissible subsets are returned.
    """
    r, nesting = consent.n_groups, consent.nesting
    everything = (1 << r) - 1
    if subsets is None:
        if nesting.count(everything) > MAX_SUBSETS:
            how_many = f"2^{r} subsets" if nesting.is_free else f"{nesting.count(everything):,} admissible subsets"
            raise ValueError(
                f"There are {how_many} of {r} groups. Choose some: subsets=['nothing', 'alone', 'all_but_one', "
                "'all'], or lists of group names."
            )
        return [int(mask) for mask in nesting.submasks(everything)]
    families = {
        NOTHING: [0],
        "alone": list(nesting.above),
        "all_but_one": [everything & ~below for below in nesting.below],
        "all": [everything],
    }
    masks: list[int] = []
    for wanted in [subsets] if isinstance(subsets, str) else subsets:
        if isinstance(wanted, str):
            if wanted not in families:
                raise ValueError(
                    f"subsets must be among {', '.join(map(repr, FAMILIES))} or lists of groups; got {wanted!r}."
                )
            masks += families[wanted]
        else:
            masks.append(mask_of(wanted, consent))
    return list(dict.fromkeys(masks))


def mask_of(groups: Iterable[str], consent: Consent) -> int:
    """Return the mask of some groups, given by name, and of all that these need."""
    mask = 0
    for group in groups:
        if group not in consent.groups:
            raise ValueError(
                f"Group {group!r} is not in the consent schema; its groups are {list(consent.group_names)}."
            )
        mask |= consent.nesting.above[consent.group_names.index(group)]
    return mask


def subset_name(mask: int, consent: Consent) -> str:
    """Return the name of a subset in tables: its groups, joined by `` + ``, or ``nothing``.

    Groups that others of the subset need go without saying: ``fitness: full`` stands for all levels up to it.
    """
    return JOINED_BY.join(consent.groups_of(consent.nesting.topmost(mask))) or NOTHING


def subset_names(masks: Iterable[int], consent: Consent) -> list[str]:
    """Return the names of subsets. Different subsets have different names: a schema refuses groups like ``a + b``."""
    return [subset_name(int(mask), consent) for mask in masks]


def people_by_mask(shared: Array) -> Iterator[tuple[int, Array]]:
    """Yield every mask that occurs, with the people who have it."""
    order, masks, bounds = _sorted_by(shared)
    if len(masks):
        yield from zip(masks.tolist(), np.split(order, bounds), strict=True)


def people_by_subsets(shared: Array, masks: Array) -> Iterator[tuple[Array, Array, bool]]:
    """Yield people, the numbers of the masks to predict them for, and whether all of them share all of these.

    Every person who shares any of the masks is in one of the lists. People who share the same of them come together.
    Lists of fewer than 32 people would take longer than a few predictions that nobody needs, so they are merged.
    """
    if not len(shared):
        return
    order, have, bounds = _sorted_by(shared)
    patterns, pattern = np.unique((have[:, None] & masks) == masks, axis=0, return_inverse=True)
    sizes = np.diff(np.concatenate([[0], bounds, [len(order)]]))
    again, numbers, bounds = _sorted_by(np.repeat(pattern.reshape(-1), sizes))
    rare: list[Array] = []
    for number, people in zip(numbers.tolist(), np.split(order[again], bounds), strict=True):
        if len(people) < PEOPLE_WORTH_A_LIST:
            rare.append(people)
        elif patterns[number].any():
            yield people, np.flatnonzero(patterns[number]), True
    if rare:
        together = np.sort(np.concatenate(rare))
        shares = (shared[together, None] & masks) == masks
        if shares.any():
            yield together, np.flatnonzero(shares.any(axis=0)), False


def _sorted_by(values: Array) -> tuple[Array, Array, Array]:
    """Return the order that sorts values, the distinct values, and where in that order each but the first begins."""
    # Numbers of 16 bits are sorted by counting, many times faster than others.
    order = np.argsort(values.astype(np.uint16) if values.max(initial=0) < 1 << 16 else values, kind="stable")
    ordered = values[order]
    bounds = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    return order, ordered[np.concatenate([[0], bounds])] if len(ordered) else ordered, bounds


# --------------------------------------------------------------------------------------------------
# The people a model is applied to: their table, the consent schema, who shares what, and their weights.


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
    available: Any = None,
    weight: Any = None,
    weight_name: str = "sample_weight",
    zero_as_missing: bool = False,
    num_threads: int | None = None,
) -> People:
    """Return the people in a table.

    Parameters
    ----------
    X
        The table, in any container.
    consent_for
        Takes the source of the table and returns the consent schema.
    categories
        Categories of the table a model was trained on.
    available
        Who shares what, if the values do not show it.
    weight
        Weights, one per person; ``weight_name`` is their name in errors.
    zero_as_missing
        Read zeros as missing.
    num_threads
        Threads; None means all cores.
    """
    container = eager(X)
    source = row_source(container, categories)
    consent = consent_for(source)
    consent.check_table(source)
    weights = np.ones(source.n_rows) if weight is None else as_weight(weight, weight_name, source.n_rows)
    shared = consent.visible(source, available, zero_as_missing=zero_as_missing, num_threads=num_threads)
    return People(container, source, consent, shared, weights)


def shares_of_masks(shared: Array, weight: Array) -> dict[int, float]:
    """Return p(S), the weighted share of people who share exactly S, most frequent first."""
    masks, owner = np.unique(shared, return_inverse=True)
    share = np.bincount(owner, weights=weight, minlength=len(masks)) / weight.sum()
    order = np.lexsort((masks, -share))
    return {int(masks[i]): float(share[i]) for i in order if share[i] > 0}


# --------------------------------------------------------------------------------------------------
# Columns by name: a table may have further columns, another order, and lack groups that nobody in it shares.


def in_order_of(consent: Consent, X: Any) -> Any:
    """Return a table with the columns of training in their order, as far as it has names.

    Further columns are left out. A group of which the table has no column counts as withheld by everybody, with a
    warning. Any other column that is missing is an error.
    """
    X = eager(X)
    if not is_frame(X) or are_default_names(consent.feature_names):
        return X
    given, names = column_names(X), consent.feature_names
    if given == list(names) or len(set(given)) < len(given):
        return X
    _check_columns(consent, given, "The table")
    return named_columns(X, names)


def read_stored(consent: Consent, X: Any, categories: Categories | None) -> RowSource:
    """Return the columns of training from a table that is not in memory, by the rules of :func:`in_order_of`.

    It is read once, in pieces, into a matrix that may be a temporary file.
    """
    file = stored_table(X)
    names = consent.feature_names
    if are_default_names(names):
        names = tuple(file.columns)
    else:
        _check_columns(consent, file.columns, str(file.path))
    return load_as_trained(file, names, categories, {}).source


def _check_columns(consent: Consent, given: list[str], table: str) -> None:
    """Raise for a column that is missing, warn of a group that is."""
    name = consent.missing_column(given)
    if name is not None:
        raise ValueError(f"{table} has no column {name!r}, which the model was trained on{similar(name, given)}")
    for group, members in consent.absent_groups(given).items():
        warn(
            f"{table} has no column of group {group!r} ({', '.join(members)}); it counts as withheld by everybody.",
        )


# --------------------------------------------------------------------------------------------------
# The consent schema of models that wrap ours: pipelines, searches, calibrated and transformed estimators.
#
# A wrapped model knows its consent in terms of the columns that reach it, and steps before it may have renamed,
# reordered or replaced columns. :func:`consent_within` maps the schema back to the columns of the table that people
# see, and checks by trial that erasing a group there is silence where the model is, and nothing but silence.


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
