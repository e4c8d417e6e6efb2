"""What is fixed before the first tree: the table, who may withhold what, and how to augment."""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np

from .._arrays import Array
from .._consent import Consent
from .._engines.base import Engine, EngineFacts, Validation, VirtualTable, engine_named
from .._engines.params import Settings, is_booster, split_params
from .._models.files import consent_of
from .._models.schema import categories_of, label_hash
from .._virtual.merging import mean_hessian, merge_people, merge_virtual_rows, wants_compaction
from .._virtual.plan import ENGINE_MAX_ROWS, PlanSummary, child_seed, default_copies, plan_masks
from .._virtual.rows import MaskedRows
from ..objectives import Objective, objective_for
from .datasets import Dataset, SourceTable, declares_something, read_dataset, resolve_consent

logger = logging.getLogger("pucboost")

MEMORY_SHARE = 0.5
"""How much of the machine's memory the virtual rows may take by default."""


@dataclass(frozen=True)
class TrainingJob:
    """One call of ``train`` or ``cv``, read and checked. ``consent`` has no groups if nothing is optional."""

    engine: Engine
    facts: EngineFacts
    settings: Settings
    params: dict[str, Any]
    num_boost_round: int
    table: SourceTable
    consent: Consent
    objective: Objective | None
    """The loss in closed form; None for a callable, or a loss pucboost does not know."""
    max_virtual_rows: int

    @classmethod
    def read(
        cls,
        params: Any,
        train_set: Any,
        num_boost_round: int,
        caller: str,
        parallel_tables: int = 1,
        metrics: Any = None,
    ) -> TrainingJob | None:
        """Return None if LightGBM is to train and nothing is optional: then it does so alone.

        ``parallel_tables`` is how many training tables will be in memory at once, ``metrics`` what ``cv`` was given.
        """
        settings, engine_params = split_params(params)
        engine = engine_named(settings.engine)
        train_set = _as_dataset(train_set, settings.engine, caller)
        optional = any(declares_something(given) for given in (settings.optional, _optional_of(train_set)))
        if settings.anchor is not None and not optional:
            raise ValueError("anchor needs optional features: without them everybody gets the anchor's prediction.")
        if settings.engine == "lightgbm" and not optional:
            return None
        table = read_dataset(train_set, "train_set")
        engine_params, num_boost_round = engine.prepare(engine_params, table.params, num_boost_round)
        # LightGBM also reads parameters from the Dataset, unless the call gives them.
        effective = {**table.params, **engine_params}
        engine.check_supported(effective if metrics is None else {**effective, "metric": metrics})
        if train_set.reference is not None and train_set.used_indices is None:
            warnings.warn(
                "The reference of train_set is not used: the bins must be made from virtual rows, in which every "
                "optional column is sometimes missing.",
                UserWarning,
                stacklevel=3,
            )
        facts = engine.facts(effective)
        # … but never the objective.
        objective = objective_for(engine_params, settings.engine)
        check_labels(objective, settings.engine, table.label, "label of train_set")
        limit = settings.max_virtual_rows
        if limit is None:
            per_row = engine.bytes_per_virtual_row(table.source.values_per_row, facts.n_classes)
            limit = max(_rows_in_memory(per_row * parallel_tables), table.source.n_rows)
        consent = resolve_consent(table, settings.optional) or Consent({}, tuple(table.names))
        consent.warn_without_base()
        return cls(engine, facts, settings, engine_params, num_boost_round, table, consent, objective, limit)

    def check_continues(self, init_model: Any) -> None:
        """Raise if ``init_model`` was trained under another consent schema."""
        optional = self.consent.n_groups > 0
        known = check_same_consent(init_model, self.consent if optional else None)
        if optional and init_model is not None and not known:
            warnings.warn(
                "init_model has no consent schema: what its trees concluded from silence stays in the model.",
                UserWarning,
                stacklevel=3,
            )
        if is_booster(init_model):
            self._check_same_categories(init_model)

    def _check_same_categories(self, init_model: Any) -> None:
        """Raise if the codes in the trees of ``init_model`` stand for other categories than those of the table."""
        before, now = categories_of(init_model), self.table.source.categories
        if before is None or not before.values or not now.values:
            return  # nothing known, or codes given by hand
        there, here = before.by_column(self.table.source.coded), now.by_column(())
        for j, name in enumerate(self.table.names):
            known, given = list(there.get(j, ())), list(here.get(j, ()))
            if given[: len(known)] != known:  # more of them may follow
                raise ValueError(
                    f"Column {name!r} has the categories {given[:5]} …, init_model was trained on {known[:5]} …, so "
                    "its codes would be misread. Give the column the categories of init_model, in their order, as a "
                    "pandas category, and new ones behind them."
                )

    def augment(
        self, table: SourceTable, augmentation: str, seed: int, limit: int, what: str, compact: bool | str = False
    ) -> VirtualTable:
        """Plan the masks of a table and return its virtual rows."""
        threads, people, copies = self.facts.num_threads, table.source.n_rows, self.settings.copies
        shared = self.consent.visible(
            table.source, table.available, zero_as_missing=self.facts.zero_as_missing, num_threads=threads
        )
        merge = wants_compaction(compact, self.objective, table, shared)
        if merge and augmentation != "fixed":  # which draws as many rows as there are people
            table, shared = merge_people(table, shared, self.objective, threads)
            # The budget stays that of the people; merged, it usually covers every virtual row.
            copies = max(1.0, (copies or default_copies(people)) * people / len(shared))
        plan = plan_masks(shared, augmentation, copies=copies, seed=seed, max_virtual_rows=limit, num_threads=threads)
        logger.info("%s: %s", what, plan.summary(table.weight))
        virtual = VirtualTable(MaskedRows(table.source, self.consent, plan, num_threads=threads), table)
        return merge_virtual_rows(virtual, people, self.objective) if merge else virtual

    def training_rows(self, table: SourceTable | None = None, seed: int | None = None) -> VirtualTable:
        """Return the virtual training table (of a fold, if given)."""
        seed = self.facts.seed if seed is None else seed
        table = self.table if table is None else table
        compact = self.settings.compact
        return self.augment(table, self.settings.augmentation, seed, self.max_virtual_rows, "training", compact)

    def params_for(self, virtual: VirtualTable, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the engine's parameters for a training table, which may consist of merged rows."""
        params = self.params if params is None else params
        if not virtual.merged or self.objective is None:
            return params
        weight = np.ones(len(virtual.table.label)) if virtual.table.weight is None else virtual.table.weight
        # Leaves sum weights, which need not have a mean of 1.
        per_person = mean_hessian(self.objective, virtual.table.label, weight) * float(weight.sum()) / virtual.people
        return self.engine.for_merged_rows(params, self.objective, per_person)

    def validation_rows(self, table: SourceTable, seed: int) -> VirtualTable:
        """Return a virtual validation table: the validation scheme, a seed of its own."""
        mine, theirs = self.table.source.feature_names, table.source.feature_names
        if mine is not None and theirs is not None:
            Consent({}, tuple(mine)).check_columns(theirs)
        elif table.source.n_columns != self.table.source.n_columns:
            raise ValueError(
                f"A validation set has {table.source.n_columns} columns, train_set has {self.table.source.n_columns}."
            )
        # A budget meant for training must not refuse a validation set that is there anyway.
        limit = max(self.max_virtual_rows, table.source.n_rows)
        return self.augment(table, self.settings.valid_augmentation, seed, limit, "validation")

    def validation(self, valid_sets: Any, valid_names: Any, train_set: Any) -> Validation | None:
        """Augment the validation sets and name them as LightGBM does; the training set among them stays itself."""
        if valid_sets is None:
            return None
        a_pair = isinstance(valid_sets, tuple) and not any(isinstance(p, (lgb.Dataset, tuple)) for p in valid_sets)
        given = [valid_sets] if a_pair or isinstance(valid_sets, lgb.Dataset) else list(valid_sets)
        names = [valid_names] if isinstance(valid_names, str) else list(valid_names or [])
        built: dict[int, VirtualTable] = {}  # one set given twice is one table, whatever its place in the list
        out: list[tuple[VirtualTable | None, str]] = []
        for i, valid_set in enumerate(given):
            is_training = valid_set is train_set
            name = names[i] if i < len(names) else "training" if is_training else f"valid_{i}"
            if not is_training and id(valid_set) not in built:
                built[id(valid_set)] = self._validation_table(valid_set, i, len(built))
            out.append((None if is_training else built[id(valid_set)], name))
        return out

    def _validation_table(self, valid_set: Any, number: int, distinct: int) -> VirtualTable:
        if isinstance(valid_set, tuple) and self.settings.engine != "lightgbm":
            valid_set = Dataset(*valid_set)
        if not isinstance(valid_set, lgb.Dataset):
            raise TypeError(
                f"Every item in valid_sets must be a Dataset object. Item {number} has type "
                f"'{type(valid_set).__name__}'."
            )
        table = read_dataset(valid_set, f"validation set {number}", self.table.source.categories)
        check_labels(self.objective, self.settings.engine, table.label, f"label of validation set {number}")
        own = resolve_consent(table, None, f"validation set {number}")
        if own is not None and own.groups != self.consent.groups:
            raise ValueError(f"Validation set {number} declares other groups than train_set: {own} and {self.consent}.")
        if own is not None and table.available is not None and own.group_names != self.consent.group_names:
            order = [own.group_names.index(group) for group in self.consent.group_names]
            table = replace(table, available=np.asarray(table.available)[:, order])
        return self.validation_rows(table, child_seed(self.facts.seed, distinct))

    def finish(self, booster: Any, virtual: VirtualTable) -> Any:
        """Give the booster its consent schema, if there is one."""
        if self.consent.n_groups == 0:
            return booster
        return self.engine.attach(booster, self.consent, self.summary(virtual), self.table.pandas_categorical)

    def summary(self, virtual: VirtualTable) -> PlanSummary:
        """Return what a model keeps of its training table."""
        return replace(
            virtual.rows.plan.summary(virtual.table.weight),
            source_rows=virtual.people,
            label_hash=label_hash(self.table.label),
            coded_columns=tuple(self.table.source.coded),
        )


def check_labels(objective: Objective | None, engine: str, label: Array, name: str) -> None:
    """Raise if labels do not fit the objective."""
    if objective is None:
        return
    objective.check_labels(label, name)
    if engine == "lightgbm" and objective.name == "binary":
        soft = np.flatnonzero((label != 0) & (label != 1))
        if len(soft):
            raise ValueError(
                f"{name} is {label[soft[0]]} in row {soft[0]}; LightGBM's objective 'binary' would read it as 1. Use "
                "'cross_entropy' for labels between 0 and 1."
            )


def check_same_consent(init_model: Any, consent: Consent | None) -> bool:
    """Raise if ``init_model`` was trained under another consent schema than ``consent``; return whether it has one."""
    before = consent_of(init_model)
    if before is not None and before != consent:
        raise ValueError(
            f"init_model was trained under {before}, this call declares {consent or 'nothing optional'}. Declare the "
            "same optional features to continue it."
        )
    return before is not None


def _as_dataset(train_set: Any, engine: str, caller: str) -> lgb.Dataset:
    """Return a Dataset; with XGBoost a pair (X, y) will do."""
    if isinstance(train_set, lgb.Dataset):
        return train_set
    if engine == "lightgbm":
        raise TypeError(f"{caller}() only accepts Dataset object, train_set has type '{type(train_set).__name__}'.")
    if isinstance(train_set, tuple) and len(train_set) == 2:
        return Dataset(*train_set)
    if type(train_set).__module__.startswith("xgboost"):
        raise TypeError(
            f"train_set is an xgboost {type(train_set).__name__}, which no longer has the raw rows that must be "
            "masked. Pass a puc.Dataset, an lgb.Dataset or a pair (X, y)."
        )
    raise TypeError(
        f"{caller}() takes a puc.Dataset, an lgb.Dataset or a pair (X, y); train_set has type "
        f"'{type(train_set).__name__}'."
    )


def _optional_of(dataset: lgb.Dataset) -> Any:
    if dataset.used_indices is not None and dataset.reference is not None and not hasattr(dataset, "optional"):
        return _optional_of(dataset.reference)
    return getattr(dataset, "optional", None)


def _rows_in_memory(bytes_per_row: int) -> int:
    return min(ENGINE_MAX_ROWS, int(MEMORY_SHARE * _memory_bytes() / bytes_per_row))


def _memory_bytes() -> float:
    """Return the memory of the machine or container; infinite where the system does not tell."""
    known = [float("inf")]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE"))
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        known.append(float(text))
    return min(known)
