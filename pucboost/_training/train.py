"""``train`` and ``cv``: validate → plan → stream → engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np

from .._arrays import Array
from .._engines.base import VirtualTable
from .._engines.params import split_params
from .._virtual.plan import child_seed
from .anchored import train_anchored
from .datasets import SourceTable
from .job import TrainingJob, check_same_consent

_NO_METRIC_OF_MERGED_ROWS = "metrics cannot read the mean labels of rows merged by compact. Leave one of the two out."


def train(
    params: dict[str, Any],
    train_set: lgb.Dataset,
    num_boost_round: int = 100,
    valid_sets: Any = None,
    valid_names: Any = None,
    feval: Any = None,
    init_model: Any = None,
    keep_training_booster: bool = False,
    callbacks: list[Callable[..., Any]] | None = None,
) -> Any:
    """Train a booster under Protected User Consent: ``lgb.train`` for data that people may decline to share.

    The model approaches f*(b, a, z) = E[Y | b, A ⊇ a, z_a]: someone who shares the groups a is compared with
    everybody who shares *at least* a, their further data erased. With nothing optional this is ``lgb.train``.

    Parameters
    ----------
    params : dict
        LightGBM's parameters, and pucboost's own:

        - ``optional``: list of columns, or dict group → columns (or on ``puc.Dataset``)
        - ``augmentation``: ``"balanced"`` (default), ``"exhaustive"``, ``"fixed"``, ``"none"``
        - ``copies``: virtual rows per row for ``"balanced"``; default 4, and 2 above 200,000 rows
        - ``valid_augmentation``: scheme for the validation sets, default as ``augmentation``. On raw validation data
          (``"none"``) early stopping rewards the inference that is forbidden.
        - ``max_virtual_rows``: row budget; default what half of the memory holds
        - ``engine``: ``"lightgbm"`` (default) or ``"xgboost"``
        - ``compact``: True merges virtual rows that are equal after masking, ``"auto"`` decides by a sample
        - ``anchor``: a booster, a callable giving raw scores, or ``"base"``; people who share nothing get exactly its
          prediction, and the result is an ``AnchoredModel``. With ``anchor_strength=λ`` they are pulled towards it.
        - ``seed``: shared with the engine; without it the masks use 0
    train_set : lgb.Dataset or puc.Dataset
        Not yet constructed, or with raw data kept; with XGBoost also a pair (X, y). Neither it nor ``params`` is
        changed when something is optional.
    num_boost_round, valid_sets, valid_names, feval, init_model, keep_training_booster, callbacks
        As in ``lgb.train``. ``feval`` and a callable objective see the virtual rows; ``feval`` finds the full weights
        in ``get_weight()``. A callable objective finds the user's own weights there, if any; pucboost multiplies its
        gradients by the copy weights.

    Returns
    -------
    lgb.Booster or xgb.Booster
        with two more attributes: ``consent`` (the :class:`Consent` schema) and ``puc_summary``. XGBoost's has the
        metrics of validation sets in ``evals_result``.

    Examples
    --------
    >>> import lightgbm as lgb, numpy as np, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)); y = X[:, 0] + X[:, 2]
    >>> X[rng.random(500) < 1 / (1 + np.exp(-3 * X[:, 2])), 2] = np.nan     # the large values stay away
    >>> booster = puc.train({"optional": [2], "verbosity": -1}, lgb.Dataset(X, y), 20)
    >>> booster.consent.group_names, booster.puc_summary.augmentation
    (('Column_2',), 'exhaustive')
    """
    job = TrainingJob.read(params, train_set, num_boost_round, "train")
    if job is None:
        check_same_consent(init_model, None)
        _, engine_params = split_params(params)
        return lgb.train(
            engine_params, train_set, num_boost_round, valid_sets, valid_names, feval, init_model,
            keep_training_booster, callbacks=callbacks,
        )  # fmt: skip
    job.check_continues(init_model)
    if job.settings.anchor is not None:
        return train_anchored(
            job, train_set, valid_sets, valid_names, feval=feval, init_model=init_model, callbacks=callbacks
        )
    virtual = job.training_rows()
    valid = job.validation(valid_sets, valid_names, train_set)
    if virtual.merged and any(v is None for v, _ in valid or ()):
        raise ValueError(f"The training set among valid_sets: {_NO_METRIC_OF_MERGED_ROWS}")
    booster = job.engine.train(
        virtual,
        job.params_for(virtual),
        job.num_boost_round,
        valid,
        feval=feval,
        init_model=init_model,
        keep_training_booster=keep_training_booster,
        callbacks=callbacks,
    )
    return job.finish(booster, virtual)


def cv(
    params: dict[str, Any],
    train_set: lgb.Dataset,
    num_boost_round: int = 100,
    folds: Any = None,
    nfold: int = 5,
    stratified: bool = True,
    shuffle: bool = True,
    metrics: Any = None,
    feval: Any = None,
    init_model: Any = None,
    fpreproc: Any = None,
    seed: int = 0,
    callbacks: list[Callable[..., Any]] | None = None,
    eval_train_metric: bool = False,
    return_cvbooster: bool = False,
) -> dict[str, Any]:
    """Cross-validate under Protected User Consent, with the signature of ``lgb.cv``.

    Folds split people, never copies: the table is split first, then each side is augmented on its own. Metrics are
    those of the augmented held-out fold (``valid_augmentation`` in ``params`` as in :func:`train`). Each fold has bins
    of its own, made from its training part; ``lgb.cv`` makes them once from the whole table, held-out rows included.

    Parameters
    ----------
    params, train_set
        As in :func:`train`.
    num_boost_round, folds, nfold, stratified, shuffle, metrics, feval, init_model, seed, callbacks
        As in ``lgb.cv``.
    eval_train_metric, return_cvbooster
        As in ``lgb.cv``.
    fpreproc
        As in ``lgb.cv``: gets the two Datasets of a fold and the parameters, before they are augmented.

    Returns
    -------
    dict
        As ``lgb.cv``; the boosters of a ``cvbooster`` have ``consent`` and ``puc_summary``.

    Examples
    --------
    >>> import lightgbm as lgb, numpy as np, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2)); y = X.sum(axis=1); X[rng.random(300) < 0.4, 1] = np.nan
    >>> result = puc.cv({"optional": [1], "objective": "l2", "verbosity": -1}, lgb.Dataset(X, y), 5, nfold=3,
    ...                 stratified=False)
    >>> len(result["valid l2-mean"])
    5
    """
    job = TrainingJob.read(params, train_set, num_boost_round, "cv", parallel_tables=nfold, metrics=metrics)
    common = {
        "metrics": metrics, "feval": feval, "init_model": init_model, "callbacks": callbacks,
        "eval_train_metric": eval_train_metric, "return_cvbooster": return_cvbooster,
    }  # fmt: skip
    if job is None:
        check_same_consent(init_model, None)
        _, engine_params = split_params(params)
        return dict(
            lgb.cv(
                engine_params,
                train_set,
                num_boost_round,
                folds,
                nfold,
                stratified,
                shuffle,
                fpreproc=fpreproc,
                seed=seed,
                **common,
            )
        )
    job.check_continues(init_model)
    if job.settings.anchor is not None:
        raise ValueError("anchor is not supported by cv; train on each fold yourself.")
    splits = make_folds(job.table, folds, nfold, stratified, shuffle, seed)
    virtual_tables: list[VirtualTable] = []

    def build(fold: int, fold_params: dict[str, Any]) -> tuple[VirtualTable, VirtualTable, dict[str, Any]]:
        train, valid = (job.table.subset(rows) for rows in splits[fold])
        if fpreproc is not None:
            user_train, user_valid, fold_params = fpreproc(train.to_dataset(), valid.to_dataset(), dict(fold_params))
            train = job.table.read_back(user_train, "the training part of a fold")
            valid = job.table.read_back(user_valid, "the held-out part of a fold")
        virtual = job.training_rows(train, child_seed(job.facts.seed, 2 * fold))
        if virtual.merged and eval_train_metric:
            raise ValueError(f"eval_train_metric: {_NO_METRIC_OF_MERGED_ROWS}")
        virtual_tables.append(virtual)
        held_out = job.validation_rows(valid, child_seed(job.facts.seed, 2 * fold + 1))
        return virtual, held_out, job.params_for(virtual, fold_params)

    result = job.engine.cv(job.table.label, splits, build, job.params, job.num_boost_round, **common)
    if return_cvbooster:
        for booster, virtual in zip(result["cvbooster"].boosters, virtual_tables, strict=True):
            job.finish(booster, virtual)
    return result


def make_folds(
    table: SourceTable, folds: Any, nfold: int, stratified: bool, shuffle: bool, seed: int
) -> list[tuple[Array, Array]]:
    """Return the sorted row numbers of the training and held-out part of each fold, split as ``lgb.cv`` does."""
    n = table.source.n_rows
    if folds is not None:
        if hasattr(folds, "split"):
            groups = None
            if table.group is not None:
                groups = np.repeat(np.arange(len(table.group)), np.asarray(table.group, dtype=np.int64))
            folds = folds.split(X=np.empty(n), y=table.label, groups=groups)
        elif not hasattr(folds, "__iter__"):
            raise ValueError("folds must be a list of pairs of row numbers, or a scikit-learn splitter.")
    elif stratified:
        from sklearn.model_selection import StratifiedKFold

        splitter = StratifiedKFold(nfold, shuffle=shuffle, random_state=seed if shuffle else None)
        folds = splitter.split(X=np.empty(n), y=table.label)
    else:
        order = np.random.RandomState(seed).permutation(n) if shuffle else np.arange(n)
        held_out = np.array_split(order, nfold)
        folds = [(np.setdiff1d(order, part), part) for part in held_out]
    return [(np.sort(np.asarray(train)), np.sort(np.asarray(valid))) for train, valid in folds]
