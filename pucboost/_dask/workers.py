"""What the workers of one training do, how they meet, and how the client watches them.

Workers meet before the engine opens its network, and open it before anything can fail. LightGBM searches two minutes
for a worker that does not come, and takes the end of a connection for an empty message, which it reads for ever. So a
worker that fails resets its connections, and if one is lost, ``network.sever`` replaces the sockets of the others: a
busy loop in C++ cannot be stopped otherwise. XGBoost notices by itself. A task that fails, or whose worker is lost, is
an error that names the worker, never a hang.

Once connected, workers wait for each other as long as it takes: one may have more rows to read.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from distributed import Client, Future, Queue, Variable, get_worker
from distributed import wait as wait_for
from distributed.comm import get_address_host

from .._engines import boosters_of, engine_named
from .._engines.base import Checkpoints, Hooks
from .._models.files import save_model
from .._training.train import train_part
from .._virtual.shared_plan import SharedPlan
from .collections import Part, training_part, validation_set

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


class Meeting:
    """The client's side of a meeting."""

    def __init__(self, client: Client, name: str, addresses: list[str]) -> None:
        self._addresses = addresses
        self._arrivals = Queue(f"{name}-arrivals", client=client)
        self._endpoints = Variable(f"{name}-endpoints", client=client)

    def gather(self, tasks: Mapping[str, Future], within: float) -> None:
        """Wait until all workers have arrived or one has failed, then send them all endpoints."""
        found: dict[int, Any] = {}
        until = time.monotonic() + within
        while len(found) < len(self._addresses):
            while self._arrivals.qsize():
                rank, endpoint = self._arrivals.get()
                found[rank] = endpoint
            time.sleep(_ARRIVALS_EVERY)
            if any(task.status not in ("pending", "finished") for task in tasks.values()):
                self._endpoints.set(None)  # the failed task has the reason
                return
            if time.monotonic() > until:
                self._endpoints.set(None)
                missing = next(a for rank, a in enumerate(self._addresses) if rank not in found)
                raise LostWorkerError(
                    f"Worker {missing} has not come to the training within {within:g} seconds. Is it busy with other "
                    "tasks, or cut off?"
                )
        self._endpoints.set([found[rank] for rank in range(len(self._addresses))])

    def close(self) -> None:
        self._arrivals.close()
        self._endpoints.delete()


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

    Parameters
    ----------
    client
        The cluster's.
    tasks
        One for each worker, by address.
    what
        What they do, for errors.
    within
        Seconds after which those that are not done count as lost; None for any time.
    peer_errors
        Errors that a worker may raise because another one is gone: other errors are reported first.
    together
        Whether all must end at about the same time, because they work together.
    meanwhile
        Called again and again.
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
            raise LostWorkerError(
                f"Worker {late[0]} has not {what} within {within:g} seconds. Is it busy with other tasks, or cut off?"
            )
        if late and first_end is not None and time.monotonic() - first_end > _TOGETHER:
            done = next(address for address in tasks if address not in late)
            raise RuntimeError(
                f"Worker {done} has {what}, but worker {late[0]} goes on. A callback or metric must decide the same in "
                "all workers, whose data differ."
            )
    _raise_failures(client, tasks, what, peer_errors)
    meanwhile()
    return {address: task.result() for address, task in tasks.items()}


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
