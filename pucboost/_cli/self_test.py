"""What ``pucboost doctor`` tries: the main jobs on simulated people, compared with what is known of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .._common import Array
from ..demo import insurance_family
from .shared import one_line

ROUNDS = 60
TRAINING_PEOPLE, OTHER_PEOPLE = 10_000, 5_000
LARGEST_GAP = 60e-4
"""With these people every engine comes to about 30e-4, and to 150e-4 if they may learn from silence."""
MARGIN = 0.1
KNOWN_HASHES = {(0, 1, 0, 0): 2391539541053276776, (42, 2, 10**9, 7): 13782525429815852779}
"""(seed, stream, row, counter) → the random number that masks are made of."""


@dataclass(frozen=True)
class Check:
    """One thing tried, and what was wrong; an empty text if nothing was."""

    what: str
    trouble: str


class _WrongResultError(Exception):
    """A result differs from what is known."""


def checks() -> Iterator[Check]:
    """Try one thing after the other; what fails does not stop the rest."""
    from .._engines import ENGINES

    yield _tried("kernels", _kernels)
    for engine in ENGINES:
        world = _World(engine)
        for what in (world.training, world.files, world.quotes, world.audit):
            yield _tried(f"{engine}: {what.__name__}", what)


def _tried(what: str, attempt: Callable[[], None]) -> Check:
    try:
        attempt()
    except Exception as error:  # whatever it is, the user wants to read it in the report
        kind = "" if isinstance(error, _WrongResultError) else f"{type(error).__name__}: "
        return Check(what, kind + one_line(error))
    return Check(what, "")


def _require(right: bool, otherwise: str) -> None:
    if not right:
        raise _WrongResultError(otherwise)


def _kernels() -> None:
    """Random numbers that every machine must agree on, or models would differ."""
    from .._kernels.masks import counter_hash, stream_key

    for (seed, stream, row, counter), expected in KNOWN_HASHES.items():
        key = np.uint64(stream_key(np.uint64(seed), np.uint64(stream)))
        found = int(counter_hash(key, np.uint64(row), np.uint64(counter)))
        _require(found == expected, f"the hash of row {row} is {found} on this machine, and {expected} on others")


class _World:
    """Simulated people whose justified predictions are known, and a model of one engine."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._family = insurance_family()
        self._test = self._family.sample(OTHER_PEOPLE, 2)

    @cached_property
    def _model(self) -> Any:
        from .._training.datasets import Dataset
        from .._training.train import train

        people = self._family.sample(TRAINING_PEOPLE, 1)
        params = {"engine": self._engine, "objective": "binary", "verbosity": -1, "optional": self._family.optional}
        return train({**params, "learning_rate": 0.1, "num_leaves": 8}, Dataset(people.X, people.y), ROUNDS)

    def _predictions(self, model: Any) -> Array:
        from .._prediction.predictor import predict

        return np.asarray(predict(model, self._test.X))

    def training(self) -> None:
        """Predictions are near the known truth."""
        from ..simulate import squared_puc_gap

        gap = squared_puc_gap(self._predictions(self._model), self._family, self._test.X)
        _require(gap < LARGEST_GAP, f"the squared PUC-gap is {gap:.2g}, expected less than {LARGEST_GAP:.2g}")

    def files(self) -> None:
        """A model that was saved and loaded predicts the same."""
        from .._models.files import load_model, save_model

        with tempfile.TemporaryDirectory() as folder:
            save_model(self._model, Path(folder) / "model.txt")
            loaded = load_model(Path(folder) / "model.txt")
        same = bool((self._predictions(loaded) == self._predictions(self._model)).all())
        _require(same, "the saved model predicts something else")

    def quotes(self) -> None:
        """A quote for sharing nothing is the prediction for somebody who shares nothing."""
        from .._prediction.predictor import predict, quote

        silent = self._test.X.copy()
        silent[:, self._family.optional] = np.nan
        quoted = quote(self._model, self._test.X, subsets=["nothing"])["nothing"].to_numpy()
        same = bool((quoted == np.asarray(predict(self._model, silent))).all())
        _require(same, "quotes for sharing nothing depend on what is shared")

    def audit(self) -> None:
        """A protected model is not found to be unprotected."""
        from .._auditing.run import audit

        report = audit(self._model, self._test.X, self._test.y, margin=MARGIN)
        _require(report.passed, f"the audit says {report.verdict}, expected certified")
