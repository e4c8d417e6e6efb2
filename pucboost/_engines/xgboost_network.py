"""XGBoost on several machines: a tracker in the process of the first worker connects the workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import xgboost as xgb
from xgboost.collective import CommunicatorContext
from xgboost.tracker import RabitTracker

from .base import Network

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
        # Ranks follow the names of tasks in alphabetical order.
        with CommunicatorContext(**endpoints[0], DMLC_TASK_ID=f"{rank:09d}", dmlc_retry=2, dmlc_timeout=_LONGEST_STEP):
            yield {}

    def sever(self) -> None:
        """Do nothing: XGBoost itself notices that another worker is gone."""


def _wait_for(tracker: RabitTracker) -> None:
    with suppress(xgb.core.XGBoostError, ValueError):  # the workers' own errors say more
        tracker.wait_for()
