"""What all threads do in a round: draw the bag, fill in gradients, grow a tree, and add it to the scores.

The threads of a crew stay in :func:`do_jobs` from one job to the next. A job is a few numbers in ``signals``; all else
is memory that was there when they came in. So handing out a job costs no more than a look, while a thread that had to
return to Python, or to sleep, would come back later than many a tree takes.

A tree grows leaf by leaf: always the leaf is split whose split gains most. All threads run :func:`grow_tree` at once.
Each owns some rows of the bag, whose codes it moves about with the leaves, and some columns, in which it looks for
splits. Of everything else each keeps a copy of its own, made of the same numbers; only the first thread writes the
tree. Threads meet twice for every split: when all have their part of a histogram (or of the rows it is made of), and
when all have their best split.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...._common import Array
from ...._kernels.compiling import by_reference, kernel
from .codes import bag_words, count_bag, gather_codes, write_bag
from .gradients import PLANE, CodeTree, add_leaf_values, arrange_tests, fill_gradients
from .histograms import (
    CHUNK_ROWS,
    MEAN_LEVELS,
    MOST_LEVELS,
    add_to_histogram,
    clear_histogram,
    gradient_sizes,
    look_for,
    merge_column,
    pack_gradients,
    partition,
    right_codes,
    wait_for_all,
)
from .splits import (
    BIN,
    FEATURE,
    GAIN,
    L2,
    LEFT_G,
    LEFT_H,
    MISSING_LEFT,
    code_test,
    leaf_output,
    search_leaf,
    take_best,
)

# ----- what growing a tree works on: arrays and numbers under names, as tuples that kernels can read


@by_reference
class Features(NamedTuple):
    """What splits on each feature depend on; int64 arrays, flags are 0 or 1."""

    column: Array
    first: Array
    n_bins: Array
    bundled: Array
    has_missing: Array
    categorical: Array
    monotone: Array
    """−1, 0 or 1."""
    used: Array
    """Whether this tree may split on it."""
    comes_first: Array
    """Whether trees may begin with whether it is missing."""
    together: Array
    """Interaction constraints: sets × features. Without any set, all features may meet."""


@by_reference
class Cells(NamedTuple):
    """Where the wide cells of each column begin, and how many value codes it has; missing values come after these."""

    at: Array
    n_codes: Array


class Limits(NamedTuple):
    """When growing stops, and what is left to chance."""

    max_depth: int
    """0 or less for none."""
    min_rows: float
    min_hessian: float
    min_gain: float
    per_node: float
    """Share of the features that each node may use."""
    extra_trees: bool
    intermediate: bool
    """Whether monotone leaves are bounded by the values of those on the other side, not by the middle of a split."""
    key: Any
    """Of this tree's random numbers (uint64)."""
    silence_first: Any
    """Whether the first split is on what is missing, if anything is gained by that."""


class Bag(NamedTuple):
    """The rows of the bag, twice: leaves move from one half to the other when they are split."""

    codes: Array
    packed: Array
    other_codes: Array
    other_packed: Array
    unit_g: float
    unit_h: float
    """What the units of the packed gradients stand for: powers of two."""
    total_g: float
    total_h: float
    """Sums over the bag."""


@by_reference
class Shared(NamedTuple):
    """What the threads show each other; one row for each thread, but wide cells have one for each leaf."""

    counts: Array
    """Rows of the two new leaves."""
    spans: Array
    """Where the rows of the smaller one begin and end."""
    poured: Array
    narrow: Array
    poured_g: Array
    poured_h: Array
    wide_g: Array
    wide_h: Array
    found: Array
    found_sets: Array


