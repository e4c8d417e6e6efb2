"""The readable twin of the grower: every split of every leaf is tried, row by row, in plain Python.

It knows nothing of codes, masks, histograms or threads. Its rows are lists of bins, one for each feature, with None for
a missing value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Row: TypeAlias = Sequence[int | None]

TOLERANCE = 1e-12
"""Gains that differ by less than this part are equal; then the first one counts, and a gain of this size is none."""


@dataclass(frozen=True)
class Feature:
    """What a split on a feature may be."""

    n_bins: int
    has_missing: bool
    categorical: bool = False
    monotone: int = 0
    comes_first: bool = False
    """Whether the first split may be on whether it is missing."""


@dataclass(frozen=True)
class Rules:
    """LightGBM's parameters."""

    num_leaves: int = 31
    max_depth: int = -1
    min_data_in_leaf: float = 20
    min_sum_hessian_in_leaf: float = 1e-3
    lambda_l1: float = 0.0
    lambda_l2: float = 0.0
    max_delta_step: float = 0.0
    path_smooth: float = 0.0
    min_gain_to_split: float = 0.0
    cat_smooth: float = 10.0
    cat_l2: float = 10.0
    max_cat_threshold: int = 32
    max_cat_to_onehot: int = 4
    min_data_per_group: int = 100
    interaction_constraints: Sequence[Sequence[int]] | None = None
    intermediate: bool = False
    silence_first: bool = False


@dataclass
class Split:
    """A split of a leaf: bins up to ``bin``, or those in ``left_bins``, go left."""

    gain: float
    feature: int
    bin: int
    left_bins: frozenset[int] | None
    missing_left: bool
    l2: float

    def goes_left(self, row: Row) -> bool:
        """Return where a row goes."""
        value = row[self.feature]
        if self.left_bins is not None:
            return value in self.left_bins
        return self.missing_left if value is None else value <= self.bin


@dataclass
class NaiveLeaf:
    """Rows by number, and what is known of them."""

    rows: list[int]
    value: float
    depth: int = 0
    lowest: float = -math.inf
    highest: float = math.inf
    path: frozenset[int] = frozenset()
    barren: set[int] = field(default_factory=set)
    """Features by which nothing was gained here or further up; they are not tried again."""


@dataclass
class NaiveTree:
    """Splits in the order in which they were made, each with the number of the leaf it split; and the leaves."""

    splits: list[tuple[int, Split]] = field(default_factory=list)
    leaves: list[NaiveLeaf] = field(default_factory=list)


