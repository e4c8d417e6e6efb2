"""Where the workers of one training meet: each publishes its endpoint, and receives those of all others.

They meet before the engine opens its network: LightGBM would search two minutes for a worker that does not come.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from distributed import Client, Future, Queue, Variable

from .watching import LostWorkerError

_LOOK_EVERY = 0.02
"""Seconds."""

_LONGER = 60
"""Seconds that a worker waits longer than whoever leads the training, before it no longer believes in them."""


def arrive(meeting: str, rank: int, endpoint: Any, within: float) -> list[Any]:
    """In a worker: say that it is there, and return the endpoints of all, in the order of ranks.

    Whoever leads the training gives up after ``within`` seconds.
    """
    Queue(f"{meeting}-arrivals").put([rank, endpoint])
    endpoints: list[Any] | None = Variable(f"{meeting}-endpoints").get(timeout=within + _LONGER)
    if endpoints is None:
        raise LostWorkerError("another worker has never come")
    return endpoints


class Meeting:
    """The side of whoever leads the training."""

    def __init__(self, client: Client, name: str, addresses: list[str]) -> None:
        self._addresses = addresses
        self._arrivals = Queue(f"{name}-arrivals", client=client)
        self._endpoints = Variable(f"{name}-endpoints", client=client)

    def gather(self, tasks: Mapping[str, Future], within: float) -> None:
        """Wait until all workers are there or one has failed, and tell them of each other."""
        found: dict[int, Any] = {}
        until = time.monotonic() + within
        while len(found) < len(self._addresses):
            while self._arrivals.qsize():
                rank, endpoint = self._arrivals.get()
                found[rank] = endpoint
            time.sleep(_LOOK_EVERY)
            if any(task.status not in ("pending", "finished") for task in tasks.values()):
                self._endpoints.set(None)  # who failed says why
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
        """Forget the meeting."""
        self._arrivals.close()
        self._endpoints.delete()
