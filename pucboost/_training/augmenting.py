"""From people to virtual rows: which scheme, which seed, which budget."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .._common import Array
from .._consent import Consent
from .._engines.base import Engine, EngineParams, RunOptions, Validation
from .._kernels.compiling import thread_count
from .._models.schema import TrainingSummary, attach_schema, unprotected
from .._tables.containers import SourceTable
from .._virtual.merging import RowSketch, mean_hessian, merge_people, merge_virtual_rows, wants_compaction
from .._virtual.plan import ENGINE_MAX_ROWS, child_seed, default_copies, plan_masks
from .._virtual.rows import MaskedRows, VirtualTable, shown_table
from .._virtual.shared_plan import PartTable
from .request import TrainingRequest, ValidationTables

logger = logging.getLogger("pucboost")

MEMORY_SHARE = 0.5
"""The share of the machine's memory that virtual rows may take by default."""


CALIBRATION_COPIES, CALIBRATION_ROWS = 16.0, 4e6
"""Constants per mask are made from so many virtual rows per person, as long as these are no more than so many."""
CALIBRATION_SEED = 1 << 33
"""Number of their seed; training numbers the seeds of its validation sets from 0."""


class Augmenter:
    """Makes the virtual tables of one training.

    Parameters
    ----------
    request
        What to train.
    parallel_tables
        How many training tables will be in memory at once.
    """

    def __init__(self, request: TrainingRequest, parallel_tables: int = 1) -> None:
        self._request, self._parallel_tables = request, parallel_tables
        leanest = request.engine.in_less_memory(request.params)
        # The people themselves are never refused.
        fitting = max(self._rows_that_fit(leanest), request.table.source.n_rows)
        self._max_rows = request.settings.max_virtual_rows or fitting
        self._said_raw = False

    @property
    def engine(self) -> Engine:
        """The engine that trains."""
        return self._request.engine

    def training(self, table: SourceTable | None = None, seed: int | None = None) -> VirtualTable:
        """Return the virtual training table, or that of a fold if ``table`` is given.

        Warn if the whole table seems to encode silence.
        """
        request = self._request
        return self._augment(
            request.table if table is None else table,
            request.settings.augmentation,
            request.options.seed if seed is None else seed,
            self._max_rows,
            "training",
            request.settings.compact,
        )

    def calibration(self) -> VirtualTable:
        """Return virtual rows of the training people to make the constants of ``calibrate_masks`` from.

        They are more than trees grow on, if these do not have them all: predicting a row takes less than growing on it,
        and a mask's constant should come from everybody who shares at least that mask.
        """
        request = self._request
        return calibration_table(
            request.table, request.consent, request.shared(request.table), request.options, self._max_rows
        )

    def validation(self, table: SourceTable, seed: int) -> VirtualTable:
        """Return a virtual validation table, with the validation scheme and its own seed, and nothing merged."""
        scheme = self._request.settings.valid_augmentation
        if scheme == "none" != self._request.settings.augmentation and not self._said_raw:
            self._said_raw = True
            logger.warning(
                "validation sets are scored as they are (valid_augmentation='none'), so early stopping and whoever "
                "compares models by these scores rewards what silence tells"
            )
        # A budget meant for training must not refuse a validation set that already exists.
        limit = max(self._max_rows, table.source.n_rows)
        return self._augment(table, scheme, seed, limit, "validation")

    def validation_sets(self, tables: ValidationTables | None) -> Validation | None:
        """Return the augmented validation sets; None stands for the training set, and a repeated set is built once."""
        if tables is None:
            return None
        built: dict[int, VirtualTable] = {}
        for table, _ in tables:
            if table is not None and id(table) not in built:
                # Seeded by how many distinct sets precede it: naming the training set must not change early stopping.
                built[id(table)] = self.validation(table, child_seed(self._request.options.seed, len(built)))
        return [(None if table is None else built[id(table)], name) for table, name in tables]

    def _augment(
        self, table: SourceTable, augmentation: str, seed: int, limit: int, what: str, compact: bool | str = False
    ) -> VirtualTable:
        request, threads, people = self._request, self._request.options.num_threads, table.source.n_rows
        shared = request.shared(table)
        if what == "training" and table is request.table:  # not for every fold
            request.warn_of_encoded_silence(shared)
            if request.settings.plan is not None:
                plan = request.settings.plan.plan_of(shared, thread_count(threads))
                rows = MaskedRows(table.source, request.consent, plan, num_threads=threads)
                return PartTable(rows, table, request.settings.plan)
        copies = request.settings.copies
        if copies is None:
            copies = request.engine.copies or default_copies(people)
        merge = bool(compact) and wants_compaction(compact, request.objective, table, shared)
        before = None
        if merge and augmentation != "fixed":  # fixed draws as many rows as people
            before = shown_table(table, request.consent, shared, threads)
            table, shared = merge_people(table, shared, request.objective, threads)
            # The budget still counts people before merging; it then usually covers every virtual row.
            copies = max(1.0, copies * people / len(shared))
        given: dict[str, Any] = {"max_virtual_rows": limit, "num_threads": threads, "nesting": request.consent.nesting}
        plan = plan_masks(shared, augmentation, copies=copies, seed=seed, **given)
        logger.info("%s: %s", what, plan.summary(table.weight))
        virtual = VirtualTable(MaskedRows(table.source, request.consent, plan, num_threads=threads), table)
        return replace(merge_virtual_rows(virtual, people, request.objective), before=before) if merge else virtual

    def params_for(self, virtual: VirtualTable, values: dict[str, Any] | None = None) -> EngineParams:
        """Return the engine's parameters for a training table, which may consist of merged rows."""
        request, objective = self._request, self._request.objective
        params = request.params if values is None else replace(request.params, values=values)
        if len(virtual) > self._rows_that_fit(params):
            params = request.engine.in_less_memory(params)
        if not virtual.merged or objective is None:
            return params
        weight = np.ones(len(virtual.table.label)) if virtual.table.weight is None else virtual.table.weight
        # Leaves sum weights, which need not have a mean of 1.
        per_person = mean_hessian(objective, virtual.table.label, weight) * float(weight.sum()) / virtual.people
        return replace(params, values=request.engine.for_merged_rows(params.values, objective, per_person))

    def _rows_that_fit(self, params: EngineParams) -> int:
        """Return how many virtual rows fit into the default share of the memory."""
        request = self._request
        values, classes = request.table.source.values_per_row, request.options.n_classes
        return rows_that_fit(request.engine, values, classes, params, self._parallel_tables)

    def summary(self, virtual: VirtualTable) -> TrainingSummary:
        """Return what a model keeps from its training."""
        sketch, part = None, self._request.settings.plan
        if part is not None:
            return TrainingSummary.of_part(virtual, self._request.table, part.plan, self._request.totals is not None)
        if self._request.settings.training_sketch:
            sketch = RowSketch.of(virtual.people_as_given(), virtual.rows.plan.seed)
        strength = self._request.settings.calibrate_masks if self._request.calibrates else 0.0
        return TrainingSummary.of(virtual, self._request.table, sketch, self._request.totals is not None, strength)

    def finish(self, booster: Any, virtual: VirtualTable) -> Any:
        """Return the booster, with its consent schema if something is optional."""
        request = self._request
        if request.consent.n_groups == 0:
            return unprotected(booster, request.engine.title)
        summary, categories = self.summary(virtual), request.table.pandas_categorical
        return attach_schema(booster, request.engine.boosters, request.consent, summary, categories)


