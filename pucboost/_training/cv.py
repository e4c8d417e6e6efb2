"""``cv``: folds of people, each augmented on its own.

If folds split copies, the training data would hold a sharer's silent copy with its label, and the loss of sharers would
look better than it is, on some tables by half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np

from .._common import Array
from .._engines.base import FoldOptions
from .._models.schema import say_unprotected
from .._tables.containers import SourceTable
from .._virtual.plan import child_seed
from .._virtual.rows import VirtualTable
from .datasets import Dataset, TrainingSet, as_dataset
from .request import TrainingRequest, check_held_out, check_same_consent, model_to_continue, plain_call, read_dataset
from .steps import (
    FINISHERS,
    NO_METRIC_OF_MERGED_ROWS,
    TABLE_STEPS,
    VIRTUAL_STEPS,
    Training,
    as_rates,
    has_exposure,
    params_of,
    plain_rates,
    plan,
    run,
    totals_of,
)
from .train import Callbacks, Feval


def cv(
    params: Mapping[str, Any],
    train_set: TrainingSet,
    num_boost_round: int = 100,
    folds: Any = None,
    nfold: int = 5,
    stratified: bool = True,
    shuffle: bool = True,
    metrics: Any = None,
    feval: Feval = None,
    init_model: Any = None,
    fpreproc: Any = None,
    seed: int = 0,
    callbacks: Callbacks = None,
    eval_train_metric: bool = False,
    return_cvbooster: bool = False,
) -> dict[str, Any]:
    """Cross-validate under Protected User Consent, with the signature of ``lgb.cv``.

    Folds split people, never copies: the table is split first, then each side is augmented on its own. Metrics are
    computed on the augmented held-out fold (``valid_augmentation`` in ``params`` works as in :func:`train`). Each fold
    has its own bins, made from its training part. ``lgb.cv`` makes them once from the whole table, including held-out
    rows.

    Parameters
    ----------
    params, train_set
        As in :func:`train`.
    num_boost_round, folds, nfold, stratified, shuffle, metrics, feval, init_model, seed, callbacks
        As in ``lgb.cv``.
    eval_train_metric, return_cvbooster
        As in ``lgb.cv``.
    fpreproc
        As in ``lgb.cv``: receives the two Datasets of a fold, before they are augmented, and the parameters. With an
        ``exposure`` their labels are rates, and their weights hold it. (Folds are stratified by the totals.)

    Returns
    -------
    dict
        As in ``lgb.cv``; the boosters of a ``cvbooster`` have ``consent`` and ``puc_summary``.

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
    data = as_dataset(train_set, "cv")
    if dict(params or {}).get("plan") is not None:
        raise ValueError("plan is for train: cv makes a plan for each of its folds.")
    request = TrainingRequest.read(params, data, num_boost_round, metrics)
    options = FoldOptions(metrics, feval, init_model, callbacks, eval_train_metric, return_cvbooster)
    if request is None:
        check_same_consent(init_model, None)
        say_unprotected("LightGBM")
        engine, engine_params = plain_call(params, data)
        if has_exposure(data) and (hasattr(folds, "split") or (folds is None and stratified)):
            totals = totals_of(data, "train_set")  # lgb.cv would hand rates to the splitter
            folds = make_folds(totals, data.group, folds, nfold, stratified, shuffle, seed)
        data, _ = plain_rates(engine, engine_params, data)
        return dict(
            lgb.cv(
                engine_params, data, num_boost_round, folds, nfold, stratified, shuffle, fpreproc=fpreproc,
                seed=seed, **vars(options),
            )
        )  # fmt: skip
    options = replace(options, init_model=model_to_continue(request, init_model))
    if request.settings.anchor is not None:
        raise ValueError("anchor is not supported by cv; train on each fold yourself.")
    if request.calibrates:
        raise ValueError(
            "calibrate_masks is not supported by cv, which scores models round by round: the calibration comes after "
            "the last round. Leave it out to choose the number of rounds, or train on each fold yourself."
        )
    request.warn_before_training(validates=True)
    table, base_seed = request.table, request.options.seed
    splits = make_folds(table.label, table.group, folds, nfold, stratified, shuffle, seed)
    whole, trainings = Training.of(request, nfold), []

    def build(fold: int, params: dict[str, Any]) -> tuple[VirtualTable, VirtualTable, dict[str, Any]]:
        """Return the training and held-out rows of a fold, and its parameters."""
        train, valid = (table.subset(rows) for rows in splits[fold])
        if fpreproc is not None:
            train, valid, params = _preprocessed(fpreproc, table, train, valid, dict(params))
        check_held_out(request, valid, "the held-out part of a fold")
        fold_seed, next_seed = child_seed(base_seed, 2 * fold), 2 * fold + 1
        training = replace(whole, table=train, valid=[(valid, "valid")], seed=fold_seed, first_valid_seed=next_seed)
        training = run(training, *TABLE_STEPS, plan, *VIRTUAL_STEPS)
        if training.virtual.merged and eval_train_metric:
            raise ValueError(f"eval_train_metric: {NO_METRIC_OF_MERGED_ROWS}")
        trainings.append(training)
        held_out = (training.virtual_valid or [])[0][0]
        assert held_out is not None
        return training.virtual, held_out, params_of(training, params).values

    result = request.engine.cv(table.label, splits, build, request.params, options)
    if return_cvbooster:
        for booster, training in zip(result["cvbooster"].boosters, trainings, strict=True):
            run(replace(training, model=booster), *FINISHERS)
    return result


