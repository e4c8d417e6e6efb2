"""Tables of any kind in memory: the source of their rows, what belongs to each row, copies with other columns.

:func:`row_source` returns the source of a table, :class:`FrameSource` reads DataFrames and Arrow tables, and
:class:`SourceTable` holds labels, weights, exposures and initial scores beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._common import Array
from .columns import (
    CATEGORIES,
    Learned,
    Numbers,
    blocks_of,
    has_order,
    is_pandas_category,
    kind_of,
    native_dtype,
    pandas_categories,
    reader_of,
    warn_of_unknown_values,
)
from .sources import (
    ArraySource,
    Categories,
    ColumnTypes,
    OtherArraySource,
    RowSource,
    SequenceSource,
    SparseSource,
    StackedSource,
    SubsetSource,
    check_no_mask,
    default_names,
    is_plain,
    without_mask,
)
from .table_files import is_stored, read_whole

if TYPE_CHECKING:
    import narwhals as nw


LARGEST = float(np.finfo(np.float32).max)
"""The engines keep labels and weights in single precision."""


def row_source(data: Any, categories: Categories | Sequence[Sequence[Any]] | None = None) -> RowSource:
    """Return the :class:`RowSource` of a table; with the ``categories`` of training, the same ones get the same codes.

    Tables that are not in memory are read whole. Arrays hold categories as codes; what a masked array masks is missing.
    """
    if categories is not None and not isinstance(categories, Categories):
        categories = Categories(categories)
    source = _dispatch(data, categories)
    if source.n_rows == 0:
        raise ValueError("The feature table has no rows.")
    if source.n_columns == 0:
        raise ValueError("The feature table has no columns.")
    return source


def _dispatch(data: Any, categories: Categories | None) -> RowSource:
    if isinstance(data, RowSource):
        return data
    if isinstance(data, (str, Path)) and not is_stored(data):
        raise ValueError(
            f"The dataset is a text or binary file ({str(data)!r}); optional features need the table itself. Give a "
            "Parquet file or a folder of them, or read the file, for example with polars.scan_csv or pandas.read_csv."
        )
    data = without_mask(data)
    if isinstance(data, np.ndarray):
        return _array_source(data)
    if hasattr(data, "tocsr"):
        return SparseSource(data)
    if isinstance(data, list) and data and (isinstance(data[0], np.ndarray) or _is_sequence(data[0])):
        return StackedSource([_dispatch(part, None) for part in data])
    if _is_sequence(data):
        return SequenceSource(data)
    if isinstance(data, (list, tuple)):
        return _array_source(np.asarray(data, dtype=np.float64))
    data = eager(data)
    if is_frame(data):
        if 0 in data.shape:
            raise ValueError(f"The feature table has no {'rows' if data.shape[0] == 0 else 'columns'}.")
        return one_block(data, categories) or FrameSource(data, categories)
    raise TypeError(
        f"Cannot read a feature table from {type(data).__name__}; pass a numpy array, a scipy CSR matrix, or a "
        "pandas, polars or Arrow table."
    )


def _array_source(array: Array) -> RowSource:
    if array.ndim != 2:
        raise ValueError(f"The feature table must have 2 dimensions, got an array of shape {array.shape}.")
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"The feature table must be numeric, got an array of dtype {array.dtype}. Encode text columns as "
            "numbers, or pass a pandas, polars or Arrow table with text or category columns."
        )
    return ArraySource(array) if is_plain(array) else OtherArraySource(array)


def is_frame(data: Any) -> bool:
    """Return whether a table has names and types: a DataFrame of any library, or an Arrow table."""
    import narwhals.dependencies as nwd

    return bool(nwd.is_into_dataframe(data))


def eager(data: Any) -> Any:
    """Return a table in memory as it is, except RecordBatches (a table) and masked arrays (NaN); read any other."""
    import narwhals as nw

    data = nw.to_native(without_mask(data), pass_through=True)
    if is_frame(data):
        return data
    if is_stored(data):
        return read_whole(data)
    if hasattr(data, "__arrow_c_array__") and hasattr(data, "schema"):
        import pyarrow as pa

        return pa.table(data)
    return data


def rows_of(table: Any, rows: Array) -> Any:
    """Return a copy of some rows in the table's own container, or as numbers if its rows cannot be indexed."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    if is_frame(table):
        import narwhals as nw

        return nw.from_native(table, eager_only=True)[rows.tolist()].to_native()
    return table[rows] if hasattr(table, "shape") else row_source(table).take(rows)