@by_reference
class Leaves(NamedTuple):
    """One thread's copy of the state of the leaves; one entry each."""

    first: Array
    end: Array
    """Its own rows of the leaf."""
    half: Array
    """Which half of the bag they are in."""
    depth: Array
    parent: Array
    rows: Array
    """Of all threads."""
    sum_g: Array
    sum_h: Array
    value: Array
    lowest: Array
    highest: Array
    """Bounds of the value, from monotone constraints."""
    best: Array
    best_set: Array
    """Its best split."""
    path: Array
    """Features that were split on to get there."""
    barren: Array
    """Features by which nothing was gained there or further up, of the columns of this thread."""
    born: Array
    """A number for the random numbers of its search."""
    sign: Array
    """Of each node: whether values must rise (1) or fall (−1) from left to right."""
    side: Array
    """Leaves × nodes: −1 to the left of the node, 1 to the right, 0 elsewhere."""
    changed: Array
    """Whether its bounds have changed."""


@by_reference
class Scratch(NamedTuple):
    """Memory of one thread for a search in one column."""

    allowed: Array
    below_g: Array
    below_h: Array
    gains: Array
    order: Array
    left_set: Array
    right_set: Array
    goes_right: Array
    """Whether each code goes right, a byte each."""


@by_reference
class Tree(NamedTuple):
    """A tree as a model holds it. Without inner nodes it is a single leaf."""

    code: CodeTree
    feature: Array
    bin: Array
    """Numeric splits: bins up to this one go left."""
    left_set: Array
    """Categorical splits: the bins that go left, 256 bits each."""
    default_left: Array
    gain: Array
    internal_value: Array
    internal_weight: Array
    internal_count: Array
    leaf_value: Array
    """Shrinkage included."""
    leaf_weight: Array
    leaf_count: Array
    shrinkage: float


# ----- one tree

FEW_ROWS = 3_000
"""Of a leaf with fewer rows, by its hessian, each thread adds up its own columns for all rows.

Else it adds up all columns for its own rows, and the sums of the threads are added up. These are of some 64 KB, however
few rows there are, and what one core has written reaches another one slowly. Sums are exact either way.
"""


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _sum(counts: Array, side: Any) -> Any:
    """Return the rows of all threads."""
    total = 0
    for thread in range(len(counts)):
        total += counts[thread, side]
    return total


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _start(leaves: Any, lo: Any, hi: Any, bag: Any, penalties: Any) -> None:
    """Make the root: the whole bag."""
    leaves.first[0], leaves.end[0], leaves.half[0], leaves.depth[0], leaves.parent[0] = lo, hi, 0, 0, -1
    rows = len(bag.packed)
    leaves.rows[0], leaves.sum_g[0], leaves.sum_h[0] = rows, bag.total_g, bag.total_h
    leaves.lowest[0], leaves.highest[0] = -np.inf, np.inf
    for f in range(leaves.path.shape[1]):
        leaves.path[0, f] = leaves.barren[0, f] = 0
    value = leaf_output(bag.total_g, bag.total_h, np.float64(rows), penalties.l2, penalties, 0.0, -np.inf, np.inf)
    if penalties.smoothing > 0.0:  # the root has no parent towards which it could be pulled
        value *= (rows + penalties.smoothing) / rows
    leaves.value[0] = value


