"""How many copies people get: a function of how many virtual rows each stands for, and of nothing else.

A person who shares the admissible set a stands for I(a) virtual rows, one per admissible set within a: 2^k where no
group needs another. People with the same I have the same expected number of copies.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np

from .._arrays import Array
from .._kernels import masks as kernel
from .._nesting import Nesting, shared_counts

Augmentation: TypeAlias = Literal["balanced", "exhaustive", "fixed", "none"]

SCHEMES: dict[str, Any] = {
    "none": kernel.SCHEME_NONE,
    "exhaustive": kernel.SCHEME_EXHAUSTIVE,
    "fixed": kernel.SCHEME_FIXED,
    "balanced": kernel.SCHEME_BALANCED,
}

ENGINE_MAX_ROWS = 2**31 - 1
"""LightGBM counts rows in 32 bits."""

LARGE_TABLE_ROWS = 200_000


def default_copies(n_rows: int) -> float:
    """Return the default of ``copies``: 4 virtual rows per row, 2 for large tables."""
    return 4.0 if n_rows <= LARGE_TABLE_ROWS else 2.0


def check_augmentation(value: Any, name: str = "augmentation") -> str:
    """Return ``value`` if it names a scheme, else raise."""
    if not isinstance(value, str) or value not in SCHEMES:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, SCHEMES))}; got {value!r}.")
    return value


def check_copies(value: Any) -> float:
    """Return ``copies`` as a float if it is a finite number ≥ 1, else raise."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise ValueError(f"copies must be a number of at least 1 (virtual rows per row on average), got {value!r}.")
    if not math.isfinite(value) or value < 1:
        raise ValueError(f"copies must be finite and at least 1 (virtual rows per row on average), got {value!r}.")
    return float(value)