def _is_sequence(data: Any) -> bool:
    import lightgbm as lgb

    return isinstance(data, lgb.Sequence)


def as_weight(values: Any, name: str, n_rows: int) -> Array:
    """Return weights as a vector of finite, non-negative float64; errors name the row."""
    vector = as_vector(values, name, n_rows, np.float64)
    bad = np.flatnonzero(~((vector >= 0) & (vector <= LARGEST)))
    if len(bad):
        raise ValueError(
            f"The {name} is {vector[bad[0]]} in row {bad[0]}; weights must be finite and not negative, and at most "
            f"{LARGEST:.2g}."
        )
    return vector


def as_exposure(values: Any, name: str, n_rows: int) -> Array:
    """Return exposures as a vector of finite, positive float64; errors name the row."""
    vector = as_vector(values, name, n_rows, np.float64)
    rule = "exposures must be finite and above 0. Leave out rows without exposure."
    return _valid(vector, np.isfinite(vector) & (vector > 0), name, rule)


def _valid(vector: Array, is_valid: Array, name: str, rule: str) -> Array:
    bad = np.flatnonzero(~is_valid)
    if len(bad):
        raise ValueError(f"The {name} is {vector[bad[0]]} in row {bad[0]} ({len(bad)} such rows); {rule}")
    return vector