@dataclass(frozen=True)
class NaiveGrower:
    """Grows a tree on rows of bins with gradients and hessians."""

    rows: Sequence[Row]
    gradient: Sequence[float]
    hessian: Sequence[float]
    features: Sequence[Feature]
    rules: Rules

    def grow(self) -> NaiveTree:
        """Split the leaf whose best split gains most, until there are enough leaves or nothing is gained."""
        everybody = list(range(len(self.rows)))
        start = self.output(everybody, float(len(everybody)), self.rules.lambda_l2, None, -math.inf, math.inf)
        tree = NaiveTree(leaves=[NaiveLeaf(everybody, start)])
        first = self.split_on_missing(tree.leaves[0]) if self.rules.silence_first else None
        best = [first or self.best_split(tree.leaves[0])]
        while len(tree.leaves) < self.rules.num_leaves:
            number = max(range(len(best)), key=lambda k: best[k].gain if best[k] else -math.inf)  # type: ignore[union-attr]
            split = best[number]
            if split is None:
                break
            left, right = self.children(tree.leaves[number], split)
            tree.splits.append((number, split))
            tree.leaves[number] = left
            tree.leaves.append(right)
            if self.rules.intermediate:
                self.bound_by_others(tree)
                best = [self.best_split(leaf) for leaf in tree.leaves]
            else:
                best[number] = self.best_split(left)
                best.append(self.best_split(right))
        return tree

    def bound_by_others(self, tree: NaiveTree) -> None:
        """Bound every leaf by the values of all leaves on the other side of the monotone splits above it."""
        for leaf in tree.leaves:
            leaf.lowest, leaf.highest = -math.inf, math.inf
        for k, (number, split) in enumerate(tree.splits):
            left, right = {number}, {k + 1}
            for later, (divided, _) in enumerate(tree.splits[k + 1 :], start=k + 1):
                for side in (left, right):
                    side |= {later + 1} if divided in side else set()
            sign = self.features[split.feature].monotone
            if sign:
                self.keep_in_order(tree, left if sign > 0 else right, right if sign > 0 else left)

    def keep_in_order(self, tree: NaiveTree, lower: set[int], upper: set[int]) -> None:
        """Bound leaves so that none of the lower ones gets above any of the upper ones."""
        for low in lower:
            for high in upper:
                below, above = tree.leaves[low], tree.leaves[high]
                below.highest, above.lowest = min(below.highest, above.value), max(above.lowest, below.value)

    # ----- one leaf

    def sums(self, rows: Sequence[int]) -> tuple[float, float]:
        """Return G and H."""
        return math.fsum(self.gradient[i] for i in rows), math.fsum(self.hessian[i] for i in rows)

    def output(
        self, rows: Sequence[int], count: float, l2: float, parent: float | None, lowest: float, highest: float
    ) -> float:
        """Return the value of a leaf."""
        rules = self.rules
        g, h = self.sums(rows)
        value = -self.shrunk(g) / (h + l2)
        if rules.max_delta_step > 0:
            value = max(-rules.max_delta_step, min(rules.max_delta_step, value))
        if rules.path_smooth > 0 and parent is not None:
            value = (value * count + parent * rules.path_smooth) / (count + rules.path_smooth)
        return max(lowest, min(highest, value))

    def shrunk(self, g: float) -> float:
        """Return g, nearer to 0 by λ₁."""
        return math.copysign(max(0.0, abs(g) - self.rules.lambda_l1), g)

    def gain(self, rows: Sequence[int], value: float, l2: float) -> float:
        """Return twice the loss that a leaf with this value saves, to second order."""
        g, h = self.sums(rows)
        return -2.0 * self.shrunk(g) * value - (h + l2) * value**2

    def best_split(self, leaf: NaiveLeaf) -> Split | None:
        """Return the best split of a leaf; None if none gains anything."""
        rules = self.rules
        if rules.max_depth > 0 and leaf.depth >= rules.max_depth:
            return None
        if len(leaf.rows) < 2 * rules.min_data_in_leaf:
            return None
        own = self.output(leaf.rows, len(leaf.rows), rules.lambda_l2, leaf.value, -math.inf, math.inf)
        least = self.gain(leaf.rows, own, rules.lambda_l2) + rules.min_gain_to_split
        best: Split | None = None
        for f in self.allowed(leaf):
            most = -math.inf
            for split in self.splits_on(f, leaf):
                gain = self.split_gain(leaf, split) - least
                most = max(most, gain)
                if gain > TOLERANCE * abs(least) and (
                    best is None or gain > best.gain + TOLERANCE * abs(best.gain + least)
                ):
                    split.gain = gain
                    best = split
            if most <= TOLERANCE * abs(least) and rules.max_delta_step == 0:
                leaf.barren.add(f)
        return best

    def split_on_missing(self, leaf: NaiveLeaf) -> Split | None:
        """Return the best split that parts who has a value from who has none; None if none gains anything."""
        least = self.gain(leaf.rows, leaf.value, self.rules.lambda_l2) + self.rules.min_gain_to_split
        best: Split | None = None
        for f, feature in enumerate(self.features):
            if not feature.comes_first or len(leaf.rows) < 2 * self.rules.min_data_in_leaf:
                continue
            values = frozenset(range(feature.n_bins)) if feature.categorical else None
            split = Split(0.0, f, feature.n_bins - 1, values, False, self.rules.lambda_l2)
            split.gain = self.split_gain(leaf, split) - least
            if split.gain > TOLERANCE * abs(least) and (best is None or split.gain > best.gain * (1 + TOLERANCE)):
                best = split
        return best

    def allowed(self, leaf: NaiveLeaf) -> list[int]:
        """Return the features that may meet those on the path, and by which something may be gained."""
        sets = self.rules.interaction_constraints
        every = [f for f in range(len(self.features)) if f not in leaf.barren]
        if sets is None:
            return every
        return [f for f in every if any(f in one and leaf.path <= set(one) for one in sets)]

    def splits_on(self, f: int, leaf: NaiveLeaf) -> Iterator[Split]:
        """Yield the splits of a leaf on one feature that may be tried at all."""
        feature, rules = self.features[f], self.rules
        if feature.categorical:
            yield from self.category_splits(f, leaf)
            return
        for missing_left in (False, True) if feature.has_missing else (False,):
            last = feature.n_bins if feature.has_missing and not missing_left else feature.n_bins - 1
            for b in range(last):
                yield Split(0.0, f, b, None, missing_left, rules.lambda_l2)

    def count(self, rows: Sequence[int], leaf: NaiveLeaf) -> float:
        """Return how many rows these are, judged by their hessians, as LightGBM does."""
        return self.sums(rows)[1] * len(leaf.rows) / self.sums(leaf.rows)[1]

    def category_splits(self, f: int, leaf: NaiveLeaf) -> Iterator[Split]:
        """Yield one against all others if there are few categories, else beginnings and ends of their order."""
        feature, rules = self.features[f], self.rules
        members = {b: [i for i in leaf.rows if self.rows[i][f] == b] for b in range(feature.n_bins)}
        if feature.n_bins + 1 <= rules.max_cat_to_onehot:  # as in LightGBM, missing values count as a category
            for b in members:
                yield Split(0.0, f, 0, frozenset([b]), False, rules.lambda_l2)
            return
        counts = {b: math.floor(self.count(rows, leaf) + 0.5) for b, rows in members.items()}
        used = [b for b in members if counts[b] >= max(rules.cat_smooth, 1)]

        def slope(b: int) -> float:
            g, h = self.sums(members[b])
            return g / (h + rules.cat_smooth)

        order = sorted(used, key=slope)
        longest = min(rules.max_cat_threshold, (len(order) + 1) // 2)
        for ends in (order, order[::-1]):
            in_group = 0
            for length in range(1, longest + 1):
                chosen = ends[:length]
                in_group += counts[ends[length - 1]]
                left = [i for b in chosen for i in members[b]]
                right = [i for i in leaf.rows if self.rows[i][f] not in chosen]
                if not self.large_enough(left, leaf):
                    continue
                if not self.large_enough(right, leaf) or self.count(right, leaf) < rules.min_data_per_group - 0.5:
                    break
                if in_group < rules.min_data_per_group:
                    continue
                in_group = 0
                yield Split(0.0, f, 0, frozenset(chosen), False, rules.lambda_l2 + rules.cat_l2)

    def large_enough(self, rows: Sequence[int], leaf: NaiveLeaf) -> bool:
        """Return whether rows are enough for a child."""
        h = self.sums(rows)[1]
        return (
            h >= max(self.rules.min_sum_hessian_in_leaf, 1e-15)
            and self.count(rows, leaf) >= self.rules.min_data_in_leaf - 0.5
        )

    def divided(self, leaf: NaiveLeaf, split: Split) -> tuple[list[int], list[int]]:
        """Return the rows of the two children."""
        left = [i for i in leaf.rows if split.goes_left(self.rows[i])]
        chosen = set(left)
        return left, [i for i in leaf.rows if i not in chosen]

    def values(self, leaf: NaiveLeaf, split: Split, parts: Sequence[list[int]]) -> list[float]:
        """Return the values of the two children."""
        return [
            self.output(part, self.count(part, leaf), split.l2, leaf.value, leaf.lowest, leaf.highest) for part in parts
        ]

    def split_gain(self, leaf: NaiveLeaf, split: Split) -> float:
        """Return what the children gain; −∞ for a split that is not allowed."""
        parts = self.divided(leaf, split)
        if not all(self.large_enough(part, leaf) for part in parts):
            return -math.inf
        values = self.values(leaf, split, parts)
        if self.features[split.feature].monotone * (values[1] - values[0]) < 0:
            return -math.inf
        return sum(self.gain(part, value, split.l2) for part, value in zip(parts, values, strict=True))

    def children(self, leaf: NaiveLeaf, split: Split) -> tuple[NaiveLeaf, NaiveLeaf]:
        """Return the two children; a monotone split keeps all below them on their side of the middle."""
        parts = self.divided(leaf, split)
        values = self.values(leaf, split, parts)
        made: list[Any] = [
            NaiveLeaf(
                part, value, leaf.depth + 1, leaf.lowest, leaf.highest, leaf.path | {split.feature}, set(leaf.barren)
            )
            for part, value in zip(parts, values, strict=True)
        ]
        lower, upper = made if self.features[split.feature].monotone > 0 else made[::-1]
        if self.features[split.feature].monotone and not self.rules.intermediate:
            lower.highest = upper.lowest = sum(values) / 2
        return made[0], made[1]
