"""How many people it takes to certify a right model, and how often a model at the margin is certified.

Certification is an intersection-union test: every set must lie within the margin by its own interval. It stands beside
the stricter rule of joint intervals. Both are read off the same audits, with true models of outcome and availability
in place of fitted ones, which makes thousands of audits possible and leaves the comparison as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit

from .audit_hard import Sample
from .audit_worlds import World, discrete

MARGIN = 0.02
AUDITS = 150
PEOPLE = {2: (4_000, 5_600, 8_000, 11_000), 4: (16_000, 22_000, 32_000, 45_000)}
"""By number of groups."""
WAYS = ("by joint intervals", "by own intervals")
MODELS = ("true f*", "at the margin for one set")


def units(quick: bool) -> Iterable[Unit]:
    """List the work: two and four groups, by number of people."""
    for groups, people in PEOPLE.items():
        for n in people[:1] if quick else people:
            for model in MODELS:
                key = {"groups": groups, "n": n, "model": model, "seed": 0}
                yield Unit(key, lambda g=groups, n=n, m=model: [measure(g, n, m, 2 if quick else AUDITS)])


def measure(groups: int, n: int, model: str, audits: int) -> Row:
    """Return how many audits certify by joint intervals and by each set's own."""
    world = discrete(groups, 0, n)
    if model != MODELS[0]:
        world = replace(world, model=_at_the_margin(world))
    certified = np.array([certifies(world, 3_000_000 + number) for number in range(audits)])
    joint, alone = certified.sum(axis=0)
    return {"audits": audits, WAYS[0]: int(joint), WAYS[1]: int(alone)}


def _at_the_margin(world: World) -> Callable[[Array], Array]:
    """Return the true model plus the margin for people who share nothing."""

    def model(X: Array) -> Array:
        return world.model(X) + MARGIN * np.isnan(X[:, list(world.optional)]).all(axis=1)

    return model


def certifies(world: World, seed: int) -> tuple[bool, bool]:
    """Audit one sample; return whether every set lies within the margin by joint intervals, and by its own."""
    sample = Sample(world, seed)
    # Judged by a margin that nobody passes, so that joint intervals stay joint.
    penalties = sample.penalties(sample.true_scores())
    deciding = [p for p in penalties if p.decisive and p.estimate is not None]
    bounds = [((p.verdict_lower, p.verdict_upper), (p.alone_lower, p.alone_upper)) for p in deciding]
    joint, alone = (np.abs(np.array(some, dtype=float)).max() <= MARGIN for some in zip(*bounds, strict=True))
    return bool(joint), bool(alone)


def table(rows: Rows) -> Table:
    """Return the shares of audits that certify."""
    columns = [
        "groups", "n", "audits", "f* certified, joint intervals", "f* certified, own intervals",
        "at the margin, joint (≤ 5 %)", "at the margin, own (≤ 5 %)",
    ]  # fmt: skip
    lines = []
    for groups, n in dict.fromkeys((row["groups"], row["n"]) for row in rows):
        some = {row["model"]: row for row in rows if (row["groups"], row["n"]) == (groups, n)}
        shares = [_share(some.get(model), way) for model in MODELS for way in WAYS]
        lines.append([groups, f"{int(n):,}", next(iter(some.values()))["audits"], *shares])
    return columns, lines


def _share(row: dict[str, str] | None, way: str) -> str:
    """Return the share of audits that certify; a dash where nothing was measured."""
    return "–" if row is None else f"{float(row[way]) / float(row['audits']):.1%}"


STUDY = Study("audit_rows", units, table=table)
