"""Masked rows into XGBoost.

Training itself is left to ``xgb.train`` and ``xgb.cv``: they get a ``QuantileDMatrix`` that was read from the stream in
batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost as xgb

from .._arrays import Array
from .._models.schema import CATEGORIES_KEY, SCHEMA_KEY, model_schema
from .base import EngineFacts, Validation, VirtualTable, rows_per_tree, times_rows
from .params import whole_number
from .translation import to_xgboost

_EARLY_STOPPING = "pucboost_early_stopping"
"""Where :func:`prepare` leaves early stopping among the parameters."""


class MaskedBatches(xgb.DataIter):
    """Batches of masked rows in one float32 buffer; XGBoost reads them four times."""

    def __init__(self, virtual: VirtualTable, named_like: VirtualTable) -> None:
        super().__init__()
        self._rows = virtual.rows
        self._info = {
            "label": virtual.label(),
            "weight": virtual.weight(),
            "base_margin": virtual.init_score(),
        }
        self._names, self._types = feature_names(named_like), feature_types(named_like)
        coded = zip(virtual.table.source.coded, virtual.table.pandas_categorical or (), strict=False)
        self._categories = {j: values for j, values in coded if values}  # XGBoost takes no empty list of categories
        if self._categories and self._types:
            other = [j for j, kind in enumerate(self._types) if kind == "c" and j not in virtual.table.source.coded]
            if other:
                raise ValueError(
                    f"categorical_feature names column {(self._names or [])[other[0]]!r}, which is not of category "
                    "type, beside columns that are. Convert it with astype('category')."
                )
        self._buffer = np.empty((min(self._rows.batch_rows, len(self._rows)), virtual.rows.shape[1]), dtype=np.float32)
        self._start = 0

    def reset(self) -> None:
        """Start again."""
        self._start = 0

    def next(self, input_data: Callable[..., None]) -> bool:
        """Hand over the next batch, with all that belongs to it."""
        n = min(len(self._buffer), len(self._rows) - self._start)
        if n <= 0:
            return False
        part = slice(self._start, self._start + n)
        info = {name: values[part] for name, values in self._info.items() if values is not None}
        batch = self._rows.read_into(self._start, self._buffer[:n])
        if self._categories:
            input_data(data=self._with_categories(batch), **info)
        else:
            input_data(data=batch, feature_names=self._names, feature_types=self._types, **info)
        self._start += n
        return True

    def _with_categories(self, batch: Array) -> Any:
        """Return the batch as a DataFrame: then XGBoost keeps the categories and maps those of a new table by name."""
        import pandas as pd

        columns: dict[str, Any] = {}
        for j, name in enumerate(self._names or ()):
            if j in self._categories:
                codes = np.nan_to_num(batch[:, j], nan=-1).astype(np.int64)
                columns[name] = pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(self._categories[j]))
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


def _matrix(
    virtual: VirtualTable,
    params: Mapping[str, Any],
    train: VirtualTable | None = None,
    ref: xgb.DMatrix | None = None,
) -> xgb.QuantileDMatrix:
    """Return the matrix of a virtual table; a validation set takes names and types from the training table."""
    return xgb.QuantileDMatrix(
        MaskedBatches(virtual, virtual if train is None else train),
        max_bin=None if ref is not None else int(params.get("max_bin", 256)),
        ref=ref,
        nthread=_threads(params) or None,
        enable_categorical=bool(virtual.table.source.coded) or feature_types(train or virtual) is not None,
    )


def prepare(
    params: dict[str, Any], dataset_params: Mapping[str, Any], num_boost_round: int
) -> tuple[dict[str, Any], int]:
    """Translate LightGBM's names, those on the Dataset included; early stopping waits among the parameters."""
    translated = to_xgboost({**dataset_params, **params})
    own = dict(translated.params)
    rounds = translated.early_stopping_rounds
    if rounds is not None and rounds > 0:
        own[_EARLY_STOPPING] = _Stopping(rounds, translated.early_stopping_min_delta, translated.first_metric_only)
    return own, num_boost_round if translated.num_boost_round is None else translated.num_boost_round


