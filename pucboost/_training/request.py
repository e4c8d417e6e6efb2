"""One call of ``train`` or ``cv``, read and checked before anything is built.

parameters → :class:`Settings`, training set → :class:`TrainingRequest`, validation sets → tables, ``init_model`` → a
booster that may be continued.
"""

from __future__ import annotations

import copy
import difflib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import lightgbm as lgb
import numpy as np

from .._common import Array, did_you_mean, threads_for, warn
from .._consent import Consent, declares_something
from .._engines import DEFAULT_ENGINE, boosters_of, engine_named, engine_of_data, is_booster, prepare
from .._engines.base import Engine, EngineParams, Hooks, RunOptions
from .._engines.features import check_features
from .._engines.names import XGBOOST_PARAMETERS, by_position, names_columns, value_of
from .._losses import Objective, Quantile, check_takes_exposure, per_unit
from .._models.schema import Favourable, categories_of, check_favourable, kept_of
from .._not_applicable import NotApplicable, read_not_applicable
from .._silence import warn_of_encoded_silence
from .._tables.sources import (
    RowSource,
    SourceTable,
    eager,
    row_source,
)
from .._virtual.merging import read_row_key
from .._virtual.plan import check_augmentation, check_copies, check_max_virtual_rows
from .datasets import is_constructed, is_read_by_us, read_dataset, whole_of

if TYPE_CHECKING:
    from .._virtual.shared_plan import PlanPart

logger = logging.getLogger("pucboost")

FEW = 50
"""In a smaller table one label may well outweigh the others."""

OWN_KEYS = (
    "optional",
    "not_applicable",
    "engine",
    "augmentation",
    "copies",
    "valid_augmentation",
    "max_virtual_rows",
    "external_memory",
    "compact",
    "calibrate_masks",
    "silence_first",
    "anchor",
    "anchor_strength",
    "expect_shared",
    "expect_revealing",
    "row_key",
    "favourable",
    "plan",
)
"""Keys of ``params`` that are pucboost's and never reach an engine."""


INSTEAD = {
    "class_weight": "Give weight to the Dataset, or class_weight to PUCClassifier; for two classes scale_pos_weight "
    "also works.",
    "exposure": "Give exposure to puc.Dataset, or to fit of PUCRegressor: it has one value for each row.",
    "available": "Give available to puc.Dataset: it has one row for each person.",
}
"""What is pucboost's, but no parameter, and where to give it."""

CLOSE = 0.7
"""From this similarity on (that of difflib) a name is taken for a mistyped one of ours, and is an error."""


@dataclass(frozen=True)
class Settings:
    engine: str = DEFAULT_ENGINE
    optional: Any = None
    not_applicable: NotApplicable = None
    augmentation: str = "balanced"
    valid_augmentation: str = "balanced"
    copies: float | None = None
    compact: bool | str = False
    calibrate_masks: float = 0.0
    silence_first: bool | None = None
    anchor: Any = None
    anchor_strength: float | None = None
    max_virtual_rows: int | None = None
    external_memory: Path | None = None
    expect_shared: Any = None
    expect_revealing: Any = None
    row_key: Any = None
    """Where the key of row hashes is; never the key itself."""
    favourable: Favourable | None = None
    plan: PlanPart | None = None
    """The slice of a plan that several workers agree on."""


def check_known(engine: Engine, params: Mapping[str, Any], *, strict: bool = False) -> None:
    """Raise for a parameter nobody knows that may be meant for pucboost, and warn of any other, as LightGBM does.

    A mistyped ``optional`` would otherwise train an ordinary model. ``strict`` raises for any.
    """
    for name in map(str, engine.unknown_parameters(params)):
        if name in OWN_KEYS:
            raise ValueError(f"{name!r} is a parameter of train and cv; a Dataset takes optional as an argument.")
        found = f"Unknown parameter {name!r}: neither pucboost nor {engine.title} knows it"
        if name in INSTEAD:
            raise ValueError(f"{found}. {INSTEAD[name]}")
        ours = _meant_of_ours(name, engine.parameters)
        if ours is not None:
            raise ValueError(f"{found}. Did you mean {ours!r}?")
        hint = did_you_mean(name, engine.parameters)
        if name in XGBOOST_PARAMETERS:
            hint = " It is XGBoost's ('engine': 'xgboost')."
        if strict:
            raise ValueError(f"{found}.{hint}")
        warn(f"{found}, so it has no effect.{hint}")


