"""Trees as plain arrays, whatever engine they belong to: those read from a booster, and those added to one.

:class:`Forest` holds the trees of a booster, checked, so that kernels can score them. :class:`MaskTree` is a tree that
tests only which columns have a value; it is added to a booster as one more round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

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

    At an inner node a row goes left if its value x ≤ threshold (for a category: by ``goes_left``). The nodes of
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
        first = np.full(len(self.left), -1, dtype=np.int64)
        middle, count = np.zeros_like(first), np.zeros(len(self.output), dtype=np.int64)
        order_leaves(self.left, self.right, self.tree_start, 0, len(count), first, middle, count)
        return LeafOrder(first, middle, count)

    def tree_of(self, nodes: Array) -> Array:
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


# ----- trees that test only what is missing


@dataclass(frozen=True)
class Leaf:
    """The end of a path: its value, and how many rows and how much weight of the training table end there."""

    value: float
    rows: float = 1.0
    weight: float = 1.0


@dataclass(frozen=True)
class Ask:
    """A question about a group of columns: whether at least one of them has a value.

    ``first`` holds, for each column, the share of the rows with a value in the group where it is the first that has
    one.
    """

    columns: tuple[int, ...]
    shared: Leaf | Ask
    withheld: Leaf | Ask
    first: tuple[float, ...]


Question: TypeAlias = Leaf | Ask


def count_leaves(question: Question) -> int:
    """Return how many leaves a tree of single columns has: what follows a shared group is repeated for each column."""
    if isinstance(question, Leaf):
        return 1
    return len(question.columns) * count_leaves(question.shared) + count_leaves(question.withheld)


@dataclass(frozen=True)
class MaskTree:
    """Inner nodes test one column each. Children are inner nodes, or leaf k as −1 − k; the root is node 0.

    Examples
    --------
    >>> tree = MaskTree.of(Ask((2, 5), Leaf(0.5, 60), Leaf(-0.5, 40), (0.9, 0.1)))
    >>> tree.column.tolist(), tree.present.tolist(), tree.missing.tolist(), tree.value.tolist()
    ([2, 5], [-1, -2], [1, -3], [0.5, 0.5, -0.5])
    >>> tree.inner(tree.rows).tolist()
    [100.0, 46.0]
    """

    column: Array
    present: Array
    """The child for rows that have a value in the column."""
    missing: Array
    value: Array
    """Of the leaves."""
    rows: Array
    weight: Array

    @classmethod
    def of(cls, question: Question) -> MaskTree:
        """Return the tree of single columns that answers questions about groups."""
        column: list[int] = []
        children: list[list[int]] = [[], []]
        leaves: list[tuple[float, float, float]] = []

        def grow(asked: Question, share: float) -> int:
            if isinstance(asked, Leaf):
                # At least one row each: explanations divide by what they find below a node.
                leaves.append((asked.value, max(1.0, round(share * asked.rows)), max(1e-6, share * asked.weight)))
                return -len(leaves)
            first = start = len(column)
            for place, (j, part) in enumerate(zip(asked.columns, asked.first, strict=True)):
                here = len(column)
                if place:
                    children[1][start] = here
                start = here
                column.append(j)
                for side in children:
                    side.append(0)
                children[0][here] = grow(asked.shared, share * part)
            children[1][start] = grow(asked.withheld, share)
            return first

        grow(question, 1.0)
        value, rows, weight = (np.array(values) for values in zip(*leaves, strict=True))
        present, missing = (np.array(side, dtype=np.int64) for side in children)
        return cls(np.array(column, dtype=np.int64), present, missing, value, rows, weight)

    @cached_property
    def parent(self) -> tuple[Array, Array]:
        """The parent of each inner node (−1 for the root), and that of each leaf."""
        inner, leaf = np.full(len(self.column), -1), np.full(len(self.value), -1)
        for children in (self.present, self.missing):
            for node, child in enumerate(children):
                (leaf if child < 0 else inner)[~child if child < 0 else child] = node
        return inner, leaf

    def inner(self, values: Array) -> Array:
        """Return the sum over the leaves below each inner node."""
        out = np.zeros(len(self.column))
        of_inner, of_leaf = self.parent
        np.add.at(out, of_leaf[of_leaf >= 0], values[of_leaf >= 0])
        for node in range(len(out) - 1, 0, -1):  # children have higher numbers than their parents
            out[of_inner[node]] += out[node]
        return out

    def means(self) -> Array:
        """Return the mean value below each inner node, by weight."""
        return self.inner(self.value * self.weight) / self.inner(self.weight)

    def gains(self) -> Array:
        """Return Σ H·(mean of a side − mean of the node)² for each inner node: what its split explains."""
        means, weights = self.means(), self.inner(self.weight)
        out = np.zeros(len(self.column))
        for children in (self.present, self.missing):
            for node, child in enumerate(children):
                of, at = ((self.value, self.weight), ~child) if child < 0 else ((means, weights), child)
                out[node] += of[1][at] * (of[0][at] - means[node]) ** 2
        return out


def same_rounds(trees: Sequence[MaskTree], per_round: int) -> None:
    if len(trees) != per_round:
        raise ValueError(f"A round of this model has {per_round} trees, one per class; got {len(trees)}.")
