"""What XGBoost trains with: matrices of masked rows, users' objectives and metrics, callbacks, the network of workers.

The matrices are ``QuantileDMatrix`` objects, read from the stream in batches.
"""

from __future__ import annotations

import gc
import itertools
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import xgboost as xgb
from xgboost.collective import CommunicatorContext
from xgboost.tracker import RabitTracker

from .._common import Array, signals_held
from .._tables.files import scratch_folder
from .._tables.sources import Categories
from .._virtual.plan import BinSample
from .._virtual.rows import VirtualTable
from .base import Checkpoints, Network, times_rows
from .names import whole_number

PAGE_BYTES = 16 << 20
"""Size of a page of masked rows in external memory; XGBoost reads several pages ahead."""


def virtual_matrix(
    virtual: VirtualTable,
    params: Mapping[str, Any],
    train: VirtualTable | None = None,
    ref: xgb.DMatrix | None = None,
    cache: Path | None = None,
) -> xgb.DMatrix:
    """Return the matrix of a virtual table; a validation set takes names and types from the training table.

    With a folder ``cache``, the bins are kept there instead of in memory.
    """
    given: dict[str, Any] = {
        "max_bin": int(params.get("max_bin", 256)),
        "nthread": thread_parameter(params),
        "enable_categorical": bool(virtual.table.source.coded) or feature_types(train or virtual) is not None,
    }
    with signals_held() as came:
        if ref is None and virtual.bin_sample is not None:
            ref = _bin_reference(virtual, virtual.bin_sample, given)
            given["max_bin"] = None
        kind = xgb.QuantileDMatrix if cache is None else xgb.ExtMemQuantileDMatrix
        batches = MaskedBatches(virtual, virtual if train is None else train, cache, came)
        try:
            with unreadable_named(lambda: _people(virtual), virtual.table.names, feature_types(train or virtual)):
                matrix = kind(batches, ref=ref, **given)
        except StoppedError as stopped:
            if stopped.reason is not None:
                raise stopped.reason from None
            raise
    for page in () if cache is None else cache.iterdir():
        page.chmod(0o600)
    return matrix


def _people(virtual: VirtualTable) -> Iterator[tuple[int, Array]]:
    source = virtual.rows.source
    return ((lo, source.window(lo, hi)) for lo, hi in source.blocks())


CATEGORIES = 1 << 24
"""XGBoost's numbers of categories are below this one."""


@contextmanager
def unreadable_named(
    blocks: Callable[[], Iterable[tuple[int | None, Array]]], names: Sequence[str], types: Sequence[str] | None = None
) -> Iterator[None]:
    """Name column and row of the first value that XGBoost does not take, where it refuses a table.

    Parameters
    ----------
    blocks
        Return the rows of the table in blocks, each with the number of its first row, if that is known.
    names, types
        The columns, and "c" for each column of categories, which XGBoost looks at when it makes bins.
    """
    try:
        yield
    except xgb.core.XGBoostError:
        coded = np.array([kind == "c" for kind in types or ()] or [False] * len(names))
        for first, block in blocks():
            with np.errstate(over="ignore"):
                bad = np.isinf(block.astype(np.float32))
            kinds = block[:, coded]
            whole = (kinds >= 0) & (kinds < CATEGORIES) & (kinds == np.trunc(kinds))
            bad[:, coded] = ~(whole | np.isnan(kinds))
            if bad.any():
                row, column = np.argwhere(bad)[0].tolist()
                where = "" if first is None else f" in row {first + row}"
                takes = f"categories that are whole numbers from 0 to {CATEGORIES - 1:,}. Give the column as text"
                if not coded[column]:
                    takes = "numbers up to 3.4e38 in size. Leave what is not known missing, and cap what is too large"
                raise ValueError(
                    f"Column {names[column]!r} has {block[row, column]:g}{where}; XGBoost takes {takes}."
                ) from None
        raise