def _preprocessed(
    fpreproc: Any, table: SourceTable, train: SourceTable, valid: SourceTable, params: dict[str, Any]
) -> tuple[SourceTable, SourceTable, dict[str, Any]]:
    """Return what a user's function makes of the two parts of a fold, and of the parameters."""
    user_train, user_valid, params = fpreproc(_to_dataset(as_rates(train)), _to_dataset(as_rates(valid)), params)
    train = _read_back(table, user_train, "the training part of a fold")
    return train, _read_back(table, user_valid, "the held-out part of a fold"), params


def make_folds(
    outcome: Array, group: Any, folds: Any, nfold: int, stratified: bool, shuffle: bool, seed: int
) -> list[tuple[Array, Array]]:
    """Return the sorted row numbers of the training and held-out part of each fold, split as ``lgb.cv`` does.

    ``outcome`` is as the user gave it: with an exposure these are totals, by which counts can be stratified.
    """
    n = len(outcome)
    if folds is not None:
        if hasattr(folds, "split"):
            groups = None
            if group is not None:
                groups = np.repeat(np.arange(len(group)), np.asarray(group, dtype=np.int64))
            folds = folds.split(X=np.empty(n), y=outcome, groups=groups)
        elif not hasattr(folds, "__iter__"):
            raise ValueError("folds must be a list of pairs of row numbers, or a scikit-learn splitter.")
    elif stratified:
        from sklearn.model_selection import StratifiedKFold

        splitter = StratifiedKFold(nfold, shuffle=shuffle, random_state=seed if shuffle else None)
        folds = splitter.split(X=np.empty(n), y=outcome)
    else:
        order = np.random.RandomState(seed).permutation(n) if shuffle else np.arange(n)
        held_out = np.array_split(order, nfold)
        folds = [(np.setdiff1d(order, part), part) for part in held_out]
    return [(np.sort(np.asarray(train)), np.sort(np.asarray(valid))) for train, valid in folds]


def _to_dataset(table: SourceTable) -> Dataset:
    """Return a table as a Dataset for a user's ``fpreproc``; this copies the rows."""
    scores = table.init_score
    return Dataset(
        table.source.matrix_of(np.arange(table.source.n_rows)),
        table.label,
        weight=table.weight,
        init_score=scores if scores is None or scores.ndim == 1 else scores.ravel(order="F"),
        feature_name=table.feature_name,
        categorical_feature=table.categorical_feature,
        params=table.params,
        free_raw_data=False,
        optional=table.optional,
        available=table.available,
    )


def _read_back(table: SourceTable, dataset: lgb.Dataset, name: str) -> SourceTable:
    """Return the table that a user's ``fpreproc`` made of :func:`_to_dataset`, whose matrix holds category codes."""
    back = read_dataset(dataset, name)
    source = back.source
    if not source.coded and source.n_columns == table.source.n_columns:
        source = source.with_columns(replace(source.columns, coded=table.source.coded))
    return replace(back, source=source, pandas_categorical=table.pandas_categorical)
