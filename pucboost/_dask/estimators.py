"""``predict`` and ``quote`` on collections, lazily and partition by partition, and the estimators that build on them.

``DaskPUCClassifier`` and ``DaskPUCRegressor`` follow scikit-learn's conventions on Dask collections.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Self

import dask
import numpy as np

from .._common import Array
from .._consent import Consent, declares_something
from .._engines import boosters_of, engine_named
from .._estimators.base import EvalPair, PUCModel, eval_pairs, with_eval_metric
from .._estimators.estimators import PUCClassifier, PUCRegressor
from .._models.schema import categories_of
from .._not_applicable import declared_without_table
from .._prediction.predictor import predict as predict_table
from .._prediction.predictor import quote as quote_table
from .._tables.sources import Categories, default_names
from .._virtual.shared_plan import is_empty
from .parts import is_collection, partitions_of
from .training import train, valid_pairs


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


# ----- estimators


def _takes_client(parent: type[PUCModel]) -> Callable[[Any], Any]:
    """Give a constructor its parent's signature, from which scikit-learn reads parameters, plus ``client``."""

    def signed(constructor: Any) -> Any:
        signature = inspect.signature(parent.__init__)
        own = list(signature.parameters.values())
        client = inspect.Parameter("client", inspect.Parameter.KEYWORD_ONLY, default=None)
        constructor.__signature__ = signature.replace(parameters=[own[0], client, *own[1:]])
        return constructor

    return signed


class _DaskModel(PUCModel):
    """What both estimators do differently from those on one machine."""

    client: Any
    _on_one_machine: ClassVar[type[PUCModel]]

    def __sklearn_clone__(self) -> Self:
        client, self.client = self.client, None
        try:
            new: Self = super().__sklearn_clone__()
        finally:
            self.client = client
        new.client = client  # one cluster, not a copy of it
        return new

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "client": None}

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        init_score: Any = None,
        row_id: Any = None,
        available: Any = None,
        exposure: Any = None,
        eval_set: Any = None,
        eval_names: Any = None,
        eval_sample_weight: Any = None,
        eval_class_weight: Any = None,
        eval_init_score: Any = None,
        eval_metric: Any = None,
        early_stopping_rounds: int | None = None,
        **options: Any,
    ) -> Self:
        """Train on the workers of a cluster.

        Parameters
        ----------
        X, y, sample_weight, init_score, row_id, available, exposure
            As in :func:`pucboost.dask.train`.
        eval_set
            People to validate on: a pair (X, y), or several, of collections or of local tables.
        eval_names, eval_sample_weight, eval_class_weight, eval_init_score, eval_metric
            As in :meth:`pucboost.PUCClassifier.fit`; weights and scores in the form of their ``eval_set``.
        early_stopping_rounds
            Overrides the constructor's.
        **options
            ``init_model``, ``callbacks``, ``checkpoint``, ``checkpoint_every``, ``resume``, ``shuffled`` and
            ``wait_for_workers`` of :func:`pucboost.dask.train`.

        Returns
        -------
        self
        """
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        names = [str(name) for name in X.columns] if hasattr(X, "columns") else default_names(X.shape[1])
        consent = (
            Consent.declare(self.optional, names) if declares_something(self.optional) else Consent({}, tuple(names))
        )
        consent = declared_without_table(consent, self.not_applicable)
        patience = self.early_stopping_rounds if early_stopping_rounds is None else early_stopping_rounds
        if patience is not None and eval_set is None:
            raise ValueError("early_stopping_rounds needs eval_set: other people to validate on.")
        label, sample_weight = self._prepared(y, sample_weight)
        tuples = valid_pairs(eval_set)
        evals = eval_pairs(
            [one[:2] for one in tuples] or None, None, None, sample_weight=eval_sample_weight,
            init_score=eval_init_score, class_weight=eval_class_weight, shown=eval_names,
        )  # fmt: skip
        engine = engine_named(self.engine)
        params, categorical = self._train_params(engine, consent, patience)
        params, feval = with_eval_metric(engine, params, eval_metric)
        if categorical != "auto":
            raise ValueError("categorical_feature is not supported with Dask: give a DataFrame with category columns.")
        booster = train(
            self.client,
            params,
            X,
            label,
            int(self.n_estimators),
            valid_sets=[self._valid(one, *whole[2:]) for one, whole in zip(evals, tuples, strict=True)] or None,
            valid_names=[one.shown or f"valid_{i}" for i, one in enumerate(evals)],
            feval=feval,
            sample_weight=sample_weight,
            init_score=init_score,
            row_id=row_id,
            available=available,
            exposure=exposure,
            **{**options, "init_model": self._booster_of(options.get("init_model"))},
        )
        self.consent_, self.objective_, self.n_features_in_ = consent, self._loss(), len(names)
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array(names, dtype=object)
        self._categories = categories_of(booster) or Categories([], ())
        self.evals_result_ = booster.evals_result if evals else {}
        self.best_iteration_ = boosters_of(booster).facts(booster).used_rounds
        self.booster_ = booster
        return self

    def _prepared(self, y: Any, sample_weight: Any) -> tuple[Any, Any]:
        """Return labels as the engine expects them, and weights, as collections."""
        return y, sample_weight

    def _coded(self, y: Any) -> Any:
        return y

    def _valid(self, one: EvalPair, weight: Any = None, init_score: Any = None) -> tuple[Any, ...]:
        """Return a validation set as :func:`train` takes it; what ``eval_set`` itself holds comes second."""
        weight = weight if one.weight is None else one.weight
        if one.class_weight is not None:
            weight = self._times_class_weight(one.y, weight, one.class_weight)
        return one.X, self._coded(one.y), weight, init_score if one.init_score is None else one.init_score

    def _times_class_weight(self, y: Any, sample_weight: Any, class_weight: Any) -> Any:
        """Return weights times those of people's classes, which count all people of all workers."""
        raise ValueError(f"eval_class_weight={class_weight!r}: a regressor has no classes.")

    def to_local(self) -> Any:
        """Return the same fitted model as an estimator for one machine."""
        given = self.get_params(deep=False)
        given.pop("client")
        local = self._on_one_machine(**given)
        local.__dict__.update({n: value for n, value in vars(self).items() if n not in ("client", "_engine_params")})
        return local

    def _ask(self, method: str, X: Any, *args: Any, **options: Any) -> Any:
        local = self.to_local()
        if not is_collection(X):
            return getattr(local, method)(X, *args, **options)
        return lazily(lambda table, model: np.asarray(getattr(model, method)(table, *args, **options)), X, local)

    def predict(self, X: Any, *args: Any, **options: Any) -> Any:
        """Return predictions: lazily for a collection, else as on one machine, with the same options."""
        return self._ask("predict", X, *args, **options)

    def quote(self, X: Any, **options: Any) -> Any:
        """Return quotes: lazily for a collection, else as on one machine, with the same options."""
        return quote(self.to_local(), X, **options) if is_collection(X) else super().quote(X, **options)


