"""What the tests must know of an engine to hold it to the laws and to the contract.

A new engine is one more class here; every test marked ``every_engine`` then runs on it, too.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import pucboost as puc
from pucboost._consent import Consent
from pucboost._engines import ENGINES, engine_named
from pucboost._engines.base import Hooks
from pucboost._engines.lightgbm_boosters import without_ranges
from pucboost._engines.native import engine as beginning
from pucboost._engines.native import grower
from pucboost._engines.native.pool import People
from pucboost._tables.sources import ArraySource
from pucboost._training.request import TrainingRequest
from pucboost._training.steps import TABLE_STEPS, VIRTUAL_STEPS, Training, plan, run
from pucboost._virtual.plan import child_seed
from pucboost._virtual.rows import VirtualTable, shown_table

OPTIONAL = [3, 4, 5]
"""The optional columns of ``tools.make_table``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class EngineKit(ABC):
    """One engine, in its own words."""

    name: str
    module: Any
    """The engine's Python package."""
    quiet: dict[str, Any]
    """No output, two threads; two identical calls give identical bits, whatever the thread count."""
    threads: str
    """The name of the parameter."""
    objectives: dict[str, str]
    """LightGBM's names of losses → the engine's."""
    metrics: dict[str, str]
    """LightGBM's names of losses → the engine's metric for each."""
    small_trees: dict[str, Any]
    """About 15 leaves."""
    tiny_trees: dict[str, Any]
    """About 8 leaves."""
    one_leaf: dict[str, Any]
    """No split at all; the leaf is the weighted mean of the labels under squared error."""
    start_at_zero: dict[str, Any]
    """With a built-in loss for two classes: raw scores that start at 0."""
    custom_start_at_zero: dict[str, Any]
    """The same with a callable objective."""
    alone: list[dict[str, Any]]
    """Parameters with which the engine alone and pucboost with nothing optional are compared."""
    few_for_bins: dict[str, Any] = field(default_factory=dict)
    """A sample of 5,000 rows for the bins, if the engine takes one through Python."""
    bytes_per_row: int
    """What the engine may keep of a virtual row of 14 columns and 15 bins: bins, labels, scores, gradients, …"""

    @property
    def title(self) -> str:
        """What messages call the engine."""
        return engine_named(self.name).title

    def __str__(self) -> str:
        return self.name

    @property
    def params(self) -> dict[str, Any]:
        """Common parameters for ``puc.train``; outcomes are 0 or 1."""
        return {"engine": self.name, **self.quiet, "objective": self.objectives["binary"]}

    @abstractmethod
    def leaf_hessian(self, least: float) -> dict[str, Any]:
        """A leaf needs this sum of hessians, and nothing else: what merged rows can be compared under."""

    # ----- models

    def fit(self, X: Any, y: Any, rounds: int = 10, dataset: dict[str, Any] | None = None, **params: Any) -> Any:
        """Train through pucboost."""
        return puc.train({**self.params, "optional": OPTIONAL, **params}, puc.Dataset(X, y, **(dataset or {})), rounds)

    @abstractmethod
    def fit_alone(self, params: dict[str, Any], X: Any, y: Any, rounds: int, **given: Any) -> Any:
        """Train with the engine alone; ``given`` may have weight, init_score and init_model."""

    def fit_table(
        self,
        X: Any,
        y: Any,
        rounds: int,
        *,
        mask_seed: int | None = None,
        weight: Any = None,
        init_score: Any = None,
        init_model: Any = None,
        **params: Any,
    ) -> Any:
        """The oracle of law 3: materialise the virtual table and give it to the engine alone.

        Row sampling is set by hand: a random N of the V virtual rows for every tree.
        """
        params = {**self.params, "optional": OPTIONAL, **params}
        own = {k: params.pop(k) for k in ("optional", "augmentation", "copies") if k in params}
        seed = params.get("seed", 0) if mask_seed is None else mask_seed
        X_aug, y_aug, w, source = puc.augment(X, y, seed=seed, sample_weight=weight, **own)
        if len(y_aug) > len(y):
            params |= self.row_sampling(params, len(y), len(y_aug))
        scores = None if init_score is None else init_score[source]
        return self.fit_alone(params, X_aug, y_aug, rounds, weight=w, init_score=scores, init_model=init_model)

    def continued(self, params: dict[str, Any], init_model: Any) -> dict[str, Any]:
        """Parameters that change when training continues a model."""
        return {}

    @abstractmethod
    def row_sampling(self, params: dict[str, Any], n: int, n_virtual: int) -> dict[str, Any]:
        """Parameters that let each tree grow on n of the virtual rows."""

    def fit_recorded(
        self, params: dict[str, Any], train: Any, rounds: int, valid_sets: Any, *args: Any
    ) -> tuple[Any, dict[str, dict[str, list[float]]]]:
        """Train, and return the booster and its metrics: set → metric → one value a round."""
        booster = puc.train(params, train, rounds, valid_sets, *args)
        return booster, booster.evals_result

    def nothing_to_watch(self, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters with which early stopping has nothing to watch if the training set alone is validated."""
        return params

    # ----- what is in a model

    @abstractmethod
    def predict(self, booster: Any, X: Any, raw: bool = False) -> Any:
        """Predict with the engine's own function."""

    @abstractmethod
    def trees(self, booster: Any) -> Any:
        """The model without its parameters and attributes: equal if the trees are."""

    def model(self, booster: Any) -> Any:
        """As much of the model as two equal calls must have in common, its parameters included where they are kept."""
        return self.trees(booster)

    @abstractmethod
    def rounds(self, booster: Any) -> int:
        """The number of boosting rounds."""

    def best_rounds(self, booster: Any) -> int:
        """The number of rounds up to the best one."""
        return int(booster.best_iteration)

    @abstractmethod
    def feature_names(self, booster: Any) -> list[str]:
        """The names of the columns."""

    def load_alone(self, path: Path) -> Any:
        """Read a model file with the engine alone."""
        return self.module.Booster(model_file=path)


class _LightGBM(EngineKit):
    def leaf_hessian(self, least: float) -> dict[str, Any]:
        return {"min_sum_hessian_in_leaf": least, "min_data_in_leaf": 1, "min_data_in_bin": 1}

    def fit_alone(self, params: dict[str, Any], X: Any, y: Any, rounds: int, **given: Any) -> Any:
        params = {k: v for k, v in params.items() if k != "engine"}
        init_model = given.pop("init_model", None)
        return lgb.train(params, lgb.Dataset(X, y, **given), rounds, init_model=init_model)

    def row_sampling(self, params: dict[str, Any], n: int, n_virtual: int) -> dict[str, Any]:
        share = n / n_virtual
        # At one half and below LightGBM copies each bag; pucboost stays just above.
        just_above = 0.49 <= share <= 0.5 and n_virtual > 100
        return {"bagging_freq": 1, "bagging_fraction": 0.5 + 2 / n_virtual if just_above else share}

    def fit_recorded(self, params: dict[str, Any], train: Any, rounds: int, valid_sets: Any, *args: Any) -> Any:
        record: dict[str, Any] = {}
        callbacks = [lgb.record_evaluation(record)]
        booster = puc.train(params, train, rounds, valid_sets, *args, callbacks=callbacks)
        return booster, {name: dict(metrics) for name, metrics in record.items()}

    def nothing_to_watch(self, params: dict[str, Any]) -> dict[str, Any]:
        return {**params, "metric": "None"}

    def predict(self, booster: Any, X: Any, raw: bool = False) -> Any:
        return booster.predict(X, raw_score=raw)

    def trees(self, booster: Any) -> Any:
        text = without_ranges(booster.model_to_string())  # models under consent have none
        return text[: text.index("\nparameters:")]

    def model(self, booster: Any) -> Any:
        lines = without_ranges(booster.model_to_string()).splitlines()
        return "\n".join(line for line in lines if not line.startswith("[pucboost: ]"))  # LightGBM alone has no schema

    def rounds(self, booster: Any) -> int:
        return int(booster.current_iteration())

    def feature_names(self, booster: Any) -> list[str]:
        return list(booster.feature_name())


class _XGBoost(EngineKit):
    def leaf_hessian(self, least: float) -> dict[str, Any]:
        return {"min_child_weight": least}

    def fit_alone(self, params: dict[str, Any], X: Any, y: Any, rounds: int, **given: Any) -> Any:
        params = {k: v for k, v in params.items() if k != "engine"}
        matrix = xgb.QuantileDMatrix(
            X,
            y,
            weight=given.get("weight"),
            base_margin=given.get("init_score"),
            max_bin=params.get("max_bin", 256),
            enable_categorical=True,
        )
        return xgb.train(params, matrix, rounds, xgb_model=given.get("init_model"))

    def continued(self, params: dict[str, Any], init_model: Any) -> dict[str, Any]:
        # Under the old seed XGBoost would not seed its draws again.
        return {"seed": child_seed(params["seed"], init_model.num_boosted_rounds()) % 2**31}

    def row_sampling(self, params: dict[str, Any], n: int, n_virtual: int) -> dict[str, Any]:
        return {"subsample": params.get("subsample", 1.0) * n / n_virtual}

    def predict(self, booster: Any, X: Any, raw: bool = False) -> Any:
        return booster.predict(xgb.DMatrix(X, enable_categorical=True), output_margin=raw)

    def trees(self, booster: Any) -> Any:
        model = json.loads(booster.save_raw("json"))["learner"]
        return model["gradient_booster"], model["learner_model_param"], model["feature_names"]

    def rounds(self, booster: Any) -> int:
        return int(booster.num_boosted_rounds())

    def best_rounds(self, booster: Any) -> int:
        return int(booster.best_iteration) + 1

    def feature_names(self, booster: Any) -> list[str]:
        return list(booster.feature_names)


@dataclass(frozen=True)
class _Materialised(VirtualTable):
    """A virtual table in memory, as if each of its rows were a person who has nothing to withhold."""

    share: float

    @classmethod
    def of(cls, virtual: VirtualTable) -> _Materialised:
        """The rows are in the order of the pool, by which the native engine draws bags."""
        place = np.empty(len(virtual), dtype=np.int64)
        place[People.of(virtual).pool_rows(1)] = np.arange(len(virtual))
        weight, scores = virtual.weight(), virtual.init_score()
        table = replace(
            virtual.table,
            source=ArraySource(virtual.rows.materialise()[place], virtual.table.source.columns),
            label=virtual.label()[place],
            weight=None if weight is None else weight[place],
            init_score=None if scores is None else scores[place],
            available=None,
            data=None,
        )
        nobody = np.zeros(len(virtual), dtype=np.uint64)
        rows = shown_table(table, Consent({}, tuple(table.names)), nobody, virtual.rows.threads).rows
        return cls(rows, table, virtual.share_per_tree)

    @property
    def share_per_tree(self) -> float:
        return self.share


class _Native(_LightGBM):
    """pucboost grows the trees itself, so the engine alone is pucboost with nothing optional."""

    def fit_alone(self, params: dict[str, Any], X: Any, y: Any, rounds: int, **given: Any) -> Any:
        init_model = given.pop("init_model", None)
        return puc.train(params, puc.Dataset(X, y, **given), rounds, init_model=init_model)

    def fit_table(
        self,
        X: Any,
        y: Any,
        rounds: int,
        *,
        mask_seed: int | None = None,
        weight: Any = None,
        init_score: Any = None,
        init_model: Any = None,
        **params: Any,
    ) -> Any:
        """The oracle of law 3: the same grower on the materialised table, every virtual row a person of its own.

        Bins are those of the people, and trees may begin with what the people may withhold.
        """
        params = {**self.params, "optional": OPTIONAL, **params}
        data = puc.Dataset(X, y, weight=weight, init_score=init_score)
        request = TrainingRequest.read(params, data, rounds)
        assert request is not None
        training = Training.of(request, seed=mask_seed)
        virtual = run(training, *TABLE_STEPS, plan, *VIRTUAL_STEPS).virtual
        of_people, comes_first = beginning.bins_and_layout, grower._comes_first
        groups: list[Any] = []
        begins = request.params.silence_first and virtual.rows.plan.scheme != "none"

        def without_groups(_: Any, *given: Any) -> Any:
            bins, layout = of_people(virtual, *given)
            groups.append(layout.group)
            return bins, replace(layout, group=np.full_like(layout.group, -1))

        def as_of_people(bins: Any, layout: Any, growth: Any, monotone: Any) -> Any:
            return comes_first(bins, replace(layout, group=groups[-1]), replace(growth, silence_first=begins), monotone)

        with (
            patch.object(beginning, "bins_and_layout", without_groups),
            patch.object(grower, "_comes_first", as_of_people),
        ):
            return request.engine.train(_Materialised.of(virtual), request.params, None, Hooks(init_model=init_model))


LIGHTGBM = _LightGBM(
    name="lightgbm",
    module=lgb,
    quiet={"verbosity": -1, "num_threads": 2, "deterministic": True, "force_row_wise": True},
    threads="num_threads",
    objectives={name: name for name in ("binary", "l2", "multiclass", "poisson", "gamma", "tweedie", "quantile")},
    metrics={"binary": "binary_logloss", "l2": "l2"},
    small_trees={"num_leaves": 15},
    tiny_trees={"num_leaves": 8},
    one_leaf={"min_data_in_leaf": 10**6},
    start_at_zero={"boost_from_average": False},
    custom_start_at_zero={},
    alone=[
        {**objective, **kind, **extra}
        for objective in ({}, {"objective": "regression_l1", "bagging_fraction": 0.7, "bagging_freq": 2})
        for kind in ({}, {"num_iterations": 7}, {"boosting": "dart", "n_estimators": 6})
        for extra in ({}, {"seed": 3, "max_bin": 31})
    ]
    + [
        {"objective": objective, "data_sample_strategy": "goss", **extra}
        for objective in ("binary", "regression_l1")
        for extra in ({}, {"seed": 3, "max_bin": 31})
    ],
    few_for_bins={"bin_construct_sample_cnt": 5_000},
    bytes_per_row=14 + 70,
)
XGBOOST = _XGBoost(
    name="xgboost",
    module=xgb,
    quiet={"verbosity": 0, "nthread": 2, "learning_rate": 0.1, "max_depth": 6},
    threads="nthread",
    objectives={
        "binary": "binary:logistic",
        "l2": "reg:squarederror",
        "multiclass": "multi:softprob",
        "poisson": "count:poisson",
        "gamma": "reg:gamma",
        "tweedie": "reg:tweedie",
        "quantile": "reg:quantileerror",
    },
    metrics={"binary": "logloss", "l2": "rmse"},
    small_trees={"max_depth": 4},
    tiny_trees={"max_depth": 3},
    one_leaf={"max_depth": 1, "gamma": 1e9},
    start_at_zero={"base_score": 0.5},
    custom_start_at_zero={"base_score": 0.0},
    alone=[
        {},
        {"seed": 3, "max_bin": 31},
        {"objective": "reg:absoluteerror", "subsample": 0.7},
        {"booster": "dart", "rate_drop": 0.2, "seed": 3},
    ],
    bytes_per_row=14 + 110,
)
NATIVE = _Native(
    name="native",
    module=lgb,
    quiet={"verbosity": -1, "num_threads": 2},
    threads="num_threads",
    objectives=LIGHTGBM.objectives,
    metrics=LIGHTGBM.metrics,
    small_trees=LIGHTGBM.small_trees,
    tiny_trees=LIGHTGBM.tiny_trees,
    one_leaf=LIGHTGBM.one_leaf,
    start_at_zero=LIGHTGBM.start_at_zero,
    custom_start_at_zero=LIGHTGBM.custom_start_at_zero,
    alone=[
        {"seed": 3, "max_bin": 31},
        {"objective": "quantile", "bagging_fraction": 0.7, "bagging_freq": 2, "num_iterations": 7},
    ],
    few_for_bins=LIGHTGBM.few_for_bins,
    bytes_per_row=14 + 70,
)
_BY_NAME = {kit.name: kit for kit in (LIGHTGBM, XGBOOST, NATIVE)}
KITS: list[EngineKit] = [_BY_NAME[name] for name in ENGINES]  # an engine without a kit fails here
every_engine = pytest.mark.parametrize("kit", KITS, ids=str)
every_distributed_engine = pytest.mark.parametrize("kit", [kit for kit in KITS if kit is not NATIVE], ids=str)
"""Engines whose workers find each other; the native one refuses a shared plan by name."""


def logistic(preds: Any, data: Any) -> tuple[Any, Any]:
    """A callable objective for two classes that applies the user's weights, as the engines demand."""
    p = 1 / (1 + np.exp(-preds.astype(np.float64)))
    gradient, hessian = p - data.get_label(), p * (1 - p)
    weight = data.get_weight()
    if weight is not None and len(weight):
        gradient, hessian = gradient * weight, hessian * weight
    return gradient, hessian