@dataclass(frozen=True)
class _Stopping:
    """Early stopping as LightGBM's parameters ask for it."""

    rounds: int
    min_delta: float
    first_metric_only: bool

    def callback(self, params: Mapping[str, Any], data_name: str | None, metric: Any) -> xgb.callback.EarlyStopping:
        """Watch the last metric (or the first) on the last validation set that is not the training set."""
        if data_name is None:
            raise ValueError("For early stopping, at least one dataset and eval metric is required for evaluation")
        metrics = params.get("eval_metric") or [None]
        first = metrics if isinstance(metrics, str) else next(iter(metrics))
        return _EarlyStopping(
            getattr(metric, "directions", {}),
            rounds=self.rounds,
            metric_name=first if self.first_metric_only else None,
            data_name=data_name,
            min_delta=self.min_delta,
        )


class _EarlyStopping(xgb.callback.EarlyStopping):
    """Early stopping that knows from a user's metric whether higher is better."""

    def __init__(self, directions: dict[str, bool], **options: Any) -> None:
        super().__init__(**options)
        self._directions = directions

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """As XGBoost's, after the direction of the metric has been looked up."""
        watched = self.metric_name or list(evals_log[self.data])[-1]
        if self.maximize is None and watched in self._directions:
            self.maximize = self._directions[watched]
        return bool(super().after_iteration(model, epoch, evals_log))


def facts(params: Mapping[str, Any]) -> EngineFacts:
    """Read seed, threads and classes."""
    seed = whole_number("seed", _first(params, "seed", "random_state"))
    threads = _threads(params)
    classes = whole_number("num_class", _first(params, "num_class") or 1)
    return EngineFacts(seed, threads or None, False, classes)


def _first(params: Mapping[str, Any], *names: str) -> Any:
    return next((params[name] for name in names if params.get(name) is not None), 0)


def _threads(params: Mapping[str, Any]) -> int:
    return max(0, whole_number("nthread", _first(params, "nthread", "n_jobs")))


def check_supported(params: Mapping[str, Any]) -> None:
    """Refuse what the method or the stream cannot do, before anything is built."""
    objective = params.get("objective")
    if isinstance(objective, str) and objective.startswith("rank:"):
        raise ValueError(
            f"objective={objective!r} with optional features: Protected User Consent is defined for predictions of a "
            "person's outcome, not for rankings within a query. Use a regression or classification objective."
        )
    if isinstance(objective, str) and objective.startswith("survival:"):
        raise ValueError(
            f"objective={objective!r} is not supported: its loss is not a sum over people with one label each."
        )
    if params.get("booster") == "gblinear":
        raise ValueError("booster='gblinear' reads a withheld value as the number 0. Use gbtree or dart.")
    if params.get("tree_method", "hist") not in ("hist", "auto"):
        raise ValueError(
            f"tree_method={params['tree_method']!r} needs the whole table in memory; masked rows are streamed into "
            "tree_method='hist'."
        )


def bytes_per_virtual_row(n_columns: int, n_classes: int) -> int:
    """Estimate what XGBoost keeps per row: bins (up to 4 bytes a column while it builds), labels, gradients."""
    return 4 * n_columns + 24 + 16 * max(1, n_classes)


def sample_rows(params: dict[str, Any], people: int, virtual_rows: int) -> dict[str, Any]:
    """Let each tree grow on a fresh N of the V virtual rows, on top of the user's own ``subsample``.

    With φ = min(1, N / V), ``subsample`` is multiplied by φ, so a tree sees the total weight of N rows, and
    ``min_child_weight`` and ``reg_lambda`` keep their meaning.
    """
    share = rows_per_tree(people, virtual_rows)
    if share == 1.0:
        return params
    return {**params, "subsample": float(params.get("subsample", 1.0)) * share}


class _ObjectiveView:
    """A matrix as a callable objective may see it: with the user's weights, but without the copy weights."""

    def __init__(self, matrix: xgb.DMatrix, user_weight: Array | None) -> None:
        self._matrix, self._user_weight = matrix, user_weight

    def get_weight(self) -> Array:
        """Return the user's weights; an empty array if there are none, as XGBoost does."""
        return np.empty(0, dtype=np.float32) if self._user_weight is None else self._user_weight

    def get_float_info(self, field: str) -> Array:
        """As XGBoost's, except for the weights."""
        return self.get_weight() if field == "weight" else self._matrix.get_float_info(field)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matrix, name)


