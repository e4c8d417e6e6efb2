"""Ids that stay with rows, as 64-bit numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._common import Array
from .._consent import Consent, OptionalColumns, warn_of_lacking
from .._kernels import masks as kernel
from .._kernels.compiling import run_in_ranges, thread_count
from .._tables.containers import as_vector, as_weight, eager, row_source
from .._tables.sources import Categories, ColumnTypes, RowSource, check_no_mask
from .augment import augmented
from .plan import (
    ENGINE_MAX_ROWS,
    MAX_MASKS_TOLD,
    Allocation,
    Augmentation,
    BinSample,
    MaskPlan,
    PartCount,
    PartFacts,
    all_sizes,
    allocate,
    check_max_virtual_rows,
    checked_facts,
    common_columns,
    is_empty,
    masks_in,
    plan_slice,
    size_classes,
)
from .rows import MaskedRows, VirtualTable


def as_ids(values: Any, n_rows: int) -> Array:
    """Return one 64-bit number for each row; texts are hashed.

    Parameters
    ----------
    values
        Whole numbers or texts, one for each row. Rows with the same id get the same masks if they share the same.
    n_rows
        Number of rows.
    """
    import pandas as pd

    given = pd.Series(np.asarray(values) if not hasattr(values, "dtype") else values).reset_index(drop=True)
    if len(given) != n_rows:
        raise ValueError(f"row_id must have one entry for each of the {n_rows:,} rows, got {len(given):,}.")
    if given.isna().any():
        raise ValueError(f"row_id is missing in row {int(given.isna().to_numpy().argmax())}; every row needs one.")
    if pd.api.types.is_integer_dtype(given.dtype):
        return given.to_numpy().astype(np.uint64)
    if pd.api.types.is_string_dtype(given.dtype):
        return np.asarray(pd.util.hash_array(given.to_numpy(dtype=object), categorize=False), dtype=np.uint64)
    raise ValueError(f"row_id must be whole numbers or texts, got dtype {given.dtype}.")


# --------------------------------------------------------------------------------------------------
# One plan for the parts of a table, wherever they are: each gets its slice, bit for bit.
#
# A plan made part by part breaks the method as soon as parts differ: where everybody shares everything, τ of the
# balanced allocation is another than where nobody does, and so is the weight of a copy. So parts tell each other a
# few numbers (``part_facts.py``), and every part then makes its own slice of the plan that the whole table would
# have. Masks hash the place of a row in the whole table, or an id that stays with it whatever happens to the table.


BIN_SAMPLE_ROWS = 200_000
"""From how many virtual rows the bins are made, as in LightGBM."""

_HASHED_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class SharedPlan:
    """A plan that the parts of a table agree on, to train on several machines or processes. It can be pickled.

    It takes two rounds of small messages, over whatever connects the workers:

    1. ``SharedPlan.facts(part, ...)`` in every worker, then ``SharedPlan.agree(facts)`` in one place;
    2. ``plan.count(part, number)`` in every worker, then ``plan.complete(counts)`` in one place.

    Then ``puc.train({..., "plan": plan.part(number)}, (X, y))`` trains in a worker that is connected with the others by
    the engine's own means, and ``plan.augment(X, y, part=number)`` returns the virtual rows of a part for any other
    learner. Either is bit for bit what the whole table would give. :mod:`pucboost.dask` does all this on its own.

    Rows are known by their place in the whole table: parts are numbered in its order. With ``row_id`` they are known by
    numbers or texts of yours, and it does not matter how the table is cut or ordered.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.array([[1.0, 5.0], [2.0, np.nan], [3.0, 7.0]]); y = np.array([0, 1, 1])
    >>> parts = [(X[:2], y[:2]), (X[2:], y[2:])]
    >>> facts = [puc.distributed.SharedPlan.facts(*part, optional=[1]) for part in parts]
    >>> plan = puc.distributed.SharedPlan.agree(facts)
    >>> plan = plan.complete([plan.count(part[0], number) for number, part in enumerate(parts)])
    >>> plan.virtual_rows, [plan.augment(*part, part=number)[0].tolist() for number, part in enumerate(parts)]
    (5, [[[1.0, nan], [1.0, 5.0], [2.0, nan]], [[3.0, nan], [3.0, 7.0]]])
    """

    allocation: Allocation
    augmentation: str
    copies: float | None
    consent: Consent
    columns: ColumnTypes
    part_rows: tuple[int, ...]
    part_positives: tuple[int, ...]
    """How many labels of each part are above 0."""
    masks_seen: tuple[int, ...] | None
    zero_as_missing: bool = False
    shuffled: bool = False
    """Whether every part is a random sample of the whole table, by the user's word."""
    part_virtual: tuple[int, ...] | None = None
    """Virtual rows of each part; None until they are counted."""
    complete_rows: int = 0
    effective_sample_size: float = 0.0
    by_row_id: bool = False
    bins: BinSample | None = None

    # ----- first round

    @staticmethod
    def facts(
        X: Any,
        y: Any = None,
        *,
        optional: OptionalColumns,
        available: Any = None,
        zero_as_missing: bool = False,
        num_threads: int | None = None,
    ) -> PartFacts:
        """Return what the others must know of a part before anything is agreed on; it may have no rows.

        Parameters
        ----------
        X, y
            The part. Labels are only needed for ``is_unbalance``.
        optional, available
            As in :class:`pucboost.Dataset`.
        zero_as_missing
            As in the parameters of training, if they have it.
        num_threads
            Default: all cores.
        """
        X = eager(X)
        if is_empty(X):
            return PartFacts(0)
        source = row_source(X)
        consent = Consent.of(optional, source)
        shared = consent.visible(source, available, zero_as_missing=zero_as_missing, num_threads=num_threads)
        seen, people = np.unique(shared, return_counts=True)
        few, (sizes, place) = len(seen) <= MAX_MASKS_TOLD, size_classes(shared, consent.nesting)
        label = None if y is None else as_vector(y, "y", source.n_rows)
        lacking = consent.lacking(source, available, zero_as_missing=zero_as_missing, num_threads=num_threads)
        return PartFacts(
            source.n_rows,
            tuple(np.bincount(place, minlength=len(sizes)).tolist()),
            sizes,
            0 if label is None else int((label > 0).sum()),
            tuple(seen.tolist()) if few else None,
            tuple(people.tolist()) if few else (),
            consent,
            source.columns,
            int(np.count_nonzero(lacking)),
        )

    @classmethod
    def agree(
        cls,
        facts: Iterable[PartFacts],
        *,
        augmentation: Augmentation = "balanced",
        copies: float | None = None,
        seed: int = 0,
        max_virtual_rows: int | None = None,
        zero_as_missing: bool = False,
        shuffled: bool = False,
    ) -> SharedPlan:
        """Return the plan for all parts; their virtual rows are yet to be counted.

        Parameters
        ----------
        facts
            Those of all parts, in the order of the parts.
        augmentation, copies, seed, max_virtual_rows
            As in :func:`pucboost.augment`, for the whole table. ``"fixed"`` draws Poisson numbers of copies.
        zero_as_missing
            As in :meth:`facts`.
        shuffled
            Say that every part is a random sample of the whole table. Absolute errors and quantiles need it: engines
            average the leaves that workers find for these losses.
        """
        given = [checked_facts(part, number) for number, part in enumerate(facts)]
        parts = [part for part in given if part.n_rows]
        if not parts:
            raise ValueError("No part has any rows.")
        consent = parts[0].consent
        for number, part in enumerate(given):
            if part.n_rows and part.consent != consent:
                raise ValueError(f"Part {number} has {part.consent}, the first one {consent}. Declare the same.")
        assert consent is not None
        sizes, how_many = all_sizes(parts)
        limit = None if max_virtual_rows is None else check_max_virtual_rows(max_virtual_rows)
        lacking = sum(part.lacking for part in parts)
        if lacking:
            warn_of_lacking(lacking, sum(part.n_rows for part in parts))
        return cls(
            allocate(how_many, augmentation, copies=copies, seed=seed, max_virtual_rows=limit, sizes=sizes),
            augmentation,
            copies,
            consent,
            common_columns(parts),
            tuple(part.n_rows for part in given),
            tuple(part.positives for part in given),
            masks_in(parts),
            zero_as_missing,
            shuffled,
        )

    # ----- second round

    def count(
        self,
        X: Any,
        number: int | None = None,
        *,
        row_id: Any = None,
        sample_weight: Any = None,
        available: Any = None,
        sample: bool = True,
        num_threads: int | None = None,
    ) -> PartCount:
        """Return how many virtual rows a part has, and some of them.

        Parameters
        ----------
        X
            The part.
        number
            Number of the part, from 0.
        row_id
            One whole number or text for each row, which stays with it; in place of ``number``.
        sample_weight, available
            As in training.
        sample
            False leaves out the sample for the engine's bins, which :meth:`augment` does not need.
        num_threads
            Default: all cores.
        """
        X = eager(X)
        if is_empty(X):
            nothing = np.empty((0, len(self.consent.feature_names)), dtype=np.float32)
            by_id = row_id is not None
            return PartCount(0, 0, 0.0, 0.0, by_id, BinSample(nothing, np.empty(0)), np.empty(0, dtype=np.uint64))
        source = self.read(X)
        threads = thread_count(num_threads)
        plan = self._slice(PlanPart._of(self, number, row_id), source, available, threads, count=True)
        weight = None if sample_weight is None else as_weight(sample_weight, "sample_weight", source.n_rows)
        summary, copies = plan.summary(), plan.copies
        each = np.ones(len(copies)) if plan.copy_weight is None else plan.copy_weight
        if weight is not None:
            each = each * weight
        chosen, order = self._sample_of(plan, threads) if sample else (np.empty(0, np.int64), np.empty(0, np.uint64))
        owners = np.searchsorted(plan.offsets, chosen, side="right") - 1
        rows = MaskedRows(source, self.consent, plan, num_threads=threads).take(chosen)
        return PartCount(
            len(plan),
            summary.complete_rows,
            float(copies @ each),
            float(copies @ each**2),
            row_id is not None,
            BinSample(rows, each[owners]),
            order,
        )

    def _sample_of(self, plan: MaskPlan, threads: int) -> tuple[Array, Array]:
        """Return which virtual rows of a part are sampled, and their hashes: those of the smallest hashes.

        Whether a row is among them is a pure function of its id and copy, and not of the other rows of its part.
        """
        rate = min(1.0, BIN_SAMPLE_ROWS / self.allocation.expected_rows)
        last = np.uint64(min(2**64 - 1, int(rate * 2**64)))
        ids = np.arange(plan.n_source, dtype=np.uint64) if plan.ids is None else plan.ids
        chosen, order = [], []
        for start in range(0, len(plan), _HASHED_AT_ONCE):
            numbers = np.arange(start, min(start + _HASHED_AT_ONCE, len(plan)))
            rows = np.searchsorted(plan.offsets, numbers, side="right") - 1
            names, copies = ids[rows], (numbers - plan.offsets[rows]).astype(np.uint64)
            bits = np.empty(len(numbers), dtype=np.uint64)
            _hash(np.uint64(plan.seed), names, copies, bits, threads)
            chosen.append(numbers[bits <= last])
            order.append(bits[bits <= last])
        return np.concatenate(chosen), np.concatenate(order)

    def complete(self, counts: Sequence[PartCount]) -> SharedPlan:
        """Return the complete plan, with which parts can train.

        Parameters
        ----------
        counts
            Those of all parts, in the order of the parts.
        """
        counts = list(counts)
        if len(counts) != len(self.part_rows):
            raise ValueError(f"The plan is for {len(self.part_rows)} parts, but {len(counts)} were counted.")
        with_rows = [count for count, n in zip(counts, self.part_rows, strict=True) if n]
        if len({count.by_row_id for count in with_rows}) > 1:
            raise ValueError("Some parts were counted with row_id and others without. Give it for all parts or none.")
        order = np.concatenate([count.order for count in with_rows])
        sorting = np.argsort(order, kind="stable")
        bins = None
        if len(order):
            rows = np.concatenate([count.sample.rows for count in with_rows])[sorting]
            weight = np.concatenate([count.sample.weight for count in with_rows])[sorting]
            bins = BinSample(rows, (weight / weight.mean() if weight.any() else weight).astype(np.float32))
        total = math.fsum(count.weight for count in with_rows)
        squares = math.fsum(count.squares for count in with_rows)
        return replace(
            self,
            part_virtual=tuple(count.virtual_rows for count in counts),
            complete_rows=sum(count.complete_rows for count in with_rows),
            effective_sample_size=total**2 / squares if squares > 0 else 0.0,
            by_row_id=with_rows[0].by_row_id,
            bins=bins,
        )

    @property
    def virtual_rows(self) -> int:
        """V, the number of virtual rows of the whole table."""
        if self.part_virtual is None:
            raise ValueError(
                "The virtual rows of this plan are not counted yet: plan.complete([plan.count(part, number), …])."
            )
        return sum(self.part_virtual)

    # ----- slices

    def part(self, *numbers: int, row_id: Any = None) -> PlanPart:
        """Return the plan of one part, or of several below one another: ``params["plan"]`` of :func:`pucboost.train`.

        Parameters
        ----------
        *numbers
            Numbers of the parts, from 0. Not needed with ``row_id``.
        row_id
            As it was given to :meth:`count`.
        """
        return PlanPart._of(self, numbers or None, row_id)

    def read(self, X: Any) -> RowSource:
        """Return the rows of a part, with the categories of the whole table."""
        source = row_source(X, Categories(self.columns.pandas_categorical or [], self.columns.coded))
        if source.feature_names is not None and self.columns.names is not None:
            self.consent.check_columns(source.feature_names)
        return source.with_columns(self.columns)

    def _slice(
        self, part: PlanPart, source: RowSource, available: Any, threads: int, *, count: bool = False
    ) -> MaskPlan:
        """Return the slice of one part; ``count`` if its copies are to be counted, when V is not yet known."""
        consent = self.consent
        shared = consent.visible(source, available, zero_as_missing=self.zero_as_missing, num_threads=threads)
        return part.plan_of(shared, threads, 1 if count else self.virtual_rows)

    def augment(
        self,
        X: Any,
        y: Any,
        *,
        part: int | None = None,
        row_id: Any = None,
        sample_weight: Any = None,
        available: Any = None,
        fill_value: float = math.nan,
        indicators: bool = False,
        num_threads: int | None = None,
    ) -> tuple[Any, Array, Array, Array]:
        """Return the virtual rows of a part, as :func:`pucboost.augment` returns those of a table.

        Parameters
        ----------
        X, y
            The part.
        part, row_id
            Number of the part, or an id for each of its rows, as in :meth:`count`.
        sample_weight, available, fill_value, indicators, num_threads
            As in :func:`pucboost.augment`.

        Returns
        -------
        X_augmented, y_augmented, weight, source_row
            Row numbers are those within the part.
        """
        X = eager(X)
        source = self.read(X)
        check_no_mask(y, "y")
        plan = self._slice(PlanPart._of(self, part, row_id), source, available, thread_count(num_threads))
        given: dict[str, Any] = {"fill_value": fill_value, "indicators": indicators, "num_threads": num_threads}
        return augmented(X, source, self.consent, plan, y, sample_weight, **given)


