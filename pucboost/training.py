"""``train`` and ``cv``: validate → plan → stream → engine."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np

from .consent import Consent
from .datasets import SourceTable, declares_something, read_dataset, resolve_consent
from .engines import lightgbm as engine
from .engines.params import Settings, lightgbm_value, split_params
from .plan import ENGINE_MAX_ROWS, MaskPlan, child_seed, plan_masks
from .stream import MaskedRows

logger = logging.getLogger("pucboost")

MEMORY_SHARE = 0.5
"""How much of the machine's memory the virtual rows may take by default."""


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
) -> lgb.Booster:
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
        - ``seed``: shared with LightGBM; without it the masks use 0
    train_set : lgb.Dataset or puc.Dataset
        Not yet constructed, or with raw data kept. Neither it nor ``params`` is changed when something is optional.
    num_boost_round, valid_sets, valid_names, feval, init_model, keep_training_booster, callbacks
        As in ``lgb.train``. ``feval`` and a callable objective see the virtual rows; ``feval`` finds the full weights
        in ``get_weight()``. A callable objective finds the user's own weights there, if any; pucboost multiplies its
        gradients by the copy weights.

    Returns
    -------
    lgb.Booster
        with two more attributes: ``consent`` (the :class:`Consent` schema) and ``puc_summary``.

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
    if not isinstance(train_set, lgb.Dataset):
        raise TypeError(f"train() only accepts Dataset object, train_set has type '{type(train_set).__name__}'.")
    settings, engine_params = split_params(params)
    job = _TrainingTable.of(train_set, settings, engine_params)
    if job is None:
        _check_same_consent(init_model, None)
        return lgb.train(
            engine_params, train_set, num_boost_round, valid_sets, valid_names, feval, init_model,
            keep_training_booster, callbacks,
        )  # fmt: skip
    _check_same_consent(init_model, job.consent)
    virtual_train, engine_params, plan = job.build(job.table, engine_params)
    virtual_valid = _build_validation(valid_sets, train_set, virtual_train, job)
    booster = lgb.train(
        engine_params, virtual_train, num_boost_round, virtual_valid, valid_names, feval, init_model,
        keep_training_booster, callbacks,
    )  # fmt: skip
    return _with_consent(booster, job, plan)


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
    if not isinstance(train_set, lgb.Dataset):
        raise TypeError(f"cv() only accepts Dataset object, train_set has type '{type(train_set).__name__}'.")
    settings, engine_params = split_params(params)
    job = _TrainingTable.of(train_set, settings, engine_params)
    common = {
        "num_boost_round": num_boost_round, "folds": folds, "nfold": nfold, "stratified": stratified,
        "shuffle": shuffle, "metrics": metrics, "feval": feval, "init_model": init_model, "seed": seed,
        "callbacks": callbacks, "eval_train_metric": eval_train_metric, "return_cvbooster": return_cvbooster,
    }  # fmt: skip
    if job is None:
        _check_same_consent(init_model, None)
        return dict(lgb.cv(engine_params, train_set, fpreproc=fpreproc, **common))
    _check_same_consent(init_model, job.consent)
    fold_plans: list[MaskPlan] = []

    def augment_fold(train_rows: Any, valid_rows: Any, fold_params: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        fold_train = job.table.subset(np.asarray(train_rows.used_indices))
        fold_valid = job.table.subset(np.asarray(valid_rows.used_indices))
        if fpreproc is not None:
            user_train, user_valid, fold_params = fpreproc(
                fold_train.to_dataset(), fold_valid.to_dataset(), dict(fold_params)
            )
            fold_train, fold_valid = (
                read_dataset(user_train, "the training part of a fold"),
                read_dataset(user_valid, "the held-out part of a fold", job.table.pandas_categorical),
            )
        number = len(fold_plans) + 1
        virtual_train, fold_params, plan = job.build(fold_train, fold_params, child_seed(settings.seed, 2 * number))
        virtual_valid = job.build_validation(fold_valid, virtual_train, child_seed(settings.seed, 2 * number + 1))
        for part in (virtual_train, virtual_valid):
            part._update_params(fold_params)._set_predictor(train_rows._predictor)
        fold_plans.append(plan)
        return virtual_train, virtual_valid, fold_params

    # Wrapped here, not per fold: lgb.cv takes the objective out of the parameters before it makes the folds.
    engine_params, job.callable_objective = engine.weigh_copies(engine_params)
    rows = engine.FoldRows(job.table.label, job.table.group)
    result: dict[str, Any] = dict(lgb.cv(engine_params, rows, fpreproc=augment_fold, **common))
    if return_cvbooster:
        for booster, plan in zip(result["cvbooster"].boosters, fold_plans, strict=True):
            _with_consent(booster, job, plan)
    return result


@dataclass
class _TrainingTable:
    """What is fixed before the first tree: the table, who may withhold what, and how to augment."""

    table: SourceTable
    consent: Consent
    settings: Settings
    max_virtual_rows: int
    callable_objective: bool = False

    @classmethod
    def of(cls, train_set: lgb.Dataset, settings: Settings, engine_params: dict[str, Any]) -> _TrainingTable | None:
        """Return None if nothing is optional: then the engine trains alone, and no rule of ours applies."""
        if not declares_something(settings.optional) and not declares_something(_optional_of(train_set)):
            return None
        engine.check_supported(engine_params)
        table = read_dataset(train_set, "train_set")
        if train_set.reference is not None and train_set.used_indices is None:
            warnings.warn(
                "The reference of train_set is not used: the bins must be made from virtual rows, in which every "
                "optional column is sometimes missing.",
                UserWarning,
                stacklevel=3,
            )
        consent = resolve_consent(table, settings.optional)
        if consent is None:
            return None
        limit = settings.max_virtual_rows
        if limit is None:
            classes = int(lightgbm_value(engine_params, "num_class", 1))
            limit = _rows_in_memory(engine.bytes_per_virtual_row(table.source.n_columns, classes))
        return cls(table, consent, settings, max(limit, 1))

    def rows(self, table: SourceTable, augmentation: str, seed: int) -> MaskedRows:
        """Plan the masks of a table and return its virtual rows."""
        settings = self.settings
        shared = self.consent.visible(
            table.source, table.available, zero_as_missing=settings.zero_as_missing, num_threads=settings.num_threads
        )
        plan = plan_masks(
            shared, augmentation, copies=settings.copies, seed=seed, max_virtual_rows=self.max_virtual_rows
        )
        return MaskedRows(table.source, self.consent, plan, num_threads=settings.num_threads)

    def build(
        self, table: SourceTable, engine_params: dict[str, Any], seed: int | None = None
    ) -> tuple[engine.VirtualDataset, dict[str, Any], MaskPlan]:
        """Return the virtual training set, the engine's parameters for it, and the plan."""
        rows = self.rows(table, self.settings.augmentation, self.settings.seed if seed is None else seed)
        plan = rows.plan
        engine_params, scale = engine.sample_rows(engine_params, plan.n_source, len(plan))
        engine_params, wrapped = engine.weigh_copies(engine_params)
        logger.info("training: %s", plan.summary(table.weight))
        dataset = engine.VirtualDataset(
            rows,
            table.label,
            user_weight=table.weight,
            init_score=table.init_score,
            weight_scale=scale,
            keep_copy_weight=wrapped or self.callable_objective,
            feature_name=table.feature_name,
            categorical_feature=table.categorical_feature,
            pandas_categorical=table.pandas_categorical,
            params=table.params,
        )
        return dataset, engine_params, plan

    def build_validation(
        self, table: SourceTable, reference: engine.VirtualDataset, seed: int
    ) -> engine.VirtualDataset:
        """Return a virtual validation set: the same scheme, a seed of its own, no row sampling."""
        if table.source.feature_names is not None and self.table.source.feature_names is not None:
            self.consent.check_columns(table.names)
        elif table.source.n_columns != self.table.source.n_columns:
            raise ValueError(
                f"A validation set has {table.source.n_columns} columns, train_set has {self.table.source.n_columns}."
            )
        rows = self.rows(table, self.settings.valid_augmentation, seed)
        logger.info("validation: %s", rows.plan.summary(table.weight))
        return engine.VirtualDataset(
            rows,
            table.label,
            user_weight=table.weight,
            init_score=table.init_score,
            reference=reference,
            params=table.params,
        )


def _optional_of(dataset: lgb.Dataset) -> Any:
    if dataset.used_indices is not None and dataset.reference is not None and not hasattr(dataset, "optional"):
        return _optional_of(dataset.reference)
    return getattr(dataset, "optional", None)


def _build_validation(
    valid_sets: Any, train_set: lgb.Dataset, virtual_train: engine.VirtualDataset, job: _TrainingTable
) -> list[lgb.Dataset] | None:
    """Augment the validation sets; the training set among them stays itself, as ``lgb.train`` wants it."""
    if valid_sets is None:
        return None
    virtual: list[lgb.Dataset] = []
    for i, valid_set in enumerate([valid_sets] if isinstance(valid_sets, lgb.Dataset) else valid_sets):
        if not isinstance(valid_set, lgb.Dataset):
            raise TypeError(
                f"Every item in valid_sets must be a Dataset object. Item {i} has type '{type(valid_set).__name__}'."
            )
        if valid_set is train_set:
            virtual.append(virtual_train)
            continue
        table = read_dataset(valid_set, f"validation set {i}", job.table.pandas_categorical)
        own = resolve_consent(table, None, f"validation set {i}")
        if own is not None and own.groups != job.consent.groups:
            raise ValueError(f"Validation set {i} declares other groups than train_set: {own} and {job.consent}.")
        virtual.append(job.build_validation(table, virtual_train, child_seed(job.settings.seed, i)))
    return virtual


def _check_same_consent(init_model: Any, consent: Consent | None) -> None:
    before = getattr(init_model, "consent", None)
    if before is not None and before != consent:
        raise ValueError(
            f"init_model was trained under {before}, this call declares {consent or 'nothing optional'}. Declare the "
            "same optional features to continue it."
        )


def _with_consent(booster: Any, job: _TrainingTable, plan: MaskPlan) -> lgb.Booster:
    booster.consent = job.consent
    booster.puc_summary = plan.summary(job.table.weight if plan.n_source == job.table.source.n_rows else None)
    return booster  # type: ignore[no-any-return]


def _rows_in_memory(bytes_per_row: int) -> int:
    return min(ENGINE_MAX_ROWS, int(MEMORY_SHARE * _memory_bytes() / bytes_per_row))


def _memory_bytes() -> float:
    """Return the memory of the machine or container; infinite where the system does not tell."""
    known = [float("inf")]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE"))
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        known.append(float(text))
    return min(known)
