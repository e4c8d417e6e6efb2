"""``train`` and ``refit``: a call is read and checked, then runs through the lists of steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import lightgbm as lgb

from .._common import Array, warn
from .._engines import boosters_of, engine_named
from .._engines.base import EngineParams, Hooks, RunOptions
from .._models.anchored import AnchoredModel, loss_of
from .._models.schema import categories_of, kept_of, unprotected
from .._tables.containers import SourceTable, eager, row_source
from .._virtual.plan import ENGINE_MAX_ROWS, check_augmentation, check_copies
from .calibration import check_can_be_calibrated
from .datasets import TrainingSet, as_dataset, as_datasets
from .request import (
    READS_SILENCE,
    Settings,
    TrainingRequest,
    ValidationTables,
    check_both_or_neither,
    check_same_consent,
    model_to_continue,
    plain_call,
    read_validation,
)
from .steps import FINISHERS, TABLE_STEPS, VIRTUAL_STEPS, Training, plain_rates, plan, run, trained

if TYPE_CHECKING:
    from .._models.trained import TrainedModel

ValidationSets: TypeAlias = TrainingSet | Sequence[TrainingSet] | None
Feval: TypeAlias = Callable[[Array, Any], Any] | list[Callable[[Array, Any], Any]] | None
"""Takes predictions and the data set; returns name, value and whether higher is better, or a list of such."""
Callbacks: TypeAlias = list[Any] | None
"""The engine's own kind of callbacks."""


