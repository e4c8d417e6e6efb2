"""LightGBM's trees, read from the text of a model."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._arrays import Array
from .._kernels.leaf_sets import (
    READ_AS_IT_IS,
    READ_CATEGORY,
    READ_NAN_AS_ZERO,
    READ_ZERO_AS_NAN,
    exponential,
    logistic,
    softmax,
    softplus,
)
from .._kernels.rows import ZERO_THRESHOLD
from .forest import Forest, elementwise, written

_READINGS = np.array([READ_NAN_AS_ZERO, READ_ZERO_AS_NAN, READ_AS_IT_IS, READ_AS_IT_IS], dtype=np.uint8)
"""By LightGBM's missing types: none, zero, NaN; there is no fourth."""
CATEGORICAL, _DEFAULT_LEFT, _MISSING_TYPE = 1, 2, 2
"""Bits of a decision type, and where the missing type begins."""
_SIGNIFICANT_DIGITS = 6
"""How many digits LightGBM writes of the parameters of an objective."""


def forest_of_text(text: str) -> Forest | None:
    """Return all trees in the text of a model; None if leaves are linear models.

    LightGBM adds the leaves of a row in double precision, tree by tree, starting at 0. Values up to 1e-35 are 0 to it,
    and without a missing type for NaN so is NaN.
    """
    header, *trees = text.split("\nTree=")
    if trees:
        trees[-1] = trees[-1].partition("\nend of trees")[0]
    head, read = lines_of(header), [lines_of(tree) for tree in trees]
    if not read or any(tree.get("is_linear", "0") != "0" for tree in read):
        return None
    leaves = np.array([int(tree["num_leaves"]) for tree in read])
    n_outputs = int(head["num_tree_per_iteration"])
    column, decision = _numbers(read, "split_feature", np.int64), _numbers(read, "decision_type", np.int64)
    threshold, value = _numbers(read, "threshold", np.float64), _numbers(read, "leaf_value", np.float64)
    left, right = _numbers(read, "left_child", np.int64), _numbers(read, "right_child", np.int64)
    if (
        (leaves < 1).any()
        or not len(column) == len(decision) == len(threshold) == len(left) == len(right) == (leaves - 1).sum()
        or len(value) != leaves.sum()
    ):
        raise ValueError("The model is damaged: a tree has more or fewer numbers than nodes.")
    categorical = decision & CATEGORICAL != 0
    sets, place = _category_sets(read, leaves, threshold, categorical)
    counts = np.array([len(members) for members in sets], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    # Inner nodes come first in each tree, then the leaves, which LightGBM numbers −1, −2, ….
    is_inner = np.concatenate([np.arange(2 * n - 1) < n - 1 for n in leaves])
    inner_count = (leaves - 1).repeat(leaves - 1)
    nodes = partial(_at, is_inner)
    return Forest(
        n_columns=int(head["max_feature_idx"]) + 1,
        start=np.zeros(n_outputs),
        tree_start=np.concatenate([[0], np.cumsum(2 * leaves - 1)]).astype(np.int64),
        output=np.arange(len(leaves)) % n_outputs,
        left=nodes(np.where(left < 0, inner_count + ~left, left), -1),
        right=nodes(np.where(right < 0, inner_count + ~right, right), -1),
        column=nodes(column, 0),
        reading=nodes(np.where(categorical, READ_CATEGORY, _READINGS[decision >> _MISSING_TYPE & 3]), 0),
        threshold=nodes(threshold, 0),
        missing_left=nodes(~categorical & (decision & _DEFAULT_LEFT != 0), False),
        category_start=nodes(np.where(categorical, np.append(starts, 0)[place], 0), 0),
        category_count=nodes(np.where(categorical, np.append(counts, 0)[place], 0), 0),
        goes_left=np.concatenate([*sets, np.zeros(0, dtype=bool)]),
        value=_at(~is_inner, value, 0.0),
        response=_response(head, n_outputs, len(leaves) // n_outputs),
        zero=ZERO_THRESHOLD,
    )


def lines_of(part: str) -> dict[str, str]:
    """Return what is behind the first = of each line."""
    return {key: value for key, _, value in (line.partition("=") for line in part.splitlines())}


def _numbers(trees: list[dict[str, str]], name: str, kind: Any) -> Array:
    words = [word for tree in trees for word in tree[name].split()]
    return np.array(list(map(float if kind is np.float64 else int, words)), dtype=kind)


def _at(where: Array, values: Array, other: Any) -> Array:
    """Return an array with ``values`` where ``where`` is true and ``other`` elsewhere."""
    out = np.full(len(where), other, dtype=values.dtype)
    out[where] = values
    return out


def _category_sets(
    trees: list[dict[str, str]], leaves: Array, threshold: Array, categorical: Array
) -> tuple[list[Array], Array]:
    """Return the sets of categories that go left, and for each inner node the number of its set.

    The threshold of a categorical node is the number of its set within the tree; a set is a row of 32-bit words. An
    unknown category goes right.
    """
    sets: list[Array] = []
    place = np.full(len(threshold), -1, dtype=np.int64)
    for tree, end, count in zip(trees, np.cumsum(leaves - 1), leaves - 1, strict=True):
        here = np.flatnonzero(categorical[end - count : end]) + end - count
        if not len(here):
            continue
        bounds = np.array(tree["cat_boundaries"].split(), dtype=np.int64)
        words = np.array(tree["cat_threshold"].split(), dtype=np.int64)
        number = threshold[here]
        exist = (number >= 0) & (number < len(bounds) - 1)
        if not exist.all() or (bounds < 0).any() or (bounds > len(words)).any():
            raise ValueError("The model is damaged: a node tests categories that do not exist.")
        place[here] = number.astype(np.int64) + len(sets)
        for lo, hi in itertools.pairwise(bounds):
            sets.append(np.append(members_of(words[lo:hi]), False))
    return sets, place


def members_of(words: Array) -> Array:
    """Return which categories are in a set, which LightGBM writes as a row of 32-bit words."""
    return np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").astype(bool)


def _response(head: dict[str, str], n_outputs: int, rounds: int) -> Callable[[Array], Array] | None:
    """Return LightGBM's way from raw scores to predictions; None if it is not known here."""
    name, *words = head.get("objective", "").split() or [""]
    given = {key: value for key, _, value in (word.partition(":") for word in words)}
    link = _link(name, given)
    if link is None:
        return None
    divisor = rounds if "average_output" in head else 1

    def response(raw: Array) -> Array:
        scores = raw / divisor if divisor != 1 else raw
        out = link(scores)
        return out[:, 0] if n_outputs == 1 else out

    return response


def _link(name: str, given: dict[str, str]) -> Callable[[Array], Array] | None:
    slope = given.get("sigmoid", "1")
    if len(slope.replace(".", "").replace("-", "").lstrip("0")) >= _SIGNIFICANT_DIGITS:
        return None  # it may have been rounded
    if name in ("binary", "multiclassova", "cross_entropy"):
        return elementwise(lambda raw, out: logistic(raw, float(slope), out))
    if name == "multiclass":
        return written(softmax)
    if name in ("poisson", "gamma", "tweedie"):
        return elementwise(exponential)
    if name == "cross_entropy_lambda":
        return elementwise(softplus)
    if "sqrt" in given:
        return lambda raw: np.sign(raw) * raw * raw
    unchanged = ("", "regression", "regression_l1", "huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg")
    return (lambda raw: raw) if name in unchanged else None
