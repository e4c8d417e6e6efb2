"""One training with either engine, with its times and its peak of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import pandas as pd
import xgboost as xgb

import pucboost as puc
from benchmarks.harness.machine import THREADS
from benchmarks.harness.memory import peak_memory
from benchmarks.harness.types import Array, Row
from benchmarks.models import NATIVE, PUC_SCHEMES
from pucboost._virtual.allocation import default_copies

from .watch import Watch

WARM_UP_ROWS = 500
PARAMS: dict[str, dict[str, Any]] = {
    "LightGBM": {"num_leaves": 63, "verbosity": -1, "force_row_wise": True, "num_threads": THREADS},
    NATIVE: {"num_leaves": 63, "verbosity": -1, "num_threads": THREADS},
    "XGBoost": {"max_depth": 6, "verbosity": 0, "tree_method": "hist", "nthread": THREADS},
}

OBJECTIVES = {
    "scale": {"LightGBM": "binary", NATIVE: "binary", "XGBoost": "binary:logistic"},
    "freMTPL2": {"LightGBM": "poisson", NATIVE: "poisson", "XGBoost": "count:poisson"},
}


@dataclass(frozen=True)
class Training:
    """One engine in one variant."""

    engine: str
    variant: str
    objective: str
    optional: list[Any]
    rounds: int
    rate: float
    seed: int

    @classmethod
    def of(cls, job: dict[str, Any], optional: list[Any]) -> Training:
        """Read a job."""
        engine = job["engine"]
        objective = OBJECTIVES[job["what"]][engine]
        return cls(engine, job["variant"], objective, optional, job["rounds"], job["rate"], job["run"])

    def start(self, X: Any, y: Array, weight: Array | None, rounds: int, callbacks: list[Any], **changed: Any) -> Any:
        """Train and return the booster; ``changed`` are parameters of pucboost."""
        params = {
            **PARAMS[self.engine], "objective": self.objective, "learning_rate": self.rate, "seed": self.seed,
        }  # fmt: skip
        if self.variant in PUC_SCHEMES:
            consent = {"engine": self.engine.lower(), "optional": self.optional, "augmentation": self.variant}
            if self.engine == NATIVE:
                consent["copies"] = default_copies(len(y))  # as many as the others have
            people = puc.Dataset(X, y, weight=weight)
            return puc.train({**params, **consent, **changed}, people, rounds, callbacks=callbacks)
        if self.engine == "LightGBM":
            return lgb.train(params, lgb.Dataset(X, y, weight=weight), rounds, callbacks=callbacks)
        matrix = xgb.QuantileDMatrix(X, y, weight=weight, nthread=THREADS, enable_categorical=True)
        with xgb.config_context():  # so that the verbosity of one call does not affect the next
            return xgb.train(params, matrix, rounds, callbacks=callbacks)

    def measure(self, X: Any, y: Array, weight: Array | None = None) -> tuple[Any, Row]:
        """Train after a warm-up on a few rows; return the booster, and times and peak memory beyond the table."""
        few = slice(0, WARM_UP_ROWS)
        first = X.iloc[few] if isinstance(X, pd.DataFrame) else X[few]
        # With one copy a row, even a small table takes the path of a large one.
        self.start(first, y[few], None if weight is None else weight[few], 1, [], copies=1)
        watch, boosters = Watch(), []

        def job() -> None:
            with watch.running():
                boosters.append(self.start(X, y, weight, self.rounds, [watch.callback(self.engine)]))

        memory = peak_memory(job)
        (booster,) = boosters
        summary = getattr(booster, "puc_summary", None)
        per_row = 1.0 if summary is None else summary.virtual_rows / len(y)
        return booster, {"virtual rows per row": per_row, **watch.row(), "MB": memory}
