"""``train``, ``cv`` and ``refit``: a call is read and checked, then runs through the lists of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import lightgbm as lgb
import numpy as np

from .._common import Array, threads_for, warn
from .._engines import DEFAULT_ENGINE, boosters_of, engine_named, engine_of_data
from .._engines.base import Call, EngineParams, FoldOptions, Hooks, RunOptions
from .._kernels.compiling import engine_threads
from .._models.schema import categories_of, kept_of, log_unprotected, unprotected
from .._tables.sources import SourceTable, eager, row_source
from .._virtual.plan import ENGINE_MAX_ROWS, check_augmentation, check_copies, child_seed
from .._virtual.rows import VirtualTable
from .datasets import Dataset, TrainingSet, as_dataset, as_datasets, has_exposure, read_dataset
from .request import (
    READS_SILENCE,
    Settings,
    TrainingRequest,
    ValidationTables,
    check_both_or_neither,
    check_can_be_calibrated,
    check_held_out,
    check_row_key,
    check_same_consent,
    for_data,
    model_to_continue,
    named_sets,
    plain_params,
    read_validation,
    split_params,
)
from .steps import (
    FINISHERS,
    NO_METRIC_OF_MERGED_ROWS,
    TABLE_STEPS,
    VIRTUAL_STEPS,
    Training,
    as_rates,
    params_of,
    plan,
    run,
    trained,
)

if TYPE_CHECKING:
    from .._models.files import TrainedModel


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
    *,
    evals: Sequence[tuple[TrainingSet, str]] | None = None,
    obj: Callable[[Array, Any], Any] | None = None,
    maximize: bool | None = None,
    early_stopping_rounds: int | None = None,
    evals_result: dict[str, Any] | None = None,
    verbose_eval: bool | int | None = True,
    xgb_model: Any = None,
    custom_metric: Callable[[Array, Any], Any] | None = None,
) -> TrainedModel:
    """Train a booster under Protected User Consent: ``lgb.train`` for data that people may decline to share.

    The model approaches f*(b, a, z) = E[Y | b, A ⊇ a, z_a]: someone who shares the groups a is compared with
    everybody who shares *at least* a, their further data erased. With nothing optional this is ``lgb.train``, or
    ``xgb.train`` for an ``xgb.DMatrix``.

    Parameters
    ----------
    params : dict
        LightGBM's parameters, and pucboost's own. Of a name that neither knows it warns, as LightGBM does; one that
        seems to be a mistyped name of pucboost's is an error.

        - ``optional``: list of columns, or dict group → columns, :class:`Levels` or :class:`Needs` (or on
          ``puc.Dataset``)
        - ``not_applicable``: dict of optional columns → where they do not apply, so that nothing was declined (or on
          ``puc.Dataset``, which explains it)
        - ``augmentation``: ``"balanced"`` (default), ``"exhaustive"``, ``"fixed"``, ``"none"``
        - ``copies``: virtual rows per row for ``"balanced"``; default 4, and 2 above 200,000 rows; 8 with ``"native"``
        - ``valid_augmentation``: scheme for the validation sets; default: the same as ``augmentation``. On raw
          validation data (``"none"``) early stopping rewards the forbidden inference.
        - ``max_virtual_rows``: row budget; default: as many rows as fit into half of the memory
        - ``external_memory``: a folder in which XGBoost keeps virtual rows while it trains, in place of memory
        - ``engine``: ``"auto"`` (default: native from 5,000 people on, if it can do what the parameters ask for, else
          LightGBM), ``"lightgbm"``, ``"native"`` (pucboost's own trees in an ``lgb.Booster``) or ``"xgboost"``, which
          is the default for an ``xgb.DMatrix``
        - ``compact``: True merges virtual rows that are equal after masking, ``"auto"`` decides by a sample
        - ``calibrate_masks``: True adds one constant to the raw scores of everybody who shares the same groups, so that
          they are told on average what is justified: Σ w·e·(f − y) = 0 over the virtual rows of all who share at least
          these groups, e being how much they resemble those who share exactly these; shrunk where people are few. It
          is a last round of trees that ask only what is missing. A number between 0 and 1 adds that share of each
          constant.
        - ``silence_first``: False has the native engine grow LightGBM's trees. By default the first split of every
          fifth tree is the best one on what is missing of optional columns, which is else learned slowly.
        - ``anchor``: an existing model of base features. A fitted estimator or pipeline of scikit-learn, a GLM of glum
          or statsmodels, a booster, a callable that returns raw scores, or ``"base"``, which trains one. People who
          share nothing get exactly its prediction, and the result is an ``AnchoredModel``. With ``anchor_strength=λ``
          they are only pulled towards it.
        - ``expect_shared``: groups in which every value was really shared; no ``EncodedSilenceWarning`` about them
        - ``expect_revealing``: base columns that must stay although they tell who withholds; no such warning about them
        - ``row_key``: where a secret key is, the name of a file, or ``"env:NAME"`` for an environment variable. The
          model then keeps hashes of at most 256 people, by which an audit that is given the same key recognises those
          that the model was trained on. They say nothing without the key, which the model does not keep. By default a
          model keeps no hashes.
        - ``favourable``: ``"lower"`` (a premium) or ``"higher"`` (an approval): which predictions people prefer. The
          model keeps it, so that the bonus (``sharing="best"``), sharing effects, letters and audits need not be told.
        - ``seed``: shared with the engine; without it the masks use 0
        - ``num_threads``: by default that of the environment variable ``OMP_NUM_THREADS``, without it 1 for a table of
          fewer than 500,000 values (rows × columns), else all cores. With nothing optional, the engine's own default.

        ``monotone_constraints`` may be a dict of columns, ``{"age": 1, "bmi": -1}``, and ``interaction_constraints``
        lists of columns that may interact, ``[["age", "bmi"]]``; a column in none of them interacts with no other.
        Constraints by position are the engine's own, and so is what they mean for columns in no list.
    train_set : lgb.Dataset, puc.Dataset, xgb.DMatrix or pair (X, y)
        A Dataset must not be constructed yet, or must have kept its raw data. Of a DMatrix rows, labels, weights, base
        margin, names and categories are read back; a ``QuantileDMatrix``, or one in external memory, has no rows. When
        something is optional, neither ``train_set`` nor ``params`` is changed. With an ``exposure`` labels are totals,
        and the model predicts per unit of exposure (see :class:`Dataset`).
    num_boost_round, valid_sets, valid_names, feval, init_model, keep_training_booster, callbacks
        As in ``lgb.train``. Validation sets may be pairs, too. ``feval`` and a callable objective see the virtual rows.
        ``get_weight()`` returns the full weights to ``feval``. It returns only the user's own weights, if any, to a
        callable objective, whose gradients pucboost multiplies by the copy weights.
    evals, obj, maximize, early_stopping_rounds, evals_result, verbose_eval, xgb_model, custom_metric
        As in ``xgb.train``, for XGBoost. Each round is printed only if ``evals`` is given.

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
    call = Call(
        for_data(params, data.data), valid_sets, valid_names, Hooks(feval, callbacks, init_model, keep_training_booster)
    )
    xgboosts = {
        "evals": evals, "obj": obj, "custom_metric": custom_metric, "maximize": maximize, "xgb_model": xgb_model,
        "early_stopping_rounds": early_stopping_rounds, "evals_result": evals_result,
        "verbose_eval": None if verbose_eval is True and evals is None else verbose_eval or None,
    }  # fmt: skip
    xgboosts = {name: value for name, value in xgboosts.items() if value is not None}
    if xgboosts:
        call = engine_named(call.params.get("engine", DEFAULT_ENGINE)).in_common_words(call, xgboosts)
    validation, hooks = as_datasets(call.valid_sets, train_set, data), call.hooks
    request = TrainingRequest.read(call.params, data, num_boost_round, keep_training_booster=keep_training_booster)
    if request is None:
        return cast("TrainedModel", _train_alone(data, num_boost_round, validation, call))
    return cast("TrainedModel", _train_read(request, data, validation, call.valid_names, hooks))


def _train_alone(data: lgb.Dataset, num_boost_round: int, validation: Any, call: Call) -> Any:
    """Return the engine's own model, nothing being optional."""
    hooks, valid = call.hooks, named_sets(validation, call.valid_names, data)
    if hooks.init_model is not None:
        check_same_consent(hooks.init_model, None)
    for i, (other, _) in enumerate(valid):
        check_both_or_neither(False, has_exposure(other), f"validation set {i}")
    own = engine_of_data(data.data)
    if own is not None:
        for i, (other, _) in enumerate(valid):
            if engine_of_data(getattr(other, "data", None)) != own:
                raise TypeError(
                    f"Validation set {i} is no {type(data.data).__name__}, as train_set is. With nothing optional they "
                    "must be of one kind."
                )
        engine, params = engine_named(own), split_params(call.params)[1]
        matrices = [(other.data, name) for other, name in valid]
        return unprotected(engine.train_alone(data.data, params, num_boost_round, matrices, hooks), engine.title)
    with _text_explained():
        booster = lgb.train(
            plain_params(call.params, data), data, num_boost_round, validation, call.valid_names, hooks.feval,
            hooks.init_model, hooks.keep_training_booster, callbacks=hooks.callbacks,
        )  # fmt: skip
    return unprotected(booster, "LightGBM")


@contextmanager
def _text_explained() -> Iterator[None]:
    """Name what to do about text columns, which LightGBM alone does not read, unlike a training under consent."""
    try:
        yield
    except ValueError as error:
        _, found, columns = str(error).partition("bad pandas dtypes: ")
        if not found:
            raise
        raise ValueError(
            f"Nothing is declared optional, so LightGBM reads the table itself, and it reads no text ({columns}). Name "
            "what people may withhold in optional, turn these columns into categories with astype('category'), or "
            "choose another engine."
        ) from error


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
    check_can_be_calibrated(request, hooks)
    request.warn_before_training(validates=valid_tables is not None)
    return trained(Training.of(request, valid=valid_tables, hooks=hooks))


# ----- refit


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
    row_key: Any = None,
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
    row_key
        Where the key is with which an audit can recognise the people in X, as in :func:`train`.
    num_threads
        Threads; by default as in :func:`train`.

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
    from .._models.anchored import AnchoredModel, loss_of

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
        Settings(
            engine=before.engine or boosters.name,  # that of the trees, whose leaves are refitted
            augmentation=augmentation,
            copies=copies,
            calibrate_masks=strength,
            row_key=check_row_key(row_key),
            favourable=before.favourable,
        ),
        EngineParams(
            {},
            num_boost_round=0,
            row_bytes=0,
            column_bytes=0,
            options=RunOptions(seed, threads_for(num_threads, source.n_values), facts.zero_as_missing),
            objective=loss_of(booster),
        ),
        replace(table, pandas_categorical=None),  # the booster has its categories already
        consent,
    )
    # The constants per mask are no leaves to be refitted a little: they are made again for the refitted trees.
    trees = boosters.first_rounds(booster, facts.used_rounds - 1) if strength else booster

    def fit_leaves(training: Training) -> Training:
        return replace(training, model=request.engine.refit(trees, training.virtual, decay_rate))

    training = Training(request, request.table, ENGINE_MAX_ROWS, copies=copies, coded_columns=before.coded_columns)
    return trained(training, fit_leaves)


