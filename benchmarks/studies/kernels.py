"""Each kernel by itself: against its readable twin, row by row, and against the speed at which numpy copies memory.

Bytes are the least that must move: every value read and every value written counts once. A source row that is copied
several times counts once, and further probes of a hash table do not count.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.data import insurance_like
from benchmarks.harness.measuring import alternate, median_ratio
from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit, part_of
from pucboost._consent import Consent
from pucboost._kernels import losses as objectives
from pucboost._kernels import masks, rows
from pucboost._kernels import rows as cells
from pucboost._kernels.compiling import run_in_ranges
from pucboost._tables.sources import row_source
from pucboost._virtual.plan import SCHEMES, plan_masks
from tests.twins import losses as naive_objectives
from tests.twins import masks as naive

# What a kernel is measured on: people, virtual rows, and the kernel with its twin

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
    return People(X, consent, [[column] for column in optional], consent.availability(source))


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


# Every kernel on its data

N_CLASSES = 4
NO_IDS = np.empty(0, dtype=np.uint64)
"""Rows are hashed by their numbers."""


def copy_masks(scheme: str, n: int) -> Case:
    """Masks of virtual rows."""
    shared, virtual, out = people(n).shared, virtual_rows(n, scheme), np.empty(n, dtype=np.uint64)

    def run(lo: int, hi: int) -> None:
        masks.copy_masks(SCHEMES[scheme], np.uint64(SEED), shared, NO_IDS, virtual.row, virtual.copy, lo, hi, out)

    def twin(m: int) -> list[Any]:
        trio = zip(virtual.row[:m].tolist(), virtual.copy[:m].tolist(), shared[virtual.row[:m]].tolist(), strict=True)
        return [[naive.copy_mask(scheme, SEED, row, copy, mask) for row, copy, mask in trio]]

    read = size(virtual.row) + 8 * virtual.n_people + (0 if scheme == "none" else virtual.copy.nbytes)
    return Case(n, read + out.nbytes, run, [out], twin)


def walk_rows(n: int) -> Case:
    """Source row and copy number of virtual rows."""
    virtual = virtual_rows(n, "balanced")
    row, copy = np.empty_like(virtual.row), np.empty_like(virtual.copy)

    def twin(m: int) -> list[Any]:
        enough = virtual.offsets[: int(np.searchsorted(virtual.offsets, m)) + 1].tolist()
        return list(zip(*naive.walk_rows(enough, 0, m), strict=True))

    return Case(
        n, size(row, copy) + 8 * virtual.n_people,
        lambda lo, hi: masks.walk_rows(virtual.offsets, 0, lo, hi, row, copy), [row, copy], twin,
    )  # fmt: skip


def pack_shared(n: int) -> Case:
    """Who shares what, from a table."""
    who, out = people(n), np.empty(n, dtype=np.uint64)
    start, columns = who.consent.group_start, who.consent.group_columns
    return Case(
        n, out.nbytes + n * len(columns) * who.X.itemsize,
        lambda lo, hi: masks.pack_shared(who.X, start, columns, False, lo, hi, out), [out],
        lambda m: [naive.pack_shared(who.X[:m], who.groups)], values=len(columns),
    )  # fmt: skip


def count_shared(n: int) -> Case:
    """Number of groups in a mask."""
    shared, out = people(n).shared, np.empty(n, dtype=np.int64)
    return Case(
        n, size(shared, out), lambda lo, hi: masks.count_shared(shared, lo, hi, out), [out],
        lambda m: [[naive.count_groups(mask) for mask in shared[:m].tolist()]],
    )  # fmt: skip


def round_at_random(n: int) -> Case:
    """Numbers of copies, rounded at random."""
    shared, counts, out = people(n).shared, np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    masks.count_shared(shared, 0, n, counts)
    expected = np.maximum(1.0, 0.11 * np.ldexp(1.0, np.arange(65)))
    return Case(
        n, size(counts, out),
        lambda lo, hi: masks.round_at_random(np.uint64(SEED), expected, counts, NO_IDS, lo, hi, out), [out],
        lambda m: [naive.round_at_random(SEED, expected.tolist(), counts[:m].tolist())],
    )  # fmt: skip


def gather(n: int, by_columns: bool) -> Case:
    """Masked rows from a table stored by rows or by columns."""
    virtual = virtual_rows(n, "balanced")
    who = people(n)
    mask = np.empty(n, dtype=np.uint64)
    masks.copy_masks(SCHEMES["balanced"], np.uint64(SEED), who.shared, NO_IDS, virtual.row, virtual.copy, 0, n, mask)
    source = np.asarray(who.X[: virtual.n_people], order="F" if by_columns else "C")
    kernel = rows.gather_masked_columns if by_columns else rows.gather_masked_rows
    out = np.empty((n, source.shape[1]), dtype=source.dtype)
    bits, fill = who.consent.column_bits, np.float32(np.nan)
    return Case(
        n, size(source, virtual.row, mask, out),
        lambda lo, hi: kernel(source, virtual.row, mask, bits, fill, lo, hi, out), [out],
        lambda m: [naive.gather_masked_rows(source, virtual.row[:m].tolist(), mask[:m].tolist(), who.groups)],
        values=source.shape[1],
    )  # fmt: skip


def mask_indicators(n: int) -> Case:
    """A column of 0 and 1 per group."""
    who = people(n)
    r = len(who.groups)
    out = np.empty((n, r), dtype=np.float32)
    return Case(
        n, size(who.shared, out), lambda lo, hi: rows.mask_indicators(who.shared, lo, hi, out), [out],
        lambda m: [[[float(g in naive.groups_of(mask)) for g in range(r)] for mask in who.shared[:m].tolist()]],
        values=r,
    )  # fmt: skip


def _numbered(hashes: Array) -> list[int]:
    return naive.cells(hashes, [0] * len(hashes))


def hash_rows(n: int) -> Case:
    """Hashes of rows: two rows of the twin are in one cell exactly if their hashes are equal."""
    who, out = people(n), np.empty((n, 2), dtype=np.uint64)
    bits = who.X.view(np.uint32)
    return Case(
        n, size(who.X, who.shared, out), lambda lo, hi: cells.hash_rows(who.X, bits, who.shared, lo, hi, out), [out],
        lambda m: [naive.cells(who.X[:m], who.shared[:m].tolist())], seen=lambda m: [_numbered(out[:m])],
        values=who.X.shape[1],
    )  # fmt: skip


def assign_cells(n: int) -> Case:
    """Cells of hashes, each four times on average; the time includes emptying the hash table."""
    values = np.random.default_rng(SEED).integers(0, n // 4, (n, 1)).astype(np.float64)
    hashes, out = np.empty((n, 2), dtype=np.uint64), np.empty(n, dtype=np.int64)
    cells.hash_rows(values, values.view(np.uint64), np.zeros(n, dtype=np.uint64), 0, n, hashes)
    capacity = 1 << (2 * n - 1).bit_length()
    slots, keys = np.empty(capacity, dtype=np.int64), np.empty((n, 2), dtype=np.uint64)

    def run(lo: int, hi: int) -> None:
        slots.fill(-1)
        cells.assign_cells(hashes, 0, slots, keys, 0, out)

    run(0, n)
    kept = int(out.max() + 1) * keys.itemsize * 2
    return Case(
        n, size(hashes, out, slots) + kept, run, [out], lambda m: [_numbered(hashes[:m])], in_ranges=False,
    )  # fmt: skip


LOSSES: dict[str, tuple[float, ...]] = {  # with the constants of each
    "squared_error": (), "logistic": (), "poisson": (0.7,), "gamma": (), "tweedie": (1.5,), "quantile": (0.3,),
}  # fmt: skip


def loss(name: str, n: int) -> Case:
    """Gradient and hessian of a loss with one score per row."""
    rng = np.random.default_rng(SEED)
    score, weight = rng.normal(size=n), rng.uniform(0.5, 2.0, n)
    label = (rng.random(n) < 0.4).astype(np.float64) if name == "logistic" else rng.gamma(2.0, size=n)
    gradient, hessian = np.empty(n, dtype=np.float32), np.empty(n, dtype=np.float32)
    kernel, one, constants = getattr(objectives, name), getattr(naive_objectives, name), LOSSES[name]

    def twin(m: int) -> list[Any]:
        trio = zip(score[:m].tolist(), label[:m].tolist(), weight[:m].tolist(), strict=True)
        return list(zip(*[one(s, y, w, *constants) for s, y, w in trio], strict=True))

    return Case(
        n, size(score, label, weight, gradient, hessian),
        lambda lo, hi: kernel(score, label, weight, *constants, lo, hi, gradient, hessian), [gradient, hessian],
        twin, tolerance=2e-7,
    )  # fmt: skip


def softmax(n: int) -> Case:
    """Gradient and hessian of several classes."""
    rng = np.random.default_rng(SEED)
    score, weight = rng.normal(size=(n, N_CLASSES)), rng.uniform(0.5, 2.0, n)
    label = rng.integers(0, N_CLASSES, n).astype(np.float64)
    gradient, hessian = np.empty(score.shape, dtype=np.float32), np.empty(score.shape, dtype=np.float32)
    factor = N_CLASSES / (N_CLASSES - 1)

    def twin(m: int) -> list[Any]:
        trio = zip(score[:m].tolist(), label[:m].tolist(), weight[:m].tolist(), strict=True)
        found = [
            naive_objectives.softmax(s, naive_objectives.one_hot(int(y), N_CLASSES), w, factor) for s, y, w in trio
        ]
        return list(zip(*found, strict=True))

    return Case(
        n, size(score, label, weight, gradient, hessian),
        lambda lo, hi: objectives.softmax(score, label, weight, factor, lo, hi, gradient, hessian),
        [gradient, hessian], twin, tolerance=2e-7, values=N_CLASSES,
    )  # fmt: skip


CASES: dict[str, Callable[[int], Case]] = {
    **{f"copy_masks, {scheme}": functools.partial(copy_masks, scheme) for scheme in SCHEMES},
    "walk_rows": walk_rows,
    "pack_shared": pack_shared,
    "count_shared": count_shared,
    "round_at_random": round_at_random,
    "gather_masked_rows": lambda n: gather(n, by_columns=False),
    "gather_masked_columns": lambda n: gather(n, by_columns=True),
    "mask_indicators": mask_indicators,
    "hash_rows": hash_rows,
    "assign_cells": assign_cells,
    **{name: functools.partial(loss, name) for name in LOSSES},
    f"softmax, {N_CLASSES} classes": softmax,
}


# A kernel, its twin and copies of as many bytes, timed in turn


def measure(name: str, quick: bool) -> list[Row]:
    """Check a kernel, then time it, its twin and copies of as many bytes in turn."""
    n, n_twin, repeat = (20_000, 50, 1) if quick else (1_000_000, 2_000, 15)
    case = CASES[name](n)
    case.check(n_twin)
    half = case.bytes_moved // 2  # a copy reads as much as it writes
    given, taken = np.ones(half, dtype=np.uint8), np.zeros(half, dtype=np.uint8)

    def copy(lo: int, hi: int) -> None:
        np.copyto(taken[lo:hi], given[lo:hi])

    jobs: dict[str, Callable[[], Any]] = {
        "copy": lambda: copy(0, half),
        "kernel": lambda: case.run(0, n),
        "twin": lambda: case.twin(n_twin),
    }
    if case.in_ranges:
        jobs["copy, 2 threads"] = lambda: run_in_ranges(copy, half, THREADS)
        jobs["kernel, 2 threads"] = lambda: run_in_ranges(case.run, n, THREADS)
    times = alternate(jobs, repeat)
    row: Row = {
        "rows": n,
        "values per row": case.values,
        "bytes per row": case.bytes_moved / n,
        "ns per row": 1e9 * statistics.median(times["kernel"]) / n,
        "twin, ns per row": 1e9 * statistics.median(times["twin"]) / n_twin,
        "× twin": median_ratio(times["twin"], times["kernel"]) * n / n_twin,
        "copy, GB/s": case.bytes_moved / statistics.median(times["copy"]) / 1e9,
        "share of copy": median_ratio(times["copy"], times["kernel"]),
    }
    if case.in_ranges:
        row["ns per row, 2 threads"] = 1e9 * statistics.median(times["kernel, 2 threads"]) / n
        row["copy, GB/s, 2 threads"] = case.bytes_moved / statistics.median(times["copy, 2 threads"]) / 1e9
        row["share of copy, 2 threads"] = median_ratio(times["copy, 2 threads"], times["kernel, 2 threads"])
    return [row]


def units(quick: bool) -> list[Unit]:
    """List the kernels."""
    return [Unit({"kernel": name}, functools.partial(measure, name, quick)) for name in CASES]


# The table of the kernels

_EXPONENTIAL = "limited by exp, not by memory"
REMARKS = {
    "copy_masks, balanced": "three hashes and a loop over the groups a person shares",
    "pack_shared": "reads single values of a row, and tests each",
    "gather_masked_columns": "reads along columns, writes along rows",
    "hash_rows": "two chains of multiplications; the twin only tells rows apart",
    "assign_cells": "random lookups; one thread, includes emptying the table",
    **dict.fromkeys(("logistic", "poisson", "gamma", "tweedie", f"softmax, {N_CLASSES} classes"), _EXPONENTIAL),
}


def table(rows: Rows) -> Table:
    """Return one line per kernel."""
    columns = [
        "kernel", "bytes per row", "ns per row", "2 threads", "ns per value", "naive twin, ns per row",
        "× faster than the twin", "share of numpy's copy", "2 threads, of a copy by 2", "remark",
    ]  # fmt: skip
    return columns, [
        [
            row["kernel"], f"{float(row['bytes per row']):.0f}", f"{float(row['ns per row']):.2f}",
            _or_dash(row.get("ns per row, 2 threads"), ".2f"),
            f"{float(row['ns per row']) / int(row['values per row']):.2f}", f"{float(row['twin, ns per row']):,.0f}",
            f"{float(row['× twin']):,.0f}", f"{float(row['share of copy']):.0%}",
            _or_dash(row.get("share of copy, 2 threads"), ".0%"), REMARKS.get(row["kernel"], ""),
        ]
        for row in rows
    ]  # fmt: skip


def _or_dash(value: str | None, form: str) -> str:
    return f"{float(value):{form}}" if value else "–"


# The figure of the kernels


def figure(rows: Rows) -> Figure:
    """Draw the share of the copy's bandwidth, with the speed-up over the twin written beside."""
    drawing = Figure(figsize=(9, 6.5), layout="constrained")
    ax = drawing.subplots()
    for place, row in enumerate(reversed(rows)):
        one, two = float(row["share of copy"]), float(row.get("share of copy, 2 threads") or "nan")
        ax.barh(place + 0.19, 100 * one, 0.36, color="#0072B2", label="1 thread" if place == 0 else None)
        ax.barh(place - 0.19, 100 * two, 0.36, color="#E69F00", label="2 threads" if place == 0 else None)
        end = 100 * float(np.nanmax([one, two]))
        digits = f"{float(row['× twin']):.2g}"
        beside: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        ax.annotate(f"{float(digits):,.0f} ×", (end, place), bbox=paper, **beside)
    ax.axvline(100, color="0.3", lw=0.8, ls="--", zorder=0)
    ax.set_yticks(range(len(rows)), [row["kernel"] for row in reversed(rows)], fontsize=9)
    ax.set_xscale("log")
    ax.margins(x=0.12, y=0.01)
    ax.set_xlim(left=min(1.0, ax.get_xlim()[0]))
    ax.xaxis.set_major_formatter("{x:g} %")
    ax.set_xlabel("bytes per second, against a numpy copy with as many threads")
    ax.grid(axis="x", color="0.9", lw=0.6)
    ax.set_axisbelow(True)
    drawing.legend(
        loc="outside upper center", ncols=2, fontsize=9, frameon=False,
        title="number beside a bar: times faster than the naive twin (1 thread)", title_fontsize=9,
    )  # fmt: skip
    return drawing


PAGE = part_of(
    table, "kernel", "ns per row", "2 threads", "× faster than the twin", "share of numpy's copy",
    "2 threads, of a copy by 2", "remark",
)  # fmt: skip
STUDY = Study("kernels", units, table, figure, PAGE, alone=True, seed=f"0 and {SEED}")
