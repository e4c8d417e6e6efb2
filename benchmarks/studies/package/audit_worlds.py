"""People whose justified predictions are known, where an audit is hard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.harness.types import Array
from pucboost._auditing.estimate.losses import Loss
from pucboost.simulate import DiscreteFamily

MANY = 1_000_000
"""People from whom the true penalty of a wrong model is computed."""


@dataclass(frozen=True)
class Drawn:
    """A sample: table, outcomes, and what else ``puc.audit`` is told."""

    X: Array
    y: Array
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class World:
    """Where people come from, the model to audit, and its true penalties by name of the set (0 if not named)."""

    name: str
    rows: int
    draw: Callable[[int, int], Drawn]
    model: Callable[[Array], Array]
    optional: tuple[int, ...]
    loss: Loss
    penalty: Callable[[], dict[str, float]] = dict


def expit(x: Array) -> Array:
    """Return 1 / (1 + e^−x)."""
    return np.asarray(1 / (1 + np.exp(-x)))


def discrete(groups: int, family: int, rows: int) -> World:
    """Discrete features, availability that depends on outcome and on other groups."""
    law = DiscreteFamily.random(2, groups, seed=family)

    def draw(n: int, seed: int) -> Drawn:
        people = law.sample(n, seed)
        return Drawn(people.X, people.y)

    name = f"discrete, r={groups}, family {family}"
    return World(name, rows, draw, law.puc_prediction, tuple(law.optional), Loss("binary"))


def one_group(
    name: str,
    rows: int,
    loss: str,
    outcome: Callable[[Array, np.random.Generator], tuple[Array, Array, dict[str, Any]]],
    justified: Callable[[Array], Array],
    columns: int = 4,
) -> World:
    """Return a world with one optional group; ``outcome`` gives outcomes, who withholds, and options."""

    def draw(n: int, seed: int) -> Drawn:
        rng = np.random.default_rng(seed)
        b = rng.normal(size=(n, columns))
        y, withheld, options = outcome(b, rng)
        z = np.where(withheld, np.nan, rng.normal(size=n))
        return Drawn(np.column_stack([b, z]), y, options)

    return World(name, rows, draw, lambda X: justified(X[:, :columns]), (columns,), Loss(loss))


def weak_features(rows: int) -> World:
    """Fifty weak base features; outcome and availability follow the same index."""
    slope = np.full(50, 1 / np.sqrt(50))

    def outcome(b: Array, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
        index = b @ slope
        y = rng.random(len(b)) < expit(index - 0.5)
        return y.astype(float), rng.random(len(b)) < expit(index - 0.3 + 0.8 * (y - 0.4)), {}

    return one_group("50 weak features", rows, "binary", outcome, lambda b: expit(b @ slope - 0.5), 50)


def lognormal(sigma: float, rows: int) -> World:
    """Amounts; those with large ones withhold more often."""

    def outcome(b: Array, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
        noise = rng.normal(size=len(b))
        y = np.exp(0.3 * b[:, 0] + sigma * noise - sigma**2 / 2)
        return y, rng.random(len(b)) < expit(0.5 * b[:, 0] + 0.5 * np.sign(noise) - 0.3), {}

    return one_group(f"lognormal, σ={sigma:g}", rows, "squared", outcome, lambda b: np.exp(0.3 * b[:, 0]))


def poisson(rows: int) -> World:
    """Claims over an exposure."""

    def rate(b: Array) -> Array:
        return np.asarray(0.1 * np.exp(0.5 * b[:, 0] + 0.3 * b[:, 1]))

    def outcome(b: Array, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
        exposure = rng.uniform(0.1, 1, len(b))
        claims = rng.poisson(rate(b) * exposure)
        # Whether people withhold must not depend on the exposure, else rates differ between those who do and do not.
        return claims.astype(float), rng.random(len(b)) < expit(0.5 * b[:, 0] - 0.3), {"exposure": exposure}

    return one_group("Poisson with exposure", rows, "poisson", outcome, rate)


def events(rows: int) -> World:
    """One event in a hundred; those with one withhold more often."""

    def chance(b: Array) -> Array:
        return np.asarray(np.minimum(0.01 * np.exp(0.5 * b[:, 0] - 0.125), 0.5))

    def outcome(b: Array, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
        y = rng.random(len(b)) < chance(b)
        return y.astype(float), rng.random(len(b)) < expit(0.5 * b[:, 0] - 0.3 + 0.8 * y), {}

    return one_group("1 % events", rows, "binary", outcome, chance)


def clustered(clusters: int, rows: int) -> World:
    """Rows that come in clusters, in outcome and in availability."""

    def outcome(b: Array, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
        cluster = rng.integers(0, clusters, len(b))
        level, habit = rng.normal(size=(2, clusters))
        y = b[:, 0] + 0.5 * level[cluster] + rng.normal(size=len(b))
        return y, rng.random(len(b)) < expit(0.5 * b[:, 0] + 0.8 * habit[cluster]), {"clusters": cluster}

    return one_group(f"{clusters} clusters", rows, "squared", outcome, lambda b: b[:, 0])


def _claims(b: Array) -> Array:
    return expit(0.8 * b[:, 0] + 0.4 * b[:, 1] - 0.7)


def _withhold(b: Array, y: Array) -> Array:
    return expit(0.6 * b[:, 0] - 0.4 + 0.8 * y)


def _claims_and_silence(b: Array, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
    y = (rng.random(len(b)) < _claims(b)).astype(float)
    return y, rng.random(len(b)) < _withhold(b, y), {}


def weighted(rows: int) -> World:
    """Whoever withholds counts three times, in the outcome that is justified as well."""

    def outcome(b: Array, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
        y, withheld, _ = _claims_and_silence(b, rng)
        return y, withheld, {"weight": 1.0 + 2.0 * withheld}

    def justified(b: Array) -> Array:
        p = _claims(b)
        yes, no = (p_y * (1 + 2 * _withhold(b, np.full(len(b), y))) for p_y, y in ((p, 1.0), (1 - p, 0.0)))
        return np.asarray(yes / (yes + no))

    return one_group("weights tied to availability", rows, "binary", outcome, justified)


def wrong(kind: str, rows: int) -> World:
    """A wrong model of claims: a surcharge on silence, silence read, or opposite penalties that cancel."""
    world = one_group(f"wrong model: {kind}", rows, "binary", _claims_and_silence, _claims)

    def model(X: Array) -> Array:
        b, silent = X[:, :4], np.isnan(X[:, 4])
        p = _claims(b)
        if kind == "surcharge":
            told = np.minimum(p + 0.05, 1)
        elif kind == "reads silence":
            yes, no = (q * _withhold(b, np.full(len(b), y)) for q, y in ((p, 1.0), (1 - p, 0.0)))
            told = yes / (yes + no)
        else:
            told = np.clip(p + np.where(b[:, 2] > 0, 0.08, -0.08), 0, 1)
        return np.where(silent, told, p)

    @lru_cache(maxsize=1)
    def penalty() -> dict[str, float]:
        people = world.draw(MANY, 2**31)
        silent = np.isnan(people.X[:, 4])
        return {"nothing": float((model(people.X) - world.model(people.X))[silent].mean())}

    return World(world.name, rows, world.draw, model, world.optional, world.loss, penalty)


def worlds() -> list[World]:
    """Return all worlds, the dear ones last."""
    return [
        *(discrete(2, family, 3_000) for family in (0, 1, 2)),
        poisson(6_000),
        events(6_000),
        lognormal(1, 6_000),
        wrong("surcharge", 6_000),
        wrong("reads silence", 6_000),
        clustered(40, 2_000),
        weighted(4_000),
        weak_features(2_000),
        events(2_500),
        lognormal(2, 6_000),
        clustered(400, 2_000),
        wrong("opposite", 6_000),
        discrete(4, 0, 6_000),
        discrete(2, 0, 20_000),
        *(discrete(4, family, 6_000) for family in (1, 2)),
    ]