def _meant_of_ours(name: str, of_the_engine: Collection[str]) -> str | None:
    """Return what a name seems to mean, if that is pucboost's; None if the engine has a more similar one."""
    if "optional" in name.lower():  # the one that all protection hangs on
        return "optional"
    ours = [*OWN_KEYS, *INSTEAD]
    close = difflib.get_close_matches(name.lower(), [*ours, *of_the_engine], 1, CLOSE)
    return close[0] if close and close[0] in ours else None


def split_params(params: Mapping[str, Any] | None) -> tuple[Settings, dict[str, Any]]:
    """Return pucboost's own parameters, checked, and a copy of the engine's, otherwise unchanged."""
    given = {} if params is None else dict(params)
    own = {key: given.pop(key) for key in OWN_KEYS if key in given}
    engine_params = copy.deepcopy(given)

    compact = own.get("compact", False)
    if compact not in (True, False, None, "auto"):
        raise ValueError(f"compact must be True, False or 'auto', got {compact!r}.")
    plan = _check_plan(own)
    check_features(own.get("engine", DEFAULT_ENGINE), {**own, "plan": None if plan is None else "with a shared plan"})
    augmentation = check_augmentation(own.get("augmentation", "balanced") if plan is None else plan.plan.augmentation)
    valid = own.get("valid_augmentation")
    copies, max_rows = own.get("copies") if plan is None else plan.plan.copies, own.get("max_virtual_rows")
    return (
        Settings(
            engine=own.get("engine", DEFAULT_ENGINE),
            optional=own.get("optional"),
            not_applicable=own.get("not_applicable"),
            augmentation=augmentation,
            valid_augmentation=augmentation if valid is None else check_augmentation(valid, "valid_augmentation"),
            copies=None if copies is None else check_copies(copies),
            compact=compact or False,
            calibrate_masks=_check_calibrate_masks(own.get("calibrate_masks")),
            silence_first=_check_silence_first(own.get("silence_first")),
            anchor=_check_anchor(own.get("anchor")),
            anchor_strength=_check_anchor_strength(own.get("anchor_strength"), own.get("anchor")),
            max_virtual_rows=None if max_rows is None else check_max_virtual_rows(max_rows),
            external_memory=_check_external_memory(own.get("external_memory")),
            expect_shared=own.get("expect_shared"),
            expect_revealing=own.get("expect_revealing"),
            row_key=check_row_key(own.get("row_key")),
            favourable=check_favourable(own.get("favourable")),
            plan=plan,
        ),
        engine_params,
    )


def _check_plan(own: Mapping[str, Any]) -> PlanPart | None:
    """Return the slice of a shared plan; raise for parameters that are the plan's, or impossible in parts."""
    plan = own.get("plan")
    if plan is None:
        return None
    from .._virtual.shared_plan import PlanPart

    if not isinstance(plan, PlanPart):
        raise TypeError(
            f"plan must be a part of a SharedPlan, as plan.part(…) returns it, got {type(plan).__name__!r}."
        )
    for name in ("augmentation", "copies", "max_virtual_rows"):
        if own.get(name) is not None:
            raise ValueError(f"{name} belongs to the plan that all parts share; give it to SharedPlan.agree.")
    return plan


def _check_calibrate_masks(value: Any) -> float:
    """Return ``calibrate_masks`` as a strength: 0 for False, 1 for True."""
    if value is None or isinstance(value, (bool, np.bool_)):
        return float(bool(value))
    if not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(
            f"calibrate_masks must be True, False or a strength from 0 (nothing) to 1 (True), got {value!r}."
        )
    return float(value)


def _check_silence_first(value: Any) -> bool | None:
    if value is not None and not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"silence_first must be True or False, got {value!r}.")
    return value if value is None else bool(value)


def _check_external_memory(folder: Any) -> Path | None:
    if folder is None:
        return None
    if not isinstance(folder, (str, Path)) or not Path(folder).is_dir():
        raise ValueError(f"external_memory must be an existing folder, got {folder!r}.")
    return Path(folder)


def check_row_key(where: Any) -> Any:
    """Return where the key is, if one can be read there now; training takes long."""
    if where is not None:
        read_row_key(where)
    return where


