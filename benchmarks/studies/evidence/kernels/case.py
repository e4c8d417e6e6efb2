"""What a kernel is measured on: people, virtual rows, and the kernel with its twin."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.data.simulated import insurance_like
from benchmarks.harness.types import Array
from pucboost._consent import Consent
from pucboost._kernels import masks
from pucboost._kernels.threads import run_in_ranges
from pucboost._tables.containers import row_source
from pucboost._virtual.plan import plan_masks

SEED = 7
COPIES = 4
THREADS = 2  # "2 threads" is a column


@dataclass(frozen=True)
class Case:
    """A kernel on its data.

    ``run`` fills ``out`` for a range of rows; ``twin`` returns what ``seen`` should show of ``out`` for the first few
    rows; ``values`` counts the values read in a row.
    """

    n: int
    bytes_moved: int
    run: Callable[[int, int], None]
    out: Sequence[Array]
    twin: Callable[[int], Sequence[Any]]
    seen: Callable[[int], Sequence[Any]] | None = None
    in_ranges: bool = True
    tolerance: float = 0.0
    values: int = 1

    def check(self, n_twin: int) -> None:
        """Raise if the kernel and its twin differ, or if the number of threads matters."""
        self.run(0, self.n)
        alone = [part.copy() for part in self.out]
        shown = [part[:n_twin] for part in alone] if self.seen is None else self.seen(n_twin)
        for ours, theirs in zip(shown, self.twin(n_twin), strict=True):
            expected = np.asarray(theirs, dtype=np.asarray(ours).dtype)
            np.testing.assert_allclose(ours, expected, rtol=self.tolerance, atol=self.tolerance / 100)
        if self.in_ranges:
            for part in self.out:
                part[...] = 0
            run_in_ranges(self.run, self.n, THREADS)
            for part, before in zip(self.out, alone, strict=True):
                np.testing.assert_array_equal(part, before)


@dataclass(frozen=True)
class People:
    """A table, what its columns are, and who shares what."""

    X: Array  # float32, row-major
    consent: Consent
    groups: list[list[int]]
    shared: Array


@functools.lru_cache(maxsize=2)
def people(n: int) -> People:
    """Return people with 20 base and 10 optional columns, each a group of its own."""
    X, _, optional = insurance_like(n)
    source = row_source(X)
    consent = Consent.declare(optional, [f"Column_{j}" for j in range(X.shape[1])])
    return People(X, consent, [[column] for column in optional], consent.presence(source))


@dataclass(frozen=True)
class Virtual:
    """The first virtual rows of a plan: offsets by person, source row and copy number by virtual row."""

    offsets: Array
    row: Array
    copy: Array

    @property
    def n_people(self) -> int:
        """Return how many people the rows are copies of."""
        return int(self.row[-1] - self.row[0]) + 1


def virtual_rows(n: int, scheme: str) -> Virtual:
    """Return n virtual rows of as many people as it takes."""
    plan = plan_masks(people(n).shared, scheme, copies=COPIES, seed=SEED)
    row, copy = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    masks.walk_rows(plan.offsets, 0, 0, n, row, copy)
    return Virtual(plan.offsets, row, copy)


def size(*arrays: Array) -> int:
    """Return the bytes of some arrays together."""
    return sum(array.nbytes for array in arrays)
