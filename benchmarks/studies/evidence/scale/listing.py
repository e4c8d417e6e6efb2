"""The trainings of the study, those to be compared next to each other."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness.study import Unit
from benchmarks.models import ENGINES
from pucboost.simulate import LogisticFamily

from .measuring import COLUMNS, FAMILY_SEED
from .processes import run_apart, run_here

VARIANTS = ("plain", "balanced", "fixed", "exhaustive")  # the two compared most often come first
EXHAUSTIVE_AT_MOST = 20_000_000  # virtual rows


@dataclass(frozen=True)
class Size:
    """Tables of one size: how many rows, which numbers of groups, how often and how long they are trained on."""

    rows: int
    groups: tuple[int, ...]
    runs: int
    rounds: int = 40
    rate: float = 0.3


SIZES = (
    Size(100_000, (4, 10, 20), 3),
    Size(1_000_000, (4, 10, 20), 1),
    Size(5_000_000, (4, 10, 20), 1),
)

QUICK_SIZES = (Size(2_000, (4,), 1, 5),)


def units(quick: bool) -> Iterator[Unit]:
    """List the trainings; those compared stand next to each other."""
    apart = True  # a quick run starts one process, to check that it works
    for key, job in [*_scale_jobs(QUICK_SIZES if quick else SIZES), *_policy_jobs(quick)]:
        yield Unit(key, functools.partial(run_apart if apart else run_here, job))
        apart = not quick


def _scale_jobs(sizes: tuple[Size, ...]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for size in sizes:
        for r in size.groups:
            family = LogisticFamily.random(COLUMNS - r, r, FAMILY_SEED)
            for run in range(size.runs):
                for engine in ENGINES:
                    for variant in VARIANTS:
                        if variant == "exhaustive" and size.rows * _subsets(family) > EXHAUSTIVE_AT_MOST:
                            continue
                        key = {"what": "scale", "N": size.rows, "r": r, "engine": engine, "variant": variant}
                        yield {**key, "run": run}, {**key, "run": run, "rounds": size.rounds, "rate": size.rate}


@functools.lru_cache
def _subsets(family: LogisticFamily) -> float:
    """Return the mean number of subsets of what a person shares."""
    return float(np.mean(2.0 ** family.sample(2_000, 0).available.sum(axis=1)))


def _policy_jobs(quick: bool) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for run in range(1 if quick else 2):
        for engine in ENGINES:
            for variant in (*VARIANTS, "base"):
                key = {"what": "freMTPL2", "engine": engine, "variant": variant, "run": run}
                audited = run == 0 and variant in ("plain", "balanced") and not quick
                rounds = {"rounds": 5 if quick else 60, "rate": 0.15}
                yield key, {**key, **rounds, "quick": quick, "audited": audited}