def _check_anchor(anchor: Any) -> Any:
    if anchor is None:
        return None
    from .._models.anchors import check_anchor

    return check_anchor(anchor)


def _check_anchor_strength(strength: Any, anchor: Any) -> float | None:
    """Return λ if it is a positive number and there is an anchor, else raise."""
    if strength is None:
        return None
    if anchor is None:
        raise ValueError("anchor_strength needs an anchor.")
    if isinstance(strength, bool) or not isinstance(strength, Real) or not 0 < float(strength) < float("inf"):
        raise ValueError(f"anchor_strength must be a positive number, got {strength!r}.")
    return float(strength)


def for_data(params: Mapping[str, Any] | None, data: Any) -> dict[str, Any]:
    """Return a copy of the parameters; an engine's own data say which engine is meant, and in whose words."""
    given = dict(params or {})
    own = engine_of_data(data)
    return given if own is None else engine_named(own).params_with_its_data({"engine": own, **given})


def plain_params(params: Mapping[str, Any] | None, dataset: lgb.Dataset) -> dict[str, Any]:
    """Return the engine's parameters, with constraints by position, for a Dataset that it reads itself."""
    _, given = split_params(params)
    return by_position(given, _names_of(dataset)) if names_columns(given) else given


def _names_of(dataset: Any) -> list[str]:
    if is_constructed(dataset):
        return list(dataset.get_feature_name())
    if isinstance(dataset.feature_name, list):
        return list(dataset.feature_name)
    return _names_of(dataset.reference) if dataset.data is None else row_source(eager(dataset.data)).names


ValidationTables: TypeAlias = list[tuple[SourceTable | None, str]]
"""Validation sets with their names, before they are augmented; None stands for the training set."""


