"""One plan for the parts of a table, wherever they are: each gets its slice, bit for bit.

A plan made part by part breaks the method as soon as parts differ: where everybody shares everything, τ of the balanced
allocation is another than where nobody does, and so is the weight of a copy. So parts exchange a few numbers, and every
part then makes its own slice of the plan that the whole table would have. Masks hash the place of a row in the whole
table, or an id that stays with it whatever happens to the table.

Two rounds of small messages suffice. First each part reports how many of its people stand for how many virtual rows,
and what its columns hold (:class:`PartFacts`). With the copies that follow from all histograms together, each part
counts its virtual rows, and adds some of them for the engine's bins (:class:`PartCount`). A second round is needed
because V is only known when copies are rounded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._common import Array
from .._consent import Consent, OptionalColumns, warn_of_lacking
from .._kernels import masks as kernel
from .._kernels.compiling import run_in_ranges, thread_count
from .._not_applicable import NotApplicable, read_not_applicable
from .._tables.sources import (
    NOT_APPLICABLE_WORD,
    Categories,
    ColumnTypes,
    RowSource,
    as_vector,
    as_weight,
    eager,
    row_source,
)
from .augment import augmented, checked_labels
from .plan import (
    ENGINE_MAX_ROWS,
    MIN_PEOPLE_OF_MASK,
    Allocation,
    Augmentation,
    BinSample,
    MaskPlan,
    allocate,
    check_max_virtual_rows,
    plan_slice,
    size_classes,
)
from .rows import MaskedRows, VirtualTable

BIN_SAMPLE_ROWS = 200_000
"""From how many virtual rows the bins are made, as in LightGBM."""

_HASHED_AT_ONCE = 1 << 20

MAX_MASKS_TOLD = 4_096
"""How many distinct masks a part tells the others of."""


@dataclass(frozen=True)
class PartFacts:
    """What a part reports before a plan is agreed on."""

    n_rows: int
    how_many: tuple[int, ...] = ()
    """How many rows stand for each of the ``sizes``."""
    sizes: tuple[int, ...] = ()
    """For how many virtual rows people stand, in ascending order: 2^0 … 2^64 where no group needs another."""
    positives: int = 0
    """How many labels are above 0."""
    masks_seen: tuple[int, ...] | None = ()
    """The sets of groups that people share, as masks; None if there are too many."""
    mask_people: tuple[int, ...] = ()
    """How many people share each of these sets."""
    consent: Consent | None = None
    columns: ColumnTypes | None = None
    """None for a part without rows."""
    lacking: int = 0
    """How many people have values in a group, but not in the one that it needs."""


@dataclass(frozen=True)
class PartCount:
    """The virtual rows of a part."""

    virtual_rows: int
    complete_rows: int
    weight: float
    """Σ of the weights of its virtual rows, up to a constant that all parts have in common."""
    squares: float
    by_row_id: bool
    sample: BinSample
    order: Array
    """By which the sample of all parts is sorted, so that it does not depend on how the table is cut."""


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
    mask_people: tuple[int, ...] | None = None
    """How many people of all parts share each of ``masks_seen``."""

    # ----- first round

    @staticmethod
    def facts(
        X: Any,
        y: Any = None,
        *,
        optional: OptionalColumns,
        not_applicable: NotApplicable = None,
        available: Any = None,
        zero_as_missing: bool = False,
        num_threads: int | None = None,
    ) -> PartFacts:
        """Return what a part reports before a plan is agreed on; it may have no rows.

        Parameters
        ----------
        X, y
            The part. Labels are only needed for ``is_unbalance``.
        optional, not_applicable, available
            As in :class:`pucboost.Dataset`, but without flags in ``not_applicable``.
        zero_as_missing
            As in the parameters of training, if they have it.
        num_threads
            Default: all cores.
        """
        X = eager(X)
        if is_empty(X):
            return PartFacts(0)
        source = row_source(X)
        consent, source = read_not_applicable(Consent.of(optional, source), source, not_applicable, only_part=True)
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
        assert consent is not None
        for number, part in enumerate(given):
            if part.n_rows and part.consent is not None and part.consent != consent:
                raise ValueError(
                    f"Part {number} differs from the first one: it {consent.difference(part.consent)}. Give all parts "
                    "the same columns in the same order, and declare the same."
                )
        sizes, how_many = all_sizes(parts)
        limit = None if max_virtual_rows is None else check_max_virtual_rows(max_virtual_rows)
        lacking = sum(part.lacking for part in parts)
        if lacking:
            warn_of_lacking(lacking, sum(part.n_rows for part in parts))
        seen, mask_people = masks_in(parts)
        return cls(
            allocate(how_many, augmentation, copies=copies, seed=seed, max_virtual_rows=limit, sizes=sizes),
            augmentation,
            copies,
            consent,
            common_columns(parts),
            tuple(part.n_rows for part in given),
            tuple(part.positives for part in given),
            seen,
            zero_as_missing,
            shuffled,
            mask_people=mask_people,
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

        Whether a row is among them is a pure function of its id and copy, and not of the other rows of its part. All
        workers make their bins from one sample: LightGBM's own way bins each feature on one machine, from that
        machine's rows, and loses a column that nobody shares there.
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
            _hash_pairs(np.uint64(plan.seed), names, copies, bits, threads)
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
        known = Categories(self.columns.pandas_categorical or [], self.columns.coded, self.consent.not_applicable)
        source = row_source(X, known)
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
        labels, weight = checked_labels(y, sample_weight, fill_value, source, self.consent)
        plan = self._slice(PlanPart._of(self, part, row_id), source, available, thread_count(num_threads))
        rows = MaskedRows(source, self.consent, plan, num_threads=num_threads, fill_value=fill_value)
        return augmented(X, rows, labels, weight, indicators)


def checked_facts(part: Any, number: int) -> PartFacts:
    """Return the facts of a part if they fit together; raise if another version of pucboost has made them."""
    if not isinstance(part, PartFacts):
        raise TypeError(f"Item {number} of facts must be what SharedPlan.facts returns, got {type(part).__name__!r}.")
    fits = sum(part.how_many) == part.n_rows and len(part.sizes) == len(part.how_many)
    fits = fits and len(part.masks_seen or ()) == len(part.mask_people)
    if not fits or (part.n_rows and (part.consent is None or part.columns is None)):
        raise ValueError(
            f"The facts of part {number} do not fit together. Were they made by another version of pucboost? Use the "
            "same one in every worker."
        )
    return part


def is_empty(X: Any) -> bool:
    return getattr(X, "shape", (1,))[0] == 0


def all_sizes(parts: Sequence[PartFacts]) -> tuple[tuple[int, ...], Array]:
    """Return for how many virtual rows people of any part stand, in ascending order, and how many people do."""
    total: Counter[int] = Counter()
    for part in parts:
        total.update(dict(zip(part.sizes, part.how_many, strict=True)))
    return tuple(sorted(total)), np.array([total[size] for size in sorted(total)])


def masks_in(parts: Sequence[PartFacts]) -> tuple[tuple[int, ...], tuple[int, ...]] | tuple[None, None]:
    """Return the masks that enough people of all parts have for a model to keep them, and how many have each.

    None if there are too many.
    """
    people: Counter[int] = Counter()
    for part in parts:
        if part.masks_seen is None:
            return None, None
        people.update(dict(zip(part.masks_seen, part.mask_people, strict=True)))
    kept = tuple(sorted(mask for mask, n in people.items() if n >= MIN_PEOPLE_OF_MASK))
    return (kept, tuple(people[mask] for mask in kept)) if len(kept) <= MAX_MASKS_TOLD else (None, None)


def common_columns(parts: Sequence[PartFacts]) -> ColumnTypes:
    """Return the column types of the whole table; a category column has the categories of all parts.

    Declared categories keep their order if all parts declare the same. All others are sorted: the same whatever the
    order of the parts.
    """
    given = [part.columns for part in parts if part.columns is not None]
    first = given[0]
    for number, columns in enumerate(given):
        if columns.names != first.names:
            raise ValueError(
                f"Part {number} has the columns {list(columns.names or ())}, the first one {list(first.names or ())}. "
                "Give every part the same columns in the same order."
            )
    lists: dict[int, list[Sequence[Any]]] = {}
    own_word: set[int] = set()  # it comes last, also where categories are numbers
    for columns in given:
        for j, values in zip(columns.coded, columns.pandas_categorical or (), strict=True):
            lists.setdefault(j, []).append([value for value in values if value != NOT_APPLICABLE_WORD])
            own_word |= {j} if NOT_APPLICABLE_WORD in values else set()
    categorical = {j for columns in given for j in columns.categorical}
    names = range(max(lists, default=-1) + 1) if first.names is None else first.names
    merged = {j: _union(found, names[j], j in categorical) for j, found in sorted(lists.items())}
    for j in own_word:
        merged[j].append(NOT_APPLICABLE_WORD)
    return ColumnTypes(
        names=first.names,
        coded=tuple(merged),
        categorical=tuple(sorted(categorical)),
        never_numbers=tuple(sorted({j for columns in given for j in columns.never_numbers})),
        pandas_categorical=None if first.pandas_categorical is None and not merged else list(merged.values()),
        not_applicable=first.not_applicable,
        has_other_integer_labels=first.has_other_integer_labels,
    )


def _union(lists: list[Sequence[Any]], name: Any, unordered: bool) -> list[Any]:
    if all(list(values) == list(lists[0]) for values in lists):
        return list(lists[0])
    if not unordered:
        raise ValueError(
            f"Column {name!r} has ordered categories, but they differ between parts, so their order is not known. "
            "Give every part the same categories."
        )
    values = {value for found in lists for value in found}
    try:
        return sorted(values)
    except TypeError:
        raise ValueError(
            f"Column {name!r} has categories of several types in different parts. Make it one type, for example with "
            "astype(str)."
        ) from None


def _hash_pairs(seed: Any, ids: Array, copies: Array, bits_out: Array, threads: int) -> None:
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

    @property
    def _named(self) -> str:
        return ", ".join(map(str, self.numbers or ()))

    def ids(self, n_rows: int) -> Array:
        """Return by which numbers the rows are hashed."""
        if self.numbers is not None:
            wanted = sum(self.plan.part_rows[number] for number in self.numbers)
            if wanted != n_rows:
                raise ValueError(f"Part {self._named} of the plan has {wanted:,} rows, but the table has {n_rows:,}.")
        if self.row_id is not None:
            return as_ids(self.row_id, n_rows)
        starts = np.concatenate([[0], np.cumsum(self.plan.part_rows)])
        ranges = [np.arange(starts[i], starts[i + 1], dtype=np.uint64) for i in self.numbers or ()]
        return np.concatenate(ranges)

    def plan_of(self, shared: Array, threads: int, virtual_rows: int | None = None) -> MaskPlan:
        """Return the slice for people who share these groups."""
        whole, nesting = self.plan.allocation, self.plan.consent.nesting
        sizes, place = size_classes(shared, nesting, whole.sizes, threads)
        if whole.scheme == "exhaustive":  # before I copies of anybody are counted
            check_rows_per_worker(sum(n * size for n, size in zip(np.bincount(place).tolist(), sizes, strict=False)))
        total = self.plan.virtual_rows if virtual_rows is None else virtual_rows
        ids = self.ids(len(shared))
        plan = plan_slice(whole, shared, place, ids=ids, virtual_rows=total, threads=threads, nesting=nesting)
        check_rows_per_worker(len(plan))
        if self.numbers is not None and self.plan.part_virtual is not None:
            counted = sum(self.plan.part_virtual[number] for number in self.numbers)
            if counted != len(plan):
                raise ValueError(
                    f"Part {self._named} of the plan has {counted:,} virtual rows, but {len(plan):,} here: these are "
                    "not the people that were counted. Do the rows come in the same order each time they are read?"
                )
        return plan


def check_rows_per_worker(virtual_rows: int) -> None:
    if virtual_rows > ENGINE_MAX_ROWS:
        raise ValueError(
            f"A worker would have {virtual_rows:,} virtual rows, more than the {ENGINE_MAX_ROWS:,} that engines "
            "count. Use more workers, or fewer copies."
        )


@dataclass(frozen=True)
class PartTable(VirtualTable):
    """The virtual rows of a part, with what an engine needs of the whole table."""

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


def as_ids(values: Any, n_rows: int) -> Array:
    """Return one 64-bit number for each row, from whole numbers or texts, which are hashed.

    Rows with the same id get the same masks if they share the same.
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