def as_vector(values: Any, name: str, n_rows: int, dtype: Any = np.float32) -> Array:
    """Return labels, weights or the like as a vector of the right length; errors mention ``name``."""
    import narwhals.dependencies as nwd

    check_no_mask(values, name)
    if nwd.is_into_dataframe(values) or nwd.is_into_series(values):
        import narwhals as nw

        native = nw.from_native(values, eager_only=True, allow_series=True)
        if isinstance(native, nw.DataFrame):
            if native.shape[1] != 1:
                raise ValueError(f"{name} must be one column, got a table with {native.shape[1]} columns.")
            native = native.get_column(native.columns[0])
        values = native.to_numpy()
    try:
        vector = np.asarray(values, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numeric: {error}") from error
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1 or len(vector) != n_rows:
        raise ValueError(f"{name} must have one value for each of the {n_rows} rows, got shape {vector.shape}.")
    return vector


@dataclass(frozen=True)
class SourceTable:
    """People before anything is augmented: one entry per person, everything checked."""

    source: RowSource
    label: Array
    weight: Array | None = None
    exposure: Array | None = None
    """What the labels add up over; None without exposure, and once the labels are rates."""
    init_score: Array | None = None
    """One value per row, or per row and class: as a matrix, or flat, class after class, as LightGBM has it."""
    group: Any = None
    feature_name: Any = "auto"
    categorical_feature: Any = "auto"
    pandas_categorical: list[list[Any]] | None = None
    params: dict[str, Any] = field(default_factory=dict)
    """Parameters that were given with the table."""
    optional: Any = None
    available: Array | None = None
    data: Any = None
    """The user's own container, if a model can predict from it or it can be read whole."""

    @classmethod
    def of(
        cls,
        source: RowSource,
        label: Any,
        weight: Any = None,
        *,
        name: str,
        exposure: Any = None,
        feature_name: Any = "auto",
        categorical_feature: Any = "auto",
        data: Any = None,
        **more: Any,
    ) -> SourceTable:
        """Return the table of a source with its labels, weights and exposures, checked; errors call it ``name``.

        ``feature_name`` and ``categorical_feature`` are as in ``lgb.Dataset``, ``data`` is the user's container.
        """
        names = _names_of(source, feature_name, name)
        return cls(
            source,
            read_label(label, name, source.n_rows, total=exposure is not None),
            read_weight(weight, name, source.n_rows),
            read_exposure(exposure, name, source.n_rows),
            feature_name=names,
            categorical_feature=_categorical_columns(source, categorical_feature, names),
            pandas_categorical=source.pandas_categorical,
            data=data if hasattr(data, "shape") or is_stored(data) else None,
            **more,
        )

    def container(self) -> Any:
        """Return the table for another model: the user's own container, or the numbers in it."""
        if self.data is None:
            return self.source.matrix_of(np.arange(self.source.n_rows))
        if not is_stored(self.data):
            return self.data
        import narwhals as nw

        return nw.from_native(read_whole(self.data), eager_only=True).select(self.names).to_native()

    @property
    def names(self) -> list[str]:
        """Column names; LightGBM's own where the table has none."""
        if isinstance(self.feature_name, list):
            return [str(name) for name in self.feature_name]
        return default_names(self.source.n_columns)

    def subset(self, rows: Array) -> SourceTable:
        scores = self.init_score
        if scores is not None:
            scores = scores[rows] if scores.ndim == 2 else scores.reshape(-1, self.source.n_rows)[:, rows].ravel()
        return replace(
            self,
            source=SubsetSource(self.source, rows),
            label=self.label[rows],
            weight=None if self.weight is None else self.weight[rows],
            exposure=None if self.exposure is None else self.exposure[rows],
            init_score=scores,
            group=None,
            available=None if self.available is None else np.asarray(self.available)[rows],
            data=None,
        )


def _names_of(source: RowSource, given: Any, name: str) -> Any:
    """Return the column names: those given, else the table's own, else ``"auto"``."""
    if given == "auto" or given is None:
        return given if source.feature_names is None else source.feature_names
    if isinstance(given, (list, tuple)):
        given = list(given)
        if len(given) != source.n_columns:
            raise ValueError(f"{name} has {source.n_columns} columns, but feature_name lists {len(given)} names.")
    return given


def _categorical_columns(source: RowSource, given: Any, names: Any) -> Any:
    """Return the category columns: those given and those that cannot be numbers, else those the table declares."""
    if given == "auto" or given is None:
        return list(source.categorical) if source.pandas_categorical is not None else "auto"
    if isinstance(given, (list, tuple)):
        known = {names.index(c) if isinstance(names, list) and c in names else c for c in given}
        return [*given, *(j for j in source.never_numbers if j not in known)]
    return given


def read_label(label: Any, name: str, n: int, *, total: bool = False) -> Array:
    """Return labels as a vector of finite numbers, or raise; totals are float64, since they are yet to be divided."""
    if label is None:
        raise ValueError(f"{name} has no label.")
    vector = as_vector(label, f"label of {name}", n, np.float64 if total else np.float32)
    return _valid(vector, np.isfinite(vector), f"label of {name}", "labels must be finite. Drop or fill these rows.")


def read_weight(weight: Any, name: str, n: int) -> Array | None:
    """Return weights as a vector, None if all are 1."""
    if weight is None:
        return None
    vector = as_weight(weight, f"weight of {name}", n)
    return None if bool((vector == 1).all()) else vector


def read_exposure(exposure: Any, name: str, n: int) -> Array | None:
    return None if exposure is None else as_exposure(exposure, f"exposure of {name}", n)


def read_init_score(init_score: Any, name: str, n: int) -> Array | None:
    """Return initial scores as float64, one per row or per row and class."""
    if init_score is None:
        return None
    check_no_mask(init_score, f"init_score of {name}")
    if hasattr(init_score, "to_numpy"):
        init_score = init_score.to_numpy()
    elif hasattr(init_score, "to_pandas"):
        init_score = init_score.to_pandas().to_numpy()
    scores = np.asarray(init_score, dtype=np.float64)
    if scores.ndim not in (1, 2) or scores.size == 0 or scores.size % n or (scores.ndim == 2 and len(scores) != n):
        raise ValueError(
            f"init_score of {name} must have one value per row and class for {n} rows, got shape {scores.shape}."
        )
    bad = np.flatnonzero(~(np.abs(scores) <= LARGEST))
    if len(bad):
        # Flat scores come class after class.
        row = bad[0] % n if scores.ndim == 1 else bad[0] // scores.shape[1]
        raise ValueError(f"init_score of {name} is {scores.flat[bad[0]]} in row {row}; initial scores must be finite.")
    return scores


# DataFrames and Arrow tables ------------------------------------------------------------------------------------------


class FrameSource(RowSource):
    """A table of pandas, polars, Arrow or another library narwhals reads, with numbers, booleans, text and categories.

    Missing values (NaN, null or None) become NaN. Text and categories become codes: their positions among the
    ``categories`` of the training table, where any other value is missing. In a training table these are

    - the declared ones, in their order: those of pandas categories (also in an Arrow table made from a pandas one), of
      polars Enums and of ordered Arrow dictionaries (see :func:`has_order`);
    - the sorted distinct values of everything else: text, polars Categoricals, other Arrow dictionaries.
    """

    def __init__(self, frame: Any, categories: Categories | None = None) -> None:
        n_rows, n_columns = frame.shape
        named = _columns_of(frame)
        kinds = [kind_of(name, series) for name, series in named]
        coded = [j for j, kind in enumerate(kinds) if kind == CATEGORIES]
        ordered = {j for j in coded if has_order(named[j][1])}
        if categories is None:
            from_pandas = pandas_categories(getattr(frame, "schema", None))
            found = {j: _own_categories(*named[j], named[j][0] in from_pandas) for j in coded}
            # Text without a single value could be anything.
            lists = {j: values for j, values in found.items() if values is not None}
        else:
            lists = {j: list(values) for j, values in categories.by_column(coded).items() if j < n_columns}
        self._series = [series for _, series in named]
        self._readers = [reader_of(name, kinds[j], lists.get(j)) for j, (name, _) in enumerate(named)]
        categorical = [j for j in sorted(lists) if j not in ordered]
        columns = ColumnTypes(
            names=tuple(name for name, _ in named),
            coded=tuple(sorted(lists)),
            categorical=tuple(categorical),
            never_numbers=tuple(j for j in categorical if not is_pandas_category(named[j][1])),
            # Plain LightGBM keeps a list for every pandas DataFrame, even an empty one, and none for others.
            pandas_categorical=[list(lists[j]) for j in sorted(lists)] if lists or hasattr(frame, "iloc") else None,
            has_other_integer_labels=_has_other_integer_labels(frame.columns),
        )
        # LightGBM's rule for DataFrames: the smallest float type that holds every column, at least float32.
        numbers = [s for s, reader in zip(self._series, self._readers, strict=True) if isinstance(reader, Numbers)]
        dtype = np.dtype(np.result_type(np.float32, *map(_numpy_type, numbers)))
        super().__init__((n_rows, n_columns), dtype, columns)

    def _encode(self, n_rows: int, pick: Callable[[nw.Series[Any]], nw.Series[Any]]) -> Array:
        out = np.empty((n_rows, self.n_columns), dtype=self.dtype, order="F")
        for j, (series, reader) in enumerate(zip(self._series, self._readers, strict=True)):
            n_unknown = reader.n_unknown
            out[:, j] = reader.encode(pick(series))
            if reader.n_unknown and not n_unknown:
                warn_of_unknown_values(reader.name)
        return out

    def window(self, lo: int, hi: int) -> Array:
        return self._encode(hi - lo, lambda series: series[lo:hi])

    def take(self, rows: Array) -> Array:
        return self._encode(len(rows), lambda series: series[rows])


def one_block(frame: Any, categories: Categories | None) -> ArraySource | None:
    """Return a pandas table that is one block of floats in memory without a copy; None for any other table."""
    if not hasattr(frame, "iloc") or (categories is not None and categories.values):
        return None
    kinds = set(frame.dtypes)
    if len(kinds) != 1 or next(iter(kinds)) not in (np.dtype(np.float32), np.dtype(np.float64)):
        return None
    if not np.shares_memory(frame.iloc[:1].to_numpy(copy=False), frame.iloc[:1, 0].to_numpy(copy=False)):
        return None  # several blocks, which pandas would copy into one
    array = frame.to_numpy(copy=False)
    if not is_plain(array):
        return None
    _check_unique(list(frame.columns))
    columns = ColumnTypes(
        names=tuple(str(label) for label in frame.columns),
        pandas_categorical=[],
        has_other_integer_labels=_has_other_integer_labels(frame.columns),
    )
    return ArraySource(array, columns)


def _own_categories(name: str, series: nw.Series[Any], from_pandas: bool) -> list[Any] | None:
    """Return the categories of a category column, declared or found in it; None if there are none."""
    import narwhals as nw

    if is_pandas_category(series):
        return list(native_dtype(series).categories)
    if isinstance(series.dtype, nw.Enum):
        return list(series.dtype.categories)
    declares = (from_pandas or has_order(series)) and hasattr(native_dtype(series), "value_type")
    learned = Learned(name, declares=declares, ordered=has_order(series))
    for chunk in series.to_native().chunks if declares else ():
        learned.declare(chunk.dictionary.tolist())
    if learned.declared is not None:
        return learned.declared
    for lo, hi in blocks_of(len(series)):
        learned.encode(series[lo:hi])
    return learned.categories or None


def _numpy_type(series: nw.Series[Any]) -> Any:
    kind = getattr(getattr(series.to_native(), "dtype", None), "type", None)  # pandas dtypes name a type of numpy
    if not (isinstance(kind, type) and issubclass(kind, np.generic)):
        kind = getattr(np, str(series.dtype).lower().replace("boolean", "bool_"), np.float64)
    return np.float64 if kind is np.object_ else kind


def _columns_of(frame: Any) -> list[tuple[str, nw.Series[Any]]]:
    """Return the columns of a table with their names; Arrow columns inside a pandas table as Arrow."""
    import narwhals as nw
    import narwhals.dependencies as nwd

    if not nwd.is_pandas_dataframe(frame):
        names = list(getattr(frame, "column_names", frame.columns))
        _check_unique(names)
        table = nw.from_native(frame, eager_only=True)
        return [(name, table.get_column(name)) for name in table.columns]
    import pandas as pd

    _check_unique(list(frame.columns))
    natives = [frame.iloc[:, j] for j in range(frame.shape[1])]
    natives = [s.array.__arrow_array__() if isinstance(s.dtype, pd.ArrowDtype) else s for s in natives]
    return [
        (str(label), nw.from_native(native, series_only=True))
        for label, native in zip(frame.columns, natives, strict=True)
    ]


def _check_unique(names: list[Any]) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"Column {twice!r} appears more than once in the table; rename one of them.")