@dataclass(frozen=True)
class TrainingRequest:
    """One training: engine, parameters, people, and who may withhold what. Nothing is augmented yet."""

    engine: Engine
    settings: Settings
    params: EngineParams
    table: SourceTable
    consent: Consent
    """Has no groups if nothing is optional."""
    classes: Array | None = None
    """The labels that class numbers stand for, if there were others than these numbers."""
    label_name: str = "label of train_set"
    """What errors call the labels."""

    @classmethod
    def read(
        cls,
        params: Any,
        train_set: lgb.Dataset,
        num_boost_round: int,
        metrics: Any = None,
        *,
        keep_training_booster: bool = False,
        alone: bool = True,
    ) -> TrainingRequest | None:
        """Return the request; None if nothing is optional and the engine can train on the Dataset itself.

        Parameters
        ----------
        params, train_set, num_boost_round
            As in ``train``, but ``train_set`` is a Dataset.
        metrics
            The argument of ``cv``.
        keep_training_booster
            The argument of ``train``.
        alone
            Whether the engine may be left alone with the Dataset.
        """
        settings, engine_params = split_params(params)
        engine = engine_named(settings.engine)
        check_known(engine, {**(train_set.params or {}), **engine_params})
        optional = any(declares_something(given) for given in (settings.optional, _optional_of(train_set)))
        optional |= settings.plan is not None
        if settings.anchor is not None and not optional:
            raise ValueError("anchor needs optional features: without them everybody gets the anchor's prediction.")
        if not optional and (settings.not_applicable or getattr(train_set, "not_applicable", None)):
            raise ValueError("not_applicable needs optional columns: nothing else is silence when it is missing.")
        own = engine_of_data(train_set.data)
        reads_it = own == engine.name if own else engine.trains_plain_datasets and not is_read_by_us(train_set)
        if alone and reads_it and not optional:
            return None
        reader = None if settings.plan is None else settings.plan.plan.read
        table = read_dataset(train_set, "train_set", reader=reader)
        if train_set.reference is not None and train_set.used_indices is None:
            warn(
                "The reference of train_set is not used: the bins must be made from virtual rows, in which every "
                "optional column is sometimes missing.",
            )
        consent = resolve_consent(table, settings.optional)
        if settings.plan is None:
            declared = table.not_applicable, settings.not_applicable
            consent, source = read_not_applicable(consent, table.source, *declared)
            table = table.with_source(source)
        else:
            consent = _consent_of_plan(settings.plan, consent)
        consent.warn_without_base()
        keeps = keep_training_booster
        return cls.of(engine, settings, engine_params, table, consent, num_boost_round, metrics, keeps_data=keeps)

    @property
    def options(self) -> RunOptions:
        return self.params.options

    @property
    def objective(self) -> Objective | None:
        return self.params.objective

    @property
    def calibrates(self) -> bool:
        """Whether a round of constants per mask is added."""
        return self.settings.calibrate_masks > 0 and self.consent.n_groups > 0

    @property
    def per_exposure(self) -> bool:
        """Whether the labels are totals over an exposure."""
        return self.table.exposure is not None

    @cached_property
    def _shared(self) -> Array:
        return self._visible(self.table)

    def shared(self, table: SourceTable) -> Array:
        """Return the mask of the groups that each person of a table shares, as training sees it."""
        own = table.source is self.table.source and table.available is self.table.available
        return self._shared if own else self._visible(table)

    def _visible(self, table: SourceTable) -> Array:
        zero, threads = self.options.zero_as_missing, self.options.num_threads
        return self.consent.visible(table.source, table.available, zero_as_missing=zero, num_threads=threads)

    def warn_before_training(self, *, validates: bool) -> None:
        """Warn if silence seems to be imputed or encoded in the training table, if its text names single people, or if
        one label decides what everybody is told.

        Also with ``augmentation="none"``: whoever gives it may well believe that ``optional`` protects somebody. Log
        that validation sets are scored as they are, if some are.
        """
        if validates and self.settings.valid_augmentation == "none" != self.settings.augmentation:
            logger.warning(
                "validation sets are scored as they are (valid_augmentation='none'), so early stopping and whoever "
                "compares models by these scores rewards what silence tells"
            )
        expected = self.settings.expect_shared, self.settings.expect_revealing
        zero = self.options.zero_as_missing
        if self.settings.plan is not None:
            return  # who shares what may well differ between parts
        threads, available = self.options.num_threads, self.table.available
        self.consent.warn_of_lacking(self.table.source, available, zero_as_missing=zero, num_threads=threads)
        warn_of_encoded_silence(self.table.source, self.consent, self._shared, *expected, zero_as_missing=zero)
        if self.consent.n_groups and self.table.source.coded:
            from .._tables.columns import warn_of_identifying_text

            warn_of_identifying_text(self.table.source)
        self._warn_of_one_label()

    def _warn_of_one_label(self) -> None:
        """Warn if one label is farther from the mean of the others than all these together.

        At the best constant m for the others, the gradients of squared error, Poisson, gamma and Tweedie are the same
        multiple of w·(m − y) for every row. So this one has most of the gradient, and the trees learn little else.
        """
        loss, table = self.objective, self.table
        bounded = loss is None or not loss.linear_in_label or loss.link_name not in ("identity", "log")
        starts_elsewhere = table.init_score is not None or self.settings.anchor is not None
        if loss is None or bounded or starts_elsewhere or len(table.label) < FEW:
            return
        label, weight = np.asarray(table.label, dtype=np.float64), table.weight
        if table.exposure is not None:
            label, weight = per_unit(label, weight, table.exposure)
        weight = np.ones(len(label)) if weight is None else np.array(weight, dtype=np.float64)
        # Sums of products, because numpy wakes up all cores for @.
        row = int(np.argmax(weight * np.abs(label - (weight * label).sum() / max(weight.sum(), 1e-300))))
        own, weight[row] = weight[row], 0.0
        mean = float((weight * label).sum() / max(weight.sum(), 1e-300))
        others, own = float((weight * np.abs(label - mean)).sum()), float(own * abs(label[row] - mean))
        if own > others > 0:
            warn(
                f"One of {len(label):,} labels decides what everybody is told: {self.label_name} is "
                f"{table.label[row]:,.6g} in row {row}, while the others are {mean:,.3g} on average, and with "
                f"objective {loss.name!r} this row has {own / (own + others):.0%} of the gradient. Is it an error? If "
                "not, cap it or leave the row out."
            )

    @classmethod
    def of(
        cls,
        engine: Engine,
        settings: Settings,
        engine_params: dict[str, Any],
        table: SourceTable,
        consent: Consent,
        num_boost_round: int,
        metrics: Any = None,
        label_name: str = "label of train_set",
        classes: Array | None = None,
        keeps_data: bool = False,
    ) -> TrainingRequest:
        """Check parameters and labels for a table already read; errors name the labels ``label_name``."""
        if consent.n_groups:
            _check_names(engine, table.names)
            _check_categories(table.source)
        engine_params = by_position(engine_params, table.names)
        _check_not_applicable(consent, table, engine_params | table.params)
        asked = {} if metrics is None else {"metric": metrics}
        asked |= {
            "anchor": settings.anchor,
            "calibrate_masks": settings.calibrate_masks if consent.n_groups else None,
            "silence_first": settings.silence_first,
            "external_memory": settings.external_memory,
            "keep_training_booster": keeps_data,
            "under_consent": consent.n_groups > 0,
        }
        if settings.plan is not None:
            asked |= {"plan": "with a shared plan", "shuffled": settings.plan.plan.shuffled}
        engine, prepared = prepare(settings.engine, engine_params, table, num_boost_round, asked)
        # Of people: each tree grows on a bag of as many virtual rows.
        threads = threads_for(prepared.options.num_threads, table.source.n_values)
        prepared = replace(prepared, options=replace(prepared.options, num_threads=threads))
        objective, options = prepared.objective, prepared.options
        if table.exposure is not None:
            check_takes_exposure(objective, value_of(prepared.values, "objective"))
        engine.check_labels(objective, table.label, label_name)
        if settings.favourable is not None and objective is not None and objective.n_scores > 1:
            raise ValueError(
                "favourable in training with several classes does not tell of which class. Give favourable and "
                "target_class to the calls that need them."
            )
        if settings.plan is not None and options.zero_as_missing != settings.plan.plan.zero_as_missing:
            raise ValueError("zero_as_missing differs between params and plan; give it to SharedPlan.facts and agree.")
        return cls(engine, settings, prepared, table, consent, classes, label_name)


