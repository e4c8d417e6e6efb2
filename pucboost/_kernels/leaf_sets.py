"""Leaves as sets of bits: which leaf of a tree a person reaches, for many subsets of what they share at once.

The leaves of a tree are numbered from left to right. A node whose test fails sends a row to the right, so none of the
leaves to its left can be reached: each inner node is the set ``keep`` of the leaves that survive its failure, and the
leaf of a row is the lowest bit of the AND of ``keep`` over all nodes whose test fails (QuickScorer). With

    B_i   the AND over the nodes on base columns,
    V_ig  the AND over the nodes on columns of group g, with the values of person i,
    M_g   the same nodes with the values missing (one constant per tree),

the leaf of person i under the mask s is the lowest bit of B_i ∧ ⋀_{g∈s} V_ig ∧ ⋀_{g∉s} M_g. So the tests of a person
are made once, whatever the number of subsets.

A set is a word of 64 bits, or of 32 if no tree has more leaves: twice as many fit into a vector. A *plane* is as many
neighbouring leaves of a tree as a word has bits; larger trees have several. A *part* is the nodes of a plane that
belong to one group (the first part of a plane: to base columns). Small loops over one-dimensional arrays are functions
of their own because they are then vectorised. Values are compared as floats: codes of bins gained nothing.

Sums are made in the engine's order and precision, and links repeat the engine's operations, so that a quote has the
bits of the engine's own prediction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from .._common import Array
from .compiling import kernel

# How a number becomes what a node tests.
READ_AS_IT_IS, READ_NAN_AS_ZERO, READ_ZERO_AS_NAN, READ_CATEGORY, READ_CATEGORY_FROM_ZERO = range(5)
MISSING_CATEGORY, OTHER_CATEGORY = -1.0, 2.0**31
"""What stands for a missing category, and for one that is in no model."""


@kernel
def order_leaves(
    left: Array, right: Array, tree_start: Array, lo: int, hi: int, first_out: Array, middle_out: Array,
    leaves_out: Array,
) -> None:  # fmt: skip
    """Number the leaves of the trees [lo, hi) from left to right.

    A leaf has left < 0; children are numbered within their tree and exist. Writes for each leaf its number to
    ``first_out``, for each inner node the range [first, middle) of the leaves to its left, and for each tree the number
    of its leaves, or −1 if some node is reached twice. ``first_out`` must hold −1; nodes that are not reached keep it.
    """
    for t in range(lo, hi):
        root = tree_start[t]
        waiting = np.empty(tree_start[t + 1] - root, dtype=np.int64)  # inner nodes whose right side is still to come
        depth, node, leaves = 0, 0, 0
        while True:
            if first_out[root + node] >= 0:
                leaves = -1
                break
            first_out[root + node] = leaves
            if left[root + node] >= 0:
                waiting[depth] = node
                depth += 1
                node = left[root + node]
                continue
            leaves += 1
            if depth == 0:
                break
            depth -= 1
            parent = waiting[depth]
            middle_out[root + parent] = leaves
            node = right[root + parent]
        leaves_out[t] = leaves


@kernel
def _read(x: float, reading: int, zero: float) -> float:
    missing = x != x
    if abs(x) <= zero:
        x = 0.0
    if reading == READ_NAN_AS_ZERO:
        return 0.0 if missing else x
    if reading == READ_ZERO_AS_NAN:
        return np.nan if x == 0.0 else x
    if reading in (READ_CATEGORY, READ_CATEGORY_FROM_ZERO):
        if missing:
            return MISSING_CATEGORY
        lowest = -1.0 if reading == READ_CATEGORY else 0.0
        inside = x < OTHER_CATEGORY and (x > lowest or x == 0.0)
        return np.trunc(x) if inside else OTHER_CATEGORY
    return x


@kernel
def read_values(
    block: Array, columns: Array, readings: Array, zero: float, lo: int, hi: int, values_out: Array
) -> None:
    """values_out[j, i] = what nodes see of column ``columns[j]`` in row i of ``block``, for i in [lo, hi).

    Numbers up to ``zero`` in size are read as 0. A category is cut to a whole number; what lies between −1 and 0 is
    category 0 for :data:`READ_CATEGORY` and unknown for :data:`READ_CATEGORY_FROM_ZERO`.
    """
    for j in range(columns.size):
        column, reading = columns[j], readings[j]
        for i in range(lo, hi):
            values_out[j, i] = _read(values_out.dtype.type(block[i, column]), reading, zero)


@kernel
def any_beyond(block: Array, largest: float, lo: int, hi: int, found_out: Array) -> None:
    """Set found_out[0] if a value of the rows [lo, hi) is larger than ``largest`` in size; NaN is not."""
    found = False
    for i in range(lo, hi):
        for j in range(block.shape[1]):
            found |= abs(block[i, j]) > largest
    if found:
        found_out[0] = True


# ----- subsets

# What a node does: numbers, where missing values go right or left, and categories.
NODE_MISSING_RIGHT, NODE_MISSING_LEFT, NODE_CATEGORY = range(3)

# What happens to a slot, a distinct combination of earlier groups, when the next group of a plane is added.
STEP_WITHHELD, STEP_SHARED, STEP_BOTH = range(3)

_1 = np.uint64(1)
_EVERY_LEAF = np.uint64(2**64 - 1)


def _count_trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Return the number of zeros below the lowest bit of a word; as many as it has bits if all are zeros."""

    def instruction(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return word(word), instruction


lowest_bit: Any = intrinsic(_count_trailing_zeros)


@kernel
def plan_subsets(
    masks: Array, plane_start: Array, part_group: Array, step_start: Array, lo: int, hi: int, steps_out: Array,
    slots_out: Array, slot_out: Array,
) -> None:  # fmt: skip
    """Write for the planes [lo, hi) how the leaf sets of all masks follow from one another.

    Masks that agree on the groups of a plane share a slot. At first there is one slot; each group splits the slots
    whose masks differ in it: those without the group keep the slot, those with it move to a new one. ``steps_out``
    holds what happens to every slot at every part, from ``step_start[plane]`` on, ``slots_out`` the number of slots in
    the end, ``slot_out[plane, k]`` the slot of mask k.
    """
    n_masks = masks.size
    moved = np.empty(n_masks, dtype=np.int64)
    with_group = np.empty(n_masks, dtype=np.bool_)
    without_group = np.empty(n_masks, dtype=np.bool_)
    for plane in range(lo, hi):
        slot = slot_out[plane]
        slot[:] = 0
        n_slots, at = 1, step_start[plane]
        for part in range(plane_start[plane] + 1, plane_start[plane + 1]):
            bit = _1 << np.uint64(part_group[part])
            with_group[:n_slots] = False
            without_group[:n_slots] = False
            for k in range(n_masks):
                if masks[k] & bit:
                    with_group[slot[k]] = True
                else:
                    without_group[slot[k]] = True
            before = n_slots
            for old in range(before):
                moved[old] = old
                if not with_group[old]:
                    steps_out[at + old] = STEP_WITHHELD
                elif not without_group[old]:
                    steps_out[at + old] = STEP_SHARED
                else:
                    steps_out[at + old] = STEP_BOTH
                    moved[old] = n_slots
                    n_slots += 1
            at += before
            for k in range(n_masks):
                if masks[k] & bit:
                    slot[k] = moved[slot[k]]
        slots_out[plane] = n_slots


# ----- scores


@kernel
def _fail_if_larger(values: Array, threshold: Any, keep: Any, every_leaf: Any, set_out: Array) -> None:
    """The test x ≤ threshold, which NaN passes: missing values go left."""
    for q in range(set_out.size):
        set_out[q] &= keep if values[q] > threshold else every_leaf


@kernel
def _fail_unless_smaller(values: Array, threshold: Any, keep: Any, every_leaf: Any, set_out: Array) -> None:
    """The test x ≤ threshold, which NaN fails: missing values go right."""
    for q in range(set_out.size):
        set_out[q] &= every_leaf if values[q] <= threshold else keep


@kernel
def _fail_by_category(
    values: Array, goes_left: Array, missing_left: Any, keep: Any, every_leaf: Any, set_out: Array
) -> None:
    """The test of a category; the last entry of ``goes_left`` is for categories beyond it."""
    last = np.int64(goes_left.size - 1)
    for q in range(set_out.size):
        left = missing_left if values[q] < 0 else goes_left[int(min(np.int64(values[q]), last))]
        set_out[q] &= every_leaf if left else keep


@kernel
def _fill(set_out: Array, word: Any) -> None:
    for q in range(set_out.size):
        set_out[q] = word


@kernel
def _and(a: Array, b: Array, set_out: Array) -> None:
    for q in range(set_out.size):
        set_out[q] = a[q] & b[q]


@kernel
def _and_word(set_out: Array, word: Any) -> None:
    for q in range(set_out.size):
        set_out[q] &= word


@kernel
def _leaf_values(sets: Array, leaf_value: Array, value_out: Array) -> None:
    for q in range(value_out.size):
        value_out[q] = leaf_value[lowest_bit(sets[q])]


@kernel
def _leaf_values_if_any(sets: Array, leaf_value: Array, value_out: Array) -> None:
    for q in range(value_out.size):
        if sets[q] != 0:
            value_out[q] = leaf_value[lowest_bit(sets[q])]


@kernel
def _add(term: Array, sum_out: Array) -> None:
    for q in range(sum_out.size):
        sum_out[q] += term[q]


@kernel
def and_part(values: Array, nodes: Any, goes_left: Array, first: int, last: int, i: int, set_out: Array) -> None:
    """AND ``keep`` of all nodes first … last − 1 that fail into the sets of the people i, i + 1, …."""
    slot, kind, threshold, keep, category_start, category_end, missing_left = nodes
    n, every_leaf = set_out.size, keep.dtype.type(_EVERY_LEAF)
    for node in range(first, last):
        x = values[slot[node], i : i + n]
        if kind[node] == NODE_MISSING_LEFT:
            _fail_if_larger(x, threshold[node], keep[node], every_leaf, set_out)
        elif kind[node] == NODE_MISSING_RIGHT:
            _fail_unless_smaller(x, threshold[node], keep[node], every_leaf, set_out)
        else:
            table = goes_left[category_start[node] : category_end[node]]
            _fail_by_category(x, table, missing_left[node], keep[node], every_leaf, set_out)


@kernel
def _sets_of_plane(
    values: Array, nodes: Any, goes_left: Array, parts: Any, steps: Array, plane: int, i: int, n: int, shared: Array,
    sets_out: Array,
) -> None:  # fmt: skip
    """Write the leaf set of the people i … i + n − 1 in every slot of a plane; see :func:`plan_subsets`."""
    plane_start, node_start, part_missing, step_start = parts
    part = plane_start[plane]
    every_leaf = sets_out.dtype.type(_EVERY_LEAF)
    _fill(sets_out[0, :n], every_leaf)
    and_part(values, nodes, goes_left, node_start[part], node_start[part + 1], i, sets_out[0, :n])
    n_slots, at = 1, step_start[plane]
    for part in range(plane_start[plane] + 1, plane_start[plane + 1]):
        before = n_slots
        anybody_shares = False
        for slot in range(before):
            anybody_shares |= steps[at + slot] != STEP_WITHHELD
        if anybody_shares:
            _fill(shared[:n], every_leaf)
            and_part(values, nodes, goes_left, node_start[part], node_start[part + 1], i, shared[:n])
        for slot in range(before):
            step = steps[at + slot]
            if step == STEP_BOTH:
                _and(sets_out[slot, :n], shared[:n], sets_out[n_slots, :n])
                n_slots += 1
            if step == STEP_SHARED:
                _and(sets_out[slot, :n], shared[:n], sets_out[slot, :n])
            else:
                _and_word(sets_out[slot, :n], part_missing[part])
        at += before


@kernel
def score_subsets(
    values: Array, start: Array, output_start: Array, tree_planes: Array, leaf_value: Array, nodes: Any,
    goes_left: Array, parts: Any, steps: Array, n_slots: Array, slot_of: Array, block: int, lo: int, hi: int,
    score_out: Array,
) -> None:  # fmt: skip
    """score_out[i, k, o] = start[i, o] + Σ over the trees of output o of the leaf of person i under mask k.

    The sum of each person and mask is made in the order of the trees, in the type of ``score_out``, whatever the blocks
    and ranges of people.
    """
    n_masks = score_out.shape[1]
    sets = np.empty((n_masks, block), dtype=nodes.keep.dtype)
    shared = np.empty(block, dtype=nodes.keep.dtype)
    leaf = np.empty((n_masks, block), dtype=score_out.dtype)
    total = np.empty((n_masks, block), dtype=score_out.dtype)
    for i in range(lo, hi, block):
        n = min(block, hi - i)
        for output in range(output_start.size - 1):
            for k in range(n_masks):
                for q in range(n):
                    total[k, q] = start[i + q, output]
            for tree in range(output_start[output], output_start[output + 1]):
                first, last = tree_planes[tree], tree_planes[tree + 1]
                if last == first + 1:
                    _sets_of_plane(values, nodes, goes_left, parts, steps, first, i, n, shared, sets)
                    for slot in range(n_slots[first]):
                        _leaf_values(sets[slot, :n], leaf_value[first], leaf[slot, :n])
                    for k in range(n_masks):
                        _add(leaf[slot_of[first, k], :n], total[k, :n])
                    continue
                for plane in range(last - 1, first - 1, -1):  # the lowest bit is in the first plane that has any
                    _sets_of_plane(values, nodes, goes_left, parts, steps, plane, i, n, shared, sets)
                    for k in range(n_masks):
                        _leaf_values_if_any(sets[slot_of[plane, k], :n], leaf_value[plane], leaf[k, :n])
                for k in range(n_masks):
                    _add(leaf[k, :n], total[k, :n])
            for k in range(n_masks):
                for q in range(n):
                    score_out[i + q, k, output] = total[k, q]


# ----- from raw scores to predictions, operation by operation as the engines do it
#
# The type of the arrays is that of the engine's own sums: float64 or float32. Bits then agree as long as ``exp`` is
# the one of the system's mathematical library, which both engines call too.

_1F, _LARGEST, _TINY = np.float32(1.0), np.float32(88.7), np.float32(1e-16)


@kernel
def logistic(raw: Array, slope: float, response_out: Array) -> None:
    """1 / (1 + e^(−slope·s))."""
    for i in range(raw.size):
        response_out[i] = 1.0 / (1.0 + math.exp(-slope * raw[i]))


@kernel
def logistic_float32(raw: Array, response_out: Array) -> None:
    """1 / (1 + e^(−s)) in single precision, with XGBoost's guard against overflow."""
    for i in range(raw.size):
        response_out[i] = _1F / (math.exp(min(-raw[i], _LARGEST)) + _1F + _TINY)


@kernel
def exponential(raw: Array, response_out: Array) -> None:
    """eˢ."""
    for i in range(raw.size):
        response_out[i] = math.exp(raw[i])


@kernel
def softplus(raw: Array, response_out: Array) -> None:
    """log(1 + eˢ)."""
    for i in range(raw.size):
        response_out[i] = math.log1p(math.exp(raw[i]))


@kernel
def softmax(raw: Array, response_out: Array) -> None:
    """e^(s_k) / Σ e^(s_j), rows × classes; the sum is made in double precision."""
    for i in range(raw.shape[0]):
        largest = raw[i, 0]
        for k in range(1, raw.shape[1]):
            largest = max(largest, raw[i, k])
        total = 0.0
        for k in range(raw.shape[1]):
            response_out[i, k] = math.exp(raw[i, k] - largest)
            total += response_out[i, k]
        divisor = response_out.dtype.type(total)
        for k in range(raw.shape[1]):
            response_out[i, k] /= divisor
