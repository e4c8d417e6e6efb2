"""``train``: read → augment → engine → model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import lightgbm as lgb

from .._common import Array
from .._engines.base import Checkpoints, Hooks
from .._models.schema import unprotected
from .._virtual.rows import VirtualTable
from .anchored import train_anchored
from .augmenting import Augmenter
from .calibrating import calibrate, check_can_be_calibrated
from .continuing import check_same_consent, model_to_continue
from .datasets import TrainingSet, as_dataset, as_datasets
from .rates import plain_rates
from .request import TrainingRequest, ValidationTables, plain_call, read_validation

if TYPE_CHECKING:
    from .._models.trained import TrainedModel

ValidationSets: TypeAlias = TrainingSet | Sequence[TrainingSet] | None
Feval: TypeAlias = Callable[[Array, Any], Any] | list[Callable[[Array, Any], Any]] | None
"""Takes predictions and the data set; returns name, value and whether higher is better, or a list of such."""
Callbacks: TypeAlias = list[Any] | None
"""The engine's own kind of callbacks."""

NO_METRIC_OF_MERGED_ROWS = "metrics cannot read the mean labels of rows merged by compact. Leave one of the two out."


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
        - ``expect_shared``: groups in which every value was really shared; no :class:`EncodedSilenceWarning` about them
        - ``training_sketch``: False leaves out of the model the hashes by which an audit recognises people that it was
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
    request = check_can_be_calibrated(request, hooks)
    if request.settings.anchor is not None:
        return train_anchored(request, valid_tables, hooks)
    augmenter = Augmenter(request)
    virtual = augmenter.training()
    if virtual.merged and any(table is None for table, _ in valid_tables or ()):
        raise ValueError(f"The training set among valid_sets: {NO_METRIC_OF_MERGED_ROWS}")
    params, valid = augmenter.params_for(virtual), augmenter.validation_sets(valid_tables)
    if hooks.checkpoints is not None:
        hooks = replace(hooks, checkpoints=_with_schema(hooks.checkpoints, augmenter, virtual))
    booster = request.engine.train(virtual, params, valid, hooks)
    if request.calibrates:
        rows, strength = augmenter.calibration(), request.settings.calibrate_masks
        calibrate(booster, request.engine.boosters, rows, request.objective, strength)
    return augmenter.finish(booster, virtual)


def _with_schema(checkpoints: Checkpoints, augmenter: Augmenter, virtual: VirtualTable) -> Checkpoints:
    """Return checkpoints that keep the models with their consent schema."""
    return Checkpoints(
        lambda booster, rounds: checkpoints.keep(augmenter.finish(booster, virtual), rounds), checkpoints.every
    )
