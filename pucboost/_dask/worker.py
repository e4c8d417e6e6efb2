"""What one worker does in a training."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distributed import Queue, get_worker
from distributed.comm import get_address_host

from .._engines import boosters_of, engine_named
from .._engines.base import Checkpoints, Hooks
from .._training.train import train_part
from .._virtual.shared_plan import SharedPlan
from .checkpoints import as_content
from .collections import Part
from .meeting import arrive
from .stacking import training_part, validation_set

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
    """Seconds that workers have to come."""
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
            keep = Checkpoints(_Sender(task.meeting), task.checkpoint_every)
        hooks = Hooks(task.hooks.feval, callbacks or None, init_model, checkpoints=keep)
        sets = [validation_set(one, plan) for one in valid] or None
        booster = train_part(params, data, task.rounds, sets, task.valid_names or None, hooks)
    rounds = boosters_of(booster).facts(booster).rounds
    return (rounds, booster, record) if rank == 0 else (rounds, None, {})


class _Sender:
    """Sends models on the way to whoever leads the training."""

    def __init__(self, meeting: str) -> None:
        self._meeting = meeting

    def __call__(self, model: Any, rounds: int) -> None:
        Queue(f"{self._meeting}-checkpoints").put([rounds, as_content(model)])