def train(
    params: Mapping[str, Any],
    train_set: TrainingSet,
    num_boost_round: int = 100,
    valid_sets: ValidationSets = None,
    valid_names: Any = None,
    feval: Feval = None,
    init_model: Any = None,
    keep_training_booster: bool = False,
    callbacks: Callbacks = None,
) -> TrainedModel:
    """Train a booster under Protected User Consent: ``lgb.train`` for data that people may decline to share.

    The model approaches f*(b, a, z) = E[Y | b, A ⊇ a, z_a]: someone who shares the groups a is compared with
    everybody who shares *at least* a, their further data erased. With nothing optional this is ``lgb.train``.

    Parameters
    ----------
    params : dict
        LightGBM's parameters, and pucboost's own:

        - ``optional``: list of columns, or dict group → columns, :class:`Levels` or :class:`Needs` (or on
          ``puc.Dataset``)
        - ``augmentation``: ``"balanced"`` (default), ``"exhaustive"``, ``"fixed"``, ``"none"``
        - ``copies``: virtual rows per row for ``"balanced"``; default 4, and 2 above 200,000 rows; 8 with ``"native"``
        - ``valid_augmentation``: scheme for the validation sets; default: the same as ``augmentation``. On raw
          validation data (``"none"``) early stopping rewards the forbidden inference.
        - ``max_virtual_rows``: row budget; default: as many rows as fit into half of the memory
        - ``external_memory``: a folder in which XGBoost keeps virtual rows while it trains, in place of memory
        - ``engine``: ``"lightgbm"`` (default), ``"xgboost"``, ``"native"`` (pucboost's own trees in an ``lgb.Booster``)
          or ``"auto"`` (native if it can do what the parameters ask for, else LightGBM)
        - ``compact``: True merges virtual rows that are equal after masking, ``"auto"`` decides by a sample
        - ``calibrate_masks``: True adds one constant to the raw scores of everybody who shares the same groups, so that
          the model is right on average for all who share at least these: Σ w·(f − y) = 0 over their virtual rows,
          shrunk where people are few. It is a last round of trees that ask only what is missing. A number between 0 and
          1 adds that share of each constant.
        - ``anchor``: an existing model of base features. A fitted estimator or pipeline of scikit-learn, a GLM of glum
          or statsmodels, a booster, a callable that returns raw scores, or ``"base"``, which trains one. People who
          share nothing get exactly its prediction, and the result is an ``AnchoredModel``. With ``anchor_strength=λ``
          they are only pulled towards it.
        - ``expect_shared``: groups in which every value was really shared; no ``EncodedSilenceWarning`` about them
        - ``keep_row_hashes``: False leaves out of the model the hashes by which an audit recognises people that it was
          trained on: 256, or one for every ten people if these are fewer. They tell how far two tables overlap. About a
          single person they can tell something only if that person is among them, and only to somebody who knows all
          their features and guesses the label.
        - ``seed``: shared with the engine; without it the masks use 0

        ``monotone_constraints`` may be a dict of columns, ``{"age": 1, "bmi": -1}``, and ``interaction_constraints``
        lists of columns that may interact, ``[["age", "bmi"]]``; a column in none of them interacts with no other.
        Constraints by position are the engine's own, and so is what they mean for columns in no list.
    train_set : lgb.Dataset, puc.Dataset or pair (X, y)
        A Dataset must not be constructed yet, or must have kept its raw data. When something is optional, neither
        ``train_set`` nor ``params`` is changed. With an ``exposure`` labels are totals, and the model predicts per unit
        of exposure (see :class:`Dataset`).
    num_boost_round, valid_sets, valid_names, feval, init_model, keep_training_booster, callbacks
        As in ``lgb.train``. Validation sets may be pairs, too. ``feval`` and a callable objective see the virtual rows.
        ``get_weight()`` returns the full weights to ``feval``. It returns only the user's own weights, if any, to a
        callable objective, whose gradients pucboost multiplies by the copy weights.

    Warns
    -----
    EncodedSilenceWarning
        If silence seems to be imputed or encoded in the table, also with ``augmentation="none"``. Only what is missing
        (NaN) is protected.
    IdentifyingTextWarning
        If the categories of a text column, which a model keeps, seem to name single people.

    Returns
    -------
    lgb.Booster or xgb.Booster
        with two more attributes: ``consent`` (the :class:`Consent` schema) and ``puc_summary``. An XGBoost booster also
        has the metrics of the validation sets in ``evals_result``.

    Examples
    --------
    >>> import lightgbm as lgb, numpy as np, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)); y = X[:, 0] + X[:, 2]
    >>> X[rng.random(500) < 1 / (1 + np.exp(-3 * X[:, 2])), 2] = np.nan     # large values tend to be withheld
    >>> booster = puc.train({"optional": [2], "verbosity": -1}, lgb.Dataset(X, y), 20)
    >>> booster.consent.group_names, booster.puc_summary.augmentation
    (('Column_2',), 'exhaustive')
    """
    data = as_dataset(train_set, "train")
    validation = as_datasets(valid_sets, train_set, data)
    request = TrainingRequest.read(params, data, num_boost_round, keep_training_booster=keep_training_booster)
    if request is None:
        if init_model is not None:
            check_same_consent(init_model, None)
        engine, engine_params = plain_call(params, data)
        data, validation = plain_rates(engine, engine_params, data, validation)
        booster = lgb.train(
            engine_params, data, num_boost_round, validation, valid_names, feval, init_model,
            keep_training_booster, callbacks=callbacks,
        )  # fmt: skip
        return cast("TrainedModel", unprotected(booster, "LightGBM"))
    hooks = Hooks(feval, callbacks, init_model, keep_training_booster)
    return cast("TrainedModel", _train_read(request, data, validation, valid_names, hooks))


def train_part(
    params: Mapping[str, Any],
    part: lgb.Dataset,
    num_boost_round: int,
    valid_sets: Sequence[lgb.Dataset] | None,
    valid_names: Any,
    hooks: Hooks,
) -> Any:
    """Train on a part of a table in a worker that is connected with the others; ``params`` hold the plan."""
    request = TrainingRequest.read(params, part, num_boost_round)
    assert request is not None  # there is a plan
    return _train_read(request, part, valid_sets, valid_names, hooks)


def _train_read(
    request: TrainingRequest, train_set: lgb.Dataset, valid_sets: Any, valid_names: Any, hooks: Hooks
) -> Any:
    hooks = replace(hooks, init_model=model_to_continue(request, hooks.init_model))
    valid_tables = read_validation(request, valid_sets, valid_names, train_set)
    return train_request(request, valid_tables, hooks)


def train_request(request: TrainingRequest, valid_tables: ValidationTables | None, hooks: Hooks) -> Any:
    """Train a request that was read and checked, and return the model."""
    check_can_be_calibrated(request, hooks)
    request.warn_before_training(validates=valid_tables is not None)
    return trained(Training.of(request, valid=valid_tables, hooks=hooks))