@dataclass
class _WeightedObjective:
    """Gradient and hessian of the user's objective × copy weight, row by row."""

    objective: Callable[..., Any]
    weights: dict[int, tuple[Array | None, Array | None]]
    """Copy weights and user weights of each training matrix, by its identity."""

    def __call__(self, preds: Array, matrix: xgb.DMatrix) -> tuple[Array, Array]:
        copy_weight, user_weight = self.weights[id(matrix)]
        gradient, hessian = self.objective(preds, _ObjectiveView(matrix, user_weight))
        if copy_weight is None:
            return gradient, hessian
        return times_rows(gradient, copy_weight), times_rows(hessian, copy_weight)


def _take_objective(params: dict[str, Any]) -> tuple[dict[str, Any], _WeightedObjective | None]:
    objective = params.get("objective")
    if not callable(objective):
        return params, None
    rest = {name: value for name, value in params.items() if name != "objective"}
    return {**rest, **getattr(objective, "builtin_params", {})}, _WeightedObjective(objective, {})


class _Metric:
    """LightGBM's feval, or a list of them, as XGBoost's custom metric; remembers which metrics are better if higher."""

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        self.functions = functions
        self.directions: dict[str, bool] = {}

    def __call__(self, preds: Array, matrix: xgb.DMatrix) -> list[tuple[str, float]]:
        results: list[tuple[str, float]] = []
        for function in self.functions:
            got = function(preds, matrix)
            for name, value, *higher_is_better in got if isinstance(got, list) else [got]:
                results.append((name, value))
                if higher_is_better:
                    self.directions[name] = bool(higher_is_better[0])
        return results


def _metric(feval: Any) -> _Metric | None:
    if feval is None:
        return None
    return _Metric(feval if isinstance(feval, (list, tuple)) else [feval])


def _check_callbacks(callbacks: Any) -> Any:
    for callback in callbacks or ():
        if not isinstance(callback, xgb.callback.TrainingCallback):
            raise TypeError(
                f"callbacks of engine='xgboost' must be xgb.callback objects, got {type(callback).__name__}. For "
                "lgb.early_stopping use params['early_stopping_round'] or xgb.callback.EarlyStopping, for "
                "lgb.record_evaluation and lgb.log_evaluation xgb.callback.EvaluationMonitor or a callback of your own."
            )
    return callbacks


def train(
    train: VirtualTable,
    params: dict[str, Any],
    num_boost_round: int,
    valid: Validation | None,
    *,
    feval: Any,
    init_model: Any,
    keep_training_booster: bool,  # XGBoost's boosters can always be trained further
    callbacks: Any,
) -> xgb.Booster:
    """Hand the virtual rows to ``xgb.train``. Metrics are in ``booster.evals_result`` afterwards."""
    callbacks = _check_callbacks(callbacks)
    params, objective = _take_objective(sample_rows(params, train.people, len(train)))
    metric = _metric(feval)
    watched = [name for v, name in valid or () if v is not None]
    params, callbacks = _with_stopping(params, callbacks, watched[-1] if watched else None, metric)
    matrix = _matrix(train, params)
    if objective is not None:
        objective.weights[id(matrix)] = train.copy_weight(), train.user_weight()
    evals = [(matrix if v is None else _matrix(v, params, train, matrix), name) for v, name in valid or ()]
    result: dict[str, Any] = {}
    with xgb.config_context():  # the verbosity of one call is not that of the next
        booster: Any = xgb.train(
            params,
            matrix,
            num_boost_round,
            evals=evals,
            obj=objective,
            evals_result=result,
            verbose_eval=False,
            xgb_model=init_model,
            callbacks=callbacks,
            custom_metric=metric,
        )
    if evals:
        booster.evals_result = result
    if train.table.source.coded:
        _keep_categories(booster, train.table.pandas_categorical)
    return booster  # type: ignore[no-any-return]