def check_max_virtual_rows(value: Any) -> int:
    """Return the row budget as an int if it is a whole number ≥ 1, else raise."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not (number.is_integer() and number >= 1):
        raise ValueError(f"max_virtual_rows must be a whole number of at least 1, got {value!r}.")
    return int(value)


def seed_bits(seed: int) -> int:
    """Return a seed of any size or sign as 64 bits."""
    return int(seed) % 2**64


POWERS_OF_TWO = tuple(1 << k for k in range(65))
"""I of people who share k = 0 … 64 groups, where no group needs another."""


def size_classes(
    available: Array, nesting: Nesting, sizes: Sequence[int] | None = None, threads: int = 1
) -> tuple[tuple[int, ...], Array]:
    """Return the values of I in ascending order, and for each row the place of its own among them.

    Parameters
    ----------
    available
        Mask of what each row shares.
    nesting
        Which groups need others. If none does, the place is k.
    sizes
        The values of I in the whole table of which these are some rows; by default those of these rows.
    threads
        Threads to use.
    """
    if nesting.is_free:
        return POWERS_OF_TWO, shared_counts(available, threads)
    counts = nesting.counts(available, threads)
    known = np.unique(counts) if sizes is None else np.array(sizes, dtype=np.uint64)
    place = np.searchsorted(known, counts)
    if len(counts) and (place.max() >= len(known) or (known[place] != counts).any()):
        raise ValueError("Some people share what nobody shares in the table that the plan was made for.")
    return tuple(known.tolist()), place


@dataclass(frozen=True)
class Allocation:
    """How many copies people get, by how many virtual rows they stand for: all that a plan of a whole table depends on.

    It is a function of the histogram of I, so that the parts of a table can agree on it, wherever they are.
    """

    scheme: str
    seed: int
    how_many: tuple[int, ...]
    """How many rows stand for each of the ``sizes``."""
    expected: tuple[float, ...] | None = None
    """E[c] for each of the ``sizes``, for ``balanced`` and ``fixed``."""
    sizes: tuple[int, ...] = POWERS_OF_TWO
    """The values of I, in ascending order."""

    @property
    def rows(self) -> int:
        """N, the number of source rows."""
        return sum(self.how_many)

    @property
    def all_virtual(self) -> int:
        """Σ I, the number of virtual rows of ``exhaustive``."""
        return sum(count * size for count, size in zip(self.how_many, self.sizes, strict=True))

    @property
    def relative_sizes(self) -> Array:
        """I relative to the largest one that occurs: the sum of these is never rounded much."""
        largest = max(size for count, size in zip(self.how_many, self.sizes, strict=True) if count)
        return np.array([size / largest for size in self.sizes])

    @property
    def expected_rows(self) -> float:
        """E[V], the number of virtual rows before copies are rounded at random."""
        if self.scheme == "exhaustive":
            return float(self.all_virtual)
        each = (1.0,) * len(self.how_many) if self.expected is None else self.expected
        return math.fsum(count * c for count, c in zip(self.how_many, each, strict=True))


def allocate(
    how_many: Array,
    augmentation: str = "balanced",
    *,
    copies: float | None = None,
    seed: int = 0,
    max_virtual_rows: int | None = None,
    sizes: tuple[int, ...] = POWERS_OF_TWO,
) -> Allocation:
    """Return how many copies people get; the parameters are those of :func:`plan_masks`.

    ``how_many[j]`` rows stand for ``sizes[j]`` virtual rows. Without ``max_virtual_rows`` there is no budget.
    """
    augmentation = check_augmentation(augmentation)
    n = int(how_many.sum())
    wanted_copies = default_copies(n) if copies is None else check_copies(copies)
    if max_virtual_rows is not None and n > max_virtual_rows:
        raise ValueError(
            f"The table has {n:,} rows, more than max_virtual_rows = {max_virtual_rows:,}; every row needs at least "
            "one virtual row."
        )
    whole = Allocation(augmentation, seed_bits(seed), tuple(how_many.tolist()), sizes=sizes)
    if augmentation == "balanced":
        if max_virtual_rows is not None:
            wanted_copies = _fit_to_budget(wanted_copies, n, whole.all_virtual, max_virtual_rows)
        if wanted_copies * n < whole.all_virtual:
            return replace(whole, expected=tuple(balanced_copies(how_many, wanted_copies * n, sizes).tolist()))
        whole = replace(whole, scheme="exhaustive")
    if whole.scheme == "exhaustive" and max_virtual_rows is not None and whole.all_virtual > max_virtual_rows:
        raise ValueError(
            f"augmentation='exhaustive' makes {whole.all_virtual:,} virtual rows of {n:,} rows, more than "
            f"max_virtual_rows = {max_virtual_rows:,}. Use augmentation='balanced', whose size does not depend on the "
            "number of groups."
        )
    if augmentation == "fixed":
        return replace(whole, expected=tuple(n * size / whole.all_virtual for size in sizes))
    return whole


def _fit_to_budget(copies: float, n: int, all_virtual: int, limit: int) -> float:
    """Return the largest number of copies, up to ``copies``, whose virtual rows fit into the budget."""
    if min(copies * n, all_virtual) <= limit:
        return copies
    # Rounding at random adds at most N/4 of variance to the total: five standard deviations stay free.
    fitting = max(1.0, (limit - 2.5 * math.sqrt(n)) / n)
    warnings.warn(
        f"copies = {copies:g} would make {min(copies * n, all_virtual):,.0f} virtual rows of {n:,} rows, more than "
        f"max_virtual_rows = {limit:,}; copies is reduced to {fitting:.3g}.",
        UserWarning,
        stacklevel=2,
    )
    return fitting


def balanced_copies(how_many: Array, budget: float, sizes: Sequence[int] = POWERS_OF_TWO) -> Array:
    """Return E[c] for each of the sizes: max(1, τ·I), with τ < 1 such that the budget is met.

    ``how_many[j]`` rows stand for ``sizes[j]`` virtual rows, in ascending order. If exactly the rows with j ≤ J get the
    minimum of one copy, then τ = (budget − #rows with j ≤ J) / Σ_{j > J} how_many[j]·I_j. The smallest J with
    τ·I_{J+1} ≥ 1 is the right one.
    """
    size = np.array(sizes, dtype=np.float64)
    for cut in range(len(how_many) - 1):
        above = float((how_many * size)[cut + 1 :].sum())
        tau = (budget - float(how_many[: cut + 1].sum())) / above if above > 0 else 0.0
        if tau * size[cut + 1] >= 1.0:
            return np.maximum(1.0, tau * size)
    return np.ones(len(how_many))