def _bin_reference(virtual: VirtualTable, sample: BinSample, given: dict[str, Any]) -> xgb.QuantileDMatrix:
    """Return the reference matrix that fixes the bins for all workers; each makes it from the same sample.

    Without it XGBoost would merge the workers' own sketches. That is correct, but trees would depend on the partitions.
    """
    rows, names = np.asarray(sample.rows, dtype=np.float32), feature_names(virtual)
    categories = _categories_of(virtual)
    if categories:
        return xgb.QuantileDMatrix(with_categories(rows, names or [], categories), weight=sample.weight, **given)
    types = feature_types(virtual)
    return xgb.QuantileDMatrix(rows, weight=sample.weight, feature_names=names, feature_types=types, **given)


class StoppedError(Exception):
    """What ends the reading of batches besides an Exception. XGBoost passes on those; all else is lost in C++."""

    def __init__(self, reason: BaseException | None = None) -> None:
        super().__init__(repr(reason))
        self.reason = reason


class MaskedBatches(xgb.DataIter):
    """Batches of masked rows in one float32 buffer; XGBoost reads them four times.

    With a folder ``cache``, XGBoost keeps its bins there, one page per batch.
    """

    def __init__(
        self, virtual: VirtualTable, named_like: VirtualTable, cache: Path | None, is_stopped: Callable[[], bool]
    ) -> None:
        # XGBoost makes the prefix unique for each matrix.
        super().__init__(cache_prefix=None if cache is None else str(cache / "bins"))
        self._rows, self._is_stopped = virtual.rows, is_stopped
        self._info = {
            "label": virtual.label(),
            "weight": virtual.weight(),
            "base_margin": virtual.init_score(),
        }
        self._names, self._types = feature_names(named_like), feature_types(named_like)
        self._categories = _categories_of(virtual)
        if self._categories and self._types:
            other = [j for j, kind in enumerate(self._types) if kind == "c" and j not in virtual.table.source.coded]
            if other:
                raise ValueError(
                    f"categorical_feature names column {(self._names or [])[other[0]]!r}, which is not of category "
                    "type, while other columns are. Convert it with astype('category')."
                )
        n_columns = virtual.rows.shape[1]
        batch = self._rows.batch_rows if cache is None else max(1, PAGE_BYTES // (4 * n_columns))
        self._buffer = np.empty((min(batch, len(self._rows)), n_columns), dtype=np.float32)
        self._start = 0

    def reset(self) -> None:
        self._start = 0

    def next(self, input_data: Callable[..., None]) -> bool:
        """Hand over the next batch with its labels, weights and base margins; return whether there was one."""
        if self._is_stopped():
            raise StoppedError
        try:
            return self._next(input_data)
        except Exception:
            raise
        except BaseException as reason:
            raise StoppedError(reason) from None

    def _next(self, input_data: Callable[..., None]) -> bool:
        n = min(len(self._buffer), len(self._rows) - self._start)
        if n <= 0:
            return False
        part = slice(self._start, self._start + n)
        info = {name: values[part] for name, values in self._info.items() if values is not None}
        batch = self._rows.read_into(self._start, self._buffer[:n])
        if self._categories:
            input_data(data=with_categories(batch, self._names or [], self._categories), **info)
        else:
            input_data(data=batch, feature_names=self._names, feature_types=self._types, **info)
        self._start += n
        return True


def _categories_of(virtual: VirtualTable) -> dict[int, Sequence[Any]]:
    coded = zip(virtual.table.source.coded, virtual.table.pandas_categorical or (), strict=False)
    return {j: values for j, values in coded if values}  # XGBoost refuses an empty list


def with_categories(batch: Array, names: Sequence[str], categories: Mapping[int, Sequence[Any]]) -> Any:
    """Return a batch as a DataFrame, so that XGBoost stores the categories and matches new tables by their names."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for j, name in enumerate(names):
        if j in categories:
            codes = np.nan_to_num(batch[:, j], nan=-1).astype(np.int64)
            columns[name] = pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(list(categories[j])))
        else:
            columns[name] = batch[:, j]
    return pd.DataFrame(columns)


def feature_names(virtual: VirtualTable) -> list[str] | None:
    return virtual.table.names if isinstance(virtual.table.feature_name, list) else None


def feature_types(virtual: VirtualTable) -> list[str] | None:
    """Return "c" for category columns and "q" for the others, or None if there are no categories."""
    wanted = virtual.table.categorical_feature
    if not isinstance(wanted, list) or not wanted:
        return None
    names = virtual.table.names
    positions = {names.index(column) if isinstance(column, str) else int(column) for column in wanted}
    return ["c" if j in positions else "q" for j in range(len(names))]


def refit_matrix(booster: xgb.Booster, virtual: VirtualTable, categories: Categories | None) -> xgb.DMatrix:
    """Return the virtual rows in memory with the column types of a booster; weights add up to N.

    XGBoost's updater that refreshes leaves cannot read a ``QuantileDMatrix``.
    """
    with np.errstate(over="ignore"):  # XGBoost refuses what becomes infinite
        rows: Array = np.asarray(virtual.rows.materialise(), dtype=np.float32)
    given: dict[str, Any] = {"label": virtual.label(), "weight": virtual.weight(virtual.share_per_tree)}
    known = {} if categories is None or not categories.values else categories.by_column(())
    with unreadable_named(lambda: _people(virtual), virtual.table.names):
        if known:
            columns = with_categories(rows, booster.feature_names or [], known)
            return xgb.DMatrix(columns, enable_categorical=True, **given)
        return xgb.DMatrix(rows, feature_names=booster.feature_names, feature_types=booster.feature_types, **given)


def with_cache(folder: Path | None, fit: Callable[[Path | None], Any]) -> Any:
    """Call ``fit`` with a temporary folder inside ``folder``, or with None if there is none; always clean up."""
    if folder is None:
        return fit(None)
    with scratch_folder(folder) as cache:
        try:
            return fit(cache)
        except BaseException as error:
            # A matrix deletes its own files when it is freed, and warns if they are gone by then. The frames of an
            # error would keep it alive longer than the folder.
            traceback.clear_frames(error.__traceback__)
            raise
        finally:
            gc.collect()


def first_given(params: Mapping[str, Any], *names: str, default: Any = 0) -> Any:
    """Return the first parameter that is given and not None."""
    return next((params[name] for name in names if params.get(name) is not None), default)


def thread_parameter(params: Mapping[str, Any]) -> int | None:
    """Return the number of threads that is given, 0 for all cores; None if none is."""
    given = first_given(params, "nthread", "n_jobs", default=None)
    return None if given is None else max(0, whole_number("nthread", given))


# ----- objectives and metrics that users write


def take_objective(params: dict[str, Any]) -> tuple[dict[str, Any], WeightedObjective | None]:
    """Return the parameters without a callable objective, and the objective; None if there is none."""
    objective = params.get("objective")
    if not callable(objective):
        return params, None
    rest = {name: value for name, value in params.items() if name != "objective"}
    return {**rest, **getattr(objective, "builtin_params", {})}, WeightedObjective(objective, {})


@dataclass
class WeightedObjective:
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


class _ObjectiveView:
    """The matrix passed to a callable objective: it has the user's weights, but not the copy weights."""

    def __init__(self, matrix: xgb.DMatrix, user_weight: Array | None) -> None:
        self._matrix, self._user_weight = matrix, user_weight

    def get_weight(self) -> Array:
        """Return the user's weights; an empty array if there are none, as XGBoost does."""
        return np.empty(0, dtype=np.float32) if self._user_weight is None else self._user_weight

    def get_float_info(self, field: str) -> Array:
        return self.get_weight() if field == "weight" else self._matrix.get_float_info(field)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matrix, name)


