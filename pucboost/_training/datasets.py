"""``puc.Dataset``, and what can be learned from any Dataset without changing it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import lightgbm as lgb
import numpy as np

from .._arrays import Array
from .._consent import Consent
from .._tables.containers import as_vector, as_weight, eager, row_source
from .._tables.sources import Categories, RowSource, SubsetSource


class Dataset(lgb.Dataset):
    """``lgb.Dataset`` that knows which of its columns are optional.

    Takes the arguments of ``lgb.Dataset``, and two more. With optional columns, ``data`` may hold text and categories
    in any DataFrame or Arrow table: they are read as categories, whether or not ``categorical_feature`` names them. (Of
    pandas categories LightGBM's rule holds: those it does not name are read as numbers.)

    Parameters
    ----------
    optional : list of columns, or dict group -> columns
        Columns people may withhold, by name or integer position. In a list every column is shared or withheld on its
        own; the columns of a group are shared or withheld together. At most 64 groups.
    available : bool matrix (rows × groups), optional
        Who shares which group. By default a group is shared if at least one of its columns has a value.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.array([[30.0, 9000.0, np.nan], [50.0, np.nan, 5.1]])
    >>> data = puc.Dataset(X, [0, 1], optional={"app": ["steps"], "blood": ["glucose"]},
    ...                    feature_name=["age", "steps", "glucose"])
    >>> data.optional
    {'app': ['steps'], 'blood': ['glucose']}
    """

    def __init__(
        self, data: Any, label: Any = None, *args: Any, optional: Any = None, available: Any = None, **kwargs: Any
    ):
        super().__init__(data, label, *args, **kwargs)
        self.optional = optional
        self.available = available


@dataclass(frozen=True)
class SourceTable:
    """The raw content of a Dataset: one entry per person, nothing augmented, everything checked."""

    source: RowSource
    label: Array
    weight: Array | None
    init_score: Array | None
    group: Any
    feature_name: Any
    categorical_feature: Any
    pandas_categorical: list[list[Any]] | None
    params: dict[str, Any]
    optional: Any
    available: Array | None
    data: Any = None
    """The user's own container, where it is one that a model can be asked about."""

    def container(self) -> Any:
        """Return the table as a model would be given it: the user's own container, or the numbers in it."""
        return self.source.matrix_of(np.arange(self.source.n_rows)) if self.data is None else self.data

    @property
    def names(self) -> list[str]:
        """Column names; LightGBM's own where the table has none."""
        if isinstance(self.feature_name, list):
            return [str(name) for name in self.feature_name]
        return [f"Column_{j}" for j in range(self.source.n_columns)]

    def subset(self, rows: Array) -> SourceTable:
        """Return some of the rows."""
        n = self.source.n_rows
        scores = self.init_score
        if scores is not None:
            scores = scores[rows] if scores.ndim == 2 else scores.reshape(-1, n)[:, rows].ravel()
        return SourceTable(
            source=SubsetSource(self.source, rows),
            label=self.label[rows],
            weight=None if self.weight is None else self.weight[rows],
            init_score=scores,
            group=None,
            feature_name=self.feature_name,
            categorical_feature=self.categorical_feature,
            pandas_categorical=self.pandas_categorical,
            params=self.params,
            optional=self.optional,
            available=None if self.available is None else np.asarray(self.available)[rows],
        )

    def to_dataset(self) -> Dataset:
        """Return these rows as a Dataset of their own (for a user's ``fpreproc``); here the rows are copied."""
        n = self.source.n_rows
        scores = self.init_score
        return Dataset(
            self.source.matrix_of(np.arange(n)),
            self.label,
            weight=self.weight,
            init_score=scores if scores is None or scores.ndim == 1 else scores.ravel(order="F"),
            feature_name=self.feature_name,
            categorical_feature=self.categorical_feature,
            params=self.params,
            free_raw_data=False,
            optional=self.optional,
            available=self.available,
        )

    def read_back(self, dataset: lgb.Dataset, name: str) -> SourceTable:
        """Read what a user's ``fpreproc`` made of :meth:`to_dataset`; the matrix there holds category codes."""
        table = read_dataset(dataset, name)
        source = table.source
        if not source.coded and source.n_columns == self.source.n_columns:
            source = source.with_columns(replace(source.columns, coded=self.source.coded))
        return replace(table, source=source, pandas_categorical=self.pandas_categorical)


def read_dataset(dataset: lgb.Dataset, name: str, categories: Categories | None = None) -> SourceTable:
    """Return the raw content of a Dataset, checked; the Dataset itself is not changed.

    Parameters
    ----------
    dataset
        An ``lgb.Dataset`` or ``puc.Dataset``, not yet constructed, or with raw data kept, or a subset of such.
    name
        How errors call it.
    categories
        Categories of the training table.
    """
    if dataset.used_indices is not None and dataset.reference is not None:
        whole = read_dataset(dataset.reference, name, categories)
        return _with_own_fields(whole.subset(np.asarray(dataset.used_indices, dtype=np.int64)), dataset, name)
    if dataset.data is None:
        raise ValueError(
            f"{name} is already constructed and its raw data are gone, so nothing can be masked. Build the Dataset "
            "with free_raw_data=False, or pass one that was not used yet."
        )
    data = eager(dataset.data)
    source = row_source(data, categories)
    _check_categories(source, name)
    n = source.n_rows
    if dataset.position is not None:
        raise ValueError(f"{name} has positions, which belong to ranking; that is not defined with optional features.")
    names = dataset.feature_name
    if (names == "auto" or names is None) and source.feature_names is not None:
        names = source.feature_names
    if isinstance(names, (list, tuple)):
        names = list(names)
        if len(names) != source.n_columns:
            raise ValueError(f"{name} has {source.n_columns} columns, but feature_name lists {len(names)} names.")
    categorical = dataset.categorical_feature
    if categorical == "auto" or categorical is None:
        categorical = list(source.categorical) if source.pandas_categorical is not None else "auto"
    elif isinstance(categorical, (list, tuple)):
        known = {names.index(c) if isinstance(names, list) and c in names else c for c in categorical}
        categorical = [*categorical, *(j for j in source.never_numbers if j not in known)]
    return SourceTable(
        source=source,
        label=_read_label(_field(dataset, "label"), name, n),
        weight=_read_weight(_field(dataset, "weight"), name, n),
        init_score=_read_init_score(dataset.init_score, name, n),
        group=dataset.group,
        feature_name=names,
        categorical_feature=categorical,
        pandas_categorical=source.pandas_categorical,
        params=dict(dataset.params or {}),
        optional=getattr(dataset, "optional", None),
        available=getattr(dataset, "available", None),
        data=data if hasattr(data, "shape") else None,
    )


def _check_categories(source: RowSource, name: str) -> None:
    """Refuse categories that a model cannot keep: dates, or the intervals that ``pandas.cut`` makes."""
    for j, values in zip(source.coded, source.pandas_categorical or (), strict=False):
        other = [value for value in values if not isinstance(value, (str, Real, np.bool_))]
        if other:
            column = j if source.feature_names is None else source.feature_names[j]
            raise ValueError(
                f"Column {column!r} of {name} has the category {other[0]!r}, which a model cannot keep; categories "
                "must be text, numbers or booleans. Convert them, for example with .cat.rename_categories(str)."
            )


def _field(dataset: lgb.Dataset, name: str) -> Any:
    """Return label or weight; a constructed Dataset may have got it by ``set_field``."""
    return getattr(dataset, name) if dataset._handle is None else dataset.get_field(name)


def _with_own_fields(table: SourceTable, subset: lgb.Dataset, name: str) -> SourceTable:
    """Return the rows of a subset with the labels, weights and scores that were set on the subset itself."""
    n = table.source.n_rows
    return replace(
        table,
        label=table.label if subset.label is None else _read_label(subset.label, name, n),
        weight=table.weight if subset.weight is None else _read_weight(subset.weight, name, n),
        init_score=table.init_score if subset.init_score is None else _read_init_score(subset.init_score, name, n),
    )


def _read_label(label: Any, name: str, n: int) -> Array:
    if label is None:
        raise ValueError(f"{name} has no label.")
    vector = as_vector(label, f"label of {name}", n)
    bad = np.flatnonzero(~np.isfinite(vector))
    if len(bad):
        raise ValueError(
            f"The label of {name} is {vector[bad[0]]} in row {bad[0]} ({len(bad)} such rows); labels must be finite. "
            "Drop or fill these rows."
        )
    return vector


def _read_weight(weight: Any, name: str, n: int) -> Array | None:
    if weight is None:
        return None
    vector = as_weight(weight, f"weight of {name}", n)
    return None if bool((vector == 1).all()) else vector


def _read_init_score(init_score: Any, name: str, n: int) -> Array | None:
    if init_score is None:
        return None
    if hasattr(init_score, "to_numpy"):
        init_score = init_score.to_numpy()
    elif hasattr(init_score, "to_pandas"):
        init_score = init_score.to_pandas().to_numpy()
    scores = np.asarray(init_score, dtype=np.float64)
    if scores.ndim not in (1, 2) or scores.size == 0 or scores.size % n or (scores.ndim == 2 and len(scores) != n):
        raise ValueError(
            f"init_score of {name} must have one value per row and class for {n} rows, got shape {scores.shape}."
        )
    return scores


def declares_something(optional: Any) -> bool:
    """Return False for None and for an empty declaration."""
    return optional is not None and (
        isinstance(optional, Consent) or not hasattr(optional, "__len__") or len(optional) > 0
    )


def check_positions(optional: Any, source: RowSource) -> None:
    """Refuse integers where they could be labels as well as positions."""
    if not source.has_other_integer_labels or isinstance(optional, Consent):
        return
    columns = (
        [c for group in optional.values() for c in np.atleast_1d(group)] if hasattr(optional, "values") else optional
    )
    for column in columns if hasattr(columns, "__iter__") else ():
        if isinstance(column, (int, np.integer)):
            raise ValueError(
                f"optional names column {column}, but the table has integer labels that are not positions, so this "
                f"may be a label or a position. Write the label as a string, {str(column)!r}."
            )


def resolve_consent(table: SourceTable, optional_in_params: Any, name: str = "train_set") -> Consent | None:
    """Return the consent schema of a training table, or None if nothing is optional."""
    # The Dataset's own declaration first: the columns of its `available` are in that order.
    given = [optional for optional in (table.optional, optional_in_params) if declares_something(optional)]
    for optional in given:
        check_positions(optional, table.source)
    declared = [Consent.declare(optional, table.names) for optional in given]
    if len(declared) == 2 and declared[0] != declared[1]:
        raise ValueError(
            f"params['optional'] and the optional of {name} differ: {declared[1]} and {declared[0]}. Declare it once."
        )
    if not declared or declared[0].n_groups == 0:
        return None
    return declared[0]
