"""Checks of the estimators' keywords, and their translation into parameters of ``train``."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._engines.base import Engine
from .._engines.names import MAIN_NAME
from .._training.request import OWN_KEYS, check_known

NAMED = {
    "num_iterations": "n_estimators",
    "learning_rate": "learning_rate",
    "num_leaves": "num_leaves",
    "seed": "random_state",
    "num_threads": "n_jobs",
    "objective": "objective",
    "early_stopping_round": "early_stopping_rounds",
}
"""LightGBM's main name → the estimators' name."""


def check_keyword(key: str, value: Any, engine: Engine, estimator: str, own_names: Iterable[str]) -> None:
    """Raise if the estimators have another name for a keyword, or if it is unknown."""
    main = MAIN_NAME.get(key)
    if main in NAMED:
        raise ValueError(f"{estimator} calls {key!r} {NAMED[main]!r}; use that name.")
    if main == "num_class":
        raise ValueError(f"{estimator} takes no {key!r}: the classes are those of y.")
    if key == "plan":
        raise ValueError(f"{estimator} takes no plan; use pucboost.train in each worker, or pucboost.dask.")
    if key not in OWN_KEYS:
        check_known(engine, {key: value}, *own_names)


def check_whole_number(name: str, value: Any, least: int) -> None:
    """Raise unless the value is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")


def check_learning_rate(rate: Any) -> None:
    """Raise unless the learning rate is None, which leaves it to the engine, or positive."""
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, Real) or not float(rate) > 0):
        raise ValueError(f"learning_rate must be a positive number, got {rate!r}.")


def seed_of(random_state: Any) -> int:
    """Return the seed that a ``random_state`` stands for; 0 for None."""
    if random_state is None:
        return 0
    if isinstance(random_state, Integral):
        return int(random_state)
    largest = np.iinfo(np.int32).max
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(largest))
    return int(check_random_state(random_state).randint(largest))


def thread_count_of(n_jobs: int | None) -> int | None:
    """Return the number of threads that ``n_jobs`` stands for, as joblib reads it."""
    if n_jobs is None:
        return None
    from joblib import effective_n_jobs  # type: ignore[import-untyped]

    return int(effective_n_jobs(n_jobs))
