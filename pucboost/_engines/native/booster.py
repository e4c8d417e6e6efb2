"""A booster of the native engine: LightGBM's own also while it grows, and the text of its trees.

Callbacks find what they expect of an ``lgb.Booster``: LightGBM itself does whatever they call, on the text of the trees
so far. Only growing, evaluating and resetting parameters are the native engine's. Everything in the text but the trees
is written by LightGBM, too: an untrained booster with the same columns and parameters gives the lines around them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Never

import lightgbm as lgb
import numpy as np

from ..._common import Array
from ..._tables.sources import SourceTable
from ..._virtual.rare_categories import RareCategories
from ..lightgbm_boosters import with_rare, words_of
from ..lightgbm_data import columns_only
from ..names import MAIN_NAME, aliases, value_of, whole_number, with_value, without
from .bins import FeatureBins
from .grower import Grower
from .kernels.growth import Tree
from .losses import Metric, ScoredRows
from .pool import add_tree


@dataclass
class Growth:
    """What a booster needs only while it grows."""

    grower: Grower
    text: ModelText
    train: ScoredRows
    valid: Sequence[tuple[ScoredRows, str]]
    metrics: Sequence[Metric]
    response: Callable[[Array], Array]
    """From raw scores to what a user's metric sees."""
    next_round: int
    constant: Array | None = None
    """The score of a class that cannot be split in the first round, if training does not start from averages."""
    shown: Array | None = None
    """What the scores of pools leave out, for each class; metrics add it."""
    away: Array | None = None
    """How far that is from what gradients start from; None if it is the same."""


def _refused(name: str) -> Callable[..., Never]:
    def method(self: Any, *_: Any, **__: Any) -> Never:
        raise TypeError(
            f"booster.{name} during a training with 'engine': 'native', whose trees LightGBM does not hold: it would "
            "be forgotten. Call it on the booster that train returns, or use 'engine': 'lightgbm'."
        )

    return method


class GrowingBooster(lgb.Booster):
    """A booster of the native engine, as LightGBM's own, before and while it grows.

    Parameters
    ----------
    params
        LightGBM's parameters, without callables.
    table
        The table it will be trained on; only names and categories are used.
    n_classes
        Number of scores of a row.
    """

    _stale = False
    growth: Growth

    def __init__(self, params: Mapping[str, Any], table: SourceTable, n_classes: int) -> None:
        super().__init__(
            with_value(with_value(params, "verbosity", -1), "num_threads", 1), columns_only(params, table, n_classes)
        )
        self.free_dataset()
        # Quiet only as long as LightGBM looks at a table that is not the user's. LightGBM itself needs one thread, and
        # in a forked process more of them would never come.
        ours = (*aliases("verbosity"), *aliases("num_threads"))
        self.params = without(without(self.params, "verbosity"), "num_threads") | {
            name: value for name, value in params.items() if name in ours
        }

    @property
    def _handle(self) -> Any:
        """LightGBM's own booster, made of the trees so far when it is first used."""
        if self._stale:
            self._stale = False
            self.model_from_string(self.growth.text.text())
        return self.__dict__["_handle"]

    @_handle.setter
    def _handle(self, handle: Any) -> None:
        self.__dict__["_handle"] = handle

    def __del__(self) -> None:
        self._stale = False
        self.__dict__.setdefault("_handle", None)  # an interrupt may come before it is there
        super().__del__()

    def untrained_text(self) -> str:
        text = self.model_to_string()
        for name, here, default in (("verbosity", -1, 1), ("num_threads", 1, 0)):
            given = whole_number(name, value_of(self.params, name, default))
            text = text.replace(f"\n[{name}: {here}]\n", f"\n[{name}: {given}]\n")
        return text

    def update(self, train_set: Any = None, fobj: Any = None) -> bool:
        """Grow the trees of one round, and return whether none of them has a split.

        Such a round adds nothing to a model, except to an empty one.
        """
        if train_set is not None or fobj is not None:
            raise TypeError("booster.update with 'engine': 'native' takes neither data nor an objective of its own.")
        growth = self.growth
        trees = growth.grower.step(growth.next_round)
        growth.next_round += 1
        without_split = all(len(tree.feature) == 0 for tree in trees)
        if without_split and len(growth.text):
            return True
        if growth.constant is not None and not len(growth.text):
            trees = [self._with_constant(tree, k) for k, tree in enumerate(trees)]
        growth.text.append([self._with_the_rest(tree, k) for k, tree in enumerate(trees)])
        self._stale = True
        for pool in {id(rows): rows.pool for rows, _ in growth.valid}.values():  # a set may have two names
            for k, tree in enumerate(trees):
                add_tree(pool, growth.grower.layout, tree.code, tree.leaf_value, k, growth.grower.crew.size)
        return without_split

    def _with_constant(self, tree: Tree, class_index: int) -> Tree:
        """Return a tree without a split with the best constant, as LightGBM has it."""
        constant = self.growth.constant
        if constant is None or len(tree.feature):
            return tree
        self.growth.train.pool.scores[class_index] += np.float32(constant[class_index])
        return tree._replace(leaf_value=constant[[class_index]], shrinkage=1.0)

    def _with_the_rest(self, tree: Tree, class_index: int) -> Tree:
        """Return a tree that also goes its part of the way to what gradients start from, for all rows alike."""
        away, shown = self.growth.away, self.growth.shown
        if away is None or shown is None or not len(tree.feature):
            return tree
        move = -tree.shrinkage * away[class_index]
        away[class_index] += move
        shown[class_index] += move
        return tree._replace(leaf_value=tree.leaf_value + move, internal_value=tree.internal_value + move)

    def reset_parameter(self, params: dict[str, Any]) -> lgb.Booster:
        """Set the learning rate of the rounds to come; raise for any other parameter."""
        for name, value in params.items():
            if MAIN_NAME.get(name) != "learning_rate":
                raise ValueError(
                    f"{name!r} cannot change during a training with 'engine': 'native', only the learning rate can. "
                    "Use 'engine': 'lightgbm'."
                )
            if not (isinstance(value, (int, float)) and 0.0 < value < math.inf):
                raise ValueError(f"learning_rate must be a number above 0, got {value!r}.")
            self.growth.grower.learning_rate = float(value)
        self.params.update(params)
        return self

    def eval_train(self, feval: Any = None) -> list[Any]:
        """Evaluate on the training rows."""
        return self._evaluate([(self.growth.train, self._train_data_name)], feval)

    def eval_valid(self, feval: Any = None) -> list[Any]:
        """Evaluate on the validation rows."""
        return self._evaluate(self.growth.valid, feval)

    def _evaluate(self, sets: Sequence[tuple[ScoredRows, str]], feval: Any) -> list[Any]:
        functions = [one for one in (feval if isinstance(feval, list) else [feval]) if one is not None]
        metrics, response = self.growth.metrics, self.growth.response
        return [result for rows, name in sets for result in rows.evaluate(name, metrics, functions, response)]

    rollback_one_iter = _refused("rollback_one_iter")
    shuffle_models = _refused("shuffle_models")
    set_leaf_output = _refused("set_leaf_output")
    add_valid = _refused("add_valid")

    def __reduce__(self) -> Any:
        return _booster_of, (self.model_to_string(),)

    def finished(self) -> lgb.Booster:
        """Return LightGBM's own booster with all trees, which this one becomes."""
        booster: Any = self
        _ = booster._handle  # makes it of the trees so far
        for name in ("growth", "_stale"):
            booster.__dict__.pop(name, None)
        booster.__class__ = lgb.Booster
        return booster  # type: ignore[no-any-return]


