"""People whose justified predictions are known, where an audit is hard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from benchmarks.harness.study import Array
from pucboost._auditing.people import Loss
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
    """Where people come from, the model to audit, and what is true.

    ``justified`` and ``share`` are the true g and e of rows masked to some set, by which the set is recognised.
    ``penalty`` are the true penalties by name of the set (0 if not named). ``audits`` is how many there are to be.
    """

    name: str
    rows: int
    draw: Callable[[int, int], Drawn]
    model: Callable[[Array], Array]
    justified: Callable[[Array], Array]
    share: Callable[[Array], Array]
    optional: tuple[int, ...]
    loss: Loss
    penalty: Callable[[], dict[str, float]] = dict
    audits: int = 200


def expit(x: Array) -> Array:
    """Return 1 / (1 + e^−x)."""
    return np.asarray(1 / (1 + np.exp(-x)))


def discrete(groups: int, family: int, rows: int) -> World:
    """Discrete features, availability that depends on outcome and on other groups."""
    law = DiscreteFamily.random(2, groups, seed=family)

    def draw(n: int, seed: int) -> Drawn:
        people = law.sample(n, seed)
        return Drawn(people.X, people.y)

    def share(X: Array) -> Array:
        seen, at_least = (table.sum(axis=1) for table in law._observed)
        return law._looked_up(seen / at_least, X[:, : law.n_base], X[:, law.n_base :])

    name, model = f"discrete, r={groups}, family {family}", law.puc_prediction
    return World(name, rows, draw, model, model, share, tuple(law.optional), Loss("binary"))


def one_group(
    name: str,
    rows: int,
    loss: str,
    outcome: Callable[[Array, np.random.Generator], tuple[Array, Array, dict[str, Any]]],
    justified: Callable[[Array], Array],
    share: Callable[[Array], Array],
    columns: int = 4,
    audits: int = 200,
) -> World:
    """Return a world with one optional group; ``outcome`` gives outcomes, who withholds, and options.

    ``justified`` and ``share`` give E[Y | b] and P(withheld | b), both weighted if people are.
    """

    def draw(n: int, seed: int) -> Drawn:
        rng = np.random.default_rng(seed)
        b = rng.normal(size=(n, columns))
        y, withheld, options = outcome(b, rng)
        z = np.where(withheld, np.nan, rng.normal(size=n))
        return Drawn(np.column_stack([b, z]), y, options)

    def told(X: Array) -> Array:
        return justified(X[:, :columns])

    return World(name, rows, draw, told, told, lambda X: share(X[:, :columns]), (columns,), Loss(loss), audits=audits)


def _either(chance: Callable[[Array], Array], withhold: Callable[[Array, Array], Array], b: Array) -> Array:
    """Return P(withheld | b) of people who have Y = 1 with chance(b) and then withhold with withhold(b, Y)."""
    p = chance(b)
    yes, no = (withhold(b, np.full(len(b), y)) for y in (1.0, 0.0))
    return np.asarray(p * yes + (1 - p) * no)


def weak_features(rows: int) -> World:
    """Fifty weak base features; outcome and availability follow the same index."""
    slope = np.full(50, 1 / np.sqrt(50))

    def chance(b: Array) -> Array:
        return expit(b @ slope - 0.5)

    def withhold(b: Array, y: Array) -> Array:
        return expit(b @ slope - 0.3 + 0.8 * (y - 0.4))

    def outcome(b: Array, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
        y = rng.random(len(b)) < chance(b)
        return y.astype(float), rng.random(len(b)) < withhold(b, y), {}

    share = partial(_either, chance, withhold)
    return one_group("50 weak features", rows, "binary", outcome, chance, share, 50)


def lognormal(sigma: float, rows: int) -> World:
    """Amounts; those with large ones withhold more often."""

    def withhold(b: Array, large: Array) -> Array:
        return expit(0.5 * b[:, 0] + 0.5 * large - 0.3)

    def outcome(b: Array, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
        noise = rng.normal(size=len(b))
        y = np.exp(0.3 * b[:, 0] + sigma * noise - sigma**2 / 2)
        return y, rng.random(len(b)) < withhold(b, np.sign(noise)), {}

    def share(b: Array) -> Array:
        return (withhold(b, np.ones(len(b))) + withhold(b, -np.ones(len(b)))) / 2

    return one_group(f"lognormal, σ={sigma:g}", rows, "squared", outcome, lambda b: np.exp(0.3 * b[:, 0]), share)


def poisson(rows: int) -> World:
    """Claims over an exposure."""

    def rate(b: Array) -> Array:
        return np.asarray(0.1 * np.exp(0.5 * b[:, 0] + 0.3 * b[:, 1]))

    def outcome(b: Array, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
        exposure = rng.uniform(0.1, 1, len(b))
        claims = rng.poisson(rate(b) * exposure)
        # Whether people withhold must not depend on the exposure, else rates differ between those who do and do not.
        return claims.astype(float), rng.random(len(b)) < share(b), {"exposure": exposure}

    def share(b: Array) -> Array:
        return expit(0.5 * b[:, 0] - 0.3)

    return one_group("Poisson with exposure", rows, "poisson", outcome, rate, share, audits=300)


def events(rows: int) -> World:
    """One event in a hundred; those with one withhold more often."""

    def chance(b: Array) -> Array:
        return np.asarray(np.minimum(0.01 * np.exp(0.5 * b[:, 0] - 0.125), 0.5))

    def withhold(b: Array, y: Array) -> Array:
        return expit(0.5 * b[:, 0] - 0.3 + 0.8 * y)

    def outcome(b: Array, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
        y = rng.random(len(b)) < chance(b)
        return y.astype(float), rng.random(len(b)) < withhold(b, y), {}

    return one_group("1 % events", rows, "binary", outcome, chance, partial(_either, chance, withhold))


def claims(severity: str, rows: int) -> World:
    """One claim in ten people, of a mean size of 1; those with one withhold more often."""
    draws: dict[str, Callable[[np.random.Generator, int], Array]] = {
        "gamma, shape 1/2": lambda rng, n: rng.gamma(0.5, 2.0, n),
        "Pareto, α=2.5": lambda rng, n: 0.6 * (1 + rng.pareto(2.5, n)),
    }

    def chance(b: Array) -> Array:
        return np.asarray(np.minimum(0.1 * np.exp(0.4 * b[:, 0] - 0.08), 1))

    def withhold(b: Array, y: Array) -> Array:
        return expit(0.5 * b[:, 0] - 0.3 + 0.6 * y)

    def outcome(b: Array, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
        claim = rng.random(len(b)) < chance(b)
        withheld = rng.random(len(b)) < withhold(b, claim)
        return claim * draws[severity](rng, len(b)), withheld, {}

    share = partial(_either, chance, withhold)
    return one_group(f"claims of 10 %: {severity}", rows, "squared", outcome, chance, share)


def student(freedom: int, rows: int) -> World:
    """Symmetric noise with heavy tails on both sides; those above their mean withhold more often."""

    def withhold(b: Array, above: Array) -> Array:
        return expit(0.5 * b[:, 0] - 0.3 + 0.6 * above)

    def outcome(b: Array, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
        noise = rng.standard_t(freedom, len(b))
        return b[:, 0] + noise, rng.random(len(b)) < withhold(b, noise > 0), {}

    share = partial(_either, lambda b: np.full(len(b), 0.5), withhold)
    return one_group(f"Student's t, {freedom} degrees", rows, "squared", outcome, lambda b: b[:, 0], share)


def clustered(clusters: int, rows: int) -> World:
    """Rows that come in clusters, in outcome and in availability."""

    def withhold(b: Array, habit: Array) -> Array:
        return expit(0.5 * b[:, 0] + 0.8 * habit)

    def outcome(b: Array, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
        cluster = rng.integers(0, clusters, len(b))
        level, habit = rng.normal(size=(2, clusters))
        y = b[:, 0] + 0.5 * level[cluster] + rng.normal(size=len(b))
        return y, rng.random(len(b)) < withhold(b, habit[cluster]), {"clusters": cluster}

    def share(b: Array) -> Array:
        habits, chances = np.polynomial.hermite_e.hermegauss(20)
        return np.asarray(sum(c * withhold(b, h) for h, c in zip(habits, chances / chances.sum(), strict=True)))

    return one_group(f"{clusters} clusters", rows, "squared", outcome, lambda b: b[:, 0], share)


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

    def share(b: Array) -> Array:
        e = _either(_claims, _withhold, b)
        return 3 * e / (1 + 2 * e)

    return one_group("weights tied to availability", rows, "binary", outcome, justified, share)


def wrong(kind: str, rows: int) -> World:
    """A wrong model of claims: a surcharge on silence, silence read, or opposite penalties that cancel."""
    share = partial(_either, _claims, _withhold)
    world = one_group(f"wrong model: {kind}", rows, "binary", _claims_and_silence, _claims, share)

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

    return replace(world, model=model, penalty=penalty, audits=1_000)


def worlds() -> list[World]:
    """Return all worlds, the dear ones last."""
    return [
        *(discrete(2, family, 3_000) for family in (0, 1, 2)),
        poisson(6_000),
        events(6_000),
        events(2_500),
        lognormal(1, 6_000),
        lognormal(2, 6_000),
        *fresh_worlds(),
        wrong("surcharge", 6_000),
        wrong("reads silence", 6_000),
        wrong("opposite", 6_000),
        clustered(40, 2_000),
        clustered(400, 2_000),
        weighted(4_000),
        weak_features(2_000),
        discrete(2, 0, 20_000),
        *(discrete(4, family, 10_000) for family in (0, 1, 2)),
    ]


def fresh_worlds() -> list[World]:
    """Return worlds on which nothing of the audit was tuned, above all not when a tail is too heavy to be tested."""
    return [
        claims("gamma, shape 1/2", 6_000),
        claims("Pareto, α=2.5", 6_000),
        student(3, 6_000),
        discrete(3, 7, 6_000),
    ]
