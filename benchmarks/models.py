"""The models the studies compare, behind one call: scikit-learn by ``puc.augment``, the engines by ``puc.train``.

Variants: ``base`` drops the optional columns, ``full`` is what people do if they ignore consent (missing values filled
with zero and an indicator for scikit-learn, left missing for the engines), and ``fixed``, ``exhaustive`` and
``balanced`` are trained under Protected User Consent.

A forest draws as many rows for each bag as there are virtual rows. Each bag then holds some copy of almost everybody
who shares, the trees resemble each other and the forest overfits. "Bags of N" draws as many rows as there are people
(``max_samples``), which is what a forest does without consent.

In either bag, sharers are present more often than the silent, because they have more copies that can be drawn. Where a
fully grown tree has not split off silence, its leaves hold a few people, too many of them sharers, and the silent are
told a little of what sharers get. "Bags of people" draws people, each with all their copies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import pucboost as puc
from pucboost._virtual.plan import default_copies

from .harness.study import THREADS, Array, Rows

PUC_SCHEMES = ("fixed", "exhaustive", "balanced")
VARIANTS = ("base", "full", *PUC_SCHEMES)
ENGINES = ("LightGBM", "XGBoost")  # those of the studies of the method
NATIVE = "native"  # compared with LightGBM in a study of its own
BOOSTED = (*ENGINES, NATIVE)
BAGGED_FOREST = "Random Forest, bags of N"
SAME_BAGS = ("base", "full", "fixed")
PEOPLES_FOREST = "Random Forest, bags of people"
SCIKIT = ("Random Forest", BAGGED_FOREST, "Extra Trees", "Gradient Boosting")
ROUNDS = 200
MANY_LEVELS = 20  # categories with more levels become codes, as in the paper's source of the income data
_PARAMS: dict[str, dict[str, Any]] = {
    "LightGBM": {
        "engine": "lightgbm",
        "num_leaves": 15,
        "learning_rate": 0.05,
        "verbosity": -1,
        "force_row_wise": True,
    },
    NATIVE: {"engine": "native", "num_leaves": 15, "learning_rate": 0.05, "verbosity": -1},
    "XGBoost": {"engine": "xgboost", "max_depth": 4, "learning_rate": 0.05, "verbosity": 0, "tree_method": "hist"},
}

_OBJECTIVES = {
    "LightGBM": {True: "binary", False: "regression"},
    NATIVE: {True: "binary", False: "regression"},
    "XGBoost": {True: "binary:logistic", False: "reg:squarederror"},
}


def variants_of(model: str, variants: Sequence[str]) -> list[str]:
    """Return the variants to train: bags of N differ from default bags only if there are more rows than people."""
    return [variant for variant in variants if model != BAGGED_FOREST or variant not in SAME_BAGS]


def with_same_bags(rows: Rows) -> Rows:
    """Return rows, repeating those of the default forest that also hold for the forest with bags of N."""
    asked = {(row["data"], row["run"]) for row in rows if row["model"] == BAGGED_FOREST}
    return rows + [
        {**row, "model": BAGGED_FOREST}
        for row in rows
        if row["model"] == "Random Forest" and row["variant"] in SAME_BAGS and (row["data"], row["run"]) in asked
    ]


@dataclass
class Fitted:
    """A trained model: ``predict`` gives the probability of class 1 or the mean."""

    predict: Callable[[pd.DataFrame], Array]
    virtual_rows: float = 1.0  # per row
    seconds: float = 0.0


@dataclass(frozen=True)
class Encoder:
    """Turns a table into numbers for scikit-learn: few categories one-hot, many as codes, missing values filled."""

    optional: tuple[str, ...]
    fill: dict[str, float] = field(default_factory=dict)  # per optional column; base columns get 0
    indicators: bool = True

    def encode(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return numbers, optional columns still NaN where withheld."""
        parts: dict[Any, Any] = {}
        for column in X:
            values = X[column]
            if not isinstance(values.dtype, pd.CategoricalDtype):
                parts[column] = values if column in self.optional else values.fillna(0.0)
            elif len(values.cat.categories) > MANY_LEVELS:
                parts[column] = values.cat.codes.astype(float)
            else:
                parts.update({f"{column}={level}": (values == level).astype(float) for level in values.cat.categories})
        return pd.DataFrame(parts)

    def complete(self, encoded: pd.DataFrame) -> Array:
        """Return the encoded table with withheld values filled, followed by indicators of sharing."""
        shared = encoded[list(self.optional)].notna().to_numpy(float)
        filled = encoded.fillna({column: self.fill.get(column, 0.0) for column in self.optional}).to_numpy(float)
        return np.hstack([filled, shared]) if self.indicators else filled