@kernel(error_model="numpy", no_cpython_wrapper=True)
def own_columns(thread: Any, threads: Any, n_columns: Any, words: Any) -> Any:
    """Return the first and the end of the columns of a thread: whole words if there are enough."""
    if words < threads:
        return n_columns * thread // threads, n_columns * (thread + 1) // threads
    return min(n_columns, words * thread // threads * 8), min(n_columns, words * (thread + 1) // threads * 8)


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _own_histogram(
    thread: Any, threads: Any, number: Any, by_column: Any, c0: Any, c1: Any, n_columns: Any, leaves: Any, bag: Any,
    shared: Any,
) -> None:  # fmt: skip
    """Write this thread's part of the histogram of a leaf: its columns of all rows, or all columns of its rows."""
    codes, packed = bag.codes, bag.packed
    if leaves.half[number]:
        codes, packed = bag.other_codes, bag.other_packed
    narrow, poured_g, poured_h = shared.narrow[thread], shared.poured_g[thread], shared.poured_h[thread]
    in_g, in_h, poured = np.int64(0), np.int64(0), False
    if by_column:
        clear_histogram(c0 // 8, c1, narrow)
        for other in range(threads):
            in_g, in_h, poured = add_to_histogram(
                codes, packed, shared.spans[other, 0], shared.spans[other, 1], c0 // 8, c1, in_g, in_h, poured,
                narrow, poured_g, poured_h,
            )  # fmt: skip
    else:
        clear_histogram(0, n_columns, narrow)
        in_g, in_h, poured = add_to_histogram(
            codes, packed, leaves.first[number], leaves.end[number], 0, n_columns, in_g, in_h, poured,
            narrow, poured_g, poured_h,
        )  # fmt: skip
    shared.poured[thread] = poured


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _share_cells(
    column: Any, first_thread: Any, end_thread: Any, left: Any, right: Any, small: Any, cells: Any, shared: Any
) -> None:
    """Write the wide cells of one column: of the smaller child the sums over threads, of the other one the rest.

    The cells of the parent are where those of its left child will be.
    """
    at, n_codes = cells.at[column], cells.n_codes[column]
    wide_g, wide_h = shared.wide_g, shared.wide_h
    if right >= 0 and small == left:
        for k in range(at, at + n_codes + 1):
            wide_g[right, k], wide_h[right, k] = wide_g[left, k], wide_h[left, k]
    merge_column(
        shared.narrow, shared.poured, shared.poured_g, shared.poured_h, column, at, n_codes, first_thread, end_thread,
        wide_g[small], wide_h[small],
    )  # fmt: skip
    if right >= 0:
        large = left + right - small
        for k in range(at, at + n_codes + 1):
            wide_g[large, k] -= wide_g[small, k]
            wide_h[large, k] -= wide_h[small, k]


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _write_node(
    tree: Any, node: Any, left: Any, right: Any, column: Any, start: Any, span: Any, in_set: Any, leaves: Any,
    right_set: Array,
) -> None:  # fmt: skip
    """Write a new node, which takes the place of the leaf ``left``."""
    found, code = leaves.best[left], tree.code
    tree.feature[node], tree.bin[node] = np.int64(found[FEATURE]), np.int64(found[BIN])
    tree.default_left[node] = found[MISSING_LEFT] > 0.0
    code.column[node], code.first_right[node], code.span[node] = column, np.uint8(start), np.uint8(span)
    code.in_set[node] = in_set
    for k in range(4):
        tree.left_set[node, k], code.right_set[node, k] = leaves.best_set[left, k], right_set[k]
    tree.gain[node], tree.internal_value[node] = found[GAIN], leaves.value[left]
    tree.internal_weight[node], tree.internal_count[node] = leaves.sum_h[left], leaves.rows[left]
    parent = leaves.parent[left]
    if parent >= 0:
        if code.left[parent] == ~left:
            code.left[parent] = node
        else:
            code.right[parent] = node
    code.left[node], code.right[node] = ~left, ~right


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _split_rows(number: Any, column: Any, right: Array, leaves: Any, bag: Any) -> Any:
    """Move this thread's rows of a leaf to the other half of the bag; return where those of the right child begin."""
    codes, packed, codes_out, packed_out = bag.codes, bag.packed, bag.other_codes, bag.other_packed
    if leaves.half[number]:
        codes, packed, codes_out, packed_out = codes_out, packed_out, codes, packed
    return partition(codes, packed, leaves.first[number], leaves.end[number], column, right, codes_out, packed_out)


@kernel(error_model="numpy", no_cpython_wrapper=True)
def bound_by_others(n: Any, leaves: Any) -> None:
    """Bound the n leaves by each other: left of a rising split, no value is above the lowest on its right.

    All values keep within these bounds, so it does not matter which leaf is split next. LightGBM's intermediate method
    bounds a leaf only by those that touch it: both are monotone, this one is a little stricter.
    """
    for leaf in range(n):
        leaves.changed[leaf] = False
        low, high = -np.inf, np.inf
        for node in range(n - 1):
            side = leaves.side[leaf, node] * leaves.sign[node]
            if side == 0:
                continue
            for other in range(n):
                if leaves.side[other, node] == -leaves.side[leaf, node]:
                    if side < 0:
                        high = min(high, leaves.value[other])
                    else:
                        low = max(low, leaves.value[other])
        if low != leaves.lowest[leaf] or high != leaves.highest[leaf]:
            leaves.lowest[leaf], leaves.highest[leaf], leaves.changed[leaf] = low, high, True


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _make_children(
    left: Any, right: Any, node: Any, middle: Any, features: Any, penalties: Any, intermediate: Any, leaves: Any
) -> None:
    """Replace a leaf by its two children, of which the left one keeps its number."""
    found = leaves.best[left]
    f, left_g, left_h, l2 = np.int64(found[FEATURE]), found[LEFT_G], found[LEFT_H], found[L2]
    right_g, right_h = leaves.sum_g[left] - left_g, leaves.sum_h[left] - left_h
    leaves.first[right], leaves.end[right], leaves.end[left] = middle, leaves.end[left], middle
    leaves.half[left] = 1 - leaves.half[left]
    leaves.half[right] = leaves.half[left]
    leaves.parent[left], leaves.parent[right] = node, node
    leaves.depth[left] += 1
    leaves.depth[right] = leaves.depth[left]
    leaves.path[left, f] = 1
    for k in range(leaves.path.shape[1]):
        leaves.path[right, k], leaves.barren[right, k] = leaves.path[left, k], leaves.barren[left, k]
    per_hessian = leaves.rows[left] / leaves.sum_h[left]
    old, low, high = leaves.value[left], leaves.lowest[left], leaves.highest[left]
    left_value = leaf_output(left_g, left_h, left_h * per_hessian, l2, penalties, old, low, high)
    right_value = leaf_output(right_g, right_h, right_h * per_hessian, l2, penalties, old, low, high)
    leaves.value[left], leaves.value[right] = left_value, right_value
    leaves.lowest[right], leaves.highest[right] = low, high
    leaves.sum_g[left], leaves.sum_h[left], leaves.sum_g[right], leaves.sum_h[right] = left_g, left_h, right_g, right_h
    if intermediate:
        leaves.sign[node] = features.monotone[f]
        for k in range(node):
            leaves.side[right, k] = leaves.side[left, k]
        for leaf in range(right):
            leaves.side[leaf, node] = 0
        leaves.side[left, node], leaves.side[right, node] = -1, 1
        bound_by_others(right + 1, leaves)
        return
    between = 0.5 * (left_value + right_value)
    if features.monotone[f] > 0:
        leaves.highest[left], leaves.lowest[right] = between, between
    elif features.monotone[f] < 0:
        leaves.lowest[left], leaves.highest[right] = between, between


@kernel(error_model="numpy")
def grow_tree(
    thread: Any, threads: Any, lo: Any, hi: Any, num_leaves: Any, bag: Any, features: Any, cells: Any, limits: Any,
    penalties: Any, rules: Any, shared: Any, arrivals: Array, leaves: Any, scratch: Any, tree: Any,
) -> Any:  # fmt: skip
    """Grow one tree; this thread owns the rows lo … hi − 1 of the bag. Return the number of leaves.

    If another thread has failed, what is returned and written has no meaning.
    """
    words = bag.codes.shape[1]
    c0, c1 = own_columns(thread, threads, len(cells.at), words)
    _start(leaves, lo, hi, bag, penalties)
    rows, sum_h, value, best = leaves.rows, leaves.sum_h, leaves.value, leaves.best
    left: Any = np.int64(0)  # numba keeps these types
    right: Any = np.int64(-1)
    small: Any = np.int64(0)
    n: Any = np.int64(1)
    by_column: Any = False
    on_missing: Any = limits.silence_first
    while True:
        # The histogram of the smaller child (or of the root), and the other one by subtraction.
        if by_column:
            if not wait_for_all(arrivals, threads):  # for the rows of the others
                return 0
            _own_histogram(thread, threads, small, by_column, c0, c1, len(cells.at), leaves, bag, shared)
        else:
            _own_histogram(thread, threads, small, by_column, c0, c1, len(cells.at), leaves, bag, shared)
            if not wait_for_all(arrivals, threads):  # for the histograms of the others
                return 0
        if right >= 0:
            rows[left], rows[right] = _sum(shared.counts, 0), _sum(shared.counts, 1)
        first_thread, end_thread = (thread, thread + 1) if by_column else (0, threads)
        for column in range(c0, c1):
            _share_cells(column, first_thread, end_thread, left, right, small, cells, shared)

        # The best splits of the new leaves.
        for side in range(2 if right >= 0 else 1):
            number = right if side == 1 else left
            leaves.born[number] = 2 * n + side
            search_leaf(
                thread, side, number, on_missing, features, cells, limits, penalties, rules, bag, shared, c0, c1,
                leaves, scratch,
            )  # fmt: skip
        if not wait_for_all(arrivals, threads):
            return 0
        for side in range(2 if right >= 0 else 1):
            take_best(right if side == 1 else left, side, threads, shared, leaves)
        if on_missing and not best[0, GAIN] > 0.0:  # as in any other tree
            wait_for_all(arrivals, threads)
            search_leaf(
                thread, 0, 0, False, features, cells, limits, penalties, rules, bag, shared, c0, c1, leaves, scratch
            )
            wait_for_all(arrivals, threads)
            take_best(0, 0, threads, shared, leaves)
        on_missing = False
        if limits.intermediate and right >= 0:  # what the new values mean for splits that were found before
            for number in range(n):
                if leaves.changed[number] and number != left and number != right:
                    wait_for_all(arrivals, threads)
                    search_leaf(
                        thread, 0, number, False, features, cells, limits, penalties, rules, bag, shared, c0, c1,
                        leaves, scratch,
                    )  # fmt: skip
                    wait_for_all(arrivals, threads)
                    take_best(number, 0, threads, shared, leaves)

        # Split the best leaf: it becomes the left child.
        left = np.int64(0)
        for number in range(1, n):
            if best[number, GAIN] > best[left, GAIN]:
                left = number
        if not best[left, GAIN] > 0.0:
            break
        node, right = n - 1, n
        n += 1
        start, span, in_set = code_test(features, best[left], leaves.best_set[left], scratch.right_set)
        column = features.column[np.int64(best[left, FEATURE])]
        if thread == 0:
            _write_node(tree, node, left, right, column, start, span, in_set, leaves, scratch.right_set)
        right_codes(start, span, in_set, scratch.right_set, scratch.goes_right)
        middle = _split_rows(left, column, scratch.goes_right, leaves, bag)
        _make_children(left, right, node, middle, features, penalties, limits.intermediate, leaves)
        shared.counts[thread, 0] = leaves.end[left] - leaves.first[left]
        shared.counts[thread, 1] = leaves.end[right] - leaves.first[right]
        small = left if sum_h[left] < sum_h[right] else right
        shared.spans[thread, 0], shared.spans[thread, 1] = leaves.first[small], leaves.end[small]
        by_column = words >= threads and rows[left] * sum_h[small] < FEW_ROWS * (sum_h[left] + sum_h[right])
        if n == num_leaves:
            wait_for_all(arrivals, threads)
            rows[left], rows[right] = _sum(shared.counts, 0), _sum(shared.counts, 1)
            break
    if thread == 0:
        for number in range(n):
            tree.leaf_value[number], tree.leaf_weight[number] = value[number], sum_h[number]
            tree.leaf_count[number] = rows[number]
    return n


# ----- the jobs of a round

DRAW, GROW, ADD, LEAVE = range(4)
"""Jobs: draw a bag; grow a tree on it; add a tree to the scores; leave the kernel."""

JOB, THREADS, BAG_ROWS, CLASS, LOSS, SILENCE_FIRST, LEAVES, NODES, N_TESTS, N_PARTS = range(10)
"""Where the numbers of a job stand in ``signals.whole``: what, how many threads, the size of the bag, the class, the
loss (−1 if gradients are there already), whether the tree begins with what is missing, its leaves; the nodes of the
tree to add, its tests and their parts."""

SCALE_G, SCALE_H, CONSTANT, START = range(4)
"""Where these stand in ``bag.numbers``; the start of the first class comes last."""

BAG_KEY, CHANCE, TREE_KEY = range(3)
"""Where keys of random numbers stand in ``signals.keys``, and the probability of a row to be drawn."""


@by_reference
class Signals(NamedTuple):
    """How the threads of a crew hand out jobs and wait for each other."""

    calls: Array
    """How many jobs were handed out."""
    served: Array
    """How many jobs each thread has begun; a line of the cache each."""
    arrivals: Array
    whole: Array
    keys: Array


@by_reference
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


@by_reference
class BagMemory(NamedTuple):
    """Room for the rows of a bag, their codes and their gradients (twice, see :class:`Bag`)."""

    rows: Array
    people: Array
    codes: Array
    other_codes: Array
    packed: Array
    other_packed: Array
    words: Array
    """Random words: a bit for each row of the pool, which is 1 for those of the bag."""
    counts: Array
    """Rows of each block of people, later where they begin."""
    sizes: Array
    """The result of :func:`gradient_sizes` for each chunk."""
    units: Array
    """Sums of each thread in units."""
    gathered: Array
    """Scores, labels and weights of some rows, for each thread."""
    largest: Array
    total: Array
    """What all classes of a row have in common; empty for other losses."""
    numbers: Array
    """Scales of the gradients, the constant of the loss, and what each class starts from."""


@by_reference
class GrowthMemory(NamedTuple):
    """Everything else that :func:`grow_tree` works on."""

    features: Any
    cells: Any
    limits: Any
    penalties: Any
    rules: Any
    shared: Any
    tree: Any


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _draw(thread: Any, signals: Any, pool: Any, bag: Any) -> None:
    """Write the size of the bag to ``signals.whole``, and draw it if there is room for it."""
    threads, keys = signals.whole[THREADS], signals.keys
    blocks = len(bag.counts) - 1
    lo, hi = blocks * thread // threads, blocks * (thread + 1) // threads
    words = len(bag.words)
    bag_words(keys[BAG_KEY], keys[CHANCE], words * thread // threads, words * (thread + 1) // threads, bag.words)
    if not wait_for_all(signals.arrivals, threads):
        return
    count_bag(bag.words, pool.layer_n, pool.layer_start, lo, hi, bag.counts)
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
        write_bag(bag.words, pool.layer_n, pool.layer_start, bag.counts, lo, hi, bag.rows, bag.people)


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
    """Grow a tree on the bag; the number of its leaves goes to ``signals.whole``."""
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
        given.intermediate, signals.keys[TREE_KEY], signals.whole[SILENCE_FIRST] > 0,
    )  # fmt: skip
    n_leaves = grow_tree(
        thread, threads, n * thread // threads, n * (thread + 1) // threads, len(growth.tree.leaf_value), rows,
        growth.features, growth.cells, limits, growth.penalties, growth.rules, growth.shared, signals.arrivals, leaves,
        scratch, growth.tree,
    )  # fmt: skip
    if thread == 0:
        signals.whole[LEAVES] = n_leaves


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _add(thread: Any, signals: Any, pool: Any, added: Any) -> None:
    """Add the value of its leaf to the score of every pool row."""
    whole = signals.whole
    if thread == 0:
        whole[N_TESTS], whole[N_PARTS] = arrange_tests(whole[NODES], added)
    if not wait_for_all(signals.arrivals, whole[THREADS]):
        return
    n_parts = whole[N_PARTS]
    if whole[N_TESTS] > len(added.tests.column) or n_parts + 2 > added.sets.shape[1]:
        return
    add_leaf_values(
        pool.codes, pool.masks, pool.layer_n, pool.layer_start, added.bits, added.tests, whole[NODES] // PLANE + 1,
        n_parts, added.by_plane, added.sets[thread], added.value[thread], pool.ranges[thread],
        pool.ranges[thread + 1], pool.scores[whole[CLASS]],
    )  # fmt: skip


@kernel(error_model="numpy")
def do_jobs(
    thread: Any, stay: Any, signals: Any, pool: Any, bag: Any, growth: Any, added: Any, leaves: Any, scratch: Any
) -> None:
    """Do a thread's part of the next job and, if it is to stay, of every job that comes while it looks for one."""
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