def _booster_of(text: str) -> lgb.Booster:
    return lgb.Booster(model_str=text)


# ----- native trees as LightGBM's model text

MISSING_TYPES = {"none": 0, "zero": 1, "nan": 2}
"""LightGBM's numbers of the ways to read missing values."""

_CATEGORICAL, _DEFAULT_LEFT, _MISSING_TYPE = 1, 2, 2
"""Bits of a decision type, and where the missing type begins."""

_NONE_RARE = RareCategories({})

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
    splits = [bins[feature] for feature in tree.feature.tolist()]
    words_at = _sets_of_categories(tree, bins, rare)
    sets: list[list[int]] = []
    thresholds: list[str] = []
    kinds: list[int] = []
    for node, split in enumerate(splits):
        kind = MISSING_TYPES[split.missing_type] << _MISSING_TYPE
        if split.categories is not None:
            thresholds.append(str(len(sets)))
            sets.append(words_at[node])
            kind |= _CATEGORICAL
        else:
            last = int(tree.bin[node])
            threshold = split.upper[last] if last < len(split.upper) else math.inf  # only missing values go right
            thresholds.append(_number(threshold))
            # A column without missing values reads NaN as 0. Converters look at where missing values go, all the same.
            left = threshold >= 0 if split.missing_type == "none" else tree.default_left[node]
            kind |= _DEFAULT_LEFT if left else 0
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


_SMALL_CATEGORY = 1 << 12
"""Up to here, the sets of all nodes that split on a column are written together, as a matrix of bits."""


def _sets_of_categories(tree: Tree, bins: Sequence[FeatureBins], rare: RareCategories) -> dict[int, list[int]]:
    """Return the categories that go left at each node that splits on some, as LightGBM's words."""
    found: dict[int, list[int]] = {}
    for feature in np.unique(tree.feature).tolist():
        categories = bins[feature].categories
        if categories is None:
            continue
        nodes = np.flatnonzero(tree.feature == feature)
        chosen = _members(tree.left_set[nodes])[:, : len(categories)]
        if feature in rare.columns or categories.max() > _SMALL_CATEGORY:
            for node, row in zip(nodes.tolist(), chosen, strict=True):
                found[node] = words_of(with_rare(categories[row], feature, rare))
            continue
        bits = np.zeros((len(nodes), 32 * (int(categories.max()) // 32 + 1)), dtype=np.bool_)
        bits[:, categories] = chosen
        words = np.packbits(bits, axis=1, bitorder="little").view("<u4")
        lengths = words.shape[1] - (words[:, ::-1] != 0).argmax(axis=1)
        for node, row, length in zip(nodes.tolist(), words.tolist(), lengths.tolist(), strict=True):
            found[node] = row[:length]
    return found


def _members(sets: Array) -> Array:
    """Return which of 256 bins are in each of some sets, (n, 4) words of 64 bits."""
    octets = np.ascontiguousarray(sets, dtype="<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little").view(np.bool_)


def _number(value: Any) -> str:
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _numbers(values: Array) -> str:
    return _listed(np.asarray(values, dtype=np.float64))


def _rounded(values: Array) -> str:
    """Write numbers with six digits, as LightGBM does: a model must not change when it is read and written again."""
    given = np.asarray(values, dtype=np.float64).tolist()
    return ("%g " * len(given))[:-1] % tuple(given)


def _whole(values: Any) -> str:
    return _listed(np.asarray(values, dtype=np.int64))


def _listed(values: Array) -> str:
    """Return the numbers with all their digits: one call for a list takes a fraction of the time of one for each."""
    return repr(values.tolist())[1:-1].replace(",", "")
