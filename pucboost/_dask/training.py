"""``train``: partitions → one plan → placement → the engine's own distributed training → a local booster.

Each worker runs the same lists of steps as ``pucboost.train`` (``train_part``), on its slice of the plan. Checkpoints
are written by the client, so that a folder means the client's and survives the workers.

Workers meet before the engine opens its network, and open it before anything can fail. LightGBM searches two minutes
for a worker that does not come, and takes the end of a connection for an empty message, which it reads for ever. So a
worker that fails resets its connections, and if one is lost, ``network.sever`` replaces the sockets of the others: a
busy loop in C++ cannot be stopped otherwise. XGBoost notices by itself. A task that fails, or whose worker is lost, is
an error that names the worker, never a hang. Once connected, workers wait for each other as long as it takes: one may
have more rows to read.
"""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from distributed import Client, Future, Lock, Queue, Variable, default_client, get_worker
from distributed import wait as wait_for
from distributed.comm import get_address_host

from .._common import threads_for
from .._engines import DEFAULT_ENGINE, boosters_of, engine_named
from .._engines.base import Checkpoints, Engine, EngineParams, Hooks
from .._engines.features import check_features
from .._engines.names import MAIN_NAME
from .._models.files import load_model, save_model
from .._tables.columns import ColumnError
from .._tables.files import write_whole
from .._training.request import OWN_KEYS, Settings, check_is_of, check_known, check_same_consent, split_params
from .._training.steps import MEMORY_SHARE
from .._training.train import train_part
from .._virtual.shared_plan import PartCount, PartFacts, SharedPlan, check_rows_per_worker
from .parts import (
    Part,
    group_parts,
    is_collection,
    parts_of,
    place,
    sample_of_people,
    training_part,
    validation_set,
    warn_of_encoded_silence_in,
)

_LOCK = "pucboost-training"
_PLANS = ("augmentation", "copies", "max_virtual_rows", "optional", "not_applicable", "expect_shared",
          "expect_revealing")  # fmt: skip
"""Parameters that the plan implements."""


