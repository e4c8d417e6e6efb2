"""Mask plans: which (row, mask, weight) make up the virtual table.

Row i with availability mask a_i stands for one virtual row per admissible sub-mask s ⊆ a_i, I_i of them: I = 2^k
with k = |a_i| where no group needs another, I = k + 1 for k levels. Every scheme obeys the weight law: the expected
total weight given to the virtual row (i, s) does not depend on i.

=============  ==========================================================  ================
scheme         copies of row i                                             weight of a copy
=============  ==========================================================  ================
`exhaustive`   all I sub-masks                                             1
`fixed`        multinomial: N draws, row i with probability ∝ I; each      1
               a sub-mask drawn at random (each group is kept with
               probability ½ where none needs another)
`balanced`     c_i ≈ max(1, τ·I), τ such that Σ c_i = copies·N;            I / c_i
               distinct sub-masks in antithetic order
`none`         the row itself                                              1
=============  ==========================================================  ================

Why `balanced` obeys the law: given c_i, each of the c_i distinct masks is uniform on the I sub-masks, so a given s
is among them with probability c_i / I, and then weighs I / c_i.

How many copies people get is a function of I and of nothing else: people with the same I have the same expected number
of copies. So a plan is an :class:`Allocation`, a function of the histogram of I, and slices of it, functions of what
their people share and of their ids. One machine goes the same way as several, so that slices cannot differ from the
whole.

All randomness goes through the counter-based hash, with a stream for each purpose.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np

from .._common import Array
from .._consent import FREE, Nesting, shared_counts
from .._kernels import masks as kernel
from .._kernels.compiling import run_in_ranges, thread_count
from .._kernels.masks import copy_ideals

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


_NO_IDS = np.empty(0, dtype=np.uint64)


def child_seed(seed: int, number: int) -> int:
    """Return an independent seed, a pure function of (seed, number); every augmented table has its own."""
    return _random_bits(seed_bits(seed), kernel.STREAM_CHILD_SEED, number)


def _random_bits(seed: int, stream: Any, number: int = 0) -> int:
    key = np.uint64(kernel.stream_key(np.uint64(seed), stream))
    return int(kernel.counter_hash(key, np.uint64(number), np.uint64(0)))


@dataclass(frozen=True)
class PlanSummary:
    """The size of a plan: its scheme, its rows and its effective sample size."""

    augmentation: str
    seed: int
    source_rows: int
    virtual_rows: int
    complete_rows: int
    """Number of source rows that have all their virtual rows in the table."""
    effective_sample_size: float
    """(Σ w)² / Σ w² over the virtual rows, w the weight of a copy."""

    def __str__(self) -> str:
        return (
            f"augmentation={self.augmentation} seed={self.seed}: {self.source_rows:,} rows -> "
            f"{self.virtual_rows:,} virtual rows ({self.virtual_rows / self.source_rows:.2f} per row), "
            f"{self.complete_rows:,} rows complete ({self.complete_rows / self.source_rows:.0%}), "
            f"effective sample size {self.effective_sample_size:,.0f}"
        )


@dataclass(frozen=True)
class MaskPlan:
    """The virtual rows of a table. Holds arrays over source rows only; masks are computed on request.

    Parameters
    ----------
    scheme
        ``"none"``, ``"exhaustive"``, ``"fixed"`` or ``"balanced"``.
    seed
        64 bits; a mask is a pure function of (seed, row, copy).
    available
        Mask of what each source row shares (uint64).
    offsets
        The copies of row i are the virtual rows offsets[i] … offsets[i + 1] − 1 (int64).
    copy_weight
        Weight of each copy of row i, scaled to a mean of 1 over the virtual rows (float64), or None if all are 1.
    ids
        By which number each row is hashed (uint64); None for its place in the table.
    nesting
        Which groups need others, so that masks are admissible sets.
    """

    scheme: str
    seed: int
    available: Array
    offsets: Array
    copy_weight: Array | None
    ids: Array | None = None
    nesting: Nesting = FREE

    @property
    def n_source(self) -> int:
        """Number of source rows."""
        return len(self.available)

    def __len__(self) -> int:
        """Number of virtual rows."""
        return int(self.offsets[-1])

    @property
    def copies(self) -> Array:
        """c_i, the number of copies of each source row."""
        return np.diff(self.offsets)

    def rows_and_masks(self, start: int, stop: int, threads: int = 1) -> tuple[Array, Array]:
        """Return the source row and mask of each of the virtual rows start … stop − 1."""
        n = stop - start
        rows, copies = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        run_in_ranges(lambda lo, hi: kernel.walk_rows(self.offsets, start, lo, hi, rows, copies), n, threads)
        return rows, self._masks(rows, copies, threads)

    def rows_and_masks_at(self, index: Array, threads: int = 1) -> tuple[Array, Array]:
        """Return the source row and mask of each of the virtual rows with the given numbers."""
        if len(index) and not 0 <= index.min() <= index.max() < len(self):
            raise IndexError(f"virtual rows {index.min()} to {index.max()} are not all among {len(self)} virtual rows")
        rows = np.searchsorted(self.offsets, index, side="right") - 1
        return rows, self._masks(rows, index - self.offsets[rows], threads)

    def _masks(self, rows: Array, copies: Array, threads: int) -> Array:
        masks = np.empty(len(rows), dtype=np.uint64)
        code, seed, ids = SCHEMES[self.scheme], np.uint64(self.seed), _NO_IDS if self.ids is None else self.ids
        args = (self.available, ids, rows, copies)
        if self.nesting.is_free:
            run_in_ranges(lambda lo, hi: kernel.copy_masks(code, seed, *args, lo, hi, masks), len(rows), threads)
        else:
            forest = self.nesting.forest
            run_in_ranges(lambda lo, hi: copy_ideals(code, seed, *forest, *args, lo, hi, masks), len(rows), threads)
        return masks

    def spread(self, values: Array) -> Array:
        """Repeat the value of each source row for all its copies."""
        return values if self.scheme == "none" else np.repeat(values, self.copies, axis=0)

    def weights(self, user_weight: Array | None = None, scale: float = 1.0) -> Array | None:
        """Return the weight of every virtual row, user weight × copy weight × ``scale``; None if all are 1."""
        if user_weight is None and self.copy_weight is None and scale == 1.0:
            return None
        per_row = np.full(self.n_source, scale)
        for factor in (user_weight, self.copy_weight):
            if factor is not None:
                per_row *= factor
        return self.spread(per_row.astype(np.float32))

    def summary(self, user_weight: Array | None = None) -> PlanSummary:
        """Return the size of the plan."""
        copies = self.copies
        weight = np.ones(self.n_source) if self.copy_weight is None else self.copy_weight
        if user_weight is not None:
            weight = weight * user_weight
        # Not copies @ weight, for which numpy wakes up all cores.
        of_person = copies * weight
        total, squares = float(of_person.sum()), float((of_person * weight).sum())
        complete = self.available == 0 if self.scheme == "fixed" else copies == self.nesting.counts(self.available)
        return PlanSummary(
            augmentation=self.scheme,
            seed=self.seed,
            source_rows=self.n_source,
            virtual_rows=len(self),
            complete_rows=int(complete.sum()),
            effective_sample_size=total**2 / squares if squares > 0 else 0.0,
        )


def plan_masks(
    available: Array,
    augmentation: str = "balanced",
    *,
    copies: float | None = None,
    seed: int = 0,
    max_virtual_rows: int = ENGINE_MAX_ROWS,
    num_threads: int | None = None,
    nesting: Nesting = FREE,
) -> MaskPlan:
    """Return a plan: how many copies each row gets, and their weights.

    Parameters
    ----------
    available
        Mask of what each row shares (uint64).
    augmentation
        ``"balanced"``, ``"exhaustive"``, ``"fixed"`` or ``"none"``.
    copies
        Virtual rows per row, on average, for ``"balanced"``; default 4, and 2 above 200,000 rows.
    seed
        Any integer.
    max_virtual_rows
        Row budget: beyond it ``balanced`` warns and reduces ``copies``, and the other schemes raise.
    num_threads
        Threads to use; None means all cores.
    nesting
        Which groups need others; ``available`` must be admissible.

    Examples
    --------
    >>> import numpy as np
    >>> plan = plan_masks(np.array([0b11, 0b01, 0b00], dtype=np.uint64), "exhaustive")
    >>> len(plan), plan.rows_and_masks(0, 7)[1].tolist()
    (7, [0, 1, 2, 3, 0, 1, 0])
    """
    available = np.ascontiguousarray(available, dtype=np.uint64)
    limit = min(check_max_virtual_rows(max_virtual_rows), ENGINE_MAX_ROWS)
    threads = thread_count(num_threads)
    sizes, place = size_classes(available, nesting, threads=threads)
    how_many = np.bincount(place, minlength=len(sizes))
    whole = allocate(how_many, augmentation, copies=copies, seed=seed, max_virtual_rows=limit, sizes=sizes)
    if whole.scheme == "fixed":
        chance = whole.relative_sizes[place]
        # Never seeded with the user's own number: data made with default_rng(seed) would repeat the same uniforms,
        # and who is drawn would depend on who they are.
        generator = np.random.default_rng(_random_bits(whole.seed, kernel.STREAM_DRAWS))
        draws = generator.multinomial(len(available), chance / chance.sum())
        return MaskPlan("fixed", whole.seed, available, _offsets(draws), None, nesting=nesting)
    return plan_slice(whole, available, place, threads=threads, nesting=nesting)


def plan_slice(
    whole: Allocation,
    available: Array,
    place: Array,
    *,
    ids: Array | None = None,
    virtual_rows: int | None = None,
    threads: int = 1,
    nesting: Nesting = FREE,
) -> MaskPlan:
    """Return the plan of some rows of a table, bit for bit those of the plan of the whole table.

    Parameters
    ----------
    whole
        The allocation of the whole table.
    available, place
        What these rows share, as masks, and the place of each row's I among the sizes of the allocation.
    ids
        By which numbers these rows are hashed: their places in the whole table, or any that stay with them.
    virtual_rows
        V, the number of virtual rows of the whole table; None if this is the whole table.
    threads
        Threads to use.
    nesting
        Which groups need others.
    """
    copies = _slice_copies(whole, place, ids, threads)
    offsets = np.arange(len(available) + 1, dtype=np.int64) if copies is None else _offsets(copies)
    weight = None
    if whole.scheme == "balanced" and copies is not None:
        # Σ I as an integer, so that it does not depend on the order in which parts are added up.
        largest = max(size for size, count in zip(whole.sizes, whole.how_many, strict=True) if count)
        total = whole.all_virtual / largest
        weight = whole.relative_sizes[place] / copies
        weight = weight * ((int(offsets[-1]) if virtual_rows is None else virtual_rows) / total)
    return MaskPlan(whole.scheme, whole.seed, available, offsets, weight, ids, nesting)


def _slice_copies(whole: Allocation, place: Array, ids: Array | None, threads: int) -> Array | None:
    """Return c_i for some rows of a table; None if every row has one copy."""
    if whole.scheme == "none":
        return None
    if whole.scheme == "exhaustive":
        return np.array([min(size, 1 << 62) for size in whole.sizes])[place]
    n, bits = len(place), np.uint64(whole.seed)
    expected, names = np.array(whole.expected), _NO_IDS if ids is None else ids
    if whole.scheme == "fixed":
        return _poisson_draws(bits, expected[place], np.arange(n, dtype=np.uint64) if ids is None else ids, threads)
    copies = np.empty(n, dtype=np.int64)
    run_in_ranges(
        lambda lo, hi: kernel.round_at_random(bits, expected, place, names, lo, hi, copies),
        n,
        threads,
    )
    return copies


def _poisson_draws(seed: Any, rate: Array, ids: Array, threads: int) -> Array:
    """Return Poisson numbers with the given rates, each a pure function of seed and id.

    N draws among all rows cannot be made part by part. Independent Poisson numbers with the same expectations
    N·I / ΣI can, and obey the weight law as well; given their sum they are such draws.
    """
    from scipy.stats import poisson

    bits, zero = np.empty(len(ids), dtype=np.uint64), np.zeros(len(ids), dtype=np.uint64)
    run_in_ranges(
        lambda lo, hi: kernel.hash_pairs(seed, kernel.STREAM_DRAWS, ids, zero, lo, hi, bits), len(ids), threads
    )
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53  # never 0 or 1
    return np.asarray(poisson.ppf(uniform, rate), dtype=np.int64)


def _offsets(copies: Array) -> Array:
    return np.concatenate(([0], np.cumsum(copies, dtype=np.int64)))


MIN_PEOPLE_OF_MASK = 5
"""A model keeps no set that fewer people share: it would tell whoever knows one of them what that person shared."""


def common_masks(shared: Array) -> tuple[int, ...]:
    """Return the masks that at least :data:`MIN_PEOPLE_OF_MASK` people have, in ascending order."""
    masks, people = np.unique(shared, return_counts=True)
    return tuple(masks[people >= MIN_PEOPLE_OF_MASK].tolist())


@dataclass(frozen=True)
class BinSample:
    """Some virtual rows, the same in every worker: from them an engine makes its bins."""

    rows: Array
    weight: Array