def metric_of(feval: Any) -> Metric | None:
    return None if feval is None else Metric(feval if isinstance(feval, (list, tuple)) else [feval])


class Metric:
    """One or more LightGBM fevals as XGBoost's custom metric; remembers for which metrics higher is better."""

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


# ----- callbacks, and the results of ``xgb.cv``


class AfterRound(xgb.callback.TrainingCallback):
    """Calls a function with the booster, the number of the round and all metrics so far."""

    def __init__(self, function: Callable[[Any, int, Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._function = function

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self._function(model, epoch, evals_log)
        return False  # training goes on


def checkpoint_callback(checkpoints: Checkpoints) -> AfterRound:
    done = itertools.count(1)  # XGBoost's own count includes the rounds of a model that is continued

    def after_round(model: Any, epoch: int, log: Any) -> None:
        if next(done) % checkpoints.every == 0:
            # In a thread outside XGBoost's collective: inside it, making a matrix waits until all workers make one.
            with ThreadPoolExecutor(1) as outside:
                outside.submit(checkpoints.keep, model.copy(), model.num_boosted_rounds()).result()

    return AfterRound(after_round)


class KeepBoosters(xgb.callback.TrainingCallback):
    """Keeps the boosters of ``xgb.cv``, which passes them to callbacks but does not return them.

    They share XGBoost's random numbers. When rows are sampled, a fold is therefore not bit for bit the model that
    ``train`` would return for it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.boosters: list[xgb.Booster] = []

    def after_training(self, model: Any) -> Any:
        self.boosters = [fold.bst for fold in model.cvfolds]
        return model


def named_as_in_lightgbm(history: Mapping[str, Any], with_training: bool) -> dict[str, Any]:
    """Return the history of ``xgb.cv`` under the names that ``lgb.cv`` uses."""
    names = {"test": "valid", "train": "train"}
    result: dict[str, Any] = {}
    for key, values in history.items():
        part, _, rest = key.partition("-")
        measure, _, kind = rest.rpartition("-")
        if part == "test" or with_training:
            result[f"{names[part]} {measure}-{'stdv' if kind == 'std' else kind}"] = values
    return result


# ----- several machines: a tracker in the process of the first worker connects the workers

_PATIENCE = 60
"""Seconds the tracker waits for all workers to join."""

_LONGEST_STEP = 1800
"""Seconds that workers wait for each other in one step of training.

XGBoost's default of five minutes is too short if one worker has many more rows to read than another. A worker that
fails or is killed is noticed at once; the limit is for a machine that is suddenly cut off.
"""


class XGBoostNetwork(Network):
    """XGBoost's own collective, with the given ranks."""

    errors: ClassVar[tuple[type[Exception], ...]] = (xgb.core.XGBoostError,)

    def endpoint(self, host: str, rank: int, n_workers: int, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Start the tracker in the first worker, and return how to reach it."""
        if rank or n_workers == 1:
            return None
        tracker = RabitTracker(n_workers=n_workers, host_ip=host, sortby="task", timeout=_PATIENCE)
        tracker.start()
        threading.Thread(target=_wait_for, args=(tracker,), daemon=True).start()
        return dict(tracker.worker_args())

    @contextmanager
    def joined(self, endpoints: Sequence[Any], rank: int) -> Iterator[dict[str, Any]]:
        """Join the collective of this thread."""
        if len(endpoints) == 1:
            yield {}
            return
        _RUNNING.append(threading.Event())
        try:
            # Ranks follow the names of tasks in alphabetical order.
            task = f"{rank:09d}"
            with CommunicatorContext(**endpoints[0], DMLC_TASK_ID=task, dmlc_retry=2, dmlc_timeout=_LONGEST_STEP):
                yield {}
        finally:
            _RUNNING.clear()

    def sever(self) -> None:
        """End the training after its round: XGBoost notices that another worker is gone, not that the client is."""
        for training in _RUNNING:
            training.set()


_RUNNING: list[threading.Event] = []
"""The training of this process, set when it is to end: one that was cancelled would otherwise grow all its trees, and
the next one wait until then."""


class EndIfSevered(xgb.callback.TrainingCallback):
    """Fails, so that the other workers do, too."""

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if any(training.is_set() for training in _RUNNING):
            raise xgb.core.XGBoostError("The training was given up.")
        return False


def _wait_for(tracker: RabitTracker) -> None:
    with suppress(xgb.core.XGBoostError, ValueError):  # the workers' own errors are clearer
        tracker.wait_for()