def train(
    client: Client | None,
    params: Mapping[str, Any],
    X: Any,
    y: Any,
    num_boost_round: int = 100,
    *,
    valid_sets: Any = None,
    valid_names: Any = None,
    sample_weight: Any = None,
    init_score: Any = None,
    row_id: Any = None,
    available: Any = None,
    exposure: Any = None,
    feval: Any = None,
    init_model: Any = None,
    callbacks: Any = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 10,
    resume: bool = False,
    shuffled: bool = False,
    wait_for_workers: float = 60.0,
) -> Any:
    """Train on the workers of a Dask cluster, as :func:`pucboost.train` does on one machine.

    All workers have slices of one plan (:class:`pucboost.distributed.SharedPlan`), whatever is in their partitions, and
    the engine's own distributed training grows the trees. Masked rows are streamed into the engine within each worker:
    partitions are neither copied nor joined.

    Parameters
    ----------
    client
        The cluster's; None for the current one.
    params
        As in :func:`pucboost.train`, without ``compact``, ``anchor``, ``calibrate_masks`` and ``external_memory``.
        ``num_threads`` is that of each worker; by default 1 if none has 500,000 values (rows × columns), else the
        smallest number of Dask threads of any of them.
        LightGBM's ``local_listen_port`` is the first of the ports that workers use, one after the other; by default
        they take free ones.
    X, y
        Dask DataFrame or Array, and Series or Array, with the same partitions. Partitions may be empty.
    num_boost_round, valid_names, feval
        As in :func:`pucboost.train`.
    valid_sets
        A pair (X, y), (X, y, sample_weight) or (X, y, sample_weight, init_score), or several, of collections or of
        local tables; every worker gets them as a whole.
    sample_weight, init_score, available, exposure
        As in :class:`pucboost.Dataset`, as collections with the partitions of X.
    row_id
        A whole number or text for each row, as a collection. Masks then do not depend on how the table is cut or
        ordered; without it, they depend on the place of a row in the table.
    init_model
        A model to continue, as in :func:`pucboost.train`.
    callbacks
        The engine's own; they run in every worker, on copies.
    checkpoint, checkpoint_every
        A folder, or a place that fsspec knows (``"s3://…"``), into which the model so far is written every few rounds,
        each time whole or not at all.
    resume
        Continue the last model in ``checkpoint``, if there is one, for the rounds that are left.
    shuffled
        Say that every partition is a random sample of the table. Losses whose leaves are quantiles need it.
    wait_for_workers
        Seconds that workers have to come to the training.

    Returns
    -------
    lgb.Booster or xgb.Booster
        An ordinary local one, with ``consent`` and ``puc_summary``, and without addresses. The metrics of validation
        sets are in ``evals_result``.

    Examples
    --------
    >>> import dask.array as da, numpy as np, pucboost as puc
    >>> from distributed import Client, LocalCluster
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)); y = X[:, 0] + X[:, 2]
    >>> X[rng.random(500) < 1 / (1 + np.exp(-3 * X[:, 2])), 2] = np.nan
    >>> with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster, Client(cluster) as client:
    ...     rows, labels = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    ...     booster = puc.dask.train(client, {"optional": [2], "verbosity": -1}, rows, labels, 20)
    >>> booster.predict(X).shape, booster.puc_summary.source_rows
    ((500,), 500)
    """
    client = checked_client(client)
    engine, settings, prepared = _checked(params, shuffled)
    if checkpoint is not None:
        if isinstance(checkpoint_every, bool) or int(checkpoint_every) != checkpoint_every or checkpoint_every < 1:
            raise ValueError(f"checkpoint_every must be a whole number of rounds from 1 on, got {checkpoint_every!r}.")
        prepare_place(checkpoint)
    if resume:
        init_model, num_boost_round = _resumed(checkpoint, init_model, num_boost_round)
    if isinstance(init_model, (str, Path)):
        init_model = load_model(init_model)
    fields = {"label": y, "sample_weight": sample_weight, "init_score": init_score, "row_id": row_id,
              "available": available, "exposure": exposure}  # fmt: skip
    pairs = valid_pairs(valid_sets)
    names = [valid_names] if isinstance(valid_names, str) else list(valid_names or [])
    names += [f"valid_{i}" for i in range(len(names), len(pairs))]
    # One training per process and time: an engine's network is global to it.
    with lost_scheduler_named(client), client.as_current(), Lock(_LOCK):
        parts = parts_of(client, X, fields)
        valid = [_valid_parts(client, pair) for pair in pairs]
        workers = _workers(client)
        plan = _agree(client, parts, settings, prepared, workers, shuffled)
        if num_boost_round <= 0 and init_model is not None:
            check_is_of(engine, init_model)
            check_same_consent(init_model, plan.consent)
            return init_model
        holders, sizes = client.who_has(parts), plan.part_virtual or ()
        groups = group_parts(sizes, len(workers), plan.part_positives if prepared.needs_events else None)
        check_rows_per_worker(max(sum(sizes[i] for i in group) for group in groups))
        where = dict(
            zip(place(groups, sizes, [holders.get(part.key, ()) for part in parts], workers), groups, strict=True)
        )
        _move(client, where, parts, valid, wait_for_workers)
        task = Task(
            f"pucboost-{uuid4().hex}",
            len(where),
            settings.engine,
            _params_of_workers(client, params, where, plan),
            num_boost_round,
            names[: len(pairs)],
            Hooks(feval, callbacks),
            wait_for_workers,
            None if checkpoint is None else checkpoint_every,
        )
        shared = client.scatter([plan, init_model], workers=list(where), broadcast=True, hash=False)
        tasks = {
            address: client.submit(
                train_on_worker, task, rank, shared[0], [parts[i] for i in numbers], valid, shared[1],
                workers=[address], allow_other_workers=False, pure=False, retries=0,
                key=f"{task.meeting}-{rank}",
            )
            for rank, (address, numbers) in enumerate(where.items())
        }  # fmt: skip
        found = _results(client, engine, task, tasks, checkpoint, wait_for_workers)
    rounds = {address: result[0] for address, result in found.items()}
    if len(set(rounds.values())) > 1:
        raise RuntimeError(f"The workers have stopped after different numbers of rounds: {rounds}.")
    _, booster, record = next(iter(found.values()))
    if record:
        booster.evals_result = record
    return booster