# ----- cv: folds of people, each augmented on its own
#
# If folds split copies, the training data would hold a sharer's silent copy with its label, and the loss of sharers
# would look better than it is, on some tables by half.


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
    params = for_data(params, data.data)
    request = TrainingRequest.read(params, data, num_boost_round, metrics, alone=engine_of_data(data.data) is None)
    options = FoldOptions(metrics, feval, init_model, callbacks, eval_train_metric, return_cvbooster)
    if request is None:
        check_same_consent(init_model, None)
        log_unprotected("LightGBM")
        with _text_explained():
            return dict(
                lgb.cv(
                    plain_params(params, data), data, num_boost_round, folds, nfold, stratified, shuffle,
                    fpreproc=fpreproc, seed=seed, **vars(options),
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
        checked = request
        if fpreproc is not None:
            train, valid, params = _preprocessed(fpreproc, table, train, valid, dict(params))
            checked = replace(request, params=replace(request.params, objective=request.engine.objective(params)))
        check_held_out(checked, valid, "the held-out part of a fold")
        fold_seed, next_seed = child_seed(base_seed, 2 * fold), 2 * fold + 1
        training = replace(whole, table=train, valid=[(valid, "valid")], seed=fold_seed, first_valid_seed=next_seed)
        training = run(training, *TABLE_STEPS, plan, *VIRTUAL_STEPS)
        if training.virtual.merged and eval_train_metric:
            raise ValueError(f"eval_train_metric: {NO_METRIC_OF_MERGED_ROWS}")
        trainings.append(training)
        held_out = (training.virtual_valid or [])[0][0]
        assert held_out is not None
        return training.virtual, held_out, params_of(training, params).values

    with engine_threads(request.options.num_threads):
        result = request.engine.cv(table.label, splits, build, request.params, options)
        if return_cvbooster:
            for booster, training in zip(result["cvbooster"].boosters, trainings, strict=True):
                run(replace(training, model=booster), *FINISHERS)
    return result


def _preprocessed(
    fpreproc: Any, table: SourceTable, train: SourceTable, valid: SourceTable, params: dict[str, Any]
) -> tuple[SourceTable, SourceTable, dict[str, Any]]:
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
