"""A watch that takes the time of a training and of its parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import xgboost as xgb

from benchmarks.harness.types import Row
from pucboost._training.augmenting import Augmenter
from pucboost._virtual.rows import MaskedRows


class Watch:
    """Takes the time of a training and of its parts, for both engines, with or without consent.

    ``plan``: reading consent, planning copies, and the summary at the end; ``stream``: computing masks and gathering
    masked rows, as often as the engine reads them; ``binning``: the rest up to the first tree; ``boosting``: the trees.
    """

    def __init__(self) -> None:
        self.stream = 0.0
        self.moments: dict[str, float] = {}

    def callback(self, engine: str) -> Any:
        """Return the callback by which the engine tells the watch that the first tree begins."""
        return _XGBoostStart(self) if engine == "XGBoost" else _LightGBMStart(self)

    def mark(self, moment: str) -> None:
        """Remember when something happened first."""
        self.moments.setdefault(moment, time.perf_counter())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch what is trained inside."""
        with ExitStack() as stack:
            for name in ("read_into", "take"):
                stack.enter_context(patch.object(MaskedRows, name, self._adding(getattr(MaskedRows, name))))
            stack.enter_context(patch.object(Augmenter, "training", self._then(Augmenter.training)))
            stack.enter_context(patch.object(Augmenter, "finish", self._before(Augmenter.finish)))
            self.mark("start")
            yield
            self.mark("end")

    def _adding(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = function(*args, **kwargs)
            self.stream += time.perf_counter() - start
            return result

        return timed

    def _then(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def marked(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self.mark("planned")
            return result

        return marked

    def _before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def marked(*args: Any, **kwargs: Any) -> Any:
            self.mark("boosted")
            return function(*args, **kwargs)

        return marked

    def row(self) -> Row:
        """Return the whole and its parts in seconds; plain training plans nothing and has no stream."""
        start, end, first = (self.moments[name] for name in ("start", "end", "first tree"))
        planned, boosted = self.moments.get("planned", start), self.moments.get("boosted", end)
        return {
            "seconds": end - start,
            "plan": planned - start + end - boosted,
            "stream": self.stream,
            "binning": first - planned - self.stream,
            "boosting": boosted - first,
        }


class _LightGBMStart:
    before_iteration = True
    order = 0

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def __call__(self, env: Any) -> None:
        self.watch.mark("first tree")


class _XGBoostStart(xgb.callback.TrainingCallback):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def before_training(self, model: Any) -> Any:
        self.watch.mark("first tree")
        return model