def checked_client(client: Any) -> Client:
    if client is None:
        client = default_client()
    if not isinstance(client, Client):
        raise TypeError(f"client must be a distributed.Client, got {type(client).__name__!r}.")
    if client.asynchronous:
        raise TypeError("client is asynchronous, which is not supported; use one with asynchronous=False.")
    return client


@contextlib.contextmanager
def lost_scheduler_named(client: Client) -> Iterator[None]:
    """Raise ConnectionError where the scheduler is gone, which Dask tells by errors of many kinds."""
    address = getattr(client.scheduler, "address", "")
    try:
        yield
    except Exception as error:
        if client.status == "running":
            raise
        raise ConnectionError(
            f"The connection to the scheduler {address} was lost. Connect a new Client and train again; with "
            "checkpoint= and resume=True from where it was."
        ) from error


def _checked(params: Mapping[str, Any], shuffled: bool) -> tuple[Engine, Settings, EngineParams]:
    """Refuse what cannot be done on several workers before anything is computed."""
    if params.get("plan"):
        raise ValueError("plan is not possible with Dask: the workers agree on a plan themselves. Leave it out.")
    asked = {"plan": "with Dask", "shuffled": shuffled}
    check_features(params.get("engine", DEFAULT_ENGINE), {key: params.get(key) for key in OWN_KEYS} | asked)
    settings, given = split_params(params)
    engine = engine_named(settings.engine)
    check_known(engine, given)
    engine.network.check_params(given)
    return engine, settings, engine.prepare(dict(given), {}, 1, asked)


def _resumed(checkpoint: Any, init_model: Any, num_boost_round: int) -> tuple[Any, int]:
    if checkpoint is None or init_model is not None:
        raise ValueError("resume=True continues the last model in checkpoint; give checkpoint, and no init_model.")
    last = last_checkpoint(checkpoint)
    return last, num_boost_round if last is None else num_boost_round - boosters_of(last).facts(last).rounds


def _workers(client: Client) -> list[str]:
    """Return the workers that may train; of several within one process only the first, which has one network."""
    addresses = sorted(client.nthreads())
    if not addresses:
        raise ValueError("The cluster has no workers.")
    within = [address for address in addresses if address.startswith("inproc")]
    return [address for address in addresses if address not in within[1:]]


def valid_pairs(valid_sets: Any) -> list[tuple[Any, ...]]:
    if valid_sets is None or (isinstance(valid_sets, (list, tuple)) and not valid_sets):
        return []
    pairs = [valid_sets] if isinstance(valid_sets, tuple) and not isinstance(valid_sets[0], tuple) else list(valid_sets)
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple) or len(pair) not in (2, 3, 4):
            raise TypeError(
                f"Item {number} of valid_sets must be a pair (X, y), (X, y, sample_weight) or (X, y, sample_weight, "
                "init_score)."
            )
    return pairs


def _valid_parts(client: Client, pair: tuple[Any, ...]) -> list[Future]:
    fields = dict(zip(("label", "sample_weight", "init_score"), pair[1:], strict=False))
    if is_collection(pair[0]):
        return parts_of(client, pair[0], fields)
    local = Part(0, pair[0], {name: values for name, values in fields.items() if values is not None})
    return list(client.scatter([local], hash=False))