def calibration_table(
    table: SourceTable, consent: Consent, shared: Array, options: RunOptions, max_rows: int = ENGINE_MAX_ROWS
) -> VirtualTable:
    """Return virtual rows for constants per mask."""
    people, threads = len(shared), options.num_threads
    rows = min(CALIBRATION_COPIES * people, max(default_copies(people) * people, CALIBRATION_ROWS), float(max_rows))
    copies, seed = max(1.0, rows / people), child_seed(options.seed, CALIBRATION_SEED)
    plan = plan_masks(shared, "balanced", copies=copies, seed=seed, num_threads=threads, nesting=consent.nesting)
    return VirtualTable(MaskedRows(table.source, consent, plan, num_threads=threads), table)


def rows_that_fit(
    engine: Engine, values_per_row: int, n_classes: int, params: EngineParams, parallel_tables: int = 1
) -> int:
    """Return how many virtual rows fit into the default share of the memory."""
    per_row = engine.bytes_per_virtual_row(values_per_row, n_classes, params)
    return int(min(float(ENGINE_MAX_ROWS), MEMORY_SHARE * memory_bytes() / (per_row * parallel_tables)))


def memory_bytes() -> float:
    """Return the memory of the machine or container; infinite if the system does not report it."""
    known = [float("inf")]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE"))
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        known.append(float(text))
    return min(known)
