"""The trees of a booster as plain arrays, checked, so that kernels can score them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._common import Array
from .._kernels.leaf_sets import READ_CATEGORY, READ_CATEGORY_FROM_ZERO, order_leaves

_PER_NODE = (
    "left",
    "right",
    "column",
    "reading",
    "threshold",
    "missing_left",
    "category_start",
    "category_count",
    "value",
)


@dataclass(frozen=True)
class LeafOrder:
    """The leaves of every tree, numbered from left to right."""

    first: Array
    """Number of a leaf; number of the first leaf below an inner node; −1 for a node that is not part of its tree."""
    middle: Array
    """Number of the first leaf on the right side of an inner node."""
    count: Array
    """How many leaves each tree has."""


@dataclass(frozen=True)
class Forest:
    """The trees that a booster predicts with, in their order.

    At an inner node a row goes left if its value x ≤ threshold (for a category: if ``goes_left`` says so). The nodes of
    tree t are ``tree_start[t]`` … ``tree_start[t + 1]`` − 1, and its root is the first of them.

    Raises
    ------
    ValueError
        If nodes do not form trees, or refer to columns or categories that do not exist: kernels check nothing.
    """

    n_columns: int
    start: Array
    """What sums begin with, one per output (class); its type is that of all sums."""
    tree_start: Array
    output: Array
    """The output that each tree adds to."""
    left: Array
    """The left child, as a number within the tree; −1 in a leaf."""
    right: Array
    column: Array
    reading: Array
    """How a value is read: one of the constants ``READ_…``."""
    threshold: Array
    missing_left: Array
    """Whether missing values go left."""
    category_start: Array
    """Where the categories of a node begin in ``goes_left``."""
    category_count: Array
    """How many entries of ``goes_left`` belong to a node; the last one is for all further categories."""
    goes_left: Array
    value: Array
    """The values of leaves."""
    response: Callable[[Array], Array] | None
    """Turns raw scores (rows × outputs) into predictions exactly as the engine does; None if that is not known."""
    sums_from_start: bool = False
    """Where scores to start from instead are added: before the first tree, or after the last."""
    zero: float = 0.0
    """Numbers up to this size are read as 0."""
    largest: float = np.inf
    """The engine refuses numbers beyond."""

    def __post_init__(self) -> None:
        starts = self.tree_start
        if len(starts) != len(self.output) + 1 or starts[0] != 0 or (np.diff(starts) < 1).any():
            raise ValueError("The model is damaged: it has a tree without nodes.")
        for name in _PER_NODE:
            if len(getattr(self, name)) != starts[-1]:
                raise ValueError(
                    f"The model is damaged: {starts[-1]} nodes, but {len(getattr(self, name))} of {name!r}."
                )
        self._refuse_trees(
            (self.output < 0) | (self.output >= len(self.start)), "adds to an output that does not exist"
        )
        inner, size = self.left >= 0, np.diff(starts).repeat(np.diff(starts))
        self._refuse_nodes(
            (self.left < -1) | (inner & ((self.left >= size) | (self.right < 0) | (self.right >= size))),
            "has a child that does not exist",
        )
        self._refuse_trees(self.leaf_order.count < 0, "is not a tree: a node has two parents")
        inner &= self.leaf_order.first >= 0
        self._refuse_nodes(inner & ((self.column < 0) | (self.column >= self.n_columns)), "tests no column")
        reads_categories = np.isin(self.reading, (READ_CATEGORY, READ_CATEGORY_FROM_ZERO))
        end = self.category_start + self.category_count
        exist = (self.category_count > 0) & (self.category_start >= 0) & (end <= len(self.goes_left))
        self._refuse_nodes(inner & reads_categories & ~exist, "tests categories that do not exist")
        self._refuse_nodes(inner & ~reads_categories & np.isnan(self.threshold), "has no threshold")

    @cached_property
    def leaf_order(self) -> LeafOrder:
        """The leaves of every tree from left to right."""
        first = np.full(len(self.left), -1, dtype=np.int64)
        middle, count = np.zeros_like(first), np.zeros(len(self.output), dtype=np.int64)
        order_leaves(self.left, self.right, self.tree_start, 0, len(count), first, middle, count)
        return LeafOrder(first, middle, count)

    def tree_of(self, nodes: Array) -> Array:
        """Return the tree that each of some nodes belongs to."""
        return np.searchsorted(self.tree_start, nodes, side="right") - 1

    def _refuse_trees(self, wrong: Array, what: str) -> None:
        if wrong.any():
            raise ValueError(f"The model is damaged: tree {int(wrong.argmax())} {what}.")

    def _refuse_nodes(self, wrong: Array, what: str) -> None:
        if wrong.any():
            node = int(wrong.argmax())
            tree = int(self.tree_of(np.array(node)))
            raise ValueError(f"The model is damaged: node {node - self.tree_start[tree]} of tree {tree} {what}.")


def written(kernel: Callable[[Array, Array], None]) -> Callable[[Array], Array]:
    """Return a link from a kernel that takes raw scores (rows × outputs) and writes predictions of the same shape."""

    def link(raw: Array) -> Array:
        out = np.empty_like(raw)
        kernel(raw, out)
        return out

    return link


def elementwise(kernel: Callable[[Array, Array], None]) -> Callable[[Array], Array]:
    """Return a link from a kernel that treats every score alike."""
    return written(lambda raw, out: kernel(raw.reshape(-1), out.reshape(-1)))