def fit(
    model: str, variant: str, X: pd.DataFrame, y: Array, optional: list[str], *,
    is_classification: bool, seed: int, imputation: str = "zero", indicators: bool = True, **changed: Any,
) -> Fitted:  # fmt: skip
    """Train a model in one variant; ``changed`` are parameters of the learner.

    ``imputation`` ("zero", "mean", "median") and ``indicators`` say what scikit-learn's models see of withheld values.
    """
    start = time.perf_counter()
    train = _fit_engine if model in BOOSTED else _fit_scikit
    extra = {} if model in BOOSTED else {"imputation": imputation, "indicators": indicators}
    fitted = train(model, variant, X, y, optional, is_classification, seed, changed=changed, **extra)
    fitted.seconds = time.perf_counter() - start
    return fitted


def _fit_engine(
    model: str, variant: str, X: pd.DataFrame, y: Array, optional: list[str], is_classification: bool, seed: int, *,
    changed: dict[str, Any],
) -> Fitted:  # fmt: skip
    params = {
        "objective": _OBJECTIVES[model][is_classification], **_PARAMS[model], "seed": seed,
        "nthread" if model == "XGBoost" else "num_threads": THREADS, **changed,
    }  # fmt: skip
    if model == NATIVE and variant == "balanced":
        params.setdefault("copies", default_copies(len(y)))  # as many as the others have
    rounds = params.pop("rounds", ROUNDS)
    if variant == "base":
        seen = [column for column in X if column not in optional]
        booster = puc.train({**params, "augmentation": "none"}, puc.Dataset(X[seen], y), rounds)
        return Fitted(lambda table: predict_booster(booster, table[seen]))
    scheme = "none" if variant == "full" else variant
    booster = puc.train({**params, "optional": optional, "augmentation": scheme}, puc.Dataset(X, y), rounds)
    per_row = 1.0 if variant == "full" else booster.puc_summary.virtual_rows / len(y)
    return Fitted(lambda table: predict_booster(booster, table), per_row)


def predict_booster(booster: Any, table: Any) -> Array:
    """Return the prediction of a booster of either engine, with or without consent."""
    if getattr(booster, "consent", None) is not None:
        return np.asarray(puc.predict(booster, table, num_threads=THREADS))
    if isinstance(booster, xgb.Booster):
        table = xgb.DMatrix(table, enable_categorical=True, nthread=THREADS)
    return np.asarray(booster.predict(table))