def _agree(
    client: Client,
    parts: list[Future],
    settings: Settings,
    params: EngineParams,
    workers: Sequence[str],
    shuffled: bool,
) -> SharedPlan:
    """Return the plan that all parts share, in two rounds of small messages."""
    options = params.options
    declared = {"optional": settings.optional, "not_applicable": settings.not_applicable}
    facts = client.gather(client.map(_facts, parts, declared=declared, zero=options.zero_as_missing, pure=False))
    if not any(one.n_rows for one in facts):
        raise ValueError("X has no rows.")
    width = next(len(one.consent.feature_names) for one in facts if one.consent is not None)
    budget = settings.max_virtual_rows or _budget(client, workers, params.bytes_per_virtual_row(width))
    plan = SharedPlan.agree(
        facts,
        augmentation=settings.augmentation,  # type: ignore[arg-type]
        copies=settings.copies,
        seed=options.seed,
        max_virtual_rows=None if budget is None else max(budget, sum(one.n_rows for one in facts)),
        zero_as_missing=options.zero_as_missing,
        shuffled=shuffled,
    )
    counted = client.gather(client.map(_count, parts, plan=plan, pure=False))
    warn_of_encoded_silence_in(
        [people for _, people in counted],
        plan,
        settings.expect_shared,
        settings.expect_revealing,
        zero_as_missing=options.zero_as_missing,
    )
    return plan.complete([count for count, _ in counted])


def _facts(part: Part, declared: dict[str, Any], zero: bool) -> PartFacts:
    available = None if part.is_empty else part.fields.get("available")
    label = None if part.is_empty else part.fields.get("label")
    return SharedPlan.facts(part.X, label, **declared, available=available, zero_as_missing=zero, num_threads=1)


def _count(part: Part, plan: SharedPlan) -> tuple[PartCount, Any]:
    given: dict[str, Any] = {name: part.fields.get(name) for name in ("row_id", "sample_weight", "available")}
    try:
        count = plan.count(part.X, part.number, num_threads=1, **given)
    except ColumnError as error:
        raise ColumnError(f"Partition {part.number}: {error}", error.column, error.row) from None
    return count, sample_of_people(part, sum(plan.part_rows))


def _budget(client: Client, workers: Sequence[str], bytes_per_row: int) -> int | None:
    """Return how many virtual rows fit into the default share of the workers' memory; None if it is not limited."""
    known = client.scheduler_info(n_workers=-1)["workers"]
    limits = [int(known[address].get("memory_limit") or 0) for address in workers if address in known]
    if not limits or not all(limits):
        return None
    return int(MEMORY_SHARE * sum(limits) / bytes_per_row)


def _params_of_workers(
    client: Client, params: Mapping[str, Any], where: Mapping[str, Sequence[int]], plan: SharedPlan
) -> dict[str, Any]:
    """Return parameters without those of the plan, and with the same number of threads for all workers.

    With different numbers, metrics would differ in the last digit, and workers might stop in different rounds. What
    ``OMP_NUM_THREADS`` says in the workers does not count: Dask sets it to 1 where it starts them.
    """
    kept = {key: value for key, value in params.items() if key not in _PLANS}
    if not any(MAIN_NAME.get(name) == "num_threads" and value is not None for name, value in kept.items()):
        most = max(sum(plan.part_rows[i] for i in numbers) for numbers in where.values())
        threads, held = threads_for(None, most * len(plan.consent.feature_names)), client.nthreads()
        kept["num_threads"] = threads or min(held.get(address, 1) for address in where)
    return kept


def _move(
    client: Client, where: Mapping[str, Sequence[int]], parts: list[Future], valid: list[list[Future]], within: float
) -> None:
    """Check that workers answer in time, then move their parts to them, however long that takes."""

    def tasks(given: Mapping[str, Any]) -> dict[str, Future]:
        pinned = {"allow_other_workers": False, "pure": False}
        return {address: client.submit(_have, given.get(address), workers=[address], **pinned) for address in where}

    results_of(client, tasks({}), what="answered", within=within)
    held = {address: ([parts[i] for i in numbers], valid) for address, numbers in where.items()}
    results_of(client, tasks(held), what="received its partitions")


def _have(data: Any) -> None:
    """Do nothing: a task's worker holds its arguments."""


