"""Masked rows as a LightGBM Dataset, and the categories of optional columns that are too rare for LightGBM.

``lgb.train`` and ``lgb.cv`` get a :class:`VirtualDataset`, which builds itself from the stream. They treat it like any
other Dataset.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import lightgbm as lgb
import numpy as np

from .._common import Array
from .._kernels.rows import append_nonzero_columns, count_nonzero_columns
from .._tables.sources import SourceTable
from .._virtual.plan import BinSample
from .._virtual.rare_categories import RareCategories, RowsPerPerson
from .._virtual.rows import MaskedRows, VirtualTable
from .lightgbm_network import is_networked
from .names import main_objective, number_of, value_of


class MaskedSequence(lgb.Sequence):
    """Masked rows behind LightGBM's public interface for data that do not fit into memory.

    ``as_given`` are the same rows with all categories, for scoring with a model that was trained on them.
    """

    def __init__(self, rows: MaskedRows, as_given: MaskedRows) -> None:
        self.rows, self.as_given = rows, as_given
        self.batch_size = rows.batch_rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Array:
        got = self.rows[index]
        return got.astype(np.float64) if got.ndim == 1 else got


class VirtualDataset(lgb.Dataset):
    """A Dataset over the virtual rows of a table.

    LightGBM can construct it through its public ``Sequence`` interface alone. The underscored methods below only
    replace slow or memory-hungry steps of that path. If LightGBM renames the originals, the replacements are no longer
    called and the public path remains. ``weight_scale`` is a factor on all weights. ``keep_copy_weight`` keeps the copy
    weights for a callable objective, and ``rare`` are categories that are one to the trees. The ``reference`` of a
    validation set is the training set.
    """

    def __init__(
        self,
        virtual: VirtualTable,
        *,
        weight_scale: float = 1.0,
        keep_copy_weight: bool = False,
        rare: RareCategories | None = None,
        reference: lgb.Dataset | None = None,
        params: dict[str, Any] | None = None,
    ) -> None:
        table, scores = virtual.table, virtual.init_score()
        self.rare = RareCategories({}) if rare is None else rare
        super().__init__(
            MaskedSequence(self.rare.pooled(virtual).rows, virtual.rows),
            label=virtual.label(),
            weight=virtual.weight(weight_scale),
            init_score=None if scores is None else scores.ravel(order="F"),
            reference=reference,
            # A validation set takes both from its reference.
            feature_name=table.feature_name if reference is None else "auto",
            categorical_feature=table.categorical_feature if reference is None else "auto",
            params={**table.params, **(params or {})},
        )
        self.pandas_categorical = table.pandas_categorical
        self.copy_weight = virtual.copy_weight(weight_scale) if keep_copy_weight else None
        self._user_weight = virtual.user_weight() if keep_copy_weight else None
        self._constructing = self._in_objective = False

    def validation(self, virtual: VirtualTable) -> VirtualDataset:
        return VirtualDataset(virtual, rare=self.rare, reference=self)

    @contextmanager
    def as_seen_by_objective(self) -> Iterator[VirtualDataset]:
        """Show only the user's weights: a callable objective applies them, and pucboost applies the copy weights."""
        shown = self.weight
        self.weight, self._in_objective = self._user_weight, True
        try:
            yield self
        finally:
            self.weight, self._in_objective = shown, False

    def get_field(self, field_name: str) -> Array | None:
        if field_name == "weight" and self._in_objective:
            return self._user_weight
        return super().get_field(field_name)

    @functools.wraps(lgb.Dataset._lazy_init)
    def _lazy_init(self, *args: Any, **kwargs: Any) -> lgb.Dataset:  # type: ignore[override]
        self._constructing = True
        try:
            super()._lazy_init(*args, **kwargs)
        finally:
            self._constructing = False
        if self.reference is not None and self.weight is None and self.get_field("weight") is not None:
            # Rows pushed after a reference that has weights start with weights of 0, not 1; metrics would be NaN.
            self.set_field("weight", np.ones(self.num_data(), dtype=np.float32))
        return self

    def get_params(self) -> dict[str, Any]:
        """Return parameters as LightGBM does; during construction, return all of them.

        From a matrix LightGBM constructs with all: `seed` decides which rows are sampled for the bins,
        `min_data_in_leaf` which features are dropped as useless. From a Sequence it uses only some of them, but the
        stream must give the same result as the table.
        """
        return dict(self.params or {}) if self._constructing else super().get_params()

    def _Dataset__init_from_seqs(self, seqs: list[MaskedSequence], ref_dataset: Any) -> lgb.Dataset:  # noqa: N802
        """Construct as fast as from a matrix; the original fetches up to 200,000 sample rows one by one."""
        (sequence,) = seqs
        rows = sequence.rows
        if ref_dataset is not None:
            self._init_from_ref_dataset(len(rows), ref_dataset)
        else:
            sampled = self._create_sample_indices(total_nrow=len(rows))
            values, positions = _nonzero_sample_columns(rows, sampled)
            self._init_from_sample(values, positions, len(sampled), len(rows))
        for _, batch in rows.batches():
            self._push_rows(batch)
        return self

    def _set_init_score_by_predictor(self, predictor: Any, data: Any, used_indices: Any) -> lgb.Dataset:
        """Score the virtual rows with ``init_model`` batch by batch; the original materialises the table."""
        if predictor is None or not isinstance(data, MaskedSequence):
            return super()._set_init_score_by_predictor(predictor, data, used_indices)
        scores = np.empty((len(data), predictor.num_class), order="F")
        for start, batch in data.as_given.batches():
            raw = predictor.predict(data=batch, raw_score=True)
            scores[start : start + len(batch)] = raw.reshape(len(batch), -1)
        return self.set_init_score(scores.ravel(order="F"))