def _fit_scikit(
    model: str, variant: str, X: pd.DataFrame, y: Array, optional: list[str], is_classification: bool, seed: int, *,
    imputation: str, indicators: bool, changed: dict[str, Any],
) -> Fitted:  # fmt: skip
    if model == BAGGED_FOREST:
        changed = {"max_samples": len(y), **changed}
    estimator = scikit_model(model, is_classification, seed, changed)
    if variant == "base":
        seen = [column for column in X if column not in optional]
        encoder = Encoder((), indicators=False)
        _train(estimator, encoder.encode(X[seen]).to_numpy(), y)
        return Fitted(lambda table: predict_scikit(estimator, encoder.encode(table[seen]).to_numpy()))
    fill = {} if imputation == "zero" else X[optional].agg(imputation).to_dict()
    encoder = Encoder(tuple(optional), fill, indicators)
    encoded = encoder.encode(X)
    if variant == "full":
        _train(estimator, encoder.complete(encoded), y)
        per_row = 1.0
    else:
        virtual, labels, weight, source = puc.augment(
            encoded, y, optional=optional, augmentation=variant, seed=seed, num_threads=THREADS
        )
        _train(estimator, encoder.complete(virtual), labels, weight, source)
        per_row = len(labels) / len(y)
    return Fitted(lambda table: predict_scikit(estimator, encoder.complete(encoder.encode(table))), per_row)


def _train(estimator: Any, X: Array, y: Array, weight: Array | None = None, source: Array | None = None) -> None:
    """Train on rows; ``source`` says whose copies they are, which only bags of people need."""
    if isinstance(estimator, PeoplesForest):
        estimator.fit(X, y, weight, source)
    else:
        estimator.fit(X, y, sample_weight=weight)


class PeoplesForest:
    """A random forest whose bags draw people, each with all their copies."""

    def __init__(self, is_classification: bool, seed: int, n_estimators: int = 100) -> None:
        kind = RandomForestClassifier if is_classification else RandomForestRegressor
        self._rng = np.random.default_rng(seed)
        # A tree is a forest of one, so that its parameters are a forest's.
        self._trees = [kind(1, bootstrap=False, random_state=seed * n_estimators + k) for k in range(n_estimators)]

    def fit(self, X: Array, y: Array, weight: Array | None = None, source: Array | None = None) -> None:
        """Grow the trees; ``source`` tells whose copy each row is."""
        source = np.arange(len(y)) if source is None else source
        n = int(source.max()) + 1
        for tree in self._trees:
            times_drawn = np.bincount(self._rng.integers(0, n, n), minlength=n)[source]
            tree.fit(X, y, sample_weight=times_drawn * (1.0 if weight is None else weight))

    def predict(self, X: Array) -> Array:
        """Return the mean of the trees: the probability of class 1, or the value."""
        return np.asarray(np.mean([predict_scikit(tree, X) for tree in self._trees], axis=0))


def scikit_model(model: str, is_classification: bool, seed: int, changed: dict[str, Any]) -> Any:
    """Return the paper's models with the paper's parameters."""
    if model == PEOPLES_FOREST:
        return PeoplesForest(is_classification, seed, **changed)
    kinds: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "Random Forest": (RandomForestClassifier, RandomForestRegressor, {"n_jobs": THREADS}),
        BAGGED_FOREST: (RandomForestClassifier, RandomForestRegressor, {"n_jobs": THREADS}),
        "Extra Trees": (ExtraTreesClassifier, ExtraTreesRegressor, {"n_jobs": THREADS, "min_samples_split": 10}),
        "Gradient Boosting": (GradientBoostingClassifier, GradientBoostingRegressor, {"min_samples_split": 10}),
    }
    classifier, regressor, params = kinds[model]
    return (classifier if is_classification else regressor)(**{**params, "random_state": seed, **changed})


def predict_scikit(estimator: Any, table: Array) -> Array:
    """Return the probability of class 1 (0 if the model has not seen it), or the value if there are no classes."""
    if not hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict(table), dtype=np.float64)
    classes = list(estimator.classes_)
    return np.asarray(estimator.predict_proba(table))[:, classes.index(1)] if 1 in classes else np.zeros(len(table))


def loss(y: Array, prediction: Array, is_classification: bool) -> float:
    """Return the paper's loss: misclassified people in %, or the mean squared error × 100."""
    wrong = (prediction > 0.5) != (y > 0.5) if is_classification else (prediction - y) ** 2
    return 100 * float(np.mean(wrong))
