"""A tree that asks only which columns have a value, to be added to a booster as one more round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from .._common import Array


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
    """Raise unless there is one tree for each tree of a round."""
    if len(trees) != per_round:
        raise ValueError(f"A round of this model has {per_round} trees, one per class; got {len(trees)}.")