class DaskPUCRegressor(_DaskModel, PUCRegressor):
    """:class:`pucboost.PUCRegressor` on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client or None
        The cluster's; None for the current one.
    **params
        As in :class:`pucboost.PUCRegressor`, without ``compact``, ``anchor`` and what else needs the whole table in
        one place.

    Attributes
    ----------
    booster_
        An ordinary local booster. The others are as in :class:`pucboost.PUCRegressor`.

    Examples
    --------
    >>> import dask.array as da, numpy as np, pucboost as puc
    >>> from distributed import Client, LocalCluster
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)); y = X[:, 0] + X[:, 2]
    >>> X[rng.random(500) < 1 / (1 + np.exp(-3 * X[:, 2])), 2] = np.nan
    >>> with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster, Client(cluster) as client:
    ...     rows, labels = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    ...     model = puc.dask.DaskPUCRegressor(client=client, optional=[2], n_estimators=20).fit(rows, labels)
    ...     total = model.predict(rows).sum().compute()
    >>> bool(np.isclose(total, model.to_local().predict(X).sum()))
    True
    """

    _on_one_machine = PUCRegressor

    @_takes_client(PUCRegressor)
    def __init__(self, *, client: Any = None, **params: Any) -> None:
        super().__init__(**params)
        self.client = client