NO_CONSENT = (
    "The model has no consent schema, so it is not known what is optional. Refit it with the engine itself, or train "
    "it with pucboost.train."
)


def refit(
    booster: Any,
    X: Any,
    y: Any,
    *,
    decay_rate: float | None = None,
    sample_weight: Any = None,
    exposure: Any = None,
    available: Any = None,
    augmentation: str = "balanced",
    copies: float | None = None,
    seed: int = 0,
    keep_row_hashes: bool = True,
    num_threads: int | None = None,
) -> Any:
    """Return a booster with the same trees whose leaves are fitted to other people, on virtual rows.

    The engines' own ways to refit take the rows as they are, and then leaves learn what silence says. Here each person
    stands for one row per subset of what they share, as in :func:`train`. The virtual rows are in memory.

    Parameters
    ----------
    booster
        As returned by :func:`pucboost.train`.
    X, y
        People, in a table with the columns of training, and their outcomes.
    decay_rate
        As in ``lgb.Booster.refit``: a leaf becomes decay_rate · old + (1 − decay_rate) · new; 0.9 by default. XGBoost
        replaces leaves (``updater="refresh"``), so it takes none.
    sample_weight
        Weights of people.
    exposure
        What the outcomes add up over, as in :class:`Dataset`; needed if the booster was trained with one.
    available
        Who shares what, if the values do not show it, as in :class:`Dataset`.
    augmentation, copies, seed
        Which virtual rows are used, as in :func:`train`.
    keep_row_hashes
        False leaves out the hashes by which an audit recognises the people in X, as in :func:`train`.
    num_threads
        Threads for the kernels; None means all cores.

    Returns
    -------
    lgb.Booster or xgb.Booster
        With ``consent`` and ``puc_summary``; the given one is not changed.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(300, 2)); y = X.sum(axis=1); X[::3, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, y), 20)
    >>> next_year = puc.refit(booster, X, y + 1, decay_rate=0.0)
    >>> next_year.consent == booster.consent, round(float((next_year.predict(X) - booster.predict(X)).mean()), 1)
    (True, 1.0)
    """
    if isinstance(booster, AnchoredModel):
        raise ValueError("An anchored model cannot be refitted; train it again.")
    boosters, (consent, before) = boosters_of(booster), kept_of(booster)
    if consent is None or before is None:
        raise ValueError(NO_CONSENT)
    if before.augmentation == "none":
        warn(f"The booster {READS_SILENCE}")
    if before.loading:
        raise ValueError(
            "The booster has a loading (load_to_balance). Refit the model it was made of, and balance it again."
        )
    if decay_rate is not None and not 0 <= decay_rate <= 1:
        raise ValueError(f"decay_rate must be between 0 and 1, got {decay_rate!r}.")
    check_augmentation(augmentation)
    if copies is not None:
        check_copies(copies)
    source = row_source(eager(X), categories_of(booster))
    consent.check_table(source)
    check_both_or_neither(before.per_exposure, exposure is not None, "this refit", "the booster")
    names = list(consent.feature_names)
    table = SourceTable.of(
        source, y, sample_weight, name="X", feature_name=names, exposure=exposure, available=available
    )
    strength, facts = before.mask_calibration, boosters.facts(booster)
    request = TrainingRequest(
        engine_named(boosters.name),
        Settings(augmentation=augmentation, copies=copies, calibrate_masks=strength, keep_row_hashes=keep_row_hashes),
        EngineParams({}, 0, row_bytes=0, column_bytes=0),
        RunOptions(seed, num_threads, facts.zero_as_missing),
        replace(table, pandas_categorical=None),  # the booster has its categories already
        consent,
        loss_of(booster),
    )
    # The constants per mask are no leaves to be refitted a little: they are made again for the refitted trees.
    trees = boosters.first_rounds(booster, facts.used_rounds - 1) if strength else booster

    def fit_leaves(training: Training) -> Training:
        return replace(training, model=request.engine.refit(trees, training.virtual, decay_rate))

    training = Training(request, request.table, ENGINE_MAX_ROWS, copies=copies, coded_columns=before.coded_columns)
    return run(training, *TABLE_STEPS, plan, *VIRTUAL_STEPS, fit_leaves, *FINISHERS).model
