"""``predict`` and ``quote`` on collections: lazily, partition by partition."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np

from .._prediction.predictor import predict as predict_table
from .._prediction.predictor import quote as quote_table
from .._virtual.shared_plan import is_empty
from .collections import is_collection, partitions_of


def predict(model: Any, X: Any, **options: Any) -> Any:
    """Return predictions for a collection, computed when they are needed.

    Parameters
    ----------
    model
        A booster, an anchored model or a fitted estimator.
    X
        Dask DataFrame or Array.
    **options
        As in :func:`pucboost.predict`, without ``return_subset``.

    Returns
    -------
    Dask Series or Array
        A Series for a DataFrame, with its index, unless there are several classes; else an Array.

    Examples
    --------
    >>> import dask.array as da, numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 2)); y = X.sum(axis=1)
    >>> X[::4, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, y), 5)
    >>> lazy = puc.dask.predict(booster, da.from_array(X, chunks=(50, 2)))
    >>> bool((lazy.compute() == puc.predict(booster, X)).all())
    True
    """
    if options.get("return_subset"):
        raise ValueError("return_subset is not possible with collections. Predict partitions, with map_partitions.")
    return lazily(lambda table, model: np.asarray(predict_table(model, table, **options)), X, model)


def lazily(function: Any, X: Any, model: Any) -> Any:
    """Return what a function of (table, model) returns for each partition, as one collection of arrays or Series."""
    _check(X)
    example = function(_example(X), model)
    shape, dtype = example.shape, example.dtype
    given = dask.delayed(model, pure=True, traverse=False)
    if not hasattr(X, "numblocks") and len(shape) == 1:
        import pandas as pd

        return X.map_partitions(_series, given, function, dtype, meta=pd.Series(dtype=dtype), enforce_metadata=False)
    import dask.array as da

    run = dask.delayed(_array, pure=True)
    blocks = [run(part, given, function, shape[1:], dtype) for part in partitions_of(X, "X")]
    known = X.chunks[0] if hasattr(X, "numblocks") else [np.nan] * len(blocks)
    arrays = [
        da.from_delayed(block, shape=(n, *shape[1:]), dtype=dtype) for block, n in zip(blocks, known, strict=True)
    ]
    return da.concatenate(arrays, axis=0, allow_unknown_chunksizes=True)


def quote(model: Any, X: Any, **options: Any) -> Any:
    """Return what each person of a collection would be told for every subset of what they share, computed lazily.

    Parameters
    ----------
    model, X
        As in :func:`predict`.
    **options
        As in :func:`pucboost.quote`.

    Returns
    -------
    Dask DataFrame
        As :func:`pucboost.quote` returns it.

    Examples
    --------
    >>> import dask.array as da, numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 2)); y = X.sum(axis=1)
    >>> X[::4, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, y), 5)
    >>> quotes = puc.dask.quote(booster, da.from_array(X, chunks=(50, 2)))
    >>> list(quotes.columns), len(quotes)
    (['nothing', 'Column_1'], 200)
    """
    import dask.dataframe as dd

    _check(X)
    meta = quote_table(model, _example(X), **options).iloc[:0]
    given = dask.delayed(model, pure=True, traverse=False)
    if not hasattr(X, "numblocks"):
        meta.index = X._meta.index
        return X.map_partitions(_quotes, given, options, meta, meta=meta)
    run = dask.delayed(_quotes, pure=True)
    return dd.from_delayed([run(part, given, options, meta) for part in partitions_of(X, "X")], meta=meta)


def _quotes(table: Any, model: Any, options: dict[str, Any], meta: Any) -> Any:
    return meta.copy() if is_empty(table) else quote_table(model, table, **options)


def _series(table: Any, model: Any, function: Any, dtype: Any) -> Any:
    import pandas as pd

    values = np.empty(0, dtype=dtype) if is_empty(table) else function(table, model)
    return pd.Series(values, index=table.index)


def _array(table: Any, model: Any, function: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return np.empty((0, *shape), dtype=dtype) if is_empty(table) else function(table, model)


def _check(X: Any) -> None:
    if not is_collection(X):
        raise TypeError(f"X must be a Dask DataFrame or Array, got {type(X).__name__!r}. Use pucboost.predict for it.")


def _example(X: Any) -> Any:
    """Return a table with the columns of a collection, in which everything is missing."""
    if hasattr(X, "numblocks"):
        return np.full((1, X.shape[1]), np.nan, dtype=X.dtype if X.dtype.kind == "f" else np.float64)
    return X._meta.reindex(range(1)) if len(X._meta.columns) else X._meta