def _has_other_integer_labels(labels: Any) -> bool:
    integers = [(j, x) for j, x in enumerate(labels) if isinstance(x, (int, np.integer)) and not isinstance(x, bool)]
    return any(label != position for position, label in integers)


# Copies with some columns erased, left out or put in order, in the container they came in -----------------------------


def erase_columns(X: Any, columns: list[int]) -> Any:
    """Return a copy of a table with all values of some columns missing; DataFrames stay DataFrames of their kind."""
    X = eager(X)
    if hasattr(X, "iloc"):
        erased = {X.columns[j]: _all_missing(X.iloc[:, j]) for j in columns}
        out = X.copy(deep=False)
        for name, values in erased.items():
            out[name] = values
        return out
    if is_frame(X):
        import narwhals as nw

        frame = nw.from_native(X, eager_only=True)
        missing = [nw.lit(None, dtype=frame.schema[frame.columns[j]]).alias(frame.columns[j]) for j in columns]
        return frame.with_columns(*missing).to_native()
    source = row_source(X)
    table = np.array(source.window(0, source.n_rows), dtype=source.dtype)
    table[:, columns] = np.nan
    return table


def fill_columns(X: Any, columns: list[int], values: list[Any]) -> Any:
    """Return a copy of a table with one value for everybody in some columns; columns of another kind are erased."""
    X = eager(X)
    if hasattr(X, "iloc"):
        out = erase_columns(X, columns)
        for j, value in zip(columns, values, strict=True):
            if getattr(X.dtypes.iloc[j], "kind", "O") in "iufb":
                out[X.columns[j]] = value
            elif isinstance(value, str):
                import pandas as pd

                out[X.columns[j]] = pd.Series([value] * len(X), index=X.index, dtype=X.dtypes.iloc[j])
        return out
    if is_frame(X):
        import narwhals as nw

        frame, filled = nw.from_native(X, eager_only=True), []
        for j, value in zip(columns, values, strict=True):
            dtype = frame.schema[frame.columns[j]]
            fits = dtype.is_numeric() != isinstance(value, str)
            filled.append((nw.lit(value).cast(dtype) if fits else nw.lit(None, dtype=dtype)).alias(frame.columns[j]))
        return frame.with_columns(*filled).to_native()
    table = erase_columns(X, columns)
    table[:, columns] = values
    return table