def bin_reference(
    virtual: VirtualTable, sample: BinSample, params: dict[str, Any], rare: RareCategories
) -> lgb.Dataset:
    """Return the reference Dataset that fixes the bins for all workers; each makes it from the same sample.

    LightGBM itself bins each feature on one machine, from the rows there: a column that nobody shares there is lost.
    """
    table = virtual.table
    reference = lgb.Dataset(
        rare.pool(sample.rows),
        label=np.zeros(len(sample.rows), dtype=np.float32),
        feature_name=table.feature_name,
        categorical_feature=table.categorical_feature,
        params={**table.params, **params},
    ).construct()
    reference.pandas_categorical = table.pandas_categorical  # Datasets that refer to it take them from here
    return reference


class FoldRows(lgb.Dataset):
    """Stand-in for the table while ``lgb.cv`` makes folds: it has row numbers and labels, but no features."""

    def __init__(self, label: Array) -> None:
        # One feature with two values, so that LightGBM does not warn about useless data.
        feature = (np.arange(len(label), dtype=np.float32) % 2)[:, None]
        super().__init__(feature, label=label, params={"verbosity": -1, "min_data_in_bin": 1})

    def _update_params(self, params: dict[str, Any] | None) -> lgb.Dataset:
        return self  # the parameters belong to the real table

    def _set_init_score_by_predictor(self, predictor: Any, data: Any, used_indices: Any) -> lgb.Dataset:
        return self  # scored on the virtual rows of each fold


