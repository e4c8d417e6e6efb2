"""Masked rows as an XGBoost matrix: a ``QuantileDMatrix`` read from the stream in batches."""

from __future__ import annotations

import gc
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb

from .._arrays import Array
from .._tables.sources import Categories
from .._virtual.plan import BinSample
from .._virtual.rows import VirtualTable
from .names import whole_number

PAGE_BYTES = 16 << 20
"""How much of the masked rows goes into a page of external memory, of which XGBoost reads several ahead."""


class MaskedBatches(xgb.DataIter):
    """Batches of masked rows in one float32 buffer; XGBoost reads them four times.

    With a ``cache``, a folder, XGBoost keeps its bins there, one page for each batch.
    """

    def __init__(self, virtual: VirtualTable, named_like: VirtualTable, cache: Path | None = None) -> None:
        # XGBoost adds to the prefix what tells matrices apart.
        super().__init__(cache_prefix=None if cache is None else str(cache / "bins"))
        self._rows = virtual.rows
        self._info = {
            "label": virtual.label(),
            "weight": virtual.weight(),
            "base_margin": virtual.init_score(),
        }
        self._names, self._types = feature_names(named_like), feature_types(named_like)
        coded = zip(virtual.table.source.coded, virtual.table.pandas_categorical or (), strict=False)
        self._categories = {j: values for j, values in coded if values}  # XGBoost refuses an empty list
        if self._categories and self._types:
            other = [j for j, kind in enumerate(self._types) if kind == "c" and j not in virtual.table.source.coded]
            if other:
                raise ValueError(
                    f"categorical_feature names column {(self._names or [])[other[0]]!r}, which is not of category "
                    "type, while other columns are. Convert it with astype('category')."
                )
        n_columns = virtual.rows.shape[1]
        batch = self._rows.batch_rows if cache is None else max(1, PAGE_BYTES // (4 * n_columns))
        self._buffer = np.empty((min(batch, len(self._rows)), n_columns), dtype=np.float32)
        self._start = 0

    def reset(self) -> None:
        """Start again."""
        self._start = 0

    def next(self, input_data: Callable[..., None]) -> bool:
        """Hand over the next batch with its labels, weights and base margins; return whether there was one."""
        n = min(len(self._buffer), len(self._rows) - self._start)
        if n <= 0:
            return False
        part = slice(self._start, self._start + n)
        info = {name: values[part] for name, values in self._info.items() if values is not None}
        batch = self._rows.read_into(self._start, self._buffer[:n])
        if self._categories:
            input_data(data=with_categories(batch, self._names or [], self._categories), **info)
        else:
            input_data(data=batch, feature_names=self._names, feature_types=self._types, **info)
        self._start += n
        return True


def with_categories(batch: Array, names: Sequence[str], categories: Mapping[int, Sequence[Any]]) -> Any:
    """Return a batch as a DataFrame, so that XGBoost keeps the categories and matches new tables by name."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for j, name in enumerate(names):
        if j in categories:
            codes = np.nan_to_num(batch[:, j], nan=-1).astype(np.int64)
            columns[name] = pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(list(categories[j])))
        else:
            columns[name] = batch[:, j]
    return pd.DataFrame(columns)


def feature_names(virtual: VirtualTable) -> list[str] | None:
    """Return the column names, or None where the table has none."""
    return virtual.table.names if isinstance(virtual.table.feature_name, list) else None


def feature_types(virtual: VirtualTable) -> list[str] | None:
    """Return "c" for category columns and "q" for the others, or None if there are no categories."""
    wanted = virtual.table.categorical_feature
    if not isinstance(wanted, list) or not wanted:
        return None
    names = virtual.table.names
    positions = {names.index(column) if isinstance(column, str) else int(column) for column in wanted}
    return ["c" if j in positions else "q" for j in range(len(names))]


def virtual_matrix(
    virtual: VirtualTable,
    params: Mapping[str, Any],
    train: VirtualTable | None = None,
    ref: xgb.DMatrix | None = None,
    cache: Path | None = None,
) -> xgb.DMatrix:
    """Return the matrix of a virtual table; a validation set takes names and types from the training table.

    With a ``cache``, a folder, its bins are there and not in memory.
    """
    given: dict[str, Any] = {
        "max_bin": int(params.get("max_bin", 256)),
        "nthread": thread_parameter(params) or None,
        "enable_categorical": bool(virtual.table.source.coded) or feature_types(train or virtual) is not None,
    }
    if ref is None and virtual.bin_sample is not None:
        ref = _bin_reference(virtual, virtual.bin_sample, given)
        given["max_bin"] = None
    kind = xgb.QuantileDMatrix if cache is None else xgb.ExtMemQuantileDMatrix
    return kind(MaskedBatches(virtual, virtual if train is None else train, cache), ref=ref, **given)


def _bin_reference(virtual: VirtualTable, sample: BinSample, given: dict[str, Any]) -> xgb.QuantileDMatrix:
    """Return a matrix whose bins those of all workers are, made from the same sample in each."""
    rows, names = np.asarray(sample.rows, dtype=np.float32), feature_names(virtual)
    coded = zip(virtual.table.source.coded, virtual.table.pandas_categorical or (), strict=False)
    categories = {j: values for j, values in coded if values}
    if categories:
        return xgb.QuantileDMatrix(with_categories(rows, names or [], categories), weight=sample.weight, **given)
    types = feature_types(virtual)
    return xgb.QuantileDMatrix(rows, weight=sample.weight, feature_names=names, feature_types=types, **given)


def with_cache(folder: Path | None, fit: Callable[[Path | None], Any]) -> Any:
    """Return what a function returns that gets a folder within ``folder`` for a cache, or None if there is none.

    Whatever happens, nothing is left in ``folder``.
    """
    if folder is None:
        return fit(None)
    with tempfile.TemporaryDirectory(prefix="pucboost-", dir=folder) as cache:
        try:
            return fit(Path(cache))
        except BaseException as error:
            # A matrix deletes its own files, and warns if they are gone; an error would keep it alive until later.
            traceback.clear_frames(error.__traceback__)
            raise
        finally:
            gc.collect()


def refit_matrix(booster: xgb.Booster, virtual: VirtualTable, categories: Categories | None) -> xgb.DMatrix:
    """Return the virtual rows in memory with the column types of a booster; weights add up to N.

    The updater that refreshes leaves cannot read a ``QuantileDMatrix``.
    """
    rows: Array = np.asarray(virtual.rows.materialise(), dtype=np.float32)
    given: dict[str, Any] = {"label": virtual.label(), "weight": virtual.weight(virtual.share_per_tree)}
    known = {} if categories is None or not categories.values else categories.by_column(())
    if known:
        return xgb.DMatrix(with_categories(rows, booster.feature_names or [], known), enable_categorical=True, **given)
    return xgb.DMatrix(rows, feature_names=booster.feature_names, feature_types=booster.feature_types, **given)


def first_given(params: Mapping[str, Any], *names: str) -> Any:
    """Return the first parameter that is given and not None, else 0."""
    return next((params[name] for name in names if params.get(name) is not None), 0)


def thread_parameter(params: Mapping[str, Any]) -> int:
    """Return the number of threads, 0 for all."""
    return max(0, whole_number("nthread", first_given(params, "nthread", "n_jobs")))