def _results(
    client: Client, engine: Engine, task: Task, tasks: dict[str, Future], checkpoint: str | Path | None, within: float
) -> dict[str, Any]:
    with _writing(client, task, checkpoint) as write:
        try:
            _gather(client, task.meeting, tasks, within)
            errors = engine.network.errors
            return results_of(client, tasks, what="trained", peer_errors=errors, together=True, meanwhile=write)
        except BaseException:
            _stop(client, task, tasks)
            raise
        finally:
            _close(client, task.meeting)


def _stop(client: Client, task: Task, tasks: dict[str, Future]) -> None:
    """Make workers that still wait for a lost one fail, so that they can train again."""
    busy = [address for address in client.nthreads() if address in tasks]
    with contextlib.suppress(Exception):  # the error under way is the one to report
        client.run(_sever, task.engine, workers=busy)
    client.cancel(list(tasks.values()))


def _sever(engine: str) -> None:
    engine_named(engine).network.sever()


@contextlib.contextmanager
def _writing(client: Client, task: Task, checkpoint: str | Path | None) -> Iterator[Any]:
    """Yield a function that writes the checkpoints received so far."""
    if checkpoint is None:
        yield lambda: None
        return
    models = Queue(f"{task.meeting}-checkpoints", client=client)

    def write() -> None:
        while models.qsize():
            rounds, content = models.get()
            write_checkpoint(checkpoint, rounds, content)

    try:
        yield write
    finally:
        with contextlib.suppress(Exception):  # the error under way is the one to report
            write()
        models.close()


# ----- what each worker does


_ONE_AT_A_TIME = threading.Lock()
"""An engine's network is global to its process, and a training whose client has died may still be under way."""


@dataclass(frozen=True)
class Task:
    """What all workers of one training have in common, but for their parts and the plan."""

    meeting: str
    n_workers: int
    engine: str
    params: dict[str, Any]
    rounds: int
    valid_names: list[str]
    hooks: Hooks
    patience: float
    """Seconds within which workers must arrive."""
    checkpoint_every: int | None = None


def train_on_worker(
    task: Task, rank: int, plan: SharedPlan, parts: Sequence[Part], valid: Sequence[Sequence[Part]], init_model: Any
) -> tuple[int, Any, dict[str, Any]]:
    """Train with the others; return how many rounds, and the first worker's model and metrics."""
    if not _ONE_AT_A_TIME.acquire(timeout=task.patience):
        raise RuntimeError("another training is still under way in this process. Wait for it, or restart the worker.")
    try:
        return _train(task, rank, plan, parts, valid, init_model)
    finally:
        _ONE_AT_A_TIME.release()


def _train(
    task: Task, rank: int, plan: SharedPlan, parts: Sequence[Part], valid: Sequence[Sequence[Part]], init_model: Any
) -> tuple[int, Any, dict[str, Any]]:
    engine, worker = engine_named(task.engine), get_worker()
    network = engine.network
    host = "127.0.0.1" if worker.address.startswith("inproc") else get_address_host(worker.address)
    endpoints = arrive(task.meeting, rank, network.endpoint(host, rank, task.n_workers, task.params), task.patience)
    record: dict[str, Any] = {}
    with network.joined(endpoints, rank) as further:
        data, part = training_part(parts, plan)
        params = {**further, **task.params, "plan": part}
        callbacks = [*(task.hooks.callbacks or ()), *([engine.recording_callback(record)] if valid else [])]
        keep = None
        if task.checkpoint_every is not None and rank == 0:
            keep = Checkpoints(partial(_send, task.meeting), task.checkpoint_every)
        hooks = Hooks(task.hooks.feval, callbacks or None, init_model, checkpoints=keep)
        sets = [validation_set(one, plan) for one in valid] or None
        booster = train_part(params, data, task.rounds, sets, task.valid_names or None, hooks)
    rounds = boosters_of(booster).facts(booster).rounds
    return (rounds, booster, record) if rank == 0 else (rounds, None, {})


