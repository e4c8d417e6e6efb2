"""Callbacks of a training with XGBoost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import xgboost as xgb


class AfterRound(xgb.callback.TrainingCallback):
    """Calls a function with the number of the round and all metrics so far."""

    def __init__(self, function: Callable[[int, Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._function = function

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Call the function and continue training."""
        self._function(epoch, evals_log)
        return False


class CheckpointRounds(xgb.callback.TrainingCallback):
    """Hands a copy of the booster to a function every few rounds."""

    def __init__(self, keep: Callable[[Any, int], None], every: int) -> None:
        super().__init__()
        self._keep, self._every, self._rounds = keep, every, 0

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Count the rounds and continue training."""
        self._rounds += 1
        if self._rounds % self._every == 0:
            # In a thread that is in no collective: matrices made in one wait for the other workers to make theirs.
            with ThreadPoolExecutor(1) as outside:
                outside.submit(self._keep, model.copy(), model.num_boosted_rounds()).result()
        return False
