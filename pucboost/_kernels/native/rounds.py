"""What all threads do in a round: draw the bag, fill in gradients, grow a tree, and add it to the scores.

The threads of a crew stay in :func:`do_jobs` from one job to the next. A job is a few numbers in ``signals``; all else
is memory that was there when they came in. So handing out a job costs no more than a look, while a thread that had to
return to Python, or to sleep, would come back later than many a tree takes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._arrays import Array
from ..compiling import kernel
from .atomics import look_for, wait_for_all
from .bags import count_bag, gather_codes, write_bag
from .gradients import fill_gradients
from .growth import grow_tree
from .histograms import CHUNK_ROWS, MEAN_LEVELS, MOST_LEVELS, gradient_sizes, pack_gradients
from .memory import Bag, Limits
from .scores import PLANE, Nodes, Tests, add_leaf_values, leaf_ranges, sort_tests

DRAW, GROW, ADD, LEAVE = range(4)
"""Jobs: draw a bag; grow a tree on it; add a tree to the scores; leave the kernel."""

JOB, THREADS, BAG_ROWS, CLASS, LOSS, LEAVES, NODES, N_TESTS, N_PARTS = range(9)
"""Where the numbers of a job stand in ``signals.whole``: what, how many threads, the size of the bag, the class, the
loss (−1 if gradients are there already), the leaves of the grown tree; the nodes of the tree to add, its tests and
their parts."""

SCALE_G, SCALE_H, CONSTANT, START = range(4)
"""Where these stand in ``bag.numbers``; the start of the first class comes last."""

BAG_KEY, CHANCE, TREE_KEY = range(3)
"""Where keys of random numbers stand in ``signals.keys``, and the probability of a row to be drawn."""


class Signals(NamedTuple):
    """What the threads tell each other."""

    calls: Array
    """How many jobs were handed out."""
    served: Array
    """How many jobs each thread has begun; a line of the cache each."""
    arrivals: Array
    whole: Array
    keys: Array


class PoolMemory(NamedTuple):
    """The pool that trees grow on."""

    codes: Array
    rows: Array
    layer_n: Array
    layer_start: Array
    masks: Array
    erase: Array
    label: Array
    weight: Array
    scores: Array
    ranges: Array
    """The first person of each thread, and N: about as many pool rows each."""


class BagMemory(NamedTuple):
    """Room for the rows of a bag, their codes and their gradients (twice, see :class:`Bag`)."""

    rows: Array
    people: Array
    codes: Array
    other_codes: Array
    packed: Array
    other_packed: Array
    counts: Array
    """Rows of each block of people, later where they begin."""
    sizes: Array
    """What :func:`gradient_sizes` says of each chunk."""
    units: Array
    """Sums of each thread in units."""
    gathered: Array
    """Scores, labels and weights of some rows, for each thread."""
    largest: Array
    total: Array
    """What all classes of a row have in common; empty for other losses."""
    numbers: Array
    """Scales of the gradients, the constant of the loss, and what each class starts from."""


class GrowthMemory(NamedTuple):
    """All that :func:`grow_tree` wants besides."""

    features: Any
    cells: Any
    limits: Any
    penalties: Any
    rules: Any
    shared: Any
    tree: Any


class AddedTree(NamedTuple):
    """The tree to add, and room for its tests."""

    column: Array
    first_right: Array
    span: Array
    in_set: Array
    right_set: Array
    left: Array
    right: Array
    values: Array
    bits: Array
    """Whether each code goes right, a byte each; without rows if no node has a set."""
    group: Array
    """The consent group of each column."""
    order: Array
    """Four numbers for each leaf."""
    plane_start: Array
    part_start: Array
    part_group: Array
    part_missing: Array
    node: Array
    keep: Array
    counters: Array
    by_plane: Array
    sets: Array
    value: Array


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _draw(thread: Any, signals: Any, pool: Any, bag: Any) -> None:
    """Draw the bag, if there is room for it; its size is known then in any case."""
    threads, keys = signals.whole[THREADS], signals.keys
    blocks = len(bag.counts) - 1
    lo, hi = blocks * thread // threads, blocks * (thread + 1) // threads
    count_bag(keys[BAG_KEY], keys[CHANCE], pool.layer_n, pool.layer_start, lo, hi, bag.counts)
    if not wait_for_all(signals.arrivals, threads):
        return
    if thread == 0:
        total: Any = np.int64(0)
        for block in range(blocks):
            here = bag.counts[block]
            bag.counts[block] = total
            total += here
        bag.counts[blocks] = total
        signals.whole[BAG_ROWS] = total
    if wait_for_all(signals.arrivals, threads) and signals.whole[BAG_ROWS] <= len(bag.rows):
        write_bag(keys[BAG_KEY], keys[CHANCE], pool.layer_n, pool.layer_start, bag.counts, lo, hi, bag.rows, bag.people)


@kernel(error_model="numpy", no_cpython_wrapper=True)
def scale_of(mean: Any, largest: Any) -> Any:
    """Return the power of two that gives the mean about MEAN_LEVELS units, and the largest at most MOST_LEVELS."""
    if largest == 0.0:
        return 1.0
    most = MOST_LEVELS / largest
    if mean > 0.0:
        most = min(most, MEAN_LEVELS / mean)
    return 2.0 ** min(100.0, max(-100.0, np.floor(np.log2(most))))


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _fill(thread: Any, signals: Any, pool: Any, bag: Any) -> None:
    """Write codes and whole-number gradients of the bag; scales go to ``bag.numbers``.

    Scales are powers of two, so that nothing is lost when sums are scaled back. If gradients are not finite, so is the
    first scale.
    """
    whole, numbers = signals.whole, bag.numbers
    threads, n, k = whole[THREADS], whole[BAG_ROWS], whole[CLASS]
    chunks = (n + CHUNK_ROWS - 1) // CHUNK_ROWS
    first, last = chunks * thread // threads, chunks * (thread + 1) // threads
    lo, hi = min(n, first * CHUNK_ROWS), min(n, last * CHUNK_ROWS)
    floats = bag.other_packed.view(np.float32)  # this half is not in use before the tree grows
    gradient, hessian = floats[:n], floats[n : 2 * n]
    if whole[LOSS] >= 0:
        fill_gradients(
            whole[LOSS], numbers[CONSTANT], numbers[START:], pool.scores, pool.label, pool.weight, bag.rows,
            bag.people, lo, hi, k, bag.gathered[thread], bag.largest, bag.total, gradient, hessian,
        )  # fmt: skip
    gradient_sizes(gradient, hessian, first, last, bag.sizes)
    if not wait_for_all(signals.arrivals, threads):
        return
    sum_g, top_g, sum_h, top_h = 0.0, 0.0, 0.0, 0.0
    for chunk in range(chunks):  # by every thread, in the same order
        sum_g += bag.sizes[chunk, 0]
        top_g = max(top_g, bag.sizes[chunk, 1])
        sum_h += bag.sizes[chunk, 2]
        top_h = max(top_h, bag.sizes[chunk, 3])
    if not np.isfinite(sum_g + sum_h):
        if thread == 0:
            numbers[SCALE_G] = np.nan
        return
    scale_g, scale_h = scale_of(sum_g / max(n, 1), top_g), scale_of(sum_h / max(n, 1), top_h)
    lo, hi = n * thread // threads, n * (thread + 1) // threads
    gather_codes(pool.rows, pool.masks, pool.erase, bag.rows, bag.people, lo, hi, bag.codes)
    units_g, units_h = pack_gradients(
        gradient, hessian, np.float32(scale_g), np.float32(scale_h), lo, hi, bag.packed
    )  # fmt: skip
    bag.units[thread, 0], bag.units[thread, 1] = units_g, units_h
    if thread == 0:
        numbers[SCALE_G], numbers[SCALE_H] = scale_g, scale_h


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _grow(thread: Any, signals: Any, pool: Any, bag: Any, growth: Any, leaves: Any, scratch: Any) -> None:
    """Grow a tree on the bag; ``signals.whole`` says how many leaves it has."""
    threads, n, numbers = signals.whole[THREADS], signals.whole[BAG_ROWS], bag.numbers
    _fill(thread, signals, pool, bag)
    if not wait_for_all(signals.arrivals, threads) or np.isnan(numbers[SCALE_G]):
        return
    units_g, units_h = np.int64(0), np.int64(0)
    for other in range(threads):
        units_g += bag.units[other, 0]
        units_h += bag.units[other, 1]
    unit_g, unit_h = 1.0 / numbers[SCALE_G], 1.0 / numbers[SCALE_H]
    rows = Bag(
        bag.codes[:n], bag.packed[:n], bag.other_codes[:n], bag.other_packed[:n], unit_g, unit_h, units_g * unit_g,
        units_h * unit_h,
    )  # fmt: skip
    given = growth.limits
    limits = Limits(
        given.max_depth, given.min_rows, given.min_hessian, given.min_gain, given.per_node, given.extra_trees,
        given.intermediate, signals.keys[TREE_KEY],
    )  # fmt: skip
    n_leaves = grow_tree(
        thread, threads, n * thread // threads, n * (thread + 1) // threads, len(growth.tree.leaf_value), rows,
        growth.features, growth.cells, limits, growth.penalties, growth.rules, growth.shared, signals.arrivals, leaves,
        scratch, growth.tree,
    )  # fmt: skip
    if thread == 0:
        signals.whole[LEAVES] = n_leaves


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _sort(signals: Any, added: Any) -> None:
    """Write the tests of the tree to add, if there is room for them; their number is known then in any case."""
    n = signals.whole[NODES]
    n_planes, n_groups = n // PLANE + 1, len(added.counters) // (2 * len(added.by_plane))
    order, first, size, place = added.order[0], added.order[1], added.order[2], added.order[3]
    n_tests = leaf_ranges(added.left[:n], added.right[:n], order, first, size, place)
    signals.whole[N_TESTS], signals.whole[N_PARTS] = n_tests, 0
    if n_tests > len(added.node):
        return
    for node in range(n if len(added.bits) else 0):
        for code in range(256):
            bit = (added.right_set[node, code >> 6] >> np.uint64(code & 63)) & np.uint64(1)
            added.bits[node, code] = np.uint8(bit)
    keys = n_planes * n_groups
    next_test, part_of = added.counters[:keys], added.counters[keys : 2 * keys]
    next_test[:] = 0
    nodes = Nodes(added.column[:n], added.first_right[:n], added.span[:n], added.in_set[:n], added.bits)
    tests = Tests(
        added.plane_start[: n_planes + 1], added.part_start, added.part_group, added.part_missing, added.node,
        added.keep,
    )  # fmt: skip
    signals.whole[N_PARTS] = sort_tests(first[:n], size[:n], nodes, added.group, next_test, part_of, tests)
    for leaf in range(n + 1):
        added.by_plane[place[leaf] // PLANE, place[leaf] % PLANE] = np.float32(added.values[leaf])


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _add(thread: Any, signals: Any, pool: Any, added: Any) -> None:
    """Add the value of its leaf to the score of every pool row."""
    whole = signals.whole
    if thread == 0:
        _sort(signals, added)
    if not wait_for_all(signals.arrivals, whole[THREADS]):
        return
    n, n_parts = whole[NODES], whole[N_PARTS]
    if whole[N_TESTS] > len(added.node) or n_parts + 2 > added.sets.shape[1]:
        return
    n_planes = n // PLANE + 1
    tests = Tests(
        added.plane_start[: n_planes + 1], added.part_start, added.part_group, added.part_missing, added.node,
        added.keep,
    )  # fmt: skip
    nodes = Nodes(added.column[:n], added.first_right[:n], added.span[:n], added.in_set[:n], added.bits)
    add_leaf_values(
        pool.codes, pool.masks, pool.layer_n, pool.layer_start, nodes, tests, n_parts, added.by_plane,
        added.sets[thread], added.value[thread], pool.ranges[thread], pool.ranges[thread + 1],
        pool.scores[whole[CLASS]],
    )  # fmt: skip


@kernel(error_model="numpy")
def do_jobs(
    thread: Any, stay: Any, signals: Any, pool: Any, bag: Any, growth: Any, added: Any, leaves: Any, scratch: Any
) -> None:
    """Do a thread's part of the next job, and if it is to stay, of all that come while it looks on."""
    served = signals.served[thread]
    while True:
        if stay and not look_for(signals.calls, served[0] + 1):
            return
        served[0] += 1
        job = signals.whole[JOB]
        if job == LEAVE:
            return
        if job == DRAW:
            _draw(thread, signals, pool, bag)
        elif job == GROW:
            _grow(thread, signals, pool, bag, growth, leaves, scratch)
        elif job == ADD:
            _add(thread, signals, pool, added)
        if not wait_for_all(signals.arrivals, signals.whole[THREADS]) or not stay:
            return