def _send(meeting: str, model: Any, rounds: int) -> None:
    """Send the content of a model file to the client, which writes it: a folder means the client's folder."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        save_model(model, path)
        Queue(f"{meeting}-checkpoints").put([rounds, path.read_bytes()])


# ----- meeting: each worker publishes its endpoint and receives those of all others


_ARRIVALS_EVERY = 0.02
"""Seconds."""

_LONGER = 60
"""Seconds that a worker waits longer than the client before giving up."""


def arrive(meeting: str, rank: int, endpoint: Any, within: float) -> list[Any]:
    """Announce a worker, and return the endpoints of all by rank. The client gives up after ``within`` seconds."""
    Queue(f"{meeting}-arrivals").put([rank, endpoint])
    endpoints: list[Any] | None = Variable(f"{meeting}-endpoints").get(timeout=within + _LONGER)
    if endpoints is None:
        raise LostWorkerError("another worker has never come")
    return endpoints


def _gather(client: Client, meeting: str, tasks: Mapping[str, Future], within: float) -> None:
    """Wait until all workers have arrived or one has failed, then send them all endpoints."""
    arrivals, endpoints = Queue(f"{meeting}-arrivals", client=client), Variable(f"{meeting}-endpoints", client=client)
    found: dict[int, Any] = {}
    until = time.monotonic() + within
    while len(found) < len(tasks):
        while arrivals.qsize():
            rank, endpoint = arrivals.get()
            found[rank] = endpoint
        time.sleep(_ARRIVALS_EVERY)
        if any(task.status not in ("pending", "finished") for task in tasks.values()):
            endpoints.set(None)  # the failed task has the reason
            return
        if time.monotonic() > until:
            endpoints.set(None)
            missing = next(address for rank, address in enumerate(tasks) if rank not in found)
            raise _absent(missing, "come to the training", within)
    endpoints.set([found[rank] for rank in range(len(tasks))])


def _close(client: Client, meeting: str) -> None:
    Queue(f"{meeting}-arrivals", client=client).close()
    Variable(f"{meeting}-endpoints", client=client).delete()


# ----- watching


_LOOK_EVERY = 0.25
"""Seconds."""

_GRACE = 5.0
"""Seconds within which the others may fail by themselves, once one has failed or is lost."""

_TOGETHER = 120.0
"""Seconds within which workers end that work together: they have just exchanged the last tree. If one ends long before
another, a callback or metric has stopped them in different rounds, and LightGBM would wait for ever."""


class LostWorkerError(RuntimeError):
    """A worker is gone, or has never come to the training; the message names it.

    Examples
    --------
    >>> import pucboost as puc
    >>> issubclass(puc.dask.LostWorkerError, RuntimeError)
    True
    """


def results_of(
    client: Client,
    tasks: Mapping[str, Future],
    *,
    what: str,
    within: float | None = None,
    peer_errors: tuple[type[Exception], ...] = (),
    together: bool = False,
    meanwhile: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Return the results of tasks by the address of their worker; raise as soon as one fails or its worker is lost.

    Errors name ``what`` the tasks do. Those that are not done ``within`` so many seconds count as lost. Of several
    errors, ``peer_errors``, which a worker raises because another one is gone, are reported last. Tasks that work
    ``together`` must end at about the same time. ``meanwhile`` is called again and again.
    """
    started = time.monotonic()
    first_end: float | None = None
    while True:
        pending = [task for task in tasks.values() if task.status == "pending"]
        if not pending:
            break
        meanwhile()
        with contextlib.suppress(TimeoutError):
            wait_for(pending, timeout=_LOOK_EVERY, return_when="FIRST_COMPLETED")
        if any(task.status not in ("pending", "finished") for task in tasks.values()):
            break
        _check_present(client, tasks, what)
        if together and first_end is None and any(task.status == "finished" for task in tasks.values()):
            first_end = time.monotonic()
        late = [address for address, task in tasks.items() if task.status == "pending"]
        if within is not None and late and time.monotonic() - started > within:
            raise _absent(late[0], what, within)
        if late and first_end is not None and time.monotonic() - first_end > _TOGETHER:
            done = next(address for address in tasks if address not in late)
            raise RuntimeError(
                f"Worker {done} has {what}, but worker {late[0]} goes on. A callback or metric must decide the same in "
                "all workers, whose data differ."
            )
    _raise_failures(client, tasks, what, peer_errors)
    meanwhile()
    return {address: task.result() for address, task in tasks.items()}