class DaskPUCClassifier(_DaskModel, PUCClassifier):
    """:class:`pucboost.PUCClassifier` on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client or None
        The cluster's; None for the current one.
    **params
        As in :class:`pucboost.PUCClassifier`, without ``compact``, ``anchor`` and what else needs the whole table in
        one place.

    Attributes
    ----------
    booster_
        An ordinary local booster. The others are as in :class:`pucboost.PUCClassifier`.

    Examples
    --------
    >>> import dask.array as da, numpy as np, pucboost as puc
    >>> from distributed import Client, LocalCluster
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)); y = np.where(X[:, 0] + X[:, 2] > 0, "yes", "no")
    >>> X[rng.random(500) < 1 / (1 + np.exp(-3 * X[:, 2])), 2] = np.nan
    >>> with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster, Client(cluster) as client:
    ...     rows, labels = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    ...     model = puc.dask.DaskPUCClassifier(client=client, optional=[2], n_estimators=20).fit(rows, labels)
    ...     lazy = model.predict_proba(rows)
    ...     shape = lazy.compute().shape
    >>> shape, model.to_local().classes_.tolist()
    ((500, 2), ['no', 'yes'])
    """

    _on_one_machine = PUCClassifier

    @_takes_client(PUCClassifier)
    def __init__(self, *, client: Any = None, **params: Any) -> None:
        super().__init__(**params)
        self.client = client

    def predict_proba(self, X: Any, *args: Any, **options: Any) -> Any:
        """Return the probability of every class: lazily for a collection, else as on one machine."""
        return self._ask("predict_proba", X, *args, **options)

    def decision_function(self, X: Any) -> Any:
        """Return raw scores: lazily for a collection, else as on one machine."""
        return self._ask("decision_function", X)

    def _prepared(self, y: Any, sample_weight: Any) -> tuple[Any, Any]:
        classes = np.array(sorted(_class_counts(y)))
        if len(classes) < 2:
            raise ValueError(f"{type(self).__name__} needs at least 2 classes, but y has {len(classes)}.")
        self.classes_ = classes
        if self.class_weight is not None:
            sample_weight = self._times_class_weight(y, sample_weight, self.class_weight)
        return self._coded(y), sample_weight

    def _times_class_weight(self, y: Any, sample_weight: Any, class_weight: Any) -> Any:
        if isinstance(class_weight, str):
            if class_weight != "balanced":
                raise ValueError(f"class_weight must be a dict, 'balanced' or None, got {class_weight!r}.")
            counts = _class_counts(y)
            class_weight = {label: sum(counts.values()) / (len(counts) * n) for label, n in counts.items()}
        each = np.array([float(class_weight.get(label, 1.0)) for label in self.classes_.tolist()])
        by_class = _mapped(y, _ByClass(self.classes_, each))
        return by_class if sample_weight is None else sample_weight * by_class

    def _coded(self, y: Any) -> Any:
        return _mapped(y, _ByClass(self.classes_, np.arange(len(self.classes_), dtype=np.float64)))


class _ByClass:
    """Labels → numbers."""

    def __init__(self, classes: Array, values: Array) -> None:
        self._classes, self._values = classes, values

    def __call__(self, labels: Any) -> Any:
        given = np.asarray(labels)
        known = np.isin(given, self._classes)
        if not known.all():
            raise ValueError(f"y has the label {given[~known].tolist()[0]!r}, which is not among those trained on.")
        return self._values[np.searchsorted(self._classes, given)]


def _mapped(y: Any, function: _ByClass) -> Any:
    if not is_collection(y):
        return function(np.asarray(y))
    if hasattr(y, "numblocks"):
        return y.map_blocks(function, dtype=np.float64)
    import pandas as pd

    return y.map_partitions(
        lambda part: pd.Series(function(part), index=part.index, dtype=np.float64), meta=pd.Series(dtype=np.float64)
    )


def _class_counts(y: Any) -> dict[Any, int]:
    """Return how many people have each label, in a collection or a local vector."""
    count = dask.delayed(_classes_and_counts, pure=True)
    found = dask.compute(*[count(part) for part in (partitions_of(y, "y") if is_collection(y) else [y])])
    counts: dict[Any, int] = {}
    for classes, numbers in found:
        for label, number in zip(classes, numbers, strict=True):
            counts[label] = counts.get(label, 0) + number
    return counts


def _classes_and_counts(labels: Any) -> tuple[list[Any], list[int]]:
    import pandas as pd

    values = pd.Series(np.asarray(labels).ravel())
    if values.isna().any():
        raise ValueError("y has missing labels. Drop these rows.")
    counts = values.value_counts()
    return counts.index.tolist(), counts.tolist()
