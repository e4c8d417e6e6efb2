"""Every kernel against its naive twin."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from twins import masks as naive

from pucboost._kernels import compiling as threads
from pucboost._kernels import masks as kernel
from pucboost._kernels import rows
from pucboost._virtual.plan import SCHEMES

uint64 = st.integers(0, 2**64 - 1)


def u(value: int) -> Any:
    return np.uint64(value)


@given(uint64, st.integers(0, 10), uint64, uint64)
def test_counter_hash(seed: int, stream: int, row: int, counter: int) -> None:
    key = u(kernel.stream_key(u(seed), u(stream)))
    ours = kernel.counter_hash(key, u(row), u(counter))
    assert int(ours) == naive.counter_hash(seed, stream, row, counter)


@given(uint64, uint64)
def test_submask_and_count(index: int, mask: int) -> None:
    assert int(kernel.count_groups(u(mask))) == naive.count_groups(mask) == mask.bit_count()
    index %= 2 ** mask.bit_count()
    assert int(kernel.submask(u(index), u(mask))) == naive.submask(index, mask)


def test_submasks_enumerate_all_subsets_once() -> None:
    mask = 0b1011_0101
    every = {naive.submask(j, mask) for j in range(2**5)}
    assert every == {s for s in range(256) if s & mask == s}


@pytest.mark.parametrize("scheme", SCHEMES)
@given(
    seed=uint64, available=st.lists(uint64, min_size=1, max_size=8), copies=st.lists(st.integers(0, 2**40), min_size=8)
)
@settings(max_examples=60)
def test_copy_masks(scheme: str, seed: int, available: list[int], copies: list[int]) -> None:
    n = len(available)
    out = np.empty(n, dtype=np.uint64)
    number = [c % 2 ** a.bit_count() for c, a in zip(copies, available, strict=False)]
    masks = np.array(available, dtype=np.uint64)
    for ids in (np.empty(0, dtype=np.uint64), ~masks):
        kernel.copy_masks(SCHEMES[scheme], u(seed), masks, ids, np.arange(n), np.array(number), 0, n, out)
        names = ids.tolist() or range(n)
        twin = [naive.copy_mask(scheme, seed, *given) for given in zip(names, number, available, strict=False)]
        assert out.tolist() == twin


@pytest.mark.parametrize("scheme", SCHEMES)
def test_copy_masks_in_any_order_and_in_pieces(scheme: str) -> None:
    """Copies that follow one another are counted up from the last; every other order must start anew."""
    available = [0b1011, 0b1101, 0b110, 0, 2**63 + 5, 2**64 - 1]
    ordered = [(row, copy) for row, mask in enumerate(available) for copy in range(min(8, 2 ** mask.bit_count()))]
    shuffled = [ordered[i] for i in np.random.default_rng(0).integers(0, len(ordered), 300)]
    across = [*zip([0, 1, 0, 1, 1, 1, 1, 1, 5, 2, 0, 1, 1], [0, 1, 2, 3, 4, 4, 6, 5, 6, 3, 7, 7, 0], strict=True)]
    for pairs in (ordered, ordered[::-1], shuffled, across):
        rows, copies = (np.array(part) for part in zip(*pairs, strict=True))
        wanted = [naive.copy_mask(scheme, 7, row, copy, available[row]) for row, copy in pairs]
        for size in (1, 3, len(pairs)):
            out = np.full(len(pairs), 0b1000_0001, dtype=np.uint64)  # a piece must not read what another will write
            for lo in reversed(range(0, len(pairs), size)):
                hi = min(lo + size, len(pairs))
                masks, ids = np.array(available, dtype=np.uint64), np.empty(0, dtype=np.uint64)
                kernel.copy_masks(SCHEMES[scheme], u(7), masks, ids, rows, copies, lo, hi, out)
            assert out.tolist() == wanted


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.data())
def test_walk_rows(copies: list[int], data: Any) -> None:
    offsets = np.concatenate([[0], np.cumsum(copies)]).astype(np.int64)
    start = data.draw(st.integers(0, int(offsets[-1])))
    stop = data.draw(st.integers(start, int(offsets[-1])))
    row, copy = (np.empty(stop - start, dtype=np.int64) for _ in range(2))
    middle = (stop - start) // 2
    for lo, hi in ((0, middle), (middle, stop - start)):
        kernel.walk_rows(offsets, start, lo, hi, row, copy)
    assert list(zip(row.tolist(), copy.tolist(), strict=True)) == naive.walk_rows(offsets.tolist(), start, stop)


GROUPS = [[1], [4, 2], [5]]
START, COLUMNS = np.array([0, 1, 3, 4]), np.array([1, 4, 2, 5])
COLUMN_BITS = np.array([0, 0b001, 0b010, 0, 0b010, 0b100], dtype=np.uint64)
floats = st.one_of(st.floats(width=32), st.sampled_from([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-36, 1e-30]))


def tables(dtype: Any) -> Any:
    return hnp.arrays(dtype, st.tuples(st.integers(1, 9), st.just(6)), elements=floats)


@pytest.mark.parametrize("zero_is_missing", [False, True])
@given(block=tables(np.float32))
def test_pack_shared(zero_is_missing: bool, block: Any) -> None:
    out = np.empty(len(block), dtype=np.uint64)
    kernel.pack_shared(block, START, COLUMNS, zero_is_missing, 0, len(block), out)
    assert out.tolist() == naive.pack_shared(block, GROUPS, zero_is_missing)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("fill", [np.nan, -1.0])
@given(data=st.data())
@settings(max_examples=40)
def test_gather(dtype: Any, order: Any, fill: float, data: Any) -> None:
    source = np.asarray(data.draw(tables(dtype)), order=order)
    pick = data.draw(st.lists(st.integers(0, len(source) - 1), max_size=300))
    masks = data.draw(st.lists(st.integers(0, 7), min_size=len(pick), max_size=len(pick)))
    out = np.empty((len(pick), 6), dtype=dtype)
    gather = rows.gather_masked_rows if order == "C" else rows.gather_masked_columns
    args = source, np.array(pick, dtype=np.int64), np.array(masks, dtype=np.uint64), COLUMN_BITS, dtype(fill)
    for lo, hi in ((0, len(pick) // 3), (len(pick) // 3, len(pick))):
        gather(*args, lo, hi, out)
    np.testing.assert_array_equal(out, naive.gather_masked_rows(source, pick, masks, GROUPS, fill))


def test_scatter_cells() -> None:
    rng = np.random.default_rng(0)
    for dtype, numbers_per_cell in ((np.float32, 1), (np.float64, 3)):
        values = rng.normal(size=(9, 4, numbers_per_cell)).astype(dtype)
        places, columns = rng.permutation(20)[:9], rng.permutation(7)[:4]
        out, twin = (np.full((20, 7, numbers_per_cell), np.nan) for _ in range(2))
        for lo, hi in ((0, 4), (4, 9)):
            rows.scatter_cells(values, places, columns, lo, hi, out)
        naive.scatter_cells(values, places.tolist(), columns.tolist(), twin)
        np.testing.assert_array_equal(out, twin)
        assert np.isnan(out).any()


@given(tables(np.float32))
def test_nonzero_columns(block: Any) -> None:
    counts = np.zeros(6, dtype=np.int64)
    rows.count_nonzero_columns(block, counts)
    twin = naive.nonzero_columns(block)
    assert counts.tolist() == [len(values) for values, _ in twin]
    bounds = np.concatenate([[0], np.cumsum(counts)])
    values, positions = np.empty(bounds[-1]), np.empty(bounds[-1], dtype=np.int32)
    slot = bounds[:-1].copy()
    half = len(block) // 2
    rows.append_nonzero_columns(block[:half], 0, slot, values, positions)
    rows.append_nonzero_columns(block[half:], half, slot, values, positions)
    for j, (expected, places) in enumerate(twin):
        np.testing.assert_array_equal(values[bounds[j] : bounds[j + 1]], expected)
        assert positions[bounds[j] : bounds[j + 1]].tolist() == places


@given(
    uint64, st.lists(st.floats(1, 1e6), min_size=65, max_size=65), st.lists(st.integers(0, 64), min_size=1, max_size=50)
)
def test_round_at_random(seed: int, expected: list[float], counts: list[int]) -> None:
    out = np.empty(len(counts), dtype=np.int64)
    for ids in (np.empty(0, dtype=np.uint64), np.arange(7, 7 + len(counts), dtype=np.uint64)):
        kernel.round_at_random(u(seed), np.array(expected), np.array(counts), ids, 0, len(counts), out)
        assert out.tolist() == naive.round_at_random(seed, expected, counts, ids.tolist())


@given(st.lists(st.tuples(uint64, uint64), min_size=1, max_size=20), uint64)
def test_hash_pairs(pairs: list[tuple[int, int]], seed: int) -> None:
    ids, counters = (np.array(part, dtype=np.uint64) for part in zip(*pairs, strict=True))
    out = np.empty(len(pairs), dtype=np.uint64)
    kernel.hash_pairs(u(seed), kernel.STREAM_BINS, ids, counters, 0, len(pairs), out)
    assert out.tolist() == [naive.counter_hash(seed, 6, *pair) for pair in pairs]


def test_indicators() -> None:
    out = np.empty((3, 4), dtype=np.float32)
    rows.mask_indicators(np.array([0, 0b1001, 0b1111], dtype=np.uint64), 0, 3, out)
    assert out.tolist() == [[0, 0, 0, 0], [1, 0, 0, 1], [1, 1, 1, 1]]


def test_ranges_cover_everything_once() -> None:
    def mark(lo: int, hi: int) -> None:
        seen[lo:hi] += 1

    for n_items in (0, 1, 5_000, 100_001):
        for n_threads in (1, 2, 7):
            seen = np.zeros(n_items, dtype=int)
            threads.run_in_ranges(mark, n_items, n_threads)
            assert (seen == 1).all()


def test_thread_errors_reach_the_caller() -> None:
    def fail(lo: int, hi: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        threads.run_in_ranges(fail, 100_000, 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_kernels_work_in_a_forked_child() -> None:
    block = np.zeros((50_000, 6), dtype=np.float32)
    out = np.ones(50_000, dtype=np.uint64)
    job = lambda lo, hi: kernel.pack_shared(block, START, COLUMNS, False, lo, hi, out)  # noqa: E731
    threads.run_in_ranges(job, len(block), 2)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            out[:] = 1
            threads.run_in_ranges(job, len(block), 2)
            status = 0 if (out == 7).all() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
