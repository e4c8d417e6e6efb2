"""The trees of the native engine: as tests of codes, by which the pool is scored, and as what a model says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..._arrays import Array


@dataclass(frozen=True)
class CodeTree:
    """The splits of a tree as tests of byte codes, one entry per inner node; node 0 is the root.

    A row goes right if uint8(code − first_right) ≤ span, or with ``in_set`` if the bit of its code is set. A withheld
    column has code 255.
    """

    column: Array
    first_right: Array
    span: Array
    in_set: Array
    right_set: Array
    """(nodes, 4) words of 64 bits."""
    left: Array
    """Child: number of a node, or ~leaf."""
    right: Array


@dataclass(frozen=True)
class Tree:
    """A tree in the words of the user's columns. Without inner nodes it is a single leaf."""

    code: CodeTree
    feature: Array
    bin: Array
    """Numeric splits: bins up to this one go left."""
    categories_left: list[Any]
    """Categorical splits: the bins that go left; None for numeric splits."""
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