def _check_names(engine: Engine, names: Sequence[str]) -> None:
    """Raise if a model with these columns could not be trained, or not be read from its file."""
    for name in names:
        trouble = engine.trouble_with_name(name)
        if trouble is not None:
            raise ValueError(f"{engine.title} does not accept the name {name!r} {trouble}. Rename the column.")


def _check_categories(source: RowSource) -> None:
    """Raise for a category that an engine cuts off, or stops at."""
    for j, values in source.categories.by_column(source.coded).items():
        if any(isinstance(value, str) and "\0" in value for value in values):
            raise ValueError(f"Column {source.names[j]!r} has a category with a null character in it. Remove it.")


def _check_not_applicable(consent: Consent, table: SourceTable, params: Mapping[str, Any]) -> None:
    """Raise if a value that means "does not apply" would be read as a quantity, or as a category code."""
    signs = value_of(params, "monotone_constraints") or ()
    signs = signs if isinstance(signs, (list, tuple)) else ()
    given = table.categorical_feature if isinstance(table.categorical_feature, (list, tuple)) else ()
    as_codes = {table.names.index(one) if one in table.names else one for one in given} - set(table.source.coded)
    for column in {one.column for one in consent.not_applicable}:
        name, reason = table.names[column], None
        if value_of(params, "linear_tree") in (True, "true", 1):
            reason = "linear_tree would multiply the value that means so. Leave linear_tree out"
        elif column < len(signs) and signs[column]:
            reason = "monotone_constraints would order the value that means so. Leave the column out of them"
        elif column in as_codes:
            reason = "its categories are codes without names. Pass a DataFrame with text or category columns"
        if reason is not None:
            raise ValueError(f"not_applicable of column {name!r}: {reason}.")


def resolve_consent(table: SourceTable, optional_in_params: Any, name: str = "train_set") -> Consent:
    """Return the consent schema of a table, declared on the Dataset, in the parameters, or in both."""
    # The Dataset's own declaration goes first: the columns of its `available` are in that order.
    given = [optional for optional in (table.optional, optional_in_params) if declares_something(optional)]
    declared = [Consent.of(optional, table.source, table.names) for optional in given]
    if len(declared) == 2 and declared[0] != declared[1]:
        raise ValueError(
            f"params['optional'] and the optional of {name} differ: {declared[1]} and {declared[0]}. Declare only one."
        )
    return declared[0] if declared else Consent({}, tuple(table.names))


def _consent_of_plan(part: PlanPart, declared: Consent) -> Consent:
    consent = part.plan.consent
    if declared.n_groups and (declared.groups, declared.needs) != (consent.groups, consent.needs):
        raise ValueError(f"This call declares {declared}, but the plan was made for {consent}. Declare only one.")
    return replace(consent, feature_names=declared.feature_names)