def _hash(seed: Any, ids: Array, copies: Array, bits_out: Array, threads: int) -> None:
    stream = kernel.STREAM_BINS
    run_in_ranges(lambda lo, hi: kernel.hash_pairs(seed, stream, ids, copies, lo, hi, bits_out), len(ids), threads)


@dataclass(frozen=True)
class PlanPart:
    """The plan of one part, or of several below one another."""

    plan: SharedPlan
    numbers: tuple[int, ...] | None
    row_id: Any = None

    @classmethod
    def _of(cls, plan: SharedPlan, numbers: Any, row_id: Any) -> PlanPart:
        known = len(plan.part_rows)
        if row_id is None and numbers is None:
            raise ValueError("Which part is it? Give its number, or a row_id for each of its rows.")
        listed = None if numbers is None else tuple(int(one) for one in np.atleast_1d(np.asarray(numbers)))
        for number in listed or ():
            if not 0 <= number < known:
                raise ValueError(f"The plan has {known} parts, 0 to {known - 1}; there is no part {number}.")
        if plan.part_virtual is not None and plan.by_row_id != (row_id is not None):
            there, here = ("with", "without") if plan.by_row_id else ("without", "with")
            raise ValueError(f"The plan was counted {there} row_id, and is used {here} it: the masks would be others.")
        return cls(plan, listed, row_id)

    def ids(self, n_rows: int) -> Array:
        """Return by which numbers the rows are hashed."""
        if self.numbers is not None:
            wanted = sum(self.plan.part_rows[number] for number in self.numbers)
            if wanted != n_rows:
                named = ", ".join(map(str, self.numbers))
                raise ValueError(f"Part {named} of the plan has {wanted:,} rows, but the table has {n_rows:,}.")
        if self.row_id is not None:
            return as_ids(self.row_id, n_rows)
        starts = np.concatenate([[0], np.cumsum(self.plan.part_rows)])
        ranges = [np.arange(starts[i], starts[i + 1], dtype=np.uint64) for i in self.numbers or ()]
        return np.concatenate(ranges)

    def plan_of(self, shared: Array, threads: int, virtual_rows: int | None = None) -> MaskPlan:
        """Return the slice for people who share these groups."""
        whole, nesting = self.plan.allocation, self.plan.consent.nesting
        sizes, place = size_classes(shared, nesting, whole.sizes, threads)
        if whole.scheme == "exhaustive":  # before I copies of anybody are thought of
            check_rows_per_worker(sum(n * size for n, size in zip(np.bincount(place).tolist(), sizes, strict=False)))
        total = self.plan.virtual_rows if virtual_rows is None else virtual_rows
        ids = self.ids(len(shared))
        plan = plan_slice(whole, shared, place, ids=ids, virtual_rows=total, threads=threads, nesting=nesting)
        check_rows_per_worker(len(plan))
        if self.numbers is not None and self.plan.part_virtual is not None:
            counted = sum(self.plan.part_virtual[number] for number in self.numbers)
            if counted != len(plan):
                named = ", ".join(map(str, self.numbers))
                raise ValueError(
                    f"Part {named} of the plan has {counted:,} virtual rows, but {len(plan):,} here: these are not the "
                    "people that were counted. Do the rows come in the same order each time they are read?"
                )
        return plan


def check_rows_per_worker(virtual_rows: int) -> None:
    """Raise if engines cannot count so many rows."""
    if virtual_rows > ENGINE_MAX_ROWS:
        raise ValueError(
            f"A worker would have {virtual_rows:,} virtual rows, more than the {ENGINE_MAX_ROWS:,} that engines "
            "count. Use more workers, or fewer copies."
        )


@dataclass(frozen=True)
class PartTable(VirtualTable):
    """The virtual rows of a part, with what an engine must know of the whole table."""

    part: PlanPart

    @property
    def share_per_tree(self) -> float:
        """φ = min(1, N / V) of the whole table."""
        plan = self.part.plan
        return min(1.0, plan.allocation.rows / plan.virtual_rows)

    @property
    def rows_per_tree(self) -> float:
        """φV of the whole table."""
        return self.share_per_tree * self.part.plan.virtual_rows

    @property
    def class_counts(self) -> tuple[int, int]:
        """How many labels of the whole table are above 0, and how many are not."""
        plan = self.part.plan
        positives = sum(plan.part_positives)
        return positives, plan.allocation.rows - positives

    @property
    def bin_sample(self) -> BinSample | None:
        """The same virtual rows in every worker."""
        return self.part.plan.bins
