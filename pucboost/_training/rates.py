"""Tables and Datasets with an exposure as tables and Datasets of rates; the caller's are never changed.

:mod:`pucboost._losses` derives why a total Y over an exposure e is a rate Y/e that weighs e.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np

from .._common import Array
from .._engines.base import Engine
from .._engines.names import value_of
from .._losses import check_takes_exposure, per_unit
from .._tables.containers import SourceTable, as_exposure, read_label, read_weight
from .datasets import field_of, whole_of


def as_rates(table: SourceTable) -> SourceTable:
    """Return the table with the labels Y/e and the weights w·e; the table itself if it has no exposure."""
    if table.exposure is None:
        return table
    rate, weight = per_unit(table.label, table.weight, table.exposure)
    with np.errstate(over="ignore"):  # labels that are too large for an engine are refused afterwards
        label = rate.astype(np.float32)
    return replace(table, label=label, weight=None if bool((weight == 1).all()) else weight, exposure=None)


def check_both_or_neither(one: bool, other: bool, other_name: str, one_name: str = "train_set") -> None:
    """Raise if only one of two that belong together has an exposure: it would be rates, and the other totals."""
    if one != other:
        has, lacks = (one_name, other_name) if one else (other_name, one_name)
        raise ValueError(f"{has} has an exposure, but {lacks} has none. Give the exposure of both, or of neither.")


# ----- Datasets that an engine reads itself


def has_exposure(dataset: Any) -> bool:
    """Return whether a Dataset, or the one that it is a subset of, has an exposure."""
    if getattr(dataset, "exposure", None) is not None:
        return True
    whole = whole_of(dataset) if isinstance(dataset, lgb.Dataset) else None
    return whole is not None and has_exposure(whole)


def plain_rates(engine: Engine, params: dict[str, Any], train_set: Any, valid_sets: Any = None) -> tuple[Any, Any]:
    """Return training and validation sets for an engine that reads Datasets itself.

    Without any exposure these are the sets as given. Otherwise they are new Datasets over the same raw data.
    """
    one = isinstance(valid_sets, lgb.Dataset)
    others = [valid_sets] if one else list(valid_sets or ())
    if not any(has_exposure(dataset) for dataset in (train_set, *others)):
        return train_set, valid_sets
    for i, dataset in enumerate(others):
        check_both_or_neither(has_exposure(train_set), has_exposure(dataset), f"validation set {i}")
    check_takes_exposure(engine.objective(params), value_of(params, "objective"))
    rates = {id(train_set): _dataset_of_rates(train_set, "train_set")}
    for i, dataset in enumerate(others):
        if id(dataset) not in rates:
            rates[id(dataset)] = _dataset_of_rates(dataset, f"validation set {i}")
    valid = [rates[id(dataset)] for dataset in others]
    return rates[id(train_set)], valid[0] if one else None if valid_sets is None else valid


def totals_of(dataset: lgb.Dataset, name: str) -> Array:
    """Return the outcomes of a Dataset as they were given."""
    return _read(dataset, name)[0]


def _read(dataset: lgb.Dataset, name: str) -> tuple[Array, Array | None, Array]:
    """Return outcome, weight and exposure of a Dataset; a subset has its own where they were set on the subset."""
    label, weight = field_of(dataset, "label"), field_of(dataset, "weight")
    exposure = getattr(dataset, "exposure", None)
    whole = whole_of(dataset)
    if whole is not None:
        rows = np.asarray(dataset.used_indices, dtype=np.int64)
        all_labels, all_weights, all_exposures = _read(whole, name)
        label = all_labels[rows] if label is None else label
        weight = all_weights[rows] if weight is None and all_weights is not None else weight
        exposure = all_exposures[rows] if exposure is None else exposure
    n = 0 if label is None else len(label)
    outcome = read_label(label, name, n, total=True)
    return outcome, read_weight(weight, name, n), as_exposure(exposure, f"exposure of {name}", n)


def _dataset_of_rates(dataset: lgb.Dataset, name: str) -> lgb.Dataset:
    """Return a new Dataset over the same raw data; a subset is a subset of one, with the same bins."""
    outcome, weight, exposure = _read(dataset, name)
    label, weight = per_unit(outcome, weight, exposure)
    rows, whole = np.arange(len(label)), dataset
    while (outer := whole_of(whole)) is not None:  # subsets of subsets
        rows, whole = np.asarray(whole.used_indices, dtype=np.int64)[rows], outer
    if whole is dataset:
        return _like(dataset, label, weight, name)
    # Only the rows of the subset are ever looked at.
    n = len(field_of(whole, "label"))
    all_labels, all_weights = np.ones(n), np.ones(n)
    all_labels[rows], all_weights[rows] = label, weight
    return _like(whole, all_labels, all_weights, name).subset(rows.tolist(), dataset.params)


def _like(dataset: lgb.Dataset, label: Array, weight: Array, name: str) -> lgb.Dataset:
    if dataset.data is None:
        raise ValueError(
            f"{name} is already constructed and its raw data are gone, so its exposure cannot be used. Build the "
            "Dataset with free_raw_data=False, or pass one that has not been used yet."
        )
    return lgb.Dataset(
        dataset.data,
        label,
        reference=dataset.reference,  # lgb.train sets that of validation sets to the new training set
        weight=weight,
        group=dataset.group,
        init_score=dataset.init_score,
        feature_name=dataset.feature_name,
        categorical_feature=dataset.categorical_feature,
        params=dataset.params,
        free_raw_data=dataset.free_raw_data,
        position=dataset.position,
    )