def _optional_of(dataset: lgb.Dataset) -> Any:
    whole = whole_of(dataset)
    if whole is not None and not hasattr(dataset, "optional"):
        return _optional_of(whole)
    return getattr(dataset, "optional", None)


def read_validation(
    request: TrainingRequest, valid_sets: Any, valid_names: Any, train_set: lgb.Dataset
) -> ValidationTables | None:
    """Return the validation sets as tables; a repeated set is read once, and None stands for the training set."""
    if valid_sets is None:
        return None
    read: dict[int, SourceTable] = {}
    tables: ValidationTables = []
    for i, (valid_set, name) in enumerate(named_sets(valid_sets, valid_names, train_set)):
        is_training = valid_set is train_set
        if not is_training and id(valid_set) not in read:
            read[id(valid_set)] = _read_one(request, valid_set, i)
        tables.append((None if is_training else read[id(valid_set)], name))
    return tables


def named_sets(valid_sets: Any, valid_names: Any, train_set: lgb.Dataset) -> list[tuple[Any, str]]:
    """Return validation sets with their names, as LightGBM has them."""
    given = [valid_sets] if isinstance(valid_sets, lgb.Dataset) else list(valid_sets or ())
    names = [valid_names] if isinstance(valid_names, str) else list(valid_names or ())
    own = ("training" if one is train_set else f"valid_{i}" for i, one in enumerate(given))
    return [(one, names[i] if i < len(names) else name) for i, (one, name) in enumerate(zip(given, own, strict=True))]


def _read_one(request: TrainingRequest, valid_set: Any, number: int) -> SourceTable:
    if not isinstance(valid_set, lgb.Dataset):
        raise TypeError(
            f"Every item in valid_sets must be a Dataset object. Item {number} has type '{type(valid_set).__name__}'."
        )
    name = f"validation set {number}"
    training = request.table.source
    table = read_dataset(valid_set, name, training.categories, training.feature_names)
    if declares_something(table.optional):
        table = _in_order_of(request.consent, resolve_consent(table, None, name), table, number)
    if table.not_applicable:
        declared, source = read_not_applicable(request.consent, table.source, table.not_applicable)
        if declared != request.consent:
            raise ValueError(f"not_applicable of {name} says {declared}, that of train_set {request.consent}.")
        table = table.with_source(source)
    check_validation(request, table, name)
    return table


def _in_order_of(consent: Consent, own: Consent, table: SourceTable, number: int) -> SourceTable:
    """Return the table with the columns of ``available`` in the order of the training set's groups."""
    if (own.groups, own.needs) != (consent.groups, consent.needs):
        raise ValueError(f"Validation set {number} declares other groups than train_set: {own} and {consent}.")
    if table.available is None or own.group_names == consent.group_names:
        return table
    order = [own.group_names.index(group) for group in consent.group_names]
    return replace(table, available=np.asarray(table.available)[:, order])


def check_validation(request: TrainingRequest, table: SourceTable, name: str) -> None:
    """Raise if labels, columns or exposure of a validation table do not fit the training table."""
    check_held_out(request, table, name)
    check_both_or_neither(request.per_exposure, table.exposure is not None, name)


def check_held_out(request: TrainingRequest, table: SourceTable, name: str) -> None:
    """Raise if labels or columns of a validation table do not fit the training table."""
    request.engine.check_labels(request.objective, table.label, f"label of {name}")
    mine, theirs = request.table.source, table.source
    if mine.feature_names is not None and theirs.feature_names is not None:
        Consent({}, tuple(mine.feature_names)).check_columns(theirs.feature_names)
    elif theirs.n_columns != mine.n_columns:
        raise ValueError(f"A validation set has {theirs.n_columns} columns, but train_set has {mine.n_columns}.")


def check_both_or_neither(one: bool, other: bool, other_name: str, one_name: str = "train_set") -> None:
    """Raise if only one of two that belong together has an exposure: it would be rates, and the other totals."""
    if one != other:
        has, lacks = (one_name, other_name) if one else (other_name, one_name)
        raise ValueError(f"{has} has an exposure, but {lacks} has none. Give the exposure of both, or of neither.")