def _absent(worker: str, what: str, within: float) -> LostWorkerError:
    text = f"Worker {worker} has not {what} within {within:g} seconds. Is it busy with other tasks, or cut off?"
    return LostWorkerError(text)


def _check_present(client: Client, tasks: Mapping[str, Future], what: str) -> None:
    present = client.nthreads()
    for address, task in tasks.items():
        if address not in present and task.status != "finished":
            raise LostWorkerError(
                f"Worker {address} was lost before it had {what}. Its memory may have run out: see its log. The "
                "cluster can train again; with checkpoint= from where it was."
            )


def _raise_failures(
    client: Client, tasks: Mapping[str, Future], what: str, peer_errors: tuple[type[Exception], ...]
) -> None:
    if all(task.status == "finished" for task in tasks.values()):
        return
    until = time.monotonic() + _GRACE
    while any(task.status == "pending" for task in tasks.values()) and time.monotonic() < until:
        _check_present(client, tasks, what)
        time.sleep(_LOOK_EVERY)
    _check_present(client, tasks, what)
    errors = {address: task.exception() for address, task in tasks.items() if task.status == "error"}
    own = {address: error for address, error in errors.items() if not isinstance(error, peer_errors)}
    for address, error in (own or errors).items():
        text = f"Worker {address} failed: {error}"
        if type(error) in (ValueError, TypeError):
            raise type(error)(text) from error
        raise RuntimeError(f"Worker {address} failed: {type(error).__name__}: {error}") from error
    raise LostWorkerError(f"The task of worker {next(iter(tasks))} was cancelled before it had {what}.")


# ----- checkpoints: written whole or not at all, to a folder or any place that fsspec opens


_PREFIX, _ENDING = "rounds-", ".model"


def prepare_place(place: str | Path) -> None:
    """Make the folder, before anybody trains for hours."""
    if not _is_url(place):
        Path(place).mkdir(parents=True, exist_ok=True)
        return
    system, folder = _opened(place)
    system.makedirs(folder, exist_ok=True)


def write_checkpoint(place: str | Path, rounds: int, content: bytes) -> None:
    """Write the content of a model file after some rounds; there is never half a file under its name."""
    name = f"{_PREFIX}{rounds:09d}{_ENDING}"
    prepare_place(place)
    if not _is_url(place):
        write_whole(Path(place) / name, content)
        return
    system, folder = _opened(place)
    temporary = f"{folder}/.{name}.{secrets.token_hex(8)}"
    try:
        system.pipe_file(temporary, content)
        system.mv(temporary, f"{folder}/{name}")
    except BaseException:
        with contextlib.suppress(Exception):  # the error under way is the one to report
            system.rm_file(temporary)
        raise


def last_checkpoint(place: str | Path) -> Any:
    """Return the model with the most rounds among the checkpoints in a place; None if there are none.

    Parameters
    ----------
    place
        As given to :func:`pucboost.dask.train`: a folder, or an address that fsspec knows.

    Examples
    --------
    >>> import pucboost as puc, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     puc.dask.last_checkpoint(folder) is None
    True
    """
    if not _is_url(place):
        found = sorted(Path(place).glob(f"{_PREFIX}*{_ENDING}"))
        return load_model(found[-1]) if found else None
    system, folder = _opened(place)
    names = sorted(str(one) for one in system.glob(f"{folder}/{_PREFIX}*{_ENDING}")) if system.exists(folder) else []
    if not names:
        return None
    with tempfile.TemporaryDirectory() as local:
        path = Path(local) / "model"
        path.write_bytes(system.cat_file(names[-1]))
        return load_model(path)


def _is_url(place: str | Path) -> bool:
    return "://" in str(place)


def _opened(place: str | Path) -> tuple[Any, str]:
    import fsspec

    system, folder = fsspec.core.url_to_fs(str(place))
    return system, str(folder).rstrip("/")
