"""Native trees as LightGBM's model text, from which ``lgb.Booster(model_str=…)`` makes a real booster.

Everything but the trees is written by LightGBM itself: an untrained booster with the same columns and parameters gives
the lines before and after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._common import Array
from ..._virtual.rare_categories import RareCategories
from ..lightgbm_text import with_rare, words_of

if TYPE_CHECKING:
    import lightgbm as lgb

    from .kernels.growth import Tree
    from .people import FeatureBins

MISSING_TYPES = {"none": 0, "zero": 1, "nan": 2}
"""LightGBM's numbers of the ways to read missing values."""

_CATEGORICAL, _DEFAULT_LEFT, _MISSING_TYPE = 1, 2, 2
"""Bits of a decision type, and where the missing type begins."""

_NONE_RARE = RareCategories({})
_BEYOND = 1e300
"""What LightGBM writes as the upper end of the last bin."""

_END = "\nend of trees\n"


class ModelText:
    """The text of a model that grows tree by tree.

    Parameters
    ----------
    untrained
        LightGBM's text of a booster without trees, with the columns and parameters of the model.
    bins
        The bins of each column.
    start
        The initial score of each class, which LightGBM adds to the first tree of the class.
    before
        A model that this one continues.
    rare
        Categories that were one while the trees grew. The trees name them all.
    """

    def __init__(
        self,
        untrained: str,
        bins: Sequence[FeatureBins],
        start: Array,
        before: lgb.Booster | None = None,
        rare: RareCategories = _NONE_RARE,
    ) -> None:
        head, _, tail = untrained.partition(_END)
        lines = [
            line for line in head.rstrip("\n").splitlines() if not line.startswith(("feature_infos=", "tree_sizes="))
        ]
        self._head = "\n".join([*lines, "feature_infos=" + " ".join(map(_info, bins))])
        self._tail = tail
        self._bins, self._rare = bins, rare
        self._start = np.asarray(start, dtype=np.float64)
        self._trees = [] if before is None else _trees_in(before.model_to_string(num_iteration=-1))

    def __len__(self) -> int:
        """Return the number of trees, including those of the model that is continued."""
        return len(self._trees)

    def append(self, round_trees: Iterable[Tree]) -> None:
        """Add the trees of one round, one for each class."""
        first = not self._trees
        for k, tree in enumerate(round_trees):
            self._trees.append(_written(tree, self._bins, self._rare, float(self._start[k]) if first else 0.0))

    def text(self) -> str:
        blocks = [f"Tree={number}\n{tree}\n\n" for number, tree in enumerate(self._trees)]
        sizes = " ".join(str(len(block)) for block in blocks)  # only ASCII
        return f"{self._head}\ntree_sizes={sizes}\n\n{''.join(blocks)}{_END[1:]}{self._tail}"


def _trees_in(text: str) -> list[str]:
    """Return the trees in a text, without their numbers."""
    found = text.partition(_END)[0].split("\nTree=")[1:]
    return [tree.partition("\n")[2].rstrip("\n") + "\n" for tree in found]


def _info(bins: FeatureBins) -> str:
    """Return what LightGBM writes about a column: its categories, its range, or "none" if it is of no use."""
    if bins.categories is not None and len(bins.categories):
        return ":".join(str(int(category)) for category in bins.categories)
    if bins.n_bins <= 1:
        return "none"
    return f"[{_number(bins.low)}:{_number(bins.high)}]"


def _written(tree: Tree, bins: Sequence[FeatureBins], rare: RareCategories, start: float) -> str:
    """Return the lines of a tree; ``start`` is added to all values, and shrinkage is then 1, as in LightGBM."""
    splits = [bins[feature] for feature in tree.feature]
    sets: list[list[int]] = []
    thresholds: list[str] = []
    kinds: list[int] = []
    for node, split in enumerate(splits):
        kind = MISSING_TYPES[split.missing_type] << _MISSING_TYPE
        if split.categories is not None:
            thresholds.append(str(len(sets)))
            left = split.categories[bins_in(tree.left_set[node])]
            sets.append(words_of(with_rare(left, int(tree.feature[node]), rare)))
            kind |= _CATEGORICAL
        else:
            last = int(tree.bin[node])
            thresholds.append(_number(split.upper[last] if last < len(split.upper) else _BEYOND))
            kind |= _DEFAULT_LEFT if tree.default_left[node] else 0
        kinds.append(kind)
    lines = {
        "num_leaves": str(len(tree.leaf_value)),
        "num_cat": str(len(sets)),
        "split_feature": _whole(tree.feature),
        "split_gain": _rounded(tree.gain),
        "threshold": " ".join(thresholds),
        "decision_type": _whole(kinds),
        "left_child": _whole(tree.code.left),
        "right_child": _whole(tree.code.right),
    }
    if sets:
        lines["cat_boundaries"] = _whole(np.cumsum([0, *map(len, sets)]))
        lines["cat_threshold"] = _whole([word for words in sets for word in words])
    lines |= {
        "leaf_value": _numbers(tree.leaf_value + start),
        "leaf_weight": _numbers(tree.leaf_weight),
        "leaf_count": _whole(tree.leaf_count),
        "internal_value": _rounded(tree.internal_value + start),
        "internal_weight": _rounded(tree.internal_weight),
        "internal_count": _whole(tree.internal_count),
        "is_linear": "0",
        "shrinkage": "1" if start else _number(tree.shrinkage),
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def bins_in(bits: Array) -> list[int]:
    """Return the bins of a set of 256 bits, in rising order."""
    return [b for b in range(256) if (int(bits[b >> 6]) >> (b & 63)) & 1]


def _number(value: Any) -> str:
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _numbers(values: Array) -> str:
    return " ".join(map(_number, np.asarray(values, dtype=np.float64).tolist()))


def _rounded(values: Array) -> str:
    """Write numbers with six digits, as LightGBM does: a model must not change when it is read and written again."""
    return " ".join(f"{value:g}" for value in np.asarray(values, dtype=np.float64).tolist())


def _whole(values: Any) -> str:
    return " ".join(map(str, np.asarray(values, dtype=np.int64).tolist()))