def select_columns(frame: Any, columns: list[int]) -> Any:
    if hasattr(frame, "iloc"):
        return frame.iloc[:, columns]
    import narwhals as nw

    return nw.from_native(frame, eager_only=True)[:, columns].to_native()


def named_columns(frame: Any, names: Sequence[str]) -> Any:
    """Return the columns of a DataFrame or Arrow table with these names, in this order; those it lacks are missing."""
    if hasattr(frame, "iloc"):
        import pandas as pd

        place = {str(label): j for j, label in enumerate(frame.columns)}
        nothing = pd.Series(np.full(len(frame), np.nan), index=frame.index)
        columns = [frame.iloc[:, place[name]] if name in place else nothing for name in names]
        return pd.concat(columns, axis=1, keys=list(names))
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    absent = [nw.lit(None, dtype=nw.Float64).alias(name) for name in names if name not in table.columns]
    return table.with_columns(*absent).select(*names).to_native() if absent else table.select(*names).to_native()


def column_names(frame: Any) -> list[str]:
    return [str(name) for name in getattr(frame, "column_names", frame.columns)]


def _all_missing(column: Any) -> Any:
    """Return a column without values: of the same type if that can be missing, otherwise of floats."""
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, pd.SparseDtype) or (isinstance(dtype, np.dtype) and dtype.kind != "O"):
        return pd.Series(np.full(len(column), np.nan), index=column.index)
    return pd.Series([None] * len(column), index=column.index, dtype=dtype)
