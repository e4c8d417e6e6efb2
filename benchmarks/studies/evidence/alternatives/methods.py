"""The methods compared: every way to treat optional columns, all with LightGBM."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from benchmarks import models
from benchmarks.harness.types import Array, Row

Predict = Callable[[pd.DataFrame], Array]
DROPOUT_COPIES = 4
PLAIN = "plain LightGBM"


@dataclass(frozen=True)
class Training:
    """The people a method learns from, and the settings all methods share."""

    X: pd.DataFrame
    y: Array
    optional: list[str]
    seed: int
    rounds: int
    engine: str = "LightGBM"

    @property
    def base(self) -> list[str]:
        """Return the columns everybody gives."""
        return [str(column) for column in self.X if column not in self.optional]

    def learn(self, X: pd.DataFrame, y: Array, variant: str = "full") -> Predict:
        """Train the engine on a table made from the people; prediction uses only its columns."""
        seen = list(X)
        optional = [column for column in self.optional if column in seen] if variant in models.PUC_SCHEMES else []
        fitted = models.fit(
            self.engine, variant if optional else "base", X, y, optional, is_classification=True, seed=self.seed,
            rounds=self.rounds,
        )  # fmt: skip
        return lambda table: fitted.predict(table[seen])


@dataclass(frozen=True)
class Trained:
    """A trained method: how it predicts, and how many models it needs."""

    predict: Predict
    n_models: int = 1


def shared_sets(X: pd.DataFrame, optional: Sequence[str]) -> Array:
    """Return what each person shares, one bit per optional column."""
    return np.asarray(X[list(optional)].notna().to_numpy() @ (1 << np.arange(len(optional))))


def _pucboost(people: Training, scheme: str) -> Trained:
    return Trained(people.learn(people.X, people.y, scheme))


def _imputation(people: Training, indicators: bool) -> Trained:
    means = people.X[people.optional].mean()

    def complete(table: pd.DataFrame) -> pd.DataFrame:
        filled = table.fillna(means)
        flags = {f"{column}_shared": table[column].notna().astype(float) for column in people.optional}
        return filled.assign(**flags) if indicators else filled

    model = people.learn(complete(people.X), people.y)
    return Trained(lambda table: model(complete(table)))


def _dropout(people: Training) -> Trained:
    """Erase each optional value with probability ½ in each copy; all copies weigh the same."""
    rng = np.random.default_rng(people.seed)
    shape = (len(people.X), len(people.optional))
    copies = []
    for _ in range(DROPOUT_COPIES):
        copy = people.X.copy()
        copy[people.optional] = copy[people.optional].mask(rng.random(shape) < 0.5)
        copies.append(copy)
    model = people.learn(pd.concat(copies, ignore_index=True), np.tile(people.y, DROPOUT_COPIES))
    return Trained(model)


def _router(people: Training) -> Trained:
    everything = people.X[people.optional].notna().all(axis=1).to_numpy()
    base = people.learn(people.X[people.base], people.y)
    full = people.learn(people.X[everything], people.y[everything]) if everything.any() else base

    def predict(table: pd.DataFrame) -> Array:
        shares_all = table[people.optional].notna().all(axis=1).to_numpy()
        out = np.empty(len(table))
        for who, model in ((shares_all, full), (~shares_all, base)):
            if who.any():
                out[who] = model(table[who])
        return out

    return Trained(predict, 2)


def _one_per_set(people: Training, exactly: bool) -> Trained:
    """Train a model for every set that someone shares, on those who share exactly or at least that set."""
    shared = shared_sets(people.X, people.optional)
    of_set: dict[int, Predict] = {}
    for one in np.unique(shared):
        who = shared == one if exactly else (shared & one) == one
        columns = [*people.base, *(column for g, column in enumerate(people.optional) if one >> g & 1)]
        of_set[int(one)] = people.learn(people.X.loc[who, columns], people.y[who])
    # People may share a set that training never saw.
    otherwise = of_set[0] if 0 in of_set else people.learn(people.X[people.base], people.y)

    def predict(table: pd.DataFrame) -> Array:
        sets, out = shared_sets(table, people.optional), np.empty(len(table))
        for one in np.unique(sets):
            out[sets == one] = of_set.get(int(one), otherwise)(table[sets == one])
        return out

    return Trained(predict, len(of_set))


METHODS: dict[str, Callable[[Training], Trained]] = {
    PLAIN: lambda people: Trained(people.learn(people.X, people.y)),
    "mean imputation": lambda people: _imputation(people, indicators=False),
    "mean imputation + indicators": lambda people: _imputation(people, indicators=True),
    "random dropout, 4 copies": _dropout,
    "base features only": lambda people: Trained(people.learn(people.X[people.base], people.y)),
    "router: all shared / base": _router,
    "model per set, from those who share exactly it": lambda people: _one_per_set(people, exactly=True),
    "model per set, from all who share it": lambda people: _one_per_set(people, exactly=False),
    "pucboost, balanced (default)": lambda people: _pucboost(people, "balanced"),
    "pucboost, exhaustive": lambda people: _pucboost(people, "exhaustive"),
}

MORE_TREES = "pucboost, balanced, 4 × the trees"
ON_SIMULATED: dict[str, Callable[[Training], Trained]] = {
    **METHODS,
    MORE_TREES: lambda people: _pucboost(replace(people, rounds=4 * people.rounds), "balanced"),
}


def train_all(people: Training, methods: Mapping[str, Callable[[Training], Trained]]) -> dict[str, tuple[Trained, Row]]:
    """Train every method, each right after the plain engine, with which its time is compared."""
    done: dict[str, tuple[Trained, Row]] = {}
    _pucboost(people, "balanced")  # compiles, or loads, the kernels
    for name, method in methods.items():
        before = time.perf_counter()
        METHODS[PLAIN](people)
        between = time.perf_counter()
        trained = method(people)
        took = time.perf_counter() - between
        plain = between - before
        done[name] = trained, {"models": trained.n_models, "seconds": took, "ratio to plain": took / plain}
    return done
