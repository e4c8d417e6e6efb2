"""The scores of all copies after a tree, by sets of leaves.

How leaves become bits, and why the leaf of person i under the mask s is the lowest bit of
B_i ∧ ⋀_{g∈s} V_ig ∧ ⋀_{g∉s} M_g, is told in :mod:`pucboost._kernels.leaf_sets`. Here the values are codes of a byte, a
word has 32 bits, and a plane of a tree (32 neighbouring leaves) has only the nodes that exclude some of these leaves.
The tests of a person are made once for all copies, in blocks that stay in the first-level cache.

Nodes come after their parents. A node sends a row to the right if code − first_right ≤ span in 8 bits, or if its set
holds the code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import uint8, uint32, uint64

from ..._arrays import Array
from ..compiling import kernel
from ..leaf_sets import lowest_bit
from .bags import PEOPLE_PER_BLOCK
from .codes import MISSING

PLANE = 32
"""Leaves in a plane: the bits of a word."""

_EVERY_LEAF = np.uint32(2**32 - 1)


class Tests(NamedTuple):
    """What to test in which part of which plane. A part is the tests of one group; the first of a plane is for base."""

    plane_start: Array
    """Plane p has the parts plane_start[p] … plane_start[p + 1] − 1."""
    part_start: Array
    """Part k has the tests part_start[k] … part_start[k + 1] − 1."""
    part_group: Array
    part_missing: Array
    """The leaves that remain if the group is withheld."""
    node: Array
    keep: Array
    """The leaves that remain if a row goes right at the node."""


class Nodes(NamedTuple):
    """What the inner nodes of a tree do."""

    column: Array
    first_right: Array
    span: Array
    in_set: Array
    sets: Array
    """Whether each code goes right, a byte each; without rows if no node has a set."""


@kernel(error_model="numpy")
def leaf_ranges(left: Array, right: Array, leaves: Array, first_out: Array, size_out: Array, place_out: Array) -> int:
    """Number the leaves from left to right; the left subtree of node n has size_out[n] leaves from first_out[n] on.

    Return how many tests there will be: one for each node and plane of which the node excludes leaves. ``leaves`` is
    memory to work in, a number for each node.
    """
    n = left.size
    for node in range(n - 1, -1, -1):
        size_out[node] = leaves[left[node]] if left[node] >= 0 else 1
        leaves[node] = size_out[node] + (leaves[right[node]] if right[node] >= 0 else 1)
    first_out[0] = 0
    n_tests = 0
    for node in range(n):
        middle = first_out[node] + size_out[node]
        n_tests += (middle - 1) // PLANE - first_out[node] // PLANE + 1
        if left[node] >= 0:
            first_out[left[node]] = first_out[node]
        else:
            place_out[~left[node]] = first_out[node]
        if right[node] >= 0:
            first_out[right[node]] = middle
        else:
            place_out[~right[node]] = middle
    return n_tests


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _missing_goes_right(nodes: Any, node: int) -> Any:
    if nodes.in_set[node]:
        return nodes.sets[node, MISSING] != 0
    return uint8(MISSING - nodes.first_right[node]) <= nodes.span[node]


@kernel(error_model="numpy")
def sort_tests(
    first: Array, size: Array, nodes: Any, group: Array, next_test: Array, part_of: Array, tests_out: Any
) -> int:
    """Write the tests of a tree sorted by plane and group, base first, and return the number of parts.

    ``next_test`` and ``part_of`` are memory to work in, a number for each plane and group (or base); the former is 0.
    """
    plane_start_out, part_start_out, part_group_out, part_missing_out, node_out, keep_out = tests_out
    n_planes = plane_start_out.size - 1
    n_groups = next_test.size // n_planes
    for node in range(first.size):
        for plane in range(first[node] // PLANE, (first[node] + size[node] - 1) // PLANE + 1):
            next_test[plane * n_groups + group[nodes.column[node]] + 1] += 1
    n_parts = n_tests = 0
    for key in range(next_test.size):
        here, next_test[key] = next_test[key], n_tests
        if key % n_groups == 0:
            plane_start_out[key // n_groups] = n_parts
        if key % n_groups == 0 or here > 0:
            part_start_out[n_parts] = n_tests
            part_group_out[n_parts] = key % n_groups - 1
            part_missing_out[n_parts] = _EVERY_LEAF
            part_of[key] = n_parts
            n_parts += 1
        n_tests += here
    plane_start_out[n_planes], part_start_out[n_parts] = n_parts, n_tests
    for node in range(first.size):
        missing_right = _missing_goes_right(nodes, node)
        for plane in range(first[node] // PLANE, (first[node] + size[node] - 1) // PLANE + 1):
            start = max(first[node] - plane * PLANE, 0)
            end = min(first[node] + size[node] - plane * PLANE, PLANE)
            keep = uint32(~((uint64(1) << uint64(end)) - (uint64(1) << uint64(start))))
            key = plane * n_groups + group[nodes.column[node]] + 1
            node_out[next_test[key]], keep_out[next_test[key]] = node, keep
            next_test[key] += 1
            if missing_right:
                part_missing_out[part_of[key]] &= keep
    return n_parts


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _compare(codes: Array, first_right: Any, span: Any, keep: Any, set_out: Array) -> None:
    for q in range(uint64(set_out.size)):
        set_out[q] &= keep if uint8(codes[q] - first_right) <= span else _EVERY_LEAF


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _look_up(codes: Array, goes_right: Array, keep: Any, set_out: Array) -> None:
    for q in range(uint64(set_out.size)):
        set_out[q] &= keep if goes_right[uint64(codes[q])] else _EVERY_LEAF


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _choose(before: Array, masks: Array, group: Any, shared: Array, withheld: Any, set_out: Array) -> None:
    bit = masks.dtype.type(1) << masks.dtype.type(group)
    for q in range(uint64(set_out.size)):
        set_out[q] = before[q] & (shared[q] if masks[q] & bit else withheld)


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _choose_four(before: Array, masks: Array, groups: Array, shared: Array, withheld: Array, set_out: Array) -> None:
    """The same for four groups at once, which takes half the time."""
    one = masks.dtype.type(1)
    bit_0, bit_1 = one << masks.dtype.type(groups[0]), one << masks.dtype.type(groups[1])
    bit_2, bit_3 = one << masks.dtype.type(groups[2]), one << masks.dtype.type(groups[3])
    shared_0, shared_1, shared_2, shared_3 = shared[0], shared[1], shared[2], shared[3]
    withheld_0, withheld_1, withheld_2, withheld_3 = withheld[0], withheld[1], withheld[2], withheld[3]
    for q in range(uint64(set_out.size)):
        mask = masks[q]
        set_out[q] = (
            before[q]
            & (shared_0[q] if mask & bit_0 else withheld_0)
            & (shared_1[q] if mask & bit_1 else withheld_1)
            & (shared_2[q] if mask & bit_2 else withheld_2)
            & (shared_3[q] if mask & bit_3 else withheld_3)
        )


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _add_values(sets: Array, values: Array, score_out: Array) -> None:
    for q in range(uint64(score_out.size)):
        score_out[q] += values[uint64(lowest_bit(sets[q]))]


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _values_if_any(sets: Array, values: Array, value_out: Array) -> None:
    for q in range(uint64(value_out.size)):
        value = values[uint64(lowest_bit(sets[q]))]
        value_out[q] = value if sets[q] else value_out[q]


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _add(values: Array, score_out: Array) -> None:
    for q in range(uint64(score_out.size)):
        score_out[q] += values[q]


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _test(codes: Array, nodes: Any, tests: Any, part: int, i: int, set_out: Array) -> None:
    """The leaves that remain for the people i, i + 1, … after the tests of a part, with their own values."""
    for q in range(uint64(set_out.size)):
        set_out[q] = _EVERY_LEAF
    for t in range(tests.part_start[part], tests.part_start[part + 1]):
        node = tests.node[t]
        own = codes[nodes.column[node], i : i + set_out.size]
        if nodes.in_set[node]:
            _look_up(own, nodes.sets[node], tests.keep[t], set_out)
        else:
            _compare(own, nodes.first_right[node], nodes.span[node], tests.keep[t], set_out)


@kernel(error_model="numpy")
def add_leaf_values(
    codes: Array,
    masks: Array,
    layer_n: Array,
    layer_start: Array,
    nodes: Any,
    tests: Any,
    n_parts: int,
    values: Array,
    sets: Array,
    value: Array,
    lo: int,
    hi: int,
    score_out: Array,
) -> None:
    """Add the value of its leaf to the score of every copy of the people lo … hi − 1; values[p] are those of plane p.

    ``values`` has one entry more than a plane has leaves, for the lowest bit of nothing. ``sets`` and ``value`` are
    memory to work in: a block for each part and two more, and a block.
    """
    n_planes = tests.plane_start.size - 1
    for i in range(lo, hi, PEOPLE_PER_BLOCK):
        n = min(PEOPLE_PER_BLOCK, hi - i)
        for part in range(n_parts):
            _test(codes, nodes, tests, part, i, sets[part, :n])
        for layer in range(layer_n.size):
            m = min(n, layer_n[layer] - i)
            if m <= 0:
                break
            row = layer_start[layer] + i
            mask = masks[row : row + m]
            for plane in range(n_planes - 1, -1, -1):  # the lowest bit is in the first plane that has any
                base, end = tests.plane_start[plane], tests.plane_start[plane + 1]
                remaining, part = sets[base, :m], base + 1
                room, other = sets[n_parts, :m], sets[n_parts + 1, :m]
                while part < end:
                    if part + 4 <= end:
                        groups, withheld = tests.part_group[part : part + 4], tests.part_missing[part : part + 4]
                        _choose_four(remaining, mask, groups, sets[part : part + 4], withheld, room)
                        part += 4
                    else:
                        group, withheld_part = tests.part_group[part], tests.part_missing[part]
                        _choose(remaining, mask, group, sets[part], withheld_part, room)
                        part += 1
                    remaining, room, other = room, other, room  # a loop that reads what it writes is no vector
                if n_planes == 1:
                    _add_values(remaining, values[plane], score_out[row : row + m])
                else:
                    _values_if_any(remaining, values[plane], value[:m])
            if n_planes > 1:
                _add(value[:m], score_out[row : row + m])


@kernel(error_model="numpy")
def leaf_numbers(
    codes: Array,
    masks: Array,
    group: Array,
    column: Array,
    first_right: Array,
    span: Array,
    in_set: Array,
    right_set: Array,
    left: Array,
    right: Array,
    rows: Array,
    people: Array,
    lo: int,
    hi: int,
    leaf_out: Array,
) -> None:
    """Write the leaf that each of the given pool rows reaches, one node after the other."""
    for q in range(lo, hi):
        mask = uint64(masks[rows[q]])
        node = 0
        while node >= 0:
            c = column[node]
            shared = group[c] < 0 or (mask >> uint64(group[c])) & uint64(1)
            code = codes[c, people[q]] if shared else uint8(MISSING)
            if in_set[node]:
                goes_right = (right_set[node, code >> 6] >> uint64(code & 63)) & uint64(1) != 0
            else:
                goes_right = uint8(code - first_right[node]) <= span[node]
            node = right[node] if goes_right else left[node]
        leaf_out[q] = ~node
