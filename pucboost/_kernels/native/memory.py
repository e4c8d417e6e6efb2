"""What growing a tree works on: arrays and numbers under names, as tuples that kernels can read."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..._arrays import Array


class Features(NamedTuple):
    """What a split on each feature needs to know; int64 arrays, flags are 0 or 1."""

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
    together: Array
    """Interaction constraints: sets × features. Without any set, all features may meet."""


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


class Leaves(NamedTuple):
    """What one thread knows of the leaves; one entry each."""

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


class Scratch(NamedTuple):
    """Memory of one thread for a search in one column."""

    allowed: Array
    below_g: Array
    below_h: Array
    gains: Array
    order: Array
    left_set: Array
    right_set: Array


class TreeArrays(NamedTuple):
    """The tree: what LightGBM's text says of it, and each test in terms of codes."""

    feature: Array
    bin: Array
    default_left: Array
    left_set: Array
    column: Array
    first_right: Array
    span: Array
    in_set: Array
    right_set: Array
    left: Array
    right: Array
    gain: Array
    value: Array
    weight: Array
    rows: Array
    leaf_value: Array
    leaf_weight: Array
    leaf_count: Array


# Where what is found of a split stands in Shared.found and Leaves.best
GAIN, FEATURE, BIN, MISSING_LEFT, L2, LEFT_G, LEFT_H = range(7)
FOUND = 7