def check_can_be_calibrated(request: TrainingRequest, hooks: Hooks) -> None:
    """Raise if ``calibrate_masks`` is given where the constants are not defined or not possible."""
    settings, loss = request.settings, request.objective
    if not request.calibrates:
        return
    if loss is None or isinstance(loss, Quantile):
        given = "this objective" if loss is None else f"objective {loss.name!r}"
        raise ValueError(
            f"calibrate_masks with {given}: constants make the mean outcome right, on the scale of a link that is "
            "known (regression, binary, cross_entropy, multiclass, poisson, gamma, tweedie, without class weights or "
            "transformations of the engine). Leave calibrate_masks out."
        )
    if settings.augmentation == "none":
        raise ValueError(
            "calibrate_masks with augmentation='none': people as they are tell what silence says. Leave one out."
        )
    if settings.anchor_strength is not None:
        raise ValueError(
            "calibrate_masks with anchor_strength: one makes people who share nothing right on average, the other "
            "pulls them towards the anchor. Leave one out."
        )
    if settings.compact is True:
        raise ValueError("calibrate_masks with compact is not supported. Leave compact out.")
    if hooks.keep_training_booster:
        raise ValueError(
            "calibrate_masks with keep_training_booster: the calibration comes after the last round, and trees that "
            "grow later would not know of it. Continue the model with init_model instead."
        )


# ----- models to continue


READS_SILENCE = (
    "was trained with augmentation='none': what its trees inferred from silence stays in the model. Train it again "
    "with another augmentation."
)


def model_to_continue(request: TrainingRequest, init_model: Any) -> Any:
    """Return the booster to continue, read from its file if it is one; None for None.

    Raise if it was trained under another consent schema, or reads categories differently.
    """
    if init_model is None:
        return None
    model = init_model
    if isinstance(init_model, (str, Path)):
        from .._models.files import load_engine_model

        # Not by the engine, where a file that was cut off would stop the process.
        model = load_engine_model(init_model)[0]
    check_is_of(request.engine, model)
    known = check_same_consent(model, request.consent if request.consent.n_groups else None)
    summary = kept_of(model)[1] if known else None
    if request.consent.n_groups and not known:
        warn("init_model has no consent schema: what its trees inferred from silence stays in the model.")
    if summary is not None:
        if request.settings.augmentation != "none" and summary.augmentation == "none":
            warn(f"init_model {READS_SILENCE}")
        check_both_or_neither(summary.per_exposure, request.per_exposure, "train_set", "init_model")
        if summary.loading:
            raise ValueError(
                "init_model has a loading (load_to_balance), which further trees would take back. Continue the model "
                "it was made of, and balance the result."
            )
    _check_same_categories(request, model)
    return model


def check_is_of(engine: Engine, init_model: Any) -> None:
    """Raise for what an engine silently ignores: estimators, anchored models, boosters of another engine."""
    if is_booster(init_model) and boosters_of(init_model) is engine.boosters:
        return
    hint = " Pass its booster_." if hasattr(init_model, "booster_") else ""
    raise TypeError(
        f"init_model must be a booster of {engine.title} or a model file, got {type(init_model).__name__!r}.{hint}"
    )


def _check_same_categories(request: TrainingRequest, init_model: Any) -> None:
    """Raise if category codes in the trees of ``init_model`` mean other categories than those in the table."""
    before, now = categories_of(init_model), request.table.source.categories
    if before is None or not before.values or not now.values:
        return  # nothing is known, or the user assigned the codes
    there, here = before.by_column(request.table.source.coded), now.by_column(())
    for j, name in enumerate(request.table.names):
        known, given = list(there.get(j, ())), list(here.get(j, ()))
        if given[: len(known)] != known:  # new categories may follow
            raise ValueError(
                f"Column {name!r} has the categories {given[:5]} …, but init_model was trained on {known[:5]} …, so "
                "its codes would be misread. Make the column a pandas category with the categories of init_model, in "
                "their order, followed by any new ones."
            )


def check_same_consent(init_model: Any, consent: Consent | None) -> bool:
    """Raise if ``init_model`` was trained under another consent schema than ``consent``; return whether it has one."""
    from .._models.files import consent_of

    before = None if init_model is None else consent_of(init_model)
    if before is not None and before != consent:
        differs = "" if consent is None else f" (it {before.difference(consent)})"
        raise ValueError(
            f"init_model was trained under {before}, but this call declares {consent or 'nothing optional'}{differs}. "
            "Declare the same optional features to continue it."
        )
    return before is not None