def _nonzero_sample_columns(rows: MaskedRows, sampled: Array) -> tuple[list[Array], list[Array]]:
    """Return, for each column, the non-zero values among the sampled virtual rows and their places in the sample."""
    blocks = [(start, sampled[start : start + rows.batch_rows]) for start in range(0, len(sampled), rows.batch_rows)]
    counts = np.zeros(rows.source.n_columns, dtype=np.int64)
    for _, index in blocks:
        count_nonzero_columns(rows.take(index), counts)
    bounds = np.concatenate(([0], np.cumsum(counts)))
    values, positions = np.empty(bounds[-1], dtype=np.float64), np.empty(bounds[-1], dtype=np.int32)
    next_slot = bounds[:-1].copy()
    for start, index in blocks:
        append_nonzero_columns(rows.take(index), start, next_slot, values, positions)
    cut = [slice(lo, hi) for lo, hi in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
    return [values[part] for part in cut], [positions[part] for part in cut]


# ----- rare categories
#
# LightGBM sends missing values to the right, with every category that does not go left. A category with fewer than
# ``cat_smooth`` rows in a leaf, or without a bin, never goes left, so no number of trees tells its sharers from people
# who withhold the column. (XGBoost tells all categories apart.) Such categories are pooled into one while trees grow;
# law 3, stream = table, holds up to this pooling. It happens here, inside the engine, so that sketches and anchors see
# what people gave; ``spell_out`` writes the categories into the finished model. A booster that keeps its training data
# is left as it is, and reads the rare categories as missing. A wider margin than that of ``least_people`` cost sharers
# accuracy and gained the silent nothing.

_SURELY = 3.0
"""A category whose expected count in a sample is this multiple of the required count is hardly ever too rare there."""

_ROWS = 40
"""Rows of the small Dataset from which LightGBM reads columns and parameters."""
_HARDLY_ANY = 1e-9


def rare_categories(train: VirtualTable, params: Mapping[str, Any]) -> RareCategories:
    """Return the categories of optional columns that LightGBM could not tell from missing values.

    Workers that train together must agree on them: with a plan by its sample, without one there are none.
    """
    table = train.table
    params = {**table.params, **params}
    given = value_of(params, "categorical_feature")
    named = given or (table.categorical_feature not in ("auto", None) and len(table.categorical_feature))
    sample = train.bin_sample
    if not named or not train.rows.consent.n_groups or (sample is None and is_networked(params)):
        return RareCategories({})
    quiet = {"verbosity": -1, "num_threads": 1} | ({} if given is None else {"categorical_feature": given})
    columns = categorical_columns(lgb.Booster(quiet, columns_only({}, table)))
    if sample is None:
        return RareCategories.of(train, columns, lambda group: least_people(train, params, group))
    in_leaf, in_bin = _needed_rows(params)
    return RareCategories.of_sample(train, columns, sample, in_leaf, _SURELY * in_bin)


def least_people(train: VirtualTable, params: Mapping[str, Any], group: int, *, bins_of_people: bool = False) -> float:
    """Return how many people must share a category so that trees can tell it from others.

    A leaf uses a category that has ``cat_smooth`` rows in it, and a category gets a bin if it has ``min_data_in_bin``
    among the rows that are sampled for the bins: virtual rows, or the people themselves (``bins_of_people``).
    """
    per_person, (in_leaf, in_bin) = RowsPerPerson.of(train, group), _needed_rows(params)
    least = in_leaf / max(per_person.in_tree, _HARDLY_ANY)
    rows, each = (train.people, 1.0) if bins_of_people else (len(train), per_person.in_table)
    share = number_of(params, "bin_construct_sample_cnt", 200_000) / rows
    return least if share >= 1.0 else max(least, _SURELY * in_bin / max(share * each, _HARDLY_ANY))


def _needed_rows(params: Mapping[str, Any]) -> tuple[float, float]:
    """Return how many rows of a category a leaf needs to use it, and a sample to give it a bin."""
    in_bin = max(number_of(params, "min_data_in_bin", 3), 1.0)
    return max(number_of(params, "cat_smooth", 10.0), in_bin), in_bin


def categorical_columns(booster: lgb.Booster) -> list[int]:
    """Return the positions of the categorical columns, as LightGBM understood table and parameters."""
    found = re.search(r"^\[categorical_feature: (?:(name):)?(.+)\]$", booster.model_to_string(), re.MULTILINE)
    if not found:
        return []
    words = found[2].split(",")
    return [booster.feature_name().index(word) if found[1] else int(word) for word in words]


def columns_only(params: Mapping[str, Any], table: SourceTable, n_classes: int = 1) -> lgb.Dataset:
    """Return a small Dataset with the columns of a table and other values, to make a Booster from."""
    column = np.arange(_ROWS, dtype=np.float64)
    positive = main_objective(value_of(params, "objective")) == "gamma"
    data = lgb.Dataset(
        np.tile(column[:, None], table.source.n_columns),
        column % max(2, n_classes) + positive,
        feature_name=table.names,
        categorical_feature=table.categorical_feature,
        params={"verbosity": -1, "num_threads": 1},
    )
    data.pandas_categorical = table.pandas_categorical
    return data