def _with_stopping(
    params: dict[str, Any], callbacks: Any, data_name: str | None, metric: Any
) -> tuple[dict[str, Any], list[Any]]:
    rest = {name: value for name, value in params.items() if name != _EARLY_STOPPING}
    stopping = params.get(_EARLY_STOPPING)
    added = [] if stopping is None else [stopping.callback(rest, data_name, metric)]
    return rest, [*(callbacks or ()), *added]


@dataclass
class CVBooster:
    """The boosters of a cross-validation."""

    boosters: list[xgb.Booster]
    best_iteration: int


def cv(
    label: Array,
    folds: Sequence[tuple[Array, Array]],
    build: Callable[[int, dict[str, Any]], tuple[VirtualTable, VirtualTable, dict[str, Any]]],
    params: dict[str, Any],
    num_boost_round: int,
    *,
    metrics: Any,
    feval: Any,
    init_model: Any,
    callbacks: Any,
    eval_train_metric: bool,
    return_cvbooster: bool,
) -> dict[str, Any]:
    """Hand the folds to ``xgb.cv``; its ``fpreproc`` hook exchanges each for the virtual tables."""
    if init_model is not None:
        raise ValueError("init_model is not supported by cv with engine='xgboost': xgb.cv always starts anew.")
    keeper = _KeepBoosters()
    params, objective = _take_objective(params)
    metric = _metric(feval)
    params, callbacks = _with_stopping(params, _check_callbacks(callbacks), "test", metric)
    if metrics is not None:
        metrics = to_xgboost({**params, "metric": metrics}).params["eval_metric"]
        params = {name: value for name, value in params.items() if name != "eval_metric"}
    done = 0
    matrices: list[xgb.DMatrix] = []

    def exchange(train_rows: Any, valid_rows: Any, fold_params: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        nonlocal done
        train, valid, fold_params = build(done, fold_params)
        done += 1
        fold_params = sample_rows(fold_params, train.people, len(train))
        matrix = _matrix(train, fold_params)
        matrices.append(matrix)  # xgb.cv keeps them alive, too; identities must not be reused
        if objective is not None:
            objective.weights[id(matrix)] = train.copy_weight(), train.user_weight()
        return matrix, _matrix(valid, fold_params, train, matrix), fold_params

    with xgb.config_context():
        history: Any = xgb.cv(
            params,
            xgb.DMatrix(np.zeros((len(label), 1), dtype=np.float32), label=label),
            num_boost_round,
            nfold=len(folds),
            folds=list(folds),
            metrics=metrics if metrics is not None else (),
            obj=objective,
            fpreproc=exchange,
            as_pandas=False,
            callbacks=[*callbacks, keeper],
            custom_metric=metric,
        )
    names = {"test": "valid", "train": "train"}
    result: dict[str, Any] = {}
    for key, values in history.items():
        part, _, rest = key.partition("-")
        measure, _, kind = rest.rpartition("-")
        if part == "test" or eval_train_metric:
            result[f"{names[part]} {measure}-{'stdv' if kind == 'std' else kind}"] = values
    if return_cvbooster:
        rounds = len(next(iter(history.values()))) if history else num_boost_round
        result["cvbooster"] = CVBooster(keeper.boosters, rounds)
    return result


class _KeepBoosters(xgb.callback.TrainingCallback):
    """xgb.cv does not give its boosters away; a callback sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.boosters: list[xgb.Booster] = []

    def after_training(self, model: Any) -> Any:
        """Remember the booster of each fold."""
        self.boosters = [fold.bst for fold in model.cvfolds]
        return model


def for_merged_rows(params: dict[str, Any], objective: Any, hessian_per_person: float) -> dict[str, Any]:
    """Return the parameters as they are: XGBoost takes soft labels, and counts weight, not rows."""
    return params


def attach(booster: Any, consent: Any, summary: Any, categories: Any) -> Any:
    """Set ``consent`` and ``puc_summary``, and the attributes that keep them, and the categories, in model files."""
    booster.set_attr(**{SCHEMA_KEY: json.dumps(model_schema(consent, summary))})
    _keep_categories(booster, categories)
    booster.consent, booster.puc_summary = consent, summary
    return booster


def _keep_categories(booster: Any, categories: Any) -> None:
    kept = json.dumps(categories, default=lambda value: value.item() if hasattr(value, "item") else str(value))
    booster.set_attr(**{CATEGORIES_KEY: kept})
