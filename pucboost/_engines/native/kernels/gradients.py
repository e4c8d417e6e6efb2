"""Before and after a tree: gradients of its rows, and what it adds to the scores of all copies.

The losses are those of :mod:`pucboost._kernels.losses`. Raw scores are relative to ``start``, so that a large constant
costs no precision. The loops are simple enough to become vector instructions, and for that values are first gathered
into short arrays (:func:`take`). Exponents are kept within ±60: e⁶⁰ times any sensible weight is finite.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import float32, float64, int32, int64, types, uint8, uint32, uint64
from numba.extending import intrinsic

from ...._common import Array
from ...._kernels.compiling import by_reference, kernel
from ...._kernels.leaf_sets import lowest_bit
from ...._kernels.masks import count_groups
from .codes import MISSING, PEOPLE_PER_BLOCK

LARGEST_EXPONENT = 60.0

_VECTORS: Any = {"error_model": "numpy", "fastmath": {"contract"}}
"""Divisions that cannot raise, and products that are added in one instruction."""


def _bits_as_float(typing_context: Any, bits: Any) -> Any:
    """Return the single-precision number that has the given 32 bits."""

    def instruction(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), instruction


_as_float: Any = intrinsic(_bits_as_float)


@kernel(**_VECTORS)
def exponential(x: Any) -> Any:
    """eˣ in single precision, by a polynomial: e^(k·log 2 + r) = 2ᵏ·e^r with |r| ≤ ½ log 2; relative error < 2·10⁻⁷.

    log 2 is subtracted in two parts, of which the first has few digits, so that r is exact. The coefficients are those
    of a minimax polynomial, which are close to 1/n!.
    """
    x = min(max(x, float32(-LARGEST_EXPONENT)), float32(LARGEST_EXPONENT))
    k = np.floor(x * float32(1.4426950408889634) + float32(0.5))
    r = x - k * float32(0.693359375) + k * float32(2.12194440e-4)
    tail = float32(1.9875691500e-4)
    tail = tail * r + float32(1.3981999507e-3)
    tail = tail * r + float32(8.3334519073e-3)
    tail = tail * r + float32(4.1665795894e-2)
    tail = tail * r + float32(1.6666665459e-1)
    tail = tail * r + float32(5.0000001201e-1)
    return (tail * (r * r) + r + float32(1.0)) * _as_float((int32(k) + int32(127)) << int32(23))


@kernel(**_VECTORS)
def take(values: Array, index: Array, out: Array) -> None:
    """out[q] = values[index[q]]."""
    for q in range(uint64(out.size)):
        out[q] = values[uint64(index[q])]


@kernel(**_VECTORS)
def squared_error(
    score: Array, label: Array, weight: Array, start: float, _: Any, gradient_out: Array, hessian_out: Array
) -> None:
    """Gradient s − y, hessian 1."""
    for q in range(uint64(score.size)):
        gradient_out[q] = weight[q] * (score[q] - float32(float64(label[q]) - start))
        hessian_out[q] = weight[q]


@kernel(**_VECTORS)
def logistic(
    score: Array, label: Array, weight: Array, start: float, _: Any, gradient_out: Array, hessian_out: Array
) -> None:
    """Gradient p − y = p·(1 − y) − (1 − p)·y, hessian p·(1 − p), from e^(−|s|): no score is too large."""
    one = float32(1.0)
    for q in range(uint64(score.size)):
        s = float32(start) + score[q]
        e = exponential(-abs(s))
        larger = one / (one + e)
        smaller = e * larger
        p = larger if s >= 0 else smaller
        not_p = smaller if s >= 0 else larger
        gradient_out[q] = weight[q] * (p * (one - label[q]) - not_p * label[q])
        hessian_out[q] = weight[q] * (larger * smaller)


@kernel(**_VECTORS)
def poisson(
    score: Array, label: Array, weight: Array, start: float, enlarge: Any, gradient_out: Array, hessian_out: Array
) -> None:
    """Gradient eˢ − y, hessian eˢ·e^max_delta_step; ``enlarge`` is the second factor."""
    for q in range(uint64(score.size)):
        mean = exponential(float32(start) + score[q])
        gradient_out[q] = weight[q] * (mean - label[q])
        hessian_out[q] = weight[q] * (mean * float32(enlarge))


@kernel(**_VECTORS)
def gamma(
    score: Array, label: Array, weight: Array, start: float, _: Any, gradient_out: Array, hessian_out: Array
) -> None:
    """Gradient 1 − y·e⁻ˢ, hessian y·e⁻ˢ."""
    for q in range(uint64(score.size)):
        ratio = label[q] * exponential(-(float32(start) + score[q]))
        gradient_out[q] = weight[q] * (float32(1.0) - ratio)
        hessian_out[q] = weight[q] * ratio


@kernel(**_VECTORS)
def tweedie(
    score: Array, label: Array, weight: Array, start: float, power: Any, gradient_out: Array, hessian_out: Array
) -> None:
    """Gradient e^((2−ρ)s) − y·e^((1−ρ)s), hessian (2−ρ)·e^((2−ρ)s) − (1−ρ)·y·e^((1−ρ)s)."""
    above = float32(2.0 - power)
    below = float32(1.0 - power)
    for q in range(uint64(score.size)):
        s = float32(start) + score[q]
        upper = exponential(above * s)
        lower = label[q] * exponential(below * s)
        gradient_out[q] = weight[q] * (upper - lower)
        hessian_out[q] = weight[q] * (above * upper - below * lower)


@kernel(**_VECTORS)
def quantile(
    score: Array, label: Array, weight: Array, start: float, alpha: Any, gradient_out: Array, hessian_out: Array
) -> None:
    """Gradient 1 − α if s ≥ y, else −α; hessian 1."""
    for q in range(uint64(score.size)):
        is_above = score[q] >= float32(float64(label[q]) - start)
        gradient_out[q] = weight[q] * (float32(1.0 - alpha) if is_above else float32(-alpha))
        hessian_out[q] = weight[q]


@kernel(**_VECTORS)
def raise_to(score: Array, start: float, largest_out: Array) -> None:
    """The larger of what is there and the score of one more class."""
    for q in range(uint64(score.size)):
        largest_out[q] = max(largest_out[q], float32(start) + score[q])


@kernel(**_VECTORS)
def add_exponentials(score: Array, start: float, largest: Array, total_out: Array) -> None:
    """Add e^(s − largest score) of one more class."""
    for q in range(uint64(score.size)):
        total_out[q] += exponential(float32(start) + score[q] - largest[q])


@kernel(**_VECTORS)
def softmax(
    score: Array, label: Array, weight: Array, start: float, factor: float, largest: Array, total: Array,
    class_index: int, gradient_out: Array, hessian_out: Array,
) -> None:  # fmt: skip
    """One class: gradient p − 1[y is the class], hessian factor·p·(1 − p), where p = e^(s − largest) / total."""
    one = float32(1.0)
    for q in range(uint64(score.size)):
        p = exponential(float32(start) + score[q] - largest[q]) / total[q]
        gradient_out[q] = weight[q] * (p - one if label[q] == float32(class_index) else p)
        hessian_out[q] = weight[q] * (float32(factor) * p * (one - p))


SQUARED_ERROR, LOGISTIC, POISSON, GAMMA, TWEEDIE, QUANTILE, SOFTMAX = range(7)
"""Numbers of the losses."""


@kernel(**_VECTORS)
def _add_up_classes(
    scores: Array, rows: Array, start: Array, score: Array, largest_out: Array, total_out: Array
) -> None:
    """Write the largest score of each row, and the sum of e^(score − largest) over the classes."""
    for q in range(uint64(rows.size)):
        largest_out[q], total_out[q] = float32(-np.inf), float32(0.0)
    for k in range(scores.shape[0]):
        take(scores[k], rows, score)
        raise_to(score, start[k], largest_out)
    for k in range(scores.shape[0]):
        take(scores[k], rows, score)
        add_exponentials(score, start[k], largest_out, total_out)


@kernel(**_VECTORS)
def fill_gradients(
    loss: int, constant: float, start: Array, scores: Array, label: Array, weight: Array, rows: Array, people: Array,
    lo: int, hi: int, class_index: int, room: Array, largest: Array, total: Array, gradient_out: Array,
    hessian_out: Array,
) -> None:  # fmt: skip
    """Write weight × gradient and weight × hessian of the picks lo … hi − 1.

    ``room`` has three rows for scores, labels and weights of some picks at a time, which stay in the caches, and one
    more. ``largest`` and ``total`` are for softmax, for which class 0 must come first: what the classes of a row have
    in common is kept for the others.
    """
    k = class_index
    for at in range(lo, hi, room.shape[1]):
        end = min(at + room.shape[1], hi)
        n = end - at
        s, y, w = room[0, :n], room[1, :n], room[2, :n]
        take(scores[k], rows[at:end], s)
        take(label, people[at:end], y)
        take(weight, people[at:end], w)
        g, h = gradient_out[at:end], hessian_out[at:end]
        if loss == SQUARED_ERROR:
            squared_error(s, y, w, start[k], constant, g, h)
        elif loss == LOGISTIC:
            logistic(s, y, w, start[k], constant, g, h)
        elif loss == POISSON:
            poisson(s, y, w, start[k], constant, g, h)
        elif loss == GAMMA:
            gamma(s, y, w, start[k], constant, g, h)
        elif loss == TWEEDIE:
            tweedie(s, y, w, start[k], constant, g, h)
        elif loss == QUANTILE:
            quantile(s, y, w, start[k], constant, g, h)
        elif loss == SOFTMAX:
            if k == 0:
                _add_up_classes(scores, rows[at:end], start, room[3, :n], largest[at:end], total[at:end])
            softmax(s, y, w, start[k], constant, largest[at:end], total[at:end], k, g, h)


# ----- the scores of all copies after a tree, by sets of leaves
#
# :mod:`pucboost._kernels.leaf_sets` explains how leaves become bits, and why the leaf of person i under the mask s is
# the lowest bit of B_i ∧ ⋀_{g∈s} V_ig ∧ ⋀_{g∉s} M_g. Here the values are codes of a byte, a word has 32 bits, and a
# plane of a tree (32 neighbouring leaves) has only the nodes that exclude some of these leaves. The tests of a person
# are made once for all copies, in blocks that stay in the first-level cache. A node that sends a set of codes to the
# right has a test for each run of neighbouring codes, since comparisons become vectors and look-ups do not.

PLANE = 32
"""Leaves in a plane: the bits of a word."""

MOST_RUNS = 12
"""Sets of more runs of codes than this are looked up: one look-up takes as long."""

_EVERY_LEAF = np.uint32(2**32 - 1)


class CodeTree(NamedTuple):
    """The splits of a tree as tests of codes. Node 0 is the root, and nodes come after their parents.

    A row goes right if uint8(code − first_right) ≤ span, or with ``in_set`` if ``right_set`` has the bit of its code. A
    withheld column has code 255.
    """

    column: Array
    first_right: Array
    span: Array
    in_set: Array
    right_set: Array
    """(nodes, 4) words of 64 bits."""
    left: Array
    right: Array
    """Children: the number of a node, or ~leaf."""


class Tests(NamedTuple):
    """What to test in which part of which plane. A part is the tests of one group; the first of a plane is for base."""

    plane_start: Array
    """Plane p has the parts plane_start[p] … plane_start[p + 1] − 1."""
    part_start: Array
    """Part k has the tests part_start[k] … part_start[k + 1] − 1."""
    part_group: Array
    part_missing: Array
    """The leaves that remain if the group is withheld."""
    column: Array
    first_right: Array
    span: Array
    look_up: Array
    """A test is whether a code is first_right … first_right + span or, if this is not −1, the set to look it up in."""
    keep: Array
    """The leaves that remain if it is."""


@by_reference
class AddedTree(NamedTuple):
    """The tree to add, and room for its tests."""

    code: CodeTree
    values: Array
    bits: Array
    """Whether each code goes right, a byte each, for sets that are looked up; without rows if no node has a set."""
    group: Array
    """The consent group of each column."""
    order: Array
    """Five numbers for each leaf."""
    tests: Tests
    counters: Array
    by_plane: Array
    sets: Array
    value: Array


@kernel(error_model="numpy")
def leaf_ranges(left: Array, right: Array, leaves: Array, first_out: Array, size_out: Array, place_out: Array) -> None:
    """Number the leaves from left to right; the left subtree of node n has size_out[n] leaves from first_out[n] on.

    ``leaves`` is memory to work in, a number for each node.
    """
    n = left.size
    for node in range(n - 1, -1, -1):
        size_out[node] = leaves[left[node]] if left[node] >= 0 else 1
        leaves[node] = size_out[node] + (leaves[right[node]] if right[node] >= 0 else 1)
    first_out[0] = 0
    for node in range(n):
        middle = first_out[node] + size_out[node]
        if left[node] >= 0:
            first_out[left[node]] = first_out[node]
        else:
            place_out[~left[node]] = first_out[node]
        if right[node] >= 0:
            first_out[right[node]] = middle
        else:
            place_out[~right[node]] = middle


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _in_set(right_set: Array, node: int, code: Any) -> Any:
    return (right_set[node, code >> 6] >> uint64(code & 63)) & uint64(1) != uint64(0)


@kernel(error_model="numpy")
def runs_of(tree: Any, node: int) -> int:
    """Return how many runs of neighbouring codes go right at a node."""
    if not tree.in_set[node]:
        return 1
    runs, before = 0, uint64(0)
    for k in range(4):
        word = tree.right_set[node, k]
        runs += int64(count_groups(word & ~((word << uint64(1)) | before)))
        before = word >> uint64(63)
    return runs


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _sort_tests(
    first: Array, size: Array, runs: Array, tree: Any, group: Array, next_test: Array, part_of: Array, tests_out: Any
) -> int:
    """Write the tests of a tree sorted by plane and group, base first, and return the number of parts.

    ``runs[node]`` is the number of tests of a node in each plane of which it excludes leaves; −1 if its set is looked
    up. ``next_test``, which is 0, and ``part_of`` are memory to work in, a number for each plane and group (or base).
    """
    n_planes = first.size // PLANE + 1
    n_groups = next_test.size // n_planes
    for node in range(first.size):
        for plane in range(first[node] // PLANE, (first[node] + size[node] - 1) // PLANE + 1):
            next_test[plane * n_groups + group[tree.column[node]] + 1] += abs(runs[node])
    n_parts = n_tests = 0
    for key in range(next_test.size):
        here, next_test[key] = next_test[key], n_tests
        if key % n_groups == 0:
            tests_out.plane_start[key // n_groups] = n_parts
        if key % n_groups == 0 or here > 0:
            tests_out.part_start[n_parts] = n_tests
            tests_out.part_group[n_parts] = key % n_groups - 1
            tests_out.part_missing[n_parts] = _EVERY_LEAF
            part_of[key] = n_parts
            n_parts += 1
        n_tests += here
    tests_out.plane_start[n_planes], tests_out.part_start[n_parts] = n_parts, n_tests
    for node in range(first.size):
        if tree.in_set[node]:
            missing_right = _in_set(tree.right_set, node, MISSING)
        else:
            missing_right = uint8(MISSING - tree.first_right[node]) <= tree.span[node]
        for plane in range(first[node] // PLANE, (first[node] + size[node] - 1) // PLANE + 1):
            start = max(first[node] - plane * PLANE, 0)
            end = min(first[node] + size[node] - plane * PLANE, PLANE)
            keep = uint32(~((uint64(1) << uint64(end)) - (uint64(1) << uint64(start))))
            key = plane * n_groups + group[tree.column[node]] + 1
            code = 0
            for _ in range(abs(runs[node])):
                test = next_test[key]
                next_test[key] += 1
                tests_out.column[test], tests_out.keep[test] = tree.column[node], keep
                tests_out.look_up[test] = node if runs[node] < 0 else -1
                if not tree.in_set[node]:
                    tests_out.first_right[test], tests_out.span[test] = tree.first_right[node], tree.span[node]
                elif runs[node] > 0:
                    while not _in_set(tree.right_set, node, code):
                        code += 1
                    begin = code
                    while code < 256 and _in_set(tree.right_set, node, code):
                        code += 1
                    tests_out.first_right[test], tests_out.span[test] = uint8(begin), uint8(code - 1 - begin)
            if missing_right:
                tests_out.part_missing[part_of[key]] &= keep
    return n_parts


@kernel(error_model="numpy")
def arrange_tests(n: Any, added: Any) -> Any:
    """Write the tests of a tree of n nodes, and the values of its leaves by plane; return (tests, parts).

    Where there is no room for the tests, nothing is written and there are no parts.
    """
    n_planes, n_groups = n // PLANE + 1, len(added.counters) // (2 * len(added.by_plane))
    order, first, size, place, runs = added.order[0], added.order[1], added.order[2], added.order[3], added.order[4]
    leaf_ranges(added.code.left[:n], added.code.right[:n], order, first, size, place)
    n_tests = 0
    for node in range(n):
        runs[node] = runs_of(added.code, node)
        if runs[node] > MOST_RUNS:
            runs[node] = -1
        n_tests += abs(runs[node]) * ((first[node] + size[node] - 1) // PLANE - first[node] // PLANE + 1)
    if n_tests > len(added.tests.column):
        return n_tests, 0
    for node in range(n):
        if runs[node] < 0:
            for code in range(256):
                added.bits[node, code] = _in_set(added.code.right_set, node, code)
    keys = n_planes * n_groups
    next_test, part_of = added.counters[:keys], added.counters[keys : 2 * keys]
    next_test[:] = 0
    n_parts = _sort_tests(first[:n], size[:n], runs, added.code, added.group, next_test, part_of, added.tests)
    for leaf in range(n + 1):
        added.by_plane[place[leaf] // PLANE, place[leaf] % PLANE] = np.float32(added.values[leaf])
    return n_tests, n_parts


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
def _choose_four(before: Array, masks: Array, tests: Any, part: int, end: int, sets: Array, set_out: Array) -> None:
    """The same for four parts at once, which takes half the time; the last one may count twice."""
    one = masks.dtype.type(1)
    a, b, c, d = part, min(part + 1, end - 1), min(part + 2, end - 1), min(part + 3, end - 1)
    bit_a, bit_b = one << masks.dtype.type(tests.part_group[a]), one << masks.dtype.type(tests.part_group[b])
    bit_c, bit_d = one << masks.dtype.type(tests.part_group[c]), one << masks.dtype.type(tests.part_group[d])
    shared_a, shared_b, shared_c, shared_d = sets[a], sets[b], sets[c], sets[d]
    withheld_a, withheld_b = tests.part_missing[a], tests.part_missing[b]
    withheld_c, withheld_d = tests.part_missing[c], tests.part_missing[d]
    for q in range(uint64(set_out.size)):
        mask = masks[q]
        set_out[q] = (
            before[q]
            & (shared_a[q] if mask & bit_a else withheld_a)
            & (shared_b[q] if mask & bit_b else withheld_b)
            & (shared_c[q] if mask & bit_c else withheld_c)
            & (shared_d[q] if mask & bit_d else withheld_d)
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
def _test(codes: Array, bits: Array, tests: Any, part: int, i: int, set_out: Array) -> None:
    """The leaves that remain for the people i, i + 1, … after the tests of a part, with their own values."""
    for q in range(uint64(set_out.size)):
        set_out[q] = _EVERY_LEAF
    for t in range(tests.part_start[part], tests.part_start[part + 1]):
        own = codes[tests.column[t], i : i + set_out.size]
        if tests.look_up[t] >= 0:
            _look_up(own, bits[tests.look_up[t]], tests.keep[t], set_out)
        else:
            _compare(own, tests.first_right[t], tests.span[t], tests.keep[t], set_out)


@kernel(error_model="numpy")
def add_leaf_values(
    codes: Array, masks: Array, layer_n: Array, layer_start: Array, bits: Array, tests: Any, n_planes: int,
    n_parts: int, values: Array, sets: Array, value: Array, lo: int, hi: int, score_out: Array,
) -> None:  # fmt: skip
    """Add the value of its leaf to the score of every copy of the people lo … hi − 1; values[p] are those of plane p.

    ``values`` has one entry more than a plane has leaves, for the lowest bit of nothing. ``sets`` and ``value`` are
    memory to work in: a block for each part and two more, and a block.
    """
    for i in range(lo, hi, PEOPLE_PER_BLOCK):
        n = min(PEOPLE_PER_BLOCK, hi - i)
        for part in range(n_parts):
            _test(codes, bits, tests, part, i, sets[part, :n])
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
                    if part + 3 <= end:
                        _choose_four(remaining, mask, tests, part, end, sets, room)
                        part += 4
                    else:
                        group, withheld = tests.part_group[part], tests.part_missing[part]
                        _choose(remaining, mask, group, sets[part], withheld, room)
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
    codes: Array, masks: Array, group: Array, tree: Any, rows: Array, people: Array, leaf_out: Array
) -> None:
    """Write the leaf that each of the given pool rows reaches, one node after the other."""
    for q in range(rows.size):
        mask = uint64(masks[rows[q]])
        node = 0
        while node >= 0:
            c = tree.column[node]
            shared = group[c] < 0 or (mask >> uint64(group[c])) & uint64(1)
            code = codes[c, people[q]] if shared else uint8(MISSING)
            if tree.in_set[node]:
                goes_right = _in_set(tree.right_set, node, code)
            else:
                goes_right = uint8(code - tree.first_right[node]) <= tree.span[node]
            node = tree.right[node] if goes_right else tree.left[node]
        leaf_out[q] = ~node
