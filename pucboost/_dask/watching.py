"""Tasks on certain workers, watched: one that fails or is lost is an error that names its worker, never a hang."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from distributed import Client, Future
from distributed import wait as wait_for

_LOOK_EVERY = 0.25
"""Seconds."""

_GRACE = 5.0
"""Seconds that the others have to fail by themselves, once one has failed or is lost."""

_TOGETHER = 120.0
"""Seconds within which workers end that work together: they have just exchanged the last tree."""


class LostWorkerError(RuntimeError):
    """A worker is gone, or has never come to the training; the message names it.

    Examples
    --------
    >>> import pucboost as puc
    >>> issubclass(puc.dask.LostWorkerError, RuntimeError)
    True
    """


def nothing() -> None:
    """Do nothing."""


def results_of(
    client: Client,
    tasks: Mapping[str, Future],
    *,
    what: str,
    within: float | None = None,
    peer_errors: tuple[type[Exception], ...] = (),
    together: bool = False,
    meanwhile: Callable[[], None] = nothing,
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
        Errors that a worker may raise because another one is gone: of these others are told first.
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
